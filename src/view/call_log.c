/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a log. Numbers are LEB128. A block begins with the number of open calls and, for
 * each, its entry, its number and figures as differences from those of the call around it. A mark
 * is a byte of bits, and after it the fields that these bits announce:
 *
 *	bit 0	  an end
 *	bit 1	  time has passed: nanoseconds follow the instructions
 *	bit 2	  so have cycles, or the other times differ from it: three numbers follow
 *	bits 3-7  beginning: the entry, 31: it follows. End: how it ended (3 bits); bit 6: flags
 *		  follow
 *
 * The instructions since the last mark come after the entry or the flags.
 */
#include "view/call_log.h"

#include "base/compiler.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK (UINT64_C(64) << 10)

enum bits {
	IS_END = 1 << 0,
	HAS_TIME = 1 << 1,
	HAS_MORE = 1 << 2,
	HAS_FLAGS = 1 << 6,
};

#define ENTRY_SHIFT   3
#define ENTRY_FOLLOWS 31
#define HOW_MASK      7

#define NUMBER_MAX 10			/* bytes of a number */
#define MARK_MAX   (1 + 6 * NUMBER_MAX) /* of a mark */
#define FRAME_MAX  (12 * NUMBER_MAX)	/* of an open call */

static uint8_t *put_log_number(uint8_t *p, uint64_t n)
{
	while (n >= 0x80) {
		*p++ = (uint8_t)(n | 0x80);
		n >>= 7;
	}
	*p++ = (uint8_t)n;
	return p;
}

static const uint8_t *get(const uint8_t *p, const uint8_t *end, uint64_t *n)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (p < end) {
		const uint8_t byte = *p++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*n = value;
			return p;
		}
		shift += 7;
		if (shift > 63)
			break;
	}
	return NULL;
}

/* Differences may be negative. */
static uint64_t zigzag(uint64_t n)
{
	return n << 1 ^ (0 - (n >> 63));
}

static uint64_t unzigzag(uint64_t n)
{
	return n >> 1 ^ (0 - (n & 1));
}

void call_log_init(struct call_log *log, struct log_store *store)
{
	*log = (struct call_log){.store = store};
}

void call_log_fini(struct call_log *log)
{
	free(log->blocks);
	free(log->frames);
	free(log->calls);
	free(log->called);
	free(log->scratch);
}

/* Writing */

static uint8_t *put_counts(uint8_t *p, const struct log_counts *n)
{
	p = put_log_number(p, n->instructions);
	p = put_log_number(p, n->cycles);
	p = put_log_number(p, n->time);
	p = put_log_number(p, zigzag(n->active - n->time));
	return put_log_number(p, n->off);
}

/* Writes the open calls. */
static uint8_t *put_log_frames(uint8_t *p, const struct call_log *log)
{
	struct log_counts before = {0};
	uint64_t number = 0;

	p = put_log_number(p, log->depth);
	for (size_t i = 0; i < log->depth; i++) {
		const struct log_frame *f = &log->frames[i];
		const struct log_counts n = log_minus(&f->begin, &before);

		p = put_log_number(p, f->entry);
		p = put_log_number(p, f->number - number);
		p = put_counts(p, &n);
		p = put_counts(p, &f->self);
		before = f->begin;
		number = f->number;
	}
	return p;
}

/* Writes which functions were called in the last block, which is complete, and how often. */
static void end_block(struct call_log *log)
{
	struct log_block *b = log->count ? &log->blocks[log->count - 1] : NULL;
	uint8_t *bytes = b ? log_store_take(log->store, log->called_count * 2 * NUMBER_MAX) : NULL;
	uint8_t *p = bytes;

	for (size_t i = 0; i < log->called_count; i++) {
		if (bytes) {
			p = put_log_number(p, log->called[i]);
			p = put_log_number(p, log->calls[log->called[i]]);
		}
		log->calls[log->called[i]] = 0;
	}
	log->called_count = 0;
	if (bytes) {
		b->functions = bytes;
		b->functions_size = (size_t)(p - bytes);
	}
}

/* Writes the open calls where there is room for any. Their size; 0: out of memory. */
static size_t make_frames(struct call_log *log)
{
	const size_t most = (log->depth + 1) * FRAME_MAX;

	if (most > log->scratch_size) {
		uint8_t *scratch = realloc(log->scratch, 2 * most);

		if (!scratch)
			return 0;
		log->scratch = scratch;
		log->scratch_size = 2 * most;
	}
	return (size_t)(put_log_frames(log->scratch, log) - log->scratch);
}

/* Begins a block, of which the open calls take a quarter at most. */
static int begin_log_block(struct call_log *log)
{
	size_t size, frames;
	uint8_t *bytes;

	end_block(log);
	frames = make_frames(log);
	if (!frames || !LIST_ROOM(log->blocks, log->count, log->capacity))
		return PTAH_E_NOMEM;
	size = 4 * frames < BLOCK ? BLOCK : 4 * frames;
	bytes = log_store_take(log->store, size);
	if (!bytes) {
		log->full = true;
		return 0;
	}
	memcpy(bytes, log->scratch, frames);
	log->blocks[log->count++] = (struct log_block){.bytes = bytes,
						       .size = frames,
						       .begin = log->at,
						       .number = log->number,
						       .depth = (uint32_t)log->depth};
	log->room = size;
	return 0;
}

static NOINLINE int make_block_room(struct call_log *log)
{
	return log->full ? 0 : begin_log_block(log);
}

/* Writes the instructions since the last mark, and what else has passed. */
static NOINLINE uint8_t *put_all(uint8_t *p, unsigned *bits, const struct log_counts *n)
{
	p = put_log_number(p, n->instructions);
	if (n->time) {
		*bits |= HAS_TIME;
		p = put_log_number(p, n->time);
	}
	if (n->cycles | n->off | (n->active - n->time)) {
		*bits |= HAS_MORE;
		p = put_log_number(p, n->cycles);
		p = put_log_number(p, zigzag(n->active - n->time));
		p = put_log_number(p, n->off);
	}
	return p;
}

/*
 * Writes a mark at `at`: `bits`, an entry or flags if `has_number`, and the differences. What ran
 * since the last mark belongs to the innermost call. Mostly only instructions have passed.
 */
static ALWAYS_INLINE int put_log_mark(struct call_log *log, const struct log_counts *at,
				      unsigned bits, bool has_number, uint64_t number)
{
	const struct log_counts n = log_minus(at, &log->at);
	struct log_block *b;
	uint8_t *first, *p;

	if (UNLIKELY(!log->count || log->room - log->blocks[log->count - 1].size < MARK_MAX)) {
		const int status = make_block_room(log);

		if (status < 0)
			return status;
	}
	if (LIKELY(log->depth))
		log_add(&log->frames[log->depth - 1].self, &n);
	log->at = *at;
	if (UNLIKELY(log->full))
		return 0;
	b = &log->blocks[log->count - 1];
	first = (uint8_t *)b->bytes + b->size;
	p = first + 1;
	if (has_number)
		p = put_log_number(p, number);
	if (LIKELY(!(n.time | n.cycles | n.active | n.off)))
		p = put_log_number(p, n.instructions);
	else
		p = put_all(p, &bits, &n);
	*first = (uint8_t)bits;
	b->size = (size_t)(p - b->bytes);
	return 0;
}

static NOINLINE int grow_calls(struct call_log *log, uint32_t function)
{
	const size_t more = function < 512 ? 1024 : 2 * (size_t)function;
	uint32_t *calls = reallocarray(log->calls, more, sizeof(*calls));

	if (!calls)
		return PTAH_E_NOMEM;
	memset(calls + log->call_capacity, 0, (more - log->call_capacity) * sizeof(*calls));
	log->calls = calls;
	log->call_capacity = more;
	return 0;
}

/* Counts a call for the present block. */
static ALWAYS_INLINE int count_call(struct call_log *log, uint32_t function)
{
	if (UNLIKELY(function >= log->call_capacity) && grow_calls(log, function) < 0)
		return PTAH_E_NOMEM;
	if (LIKELY(log->calls[function]++))
		return 0;
	if (!LIST_ROOM(log->called, log->called_count, log->called_capacity))
		return PTAH_E_NOMEM;
	log->called[log->called_count++] = function;
	return 0;
}

int call_log_begin(struct call_log *log, const struct log_counts *at, uint32_t entry,
		   uint32_t function)
{
	int status;

	if (!LIST_ROOM(log->frames, log->depth, log->frame_capacity))
		return PTAH_E_NOMEM;
	if (entry < ENTRY_FOLLOWS)
		status = put_log_mark(log, at, entry << ENTRY_SHIFT, false, 0);
	else
		status = put_log_mark(log, at, ENTRY_FOLLOWS << ENTRY_SHIFT, true, entry);
	log->frames[log->depth++] =
	    (struct log_frame){.entry = entry, .number = log->number++, .begin = *at};
	return status < 0 || log->full ? status : count_call(log, function);
}

int call_log_end(struct call_log *log, const struct log_counts *at, unsigned how, unsigned flags)
{
	const int status = put_log_mark(
	    log, at, IS_END | (how & HOW_MASK) << ENTRY_SHIFT | (flags ? HAS_FLAGS : 0), flags,
	    flags);

	log->depth--;
	return status;
}

size_t log_block_at(const struct log_block *blocks, size_t count, enum log_axis axis, uint64_t at)
{
	size_t low = 0, high = count;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (log_on(&blocks[middle].begin, axis) <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Reading */

static const uint8_t *get_counts(const uint8_t *p, const uint8_t *end, struct log_counts *n)
{
	if (!(p = get(p, end, &n->instructions)) || !(p = get(p, end, &n->cycles)) ||
	    !(p = get(p, end, &n->time)) || !(p = get(p, end, &n->active)) ||
	    !(p = get(p, end, &n->off)))
		return NULL;
	n->active = unzigzag(n->active) + n->time;
	return p;
}

static bool fail(struct log_cursor *c, int status)
{
	c->status = status;
	c->p = c->end;
	return false;
}

static struct log_frame *push_log_frame(struct log_cursor *c)
{
	if (!LIST_ROOM(c->frames, c->depth, c->capacity)) {
		fail(c, PTAH_E_NOMEM);
		return NULL;
	}
	return &c->frames[c->depth++];
}

int log_cursor_enter(struct log_cursor *c, const struct log_block *block)
{
	const uint8_t *end = block->bytes + block->size;
	struct log_counts before = {0};
	uint64_t depth = 0, entry, more, number = 0;

	c->status = 0;
	c->end = end;
	c->depth = 0;
	c->at = block->begin;
	c->number = block->number;
	c->p = get(block->bytes, end, &depth);
	for (uint64_t i = 0; i < depth && c->p; i++) {
		struct log_frame *f = push_log_frame(c);

		if (!f)
			return c->status;
		*f = (struct log_frame){0};
		if (!(c->p = get(c->p, end, &entry)) || !(c->p = get(c->p, end, &more)) ||
		    !(c->p = get_counts(c->p, end, &f->begin)) ||
		    !(c->p = get_counts(c->p, end, &f->self)))
			break;
		f->entry = (uint32_t)entry;
		f->number = number += more;
		log_add(&f->begin, &before);
		before = f->begin;
	}
	if (!c->p)
		fail(c, PTAH_E_BAD_FILE);
	return c->status;
}

void log_cursor_fini(struct log_cursor *c)
{
	free(c->frames);
}

/* What has passed beside instructions. */
static NOINLINE const uint8_t *get_more(const uint8_t *p, const uint8_t *end, unsigned bits,
					struct log_counts *n)
{
	if (bits & HAS_TIME)
		p = get(p, end, &n->time);
	n->active = n->time;
	if (p && bits & HAS_MORE) {
		p = get(p, end, &n->cycles);
		p = p ? get(p, end, &n->active) : NULL;
		p = p ? get(p, end, &n->off) : NULL;
		n->active = unzigzag(n->active) + n->time;
	}
	return p;
}

/* Reads what has passed since the last mark, and adds it. NULL: these are no bytes of a log. */
static ALWAYS_INLINE const uint8_t *pass(struct log_cursor *c, const uint8_t *p, unsigned bits)
{
	struct log_counts n = {0};

	p = get(p, c->end, &n.instructions);
	if (LIKELY(p && !(bits & (HAS_TIME | HAS_MORE)))) {
		c->at.instructions += n.instructions;
		if (LIKELY(c->depth))
			c->frames[c->depth - 1].self.instructions += n.instructions;
		return p;
	}
	p = p ? get_more(p, c->end, bits, &n) : NULL;
	if (!p)
		return NULL;
	log_add(&c->at, &n);
	if (c->depth)
		log_add(&c->frames[c->depth - 1].self, &n);
	return p;
}

bool log_cursor_next(struct log_cursor *c, struct log_mark *mark)
{
	const uint8_t *p = c->p;
	uint64_t number = 0;
	struct log_frame *f;
	unsigned bits;

	if (UNLIKELY(p == c->end))
		return false;
	bits = *p++;
	mark->end = bits & IS_END;
	if (mark->end ? bits & HAS_FLAGS : bits >> ENTRY_SHIFT == ENTRY_FOLLOWS)
		p = get(p, c->end, &number);
	else if (!mark->end)
		number = bits >> ENTRY_SHIFT;
	p = p ? pass(c, p, bits) : NULL;
	if (UNLIKELY(!p || (mark->end && !c->depth)))
		return fail(c, PTAH_E_BAD_FILE);
	c->p = p;
	if (mark->end) {
		mark->how = bits >> ENTRY_SHIFT & HOW_MASK;
		mark->flags = (uint16_t)number;
		mark->depth = --c->depth;
		mark->frame = &c->frames[c->depth];
		return true;
	}
	f = push_log_frame(c);
	if (!f)
		return false;
	*f = (struct log_frame){.entry = (uint32_t)number, .number = c->number++, .begin = c->at};
	mark->how = 0;
	mark->flags = 0;
	mark->depth = c->depth - 1;
	mark->frame = f;
	return true;
}

bool log_block_calls(const struct log_block *block, uint32_t function, uint64_t *calls)
{
	const uint8_t *p = block->functions, *end;
	uint64_t number, n;

	*calls = 0;
	if (!p)
		return false;
	end = p + block->functions_size;
	while (p && p < end) {
		if (!(p = get(p, end, &number)) || !(p = get(p, end, &n)))
			return false;
		if (number == function) {
			*calls = n;
			return true;
		}
	}
	return true;
}
