/* SPDX-License-Identifier: MIT */
/*
 * The work of cli/mpi/dispatch.c and reduce.c without recordings: each part adds its number to the
 * rank's sum. Every 10th part fails once, every 50th always. Run by mpi.sh with mpirun.
 */
#include "dispatch.h"
#include "reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sums {
	uint64_t sum, parts;
};

struct rank {
	int rank;
	struct sums have;
	uint8_t *failed;
	unsigned heard, wrong;
};

static bool work(void *context, uint32_t part, char message[DISPATCH_MESSAGE])
{
	struct rank *r = context;

	/* Parts of different length, so that ranks ask at different times. */
	nanosleep(&(struct timespec){.tv_nsec = (long)(part % 7) * 100000}, NULL);
	if (part % 50 == 0 || (part % 10 == 0 && !r->failed[part]++ && r->rank % 2)) {
		snprintf(message, DISPATCH_MESSAGE, "part %" PRIu32 " fails", part);
		return false;
	}
	r->have.sum += part;
	r->have.parts++;
	return true;
}

static void hear(void *context, int rank, const char *message)
{
	struct rank *r = context;

	(void)rank;
	r->heard++;
	r->wrong += strncmp(message, "part ", 5) != 0;
}

static void progress(void *context, uint32_t done, uint32_t lost)
{
	(void)context;
	(void)done;
	(void)lost;
}

static bool stop(void *context)
{
	(void)context;
	return false;
}

/* The sums travel behind a list of as many bytes as the rank has parts, to send different sizes. */
static bool give(void *context, void **bytes, size_t *n)
{
	struct rank *r = context;

	*n = r->have.parts ? sizeof(r->have) + r->have.parts : 0;
	*bytes = *n ? calloc(1, *n) : NULL;
	if (*n && !*bytes)
		return false;
	if (*n)
		memcpy((char *)*bytes + r->have.parts, &r->have, sizeof(r->have));
	return true;
}

static bool take(void *context, const void *bytes, size_t n)
{
	struct rank *r = context;
	struct sums more;

	memcpy(&more, (const char *)bytes + n - sizeof(more), sizeof(more));
	r->wrong += n != sizeof(more) + more.parts;
	r->have.sum += more.sum;
	r->have.parts += more.parts;
	return true;
}

int main(int argc, char **argv)
{
	const uint32_t parts = argc > 1 ? (uint32_t)atoi(argv[1]) : 200;
	struct rank r = {.failed = calloc(parts + 1, 1)};
	const struct dispatch dispatch = {.parts = parts,
					  .work = work,
					  .heard = hear,
					  .progress = progress,
					  .stop = stop,
					  .context = &r};
	const struct reduce reduce = {give, take, &r};
	uint64_t expected = 0, always = parts / 50;
	uint32_t missing;
	int threads;
	bool good;

	for (uint32_t part = 1; part <= parts; part++)
		expected += part % 50 ? part : 0;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads);
	MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
	missing = dispatch_run(&dispatch, MPI_COMM_WORLD);
	/* A part that failed once may have met a rank that fails it again. */
	good = reduce_run(&reduce, MPI_COMM_WORLD) && !r.wrong && missing >= always &&
	       missing <= parts / 10;
	if (!r.rank) {
		good = good && r.have.parts == parts - missing && r.heard >= 2 * always &&
		       (missing > always || r.have.sum == expected);
		printf("%s: %" PRIu64 " parts, sum %" PRIu64 " of %" PRIu64 ", %" PRIu32
		       " missing, %u messages\n",
		       good ? "good" : "WRONG", r.have.parts, r.have.sum, expected, missing,
		       r.heard);
	}
	free(r.failed);
	MPI_Finalize();
	return !good;
}
