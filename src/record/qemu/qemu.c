/* SPDX-License-Identifier: MIT */
/*
 * Recording a command and its children under QEMU: starts it with the plugin,
 * drains what the plugin puts into shared memory, and finishes every thread's
 * trace however its process ended.
 */
#include <ptah/packet.h>

#include "base/path_hash.h"
#include "perfdata/message.h"
#include "record/command.h"
#include "record/simulated/simulated.h"
#include "record/qemu/launch.h"
#include "record/qemu/processes.h"
#include "record/qemu/shared.h"
#include "record/recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PTAH_PLUGIN_INSTALL_DIR
#define PTAH_PLUGIN_INSTALL_DIR "/usr/local/lib/ptah"
#endif

#define POLL_MS	       2
#define FLUSH_INTERVAL 1   /* seconds */
#define CLAIM_POLLS    100 /* of threads that do not answer */

/* A slot of the shared memory that holds a stream. */
struct slot {
	bool used;
	bool claimed; /* its thread waits for us */
	uint32_t stream;
	int32_t pid, tid;
	uint64_t snapped; /* bytes of its trace that snapshots have taken, or left behind */
};

struct recording {
	struct shared_header *shared;
	uint64_t buffer; /* bytes of each thread's */
	enum ptah_record_buffer policy;
	int memory; /* descriptor */
	struct ptah_recorder *r;
	struct perfdata_writer *writer; /* r's */
	struct command command;
	char *qemu, *plugin;
	struct slot slots[SHARED_THREADS];
	uint32_t streams;
	bool exec; /* threads are finished by an execve: their process goes on */
	struct processes processes;
	int32_t pid;	  /* of the command */
	const char *name; /* its basename */
	uint64_t last_tsc;
	time_t flushed;
	uint8_t *joined; /* of a trace buffer's and a staging area's size */
};

static void keep_status(struct recording *r, int status)
{
	recorder_wrote(r->r, status);
}

static void add_note(struct recording *r, const char *text)
{
	recorder_note(r->r, "%s", text);
}

static int fail_system(struct recording *r, const char *path, const char *what)
{
	struct ptah_message why = {""};
	int status = perfdata_system_message(&why, errno, path, what);

	return recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, status, "%s", why.text);
}

static void finish_thread(struct recording *r, unsigned i);
static void bury(struct recording *r, size_t i);

/* The threads of a process, all or all but one, whose life is over. */
static void finish_process(struct recording *r, int32_t pid)
{
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (r->slots[i].used && r->slots[i].pid == pid)
			finish_thread(r, i);
}

/* Messages */

static const char *name_of(const struct recording *r, int32_t pid)
{
	const struct process *process = processes_find(&r->processes, pid);

	return process ? process->name : r->name;
}

static void on_thread(struct recording *r, const struct shared_message *m)
{
	struct slot *slot;

	if (m->value >= SHARED_THREADS)
		return;
	slot = &r->slots[m->value];
	*slot = (struct slot){.used = true, .stream = r->streams++, .pid = m->pid, .tid = m->tid};
	r->r->status.threads++;
	if (m->tid != m->pid)
		keep_status(r,
			    perfdata_write_fork(r->writer, m->pid, m->tid, m->pid, m->pid, m->tsc));
	if (m->tid != m->pid)
		keep_status(r, perfdata_write_comm(r->writer, m->pid, m->tid, m->tsc, false,
						   name_of(r, m->pid)));
	keep_status(r, perfdata_write_itrace_start(r->writer, m->pid, m->tid, m->tsc));
}

static void add_process(struct recording *r, int32_t pid, int32_t parent, const char *name)
{
	if (!processes_add(&r->processes, pid, parent, name))
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
	r->r->status.processes++;
}

static void on_fork(struct recording *r, const struct shared_message *m)
{
	int32_t parent = (int32_t)m->value, thread = (int32_t)m->address;
	const struct process *before = processes_find(&r->processes, m->pid);
	char name[16];

	if (before) /* the number is used again: it has died meanwhile */
		bury(r, (size_t)(before - r->processes.list));
	snprintf(name, sizeof(name), "%s", name_of(r, parent));
	add_process(r, m->pid, parent, name);
	keep_status(r, perfdata_write_fork(r->writer, m->pid, m->pid, parent, thread, m->tsc));
}

/* Another program has begun: all threads of the one before have ended. */
static void on_exec(struct recording *r, const struct shared_message *m, const char *name)
{
	struct process *process = processes_find(&r->processes, m->pid);

	if (!process)
		return;
	process_set_name(process, name);
	free(process->native);
	process->native = NULL;
	r->exec = true;
	finish_process(r, m->pid);
	r->exec = false;
	keep_status(r, perfdata_write_comm(r->writer, m->pid, m->pid, m->tsc, true, process->name));
}

static void on_native(struct recording *r, int32_t pid, const char *text)
{
	struct process *process = processes_find(&r->processes, pid);

	if (!process)
		return;
	free(process->native);
	process->native = text ? strdup(text) : NULL;
}

static void on_comm(struct recording *r, const struct shared_message *m, const char *name)
{
	struct process *process = processes_find(&r->processes, m->pid);

	if (process && m->pid == m->tid)
		process_set_name(process, name);
	keep_status(r, perfdata_write_comm(r->writer, m->pid, m->tid, m->tsc, false, name));
}

static void on_message(struct recording *r, const struct shared_message *m, const char *payload)
{
	if (m->tsc > r->last_tsc)
		r->last_tsc = m->tsc;
	switch (m->type) {
	case MESSAGE_THREAD:
		on_thread(r, m);
		break;
	case MESSAGE_COMM:
		on_comm(r, m, payload);
		break;
	case MESSAGE_MAP:
		keep_status(r, perfdata_write_mmap2(r->writer, m->pid, m->pid, m->tsc, m->address,
						    m->size, m->value, PROT_READ | PROT_EXEC,
						    payload));
		break;
	case MESSAGE_CODE:
		keep_status(
		    r, perfdata_add_code(r->writer, m->pid, m->tsc, m->address, payload, m->bytes));
		break;
	case MESSAGE_FORK:
		on_fork(r, m);
		break;
	case MESSAGE_EXEC:
		on_exec(r, m, payload);
		break;
	case MESSAGE_NATIVE:
		on_native(r, m->pid, payload);
		break;
	case MESSAGE_NATIVE_FAILED:
		on_native(r, m->pid, NULL);
		break;
	case MESSAGE_NOTE:
		add_note(r, payload);
		break;
	default:
		break;
	}
}

static void take(struct recording *r, uint64_t position, void *bytes, size_t n)
{
	const uint8_t *ring = shared_messages(r->shared);
	size_t at = position % SHARED_MESSAGES;
	size_t first = n < SHARED_MESSAGES - at ? n : SHARED_MESSAGES - at;

	memcpy(bytes, ring + at, first);
	memcpy((uint8_t *)bytes + first, ring, n - first);
}

static void drain_messages(struct recording *r)
{
	uint64_t head = atomic_load_explicit(&r->shared->message_head, memory_order_acquire);
	uint64_t tail = atomic_load_explicit(&r->shared->message_tail, memory_order_relaxed);
	char payload[SHARED_MESSAGE_MAX + 1];

	while (tail < head) {
		struct shared_message m;

		take(r, tail, &m, sizeof(m));
		/* The program can write to this memory too: believe nothing. */
		if (head - tail > SHARED_MESSAGES || m.bytes > SHARED_MESSAGE_MAX ||
		    head - tail < sizeof(m) + m.bytes) {
			recorder_fail(r->r, PTAH_RECORD_BROKEN, PTAH_E_BAD_FILE,
				      "the program damaged the recorder's memory");
			tail = head;
			break;
		}
		take(r, tail + sizeof(m), payload, m.bytes);
		payload[m.bytes] = '\0';
		on_message(r, &m, payload);
		tail += (sizeof(m) + m.bytes + 7) & ~UINT64_C(7);
	}
	atomic_store_explicit(&r->shared->message_tail, tail, memory_order_release);
}

/* Traces */

static void write_trace(struct recording *r, const struct slot *slot, const uint8_t *bytes,
			size_t n)
{
	if (!n)
		return;
	keep_status(r, perfdata_write_auxtrace(r->writer, slot->stream, slot->tid, bytes, n));
	r->r->status.trace_bytes += n;
}

static struct shared_thread *slot_thread(const struct recording *r, unsigned i)
{
	return shared_slot(r->shared, r->buffer, i);
}

/* Copies the bytes [from, to) of a thread's trace, at most a buffer of them. */
static void copy_trace(const struct recording *r, struct shared_thread *t, uint64_t from,
		       uint64_t to, uint8_t *bytes)
{
	const uint8_t *buffer = shared_buffer(t);
	size_t at = from % r->buffer, n = to - from;
	size_t first = n < r->buffer - at ? n : r->buffer - at;

	memcpy(bytes, buffer + at, first);
	memcpy(bytes + first, buffer, n - first);
}

/* While the thread runs: what it has published, which ends with a whole packet. */
static void drain_published(struct recording *r, unsigned i)
{
	struct shared_thread *t = slot_thread(r, i);
	uint64_t position = atomic_load_explicit(&t->published, memory_order_acquire);
	uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);

	if (position <= tail || position - tail > r->buffer)
		return;
	copy_trace(r, t, tail, position, r->joined);
	write_trace(r, &r->slots[i], r->joined, position - tail);
	atomic_store_explicit(&t->tail, position, memory_order_release);
}

/* Bytes of whole packets from `at` on, a PSB; a buffer that was full may have cut the last. */
static size_t whole_packets(const uint8_t *at, size_t n)
{
	struct ptah_packet packet;
	size_t done = 0;
	int size;

	while ((size = ptah_packet_decode(&packet, at + done, n - done, 0)) > 0)
		done += (size_t)size;
	return done;
}

/*
 * What is left of a thread's trace, or what is there when a snapshot is taken:
 * in the buffer, then in the processor's staging area, then the packets of its
 * end. Believes nothing of what the program could have written there.
 */
static void write_rest(struct recording *r, struct shared_thread *t, struct slot *slot,
		       struct shared_state *s)
{
	uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed), staged;
	bool stopped = s->m.status & PTAH_RTIT_STATUS_STOPPED; /* what is staged went nowhere */
	uint64_t position = s->m.bytes;
	size_t n = 0, skipped = 0;
	uint64_t whole;
	uint8_t *end;

	if (r->policy == PTAH_RECORD_SNAPSHOT && position > r->buffer)
		tail = position - r->buffer;
	if (position < tail || position - tail > r->buffer) {
		add_note(r, "the program damaged the recorder's memory: the end of a thread's "
			    "trace is missing");
		return;
	}
	copy_trace(r, t, tail, position, r->joined);
	n = position - tail;
	staged = shared_staged(&s->m);
	if (!stopped && staged <= SIMULATED_STAGING) {
		memcpy(r->joined + n, shared_staging(t), staged);
		n += staged;
	}
	end = r->joined + n;
	whole = tail + n;
	s->m.g.out = end;
	if (s->m.packet_en && !stopped)
		generator_async_disable(&s->m.g, s->next_ip);
	n += (size_t)(s->m.g.out - end);
	if (r->policy == PTAH_RECORD_SNAPSHOT && (tail || slot->snapped)) {
		/* Begins inside a packet, or behind the last snapshot. */
		const uint64_t from = slot->snapped > tail ? slot->snapped : tail;
		const uint8_t *psb =
		    from < whole ? ptah_packet_find_psb(r->joined + (from - tail), end) : NULL;

		skipped = psb ? (size_t)(psb - r->joined) : n;
		if (slot->snapped && psb)
			keep_status(r, perfdata_skip_auxtrace(r->writer, slot->stream,
							      tail + skipped - slot->snapped + 8));
	}
	slot->snapped = whole;
	if (stopped)
		n = skipped + whole_packets(r->joined + skipped, n - skipped);
	write_trace(r, slot, r->joined + skipped, n - skipped);
}

/* The thread's time at its end, as the plugin's thread_clock() has it. */
static uint64_t end_time(const struct recording *r, const struct shared_state *s)
{
	struct timespec now;

	if (!(r->shared->flags & SHARED_CLOCK_HOST))
		return s->instructions + s->lift;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What the ground truth cannot be held against: a trace without its beginning or its end. */
static bool is_part(struct recording *r, const struct shared_state *s)
{
	char text[160];

	if (r->policy == PTAH_RECORD_SNAPSHOT && s->m.bytes > r->buffer) {
		snprintf(text, sizeof(text),
			 "snapshot: the last %" PRIu64 " bytes of %" PRIu64
			 " bytes of trace were kept",
			 r->buffer, s->m.bytes);
	} else if (r->policy == PTAH_RECORD_STOP_WHEN_FULL &&
		   s->m.status & PTAH_RTIT_STATUS_STOPPED && s->m.bytes >= r->buffer) {
		snprintf(text, sizeof(text),
			 "tracing of a thread ended when its buffer of %" PRIu64 " bytes was full",
			 r->buffer);
	} else {
		return false;
	}
	add_note(r, text);
	return true;
}

static void write_exit(struct recording *r, const struct slot *slot)
{
	const struct process *process = processes_find(&r->processes, slot->pid);
	int32_t parent = process ? process->parent : slot->pid;

	keep_status(
	    r, perfdata_write_exit(r->writer, slot->pid, slot->tid, parent, parent, r->last_tsc));
}

/* Ends a thread's trace from the state it left behind. */
static void finish_thread(struct recording *r, unsigned i)
{
	struct shared_thread *t = slot_thread(r, i);
	struct slot *slot = &r->slots[i];
	bool part = slot->snapped; /* snapshots have taken of it */
	bool torn = t->busy && !slot->claimed;
	struct shared_state s = torn ? t->checkpoint : t->live;
	struct ptah_truth truth = {
	    .instructions = s.instructions,
	    .conditional = s.counts[PTAH_INSN_COND],
	    .indirect = s.counts[PTAH_INSN_JUMP_IND] + s.counts[PTAH_INSN_CALL_IND],
	    .returns = s.counts[PTAH_INSN_RETURN],
	};
	struct path_hash path = {s.hash, s.run_start, s.next_ip};

	write_rest(r, t, slot, &s);
	if (torn)
		add_note(r,
			 "a thread was killed while it wrote its trace: its last moments are not "
			 "recorded");
	if (end_time(r, &s) > r->last_tsc)
		r->last_tsc = end_time(r, &s);
	truth.path_hash = path_hash_value(&path);
	r->r->status.instructions += s.instructions;
	if (!is_part(r, &s) && !part)
		keep_status(r, perfdata_add_truth(r->writer, slot->stream, slot->pid, slot->tid,
						  &truth, s.lost));
	if (!r->exec || slot->tid != slot->pid)
		write_exit(r, slot);
	r->slots[i].used = false;
	t->pid = 0;
	atomic_store(&t->state, THREAD_FREE);
}

/* A process has died, and all that it told has been taken. */
static void bury(struct recording *r, size_t i)
{
	const struct process *process = &r->processes.list[i];

	finish_process(r, process->pid);
	for (unsigned k = 0; k < SHARED_THREADS; k++) { /* one that it was about to begin */
		struct shared_thread *t = slot_thread(r, k);

		if (!r->slots[k].used && t->pid == process->pid)
			atomic_store(&t->state, THREAD_FREE);
	}
	if (process->native)
		recorder_note(r->r, "process %d became %s", process->pid, process->native);
	processes_remove(&r->processes, i);
}

/* Those that were dead before the last messages were taken. */
static void bury_dead(struct recording *r)
{
	for (size_t i = r->processes.count; i-- > 0;)
		if (r->processes.list[i].dead)
			bury(r, i);
}

/* Takes what there is, and waits up to timeout_ms for a process to end. */
static void drain(struct recording *r, int timeout_ms)
{
	time_t now = time(NULL);
	bool ended[SHARED_THREADS];

	/* In this order: all messages are there before a thread or a process can end. */
	processes_wait(&r->processes, timeout_ms);
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		ended[i] = atomic_load(&slot_thread(r, i)->state) == THREAD_ENDED;
	drain_messages(r);
	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		if (!r->slots[i].used)
			continue;
		if (ended[i])
			finish_thread(r, i);
		else
			drain_published(r, i);
	}
	bury_dead(r);
	if (now - r->flushed >= FLUSH_INTERVAL) {
		keep_status(r, perfdata_writer_flush(r->writer));
		r->flushed = now;
	}
}

/* The command */

static char *folder_of_this(void)
{
	Dl_info info;
	char *path, *slash;

	if (!dladdr((void *)(uintptr_t)ptah_recorder_new, &info) || !info.dli_fname)
		return NULL;
	path = realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", NULL);
	slash = path ? strrchr(path, '/') : NULL;
	if (slash)
		*slash = '\0';
	return path;
}

/* The plugin lies beside the library or the command, or where it was installed. */
static char *find_plugin(void)
{
	static const char *const places[] = {"%s/ptah-qemu.so", "%s/ptah/ptah-qemu.so",
					     "%s/../lib/ptah-qemu.so",
					     "%s/../lib/ptah/ptah-qemu.so"};
	char *folder = folder_of_this(), *path = NULL;

	for (size_t i = 0; folder && i < ARRAY_SIZE(places) + 1; i++) {
		int n;

		if (i < ARRAY_SIZE(places)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			n = asprintf(&path, places[i], folder);
#pragma GCC diagnostic pop
		} else {
			n = asprintf(&path, "%s/ptah-qemu.so", PTAH_PLUGIN_INSTALL_DIR);
		}
		if (n < 0) {
			path = NULL;
			break;
		}
		if (access(path, R_OK) == 0)
			break;
		free(path);
		path = NULL;
	}
	free(folder);
	return path;
}

static void put_filter(struct shared_filter *to, const struct ptah_record_filter *filter)
{
	to->mode = filter->action == PTAH_RECORD_STOP ? PTAH_RTIT_ADDR_STOP : PTAH_RTIT_ADDR_FILTER;
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

/* Where programs find us whose working directory is another. */
static void put_paths(const struct recording *r)
{
	struct shared_header *h = r->shared;
	char *qemu = realpath(r->qemu, NULL), *plugin = realpath(r->plugin, NULL);

	snprintf(h->qemu, sizeof(h->qemu), "%s", qemu ? qemu : r->qemu);
	snprintf(h->plugin, sizeof(h->plugin), "%s", plugin ? plugin : r->plugin);
	snprintf(h->memory, sizeof(h->memory), "/proc/%d/fd/%d", getpid(), r->memory);
	h->recorder = getpid();
	h->recorder_start = shared_process_start(getpid());
	free(qemu);
	free(plugin);
}

static int create_shared(struct recording *r, const struct ptah_record_config *config)
{
	uint64_t bytes = shared_bytes(r->buffer);

	r->memory = memfd_create("ptah-record", MFD_CLOEXEC);
	if (r->memory < 0 || ftruncate(r->memory, (off_t)bytes))
		return fail_system(r, "shared memory", "create");
	r->shared =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->memory, 0);
	if (r->shared == MAP_FAILED) {
		r->shared = NULL;
		return fail_system(r, "shared memory", "map");
	}
	errno = init_message_lock(r->shared);
	if (errno)
		return fail_system(r, "shared memory", "make a lock in");
	r->shared->magic = SHARED_MAGIC;
	r->shared->flags = (config->clock == PTAH_CLOCK_HOST ? SHARED_CLOCK_HOST : 0) |
			   (config->no_inherit ? SHARED_NO_INHERIT : 0);
	r->shared->policy = config->buffer == PTAH_RECORD_SNAPSHOT	   ? PTAH_POLICY_WRAP
			    : config->buffer == PTAH_RECORD_STOP_WHEN_FULL ? PTAH_POLICY_STOP
									   : PTAH_POLICY_DRAIN;
	r->shared->buffer = r->buffer;
	r->shared->long_tnt = config->long_tnt;
	r->shared->trace = simulated_trace(config);
	r->shared->filter_count = (uint32_t)config->filter_count;
	for (size_t i = 0; i < config->filter_count; i++)
		put_filter(&r->shared->filters[i], &config->filters[i]);
	r->shared->paused = config->start_paused;
	put_paths(r);
	/* TSC 0 reads as "no time known", to perf too. */
	atomic_store(&r->shared->clock, 1);
	return 0;
}

/* In the child: never returns. */
static void run(const struct recording *r)
{
	char *file = launch_quote(r->plugin), *option = NULL, **argv, **environment;

	if (!file || asprintf(&option, "file=%s,fd=%d", file, r->memory) < 0)
		_exit(127);
	argv = launch_arguments(r->qemu, option, &r->command, environ,
				r->r->config.clock == PTAH_CLOCK_INSN);
	environment = launch_environment(environ);
	if (!argv || !environment || fcntl(r->memory, F_SETFD, 0))
		_exit(127);
	execve(r->qemu, argv, environment);
	_exit(127);
}

static int start(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	r->pid = fork();
	if (r->pid == 0)
		run(r);
	if (r->pid < 0)
		return fail_system(r, r->qemu, "start");
	recorder->status.pid = r->pid;
	add_process(r, r->pid, getpid(), r->name);
	keep_status(r, perfdata_write_comm(r->writer, r->pid, r->pid, 0, true, r->name));
	return recorder->error;
}

/* A thread that runs is to look what is wanted of it, at its next block. */
static void ask(struct shared_thread *t)
{
	__atomic_store_n(&t->live.m.limit, NULL, __ATOMIC_RELAXED);
}

/* Is the thread's state ours? Who is parked is claimed, who runs is asked. */
static bool claim(struct shared_thread *t)
{
	uint32_t parked = PARK_PARKED;

	if (atomic_compare_exchange_strong(&t->park, &parked, PARK_CLAIMED))
		return true;
	if (parked == PARK_RUNS)
		ask(t);
	return false;
}

/* Lets all threads come to an end, those that were killed or stopped not for ever. */
static void end_threads(struct recording *r)
{
	bool left = true;

	atomic_store(&r->shared->stop, true);
	for (unsigned n = 0; left && n < CLAIM_POLLS; n++) {
		left = false;
		for (unsigned i = 0; i < SHARED_THREADS; i++) {
			if (!r->slots[i].used || r->slots[i].claimed)
				continue;
			r->slots[i].claimed = claim(slot_thread(r, i));
			left = left || !r->slots[i].claimed;
		}
		drain(r, left ? POLL_MS : 0);
	}
}

/* The trace of what still runs ends here. */
static void end_the_living(struct recording *r)
{
	if (r->processes.count)
		end_threads(r);
	for (size_t i = 0; i < r->processes.count; i++) {
		const struct process *process = &r->processes.list[i];

		if (process->pid != r->pid)
			recorder_note(r->r,
				      "process %d (%s) still ran when the recording ended: what "
				      "followed was not recorded",
				      process->pid, process->name);
	}
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (r->slots[i].used)
			finish_thread(r, i);
}

/* The command has ended, or has been given up: the rest of all threads. */
static void take_rest(struct recording *r)
{
	drain(r, 0);
	drain(r, 0); /* what died meanwhile is known to be dead now */
	end_the_living(r);
	r->shared->recorder = 0;
	if (!r->streams && r->r->error >= 0)
		recorder_fail(r->r, PTAH_RECORD_NO_EMULATOR, PTAH_E_EMPTY,
			      "nothing was recorded: %s did not start the program with the "
			      "recorder's plugin (its own message stands above)",
			      r->qemu);
}

/* A failed writer lets the command run on, untraced: the plugin stops waiting for us. */
static int give_up(struct recording *r)
{
	r->shared->recorder = 0;
	return r->r->error;
}

static int poll_command(struct ptah_recorder *recorder, int timeout_ms)
{
	struct recording *r = recorder->self;
	int waited = 0;

	do {
		pid_t pid = waitpid(r->pid, &recorder->status.wait_status, WNOHANG);

		if (pid == r->pid || (pid < 0 && errno != EINTR)) {
			r->pid = recorder->status.pid = 0;
			take_rest(r);
			return recorder->error;
		}
		drain(r, POLL_MS);
		if (recorder->error < 0)
			return give_up(r);
		waited += POLL_MS;
	} while (waited < timeout_ms);
	return 1;
}

static int stop(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r->pid)
		return 0;
	take_rest(r);
	return recorder->error;
}

static bool has_paused(const struct recording *r, unsigned i, bool on)
{
	struct shared_thread *t = slot_thread(r, i);

	/* Who is in a system call looks before it traces anything. */
	return !r->slots[i].used || t->paused == on || atomic_load(&t->state) != THREAD_ACTIVE ||
	       atomic_load(&t->park) == PARK_PARKED;
}

static int set_paused(struct ptah_recorder *recorder, bool on)
{
	struct recording *r = recorder->self;
	bool all = false;

	atomic_store(&r->shared->paused, on);
	for (unsigned n = 0; !all && n < CLAIM_POLLS && r->pid; n++) {
		all = true;
		for (unsigned i = 0; i < SHARED_THREADS; i++) {
			if (has_paused(r, i, on))
				continue;
			all = false;
			ask(slot_thread(r, i));
		}
		drain(r, all ? 0 : POLL_MS);
	}
	return recorder->error;
}

static void snap(struct recording *r, unsigned i)
{
	struct shared_thread *t = slot_thread(r, i);
	struct shared_state s = t->live;

	write_rest(r, t, &r->slots[i], &s);
}

/* All threads stand still one after the other, those that were killed or stopped not at all. */
static int take_snapshot(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	bool done[SHARED_THREADS] = {false}, left = true;

	atomic_store(&r->shared->hold, true);
	for (unsigned n = 0; left && n < CLAIM_POLLS; n++) {
		left = false;
		for (unsigned i = 0; i < SHARED_THREADS; i++) {
			if (!r->slots[i].used || done[i])
				continue;
			done[i] = claim(slot_thread(r, i));
			left = left || !done[i];
			if (!done[i])
				continue;
			snap(r, i);
			atomic_store(&slot_thread(r, i)->park, PARK_PARKED);
		}
		if (left)
			drain(r, POLL_MS);
	}
	atomic_store(&r->shared->hold, false);
	if (left)
		add_note(r, "a snapshot has nothing of a thread that did not run on");
	return recorder->error;
}

/* Opening and closing */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int open_recorder(struct ptah_recorder *recorder)
{
	const struct ptah_record_config *config = &recorder->config;
	struct recording *r = recorder->self = calloc(1, sizeof(*r));
	struct ptah_message why = {""};
	int status;

	if (!r)
		return PTAH_E_NOMEM;
	r->r = recorder;
	r->memory = -1;
	r->policy = config->buffer;
	r->buffer = config->buffer_size ? config->buffer_size : SIMULATED_DEFAULT_BUFFER;
	r->joined = malloc(r->buffer + SIMULATED_STAGING + 2 * GENERATOR_BURST);
	r->qemu = command_find(config->qemu ? config->qemu : "qemu-x86_64");
	r->plugin = config->plugin ? strdup(config->plugin) : find_plugin();
	if (!r->joined || !r->qemu || !r->plugin)
		return PTAH_E_NOMEM;
	status = command_resolve(config->argv, &r->command, &why);
	if (status < 0)
		return recorder_fail(recorder, PTAH_RECORD_NO_TARGET, status, "%s", why.text);
	r->name = base_name(r->command.argv[0]);
	status = create_shared(r, config);
	if (status >= 0)
		status = simulated_open_writer(recorder, r->policy == PTAH_RECORD_SNAPSHOT);
	r->writer = recorder->writer;
	return status;
}

static void close_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r)
		return;
	if (r->shared)
		munmap(r->shared, shared_bytes(r->buffer));
	if (r->memory >= 0)
		close(r->memory);
	command_free(&r->command);
	processes_free(&r->processes);
	free(r->joined);
	free(r->qemu);
	free(r->plugin);
	free(r);
}

/* What this recorder cannot do, and nobody may expect of it silently. */
static enum ptah_record_problem check_wishes(const struct ptah_record_config *config,
					     struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

	if (config->target != PTAH_RECORD_COMMAND)
		return recorder_refuse(why, no, "the recorder qemu records commands alone");
	if (config->kernel || config->kcore)
		return recorder_refuse(why, no,
				       "the kernel cannot be traced: the program runs under user "
				       "mode emulation");
	return simulated_check(config, why);
}

static enum ptah_record_problem check(const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	enum ptah_record_problem problem = check_wishes(config, why);
	struct command command = {0};
	char *qemu, *plugin;
	int status;

	if (problem)
		return problem;
	for (size_t i = 0; i < config->filter_count; i++)
		if (config->filters[i].path && strlen(config->filters[i].path) >= SHARED_PATH)
			return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					       "the path of filter %zu is too long", i);
	status = command_resolve(config->argv, &command, why);
	command_free(&command);
	if (status < 0)
		return PTAH_RECORD_NO_TARGET;
	qemu = command_find(config->qemu ? config->qemu : "qemu-x86_64");
	plugin = config->plugin ? strdup(config->plugin) : find_plugin();
	if (!qemu || access(qemu, X_OK))
		problem = recorder_refuse(why, PTAH_RECORD_NO_EMULATOR,
					  "%s not found: install it (Debian: apt-get install "
					  "qemu-user)",
					  config->qemu ? config->qemu : "qemu-x86_64");
	else if (!plugin || access(plugin, R_OK))
		problem = recorder_refuse(why, PTAH_RECORD_NO_EMULATOR,
					  "the recorder's plugin %s is not where it should "
					  "be: install Ptah, or name it with --plugin",
					  config->plugin ? config->plugin : "ptah-qemu.so");
	free(qemu);
	free(plugin);
	return problem;
}

const struct recorder_backend recorder_qemu = {
    .kind = PTAH_RECORDER_QEMU,
    .check = check,
    .open = open_recorder,
    .start = start,
    .poll = poll_command,
    .pause = set_paused,
    .snapshot = take_snapshot,
    .stop = stop,
    .close = close_recorder,
};
