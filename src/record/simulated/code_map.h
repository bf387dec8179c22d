/* SPDX-License-Identifier: MIT */
/* One mapping of a recorded process from which code is executed: a line of /proc/PID/maps. */
#ifndef PTAH_RECORD_SIMULATED_CODE_MAP_H
#define PTAH_RECORD_SIMULATED_CODE_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct code_map {
	uint64_t start, end, offset, inode;
	uint64_t change; /* time when it replaced another mapping; 0: it did not */
	char *path;	 /* on the heap; NULL: there is no file that can still be read */
	bool told;	 /* the recording has an mmap record of it */
};

/*
 * Reads a line of /proc/PID/maps: addresses, offset and inode into *map, the access rights ("r-xp")
 * into `access`. Returns the name at the end of the line, which may be "", or NULL if it is no such
 * line. map->path is left NULL.
 */
const char *code_map_parse(char *line, struct code_map *map, char access[5]);

/*
 * Whether `path` is still the file with this inode. A file that was deleted or replaced
 * since it was mapped cannot be read again.
 */
bool code_map_leads_to(const char *path, uint64_t inode);

/* Sets map->path to NULL if it is the path of a file and does not lead to that file any more. */
void code_map_check_path(struct code_map *map);

#endif
