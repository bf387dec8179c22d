/* SPDX-License-Identifier: MIT */
/* The call machine's public interface: beginnings and ends of calls as a list of marks. */
#include "calls/steps.h"
#include "support/list.h"
#include "calls/calls.h"

#include <stdlib.h>
#include <string.h>

/* What the list keeps of an open call. */
struct open_call {
	uint64_t begin_tsc;
	struct ptah_call_counts begin, self;
};

struct calls_marks {
	struct calls_machine machine; /* first: the sink gets a pointer to it */
	struct open_call *open;
	size_t depth, open_capacity;
	struct ptah_call_counts last; /* at the last mark: what follows belongs to the innermost */
	/*
	 * The caller's marks, or steps; those that had no room there wait in `late`, from
	 * `late_first` on.
	 */
	bool in_steps;
	struct ptah_call_mark *marks;
	struct ptah_call_step *steps;
	size_t capacity, count;
	void *late;
	size_t late_first, late_count, late_capacity;
	int status;
};

static struct ptah_call_counts minus(const struct ptah_call_counts *a,
				     const struct ptah_call_counts *b)
{
	return (struct ptah_call_counts){
	    a->instructions - b->instructions,
	    a->cycles - b->cycles,
	    a->ticks - b->ticks,
	    a->off_ticks - b->off_ticks,
	};
}

static void add(struct ptah_call_counts *sum, const struct ptah_call_counts *n)
{
	sum->instructions += n->instructions;
	sum->cycles += n->cycles;
	sum->ticks += n->ticks;
	sum->off_ticks += n->off_ticks;
}

/* A mark or step of `size` bytes that waits. NULL: out of memory, which the status says. */
static NOINLINE void *add_late(struct calls_marks *c, size_t size)
{
	if (c->late_count == c->late_capacity &&
	    !list_grow(&c->late, c->late_count, 1, &c->late_capacity, sizeof(c->late_capacity),
		       size)) {
		c->status = PTAH_E_NOMEM;
		return NULL;
	}
	return (char *)c->late + size * c->late_count++;
}

static struct ptah_call_mark *next_mark(struct calls_marks *c)
{
	if (c->count < c->capacity && c->late_first == c->late_count)
		return &c->marks[c->count++];
	return add_late(c, sizeof(struct ptah_call_mark));
}

static void fill_mark(struct calls_marks *c, struct ptah_call_mark *mark,
		      const struct calls_frame *f, uint64_t site)
{
	const struct calls_machine *m = &c->machine;

	memset(mark, 0, sizeof(*mark));
	mark->tsc_error = m->now.tsc_error;
	mark->space = f->space;
	mark->depth = (uint32_t)c->depth;
	mark->level = (int32_t)c->depth + m->level;
	mark->id = f->id;
	mark->function = f->function;
	mark->site = site;
	mark->tsc = m->now.tsc;
	mark->offset = m->now.offset;
	mark->thread = m->now.counts;
}

/* What has run since the last mark belongs to the innermost call. */
static void count_self(struct calls_marks *c)
{
	const struct ptah_call_counts *now = &c->machine.now.counts;

	if (c->depth) {
		const struct ptah_call_counts n = minus(now, &c->last);

		add(&c->open[c->depth - 1].self, &n);
	}
	c->last = *now;
}

static void on_begin(struct calls_machine *m, const struct calls_frame *f, uint64_t site)
{
	struct calls_marks *c = (struct calls_marks *)m;
	struct ptah_call_mark *mark;

	count_self(c);
	if (!LIST_ROOM(c->open, c->depth, c->open_capacity)) {
		c->status = PTAH_E_NOMEM;
		return;
	}
	mark = next_mark(c);
	if (!mark)
		return;
	fill_mark(c, mark, f, site);
	mark->how = f->how;
	mark->flags = f->flags;
	c->open[c->depth++] = (struct open_call){m->now.tsc, m->now.counts, {0}};
}

static void on_end(struct calls_machine *m, const struct calls_frame *f, enum ptah_call_end how,
		   unsigned flags, uint64_t site)
{
	struct calls_marks *c = (struct calls_marks *)m;
	struct ptah_call_mark *mark;
	const struct open_call *open;

	if (c->status < 0)
		return;
	count_self(c);
	open = &c->open[--c->depth];
	mark = next_mark(c);
	if (!mark)
		return;
	fill_mark(c, mark, f, site);
	mark->end = 1;
	mark->how = (uint8_t)how;
	mark->flags = (uint16_t)flags;
	mark->begin_tsc = open->begin_tsc;
	mark->total = minus(&m->now.counts, &open->begin);
	mark->self = open->self;
}

static const struct calls_sink list_sink = {on_begin, on_end};

/* Steps */

static ALWAYS_INLINE void put_step(struct calls_machine *m, const struct ptah_call_step *step)
{
	struct calls_marks *c = (struct calls_marks *)m;
	struct ptah_call_step *to;

	if (LIKELY(c->count < c->capacity && c->late_first == c->late_count))
		to = &c->steps[c->count++];
	else
		to = add_late(c, sizeof(*to));
	if (!to)
		return;
	*to = *step;
	to->tsc = m->now.tsc;
	to->thread = m->now.counts;
}

static ALWAYS_INLINE void step_begin(struct calls_machine *m, const struct calls_frame *f,
				     uint64_t site)
{
	put_step(m, &(struct ptah_call_step){.function = f->function,
					     .site = site,
					     .flags = f->flags,
					     .space = f->space,
					     .how = f->how});
}

static ALWAYS_INLINE void step_end(struct calls_machine *m, const struct calls_frame *f,
				   enum ptah_call_end how, unsigned flags, uint64_t site)
{
	put_step(m, &(struct ptah_call_step){.site = site,
					     .flags = (uint16_t)flags,
					     .space = f->space,
					     .end = 1,
					     .how = (uint8_t)how});
}

/* For the machine's inline functions. */
static const struct calls_sink step_sink = {step_begin, step_end};

/* For all others. */
static void step_begin_slowly(struct calls_machine *m, const struct calls_frame *f, uint64_t site)
{
	step_begin(m, f, site);
}

static void step_end_slowly(struct calls_machine *m, const struct calls_frame *f,
			    enum ptah_call_end how, unsigned flags, uint64_t site)
{
	step_end(m, f, how, flags, site);
}

static const struct calls_sink slow_step_sink = {step_begin_slowly, step_end_slowly};

/* Both */

static int new_calls(const struct calls_config *config, const struct calls_sink *sink,
		     struct calls_marks **calls)
{
	struct calls_marks *c = calloc(1, sizeof(*c));
	int status = c ? calls_machine_init(&c->machine, config, sink) : PTAH_E_NOMEM;

	if (status < 0) {
		free(c);
		return status;
	}
	c->in_steps = sink == &slow_step_sink;
	*calls = c;
	return 0;
}

int calls_marks_new(const struct calls_config *config, struct calls_marks **calls)
{
	const struct calls_config defaults = {.size = sizeof(defaults)};

	if (!calls || (config && config->size != sizeof(*config)))
		return PTAH_E_INVAL;
	return new_calls(config ? config : &defaults, &list_sink, calls);
}

int calls_new_steps(const struct calls_config *config, struct calls_marks **calls)
{
	return new_calls(config, &slow_step_sink, calls);
}

void calls_marks_free(struct calls_marks *calls)
{
	if (!calls)
		return;
	calls_machine_fini(&calls->machine);
	free(calls->open);
	free(calls->late);
	free(calls);
}

/* Lends the caller's array to the sink, and begins it with what is waiting. */
static void begin_batch(struct calls_marks *c, void *array, size_t capacity)
{
	const size_t size =
	    c->in_steps ? sizeof(struct ptah_call_step) : sizeof(struct ptah_call_mark);
	size_t n = c->late_count - c->late_first;

	n = n < capacity ? n : capacity;
	if (n)
		memcpy(array, (char *)c->late + c->late_first * size, n * size);
	c->late_first += n;
	if (c->late_first == c->late_count)
		c->late_first = c->late_count = 0;
	c->marks = c->in_steps ? NULL : array;
	c->steps = c->in_steps ? array : NULL;
	c->capacity = capacity;
	c->count = n;
}

static int end_batch(struct calls_marks *c)
{
	c->capacity = 0;
	if (c->machine.status < 0)
		c->status = c->machine.status;
	return c->status;
}

int calls_marks_take(struct calls_marks *calls, const struct ptah_item *items, size_t n,
		     struct ptah_call_mark *marks, size_t capacity, size_t *count)
{
	size_t used = 0;
	int status;

	if (!calls || (n && !items) || !marks || !capacity || !count || n > INT32_MAX)
		return PTAH_E_INVAL;
	begin_batch(calls, marks, capacity);
	while (used < n && calls->count < capacity)
		calls_item(&calls->machine, &list_sink, &items[used++]);
	*count = calls->count;
	status = end_batch(calls);
	return status < 0 ? status : (int)used;
}

int calls_marks_take_spans(struct calls_marks *calls, const struct ptah_span *spans, size_t n,
			   struct ptah_call_mark *marks, size_t capacity, size_t *count)
{
	size_t used = 0;
	int status;

	if (!calls || (n && !spans) || !marks || !capacity || !count || n > INT32_MAX)
		return PTAH_E_INVAL;
	begin_batch(calls, marks, capacity);
	while (used < n && calls->count < capacity)
		calls_span(&calls->machine, &list_sink, &spans[used++]);
	*count = calls->count;
	status = end_batch(calls);
	return status < 0 ? status : (int)used;
}

int calls_take_steps(struct calls_marks *calls, const struct ptah_item *items, size_t n,
		     struct ptah_call_step *steps, size_t capacity, size_t *count)
{
	size_t used = 0;
	int status;

	begin_batch(calls, steps, capacity);
	while (used < n && calls->count < capacity)
		calls_item(&calls->machine, &step_sink, &items[used++]);
	*count = calls->count;
	status = end_batch(calls);
	return status < 0 ? status : (int)used;
}

int calls_take_span_steps(struct calls_marks *calls, const struct ptah_span *spans, size_t n,
			  struct ptah_call_step *steps, size_t capacity, size_t *count)
{
	size_t used = 0;
	int status;

	begin_batch(calls, steps, capacity);
	while (used < n && calls->count < capacity)
		calls_span(&calls->machine, &step_sink, &spans[used++]);
	*count = calls->count;
	status = end_batch(calls);
	return status < 0 ? status : (int)used;
}

int calls_finish_steps(struct calls_marks *calls, struct ptah_call_step *steps, size_t capacity)
{
	int status;

	begin_batch(calls, steps, capacity);
	calls_end(&calls->machine, PTAH_CALL_END_TRACE);
	status = end_batch(calls);
	return status < 0 ? status : (int)calls->count;
}

bool calls_marks_bounds(void *calls, unsigned space, uint64_t ip, uint64_t *low, uint64_t *high)
{
	struct calls_marks *c = calls;

	return calls_bounds(&c->machine, space, ip, low, high);
}

int calls_marks_finish(struct calls_marks *calls, struct ptah_call_mark *marks, size_t capacity)
{
	int status;

	if (!calls || !marks || !capacity || capacity > INT32_MAX)
		return PTAH_E_INVAL;
	begin_batch(calls, marks, capacity);
	calls_end(&calls->machine, PTAH_CALL_END_TRACE);
	status = end_batch(calls);
	return status < 0 ? status : (int)calls->count;
}

uint64_t calls_marks_time(const struct calls_marks *calls)
{
	return calls->machine.now.tsc;
}

void calls_marks_wait(struct calls_marks *calls, uint64_t until)
{
	calls_set_time(&calls->machine, until, calls->machine.now.counts.cycles);
}

int calls_marks_exec(struct calls_marks *calls, uint64_t tsc)
{
	if (!calls)
		return PTAH_E_INVAL;
	calls_exec(&calls->machine, tsc);
	return calls->status;
}

int calls_marks_lost(struct calls_marks *calls)
{
	if (!calls)
		return PTAH_E_INVAL;
	calls_lost(&calls->machine);
	return calls->status;
}

void calls_marks_counts(const struct calls_marks *calls, struct ptah_call_counts *counts)
{
	if (counts)
		*counts = calls ? calls->machine.now.counts : (struct ptah_call_counts){0};
}

void calls_marks_code_changed(struct calls_marks *calls)
{
	if (calls)
		calls_forget_code(&calls->machine);
}
