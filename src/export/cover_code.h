/* SPDX-License-Identifier: MIT */
/*
 * The code that ran, wherever processes have mapped it: blocks, edges and functions, each once.
 * Profiles of streams are added again and again while a recording is followed, and each time it is
 * known what had not been reached before.
 *
 * A place in a file is an offset in it, so that it is the same place in every process. Code that is
 * in no file has its addresses.
 *
 * A block is counted by its last instruction, a branch: an interrupt, which cuts blocks anywhere,
 * makes no block, nor does another way into the middle of one. An edge is as in
 * <ptah/profile.h>: one that the trace has decided.
 */
#ifndef PTAH_EXPORT_COVER_CODE_H
#define PTAH_EXPORT_COVER_CODE_H

#include "support/keyed.h"
#include "output/names.h"

/* A file, or other code. */
struct cover_object {
	char *path; /* as recorded; "": not known */
	uint8_t build_id[PTAH_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: not known */
	bool is_file;	       /* places are offsets in a file */
	uint64_t version;      /* of the code, if it is no file (profile.h) */
};

struct cover_function {
	uint64_t object; /* a number from 0 on */
	uint64_t at;	 /* where it begins */
	char *name;	 /* as in the file; of one without a symbol made up (fn_5a20) */
	char *shown;	 /* demangled */
};

/* A run of instructions as a profile has it, from where execution entered it. */
struct cover_block {
	uint64_t object;
	uint64_t at, end;
	uint32_t function; /* from 1 on; 0: in none that is known */
};

/* What a process did: a block by its number, and how often it ran. */
struct cover_reached {
	uint32_t block;
	uint64_t count;
};

struct cover_code {
	struct ptah_session const *session;
	struct names *names; /* of the session */
	bool keeps_blocks;   /* blocks are wanted, not only figures */
	struct cover_object *objects;
	size_t object_count, object_room;
	struct keyed functions, blocks; /* struct cover_function, struct cover_block */
	struct keyed branches, edges;
};

/* `session` and `names`, which are of it, must live as long. */
void cover_code_init(struct cover_code *code, const struct ptah_session *session,
		     struct names *names, bool keeps_blocks);
void cover_code_free(struct cover_code *code);

/*
 * Adds what was counted of a stream. `take` (may be NULL) gets for each space, as of
 * ptah_session_profile_pid(), the blocks that ran, each once, by ascending numbers; its result is
 * 0 or an error. Returns 0 or an error.
 */
typedef int cover_take(void *context, int32_t space, const struct cover_reached *reached, size_t n);
int cover_code_add(struct cover_code *code, size_t stream, struct ptah_profile *profile,
		   cover_take *take, void *context);

static inline const struct cover_function *cover_code_function(const struct cover_code *code,
							       uint32_t number)
{
	return keyed_row(&code->functions, number);
}

static inline const struct cover_block *cover_code_block(const struct cover_code *code,
							 uint32_t number)
{
	return keyed_row(&code->blocks, number);
}

#endif
