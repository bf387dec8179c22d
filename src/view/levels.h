/* SPDX-License-Identifier: MIT */
/*
 * Levels of detail of a thread's calls, on one axis (time or instructions).
 *
 * Level k has the unit 4^k. A call that is at least one unit long is a bar of its own. Shorter ones
 * that begin in the same unit, at the same depth and without a longer one between them are one bar:
 * it reaches from the first beginning to the last end and has the function of the longest of them.
 * A level is made from the bars of the one before it, which gives the same bars as all calls would.
 *
 * The first levels take the most memory, so they are the ones that are dropped when there is too
 * little (levels_drop()).
 */
#ifndef PTAH_VIEW_LEVELS_H
#define PTAH_VIEW_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Levels up to the unit 4^20: 10^12 instructions, 18 minutes. */
#define LEVELS	    21
#define LEVEL_FIRST 3 /* the one that levels begin with */

/* The flags of a bar, as the page reads them. */
enum bar_flags {
	BAR_NO_BEGIN = 1 << 0, /* where it began is not in the trace */
	BAR_NO_END = 1 << 1,   /* the same of its end */
	BAR_LOSS = 1 << 2,     /* something was lost in it */
	BAR_TAIL = 1 << 3,     /* entered by a jump */
	BAR_SIGNAL = 1 << 4,
	BAR_INTERRUPT = 1 << 5,
	BAR_SYSCALL = 1 << 6,
	BAR_MERGED = 1 << 7, /* several calls */
};

struct bar {
	uint64_t begin, end;
	uint64_t longest;  /* the length of its longest call */
	uint32_t function; /* of that one; of several as long, the first */
	uint32_t calls;	   /* at most UINT32_MAX */
	uint32_t flags;
};

static inline uint64_t level_unit(unsigned level)
{
	return UINT64_C(1) << 2 * level;
}

/* The level with the largest unit that is not above `unit`. */
unsigned level_of(uint64_t unit);

/* Bars of one depth of a level. */
struct level_row {
	struct bar pending; /* the last one, to which calls may still be added; calls 0: none */
	struct bar *bars;
	size_t count, capacity;
};

struct level {
	struct level_row *rows; /* by depth */
	size_t depth;
};

struct levels {
	struct level level[LEVELS];
	unsigned first; /* the finest that is kept */
	unsigned last;	/* the coarsest that there is so far */
	bool alone;	/* there is only the first one */
	uint64_t bytes; /* of memory */
};

void levels_init(struct levels *levels, unsigned first);
void levels_fini(struct levels *levels);

/*
 * Adds a call, or a bar of several. Those of one depth do not overlap and come in order. 0 or
 * PTAH_E_NOMEM.
 */
int levels_add(struct levels *levels, size_t depth, const struct bar *bar);

/* No more comes: all levels have all calls. 0 or PTAH_E_NOMEM. */
int levels_finish(struct levels *levels);

/* Forgets the first level. False: there can be no coarser one, or no memory for it. */
bool levels_drop(struct levels *levels);

/* The bytes that levels_drop() would free. */
uint64_t levels_first_bytes(const struct levels *levels);

/* The call at a depth that is at least a unit of the first level long and begins at `begin`. */
bool levels_find(const struct levels *levels, size_t depth, uint64_t begin, struct bar *bar);

/* How many bars level `k` has. */
uint64_t levels_count(const struct levels *levels, unsigned k);

/*
 * Passes the bars of level `k` and a depth that touch [from, to) to `take`, in order, until that
 * returns something else than 0, which is returned. A bar touches it if it begins before `to` and
 * ends after `from`, or at it and is of length 0.
 */
int levels_read(const struct levels *levels, unsigned k, size_t depth, uint64_t from, uint64_t to,
		int (*take)(void *context, size_t depth, const struct bar *bar), void *context);

#endif
