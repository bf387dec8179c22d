/* SPDX-License-Identifier: MIT */
/*
 * The recorder qemu: runs a command and its children under QEMU with the plugin, takes what the
 * plugin puts into shared memory, and finishes each thread's trace, whichever way its process ends.
 */
#include "record/qemu/qemu.h"

#include "support/monotonic.h"
#include "record/plugin_path.h"
#include "record/qemu/launch.h"
#include "record/simulated/simulated.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS	    2
#define LOOK_NS	    (INT64_C(10) * 1000000) /* between two looks at trace that is not published */
#define LIVE_ROUND  (UINT64_C(128) << 10)   /* bytes of a round where they are decoded meanwhile */
#define CLAIM_POLLS 5000		    /* polls of threads that do not respond */
#define STANDS	    50			    /* so many of them is one in which none of these runs */

#define SMALLEST_BUFFER (UINT64_C(64) << 10)

/*
 * A thread without a slot in use has not been reported yet, or its report was lost when the program
 * damaged the memory. Then it would wait for ever.
 */
static void take_qemu_trace(struct recording *r, unsigned i, bool ended)
{
	if (r->damaged && (!r->slots[i].used || r->slots[i].damaged))
		qemu_leave_alone(r, i);
	if (!r->slots[i].used)
		return;
	if (ended)
		qemu_finish_thread(r, i);
	else if (!r->slots[i].damaged)
		qemu_drain_published(r, i);
}

/* What has run so far, for the caller's progress: the threads that run count, too. */
static void count_progress(struct recording *r)
{
	uint64_t n = r->instructions;

	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (r->slots[i].used && !r->damaged)
			n += __atomic_load_n(&qemu_slot_thread(r, i)->live.instructions,
					     __ATOMIC_RELAXED);
	r->r->status.instructions = n;
}

static void take_early_qemu_trace(struct recording *r)
{
	const int64_t now = monotonic_ns();

	if (now - r->looked < LOOK_NS)
		return;
	r->looked = now;
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		qemu_take_early(r, i);
}

/*
 * Takes published trace. Where it is decoded meanwhile, a round takes little, so that it does not
 * last long; each thread has its turn.
 */
static void take_traces(struct recording *r, const bool ended[SHARED_THREADS])
{
	const uint64_t before = r->r->status.trace_bytes;
	const unsigned first = r->first;

	r->more = false;
	for (unsigned k = 0; k < SHARED_THREADS && !r->more; k++) {
		const unsigned i = (first + k) % SHARED_THREADS;

		take_qemu_trace(r, i, ended[i]);
		r->more = r->live && r->r->status.trace_bytes - before >= LIVE_ROUND;
		r->first = r->more ? (i + 1) % SHARED_THREADS : first;
	}
	if (r->live)
		take_early_qemu_trace(r);
}

/* Waits up to timeout_ms for a process to end, and takes all messages and all published trace. */
static void drain(struct recording *r, int timeout_ms)
{
	bool ended[SHARED_THREADS];

	/*
	 * The ends are read first: all messages of a thread or process were sent before it ended.
	 */
	processes_wait(&r->processes, r->more ? 0 : timeout_ms);
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		ended[i] = atomic_load(&qemu_slot_thread(r, i)->state) == THREAD_ENDED;
	qemu_check_constants(r);
	qemu_drain_messages(r);
	qemu_hand_over(r);
	take_traces(r, ended);
	qemu_bury_dead(r);
	count_progress(r);
	recorder_flush(r->r);
}

/* The command */

/* In the child: never returns. */
static void exec_qemu(const struct recording *r)
{
	char *file = launch_quote(r->plugin), *option = NULL, **argv, **environment;

	if (!file || asprintf(&option, "file=%s,fd=%d", file, r->memory) < 0)
		_exit(127);
	argv = launch_arguments(r->qemu, option, &r->command, environ,
				r->r->config.backend.clock != PTAH_CLOCK_HOST);
	environment = launch_environment(environ);
	if (!argv || !environment || fcntl(r->memory, F_SETFD, 0))
		_exit(127);
	execve(r->qemu, argv, environment);
	_exit(127);
}

static int start_qemu(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	r->pid = fork();
	if (r->pid == 0)
		exec_qemu(r);
	if (r->pid < 0)
		return qemu_fail_system(r, r->qemu, "start");
	recorder->status.pid = r->pid;
	qemu_add_process(r, r->pid, getpid(), r->name);
	qemu_keep_status(r, perfdata_write_comm(r->writer, r->pid, r->pid, 0, true, r->name));
	return recorder->error;
}

/* Makes a running thread look, at its next block, what the recorder wants of it. */
static void ask(struct shared_thread *t)
{
	__atomic_store_n(&t->live.m.limit, NULL, __ATOMIC_RELAXED);
}

/*
 * Tries to get hold of the thread's state: claims a parked thread, and asks a running one to park.
 */
static bool claim(struct shared_thread *t)
{
	uint32_t parked = PARK_PARKED;

	if (atomic_compare_exchange_strong(&t->park, &parked, PARK_CLAIMED))
		return true;
	if (parked == PARK_RUNS)
		ask(t);
	return false;
}

/*
 * What a poll counts in which a thread did not respond. On a busy machine a thread that runs may
 * get no processor for a second; one that was stopped or killed does not respond however long that
 * is.
 */
static unsigned patience(const struct recording *r, unsigned slot)
{
	return process_thread_runs(r->slots[slot].tid) ? 1 : STANDS;
}

/*
 * Lets all threads end their traces. Threads that do not respond, because they were killed or
 * stopped, are given up after a while.
 */
static void end_threads(struct recording *r)
{
	unsigned n = 0, spent = 1;

	atomic_store(&r->shared->stop, true);
	for (bool left = true; left && n < CLAIM_POLLS && !recorder_is_late(r->r); n += spent) {
		left = false;
		spent = STANDS;
		for (unsigned i = 0; i < SHARED_THREADS; i++) {
			if (!r->slots[i].used || r->slots[i].claimed)
				continue;
			r->slots[i].claimed = claim(qemu_slot_thread(r, i));
			if (r->slots[i].claimed)
				continue;
			left = true;
			spent = spent > 1 ? patience(r, i) : 1;
		}
		drain(r, left ? POLL_MS : 0);
	}
}

/* Ends the traces of everything that still runs. */
static void end_the_living(struct recording *r)
{
	if (r->processes.count)
		end_threads(r);
	for (size_t i = 0; i < r->processes.count; i++) {
		const struct process *process = &r->processes.list[i];

		if (process->native)
			recorder_note(r->r, "process %d became %s", process->pid, process->native);
		else if (process->pid != r->pid)
			recorder_note(r->r,
				      "process %d (%s) still ran when the recording ended: what "
				      "followed was not recorded",
				      process->pid, process->name);
	}
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (r->slots[i].used)
			qemu_finish_thread(r, i);
	for (size_t i = 0; i < r->processes.count; i++)
		process_tell_end(&r->processes.list[i], r->r);
}

/* The plugin stops waiting for the recorder, which takes nothing any more. */
static void leave(struct recording *r)
{
	lifeline_cut(r->lifeline);
	r->constants->alive = 0;
}

/* Takes the rest of all threads: the command has ended or the recording is stopped. */
static void take_last_qemu_trace(struct recording *r)
{
	drain(r, 0);
	drain(r, 0); /* again, for processes that died during the first */
	end_the_living(r);
	call_samples_write_kept(&r->calls, r->r);
	leave(r);
	if (!r->streams && r->r->error >= 0)
		recorder_fail(r->r, PTAH_RECORD_NO_EMULATOR, PTAH_E_EMPTY,
			      "nothing was recorded: %s did not start the program with the "
			      "recorder's plugin (its own message stands above)",
			      r->qemu);
}

/* After a failure of the writer the command runs on untraced. */
static int give_up(struct recording *r)
{
	leave(r);
	return r->r->error;
}

static int poll_command(struct ptah_recorder *recorder, int timeout_ms)
{
	struct recording *r = recorder->self;
	const int64_t end = monotonic_ns() + timeout_ms * INT64_C(1000000);

	do {
		pid_t pid = waitpid(r->pid, &recorder->status.wait_status, WNOHANG);

		if (pid == r->pid || (pid < 0 && errno != EINTR)) {
			r->pid = recorder->status.pid = 0;
			take_last_qemu_trace(r);
			return recorder->error;
		}
		drain(r, POLL_MS);
		if (recorder->error < 0)
			return give_up(r);
		if (recorder_is_full(recorder))
			return 1; /* ptah_recorder_poll() ends the recording */
	} while (monotonic_ns() < end);
	return 1;
}

static int stop_qemu(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r->pid)
		return 0;
	take_last_qemu_trace(r);
	return recorder->error;
}

static bool has_paused(const struct recording *r, unsigned i, bool on)
{
	struct shared_thread *t = qemu_slot_thread(r, i);

	/* A thread in a system call looks at `paused` before it traces anything. */
	return !r->slots[i].used || t->paused == on || atomic_load(&t->state) != THREAD_ACTIVE ||
	       atomic_load(&t->park) == PARK_PARKED;
}

static int set_paused(struct ptah_recorder *recorder, bool on)
{
	struct recording *r = recorder->self;
	unsigned n = 0, spent = 1;

	atomic_store(&r->shared->paused, on);
	for (bool all = false; !all && n < CLAIM_POLLS && r->pid && !recorder_is_late(recorder);
	     n += spent) {
		all = true;
		spent = STANDS;
		for (unsigned i = 0; i < SHARED_THREADS; i++) {
			if (has_paused(r, i, on))
				continue;
			all = false;
			spent = spent > 1 ? patience(r, i) : 1;
			ask(qemu_slot_thread(r, i));
		}
		drain(r, all ? 0 : POLL_MS);
	}
	return recorder->error;
}

static void snap(struct recording *r, unsigned i)
{
	struct shared_state s;

	if (!qemu_take_state(r, i, false, &s))
		qemu_damage(r);
	qemu_write_rest(r, qemu_slot_thread(r, i), &r->slots[i], &s);
}

/*
 * Claims the threads one after the other and takes their trace. Threads that do not respond are
 * left out.
 */
static int take_qemu_snapshot(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	bool done[SHARED_THREADS] = {false}, left = true;
	unsigned n = 0, spent = 1;

	atomic_store(&r->shared->hold, true);
	for (; left && n < CLAIM_POLLS && !recorder_is_late(recorder); n += spent) {
		left = false;
		spent = STANDS;
		for (unsigned i = 0; i < SHARED_THREADS; i++) {
			if (!r->slots[i].used || done[i])
				continue;
			done[i] = claim(qemu_slot_thread(r, i));
			left = left || !done[i];
			if (!done[i]) {
				spent = spent > 1 ? patience(r, i) : 1;
				continue;
			}
			snap(r, i);
			atomic_store(&qemu_slot_thread(r, i)->park, PARK_PARKED);
		}
		if (left)
			drain(r, POLL_MS);
	}
	atomic_store(&r->shared->hold, false);
	call_samples_write_kept(&r->calls, recorder);
	if (left)
		qemu_add_note(r, "a snapshot has nothing of a thread that did not run on");
	return recorder->error;
}

/* Opening and closing */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The memory that is shared with the plugin has a buffer for each thread, and a limit of the size
 * of files (ulimit -f) counts for it. */
static uint64_t fitting_buffer(void)
{
	uint64_t buffer = SIMULATED_DEFAULT_BUFFER;
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit))
		return buffer;
	while (buffer > SMALLEST_BUFFER && shared_bytes(buffer) > limit.rlim_cur)
		buffer /= 2;
	return buffer;
}

static int open_qemu_recorder(struct ptah_recorder *recorder)
{
	const struct ptah_record_config *config = &recorder->config;
	struct recording *r = recorder->self = calloc(1, sizeof(*r));
	struct ptah_message why = {""};
	int status;

	if (!r)
		return PTAH_E_NOMEM;
	r->r = recorder;
	r->memory = r->socket = -1;
	r->constants = calloc(1, sizeof(*r->constants));
	r->policy = config->buffer.policy;
	r->buffer = config->buffer.size ? config->buffer.size : fitting_buffer();
	r->joined = malloc(r->buffer + SIMULATED_STAGING + 2 * GENERATOR_BURST);
	r->qemu = command_find(config->backend.qemu ? config->backend.qemu : "qemu-x86_64");
	r->plugin = config->backend.plugin ? strdup(config->backend.plugin)
					   : record_find_plugin("ptah-qemu.so");
	if (!r->constants || !r->joined || !r->qemu || !r->plugin)
		return PTAH_E_NOMEM;
	status = command_resolve(config->target.argv, &r->command, &why);
	if (status < 0)
		return recorder_fail(recorder, PTAH_RECORD_NO_TARGET, status, "%s", why.text);
	r->name = base_name(r->command.argv[0]);
	status = qemu_create_shared(r, config);
	if (status >= 0)
		status = simulated_open_writer(recorder, r->policy == PTAH_RECORD_SNAPSHOT, NULL,
					       !config->backend.no_syscalls);
	r->writer = recorder->writer;
	r->live =
	    status >= 0 && r->policy == PTAH_RECORD_DRAIN && perfdata_writer_is_read(r->writer);
	return status;
}

static void close_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r)
		return;
	lifeline_end(r->lifeline);
	if (r->shared)
		munmap(r->shared, shared_bytes(r->buffer));
	if (r->memory >= 0)
		close(r->memory);
	if (r->socket >= 0)
		close(r->socket);
	command_free(&r->command);
	processes_free(&r->processes);
	call_samples_free(&r->calls);
	free(r->constants);
	free(r->joined);
	free(r->qemu);
	free(r->plugin);
	free(r);
}

/* Refuses what this recorder cannot do, so that no option is ignored silently. */
static enum ptah_record_problem check_qemu_wishes(const struct ptah_record_config *config,
						  struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

	if (config->target.kind != PTAH_RECORD_COMMAND)
		return recorder_refuse(why, no, "the recorder qemu records commands alone");
	if (config->trace.os || config->output.kcore)
		return recorder_refuse(why, no,
				       "the kernel cannot be traced: the program runs under user "
				       "mode emulation");
	return simulated_check(config, why);
}

static enum ptah_record_problem check_qemu_config(const struct ptah_record_config *config,
						  struct ptah_message *why)
{
	enum ptah_record_problem problem = check_qemu_wishes(config, why);
	struct command command = {0};
	char *qemu, *plugin;
	int status;

	if (problem)
		return problem;
	for (size_t i = 0; i < config->filter_count; i++)
		if (config->filters[i].path && strlen(config->filters[i].path) >= SHARED_PATH)
			return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					       "the path of filter %zu is too long", i);
	status = command_resolve(config->target.argv, &command, why);
	command_free(&command);
	if (status < 0)
		return PTAH_RECORD_NO_TARGET;
	qemu = command_find(config->backend.qemu ? config->backend.qemu : "qemu-x86_64");
	plugin = config->backend.plugin ? strdup(config->backend.plugin)
					: record_find_plugin("ptah-qemu.so");
	if (!qemu || access(qemu, X_OK))
		problem =
		    recorder_refuse(why, PTAH_RECORD_NO_EMULATOR,
				    "%s not found: install it (Debian: apt-get install "
				    "qemu-user)",
				    config->backend.qemu ? config->backend.qemu : "qemu-x86_64");
	else if (!plugin || access(plugin, R_OK))
		problem = recorder_refuse(why, PTAH_RECORD_NO_EMULATOR,
					  "the recorder's plugin %s is not where it should "
					  "be: install Ptah, or name it with --plugin",
					  config->backend.plugin ? config->backend.plugin
								 : "ptah-qemu.so");
	free(qemu);
	free(plugin);
	return problem;
}

const struct recorder_backend recorder_qemu = {
    .kind = PTAH_RECORDER_QEMU,
    .check = check_qemu_config,
    .open = open_qemu_recorder,
    .start = start_qemu,
    .poll = poll_command,
    .pause = set_paused,
    .snapshot = take_qemu_snapshot,
    .stop = stop_qemu,
    .close = close_recorder,
};
