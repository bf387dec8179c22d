/* SPDX-License-Identifier: MIT */
/* The call machine's public interface: beginnings and ends of calls as a list of marks. */
#include "calls/machine.h"

#include <stdlib.h>
#include <string.h>

/* What the list keeps of an open call. */
struct open_call {
	uint64_t begin_tsc;
	struct ptah_call_counts begin, self;
};

struct ptah_calls {
	struct calls_machine machine; /* first: the sink gets a pointer to it */
	struct open_call *open;
	size_t depth, open_capacity;
	struct ptah_call_counts last; /* at the last mark: what follows belongs to the innermost */
	/* The caller's marks; those that had no room there wait in `late`, from `late_first` on. */
	struct ptah_call_mark *marks;
	size_t capacity, count;
	struct ptah_call_mark *late;
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

/* Makes an array of `size` bytes an entry larger where it is full. False: out of memory. */
static bool grow(void **array, size_t *capacity, size_t count, size_t size)
{
	size_t more = *capacity ? 2 * *capacity : 64;
	void *bigger;

	if (count < *capacity)
		return true;
	bigger = realloc(*array, more * size);
	if (!bigger)
		return false;
	*array = bigger;
	*capacity = more;
	return true;
}

static struct ptah_call_mark *next_mark(struct ptah_calls *c)
{
	void *late = c->late;

	if (c->count < c->capacity && c->late_first == c->late_count)
		return &c->marks[c->count++];
	if (!grow(&late, &c->late_capacity, c->late_count, sizeof(*c->late))) {
		c->status = PTAH_E_NOMEM;
		return NULL;
	}
	c->late = late;
	return &c->late[c->late_count++];
}

static void fill_mark(struct ptah_calls *c, struct ptah_call_mark *mark,
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
static void count_self(struct ptah_calls *c)
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
	struct ptah_calls *c = (struct ptah_calls *)m;
	struct ptah_call_mark *mark;
	void *open = c->open;

	count_self(c);
	if (!grow(&open, &c->open_capacity, c->depth, sizeof(*c->open))) {
		c->status = PTAH_E_NOMEM;
		return;
	}
	c->open = open;
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
	struct ptah_calls *c = (struct ptah_calls *)m;
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

int ptah_calls_new(const struct ptah_calls_config *config, struct ptah_calls **calls)
{
	const struct ptah_calls_config defaults = {.size = sizeof(defaults)};
	struct ptah_calls *c;
	int status;

	if (!calls || (config && config->size != sizeof(*config)))
		return PTAH_E_INVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	status = calls_machine_init(&c->machine, config ? config : &defaults, &list_sink);
	if (status < 0) {
		free(c);
		return status;
	}
	*calls = c;
	return 0;
}

void ptah_calls_free(struct ptah_calls *calls)
{
	if (!calls)
		return;
	calls_machine_fini(&calls->machine);
	free(calls->open);
	free(calls->late);
	free(calls);
}

/* Lends the caller's array to the sink, and begins it with the marks that are waiting. */
static void begin_batch(struct ptah_calls *c, struct ptah_call_mark *marks, size_t capacity)
{
	size_t n = c->late_count - c->late_first;

	n = n < capacity ? n : capacity;
	if (n)
		memcpy(marks, c->late + c->late_first, n * sizeof(*marks));
	c->late_first += n;
	if (c->late_first == c->late_count)
		c->late_first = c->late_count = 0;
	c->marks = marks;
	c->capacity = capacity;
	c->count = n;
}

static int end_batch(struct ptah_calls *c)
{
	c->capacity = 0;
	if (c->machine.status < 0)
		c->status = c->machine.status;
	return c->status;
}

int ptah_calls_take(struct ptah_calls *calls, const struct ptah_item *items, size_t n,
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

int ptah_calls_take_spans(struct ptah_calls *calls, const struct ptah_span *spans, size_t n,
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

bool ptah_calls_bounds(void *calls, unsigned space, uint64_t ip, uint64_t *low, uint64_t *high)
{
	struct ptah_calls *c = calls;

	return calls_bounds(&c->machine, space, ip, low, high);
}

int ptah_calls_finish(struct ptah_calls *calls, struct ptah_call_mark *marks, size_t capacity)
{
	int status;

	if (!calls || !marks || !capacity || capacity > INT32_MAX)
		return PTAH_E_INVAL;
	begin_batch(calls, marks, capacity);
	calls_end(&calls->machine, PTAH_CALL_END_TRACE);
	status = end_batch(calls);
	return status < 0 ? status : (int)calls->count;
}

int ptah_calls_exec(struct ptah_calls *calls, uint64_t tsc)
{
	if (!calls)
		return PTAH_E_INVAL;
	calls_exec(&calls->machine, tsc);
	return calls->status;
}

int ptah_calls_lost(struct ptah_calls *calls)
{
	if (!calls)
		return PTAH_E_INVAL;
	calls_lost(&calls->machine);
	return calls->status;
}

void ptah_calls_set_cycles(struct ptah_calls *calls, uint64_t cycles)
{
	if (calls)
		calls->machine.cycles = cycles;
}

void ptah_calls_code_changed(struct ptah_calls *calls)
{
	if (calls)
		calls_forget_code(&calls->machine);
}
