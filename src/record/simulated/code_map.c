/* SPDX-License-Identifier: MIT */
/*
 * Reads lines of /proc/PID/maps, and checks whether a path still leads to the file that was mapped.
 */
#include "record/simulated/code_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *code_map_parse(char *line, struct code_map *map, char access[5])
{
	unsigned long long start, end, offset, inode;
	int name = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %*s %llu %n", &start, &end, access, &offset, &inode,
		   &name) < 5)
		return NULL;
	*map = (struct code_map){.start = start, .end = end, .offset = offset, .inode = inode};
	line[strcspn(line, "\n")] = '\0';
	return name ? line + name : "";
}

bool code_map_leads_to(const char *path, uint64_t inode)
{
	struct stat st;

	return path[0] == '/' && inode && !stat(path, &st) && st.st_ino == inode;
}

void code_map_check_path(struct code_map *map)
{
	if (!map->path || map->path[0] != '/' || code_map_leads_to(map->path, map->inode))
		return;
	free(map->path);
	map->path = NULL;
}
