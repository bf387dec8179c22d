/* SPDX-License-Identifier: MIT */
/* Collects the bars of a window (bars.h). */
#include "view/bars.h"

#include "base/compiler.h"
#include "base/order.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* More bars than an answer may have. */
#define TOO_MANY 1

/* A level that was read has been dropped meanwhile. */
#define AGAIN 2

static int take_bar(void *context, size_t depth, const struct bar *bar)
{
	struct bars *b = context;

	if (depth >= BARS_DEPTH)
		return 0;
	if (b->count >= BARS_MOST)
		return TOO_MANY;
	if (!LIST_ROOM(b->list, b->count, b->capacity))
		return PTAH_E_NOMEM;
	b->list[b->count++] = (struct placed_bar){*bar, (uint32_t)depth};
	return 0;
}

/* From a level */

/* The call that is open at a depth, as far as it is known. */
static bool open_call(struct view_model *m, const struct view_thread *t, enum log_axis axis,
		      size_t depth, struct bar *bar)
{
	const struct view_entry *entry;

	if (depth >= t->log.depth)
		return false;
	entry = view_functions_get_entry(m->functions, t->log.frames[depth].entry);
	bar->begin = log_on(&t->log.frames[depth].begin, axis);
	bar->end = log_on(&t->now, axis);
	bar->longest = bar->end - bar->begin;
	bar->function = entry->id;
	bar->calls = 1;
	bar->flags = view_bar_flags(entry->flags, entry->how) | BAR_NO_END;
	return true;
}

static int read_level(struct view_model *m, const struct view_thread *t, enum log_axis axis,
		      uint64_t from, uint64_t to, unsigned k, struct bars *bars)
{
	const struct levels *l = &t->levels[axis];
	const size_t depth = t->most_depth < BARS_DEPTH ? t->most_depth : BARS_DEPTH;
	struct bar bar;
	int status = 0;

	for (size_t i = 0; i < depth && !status; i++) {
		status = levels_read(l, k, i, from, to, take_bar, bars);
		if (!status && open_call(m, t, axis, i, &bar) && bar.begin < to && bar.end >= from)
			status = take_bar(bars, i, &bar);
	}
	return status;
}

/* From the log */

int view_copy_blocks(const struct view_thread *t, enum log_axis axis, uint64_t from, uint64_t to,
		     struct log_block **blocks, size_t *count)
{
	const struct call_log *log = &t->log;
	size_t first, last;

	*blocks = NULL;
	*count = 0;
	if (!log->count)
		return 0;
	first = log_block_at(log->blocks, log->count, axis, from);
	/* Several blocks may begin at one time: all that does. */
	while (first && log_on(&log->blocks[first].begin, axis) == from)
		first--;
	last = log_block_at(log->blocks, log->count, axis, to);
	*blocks = malloc((last - first + 1) * sizeof(**blocks));
	if (!*blocks)
		return PTAH_E_NOMEM;
	*count = last - first + 1;
	memcpy(*blocks, log->blocks + first, *count * sizeof(**blocks));
	return 0;
}

/* A part of a log that is read. */
struct reading {
	struct view_model *model;
	enum log_axis axis;
	uint64_t from, to;
	uint64_t whole; /* calls of this length are in the levels: their ends need not be found */
	uint64_t function; /* only its calls; UINT64_MAX: all */
	struct log_cursor cursor;
	struct levels level; /* the answer's */
	bool after;	     /* the reading is after the window */
	size_t inner;	     /* then: open calls that began before its end */
};

/* A call has ended, or is open as far as the log goes. */
static int add_bar_call(struct reading *r, const struct log_frame *frame, size_t depth,
			uint64_t end, unsigned flags)
{
	const struct view_entry *entry =
	    view_functions_get_entry(r->model->functions, frame->entry);
	struct bar bar = {.begin = log_on(&frame->begin, r->axis), .end = end, .calls = 1};

	if (!entry)
		return PTAH_E_BAD_FILE;
	if (bar.begin >= r->to || bar.end < r->from || depth >= BARS_DEPTH ||
	    (r->function != UINT64_MAX && r->function != entry->id))
		return 0;
	bar.longest = end - bar.begin;
	bar.function = entry->id;
	bar.flags = view_bar_flags(entry->flags | flags, entry->how);
	if (r->level.bytes > BARS_MOST * 2 * sizeof(bar))
		return TOO_MANY;
	return levels_add(&r->level, depth, &bar);
}

/*
 * Whether the window has been read, and every call that began in it has ended, or become long
 * enough. Asked for each mark after the window.
 */
static bool is_past(struct reading *r, const struct log_mark *mark)
{
	const struct log_cursor *c = &r->cursor;

	if (!r->after) {
		r->after = true;
		r->inner = c->depth;
		while (r->inner && log_on(&c->frames[r->inner - 1].begin, r->axis) >= r->to)
			r->inner--;
	} else if (mark->end && mark->depth < r->inner) {
		r->inner = mark->depth;
	}
	return !r->inner ||
	       log_on(&c->at, r->axis) - log_on(&c->frames[r->inner - 1].begin, r->axis) >=
		   r->whole;
}

/* Reads a block. *past: the rest is not needed. */
static int read_bar_block(struct reading *r, const struct log_block *block, bool *past)
{
	struct log_mark mark;
	int status = log_cursor_enter(&r->cursor, block);

	r->after = false;
	while (!status && !*past && log_cursor_next(&r->cursor, &mark)) {
		const uint64_t at = log_on(&r->cursor.at, r->axis);

		if (mark.end)
			status = add_bar_call(r, mark.frame, mark.depth, at, mark.flags);
		*past = UNLIKELY(at >= r->to) && is_past(r, &mark);
	}
	return status ? status : r->cursor.status;
}

/*
 * The calls that are open where the reading has ended. With the thread's lock. They are in the
 * first level, or still open where the thread is.
 */
static int add_open(struct reading *r, struct view_thread *t, unsigned first)
{
	const struct levels *l = &t->levels[r->axis];
	int status = 0;

	if (l->first != first)
		return AGAIN;
	for (size_t i = 0; i < r->cursor.depth && !status; i++) {
		const struct log_frame *f = &r->cursor.frames[i];
		struct bar bar;

		if (i < t->log.depth && t->log.frames[i].number == f->number)
			status = add_bar_call(r, f, i, log_on(&t->now, r->axis), PTAH_CALL_NO_END);
		else if (levels_find(l, i, log_on(&f->begin, r->axis), &bar))
			status = add_bar_call(r, f, i, bar.end,
					      (bar.flags & BAR_NO_END ? PTAH_CALL_NO_END : 0) |
						  (bar.flags & BAR_LOSS ? PTAH_CALL_HAS_LOSS : 0));
	}
	return status;
}

/* Whether no call of the function begins or ends in the block. False also if that is not known. */
static bool lacks_function(struct reading *r, const struct log_block *block)
{
	struct log_cursor *c = &r->cursor;
	uint64_t calls;

	if (!log_block_calls(block, (uint32_t)r->function, &calls) || calls ||
	    log_cursor_enter(c, block) < 0)
		return false;
	for (size_t i = 0; i < c->depth; i++) {
		const struct view_entry *e =
		    view_functions_get_entry(r->model->functions, c->frames[i].entry);

		if (e && e->id == r->function)
			return false;
	}
	return true;
}

/* The window from copies of blocks. */
static int read_blocks(struct reading *r, struct view_thread *t, const struct log_block *blocks,
		       size_t count, unsigned first)
{
	bool past = false;
	int status = 0;

	for (size_t i = 0; i < count && !past && !status && !r->model->stop; i++) {
		/* The last one says which calls are open where the reading ends. */
		if (r->function != UINT64_MAX && i + 1 < count && lacks_function(r, &blocks[i]))
			continue;
		status = read_bar_block(r, &blocks[i], &past);
	}
	if (status || !count)
		return status;
	view_lock_read(&t->lock);
	status = add_open(r, t, first);
	view_unlock_read(&t->lock);
	return status;
}

static int take_level(const struct levels *l, unsigned k, uint64_t from, uint64_t to,
		      struct bars *bars)
{
	int status = 0;

	for (size_t i = 0; i < l->level[k].depth && !status; i++)
		status = levels_read(l, k, i, from, to, take_bar, bars);
	return status;
}

/*
 * With the lock, which is released. A bar that touches the window has calls that begin up to two
 * units before it or a unit after it.
 */
static int read_log(struct view_model *m, struct view_thread *t, enum log_axis axis, uint64_t from,
		    uint64_t to, unsigned k, uint64_t function, struct bars *bars)
{
	const unsigned first = t->levels[axis].first;
	const uint64_t unit = level_unit(k);
	struct reading r = {.model = m,
			    .axis = axis,
			    .from = from > 2 * unit ? from - 2 * unit : 0,
			    .to = to + unit,
			    .whole = level_unit(first),
			    .function = function};
	struct log_block *blocks;
	size_t count;
	int status = view_copy_blocks(t, axis, r.from, r.to + r.whole, &blocks, &count);

	view_unlock_read(&t->lock);
	levels_init(&r.level, k);
	r.level.alone = true;
	if (!status)
		status = read_blocks(&r, t, blocks, count, first);
	if (!status)
		status = take_level(&r.level, k, from, to, bars);
	free(blocks);
	levels_fini(&r.level);
	log_cursor_fini(&r.cursor);
	return status;
}

/* The level to answer with. */
static unsigned choose_level(uint64_t from, uint64_t to, uint64_t unit, uint64_t length)
{
	const uint64_t end = to < length ? to : length;
	unsigned k = level_of(unit);

	while (k + 1 < LEVELS && end > from && (end - from) / level_unit(k) > BARS_UNITS)
		k++;
	return k;
}

static int read_bars_once(struct view_model *m, struct view_thread *t, enum log_axis axis,
			  uint64_t from, uint64_t to, unsigned k, struct bars *bars)
{
	int status;

	view_lock_read(&t->lock);
	bars->state = t->ended ? 0 : BARS_INCOMPLETE;
	bars->count = 0;
	if (k < t->levels[axis].first && t->log.full &&
	    (!t->log.count || to > log_on(&t->log.blocks[t->log.count - 1].begin, axis))) {
		k = t->levels[axis].first;
		bars->state |= BARS_COARSE;
	}
	if (k > t->levels[axis].last)
		k = t->levels[axis].last;
	bars->unit = level_unit(k);
	if (k < t->levels[axis].first)
		return read_log(m, t, axis, from, to, k, UINT64_MAX, bars);
	status = read_level(m, t, axis, from, to, k, bars);
	view_unlock_read(&t->lock);
	return status;
}

int view_bars(struct view_model *m, struct view_thread *t, enum log_axis axis, uint64_t from,
	      uint64_t to, uint64_t unit, struct bars *bars)
{
	unsigned k;
	int status;

	*bars = (struct bars){0};
	view_lock_read(&t->lock);
	k = choose_level(from, to, unit, log_on(&t->now, axis));
	view_unlock_read(&t->lock);
	while ((status = read_bars_once(m, t, axis, from, to, k, bars)) > 0 && !m->stop)
		if (status == TOO_MANY && ++k == LEVELS)
			break;
	return status < 0 ? status : 0;
}

int view_bars_of_row(const struct levels *l, uint64_t from, uint64_t to, uint64_t unit,
		     const struct bar *now, struct bars *bars)
{
	unsigned k = level_of(unit);
	int status;

	if (k < l->first) {
		k = l->first;
		bars->state |= BARS_COARSE;
	}
	k = k > l->last ? l->last : k;
	do {
		bars->count = 0;
		bars->unit = level_unit(k);
		status = levels_read(l, k, 0, from, to, take_bar, bars);
	} while (status == TOO_MANY && k++ < l->last);
	if (!status && now->calls && now->begin < to && now->end >= from)
		status = take_bar(bars, 0, now);
	return status < 0 ? status : 0;
}

/* Calls of one function */

/* So many blocks of a window are read for the calls of one function. */
#define FUNCTION_BLOCKS 1024

static int compare_bars(const void *a, const void *b)
{
	const struct placed_bar *x = a, *y = b;

	return COMPARE_THEN(x->depth, y->depth, COMPARE(x->bar.begin, y->bar.begin));
}

/* Each block is a bar, for the calls of the function that began in it. */
static int blocks_as_bars(const struct view_thread *t, enum log_axis axis, uint64_t from,
			  uint64_t to, uint32_t function, struct bars *bars)
{
	struct log_block *blocks;
	size_t count;
	uint64_t calls;
	int status = view_copy_blocks(t, axis, from, to, &blocks, &count);

	for (size_t i = 0; i < count && !status; i++) {
		struct bar bar = {.begin = log_on(&blocks[i].begin, axis),
				  .end = i + 1 < count ? log_on(&blocks[i + 1].begin, axis)
						       : log_on(&t->now, axis),
				  .function = function,
				  .flags = BAR_MERGED};

		bars->unit = bar.end - bar.begin > bars->unit ? bar.end - bar.begin : bars->unit;
		if (!log_block_calls(&blocks[i], function, &calls) || !calls)
			continue;
		bar.calls = calls < UINT32_MAX ? (uint32_t)calls : UINT32_MAX;
		status = take_bar(bars, 0, &bar);
	}
	free(blocks);
	return status < 0 ? status : 0;
}

int view_function_bars(struct view_model *m, struct view_thread *t, enum log_axis axis,
		       uint64_t from, uint64_t to, uint64_t unit, uint32_t function,
		       struct bars *bars)
{
	size_t first, last;
	unsigned k;
	int status;

	*bars = (struct bars){0};
	view_lock_read(&t->lock);
	k = choose_level(from, to, unit, log_on(&t->now, axis));
	bars->state = t->ended ? 0 : BARS_INCOMPLETE;
	first = t->log.count ? log_block_at(t->log.blocks, t->log.count, axis, from) : 0;
	last = t->log.count ? log_block_at(t->log.blocks, t->log.count, axis, to) : 0;
	if (last - first > FUNCTION_BLOCKS) {
		bars->unit = level_unit(k);
		status = blocks_as_bars(t, axis, from, to, function, bars);
		view_unlock_read(&t->lock);
		return status;
	}
	view_unlock_read(&t->lock);
	do {
		bars->count = 0;
		bars->unit = level_unit(k);
		view_lock_read(&t->lock);
		status = read_log(m, t, axis, from, to, k, function, bars);
		k += status == TOO_MANY && k + 1 < LEVELS;
	} while (status > 0 && !m->stop);
	if (status >= 0 && bars->count)
		qsort(bars->list, bars->count, sizeof(*bars->list), compare_bars);
	return status < 0 ? status : 0;
}
