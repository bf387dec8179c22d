/* SPDX-License-Identifier: MIT */
/*
 * A round of the recorder: it waits until programs have done something, and takes their messages
 * and their trace.
 */
#include "record/native/native.h"

#include "support/monotonic.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS	   (INT64_C(10) * 1000000) /* between two looks at chunks that are not FULL */
#define LIVE_ROUND (64u << 10) /* bytes that a round takes where they are decoded meanwhile */
#define USERS_NS   200000      /* a round waits so long where there are several memories */

static void note_damage(struct recording *r)
{
	if (r->damage_noted || !native_is_damaged(r))
		return;
	r->damage_noted = r->streams->damaged = true;
	recorder_note(r->r, "a program has written to the memory that it shares with the recorder: "
			    "parts of the trace may be missing or wrong");
}

static bool any_runs(const struct recording *r)
{
	if (!r->stream_count)
		return true; /* it has just been started */
	STREAMS_EACH (r->streams, i)
		if (r->streams->list[i].used && !streams_has_ended(r->streams, i))
			return true;
	return false;
}

/*
 * Waits for the next event of the programs. Their ends, and stops of those that are seized, are
 * none: where nobody runs, the kernel is asked for ends, and what is seized is looked at often.
 */
static void wait_for_programs(struct recording *r, int timeout_ms)
{
	struct native_header *header = r->memories[0].shared;
	const int64_t seized = timeout_ms ? native_seized_wait(r) : 0;
	struct timespec time = {.tv_nsec = seized ? seized : timeout_ms * 1000000L};

	/* One memory alone can be waited on. */
	if (r->memory_count > 1 && time.tv_nsec > USERS_NS)
		time.tv_nsec = USERS_NS;
	if (timeout_ms && (any_runs(r) || seized)) {
		syscall(SYS_futex, &header->message_event, FUTEX_WAIT, r->event, &time, NULL, 0);
		timeout_ms = 0;
	}
	processes_wait(&r->processes, timeout_ms);
	r->event = __atomic_load_n(&header->message_event, __ATOMIC_ACQUIRE);
}

/* Takes what threads have written that do not fill a chunk for long. */
static void take_early(struct recording *r)
{
	const int64_t now = monotonic_ns();

	if (now - r->looked < LOOK_NS)
		return;
	r->looked = now;
	STREAMS_EACH (r->streams, i)
		streams_take_early(r->streams, i);
}

static void drain_slots(struct recording *r, unsigned from, unsigned to, unsigned *most)
{
	for (unsigned i = streams_after(r->streams, from - 1); i < to;
	     i = streams_after(r->streams, i)) {
		const unsigned before = *most;

		if (streams_drain(r->streams, i, most))
			r->more = true;
		else if (r->ended[i] && r->streams->list[i].used)
			native_finish_thread(r, i, 0);
		else if (r->ended[i])
			streams_give_up(r->streams, i);
		if (*most < before)
			r->first = (i + 1) % r->streams->slots;
	}
}

/*
 * Takes chunks that are FULL. Where they are decoded meanwhile, a round takes a few alone, so that
 * it does not last long. The next round begins behind the last thread of which this one took some:
 * a thread that fills its chunks faster than they are decoded must not keep another from its turn,
 * for which it may be waiting.
 */
static void drain_threads(struct recording *r)
{
	const unsigned slots = r->streams->slots, first = r->first;
	unsigned most = STREAMS_ALL;

	if (r->live)
		most = (LIVE_ROUND + r->streams->chunk_bytes - 1) / r->streams->chunk_bytes;
	r->more = false;
	drain_slots(r, first, slots, &most);
	drain_slots(r, 0, first, &most);
}

static void write_switches(struct recording *r, const struct thread_switch *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		native_wrote(r, perfdata_write_thread_switch(native_writer(r), &list[i].turn,
							     list[i].tsc, list[i].out,
							     list[i].preempted));
}

void native_hold_switches(struct recording *r, bool on)
{
	struct thread_switch *list;
	const size_t n = on || !r->switches ? 0 : switches_take_held(r->switches, &list);

	if (n)
		write_switches(r, list, n);
	r->holds_switches = on;
}

/* Before the trace of what ran between them. */
static void take_switches(struct recording *r)
{
	struct thread_switch *list;
	const size_t n = r->switches ? switches_take(r->switches, &list) : 0;

	if (n && r->holds_switches)
		switches_hold(r->switches);
	else if (n)
		write_switches(r, list, n);
	if (!r->switches || r->switches_lost || !switches_lost(r->switches))
		return;
	r->switches_lost = true;
	recorder_note(r->r, "context switches came faster than they were taken: some are missing");
}

/* False: messages are left. What is known to have ended and what was written come after them. */
static bool take_round(struct recording *r, int timeout_ms)
{
	bool all = true;

	native_forget_programs(r);
	/* The ends are read first: all messages were sent before. */
	wait_for_programs(r, r->more ? 0 : timeout_ms);
	streams_use_claimed(r->streams);
	STREAMS_EACH (r->streams, i)
		r->ended[i] = streams_has_ended(r->streams, i);
	for (unsigned i = 0; i < r->memory_count; i++)
		all &= native_messages_drain(r->memories[i].messages);
	/* Before threads are finished, whose truth it concerns. */
	for (unsigned i = 0; i < r->memory_count; i++)
		native_memory_look(&r->memories[i]);
	if (!all) {
		r->more = true;
		recorder_flush(r->r);
		return false;
	}
	STREAMS_EACH (r->streams, i)
		native_truth_count(&r->truth, &r->truths[i]);
	native_look_at_seized(r);
	pauses_follow(&r->pauses);
	native_take_calls(r);
	take_switches(r);
	drain_threads(r);
	if (r->live)
		take_early(r);
	native_bury_dead(r);
	note_damage(r);
	recorder_flush(r->r);
	return true;
}

/* With a timeout of 0 all that has been sent before is taken, however much comes meanwhile. */
void native_drain(struct recording *r, int timeout_ms)
{
	uint64_t heads[NATIVE_MEMORIES] = {0};
	bool left = true;

	for (unsigned i = 0; i < r->memory_count; i++)
		heads[i] = __atomic_load_n(&r->memories[i].shared->message_head, __ATOMIC_ACQUIRE);
	while (left && !take_round(r, timeout_ms) && !timeout_ms && !recorder_is_late(r->r)) {
		left = false;
		for (unsigned i = 0; i < r->memory_count; i++)
			left |= (int64_t)(heads[i] - r->memories[i].messages->tail) > 0;
	}
}
