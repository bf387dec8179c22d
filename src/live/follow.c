/* SPDX-License-Identifier: MIT */
/* Decodes one stream of a live session as far as its trace is there, once for each purpose. */
#include "live/live.h"

#include "session/span_reader.h"
#include "image/image_access.h"
#include "profile/profile_internal.h"
#include "session/stream.h"
#include "calls/calls.h"

#include <stdlib.h>
#include <string.h>

#define MARKS 512
#define ITEMS 256

static int open_one(struct live_stream *ls, unsigned what, struct stream_decoder **s)
{
	if (!(ls->live->config.what & what))
		return 0;
	return stream_new(ls->live->session, ls->index, s);
}

static int open_calls(struct live_stream *ls)
{
	struct ptah_live *live = ls->live;
	struct ptah_thread who;
	int status = open_one(ls, PTAH_LIVE_CALLS, &ls->calls);

	if (status < 0 || !ls->calls)
		return status;
	status = span_reader_bound(ls->calls, live->functions, true);
	if (status < 0)
		return status;
	if (ls->calls->follow)
		return live_source_new(&ls->source);
	span_times_begin(&ls->times, live->session, &live->session->streams[ls->index]);
	ls->times.queue = &ls->stamps;
	ls->bounds.queue = ls->times.used && live->watch_count ? &ls->bound_stamps : NULL;
	stream_thread(ls->calls, &who);
	pthread_mutex_lock(&live->threads_lock);
	ls->own.thread = call_threads_new(&live->threads, ls->index, &who);
	pthread_mutex_unlock(&live->threads_lock);
	return ls->own.thread ? 0 : PTAH_E_NOMEM;
}

/* `before`: what was counted before the stream was retired, or NULL. */
static int open_counts(struct live_stream *ls, struct stream_decoder *before)
{
	struct ptah_profile_totals totals;
	int status = open_one(ls, PTAH_LIVE_COUNTS, &ls->counts);

	if (status >= 0 && ls->counts)
		status = stream_begin_to_count(ls->counts);
	if (status >= 0 && before)
		status = profile_merge(ls->counts->profile, before->profile);
	if (status >= 0 && before)
		status = ptah_profile_totals(before->profile, &totals);
	if (status >= 0 && before)
		ls->inherited =
		    (struct live_inherited){totals.instructions, totals.errors, totals.overflows};
	stream_free(before);
	return status;
}

int live_open(struct live_stream *ls)
{
	struct stream_decoder *before = ls->counts;
	int status;

	ls->counts = NULL;
	status = open_counts(ls, before);
	if (status >= 0)
		status = open_one(ls, PTAH_LIVE_ITEMS, &ls->items);
	if (status >= 0)
		status = open_calls(ls);
	ls->opened = status >= 0;
	ls->retired = ls->keeps = false;
	return status;
}

void live_close(struct live_stream *ls)
{
	stream_free(ls->counts);
	stream_free(ls->calls);
	stream_free(ls->items);
	span_times_free(&ls->times);
	stamps_free(&ls->stamps);
	stamps_free(&ls->bound_stamps);
	live_tally_free(&ls->own.tally);
	live_watch_free(ls->live, &ls->own);
	live_list_free(&ls->blocks);
	live_list_free(&ls->losses);
	free(ls->source);
	free(ls);
}

/* Keeps the counts without what the profile knows of the code, which is much more. */
static int shrink_counts(struct stream_decoder *s)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .flow = s->config};
	struct ptah_profile *small;
	int status = ptah_profile_new(s->image, &config, &small);

	if (status < 0)
		return status;
	status = profile_merge(small, s->profile);
	if (status < 0) {
		ptah_profile_free(small);
		return status;
	}
	ptah_profile_free(s->profile);
	ptah_flow_free(s->flow);
	s->flow = NULL;
	s->profile = small;
	return 0;
}

/* Gives the counts to the caller. 1: it has taken them; 0, or an error. */
static int give_counts(struct live_stream *ls)
{
	struct ptah_live *live = ls->live;
	struct ptah_live_thread thread;
	int status;

	if (!live->config.on_counts)
		return 0;
	pthread_mutex_lock(&live->callback);
	live_describe(ls, &thread);
	status = live->config.on_counts(live->config.context, &thread, ls->counts->profile);
	pthread_mutex_unlock(&live->callback);
	return status > 0 ? 1 : status;
}

static int retire_counts(struct live_stream *ls, struct live_stream *heir)
{
	struct ptah_profile_totals totals;
	int status = ptah_profile_totals(ls->counts->profile, &totals), taken;

	taken = status < 0 ? status : give_counts(ls);
	if (taken < 0)
		return taken;
	if (!ls->live->config.what || !(ls->live->config.what & PTAH_LIVE_CALLS)) {
		ls->instructions += totals.instructions - ls->inherited.instructions;
		ls->errors += totals.errors - ls->inherited.errors;
		ls->overflows += totals.overflows - ls->inherited.overflows;
	}
	if (taken) {
		ls->inherited = (struct live_inherited){0};
		stream_free(ls->counts);
		ls->counts = NULL;
		return 0;
	}
	if (!heir || !heir->counts)
		return shrink_counts(ls->counts);
	status = profile_merge(heir->counts->profile, ls->counts->profile);
	if (status < 0)
		return status;
	heir->inherited.instructions += totals.instructions;
	heir->inherited.errors += totals.errors;
	heir->inherited.overflows += totals.overflows;
	ls->inherited = (struct live_inherited){0};
	stream_free(ls->counts);
	ls->counts = NULL;
	return 0;
}

int live_retire(struct live_stream *ls, struct live_stream *heir)
{
	struct live_tally *t = &ls->own.tally;
	int status = ls->counts ? retire_counts(ls, heir) : 0;

	stream_free(ls->calls);
	stream_free(ls->items);
	span_times_free(&ls->times);
	stamps_free(&ls->stamps);
	stamps_free(&ls->bound_stamps);
	ls->calls = ls->items = NULL;
	live_watch_free(ls->live, &ls->own);
	ls->own.thread = NULL;
	ls->retired = true;
	ls->opened = false;
	if (status < 0 || !heir)
		return status;
	status = live_tally_merge(&heir->own.tally, t);
	if (status >= 0) {
		const struct live_tally sums = {.total = t->total, .calls = t->calls};

		live_tally_free(t);
		*t = sums;
	}
	return status;
}

static void refresh(struct live_stream *ls, struct stream_decoder *s, size_t pieces, size_t limits)
{
	if (!s)
		return;
	s->stream = &ls->live->session->streams[ls->index];
	s->next_piece -= pieces;
	if (s->follow)
		follow_moved(s, pieces, limits);
	/* The changes of the process and of the kernel may have become more. */
	stream_set_limit(s);
}

void live_refresh(struct live_stream *ls, size_t pieces, size_t limits)
{
	refresh(ls, ls->counts, pieces, limits);
	refresh(ls, ls->calls, pieces, limits);
	refresh(ls, ls->items, pieces, limits);
	if (!ls->own.thread)
		return;
	ls->own.thread->last_change = ls->live->session->streams[ls->index].last;
	ls->own.thread->info.space = ls->live->session->streams[ls->index].info.space;
	call_thread_find_exec(ls->own.thread);
}

int live_take_change(struct live_stream *ls, size_t process, const struct change *change)
{
	struct stream_decoder *const list[] = {ls->counts, ls->calls, ls->items};
	int status = 0;

	for (size_t i = 0; i < 3 && status >= 0; i++)
		if (list[i])
			status = list[i]->follow ? follow_take_change(list[i], process, change)
						 : stream_take_change(list[i], change);
	return status;
}

int live_settle(struct live_stream *ls)
{
	struct stream_decoder *const list[] = {ls->counts, ls->calls, ls->items};
	int status = 0;

	for (size_t i = 0; i < 3 && status >= 0; i++)
		if (list[i] && list[i]->follow)
			status = follow_settle(list[i]);
	for (size_t i = 0; i < 3; i++)
		if (list[i])
			stream_set_limit(list[i]);
	return status;
}

uint64_t live_position(const struct live_stream *ls)
{
	const struct stream_decoder *const list[] = {ls->counts, ls->calls, ls->items};
	/* What was fed may be in use as long as not all that came of it is. */
	uint64_t first = live_source_offset(ls->source);

	for (size_t i = 0; i < 3; i++)
		if (list[i] && list[i]->offset < first)
			first = list[i]->offset;
	return first;
}

void live_trim(struct live_stream *ls)
{
	struct stream_decoder *const list[] = {ls->counts, ls->calls, ls->items};
	struct stream *stream = &ls->live->session->streams[ls->index];
	size_t limits = 0, turn = SESSION_NONE, past;

	while (limits < stream->limit_count && stream->limits[limits].at <= ls->decoded)
		limits++;
	for (size_t i = 0; i < 3; i++)
		if (list[i])
			follow_needs(list[i], &limits, &turn);
	if (limits && stream->limits[limits - 1].tsc > ls->delivered)
		ls->delivered = stream->limits[limits - 1].tsc;
	grow_trim_limits(stream, limits);
	live_refresh(ls, 0, limits);
	/* The turn before the first that is needed is looked at, too. */
	past = ls->live->session->cpus[stream->cpu].gone;
	while (turn != SESSION_NONE && past + 1 < turn &&
	       (!ls->source || live_is_past(ls->live, stream->cpu, past)))
		past++;
	grow_trim_turns(ls->live->session, stream, past);
}

void live_describe(struct live_stream *ls, struct ptah_live_thread *t)
{
	const struct ptah_stream_info *info = &ls->live->session->streams[ls->index].info;
	*t = (struct ptah_live_thread){.size = sizeof(*t),
				       .number = ls->index,
				       .pid = info->pid,
				       .tid = info->tid,
				       .cpu = info->cpu,
				       .space = info->space,
				       .ended = ls->ended || info->has_truth,
				       .tsc = ls->tsc,
				       .bytes = info->bytes,
				       .decoded = ls->decoded,
				       .dropped = ls->dropped,
				       .errors = ls->errors,
				       .overflows = ls->overflows,
				       .instructions = ls->own.tally.total + ls->instructions};
	memcpy(t->comm, info->comm, sizeof(t->comm));
}

/* Counts */

/* Only calls ask which threads may have run. */
static void forget_unsure(struct stream_decoder *s)
{
	s->unsure_from = s->unsure_to = SESSION_NONE;
}

static int decode_counts(struct live_stream *ls)
{
	int status;

	while ((status = stream_count(ls->counts)) > 0)
		;
	forget_unsure(ls->counts);
	return status;
}

/* Items */

void live_note_items(struct live_stream *ls, const struct ptah_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ls->errors += items[i].type == PTAH_ITEM_ERROR;
		ls->overflows += items[i].type == PTAH_ITEM_OVERFLOW;
	}
}

/* The thread that runs in a processor's stream. */
static void describe_turn(const struct stream_decoder *s, struct ptah_live_thread *thread)
{
	struct ptah_thread who;

	stream_thread(s, &who);
	thread->pid = thread->space = who.pid;
	thread->tid = who.tid;
	memcpy(thread->comm, who.comm, sizeof(thread->comm));
}

static int give_items(struct live_stream *ls, const struct ptah_item *items, size_t n)
{
	struct ptah_live *live = ls->live;
	struct ptah_live_thread thread;
	int status;

	if (!live->config.on_items)
		return 0;
	pthread_mutex_lock(&live->callback);
	live_describe(ls, &thread);
	if (ls->items->follow)
		describe_turn(ls->items, &thread);
	status = live->config.on_items(live->config.context, &thread, items, n);
	pthread_mutex_unlock(&live->callback);
	return status;
}

static int decode_items(struct live_stream *ls)
{
	struct ptah_item items[ITEMS];
	int n, status = 0;

	while (status >= 0 && (n = stream_read(ls->items, items, ITEMS)) > 0) {
		if (!ls->calls)
			live_note_items(ls, items, (size_t)n);
		status = give_items(ls, items, (size_t)n);
	}
	forget_unsure(ls->items);
	return status < 0 ? status : n;
}

/* Calls */

/* The thread that ran on a processor. */
static void describe_runner(const struct live_runner *r, struct ptah_live_thread *thread)
{
	thread->pid = r->thread->info.pid;
	thread->tid = r->thread->info.tid;
	thread->space = r->thread->info.space;
	memcpy(thread->comm, r->thread->info.comm, sizeof(thread->comm));
}

int live_give_marks(struct live_stream *ls, struct live_runner *r,
		    const struct ptah_call_mark *marks, size_t n)
{
	struct ptah_live *live = ls->live;
	struct ptah_live_thread thread;
	int status;

	r->tally.waits.absences = r->waits.absences =
	    absences_of(live->session, r->thread->info.tid);
	r->waits.no_switches = !live->session->absences.count;
	status = n ? live_tally_add(&r->tally, marks, n) : 0;

	if (!n || status < 0 || (!live->config.on_calls && !live->watch_count))
		return status;
	pthread_mutex_lock(&live->callback);
	live_describe(ls, &thread);
	if (r != &ls->own)
		describe_runner(r, &thread);
	if (live->config.on_calls)
		status = live->config.on_calls(live->config.context, &thread, marks, n);
	if (live->watch_count && status >= 0)
		status = live_watch(ls, r, &thread, marks, n);
	pthread_mutex_unlock(&live->callback);
	return status;
}

/* A call may have become too long without any other call. */
static int watch_open(struct live_stream *ls, struct live_runner *r, uint64_t instructions)
{
	struct ptah_live *live = ls->live;
	const uint64_t tsc = ls->calls ? stream_flow(ls->calls)->tsc : ls->tsc;
	struct ptah_live_thread thread;
	int status;

	pthread_mutex_lock(&live->callback);
	live_describe(ls, &thread);
	if (r != &ls->own)
		describe_runner(r, &thread);
	status = live_watch_open(ls, r, &thread, tsc, instructions);
	pthread_mutex_unlock(&live->callback);
	return status;
}

int live_reach(struct live_stream *ls, struct live_runner *r)
{
	struct ptah_call_counts counts;
	int status;

	calls_marks_counts(r->thread->calls, &counts);
	status = live_tally_reach(&r->tally, counts.instructions);
	return status < 0 || !r->open ? status : watch_open(ls, r, counts.instructions);
}

int live_end_thread(struct live_stream *ls, struct live_runner *r)
{
	struct ptah_call_mark marks[MARKS];
	int n, status = live_reach(ls, r);

	while (status >= 0 && (n = calls_marks_finish(r->thread->calls, marks, MARKS)) != 0)
		status = n < 0 ? n : live_give_marks(ls, r, marks, (size_t)n);
	call_thread_end(r->thread);
	return status;
}

int live_execute(struct live_stream *ls, struct live_runner *r, uint64_t tsc)
{
	struct ptah_live *live = ls->live;
	struct call_thread *before = r->thread, *next;
	int status;

	pthread_mutex_lock(&live->threads_lock);
	next = call_threads_exec(&live->threads, before);
	pthread_mutex_unlock(&live->threads_lock);
	if (!next)
		return PTAH_E_NOMEM;
	status = call_thread_exec(before, tsc);
	if (status >= 0)
		status = live_end_thread(ls, r);
	r->thread = next;
	live_tally_begin_again(&r->tally);
	r->waits = (struct live_waits){0};
	return status;
}

static int take_spans(struct live_stream *ls, struct ptah_span *spans, size_t n)
{
	struct ptah_call_mark marks[MARKS];
	int status = 0;

	while (n && status >= 0) {
		struct call_thread *t = ls->own.thread;
		size_t part = n, count = 0;
		int used;

		if (!t->begun)
			call_thread_begin(t, spans->tsc);
		if (spans[n - 1].tsc >= t->exec)
			for (part = 0; spans[part].tsc < t->exec; part++)
				;
		if (!part) {
			status = live_execute(ls, &ls->own, spans->tsc);
			continue;
		}
		used = calls_marks_take_spans(t->calls, spans, part, marks, MARKS, &count);
		status = used < 0 ? used : live_give_marks(ls, &ls->own, marks, count);
		spans += used < 0 ? 0 : used;
		n -= used < 0 ? 0 : (size_t)used;
	}
	return status;
}

static int take_item(struct live_stream *ls, const struct ptah_item *item)
{
	struct ptah_call_mark marks[MARKS];
	int used = 0, status = 0;

	live_note_items(ls, item, 1);
	if (!ls->own.thread->begun)
		call_thread_begin(ls->own.thread, item->tsc);
	if (item->tsc >= ls->own.thread->exec)
		status = live_execute(ls, &ls->own, item->tsc);
	while (!used && status >= 0) {
		size_t count = 0;

		used = calls_marks_take(ls->own.thread->calls, item, 1, marks, MARKS, &count);
		status = used < 0 ? used : live_give_marks(ls, &ls->own, marks, count);
	}
	return status;
}

int live_follow_stamps(struct live_stream *ls)
{
	const struct stream *stream = &ls->live->session->streams[ls->index];

	return stamps_follow(&ls->ahead, stream, &ls->stamps,
			     ls->bounds.queue ? &ls->bound_stamps : NULL, &ls->known);
}

/* What is read in one go. */
struct reading {
	struct stream_decoder *stream;
	struct ptah_span spans[SPAN_BATCH];
	struct ptah_item item;
};

/* A read_untimed. */
static int read_for_times(void *context, struct timed_batch *batch)
{
	struct reading *r = context;
	bool is_item;
	const int n = stream_read_spans(r->stream, r->spans, SPAN_BATCH, &r->item, &is_item);

	*batch = (struct timed_batch){
	    .spans = r->spans, .items = &r->item, .generation = image_generation(r->stream->image)};
	if (n > 0)
		*(is_item ? &batch->item_count : &batch->span_count) = (size_t)n;
	return n < 0 ? n : n > 0;
}

static int take_batch(struct live_stream *ls, const struct timed_batch *batch)
{
	int status = 0;

	if (ls->generation != batch->generation) {
		ls->generation = batch->generation;
		call_thread_code_changed(ls->own.thread);
	}
	if (batch->span_count)
		return take_spans(ls, batch->spans, batch->span_count);
	for (size_t i = 0; i < batch->item_count && status >= 0; i++)
		status = take_item(ls, &batch->items[i]);
	return status;
}

static int decode_calls(struct live_stream *ls)
{
	const struct stream *stream = &ls->live->session->streams[ls->index];
	struct reading reading = {.stream = ls->calls};
	struct timed_batch batch;
	uint64_t low, high;
	int n = 0, status = ls->times.used ? live_follow_stamps(ls) : 0;

	while (status >= 0 && (n = span_times_next(&ls->times, stream, read_for_times, &reading,
						   stream->grows, &batch)) > 0)
		status = take_batch(ls, &batch);
	if (status < 0 || n < 0)
		return status < 0 ? status : n;
	ls->tsc = stream_flow(ls->calls)->tsc;
	if (ls->bounds.queue) /* what is before this is not needed any more */
		stamps_bound(&ls->bounds, ls->live->session, stream, ls->times.place, &low, &high);
	return live_reach(ls, &ls->own);
}

int live_end_calls(struct live_stream *ls)
{
	const struct stream *stream = &ls->live->session->streams[ls->index];
	int status = 0;

	if (!ls->own.thread || !ls->own.thread->calls)
		return 0;
	if (stream->process != SESSION_NONE && stream->last != SESSION_NONE)
		status = call_thread_exec(ls->own.thread, 0);
	return status < 0 ? status : live_end_thread(ls, &ls->own);
}

int live_decode(struct live_stream *ls, uint64_t stop)
{
	int status = 0;

	if (ls->counts) {
		ls->counts->stop = stop;
		status = decode_counts(ls);
		ls->tsc = stream_flow(ls->counts)->tsc;
	}
	if (ls->items && status >= 0) {
		ls->items->stop = stop;
		status = decode_items(ls);
		ls->tsc = stream_flow(ls->items)->tsc;
	}
	if (ls->calls)
		ls->calls->stop = stop;
	if (ls->calls && !ls->calls->follow && status >= 0) {
		status = decode_calls(ls);
	}
	return status;
}
