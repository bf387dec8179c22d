/* SPDX-License-Identifier: MIT */
#include "output/profile.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

/* Counts of one block of one process; ninsn 0: a free place. */
struct cell {
	uint64_t ip, end;
	uint64_t executions;
	uint64_t instructions;
	uint64_t calls; /* entered by a call */
	uint64_t jumps; /* entered by an indirect jump: a tail call, if a function begins here */
	uint64_t to;	/* where its direct jump goes */
	int32_t pid;
	uint32_t ninsn;
};

struct profile_counter {
	struct profile_totals totals;
	struct cell *cells;
	size_t capacity, count;
	int32_t pid;
	uint8_t before;	   /* class of the block before */
	struct cell *from; /* the block before, if it ends in a direct jump */
};

int profile_new(struct profile_counter **counter)
{
	struct profile_counter *c = calloc(1, sizeof(*c));

	if (!c)
		return PTAH_E_NOMEM;
	c->capacity = 8192;
	c->cells = calloc(c->capacity, sizeof(*c->cells));
	if (!c->cells) {
		free(c);
		return PTAH_E_NOMEM;
	}
	*counter = c;
	return 0;
}

void profile_free(struct profile_counter *c)
{
	if (!c)
		return;
	free(c->cells);
	free(c);
}

const struct profile_totals *profile_totals(const struct profile_counter *c)
{
	return &c->totals;
}

/* What comes next was not entered by the block before. */
static void forget_before(struct profile_counter *c)
{
	c->before = PTAH_INSN_OTHER;
	c->from = NULL;
}

int profile_begin_stream(struct profile_counter *c, const struct ptah_stream_info *info)
{
	c->totals.streams++;
	c->totals.bytes += info->bytes;
	c->totals.lost_bytes += info->lost;
	c->pid = info->pid;
	forget_before(c);
	return 0;
}

static ALWAYS_INLINE struct cell *find(const struct profile_counter *c, int32_t pid, uint64_t ip,
				       uint64_t end)
{
	uint64_t hash =
	    (ip ^ end << 32 ^ (uint64_t)(uint32_t)pid << 48) * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(hash >> 24) & (c->capacity - 1);

	while (c->cells[i].ninsn &&
	       (c->cells[i].ip != ip || c->cells[i].end != end || c->cells[i].pid != pid))
		i = (i + 1) & (c->capacity - 1);
	return &c->cells[i];
}

NOINLINE static int grow(struct profile_counter *c)
{
	struct profile_counter bigger = *c;

	bigger.capacity *= 2;
	bigger.cells = calloc(bigger.capacity, sizeof(*bigger.cells));
	if (!bigger.cells)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < c->capacity; i++)
		if (c->cells[i].ninsn)
			*find(&bigger, c->cells[i].pid, c->cells[i].ip, c->cells[i].end) =
			    c->cells[i];
	free(c->cells);
	*c = bigger;
	return 0;
}

static int add_block(struct profile_counter *c, const struct ptah_item *item)
{
	struct cell *cell = find(c, c->pid, item->ip, item->end);

	if (c->from)
		c->from->to = item->ip;
	if (UNLIKELY(!cell->ninsn)) {
		if (2 * c->count >= c->capacity) {
			if (grow(c) < 0)
				return PTAH_E_NOMEM;
			cell = find(c, c->pid, item->ip, item->end);
		}
		c->count++;
		*cell = (struct cell){
		    .ip = item->ip, .end = item->end, .pid = c->pid, .ninsn = item->ninsn};
	}
	cell->executions++;
	cell->instructions += item->ninsn; /* code that is rewritten may change its count */
	cell->calls += c->before == PTAH_INSN_CALL || c->before == PTAH_INSN_CALL_IND;
	cell->jumps += c->before == PTAH_INSN_JUMP_IND;
	c->before = item->class;
	c->from = item->class == PTAH_INSN_JUMP && !cell->to ? cell : NULL;
	c->totals.blocks++;
	c->totals.instructions += item->ninsn;
	c->totals.branches += item->class != PTAH_INSN_OTHER && item->class != PTAH_INSN_PTWRITE;
	return 0;
}

int profile_add(struct profile_counter *c, const struct ptah_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		switch (items[i].type) {
		case PTAH_ITEM_BLOCK:
			if (add_block(c, &items[i]) < 0)
				return PTAH_E_NOMEM;
			break;
		case PTAH_ITEM_PSB: /* stands between two blocks and changes nothing */
		case PTAH_ITEM_CBR:
			break;
		case PTAH_ITEM_ERROR:
			c->totals.errors++;
			forget_before(c);
			break;
		case PTAH_ITEM_OVERFLOW:
			c->totals.overflows++;
			forget_before(c);
			break;
		case PTAH_ITEM_GAP:
			c->totals.gaps++;
			forget_before(c);
			break;
		default:
			forget_before(c);
			break;
		}
	}
	return 0;
}

int profile_blocks(const struct profile_counter *c, struct names *names, struct profile_row **rows,
		   size_t *n)
{
	struct profile_row *row = calloc(c->count + 1, sizeof(*row));

	if (!row)
		return PTAH_E_NOMEM;
	*rows = row;
	*n = c->count;
	for (size_t i = 0; i < c->capacity; i++) {
		const struct cell *cell = &c->cells[i];

		if (!cell->ninsn)
			continue;
		*row++ = (struct profile_row){
		    .name = *names_find(names, cell->pid, cell->ip),
		    .ip = cell->ip,
		    .size = (uint32_t)(cell->end - cell->ip),
		    .ninsn = cell->ninsn,
		    .executions = cell->executions,
		    .instructions = cell->instructions,
		    .calls = cell->calls,
		    .jumps = cell->jumps,
		    .to = cell->to,
		};
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (x->name.path != y->name.path)
		return x->name.path < y->name.path ? -1 : 1;
	return x->name.start < y->name.start ? -1 : x->name.start > y->name.start;
}

/* Blocks without a name are put together by file. */
static bool same_function(const struct profile_row *a, const struct profile_row *b)
{
	if (a->name.path != b->name.path)
		return false;
	if (!a->name.symbol || !b->name.symbol)
		return a->name.symbol == b->name.symbol;
	return a->name.start == b->name.start;
}

static bool is_plt(const struct name *name)
{
	size_t n = name->symbol ? strlen(name->symbol) : 0;

	return n > 4 && !strcmp(name->symbol + n - 4, "@plt");
}

/* Adds jumps from one function to the beginning of another: tail calls are calls too. */
static void count_tail_calls(struct profile_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct profile_row *from = &rows[i];
		size_t low = 0, high = n;

		while (from->to && low < high) {
			size_t middle = low + (high - low) / 2;

			if (rows[middle].ip < from->to)
				low = middle + 1;
			else
				high = middle;
		}
		if (!from->to || low == n || rows[low].ip != from->to ||
		    rows[low].name.start != from->to || !rows[low].name.symbol ||
		    from->name.start == from->to)
			continue;
		/* Several blocks may begin there; their function counts, whichever it is. */
		rows[low].calls += from->executions;
	}
}

static int by_ip(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	return x->ip < y->ip ? -1 : x->ip > y->ip;
}

int profile_functions(const struct profile_counter *c, struct names *names,
		      struct profile_row **rows, size_t *n)
{
	size_t count = 0, k = 0;
	struct profile_row *all;
	int status = profile_blocks(c, names, &all, &count);

	if (status < 0)
		return status;
	qsort(all, count, sizeof(*all), by_ip);
	count_tail_calls(all, count);
	for (size_t i = 0; i < count; i++) {
		/* An indirect tail call, and what a PLT entry jumps to, are calls too. */
		if (all[i].name.symbol && all[i].ip == all[i].name.start && !is_plt(&all[i].name))
			all[i].calls += all[i].jumps;
		if (!all[i].name.symbol)
			all[i].name.start = 0;
	}
	qsort(all, count, sizeof(*all), by_start);
	for (size_t i = 0; i < count; i++) {
		if (k && same_function(&all[k - 1], &all[i])) {
			all[k - 1].instructions += all[i].instructions;
			all[k - 1].calls += all[i].calls;
			all[k - 1].executions += all[i].executions;
			continue;
		}
		all[k] = all[i];
		all[k].ip = all[i].name.symbol ? all[i].name.start : all[i].ip;
		k++;
	}
	*rows = all;
	*n = k;
	return 0;
}
