/* SPDX-License-Identifier: MIT */
/* What the runtimes report of their programs: each message becomes records, or is answered. */
#include "record/native/native.h"

#include <stdio.h>
#include <string.h>

static void on_thread(const struct native_memory *from, const struct native_message *m)
{
	const unsigned slot = native_memory_number(from) * NATIVE_THREADS + (unsigned)m->value;
	struct recording *r = from->r;
	char name[16] = "";

	if (!streams_begin(r->streams, slot, m->pid, m->tid, r->stream_count))
		return;
	r->stream_count++;
	r->r->status.threads++;
	r->controls[slot] = m->address;
	pauses_begin_thread(&r->pauses, slot, m->address, m->size);
	native_set_control(r, m->pid, m->address);
	if (m->tid != m->pid) {
		native_wrote(r, perfdata_write_fork(native_writer(r), m->pid, m->tid, m->pid,
						    m->pid, m->tsc));
		if (native_is_target(r, m->pid))
			native_read_comm(m->tid, name);
		native_wrote(r, perfdata_write_comm(native_writer(r), m->pid, m->tid, m->tsc, false,
						    name[0] ? name : native_name_of(r, m->pid)));
	}
	native_wrote(r, perfdata_write_itrace_start(native_writer(r), m->pid, m->tid, m->tsc));
}

static void on_fork(const struct native_memory *from, const struct native_message *m,
		    const char *payload)
{
	struct recording *r = from->r;
	const struct process *before = processes_find(&r->processes, m->pid);
	const int32_t parent = (int32_t)m->value; /* it may have ended, and be forgotten */
	const uint64_t forked = m->address && m->address < m->tsc ? m->address : m->tsc;
	char name[16], others[16];

	native_note_parent(r, parent);
	if (before) /* the pid is used again: the process before has died */
		native_bury(r, (size_t)(before - r->processes.list));
	snprintf(others, sizeof(others), "%s", native_name_of(r, parent));
	/* That of the thread that forked; the parent may be another program by now. */
	snprintf(name, sizeof(name), "%s", payload);
	if (!name[0])
		native_read_comm(m->pid, name);
	if (!name[0]) /* it has ended */
		memcpy(name, others, sizeof(name));
	native_add_process(r, m->pid, parent, name, from);
	native_wrote(r,
		     perfdata_write_fork(native_writer(r), m->pid, m->pid, parent, parent, forked));
	if (strcmp(name, others))
		native_wrote(
		    r, perfdata_write_comm(native_writer(r), m->pid, m->pid, forked, false, name));
}

static void on_map(struct recording *r, const struct native_message *m)
{
	native_write_maps(r, m->pid, m->tsc, m->address, m->address + m->size);
}

static void on_comm(struct recording *r, const struct native_message *m, const char *name)
{
	struct process *process = processes_find(&r->processes, m->pid);

	if (process && m->pid == m->tid)
		process_set_name(process, name);
	native_wrote(r, perfdata_write_comm(native_writer(r), m->pid, m->tid, m->tsc, false, name));
}

static void on_code(struct recording *r, const struct native_message *m, const char *bytes)
{
	native_wrote(
	    r, perfdata_add_code(native_writer(r), m->pid, m->tsc, m->address, bytes, m->bytes));
}

static void on_exits(const struct native_memory *from, const struct native_message *m,
		     const char *payload)
{
	const struct process *process = processes_find(&from->r->processes, m->pid);

	native_truth_describe(&from->r->truth, process->program, native_memory_number(from),
			      m->value, payload, m->bytes);
}

static void on_left(struct recording *r, const struct native_message *m, const char *why)
{
	struct process *process = processes_find(&r->processes, m->pid);

	native_set_over(r, m->pid);
	if (process)
		process->untraced = true;
	if (m->pid != r->detaching)
		recorder_note(r->r, "process %d (%s) runs on untraced: %s", m->pid,
			      native_name_of(r, m->pid), why);
}

static void on_fatal(struct recording *r, const struct native_message *m)
{
	const struct recorder_end end = {
	    .signal = (int)m->value,
	    .pid = m->pid,
	    .tid = m->tid,
	    .comm = native_name_of(r, m->pid),
	    .placed = m->size,
	    .ip = m->address,
	};

	recorder_note_end(r->r, &end);
	processes_set_end(&r->processes, r->r, m->pid, end.signal);
}

static void on_reaped(struct recording *r, const struct native_message *m)
{
	const int32_t pid = (int32_t)m->address;
	const struct recorder_end end = {
	    .signal = (int)m->value, .pid = pid, .tid = pid, .comm = native_take_untold(r, pid)};

	if (!end.comm)
		return;
	recorder_note_end(r->r, &end);
	processes_set_end(&r->processes, r->r, pid, end.signal);
}

static void on_ended(struct recording *r, const struct native_message *m)
{
	processes_set_end(&r->processes, r->r, m->pid, (int)(m->value & 0xff) << 8);
}

/* Nobody has seen the program run: another recorder begins again. */
static void on_refused(struct recording *r, const struct native_message *m, const char *why)
{
	if (r->committed || m->pid != r->pid)
		return;
	r->refused = true;
	snprintf(r->r->refusal.text, sizeof(r->r->refusal.text), "%s", why);
}

/* What a program runs, and what it becomes. False: the message is of another kind. */
static bool take_change(struct native_memory *from, const struct native_message *m,
			const char *payload)
{
	struct recording *r = from->r;

	switch (m->type) {
	case NATIVE_MESSAGE_THREAD:
		on_thread(from, m);
		break;
	case NATIVE_MESSAGE_COMM:
		on_comm(r, m, payload);
		break;
	case NATIVE_MESSAGE_MAP:
		on_map(r, m);
		break;
	case NATIVE_MESSAGE_MAPPED:
		native_write_mapped(r, m, payload);
		break;
	case NATIVE_MESSAGE_CODE:
		on_code(r, m, payload);
		break;
	case NATIVE_MESSAGE_FORK:
		on_fork(from, m, payload);
		break;
	case NATIVE_MESSAGE_EXEC:
		native_seize(from, m);
		break;
	case NATIVE_MESSAGE_EXEC_FAILED:
		native_release_process(r, m->pid);
		break;
	case NATIVE_MESSAGE_USER:
		native_seize_to_move(from, m);
		break;
	case NATIVE_MESSAGE_EXITS:
		on_exits(from, m, payload);
		break;
	default:
		return false;
	}
	return true;
}

/* How a program ends, or its recording. */
static void take_end(struct recording *r, const struct native_message *m, const char *payload)
{
	switch (m->type) {
	case NATIVE_MESSAGE_FATAL:
		on_fatal(r, m);
		break;
	case NATIVE_MESSAGE_ENDED:
		on_ended(r, m);
		break;
	case NATIVE_MESSAGE_REAPED:
		on_reaped(r, m);
		break;
	case NATIVE_MESSAGE_LEFT:
		on_left(r, m, payload);
		break;
	case NATIVE_MESSAGE_REFUSED:
		on_refused(r, m, payload);
		break;
	case NATIVE_MESSAGE_COMMITTED:
		r->committed = true;
		break;
	case NATIVE_MESSAGE_NOTE:
		recorder_note(r->r, "%s", payload);
		break;
	default:
		break;
	}
}

/*
 * Whether what the message says of processes and threads is true: the kernel, and what the recorder
 * has seen of them before, say so.
 */
static bool is_true(const struct native_memory *from, const struct native_message *m)
{
	const struct processes *all = &from->r->processes;
	const struct process *process = processes_find(all, m->pid);
	const bool ours = process && process->memory == native_memory_number(from);

	switch (m->type) {
	case NATIVE_MESSAGE_FORK:
		/* perf never ends, or dies, where a process is its own parent's thread, or -1 is. */
		if (!m->value || m->value > INT32_MAX || m->value == (uint64_t)m->pid)
			return false;
		return (!process || !native_is_recorded(from->r, m->pid, m->pid)) &&
		       native_may_begin(from, m->pid);
	case NATIVE_MESSAGE_EXEC:
		return ours || !process;
	case NATIVE_MESSAGE_THREAD:
	case NATIVE_MESSAGE_COMM:
	case NATIVE_MESSAGE_FATAL:
	case NATIVE_MESSAGE_USER:
		return ours && native_has_thread(m->pid, m->tid);
	case NATIVE_MESSAGE_REAPED:
		return ours && (!processes_find(all, (int32_t)m->address) ||
				native_has_ended((int32_t)m->address));
	default:
		return ours;
	}
}

void native_take_message(void *context, const struct native_message *m, const char *payload)
{
	struct native_memory *from = context;
	struct recording *r = from->r;
	struct native_message known = *m;

	if (!is_true(from, m)) {
		from->messages->damaged = true;
		return;
	}
	native_take_time(r);
	if (known.tsc > r->last_tsc)
		known.tsc = r->last_tsc;
	if (!take_change(from, &known, payload))
		take_end(r, &known, payload);
}
