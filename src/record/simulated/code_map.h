/* SPDX-License-Identifier: MIT */
/* One mapping of a recorded process from which code is executed: a line of /proc/PID/maps. */
#ifndef PTAH_RECORD_SIMULATED_CODE_MAP_H
#define PTAH_RECORD_SIMULATED_CODE_MAP_H

#include "perfdata/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_map {
	uint64_t start, end, offset, inode;
	uint32_t major, minor; /* device of the inode */
	uint32_t prot, flags;  /* as for mmap() */
	uint64_t change;       /* time when it replaced another mapping; 0: it did not */
	char *path;	       /* on the heap; NULL: there is no file that can still be read */
	bool told;	       /* the recording has an mmap record of it */
};

/*
 * Reads a line of /proc/PID/maps into *map, whose path is left NULL. Returns the name at the end of
 * the line, which may be "" and may have newlines, or NULL if it is no such line.
 */
const char *code_map_parse(char *line, struct code_map *map);

/*
 * Whether `path` is still the file with this inode. A file that was deleted or replaced
 * since it was mapped cannot be read again.
 */
bool code_map_leads_to(const char *path, uint64_t inode);

/*
 * Narrows the mapping to the executable segment of its ELF file that holds `address`, as the kernel
 * maps it. For an emulator's mappings, which join all segments that the emulator need not
 * distinguish. Unchanged if the file is no ELF file or has no such segment there.
 */
void code_map_narrow(struct code_map *map, uint64_t address);

/* Sets map->path to NULL if it is the path of a file and does not lead to that file any more. */
void code_map_check_path(struct code_map *map);

/* The mapping as a recording has it. */
struct perfdata_mapping code_map_record(const struct code_map *map);

/*
 * Writes a message about the mapping: a struct perfdata_mapping, and after it the path without a
 * NUL. Returns its size; 0: there is no path, or it is too long.
 */
size_t code_map_pack(const struct code_map *map, uint8_t *message, size_t size);

#endif
