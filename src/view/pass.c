/* SPDX-License-Identifier: MIT */
/*
 * Reads all calls of the recording, once: each goes into its thread's log and levels. Stubs of
 * linkage tables are left out, as in other reports: what they ran counts for their callers.
 *
 * The thread that decodes fills chunks; another one writes them (pass_write.c) and keeps the levels
 * within their memory.
 */
#include "view/pass.h"

#include "base/compiler.h"
#include "output/wait_names.h"
#include "support/list.h"

#include <stdlib.h>

/* Threads */

void view_thread_free(struct view_thread *t)
{
	if (!t)
		return;
	call_log_fini(&t->log);
	for (unsigned axis = 0; axis < LOG_AXES; axis++)
		levels_fini(&t->levels[axis]);
	free(t->events);
	free(t->hidden);
	free(t->calling);
	view_lock_fini(&t->lock);
	free(t);
}

/* The thread of a batch; a new one is appended. NULL: out of memory. */
static struct view_thread *thread_of(struct view_model *m, const struct ptah_call_thread *info)
{
	struct view_thread *t;

	/* Only this thread appends. */
	if (info->number < m->thread_count)
		return m->threads[info->number];
	t = calloc(1, sizeof(*t));
	if (!t || view_lock_init(&t->lock) < 0) {
		free(t);
		return NULL;
	}
	t->info = *info;
	call_log_init(&t->log, m->store);
	for (unsigned axis = 0; axis < LOG_AXES; axis++)
		levels_init(&t->levels[axis], LEVEL_FIRST);
	pthread_mutex_lock(&m->lock);
	if (LIST_ROOM(m->threads, m->thread_count, m->thread_capacity)) {
		m->threads[m->thread_count++] = t;
	} else {
		view_thread_free(t);
		t = NULL;
	}
	pthread_mutex_unlock(&m->lock);
	return t;
}

/* Chunks */

#define RING 16

/* The two threads, and the ring of chunks between them. */
struct pass {
	struct view_model *model;
	struct view_naming naming;
	struct chunk *now; /* that is being filled, or NULL */
	int32_t cpu;	   /* of the present batch */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* What follows, by whoever holds the lock. */
	struct chunk *ring[RING];
	size_t first, count; /* that are full */
	bool over;	     /* no more comes */
	int status;	     /* of the writing */
};

/* Memory */

static uint64_t level_bytes(struct view_model *m)
{
	struct view_thread *t;
	uint64_t bytes = 0;

	for (size_t i = 0; (t = view_thread_get(m, i)); i++)
		for (unsigned axis = 0; axis < LOG_AXES; axis++)
			bytes += t->levels[axis].bytes;
	return bytes;
}

/* Drops the finest level of the thread that would free the most. False: there is none. */
static bool drop_one(struct view_model *m)
{
	struct view_thread *t, *largest = NULL;
	unsigned of = 0;
	uint64_t most = 0;
	bool dropped;

	for (size_t i = 0; (t = view_thread_get(m, i)); i++)
		for (unsigned axis = 0; axis < LOG_AXES; axis++) {
			const uint64_t bytes = levels_first_bytes(&t->levels[axis]);

			if (bytes <= most)
				continue;
			most = bytes;
			largest = t;
			of = axis;
		}
	if (!largest)
		return false;
	view_lock_write(&largest->lock);
	dropped = levels_drop(&largest->levels[of]);
	view_unlock_write(&largest->lock);
	return dropped;
}

static void keep_to_budget(struct view_model *m)
{
	while (level_bytes(m) > m->config.memory && drop_one(m))
		;
}

/* Writing */

/* So many chunks between two looks at the budget. */
#define LOOK 32

/* The next full chunk, which stays in the ring; NULL: the last one has been written. */
static struct chunk *first_chunk(struct pass *p)
{
	struct chunk *c;

	pthread_mutex_lock(&p->lock);
	while (!p->count && !p->over)
		pthread_cond_wait(&p->changed, &p->lock);
	c = p->count ? p->ring[p->first] : NULL;
	pthread_mutex_unlock(&p->lock);
	return c;
}

static void drop_chunk(struct pass *p, int status)
{
	pthread_mutex_lock(&p->lock);
	p->first = (p->first + 1) % RING;
	p->count--;
	if (p->status >= 0)
		p->status = status;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void *write_all(void *context)
{
	struct pass *p = context;
	struct chunk *c;
	unsigned chunks = 0;
	int status = 0;

	while ((c = first_chunk(p))) {
		if (status >= 0 && !p->model->stop)
			status = view_write_chunk(p->model, c);
		drop_chunk(p, status);
		if (!(++chunks % LOOK))
			keep_to_budget(p->model);
	}
	keep_to_budget(p->model);
	return NULL;
}

/* Reading */

/* Makes p->now an empty chunk. */
static int new_chunk(struct pass *p, struct view_thread *t)
{
	int status;

	pthread_mutex_lock(&p->lock);
	/* One place less than there are: the chunk that is being filled is the next one. */
	while (p->count == RING - 1)
		pthread_cond_wait(&p->changed, &p->lock);
	p->now = p->ring[(p->first + p->count) % RING];
	status = p->status;
	pthread_mutex_unlock(&p->lock);
	p->now->thread = t;
	p->now->cpu = p->cpu;
	p->now->count = 0;
	p->now->ended = p->now->has_item = false;
	return status;
}

/* The present chunk is complete. */
static void send_chunk(struct pass *p)
{
	if (!p->now)
		return;
	pthread_mutex_lock(&p->lock);
	p->count++;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	p->now = NULL;
}

/* Room for a step of a thread, in p->now. */
static ALWAYS_INLINE int make_step_room(struct pass *p, struct view_thread *t)
{
	if (LIKELY(p->now && p->now->thread == t && p->now->cpu == p->cpu &&
		   p->now->count < CHUNK_STEPS))
		return 0;
	send_chunk(p);
	return new_chunk(p, t);
}

/* A call begins. Returns its entry, UINT32_MAX: out of memory. *hidden: it is a stub. */
static ALWAYS_INLINE uint32_t enter_view_call(struct pass *p, struct view_thread *t,
					      const struct ptah_call_step *step, bool *hidden)
{
	const struct view_entry entry = {
	    .function = step->function,
	    .site = step->site,
	    .space = ptah_call_thread_space(&t->info, step->space),
	    .flags = step->flags,
	    .how = step->how,
	};

	if (!LIST_ROOM(t->hidden, t->open, t->open_capacity))
		return UINT32_MAX;
	*hidden = t->hidden[t->open++] = step->flags & PTAH_CALL_STUB;
	return *hidden ? 0 : view_functions_entry(p->model->functions, &p->naming, &entry);
}

static int take_pass_steps(struct pass *p, struct view_thread *t,
			   const struct ptah_call_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct ptah_call_step *step = &batch->steps[i];
		uint32_t entry = 0, function = 0;
		bool hidden;
		int status;

		if (step->end)
			hidden = !t->open || t->hidden[--t->open];
		else
			entry = enter_view_call(p, t, step, &hidden);
		if (entry == UINT32_MAX)
			return PTAH_E_NOMEM;
		if (hidden)
			continue;
		if (!step->end)
			function = view_functions_get_entry(p->model->functions, entry)->id;
		status = make_step_room(p, t);
		if (status < 0)
			return status;
		p->now->steps[p->now->count++] = (struct step){.entry = entry,
							       .function = function,
							       .flags = step->flags,
							       .end = step->end,
							       .how = step->how,
							       .tsc = step->tsc,
							       .counts = step->thread};
	}
	return 0;
}

static int32_t cpu_of(const struct view_model *m, size_t stream)
{
	struct ptah_stream_info info;

	if (!m->cpu_count ||
	    ptah_session_stream_info(m->config.recordings[VIEW_SHOWN].session, stream, &info) < 0)
		return -1;
	return info.cpu;
}

static bool is_shown(const struct ptah_item *item)
{
	if (item->flags & PTAH_ITEM_STATUS)
		return false;
	switch (item->type) {
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
		return true;
	case PTAH_ITEM_DISABLED:
		/* Where it went is in the trace unless that is the kernel. */
		return item->flags & PTAH_ITEM_IP_SUPPRESSED;
	default:
		return false;
	}
}

static int take_pass_batch(struct pass *p, const struct ptah_call_batch *batch)
{
	struct view_thread *t = thread_of(p->model, batch->thread);
	const bool has_event = batch->event && is_shown(batch->event);
	int status;

	p->cpu = cpu_of(p->model, batch->thread->stream);
	status = t ? take_pass_steps(p, t, batch) : PTAH_E_NOMEM;
	if (status < 0 || (!has_event && !batch->ended))
		return status;
	status = make_step_room(p, t);
	if (status < 0)
		return status;
	p->now->ended = batch->ended;
	p->now->has_item = has_event;
	if (has_event) {
		p->now->item = *batch->event;
		p->now->counts = batch->counts;
	}
	send_chunk(p);
	return 0;
}

static int read_all(struct pass *p, struct ptah_call_reader *reader)
{
	struct view_model *m = p->model;
	const struct ptah_call_batch *batch;
	unsigned batches = 0;
	int status = 0;

	while (!m->stop && (status = ptah_call_reader_next(reader, &batch)) > 0) {
		status = take_pass_batch(p, batch);
		if (status < 0)
			return status;
		if (!(++batches % LOOK))
			atomic_store_explicit(&m->read_bytes, ptah_call_reader_offset(reader),
					      memory_order_relaxed);
	}
	send_chunk(p);
	return status;
}

/* Reads with this thread, and writes with another one. */
static int run_pass(struct pass *p, struct ptah_call_reader *reader)
{
	pthread_t writer;
	int status;

	if (pthread_create(&writer, NULL, write_all, p))
		return PTAH_E_NOMEM;
	status = read_all(p, reader);
	pthread_mutex_lock(&p->lock);
	p->over = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(writer, NULL);
	if (status >= 0)
		status = p->status;
	return status < 0 ? status : view_cpus_finish(p->model);
}

static int make_ring(struct pass *p)
{
	for (size_t i = 0; i < RING; i++) {
		p->ring[i] = malloc(sizeof(*p->ring[i]));
		if (!p->ring[i])
			return PTAH_E_NOMEM;
	}
	if (pthread_mutex_init(&p->lock, NULL))
		return PTAH_E_NOMEM;
	if (pthread_cond_init(&p->changed, NULL)) {
		pthread_mutex_destroy(&p->lock);
		return PTAH_E_NOMEM;
	}
	return 0;
}

static bool wants_pass_stream(void *pass, size_t stream)
{
	const struct pass *p = pass;
	const struct view_recording *r = &p->model->config.recordings[VIEW_SHOWN];

	return !r->wants || r->wants(r->context, stream);
}

static uint64_t end_of_thread(void *pass, const struct ptah_call_thread *thread, uint64_t tsc)
{
	const struct pass *p = pass;

	return wait_end_of_thread(p->model->ends, p->model->config.recordings[VIEW_SHOWN].session,
				  thread, tsc);
}

static int read_pass_calls(struct pass *p)
{
	struct view_model *m = p->model;
	const struct view_recording *r = &m->config.recordings[VIEW_SHOWN];
	/* The writer is as busy as one thread that decodes. */
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .wants = wants_pass_stream,
						       .ended = m->ends ? end_of_thread : NULL,
						       .context = p,
						       .steps = true,
						       .events = true,
						       .jobs = m->jobs > 2 ? m->jobs - 1 : 1};
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(r->session, &config, &reader);

	if (status < 0)
		return status;
	status = run_pass(p, reader);
	ptah_call_reader_free(reader);
	return status;
}

int view_read_calls(struct view_model *m)
{
	struct pass p = {.model = m};
	int status = make_ring(&p);

	view_naming(m, &p.naming);
	if (status >= 0) {
		status = read_pass_calls(&p);
		pthread_cond_destroy(&p.changed);
		pthread_mutex_destroy(&p.lock);
	}
	for (size_t i = 0; i < RING; i++)
		free(p.ring[i]);
	if (status >= 0 && !m->stop)
		m->read_bytes = m->trace_bytes;
	return status < 0 ? status : 0;
}
