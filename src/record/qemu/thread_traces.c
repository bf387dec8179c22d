/* SPDX-License-Identifier: MIT */
/*
 * Moves the threads' traces from shared memory into the recording, and finishes each trace,
 * whichever way its process ended.
 */
#include "record/qemu/qemu.h"

#include "support/monotonic.h"
#include "base/path_hash.h"
#include "record/simulated/simulated.h"

#include <ptah/packet.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_trace(struct recording *r, const struct slot *slot, const uint8_t *bytes,
			size_t n)
{
	if (!n)
		return;
	qemu_keep_status(r, perfdata_write_auxtrace(r->writer, slot->stream, slot->tid, bytes, n));
	r->r->status.trace_bytes += n;
}

/* Copies the bytes [from, to) of a thread's trace, at most a buffer full. */
static void copy_trace(const struct recording *r, struct shared_thread *t, uint64_t from,
		       uint64_t to, uint8_t *bytes)
{
	const uint8_t *buffer = shared_buffer(t);
	size_t at = from % r->buffer, n = to - from;
	size_t first = n < r->buffer - at ? n : r->buffer - at;

	memcpy(bytes, buffer + at, first);
	memcpy(bytes + first, buffer, n - first);
}

void qemu_leave_alone(struct recording *r, unsigned i)
{
	atomic_store(&qemu_slot_thread(r, i)->tail, SHARED_LEFT_ALONE);
}

void qemu_drain_published(struct recording *r, unsigned i)
{
	struct shared_thread *t = qemu_slot_thread(r, i);
	struct slot *slot = &r->slots[i];
	uint64_t position = atomic_load_explicit(&t->published, memory_order_acquire), from;

	if (position == slot->tail)
		return;
	if (position < slot->tail || position - slot->tail > r->buffer) {
		qemu_damage(r);
		slot->damaged = true;
		return;
	}
	from = slot->early > slot->tail ? slot->early : slot->tail;
	if (from < position) {
		copy_trace(r, t, from, position, r->joined);
		write_trace(r, slot, r->joined, position - from);
	}
	slot->tail = position;
	atomic_store_explicit(&t->tail, position, memory_order_release);
}

/* Whether there seems to be something new: only a hint, because the thread may run. */
static bool has_written(struct shared_thread *t, const struct slot *slot)
{
	const uint64_t end = t->live.m.bytes + shared_staged(&t->live.m);

	return end != (slot->early > slot->tail ? slot->early : slot->tail);
}

/* Takes the trace up to where the state *s has it. False: it makes no sense. */
static bool take_up_to(struct recording *r, struct shared_thread *t, struct slot *slot,
		       const struct shared_state *s)
{
	const uint64_t position = s->m.bytes, staged = shared_staged(&s->m);
	const uint64_t from = slot->early > slot->tail ? slot->early : slot->tail;

	if (position < slot->tail || position - slot->tail > r->buffer ||
	    staged > SIMULATED_STAGING || position + staged < from)
		return false;
	copy_trace(r, t, slot->tail, position, r->joined);
	memcpy(r->joined + (position - slot->tail), shared_staging(t), staged);
	write_trace(r, slot, r->joined + (from - slot->tail), position + staged - from);
	slot->early = position + staged;
	return true;
}

/*
 * What the processor stages counts, too: at a system call all packets are written. The thread may
 * be killed later while it writes, and is finished from its checkpoint then, which has to have what
 * was taken.
 */
void qemu_take_early(struct recording *r, unsigned i)
{
	struct shared_thread *t = qemu_slot_thread(r, i);
	struct slot *slot = &r->slots[i];
	uint32_t parked = PARK_PARKED;
	struct shared_state s;

	if (!slot->used || slot->damaged || slot->claimed || r->damaged || !has_written(t, slot) ||
	    !atomic_compare_exchange_strong(&t->park, &parked, PARK_CLAIMED))
		return;
	if (!qemu_take_state(r, i, false, &s)) {
		qemu_damage(r);
	} else if (!(s.m.status & PTAH_RTIT_STATUS_STOPPED)) {
		t->checkpoint = s;
		slot->damaged = !take_up_to(r, t, slot, &s);
		if (slot->damaged)
			qemu_damage(r);
	}
	atomic_store(&t->park, PARK_PARKED);
}

/*
 * The number of bytes of whole packets from the PSB at `at` on. A buffer that was full may have cut
 * the last packet.
 */
static size_t whole_packets(const uint8_t *at, size_t n)
{
	struct ptah_packet packet;
	size_t done = 0;
	int size;

	while ((size = ptah_packet_decode(&packet, at + done, n - done, 0)) > 0)
		done += (size_t)size;
	return done;
}

/* The packets of an interruption before the block that was to run next. */
static void end_packets(struct shared_state *s)
{
	struct ptah_generator *g = &s->m.g;

	if (s->m.unmarked) { /* as model_emit_marks() */
		generator_async_disable(g, s->m.unmarked_ip);
		generator_enable(g, s->m.unmarked_ip);
		generator_async_disable(g, s->m.unmarked_to);
		generator_enable(g, s->m.unmarked_to);
	}
	generator_async_disable(g, s->next_ip);
}

void qemu_write_rest(struct recording *r, struct shared_thread *t, struct slot *slot,
		     struct shared_state *s)
{
	uint64_t tail = slot->tail, staged;
	bool stopped =
	    s->m.status &
	    PTAH_RTIT_STATUS_STOPPED; /* the staged bytes were dropped by the processor */
	uint64_t position = s->m.bytes;
	size_t n = 0, skipped = 0;
	uint64_t whole;
	uint8_t *end;

	if (r->policy == PTAH_RECORD_SNAPSHOT && position > r->buffer)
		tail = position - r->buffer;
	if (slot->damaged || position < tail || position - tail > r->buffer) {
		qemu_damage(r);
		return;
	}
	copy_trace(r, t, tail, position, r->joined);
	n = position - tail;
	staged = shared_staged(&s->m);
	if (!stopped && staged <= SIMULATED_STAGING) {
		memcpy(r->joined + n, shared_staging(t), staged);
		n += staged;
	}
	end = r->joined + n;
	whole = tail + n;
	s->m.g.out = end;
	if (s->m.packet_en && !stopped)
		end_packets(s);
	n += (size_t)(s->m.g.out - end);
	if (slot->early > tail) {
		skipped = slot->early - tail;
		if (skipped > whole - tail) {
			qemu_damage(r);
			return;
		}
	}
	if (r->policy == PTAH_RECORD_SNAPSHOT && (tail || slot->snapped)) {
		/*
		 * The buffer begins inside a packet, or the last snapshot took its beginning: start
		 * at the next PSB.
		 */
		const uint64_t from = slot->snapped > tail ? slot->snapped : tail;
		const uint8_t *psb =
		    from < whole ? ptah_packet_find_psb(r->joined + (from - tail), end) : NULL;

		skipped = psb ? (size_t)(psb - r->joined) : n;
		if (slot->snapped && psb)
			qemu_keep_status(
			    r, perfdata_skip_auxtrace(r->writer, slot->stream,
						      tail + skipped - slot->snapped + 8));
	}
	slot->snapped = whole;
	if (stopped)
		n = skipped + whole_packets(r->joined + skipped, n - skipped);
	write_trace(r, slot, r->joined + skipped, n - skipped);
}

/* The thread's time at its end, computed as by plugin_clock(). */
static uint64_t end_time(const struct recording *r, const struct shared_state *s)
{
	if (!(r->constants->flags & SHARED_CLOCK_HOST))
		return s->instructions + s->lift;
	return (uint64_t)monotonic_ns();
}

/*
 * Whether the trace lacks its beginning or its end, so that the truth cannot be compared with it.
 */
static bool is_part(struct recording *r, const struct shared_state *s)
{
	char text[160];

	if (r->policy == PTAH_RECORD_SNAPSHOT && s->m.bytes > r->buffer) {
		snprintf(text, sizeof(text), SIMULATED_NOTE_END, r->buffer, s->m.bytes);
	} else if (r->policy == PTAH_RECORD_STOP_WHEN_FULL &&
		   s->m.status & PTAH_RTIT_STATUS_STOPPED && s->m.bytes >= r->buffer) {
		snprintf(text, sizeof(text), SIMULATED_NOTE_FULL, r->buffer);
	} else {
		return false;
	}
	qemu_add_note(r, text);
	return true;
}

static void write_exit(struct recording *r, const struct slot *slot)
{
	const struct process *process = processes_find(&r->processes, slot->pid);
	int32_t parent = process ? process->parent : slot->pid;

	qemu_keep_status(
	    r, perfdata_write_exit(r->writer, slot->pid, slot->tid, parent, parent, r->last_tsc));
}

bool qemu_take_state(const struct recording *r, unsigned i, bool torn, struct shared_state *s)
{
	const struct shared_thread *t = qemu_slot_thread(r, i);
	const uint64_t guard = r->constants->guard;
	uint8_t enabled;

	memcpy(s, torn ? &t->checkpoint : &t->live, sizeof(*s));
	atomic_signal_fence(memory_order_seq_cst); /* *s is what is checked and used from here on */
	memcpy(&enabled, &s->m.packet_en, 1);
	s->m.packet_en = enabled != 0;
	return t->guard == guard && s->first_guard == guard && s->last_guard == guard;
}

void qemu_finish_thread(struct recording *r, unsigned i)
{
	struct shared_thread *t = qemu_slot_thread(r, i);
	struct slot *slot = &r->slots[i];
	bool part = slot->snapped; /* snapshots have taken parts of it */
	bool torn = t->busy && !slot->claimed;
	struct shared_state s;
	struct ptah_truth truth;
	struct path_hash path;

	if (!qemu_take_state(r, i, torn, &s))
		qemu_damage(r);
	truth = (struct ptah_truth){
	    .instructions = s.instructions,
	    .conditional = s.counts[PTAH_INSN_COND],
	    .indirect = s.counts[PTAH_INSN_JUMP_IND] + s.counts[PTAH_INSN_CALL_IND],
	    .returns = s.counts[PTAH_INSN_RETURN],
	};
	path = (struct path_hash){s.hash, s.run_start, s.next_ip};
	qemu_write_rest(r, t, slot, &s);
	if (torn)
		qemu_add_note(
		    r, "a thread was killed while it wrote its trace: its last moments are not "
		       "recorded");
	if (end_time(r, &s) > r->last_tsc)
		r->last_tsc = end_time(r, &s);
	truth.path_hash = path_hash_value(&path);
	r->instructions += s.instructions;
	r->r->status.instructions = r->instructions;
	if (!is_part(r, &s) && !part && !r->damaged)
		qemu_keep_status(r, perfdata_add_truth(r->writer, slot->stream, slot->pid,
						       slot->tid, &truth, s.lost));
	if (!r->exec || slot->tid != slot->pid)
		write_exit(r, slot);
	r->slots[i].used = false;
	t->pid = 0;
	atomic_store(&t->state, THREAD_FREE);
}
