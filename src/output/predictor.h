/* SPDX-License-Identifier: MIT */
/*
 * A simulated branch predictor: which outcomes of conditional branches a processor would have
 * missed.
 *
 * It is TAGE, the kind that processors have had since about 2013 (A. Seznec and P. Michaud, "A case
 * for (partially) TAgged GEometric history length branch prediction", JILP 8, 2006), of a modest
 * size, without the parts that differ from processor to processor:
 *
 *	base		8192 counters of 2 bits, by the branch's address
 *	4 tables	of 2048 entries each, by the address and the outcomes of the last 5, 15, 44
 *			and 130 conditional branches; an entry has a tag of 11 bits, a counter of
 *			3 bits and a counter of its usefulness of 2 bits
 *
 * These are 18 KB. Nothing in it is random: the same outcomes give the same misses. Jumps, calls
 * and returns are not in its history, and are not predicted.
 */
#ifndef PTAH_OUTPUT_PREDICTOR_H
#define PTAH_OUTPUT_PREDICTOR_H

#include <stdbool.h>
#include <stdint.h>

#define PREDICTOR_BASE	  8192
#define PREDICTOR_TABLES  4
#define PREDICTOR_ENTRIES 2048
#define PREDICTOR_TAG	  11 /* bits */

struct predictor_entry {
	uint16_t tag;
	int8_t counter; /* -4 to 3; from 0 on: taken */
	uint8_t useful; /* 0 to 3 */
};

/* The last outcomes, a table's `length` of them, folded to as many bits as its index and tag have:
 * outcome k, the newest is 0, is in bit k modulo that number. */
struct predictor_fold {
	uint32_t index, tag, tag2;
};

struct predictor {
	struct predictor_entry table[PREDICTOR_TABLES][PREDICTOR_ENTRIES];
	uint8_t base[PREDICTOR_BASE]; /* 0 to 3; from 2 on: taken */
	uint64_t history[3];	      /* bit 0 of the first is the newest outcome */
	struct predictor_fold fold[PREDICTOR_TABLES];
	uint8_t use_alternative; /* 0 to 15 */
	uint32_t branches;	 /* since the usefulness was halved */
};

void predictor_init(struct predictor *p);

/* The branch at `ip` is executed: predicts it, and learns its outcome. Returns whether it was
 * missed. */
bool predictor_step(struct predictor *p, uint64_t ip, bool taken);

#endif
