/* SPDX-License-Identifier: MIT */
/* Hands out numbered parts of work to the ranks of an MPI job. */
#include "dispatch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	TAG_REPORT = 1,
	TAG_PART
};

/* What a rank sends to rank 0: how its last part ended (0: it has had none), to get the next. */
struct report {
	uint32_t part;
	uint32_t done;
	char message[DISPATCH_MESSAGE];
};

/* The parts, in rank 0; the lock is for its two threads. */
struct table {
	const struct dispatch *dispatch;
	pthread_mutex_t lock;
	uint32_t next;	 /* the first part that nobody has had */
	uint32_t *again; /* parts that failed once */
	uint32_t again_count;
	uint8_t *failed; /* how often each part has failed */
	uint32_t done, lost;
	bool stopped;
	/* What rank 0's own worker has left for the main thread to pass on, or "". */
	char message[DISPATCH_MESSAGE];
	bool own_ended;
};

/* Both with the lock held. 0: there are no more parts. */
static uint32_t take_part(struct table *t)
{
	if (t->stopped)
		return 0;
	if (t->next <= t->dispatch->parts)
		return t->next++;
	return t->again_count ? t->again[--t->again_count] : 0;
}

static void part_ended(struct table *t, uint32_t part, bool done)
{
	if (done)
		t->done++;
	else if (t->failed[part - 1]++)
		t->lost++;
	else
		t->again[t->again_count++] = part;
}

/* Rank 0's own work. */
static void *work_here(void *table)
{
	struct table *t = table;
	const struct dispatch *d = t->dispatch;
	uint32_t part;

	pthread_mutex_lock(&t->lock);
	while ((part = take_part(t))) {
		char message[DISPATCH_MESSAGE] = "";
		bool done;

		pthread_mutex_unlock(&t->lock);
		done = d->work(d->context, part, message);
		for (;;) {
			pthread_mutex_lock(&t->lock);
			if (!message[0] || !t->message[0])
				break;
			pthread_mutex_unlock(&t->lock);
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
		if (message[0])
			memcpy(t->message, message, sizeof(message));
		part_ended(t, part, done);
	}
	t->own_ended = true;
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Answers one rank that has reported. True: it has got no part, and ends. */
static bool answer(struct table *t, MPI_Comm comm)
{
	struct report report;
	MPI_Status status;
	uint32_t part;

	MPI_Recv(&report, sizeof(report), MPI_BYTE, MPI_ANY_SOURCE, TAG_REPORT, comm, &status);
	report.message[DISPATCH_MESSAGE - 1] = '\0';
	if (report.message[0])
		t->dispatch->heard(t->dispatch->context, status.MPI_SOURCE, report.message);
	pthread_mutex_lock(&t->lock);
	if (report.part)
		part_ended(t, report.part, report.done);
	part = take_part(t);
	pthread_mutex_unlock(&t->lock);
	MPI_Send(&part, 1, MPI_UINT32_T, status.MPI_SOURCE, TAG_PART, comm);
	return !part;
}

/* What rank 0's own worker reports. True: it has ended. */
static bool hear_own(struct table *t)
{
	char message[DISPATCH_MESSAGE];
	bool ended;

	pthread_mutex_lock(&t->lock);
	memcpy(message, t->message, sizeof(message));
	t->message[0] = '\0';
	ended = t->own_ended && !message[0];
	pthread_mutex_unlock(&t->lock);
	if (message[0])
		t->dispatch->heard(t->dispatch->context, 0, message);
	return ended;
}

/*
 * Answers until all ranks have ended. It looks for messages every millisecond instead of receiving
 * them, because an MPI that waits keeps a processor busy, which the second thread needs.
 */
static void serve(struct table *t, MPI_Comm comm, int ranks)
{
	const struct dispatch *d = t->dispatch;
	int left = ranks - 1;
	time_t last = time(NULL);

	for (bool own = false; left || !own;) {
		int waiting;

		MPI_Iprobe(MPI_ANY_SOURCE, TAG_REPORT, comm, &waiting, MPI_STATUS_IGNORE);
		if (waiting)
			left -= answer(t, comm);
		else
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		own = own || hear_own(t);
		if (d->stop(d->context)) {
			pthread_mutex_lock(&t->lock);
			t->stopped = true;
			pthread_mutex_unlock(&t->lock);
		}
		if (time(NULL) != last) {
			uint32_t done, lost;

			last = time(NULL);
			pthread_mutex_lock(&t->lock);
			done = t->done;
			lost = t->lost;
			pthread_mutex_unlock(&t->lock);
			d->progress(d->context, done, lost);
		}
	}
}

static uint32_t lead(const struct dispatch *d, MPI_Comm comm)
{
	struct table table = {.dispatch = d,
			      .lock = PTHREAD_MUTEX_INITIALIZER,
			      .next = 1,
			      .again = calloc(d->parts, sizeof(*table.again)),
			      .failed = calloc(d->parts, 1)};
	pthread_t thread;
	bool threaded;
	int ranks;

	MPI_Comm_size(comm, &ranks);
	if (!table.again || !table.failed)
		MPI_Abort(comm, 1);
	threaded = !pthread_create(&thread, NULL, work_here, &table);
	table.own_ended = !threaded; /* then the others do it all */
	serve(&table, comm, ranks);
	if (threaded)
		pthread_join(thread, NULL);
	free(table.again);
	free(table.failed);
	return d->parts - table.done;
}

static void follow(const struct dispatch *d, MPI_Comm comm)
{
	struct report report = {0};
	uint32_t part;

	for (;;) {
		MPI_Send(&report, sizeof(report), MPI_BYTE, 0, TAG_REPORT, comm);
		MPI_Recv(&part, 1, MPI_UINT32_T, 0, TAG_PART, comm, MPI_STATUS_IGNORE);
		if (!part)
			break;
		report.part = part;
		report.message[0] = '\0';
		report.done = d->work(d->context, part, report.message);
	}
}

uint32_t dispatch_run(const struct dispatch *dispatch, MPI_Comm comm)
{
	uint32_t missing = 0;
	int rank;

	MPI_Comm_rank(comm, &rank);
	if (rank)
		follow(dispatch, comm);
	else
		missing = lead(dispatch, comm);
	MPI_Bcast(&missing, 1, MPI_UINT32_T, 0, comm);
	return missing;
}
