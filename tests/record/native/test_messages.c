/* SPDX-License-Identifier: MIT */
/* Messages: a reader that follows layout.h gets those of all processes, each whole. */
#include "record/native/runtime/runtime.h"

#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct native_header *shared;
static struct runtime runtime;
static struct context context;

/* Of the reader: positions and bytes of its own, as the recorder has them. */
static uint64_t tail;
static struct native_message message;
static uint8_t payload[NATIVE_MESSAGE_MAX];

static int set_up(void **unused)
{
	(void)unused;
	shared = mmap(NULL, NATIVE_HEADER_BYTES + NATIVE_MESSAGES, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->recorder_alive = 1;
	runtime = (struct runtime){.shared = shared};
	context = (struct context){.runtime = &runtime, .pid = 11, .tid = 12};
	tail = 0;
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	return munmap(shared, NATIVE_HEADER_BYTES + NATIVE_MESSAGES);
}

static void take(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] =
		    ((uint8_t *)shared + NATIVE_HEADER_BYTES)[(tail + i) % NATIVE_MESSAGES];
	tail += n;
}

/* False: there is none. */
static bool read_message(void)
{
	const uint64_t head = __atomic_load_n(&shared->message_head, __ATOMIC_ACQUIRE);
	uint8_t padding[8];

	if (tail == head)
		return false;
	take(&message, sizeof(message));
	assert_true(message.bytes <= NATIVE_MESSAGE_MAX);
	take(payload, message.bytes);
	take(padding, -message.bytes % 8);
	assert_true(tail <= head);
	__atomic_store_n(&shared->message_tail, tail, __ATOMIC_RELEASE);
	return true;
}

TEST_WITH(test_a_message_arrives_with_its_sender, set_up, tear_down)
{
	const struct native_message m = {
	    .type = NATIVE_MESSAGE_CODE, .bytes = 5, .address = 0x401000, .size = 5, .value = 7};
	uint32_t event = shared->message_event;

	assert_true(message_send(&context, &m, "abcde"));
	assert_int_not_equal(shared->message_event, event);
	message_text(&context, NATIVE_MESSAGE_NOTE, 3, "a remark");
	assert_true(read_message());
	assert_int_equal(message.type, NATIVE_MESSAGE_CODE);
	assert_int_equal(message.pid, 11);
	assert_int_equal(message.tid, 12);
	assert_true(message.tsc);
	assert_int_equal(message.address, 0x401000);
	assert_int_equal(message.size, 5);
	assert_int_equal(message.value, 7);
	assert_int_equal(message.bytes, 5);
	assert_memory_equal(payload, "abcde", 5);
	assert_true(read_message());
	assert_int_equal(message.type, NATIVE_MESSAGE_NOTE);
	assert_int_equal(message.bytes, 8);
	assert_memory_equal(payload, "a remark", 8);
	assert_false(read_message());
}

TEST_WITH(test_a_message_that_is_too_long_is_not_sent, set_up, tear_down)
{
	const struct native_message m = {.type = NATIVE_MESSAGE_CODE, .bytes = UINT32_MAX};

	assert_false(message_send(&context, &m, payload));
	assert_false(read_message());
}

#define PROCESSES 4
#define MESSAGES  2000

/* Long enough that the ring wraps and is full at times: 4 * 2000 * 4 KiB on average. */
static void send_many(unsigned process)
{
	static uint8_t bytes[8192];
	struct native_message m = {.type = NATIVE_MESSAGE_CODE};

	context.pid = (int32_t)process;
	for (unsigned i = 0; i < MESSAGES; i++) {
		m.bytes = (i * 131 + process * 17) % sizeof(bytes);
		m.value = i;
		memset(bytes, (int)(i + process), m.bytes);
		if (!message_send(&context, &m, bytes))
			_exit(1);
	}
	_exit(0);
}

TEST_WITH(test_messages_of_several_processes_stay_whole, set_up, tear_down)
{
	unsigned next[PROCESSES] = {0};
	int status;

	for (unsigned i = 0; i < PROCESSES; i++)
		if (!fork())
			send_many(i);
	for (unsigned n = 0; n < PROCESSES * MESSAGES;) {
		unsigned p;

		if (!read_message()) {
			sched_yield();
			continue;
		}
		p = (unsigned)message.pid;
		assert_true(p < PROCESSES);
		assert_int_equal(message.value, next[p]);
		assert_int_equal(message.bytes, (next[p] * 131 + p * 17) % 8192);
		for (unsigned i = 0; i < message.bytes; i++)
			assert_true(payload[i] == (uint8_t)(next[p] + p));
		next[p]++;
		n++;
	}
	for (unsigned i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(shared->message_lock, 0);
}

static void *answer(void *questions)
{
	for (unsigned n = 0; n < *(unsigned *)questions;) {
		if (!read_message() || message.type != NATIVE_MESSAGE_MAP) {
			sched_yield();
			continue;
		}
		/* The one who asked has not gone on. */
		assert_int_equal(message.value, __atomic_load_n(&context.tid, __ATOMIC_ACQUIRE));
		n++;
		__atomic_store_n(&shared->answered, (uint32_t)tail, __ATOMIC_RELEASE);
	}
	return NULL;
}

TEST_WITH(test_a_question_waits_for_its_answer, set_up, tear_down)
{
	struct native_message m = {.type = NATIVE_MESSAGE_MAP};
	unsigned questions = 50;
	pthread_t recorder;

	/* The positions may wrap around. */
	tail = shared->message_head = shared->message_tail = UINT32_MAX - 999;
	shared->answered = (uint32_t)tail;
	assert_int_equal(pthread_create(&recorder, NULL, answer, &questions), 0);
	for (unsigned i = 0; i < questions; i++) {
		m.value = i;
		__atomic_store_n(&context.tid, (int32_t)i, __ATOMIC_RELEASE);
		assert_true(message_ask(&context, &m, NULL));
		message_text(&context, NATIVE_MESSAGE_NOTE, 0, "between");
	}
	assert_int_equal(pthread_join(recorder, NULL), 0);
}

/* Nobody would ever answer: the recorder has dropped what stood in the ring. */
TEST_WITH(test_a_question_does_not_wait_in_a_ring_that_was_destroyed, set_up, tear_down)
{
	struct native_message m = {.type = NATIVE_MESSAGE_MAP};
	const pid_t pid = fork();

	if (!pid) {
		while (!__atomic_load_n(&shared->message_head, __ATOMIC_ACQUIRE))
			sched_yield();
		__atomic_store_n(&shared->message_head, 0, __ATOMIC_RELEASE);
		_exit(0);
	}
	assert_false(message_ask(&context, &m, NULL));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST_WITH(test_the_lock_of_a_killed_process_is_taken_away, set_up, tear_down)
{
	shared->message_lock = 1;
	message_text(&context, NATIVE_MESSAGE_NOTE, 0, "later");
	assert_true(read_message());
	assert_memory_equal(payload, "later", 5);
	assert_int_equal(shared->message_lock, 0);
}

/* A process that lives until it is killed, as the memory says. Nobody waits for it meanwhile. */
static pid_t begin_recorder(void)
{
	const pid_t pid = fork();

	if (pid) {
		__atomic_store_n(&shared->recorder_alive, 0, __ATOMIC_RELEASE);
		while (!recorder_is_alive(&context))
			sched_yield();
		return pid;
	}
	while (recorder_is_alive(&context)) /* what set_up() has put there */
		sched_yield();
	if (!lifeline_begin(&shared->recorder_alive))
		_exit(1);
	for (;;)
		pause();
}

TEST_WITH(test_nobody_waits_for_a_recorder_that_was_killed, set_up, tear_down)
{
	struct native_message m = {.type = NATIVE_MESSAGE_MAP};
	const pid_t recorder = begin_recorder();

	kill(recorder, SIGKILL); /* it stays a zombie */
	assert_false(message_ask(&context, &m, NULL));
	assert_false(recorder_is_alive(&context));
	assert_false(message_send(&context, &m, NULL));
	assert_int_equal(waitpid(recorder, NULL, 0), recorder);
}

TEST_WITH(test_a_full_ring_of_a_recorder_that_was_killed, set_up, tear_down)
{
	struct native_message m = {.type = NATIVE_MESSAGE_CODE, .bytes = NATIVE_MESSAGE_MAX};
	const unsigned room = NATIVE_MESSAGES / (NATIVE_MESSAGE_MAX + sizeof(m));
	const pid_t recorder = begin_recorder();

	for (unsigned n = 0; n < room; n++)
		assert_true(message_send(&context, &m, payload));
	kill(recorder, SIGKILL);
	assert_false(message_send(&context, &m, payload));
	assert_int_equal(waitpid(recorder, NULL, 0), recorder);
	assert_int_equal(shared->message_lock, 0);
}
