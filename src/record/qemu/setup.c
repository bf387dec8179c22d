/* SPDX-License-Identifier: MIT */
/* Prepares a recording under QEMU: creates the memory that is shared with the plugin. */
#include "record/qemu/qemu.h"

#include "perfdata/message.h"
#include "record/shared_memory.h"
#include "record/simulated/simulated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

int qemu_fail_system(struct recording *r, const char *path, const char *what)
{
	struct ptah_message why = {""};
	int status = perfdata_system_message(&why, errno, path, what);

	return recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, status, "%s", why.text);
}

static void put_setup_filter(struct shared_filter *to, const struct ptah_record_filter *filter)
{
	to->mode = filter->mode;
	if (filter->path)
		snprintf(to->path, sizeof(to->path), "%s", filter->path);
	to->start = filter->start;
	to->size = simulated_filter_size(filter);
}

static int init_message_lock(struct shared_header *h)
{
	pthread_mutexattr_t attributes;
	int error = pthread_mutexattr_init(&attributes);

	if (error)
		return error;
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	error = pthread_mutex_init(&h->message_lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return error;
}

/* Absolute paths, for programs with another working directory. */
static void put_paths(const struct recording *r)
{
	struct shared_header *h = r->shared;
	char *qemu = realpath(r->qemu, NULL), *plugin = realpath(r->plugin, NULL);

	snprintf(h->qemu, sizeof(h->qemu), "%s", qemu ? qemu : r->qemu);
	snprintf(h->plugin, sizeof(h->plugin), "%s", plugin ? plugin : r->plugin);
	snprintf(h->memory, sizeof(h->memory), "/proc/%d/fd/%d", getpid(), r->memory);
	free(qemu);
	free(plugin);
}

/* Copies the constants, once they are complete. */
static int keep_constants(struct recording *r)
{
	struct shared_header *h = r->shared;

	if (getrandom(&h->guard, sizeof(h->guard), 0) != sizeof(h->guard))
		return qemu_fail_system(r, "shared memory", "get a random number for");
	memcpy(r->constants, h, offsetof(struct shared_header, recorder));
	r->constants->recorder = h->recorder = getpid();
	r->lifeline = lifeline_begin(&h->alive);
	if (!r->lifeline)
		return qemu_fail_system(r, "shared memory", "make a thread for");
	r->constants->alive = h->alive;
	return 0;
}

void qemu_check_constants(struct recording *r)
{
	if (memcmp(r->shared, r->constants, offsetof(struct shared_header, recorder)) != 0 ||
	    atomic_load(&r->shared->recorder) != r->constants->recorder ||
	    __atomic_load_n(&r->shared->alive, __ATOMIC_RELAXED) != r->constants->alive)
		qemu_damage(r);
}

void qemu_damage(struct recording *r)
{
	if (!r->damaged)
		qemu_add_note(r, "the program wrote to the recorder's memory: what was recorded "
				 "from then on may be false or missing");
	r->damaged = true;
}

int qemu_create_shared(struct recording *r, const struct ptah_record_config *config)
{
	uint64_t bytes = shared_bytes(r->buffer);

	r->memory = shared_memory_create("ptah-record", bytes);
	if (r->memory < 0)
		return qemu_fail_system(r, "shared memory", "create");
	r->shared =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->memory, 0);
	if (r->shared == MAP_FAILED) {
		r->shared = NULL;
		return qemu_fail_system(r, "shared memory", "map");
	}
	errno = init_message_lock(r->shared);
	if (errno)
		return qemu_fail_system(r, "shared memory", "make a lock in");
	r->shared->magic = SHARED_MAGIC;
	r->shared->flags = (config->backend.clock == PTAH_CLOCK_HOST ? SHARED_CLOCK_HOST : 0) |
			   (config->target.no_inherit ? SHARED_NO_INHERIT : 0) |
			   (config->backend.no_syscalls ? SHARED_NO_CALLS : 0);
	r->shared->policy = config->buffer.policy == PTAH_RECORD_SNAPSHOT ? PTAH_POLICY_WRAP
			    : config->buffer.policy == PTAH_RECORD_STOP_WHEN_FULL
				? PTAH_POLICY_STOP
				: PTAH_POLICY_DRAIN;
	r->shared->buffer = r->buffer;
	r->shared->long_tnt = config->backend.long_tnt;
	r->shared->mark_loops = config->backend.mark_loops;
	r->shared->trace = simulated_trace(config);
	r->shared->filter_count = (uint32_t)config->filter_count;
	for (size_t i = 0; i < config->filter_count; i++)
		put_setup_filter(&r->shared->filters[i], &config->filters[i]);
	r->shared->paused = config->target.start_paused;
	put_paths(r);
	qemu_listen(r);
	/* Time begins at 1: a TSC of 0 means "no time known", also to perf. */
	atomic_store(&r->shared->clock, 1);
	return keep_constants(r);
}
