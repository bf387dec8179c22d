/* SPDX-License-Identifier: MIT */
/*
 * The slots of the shared memory, and the traces of the threads in them: what has come of a trace
 * is written or kept, and when the thread has ended, the rest and what it has run.
 */
#include "record/native/native.h"

#include "record/simulated/simulated.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

unsigned native_claim_slot(const struct native_memory *memory)
{
	struct native_streams *s = memory->r->streams;
	const unsigned first = native_memory_number(memory) * NATIVE_THREADS;

	unsigned i = first;

	for (; i < first + NATIVE_THREADS; i++) {
		uint32_t free_state = NATIVE_SLOT_FREE;

		if (!s->list[i].used &&
		    __atomic_compare_exchange_n(&streams_thread(s, i)->state, &free_state,
						NATIVE_SLOT_ACTIVE, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			break;
	}
	if (i == first + NATIVE_THREADS)
		return NATIVE_SLOTS;
	streams_use(s, i);
	return i;
}

void native_give_slot_back(const struct recording *r, unsigned slot)
{
	__atomic_store_n(&streams_thread(r->streams, slot)->state, NATIVE_SLOT_FREE,
			 __ATOMIC_RELEASE);
}

static void write_trace(struct recording *r, const struct native_stream *s, const uint8_t *bytes,
			size_t n)
{
	if (!n)
		return;
	native_wrote(r, perfdata_write_auxtrace(native_writer(r), s->stream, s->tid, bytes, n));
	r->r->status.trace_bytes += n;
}

/* n bytes have arrived that begin and end with a packet. */
static void take_trace(struct recording *r, const struct native_stream *s, const uint8_t *bytes,
		       size_t n)
{
	struct kept *kept = &r->kept[s - r->streams->list];
	size_t fits;

	switch (r->r->config.buffer.policy) {
	case PTAH_RECORD_SNAPSHOT:
		if (!native_end_add(&kept->end, r->buffer, bytes, n))
			recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
		break;
	case PTAH_RECORD_STOP_WHEN_FULL:
		if (kept->full)
			break;
		fits = native_fits(bytes, n, r->buffer - kept->written);
		kept->full = fits < n;
		kept->written += fits;
		write_trace(r, s, bytes, fits);
		break;
	default:
		write_trace(r, s, bytes, n);
	}
}

/* Writes what is kept of a thread whose end alone is, and what it is just writing. */
static void write_end(struct recording *r, unsigned slot, size_t looked)
{
	const struct kept *kept = &r->kept[slot];
	size_t n = native_end_get(&kept->end, r->buffer, r->joined);

	memcpy(r->joined + n, r->streams->bytes, looked);
	write_trace(r, &r->streams->list[slot], r->joined, n + looked);
}

/* Whether trace of the thread is missing in the recording, so that the truth is not of that. */
static bool is_part(struct recording *r, const struct kept *kept)
{
	if (kept->full)
		recorder_note(r->r, SIMULATED_NOTE_FULL, r->buffer);
	else if (kept->end.total > r->buffer)
		recorder_note(r->r, SIMULATED_NOTE_END, r->buffer, kept->end.total);
	return kept->full || kept->end.total > r->buffer || kept->snapped;
}

/* All of the thread's trace has arrived. Whether the recording has all of it. */
static bool write_kept(struct recording *r, unsigned slot)
{
	struct kept *kept = &r->kept[slot];
	const bool part = is_part(r, kept);

	if (r->r->config.buffer.policy == PTAH_RECORD_SNAPSHOT)
		write_end(r, slot, 0);
	native_end_free(&kept->end);
	*kept = (struct kept){.full = false};
	return !part;
}

void native_take_bytes(void *context, const struct native_stream *s, unsigned log,
		       const uint8_t *bytes, size_t n)
{
	struct recording *r = context;

	if (log == NATIVE_LOG_EXITS)
		native_truth_keep(&r->truth, &r->truths[s - r->streams->list], bytes, n);
	else
		take_trace(r, s, bytes, n);
}

/*
 * What the second log says of a thread whose trace has arrived. complete: all of it is in the
 * recording, and the runtime itself has ended it, or it was killed in a system call. One that was
 * killed elsewhere may have logged exits whose packets lead to no outcome any more.
 */
static void write_truth(struct recording *r, unsigned slot, bool complete)
{
	const struct native_stream *s = &r->streams->list[slot];
	struct ptah_truth truth;

	if (complete)
		native_truth_count(&r->truth, &r->truths[slot]);
	if (r->flags & NATIVE_TRUTH && complete && !native_is_damaged(r) &&
	    native_truth_get(&r->truth, &r->truths[slot], &truth))
		native_wrote(
		    r, perfdata_add_truth(native_writer(r), s->stream, s->pid, s->tid, &truth, 0));
	r->r->status.instructions += r->truths[slot].instructions;
	free(r->truths[slot].pending);
	r->truths[slot] = (struct native_truth_thread){0};
}

/* Those that a child was born with are the child's as well, and are kept. */
void native_end_program(struct recording *r, struct process *process)
{
	if (!(r->flags & NATIVE_TRUTH))
		return;
	if (!process->forked && r->ended_program_count < NATIVE_ENDED_PROGRAMS)
		r->ended_programs[r->ended_program_count++] =
		    (struct ended_program){process->pid, process->program};
	process->forked = false;
	process->program = native_truth_begin(&r->truth);
}

void native_note_parent(struct recording *r, int32_t parent)
{
	struct process *process = processes_find(&r->processes, parent);
	size_t n = 0;

	if (process)
		process->forked = true;
	for (size_t i = 0; i < r->ended_program_count; i++)
		if (r->ended_programs[i].pid != parent)
			r->ended_programs[n++] = r->ended_programs[i];
	r->ended_program_count = n;
}

/*
 * A child that nobody knows of has a slot since before its parent ended. Called before messages are
 * taken, with programs that ended in rounds before.
 */
void native_forget_programs(struct recording *r)
{
	if (!r->ended_program_count || streams_any_unknown(r->streams))
		return;
	while (r->ended_program_count)
		native_truth_forget(&r->truth, r->ended_programs[--r->ended_program_count].program);
}

void native_finish_thread(struct recording *r, unsigned slot, int32_t exec)
{
	const struct native_stream s = r->streams->list[slot];
	const struct process *process = processes_find(&r->processes, s.pid);
	const int32_t parent = process ? process->parent : s.pid;
	const bool ended = streams_has_ended(r->streams, slot);
	bool complete;

	streams_finish(r->streams, slot, r->rest_taken || s.pid == r->detaching);
	r->ended[slot] = false; /* the slot may have another thread before the round ends */
	complete = write_kept(r, slot);
	write_truth(r, slot, complete && (ended || s.tid == exec || r->streams->list[slot].closed));
	if (!exec || s.tid != s.pid)
		native_wrote(r, perfdata_write_exit(native_writer(r), s.pid, s.tid, parent, parent,
						    r->last_tsc));
}

void native_finish_process(struct recording *r, int32_t pid, int32_t exec)
{
	native_take_calls(r);
	STREAMS_EACH (r->streams, i)
		if (r->streams->list[i].used && r->streams->list[i].pid == pid)
			native_finish_thread(r, i, exec);
}

bool native_has_more(const struct recording *r, int32_t pid)
{
	STREAMS_EACH (r->streams, i)
		if (r->more && r->streams->list[i].pid == pid && streams_has_more(r->streams, i))
			return true;
	return false;
}

void native_write_ends(struct recording *r)
{
	native_take_calls(r);
	call_samples_write_kept(&r->calls, r->r);
	STREAMS_EACH (r->streams, i) {
		unsigned all = STREAMS_ALL;

		if (!r->streams->list[i].used)
			continue;
		streams_drain(r->streams, i, &all);
		write_end(r, i, streams_look(r->streams, i));
		r->kept[i].snapped = true;
	}
}
