/* SPDX-License-Identifier: MIT */
/*
 * What is mapped in a process, and which part of it the recording has: which file each piece of
 * code comes from, which bytes are in no file, and which have changed.
 *
 * Each run of instructions is compared with the shadow (code_shadow.h) when it is first met, and
 * again when its bytes differ from those it had last time.
 */
#include "record/ptrace/tracer.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_MAPS    65536
#define MAX_MESSAGE 8192

/* Maps */

static void free_maps(struct code_map *maps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(maps[i].path);
	free(maps);
}

/* Parses a line of /proc/PID/maps. False: the mapping is not executable. */
static bool parse_map(char *line, struct code_map *map)
{
	const char *name = code_map_parse(line, map);

	if (!name || !(map->prot & PROT_EXEC))
		return false;
	if (code_map_leads_to(name, map->inode) || !strcmp(name, "[vdso]"))
		map->path = strdup(name);
	return true;
}

/* Whether b is a, or what is left of it after a part was unmapped or got other rights. */
static bool is_part(const struct code_map *a, const struct code_map *b)
{
	if (!a->path || !b->path)
		return !a->path == !b->path && a->start == b->start && a->end == b->end;
	return a->start <= b->start && b->end <= a->end &&
	       a->offset + (b->start - a->start) == b->offset && a->prot == b->prot &&
	       !strcmp(a->path, b->path);
}

static void note_filters(struct process *p, const struct code_map *map)
{
	const struct ptah_record_config *config = p->r->config;

	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *f = &config->filters[i];
		uint64_t first, last;

		if (!f->path || strcmp(f->path, map->path) ||
		    !trace_output_filter_shown(f->start, f->size, map->start, map->end, map->offset,
					       &first, &last))
			continue;
		p->ranges[i].first = first;
		p->ranges[i].last = last;
		p->ranges_known++;
	}
}

/*
 * A filter on a file begins as a range without code, so that nothing is traced before the file is
 * mapped.
 */
void maps_init_ranges(struct process *p)
{
	const struct ptah_record_config *config = p->r->config;

	memset(p->ranges, 0, sizeof(p->ranges));
	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *f = &config->filters[i];

		p->ranges[i].mode = (uint8_t)f->mode;
		if (f->path)
			continue;
		p->ranges[i].first = f->start;
		p->ranges[i].last = trace_output_filter_last(f->start, f->size);
	}
	p->ranges_known++;
}

/* Remembers that decoders know code at [start, end). */
static void keep_told(struct process *p, uint64_t start, uint64_t end)
{
	if (LIST_ROOM(p->told, p->told_count, p->told_capacity))
		p->told[p->told_count++] = (struct code_map){.start = start, .end = end};
}

static bool was_told(const struct process *p, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < p->told_count; i++)
		if (p->told[i].start < end && start < p->told[i].end)
			return true;
	return false;
}

/* Prepares a mapping that did not exist before. */
static void add_map(struct process *p, struct code_map *map, uint64_t time)
{
	code_shadow_drop(&p->shadow, map->start, map->end);
	if (was_told(p, map->start, map->end))
		map->change = p->changed = time;
	if (map->path)
		note_filters(p, map);
}

/*
 * Reports the mapping; called when code in it runs for the first time. If its file was deleted or
 * replaced since it was mapped, its code counts as in no file.
 */
static void report_map(struct process *p, struct code_map *map)
{
	struct tracer_message message = {.type = TRACER_MAP, .pid = p->pid, .tid = p->pid};
	uint8_t payload[MAX_MESSAGE];

	map->told = true;
	code_map_check_path(map);
	message.size = (uint32_t)code_map_pack(map, payload, sizeof(payload));
	if (!message.size)
		return;
	/*
	 * What replaces nothing is there from the beginning, as the code is that was recorded
	 * because it is in no file ([vdso]): a later mapping would remove that.
	 */
	message.tsc = p->born;
	if (was_told(p, map->start, map->end))
		map->change = p->changed = message.tsc = tracer_change_time(p->r);
	tracer_send(p->r, &message, payload);
	keep_told(p, map->start, map->end);
}

/* Copies what is already known of the mapping. False: it is new. */
static bool keep_known(const struct process *p, struct code_map *map)
{
	for (size_t i = 0; i < p->map_count; i++) {
		if (is_part(&p->maps[i], map)) {
			map->change = p->maps[i].change;
			map->told = p->maps[i].told;
			return true;
		}
	}
	return false;
}

bool maps_refresh(struct process *p)
{
	struct code_map *maps = NULL;
	size_t count = 0, capacity = 0, n = 0;
	uint64_t time = 0;
	char path[64], *line = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid);
	file = fopen(path, "re");
	p->stale = false;
	if (!file)
		return false;
	while (getline(&line, &n, file) > 0) {
		if (count == MAX_MAPS || !LIST_ROOM(maps, count, capacity))
			break;
		if (parse_map(line, &maps[count]))
			count++;
	}
	for (size_t i = 0; i < count; i++) {
		if (keep_known(p, &maps[i]))
			continue;
		if (!time)
			time = tracer_change_time(p->r);
		add_map(p, &maps[i], time);
	}
	free(line);
	fclose(file);
	free_maps(p->maps, p->map_count);
	p->maps = maps;
	p->map_count = count;
	return time != 0;
}

struct code_map *maps_find(struct process *p, uint64_t address)
{
	for (size_t i = 0; i < p->map_count; i++)
		if (address >= p->maps[i].start && address < p->maps[i].end)
			return &p->maps[i];
	return &p->nowhere;
}

void maps_account_for(struct process *p, uint64_t ip, const uint8_t *bytes, size_t n)
{
	struct code_map *map = maps_find(p, ip);
	struct tracer_message message = {
	    .type = TRACER_CODE, .pid = p->pid, .size = (uint32_t)n, .address = ip, .tsc = p->born};
	struct code_difference c;

	if (!map->told)
		report_map(p, map);
	c = code_shadow_compare(&p->shadow, ip, bytes, n, map);
	if (!c.fresh && !c.changed)
		return;
	if (c.changed)
		c.change = p->changed = tracer_change_time(p->r);
	if (c.change)
		message.tsc = c.change;
	tracer_send(p->r, &message, bytes);
	code_shadow_keep(&p->shadow, ip, bytes, n, map, c.changed ? c.change : 0);
	keep_told(p, ip, ip + n);
}

/* Processes that begin, replace themselves and end */

void maps_forget(struct process *p)
{
	code_shadow_clear(&p->shadow);
	free_maps(p->maps, p->map_count);
	free(p->told);
	p->maps = p->told = NULL;
	p->map_count = p->told_count = p->told_capacity = 0;
	p->stale = true;
}

void maps_copy(struct process *to, const struct process *from)
{
	for (size_t i = 0; i < from->told_count; i++)
		keep_told(to, from->told[i].start, from->told[i].end);
	to->maps = calloc(from->map_count + 1, sizeof(*to->maps));
	for (size_t i = 0; to->maps && i < from->map_count; i++) {
		to->maps[i] = from->maps[i];
		to->maps[i].path = from->maps[i].path ? strdup(from->maps[i].path) : NULL;
		to->map_count = i + 1;
	}
	code_shadow_copy(&to->shadow, &from->shadow);
	memcpy(to->ranges, from->ranges, sizeof(to->ranges));
	to->ranges_known = from->ranges_known;
	to->stale = true;
}
