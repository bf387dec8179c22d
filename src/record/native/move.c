/* SPDX-License-Identifier: MIT */
/*
 * A process that has become another user's gets the memory of that user in the place of the one
 * that it has: runtime/user.c. It is traced from where it asks for that until it has it.
 */
#include "record/native/native.h"
#include "record/native/threads.h"

#include "perfdata/message.h"
#include "record/proc_stat.h"

#include <stdlib.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#ifdef __x86_64__

#define EXEC_STOP    (SIGTRAP | PTRACE_EVENT_EXEC << 8)
#define SCRATCH_ROOM 8192 /* below its stack's end, where it has room */

static bool is_move(pid_t tid)
{
	struct user_regs_struct r;

	return threads_is_entry(tid) && !ptrace(PTRACE_GETREGS, tid, 0, &r) &&
	       r.orig_rax == NATIVE_CALL && r.rdi == NATIVE_CALL_MOVE;
}

int native_await_move(pid_t tid, int *status)
{
	pid_t got;

	while ((got = tracee_look(tid, status)) == tid) {
		const int signal = WIFSTOPPED(*status) ? WSTOPSIG(*status) : 0;

		if (!signal)
			return PTAH_E_MISSING;
		if (*status >> 8 == EXEC_STOP)
			return NATIVE_MOVE_EXECS;
		if (signal == SYSCALL_STOP && is_move(tid))
			return 1;
		if (*status >> 16 == GROUP_STOP && signal != SIGTRAP)
			ptrace(PTRACE_LISTEN, tid, 0, 0);
		else
			ptrace(PTRACE_SYSCALL, tid, 0,
			       *status >> 16 || signal == SYSCALL_STOP ? 0 : signal);
	}
	*status = 0;
	return got < 0 ? PTAH_E_MISSING : 0;
}

static unsigned count_threads(int32_t pid)
{
	int32_t *tids;
	const size_t n = proc_threads("", pid, &tids);

	free(tids);
	return (unsigned)n;
}

/* The thread leaves the call, and can be told to make others. */
static int take_hold(struct tracee *h)
{
	threads_answer(h->pid, 0);
	if (!tracee_to_call(h) || ptrace(PTRACE_GETREGS, h->pid, 0, &h->program) ||
	    ptrace(PTRACE_GETSIGMASK, h->pid, sizeof(h->mask), &h->mask))
		return tracee_fail(h, "stopping it");
	ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(uint64_t), &(uint64_t){ALL_SIGNALS});
	h->site = h->program.rip - 2; /* where it has made this call */
	h->stack = (h->program.rsp - SCRATCH_ROOM) & ~UINT64_C(15);
	return 0;
}

static void let_go(struct tracee *h, int64_t answer)
{
	h->program.rax = (uint64_t)answer;
	h->program.orig_rax = UINT64_MAX;
	ptrace(PTRACE_SETREGS, h->pid, 0, &h->program);
	ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(h->mask), &h->mask);
	ptrace(PTRACE_DETACH, h->pid, 0, h->stopped ? SIGSTOP : 0);
}

void native_move(struct recording *r, int32_t pid, int32_t tid)
{
	struct process *process = processes_find(&r->processes, pid);
	struct ptah_message why = {""};
	struct tracee h = {.pid = tid,
			   .process = pid,
			   .runs = true,
			   .why = &why,
			   .late = &r->r->late,
			   .shared_bytes = r->bytes,
			   .descriptors = {-1, -1, -1}};
	struct native_memory *to;
	struct inject_memory memory;
	unsigned slot = NATIVE_SLOTS;
	int64_t answer = -EBUSY;

	if (!process || take_hold(&h) < 0)
		return;
	/* Others of its threads may still be another user's. */
	to = count_threads(pid) == 1 ? native_memory_of(r, tid) : NULL;
	if (to)
		slot = native_claim_slot(to);
	if (slot < NATIVE_SLOTS) {
		memory = native_memory_for(to, slot);
		h.replaced = native_memory_at(&r->memories[process->memory], pid);
		if (h.replaced && tracee_map_memory(&h, &memory) >= 0)
			answer = memory.slot;
		else
			native_give_slot_back(r, slot);
	}
	if (slot < NATIVE_SLOTS && answer == memory.slot) {
		native_messages_drain(r->memories[process->memory].messages);
		native_finish_process(r, pid, tid);
		process->memory = native_memory_number(to);
	}
	let_go(&h, answer);
}

#else

int native_await_move(pid_t tid, int *status)
{
	(void)tid;
	(void)status;
	return PTAH_E_MISSING;
}

void native_move(struct recording *r, int32_t pid, int32_t tid)
{
	(void)r;
	(void)pid;
	(void)tid;
}

#endif
