/* SPDX-License-Identifier: MIT */
/* The threads that count: see count_jobs.h. */
#include "session/count_jobs.h"
#include "profile/profile_internal.h"

#include <stdlib.h>

/*
 * So many streams for each job may be counted before the first of them is. Their counts are in
 * memory.
 */
#define AHEAD 2

static void lock(struct counting *c)
{
	pthread_mutex_lock(&c->lock);
}

static void unlock(struct counting *c)
{
	pthread_mutex_unlock(&c->lock);
}

/* Something has changed that another job, or the caller, may wait for. Called with the lock. */
static void announce(struct counting *c)
{
	pthread_cond_broadcast(&c->changed);
}

/* Whether nothing of the job's partial sum is of use. Called with the lock. */
static bool is_spoiled(const struct count_job *job)
{
	return job->partial && job->partial->spoiled;
}

/* Forgets what the decoder has counted. */
static int drop_partial(struct count_job *job)
{
	struct counting *c = job->counting;

	lock(c);
	job->stream->open_partials--;
	announce(c);
	unlock(c);
	free(job->partial);
	job->partial = NULL;
	return ptah_profile_reset((*job->s)->profile);
}

/* Expands what the decoder has counted, for the others to merge. Called without the lock. */
static int hand_over(struct count_job *job)
{
	struct counting *c = job->counting;
	struct partial *partial = job->partial;
	struct profile_part part;
	int status;

	if (!partial)
		return 0;
	lock(c);
	if (partial->spoiled) {
		unlock(c);
		return drop_partial(job);
	}
	unlock(c);
	status = profile_take_part((*job->s)->profile, &part);
	job->partial = NULL;
	lock(c);
	job->stream->open_partials--;
	if (status >= 0 && !partial->spoiled) {
		partial->part = part;
		shares_add_partial(job->stream, partial);
		partial = NULL;
	}
	announce(c);
	unlock(c);
	if (partial && status >= 0)
		profile_free_part(&part);
	free(partial);
	return status;
}

/* Begins a partial sum. */
static int begin_partial(struct count_job *job, uint64_t from)
{
	struct counting *c = job->counting;

	job->partial = calloc(1, sizeof(*job->partial));
	if (!job->partial)
		return PTAH_E_NOMEM;
	job->partial->from = from;
	lock(c);
	job->stream->open_partials++;
	unlock(c);
	return 0;
}

/* A decoder that has counted nothing. */
static int renew(struct count_job *job)
{
	const int status = hand_over(job);

	job->position = 0;
	return status < 0
		   ? status
		   : stream_renew_counted(job->counting->session, job->stream->index, job->s);
}

/*
 * Goes to the beginning of a share that is known. False: the decoder's state is another one there.
 */
static bool enter_known(struct count_job *job, const struct segment *segment)
{
	struct stream_decoder *s = *job->s;
	struct flow_state state;

	s->ended = false;
	if (segment_enter(s, segment) < 0)
		return false;
	flow_save_state(stream_flow(s), &state);
	return segment->whole_start || segment_follows(segment, &state, stream_applied(s), true);
}

/* What enter() may return besides an error. */
enum {
	ENTER_NONE,  /* the share has no beginning */
	ENTER_FOUND, /* the decoder is there */
	ENTER_LOST,  /* it does not reach the state that another decoder had there */
};

/* Finds the beginning of a share, or goes there. */
static int enter(struct count_job *job, struct share *share, uint64_t before)
{
	struct segment segment;
	int status = 0;

	/* Changes of the image cannot be undone. */
	if (stream_later(*job->s) && share->from < job->position)
		status = renew(job);
	if (status < 0)
		return status;
	if (job->stream->whole)
		return ENTER_FOUND;
	if (share->found) {
		if (enter_known(job, &share->segment))
			return ENTER_FOUND;
		status = renew(job);
		if (status < 0)
			return status;
		return enter_known(job, &share->segment) ? ENTER_FOUND : ENTER_LOST;
	}
	if (!segment_find(*job->s, share->from, before, &segment)) {
		job->position = (*job->s)->offset;
		return ENTER_NONE;
	}
	/* What precedes the beginning, or looks like it, may have named address spaces. */
	if (stream_flow(*job->s)->code.space_count > 1) {
		status = renew(job);
		if (status >= 0 && !enter_known(job, &segment))
			return ENTER_LOST;
	}
	share->segment = segment; /* others read it when it is found */
	return status < 0 ? status : ENTER_FOUND;
}

/* Counts up to `stop`. */
static int count_to(struct count_job *job, uint64_t stop)
{
	struct counting *c = job->counting;
	struct stream_decoder *s = *job->s;
	uint64_t before = s->taken;
	int status = 0;

	if (!job->stream->whole)
		s->stop = stop;
	while (!c->stop && (status = stream_count(s)) > 0) {
		if (s->taken - before < c->slot)
			continue;
		c->bytes += s->taken - before;
		before = s->taken;
		if (job->stream->whole)
			pthread_cond_broadcast(&c->changed);
	}
	c->bytes += s->taken - before;
	return status;
}

/* Moves what is counted at once, and not by rows, to the share. Called with the lock. */
static void leave(struct count_job *job, struct share *share)
{
	struct ptah_profile *p = (*job->s)->profile;

	profile_take_totals(p, &share->totals);
	share->error_space = p->flow->code.spaces[share->totals.first_error.code.space];
	share->totals.first_error.code.space = 0;
}

/* The next step, with the lock. Returns false when there is nothing more to be done. */
static bool find_step(struct count_job *job, struct share *share, uint64_t reached, uint64_t *stop)
{
	struct counting *c = job->counting;
	struct shared_stream *stream = job->stream;
	struct flow_state state;

	while (!c->stop && !is_spoiled(job) && !share->removed) {
		switch (shares_step(stream, share, reached, c->slot, stop)) {
		case SHARE_COUNT:
			announce(c);
			return true;
		case SHARE_WAIT:
			pthread_cond_wait(&c->changed, &c->lock);
			break;
		case SHARE_PROVE:
			flow_save_state(stream_flow(*job->s), &state);
			if (!shares_prove(stream, share, &state, stream_applied(*job->s),
					  stream_later(*job->s)))
				break;
			shares_finish(stream, share);
			return false;
		case SHARE_DONE:
			shares_finish(stream, share);
			return false;
		}
	}
	return false;
}

/* Counts what was fed on the way to the beginning of a share and lies after it. */
static int count_rest(struct stream_decoder *s)
{
	const int status = profile_resume(s->profile);

	s->paused = status == PROFILE_PAUSED;
	return status < 0 ? status : 0;
}

/* Counts a share from its beginning to its end. */
static int count_share(struct count_job *job, struct share *share)
{
	struct counting *c = job->counting;
	struct stream_decoder *s = *job->s;
	uint64_t reached = share->segment.start, stop;
	int status = 0;

	lock(c);
	share->partial = job->partial;
	share->found = true;
	if (share->claimed < s->offset) /* so far it was fed */
		share->claimed = s->offset;
	announce(c);
	/* Nothing is counted before the share has its partial sum, which may be spoiled. */
	if (!job->stream->whole && !share->removed) {
		unlock(c);
		status = count_rest(s);
		lock(c);
	}
	while (status >= 0 && find_step(job, share, reached, &stop)) {
		unlock(c);
		status = count_to(job, stop);
		lock(c);
		reached = stop;
	}
	leave(job, share);
	job->position = s->offset;
	if (is_spoiled(job) && !share->done)
		shares_abandon(share);
	announce(c);
	unlock(c);
	return status < 0 ? status : 0;
}

/* Brings a decoder to a share, and counts it. */
static int run_share(struct count_job *job, struct shared_stream *stream, struct share *share,
		     uint64_t before)
{
	struct counting *c = job->counting;
	int status = 0;

	if (job->stream != stream || !job->partial) {
		status = hand_over(job);
		job->stream = stream;
		if (status >= 0)
			status = renew(job);
	}
	if (status >= 0)
		status = enter(job, share, before);
	if (status == ENTER_NONE || status == ENTER_LOST) {
		lock(c);
		if (!share->removed && status == ENTER_NONE)
			shares_remove(stream, share);
		else if (!share->removed && shares_restart(stream) < 0)
			c->status = PTAH_E_NOMEM;
		announce(c);
		unlock(c);
		return 0;
	}
	if (status >= 0 && !job->partial)
		status = begin_partial(job, share->from);
	if (status >= 0)
		status = count_share(job, share);
	/* A decoder that numbers address spaces must number them in the order of the stream. */
	if (status >= 0 && stream_flow(*job->s)->code.space_count > 1)
		status = hand_over(job);
	return status;
}

/* Shares into which a stream is cut that nobody has begun: one for each job without a stream. */
static unsigned shares_of(const struct counting *c, size_t end)
{
	size_t unopened = 0;

	for (size_t i = c->first; i < end; i++)
		unopened += !c->streams[i].opened;
	return unopened < c->jobs ? c->jobs : 1;
}

/* Finds work for a job. NULL: there is none at the moment. Called with the lock. */
static struct share *find_share(struct count_job *job, struct shared_stream **stream)
{
	struct counting *c = job->counting;
	const size_t ahead = c->first + (size_t)AHEAD * c->jobs;
	const size_t end = ahead < c->count ? ahead : c->count;
	struct share *share, *largest = NULL;
	uint64_t bytes, most = 2 * c->slot - 1;

	*stream = job->stream;
	if (job->partial && (share = shares_take(job->stream)))
		return share;
	for (size_t i = c->first; i < end && c->status >= 0; i++) {
		*stream = &c->streams[i];
		if (!(*stream)->opened)
			c->status = shares_open(*stream, shares_of(c, end), c->slot);
		if (c->status >= 0 && (share = shares_take(*stream)))
			return share;
	}
	for (size_t i = c->first; i < end && c->status >= 0; i++) {
		share = shares_largest(&c->streams[i], &bytes);
		if (share && bytes > most) {
			*stream = &c->streams[i];
			largest = share;
			most = bytes;
		}
	}
	if (!largest)
		return NULL;
	share = shares_split(*stream, largest);
	if (!share)
		c->status = PTAH_E_NOMEM;
	return share;
}

/* Merges two partial sums of a complete stream. Called with the lock. False: there are none. */
static bool merge_pair(struct counting *c)
{
	struct partial *pair = NULL;
	bool more;
	int status;

	for (size_t i = c->first; i < c->count && !pair && c->streams[i].opened; i++)
		if (shares_are_complete(&c->streams[i]))
			pair = shares_pair(&c->streams[i], &more);
	if (!pair)
		return false;
	pair->merging = pair->next->merging = true;
	unlock(c);
	status = profile_join_parts(&pair->part, &pair->next->part);
	lock(c);
	if (status < 0)
		c->status = status;
	shares_merged(pair);
	announce(c);
	return true;
}

/* Whether the stream of the job's partial sum has been counted. Called with the lock. */
static bool is_to_hand_over(const struct count_job *job)
{
	return job->partial && (!job->stream->unfinished || job->partial->spoiled);
}

/*
 * Hands over the partial sum of a job for which there is no work, while others still count. Called
 * with the lock. False: there is none, or there may be more work for it soon.
 */
static bool hand_over_early(struct count_job *job)
{
	struct counting *c = job->counting;
	int status;

	if (!job->partial || !shares_are_found(job->stream))
		return false;
	unlock(c);
	status = hand_over(job);
	lock(c);
	if (status < 0 && c->status >= 0)
		c->status = status;
	return true;
}

/* Does something. Called with the lock. False: there was nothing to do. */
static bool do_something(struct count_job *job)
{
	struct counting *c = job->counting;
	struct shared_stream *stream;
	struct share *share;
	uint64_t before;
	int status;

	if (is_to_hand_over(job)) {
		unlock(c);
		status = hand_over(job);
	} else if (merge_pair(c)) {
		return true;
	} else {
		share = find_share(job, &stream);
		if (!share)
			return hand_over_early(job);
		before = shares_end(share);
		stream->busy++;
		unlock(c);
		status = run_share(job, stream, share, before);
		lock(c);
		stream->busy--;
		announce(c);
		unlock(c);
	}
	lock(c);
	if (status < 0 && c->status >= 0)
		c->status = status;
	return true;
}

static void *work(void *argument)
{
	struct count_job *job = argument;
	struct counting *c = job->counting;
	bool failed;

	lock(c);
	while (!c->stop && c->status >= 0 && c->first < c->count) {
		if (!do_something(job) && c->status >= 0)
			pthread_cond_wait(&c->changed, &c->lock);
	}
	failed = c->status < 0;
	announce(c);
	unlock(c);
	if (failed || hand_over(job) < 0) {
		free(job->partial);
		job->partial = NULL;
		stream_free(*job->s);
		*job->s = NULL;
	}
	return NULL;
}

static int start(struct counting *c)
{
	unsigned n = 0;

	for (; n < c->jobs; n++) {
		c->job[n] = (struct count_job){.counting = c, .s = &c->decoders->jobs[n]};
		if (pthread_create(&c->threads[n], NULL, work, &c->job[n]))
			break;
	}
	lock(c);
	c->jobs = n;
	unlock(c);
	return n ? 0 : PTAH_E_NOMEM;
}

int counting_begin(struct counting *c)
{
	if (pthread_mutex_init(&c->lock, NULL))
		return PTAH_E_NOMEM;
	if (pthread_cond_init(&c->changed, NULL)) {
		pthread_mutex_destroy(&c->lock);
		return PTAH_E_NOMEM;
	}
	if (start(c) >= 0)
		return 0;
	counting_free(c);
	return PTAH_E_NOMEM;
}

static bool is_counted(const struct shared_stream *stream)
{
	bool more;

	return shares_are_complete(stream) && !shares_pair(stream, &more) && !more;
}

bool counting_wait(struct counting *c, uint64_t seen)
{
	bool counted;

	lock(c);
	while (!(counted = is_counted(&c->streams[c->first])) && c->status >= 0 && c->bytes == seen)
		pthread_cond_wait(&c->changed, &c->lock);
	unlock(c);
	return counted;
}

int counting_status(struct counting *c)
{
	int status;

	lock(c);
	status = c->status;
	unlock(c);
	return status;
}

void counting_next(struct counting *c)
{
	lock(c);
	shares_free(&c->streams[c->first++]);
	announce(c);
	unlock(c);
}

void counting_stop(struct counting *c)
{
	lock(c);
	c->stop = true;
	announce(c);
	unlock(c);
	for (unsigned i = 0; i < c->jobs; i++)
		pthread_join(c->threads[i], NULL);
	c->jobs = 0;
}

void counting_free(struct counting *c)
{
	counting_stop(c);
	for (size_t i = c->first; i < c->count; i++)
		shares_free(&c->streams[i]);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
}
