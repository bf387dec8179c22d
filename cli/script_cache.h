/* SPDX-License-Identifier: MIT */
/*
 * The rows of blocks and branches that ran before, as they were written: most of a trace repeats
 * them, so that their names are looked up and their instructions disassembled once.
 *
 * What differs from one time to the next (the thread, and with --time the time) stands at the
 * beginning of each row of every format. It is kept once, as the head of the rows that come now.
 */
#ifndef PTAH_CLI_SCRIPT_CACHE_H
#define PTAH_CLI_SCRIPT_CACHE_H

#include "script_view.h"

/* What the rows are of, besides the address space. */
struct script_key {
	uint64_t from, to;
	uint64_t what; /* everything else that they depend on */
};

int script_cache_new(struct script_cache **cache);
void script_cache_free(struct script_cache *cache);

/* The code is another one from now on: the rows that are kept are forgotten. */
void script_cache_forget(struct script_cache *cache);

/* The thread or the time of the rows has changed. */
void script_cache_new_head(struct script_cache *cache);

/* The rows that are being made have names that may be others at another time: they are not kept. */
void script_cache_keep_none(struct script_cache *cache);

/* Writes the rows that are kept for the key. False: there are none. */
bool script_cache_repeat(struct script *s, const struct script_key *key);

/*
 * Between script_cache_begin() and script_cache_end(), script_put_row() writes the rows of the key.
 * script_put_row() may also be called alone.
 */
void script_cache_begin(struct script *s, const struct script_key *key);
void script_put_row(struct script *s, const void *row);
void script_cache_end(struct script *s);

#endif
