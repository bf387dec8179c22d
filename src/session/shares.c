/* SPDX-License-Identifier: MIT */
/* Divides streams into shares: see shares.h. */
#include "session/shares.h"

#include <stdlib.h>

/* Adds a share to the stream, after `before`, or as the first. */
static struct share *add(struct shared_stream *stream, struct share *before, uint64_t from)
{
	struct share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	share->from = share->claimed = from;
	share->next = before ? before->next : stream->first;
	if (before)
		before->next = share;
	else
		stream->first = share;
	share->all = stream->all;
	stream->all = share;
	stream->unfinished++;
	return share;
}

/* Adds `n` shares, the first of which is the stream's beginning. */
static int cut(struct shared_stream *stream, unsigned n)
{
	struct share *last = NULL;

	for (unsigned i = 0; i < n; i++) {
		last = add(stream, last, stream->bytes / n * i);
		if (!last)
			return PTAH_E_NOMEM;
	}
	stream->first->found = stream->first->verified = stream->first->timed = true;
	stream->first->segment =
	    (struct segment){.stream = stream->index, .whole_start = true, .stop = UINT64_MAX};
	return 0;
}

int shares_open(struct shared_stream *stream, unsigned most, uint64_t slot)
{
	stream->opened = true;
	if (most > stream->bytes / slot)
		most = (unsigned)(stream->bytes / slot);
	return cut(stream, stream->whole || !most ? 1 : most);
}

void shares_free(struct shared_stream *stream)
{
	while (stream->all) {
		struct share *next = stream->all->all;

		free(stream->all);
		stream->all = next;
	}
	while (stream->partials) {
		struct partial *next = stream->partials->next;

		profile_free_part(&stream->partials->part);
		free(stream->partials);
		stream->partials = next;
	}
	stream->first = NULL;
}

struct share *shares_take(struct shared_stream *stream)
{
	for (struct share *s = stream->first; s; s = s->next) {
		if (!s->taken) {
			s->taken = true;
			return s;
		}
	}
	return NULL;
}

uint64_t shares_end(const struct share *share)
{
	return share->next ? share->next->from : UINT64_MAX;
}

/* The part of a share that nobody has claimed. */
static uint64_t left_of(const struct shared_stream *stream, const struct share *share)
{
	const uint64_t end = share->next ? share->next->from : stream->bytes;

	return share->taken && share->found && !share->done && end > share->claimed
		   ? end - share->claimed
		   : 0;
}

struct share *shares_largest(const struct shared_stream *stream, uint64_t *bytes)
{
	struct share *largest = NULL;

	*bytes = 0;
	if (stream->whole || stream->undivided || stream->failures >= SHARES_MOST_FAILURES)
		return NULL;
	for (struct share *s = stream->first; s; s = s->next) {
		const uint64_t left = left_of(stream, s);

		if (left > *bytes) {
			*bytes = left;
			largest = s;
		}
	}
	return largest;
}

bool shares_are_found(const struct shared_stream *stream)
{
	for (const struct share *s = stream->first; s; s = s->next)
		if (!s->found && !s->done)
			return false;
	return true;
}

struct share *shares_split(struct shared_stream *stream, struct share *share)
{
	const uint64_t left = left_of(stream, share);
	struct share *half = add(stream, share, share->claimed + (left - left / 2));

	if (half)
		half->taken = true;
	return half;
}

/* Takes the share that follows `before` out of the stream. */
static void unlink_next(struct shared_stream *stream, struct share *before)
{
	struct share *share = before->next;

	before->next = share->next;
	stream->unfinished -= !share->done;
	share->removed = true;
}

void shares_remove(struct shared_stream *stream, struct share *share)
{
	struct share *before = stream->first;

	while (before->next != share)
		before = before->next;
	unlink_next(stream, before);
	stream->failures++;
}

enum share_step shares_step(struct shared_stream *stream, struct share *share, uint64_t reached,
			    uint64_t slot, uint64_t *stop)
{
	uint64_t end;

	/* What nobody has begun needs no seam. */
	while (share->next && !share->next->taken)
		unlink_next(stream, share);
	end = shares_end(share);
	if (share->claimed < reached && reached != UINT64_MAX)
		share->claimed =
		    reached; /* the next share, up to whose beginning this went, is gone */
	if (!share->next && (stream->whole || reached == UINT64_MAX)) {
		*stop = UINT64_MAX;
		return reached == UINT64_MAX ? SHARE_DONE : SHARE_COUNT;
	}
	if (share->claimed < end) {
		const uint64_t most = share->next ? end : stream->bytes;

		share->claimed += slot < most - share->claimed ? slot : most - share->claimed;
		if (!share->next && share->claimed == stream->bytes)
			share->claimed = UINT64_MAX;
		*stop = share->claimed;
		return SHARE_COUNT;
	}
	if (!share->next->found)
		return SHARE_WAIT;
	*stop = share->next->segment.start;
	return reached == *stop ? SHARE_PROVE : SHARE_COUNT;
}

bool shares_prove(struct shared_stream *stream, struct share *share, const struct flow_state *end,
		  size_t changes, size_t later)
{
	struct share *next = share->next;
	struct partial *partial = next->partial;

	next->timed = segment_follows(&next->segment, end, changes, true);
	/* Counts depend on the time only where the image changes; see also jobs.c about errors. */
	next->verified = next->timed || (next->segment.changes == later &&
					 segment_follows(&next->segment, end, changes, false));
	if (next->verified)
		return true;
	unlink_next(stream, share);
	stream->failures++;
	if (partial)
		shares_spoil(stream, partial);
	return false;
}

void shares_finish(struct shared_stream *stream, struct share *share)
{
	share->done = true;
	stream->unfinished--;
}

void shares_abandon(struct share *share)
{
	share->taken = share->removed;
	share->partial = NULL;
	share->claimed =
	    share->found && !share->segment.whole_start ? share->segment.stop : share->from;
}

/* Takes a partial sum that was handed over out of the list and frees it. */
static void drop(struct shared_stream *stream, struct partial *partial)
{
	for (struct partial **p = &stream->partials; *p; p = &(*p)->next) {
		if (*p != partial)
			continue;
		*p = partial->next;
		profile_free_part(&partial->part);
		free(partial);
		return;
	}
}

void shares_spoil(struct shared_stream *stream, struct partial *partial)
{
	partial->spoiled = true;
	for (struct share *s = stream->first; s; s = s->next) {
		if (s->partial != partial || !s->done)
			continue;
		s->done = false;
		stream->unfinished++;
		shares_abandon(s);
	}
	drop(stream, partial);
}

int shares_restart(struct shared_stream *stream)
{
	while (stream->first) {
		struct share *s = stream->first;

		stream->first = s->next;
		s->removed = true;
		if (s->partial) {
			s->partial->spoiled = true;
			drop(stream, s->partial);
		}
	}
	stream->unfinished = 0;
	stream->undivided = true;
	return cut(stream, 1);
}

void shares_add_partial(struct shared_stream *stream, struct partial *partial)
{
	struct partial **at = &stream->partials;

	while (*at && (*at)->from < partial->from)
		at = &(*at)->next;
	partial->next = *at;
	*at = partial;
}

bool shares_are_complete(const struct shared_stream *stream)
{
	return stream->opened && !stream->unfinished && !stream->busy && !stream->open_partials;
}

/* Its counts can be added to another's by a job: the address spaces have no numbers. */
static bool is_simple(const struct partial *p)
{
	return p->part.space_count == 1;
}

struct partial *shares_pair(const struct shared_stream *stream, bool *more)
{
	*more = false;
	for (struct partial *p = stream->partials; p; p = p->next) {
		*more = *more || p->merging;
		if (p->next && !p->merging && !p->next->merging && is_simple(p) &&
		    is_simple(p->next))
			return p;
	}
	return NULL;
}

void shares_merged(struct partial *first)
{
	struct partial *second = first->next;

	first->next = second->next;
	first->merging = false;
	free(second);
}
