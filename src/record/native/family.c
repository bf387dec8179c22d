/* SPDX-License-Identifier: MIT */
/*
 * The processes that are recorded: what they are called, whose children they are, and how they end.
 * All of them descend from the recorder or from a process that it attached to.
 */
#include "record/native/native.h"

#include "support/monotonic.h"
#include "record/proc_stat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANCESTORS_MAX 64		      /* of a process, up to the recorder */
#define BURY_NS	      (INT64_C(50) * 1000000) /* after this the others are left for the next round */

int32_t native_parent_of(int32_t pid)
{
	struct proc_stat stat;

	return proc_stat_read(pid, &stat) ? stat.parent : 0;
}

void native_read_comm(int32_t pid, char name[16])
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, 16, f))
		name[0] = '\0';
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = '\0';
}

/* Whether it descends from the recorder, or from a process that it was told to record. */
static bool is_descendant(const struct recording *r, int32_t pid)
{
	for (unsigned i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
		if (native_is_target(r, pid))
			return true;
		if (pid == getpid())
			return i > 0;
		pid = native_parent_of(pid);
	}
	return false;
}

/* Of a process, or of a thread. */
static bool exists(int32_t id)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", id);
	return !access(path, F_OK);
}

static bool is_thread_of(int32_t tid, int32_t pid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

bool native_has_thread(int32_t pid, int32_t tid)
{
	return pid == tid || is_thread_of(tid, pid) || !exists(tid);
}

bool native_has_ended(int32_t pid)
{
	struct proc_stat stat;

	return !proc_stat_read(pid, &stat) || stat.ended || stat.exits;
}

bool native_may_begin(const struct native_memory *memory, int32_t pid)
{
	struct native_user user;

	/* One whose parent has ended is not our descendant any more. */
	if (native_user_read(pid, &user) && native_user_can_become(&memory->user, &user) &&
	    (is_descendant(memory->r, pid) || native_memory_at(memory, pid)))
		return true;
	/* Asked last: it may end meanwhile. */
	return native_has_ended(pid);
}

bool native_is_recorded(const struct recording *r, int32_t pid, int32_t tid)
{
	const struct process *process = processes_find(&r->processes, pid);

	if (!process || process->dead || process->untraced || !is_thread_of(tid, pid))
		return false;
	/* As long as its pidfd has not said that it is dead, its number is nobody else's. */
	if (process->fd >= 0)
		return !syscall(SYS_pidfd_send_signal, process->fd, 0, NULL, 0) || errno == EPERM;
	return is_descendant(r, pid);
}

const char *native_name_of(const struct recording *r, int32_t pid)
{
	const struct process *process = processes_find(&r->processes, pid);

	return process ? process->name : r->name;
}

void native_add_process(struct recording *r, int32_t pid, int32_t parent, const char *name,
			const struct native_memory *memory)
{
	struct process *process = processes_add(&r->processes, pid, parent, name);

	if (process) {
		process->memory = native_memory_number(memory);
		process->program = native_truth_begin(&r->truth);
	} else {
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
	}
	r->r->status.processes++;
}

const char *native_take_untold(struct recording *r, int32_t pid)
{
	struct process *process = processes_find(&r->processes, pid);
	const char *name = NULL;

	if (process)
		return process->end_known ? NULL : process->name;
	for (size_t i = 0; i < NATIVE_SILENT; i++)
		if (r->silent[i].pid == pid) {
			name = r->silent[i].name;
			r->silent[i].pid = 0;
		}
	return name;
}

void native_bury(struct recording *r, size_t i)
{
	struct process *process = &r->processes.list[i];
	const int32_t pid = process->pid;

	process_find_end(process, r->r);
	if (!process->end_known) {
		struct silent *s = &r->silent[r->silent_count++ % NATIVE_SILENT];

		s->pid = pid;
		memcpy(s->name, process->name, sizeof(s->name));
	}
	native_finish_process(r, pid, 0);
	native_end_program(r, process);
	native_release_process(r, pid);
	native_set_over(r, pid);
	process_tell_end(process, r->r);
	processes_remove(&r->processes, i);
}

void native_bury_dead(struct recording *r)
{
	const int64_t end = monotonic_ns() + BURY_NS;

	for (size_t i = r->processes.count; i-- > 0;) {
		if (!r->processes.list[i].dead || native_has_more(r, r->processes.list[i].pid))
			continue;
		native_bury(r, i);
		if (monotonic_ns() > end)
			break;
	}
}
