/* SPDX-License-Identifier: MIT */
/*
 * What the order of execution shows and counts do not: how often a simulated predictor missed each
 * conditional branch; and the bytes of code that is in no file.
 *
 * All streams of a session are read block by block, several at a time. Each stream has a predictor
 * of its own, as each processor has, so the result does not depend on the number of threads.
 */
#ifndef PTAH_OUTPUT_OUTCOMES_H
#define PTAH_OUTPUT_OUTCOMES_H

#include <ptah/session.h>

/*
 * Whether the code at an address is that of a file, byte for byte. The kernel patches its own, and
 * relocates that of its modules.
 */
bool outcomes_is_file(const char *path, uint64_t ip);

/* A conditional branch. */
struct outcome {
	int32_t space;	  /* for ptah_session_find_map() */
	uint64_t ip;	  /* of the branch instruction */
	uint64_t version; /* of the code, as in counts (profile.h) */
	uint64_t executed, taken, missed;
	uint64_t missed_taken; /* of `missed`, those that were taken */
};

/* The `space` of the kernel's code, which is the same in all. */
#define OUTCOMES_KERNEL INT32_MIN

/* Code that ran and is in no file: generated, of the kernel, [vdso]. */
struct outcome_code {
	int32_t space;
	uint64_t ip, version;
	uint16_t size;
	uint8_t mode;  /* enum ptah_exec_mode */
	uint64_t hash; /* of its bytes */
	size_t at;     /* where they are in outcomes.bytes */
};

struct outcomes {
	struct outcome *branches;  /* by space and address */
	struct outcome_code *code; /* the same; pieces may overlap */
	uint8_t *bytes;
	size_t branch_count, code_count, byte_count;
	uint64_t executed, missed; /* sums of all branches */
};

struct outcomes_config {
	unsigned jobs;				     /* threads */
	bool (*wants)(void *context, size_t stream); /* or NULL: all streams */
	/* Called on the caller's thread with the bytes done so far, or NULL. False ends the
	 * reading. */
	bool (*progress)(void *context, uint64_t bytes);
	void *context;
};

/* Returns 0, or an error and has freed everything. */
int outcomes_read(const struct ptah_session *session, const struct outcomes_config *config,
		  struct outcomes *outcomes);
void outcomes_free(struct outcomes *outcomes);

#endif
