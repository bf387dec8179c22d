/* SPDX-License-Identifier: MIT */
/* ptah_session_count(): counts all streams, by one thread or by several. */
#include "session/count_jobs.h"
#include "session/window.h"

#include <stdlib.h>

/*
 * A job claims so many bytes at a time. A share of two slots can be divided: finding a place to
 * begin costs as much as counting some KB. At the end a job may wait for another's last two slots.
 */
#define SLOT_MIN (UINT64_C(64) << 10)
#define SLOT_MAX (UINT64_C(1) << 20)
#define PER_JOB	 128 /* at least this many slots for each job, if the recording is large enough */

/* A call of ptah_session_count(). */
struct count {
	const struct ptah_session *session;
	const struct ptah_jobs *jobs; /* or NULL */
	struct ptah_workers *workers;
	bool (*wants)(void *context, size_t stream);
	int (*take)(void *context, size_t stream, struct ptah_profile *profile);
	void *context;
	bool ended;		  /* the progress callback ended the count early */
	uint64_t before;	  /* bytes of the streams that are complete */
	struct ptah_image *image; /* an empty one, of `sum` */
	struct ptah_profile *sum; /* of a stream's partial sums */
};

static bool wants(const struct count *count, size_t stream)
{
	return !count->wants || count->wants(count->context, stream);
}

/* Reports the progress, to a callback that may end the count. */
static void report(struct count *count, uint64_t bytes)
{
	const struct ptah_jobs *jobs = count->jobs;

	if (jobs && jobs->progress && !jobs->progress(jobs->context, bytes))
		count->ended = true;
}

/* Makes `sum` one that has counted nothing and knows no address spaces. */
static int renew_sum(struct count *count)
{
	int status = count->image ? 0 : ptah_image_new(&count->image);

	if (count->sum && count->sum->status >= 0 && count->sum->flow->code.space_count == 1)
		return ptah_profile_reset(count->sum);
	ptah_profile_free(count->sum);
	count->sum = NULL;
	return status < 0 ? status : ptah_profile_new(count->image, NULL, &count->sum);
}

/*
 * Finds a stream's first error again, by counting from the beginning: its time is not known exactly
 * where a decode that began in the middle did not have the exact time.
 */
static int find_first_error(struct count *count, size_t stream, struct share *share)
{
	struct stream_decoder **s = &count->workers->caller;
	int status = stream_renew_counted(count->session, stream, s);

	while (status >= 0 && !(*s)->profile->totals.errors && (status = stream_count(*s)) > 0)
		;
	if (status < 0)
		return status;
	share->totals.first_error = (*s)->profile->totals.first_error;
	share->totals.first_error.code.space = 0;
	return 0;
}

/* Adds errors, overflows and gaps to the sum. */
static int add_totals(struct count *count, const struct shared_stream *stream)
{
	bool exact = true, errors = false;
	int status = 0;

	for (struct share *s = stream->first; s && status >= 0; s = s->next) {
		struct profile_part part = {.spaces = &s->error_space, .space_count = 1};

		exact = exact && s->timed;
		if (s->totals.errors && !errors && !exact)
			status = find_first_error(count, stream->index, s);
		errors = errors || s->totals.errors;
		part.totals = s->totals;
		if (status >= 0)
			status = profile_add_part(count->sum, &part);
	}
	return status;
}

/*
 * The work ends early: only those shares are used of which it is known that they began in the right
 * state, and only those sums that have no others.
 */
static void keep_proved(struct shared_stream *stream)
{
	bool proved = true;

	for (struct share *s = stream->first; s; s = s->next) {
		proved = proved && s->verified;
		if (!proved || !s->partial || s->partial->spoiled) {
			if (s->partial)
				s->partial->spoiled = true;
			s->totals = (struct ptah_profile_totals){0};
		}
	}
}

/* Adds up what the jobs have counted of a stream, and hands it out. */
static int hand_out(struct count *count, struct shared_stream *stream)
{
	int status = renew_sum(count);
	bool first = true;

	for (struct partial *p = stream->partials; p && status >= 0; p = p->next) {
		if (p->spoiled)
			continue;
		status = first ? profile_give_part(count->sum, &p->part)
			       : profile_add_part(count->sum, &p->part);
		first = false;
	}
	if (status >= 0)
		status = add_totals(count, stream);
	return status < 0 ? status : count->take(count->context, stream->index, count->sum);
}

/* Waits for all streams in turn. */
static int hand_out_all(struct count *count, struct counting *c)
{
	uint64_t seen = 0, all = 0;
	int status = 0;

	for (size_t i = 0; i < c->count; i++)
		all += c->streams[i].bytes;
	while (c->first < c->count && status >= 0 && !count->ended) {
		if (counting_wait(c, seen)) {
			status = hand_out(count, &c->streams[c->first]);
			counting_next(c);
			continue;
		}
		status = counting_status(c);
		seen = c->bytes;
		report(count, seen < all ? seen : all);
	}
	counting_stop(c);
	if (status >= 0)
		status = c->status;
	if (status >= 0 && c->first < c->count) {
		keep_proved(&c->streams[c->first]);
		status = hand_out(count, &c->streams[c->first]);
	}
	return status;
}

static int count_with_jobs(struct count *count, struct counting *c)
{
	int status = counting_begin(c);

	if (status < 0)
		return status;
	status = hand_out_all(count, c);
	counting_free(c);
	ptah_profile_free(count->sum);
	ptah_image_free(count->image);
	return status;
}

/* Counts everything in the caller's thread. */
static int count_alone(struct count *count)
{
	const struct ptah_session *session = count->session;
	struct stream_decoder **s = &count->workers->caller;
	int status = 0;

	for (size_t i = 0; i < session->stream_count && status >= 0 && !count->ended; i++) {
		if (!wants(count, i))
			continue;
		status = stream_renew_counted(session, i, s);
		if (status < 0)
			break;
		while (!count->ended && (status = stream_count(*s)) > 0)
			report(count, count->before + (*s)->offset);
		if (status >= 0)
			status = count->take(count->context, i, (*s)->profile);
		count->before += session->streams[i].info.bytes;
	}
	return status;
}

/* Lists the streams that are wanted. Returns how many bytes they have, or UINT64_MAX: no memory. */
static uint64_t list_streams(const struct count *count, struct counting *c)
{
	const struct ptah_session *session = count->session;
	uint64_t bytes = 0;

	c->streams = calloc(session->stream_count + 1, sizeof(*c->streams));
	if (!c->streams)
		return UINT64_MAX;
	for (size_t i = 0; i < session->stream_count; i++) {
		const struct stream *stream = &session->streams[i];

		if (!wants(count, i))
			continue;
		/*
		 * Which process ran when in a stream that several share is found out from its
		 * beginning to its end, and so is what lies in a window.
		 */
		c->streams[c->count++] = (struct shared_stream){
		    .index = i,
		    .bytes = stream->info.bytes,
		    .whole = stream_is_shared(stream) || session_has_window(session)};
		bytes += stream->info.bytes;
	}
	return bytes;
}

static uint64_t slot_size(const struct ptah_jobs *jobs, uint64_t bytes)
{
	const uint64_t size = bytes / PER_JOB / jobs->jobs;

	if (jobs->segment)
		return jobs->segment;
	return size < SLOT_MIN ? SLOT_MIN : size > SLOT_MAX ? SLOT_MAX : size;
}

/* Counts with jobs, if there is enough for several. */
static int run(struct count *count)
{
	struct counting c = {.session = count->session,
			     .decoders = &count->workers->count,
			     .jobs = count->jobs ? count->jobs->jobs : 1};
	uint64_t bytes;
	int status;

	if (!count->jobs || c.jobs < 2)
		return count_alone(count);
	bytes = list_streams(count, &c);
	c.slot = slot_size(count->jobs, bytes);
	status = bytes == UINT64_MAX  ? PTAH_E_NOMEM
		 : bytes > 2 * c.slot ? count_with_jobs(count, &c)
				      : count_alone(count);
	free(c.streams);
	return status;
}

int ptah_session_count(const struct ptah_session *session, const struct ptah_jobs *jobs,
		       bool (*wants)(void *context, size_t stream),
		       int (*take)(void *context, size_t stream, struct ptah_profile *profile),
		       void *context)
{
	struct ptah_workers own = {.session = session};
	struct count count = {
	    .session = session, .jobs = jobs, .wants = wants, .take = take, .context = context};
	int status;

	if (!session || !take || (jobs && (jobs->size < sizeof(*jobs) || jobs->jobs > MAX_JOBS)))
		return PTAH_E_INVAL;
	count.workers = jobs && jobs->workers ? jobs->workers : &own;
	if (count.workers->session != session)
		return PTAH_E_INVAL;
	status = run(&count);
	workers_fini(&own);
	return status;
}
