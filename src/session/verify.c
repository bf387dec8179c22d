/* SPDX-License-Identifier: MIT */
/* Compares a decode with what the recorder counted: instructions, branches and the path hash. */
#include "session/parallel_reader.h"
#include "session/window.h"

#include "base/compiler.h"
#include "base/path_hash.h"
#include "flow/silent_loop.h"

#include <string.h>

/*
 * The size of segments. The runs of segments that are decoded ahead are kept in memory, and the
 * fewer they are the better caches work.
 */
#define SEGMENT (UINT64_C(32) << 10)

#define MANY_BLOCKS 512
/* So many runs are added within a second: one takes 3 ns. */
#define MANY_RUNS (UINT64_C(1) << 28)

/* The counts of a decode in progress. */
struct account {
	struct ptah_verify *result;
	struct path_hash path;
	/*
	 * What a segment that is decoded independently keeps: what precedes it is unknown, so its
	 * runs are written down for the thread that joins the segments. The first words are start
	 * and end of the first run, which may continue a run of the segment before; then follows a
	 * path_hash_key() for each run. The run in which the segment ends is in the task.
	 */
	struct pool *pool;
	struct task *task;
	struct chunk *chunk;
};

static void write_words(struct account *a, const uint64_t *words, size_t n)
{
	while (n) {
		size_t room = a->chunk ? CHUNK_WORDS - a->chunk->count : 0;

		if (!room) {
			struct chunk *chunk =
			    a->task->unfit ? NULL : reader_new_chunk(a->pool, a->task);

			if (!chunk) {
				a->task->unfit = true;
				return;
			}
			a->chunk = chunk;
			room = CHUNK_WORDS;
		}
		room = room < n ? room : n;
		memcpy(a->chunk->words + a->chunk->count, words, room * sizeof(*words));
		a->chunk->count += room;
		words += room;
		n -= room;
	}
}

static uint64_t mix_keys(uint64_t hash, const uint64_t *keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = path_hash_mix_key(hash, keys[i]);
	return hash;
}

/* The current run is complete. */
static void close_run(struct account *a)
{
	struct path_hash *p = &a->path;
	const uint64_t key = path_hash_key(p->start, p->end), first[] = {p->start, p->end};

	if (!a->task)
		p->hash = path_hash_mix_key(p->hash, key);
	else if (a->chunk)
		write_words(a, &key, 1);
	else
		write_words(a, first, ARRAY_SIZE(first));
}

/* Like path_hash_add(). */
static void add_run(struct account *a, uint64_t start, uint64_t end)
{
	struct path_hash *p = &a->path;

	if (start != p->end || p->start == p->end) {
		if (p->start != p->end)
			close_run(a);
		p->start = start;
	}
	p->end = end;
}

static void add_block(struct account *a, uint64_t ip, uint64_t end, unsigned ninsn,
		      unsigned insn_class)
{
	struct ptah_truth *t = &a->result->decoded;

	t->instructions += ninsn;
	t->conditional += insn_class == PTAH_INSN_COND;
	t->indirect += insn_class == PTAH_INSN_JUMP_IND || insn_class == PTAH_INSN_CALL_IND;
	t->returns += insn_class == PTAH_INSN_RETURN;
	add_run(a, ip, end);
}

static void add_item(struct account *a, const struct ptah_item *item)
{
	struct ptah_verify *v = a->result;

	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		add_block(a, item->ip, item->end, item->ninsn, item->insn_class);
		break;
	case PTAH_ITEM_OVERFLOW:
		v->overflows++;
		break;
	case PTAH_ITEM_ERROR:
		if (v->errors++)
			break;
		v->first = *item;
		v->first.code.space = 0;
		break;
	default:
		break;
	}
}

/* Closes the runs that `count` blocks complete; the first of them may complete the current run. */
static size_t cut_runs(struct path_hash *p, const struct ptah_block *blocks, size_t count,
		       uint64_t *keys)
{
	uint64_t start = p->start, end = p->end;
	size_t n = 0;

	/* Written without a branch, because the processor would mispredict it. */
	for (size_t i = 0; i < count; i++) {
		const bool closes = blocks[i].ip != end;

		keys[n] = path_hash_key(start, end);
		n += closes;
		start = closes ? blocks[i].ip : start;
		end = blocks[i].ip + blocks[i].size;
	}
	p->start = start;
	p->end = end;
	return n;
}

static void count_blocks(struct ptah_truth *t, const struct ptah_block *blocks, size_t count)
{
	uint64_t ninsn = 0, conditional = 0, indirect = 0, returns = 0;

	for (size_t i = 0; i < count; i++) {
		const unsigned insn_class = blocks[i].insn_class;

		ninsn += blocks[i].ninsn;
		conditional += insn_class == PTAH_INSN_COND;
		indirect += insn_class == PTAH_INSN_JUMP_IND || insn_class == PTAH_INSN_CALL_IND;
		returns += insn_class == PTAH_INSN_RETURN;
	}
	t->instructions += ninsn;
	t->conditional += conditional;
	t->indirect += indirect;
	t->returns += returns;
}

/* Adds many blocks at once. */
static void add_blocks(struct account *a, const struct ptah_block *blocks, size_t count)
{
	uint64_t keys[MANY_BLOCKS];
	size_t i = 0, n;

	/*
	 * One by one, until a run is open and, in an independent segment, the first run has been
	 * written.
	 */
	for (; i < count && (a->path.start == a->path.end || (a->task && !a->chunk)); i++)
		add_block(a, blocks[i].ip, blocks[i].ip + blocks[i].size, blocks[i].ninsn,
			  blocks[i].insn_class);
	count_blocks(&a->result->decoded, blocks + i, count - i);
	n = cut_runs(&a->path, blocks + i, count - i, keys);
	if (a->task)
		write_words(a, keys, n);
	else
		a->path.hash = mix_keys(a->path.hash, keys, n);
}

/*
 * Whether the result of an independent segment will not be used any more: it has too many runs, or
 * the pool stops.
 */
static bool has_enough(const struct account *a)
{
	return a->task && (a->task->unfit || a->pool->stop);
}

/*
 * Decodes to the end of the stream or its stop. Where there are only blocks, many are added at
 * once.
 */
static int add_stream(struct account *a, struct stream_decoder *stream)
{
	struct ptah_block blocks[MANY_BLOCKS];
	struct ptah_item item;
	int n;

	do {
		while ((n = stream_read_blocks(stream, blocks, ARRAY_SIZE(blocks))) > 0 &&
		       !has_enough(a))
			add_blocks(a, blocks, (size_t)n);
		n = stream_read(stream, &item, 1);
		if (n > 0)
			add_item(a, &item);
	} while (n > 0 && !has_enough(a));
	return n < 0 ? n : 0;
}

/* Decodes a segment independently. */
static int verify_segment(struct pool *pool, struct stream_decoder *s, struct task *task)
{
	struct account a = {.result = &task->sum, .pool = pool, .task = task};
	int status = task_enter(task, s);

	if (status >= 0)
		status = add_stream(&a, s);
	task->open_start = a.path.start;
	task->open_end = a.path.end;
	task_leave(task, s);
	return status;
}

static void add_part(struct ptah_verify *sum, const struct ptah_verify *part)
{
	if (!sum->errors)
		sum->first = part->first;
	sum->errors += part->errors;
	sum->overflows += part->overflows;
	sum->decoded.instructions += part->decoded.instructions;
	sum->decoded.conditional += part->decoded.conditional;
	sum->decoded.indirect += part->decoded.indirect;
	sum->decoded.returns += part->decoded.returns;
}

/* Appends the runs of a segment. */
static int join(struct account *a, const struct task *task)
{
	const struct chunk *chunk = task->chunks;
	size_t read = 2;

	add_part(a->result, &task->sum);
	if (chunk) {
		add_run(a, chunk->words[0], chunk->words[1]);
		close_run(a);
		for (; chunk; chunk = chunk->next, read = 0)
			a->path.hash =
			    mix_keys(a->path.hash, chunk->words + read, chunk->count - read);
		a->path.start = task->open_start;
		a->path.end = task->open_end;
	} else if (task->open_start != task->open_end) {
		add_run(a, task->open_start, task->open_end);
	}
	return task->status;
}

static int verify_stream(const struct ptah_session *session, size_t index,
			 const struct ptah_jobs *jobs, struct account *a)
{
	struct ptah_reader *r;
	int status = reader_open(session, index, jobs, SEGMENT, verify_segment, NULL, NULL, &r);

	if (status < 0)
		return status;
	if (r->alone)
		status = add_stream(a, r->s);
	while (!r->alone && status >= 0 && reader_next_task(r)) {
		status = r->again ? add_stream(a, r->s) : join(a, r->task);
		reader_end_task(r);
	}
	if (status >= 0)
		status = r->status;
	ptah_reader_free(r);
	return status;
}

/* Silent loops */

static bool is_interruption(const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_ASYNC_DISABLED || item->type == PTAH_ITEM_ASYNC_BRANCH;
}

/*
 * Adds `missing` instructions as passes through the loop, if they are whole passes and so few that
 * this takes a second at most.
 */
static uint64_t add_passes(struct account *a, const struct silent_loop *loop, uint64_t missing)
{
	const uint64_t passes = missing / loop->instructions;

	if (missing % loop->instructions || passes > MANY_RUNS / loop->run_count)
		return 0;
	for (uint64_t i = 0; i < passes; i++)
		for (size_t k = 0; k < loop->run_count; k++)
			add_run(a, loop->runs[k].start, loop->runs[k].end);
	return passes;
}

/*
 * Decodes once more, and looks at the place of each interruption. At the first that is in a silent
 * loop, the instructions that the decode lacks are added as passes through it: if the path hash is
 * the recorder's then, they are what was missing.
 */
static void find_silent_loops(struct stream_decoder *s, const struct ptah_truth *truth,
			      struct ptah_verify *result)
{
	const uint64_t missing = truth->instructions - result->decoded.instructions;
	struct ptah_verify again = {.equal = false};
	struct account a = {.result = &again};
	struct silent_loop loop;
	struct ptah_item item;
	uint64_t passes = 0;

	while (stream_read(s, &item, 1) > 0) {
		add_item(&a, &item);
		if (!is_interruption(&item) ||
		    !silent_loop_find(s->image, s->space, item.ip, item.mode, &loop))
			continue;
		if (result->silent_loops++)
			continue;
		result->silent = item;
		passes = add_passes(&a, &loop, missing);
	}
	if (path_hash_value(&a.path) == truth->path_hash)
		result->silent_passes = passes;
}

/* Looks for silent loops, unless something else differs that they cannot explain. */
static void explain(const struct ptah_session *session, size_t index,
		    const struct ptah_truth *truth, struct ptah_verify *result)
{
	const struct ptah_truth *d = &result->decoded;
	struct stream_decoder *s;

	if (result->errors || result->overflows || d->instructions >= truth->instructions ||
	    d->conditional != truth->conditional || d->indirect != truth->indirect ||
	    d->returns != truth->returns || stream_new(session, index, &s) < 0)
		return;
	find_silent_loops(s, truth, result);
	stream_free(s);
}

int ptah_session_verify(const struct ptah_session *session, size_t index,
			const struct ptah_jobs *jobs, struct ptah_verify *result)
{
	struct account a = {.result = result};
	const struct ptah_truth *truth;
	int n;

	if (!session || !result || index >= session->stream_count || session_has_window(session))
		return PTAH_E_INVAL;
	memset(result, 0, sizeof(*result));
	if (!session->streams[index].info.has_truth)
		return PTAH_E_MISSING;
	n = verify_stream(session, index, jobs, &a);
	result->decoded.path_hash = path_hash_value(&a.path);
	truth = &session->streams[index].info.truth;
	result->equal =
	    n >= 0 && !result->errors && !memcmp(truth, &result->decoded, sizeof(*truth));
	if (n >= 0 && !result->equal)
		explain(session, index, truth, result);
	return n < 0 ? n : 0;
}
