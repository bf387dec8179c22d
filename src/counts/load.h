/* SPDX-License-Identifier: MIT */
/* What the readers of saved counts share. */
#ifndef PTAH_COUNTS_LOAD_H
#define PTAH_COUNTS_LOAD_H

#include "base/reader.h"
#include "counts/counts_internal.h"

struct load {
	struct ptah_counts *counts;
	struct reader r;
	const uint8_t *begin;
	uint32_t version;
	struct ptah_message *why;
};

/* Refuses the file because of the byte at `at`. */
int load_refuse(const struct load *l, const uint8_t *at, const char *reason);

/* Reads the calls of a process. On failure *tree is to be freed all the same. */
int load_calls(struct load *l, struct ptah_call_tree **tree);

#endif
