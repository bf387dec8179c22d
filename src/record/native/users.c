/* SPDX-License-Identifier: MIT */
/* Reads whose process it is from /proc: see users.h. */
#include "record/native/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

bool native_user_read(int32_t tid, struct native_user *user)
{
	uint32_t *u, *g;
	char path[40], line[512];
	unsigned found = 0;
	struct stat space;
	FILE *f;

	*user = (struct native_user){.space = 0};
	u = user->uids;
	g = user->gids;
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		found +=
		    sscanf(line, "Uid: %" SCNu32 " %" SCNu32 " %" SCNu32, &u[0], &u[1], &u[2]) == 3;
		found +=
		    sscanf(line, "Gid: %" SCNu32 " %" SCNu32 " %" SCNu32, &g[0], &g[1], &g[2]) == 3;
		found += sscanf(line, "CapPrm: %" SCNx64, &user->capabilities) == 1;
	}
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", tid);
	if (!stat(path, &space))
		user->space = space.st_ino;
	return found == 3;
}
