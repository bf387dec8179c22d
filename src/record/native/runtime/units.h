/* SPDX-License-Identifier: MIT */
/*
 * What the files of the translator share: cache.c finds units and their memory, block.c makes them,
 * pcmap.c says where in the program a cache address is, gates.c is what exits come to.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_UNITS_H
#define PTAH_RECORD_NATIVE_RUNTIME_UNITS_H

#include "record/native/runtime/emit.h"
#include "record/native/runtime/insn.h"

#define UNIT_INSNS    48     /* at most so many instructions in one */
#define UNIT_ROOM     8192   /* cache memory that one may take */
#define CACHE_BUCKETS 65536u /* of the hash table of heads */
#define CACHE_AREAS   16
#define CACHE_AREA    (8u << 20)
/* Units lie within this distance of their code, so that 32 bits reach from one to the other. */
#define CACHE_REACH (UINT64_C(1) << 30)

enum exit_kind {
	EXIT_DIRECT = 0, /* continues at `target` */
	EXIT_INDIRECT,	 /* at the address in RCX */
	EXIT_SYSCALL,	 /* before the SYSCALL at `target` */
	EXIT_STOP,	 /* before the instruction at `target`, which is not translated */
};

struct exit {
	struct unit *unit;
	uint8_t kind;	 /* enum exit_kind */
	uint8_t packet;	 /* the TNT that it stores; 0: none */
	uint64_t branch; /* the instruction that is the exit */
	uint64_t target;
	uint32_t number; /* in the log of exits (NATIVE_TRUTH) */
	/*
	 * Places in its code: where it begins; where its stores begin, after R11 and RCX were
	 * exchanged as they have to be; where it ends. Before `again` and behind the last store
	 * nothing faults.
	 */
	uint8_t *begin, *again, *end;
	uint8_t *taken; /* from here on R11 is the log's pointer, also in units that use R11 */
	uint8_t *jump;	/* EXIT_DIRECT: the field of its jump */
	uint8_t *stub;	/* where that leads while the target is not known */
	bool is_linked; /* it is among those that lead to a unit */
	struct exit *next_incoming; /* of those that lead to the same unit */
};

/* An instruction in a unit, by its two sizes. */
struct unit_insn {
	uint8_t size, copied;
	uint8_t scratch, saved, restore; /* struct copy */
};

struct unit {
	uint64_t head, end;			/* the program's code in it */
	uint8_t *prologue;			/* where indirect branches enter; NULL: none yet */
	uint8_t *prologue_store, *prologue_end; /* the TIP's store; behind it */
	uint8_t *prologue_last;			/* behind all of it */
	uint8_t *code, *code_end;		/* `code`: where direct exits enter */
	uint8_t *first;				/* the first copied instruction */
	bool uses_r11;
	bool dead; /* forgotten: nothing leads here any more */
	uint8_t insn_count, exit_count;
	struct unit_insn *insns;
	struct exit *exits;
	struct exit *incoming;
	struct unit *next; /* of the same hash */
};

/* Code of a unit, or its prologue, begins here. */
struct mark {
	const uint8_t *start;
	struct unit *unit;
};

/* A piece of the cache, with its marks in the order of their addresses. */
struct area {
	uint8_t *start, *at, *end;
	struct mark *marks;
	uint32_t mark_count, mark_room;
};

struct cache {
	struct area areas[CACHE_AREAS];
	uint32_t area_count;
	uint64_t readable; /* a page of code that was read last */
	struct unit *buckets[CACHE_BUCKETS];
};

/* cache.c: with the cache's lock, except cache_find() */
/* The unit of this head; NULL: there is none, and none can be made. */
struct unit *cache_unit(struct context *c, uint64_t head);
/* The unit that has this cache address, NULL: none. Needs no lock: areas and marks only grow. */
struct unit *cache_find(const struct runtime *rt, uint64_t address);
/* An area in which a unit near this head has room; NULL: there is no memory. */
struct area *cache_area(struct context *c, uint64_t head);
/* Notes code that begins at area->at. */
void cache_mark(struct area *area, const uint8_t *start, struct unit *unit);
/*
 * How many of n bytes of code can be executed at this address. They do not change then without a
 * unit_forget().
 */
size_t cache_readable(struct context *c, uint64_t address, size_t n);
/* Lets the exit lead to the unit from now on. */
void cache_link(struct exit *exit, struct unit *to);

/* exits.c: with NATIVE_TRUTH, what ran in units, for the second log. */
/* Describes code [start, end) to the recorder. Returns the number of this exit. */
uint32_t exits_describe(struct context *c, uint64_t start, uint64_t end, unsigned kind,
			uint64_t next);
/* Appends a number to the log; not from the cache. */
void exits_log(struct context *c, uint32_t number);

/* block.c: translates the code at u->head. False: nothing there can be translated. */
bool block_make(struct context *c, struct unit *u, struct area *area);
/* Writes the prologue by which indirect branches enter the unit. False: there is no room. */
bool block_make_prologue(struct unit *u, struct area *area);

/*
 * pcmap.c: the log's pointer, where `log` has the place of it that may be poisoned; it is not
 * poisoned any more.
 */
uint64_t unit_real_log(struct context *c, uint64_t log);
/* Stores a TIP at the log's pointer. Returns the new one. */
uint64_t unit_put_tip(struct context *c, uint64_t log, uint64_t target);

/* gates.c: what gates.S calls, with the program's registers in *r. */
_Noreturn void gate_take_exit(struct context *c, struct registers *r, struct exit *exit);
_Noreturn void gate_take_indirect(struct context *c, struct registers *r, uint64_t target);
_Noreturn void gate_take_syscall(struct context *c, struct registers *r, struct exit *exit);
_Noreturn void gate_take_signal(struct context *c, struct registers *r);

/* gates.S */
extern const uint8_t gate_exit[], gate_miss[], gate_indirect[], gate_syscall[], gate_restart[],
    gate_log_loaded[], gate_resume_end[];

#endif
