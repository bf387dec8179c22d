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

void plugin_forget_maps(uint64_t address, uint64_t size)
{
	plugin_code_lock();
	for (size_t i = 0; i < map_count; i++)
		if (maps[i].code.start < address + size && address < maps[i].code.end)
			maps[i].live = false;
	plugin_code_unlock(false);
}

static struct guest_map *find_map(uint64_t address)
{
	for (size_t i = map_count; i-- > 0;)
		if (maps[i].live && address >= maps[i].code.start && address < maps[i].code.end)
			return &maps[i];
	return NULL;
}

/*
 * Reads the line of /proc/self/maps for a host address. False: there is none, and *map is
 * unchanged.
 */
static bool read_map(uint64_t host, struct guest_map *map)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char *line = NULL, access[5];
	size_t size = 0;
	bool found = false;

	if (!file)
		return false;
	while (!found && getline(&line, &size, file) > 0) {
		struct code_map code;
		const char *name = code_map_parse(line, &code, access);

		if (!name || host < code.start || host >= code.end)
			continue;
		code.start -= plugin.guest_base;
		code.end -= plugin.guest_base;
		*map = (struct guest_map){.code = code, .live = true};
		if (code_map_leads_to(name, code.inode))
			map->code.path = strdup(name);
		found = true;
	}
	free(line);
	fclose(file);
	return found;
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
	    .address = map->code.start,
	    .size = map->code.end - map->code.start,
	    .value = map->code.offset,
	};

	if (map->code.told)
		return;
	map->code.told = true;
	code_map_check_path(&map->code);
	if (!map->code.path)
		return;
	message.bytes = (uint32_t)strlen(map->code.path);
	plugin_send(&message, map->code.path);
}

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

	if (!map && read_map(address + plugin.guest_base, &fresh))
		map = add_map(&fresh, 0);
	if (map)
		report_map(map);
	return map;
}

/*
 * Adds the file mapping at `address`, or with file_offset only the part [address, end) of it.
 * Returns the end of the mapping; 0: there is none.
 */
static uint64_t add_mapped(uint64_t address, uint64_t end, const uint64_t *file_offset)
{
	struct guest_map fresh = {0};
	uint64_t time;

	if (find_map(address) || !read_map(address + plugin.guest_base, &fresh) ||
	    !fresh.code.path) {
		free(fresh.code.path);
		return fresh.code.end;
	}
	/* The system may merge it with neighbours that QEMU maps in the same way. */
	if (file_offset) {
		fresh.code.start = address;
		fresh.code.end = end;
		fresh.code.offset = *file_offset;
	}
	time = plugin_change_time();
	end = fresh.code.end;
	if (add_map(&fresh, time))
		atomic_store_explicit(&plugin.map_time, time, memory_order_release);
	return end;
}

void plugin_add_map(uint64_t address, uint64_t size, uint64_t file_offset)
{
	plugin_code_lock();
	add_mapped(address, (address + size + PAGE - 1) & ~(PAGE - 1), &file_offset);
	plugin_code_unlock(false);
}

void plugin_add_executable(uint64_t address, uint64_t size)
{
	const uint64_t end = address + size;

	plugin_code_lock();
	while (address < end) {
		const struct guest_map *known = find_map(address);
		uint64_t next = known ? known->code.end : add_mapped(address, end, NULL);

		if (next <= address)
			break;
		address = next;
	}
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
