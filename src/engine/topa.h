/* SPDX-License-Identifier: MIT */
/*
 * Tables of Physical Addresses: lays out a buffer in them, converts a place in them (page, entry,
 * offset) to a position in the trace and back, and checks whether a processor would walk them
 * without an error. Arithmetic on memory alone, no registers. Freestanding.
 *
 * The tables are a chain of pages with 511 entries and an END each; the END of the last page leads
 * to the first. The entries name the buffer's regions in order, again and again, as many laps as
 * fit, so that a place in the chain also says in which lap it is. All laps together are a cycle.
 * Regions are numbered from the capture's beginning, through all laps: number q is entry
 * q % entries of the chain and region q % regions of the buffer.
 *
 * SDM "Table of Physical Addresses (ToPA)".
 */
#ifndef PTAH_ENGINE_TOPA_H
#define PTAH_ENGINE_TOPA_H

#include <ptah/engine/hal.h>
#include <ptah/engine/rtit.h>

#define TOPA_PAGE	 4096u
#define TOPA_PER_PAGE	 (PTAH_TOPA_TABLE_ENTRIES - 1u) /* without the END */
#define TOPA_REGION_MAX	 (UINT64_C(4096) << PTAH_TOPA_SIZE_MAX)
#define TOPA_MAX_REGIONS (1u << 20)

struct topa {
	uint64_t region;	/* bytes of every region but the last */
	uint64_t last;		/* bytes of the last region of a lap */
	uint64_t lap;		/* bytes of the buffer */
	uint64_t cycle;		/* bytes of all laps */
	uint32_t regions, laps; /* regions of a lap, laps of a cycle */
	uint32_t entries;	/* regions * laps */
	uint32_t pages;
	uint32_t pmis; /* regions marked with INT per lap; 0: TOPA_CYCLE_PMIS per cycle */
	bool pmi;      /* are regions marked with INT at all? */
	bool multi;    /* more than one entry per table (CPUID.14H.0:ECX[1]) */
	const struct ptah_hal_memory *blocks; /* the buffer: one, or one per region */
	uint32_t nblocks;
	const struct ptah_hal_memory *tables; /* `pages` of them */
};

/* At a quarter and at three quarters of the cycle: a PMI may be late by half a cycle without
 * harm. */
#define TOPA_CYCLE_PMIS 2

/* A place in the tables, as the registers name it. */
struct topa_place {
	uint32_t page, index;
	uint64_t offset;
};

/*
 * Computes lap, laps, entries, pages and cycle from regions, region, last and multi, for at most
 * `pages` pages (0: as many as one lap takes). False: one lap does not fit.
 */
bool topa_size(struct topa *t, uint32_t pages);

/* Writes the tables. */
void topa_build(const struct topa *t);

/* Of region number q: the position where it begins, its size, its memory. */
uint64_t topa_start(const struct topa *t, uint64_t q);
uint64_t topa_bytes(const struct topa *t, uint64_t q);
uint64_t topa_physical(const struct topa *t, uint64_t q);
uint8_t *topa_address(const struct topa *t, uint64_t q);

/* The number of the region that holds the byte at `position`. */
uint64_t topa_region(const struct topa *t, uint64_t position);

/* The place in the tables where the byte at `position` is written. */
struct topa_place topa_locate(const struct topa *t, uint64_t position);

/* The page of tables at this physical address; page `hint` is tried first. -1: none. */
int topa_find(const struct topa *t, uint64_t physical, uint32_t hint);

/*
 * Converts a place to a position, given that the position was `before` at the last look and that
 * less than a cycle has been written since. `stopped`: the processor stopped at an entry with STOP,
 * so that the same place as before means that a whole cycle was written, and not nothing. False:
 * the tables have no such place.
 */
bool topa_position(const struct topa *t, struct topa_place place, uint64_t before, bool stopped,
		   uint64_t *position);

/* Whether a region marked with INT ends at a position in (from, to]. */
bool topa_crosses_int(const struct topa *t, uint64_t from, uint64_t to);

/* Whether region number q is marked with STOP. Marks it, or removes the mark. */
bool topa_is_stop(const struct topa *t, uint64_t q);
void topa_mark_stop(const struct topa *t, uint64_t q, bool stop);

enum topa_fault_kind {
	TOPA_SOUND = 0,
	TOPA_RESERVED,	    /* a reserved bit, or an address beyond MAXPHYADDR */
	TOPA_UNALIGNED,	    /* a region not aligned to its size, a table not to 4 KB */
	TOPA_END_FLAGS,	    /* INT or STOP with END */
	TOPA_END_FIRST,	    /* END in entry 0 */
	TOPA_FOREIGN_TABLE, /* END leads to a page that is none of the tables */
	TOPA_NO_END,	    /* entries run beyond the table's memory */
	TOPA_OFFSET,	    /* OutputOffset is not inside the region */
	TOPA_SINGLE,	    /* single-entry ToPA: entry 1 does not end the table to itself */
};

struct topa_fault {
	uint8_t kind;	  /* enum topa_fault_kind */
	bool behind_stop; /* it is after a STOP, and reached only if tracing continues there */
	uint32_t page, index;
};

/*
 * Walks the tables in memory from `place` on as a processor will: SDM "ToPA
 * Errors". The tables need not come from topa_build(). True: it meets no error.
 */
bool topa_check(const struct ptah_hal_memory *tables, uint32_t n, unsigned physical_bits,
		bool multi, struct topa_place place, struct topa_fault *fault);

#endif
