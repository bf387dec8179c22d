/* SPDX-License-Identifier: MIT */
/*
 * What ran, from the log of exits: each number stands for code that the runtime has described. Its
 * bytes are decoded here, by another decoder than the runtime's, and no packet is looked at. What
 * is described and logged comes from the program's memory: it is checked, and if it makes no sense,
 * there is no truth.
 */
#ifndef PTAH_RECORD_NATIVE_TRUTH_H
#define PTAH_RECORD_NATIVE_TRUTH_H

#include "base/path_hash.h"
#include "record/native/layout.h"

#include <ptah/session.h>

#include <stdbool.h>
#include <stddef.h>

struct native_truth_exit {
	struct native_block *blocks; /* block_count of them, allocated */
	uint32_t block_count;
	uint32_t next; /* the number of another exit of its program; 0: there is none */
	uint32_t instructions, conditional, indirect, returns;
};

#define NATIVE_TRUTH_PAGE 1024

struct native_truth {
	/* Of the exits that are described in a memory; their numbers are native_exits_from() on. */
	struct native_truth_exits {
		struct native_truth_page {
			unsigned count; /* of those that are described */
			struct native_truth_exit list[NATIVE_TRUTH_PAGE];
		} * pages[NATIVE_EXITS_MAX / NATIVE_TRUTH_PAGE];
		uint64_t end; /* behind the last one that was described */
	} exits[NATIVE_MEMORIES];
	uint32_t *programs; /* by number: that of an exit; 0: it has none */
	size_t program_count, program_room;
	bool failed; /* a description or a number makes no sense, or there is no memory */
};

/* Of one thread; begins as zeros. */
struct native_truth_thread {
	struct path_hash path;
	uint64_t instructions, conditional, indirect, returns;
	uint8_t *pending; /* numbers that were taken and are not counted yet */
	size_t pending_size;
};

/* What describes exits: a process between two execves. Returns its number. */
unsigned native_truth_begin(struct native_truth *t);
/* Nothing more is logged or described of the program's exits: their memory is freed. */
void native_truth_forget(struct native_truth *t, unsigned program);
/* Takes the payload of a message NATIVE_MESSAGE_EXITS that stood in this memory. */
void native_truth_describe(struct native_truth *t, unsigned program, unsigned memory,
			   uint64_t number, const void *payload, size_t n);
/*
 * Takes n bytes of a thread's log of exits: whole numbers. What they stand for has been described
 * in messages that were sent before, but perhaps not taken yet. So they are only kept here.
 */
void native_truth_keep(struct native_truth *t, struct native_truth_thread *thread,
		       const uint8_t *bytes, size_t n);
/* Counts what was kept before the last messages were taken. */
void native_truth_count(struct native_truth *t, struct native_truth_thread *thread);
/* What the thread has run. False: it is not known. */
bool native_truth_get(const struct native_truth *t, const struct native_truth_thread *thread,
		      struct ptah_truth *truth);
void native_truth_free(struct native_truth *t);

#endif
