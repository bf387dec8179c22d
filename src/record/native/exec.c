/* SPDX-License-Identifier: MIT */
/*
 * Programs that are replaced by execve. A process that says that it is about to is seized, and its
 * new program gets the runtime before its first instruction.
 */
#include "record/native/native.h"

#include "record/native/inject.h"
#include "record/native/seccomp.h"

#include <stdlib.h>
#include <sys/ptrace.h>

#define SLOT_WAITS   100    /* times that a new program waits for threads to end */
#define SEIZED_NS    100000 /* between two looks at a process that is about to execve */
#define SEIZED_WAITS 100    /* such looks: it may also do something else first, for long */
#define MANY_THREADS "more threads run at the same time than can be recorded"

/* A process that was seized because it is about to execve, or to get another memory. */
struct seized {
	int32_t pid;
	int32_t tid; /* of the thread, which has the number `pid` from its execve on */
	bool moves;
	bool calls; /* it is held at each system call: see inject_seize() */
	bool waits_for_pid;
	bool leaves;		      /* it is let go as soon as it stops */
	unsigned waits;		      /* for a slot, held at its execve: so many times until now */
	struct native_memory *memory; /* of its new program, once it is held there */
	uint64_t filters;	      /* NATIVE_MESSAGE_EXEC */
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

int64_t native_seized_wait(struct recording *r)
{
	/* The child of vfork() that may be a tracer stands still at each call. */
	for (const struct seized *s = r->seized; s; s = s->next)
		if (s->calls)
			return SEIZED_NS;
	if (!r->seized)
		return 0;
	return r->seized_waits++ < SEIZED_WAITS ? SEIZED_NS : NATIVE_POLL_MS * INT64_C(1000000);
}

/* NULL: it cannot be traced. */
static struct seized *seize(struct recording *r, const struct native_message *m,
			    struct ptah_message *why)
{
	struct seized *s = calloc(1, sizeof(*s));

	if (s) /* what a recorded process calls goes through the runtime's gate */
		s->calls =
		    !processes_find(&r->processes, m->pid) && tracer_may_be(&r->tracer, m->pid);
	if (!s || inject_seize(m->tid, s->calls, why) < 0) {
		free(s);
		return NULL;
	}
	s->pid = m->pid;
	s->tid = m->tid;
	s->filters = m->value;
	s->next = r->seized;
	r->seized = s;
	r->seized_waits = 0;
	return s;
}

/* The child of vfork() is not in the list: it has its parent's memory. */
static bool may_exec(const struct native_memory *from, const struct native_message *m)
{
	if (processes_find(&from->r->processes, m->pid))
		return native_is_recorded(from->r, m->pid, m->tid);
	return m->tid == m->pid && native_may_begin(from, m->pid);
}

void native_seize(const struct native_memory *from, const struct native_message *m)
{
	struct ptah_message why = {"it does not descend from what is recorded"};
	struct recording *r = from->r;

	if (m->pid == r->detaching) /* it is traced, and let go */
		return;
	if (may_exec(from, m)) {
		pauses_end(&r->pauses, m->pid);
		if (seize(r, m, &why))
			return;
	}
	recorder_note(r->r, "process %d (%s) is not recorded after its execve: %s", m->pid,
		      native_name_of(r, m->pid), why.text);
}

void native_seize_to_move(const struct native_memory *from, const struct native_message *m)
{
	struct recording *r = from->r;
	struct native_user user;
	struct ptah_message why;
	struct seized *s;

	if (m->pid == r->detaching || native_is_seized(r, m->pid) ||
	    !native_is_recorded(r, m->pid, m->tid) || !native_user_read(m->tid, &user) ||
	    native_user_is(&from->user, &user))
		return;
	pauses_end(&r->pauses, m->pid);
	s = seize(r, m, &why);
	if (s)
		s->moves = !ptrace(PTRACE_INTERRUPT, s->tid, 0, 0);
}

static void note_not_recorded(struct recording *r, int32_t pid, const char *name, const char *why)
{
	native_set_over(r, pid);
	recorder_note(r->r, "process %d (%s) is not recorded: %s", pid, name, why);
}

/*
 * Why the new program's filters of system calls keep the recorder out; NULL: they do not. filters:
 * what the runtime knows of them. A child of vfork() may have set others since.
 */
static const char *filters_refusal(uint64_t filters, uint32_t present)
{
	if (present > (uint32_t)filters)
		return "it has a filter of system calls (seccomp) that the recorder has not seen";
	return filters >> 32 & NATIVE_NEEDS_ENTRY ? "its filter of system calls (seccomp) denies "
						    "what the recorder needs to enter it"
						  : NULL;
}

/* The process stands before the first instruction of its new program. */
static void enter_program(struct recording *r, const struct seized *s,
			  const struct native_memory *to, unsigned slot)
{
	const int32_t pid = s->pid, tid = s->tid;
	const uint32_t filters = native_seccomp_filters(pid);
	const char *refusal = to ? filters_refusal(s->filters, filters) : NATIVE_MANY_USERS;
	struct process *process = processes_find(&r->processes, pid);
	struct ptah_message why = {""};
	struct inject_memory memory;
	char name[16];

	/* Its other threads may have sent some more before they ended. */
	if (process)
		native_messages_drain(r->memories[process->memory].messages);
	native_take_time(r);
	native_finish_process(r, pid, tid);
	native_set_control(r, pid, 0);
	native_read_comm(pid, name);
	process = processes_find(&r->processes, pid);
	if (process) {
		native_end_program(r, process);
		process_set_name(process, name);
	} else {
		native_add_process(r, pid, native_parent_of(pid), name, to ? to : r->memories);
	}
	native_wrote(r, perfdata_write_comm(native_writer(r), pid, pid, r->last_tsc, true, name));
	native_write_maps(r, pid, r->last_tsc, 0, UINT64_MAX);
	if (to && slot == NATIVE_SLOTS)
		slot = native_claim_slot(to);
	if (!refusal && slot == NATIVE_SLOTS)
		refusal = MANY_THREADS;
	if (refusal) {
		if (slot < NATIVE_SLOTS)
			native_give_slot_back(r, slot);
		inject_release(pid);
		note_not_recorded(r, pid, name, refusal);
		return;
	}
	process = processes_find(&r->processes, pid);
	if (process)
		process->memory = native_memory_number(to);
	memory = native_memory_for(to, slot);
	memory.or_natively = true;
	memory.filters = filters;
	memory.denied = (uint32_t)(s->filters >> 32);
	if (inject_runtime(pid, &memory, &why) < 0) {
		native_give_slot_back(r, slot);
		note_not_recorded(r, pid, name, why.text);
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
		status = inject_exec(s->tid, s->calls, ended, &why);
		if (s->tid == s->pid || status != PTAH_E_MISSING)
			return status;
		s->waits_for_pid = true;
	}
	return inject_exec(s->pid, s->calls, ended, &why);
}

/* 1: it stands where it was waited for. *ended: see inject_exec(). */
static int look_at_seized(struct seized *s, int *ended)
{
	int status;

	if (s->waits)
		return 1;
	if (!s->moves)
		return await_exec(s, ended);
	status = native_await_move(s->tid, ended);
	if (status == NATIVE_MOVE_EXECS) {
		s->moves = false;
		return 1;
	}
	return status;
}

/* It is held at its new program, which may have to wait for a slot. False: it still waits. */
static bool enter_seized(struct recording *r, struct seized *s)
{
	const struct seized held = *s;
	const int32_t pid = s->pid;
	struct native_memory *to = s->waits ? s->memory : native_memory_of(r, pid);
	const unsigned slot = to ? native_claim_slot(to) : NATIVE_SLOTS;

	s->memory = to;
	/* Slots of threads that have ended become free after this. */
	if (to && slot == NATIVE_SLOTS && s->waits++ < SLOT_WAITS)
		return false;
	forget_seized(r, s);
	enter_program(r, &held, to, slot);
	native_release_process(r, pid); /* other threads, which that has ended */
	return true;
}

static void take_end(struct recording *r, struct seized *s, int ended)
{
	if (s->pid == r->pid) { /* its status has been taken */
		r->r->status.wait_status = ended;
		r->pid = r->r->status.pid = 0;
	}
	forget_seized(r, s);
}

/* Takes the next step with one of them. False: nothing has happened. */
static bool step_seized(struct recording *r)
{
	struct seized *next;

	for (struct seized *s = r->seized; s; s = next) {
		const int32_t pid = s->pid, tid = s->tid;
		int ended = 0, status;

		next = s->next;
		if (s->leaves) {
			release_seized(r, s);
			continue;
		}
		status = look_at_seized(s, &ended);
		if (!status)
			continue;
		if (status == INJECT_TRACED) {
			note_not_recorded(r, pid, native_name_of(r, native_parent_of(pid)),
					  "its parent traces it");
			forget_seized(r, s);
			return true;
		}
		if (status < 0) {
			take_end(r, s, ended);
			return true;
		}
		if (s->moves) {
			forget_seized(r, s);
			native_move(r, pid, tid);
			return true;
		}
		if (enter_seized(r, s))
			return true;
	}
	return false;
}

/* Handling one may take others out of the list. */
void native_look_at_seized(struct recording *r)
{
	while (step_seized(r))
		;
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
