/* SPDX-License-Identifier: MIT */
/*
 * What ran of one file, by the addresses that its program headers give: taken branches, and
 * straight runs between them, with their counts. Tools that optimise programs take such profiles
 * and find functions and lines themselves.
 *
 * All processes that ran the file are added up. Memory is in proportion to the code that ran.
 */
#ifndef PTAH_EXPORT_ADDRESS_PROFILE_H
#define PTAH_EXPORT_ADDRESS_PROFILE_H

#include "export/straight_runs.h"
#include "output/outcomes.h"

#include <ptah/counts.h>

/* A file that code ran of. */
struct address_object {
	const char *path; /* as recorded; as long as the counts */
	uint8_t build_id[PTAH_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: not known */
	uint64_t instructions;
	bool is_program; /* a process that ran it has its name, so that it is no library */
};

/* The files, those with the most instructions first. Returns 0 or PTAH_E_NOMEM. */
int address_objects_list(const struct ptah_counts *counts, struct address_object **objects,
			 size_t *count, uint64_t *instructions_of_all);

#define ADDRESS_ELSEWHERE UINT64_MAX /* in another file, or in none */

struct address_branch {
	uint64_t from, to; /* not both ADDRESS_ELSEWHERE */
	uint64_t count;
	uint64_t missed; /* by the simulated predictor, where it was asked */
};

struct address_profile {
	struct address_branch *branches; /* by from and to, each once */
	size_t branch_count;
	struct straight_runs runs; /* but for those in stubs of the linkage table (PLT) */
	uint64_t first_address;	   /* of the file's first segment, at the start of its page */
	uint64_t first_code;	   /* of its first executable segment, likewise */
	uint64_t unknown;	   /* conditional branches whose outcome is not in the trace */
};

/*
 * The profile of the object, whose file is now at `path`. Returns 0, PTAH_E_BAD_MAGIC when it is no
 * x86-64 ELF file, or PTAH_E_NOMEM.
 */
int address_profile_make(const struct ptah_counts *counts, const struct address_object *object,
			 const char *path, struct address_profile *profile);

/* Adds the mispredictions of taken branches. Returns 0 or PTAH_E_NOMEM. */
int address_profile_predict(struct address_profile *profile, const struct address_object *object,
			    const char *path, const struct ptah_session *session,
			    const struct outcomes *outcomes);

void address_profile_free(struct address_profile *profile);

#endif
