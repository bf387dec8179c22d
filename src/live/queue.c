/* SPDX-License-Identifier: MIT */
/*
 * Takes pieces from a recorder and queues copies of them, round by round. When more trace waits
 * than may, the recorder waits here, or trace is left out.
 */
#include "live/live.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "support/list.h"
#include "support/monotonic.h"

#include <ptah/packet.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * A recorder that marks no rounds, or no more of them: after so many times the queue, a round is
 * taken to have ended. One that marks them may have many processors, of each of which a round
 * brings a buffer.
 */
#define FORCED_ROUND 4
#define MARKED_ROUND (UINT64_C(256) << 20)

uint64_t live_now(void)
{
	return (uint64_t)monotonic_ns();
}

void live_list_init(struct live_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

void live_list_add(struct live_list *list, struct live_entry *entry)
{
	entry->next = NULL;
	*list->last = entry;
	list->last = &entry->next;
}

void live_list_move(struct live_list *to, struct live_list *from)
{
	if (!from->first)
		return;
	*to->last = from->first;
	to->last = from->last;
	live_list_init(from);
}

void live_list_free(struct live_list *list)
{
	while (list->first) {
		struct live_entry *entry = list->first;

		list->first = entry->next;
		free(entry);
	}
	live_list_init(list);
}

int live_fail(struct ptah_live *live, int status, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&live->lock);
	if (live->status >= 0) {
		live->status = status;
		va_start(args, format);
		vsnprintf(live->why.text, sizeof(live->why.text), format, args);
		va_end(args);
		pthread_cond_broadcast(&live->changed);
	}
	status = live->status;
	pthread_mutex_unlock(&live->lock);
	return status;
}

static struct live_entry *new_entry(enum live_entry_kind kind, const void *bytes, size_t size)
{
	struct live_entry *e = malloc(sizeof(*e) + size);

	if (!e)
		return NULL;
	*e = (struct live_entry){.kind = kind, .when = live_now(), .size = size};
	if (size)
		memcpy(e->bytes, bytes, size);
	return e;
}

/* The mark of a round: what the one before it has left may be decoded. Called with the lock. */
static void end_round(struct ptah_live *live, struct live_entry *mark)
{
	live_list_add(&live->queue, mark);
	live->ready_bytes += live->held_bytes;
	live->held_bytes = live->round_bytes;
	live->round_bytes = 0;
	live->rounds_queued++;
	live->figures.rounds++;
	pthread_cond_broadcast(&live->changed);
}

static int mark_round(struct ptah_live *live)
{
	struct live_entry *e = new_entry(LIVE_ROUND, NULL, 0);

	if (!e)
		return PTAH_E_NOMEM;
	pthread_mutex_lock(&live->lock);
	end_round(live, e);
	pthread_mutex_unlock(&live->lock);
	return 0;
}

/*
 * Whether more trace waits to be decoded than may. What can only be decoded when more has come does
 * not count. Called with the lock.
 */
static bool is_full(const struct ptah_live *live)
{
	return live->ready_bytes > live->config.queue &&
	       live->ready_bytes - live->config.queue > live->waiting_bytes;
}

bool live_is_full(struct ptah_live *live)
{
	bool full;

	pthread_mutex_lock(&live->lock);
	full = is_full(live);
	pthread_mutex_unlock(&live->lock);
	return full;
}

/* Waits until less trace waits than may. */
static int wait_for_room(struct ptah_live *live)
{
	uint64_t since = 0;
	int status;

	for (;;) {
		pthread_mutex_lock(&live->lock);
		if (is_full(live) && !since)
			since = live_now();
		while (live->crew && is_full(live) && live->status >= 0)
			pthread_cond_wait(&live->changed, &live->lock);
		status = live->status < 0 ? live->status : is_full(live);
		if (status <= 0 && since)
			live->figures.waited += live_now() - since;
		pthread_mutex_unlock(&live->lock);
		if (status <= 0)
			return status;
		live_enter(live);
		status = live_step(live);
		live_leave(live);
		if (status < 0)
			return status;
	}
}

/* Whether it is the end of a round. */
static bool is_mark(struct ptah_live *live, const uint8_t *bytes, size_t size)
{
	const uint32_t type = load_le32(bytes);

	if (type == PERFDATA_FINISHED_ROUND)
		return !live->marks_rounds;
	if (type != PERFDATA_HEADER_EVENT_TYPE || size < PERFDATA_RECORD_HEADER + 12 ||
	    load_le32(bytes + 8) != PERFDATA_PTAH_MAGIC ||
	    load_le32(bytes + 16) != PERFDATA_PTAH_ROUND)
		return false;
	live->marks_rounds = true;
	return true;
}

int live_put_record(struct ptah_live *live, const uint8_t *bytes, size_t size)
{
	struct live_entry *e;
	int status;

	if (size < PERFDATA_RECORD_HEADER || size > UINT16_MAX)
		return live_fail(live, PTAH_E_BAD_FILE, "a record of %zu bytes is not one", size);
	if (is_mark(live, bytes, size)) {
		live->marked = true;
		status = mark_round(live);
		return status < 0 ? live_fail(live, status, "out of memory")
		       : live->config.policy == PTAH_LIVE_WAIT ? wait_for_room(live)
							       : 0;
	}
	e = new_entry(LIVE_RECORD, bytes, size);
	if (!e)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	pthread_mutex_lock(&live->lock);
	live_list_add(&live->queue, e);
	live->figures.records++;
	live->figures.memory += sizeof(*e) + size;
	status = live->status;
	if (live->figures.memory - live->figures.behind > live->config.memory && status >= 0) {
		pthread_mutex_unlock(&live->lock);
		return live_fail(live, PTAH_E_LIMIT,
				 "what describes the recording takes more memory than %llu bytes",
				 (unsigned long long)live->config.memory);
	}
	pthread_mutex_unlock(&live->lock);
	return status;
}

/* Trace that is left out */

static struct live_drop *drop_of(struct ptah_live *live, uint32_t stream)
{
	for (size_t i = 0; i < live->drop_count; i++)
		if (live->drops[i].stream == stream)
			return &live->drops[i];
	if (!LIST_ROOM(live->drops, live->drop_count, live->drop_capacity))
		return NULL;
	live->drops[live->drop_count] = (struct live_drop){.stream = stream};
	return &live->drops[live->drop_count++];
}

/* Begins, or goes on, to leave out trace. Called with the lock. 0 or PTAH_E_NOMEM. */
static int leave_out(struct ptah_live *live, struct live_drop *d, const struct live_entry *e,
		     uint64_t size)
{
	if (!d->dropping) {
		d->loss = new_entry(LIVE_LOSS, NULL, 0);
		if (!d->loss)
			return PTAH_E_NOMEM;
		d->loss->stream = e->stream;
		d->loss->tid = e->tid;
		d->loss->cpu = e->cpu;
		d->loss->offset = e->offset;
		d->dropping = true;
		live->figures.losses++;
	}
	d->loss->until = e->when;
	d->loss->size += size;
	live->figures.dropped += size;
	return 0;
}

/*
 * Whether trace has to be left out, *skip: how many bytes of this piece. Leaving out ends with a
 * PSB. Called with the lock.
 */
static int choose_left_out_bytes(struct ptah_live *live, struct live_entry *e, uint64_t *skip)
{
	const uint64_t all = live->ready_bytes + live->held_bytes + live->round_bytes;
	const uint64_t waits = all > live->waiting_bytes ? all - live->waiting_bytes : 0;
	struct live_drop *d = drop_of(live, e->stream);
	const uint8_t *psb;
	int status;

	*skip = 0;
	if (!d)
		return PTAH_E_NOMEM;
	if (!d->dropping && waits <= live->config.queue)
		return 0;
	psb = d->dropping && waits <= live->config.queue / 2
		  ? ptah_packet_find_psb(e->bytes, e->bytes + e->size)
		  : NULL;
	*skip = psb ? (uint64_t)(psb - e->bytes) : e->size;
	status = leave_out(live, d, e, *skip);
	if (status < 0 || !psb)
		return status;
	live_list_add(&live->queue, d->loss);
	d->loss = NULL;
	d->dropping = false;
	return 0;
}

/* Adds trace to the queue. Called with the lock. */
static int queue_trace(struct ptah_live *live, struct live_entry *e)
{
	uint64_t skip = 0;
	int status =
	    live->config.policy == PTAH_LIVE_DROP ? choose_left_out_bytes(live, e, &skip) : 0;

	live->figures.bytes += e->size;
	if (status < 0 || skip == e->size) {
		free(e);
		return status;
	}
	memmove(e->bytes, e->bytes + skip, e->size - skip);
	e->offset += skip;
	e->size -= skip;
	live_list_add(&live->queue, e);
	live->round_bytes += e->size;
	live->figures.behind += e->size;
	live->figures.memory += e->size;
	return 0;
}

int live_put_trace(struct ptah_live *live, uint32_t stream, int32_t tid, int32_t cpu,
		   uint64_t offset, const uint8_t *bytes, size_t size)
{
	struct live_entry *e;
	bool force;
	int status;

	for (size_t n; size; bytes += n, offset += n, size -= n) {
		n = size < SESSION_PIECE_MAX ? size : SESSION_PIECE_MAX;
		e = new_entry(LIVE_TRACE, bytes, n);
		if (!e)
			return live_fail(live, PTAH_E_NOMEM, "out of memory");
		e->stream = stream;
		e->tid = tid;
		e->cpu = cpu;
		e->offset = offset;
		pthread_mutex_lock(&live->lock);
		status = queue_trace(live, e);
		force = live->round_bytes / FORCED_ROUND > live->config.queue &&
			(!live->marked || live->round_bytes > MARKED_ROUND);
		pthread_mutex_unlock(&live->lock);
		if (status < 0)
			return live_fail(live, status, "out of memory");
		if (force && mark_round(live) < 0)
			return live_fail(live, PTAH_E_NOMEM, "out of memory");
		if (force && live->config.policy == PTAH_LIVE_WAIT && wait_for_room(live) < 0)
			return live->status;
	}
	return live->status;
}

int live_sink_take(void *context, const struct ptah_record_piece *piece)
{
	struct ptah_live *live = context;
	const struct ptah_record_sink *tee = live->config.tee;
	int status = tee && tee->take ? tee->take(tee->context, piece) : 0;

	if (status < 0)
		return live_fail(live, status, "%s",
				 status == PTAH_E_LIMIT
				     ? "the records that are kept beside it take too much memory"
				     : "the file beside it could not be written");
	switch (piece->kind) {
	case PTAH_RECORD_PIECE_TRACE:
		return live_put_trace(live, piece->stream, piece->tid, piece->cpu, piece->offset,
				      piece->bytes, piece->size);
	case PTAH_RECORD_PIECE_RECORD:
		return live_put_record(live, piece->bytes, piece->size);
	default:
		return live->status;
	}
}

int live_sink_ended(void *context, int32_t pid, int wait_status)
{
	const struct ptah_live *live = context;
	const struct ptah_record_sink *tee = live->config.tee;

	return tee && tee->ended ? tee->ended(tee->context, pid, wait_status) : 0;
}

/* What is taken is not decoded yet: a step may last. Called with the lock. */
static void note_oldest(struct ptah_live *live)
{
	for (const struct live_entry *e = live->queue.first; e && !live->oldest; e = e->next)
		if (e->kind == LIVE_TRACE)
			live->oldest = e->when;
}

bool live_take_rounds(struct ptah_live *live, struct live_list *rounds)
{
	bool all;

	live_list_init(rounds);
	pthread_mutex_lock(&live->lock);
	if (live->rounds_queued || live->finishing)
		note_oldest(live);
	all = live->finishing;
	if (all) {
		live_list_move(rounds, &live->queue);
		live->rounds_queued = 0;
	}
	while (live->rounds_queued) {
		struct live_entry *e = live->queue.first;

		live->queue.first = e->next;
		if (!e->next)
			live->queue.last = &live->queue.first;
		live->rounds_queued -= e->kind == LIVE_ROUND;
		live_list_add(rounds, e);
	}
	pthread_mutex_unlock(&live->lock);
	return all;
}
