/* SPDX-License-Identifier: MIT */
/*
 * The recorder ptrace: starts the tracer (tracer.h), a process of its own that single-steps the
 * programs, and writes what it sends.
 */
#include "base/compiler.h"
#include "record/haste.h"
#include "record/proc_stat.h"
#include "support/monotonic.h"
#include "perfdata/message.h"
#include "record/call_samples.h"
#include "record/command.h"
#include "record/simulated/simulated.h"
#include "record/ptrace/tracer.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 20 /* between two looks whether it is late */

struct recording {
	struct ptah_recorder *r;
	struct tracer_setup setup;
	int socket;	  /* to the tracer; -1: the tracer has ended */
	pid_t tracer;	  /* 0: none */
	pid_t command;	  /* 0: there is none, or it has ended */
	uint8_t *payload; /* payload of the current message */
	size_t capacity;
	bool answered;	       /* the tracer has carried out the order, or refused it */
	bool ended;	       /* nothing more will come */
	uint64_t instructions; /* of the threads that have ended */
	struct call_samples calls;
	uint64_t call_time; /* of the last one: the tracer's clock orders those of all threads */
};

/* Messages */

static void on_map(struct recording *r, const struct tracer_message *m)
{
	struct perfdata_mapping mapping;

	if (m->size < sizeof(mapping))
		return;
	memcpy(&mapping, r->payload, sizeof(mapping));
	recorder_wrote(r->r, perfdata_write_mmap2(r->r->writer, m->pid, m->tid, m->tsc, &mapping,
						  (const char *)r->payload + sizeof(mapping)));
}

/* The counts of threads that have ended may be older than the last report of progress. */
static void report_instructions(struct recording *r, uint64_t n)
{
	if (n > r->r->status.instructions)
		r->r->status.instructions = n;
}

static void on_exit_of(struct recording *r, const struct tracer_message *m)
{
	r->instructions += m->value;
	report_instructions(r, r->instructions);
	recorder_wrote(r->r,
		       perfdata_write_exit(r->r->writer, m->pid, m->tid, m->pid, m->pid, m->tsc));
}

static void on_truth(struct recording *r, const struct tracer_message *m)
{
	struct ptah_truth truth;

	if (m->size != sizeof(truth))
		return;
	memcpy(&truth, r->payload, sizeof(truth));
	r->r->status.losses.overflows += m->value;
	recorder_wrote(
	    r->r, perfdata_add_truth(r->r->writer, m->stream, m->pid, m->tid, &truth, m->value));
}

static void on_fatal(struct recording *r, const struct tracer_message *m)
{
	const struct recorder_end end = {
	    .signal = m->value < NSIG ? (int)m->value : 0,
	    .pid = m->pid,
	    .tid = m->tid,
	    .comm = "",
	    .placed = true,
	    .ip = m->address,
	};

	recorder_note_end(r->r, &end);
}

static void on_trace(struct recording *r, const struct tracer_message *m)
{
	recorder_wrote(
	    r->r, perfdata_write_auxtrace(r->r->writer, m->stream, m->tid, r->payload, m->size));
	r->r->status.trace_bytes += m->size;
}

static void on_thread(struct recording *r, const struct tracer_message *m)
{
	r->r->status.threads++;
	r->r->status.processes += m->pid == m->tid;
	recorder_wrote(r->r, perfdata_write_itrace_start(r->r->writer, m->pid, m->tid, m->tsc));
}

static void on_call(struct recording *r, const struct tracer_message *m)
{
	const struct call_origin origin = {
	    .pid = m->pid, .tid = m->tid, .last = &r->call_time, .latest = m->tsc};
	uint8_t *bytes = call_samples_room(&r->calls, m->size);
	int status = PTAH_E_NOMEM;

	if (bytes) {
		memcpy(bytes, r->payload, m->size);
		status = call_samples_take(&r->calls, m->size, &origin);
	}
	if (status >= 0)
		status = call_samples_pass(&r->calls, r->r, r->setup.buffer);
	if (status < 0)
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, status, "out of memory");
}

static void on_message(struct recording *r, const struct tracer_message *m)
{
	struct perfdata_writer *w = r->r->writer;
	const char *text = (const char *)r->payload;

	switch (m->type) {
	case TRACER_COMM:
		recorder_wrote(r->r,
			       perfdata_write_comm(w, m->pid, m->tid, m->tsc, m->value, text));
		break;
	case TRACER_FORK:
		recorder_wrote(r->r, perfdata_write_fork(w, m->pid, m->tid, (int32_t)m->value,
							 (int32_t)m->address, m->tsc));
		break;
	case TRACER_EXIT:
		on_exit_of(r, m);
		break;
	case TRACER_THREAD:
		on_thread(r, m);
		break;
	case TRACER_MAP:
		on_map(r, m);
		break;
	case TRACER_CODE:
		recorder_wrote(
		    r->r, perfdata_add_code(w, m->pid, m->tsc, m->address, r->payload, m->size));
		break;
	case TRACER_TRACE:
		on_trace(r, m);
		break;
	case TRACER_TRUTH:
		on_truth(r, m);
		break;
	case TRACER_NOTE:
		recorder_note(r->r, "%s", text);
		break;
	case TRACER_FATAL:
		on_fatal(r, m);
		break;
	case TRACER_ENDED:
		recorder_process_ended(r->r, m->pid, (int)m->value);
		break;
	case TRACER_LOST:
		r->r->status.losses.overwritten += m->value;
		r->r->status.losses.truncated += m->address;
		break;
	case TRACER_CALL:
		on_call(r, m);
		break;
	case TRACER_PROGRESS:
		report_instructions(r, m->value);
		break;
	case TRACER_FAILED:
		recorder_fail(r->r, (enum ptah_record_problem)m->value, PTAH_E_SYSTEM, "%s", text);
		r->answered = true;
		break;
	case TRACER_DONE:
		r->answered = true;
		break;
	case TRACER_END:
		r->ended = true;
		break;
	default:
		break;
	}
}

/* False: it is late. */
static bool await_bytes(const struct recording *r)
{
	struct pollfd wait = {.fd = r->socket, .events = POLLIN};

	while (poll(&wait, 1, WAIT_MS) <= 0)
		if (recorder_is_late(r->r))
			return false;
	return true;
}

/* False: the tracer has ended, or does not answer in time. */
static bool receive(struct recording *r, void *bytes, size_t n)
{
	uint8_t *to = bytes;

	while (n) {
		ssize_t got = await_bytes(r) ? recv(r->socket, to, n, MSG_DONTWAIT) : 0;

		if (!got || (got < 0 && errno != EINTR && errno != EAGAIN))
			return false;
		to += got > 0 ? got : 0;
		n -= got > 0 ? (size_t)got : 0;
	}
	return true;
}

/* Makes room for a payload of n bytes and a NUL after it. */
static bool make_payload_room(struct recording *r, size_t n)
{
	uint8_t *more;

	if (n < r->capacity)
		return true;
	more = realloc(r->payload, n + 1);
	if (!more)
		return false;
	r->payload = more;
	r->capacity = n + 1;
	return true;
}

static void take_ptrace_message(struct recording *r)
{
	struct tracer_message m;

	if (!receive(r, &m, sizeof(m)) || m.size > SIMULATED_MAX_BUFFER ||
	    !make_payload_room(r, m.size) || !receive(r, r->payload, m.size)) {
		r->ended = r->answered = true;
		if (recorder_is_late(r->r)) {
			recorder_note(r->r,
				      "the tracer did not answer in time: the end is missing");
			return;
		}
		recorder_fail(r->r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
			      "the recorder's tracer was killed: what it traced went on without "
			      "it, or ended");
		return;
	}
	r->payload[m.size] = '\0';
	on_message(r, &m);
}

/* Sends an order and waits for its answer; handles the messages that come before that. */
static int order(struct recording *r, unsigned type, int32_t value)
{
	const struct tracer_order o = {type, value};

	r->answered = false;
	if (r->ended || r->socket < 0)
		return r->r->error;
	if (send(r->socket, &o, sizeof(o), MSG_NOSIGNAL) != (ssize_t)sizeof(o) && errno != EPIPE)
		return recorder_fail(r->r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "the recorder's tracer does not listen");
	while (!r->answered && !r->ended)
		take_ptrace_message(r);
	return r->r->error;
}

/* Closes the connection to the tracer, which then ends. */
static void hang_up(struct recording *r)
{
	if (r->socket >= 0)
		close(r->socket);
	r->socket = -1;
	if (r->tracer)
		haste_waitpid(r->tracer, NULL, 0, &r->r->late);
	r->tracer = 0;
	r->ended = true;
}

/* Starting */

/* In the child: waits until it is traced, then becomes the command. Never returns. */
static void become(const struct recording *r, const char *path, int gate)
{
	char go;

	/* For systems where Yama permits tracing only to ancestors. */
	prctl(PR_SET_PTRACER, r->tracer, 0, 0, 0);
	if (read(gate, &go, 1) != 1)
		_exit(127);
	execv(path, r->r->config.target.argv);
	_exit(127);
}

static int start_command(struct recording *r)
{
	char *path = command_find(r->r->config.target.argv[0]);
	int gate[2] = {-1, -1}, status = 0;

	if (!path || pipe2(gate, O_CLOEXEC)) {
		free(path);
		return recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM,
				     "%s could not be started", r->r->config.target.argv[0]);
	}
	r->command = fork();
	if (r->command == 0) {
		close(gate[1]);
		become(r, path, gate[0]);
	}
	if (r->command < 0) {
		status = recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				       "%s could not be started (fork: %s)", path, strerror(errno));
		r->command = 0;
	} else {
		status = order(r, TRACER_GO, r->command);
	}
	if (status >= 0 && write(gate[1], "", 1) != 1)
		status = recorder_fail(r->r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				       "%s could not be started", path);
	close(gate[0]);
	close(gate[1]);
	if (status < 0 && r->command) { /* the command ends when the pipe is closed */
		haste_waitpid(r->command, NULL, 0, &r->r->late);
		r->command = 0;
	}
	r->r->status.pid = r->command;
	free(path);
	return status;
}

static int start_ptrace(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return recorder_fail(recorder, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "no socket for the tracer: %s", strerror(errno));
	r->socket = pair[0];
	r->setup.socket = pair[1];
	r->tracer = fork();
	if (r->tracer == 0) {
		close(pair[0]);
		tracer_run(&r->setup);
	}
	close(pair[1]);
	if (r->tracer < 0) {
		r->tracer = 0;
		return recorder_fail(recorder, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "no process for the tracer: %s", strerror(errno));
	}
	return recorder->config.target.kind == PTAH_RECORD_COMMAND ? start_command(r)
								   : order(r, TRACER_GO, 0);
}

/* Polling */

/* waits: until it has ended. */
static void look_at_command(struct recording *r, bool waits)
{
	int *status = &r->r->status.wait_status;
	pid_t pid = 0;

	if (r->command && waits)
		pid = haste_waitpid(r->command, status, 0, &r->r->late);
	else if (r->command)
		pid = waitpid(r->command, status, WNOHANG);
	if (pid)
		r->command = r->r->status.pid = 0;
}

static int poll_tracer(struct ptah_recorder *recorder, int timeout_ms)
{
	struct recording *r = recorder->self;
	const int64_t end = monotonic_ms() + timeout_ms;
	int64_t left = timeout_ms;

	do {
		struct pollfd wait = {.fd = r->socket, .events = POLLIN};

		if (!r->ended && poll(&wait, 1, left > 0 ? (int)left : 0) > 0)
			take_ptrace_message(r);
		recorder_flush(recorder);
		left = end - monotonic_ms();
	} while (left > 0 && !r->ended && recorder->error >= 0 && !recorder_is_full(recorder));
	if (!r->ended && recorder->error >= 0)
		return 1;
	hang_up(r);
	/* The tracer ends when everything traced has ended, so the command has ended. */
	if (recorder->error >= 0)
		look_at_command(r, true);
	return recorder->error;
}

static int set_paused(struct ptah_recorder *recorder, bool on)
{
	return recorder->state == RECORDER_STARTED
		   ? order(recorder->self, on ? TRACER_PAUSE : TRACER_RESUME, 0)
		   : 0;
}

static int take_ptrace_snapshot(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	const int status = order(r, TRACER_SNAPSHOT, 0);

	call_samples_write_kept(&r->calls, recorder);
	return status;
}

static int stop_ptrace(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	const struct tracer_order o = {TRACER_STOP, 0};

	if (!r->ended && r->socket >= 0 && recorder->error >= 0 &&
	    send(r->socket, &o, sizeof(o), MSG_NOSIGNAL) == (ssize_t)sizeof(o))
		while (!r->ended && recorder->error >= 0)
			take_ptrace_message(r);
	call_samples_write_kept(&r->calls, recorder);
	hang_up(r);
	look_at_command(r, false);
	return recorder->error;
}

/* Opening and closing */

static int open_ptrace_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self = calloc(1, sizeof(*r));
	int status = PTAH_E_NOMEM;

	if (r) {
		r->r = recorder;
		r->socket = -1;
		r->setup.config = &recorder->config;
		r->setup.trace = simulated_trace(&recorder->config);
		r->setup.buffer = recorder->config.buffer.size ? recorder->config.buffer.size
							       : SIMULATED_DEFAULT_BUFFER;
		status = simulated_open_writer(recorder, false, NULL,
					       !recorder->config.backend.no_syscalls);
		r->setup.live = status >= 0 && perfdata_writer_is_read(recorder->writer);
	}
	return status;
}

static void close_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r)
		return;
	hang_up(r);
	free(r->payload);
	call_samples_free(&r->calls);
	free(r);
}

/* Checking */

/* Refuses what this recorder cannot do, so that no option is ignored silently. */
static enum ptah_record_problem check_ptrace_wishes(const struct ptah_record_config *config,
						    struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

	if (config->target.kind == PTAH_RECORD_CPUS)
		return recorder_refuse(why, no,
				       "the recorder ptrace steps threads, not processors");
	if (config->target.kind == PTAH_RECORD_SELF)
		return recorder_refuse(why, no,
				       "the recorder ptrace cannot trace the thread that takes its "
				       "trace: both would wait for each other");
	if (config->trace.os || config->output.kcore)
		return recorder_refuse(why, no, "the kernel cannot be single-stepped");
	return simulated_check(config, why);
}

static bool is_64_bit(int32_t pid)
{
	char path[64];
	uint8_t head[20] = {0};
	bool fits = true; /* if it cannot be read, other checks refuse it */
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (read(fd, head, sizeof(head)) == (ssize_t)sizeof(head))
		fits = head[EI_CLASS] == ELFCLASS64 && head[18] == EM_X86_64;
	close(fd);
	return fits;
}

static enum ptah_record_problem check_id(int32_t id, struct ptah_message *why)
{
	const uint64_t tracer = proc_status_number("", id, "TracerPid", 10);
	char path[64];
	int fd;

	if (id <= 0 || tracer == UINT64_MAX)
		return recorder_refuse(why, PTAH_RECORD_NO_TARGET,
				       "there is no process or thread %d", id);
	if (proc_status_number("", id, "Tgid", 10) == (uint64_t)getpid())
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "the recorder ptrace cannot trace its own process");
	if (tracer)
		return recorder_refuse(why, PTAH_RECORD_BUSY, "%d is traced already, by process %d",
				       id, (int)tracer);
	if (proc_status_number("", id, "Kthread", 10) == 1)
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "%d is a thread of the kernel, which cannot be stepped", id);
	/* Opening this file needs the same permissions as tracing: proc(5). */
	snprintf(path, sizeof(path), "/proc/%d/mem", id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return recorder_refuse(why, PTAH_RECORD_PERMISSION,
				       "%d may not be traced by this user (%s)", id,
				       strerror(errno));
	close(fd);
	if (!is_64_bit(id))
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "%d is not a 64-bit x86-64 program", id);
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem check_ptrace_config(const struct ptah_record_config *config,
						    struct ptah_message *why)
{
	enum ptah_record_problem problem = check_ptrace_wishes(config, why);
	struct command command = {0};
	int status;

	if (problem)
		return problem;
	if (config->target.kind == PTAH_RECORD_COMMAND) {
		status = command_resolve(config->target.argv, &command, why);
		command_free(&command);
		return status < 0 ? PTAH_RECORD_NO_TARGET : PTAH_RECORD_FINE;
	}
	for (size_t i = 0; i < config->target.id_count && !problem; i++)
		problem = check_id(config->target.ids[i], why);
	return problem;
}

const struct recorder_backend recorder_ptrace = {
    .kind = PTAH_RECORDER_PTRACE,
    .check = check_ptrace_config,
    .open = open_ptrace_recorder,
    .start = start_ptrace,
    .poll = poll_tracer,
    .pause = set_paused,
    .snapshot = take_ptrace_snapshot,
    .stop = stop_ptrace,
    .close = close_recorder,
    .timer = true,
};
