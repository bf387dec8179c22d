/* SPDX-License-Identifier: MIT */
/* Reads the numbers and formats of tracepoints (tracefs.h). */
#include "record/perf_event/tracefs.h"

#include "base/compiler.h"
#include "perfdata/tracing_data.h"
#include "record/perf_event/pmu.h"
#include "record/recorder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel prints a format into at most so many bytes, and most into less than one page. */
#define FORMAT_MAX	 65536
#define NAME_MAX_TRACEFS 200

static const char *const tracefs_folders[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

static bool is_name(const char *text, size_t n)
{
	return n && n <= NAME_MAX_TRACEFS &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") >=
		   n;
}

/* "/sys/kernel/tracing/events/GROUP/NAME/FILE" */
static void name_event_file(size_t folder, const char *name, const char *file, char *path,
			    size_t size)
{
	const int group = (int)strcspn(name, ":");

	snprintf(path, size, "%s/events/%.*s/%s/%s", tracefs_folders[folder], group, name,
		 name + group + 1, file);
}

/* Whether this user may look into tracefs, or there is none. */
static bool is_hidden(const char *root)
{
	char path[512];

	for (size_t i = 0; i < ARRAY_SIZE(tracefs_folders); i++) {
		DIR *folder;

		snprintf(path, sizeof(path), "%s%s/events", root, tracefs_folders[i]);
		folder = opendir(path);
		if (!folder)
			continue;
		closedir(folder);
		return false;
	}
	return true;
}

enum ptah_record_problem tracefs_find(const char *root, const char *name, uint64_t *id,
				      struct ptah_message *why)
{
	const char *colon = name ? strchr(name, ':') : NULL;

	if (!colon || !is_name(name, (size_t)(colon - name)) ||
	    !is_name(colon + 1, strlen(colon + 1)))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "%s is no tracepoint GROUP:NAME", name ? name : "");
	for (size_t i = 0; i < ARRAY_SIZE(tracefs_folders); i++) {
		char path[512], text[64], *end;

		name_event_file(i, name, "id", path, sizeof(path));
		if (!pmu_read_file(root, path, text, sizeof(text)))
			continue;
		*id = strtoull(text, &end, 10);
		if (end != text && !*end)
			return PTAH_RECORD_FINE;
	}
	if (is_hidden(root))
		return recorder_refuse(
		    why, PTAH_RECORD_PERMISSION,
		    "the tracepoint %s cannot be looked up: this user may not read "
		    "/sys/kernel/tracing, which root may (or it is not mounted: "
		    "mount -t tracefs tracefs /sys/kernel/tracing)",
		    name);
	return recorder_refuse(
	    why, PTAH_RECORD_NO_TARGET,
	    "the kernel has no tracepoint %s: /sys/kernel/tracing/available_events "
	    "lists those that it has",
	    name);
}

/* A whole format, which the caller frees. NULL: it cannot be read. */
static char *read_format_file(const char *root, const char *name)
{
	char *text = malloc(FORMAT_MAX), path[512];

	for (size_t i = 0; text && i < ARRAY_SIZE(tracefs_folders); i++) {
		name_event_file(i, name, "format", path, sizeof(path));
		if (pmu_read_file(root, path, text, FORMAT_MAX - 1)) {
			memcpy(text + strlen(text), "\n", 2); /* that of the last line */
			return text;
		}
	}
	free(text);
	return NULL;
}

static bool is_repeated(const char *const *names, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(names[k], names[i]))
			return true;
	return false;
}

static int compare_systems(const void *a, const void *b)
{
	const struct tracing_text *x = a, *y = b;

	return strcmp(x->system, y->system);
}

void tracefs_put_formats(const char *root, const char *const *names, size_t count,
			 struct perfdata_buffer *b)
{
	struct tracing_text *texts = calloc(count ? count : 1, sizeof(*texts));
	size_t n = 0;

	b->failed |= !texts;
	for (size_t i = 0; texts && i < count; i++) {
		char *text = is_repeated(names, i) ? NULL : read_format_file(root, names[i]);

		if (!text)
			continue;
		texts[n] = (struct tracing_text){strndup(names[i], strcspn(names[i], ":")), text,
						 strlen(text)};
		b->failed |= !texts[n++].system;
	}
	if (!b->failed) {
		qsort(texts, n, sizeof(*texts), compare_systems);
		tracing_put_formats(b, texts, n);
	}
	for (size_t i = 0; i < n; i++) {
		free((char *)(uintptr_t)texts[i].system);
		free((char *)(uintptr_t)texts[i].text);
	}
	free(texts);
}
