/* SPDX-License-Identifier: MIT */
/*
 * Hands out numbered parts of work to the ranks of an MPI job: each rank asks for the next part
 * when it has finished one, so that slow ranks get fewer. Rank 0 answers, and works as well, in a
 * second thread that makes no calls of MPI (MPI_THREAD_FUNNELED).
 */
#ifndef PTAH_MPI_DISPATCH_H
#define PTAH_MPI_DISPATCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* A rank's message for the person who waits, as it travels to rank 0. */
#define DISPATCH_MESSAGE 512

struct dispatch {
	uint32_t parts; /* numbered from 1 on */
	/*
	 * Does a part. False: it failed, and `message` says why; the part is given to another rank
	 * once more, and after that it is lost. Also a part that is done may leave a message.
	 * Called in rank 0 from the second thread. A part that has ended as false must leave no
	 * trace.
	 */
	bool (*work)(void *context, uint32_t part, char message[DISPATCH_MESSAGE]);
	/* Only in rank 0, from the main thread: a message of a rank. */
	void (*heard)(void *context, int rank, const char *message);
	/* Only in rank 0, from the main thread: how many parts are done. Called every second or so.
	 */
	void (*progress)(void *context, uint32_t done, uint32_t lost);
	/* Only in rank 0: true ends the work early. */
	bool (*stop)(void *context);
	void *context;
};

/*
 * Does all parts, with all ranks; each of them calls this function. Returns in every rank the
 * number of parts that nobody could do, those that were not begun because of stop() included.
 */
uint32_t dispatch_run(const struct dispatch *dispatch, MPI_Comm comm);

#endif
