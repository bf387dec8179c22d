/* SPDX-License-Identifier: MIT */
/*
 * Brings what each rank has to rank 0, along a binomial tree: half of the ranks send to the other
 * half, then half of these, and so on, so that no rank receives more than log2 of their number.
 */
#ifndef PTAH_MPI_REDUCE_H
#define PTAH_MPI_REDUCE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

struct reduce {
	/* What this rank has, as bytes that the caller of reduce_run() frees; NULL and 0: nothing.
	 */
	bool (*give)(void *context, void **bytes, size_t *n);
	/* Adds what another rank had. */
	bool (*take)(void *context, const void *bytes, size_t n);
	void *context;
};

/* False in a rank where give() or take() failed. The other ranks go on all the same. */
bool reduce_run(const struct reduce *reduce, MPI_Comm comm);

#endif
