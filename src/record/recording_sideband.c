/* SPDX-License-Identifier: MIT */
/* What ran while a recording was made: processes, mappings, context switches, code, notes. */
#include "record/recording.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATH	4096 /* with the NUL, as in the kernel */
#define KERNEL_HALF	(UINT64_C(1) << 63)
#define KERNEL_CODE_END (UINT64_MAX - (UINT64_C(1) << 17)) /* readers use no code beyond it */
#define READ_EXECUTE	5				   /* PROT_READ | PROT_EXEC */
#define PRIVATE		2				   /* MAP_PRIVATE */

/* Processes and threads */

/* Whether a call about this thread can be carried out. */
static int check_sideband_thread(struct ptah_recording *r, int32_t pid, int32_t tid)
{
	int status = recording_check(r);

	if (status >= 0 && (pid <= 0 || tid <= 0))
		return recording_refuse(r, "process %d, thread %d: the numbers begin with 1", pid,
					tid);
	return status;
}

static int check_task(struct ptah_recording *r, const struct ptah_recording_task *t)
{
	const bool named = t->kind == PTAH_RECORDING_NAME || t->kind == PTAH_RECORDING_EXEC;
	int status = check_sideband_thread(r, t->pid, t->tid);

	if (status >= 0 && t->kind == PTAH_RECORDING_FORK)
		status = check_sideband_thread(r, t->parent_pid, t->parent_tid);
	if (status < 0)
		return status;
	if (t->kind >= PTAH_RECORDING_TASK_MAX)
		return recording_refuse(r, "thread %d: there is no such change", t->tid);
	if (named && !t->name)
		return recording_refuse(r, "thread %d: a name is missing", t->tid);
	/* perf would remove it twice, and never end. */
	if (t->kind == PTAH_RECORDING_FORK && t->tid == t->parent_tid)
		return recording_refuse(r, "thread %d cannot be its own parent", t->tid);
	return 0;
}

int ptah_recording_add_task(struct ptah_recording *r, const struct ptah_recording_task *t)
{
	int status = recording_check(r);

	if (status >= 0 && (!t || t->size < sizeof(*t)))
		status = recording_refuse(r, "the task's size is not set");
	if (status >= 0)
		status = check_task(r, t);
	if (status < 0)
		return status;
	recording_reach(r, t->tsc);
	if (t->kind == PTAH_RECORDING_FORK)
		status = perfdata_write_fork(r->writer, t->pid, t->tid, t->parent_pid,
					     t->parent_tid, t->tsc);
	else if (t->kind == PTAH_RECORDING_EXIT)
		status = perfdata_write_exit(r->writer, t->pid, t->tid, t->pid, t->pid, t->tsc);
	else
		status = perfdata_write_comm(r->writer, t->pid, t->tid, t->tsc,
					     t->kind == PTAH_RECORDING_EXEC, t->name);
	return recording_wrote(r, status);
}

/* Processors */

/* Makes room for all processors up to this one. */
static int reach_cpu(struct ptah_recording *r, int32_t cpu)
{
	const size_t count = (size_t)cpu + 1;

	while (r->cpu_count < count) {
		if (!LIST_ADD(r->cpus, r->cpu_count))
			return recording_no_memory(r);
		r->cpus[r->cpu_count - 1] = (struct recorded_cpu){.turn = {-1, -1, -1}};
	}
	return 0;
}

static int check_switch(struct ptah_recording *r, int32_t cpu, int32_t pid, int32_t tid)
{
	int status = recording_check(r);

	if (status < 0)
		return status;
	if (r->kind != PTAH_RECORDING_CPUS)
		return recording_refuse(r, "the streams are of threads: they have no switches");
	if (cpu < 0 || cpu >= RECORDING_CPUS_MAX)
		return recording_refuse(r, "processor %d: the numbers are 0 to %d", cpu,
					RECORDING_CPUS_MAX - 1);
	if ((pid || tid) && (pid <= 0 || tid <= 0))
		return recording_refuse(r, "process %d, thread %d: the numbers begin with 1", pid,
					tid);
	return reach_cpu(r, cpu);
}

int ptah_recording_add_switch(struct ptah_recording *r, int32_t cpu, uint64_t tsc, int32_t pid,
			      int32_t tid)
{
	const struct perfdata_turn to = {cpu, pid, tid};
	int status = check_switch(r, cpu, pid, tid);
	struct recorded_cpu *c;

	if (status < 0)
		return status;
	c = &r->cpus[cpu];
	if (c->turn.tid < 0) {
		status = perfdata_write_first_turn(r->writer, &to);
		tsc = 0;
	} else if (tsc < c->tsc) {
		return recording_refuse(
		    r, "processor %d: a switch at %" PRIu64 " after one at %" PRIu64, cpu, tsc,
		    c->tsc);
	} else if (c->turn.pid != pid || c->turn.tid != tid) {
		status = perfdata_write_switch(r->writer, &c->turn, &to, tsc);
	}
	*c = (struct recorded_cpu){to, tsc};
	recording_reach(r, tsc);
	return recording_wrote(r, status);
}

/* Code */

static bool is_range(uint64_t address, uint64_t bytes)
{
	return bytes && bytes - 1 <= UINT64_MAX - address;
}

static int check_map(struct ptah_recording *r, const struct ptah_recording_map *map)
{
	if (map->size < sizeof(*map))
		return recording_refuse(r, "the map's size is not set");
	if (map->pid <= 0 && map->pid != PTAH_RECORDING_KERNEL)
		return recording_refuse(r, "process %d: the numbers begin with 1", map->pid);
	if (!map->path || !*map->path)
		return recording_refuse(r, "the map has no path");
	if (strlen(map->path) >= MAX_PATH)
		return recording_refuse(r, "the path of the map is longer than %d bytes",
					MAX_PATH - 1);
	if (!is_range(map->address, map->bytes))
		return recording_refuse(
		    r, "%s: %" PRIu64 " bytes at 0x%" PRIx64 " are no range of addresses",
		    map->path, map->bytes, map->address);
	if (map->pid < 0 && map->address < KERNEL_HALF)
		return recording_refuse(r,
					"%s: 0x%" PRIx64 " is in the lower half: code that is not "
					"of an operating system's kernel is that of a process",
					map->path, map->address);
	if (map->build_id_size > PTAH_BUILD_ID_MAX)
		return recording_refuse(r, "%s: a build id has at most %d bytes", map->path,
					PTAH_BUILD_ID_MAX);
	return 0;
}

int ptah_recording_add_map(struct ptah_recording *r, const struct ptah_recording_map *map)
{
	int status = recording_check(r);
	struct perfdata_mapping mapping = {.prot = READ_EXECUTE, .flags = PRIVATE};
	struct perfdata_build_id id = {0};

	if (status < 0)
		return status;
	if (!map)
		return recording_refuse(r, "a map is missing");
	status = check_map(r, map);
	if (status < 0)
		return status;
	recording_reach(r, map->tsc);
	mapping.address = map->address;
	mapping.size = map->bytes;
	mapping.file_offset = map->file_offset;
	id.size = map->build_id_size;
	memcpy(id.bytes, map->build_id, id.size);
	/* A file that cannot be read has no id, and is missing when the recording is decoded. */
	if (!id.size && map->read_build_id && perfdata_build_id_read(map->path, &id) < 0)
		id.size = 0;
	if (map->pid < 0)
		status = perfdata_write_kernel_map(r->writer, map->tsc, &mapping, map->path, &id);
	else
		status = perfdata_write_foreign_map(r->writer, map->pid, map->pid, map->tsc,
						    &mapping, map->path, &id);
	return recording_wrote(r, status);
}

static int check_sideband_code(struct ptah_recording *r, int32_t pid, uint64_t address,
			       const void *bytes, size_t size, const char *name)
{
	if (pid <= 0 && pid != PTAH_RECORDING_KERNEL)
		return recording_refuse(r, "process %d: the numbers begin with 1", pid);
	if (!bytes || !is_range(address, size))
		return recording_refuse(r, "%zu bytes at 0x%" PRIx64 " are no code", size, address);
	if (pid > 0)
		return 0;
	if (address < KERNEL_HALF || size > UINT32_MAX || size > KERNEL_CODE_END - address)
		return recording_refuse(
		    r, "%zu bytes at 0x%" PRIx64 " are not in the kernel's half of the addresses",
		    size, address);
	if (name && (!*name || strlen(name) >= MAX_PATH))
		return recording_refuse(
		    r, "the name of the code at 0x%" PRIx64 " is empty, or longer than %d bytes",
		    address, MAX_PATH - 1);
	return 0;
}

int ptah_recording_add_code(struct ptah_recording *r, int32_t pid, uint64_t tsc, uint64_t address,
			    const void *bytes, size_t size, const char *name)
{
	int status = recording_check(r);
	const uint8_t *p = bytes;

	if (status >= 0)
		status = check_sideband_code(r, pid, address, bytes, size, name);
	if (status < 0)
		return status;
	recording_reach(r, tsc);
	if (pid > 0)
		return recording_wrote(
		    r, perfdata_add_code(r->writer, pid, tsc, address, bytes, size));
	if (name)
		status = perfdata_write_ksymbol(r->writer, tsc, address, (uint32_t)size, name);
	while (size && status >= 0) {
		size_t n = size < PERFDATA_POKE ? size : PERFDATA_POKE;

		status = perfdata_write_poke(r->writer, tsc, address, p, n);
		p += n;
		address += n;
		size -= n;
	}
	return recording_wrote(r, status);
}

int ptah_recording_add_note(struct ptah_recording *r, const char *text)
{
	int status = recording_check(r);

	if (status < 0)
		return status;
	if (!text)
		return recording_refuse(r, "a note without text");
	return recording_wrote(r, perfdata_add_note(r->writer, text));
}
