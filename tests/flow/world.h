/* SPDX-License-Identifier: MIT */
/*
 * Random programs that do what those of random_machine.h do not: 16-, 32- and 64-bit code with far
 * branches between them, interrupts and IRET, transactions, filtered regions, TraceStop, CR3,
 * PTWRITE, power and Event Trace, deep calls, deferred TIPs. Each executed instruction is noted:
 * this is the expected result.
 */
#ifndef PTAH_TESTS_FLOW_WORLD_H
#define PTAH_TESTS_FLOW_WORLD_H

#include "random.h"
#include "model/generator.h"

#include <ptah/packet.h>

#include <stdlib.h>

#define WORLD_BASE  UINT64_C(0x400000)
#define WORLD_SIZE  0x30000u
#define REGION	    0x10000u	       /* for the code of one size */
#define OUTSIDE	    UINT64_C(0x404000) /* of each region: hidden by the filter */
#define PER_REGION  200
#define PLACES	    (3 * PER_REGION)
#define WORLD_STEPS 6000
#define WORLD_TRACE ((size_t)WORLD_STEPS * 8 * GENERATOR_BURST)
#define FRAMES	    128
#define DEFERRED    3
#define RAN_MAX	    (WORLD_STEPS * 8)

/* How a place ends. */
enum leave {
	LEAVE_COND,
	LEAVE_COND_OUT, /* to a filtered region when taken */
	LEAVE_JUMP,
	LEAVE_JUMP_OUT,
	LEAVE_CALL,
	LEAVE_CALL_NEXT, /* call $+5 */
	LEAVE_JUMP_IND,
	LEAVE_CALL_IND,
	LEAVE_RET,
	LEAVE_FAR_JUMP,
	LEAVE_FAR_CALL,
	LEAVE_FAR_RET,
	LEAVE_IRET,
	LEAVE_INT,
	LEAVE_MAX
};

/* What a place has besides its branch. */
enum filler {
	FILL_NOP,
	FILL_MOV,
	FILL_LONG,
	FILL_PTWRITE,
	FILL_CR3,
	FILL_MAX
};

struct place {
	uint64_t ip, end, target;
	uint8_t sizes[8], fill[8];
	unsigned n; /* instructions, including the branch */
	enum leave leave;
	int next; /* the target of a direct branch */
};

struct world {
	uint64_t seed;
	uint8_t code[WORLD_SIZE];
	struct place places[PLACES];
	struct ptah_generator g;
	uint8_t *trace;
	uint64_t deferred[DEFERRED];
	unsigned deferred_count;
	bool defer, in_tx;
	int frames[FRAMES], calls[FRAMES];
	unsigned frame_count, call_count, deepest;
	unsigned mode; /* of the last MODE.Exec */
	uint64_t cr3;
	struct {
		uint64_t ip;
		uint8_t size;
	} * ran;
	size_t ran_count;
};

static inline unsigned world_pick(struct world *w, unsigned n)
{
	return (unsigned)(random_next(&w->seed) >> 11) % n;
}

static inline unsigned mode_at(int place)
{
	return PTAH_EXEC_64 - (unsigned)(place / PER_REGION);
}

static inline int any_place(struct world *w)
{
	return (int)world_pick(w, PLACES);
}

static inline int place_of_mode(struct world *w, unsigned mode)
{
	return (int)((PTAH_EXEC_64 - mode) * PER_REGION + world_pick(w, PER_REGION));
}

/* Parts of worlds, for tests that make their own. */

unsigned world_put_filler(struct world *w, uint8_t *code, uint8_t fill);
void world_put_branch(struct world *w, struct place *p, unsigned mode);
void world_make(struct world *w);

/* SDM "Deferred TIPs": outcomes first, then the TIPs that waited for them. */
void world_flush(struct world *w);
void world_send(struct world *w, struct ptah_packet packet);

#define SEND(w, name, ...)                                                                         \
	world_send((w), (struct ptah_packet){.type = PTAH_PACKET_##name, ##__VA_ARGS__})

/* Sends MODE.Exec before the TIP or TIP.PGE that leads to code of another size. */
void world_send_mode(struct world *w, unsigned mode);

/* SDM "PSB+" */
void world_send_psb(struct world *w, uint64_t ip);

/* A world without a program. */
struct world *world_empty(bool retcomp, bool long_tnt);

/* A program and its trace of *size bytes. Free it with world_free(). */
struct world *world_new(unsigned seed, bool retcomp, bool long_tnt, bool defer, size_t *size);
void world_free(struct world *w);

#endif
