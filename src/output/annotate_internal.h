/* SPDX-License-Identifier: MIT */
/* What the files of annotate.h share. */
#ifndef PTAH_OUTPUT_ANNOTATE_INTERNAL_H
#define PTAH_OUTPUT_ANNOTATE_INTERNAL_H

#include "output/annotate.h"

/* A block has at most so many instructions, of 15 bytes; of others, which only a damaged file of
 * counts has, the rest is left out. */
#define MOST_INSNS    255
#define LONGEST_BLOCK (MOST_INSNS * 15)

/* Bytes of code that is in no file: of a process and a version, as its objects are. */
struct annotate_bytes {
	int32_t pid;
	uint64_t version, at;
	uint16_t size;
	uint8_t mode;
	const uint8_t *bytes;
};

/* Divides the pieces at the functions' ends. They are in no order afterwards. */
int annotation_split(struct annotation *a);

/* The first piece of an object that may reach `at`: no earlier one ends after it. */
size_t annotation_first_piece(const struct annotation *a, uint32_t object, uint64_t at);

/* annotate_order.c: takes over the outcomes. 0 or an error. */
int annotation_add_outcomes(struct annotation *a);

#endif
