/* SPDX-License-Identifier: MIT */
/*
 * Random programs on the packet generator. The expected result is the simulated execution's own
 * path, kept as a hash and as counts.
 */
#ifndef PTAH_TESTS_FLOW_RANDOM_MACHINE_H
#define PTAH_TESTS_FLOW_RANDOM_MACHINE_H

#include "random.h"
#include "base/path_hash.h"
#include "model/generator.h"

#include <stdlib.h>

#define BASE	 UINT64_C(0x400000)
#define CODE	 65536
#define BLOCKS	 400
#define TRACE	 (4u << 20)
#define STEPS	 20000
#define NO_BLOCK (-1)

enum ending {
	END_COND,
	END_JUMP,
	END_CALL,
	END_JUMP_IND,
	END_CALL_IND,
	END_RET,
	END_SYSCALL,
	END_MAX
};

struct block {
	uint64_t ip, end;
	unsigned ninsn;
	uint8_t sizes[16];
	enum ending ending;
	int target; /* a block */
};

struct machine {
	uint64_t seed;
	uint8_t code[CODE];
	struct block blocks[BLOCKS];
	int stack[128], depth; /* the program's own stack: blocks to return to */
	struct ptah_generator g;
	uint8_t *trace;
	uint64_t tsc;
	struct path_hash path;
	uint64_t instructions, conditional, overflows;
	bool lossy; /* this run has overflows: the hash covers only what the trace can show */
};

static inline uint64_t next_random(struct machine *m)
{
	return random_next(&m->seed);
}

/* A program and its trace of *size bytes. Free it with machine_free(). */
struct machine *machine_new(unsigned seed, bool retcomp, bool long_tnt, bool lossy, size_t *size);
void machine_free(struct machine *m);

#endif
