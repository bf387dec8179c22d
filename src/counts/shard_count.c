/* SPDX-License-Identifier: MIT */
/*
 * Counts a part of recordings.
 *
 * In each stream a part is a range from one place at which a decode can begin to another
 * (segment_find()). The range is counted by a decoder that begins there and knows nothing of the
 * trace before it, so that its state may not be the one to which that trace leads: no processor
 * state is missing from PSB+, but a decoder that comes from before may still be a few branches
 * before the PSB's address, or a loss may come before it. The previous part finds that out. At its
 * end it compares its state with that of a decoder that begins there. If they differ, both go on
 * until they do not. What the one counts there is added to the part, and what the other one counts,
 * which is what the next part counts there, is subtracted.
 *
 * So the sum of all ranges from any one on is what a decoder counts that begins with that range and
 * goes on to the end of the stream: by induction from the last range on. From the first range on it
 * is what one process counts.
 */
#include "base/bits.h"
#include "counts/shard_internal.h"

#include "perfdata/message.h"
#include "session/stream.h"
#include "session/window.h"
#include "profile/profile_internal.h"

#include <errno.h>
#include <stdlib.h>

/* The decoders of two states are compared after so many bytes, then twice as many, and so on. */
#define STEP 65536

/* What a part is being counted with. */
struct counter {
	const struct ptah_shard_source *source;
	const struct ptah_session *session;
	struct shard_recording *into;
	uint64_t before; /* bytes of trace that were counted before this range */
	size_t stream;
	/* The decoder of the range, one that begins at its end, and one that looks for places. */
	struct stream_decoder *own, *next, *finder;
	struct segment begin, end; /* where the range begins and ends */
	bool has_end;		   /* it does not end with the stream */
	struct shard_range range;
};

/* Digests of states */

static uint64_t digest(const struct flow_state *s, size_t changes)
{
	const uint64_t words[] = {
	    s->in_tx,	   s->enabled_known, s->enabled,     (uint16_t)s->lost_return,
	    s->mode,	   s->speculative,   s->event_mode,  s->iflag,
	    s->ratio,	   s->old_calls,     s->stack_depth, s->offset,
	    s->ip,	   s->last_ip,	     s->far_back,    s->named.cr3,
	    s->named.vmcs, s->space.cr3,     s->space.vmcs,  changes};
	uint64_t hash = COUNTS_CHECKSUM_BEGIN;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words) + s->stack_depth; i++) {
		const size_t k = sizeof(words) / sizeof(*words);
		uint8_t bytes[8];

		store_le64(bytes, i < k ? words[i] : s->sites[i - k]);
		hash = counts_checksum_on(hash, bytes, sizeof(bytes));
	}
	return hash;
}

static uint64_t digest_of(const struct stream_decoder *s)
{
	struct flow_state state;

	flow_save_state(stream_flow(s), &state);
	return digest(&state, stream_applied(s));
}

/*
 * Whether two decoders count the same from here on. Their times matter only if code has yet to
 * change; the cycles since the beginning never do.
 */
static bool agree(const struct stream_decoder *a, const struct stream_decoder *b)
{
	struct flow_state x, y;

	flow_save_state(stream_flow(a), &x);
	flow_save_state(stream_flow(b), &y);
	x.time.total_cycles = y.time.total_cycles = 0;
	return stream_applied(a) == stream_applied(b) &&
	       flow_same_state(&x, &y, stream_later(a) > stream_applied(a));
}

/* Decoding */

static int end_early(const struct counter *c, const struct stream_decoder *s)
{
	const struct ptah_shard_source *source = c->source;

	return source->progress && !source->progress(source->context, c->before + s->offset)
		   ? PTAH_E_LIMIT
		   : 0;
}

/*
 * Counts up to where the stream is to stop or, with `to_error`, to the next error. Bytes that were
 * fed and not decoded come first.
 */
static int count_until_stop(const struct counter *c, struct stream_decoder *s, bool to_error)
{
	struct ptah_profile_totals totals = {0};
	int status = profile_resume(s->profile);

	s->paused = status == PROFILE_PAUSED;
	while (status >= 0 && (status = end_early(c, s)) >= 0) {
		if (to_error)
			status = ptah_profile_totals(s->profile, &totals);
		if (status < 0 || totals.errors)
			break;
		status = stream_count(s);
		if (status <= 0)
			break;
	}
	return status < 0 ? status : 0;
}

/*
 * Makes *s a decoder that counts, with counts of 0, at the first place from `offset` on where one
 * can begin. 1, 0 if there is none, or an error.
 */
static int go_to(const struct counter *c, struct stream_decoder **s, uint64_t offset,
		 struct segment *segment)
{
	int status = stream_renew_counted(c->session, c->stream, s);

	return status < 0 ? status : segment_find(*s, offset, UINT64_MAX, segment);
}

/* Brings the decoder of the range to its beginning, and makes it stop at its end. */
static int enter_range(struct counter *c)
{
	int status = stream_renew_counted(c->session, c->stream, &c->own);

	c->begin.stop = c->has_end ? c->end.start : UINT64_MAX;
	if (status >= 0)
		status = segment_enter(c->own, &c->begin);
	if (status >= 0)
		status = ptah_profile_reset(c->own->profile);
	return status;
}

/* Continues after the end of the range until the states of the two decoders agree. */
static int go_on_until_they_agree(struct counter *c)
{
	uint64_t step = STEP;
	int status = ptah_profile_reset(c->next->profile);

	while (status >= 0 && !agree(c->own, c->next)) {
		struct segment place = {.start = UINT64_MAX};
		/* The second one has been fed bytes up to its offset. */
		const uint64_t at =
		    c->next->offset > c->own->offset ? c->next->offset : c->own->offset;

		status = go_to(c, &c->finder, at + step, &place);
		step *= 2;
		if (status < 0)
			break;
		c->own->stop = c->next->stop = status ? place.start : UINT64_MAX;
		status = count_until_stop(c, c->own, false);
		if (status >= 0)
			status = count_until_stop(c, c->next, false);
		if (c->own->stop == UINT64_MAX)
			break;
	}
	return status;
}

/* Keeping what was counted */

static int keep_range_counts(struct counter *c, struct ptah_counts *counts,
			     struct stream_decoder *s, struct ptah_profile_totals *totals)
{
	int status = ptah_profile_totals(s->profile, totals);

	return status < 0 ? status
			  : ptah_counts_add_stream(counts, c->session, c->stream, s->profile);
}

/*
 * The first error of the trace after the range, of which errors that the next part counts are
 * subtracted: decodes on to it, or to the end of the stream. Nothing of this is counted.
 */
static int settle(struct counter *c, struct ptah_profile_totals *totals)
{
	int status = ptah_profile_reset(c->own->profile);

	c->own->stop = UINT64_MAX;
	if (status >= 0)
		status = count_until_stop(c, c->own, true);
	if (status >= 0)
		status = ptah_profile_totals(c->own->profile, totals);
	c->range.flags |= RANGE_SETTLED;
	return status;
}

/* Adds the range that was counted to the part. */
static int keep_range(struct counter *c, bool corrected)
{
	struct ptah_profile_totals totals, others = {0};
	struct shard_range *range = shard_add_range(c->into);
	int status = range ? keep_range_counts(c, c->into->plus, c->own, &totals) : PTAH_E_NOMEM;

	if (status >= 0 && corrected)
		status = keep_range_counts(c, c->into->minus, c->next, &others);
	if (status >= 0 && others.errors && !totals.errors)
		status = settle(c, &totals);
	if (status < 0)
		return status;
	if (totals.errors) {
		c->range.flags |= RANGE_HAS_ERROR;
		c->range.first_error = counts_timeless(&totals.first_error);
	}
	*range = c->range;
	return 0;
}

static int count_range(struct counter *c)
{
	bool corrected = false;
	int status = enter_range(c);

	if (status >= 0 && !c->begin.whole_start) {
		c->range.from = c->begin.start;
		c->range.begin = digest_of(c->own);
	}
	if (status >= 0)
		status = count_until_stop(c, c->own, false);
	if (status >= 0 && c->has_end) {
		c->range.to = c->end.start;
		c->range.end = digest_of(c->next);
		corrected = !agree(c->own, c->next);
		if (corrected)
			status = go_on_until_they_agree(c);
	}
	return status < 0 ? status : keep_range(c, corrected);
}

/* Counts the part [from, to) of a stream; `to` UINT64_MAX: to its end. */
static int count_stream(struct counter *c, uint64_t from, uint64_t to)
{
	const struct stream *stream = &c->session->streams[c->stream];
	int status = 1;

	c->range = (struct shard_range){
	    .stream = c->stream,
	    .to = UINT64_MAX,
	    .space = session_has_spaces(c->session, stream) ? -1 : stream->info.space};
	c->begin = (struct segment){.stream = c->stream, .whole_start = !from};
	if (from)
		status = go_to(c, &c->finder, from, &c->begin);
	if (status <= 0)
		return status;
	status = to == UINT64_MAX ? 0 : go_to(c, &c->next, to, &c->end);
	c->has_end = status > 0;
	if (status < 0 || (from && c->has_end && c->begin.start >= c->end.start))
		return status < 0 ? status : 0;
	return count_range(c);
}

/*
 * Which threads ran when in a stream that processes share is found out from its beginning on: such
 * a stream is in the part in which it begins.
 */
static int count_whole(struct counter *c, uint64_t from)
{
	return from ? 0 : count_stream(c, 0, UINT64_MAX);
}

static bool is_wanted(const struct ptah_shard_recording *r, size_t stream)
{
	return !r->wants || r->wants(r->context, r->session, stream);
}

/* Counts what is in [from, to) of the trace of all streams that are wanted. */
static int count_streams(struct counter *c, const struct ptah_shard_recording *r, uint64_t from,
			 uint64_t to)
{
	uint64_t at = 0;
	int status = 0;

	for (c->stream = 0; c->stream < c->session->stream_count && status >= 0; c->stream++) {
		const struct stream *stream = &c->session->streams[c->stream];
		const uint64_t bytes = stream->info.bytes, begin = from > at ? from - at : 0;

		if (!is_wanted(r, c->stream))
			continue;
		/* An empty stream is where it begins; the part that ends the recording has its end.
		 */
		if (begin < bytes + !begin && at < to) {
			status =
			    stream_is_shared(stream)
				? count_whole(c, begin)
				: count_stream(c, begin, to - at < bytes ? to - at : UINT64_MAX);
			c->before += (to - at < bytes ? to - at : bytes) - begin;
		}
		at += bytes;
	}
	return status;
}

static uint64_t wanted_bytes(const struct ptah_shard_recording *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->session->stream_count; i++)
		bytes += is_wanted(r, i) ? r->session->streams[i].info.bytes : 0;
	return bytes;
}

/* Distinguishes recordings of the same size. */
static uint64_t digest_session(const struct ptah_session *session)
{
	uint64_t hash = COUNTS_CHECKSUM_BEGIN;

	for (size_t i = 0; i < session->stream_count; i++) {
		const struct ptah_stream_info *info = &session->streams[i].info;
		uint8_t bytes[24 + sizeof(info->comm)];

		store_le64(bytes, info->bytes);
		store_le32(bytes + 8, (uint32_t)info->pid);
		store_le32(bytes + 12, (uint32_t)info->tid);
		store_le64(bytes + 16, (uint64_t)info->cpu);
		memcpy(bytes + 24, info->comm, sizeof(info->comm));
		hash = counts_checksum_on(hash, bytes, sizeof(bytes));
	}
	return hash;
}

static int locate(struct shard_recording *into, const struct ptah_shard_recording *r)
{
	/* First errors are those of the ranges. */
	for (size_t i = 0; i < into->plus->count; i++)
		memset(&into->plus->processes[i].events.first_error, 0, sizeof(struct ptah_item));
	for (size_t i = 0; i < into->minus->count; i++)
		memset(&into->minus->processes[i].events.first_error, 0, sizeof(struct ptah_item));
	return r->find ? ptah_counts_locate(into->plus, r->find, r->context) : 0;
}

static int count_session(struct counter *c, const struct ptah_shard_plan *plan, uint32_t part,
			 const struct ptah_shard_recording *r, struct ptah_message *why)
{
	uint64_t from, to;
	int status;

	if (session_has_window(r->session))
		return perfdata_message(why, PTAH_E_INVAL, "a part of a window is not counted");
	c->session = r->session;
	c->into->digest = digest_session(r->session);
	shard_plan_range(plan, part, c->into->index, &from, &to, wanted_bytes(r));
	status = count_streams(c, r, from, to);
	stream_free(c->own);
	stream_free(c->next);
	stream_free(c->finder);
	c->own = c->next = c->finder = NULL;
	if (status >= 0)
		status = locate(c->into, r);
	if (status >= 0)
		status = shard_cancel(c->into);
	return status < 0
		   ? perfdata_message(why, status, "%s: %s", plan->recordings[c->into->index].path,
				      ptah_strerror(status))
		   : 0;
}

static int count_recording(struct counter *c, const struct ptah_shard_plan *plan, uint32_t part,
			   struct ptah_message *why)
{
	const struct ptah_shard_source *source = c->source;
	struct ptah_shard_recording r = {0};
	int status = source->open(source->context, plan->recordings[c->into->index].path, &r, why);

	if (status < 0 && source->keep_going && status != PTAH_E_NOMEM) {
		c->into->unread = true;
		shard_forget_counts(c->into);
		return 0;
	}
	if (status < 0)
		return status;
	status = count_session(c, plan, part, &r, why);
	source->close(source->context, &r);
	return status;
}

static int count_part(struct counter *c, const struct ptah_shard_plan *plan, uint32_t part,
		      struct ptah_shard *shard, struct ptah_message *why)
{
	int status = 0;

	for (size_t i = 0; i < plan->count && status >= 0; i++) {
		const char *name = shard_name(plan->recordings[i].path);

		if (!shard_plan_touches(plan, part, i))
			continue;
		c->into = shard_add_recording(shard, (uint32_t)i, name, strlen(name));
		status = c->into ? count_recording(c, plan, part, why)
				 : perfdata_message(why, PTAH_E_NOMEM, "out of memory");
	}
	return status;
}

static int count_shard_part(const struct ptah_shard_plan *plan, uint32_t part,
			    const struct ptah_shard_source *source, struct ptah_shard **shard,
			    struct ptah_message *why)
{
	struct counter counter = {.source = source};
	struct ptah_shard *s = NULL;
	int status;

	if (!plan || !part || part > plan->parts || !source || source->size < sizeof(*source) ||
	    !source->open || !source->close || !shard)
		return PTAH_E_INVAL;
	status = shard_new(&s, plan->parts, (uint32_t)plan->count, plan->digest);
	if (status < 0)
		return perfdata_message(why, status, "out of memory");
	s->bits[(part - 1) / 8] |= (uint8_t)(1 << (part - 1) % 8);
	s->present = 1;
	status = count_part(&counter, plan, part, s, why);
	if (status < 0) {
		ptah_shard_free(s);
		return status;
	}
	*shard = s;
	return 0;
}

int ptah_shard_count(const struct ptah_shard_plan *plan, uint32_t part,
		     const struct ptah_shard_source *source, struct ptah_shard **shard,
		     struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, count_shard_part(plan, part, source, shard, why));
}
