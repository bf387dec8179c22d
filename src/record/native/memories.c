/* SPDX-License-Identifier: MIT */
/* The memories that the recorder shares with the programs, one for each user: users.h. */
#include "record/native/native.h"

#include "record/shared_memory.h"
#include "record/simulated/code_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* What the memory has besides its file. False: there is no memory, or no thread. */
static bool begin_memory(struct native_memory *memory, void *at)
{
	const struct recording *r = memory->r;

	memory->messages = calloc(1, sizeof(*memory->messages));
	if (!memory->messages ||
	    mmap(at, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		 memory->fd, 0) == MAP_FAILED)
		return false;
	memory->shared = at;
	*memory->shared = r->constants;
	memory->shared->exits = native_exits_from(r->memory_count);
	memory->shared->paused = r->pauses.on;
	*memory->messages = (struct native_messages){
	    .shared = memory->shared, .take = native_take_message, .context = memory};
	memory->lifeline = lifeline_begin(&memory->shared->recorder_alive);
	return memory->lifeline;
}

int native_memory_add(struct recording *r)
{
	struct native_memory *memory = &r->memories[r->memory_count];

	*memory = (struct native_memory){.r = r, .fd = shared_memory_create("ptah", r->bytes)};
	if (memory->fd < 0)
		return PTAH_E_SYSTEM;
	if (!begin_memory(memory, r->streams->memory + r->memory_count * r->bytes)) {
		free(memory->messages);
		close(memory->fd);
		return PTAH_E_SYSTEM;
	}
	r->memory_count++;
	r->streams->slots = r->memory_count * NATIVE_THREADS;
	return 0;
}

struct native_memory *native_memory_of(struct recording *r, int32_t tid)
{
	struct native_memory *memory = r->memories;
	struct native_user user;

	if (!native_user_read(tid, &user))
		return NULL;
	for (; memory < r->memories + r->memory_count; memory++)
		if (!memory->taken || native_user_is(&memory->user, &user))
			break;
	if (memory == r->memories + r->memory_count &&
	    (r->memory_count == NATIVE_MEMORIES || native_memory_add(r) < 0))
		return NULL;
	memory->taken = true;
	memory->user = user;
	return memory;
}

void native_memory_look(struct native_memory *memory)
{
	const struct recording *r = memory->r;
	struct native_header *shared = memory->shared;

	if (memcmp(shared, &r->constants, NATIVE_CONSTANTS) || shared->paused != r->pauses.on ||
	    !lifeline_holds(shared->recorder_alive))
		memory->messages->damaged = true;
}

struct inject_memory native_memory_for(const struct native_memory *memory, unsigned slot)
{
	return (struct inject_memory){.fd = memory->fd,
				      .bytes = memory->r->bytes,
				      .slot = slot % NATIVE_THREADS,
				      .committed = memory->r->committed,
				      .late = &memory->r->r->late,
				      .constants = &memory->r->constants};
}

uint64_t native_memory_at(const struct native_memory *memory, int32_t pid)
{
	char path[32], *line = NULL;
	uint64_t at = 0;
	struct stat st;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fstat(memory->fd, &st) ? NULL : fopen(path, "re");
	while (f && !at && getline(&line, &room, f) > 0) {
		struct code_map map;

		if (code_map_parse(line, &map) && map.inode == st.st_ino && !map.offset &&
		    makedev(map.major, map.minor) == st.st_dev)
			at = map.start;
	}
	free(line);
	if (f)
		fclose(f);
	return at;
}

void native_memories_free(struct recording *r)
{
	for (unsigned i = 0; i < r->memory_count; i++) {
		lifeline_end(r->memories[i].lifeline);
		close(r->memories[i].fd);
		free(r->memories[i].messages);
	}
	if (r->streams && r->streams->memory)
		munmap(r->streams->memory, NATIVE_MEMORIES * r->bytes);
}
