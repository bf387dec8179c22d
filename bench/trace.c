/* SPDX-License-Identifier: MIT */
/*
 * Loads a trace and the code that ran, from a perf.data file or from raw
 * packets with a page dump.
 */
#include "bench.h"

#include <ptah/ptah.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes;
	long n;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0)
		bench_die(path, "cannot be read");
	rewind(f);
	bytes = malloc((size_t)n + 1);
	if (!bytes || fread(bytes, 1, (size_t)n, f) != (size_t)n)
		bench_die(path, "cannot be read");
	fclose(f);
	*size = (size_t)n;
	return bytes;
}

void bench_add_section(struct bench_trace *trace, const struct bench_section *section, uint64_t cr3)
{
	const struct ptah_space space = {cr3, PTAH_SPACE_ANY};
	struct bench_section *s;

	trace->sections =
	    realloc(trace->sections, (trace->section_count + 1) * sizeof(*trace->sections));
	if (!trace->sections)
		bench_die(trace->label, "out of memory");
	s = &trace->sections[trace->section_count++];
	*s = *section;
	s->path = strdup(section->path);
	s->cr3 = cr3;
	if (!s->path ||
	    ptah_image_add_file(trace->image, s->path, s->offset, s->size, s->address, &space) < 0)
		bench_die(section->path, "cannot be added to the image");
}

static void add_section(struct bench_trace *trace, const char *path, uint64_t offset, uint64_t size,
			uint64_t address)
{
	const struct bench_section section = {
	    .path = (char *)(uintptr_t)path, .offset = offset, .size = size, .address = address};

	bench_add_section(trace, &section, PTAH_SPACE_ANY);
}

static bool is_mapped(const struct bench_trace *trace, uint64_t ip)
{
	for (size_t i = trace->section_count; i-- > 0;)
		if (ip - trace->sections[i].address < trace->sections[i].size)
			return true;
	return false;
}

/*
 * A file with the code of the vDSO, which is in none: recordings are made on the machine on which
 * they are measured, so that it is this process's own.
 */
static const char *vdso_file(const struct bench_trace *trace, uint64_t size)
{
	static const char path[] = "vdso";
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	FILE *f = vdso ? fopen(path, "w") : NULL;

	if (!f || fwrite(vdso, 1, size, f) != size || fclose(f))
		bench_die(trace->label, "the code of the vDSO cannot be written to a file");
	return path;
}

/* Adds the mapping of an address, if its code is known. */
static void add_map(struct bench_trace *trace, const struct ptah_map *map)
{
	if (!strcmp(map->path, "[vdso]"))
		add_section(trace, vdso_file(trace, map->size), 0, map->size, map->address);
	else if (map->path[0] == '/' && map->path[1] != '/')
		add_section(trace, map->path, map->file_offset, map->size, map->address);
}

/* Collects the mappings whose code ran. */
static void find_sections(struct bench_trace *trace, const struct ptah_session *session,
			  size_t index, int32_t pid)
{
	struct ptah_reader *stream;
	struct ptah_item items[256];
	struct ptah_map map;
	uint64_t page = 1;
	int n;

	if (ptah_reader_new(session, index, NULL, &stream) < 0)
		bench_die(trace->label, "cannot be decoded");
	while ((n = ptah_reader_read(stream, items, 256)) > 0) {
		for (int i = 0; i < n; i++) {
			uint64_t ip = items[i].ip;

			/* Most blocks are in the same mapping as the one before. */
			if (items[i].type != PTAH_ITEM_BLOCK || ip >> 12 == page)
				continue;
			page = ip >> 12;
			if (!is_mapped(trace, ip) &&
			    ptah_session_find_map(session, pid, ip, items[i].tsc, &map))
				add_map(trace, &map);
		}
	}
	ptah_reader_free(stream);
}

static void load_stream(struct bench_trace *trace, const struct ptah_session *session, size_t index,
			uint64_t size)
{
	const uint8_t *piece;
	size_t n;

	trace->bytes = malloc(size + 1);
	if (!trace->bytes)
		bench_die(trace->label, "out of memory");
	while ((n = ptah_session_stream_bytes(session, index, trace->size, &piece)) > 0 &&
	       n <= size - trace->size) {
		memcpy(trace->bytes + trace->size, piece, n);
		trace->size += n;
	}
}

void bench_load_session(struct bench_trace *trace, const char *label, const char *path)
{
	struct ptah_session *session;
	struct ptah_stream_info info, best = {.bytes = 0};
	struct ptah_message why;
	size_t index = 0;

	memset(trace, 0, sizeof(*trace));
	trace->label = label;
	if (ptah_session_open(path, NULL, &session, &why) < 0)
		bench_die(path, why.text);
	for (size_t i = 0; i < ptah_session_streams(session); i++) {
		if (ptah_session_stream_info(session, i, &info) < 0 || info.bytes <= best.bytes)
			continue;
		best = info;
		index = i;
	}
	if (ptah_image_new(&trace->image) < 0)
		bench_die(label, "out of memory");
	load_stream(trace, session, index, best.bytes);
	find_sections(trace, session, index, best.pid);
	ptah_session_get_flow(session, &trace->flow);
	ptah_session_close(session);
}

void bench_load_pages(struct bench_trace *trace, const char *label, const char *pt,
		      const char *prefix)
{
	char path[4096];
	uint8_t *list;
	size_t size;

	memset(trace, 0, sizeof(*trace));
	trace->label = label;
	if (ptah_image_new(&trace->image) < 0)
		bench_die(label, "out of memory");
	trace->bytes = read_file(pt, &trace->size);
	snprintf(path, sizeof(path), "%s.addr", prefix);
	list = read_file(path, &size);
	snprintf(path, sizeof(path), "%s.dump", prefix);
	for (size_t i = 0, n; i < size / 8; i += n) {
		uint64_t address, next;

		/* Contiguous pages become one section. */
		memcpy(&address, list + 8 * i, sizeof(address));
		for (n = 1; i + n < size / 8; n++) {
			memcpy(&next, list + 8 * (i + n), sizeof(next));
			if (next != address + 4096 * n)
				break;
		}
		add_section(trace, path, 4096 * i, 4096 * n, address);
	}
	free(list);
}

void bench_trace_free(struct bench_trace *trace)
{
	for (size_t i = 0; i < trace->section_count; i++)
		free(trace->sections[i].path);
	free(trace->sections);
	free(trace->bytes);
	ptah_image_free(trace->image);
}
