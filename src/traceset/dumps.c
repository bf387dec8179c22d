/* SPDX-License-Identifier: MIT */
/*
 * A folder of dumps: one file of packets for each CPU or thread, with its number in the file's
 * name, and nothing that describes them. FreeBSD's `hwt -r -w trace.out` writes trace.out0,
 * trace.out1 and so on; users of HyperDbg save the mapped buffer of each core themselves.
 */
#include "traceset/foreign.h"

#include "base/compiler.h"
#include "base/order.h"
#include "perfdata/message.h"
#include "support/list.h"
#include "traceset/set.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* How much of a file is searched for a PSB. With the longest period there is one every 128 MB, but
 * a trace begins with one, unless its buffer has wrapped. */
#define SEARCHED ((size_t)1 << 16)

#define FILES_MAX 65536 /* more than any machine has CPUs */

struct dump {
	char *name;
	size_t stem; /* characters of the name before the number */
	const char *suffix;
	unsigned long number;
	bool has_psb;
};

struct listing {
	struct dump *dumps;
	size_t count, capacity;
};

/* Splits NAME into a stem, a number and a suffix. Other names are not those of dumps. */
static bool split(struct dump *d)
{
	static const char *const suffixes[] = {"", ".pt", ".ipt", ".bin", ".raw", ".dump"};
	const size_t length = strlen(d->name);

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		const size_t n = strlen(suffixes[i]);
		size_t end, begin;

		if (n > length || strcmp(d->name + length - n, suffixes[i]) != 0)
			continue;
		end = begin = length - n;
		while (begin && isdigit((unsigned char)d->name[begin - 1]))
			begin--;
		if (begin == end || end - begin > 9)
			continue;
		d->stem = begin;
		d->suffix = suffixes[i];
		d->number = strtoul(d->name + begin, NULL, 10);
		return true;
	}
	return false;
}

static bool has_psb(int folder, const char *name)
{
	static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
					2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t *bytes = fd < 0 ? NULL : malloc(SEARCHED);
	struct stat st;
	bool found = false;

	if (bytes && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
		ssize_t n = pread(fd, bytes, SEARCHED, 0);

		found = n > 0 && memmem(bytes, (size_t)n, psb, sizeof(psb));
	}
	free(bytes);
	if (fd >= 0)
		close(fd);
	return found;
}

static void forget(struct listing *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->dumps[i].name);
	free(l->dumps);
}

static bool same_group(const struct dump *a, const struct dump *b)
{
	return a->stem == b->stem && !strncmp(a->name, b->name, a->stem) &&
	       !strcmp(a->suffix, b->suffix);
}

static int compare(const void *x, const void *y)
{
	const struct dump *a = x, *b = y;
	const size_t stem = a->stem < b->stem ? a->stem : b->stem;
	int order = strncmp(a->name, b->name, stem);

	if (!order && a->stem != b->stem)
		order = a->stem < b->stem ? -1 : 1;
	if (!order)
		order = strcmp(a->suffix, b->suffix);
	if (!order)
		order = COMPARE(a->number, b->number);
	return order ? order : strcmp(a->name, b->name);
}

/* Lists the files whose names are those of dumps. 0, PTAH_E_NOMEM, PTAH_E_SYSTEM, PTAH_E_LIMIT. */
static int list(const char *path, struct listing *l)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int status = folder ? 0 : PTAH_E_SYSTEM;

	while (!status && (entry = readdir(folder))) {
		struct dump d = {.name = entry->d_name};

		if (*d.name == '.' || !split(&d))
			continue;
		if (l->count == FILES_MAX) {
			status = PTAH_E_LIMIT;
			break;
		}
		if (!LIST_ROOM(l->dumps, l->count, l->capacity)) {
			status = PTAH_E_NOMEM;
			break;
		}
		d.name = strdup(entry->d_name);
		if (!d.name) {
			status = PTAH_E_NOMEM;
			break;
		}
		d.has_psb = has_psb(dirfd(folder), d.name);
		l->dumps[l->count++] = d;
	}
	if (folder)
		closedir(folder);
	if (l->count)
		qsort(l->dumps, l->count, sizeof(*l->dumps), compare);
	return status;
}

/* The first group from *from on in which a file has a PSB; *from becomes its end. NULL: none. */
static const struct dump *next_group(const struct listing *l, size_t *from)
{
	size_t i = *from;

	while (i < l->count) {
		const struct dump *first = &l->dumps[i];
		bool found = false;

		for (; i < l->count && same_group(first, &l->dumps[i]); i++)
			found = found || l->dumps[i].has_psb;
		*from = i;
		if (found)
			return first;
	}
	return NULL;
}

static bool is_dumps(const char *path)
{
	struct listing l = {0};
	size_t from = 0;
	char data[4096];
	bool found;

	/* perf record --threads writes data, data.0, data.1: trace with records around it. */
	if (snprintf(data, sizeof(data), "%s/data", path) >= (int)sizeof(data) ||
	    !access(data, F_OK))
		return false;
	found = list(path, &l) >= 0 && next_group(&l, &from);
	forget(&l);
	return found;
}

/* Does the stem have this word at its end, apart from "-", "_" and "."? */
static bool ends_with(const struct dump *d, const char *word)
{
	size_t n = d->stem, length = strlen(word);

	while (n && strchr("-_.", d->name[n - 1]))
		n--;
	return n >= length && !strncasecmp(d->name + n - length, word, length);
}

enum kind {
	BY_NAME,
	THREADS, /* hwt's numbers of threads, which begin with 0 */
	PROCESSORS
};

static int add_dump_file(struct ptah_trace_set *set, const struct dump *d, enum kind kind)
{
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file.path = d->name, .cpu = -1, .pid = -1, .tid = -1};

	if (kind == THREADS)
		stream.tid = (int32_t)d->number + 1;
	else if (kind == PROCESSORS || ends_with(d, "cpu") || ends_with(d, "core"))
		stream.cpu = (int32_t)d->number;
	else if (ends_with(d, "thread") || ends_with(d, "thr") || ends_with(d, "tid"))
		stream.tid = d->number ? (int32_t)d->number : -1;
	return ptah_trace_set_add_stream(set, &stream);
}

/* So many files that are not used are named. */
#define NAMED 4

/* Whether it is a file, and none of the group's. */
static bool is_unused(int folder, const char *name, const struct dump *group)
{
	struct dump d = {.name = (char *)(uintptr_t)name};
	struct stat st;

	return *name != '.' && !(split(&d) && same_group(&d, group)) &&
	       !fstatat(folder, name, &st, 0) && S_ISREG(st.st_mode);
}

/*
 * Notes which files of the folder are not used: records of a kernel, binaries, dumps without a PSB
 * or of another name. Their names do not say enough.
 */
static int note_unused(const char *path, struct ptah_trace_set *set, const struct dump *group)
{
	struct dirent **entries = NULL;
	const int n = scandir(path, &entries, NULL, alphasort);
	const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[NAMED * 80 + 256] = "not used: ", more[48] = "";
	size_t unused = 0, used = strlen(text);
	int status = 0;

	for (int i = 0; i < n; i++) {
		if (folder >= 0 && is_unused(folder, entries[i]->d_name, group) && unused++ < NAMED)
			used += (size_t)snprintf(text + used, 80, "%s%.76s", unused > 1 ? ", " : "",
						 entries[i]->d_name);
		free(entries[i]);
	}
	if (unused > NAMED)
		snprintf(more, sizeof(more), " and %zu more", unused - NAMED);
	snprintf(text + used, sizeof(text) - used,
		 "%s: a folder of packets alone does not say what they are; a file ptah.trace "
		 "does (ptah-trace(5)), or name them with --raw, --elf and --pages",
		 more);
	if (unused)
		status = trace_set_note(set, text);
	free(entries);
	if (folder >= 0)
		close(folder);
	return status;
}

/* Adds the streams of the only group of dumps. `unused`: notes which other files there are. */
static int add_group(const char *path, struct ptah_trace_set *set, enum kind kind, bool unused,
		     struct ptah_message *why)
{
	struct listing l = {0};
	const struct dump *group, *other;
	size_t end = 0, last;
	int status = list(path, &l);

	group = status < 0 ? NULL : next_group(&l, &end);
	last = end;
	other = group ? next_group(&l, &end) : NULL;
	if (status == PTAH_E_SYSTEM)
		status = perfdata_system_message(why, errno, path, "read the folder");
	else if (!status && !group)
		status = perfdata_message(why, PTAH_E_EMPTY, "%s: no dumps of packets", path);
	else if (other)
		status = perfdata_message(
		    why, PTAH_E_FOREIGN,
		    "%s: dumps of more than one trace, %s and %s among them: move one of them to "
		    "another folder, or name the files of one with --pt",
		    path, group->name, other->name);
	for (const struct dump *d = group; status >= 0 && d < l.dumps + last; d++)
		status = add_dump_file(set, d, kind);
	if (status >= 0 && unused)
		status = note_unused(path, set, group);
	forget(&l);
	return status;
}

int dumps_add_streams(const char *path, struct ptah_trace_set *set, bool of_threads,
		      struct ptah_message *why)
{
	return add_group(path, set, of_threads ? THREADS : PROCESSORS, false, why);
}

static int read_dumps(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	int status = trace_set_note(
	    set, "a folder of packets alone: it does not say which code was executed, or "
		 "on which processor (--elf, --raw, --processor, or a file ptah.trace)");

	return status < 0 ? status : add_group(path, set, BY_NAME, true, why);
}

const struct foreign_reader foreign_dumps = {"folder of dumps", is_dumps, read_dumps};
