/* SPDX-License-Identifier: MIT */
/*
 * Reads a stream as spans. With jobs, its segments are read ahead, as in parallel_reader.c.
 */
#include "session/span_reader.h"

#include "session/jit.h"
#include "session/window.h"

#include "base/compiler.h"
#include "base/hash.h"
#include "image/image_access.h"

#include <stdlib.h>

/* Segments: a span for each 2 to 8 bytes of trace, so that a segment fills a few chunks. */
#define SEGMENT (UINT64_C(64) << 10)

/*
 * Segments whose calls are summarized: so large that joining them costs little, and so many that no
 * job waits long for the others at the end.
 */
#define SUMMARY_MIN (UINT64_C(64) << 10)
#define SUMMARY_MAX (UINT64_C(1) << 20)
#define PER_JOB	    8

/* Bounds of functions by branch, so that the finder, which has a lock, is seldom called. */
#define BOUNDS 4096

struct span_bounds {
	struct ptah_functions *functions;
	uint64_t generation; /* of the image and of the finder: neither becomes less */
	struct {
		uint64_t ip, low, high; /* low = high: not known */
		uint32_t space;
		bool used;
	} entries[BOUNDS];
};

static bool find_bounds(void *context, unsigned space, uint64_t ip, uint64_t *low, uint64_t *high)
{
	struct stream_decoder *s = context;
	struct span_bounds *b = s->bounds;
	const uint64_t generation = image_generation(s->image) + functions_generation(b->functions);
	const size_t slot = (size_t)(hash_number(ip + space) >> 52) % BOUNDS;
	struct ptah_function f;

	if (b->generation != generation) {
		b->generation = generation;
		memset(b->entries, 0, sizeof(b->entries));
	}
	if (!b->entries[slot].used || b->entries[slot].ip != ip ||
	    b->entries[slot].space != space) {
		if (!ptah_functions_find(b->functions, stream_space(s, space), ip, s->flow->tsc,
					 &f))
			f.low = f.high = 0;
		b->entries[slot].used = true;
		b->entries[slot].ip = ip;
		b->entries[slot].space = space;
		b->entries[slot].low = f.low;
		b->entries[slot].high = f.high;
	}
	*low = b->entries[slot].low;
	*high = b->entries[slot].high;
	return *low != *high;
}

int span_reader_bound(struct stream_decoder *s, struct ptah_functions *functions, bool event_spans)
{
	s->event_spans = event_spans;
	if (s->bounds && s->bounds->functions == functions && s->flow->bounds)
		return 0;
	if (!s->bounds)
		s->bounds = malloc(sizeof(*s->bounds));
	if (!s->bounds)
		return PTAH_E_NOMEM;
	memset(s->bounds, 0, sizeof(*s->bounds));
	s->bounds->functions = functions;
	flow_set_bounds(s->flow, find_bounds, s);
	return 0;
}

#define CHUNK_ENTRIES (CHUNK_WORDS * sizeof(uint64_t) / sizeof(union span_entry))

static union span_entry *entries_of(struct chunk *chunk)
{
	return (union span_entry *)chunk->words;
}

/* A flow numbers address spaces as it meets them: what has a number can be read by none but one. */
static bool has_space(const union span_entry *entry, int n, bool is_item)
{
	if (is_item)
		return entry->item.type == PTAH_ITEM_ERROR && entry->item.code.space;
	for (int i = 0; i < n; i++)
		if (entry[i].span.space)
			return true;
	return false;
}

static int read_segment(struct pool *pool, struct stream_decoder *s, struct task *task)
{
	const struct ptah_reader *r = pool->context;
	int n = span_reader_bound(s, r->functions, true);
	struct chunk *chunk = NULL;

	if (n >= 0)
		n = task_enter(task, s);
	while (n >= 0 && !task->unfit && !pool->stop) {
		union span_entry *entry;
		struct ptah_item item;
		bool is_item;

		if (!chunk || CHUNK_ENTRIES - chunk->count < PTAH_FLOW_MIN_SPANS)
			chunk = reader_new_chunk(pool, task);
		if (!chunk) {
			task->unfit = true;
			break;
		}
		entry = entries_of(chunk) + chunk->count;
		n = stream_read_spans(s, &entry->span, CHUNK_ENTRIES - chunk->count, &item,
				      &is_item);
		if (n <= 0)
			break;
		if (is_item) {
			entry->item = item;
			entry->span.insn_class = CLASS_ITEM;
		}
		chunk->count += (size_t)n;
		task->unfit = has_space(entry, n, is_item);
	}
	task_leave(task, s);
	return n < 0 ? n : 0;
}

/* Summarizes the calls of a segment. */
static int summarize(struct pool *pool, struct stream_decoder *s, struct task *task,
		     struct call_worker *w)
{
	union span_entry entries[SPAN_BATCH];
	struct ptah_item item;
	bool is_item;
	int n = task_enter(task, s), status;

	while (n >= 0 && !task->unfit && !pool->stop) {
		n = stream_read_spans(s, &entries->span, SPAN_BATCH, &item, &is_item);
		if (n <= 0)
			break;
		if (is_item)
			entries->item = item;
		status = is_item ? calls_adder_take(w->adder, &item, 1)
				 : calls_adder_summarize_spans(w->adder, &entries->span, (size_t)n);
		task->unfit = status < 0 || has_space(entries, n, is_item);
	}
	if (calls_adder_end_summary(w->adder) < 0)
		task->unfit = true;
	task_leave(task, s);
	return n < 0 ? n : 0;
}

static int summarize_segment(struct pool *pool, struct stream_decoder *s, struct task *task)
{
	const struct ptah_reader *r = pool->context;
	struct call_worker *w = call_segments_lend(r->calls, NULL);
	int status = span_reader_bound(s, r->functions, true);

	if (!w)
		return PTAH_E_NOMEM;
	if (status >= 0)
		status = summarize(pool, s, task, w);
	task->summary = w->summary;
	call_segments_take_back(r->calls, w);
	return status;
}

/* The least size of a segment whose calls are summarized. */
static uint64_t segment_size(const struct ptah_session *session, size_t index, unsigned jobs)
{
	const uint64_t size = session->streams[index].info.bytes / (PER_JOB * jobs);

	return size < SUMMARY_MIN ? SUMMARY_MIN : size > SUMMARY_MAX ? SUMMARY_MAX : size;
}

static int open_reader(struct span_reader *r, const struct ptah_session *session, size_t index,
		       const struct ptah_jobs *jobs, struct ptah_functions *functions,
		       const struct ptah_call_tree_config *trees)
{
	int status;

	/* Summaries have no estimated times. */
	if (!trees || !jobs || jobs->jobs < 2 || r->times.used)
		return reader_open(session, index, jobs, SEGMENT, read_segment, functions, NULL,
				   &r->reader);
	status = call_segments_new(session, functions, session->streams[index].info.space, trees,
				   &r->calls);
	if (status < 0)
		return status;
	status = reader_open(session, index, jobs, segment_size(session, index, jobs->jobs),
			     summarize_segment, functions, r->calls, &r->reader);
	if (status < 0)
		span_reader_close(r);
	return status;
}

void span_reader_close(struct span_reader *r)
{
	ptah_reader_free(r->reader);
	call_segments_free(r->calls);
	span_times_free(&r->times);
	r->reader = NULL;
	r->calls = NULL;
}

/* By the caller's thread. */
static int read_stream(struct span_reader *r, struct span_batch *batch)
{
	bool is_item;
	const int n = stream_read_spans(r->reader->s, r->spans, SPAN_BATCH, r->items, &is_item);

	if (n <= 0)
		return n;
	batch->spans = r->spans;
	batch->items = r->items;
	*(is_item ? &batch->item_count : &batch->span_count) = (size_t)n;
	return 1;
}

/* What a worker has read. 0: the segment has ended. */
static int read_chunks(struct span_reader *r, struct span_batch *batch)
{
	struct ptah_reader *reader = r->reader;
	struct chunk *chunk = reader->task->chunks;
	union span_entry *entry;

	while (chunk && reader->next == chunk->count) {
		reader->task->chunks = chunk->next;
		reader->next = 0;
		pool_give_chunks(&reader->pool, chunk, &chunk->next);
		chunk = reader->task->chunks;
	}
	if (!chunk)
		return reader->task->status;
	entry = entries_of(chunk) + reader->next;
	reader->offset =
	    entry->span.insn_class == CLASS_ITEM ? entry->item.offset : entry->span.offset;
	if (entry->span.insn_class == CLASS_ITEM) {
		batch->items = &entry->item;
		batch->item_count = 1;
		reader->next++;
		return 1;
	}
	if (entry->span.insn_class == FLOW_SPAN_EVENT && !r->event_spans) {
		r->items[0] = flow_span_event(&entry->span);
		batch->items = r->items;
		batch->item_count = 1;
		reader->next++;
		return 1;
	}
	batch->spans = &entry->span;
	while (reader->next < chunk->count && batch->span_count < SPAN_BATCH &&
	       entry->span.insn_class != CLASS_ITEM &&
	       (r->event_spans || entry->span.insn_class != FLOW_SPAN_EVENT)) {
		batch->span_count++;
		reader->next++;
		entry++;
	}
	return 1;
}

/* The summary of a segment. 0: the segment has ended. */
static int read_summary(struct span_reader *r, struct span_batch *batch)
{
	batch->summary = r->summarized ? NULL : r->reader->task->summary;
	r->summarized = true;
	return batch->summary ? 1 : r->reader->task->status;
}

static int read_task(struct span_reader *r, struct span_batch *batch)
{
	if (r->reader->again)
		return read_stream(r, batch);
	return r->calls ? read_summary(r, batch) : read_chunks(r, batch);
}

static void end_task(struct span_reader *r)
{
	struct calls_summary *summary = r->reader->task->summary;

	if (summary)
		call_segments_take_summary(r->calls, summary);
	r->summarized = false;
	reader_end_task(r->reader);
}

static int read_segments(struct span_reader *r, struct span_batch *batch)
{
	struct ptah_reader *reader = r->reader;
	int n;

	while (reader->status >= 0) {
		if (!reader->task && !reader_next_task(reader))
			break;
		n = read_task(r, batch);
		if (n > 0)
			return n;
		reader->status = n;
		end_task(r);
	}
	return reader->status;
}

/* Summaries that do not fit */

/*
 * Searches the place up to which the segment's summary was joined, in a segment that is read again
 * from its beginning. What was read and follows that place is left for the caller. 0: there is no
 * such place; negative: an error.
 */
static int search(struct span_reader *r, struct call_worker *w, size_t joined)
{
	bool is_item;
	int n, found = 0;

	while (!found) {
		n = stream_read_spans(r->reader->s, r->spans, SPAN_BATCH, r->items, &is_item);
		if (n <= 0)
			return n;
		for (int i = 0; i < n && !found; i++) {
			found = calls_adder_search(w->adder, is_item ? NULL : &r->spans[i],
						   r->items, joined);
			if (found <= 0)
				continue;
			i += found == 1;
			r->left = (struct span_batch){.spans = r->spans + i, .items = r->items};
			*(is_item ? &r->left.item_count : &r->left.span_count) = (size_t)(n - i);
		}
	}
	return found;
}

/* A part of the summary was joined: goes to where it ends. */
static int pass_joined(struct span_reader *r, size_t joined)
{
	struct call_worker *w = call_segments_lend(r->calls, r->reader->task->summary);
	int status;

	if (!w)
		return PTAH_E_NOMEM;
	status = search(r, w, joined);
	calls_adder_end_summary(w->adder);
	call_segments_take_summary(r->calls, w->summary);
	call_segments_take_back(r->calls, w);
	return status ? status : PTAH_E_INVAL;
}

int span_reader_join(struct span_reader *r, struct calls_adder *adder, bool whole, uint64_t *errors)
{
	struct ptah_reader *reader = r->reader;
	struct calls_summary *summary = reader->task->summary;
	size_t joined = 0;
	int status = 0;

	if (!whole)
		status = calls_adder_join(adder, summary, reader_more_cycles(reader), &joined);
	*errors += calls_summary_errors(summary, joined);
	/* Also if it did not fit: losses that no summary had are known from here on. */
	call_segments_learn(r->calls, adder);
	if (!status) {
		status = reader_read_again(reader);
		if (status >= 0 && joined)
			status = pass_joined(r, joined);
	}
	return status < 0 ? status : 0;
}

/* The n-th last block before the first item that a window returned. NULL: it is not known. */
static const struct ptah_item *block_before(const struct stream_decoder *s, unsigned n)
{
	return n < s->before_count && n < STREAM_BEFORE
		   ? &s->before[(s->before_count - 1 - n) % STREAM_BEFORE]
		   : NULL;
}

static bool is_in(const struct stream_decoder *s, const struct ptah_item *block, uint32_t flags,
		  struct ptah_function *f)
{
	return s->bounds &&
	       ptah_functions_find(s->bounds->functions, stream_space(s, block->code.space),
				   block->ip, block->tsc, f) &&
	       f->flags & flags;
}

/* What led to a window that begins with an item in a stub. NULL: in none, or it is not known. */
static const struct ptah_item *find_stub_caller(const struct stream_decoder *s,
						const struct ptah_item *first)
{
	const struct ptah_item *block = first;
	struct ptah_function f;

	for (unsigned n = 0; block && block->type == PTAH_ITEM_BLOCK; n++) {
		if (!is_in(s, block, PTAH_FUNCTION_STUB | PTAH_FUNCTION_RESOLVER, &f))
			return block == first ? NULL : block;
		block = block_before(s, n);
		if (block &&
		    (block->insn_class < PTAH_INSN_JUMP || block->insn_class > PTAH_INSN_CALL_IND))
			return NULL;
	}
	return NULL;
}

/* Whether a resolver is entered with a block, or was left before it: both by indirect jumps. */
static void note_resolver(struct stream_decoder *s, const struct ptah_item *block)
{
	const struct ptah_item *last = block_before(s, 0), *caller;
	struct ptah_function f;

	if (!s->bounds || !last || last->insn_class != PTAH_INSN_JUMP_IND)
		return;
	if (last->ip - s->resolver.low < s->resolver.high - s->resolver.low)
		s->resolver.high = 0;
	if (!is_in(s, block, PTAH_FUNCTION_RESOLVER, &f) || block->ip != f.start)
		return;
	caller = find_stub_caller(s, block);
	if (caller)
		s->resolver = (struct stream_resolver){f.low, f.high, *caller};
}

void span_reader_skipped(struct stream_decoder *s, const struct ptah_item *item)
{
	if (item->type != PTAH_ITEM_BLOCK ||
	    item->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN)) {
		s->before_count = 0;
		s->resolver.high = 0;
		return;
	}
	note_resolver(s, item);
	s->before[s->before_count++ % STREAM_BEFORE] = *item;
}

/*
 * The item before which a caller's branch is missing, and the branch: of a stub in which the window
 * begins, or of the resolver to which the first call below it returns. n: none is.
 */
static size_t find_missing(struct span_reader *r, const struct ptah_item *items, size_t n,
			   const struct ptah_item **caller)
{
	struct stream_resolver *resolver = &r->reader->s->resolver;
	const bool begins = !r->begun;

	r->begun = true;
	if (begins && (*caller = find_stub_caller(r->reader->s, items))) {
		resolver->high = 0;
		return 0;
	}
	for (size_t i = 0; resolver->high && i < n; i++) {
		const bool inside = items[i].type == PTAH_ITEM_BLOCK &&
				    items[i].ip - resolver->low < resolver->high - resolver->low;

		if (!inside && items[i].type == PTAH_ITEM_BLOCK)
			continue;
		resolver->high = 0;
		*caller = &resolver->caller;
		/* At its first instruction it is entered once more. */
		return inside && items[i].ip != resolver->low ? i : n;
	}
	return n;
}

/*
 * What a stub ran counts for its caller. So that it does where a window begins in the stub, or below
 * it, too, the branch of the caller comes first, as a block of no instructions.
 */
static int read_window(struct span_reader *r, struct span_batch *batch)
{
	struct ptah_item *const first = r->items + 1, *missing;
	const int n = ptah_reader_read(r->reader, first, SPAN_ITEMS - 1);
	const struct ptah_item *caller;
	size_t at;

	if (n <= 0)
		return n;
	*batch = (struct span_batch){.items = first, .item_count = (size_t)n};
	at = find_missing(r, first, (size_t)n, &caller);
	if (at == (size_t)n)
		return 1;
	memmove(r->items, first, at * sizeof(*first));
	missing = &r->items[at];
	*missing = first[at];
	missing->ip = caller->end - caller->last_size;
	missing->end = caller->end;
	missing->ninsn = 0;
	missing->insn_class = caller->insn_class;
	missing->last_size = caller->last_size;
	missing->flags = caller->flags;
	batch->items--;
	batch->item_count++;
	return 1;
}

static int read_below(struct span_reader *r, struct span_batch *batch)
{
	*batch = r->left;
	r->left = (struct span_batch){0};
	if (batch->span_count || batch->item_count)
		return 1;
	if (r->windowed)
		return read_window(r, batch);
	return r->reader->alone ? read_stream(r, batch) : read_segments(r, batch);
}

/* A read_untimed. */
static int read_for_times(void *context, struct timed_batch *batch)
{
	struct span_reader *r = context;
	struct span_batch below;
	const int status = read_below(r, &below);

	*batch = (struct timed_batch){.spans = below.spans,
				      .span_count = below.span_count,
				      .items = below.items,
				      .item_count = below.item_count,
				      .generation = image_generation(r->reader->s->image)};
	return status;
}

/* A seek_untimed. */
static void go_to(void *context, uint64_t offset)
{
	const struct span_reader *r = context;

	stream_go_to(r->reader->s, offset);
}

static int open_bounded(struct span_reader *r, const struct ptah_session *session, size_t index,
			const struct ptah_jobs *jobs, struct ptah_functions *functions,
			const struct ptah_call_tree_config *trees)
{
	int status = open_reader(r, session, index, jobs, functions, trees);

	r->begun = false;
	if (status < 0)
		return status;
	status = span_reader_bound(r->reader->s, functions, r->event_spans);
	if (status < 0)
		span_reader_close(r);
	return status;
}

int span_reader_open(struct span_reader *r, const struct ptah_session *session, size_t index,
		     const struct ptah_jobs *jobs, struct ptah_functions *functions,
		     const struct ptah_call_tree_config *trees, bool event_spans, bool estimates)
{
	struct ptah_jobs alone = jobs ? *jobs : (struct ptah_jobs){.size = sizeof(alone)};
	int status;

	r->windowed = session_has_window(session);
	r->event_spans = event_spans;
	r->summarized = false;
	r->left = (struct span_batch){0};
	r->times = (struct span_times){0};
	if (estimates)
		span_times_begin(&r->times, session, &session->streams[index]);
	if (!r->times.used)
		return open_bounded(r, session, index, jobs, functions, trees);
	alone.jobs = 1; /* the look ahead leaves parts out */
	status = open_bounded(r, session, index, &alone, functions, trees);
	if (status < 0)
		return status;
	status = span_times_look_ahead(&r->times, r->reader->s->stream, read_for_times,
				       r->windowed ? NULL : go_to, r);
	ptah_reader_free(r->reader);
	r->reader = NULL;
	if (status >= 0)
		status = open_bounded(r, session, index, jobs, functions, trees);
	if (status < 0)
		span_reader_close(r);
	return status < 0 ? status : 0;
}

int span_reader_next(struct span_reader *r, struct span_batch *batch)
{
	struct timed_batch timed;
	int status;

	if (!r->times.used) {
		status = read_below(r, batch);
		batch->generation = image_generation(r->reader->s->image);
		return status;
	}
	status = span_times_next(&r->times, r->reader->s->stream, read_for_times, r, false, &timed);
	*batch = (struct span_batch){0};
	if (status > 0)
		*batch = (struct span_batch){.spans = timed.spans,
					     .span_count = timed.span_count,
					     .items = timed.items,
					     .item_count = timed.item_count,
					     .generation = timed.generation};
	return status;
}
