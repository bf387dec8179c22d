/* SPDX-License-Identifier: MIT */
/*
 * ptah dump --jobs: each job prints a part of the stream into memory, and the main thread writes
 * the parts in order.
 *
 * A part begins at the first PSB after a multiple of PART, because nothing before a PSB changes
 * what follows it: last IP is cleared there, PEBS blocks end, and so do bytes that are no packets.
 * But what looks like a PSB may lie in a packet. So the main thread uses what a job has printed
 * only if the packets before it end at that place; otherwise it prints the part itself, from where
 * the last one ended.
 */
#include "dump_view.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Small, so that the text is still in a cache when it is written: about a megabyte. */
#define PART (UINT64_C(32) << 10)

/* A part of which more is known to come is left to the main thread, which needs no memory. */
#define MOST (64 * PART)

/* Parts that wait for the main thread, for each job. */
#define AHEAD 3

/* What is written at once. */
#define PIECE (128u << 10)

/* Rows between two looks at the length. */
#define ROWS 64

struct dump_piece {
	struct dump_piece *next;
	struct out *out;
};

struct dump_part {
	bool done;
	bool printed; /* otherwise the main thread has to print it */
	bool empty;   /* no PSB begins here: this belongs to the part before it */
	uint64_t begin, end;
	struct packet_walk walk; /* where it ended */
	struct dump_piece *pieces, **last;
	bool synced;
	uint64_t bad;
};

struct dump_jobs {
	struct dump *main;
	const struct ptah_session *session;
	size_t stream;
	struct packet_walk start;
	uint64_t count; /* of parts */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
	uint64_t first, next; /* that the main thread has not had, that no job has taken */
	unsigned ring;
	struct dump_part *parts; /* part i is at i % ring */
	struct dump_piece *free;
};

/* The state of a job: that of the main thread, with an output and a cache of its own. */
struct dump_job {
	struct dump dump;
	struct dump_jobs *jobs;
	struct dump_part *part;
	bool failed;
	unsigned rows;
};

static struct dump_piece *new_piece(struct dump_jobs *j)
{
	struct dump_piece *piece;

	pthread_mutex_lock(&j->lock);
	piece = j->free;
	if (piece)
		j->free = piece->next;
	pthread_mutex_unlock(&j->lock);
	if (!piece) {
		piece = malloc(sizeof(*piece));
		if (!piece || out_open_memory(&piece->out) < 0) {
			free(piece);
			return NULL;
		}
		out_set_look(piece->out, out_look(j->main->out));
	}
	piece->next = NULL;
	return piece;
}

/* Frees a part's text, for other parts. */
static void forget_pieces(struct dump_jobs *j, struct dump_part *part)
{
	for (struct dump_piece *p = part->pieces; p; p = p->next)
		out_clear(p->out);
	if (!part->pieces)
		return;
	pthread_mutex_lock(&j->lock);
	*part->last = j->free;
	j->free = part->pieces;
	pthread_mutex_unlock(&j->lock);
	part->pieces = NULL;
	part->last = &part->pieces;
}

/* The jobs */

static bool begin_part_piece(struct dump_job *job)
{
	struct dump_piece *piece = new_piece(job->jobs);

	if (!piece) {
		job->failed = true;
		return false;
	}
	*job->part->last = piece;
	job->part->last = &piece->next;
	job->dump.out = job->dump.json.out = piece->out;
	return true;
}

/* Begins another piece if this one is long enough. False: the job cannot go on. */
static bool look_at_length(struct dump_job *job)
{
	size_t n;

	if (interrupted() || out_failed(job->dump.out)) {
		job->failed = true;
		return false;
	}
	out_written(job->dump.out, &n);
	return n < PIECE || begin_part_piece(job);
}

static bool each(void *context, const struct packet_place *place)
{
	struct dump_job *job = context;

	if (++job->rows % ROWS == 0 && !look_at_length(job))
		return false;
	return dump_each(&job->dump, place);
}

static bool many(void *context, const struct packet_batch *batch)
{
	struct dump_job *job = context;

	return look_at_length(job) && dump_many(&job->dump, batch);
}

/* Finds where a part begins and ends. Returns whether a job prints it. */
static bool find_part(const struct dump_jobs *j, uint64_t i, struct dump_part *part)
{
	const uint64_t from = j->start.offset + i * PART;

	part->begin = i ? packets_find_psb(j->session, j->stream, from, from + PART) : from;
	part->empty = part->begin == UINT64_MAX;
	if (part->empty)
		return false;
	part->end = packets_find_psb(j->session, j->stream, from + PART, UINT64_MAX);
	return part->end - part->begin < MOST || (i + 1 == j->count && part->end == UINT64_MAX);
}

static void print_part(struct dump_job *job, uint64_t i)
{
	struct dump_jobs *j = job->jobs;
	struct dump *d = &job->dump;
	struct dump_part *part = job->part;

	if (!find_part(j, i, part))
		return;
	if (i)
		part->walk = (struct packet_walk){.offset = part->begin};
	else
		part->walk = j->start;
	job->failed = false;
	/* Each row of JSON begins with a comma. */
	d->json.filled[d->json.depth] = true;
	d->synced = false;
	d->bad = 0;
	if (begin_part_piece(job))
		packets_walk(j->session, j->stream, &part->walk, part->end, each,
			     dump_is_plain_text(d) ? many : NULL, job);
	for (struct dump_piece *p = part->pieces; p; p = p->next)
		job->failed |= out_failed(p->out);
	part->synced = d->synced;
	part->bad = d->bad;
	part->printed = !job->failed;
	if (job->failed)
		forget_pieces(j, part);
}

/* Takes the next part. NULL: there is none. Called with the lock. */
static struct dump_part *take_part(struct dump_jobs *j, uint64_t *i)
{
	struct dump_part *part;

	while (!j->stop && j->next < j->count && j->next - j->first >= j->ring)
		pthread_cond_wait(&j->changed, &j->lock);
	if (j->stop || j->next == j->count)
		return NULL;
	*i = j->next++;
	part = &j->parts[*i % j->ring];
	*part = (struct dump_part){.last = &part->pieces};
	return part;
}

static void *work(void *argument)
{
	struct dump_job *job = argument;
	struct dump_jobs *j = job->jobs;
	uint64_t i;

	pthread_mutex_lock(&j->lock);
	while ((job->part = take_part(j, &i))) {
		pthread_mutex_unlock(&j->lock);
		print_part(job, i);
		pthread_mutex_lock(&j->lock);
		job->part->done = true;
		pthread_cond_broadcast(&j->changed);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* The main thread */

static void put_part_text(struct dump *d, const char *text, size_t n)
{
	bool *filled = &d->json.filled[d->json.depth];

	if (!n)
		return;
	if (d->input->format == FORMAT_JSON && !*filled) {
		text++;
		n--;
	}
	*filled = true;
	out_pass(d->out, text, n);
}

/* Continues as if the main thread had printed the part itself. */
static void adopt(struct dump *d, struct packet_walk *walk, const struct dump_part *part)
{
	size_t n;

	for (const struct dump_piece *p = part->pieces; p; p = p->next) {
		const char *text = out_written(p->out, &n);

		put_part_text(d, text, n);
	}
	d->synced |= part->synced;
	d->bad += part->bad;
	*walk = part->walk;
	progress_at(&d->progress, walk->offset);
}

/* Whether the main thread comes to where the job began. A PSB there ends whatever was before it. */
static bool fits(const struct packet_walk *walk, uint64_t i, const struct dump_part *part)
{
	return part->printed && (!i || walk->offset == part->begin);
}

/* Writes a part. False: there is no more to be written. */
static bool write_part(struct dump_jobs *j, struct packet_walk *walk, uint64_t i,
		       struct dump_part *part)
{
	struct dump *d = j->main;

	if (part->empty)
		return true;
	if (fits(walk, i, part))
		adopt(d, walk, part);
	else if (!packets_walk(j->session, j->stream, walk, part->end, dump_each,
			       dump_is_plain_text(d) ? dump_many : NULL, d))
		return false;
	return !interrupted() && !out_failed(d->out);
}

static void write_parts(struct dump_jobs *j)
{
	struct packet_walk walk = j->start;
	bool more = true;

	for (uint64_t i = 0; i < j->count && more; i++) {
		struct dump_part *part = &j->parts[i % j->ring];

		pthread_mutex_lock(&j->lock);
		while (i >= j->next || !part->done)
			pthread_cond_wait(&j->changed, &j->lock);
		pthread_mutex_unlock(&j->lock);
		more = write_part(j, &walk, i, part);
		forget_pieces(j, part);
		pthread_mutex_lock(&j->lock);
		j->first++;
		pthread_cond_broadcast(&j->changed);
		pthread_mutex_unlock(&j->lock);
	}
}

static struct dump_job *new_job(struct dump_jobs *j)
{
	struct dump_job *job = malloc(sizeof(*job));

	if (!job)
		return NULL;
	*job = (struct dump_job){.jobs = j, .dump = *j->main};
	job->dump.progress.on = false;
	return job;
}

/* Starts the jobs, writes what they print, and waits for their end. False: none was started. */
static bool run_dump_jobs(struct dump_jobs *j, unsigned n)
{
	struct dump_job *jobs[DUMP_JOBS];
	pthread_t threads[DUMP_JOBS];
	unsigned started = 0;

	for (; started < n; started++) {
		jobs[started] = new_job(j);
		if (!jobs[started])
			break;
		if (pthread_create(&threads[started], NULL, work, jobs[started])) {
			free(jobs[started]);
			break;
		}
	}
	if (started)
		write_parts(j);
	pthread_mutex_lock(&j->lock);
	j->stop = true;
	pthread_cond_broadcast(&j->changed);
	pthread_mutex_unlock(&j->lock);
	for (unsigned i = 0; i < started; i++) {
		pthread_join(threads[i], NULL);
		free(jobs[i]);
	}
	return started;
}

static void free_parts(struct dump_jobs *j)
{
	for (unsigned i = 0; i < j->ring; i++)
		forget_pieces(j, &j->parts[i]);
	while (j->free) {
		struct dump_piece *next = j->free->next;

		out_abort(j->free->out);
		free(j->free);
		j->free = next;
	}
	free(j->parts);
}

bool dump_with_jobs(struct dump *d, const struct ptah_session *session, size_t stream,
		    const struct packet_walk *start, uint64_t bytes)
{
	const unsigned n = input_jobs(d->input, 1);
	struct dump_jobs j = {
	    .main = d,
	    .session = session,
	    .stream = stream,
	    .start = *start,
	    .count = bytes > start->offset ? (bytes - start->offset + PART - 1) / PART : 0,
	    .ring = AHEAD * n,
	};
	bool done;

	/* Times depend on everything before them. */
	if (n < 2 || n > DUMP_JOBS || j.count < 3 || d->time || d->from || d->to != UINT64_MAX ||
	    d->end != UINT64_MAX)
		return false;
	j.parts = calloc(j.ring, sizeof(*j.parts));
	if (!j.parts)
		return false;
	pthread_mutex_init(&j.lock, NULL);
	pthread_cond_init(&j.changed, NULL);
	done = run_dump_jobs(&j, n);
	free_parts(&j);
	pthread_cond_destroy(&j.changed);
	pthread_mutex_destroy(&j.lock);
	return done;
}
