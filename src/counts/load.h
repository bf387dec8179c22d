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

/*
 * Checks what the header says, and the checksum over the rest, which is to be read next. `other` is
 * the message for a file with another magic number; versions 1 to `newest` are read.
 */
int load_file_header(struct load *l, const char *magic, const char * not, uint32_t newest,
		     size_t n);

bool load_all_zero(const uint8_t *bytes, size_t n);

/* Gives all bytes of a file to `load`. The file's name begins the message. Also PTAH_E_SYSTEM. */
int load_from_file(const char *path,
		   int (*load)(void *context, const void *bytes, size_t n,
			       struct ptah_message *why),
		   void *context, struct ptah_message *why);

/* Whether it is a file that begins with this magic number of 8 bytes. */
bool load_recognise(const char *path, const char *magic);

/* Reads the calls of a process. On failure *tree is to be freed all the same. */
int load_calls(struct load *l, struct ptah_call_tree **tree);

#endif
