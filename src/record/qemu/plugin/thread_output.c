/* SPDX-License-Identifier: MIT */
/*
 * Begins, pauses and ends the capture of each thread. The thread's simulated processor and its
 * engine (record/simulated/trace_output.h) write to the thread's trace buffer in shared memory. In
 * the PMI, drain() publishes the new bytes to the recorder and waits until the recorder has made
 * room, so that nothing is lost. Also moves the address filters to where their files are mapped.
 */
#include "record/qemu/plugin/plugin.h"

#include <pthread.h>
#include <stdlib.h>

struct thread_output {
	struct trace_output o;
	unsigned ranges_seen; /* the value of ranges_known that the processor has */
};

/* The address ranges of the filters; one set for the process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ptah_range ranges[SHARED_FILTERS];
static _Atomic unsigned ranges_known; /* number of changes so far */

void plugin_output_lock(void)
{
	pthread_mutex_lock(&lock);
}

void plugin_output_unlock(bool in_child)
{
	if (in_child)
		pthread_mutex_init(&lock, NULL);
	else
		pthread_mutex_unlock(&lock);
}

/*
 * Publishes the new bytes, and waits for room. The checkpoint is taken first: the recorder must
 * never have taken bytes that a return to the checkpoint would have to take back.
 */
static uint64_t drain(void *cookie, struct ptah_capture *capture, uint64_t tail, uint64_t position)
{
	struct shared_thread *t = cookie;
	uint64_t enough = plugin.buffer - plugin.buffer / 4;

	(void)capture;
	t->checkpoint = t->live;
	atomic_store_explicit(&t->published, position, memory_order_release);
	for (;;) {
		tail = atomic_load_explicit(&t->tail, memory_order_acquire);
		if (tail > position) /* SHARED_LEFT_ALONE */
			return position;
		if (position - tail <= enough || plugin.recorder_gone)
			break;
		plugin_wait(&t->tail, tail);
	}
	if (plugin.recorder_gone) {
		plugin_stop();
		return position;
	}
	return tail;
}

/* Filters */

/*
 * A filter on a file begins as a range without code, so that nothing is traced before the file is
 * mapped.
 */
static void init_ranges(void)
{
	for (unsigned i = 0; i < plugin.shared->filter_count; i++) {
		const struct shared_filter *f = &plugin.shared->filters[i];

		ranges[i].mode = (uint8_t)f->mode;
		if (!*f->path) {
			ranges[i].first = f->start;
			ranges[i].last = trace_output_filter_last(f->start, f->size);
		}
	}
}

void plugin_output_map(const char *path, uint64_t start, uint64_t end, uint64_t file_offset)
{
	uint64_t first, last;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < plugin.shared->filter_count; i++) {
		const struct shared_filter *f = &plugin.shared->filters[i];

		if (*f->path && !strcmp(f->path, path) &&
		    trace_output_filter_shown(f->start, f->size, start, end, file_offset, &first,
					      &last)) {
			ranges[i] = (struct ptah_range){
			    .first = first, .last = last, .mode = (uint8_t)f->mode};
			ranges_known++;
		}
	}
	pthread_mutex_unlock(&lock);
}

void plugin_output_refresh(struct shared_thread *t)
{
	struct thread_output *o = t->output;
	unsigned known = atomic_load_explicit(&ranges_known, memory_order_acquire);

	if (o->ranges_seen == known)
		return;
	pthread_mutex_lock(&lock);
	o->ranges_seen = ranges_known;
	memcpy(o->o.trace.ranges, ranges, sizeof(ranges));
	pthread_mutex_unlock(&lock);
	if (ptah_capture_reconfigure(o->o.capture, &o->o.trace, NULL) < 0)
		plugin_note("a filter could not be moved to where its code is");
}

void plugin_output_pause(struct shared_thread *t, bool on)
{
	struct thread_output *o = t->output;

	if ((on ? ptah_capture_pause_here(o->o.capture) : ptah_capture_resume_here(o->o.capture)) <
	    0)
		plugin_note(on ? "a thread could not be paused" : "a thread could not be resumed");
}

/* Beginning and end */

bool plugin_output_begin(struct shared_thread *t, uint64_t time)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct thread_output *o = calloc(1, sizeof(*o));

	pthread_once(&once, init_ranges);
	if (!o)
		return false;
	o->o = (struct trace_output){
	    .m = &t->live.m,
	    .staging = shared_staging(t),
	    .buffer = shared_buffer(t),
	    .buffer_size = plugin.buffer,
	    .trace = plugin.shared->trace,
	    .policy = (uint8_t)plugin.shared->policy,
	    .drain = plugin.shared->policy == PTAH_POLICY_DRAIN ? drain : NULL,
	    .cookie = t,
	    .long_tnt = plugin.shared->long_tnt,
	    .mark_loops = plugin.shared->mark_loops,
	    .pid = t->pid,
	    .time = time,
	};
	pthread_mutex_lock(&lock);
	o->ranges_seen = ranges_known;
	memcpy(o->o.trace.ranges, ranges, sizeof(ranges));
	pthread_mutex_unlock(&lock);
	t->output = o;
	if (trace_output_begin(&o->o))
		return true;
	plugin_note("a thread could not be traced: out of memory, or the processor refused");
	plugin_output_end(t);
	return false;
}

void plugin_output_end(struct shared_thread *t)
{
	struct thread_output *o = t->output;

	if (!o)
		return;
	trace_output_end(&o->o);
	free(o);
	t->output = NULL;
}
