/* SPDX-License-Identifier: MIT */
/*
 * Tables of Physical Addresses: how a buffer is laid out in them, which
 * position a place in them is, and whether a processor would walk them without
 * an error. Pure arithmetic on memory; no registers here. Freestanding.
 *
 * The tables are a chain of pages of 511 entries and an END each, the last one
 * leading to the first. The buffer's regions are named in order, over and
 * over, as many laps as fit: so the place in the chain counts the laps too. All
 * laps are a cycle. Regions are numbered from the capture's beginning: number q
 * is entry q % entries of the chain and region q % regions of the buffer.
 *
 * SDM "Table of Physical Addresses (ToPA)".
 */
#ifndef PTAH_ENGINE_TOPA_H
#define PTAH_ENGINE_TOPA_H

#include <ptah/hal.h>
#include <ptah/rtit.h>

#define TOPA_PAGE	 4096u
#define TOPA_PER_PAGE	 (PTAH_TOPA_TABLE_ENTRIES - 1u) /* and an END */
#define TOPA_REGION_MAX	 (UINT64_C(4096) << PTAH_TOPA_SIZE_MAX)
#define TOPA_MAX_REGIONS (1u << 20)

struct topa {
	uint64_t region;	/* bytes of every region but the last */
	uint64_t last;		/* bytes of the last region of a lap */
	uint64_t lap;		/* bytes of the buffer */
	uint64_t cycle;		/* bytes until the chain is through */
	uint32_t regions, laps; /* of a lap, of a cycle */
	uint32_t entries;	/* regions * laps */
	uint32_t pages;
	uint32_t pmis; /* marked with INT per lap; 0: TOPA_CYCLE_PMIS per cycle */
	bool pmi;      /* is INT used at all? */
	bool multi;    /* more than one entry per table (CPUID.14H.0:ECX[1]) */
	const struct ptah_hal_memory *blocks; /* the buffer: one, or one per region */
	uint32_t nblocks;
	const struct ptah_hal_memory *tables; /* `pages` of them */
};

/* At a quarter and three quarters: late by half a cycle does no harm. */
#define TOPA_CYCLE_PMIS 2

/* A place in the tables, as the registers name it. */
struct topa_place {
	uint32_t page, index;
	uint64_t offset;
};

/*
 * Sets laps, entries, pages and cycle from regions, region, last and multi, for
 * at most `pages` pages (0: one, or what one lap takes). False: does not fit.
 */
bool topa_size(struct topa *t, uint32_t pages);

/* Writes the tables. */
void topa_build(const struct topa *t);

/* The region `q`: where it begins, its bytes, its memory. */
uint64_t topa_start(const struct topa *t, uint64_t q);
uint64_t topa_bytes(const struct topa *t, uint64_t q);
uint64_t topa_physical(const struct topa *t, uint64_t q);
uint8_t *topa_address(const struct topa *t, uint64_t q);

/* The region that holds the byte at `position`. */
uint64_t topa_region(const struct topa *t, uint64_t position);

/* Where the byte at `position` is written. */
struct topa_place topa_locate(const struct topa *t, uint64_t position);

/* The table at this physical address; `hint` is looked at first. -1: none. */
int topa_find(const struct topa *t, uint64_t physical, uint32_t hint);

/*
 * The position of a place, given that the position was `before` at the last look
 * and less than a cycle has passed. `stopped`: at the end of an entry with STOP,
 * which tells a full cycle from nothing. False: there is no such place.
 */
bool topa_position(const struct topa *t, struct topa_place place, uint64_t before, bool stopped,
		   uint64_t *position);

/* Does a region marked INT end in (from, to]? */
bool topa_crosses_int(const struct topa *t, uint64_t from, uint64_t to);

/* Is the region `q` marked STOP? And mark it, or take the mark away. */
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
	bool behind_stop; /* comes behind a STOP: reached only if tracing goes on */
	uint32_t page, index;
};

/*
 * Walks the tables in memory from `place` on as a processor will: SDM "ToPA
 * Errors". The tables need not come from topa_build(). True: it meets no error.
 */
bool topa_check(const struct ptah_hal_memory *tables, uint32_t n, unsigned physical_bits,
		bool multi, struct topa_place place, struct topa_fault *fault);

#endif
