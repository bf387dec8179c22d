/* SPDX-License-Identifier: MIT */
/*
 * Turns what the plugin reports into records: threads, mappings, names and code of the processes
 * under QEMU, and how processes begin and end.
 */
#include "record/qemu/qemu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Processes */

/* Finishes the traces of all threads of a process that has died or called execve. */
static void finish_process(struct recording *r, int32_t pid)
{
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (r->slots[i].used && r->slots[i].pid == pid)
			qemu_finish_thread(r, i);
}

/* Finishes a process that has died. All its messages have been taken. */
static void bury(struct recording *r, size_t i)
{
	struct process *process = &r->processes.list[i];

	finish_process(r, process->pid);
	for (unsigned k = 0; k < SHARED_THREADS; k++) { /* a thread that was about to begin */
		struct shared_thread *t = qemu_slot_thread(r, k);

		if (!r->slots[k].used && t->pid == process->pid)
			atomic_store(&t->state, THREAD_FREE);
	}
	if (process->native)
		recorder_note(r->r, "process %d became %s", process->pid, process->native);
	process_find_end(process, r->r);
	process_tell_end(process, r->r);
	processes_remove(&r->processes, i);
}

void qemu_bury_dead(struct recording *r)
{
	for (size_t i = r->processes.count; i-- > 0;)
		if (r->processes.list[i].dead)
			bury(r, i);
}

/* Messages */

static const char *name_of(const struct recording *r, int32_t pid)
{
	const struct process *process = processes_find(&r->processes, pid);

	return process ? process->name : r->name;
}

static void on_thread(struct recording *r, const struct shared_message *m)
{
	struct slot *slot;

	if (m->value >= SHARED_THREADS || r->slots[m->value].used) {
		qemu_damage(r);
		return;
	}
	slot = &r->slots[m->value];
	*slot = (struct slot){.used = true, .stream = r->streams++, .pid = m->pid, .tid = m->tid};
	r->r->status.threads++;
	if (m->tid != m->pid)
		qemu_keep_status(
		    r, perfdata_write_fork(r->writer, m->pid, m->tid, m->pid, m->pid, m->tsc));
	if (m->tid != m->pid)
		qemu_keep_status(r, perfdata_write_comm(r->writer, m->pid, m->tid, m->tsc, false,
							name_of(r, m->pid)));
	qemu_keep_status(r, perfdata_write_itrace_start(r->writer, m->pid, m->tid, m->tsc));
}

void qemu_add_process(struct recording *r, int32_t pid, int32_t parent, const char *name)
{
	if (!processes_add(&r->processes, pid, parent, name))
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
	r->r->status.processes++;
}

static void on_fork(struct recording *r, const struct shared_message *m)
{
	int32_t parent = (int32_t)m->value, thread = (int32_t)m->address;
	const struct process *before = processes_find(&r->processes, m->pid);
	char name[16];

	if (before) /* the pid is used again: the process before has died */
		bury(r, (size_t)(before - r->processes.list));
	snprintf(name, sizeof(name), "%s", name_of(r, parent));
	qemu_add_process(r, m->pid, parent, name);
	qemu_keep_status(r, perfdata_write_fork(r->writer, m->pid, m->pid, parent, thread, m->tsc));
}

/* The process runs another program: all threads of the program before have ended. */
static void on_exec(struct recording *r, const struct shared_message *m, const char *name)
{
	struct process *process = processes_find(&r->processes, m->pid);

	if (!process)
		return;
	process_set_name(process, name);
	free(process->native);
	process->native = NULL;
	r->exec = true;
	finish_process(r, m->pid);
	r->exec = false;
	qemu_keep_status(
	    r, perfdata_write_comm(r->writer, m->pid, m->pid, m->tsc, true, process->name));
}

static void on_native(struct recording *r, int32_t pid, const char *text)
{
	struct process *process = processes_find(&r->processes, pid);

	if (!process)
		return;
	free(process->native);
	process->native = text ? strdup(text) : NULL;
}

static void on_comm(struct recording *r, const struct shared_message *m, const char *name)
{
	struct process *process = processes_find(&r->processes, m->pid);

	if (process && m->pid == m->tid)
		process_set_name(process, name);
	qemu_keep_status(r, perfdata_write_comm(r->writer, m->pid, m->tid, m->tsc, false, name));
}

static void on_map(struct recording *r, const struct shared_message *m, const char *payload)
{
	struct perfdata_mapping mapping;

	memcpy(&mapping, payload, sizeof(mapping));
	qemu_keep_status(r, perfdata_write_mmap2(r->writer, m->pid, m->pid, m->tsc, &mapping,
						 payload + sizeof(mapping)));
}

static void on_fatal(struct recording *r, const struct shared_message *m)
{
	const struct recorder_end end = {
	    .signal = m->value < NSIG ? (int)m->value : 0,
	    .pid = m->pid,
	    .tid = m->tid,
	    .comm = name_of(r, m->pid),
	    .placed = m->size,
	    .ip = m->address,
	};

	recorder_note_end(r->r, &end);
	processes_set_end(&r->processes, r->r, m->pid, end.signal);
}

static void on_call(struct recording *r, const struct shared_message *m, const char *payload)
{
	uint64_t begin = 0;
	struct call_origin origin = {
	    .pid = m->pid, .tid = m->tid, .last = &begin, .latest = r->last_tsc};
	uint8_t *bytes = call_samples_room(&r->calls, m->bytes);
	int status = PTAH_E_NOMEM;

	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (r->slots[i].used && r->slots[i].tid == m->tid)
			origin.last = &r->slots[i].call_time;
	if (bytes) {
		memcpy(bytes, payload, m->bytes);
		status = call_samples_take(&r->calls, m->bytes, &origin);
	}
	if (status > 0)
		qemu_damage(r);
	if (status < 0)
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, status, "out of memory");
}

static bool is_id(uint64_t value)
{
	return value > 0 && value <= INT32_MAX;
}

/*
 * False: the plugin sends no such message, or what it contains would be refused by the writer, or
 * is more than perf can take: perf 6.1 dies of a parent whose thread id is -1, and removes a thread
 * that is its own parent twice, after which it never ends.
 */
static bool is_sound(const struct shared_message *m, const char *payload, bool no_calls)
{
	const size_t before_path = sizeof(struct perfdata_mapping);

	if (m->pid <= 0 || m->tid < 0) /* 0: a thread that is not traced */
		return false;
	switch (m->type) {
	case MESSAGE_THREAD:
		return m->tid > 0;
	case MESSAGE_CALL:
		return m->tid > 0 && m->bytes && !no_calls;
	case MESSAGE_CODE:
		return m->bytes > 0;
	case MESSAGE_MAP:
		return m->bytes >= before_path && strlen(payload + before_path) < SHARED_PATH;
	case MESSAGE_FORK:
		return is_id(m->value) && is_id(m->address) && m->address != (uint64_t)m->pid;
	default:
		return true;
	}
}

static void on_message(struct recording *r, const struct shared_message *m, const char *payload)
{
	if (!is_sound(m, payload, r->constants->flags & SHARED_NO_CALLS)) {
		qemu_damage(r);
		return;
	}
	if (m->tsc > r->last_tsc)
		r->last_tsc = m->tsc;
	switch (m->type) {
	case MESSAGE_THREAD:
		on_thread(r, m);
		break;
	case MESSAGE_COMM:
		on_comm(r, m, payload);
		break;
	case MESSAGE_MAP:
		on_map(r, m, payload);
		break;
	case MESSAGE_CODE:
		qemu_keep_status(
		    r, perfdata_add_code(r->writer, m->pid, m->tsc, m->address, payload, m->bytes));
		break;
	case MESSAGE_FORK:
		on_fork(r, m);
		break;
	case MESSAGE_EXEC:
		on_exec(r, m, payload);
		break;
	case MESSAGE_NATIVE:
		on_native(r, m->pid, payload);
		break;
	case MESSAGE_NATIVE_FAILED:
		on_native(r, m->pid, NULL);
		break;
	case MESSAGE_NOTE:
		qemu_add_note(r, payload);
		break;
	case MESSAGE_CALL:
		on_call(r, m, payload);
		break;
	case MESSAGE_FATAL:
		on_fatal(r, m);
		break;
	case MESSAGE_ENDED:
		processes_set_end(&r->processes, r->r, m->pid, (int)(m->value & 0xff) << 8);
		break;
	default:
		break;
	}
}

static void take_report_bytes(struct recording *r, uint64_t position, void *bytes, size_t n)
{
	const uint8_t *ring = shared_messages(r->shared);
	size_t at = position % SHARED_MESSAGES;
	size_t first = n < SHARED_MESSAGES - at ? n : SHARED_MESSAGES - at;

	memcpy(bytes, ring + at, first);
	memcpy((uint8_t *)bytes + first, ring, n - first);
}

static uint64_t padded_size(const struct shared_message *m)
{
	return (sizeof(*m) + m->bytes + 7) & ~UINT64_C(7);
}

/*
 * The next message is found by the size of the one before. So when one makes no sense, all that
 * have been sent are dropped, and reading continues with what is sent from now on.
 */
void qemu_drain_messages(struct recording *r)
{
	uint64_t head = atomic_load_explicit(&r->shared->message_head, memory_order_acquire);
	uint64_t tail = r->message_tail;
	char payload[SHARED_MESSAGE_MAX + 1];

	while (tail != head) {
		struct shared_message m;

		if (head - tail < sizeof(m) || head - tail > SHARED_MESSAGES) {
			qemu_damage(r);
			tail = head;
			break;
		}
		take_report_bytes(r, tail, &m, sizeof(m));
		atomic_signal_fence(memory_order_seq_cst); /* m is what is checked and used */
		if (m.bytes > SHARED_MESSAGE_MAX || head - tail < padded_size(&m)) {
			qemu_damage(r);
			tail = head;
			break;
		}
		take_report_bytes(r, tail + sizeof(m), payload, m.bytes);
		payload[m.bytes] = '\0';
		on_message(r, &m, payload);
		tail += padded_size(&m);
	}
	r->message_tail = tail;
	atomic_store_explicit(&r->shared->message_tail, tail, memory_order_release);
	if (call_samples_pass(&r->calls, r->r, r->buffer) < 0)
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
}
