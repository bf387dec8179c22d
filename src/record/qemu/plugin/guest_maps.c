/* SPDX-License-Identifier: MIT */
/*
 * What is mapped in the guest program, and which part of it the recording has: which file each
 * piece of code comes from, which bytes are in no file, and which have changed.
 *
 * Each translated block is compared with the shadow (code_shadow.h). A change of bytes gets a time
 * of its own (see plugin_change_time).
 */
#include "record/qemu/plugin/plugin.h"
#include "record/simulated/code_shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PAGE	UINT64_C(4096)
#define BUCKETS 65536

struct guest_map {
	/* In guest addresses; it is reported when its first code is translated. */
	struct code_map code;
	uint64_t time; /* when it was mapped; 0: before any thread ran */
	bool live;     /* false: it has been unmapped */
};

/* All of these are protected by plugin_code_lock(). */
static struct guest_map *maps;
static size_t map_count, map_capacity;
static struct code_shadow shadow = {.buckets = BUCKETS};

/* Memory that is as it was when the process began (change 0) is reported with that time. */
static uint64_t time_of_report(uint64_t change)
{
	return change > plugin.birth ? change : plugin.birth;
}

/* Maps */

static struct guest_map *keep_map(const struct guest_map *map)
{
	if (map_count == map_capacity) {
		size_t capacity = map_capacity ? 2 * map_capacity : 64;
		struct guest_map *more = realloc(maps, capacity * sizeof(*maps));

		if (!more)
			return NULL;
		maps = more;
		map_capacity = capacity;
	}
	maps[map_count] = *map;
	return &maps[map_count++];
}

/* Keeps [start, end) of a mapping that is about to be forgotten. */
static void keep_part(const struct guest_map *map, uint64_t start, uint64_t end)
{
	struct guest_map part = *map;

	if (start >= end)
		return;
	part.code.offset += start - part.code.start;
	part.code.start = start;
	part.code.end = end;
	part.code.path = map->code.path ? strdup(map->code.path) : NULL;
	if (!keep_map(&part))
		free(part.code.path);
}

void plugin_forget_maps(uint64_t address, uint64_t size)
{
	const uint64_t end = address + ((size + PAGE - 1) & ~(PAGE - 1));

	plugin_code_lock();
	plugin_drop_alias(address, end);
	for (size_t i = 0, n = map_count; i < n; i++) {
		const struct guest_map map = maps[i];

		if (!map.live || map.code.start >= end || address >= map.code.end)
			continue;
		maps[i].live = false;
		keep_part(&map, map.code.start, address);
		keep_part(&map, end, map.code.end);
	}
	plugin_code_unlock(false);
}

static struct guest_map *find_map(uint64_t address)
{
	for (size_t i = map_count; i-- > 0;)
		if (maps[i].live && address >= maps[i].code.start && address < maps[i].code.end)
			return &maps[i];
	return NULL;
}

/* Whether a line of /proc/self/maps continues the mapping of the line before it. */
static bool continues(const struct code_map *before, const struct code_map *line)
{
	return before->inode && before->inode == line->inode && before->flags == line->flags &&
	       before->end == line->start &&
	       before->offset + (before->end - before->start) == line->offset;
}

/*
 * Reads what /proc/self/maps has around a host address: the lines of one file that follow each
 * other, because QEMU protects pages one by one. False: nothing is mapped there, and *map is
 * unchanged.
 */
static bool read_map(uint64_t host, struct guest_map *map)
{
	FILE *file = fopen("/proc/self/maps", "re");
	struct code_map code = {0}, next;
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (file && getline(&line, &size, file) > 0) {
		const char *name = code_map_parse(line, &next);

		if (name && continues(&code, &next)) {
			code.end = next.end;
		} else if (found || (name && next.start > host)) {
			break;
		} else if (name) {
			free(code.path);
			code = next;
			code.path = code_map_leads_to(name, next.inode) ? strdup(name) : NULL;
		}
		found = found || (host >= code.start && host < code.end);
	}
	free(line);
	if (file)
		fclose(file);
	if (!found) {
		free(code.path);
		return false;
	}
	code.start -= plugin.guest_base;
	code.end -= plugin.guest_base;
	code.prot |= PROT_EXEC; /* QEMU itself need not execute it */
	*map = (struct guest_map){.code = code, .live = true};
	return true;
}

/*
 * Reports a mapping, the first time that its code is translated. If its file has been deleted by
 * then, its code counts as in no file.
 */
static void report_map(struct guest_map *map)
{
	struct shared_message message = {
	    .type = MESSAGE_MAP,
	    .pid = getpid(),
	    .tsc = time_of_report(map->time),
	};
	uint8_t payload[SHARED_MESSAGE_MAX];

	if (map->code.told)
		return;
	map->code.told = true;
	code_map_check_path(&map->code);
	message.bytes = (uint32_t)code_map_pack(&map->code, payload, sizeof(payload));
	if (message.bytes)
		plugin_send(&message, payload);
}

/* Adds a mapping that was made at `time`. Takes over map->code.path. NULL: out of memory. */
static struct guest_map *add_map(struct guest_map *fresh, uint64_t time)
{
	struct guest_map *map;
	bool again = false;

	for (size_t i = map_count; i-- > 0;) {
		struct guest_map *old = &maps[i];

		if (old->live || old->code.start >= fresh->code.end ||
		    fresh->code.start >= old->code.end)
			continue;
		again = true;
		if (fresh->code.start <= old->code.start &&
		    old->code.end <= fresh->code.end) { /* the old one is covered completely */
			free(old->code.path);
			*old = maps[--map_count];
		}
	}
	if (again && fresh->code.path) {
		if (!time)
			time = plugin_change_time();
		fresh->code.change = time;
	}
	fresh->time = time;
	if (fresh->code.path)
		plugin_output_map(fresh->code.path, fresh->code.start, fresh->code.end,
				  fresh->code.offset);
	map = keep_map(fresh);
	if (!map)
		free(fresh->code.path);
	return map;
}

/* The mapping around a block, reported already. NULL: none. */
static struct guest_map *require_map(uint64_t address)
{
	struct guest_map *map = find_map(address);
	struct guest_map fresh = {0};

	if (!map && read_map(address + plugin.guest_base, &fresh)) {
		code_map_narrow(&fresh.code, address);
		map = add_map(&fresh, 0);
	}
	if (map)
		report_map(map);
	return map;
}

/* The program has mapped it just now. Takes over fresh->code.path. */
static void add_fresh(struct guest_map *fresh)
{
	const uint64_t time = plugin_change_time();

	if (add_map(fresh, time))
		atomic_store_explicit(&plugin.map_time, time, memory_order_release);
}

/*
 * Adds what is mapped of a file in [address, end), from `address` on. Returns the end of the
 * mapping; 0: nothing is mapped there.
 */
static uint64_t add_mapped(uint64_t address, uint64_t end, uint32_t prot)
{
	struct guest_map fresh = {0};

	if (find_map(address) || !read_map(address + plugin.guest_base, &fresh) ||
	    !fresh.code.path) {
		free(fresh.code.path);
		return fresh.code.end;
	}
	/* /proc/self/maps may have joined it with its neighbours, which QEMU maps in the same way.
	 */
	fresh.code.offset += address - fresh.code.start;
	fresh.code.start = address;
	if (end < fresh.code.end)
		fresh.code.end = end;
	fresh.code.prot = prot;
	end = fresh.code.end;
	add_fresh(&fresh);
	return end;
}

static uint64_t end_of(const struct shared_mapping *m)
{
	return m->address + ((m->size + PAGE - 1) & ~(PAGE - 1));
}

/*
 * What mmap() has mapped: its descriptor is open still, so that the list of all mappings, which may
 * be long, need not be read. False: its path does not lead to the file.
 */
static bool describe_map(const struct shared_mapping *m, struct guest_map *map)
{
	char link[32], path[SHARED_PATH];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", m->fd);
	n = readlink(link, path, sizeof(path));
	if (n <= 0 || (size_t)n == sizeof(path) || fstat(m->fd, &st))
		return false;
	path[n] = '\0';
	if (!code_map_leads_to(path, st.st_ino))
		return false;
	*map = (struct guest_map){.code = {.start = m->address,
					   .end = end_of(m),
					   .offset = m->file_offset,
					   .inode = st.st_ino,
					   .major = major(st.st_dev),
					   .minor = minor(st.st_dev),
					   .prot = m->prot,
					   .flags = m->flags & (MAP_SHARED | MAP_PRIVATE),
					   .path = strdup(path)},
				  .live = true};
	return map->code.path;
}

void plugin_add_map(const struct shared_mapping *m)
{
	struct guest_map fresh;

	plugin_code_lock();
	plugin_add_alias(m);
	if (m->prot & PROT_EXEC && !find_map(m->address) && describe_map(m, &fresh))
		add_fresh(&fresh);
	plugin_code_unlock(false);
}

static void add_guest_map_executable(const struct shared_mapping *m)
{
	const uint64_t end = end_of(m);
	uint64_t address = m->address;

	while (address < end) {
		const struct guest_map *known = find_map(address);
		uint64_t next = known ? known->code.end : add_mapped(address, end, m->prot);

		if (next <= address)
			break;
		address = next;
	}
}

void plugin_add_protection(const struct shared_mapping *m)
{
	plugin_code_lock();
	plugin_protect_alias(m);
	if (m->prot & PROT_EXEC)
		add_guest_map_executable(m);
	plugin_code_unlock(false);
}

static void report_code(uint64_t address, const uint8_t *bytes, size_t n, uint64_t tsc)
{
	struct shared_message message = {
	    .type = MESSAGE_CODE,
	    .pid = getpid(),
	    .bytes = (uint32_t)n,
	    .tsc = tsc,
	    .address = address,
	    .size = n,
	};

	plugin_send(&message, bytes);
}

uint64_t plugin_account_for(uint64_t address, const uint8_t *bytes, size_t n)
{
	static const struct code_map nowhere;
	const struct guest_map *known = require_map(address);
	const struct code_map *map = known ? &known->code : &nowhere;
	struct code_difference c;
	uint64_t change;

	c = code_shadow_compare(&shadow, address, bytes, n, map);
	change = c.changed ? plugin_change_time() : c.change;
	if (c.fresh || c.changed) {
		report_code(address, bytes, n, time_of_report(change));
		code_shadow_keep(&shadow, address, bytes, n, map, c.changed ? change : 0);
	}
	return change;
}
