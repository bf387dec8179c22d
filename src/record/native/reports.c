/* SPDX-License-Identifier: MIT */
/* What the runtimes report of their programs: each message becomes records, or is answered. */
#include "record/native/native.h"

#include <stdio.h>

static void on_thread(struct recording *r, const struct native_message *m)
{
	char name[16] = "";

	if (!streams_begin(r->streams, m->value, m->pid, m->tid, r->stream_count))
		return;
	r->stream_count++;
	r->r->status.threads++;
	r->controls[m->value] = m->address;
	pauses_begin_thread(&r->pauses, (unsigned)m->value, m->address, m->size);
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

static void on_fork(struct recording *r, const struct native_message *m)
{
	const int32_t parent = (int32_t)m->value;
	const struct process *before = processes_find(&r->processes, m->pid);
	char name[16];

	if (before) /* the pid is used again: the process before has died */
		native_bury(r, (size_t)(before - r->processes.list));
	snprintf(name, sizeof(name), "%s", native_name_of(r, parent));
	native_add_process(r, m->pid, parent, name);
	native_wrote(r,
		     perfdata_write_fork(native_writer(r), m->pid, m->pid, parent, parent, m->tsc));
}

static void on_map(struct recording *r, const struct native_message *m)
{
	if (processes_find(&r->processes, m->pid))
		native_write_maps(r, m->pid, m->tsc, m->address, m->address + m->size);
	native_messages_answer(r->messages);
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

static void on_exec_failed(struct recording *r, const struct native_message *m)
{
	native_release_process(r, m->pid);
}

static void on_left(struct recording *r, const struct native_message *m, const char *why)
{
	native_set_over(r, m->pid);
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
static bool take_change(struct recording *r, const struct native_message *m, const char *payload)
{
	switch (m->type) {
	case NATIVE_MESSAGE_THREAD:
		on_thread(r, m);
		break;
	case NATIVE_MESSAGE_COMM:
		on_comm(r, m, payload);
		break;
	case NATIVE_MESSAGE_MAP:
		on_map(r, m);
		break;
	case NATIVE_MESSAGE_CODE:
		on_code(r, m, payload);
		break;
	case NATIVE_MESSAGE_FORK:
		on_fork(r, m);
		break;
	case NATIVE_MESSAGE_EXEC:
		native_seize(r, m);
		break;
	case NATIVE_MESSAGE_EXEC_FAILED:
		on_exec_failed(r, m);
		break;
	case NATIVE_MESSAGE_EXITS:
		native_truth_describe(&r->truth, m->value, payload, m->bytes);
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

void native_take_message(void *context, const struct native_message *m, const char *payload)
{
	struct recording *r = context;

	if (m->tsc > r->last_tsc)
		r->last_tsc = m->tsc;
	if (!take_change(r, m, payload))
		take_end(r, m, payload);
}
