/* SPDX-License-Identifier: MIT */
/* Opens a recording for the view: starts the thread that reads it, and hands questions to the
 * makers of answers. */
#include "view/difference.h"
#include "view/model_internal.h"
#include "view/sources.h"

#include <ptah/session.h>
#include <ptah/waits.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Locks */

int view_lock_init(struct view_lock *lock)
{
	atomic_init(&lock->waiting, 0);
	if (pthread_mutex_init(&lock->mutex, NULL))
		return PTAH_E_NOMEM;
	if (pthread_cond_init(&lock->served, NULL)) {
		pthread_mutex_destroy(&lock->mutex);
		return PTAH_E_NOMEM;
	}
	return 0;
}

void view_lock_fini(struct view_lock *lock)
{
	pthread_cond_destroy(&lock->served);
	pthread_mutex_destroy(&lock->mutex);
}

void view_lock_write(struct view_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
	while (atomic_load(&lock->waiting))
		pthread_cond_wait(&lock->served, &lock->mutex);
}

void view_unlock_write(struct view_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

void view_lock_read(struct view_lock *lock)
{
	atomic_fetch_add(&lock->waiting, 1);
	pthread_mutex_lock(&lock->mutex);
	atomic_fetch_sub(&lock->waiting, 1);
}

void view_unlock_read(struct view_lock *lock)
{
	pthread_cond_signal(&lock->served);
	pthread_mutex_unlock(&lock->mutex);
}

/* Names */

static void lock_names(void *model)
{
	view_names_lock(model, VIEW_SHOWN);
}

static void unlock_names(void *model)
{
	view_names_unlock(model, VIEW_SHOWN);
}

void view_naming(struct view_model *m, struct view_naming *naming)
{
	*naming = (struct view_naming){.names = m->config.recordings[VIEW_SHOWN].names,
				       .lock = lock_names,
				       .unlock = unlock_names,
				       .context = m};
}

void view_names_lock(struct view_model *m, enum view_side side)
{
	pthread_mutex_lock(&m->names_lock[side]);
}

void view_names_unlock(struct view_model *m, enum view_side side)
{
	pthread_mutex_unlock(&m->names_lock[side]);
}

/* Reading */

static bool is_stopped(void *model)
{
	return view_model_is_stopped(model);
}

static void set_state(struct view_model *m, int status, bool calls_read, bool done)
{
	pthread_mutex_lock(&m->lock);
	m->status = m->status < 0 ? m->status : status;
	m->calls_read |= calls_read;
	m->done |= done;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

static void *read_recording(void *model)
{
	struct view_model *m = model;
	struct view_naming naming;
	int status = 0;

	if (m->has_time && ptah_session_samples(m->config.recordings[VIEW_SHOWN].session))
		status = ptah_waits_new(m->config.recordings[VIEW_SHOWN].session, NULL, &m->ends);
	if (status >= 0)
		status = view_read_calls(m);

	set_state(m, status, true, false);
	if (status >= 0 && !m->stop)
		status = view_read_trees(m);
	ptah_waits_free(m->ends);
	m->ends = NULL;
	if (status >= 0 && !m->stop)
		status = view_read_waits(m);
	view_naming(m, &naming);
	if (status >= 0)
		view_functions_find_lines(m->functions, &naming, is_stopped);
	set_state(m, status, true, true);
	return NULL;
}

/* Finds the first time, and how long the recording is. */
static void find_times(struct view_model *m)
{
	const struct view_recording *r = &m->config.recordings[VIEW_SHOWN];
	struct ptah_stream_info info;
	uint64_t first, last, end = 0;

	m->begin = UINT64_MAX;
	m->has_time = ptah_session_time_scale(r->session, &m->mult, &m->shift);
	for (size_t i = 0; i < ptah_session_streams(r->session); i++) {
		if (r->wants && !r->wants(r->context, i))
			continue;
		if (ptah_session_stream_info(r->session, i, &info) >= 0)
			m->trace_bytes += info.bytes;
		if (!m->has_time || ptah_session_stream_times(r->session, i, &first, &last) < 0)
			continue;
		first = ptah_session_time(r->session, first);
		last = ptah_session_time(r->session, last);
		m->begin = first < m->begin ? first : m->begin;
		end = last > end ? last : end;
	}
	m->has_time &= m->begin != UINT64_MAX;
	if (!m->has_time)
		m->begin = 0;
	else
		m->length[LOG_TIME] = end - m->begin;
}

static int new_sources(struct view_model *m)
{
	int status = 0;

	for (unsigned i = 0; i < VIEW_SIDES && status >= 0; i++) {
		const struct view_recording *r = &m->config.recordings[i];

		if (r->session && r->code_names)
			status =
			    view_sources_new(&(struct view_sources_config){.session = r->session,
									   .names = r->code_names,
									   .symfs = r->symfs,
									   .paths = r->source_paths,
									   .jobs = m->jobs,
									   .wants = r->wants,
									   .context = r->context,
									   .stopped = is_stopped,
									   .stop_context = m},
					     &m->sources[i]);
	}
	return status;
}

static int init(struct view_model *m, const struct view_model_config *config)
{
	int status;

	m->config = *config;
	m->config.memory = config->memory ? config->memory : VIEW_MEMORY;
	m->jobs = config->jobs;
	if (!m->jobs) {
		const long online = sysconf(_SC_NPROCESSORS_ONLN);

		m->jobs = online < 1 ? 1 : online > 64 ? 64 : (unsigned)online;
	}
	find_times(m);
	status = view_cpus_new(m);
	if (status >= 0)
		status = new_sources(m);
	if (status >= 0 && m->config.recordings[VIEW_OLD].session)
		status = difference_new(m, &m->difference);
	if (status >= 0)
		status = view_functions_new(&m->functions);
	if (status >= 0)
		status = log_store_new(config->folder ? config->folder : "/var/tmp", config->log,
				       &m->store);
	return status;
}

int view_model_new(const struct view_model_config *config, struct view_model **model,
		   struct ptah_message *why)
{
	struct view_model *m = calloc(1, sizeof(*m));
	int status = m ? 0 : PTAH_E_NOMEM;

	if (m) {
		for (unsigned i = 0; i < VIEW_SIDES; i++)
			pthread_mutex_init(&m->names_lock[i], NULL);
		pthread_mutex_init(&m->lock, NULL);
		pthread_cond_init(&m->changed, NULL);
		status = init(m, config);
	}
	if (status >= 0) {
		m->running = !pthread_create(&m->reader, NULL, read_recording, m);
		status = m->running ? 0 : PTAH_E_NOMEM;
	}
	if (status < 0) {
		view_model_free(m);
		if (why)
			snprintf(why->text, sizeof(why->text), "%s: %s",
				 config->recordings[VIEW_SHOWN].path, ptah_strerror(status));
		return status;
	}
	*model = m;
	return 0;
}

void view_model_stop(struct view_model *m)
{
	m->stop = true;
}

void view_model_free(struct view_model *m)
{
	if (!m)
		return;
	m->stop = true;
	if (m->running)
		pthread_join(m->reader, NULL);
	for (size_t i = 0; i < m->thread_count; i++)
		view_thread_free(m->threads[i]);
	free(m->threads);
	for (unsigned i = 0; i < VIEW_SIDES; i++)
		view_sources_free(m->sources[i]);
	difference_free(m->difference);
	view_trees_free(m->trees);
	view_waits_free(m->waits);
	view_functions_free(m->functions);
	view_cpus_free(m);
	log_store_free(m->store);
	for (unsigned i = 0; i < VIEW_SIDES; i++)
		pthread_mutex_destroy(&m->names_lock[i]);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

int view_model_wait(struct view_model *m, bool (*stopped)(void))
{
	struct timespec until;
	int status;

	pthread_mutex_lock(&m->lock);
	while (!m->done && !(stopped && stopped())) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 100000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&m->changed, &m->lock, &until);
	}
	status = m->status;
	pthread_mutex_unlock(&m->lock);
	return status;
}

/* What the makers of answers ask */

const struct view_recording *view_model_recording(const struct view_model *m, enum view_side side)
{
	return &m->config.recordings[side];
}

struct view_sources *view_model_sources(const struct view_model *m, enum view_side side)
{
	return m->sources[side];
}

struct difference *view_model_difference(const struct view_model *m)
{
	return m->difference;
}

unsigned view_model_jobs(const struct view_model *m)
{
	return m->jobs;
}

bool view_model_is_stopped(const struct view_model *m)
{
	return m->stop;
}

bool view_function(struct view_model *m, uint64_t id, struct view_function *function)
{
	const struct view_function *f = view_functions_get(m->functions, id);

	if (!f)
		return false;
	*function = (struct view_function){.name = f->name,
					   .mangled = f->mangled,
					   .path = f->path,
					   .object = f->object,
					   .place = f->place,
					   .ip = f->ip,
					   .space = f->space,
					   .generated = f->generated};
	if (view_functions_have_lines(m->functions)) {
		function->file = f->file;
		function->line = f->line;
	}
	return true;
}

uint32_t view_function_count(struct view_model *m)
{
	return view_functions_count(m->functions);
}

struct view_thread *view_thread_get(struct view_model *m, uint64_t number)
{
	struct view_thread *t;

	pthread_mutex_lock(&m->lock);
	t = number < m->thread_count ? m->threads[number] : NULL;
	pthread_mutex_unlock(&m->lock);
	return t;
}

bool view_calls_are_read(struct view_model *m)
{
	bool read;

	pthread_mutex_lock(&m->lock);
	read = m->calls_read;
	pthread_mutex_unlock(&m->lock);
	return read;
}

const struct view_trees *view_trees_get(struct view_model *m)
{
	const struct view_trees *trees;

	pthread_mutex_lock(&m->lock);
	trees = m->trees;
	pthread_mutex_unlock(&m->lock);
	return trees;
}

/* Questions */

int view_refuse(struct view_reply *reply, unsigned status, const char *why)
{
	reply->status = status;
	reply->why = why;
	return 1;
}

int view_get_thread(struct view_model *m, const struct view_query *query, struct view_reply *reply,
		    struct view_thread **thread)
{
	uint64_t number;

	if (!view_query_number(query, "thread", UINT32_MAX, &number))
		return view_refuse(reply, 400, "thread=N is missing: the number of a thread.");
	*thread = view_thread_get(m, number);
	return *thread ? 0 : view_refuse(reply, 404, "There is no such thread.");
}

int view_get_axis(struct view_model *m, const struct view_query *query, struct view_reply *reply,
		  enum log_axis *axis)
{
	const char *name = view_query_text(query, "axis");

	if (name && !strcmp(name, "instructions")) {
		*axis = LOG_INSTRUCTIONS;
		return 0;
	}
	if (!name || strcmp(name, "time") != 0)
		return view_refuse(reply, 400, "axis is time or instructions.");
	*axis = LOG_TIME;
	return m->has_time
		   ? 0
		   : view_refuse(reply, 404,
				 "The recording does not relate its time stamps to a clock.");
}

/* Reads a place on an axis, which may have decimals. */
static bool get_place(const struct view_query *query, const char *name, uint64_t *value)
{
	double number;

	if (!view_query_text(query, name))
		return true;
	if (!view_query_real(query, name, &number) || number > 9e15)
		return false;
	*value = number > 0 ? (uint64_t)number : 0;
	return true;
}

int view_get_window(const struct view_query *query, struct view_reply *reply, uint64_t *from,
		    uint64_t *to)
{
	*from = 0;
	*to = UINT64_C(1) << 53;
	if (!get_place(query, "from", from) || !get_place(query, "to", to) || *from > *to)
		return view_refuse(reply, 400, "from and to are places on the axis, in order.");
	return 0;
}

static int make_answer(struct view_model *m, const struct view_answer_kind *kind,
		       const struct view_query *query, struct view_answer *answer)
{
	struct view_reply reply = {.status = 200};
	int status = out_open_memory(&reply.out);

	if (status < 0)
		return status;
	json_init(&reply.json, reply.out);
	status = kind->make(m, query, &reply);
	if (!status) {
		*answer = (struct view_answer){.status = 200, .type = kind->type};
		answer->bytes = out_take(reply.out, &answer->size);
		return answer->bytes ? 0 : PTAH_E_NOMEM;
	}
	out_abort(reply.out);
	if (status > 0)
		return view_answer_refuse(answer, reply.status, reply.why);
	return status == PTAH_E_NOMEM ? status
				      : view_answer_refuse(answer, 503, ptah_strerror(status));
}

int view_model_answer(void *model, const struct view_query *query, struct view_answer *answer)
{
	struct view_model *m = model;

	*answer = (struct view_answer){0};
	if (m->stop)
		return view_answer_refuse(answer, 503, "Ptah is ending.");
	for (const struct view_answer_kind *k = view_answer_kinds; k->path; k++)
		if (!strcmp(k->path, query->path))
			return make_answer(m, k, query, answer);
	return view_answer_refuse(answer, 404, "There is no such answer.");
}
