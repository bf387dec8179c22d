/* SPDX-License-Identifier: MIT */
/* Reads the items of one stream with several threads, in order. */
#include "session/parallel_reader.h"

#include "session/window.h"

#include "base/compiler.h"
#include "image/image_access.h"

#include <stdlib.h>

/* Small, because all items of the segments that are decoded ahead are kept in memory. */
#define SEGMENT (UINT64_C(16) << 10)

bool reader_has_space(const struct ptah_item *items, int n)
{
	for (int i = 0; i < n; i++)
		if ((items[i].type == PTAH_ITEM_BLOCK || items[i].type == PTAH_ITEM_ERROR) &&
		    items[i].code.space)
			return true;
	return false;
}

struct chunk *reader_new_chunk(struct pool *pool, struct task *task)
{
	struct chunk *chunk = task->chunk_count < MAX_CHUNKS ? pool_take_chunk(pool) : NULL;

	if (!chunk)
		return NULL;
	chunk->next = NULL;
	chunk->count = 0;
	*task->last_chunk = chunk;
	task->last_chunk = &chunk->next;
	task->chunk_count++;
	return chunk;
}

/*
 * Reads a segment independently of the others. What cannot be read that way is marked `unfit`,
 * which is no error.
 */
static int read_segment(struct pool *pool, struct stream_decoder *s, struct task *task)
{
	int n = task_enter(task, s);

	while (n >= 0 && !task->unfit && !pool->stop) {
		struct chunk *chunk = reader_new_chunk(pool, task);

		if (!chunk) {
			task->unfit = true;
			break;
		}
		n = stream_read(s, chunk->items, ARRAY_SIZE(chunk->items));
		if (n <= 0)
			break;
		chunk->count = (size_t)n;
		task->unfit = reader_has_space(chunk->items, n);
	}
	task_leave(task, s);
	return n < 0 ? n : 0;
}

static uint64_t the_stream(const struct ptah_reader *r)
{
	return r->session->streams[r->index].info.bytes;
}

static bool wants_stream(void *reader, size_t stream)
{
	return stream == ((struct ptah_reader *)reader)->index;
}

int reader_make(const struct ptah_session *session, size_t index, const struct ptah_jobs *jobs,
		uint64_t segment,
		int (*run)(struct pool *pool, struct stream_decoder *s, struct task *task),
		struct ptah_reader **reader)
{
	struct ptah_reader *r;
	int status;

	if (!session || !reader || index >= session->stream_count ||
	    (jobs && jobs->size >= sizeof(*jobs) && jobs->workers &&
	     jobs->workers->session != session) ||
	    (jobs && (jobs->size < sizeof(*jobs) || jobs->jobs > MAX_JOBS)))
		return PTAH_E_INVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return PTAH_E_NOMEM;
	r->session = session;
	r->index = index;
	r->workers = jobs ? jobs->workers : NULL;
	if (r->workers) {
		r->s = r->workers->reader;
		r->workers->reader = NULL;
	}
	status = stream_renew(session, index, &r->s);
	if (status < 0) {
		free(r);
		return status;
	}
	r->pool = (struct pool){.session = session,
				.jobs = jobs ? jobs->jobs : 1,
				.segment = jobs && jobs->segment ? jobs->segment : segment,
				.wants = wants_stream,
				.context = r,
				.open = stream_renew,
				.run = run};
	*reader = r;
	return 0;
}

void reader_begin(struct ptah_reader *r)
{
	/*
	 * Only one thread reads where code changes: ptah_reader_insns() needs the code as of the
	 * item at which the reader is. Those that work on segments have images of their own.
	 */
	const bool changes = stream_later(r->s) && !r->segments;

	r->alone = r->pool.jobs < 2 || session_has_window(r->session) || changes || r->s->follow ||
		   the_stream(r) < 2 * r->pool.segment || pool_begin(&r->pool) < 0;
}

int reader_open(const struct ptah_session *session, size_t index, const struct ptah_jobs *jobs,
		uint64_t segment,
		int (*run)(struct pool *pool, struct stream_decoder *s, struct task *task),
		struct ptah_functions *functions, struct call_segments *calls,
		struct ptah_reader **reader)
{
	struct ptah_reader *r;
	const int status = reader_make(session, index, jobs, segment, run, &r);

	if (status < 0)
		return status;
	r->functions = functions;
	r->calls = calls;
	if (calls && r->workers)
		r->pool.streams = &r->workers->calls;
	reader_begin(r);
	*reader = r;
	return 0;
}

int ptah_reader_new(const struct ptah_session *session, size_t index, const struct ptah_jobs *jobs,
		    struct ptah_reader **reader)
{
	return reader_open(session, index, jobs, SEGMENT, read_segment, NULL, NULL, reader);
}

void ptah_reader_free(struct ptah_reader *r)
{
	if (!r)
		return;
	pool_end(&r->pool);
	if (r->workers && !r->workers->reader && r->status >= 0)
		r->workers->reader = r->s;
	else
		stream_free(r->s);
	free(r);
}

/* Brings `s` to the end of the last segment, by decoding all of it. */
static int decode_last_again(struct ptah_reader *r)
{
	struct task passed = {.segment = r->last.segment};
	struct ptah_span spans[PTAH_FLOW_MIN_SPANS];
	struct ptah_item items[256];
	bool is_item;
	int n = task_enter(&passed, r->s);

	while (n >= 0 && (n = r->functions ? stream_read_spans(r->s, spans, ARRAY_SIZE(spans),
							       items, &is_item)
					   : stream_read(r->s, items, ARRAY_SIZE(items))) > 0)
		;
	return n;
}

static struct event_time *clock_of(struct ptah_reader *r)
{
	return &r->s->flow->events->time;
}

uint64_t reader_more_cycles(const struct ptah_reader *r)
{
	return r->task->segment.whole_start
		   ? 0
		   : r->last.end.time.total_cycles - r->task->segment.state.time.total_cycles;
}

/*
 * Whether the segment follows from the last one. A summary can be made without knowing how many
 * cycles passed before it.
 */
static bool follows(const struct ptah_reader *r)
{
	struct task last = r->last;

	if (r->calls)
		last.end.time.total_cycles = r->task->segment.state.time.total_cycles;
	return task_fits(r->task, &last, true) && !r->task->unfit;
}

int reader_go_after_last(struct ptah_reader *r)
{
	int status = 0;

	if (r->task->segment.whole_start) {
		status = segment_enter(r->s, &r->task->segment);
	} else if (!r->again) {
		status = decode_last_again(r);
		if (status >= 0 && r->calls)
			clock_of(r)->total_cycles = r->last.end.time.total_cycles;
	}
	r->again = true;
	r->s->stop = r->task->segment.stop;
	return status;
}

bool reader_next_task(struct ptah_reader *r)
{
	r->task = pool_first(&r->pool);
	r->status = r->task ? 0 : r->pool.status;
	r->next = 0;
	if (!r->task)
		return false;
	if (follows(r)) {
		r->again = false;
		return true;
	}
	/* The segment does not follow from the last one, or no worker could read it. */
	r->status = reader_go_after_last(r);
	return r->status >= 0;
}

int reader_read_again(struct ptah_reader *r)
{
	struct task passed = {.segment = r->task->segment};
	const uint64_t more = reader_more_cycles(r);
	int status = task_enter(&passed, r->s);

	clock_of(r)->total_cycles += more;
	r->again = true;
	return status;
}

/* Returns items that a worker has read. 0: the segment has ended. */
static int read_chunks(struct ptah_reader *r, struct ptah_item *items, size_t capacity)
{
	struct chunk *chunk = r->task->chunks;
	size_t n;

	while (chunk && r->next == chunk->count) {
		r->task->chunks = chunk->next;
		r->next = 0;
		pool_give_chunks(&r->pool, chunk, &chunk->next);
		chunk = r->task->chunks;
	}
	if (!chunk)
		return r->task->status;
	n = chunk->count - r->next < capacity ? chunk->count - r->next : capacity;
	memcpy(items, chunk->items + r->next, n * sizeof(*items));
	r->next += n;
	r->offset = items[n - 1].offset;
	return (int)n;
}

void reader_end_task(struct ptah_reader *r)
{
	/* Keeps what is needed to judge the next segment. */
	if (r->again)
		task_leave(r->task, r->s);
	else if (r->calls)
		r->task->end.time.total_cycles += reader_more_cycles(r);
	r->last = *r->task;
	r->offset = r->task->segment.stop != UINT64_MAX ? r->task->segment.stop : the_stream(r);
	r->task = NULL;
	pool_drop_first(&r->pool);
}

int ptah_reader_read(struct ptah_reader *r, struct ptah_item *items, size_t capacity)
{
	int n;

	if (!r || !items || !capacity)
		return PTAH_E_INVAL;
	if (r->segment)
		return segment_read(r->segment, items, capacity);
	if (r->alone)
		return stream_read(r->s, items, capacity);
	while (r->status >= 0) {
		if (!r->task && !reader_next_task(r))
			break;
		n = r->again ? stream_read(r->s, items, capacity) : read_chunks(r, items, capacity);
		if (n > 0)
			return n;
		r->status = n;
		reader_end_task(r);
	}
	return r->status;
}

int ptah_reader_read_blocks(struct ptah_reader *r, struct ptah_block *blocks, size_t capacity)
{
	if (!r || !blocks || !capacity)
		return PTAH_E_INVAL;
	return r->alone && !r->segment ? stream_read_blocks(r->s, blocks, capacity) : 0;
}

int ptah_reader_insns(struct ptah_reader *r, const struct ptah_item *block, struct ptah_insn *insns,
		      size_t capacity)
{
	if (!r)
		return PTAH_E_INVAL;
	return r->alone || r->segment ? stream_insns(r->s, block, insns, capacity)
				      : flow_learn_insns(r->s->flow, block, insns, capacity);
}

int ptah_reader_thread(const struct ptah_reader *r, struct ptah_thread *thread)
{
	return r ? stream_thread(r->s, thread) : PTAH_E_INVAL;
}

/* What a worker has read has no numbers of spaces but 0, which is the same in every flow. */
int32_t ptah_reader_space(const struct ptah_reader *r, unsigned space)
{
	return r ? stream_space(r->s, space) : -1;
}

uint64_t ptah_reader_version(const struct ptah_reader *r, unsigned space, uint64_t ip,
			     unsigned mode)
{
	return r ? stream_version(r->s, space, ip, mode) : 0;
}

uint64_t ptah_reader_generation(const struct ptah_reader *r)
{
	return r ? image_generation(r->s->image) : 0;
}

uint64_t ptah_reader_offset(const struct ptah_reader *r)
{
	return r->alone ? r->s->offset : r->offset;
}
