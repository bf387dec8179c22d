/* SPDX-License-Identifier: MIT */
/*
 * The recorder native without a translator: inject.c is replaced by a child that behaves as a
 * program with the runtime in it would, through the runtime's own ring.c and messages.c.
 */
#include "record/native/inject.h"
#include "record/native/runtime/runtime.h"
#include "record/recorder.h"

#include "test.h"

#include <ptah/engine/rtit.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The recorder under test, which recorder.h may not name yet. */
extern const struct recorder_backend recorder_native;

/* ---- The program -------------------------------------------------------------- */

enum role {
	ENDS,
	IS_KILLED,
	REFUSES,
	REFUSES_TOO_LATE,
	FORKS,
	LEAVES,
};

static enum role role;
static int go[2]; /* the recorder's fake inject_runtime() writes, the program reads */

static struct runtime runtime;
static struct context context;

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static void write_packets(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t *at = (uint8_t *)(uintptr_t)context.log;
		if (context.logs[0].chunk + NATIVE_CHUNK - at < PACKETS_MAX)
			at = ring_next(&context, NATIVE_LOG_TRACE, at);
		const uint8_t tip[] = {0x6d, (uint8_t)i, (uint8_t)(i >> 8), 0x40, 0, 0, 0};
		context.log = (uint64_t)(uintptr_t)put(at, tip, sizeof(tip));
	}
}

static void send_plain(uint32_t type, uint64_t value)
{
	const struct native_message m = {.type = type, .value = value};
	message_send(&context, &m, NULL);
}

static void begin_thread(unsigned slot)
{
	context.pid = (int32_t)getpid();
	context.tid = (int32_t)syscall(SYS_gettid);
	context.slot =
	    (struct native_thread *)(void *)((uint8_t *)runtime.shared + native_slot_at(slot));
	context.slot->state = NATIVE_SLOT_ACTIVE;
	ring_begin(&context);
	send_plain(NATIVE_MESSAGE_THREAD, slot);
	write_packets(100000); /* five chunks */
}

static void ask_for_own_code(void)
{
	const struct native_message m = {.type = NATIVE_MESSAGE_MAP,
					 .address = (uint64_t)(uintptr_t)write_packets & ~4095ull,
					 .size = 4096};
	if (!message_ask(&context, &m, NULL))
		_exit(90);
}

static void fork_and_end(void)
{
	const int32_t parent = context.pid;
	pid_t child = fork();
	if (child == 0) {
		context.pid = context.tid = (int32_t)getpid();
		send_plain(NATIVE_MESSAGE_FORK, (uint64_t)parent);
		begin_thread(1);
		ring_end(&context);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void run_program(int memory)
{
	runtime.shared = mmap(NULL, native_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (runtime.shared == MAP_FAILED || runtime.shared->magic != NATIVE_MAGIC ||
	    !runtime.shared->recorder_alive)
		_exit(91);
	runtime.chunks = runtime.shared->chunks;
	runtime.chunk_bytes = runtime.shared->chunk_bytes;
	context.runtime = &runtime;
	begin_thread(0);
	ask_for_own_code();
	if (role == REFUSES_TOO_LATE)
		send_plain(NATIVE_MESSAGE_COMMITTED, 0);
	if (role == REFUSES || role == REFUSES_TOO_LATE)
		message_text(&context, NATIVE_MESSAGE_REFUSED, 0, "it is only a test");
	if (role == REFUSES)
		pause(); /* to be killed */
	if (role == FORKS)
		fork_and_end();
	if (role == IS_KILLED)
		raise(SIGKILL);
	if (role == LEAVES)
		message_text(&context, NATIVE_MESSAGE_LEFT, 0x401000, "it does strange things");
	ring_end(&context);
	_exit(7);
}

/* ---- Instead of inject.c ------------------------------------------------------ */

int inject_start(char *const *argv, pid_t *pid, const int64_t *late, struct ptah_message *why)
{
	(void)argv;
	(void)late;
	(void)why;
	if (pipe(go))
		return PTAH_E_SYSTEM;
	*pid = fork();
	if (*pid == 0) {
		int memory;
		if (read(go[0], &memory, sizeof(memory)) == sizeof(memory))
			run_program(memory);
		_exit(92);
	}
	return *pid < 0 ? PTAH_E_SYSTEM : 0;
}

int inject_runtime(pid_t pid, const struct inject_memory *memory, struct ptah_message *why)
{
	(void)pid;
	(void)why;
	assert_int_equal(memory->slot, 0);
	assert_int_equal(memory->bytes, native_bytes());
	return write(go[1], &memory->fd, sizeof(int)) == sizeof(int) ? 0 : PTAH_E_SYSTEM;
}

int inject_seize(pid_t pid, bool calls, struct ptah_message *why)
{
	(void)calls;
	(void)pid;
	(void)why;
	return PTAH_E_SYSTEM;
}

int inject_exec(pid_t pid, bool calls, int *ended, struct ptah_message *why)
{
	(void)calls;
	(void)pid;
	(void)ended;
	(void)why;
	return 0;
}

bool inject_release(pid_t pid)
{
	(void)pid;
	return true;
}

void inject_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- The recorder -------------------------------------------------------------- */

static char path[64];

/* Records the fake program; returns what the last poll() did. */
static int record(enum role what, struct ptah_record_status *status, int32_t *pid)
{
	static char *argv[] = {"fake", NULL};
	struct ptah_recorder *r = calloc(1, sizeof(*r));
	int result;

	assert_non_null(r);
	role = what;
	r->backend = &recorder_native;
	r->config.size = sizeof(r->config);
	ptah_record_trace_default(&r->config.trace);
	r->config.target.kind = PTAH_RECORD_COMMAND;
	r->config.target.argv = argv;
	r->config.backend.time_resolution = PTAH_RECORD_NO_WATCHER; /* it adds bytes */
	r->config.output.path = path;
	assert_int_equal(recorder_native.open(r), 0);
	assert_int_equal(recorder_native.start(r), 0);
	*pid = r->status.pid;
	while ((result = recorder_native.poll(r, 50)) == 1)
		;
	*status = r->status;
	if (result == RECORDER_REFUSED)
		assert_string_equal(r->refusal.text, "it is only a test");
	recorder_native.close(r);
	if (r->writer && result == 0) {
		uint64_t size = 0;
		assert_int_equal(perfdata_writer_finish(r->writer, &size, NULL), 0);
	} else if (r->writer) {
		perfdata_writer_abort(r->writer);
	}
	free(r);
	return result;
}

/* Whether the recording has these bytes. */
static bool file_has(const void *bytes, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;
	bool has;

	assert_true(fd >= 0 && !fstat(fd, &st));
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	has = memmem(map, (size_t)st.st_size, bytes, n) != NULL;
	munmap(map, (size_t)st.st_size);
	close(fd);
	return has;
}

#define BYTES_OF_A_THREAD 700000

static void test_a_thread_is_recorded_whole(void **unused)
{
	static const uint8_t last[] = {0x6d, 0x9e, 0x86, 0x40, 0, 0, 0,
				       0x6d, 0x9f, 0x86, 0x40, 0, 0, 0};
	struct ptah_record_status status;
	int32_t pid;

	(void)unused;
	assert_int_equal(record(ENDS, &status, &pid), 0);
	assert_true(WIFEXITED(status.wait_status));
	assert_int_equal(WEXITSTATUS(status.wait_status), 7);
	assert_int_equal(status.threads, 1);
	assert_int_equal(status.processes, 1);
	assert_int_equal(status.trace_bytes, BYTES_OF_A_THREAD);
	assert_true(file_has(last, sizeof(last)));
	/* The program's file is mapped in the recording. */
	char self[256] = "";
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	assert_true(file_has(self, strlen(self) + 1));
}

static void test_of_a_killed_process_nothing_is_lost(void **unused)
{
	struct ptah_record_status status;
	int32_t pid;

	(void)unused;
	assert_int_equal(record(IS_KILLED, &status, &pid), 0);
	assert_true(WIFSIGNALED(status.wait_status));
	assert_int_equal(WTERMSIG(status.wait_status), SIGKILL);
	assert_int_equal(status.trace_bytes, BYTES_OF_A_THREAD);
}

static void test_children_are_recorded(void **unused)
{
	struct ptah_record_status status;
	int32_t pid;

	(void)unused;
	assert_int_equal(record(FORKS, &status, &pid), 0);
	assert_int_equal(status.threads, 2);
	assert_int_equal(status.processes, 2);
	assert_int_equal(status.trace_bytes, 2 * BYTES_OF_A_THREAD);
}

static void test_a_program_that_refuses_is_ended(void **unused)
{
	struct ptah_record_status status;
	int32_t pid;

	(void)unused;
	assert_int_equal(record(REFUSES, &status, &pid), RECORDER_REFUSED);
	assert_int_equal(kill(pid, 0), -1);
}

static void test_after_an_effect_it_is_too_late_to_refuse(void **unused)
{
	struct ptah_record_status status;
	int32_t pid;

	(void)unused;
	assert_int_equal(record(REFUSES_TOO_LATE, &status, &pid), 0);
	assert_int_equal(WEXITSTATUS(status.wait_status), 7);
}

static void test_a_program_that_leaves_is_noted(void **unused)
{
	static const char note[] = "runs on untraced: it does strange things";
	struct ptah_record_status status;
	int32_t pid;

	(void)unused;
	assert_int_equal(record(LEAVES, &status, &pid), 0);
	assert_true(file_has(note, strlen(note)));
}

static int finish(void **unused)
{
	char old[80];

	(void)unused;
	snprintf(old, sizeof(old), "%s.old", path);
	unlink(old);
	unlink(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_thread_is_recorded_whole),
	    cmocka_unit_test(test_of_a_killed_process_nothing_is_lost),
	    cmocka_unit_test(test_children_are_recorded),
	    cmocka_unit_test(test_a_program_that_refuses_is_ended),
	    cmocka_unit_test(test_after_an_effect_it_is_too_late_to_refuse),
	    cmocka_unit_test(test_a_program_that_leaves_is_noted),
	};
	snprintf(path, sizeof(path), "native-%d.data", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, finish);
}
