/* SPDX-License-Identifier: MIT */
/*
 * Many texts that grow at the same time, and are written one after the other in the end. They lie
 * in a file without a name meanwhile, so that memory does not grow with them.
 */
#ifndef PTAH_EXPORT_SPILL_H
#define PTAH_EXPORT_SPILL_H

#include "output/out.h"

#include <stddef.h>
#include <stdint.h>

struct spill;

/* A text. All 0: empty. */
struct spill_text {
	char *block;	       /* what is not in the file yet: less than a block */
	uint64_t first, place; /* blocks of the file, from 1 on: its first, and that of `block` */
	size_t n;
	uint64_t size; /* all of it, in bytes */
};

/* In the folder that TMPDIR names, or /var/tmp. 0, PTAH_E_NOMEM, or PTAH_E_SYSTEM with errno. */
int spill_new(struct spill **spill);
void spill_free(struct spill *spill);

/*
 * Appends to a text. The first failure is remembered: later calls do nothing, and spill_write()
 * returns it.
 */
void spill_bytes(struct spill *spill, struct spill_text *text, const char *bytes, size_t n);
void spill_decimal(struct spill *spill, struct spill_text *text, uint64_t value);

/* Writes a text to `out`, and frees its memory. 0, PTAH_E_NOMEM, or PTAH_E_SYSTEM with errno. */
int spill_write(struct spill *spill, struct spill_text *text, struct out *out);
void spill_text_free(struct spill_text *text);

#endif
