/* SPDX-License-Identifier: MIT */
/* Brings what each rank has to rank 0, along a binomial tree. */
#include "reduce.h"

#include <stdint.h>
#include <stdlib.h>

enum {
	TAG_SIZE = 11,
	TAG_BYTES
};

/* A message of MPI holds at most INT_MAX elements. */
#define LARGEST_MESSAGE ((uint64_t)1 << 30)

/* Sends the size, and then the bytes in as many messages as they need. */
static void send_all(const uint8_t *bytes, uint64_t n, int to, MPI_Comm comm)
{
	MPI_Send(&n, 1, MPI_UINT64_T, to, TAG_SIZE, comm);
	for (uint64_t at = 0; at < n; at += LARGEST_MESSAGE) {
		const uint64_t left = n - at;

		MPI_Send(bytes + at, (int)(left < LARGEST_MESSAGE ? left : LARGEST_MESSAGE),
			 MPI_BYTE, to, TAG_BYTES, comm);
	}
}

/* NULL with *n not 0: there is not enough memory; the messages have been received all the same. */
static uint8_t *receive_all(uint64_t *n, int from, MPI_Comm comm)
{
	uint8_t *bytes, *piece = NULL;

	MPI_Recv(n, 1, MPI_UINT64_T, from, TAG_SIZE, comm, MPI_STATUS_IGNORE);
	if (!*n)
		return NULL;
	bytes = malloc(*n);
	if (!bytes)
		piece = malloc(*n < LARGEST_MESSAGE ? *n : LARGEST_MESSAGE);
	if (!bytes && !piece)
		MPI_Abort(comm, 1); /* the sender would wait for ever */
	for (uint64_t at = 0; at < *n; at += LARGEST_MESSAGE) {
		const uint64_t left = *n - at;

		MPI_Recv(bytes ? bytes + at : piece,
			 (int)(left < LARGEST_MESSAGE ? left : LARGEST_MESSAGE), MPI_BYTE, from,
			 TAG_BYTES, comm, MPI_STATUS_IGNORE);
	}
	free(piece);
	return bytes;
}

bool reduce_run(const struct reduce *reduce, MPI_Comm comm)
{
	bool good = true;
	int rank, ranks;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	for (int step = 1; step < ranks; step *= 2) {
		uint64_t n;

		if (rank & step) {
			void *bytes = NULL;
			size_t size = 0;

			good = good && reduce->give(reduce->context, &bytes, &size);
			send_all(bytes, good ? size : 0, rank - step, comm);
			free(bytes);
			break;
		}
		if (rank + step < ranks) {
			uint8_t *bytes = receive_all(&n, rank + step, comm);

			if (n)
				good = good && bytes && reduce->take(reduce->context, bytes, n);
			free(bytes);
		}
	}
	return good;
}
