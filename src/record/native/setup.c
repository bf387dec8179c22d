/* SPDX-License-Identifier: MIT */
/*
 * Opens and closes a recording: makes the memory that the recorder shares with the programs, and
 * begins what reads it, and the file.
 */
#include "record/native/check.h"
#include "record/native/native.h"

#include "perfdata/message.h"
#include "record/native/inject.h"
#include "record/simulated/simulated.h"
#include "record/tsc_clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAST_CHUNK (16u << 10)

static void put_filters(struct native_header *h, const struct ptah_record_config *config)
{
	h->filter_count = (uint32_t)config->filter_count;
	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *from = &config->filters[i];
		struct native_filter *to = &h->filters[i];

		to->mode = from->mode;
		to->start = from->start;
		to->size = simulated_filter_size(from);
		if (from->path)
			snprintf(to->path, sizeof(to->path), "%s", from->path);
	}
}

/*
 * What a thread may write until it waits: four chunks at least, which are smaller for that. Each
 * begins with a PSB.
 */
static void size_chunks(struct native_header *h, const struct ptah_record_config *config)
{
	const uint64_t size = config->buffer.size;

	h->chunks = NATIVE_CHUNKS;
	h->chunk_bytes = config->trace.psb_period == PTAH_RECORD_CHOOSE
			     ? NATIVE_CHUNK
			     : (uint32_t)native_psb_bytes(config);
	if (!size || config->buffer.policy != PTAH_RECORD_DRAIN)
		return;
	while (h->chunk_bytes > LEAST_CHUNK && h->chunk_bytes * UINT64_C(4) > size)
		h->chunk_bytes /= 2;
	if (size / h->chunk_bytes < h->chunks)
		h->chunks = (uint32_t)(size / h->chunk_bytes);
	if (h->chunks < 2)
		h->chunks = 2;
}

static int fill_constants(struct recording *r, const struct ptah_record_config *config)
{
	struct native_header *h = &r->constants;

	h->magic = NATIVE_MAGIC;
	h->flags = r->flags;
	h->bytes = r->bytes;
	h->no_retcomp = config->trace.no_retcomp;
	h->tsc = true;
	h->began = (uint64_t)r->began.tv_sec * UINT64_C(1000000000) + (uint64_t)r->began.tv_nsec;
	size_chunks(h, config);
	h->recorder_pid = getpid();
	put_filters(h, config);
	return getrandom(&h->guard, sizeof(h->guard), 0) == sizeof(h->guard) ? 0 : PTAH_E_SYSTEM;
}

/* Addresses for all memories, and the first one. */
static int create_memory(struct recording *r)
{
	void *at = mmap(NULL, NATIVE_MEMORIES * r->bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return PTAH_E_SYSTEM;
	r->streams->memory = at;
	return native_memory_add(r);
}

/* native_pauses.may_trace */
static bool may_trace(void *context, int32_t pid, int32_t tid)
{
	return !native_is_seized(context, pid) && native_is_recorded(context, pid, tid);
}

/* native_pauses.ended */
static void on_end(void *context, int32_t pid, int wait_status)
{
	struct recording *r = context;

	if (pid != r->pid)
		return;
	r->r->status.wait_status = wait_status;
	r->pid = r->r->status.pid = 0;
}

static bool is_snapshot(const struct recording *r)
{
	return r->r->config.buffer.policy == PTAH_RECORD_SNAPSHOT;
}

static void take_config(struct recording *r, const struct ptah_record_config *config)
{
	const struct ptah_record_sink *sink = config->output.sink;
	const char *slash;

	r->flags = (config->backend.truth ? NATIVE_TRUTH : 0) |
		   (config->target.no_inherit ? NATIVE_ALONE : 0) |
		   (config->backend.no_syscalls ? 0 : NATIVE_CALLS);
	if (native_is_attached(r)) {
		native_read_comm(config->target.ids[0], r->own_name);
		r->name = r->own_name;
	} else {
		slash = strrchr(config->target.argv[0], '/');
		r->name = slash ? slash + 1 : config->target.argv[0];
	}
	/* Who names this recorder does not want another one. */
	r->committed =
	    config->backend.kind == PTAH_RECORDER_NATIVE || (sink && sink->take && !sink->restart);
	r->bytes = native_bytes();
	r->buffer = config->buffer.size ? config->buffer.size : SIMULATED_DEFAULT_BUFFER;
}

/* The recorder's own memory. False: there is none. */
static bool make_room(struct recording *r)
{
	if (is_snapshot(r))
		r->joined = malloc(r->buffer + NATIVE_CHUNK);
	r->streams = calloc(1, sizeof(*r->streams));
	return r->streams && (!is_snapshot(r) || r->joined);
}

/* What reads and writes the memories begins. */
static void begin_parts(struct recording *r)
{
	struct native_streams *s = r->streams;
	struct native_pauses *p = &r->pauses;

	/* One by one: both are zeroed, and large, so that nothing of the rest is to get pages. */
	s->flags = r->flags;
	s->chunks = r->constants.chunks;
	s->chunk_bytes = r->constants.chunk_bytes;
	s->take = native_take_bytes;
	s->context = r;
	p->streams = s;
	p->on = r->holds_switches = r->r->config.target.start_paused;
	p->may_trace = may_trace;
	p->ended = on_end;
	p->late = &r->r->late;
	p->context = r;
}

/*
 * The default period and the watcher's share of a processor: docs/benchmarks.md has what they cost.
 */
#define WATCH_NS      100000
#define WATCH_PERCENT 10

static struct watch *start_watch(const struct recording *r)
{
	const uint64_t period = r->r->config.backend.time_resolution;
	const struct watch_config config = {.memory = r->streams->memory,
					    .flags = r->flags,
					    .chunks = r->streams->chunks,
					    .chunk_bytes = r->streams->chunk_bytes,
					    .period_ns = period ? period : WATCH_NS,
					    .percent = WATCH_PERCENT};

	return period == PTAH_RECORD_NO_WATCHER ? NULL : watch_start(&config);
}

void native_follow_switches(struct recording *r, int32_t pid)
{
	const bool alone = r->r->config.target.no_inherit;

	if (r->r->config.backend.time_resolution == PTAH_RECORD_NO_WATCHER)
		return;
	if (!r->switches)
		r->switches = switches_new();
	if (!r->switches || switches_follow_all(r->switches, pid, alone))
		return;
	switches_free(r->switches);
	r->switches = NULL;
}

int native_open(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self = calloc(1, sizeof(*r));
	/* So early, it need not be waited for later. */
	const struct tsc_moment since = tsc_clock_now(CLOCK_MONOTONIC);
	struct perfdata_clock clock = {0};
	int status;

	if (!r)
		return PTAH_E_NOMEM;
	r->r = recorder;
	clock_gettime(CLOCK_REALTIME_COARSE, &r->began); /* as files have it */
	take_config(r, &recorder->config);
	if (!make_room(r))
		return PTAH_E_NOMEM;
	status = fill_constants(r, &recorder->config);
	begin_parts(r);
	if (status >= 0)
		status = create_memory(r);
	if (status < 0) {
		struct ptah_message why = {""};

		status = perfdata_system_message(&why, errno, "shared memory", "create");
		return recorder_fail(recorder, PTAH_RECORD_NO_MEMORY, status, "%s", why.text);
	}
	r->streams->watch = start_watch(r);
	tsc_clock_read(&since, &clock);
	status = simulated_open_writer(recorder, is_snapshot(r), &clock, r->flags & NATIVE_CALLS);
	r->live = status >= 0 && recorder->config.buffer.policy == PTAH_RECORD_DRAIN &&
		  perfdata_writer_is_read(recorder->writer);
	return status;
}

/* A program that was refused has to be ended before another recorder starts it. */
static void kill_refused(struct recording *r)
{
	if (!r->refused || !r->pid)
		return;
	inject_kill(r->pid);
}

static void free_kept(struct recording *r)
{
	if (!r->streams)
		return;
	STREAMS_EACH (r->streams, i) {
		free(r->truths[i].pending);
		native_end_free(&r->kept[i].end);
	}
}

void native_close(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r)
		return;
	kill_refused(r);
	if (r->streams)
		watch_stop(r->streams->watch);
	native_leave(r);
	native_free_seized(r);
	native_memories_free(r);
	switches_free(r->switches);
	processes_free(&r->processes);
	free_kept(r);
	free(r->joined);
	native_truth_free(&r->truth);
	call_samples_free(&r->calls);
	free(r->streams);
	free(r->targets);
	free(r);
}
