/* SPDX-License-Identifier: MIT */
/*
 * A program into which a runtime is put sees the same as without one: its output natively and with
 * a runtime that does nothing (native_start.c) is compared, with the addresses not randomized.
 */
#include "record/native/inject.h"
#include "record/native/layout.h"
#include "record/native/runtime/memory.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const uint8_t inject_test_runtime[], inject_test_runtime_end[];

#define BYTES (1u << 20)

struct output {
	char text[64 << 10];
	size_t length;
	int status;
};

static struct inject_memory make_memory(void)
{
	static const struct native_header constants = {.magic = NATIVE_MAGIC};
	struct inject_memory m = {.fd = memfd_create("inject", MFD_CLOEXEC),
				  .bytes = BYTES,
				  .slot = 3,
				  .constants = &constants,
				  .blob = inject_test_runtime,
				  .blob_end = inject_test_runtime_end};

	assert_true(m.fd >= 0);
	assert_int_equal(ftruncate(m.fd, BYTES), 0);
	return m;
}

static void take_output(int pipe, pid_t pid, struct output *o)
{
	ssize_t n;

	o->length = 0;
	while ((n = read(pipe, o->text + o->length, sizeof(o->text) - 1 - o->length)) > 0)
		o->length += (size_t)n;
	assert_int_equal(n, 0);
	o->text[o->length] = '\0';
	close(pipe);
	assert_int_equal(waitpid(pid, &o->status, 0), pid);
}

/* Starts the command with its standard output in a pipe; start() is called in between. */
static int with_pipe(char *const *argv, pid_t *pid,
		     int (*start)(char *const *, pid_t *, struct ptah_message *))
{
	int pipes[2], saved = dup(STDOUT_FILENO), status;
	struct ptah_message why = {0};

	fflush(stdout);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_true(fcntl(saved, F_SETFD, FD_CLOEXEC) == 0 && dup2(pipes[1], STDOUT_FILENO) >= 0);
	status = start(argv, pid, &why);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(pipes[1]);
	if (status < 0)
		fail_msg("%s", why.text);
	return pipes[0];
}

static int start_natively(char *const *argv, pid_t *pid, struct ptah_message *why)
{
	(void)why;
	*pid = fork();
	if (!*pid) {
		execv(argv[0], argv);
		_exit(127);
	}
	return 0;
}

static int start_held(char *const *argv, pid_t *pid, struct ptah_message *why)
{
	return inject_start(argv, pid, NULL, why);
}

static void run_natively(char *const *argv, struct output *o)
{
	pid_t pid = 0;
	int pipe = with_pipe(argv, &pid, start_natively);

	take_output(pipe, pid, o);
}

static void run_injected(char *const *argv, struct output *o)
{
	struct inject_memory m = make_memory();
	struct native_header *header = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, m.fd, 0);
	struct ptah_message why = {0};
	pid_t pid = 0;
	int pipe = with_pipe(argv, &pid, start_held);

	assert_true(header != MAP_FAILED);
	if (inject_runtime(pid, &m, &why) < 0)
		fail_msg("%s", why.text);
	take_output(pipe, pid, o);
	assert_int_equal(header->answered, pid);
	assert_int_equal(header->exits, 3);
	assert_int_not_equal(header->message_head, 0);
	munmap(header, BYTES);
	close(m.fd);
}

/* Removes the lines of /proc/self/maps that are the runtime's; returns how many these are. */
static unsigned remove_ours(struct output *o)
{
	char *to = o->text;
	unsigned removed = 0;

	for (char *line = o->text; *line;) {
		size_t n = strcspn(line, "\n") + (strchr(line, '\n') != NULL);
		char *end;
		unsigned long address = strtoul(line, &end, 16);

		if (*end == '-' && address >= MEMORY_LOW && address < MEMORY_HIGH) {
			removed++;
		} else {
			memmove(to, line, n);
			to += n;
		}
		line += n;
	}
	*to = '\0';
	return removed;
}

static void compare(char *const *argv)
{
	static struct output native, injected;

	run_natively(argv, &native);
	run_injected(argv, &injected);
	assert_int_equal(native.status, injected.status);
	assert_int_equal(remove_ours(&native), 0);
	/* Three guard pages, the blob, the stack, the shared memory. */
	assert_int_equal(remove_ours(&injected), 6);
	assert_string_equal(native.text, injected.text);
	assert_non_null(strstr(native.text, "TracerPid:\t0\n"));
}

static void test_dynamic(void **state)
{
	char *argv[] = {SEEN_DYNAMIC, "one", "two", NULL};

	(void)state;
	compare(argv);
}

static void test_static(void **state)
{
	char *argv[] = {SEEN_STATIC, "", NULL};

	(void)state;
	compare(argv);
}

static void test_static_pie(void **state)
{
	char *argv[] = {SEEN_STATIC_PIE, NULL};

	(void)state;
	compare(argv);
}

static void test_script(void **state)
{
	char path[] = "/tmp/inject-XXXXXX";
	char *argv[] = {path, "last", NULL};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "#!%s -x y\n", SEEN_STATIC) > 0);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	compare(argv);
	unlink(path);
}

/* The registers at the first instruction are those that the kernel sets. */
static void test_registers(void **state)
{
	char *argv[] = {ENTRY, NULL};
	static struct output native, injected;

	(void)state;
	run_natively(argv, &native);
	run_injected(argv, &injected);
	assert_int_equal(WEXITSTATUS(native.status), 7);
	assert_int_equal(injected.status, native.status);
	assert_int_equal(native.length, 19 * 8);
	assert_int_equal(injected.length, native.length);
	assert_memory_equal(injected.text, native.text, native.length);
}

static unsigned count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* A failure leaves neither a process nor a descriptor behind, and is a sentence. */
static void assert_refused(char *const *argv, const char *words, const struct inject_memory *m)
{
	struct ptah_message why = {0};
	unsigned before = count_descriptors();
	pid_t pid = 0;
	int status = inject_start(argv, &pid, NULL, &why);

	if (status >= 0 && m)
		status = inject_runtime(pid, m, &why);
	assert_true(status < 0);
	if (!strstr(why.text, words))
		fail_msg("%s", why.text);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(count_descriptors(), before);
}

static void test_refusals(void **state)
{
	char *missing[] = {"no-such-program-anywhere", NULL};
	char *folder[] = {"/etc/", NULL};
	char *argv[] = {SEEN_STATIC, NULL};
	struct inject_memory m = make_memory();

	(void)state;
	assert_refused(missing, "command not found", NULL);
	assert_refused(folder, "cannot be started", NULL);
	close(m.fd);
	m.fd = -1;
	assert_refused(argv, "sending it the descriptor", &m);
	m = make_memory();
	m.bytes = UINT64_C(1) << 60;
	assert_refused(argv, "the recorder cannot be put into the program", &m);
	close(m.fd);
}

/* Little address space: the program is as it was given, and the recorder does not fit into it. */
static void test_address_space(void **state)
{
	char *argv[] = {SEEN_STATIC, NULL};
	struct inject_memory m = make_memory();
	struct ptah_message why = {0};
	struct rlimit limit = {16 << 20, 16 << 20};
	pid_t pid;

	(void)state;
	assert_int_equal(ftruncate(m.fd, 64 << 20), 0);
	m.bytes = 64 << 20;
	assert_int_equal(inject_start(argv, &pid, NULL, &why), 0);
	assert_int_equal(prlimit(pid, RLIMIT_AS, &limit, NULL), 0);
	assert_true(inject_runtime(pid, &m, &why) < 0);
	assert_non_null(strstr(why.text, "mapping the shared memory"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	close(m.fd);
}

/* A limit that leaves the program one descriptor: enough for its loader, which may run before the
 * limit is as it was, and too few for what is put into it, without help. */
static rlim_t one_more_descriptor(pid_t pid)
{
	bool seen = false;
	char path[48], target[8];

	for (rlim_t i = 0;; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)i);
		if (readlink(path, target, sizeof(target)) >= 0)
			continue;
		if (seen)
			return i;
		seen = true;
	}
}

/* What fails at an execve of a recorded program, or is short, leaves the program as it is. */
static void test_natively(void **state)
{
	char *argv[] = {SEEN_DYNAMIC, NULL};
	static struct output native, released;

	(void)state;
	run_natively(argv, &native);
	for (unsigned i = 0; i < 3; i++) {
		struct inject_memory m = make_memory();
		struct ptah_message why = {0};
		int memory = m.fd, pipe;
		struct rlimit limit, few;
		pid_t pid = 0;

		m.or_natively = true;
		if (i == 0)
			m.fd = -1;
		if (i == 1)
			m.bytes = UINT64_C(1) << 60;
		pipe = with_pipe(argv, &pid, start_held);
		assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
		few = (struct rlimit){one_more_descriptor(pid), limit.rlim_max};
		m.call_by_call = i == 2; /* which needs two descriptors, and there is one */
		if (i == 2)
			assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &few, NULL), 0);
		/* With few descriptors, a process that shares its memory has it mapped. */
		assert_int_equal(inject_runtime(pid, &m, &why) < 0, i < 2);
		assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
		take_output(pipe, pid, &released);
		assert_int_equal(released.status, native.status);
		if (i < 2)
			assert_string_equal(released.text, native.text);
		close(memory);
	}
}

/* Killed while it is held. */
static void test_killed(void **state)
{
	char *argv[] = {SEEN_STATIC, NULL};
	struct inject_memory m = make_memory();
	struct ptah_message why = {0};
	pid_t pid;

	(void)state;
	assert_int_equal(inject_start(argv, &pid, NULL, &why), 0);
	kill(pid, SIGKILL);
	assert_true(inject_runtime(pid, &m, &why) < 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	close(m.fd);
}

/* A signal that comes while it is held takes effect when it runs. */
static void test_signal(void **state)
{
	char *argv[] = {SEEN_STATIC, NULL};
	struct inject_memory m = make_memory();
	struct ptah_message why = {0};
	int status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(inject_start(argv, &pid, NULL, &why), 0);
	kill(pid, SIGTERM);
	assert_int_equal(inject_runtime(pid, &m, &why), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	close(m.fd);
}

/* Executions of a process that runs already */

static int exec_gate[2];

/* A child that waits until it is told to execute the program. */
static int start_waiting(char *const *argv, pid_t *pid, struct ptah_message *why)
{
	char byte;

	(void)why;
	assert_int_equal(pipe2(exec_gate, O_CLOEXEC), 0);
	*pid = fork();
	if (!*pid) {
		close(exec_gate[1]);
		if (read(exec_gate[0], &byte, 1) == 1)
			execv(argv[0], argv);
		_exit(99);
	}
	close(exec_gate[0]);
	return 0;
}

static void open_gate(void)
{
	assert_int_equal(write(exec_gate[1], "", 1), 1);
}

/* Waits for the execve of a process that was seized. */
static int await_held(pid_t pid, int *ended)
{
	struct ptah_message why = {0};
	int status;

	while (!(status = inject_exec(pid, false, ended, &why)))
		usleep(100);
	return status;
}

static void exec_with(bool call_by_call)
{
	char *argv[] = {SEEN_DYNAMIC, "x", NULL};
	struct inject_memory m = make_memory();
	static struct output native, injected;
	struct ptah_message why = {0};
	int pipe, ended;
	pid_t pid = 0;

	m.call_by_call = call_by_call;
	run_natively(argv, &native);
	pipe = with_pipe(argv, &pid, start_waiting);
	assert_int_equal(inject_seize(pid, false, &why), 0);
	assert_int_equal(inject_exec(pid, false, &ended, &why), 0);
	open_gate();
	assert_int_equal(await_held(pid, &ended), 1);
	assert_int_equal(inject_runtime(pid, &m, &why), 0);
	close(exec_gate[1]);
	take_output(pipe, pid, &injected);
	assert_int_equal(injected.status, native.status);
	assert_int_equal(remove_ours(&injected), 6);
	assert_string_equal(native.text, injected.text);
	close(m.fd);
}

static void test_exec(void **state)
{
	(void)state;
	exec_with(false);
	exec_with(true);
}

/* In a process of its own: seizes the program, stops itself, and injects. Never returns. */
static _Noreturn void inject_and_end(pid_t pid, const struct inject_memory *m)
{
	struct ptah_message why = {0};
	int ended;

	if (inject_seize(pid, false, &why))
		_exit(1);
	open_gate();
	if (await_held(pid, &ended) != 1)
		_exit(2);
	raise(SIGSTOP);
	_exit(inject_runtime(pid, m, &why) < 0 ? 3 : 0);
}

/* Lets it make so many stops at system calls, then kills it. False: it has ended before. */
static bool kill_at(pid_t tracer, unsigned stops)
{
	int status;

	assert_int_equal(waitpid(tracer, &status, WUNTRACED), tracer);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_SEIZE, tracer, 0, PTRACE_O_TRACESYSGOOD), 0);
	kill(tracer, SIGCONT);
	ptrace(PTRACE_INTERRUPT, tracer, 0, 0);
	for (unsigned i = 0; waitpid(tracer, &status, 0) == tracer && WIFSTOPPED(status);) {
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) && i++ == stops)
			break;
		ptrace(PTRACE_SYSCALL, tracer, 0, 0);
	}
	if (!WIFSTOPPED(status)) {
		assert_int_equal(status, 0);
		return false;
	}
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, &status, 0), tracer);
	return true;
}

/* Between two calls the socket that it has just been given may stay open up to its next execve. */
static void remove_closed_at_exec(struct output *o)
{
	char *line;
	size_t n;

	for (unsigned fd = 3; fd < 7; fd++) {
		char text[32];

		snprintf(text, sizeof(text), "descriptor %u 1\n", fd);
		line = strstr(o->text, text);
		n = strlen(text);
		if (line)
			memmove(line, line + n, strlen(line + n) + 1);
	}
}

/*
 * Whenever the recorder is killed while it puts the runtime into a program, the program runs as
 * alone: with its registers and its mask.
 */
static void kill_in_the_act(bool call_by_call)
{
	char *argv[] = {SEEN_STATIC, "x", NULL};
	struct inject_memory m = make_memory();
	static struct output native, orphaned;
	bool killed = true;

	m.call_by_call = call_by_call;
	run_natively(argv, &native);
	for (unsigned stops = 0; killed; stops += call_by_call ? 5 : 1) {
		pid_t pid = 0, tracer;
		int pipe = with_pipe(argv, &pid, start_waiting);

		tracer = fork();
		if (!tracer)
			inject_and_end(pid, &m);
		killed = kill_at(tracer, stops);
		close(exec_gate[1]);
		take_output(pipe, pid, &orphaned);
		assert_int_equal(orphaned.status, native.status);
		remove_ours(&orphaned);
		remove_closed_at_exec(&orphaned);
		assert_string_equal(orphaned.text, native.text);
	}
	close(m.fd);
}

static void test_the_recorder_is_killed_in_the_act(void **state)
{
	(void)state;
	kill_in_the_act(false);
	kill_in_the_act(true);
}

static void release(pid_t pid)
{
	while (!inject_release(pid)) /* it has not got a processor yet */
		;
}

/* It is let go before its execve, and in it. */
static void test_release(void **state)
{
	char *argv[] = {SEEN_STATIC, NULL};
	static struct output native, released;
	struct ptah_message why = {0};

	(void)state;
	run_natively(argv, &native);
	for (unsigned held = 0; held < 2; held++) {
		pid_t pid = 0;
		int pipe = with_pipe(argv, &pid, start_waiting), ended;

		assert_int_equal(inject_seize(pid, false, &why), 0);
		if (held) {
			open_gate();
			assert_int_equal(await_held(pid, &ended), 1);
			release(pid);
		} else {
			release(pid);
			open_gate();
		}
		close(exec_gate[1]);
		take_output(pipe, pid, &released);
		assert_int_equal(released.status, native.status);
		assert_string_equal(released.text, native.text);
	}
}

static bool waits_for_kernel(pid_t pid)
{
	char path[32], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'D';
}

/*
 * The kernel does not stop a thread that waits for its child of vfork(): nor may the recorder wait
 * for it. It is let go when the child has ended.
 */
static void test_a_parent_of_vfork_does_not_hold_the_recorder(void **state)
{
	struct ptah_message why = {0};
	int ends[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		char byte;

		close(ends[1]);
		if (!vfork()) {
			(void)!read(ends[0], &byte, 1);
			_exit(0);
		}
		_exit(5);
	}
	close(ends[0]);
	while (!waits_for_kernel(pid))
		usleep(1000);
	assert_int_equal(inject_seize(pid, false, &why), 0);
	assert_false(inject_release(pid));
	assert_false(inject_release(pid));
	close(ends[1]);
	release(pid);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 5 << 8);
}

/* It ends instead; a signal that it gets meanwhile takes effect. */
static void test_no_exec(void **state)
{
	char *argv[] = {"/no/such/program", NULL};
	struct ptah_message why = {0};

	(void)state;
	for (unsigned killed = 0; killed < 2; killed++) {
		pid_t pid = 0;
		int pipe = with_pipe(argv, &pid, start_waiting), ended = -1;

		assert_int_equal(inject_seize(pid, false, &why), 0);
		if (killed)
			kill(pid, SIGUSR1);
		else
			open_gate();
		assert_int_equal(await_held(pid, &ended), PTAH_E_MISSING);
		assert_int_equal(ended, killed ? SIGUSR1 : 99 << 8);
		close(exec_gate[1]);
		close(pipe);
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_dynamic),
	    cmocka_unit_test(test_static),
	    cmocka_unit_test(test_static_pie),
	    cmocka_unit_test(test_script),
	    cmocka_unit_test(test_registers),
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_address_space),
	    cmocka_unit_test(test_killed),
	    cmocka_unit_test(test_signal),
	    cmocka_unit_test(test_exec),
	    cmocka_unit_test(test_release),
	    cmocka_unit_test(test_no_exec),
	    cmocka_unit_test(test_natively),
	    cmocka_unit_test(test_the_recorder_is_killed_in_the_act),
	    cmocka_unit_test(test_a_parent_of_vfork_does_not_hold_the_recorder),
	};

	personality(ADDR_NO_RANDOMIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
