/* SPDX-License-Identifier: MIT */
/*
 * What the files of the translator share: cache.c finds units and their memory, block.c makes them,
 * pcmap.c says where in the program a cache address is, gates.c is what exits come to.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_UNITS_H
#define PTAH_RECORD_NATIVE_RUNTIME_UNITS_H

#include "record/native/runtime/emit.h"
#include "record/native/runtime/insn.h"

#define UNIT_INSNS   NATIVE_LIMIT(48, 5)   /* at most so many instructions in a piece */
#define UNIT_PIECES  NATIVE_LIMIT(48, 4)   /* and so many pieces on the way to an exit */
#define UNIT_PATH    NATIVE_LIMIT(320, 12) /* with so many instructions */
#define UNIT_ROOM    NATIVE_LIMIT(60u << 10, 16u << 10) /* cache memory that one may take */
#define UNIT_SLOTS   (3u * UNIT_PIECES + 2u)		/* and so many slots of exits */
#define UNIT_TNT_MAX 16					/* bytes of TNT packets at an exit */
#define UNIT_PACKETS (UNIT_TNT_MAX + PACKETS_BRANCH)	/* and of all its packets */
/*
 * An exit that was taken so often is continued. With a truth, which is for checking, that is soon,
 * so that also what runs for a short time is checked with paths.
 */
#define EXIT_HEAT	  1000
#define EXIT_HEAT_CHECKED NATIVE_LIMIT(50, 3)
#define CACHE_BUCKETS	  NATIVE_LIMIT(1u << 12, 64u) /* of the hash table of heads, at first */
#define CACHE_BUCKETS_MAX NATIVE_LIMIT(1u << 18, 512u)
#define CACHE_PAGE_BITS	  NATIVE_LIMIT(20, 6) /* 2^n bits note which pages have translated code */
#define CACHE_PAGE_LISTS  NATIVE_LIMIT(16384u, 4u) /* of the hash table of pages */
#define CACHE_AREAS	  NATIVE_LIMIT(32, 64)
#define CACHE_AREA	  NATIVE_LIMIT(8u << 20, 128u << 10)
#define CACHE_READY	  NATIVE_LIMIT(64u << 10, 4096u) /* bytes of code get their pages at once */
#define UNIT_USUAL	  1024u				 /* bytes that most units do not need */
#define CACHE_SLOT_BITS	  20
#define CACHE_SLOTS	  (CACHE_AREA / (EXIT_SLOT + sizeof(uint32_t)))
/* Bytes of an area for numbers that are counted down: one for each slot. */
#define CACHE_HEATS (CACHE_AREA / 6 & ~4095u)
/* An area is used again when of its units so many in a hundred are forgotten. */
#define CACHE_FORGOTTEN NATIVE_LIMIT(50u, 0u)
#define CACHE_BLOCK	NATIVE_LIMIT(32u << 10, 4096u) /* bytes for what is known of its units */
#define CACHE_PATHS	NATIVE_LIMIT(40u << 20, 512u << 10) /* bytes of code that continues exits */
/* Units lie within this distance of their code, so that 32 bits reach from one to the other. */
#define CACHE_REACH (UINT64_C(1) << 30)
/* Of so many regions of this size it is known that no area can be made near their code. */
#define CACHE_REGIONS 64
#define CACHE_REGION  (UINT64_C(256) << 20)

/*
 * What most exits never do stands far away from the code that runs, so that this is dense: the stub
 * that leads to the gate is in a slot at the end of the area. The counter is made when the exit is
 * taken for the first time, and comes to lie beside the unit at the target, which is made then.
 */
#define EXIT_SLOT    24u /* bytes */
#define EXIT_COUNTER 45u /* bytes */
#define EXIT_COUNTED 36u /* the field of the counter's jump to the unit */

enum exit_kind {
	EXIT_DIRECT = 0, /* continues at `target` */
	EXIT_INDIRECT,	 /* at the address in RCX */
	EXIT_SYSCALL,	 /* before the SYSCALL at `target` */
	EXIT_STOP,	 /* before the instruction at `target`, which is not translated */
	/*
	 * At the return address that is on top of the stack. The exit behind it in unit->exits is
	 * that for all other addresses, EXIT_INDIRECT.
	 */
	EXIT_RETURN,
};

/* What a branch says in the trace: a bit of a TNT packet, or nothing. */
enum outcome {
	OUTCOME_NONE = 0,
	OUTCOME_NOT_TAKEN,
	OUTCOME_TAKEN,
};

/* Straight code of the program, and the branch at its end. */
struct piece {
	uint64_t start, end; /* all of it ran when the next one begins */
	uint8_t *code;	     /* where its copy begins; NULL: in the unit that this one continues */
	uint16_t first, count; /* its copied instructions in unit->insns */
	uint16_t size;	       /* instructions in it */
	uint8_t flow;	       /* enum insn_flow, of the branch */
	uint8_t outcome;       /* enum outcome, of the branch, where the next piece follows */
};

struct exit {
	struct unit *unit;
	uint64_t branch; /* the instruction that is the exit */
	uint64_t target;
	struct unit *linked;	    /* the unit to which it leads */
	struct unit *continued;	    /* the unit that continues it */
	struct exit *next_incoming; /* of those that lead to the same unit */
	uint32_t number;	    /* in the log of exits (NATIVE_TRUTH) */
	/*
	 * Its slot: cache_slot(). As long as there is no unit at the target, the jump at the end
	 * leads to the stub there; then, if it can be continued, to the counter, which counts down
	 * and goes on to the unit: exit_counter(). 0: it has none.
	 */
	uint32_t slot;
	int32_t counter;
	/*
	 * Places in its code, from unit_place(): where it begins; where its stores begin, after R11
	 * and RCX were exchanged as they have to be; where it ends, with the jump of EXIT_DIRECT.
	 * Before `again` and behind the last store nothing faults. From `taken` on R11 is the log's
	 * pointer, also in units that use R11.
	 */
	uint16_t begin, again, taken, end;
	/*
	 * The field of the branch that leads here, which can lead to the unit that continues this
	 * exit instead, before its packets are stored. 0: it cannot be continued.
	 */
	uint16_t side;
	uint16_t pops;	    /* of a return, bytes */
	uint8_t kind;	    /* enum exit_kind */
	uint8_t pieces;	    /* so many pieces of the unit have run */
	uint8_t outcome;    /* enum outcome, of the last one's branch */
	bool has_rcx : 1;   /* RCX is in the context from the beginning on */
	bool saves_rcx : 1; /* EXIT_DIRECT: it is from the first store on */
	bool traced : 1;    /* EXIT_DIRECT: tracing is on behind it */
	bool differs : 1;   /* taken where a unit that compares is not what it was made of */
	bool stops : 1;	    /* and it leads into a stop range: always by the gate */
	bool counts : 1;    /* the exit leads to it, or did until it was hot */
};

/* An instruction in a unit, by its two sizes. */
struct unit_insn {
	uint8_t size, copied;
	uint8_t scratch, saved, restore; /* struct copy */
};

/* Where indirect branches enter a unit. */
struct prologue {
	uint8_t *start; /* NULL: there is none yet */
	/* In it: the packet's store; behind it; behind all of it. */
	uint8_t store, end, last;
};

/*
 * A unit begins at its head with one piece. Where an exit of it is hot, another unit continues it
 * along the path that is likely from there on; its pieces are those up to the exit, which have run
 * before and have not been logged, and those that it copies itself.
 */
struct unit {
	uint64_t head;
	struct unit *next; /* of the same hash */
	uint8_t *code;	   /* where direct exits enter */
	uint32_t version;  /* changes_version() when it was made */
	bool dead;	   /* forgotten: nothing leads here any more */
	bool uses_r11;
	bool off;		     /* it is not traced (filter.h), and stores nothing */
	bool checked;		     /* has code of a page that changes_is_mixed() */
	bool compares;		     /* it looks itself whether this is what it was made of */
	uint8_t piece_count, before; /* `before`: those of the units that it continues */
	struct exit *exits;
	struct piece *pieces; /* none: the code at the head cannot be translated */
	struct unit_insn *insns;
	struct exit *parent; /* the exit that it continues; NULL: none */
	struct exit *incoming;
	struct prologue prologue;
	struct prologue *from_off; /* for branches that are not traced; NULL: none yet */
	/* Places: unit_place(). */
	uint16_t code_at; /* `code` */
	uint16_t first;	  /* the first copied instruction */
	uint16_t code_end;
	uint16_t insn_count;
	uint8_t exit_count;
	uint8_t area; /* number of the one that has its code and its memory */
};

/* Code of a unit, or its prologue, begins here. */
struct mark {
	const uint8_t *start;
	struct unit *unit;
};

/*
 * A piece of the cache, with its marks in the order of their addresses: code of units from `start`
 * on, and slots of exits from `end` downwards.
 */
struct area {
	uint8_t *start, *at, *end;
	uint8_t *ready; /* up to here, its code has pages */
	struct mark *marks;
	struct exit **slots; /* whose it is */
	uint32_t *heats;     /* of each slot: how often the exit is still to be taken */
	uint32_t mark_count, mark_room;
	uint32_t slot_count;
	struct area_block *blocks, *block; /* of memory: all of them, and the one in use */
	uint32_t block_used;		   /* bytes */
	uint32_t unit_count, forgotten;	   /* units, and those of them that are forgotten */
	size_t path_bytes;		   /* of code that continues exits */
	bool is_closed;			   /* cache.closed */
	bool is_large;			   /* it has large pages, if the kernel has some */
};

/* A unit has code in a page. */
struct page_unit {
	uint64_t page;
	struct unit *unit;
	struct page_unit *next; /* of the same hash */
};

struct cache {
	struct area areas[CACHE_AREAS];
	uint32_t area_count;
	uint64_t readable;		 /* a page of code that was read last */
	uint64_t crowded[CACHE_REGIONS]; /* numbers of regions, from 1 on */
	/*
	 * By hash: bit 0 says that no unit has code in the page. Programs map and unmap data all
	 * the time, which must not cost a look at all units.
	 */
	uint64_t pages[(1u << CACHE_PAGE_BITS) / 64];
	struct page_unit *page_units[CACHE_PAGE_LISTS];
	struct page_unit *unused; /* for page_units */
	uint32_t heat;		  /* EXIT_HEAT, or EXIT_HEAT_CHECKED */
	bool rotates;		  /* the processor has RORX (BMI2) */
	size_t path_bytes;	  /* of code that continues exits */
	/*
	 * An area whose units are all forgotten. It is used again when each thread has come to C
	 * code twice since then: when its context has this epoch.
	 */
	struct area *closed;
	struct unit nobody; /* dead: marks elsewhere have it in place of units of such an area */
	uint32_t epoch;
	bool lacks_room; /* an area had to be made, or one is full of what is forgotten */
	struct unit **buckets;
	uint32_t bucket_count; /* a power of two */
	uint32_t unit_count;   /* of those in the buckets */
};

/* A place in the code of a unit. */
static inline uint8_t *unit_place(const struct unit *u, unsigned place)
{
	return u->code - u->code_at + place;
}

/* Only if it has one. */
static inline uint8_t *exit_counter(const struct exit *exit)
{
	return exit->unit->code + exit->counter;
}

/* The code of a slot. */
static inline uint8_t *area_slot(const struct area *a, uint32_t n)
{
	return a->end - (n + 1) * EXIT_SLOT;
}

/* What struct exit has of its slot: the area's number, and the slot's in it, which is not 0. */
static inline uint8_t *cache_slot(const struct cache *cache, uint32_t slot)
{
	return area_slot(&cache->areas[slot >> CACHE_SLOT_BITS],
			 slot & ((1u << CACHE_SLOT_BITS) - 1));
}

static inline uint32_t *cache_heat(const struct cache *cache, uint32_t slot)
{
	return &cache->areas[slot >> CACHE_SLOT_BITS].heats[slot & ((1u << CACHE_SLOT_BITS) - 1)];
}

static inline struct exit *cache_slot_exit(const struct cache *cache, uint32_t slot)
{
	return cache->areas[slot >> CACHE_SLOT_BITS].slots[slot & ((1u << CACHE_SLOT_BITS) - 1)];
}

/* cache.c: with the cache's lock, except cache_find() and cache_find_exit() */
/* The unit of this head for the thread, which is traced or not; NULL: none can be made. */
struct unit *cache_unit(struct context *c, uint64_t head);
/* The same, but makes none. off: one that is not traced. */
struct unit *cache_look_up(const struct cache *cache, uint64_t head, bool off);
/* Makes a unit that continues an exit, which was taken often, if that is possible. */
void cache_continue(struct context *c, struct exit *exit);
/* The unit that has this cache address, NULL: none. Needs no lock: areas and marks only grow. */
struct unit *cache_find(const struct runtime *rt, uint64_t address);
/* Likewise the exit whose slot has it, or whose code. */
struct exit *cache_find_exit(const struct runtime *rt, const struct unit *u, uint64_t address);
/* An area in which a unit has room, near this head if there can be one; NULL: there is no memory. */
struct area *cache_area(struct context *c, uint64_t head);
/* Memory that is used again with the area; zeroed. NULL: there is none. */
void *cache_take(struct context *c, struct area *area, size_t n);
/* Notes code that begins at area->at. */
void cache_mark(struct area *area, const uint8_t *start, struct unit *unit);
/*
 * How many of n bytes of code can be executed at this address. They do not change then without a
 * unit_forget().
 */
size_t cache_readable(struct context *c, uint64_t address, size_t n);
/* Lets the exit lead to the unit from now on. count: by its counter. */
void cache_link(struct context *c, struct exit *exit, struct unit *to, bool count);

/* exits.c: with NATIVE_TRUTH, what ran in units, for the second log. */
/*
 * Describes to the recorder the first n pieces of a unit, and code [start, end), which may be
 * empty. Returns the number of this exit.
 */
uint32_t exits_describe(struct context *c, const struct unit *u, unsigned n, uint64_t start,
			uint64_t end);
/* Appends a number to the log; not from the cache. */
void exits_log(struct context *c, uint32_t number);

/*
 * Which way the program goes: pieces, one after the other (path.c). Each outcome is known, because
 * the exits of units have counted.
 */
struct path {
	struct piece pieces[UNIT_PIECES];
	unsigned count;
	unsigned insns;	   /* in all pieces */
	unsigned outcomes; /* of them that are not OUTCOME_NONE */
	unsigned lap;	   /* the piece with which the path has come to its head the last time */
	uint64_t returns[UNIT_PIECES]; /* return addresses of calls that have not returned */
	unsigned depth;
	uint32_t version; /* units that are newer are not taken into it */
	bool uses_r11;
	bool off;     /* of units that are not traced */
	bool checked; /* as of a unit */
};

/* The instructions of a piece. */
struct code {
	struct insn insns[UNIT_INSNS];
	uint64_t addresses[UNIT_INSNS];
	unsigned count; /* with the branch */
	unsigned flow;	/* of the last one; INSN_NEXT: it is cut here */
	bool stopped;	/* what follows cannot be translated */
	bool uses_r11;
	bool checked; /* as of a unit */
	uint64_t end;
};

/*
 * Waits for the code at an address as the processor would. Where threads of the program serve faults
 * (userfaultfd), they need the lock of the cache: so nothing that may not be there is read with it.
 */
void path_await(const struct context *c, uint64_t at);
/* Reads instructions up to the first branch. */
void path_read(struct context *c, uint64_t start, struct code *code);
/* The path has no pieces yet. */
void path_begin(struct path *path);
/* Adds the piece at `start`, which has been read. */
void path_add(struct path *path, uint64_t start, const struct code *code);
/* Adds the pieces that have run at an exit. */
void path_take(struct path *path, const struct exit *exit);
/* Goes on from an address as long as it is known where the program goes. */
void path_follow(struct context *c, struct path *path, uint64_t next);

/*
 * Whether a return to this address can be told from others without touching flags: block.c takes it
 * apart in two numbers of 32 bits, of which the upper one needs RORX.
 */
bool path_can_compare(const struct context *c, uint64_t address);

/*
 * block.c: makes the copy of a path, of which the first u->before pieces have run. code: room for
 * what is read; has_first: it is the code of the first piece already.
 */
bool block_make(struct context *c, struct unit *u, const struct path *path, struct area *area,
		struct code *code, bool has_first);
/* The bytes of the TNT packets of the first n pieces; last: the outcome of the n-th. */
unsigned block_packets(const struct unit *u, unsigned n, unsigned last,
		       uint8_t bytes[UNIT_TNT_MAX]);
/* Writes the counter of an exit. False: there is no room. */
bool block_make_counter(const struct cache *cache, struct exit *exit, struct area *area);
/* All packets of an exit; last: the outcome of its branch. */
unsigned block_exit_packets(const struct exit *exit, unsigned last, uint8_t bytes[UNIT_PACKETS]);
/* Whether tracing goes on or off at an exit. */
static inline bool exit_crosses(const struct exit *exit)
{
	return exit->kind == EXIT_DIRECT && exit->traced == exit->unit->off;
}
/* Writes a prologue of the unit: `p`, which is the one for branches that are not traced if
 * from_off. False: there is no room. */
bool block_make_prologue(struct unit *u, struct prologue *p, bool from_off, struct area *area);

/*
 * pcmap.c: the log's pointer, where `log` has the place of it that may be poisoned; it is not
 * poisoned any more.
 */
uint64_t unit_real_log(struct context *c, uint64_t log);
/*
 * A taken branch arrives at its target: stores its packets at the log's pointer, but not TNTs.
 * Returns the new one.
 */
uint64_t unit_arrive(struct context *c, uint64_t log, uint64_t target, bool indirect);

/* gates.c: what gates.S calls, with the program's registers in *r. */
_Noreturn void gate_take_exit(struct context *c, struct registers *r, uint64_t slot);
_Noreturn void gate_take_indirect(struct context *c, struct registers *r, uint64_t target);
_Noreturn void gate_take_syscall(struct context *c, struct registers *r, uint64_t slot);
_Noreturn void gate_take_signal(struct context *c, struct registers *r);

/* gates.S */
extern const uint8_t gate_exit[], gate_miss[], gate_indirect[], gate_syscall[], gate_restart[],
    gate_log_loaded[], gate_resume_end[];

#endif
