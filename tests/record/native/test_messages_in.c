/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the message ring, against the runtime's (messages.c); and what a program
 * can write there that is not the runtime.
 */
#include "record/native/messages_in.h"

#include "record/native/runtime/runtime.h"

#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (NATIVE_HEADER_BYTES + NATIVE_MESSAGES)

static struct native_header *shared;
static struct runtime runtime;
static struct context context;
static struct native_messages *in;

/* What has arrived. */
static unsigned taken;
static struct native_message last;
static char last_payload[NATIVE_MESSAGE_MAX + 1];

static void take(void *unused, const struct native_message *m, const char *payload)
{
	(void)unused;
	taken++;
	last = *m;
	memcpy(last_payload, payload, m->bytes + 1);
	assert_int_equal(payload[m->bytes], 0);
}

static int set_up(void **unused)
{
	(void)unused;
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->recorder_alive = 1;
	runtime = (struct runtime){.shared = shared};
	context = (struct context){.runtime = &runtime, .pid = 21, .tid = 22};
	in = calloc(1, sizeof(*in));
	assert_non_null(in);
	in->shared = shared;
	in->take = take;
	taken = 0;
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	free(in);
	return munmap(shared, BYTES);
}

/* All sizes of a payload, so that messages wrap at every place of the ring. */
TEST_WITH(test_messages_arrive_as_they_were_sent, set_up, tear_down)
{
	static char payload[NATIVE_MESSAGE_MAX];

	for (unsigned i = 0; i < 3000; i++) {
		struct native_message m = {.type = NATIVE_MESSAGE_NOTE,
					   .bytes = i * 37 % (NATIVE_MESSAGE_MAX + 1),
					   .address = i,
					   .size = 2 * i,
					   .value = 3 * i};
		for (unsigned k = 0; k < m.bytes; k++)
			payload[k] = (char)(i + k);
		assert_true(message_send(&context, &m, payload));
		native_messages_drain(in);
		assert_int_equal(taken, i + 1);
		assert_int_equal(last.type, m.type);
		assert_int_equal(last.bytes, m.bytes);
		assert_int_equal(last.pid, 21);
		assert_int_equal(last.tid, 22);
		assert_int_equal(last.address, m.address);
		assert_int_equal(last.size, m.size);
		assert_int_equal(last.value, m.value);
		assert_memory_equal(last_payload, payload, m.bytes);
	}
	assert_false(in->damaged);
}

#define QUESTIONS 5000

static void *ask_all(void *unused)
{
	struct native_message m = {.type = NATIVE_MESSAGE_MAP, .address = 4096, .size = 4096};
	char payload[1000] = "";

	(void)unused;
	for (unsigned i = 0; i < QUESTIONS; i++) {
		const struct native_message note = {.type = NATIVE_MESSAGE_NOTE,
						    .bytes = sizeof(payload)};

		message_send(&context, &note, payload);
		m.address += 4096;
		assert_true(message_ask(&context, &m, NULL));
	}
	return NULL;
}

TEST_WITH(test_every_question_is_answered, set_up, tear_down)
{
	pthread_t asker;

	assert_int_equal(pthread_create(&asker, NULL, ask_all, NULL), 0);
	while (taken < 2 * QUESTIONS)
		native_messages_drain(in);
	pthread_join(asker, NULL);
	native_messages_drain(in);
	assert_int_equal(taken, 2 * QUESTIONS);
	assert_false(in->damaged);
}

/* Writes a message into the ring as it is, and says that there are n bytes. */
static void forge(const struct native_message *m, uint64_t n)
{
	memcpy((uint8_t *)shared + NATIVE_HEADER_BYTES + in->tail % NATIVE_MESSAGES, m, sizeof(*m));
	shared->message_head = in->tail + n;
}

TEST_WITH(test_messages_that_no_runtime_sends_are_not_given_on, set_up, tear_down)
{
	static const struct native_message bad[] = {
	    {.type = 0, .pid = 1, .tid = 1},
	    {.type = NATIVE_MESSAGE_USER + 1, .pid = 1, .tid = 1, .value = 1},
	    {.type = NATIVE_MESSAGE_COMM, .pid = 0, .tid = 1},
	    {.type = NATIVE_MESSAGE_COMM, .pid = 1, .tid = -1},
	    {.type = NATIVE_MESSAGE_THREAD, .pid = 1, .tid = 1, .value = NATIVE_THREADS},
	    {.type = NATIVE_MESSAGE_FORK, .pid = 1, .tid = 1, .value = 0},
	    {.type = NATIVE_MESSAGE_FORK, .pid = 1, .tid = 1, .value = UINT64_C(1) << 31},
	    {.type = NATIVE_MESSAGE_MAP, .pid = 1, .tid = 1, .address = UINT64_MAX, .size = 2},
	    {.type = NATIVE_MESSAGE_MAP, .pid = 1, .tid = 1},
	    {.type = NATIVE_MESSAGE_CODE, .pid = 1, .tid = 1, .address = 4096},
	    {.type = NATIVE_MESSAGE_EXITS, .pid = 1, .tid = 1},
	    {.type = NATIVE_MESSAGE_FATAL, .pid = 1, .tid = 1, .value = 65},
	    {.type = NATIVE_MESSAGE_REAPED, .pid = 1, .tid = 1, .value = 65, .address = 2},
	    {.type = NATIVE_MESSAGE_REAPED, .pid = 1, .tid = 1, .value = 6},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const uint32_t answered = shared->answered;

		in->damaged = false;
		forge(&bad[i], sizeof(bad[i]));
		native_messages_drain(in);
		assert_true(in->damaged);
		assert_int_equal(taken, 0);
		assert_true(in->tail == shared->message_head);
		assert_true(shared->message_tail == in->tail);
		/* Who asked does not wait for ever. */
		assert_int_equal(shared->answered,
				 bad[i].type == NATIVE_MESSAGE_MAP ? (uint32_t)in->tail : answered);
	}
}

TEST_WITH(test_sizes_that_make_no_sense_drop_what_was_sent, set_up, tear_down)
{
	struct native_message m = {.type = NATIVE_MESSAGE_NOTE, .pid = 1, .tid = 1};
	static const uint64_t heads[] = {1, sizeof(m) - 1, NATIVE_MESSAGES + 1, UINT64_MAX};

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		in->damaged = false;
		forge(&m, heads[i]);
		native_messages_drain(in);
		assert_true(in->damaged);
		assert_int_equal(taken, 0);
		assert_int_equal(shared->answered, (uint32_t)in->tail);
		assert_true(in->tail == shared->message_head);
	}
	static const uint32_t sizes[] = {9, NATIVE_MESSAGE_MAX + 1, UINT32_MAX - 3, UINT32_MAX};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		in->damaged = false;
		m.bytes = sizes[i];
		forge(&m, sizeof(m) + 8);
		native_messages_drain(in);
		assert_true(in->damaged);
		assert_int_equal(taken, 0);
	}
	/* Reading goes on with what is sent from now on. */
	shared->message_lock = 0;
	m.bytes = 0;
	assert_true(message_send(&context, &m, NULL));
	native_messages_drain(in);
	assert_int_equal(taken, 1);
}

TEST_WITH(test_random_bytes_end, set_up, tear_down)
{
	uint8_t *ring = (uint8_t *)shared + NATIVE_HEADER_BYTES;
	uint64_t random = 1;

	for (size_t i = 0; i < NATIVE_MESSAGES; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		ring[i] = (uint8_t)(random >> 56);
		if (i % sizeof(uint32_t)) /* many small types and sizes */
			ring[i] = 0;
	}
	for (unsigned i = 0; i < 10000; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		shared->message_head = in->tail + (random >> 40);
		while (!native_messages_drain(in))
			;
		assert_true(in->tail == shared->message_head);
	}
}

static void take_slowly(void *unused, const struct native_message *m, const char *payload)
{
	(void)unused;
	(void)payload;
	assert_int_equal(m->value, taken++);
	usleep(5000);
}

/* Who takes long for each message gets a pause from a ring that is full of them. */
TEST_WITH(test_a_flood_does_not_keep_the_recorder, set_up, tear_down)
{
	struct native_message m = {.type = NATIVE_MESSAGE_FORK};
	const unsigned sent = 2000;

	in->take = take_slowly;
	while (m.value < sent) {
		m.value++;
		assert_true(message_send(&context, &m, NULL));
	}
	taken = 1;
	assert_false(native_messages_drain(in));
	assert_true(taken < sent / 10); /* 50 ms of 10 s */
	assert_int_equal(shared->message_tail, (taken - 1) * sizeof(m));
	in->take = take;
	while (!native_messages_drain(in))
		;
	assert_int_equal(taken, sent + 1);
	assert_int_equal(last.value, sent);
}
