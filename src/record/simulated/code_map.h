/* SPDX-License-Identifier: MIT */
/* A mapping of a recorded process in which code runs: a line of /proc/PID/maps. */
#ifndef PTAH_RECORD_SIMULATED_CODE_MAP_H
#define PTAH_RECORD_SIMULATED_CODE_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct code_map {
	uint64_t start, end, offset, inode;
	uint64_t change; /* when it took the place of another mapping; 0: it did not */
	char *path;	 /* heap; NULL: no file that can be read again */
	bool told;	 /* the recording has a record of it */
};

/*
 * Reads a line of /proc/PID/maps into *map, all but its path, and the access rights
 * ("r-xp") into access. Returns the name at the line's end, which may be "", or NULL
 * when it is no such line.
 */
const char *code_map_parse(char *line, struct code_map *map, char access[5]);

/*
 * Whether `path` is still the file with this inode. A file that was deleted or replaced
 * since it was mapped cannot be read again.
 */
bool code_map_leads_to(const char *path, uint64_t inode);

/* Sets map->path to NULL where it is a file's and does not lead to that file any more. */
void code_map_check_path(struct code_map *map);

#endif
