/* SPDX-License-Identifier: MIT */
/*
 * The tracer's main loop: attaches to the programs, lets one thread after the other step, and
 * detaches.
 */
#include "record/ptrace/tracer.h"

#include "record/proc_stat.h"
#include "support/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHADOW_BUCKETS 4096
#define STEPS	       64   /* steps of a thread before it is the next one's turn */
#define SPINS	       2000 /* polls for the end of a step before other threads get their turn */
#define EARLY_NS       (INT64_C(10) * 1000000) /* between two times that trace is sent early */
#define NAP_MIN	       50		       /* microseconds to sleep when all threads wait */
#define NAP_MAX	       2000
#define LET_GO_MS      2000 /* after this time a thread that does not stop is left to the kernel */
#define ATTACH_MAX     64 /* rounds of looking for threads in a process that keeps creating them */

/* The recorder */

static void send_all(struct tracer *r, const struct iovec *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint8_t *bytes = parts[i].iov_base;
		size_t left = parts[i].iov_len;

		while (left && !r->hung_up) {
			ssize_t sent = send(r->socket, bytes, left, MSG_NOSIGNAL);

			if (sent < 0 && errno != EINTR)
				r->hung_up = true;
			bytes += sent > 0 ? sent : 0;
			left -= sent > 0 ? (size_t)sent : 0;
		}
	}
}

void tracer_send_part(struct tracer *r, const void *bytes, size_t n)
{
	const struct iovec part = {(void *)(uintptr_t)bytes, n};

	send_all(r, &part, 1);
}

void tracer_send(struct tracer *r, const struct tracer_message *message, const void *payload)
{
	const struct iovec parts[] = {{(void *)(uintptr_t)message, sizeof(*message)},
				      {(void *)(uintptr_t)payload, message->size}};

	send_all(r, parts, payload ? 2 : 1);
}

static void send_text(struct tracer *r, struct tracer_message *message, const char *format,
		      va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, args);
	message->size = (uint32_t)strlen(text);
	tracer_send(r, message, text);
}

void tracer_note(struct tracer *r, const char *format, ...)
{
	struct tracer_message message = {.type = TRACER_NOTE};
	va_list args;

	va_start(args, format);
	send_text(r, &message, format, args);
	va_end(args);
}

static void PRINTF_LIKE(3, 4)
    refuse(struct tracer *r, enum ptah_record_problem problem, const char *format, ...)
{
	struct tracer_message message = {.type = TRACER_FAILED, .value = problem};
	va_list args;

	va_start(args, format);
	send_text(r, &message, format, args);
	va_end(args);
}

static void send_done(struct tracer *r, unsigned type)
{
	const struct tracer_message message = {.type = type, .tsc = tracer_time(r)};

	tracer_send(r, &message, NULL);
}

/* Time */

uint64_t tracer_time(const struct tracer *r)
{
	return r->config->backend.clock == PTAH_CLOCK_HOST ? (uint64_t)monotonic_ns() : r->clock;
}

uint64_t tracer_change_time(struct tracer *r)
{
	r->clock++;
	return tracer_time(r);
}

/* Processes and threads */

struct thread *tracer_find(const struct tracer *r, int32_t tid)
{
	struct thread *t = r->threads;

	while (t && (t->tid != tid || t->gone))
		t = t->next;
	return t;
}

struct thread *tracer_add_thread(struct tracer *r, struct process *process, int32_t tid)
{
	struct thread **last = &r->threads, *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct thread){
	    .process = process, .r = r, .tid = tid, .running = true, .fresh = true, .kernel = true};
	process->threads++;
	while (*last)
		last = &(*last)->next;
	*last = t;
	return t;
}

static struct process *find_tracer_process(const struct tracer *r, int32_t pid)
{
	struct process *p = r->processes;

	while (p && p->pid != pid)
		p = p->next;
	return p;
}

struct process *tracer_add_process(struct tracer *r, int32_t pid, const struct process *like)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->r = r;
	p->pid = pid;
	p->memory = -1;
	p->shadow.buckets = SHADOW_BUCKETS;
	p->stale = true;
	p->nowhere.told = true;
	p->born = tracer_change_time(r);
	if (like)
		maps_copy(p, like);
	else
		maps_init_ranges(p);
	p->next = r->processes;
	r->processes = p;
	return p;
}

static void drop_process(struct tracer *r, struct process *p)
{
	struct process **link = &r->processes;

	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	maps_forget(p);
	fetch_forget(p);
	free(p);
}

static void drop_gone(struct tracer *r)
{
	struct thread **link = &r->threads;

	while (*link) {
		struct thread *t = *link;

		if (!t->gone) {
			link = &t->next;
			continue;
		}
		*link = t->next;
		if (!--t->process->threads)
			drop_process(r, t->process);
		trace_free(t);
		free(t);
	}
}

/* Attaching */

static unsigned long trace_options(const struct tracer *r)
{
	unsigned long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;

	if (!r->config->target.no_inherit)
		options |= PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	return options;
}

static bool refuse_attach(struct tracer *r, int32_t tid, int error)
{
	const uint64_t tracer = proc_status_number("", tid, "TracerPid", 10);

	if (error == ESRCH)
		refuse(r, PTAH_RECORD_NO_TARGET, "there is no process or thread %d", tid);
	else if (tracer && tracer != UINT64_MAX)
		refuse(r, PTAH_RECORD_BUSY, "%d is traced already, by process %d", tid,
		       (int)tracer);
	else if (error == EPERM)
		refuse(r, PTAH_RECORD_PERMISSION, "%d may not be traced by this user (ptrace: %s)",
		       tid, strerror(error));
	else
		refuse(r, PTAH_RECORD_BROKEN, "%d could not be attached to (ptrace: %s)", tid,
		       strerror(error));
	return false;
}

/* Attaches to a thread. Returns 0 or errno. */
static int seize(struct tracer *r, int32_t pid, int32_t tid, bool stop)
{
	struct process *p = find_tracer_process(r, pid);
	struct thread *t;

	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)trace_options(r)))
		return errno;
	if (!p)
		p = tracer_add_process(r, pid, NULL);
	t = p ? tracer_add_thread(r, p, tid) : NULL;
	if (!t)
		return ENOMEM;
	t->waits = !stop;
	if (stop)
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	return 0;
}

/* Attaches to all threads of a process that are not known yet. Returns their number. */
static int seize_unknown(struct tracer *r, int32_t pid, int *error)
{
	int32_t *tids;
	const size_t n = proc_threads("", pid, &tids);
	int found = 0;

	if (!n)
		*error = ESRCH;
	for (size_t i = 0; i < n; i++) {
		const int failed = tracer_find(r, tids[i]) ? -1 : seize(r, pid, tids[i], true);

		if (!failed)
			found++;
		else if (failed > 0 && (failed != ESRCH || tids[i] == pid))
			*error = failed; /* another thread may have ended meanwhile */
	}
	free(tids);
	return found;
}

static bool attach_process(struct tracer *r, int32_t pid)
{
	int error = 0;

	for (int i = 0; i < ATTACH_MAX && seize_unknown(r, pid, &error) > 0 && !error; i++)
		;
	return error ? refuse_attach(r, pid, error) : true;
}

static bool attach_thread(struct tracer *r, int32_t tid)
{
	const uint64_t pid = proc_status_number("", tid, "Tgid", 10);
	int error = pid == UINT64_MAX ? ESRCH : seize(r, (int32_t)pid, tid, true);

	return error ? refuse_attach(r, tid, error) : true;
}

/*
 * Reports the names and parents of the processes and threads that existed before the recording
 * began.
 */
static void report_beginnings(struct tracer *r)
{
	for (struct thread *t = r->threads; t; t = t->next) {
		struct tracer_message message = {.type = TRACER_FORK,
						 .pid = t->process->pid,
						 .tid = t->tid,
						 .value = (uint64_t)t->process->pid,
						 .address = (uint64_t)t->process->pid,
						 .tsc = t->process->born};

		if (t->tid != t->process->pid)
			tracer_send(r, &message, NULL);
		stops_report_name(t, false);
	}
}

static bool attach(struct tracer *r, int32_t command)
{
	const struct ptah_record_config *config = r->config;
	int error;

	if (config->target.kind == PTAH_RECORD_COMMAND) {
		error = seize(r, command, command, false);
		return error ? refuse_attach(r, command, error) : true;
	}
	for (size_t i = 0; i < config->target.id_count; i++) {
		if (tracer_find(r, config->target.ids[i]))
			continue;
		if (!(config->target.kind == PTAH_RECORD_THREADS ? attach_thread : attach_process)(
			r, config->target.ids[i]))
			return false;
	}
	report_beginnings(r);
	return true;
}

/* Letting go */

static bool all_stand(struct tracer *r)
{
	bool all = true;

	for (struct thread *t = r->threads; t; t = t->next) {
		int status;

		if (t->gone || !t->running)
			continue;
		if (waitpid(t->tid, &status, __WALL | WNOHANG) > 0)
			stops_handle(t, status);
		all = all && (t->gone || !t->running);
	}
	return all;
}

static void let_go(struct tracer *r)
{
	struct timespec nap = {0, 200000};

	r->leaving = true;
	for (struct thread *t = r->threads; t; t = t->next)
		if (t->running && !t->waits)
			ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	for (int i = 0; i < LET_GO_MS * 5 && !all_stand(r); i++)
		nanosleep(&nap, NULL);
	for (struct thread *t = r->threads; t; t = t->next) {
		trace_end(t);
		if (!t->gone && !t->running)
			stops_detach(t);
	}
}

/* Orders */

static void carry_out(struct tracer *r, const struct tracer_order *order)
{
	switch (order->type) {
	case TRACER_PAUSE:
	case TRACER_RESUME:
		r->paused = order->type == TRACER_PAUSE;
		for (struct thread *t = r->threads; t; t = t->next)
			trace_pause(t, r->paused);
		break;
	case TRACER_SNAPSHOT:
		for (struct thread *t = r->threads; t; t = t->next)
			trace_snapshot(t);
		break;
	case TRACER_STOP:
		r->leaving = true;
		return;
	default:
		break;
	}
	send_done(r, TRACER_DONE);
}

static bool receive(struct tracer *r, struct tracer_order *order, int flags)
{
	ssize_t n = recv(r->socket, order, sizeof(*order), flags);

	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR) || getppid() != r->parent)
		r->hung_up = true;
	return n == sizeof(*order);
}

/* Stepping */

/* Waits a short while for the thread to stop. True: it has stopped or ended. */
static bool await(struct thread *t, int spins)
{
	int status;

	do {
		pid_t pid = waitpid(t->tid, &status, __WALL | WNOHANG);

		if (pid > 0) {
			stops_handle(t, status);
			return !t->running;
		}
		if (pid < 0 && errno == ECHILD) { /* another thread's execve ended it */
			trace_end(t);
			t->gone = true;
			return true;
		}
		if (spins > 0)
			sched_yield();
	} while (spins-- > 0);
	return false;
}

/* Gives a thread its turn. True: it has done something. */
static bool take_turn(struct thread *t)
{
	if (t->gone || (t->running && !await(t, 0)))
		return false;
	for (int i = 0; i < STEPS && !t->gone && !t->running; i++) {
		stops_resume(t);
		/* A system call may take long, but most do not. */
		await(t, SPINS);
	}
	return true;
}

static bool all_gone(const struct tracer *r)
{
	for (const struct thread *t = r->threads; t; t = t->next)
		if (!t->gone)
			return false;
	return true;
}

/* Where somebody decodes it meanwhile: sends what fills no region of a buffer yet. */
static void send_early(struct tracer *r)
{
	int64_t now;

	if (!r->setup->live)
		return;
	now = monotonic_ns();
	if (now - r->sent < EARLY_NS)
		return;
	r->sent = now;
	for (struct thread *thread = r->threads; thread; thread = thread->next)
		trace_send_early(thread);
}

static void step_all(struct tracer *r)
{
	long nap = NAP_MIN;

	while (!all_gone(r) && !r->hung_up && !r->leaving) {
		struct tracer_order order;
		bool active = false;

		for (struct thread *t = r->threads; t; t = t->next)
			active = take_turn(t) || active;
		drop_gone(r);
		send_early(r);
		if (receive(r, &order, MSG_DONTWAIT))
			carry_out(r, &order);
		if (active) {
			nap = NAP_MIN;
		} else {
			const struct timespec pause = {0, nap * 1000};

			nanosleep(&pause, NULL);
			nap = nap * 2 < NAP_MAX ? nap * 2 : NAP_MAX;
		}
	}
}

/* Beginning and end */

/* Closes all descriptors inherited from the recorder but the socket, and blocks all signals. */
static void cut_loose(struct tracer *r)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	r->socket = dup2(r->socket, 3);
	close_range(4, ~0u, 0);
}

_Noreturn void tracer_run(const struct tracer_setup *setup)
{
	struct tracer r = {.setup = setup,
			   .config = setup->config,
			   .socket = setup->socket,
			   .parent = getppid(),
			   .clock = 1,
			   .paused = setup->config->target.start_paused};
	struct tracer_order order;

	cut_loose(&r);
	if (receive(&r, &order, MSG_WAITALL) && attach(&r, order.value)) {
		send_done(&r, TRACER_DONE);
		step_all(&r);
		let_go(&r);
		send_done(&r, TRACER_END);
	} else {
		r.leaving = true;
		let_go(&r);
	}
	_exit(0);
}
