/* SPDX-License-Identifier: MIT */
/*
 * Programs that are replaced by execve. A process that says that it is about to is seized, and its
 * new program gets the runtime before its first instruction.
 */
#include "record/native/native.h"

#include "record/native/inject.h"

#include <stdlib.h>

#define SLOT_WAITS 100 /* times that a new program waits for threads to end */

/* A process that was seized because it is about to execve. */
struct seized {
	int32_t pid;
	int32_t tid; /* of the thread, which has the number `pid` from its execve on */
	bool waits_for_pid;
	bool leaves;	/* it is let go as soon as it stops */
	unsigned waits; /* for a slot, held at its execve: so many times until now */
	struct seized *next;
};

static void forget_seized(struct recording *r, struct seized *s)
{
	struct seized **p = &r->seized;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	free(s);
}

static void release_seized(struct recording *r, struct seized *s)
{
	s->leaves = !inject_release(s->waits_for_pid ? s->pid : s->tid);
	if (!s->leaves)
		forget_seized(r, s);
}

void native_release_process(struct recording *r, int32_t pid)
{
	struct seized *next;

	for (struct seized *s = r->seized; s; s = next) {
		next = s->next;
		if (s->pid == pid)
			release_seized(r, s);
	}
}

bool native_is_seized(const struct recording *r, int32_t pid)
{
	for (const struct seized *s = r->seized; s; s = s->next)
		if (s->pid == pid)
			return true;
	return false;
}

bool native_any_seized(const struct recording *r)
{
	for (size_t i = 0; i < r->processes.count; i++)
		if (native_is_seized(r, r->processes.list[i].pid))
			return true;
	return false;
}

void native_seize(struct recording *r, const struct native_message *m)
{
	struct seized *s = native_is_descendant(r, m->pid) ? calloc(1, sizeof(*s)) : NULL;
	struct ptah_message why = {"it does not descend from what is recorded"};

	pauses_end(&r->pauses, m->pid);
	if (m->pid == r->detaching) { /* it is traced, and let go */
		free(s);
		native_messages_answer(r->messages);
		return;
	}

	if (s && inject_seize(m->tid, &why) >= 0) {
		s->pid = m->pid;
		s->tid = m->tid;
		s->next = r->seized;
		r->seized = s;
	} else {
		free(s);
		recorder_note(r->r, "process %d (%s) is not recorded after its execve: %s", m->pid,
			      native_name_of(r, m->pid), why.text);
	}
	native_messages_answer(r->messages);
}

/* The process stands before the first instruction of its new program. */
static void enter_program(struct recording *r, int32_t pid, int32_t tid, unsigned slot)
{
	struct inject_memory memory = {
	    .fd = r->memory, .bytes = r->bytes, .or_natively = true, .late = &r->r->late};
	struct process *process = processes_find(&r->processes, pid);
	struct ptah_message why = {""};
	char name[16];

	native_take_time(r);
	native_finish_process(r, pid, tid);
	native_set_control(r, pid, 0);
	native_read_comm(pid, name);
	if (process)
		process_set_name(process, name);
	else
		native_add_process(r, pid, native_parent_of(pid), name);
	native_wrote(r, perfdata_write_comm(native_writer(r), pid, pid, r->last_tsc, true, name));
	native_write_maps(r, pid, r->last_tsc, 0, UINT64_MAX);
	memory.slot = slot < NATIVE_THREADS ? slot : native_claim_slot(r);
	if (memory.slot == NATIVE_THREADS) {
		native_set_over(r, pid);
		inject_release(pid);
		recorder_note(r->r,
			      "process %d (%s) is not recorded: more threads run at the same "
			      "time than can be recorded",
			      pid, name);
	} else if (inject_runtime(pid, &memory, &why) < 0) {
		native_give_slot_back(r, memory.slot);
		native_set_over(r, pid);
		recorder_note(r->r, "process %d (%s) is not recorded: %s", pid, name, why.text);
	}
}

/*
 * inject_exec() of the thread. One that is not the first of its process has the process's number
 * when its execve is reported; its own is nobody's from then on, or if it was killed.
 */
static int await_exec(struct seized *s, int *ended)
{
	struct ptah_message why = {""};
	int status;

	if (!s->waits_for_pid) {
		status = inject_exec(s->tid, ended, &why);
		if (s->tid == s->pid || status != PTAH_E_MISSING)
			return status;
		s->waits_for_pid = true;
	}
	return inject_exec(s->pid, ended, &why);
}

void native_look_at_seized(struct recording *r)
{
	struct seized *next;

	for (struct seized *s = r->seized; s; s = next) {
		const int32_t pid = s->pid, tid = s->tid;
		unsigned slot = NATIVE_THREADS;
		int ended = 0, status;

		next = s->next;
		if (s->leaves) {
			release_seized(r, s);
			continue;
		}
		status = s->waits ? 1 : await_exec(s, &ended);
		if (!status)
			continue;
		if (status > 0)
			slot = native_claim_slot(r);
		/* Slots of threads that have ended become free after this. */
		if (status > 0 && slot == NATIVE_THREADS && s->waits++ < SLOT_WAITS)
			continue;
		forget_seized(r, s);
		if (status > 0)
			enter_program(r, pid, tid, slot);
		else if (status == PTAH_E_MISSING &&
			 pid == r->pid) { /* its status has been taken */
			r->r->status.wait_status = ended;
			r->pid = r->r->status.pid = 0;
		}
	}
}

bool native_release_seized(struct recording *r)
{
	struct seized *next;

	for (struct seized *s = r->seized; s; s = next) {
		next = s->next;
		release_seized(r, s);
	}
	return !r->seized;
}

void native_free_seized(struct recording *r)
{
	while (r->seized)
		forget_seized(r, r->seized);
}
