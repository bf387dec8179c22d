/* SPDX-License-Identifier: MIT */
/*
 * The recorder ptrace, attached to programs that run already: it records what they execute, and
 * they notice nothing. They are children of the test, whose exit status and state show how they
 * are.
 */
#include "test.h"

#include <ptah/record.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

static char folder[] = "/tmp/ptah-test-ptrace-XXXXXX";
static volatile sig_atomic_t signals;
static int *shared; /* memory shared with the children */

static void nap(long ms)
{
	const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static pid_t begin(int (*work)(void))
{
	pid_t pid;

	shared[0] = 0;
	pid = fork();
	if (!pid)
		_exit(work());
	while (!shared[0]) /* waits until the child's work has begun */
		nap(1);
	return pid;
}

static int end(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* 'R', 'S', 'T', 't' (traced), ... */
static char state_of(pid_t pid)
{
	char path[64], text[512] = "", *behind;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	behind = strrchr(text, ')');
	return behind ? behind[2] : '?';
}

static void until_state(pid_t pid, char state)
{
	for (int i = 0; i < 600000 && state_of(pid) != state; i++)
		nap(1);
	assert_int_equal(state_of(pid), state);
}

static struct ptah_record_config config_for(const int32_t *pid)
{
	return (struct ptah_record_config){.size = sizeof(struct ptah_record_config),
					   .output.path = "x.data",
					   .backend.kind = PTAH_RECORDER_PTRACE,
					   .target.kind = PTAH_RECORD_PROCESSES,
					   .target.ids = pid,
					   .target.id_count = 1};
}

static struct ptah_recorder *attach(const struct ptah_record_config *config)
{
	enum ptah_record_problem problem;
	struct ptah_recorder *r = NULL;
	struct ptah_message why = {""};

	if (ptah_recorder_new(config, &r, &problem, &why) < 0) {
		print_message("%s\n", why.text);
		if (problem == PTAH_RECORD_PERMISSION)
			skip();
		fail();
	}
	if (ptah_recorder_start(r) < 0) {
		print_message("%s\n", ptah_recorder_why(r, NULL));
		fail();
	}
	return r;
}

static void poll_for(struct ptah_recorder *r, int ms)
{
	assert_true(ptah_recorder_poll(r, ms) >= 0);
}

/*
 * Counts the work of the recorded threads. A test that needs something recorded waits for the
 * count, because how long 100 single steps take depends on what else the machine does.
 */
static void work(void)
{
	__atomic_fetch_add(&shared[2], 1, __ATOMIC_RELAXED);
}

static void poll_until_work(struct ptah_recorder *r)
{
	const int before = __atomic_load_n(&shared[2], __ATOMIC_RELAXED);

	while (__atomic_load_n(&shared[2], __ATOMIC_RELAXED) - before < 200)
		poll_for(r, 20);
}

static struct ptah_truth last_truth; /* truth of the last stream */

/* Verifies that everything decodes as it was executed. Returns the number of instructions. */
static uint64_t proven(unsigned streams, bool some)
{
	struct ptah_session *session;
	struct ptah_message why = {""};
	uint64_t instructions = 0;

	if (ptah_session_open("x.data", NULL, &session, &why) < 0) {
		print_message("%s\n", why.text);
		fail();
	}
	assert_int_equal(ptah_session_streams(session), streams);
	for (unsigned i = 0; i < streams; i++) {
		struct ptah_stream_info info;
		struct ptah_verify verify;

		assert_int_equal(ptah_session_stream_info(session, i, &info), 0);
		assert_true(info.has_truth);
		assert_int_equal(ptah_session_verify(session, i, NULL, &verify), 0);
		assert_true(verify.equal);
		assert_int_equal(verify.overflows, 0);
		last_truth = info.truth;
		instructions += info.truth.instructions;
	}
	ptah_session_close(session);
	if (some)
		assert_true(instructions > 100);
	return instructions;
}

/* How often the decode failed. */
static uint64_t errors_of(unsigned streams)
{
	struct ptah_session *session;
	struct ptah_message why = {""};
	uint64_t errors = 0;

	assert_int_equal(ptah_session_open("x.data", NULL, &session, &why), 0);
	assert_int_equal(ptah_session_streams(session), streams);
	for (unsigned i = 0; i < streams; i++) {
		struct ptah_reader *stream;
		struct ptah_item items[64];
		int n;

		assert_int_equal(ptah_reader_new(session, i, NULL, &stream), 0);
		while ((n = ptah_reader_read(stream, items, 64)) > 0)
			for (int k = 0; k < n; k++)
				errors += items[k].type == PTAH_ITEM_ERROR;
		assert_int_equal(n, 0);
		ptah_reader_free(stream);
	}
	ptah_session_close(session);
	return errors;
}

static void finish(struct ptah_recorder *r)
{
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
}

/* Several threads that count until they are stopped, and count correctly. */

static void *count(void *argument)
{
	volatile uint64_t *n = argument;

	while (!__atomic_load_n(&shared[1], __ATOMIC_RELAXED))
		for (int i = 0; i < 100; i++) {
			(*n)++;
			work();
		}
	return NULL;
}

static int many_threads(void)
{
	pthread_t threads[THREADS];
	uint64_t counts[THREADS] = {0};

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, count, &counts[i]))
			return 1;
	shared[0] = 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_join(threads[i], NULL) || counts[i] % 100)
			return 2;
	return 42;
}

TEST(a_process_with_threads)
{
	struct ptah_record_config config;
	struct ptah_record_status status = {.size = sizeof(status)};
	struct ptah_recorder *r;
	int32_t pid;

	shared[1] = 0;
	pid = begin(many_threads);
	config = config_for(&pid);
	r = attach(&config);
	poll_until_work(r);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	poll_for(r, 50);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	poll_until_work(r);
	assert_int_equal(ptah_recorder_stop(r), 0);
	assert_int_equal(ptah_recorder_status(r, &status), 0);
	assert_int_equal(status.threads, THREADS + 1);
	assert_int_equal(status.processes, 1);
	finish(r);
	assert_int_equal(proven(THREADS + 1, true), status.instructions);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	shared[1] = 1;
	assert_int_equal(end(pid), 42 << 8);
}

/* Records one of several threads, undisturbed by the others. */
TEST(a_thread)
{
	struct ptah_record_config config;
	struct ptah_recorder *r;
	int32_t pid;

	shared[1] = 0;
	pid = begin(many_threads);
	config = config_for(&pid);
	config.target.kind = PTAH_RECORD_THREADS;
	r = attach(&config);
	poll_until_work(r);
	shared[1] = 1;
	while (ptah_recorder_poll(r, 100) > 0)
		;
	finish(r);
	proven(1, true);
	assert_int_equal(end(pid), 42 << 8);
}

static void on_signal(int signal)
{
	(void)signal;
	signals = signals + 1;
}

/* A blocked signal arrives once, when it is unblocked, after the recorder has detached. */
static int pending_signal(void)
{
	const struct sigaction action = {.sa_handler = on_signal};
	sigset_t set;

	signals = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTRAP);
	if (sigaction(SIGUSR1, &action, NULL) || sigaction(SIGTRAP, &action, NULL) ||
	    sigprocmask(SIG_BLOCK, &set, NULL) || raise(SIGUSR1) || raise(SIGTRAP))
		return 1;
	shared[0] = 1;
	while (!__atomic_load_n(&shared[1], __ATOMIC_RELAXED))
		work();
	if (signals)
		return 2;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return signals == 2 ? 43 : 3;
}

TEST(a_pending_signal)
{
	struct ptah_record_config config;
	struct ptah_recorder *r;
	int32_t pid;

	shared[1] = 0;
	pid = begin(pending_signal);
	config = config_for(&pid);
	r = attach(&config);
	poll_until_work(r);
	finish(r);
	proven(1, true);
	shared[1] = 1;
	assert_int_equal(end(pid), 43 << 8);
}

static int stop_and_go(void)
{
	shared[0] = 1;
	raise(SIGSTOP);
	return 44;
}

/* A stopped process stays stopped, and continues when it is sent SIGCONT, recorded or not. */
TEST(a_stopped_process)
{
	for (int during = 0; during < 2; during++) {
		struct ptah_record_config config;
		struct ptah_recorder *r;
		int32_t pid = begin(stop_and_go);

		(void)state;
		assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
		config = config_for(&pid);
		r = attach(&config);
		poll_for(r, 50);
		if (during) {
			assert_int_equal(kill(pid, SIGCONT), 0);
			while (ptah_recorder_poll(r, 100) > 0)
				;
		}
		finish(r);
		proven(1, during);
		if (!during) {
			until_state(pid, 'T');
			assert_int_equal(kill(pid, SIGCONT), 0);
		}
		assert_int_equal(end(pid), 44 << 8);
	}
}

static int pipe_ends[2];

static int blocking_read(void)
{
	char byte = 0;
	ssize_t n;

	shared[0] = 1;
	n = read(pipe_ends[0], &byte, 1);
	return n == 1 && byte == 'x' ? 45 : n < 0 && errno == EINTR ? 1 : 2;
}

/* A blocking read() returns normally, whether its data arrive during the recording or after it. */
TEST(a_blocking_read)
{
	for (int during = 0; during < 2; during++) {
		struct ptah_record_config config;
		struct ptah_recorder *r;
		int32_t pid;

		(void)state;
		assert_int_equal(pipe(pipe_ends), 0);
		pid = begin(blocking_read);
		until_state(pid, 'S');
		config = config_for(&pid);
		r = attach(&config);
		poll_for(r, 50);
		if (during) {
			assert_int_equal(write(pipe_ends[1], "x", 1), 1);
			while (ptah_recorder_poll(r, 100) > 0)
				;
		}
		finish(r);
		proven(1, false);
		if (!during)
			assert_int_equal(write(pipe_ends[1], "x", 1), 1);
		assert_int_equal(end(pid), 45 << 8);
		close(pipe_ends[0]);
		close(pipe_ends[1]);
	}
}

/* Whether /proc/PID/status, at `path`, has a tracer. By system calls alone: a child of vfork()
 * asks. */
static bool is_traced(const char *path)
{
	static const char none[] = "\nTracerPid:\t0\n";
	static char text[4096];
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
	const long n = syscall(SYS_read, fd, text, sizeof(text) - 1);

	syscall(SYS_close, fd);
	text[n < 0 ? 0 : n] = '\0';
	return n > 0 && !strstr(text, none);
}

/* The child lets its parent go on a while after somebody has begun to trace that. */
static int vforks(void)
{
	const struct timespec moment = {0, 1000000}, a_while = {0, 300000000};
	char path[64];
	pid_t child;

	snprintf(path, sizeof(path), "/proc/%d/status", getpid());
	child = vfork();
	if (!child) {
		shared[0] = 1;
		while (!is_traced(path))
			syscall(SYS_nanosleep, &moment, NULL);
		syscall(SYS_nanosleep, &a_while, NULL);
		_exit(3);
	}
	return end(child) == 3 << 8 ? 46 : 1;
}

/* A parent that waits in vfork() cannot be stopped before its child releases it. */
TEST(a_vfork)
{
	struct ptah_record_config config;
	struct ptah_recorder *r;
	int32_t pid = begin(vforks);

	config = config_for(&pid);
	r = attach(&config);
	while (ptah_recorder_poll(r, 100) > 0)
		;
	finish(r);
	assert_true(proven(1, false) > 0);
	assert_int_equal(end(pid), 46 << 8);
}

/* The program is killed: what it executed until then is recorded. */
TEST(a_killed_program)
{
	struct ptah_record_config config;
	struct ptah_recorder *r;
	int32_t pid;

	shared[1] = 0;
	pid = begin(many_threads);
	config = config_for(&pid);
	r = attach(&config);
	poll_until_work(r);
	assert_int_equal(kill(pid, SIGKILL), 0);
	while (ptah_recorder_poll(r, 100) > 0)
		;
	finish(r);
	proven(THREADS + 1, true);
	assert_int_equal(end(pid), SIGKILL);
}

/* The recorder is killed repeatedly: the program runs on as if nothing had happened. */
TEST(a_killed_recorder)
{
	int32_t pid;
	int status;

	shared[1] = 0;
	pid = begin(many_threads);
	for (int i = 0; i < 20; i++) {
		const struct ptah_record_config config = config_for(&pid);
		pid_t recorder = fork();

		if (!recorder) {
			struct ptah_recorder *r;
			enum ptah_record_problem problem;

			/* The tracer of the round before may still be detaching. */
			while (ptah_recorder_new(&config, &r, &problem, NULL) < 0 &&
			       problem == PTAH_RECORD_BUSY)
				nap(1);
			ptah_recorder_start(r);
			for (;;)
				ptah_recorder_poll(r, 100);
		}
		nap(30 + 3 * i);
		kill(recorder, SIGKILL);
		assert_int_equal(end(recorder), SIGKILL);
		if (waitpid(pid, &status, WNOHANG) != 0)
			fail_msg("round %d: the program ended, status %x", i, status);
	}
	while (state_of(pid) == 't')
		nap(1);
	shared[1] = 1;
	assert_int_equal(end(pid), 42 << 8);
}

/* The trace at the time of a snapshot, and at the end. */
TEST(snapshots)
{
	struct ptah_record_config config;
	struct ptah_record_status status = {.size = sizeof(status)};
	struct ptah_recorder *r;
	int32_t pid;

	shared[1] = 0;
	pid = begin(many_threads);
	config = config_for(&pid);
	config.buffer.policy = PTAH_RECORD_SNAPSHOT;
	config.buffer.size = 64 << 10;
	r = attach(&config);
	poll_until_work(r);
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_int_equal(ptah_recorder_status(r, &status), 0);
	assert_true(status.trace_bytes > 0);
	poll_until_work(r);
	finish(r);
	assert_int_equal(errors_of(THREADS + 1), 0);
	shared[1] = 1;
	assert_int_equal(end(pid), 42 << 8);
}

static void refused(const struct ptah_record_config *config, enum ptah_record_problem expected)
{
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct ptah_recorder *r = NULL;
	struct ptah_message why = {""};

	assert_true(ptah_recorder_new(config, &r, &problem, &why) < 0);
	assert_null(r);
	assert_int_equal(problem, expected);
	assert_true(why.text[0]);
}

TEST(refusals)
{
	int32_t pid = 0x7fffff00;
	struct ptah_record_config config = config_for(&pid);
	int status;

	refused(&config, PTAH_RECORD_NO_TARGET);
	pid = getpid();
	refused(&config, PTAH_RECORD_NOT_POSSIBLE);
	config.target.kind = PTAH_RECORD_CPUS;
	refused(&config, PTAH_RECORD_NOT_POSSIBLE);
	config.target.kind = PTAH_RECORD_SELF;
	refused(&config, PTAH_RECORD_NOT_POSSIBLE);
	config.target.kind = PTAH_RECORD_PROCESSES;
	shared[1] = 0;
	pid = begin(many_threads);
	ptah_record_trace_default(&config.trace);
	config.trace.os = true;
	refused(&config, PTAH_RECORD_NOT_POSSIBLE);
	config.trace.os = false;
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	refused(&config, PTAH_RECORD_BUSY);
	kill(pid, SIGKILL);
	status = end(pid);
	assert_true(WIFSIGNALED(status));
}

/* An address filter: a single function, and how often it was called. */
extern const char __start_filtered_code[], __stop_filtered_code[];

__attribute__((noinline, section("filtered_code"))) static int filtered(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	/* So that the compiler does not call the function only once for all equal arguments. */
	__asm__ volatile("" : "+r"(sum));
	return sum;
}

static int calls_filtered(void)
{
	int sum = 0;

	shared[0] = 1;
	while (!__atomic_load_n(&shared[1], __ATOMIC_RELAXED))
		;
	for (int i = 0; i < 10; i++)
		sum += filtered(4 + (i & 1));
	return sum == 5 * 6 + 5 * 10 ? 47 : 1;
}

TEST(a_filter)
{
	struct ptah_record_filter filter = {.mode = PTAH_RANGE_FILTER};
	struct ptah_record_config config;
	struct ptah_recorder *r;
	int32_t pid;

	shared[1] = 0;
	filter.start = (uint64_t)(uintptr_t)__start_filtered_code;
	filter.size = (uint64_t)(__stop_filtered_code - __start_filtered_code);
	pid = begin(calls_filtered);
	config = config_for(&pid);
	config.filters = &filter;
	config.filter_count = 1;
	r = attach(&config);
	poll_for(r, 50);
	shared[1] = 1;
	while (ptah_recorder_poll(r, 100) > 0)
		;
	finish(r);
	proven(1, false);
	assert_int_equal(last_truth.returns, 10);
	assert_int_equal(last_truth.indirect, 0);
	assert_in_range(last_truth.instructions, 10 * 4, 10 * 64);
	assert_int_equal(end(pid), 47 << 8);
}

static int enter_folder(void **state)
{
	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -1;
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
	(void)state;
	unlink("x.data");
	unlink("x.data.old");
	return chdir("/") || rmdir(folder);
}

TEST_GROUP(enter_folder, leave_folder)
