/* SPDX-License-Identifier: MIT */
/* The logs of a thread: what is written arrives in order and whole, whatever the recorder does. */
#include "record/native/runtime/runtime.h"

#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static struct native_header *shared;
static struct runtime runtime;
static struct context context;

/* messages.c has a test of its own. */
bool recorder_is_alive(const struct context *c)
{
	assert_ptr_equal(c, &context);
	return __atomic_load_n(&shared->recorder_alive, __ATOMIC_ACQUIRE);
}

static int set_up(void **unused)
{
	(void)unused;
	shared = mmap(NULL, native_bytes(), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->recorder_alive = 1;
	runtime = (struct runtime){.shared = shared,
				   .flags = NATIVE_TRUTH,
				   .chunks = NATIVE_CHUNKS,
				   .chunk_bytes = NATIVE_CHUNK};
	context = (struct context){.runtime = &runtime};
	context.slot = (struct native_thread *)((uint8_t *)shared + native_slot_at(1));
	context.slot->state = NATIVE_SLOT_ACTIVE;
	return 0;
}

static void begin(void)
{
	assert_true(ring_guard(&context));
	ring_begin(&context);
}

static int tear_down(void **unused)
{
	(void)unused;
	return munmap(shared, native_bytes());
}

static uint8_t *chunk(unsigned log, uint64_t n)
{
	return (uint8_t *)context.slot + native_chunk_at(log, n % NATIVE_CHUNKS);
}

/* As the kernel sees it: a store there would fault. */
static bool can_be_written(const uint8_t *at)
{
	int ends[2];
	bool can;

	assert_int_equal(pipe(ends), 0);
	can = write(ends[1], at, 1) == 1;
	assert_true(can || errno == EFAULT);
	close(ends[0]);
	close(ends[1]);
	return can;
}

TEST_WITH(test_each_chunk_ends_at_a_page_without_access, set_up, tear_down)
{
	begin();
	assert_int_equal(context.log, chunk(NATIVE_LOG_TRACE, 0));
	assert_int_equal(context.exits_log, chunk(NATIVE_LOG_EXITS, 0));
	for (unsigned log = 0; log < NATIVE_LOGS; log++)
		for (unsigned n = 0; n < NATIVE_CHUNKS; n++) {
			if (n) /* they get it when they are used */
				assert_true(can_be_written(chunk(log, n) + NATIVE_CHUNK));
			if (n)
				(void)ring_next(&context, log, chunk(log, n - 1) + 8);
			assert_true(can_be_written(chunk(log, n)));
			assert_true(can_be_written(chunk(log, n) + NATIVE_CHUNK - 1));
			assert_false(can_be_written(chunk(log, n) + NATIVE_CHUNK));
		}
	context.log = (uint64_t)context.logs[0].chunk;
	assert_false(ring_is_guard(&context, 0, context.log + NATIVE_CHUNK - 1));
	assert_true(ring_is_guard(&context, 0, context.log + NATIVE_CHUNK));
	assert_true(ring_is_guard(&context, 0, context.log + NATIVE_STRIDE - 1));
	assert_false(ring_is_guard(&context, 0, context.log + NATIVE_STRIDE));
	assert_false(ring_is_guard(&context, 1, context.log + NATIVE_CHUNK));
}

TEST_WITH(test_few_chunks_are_used_in_turn, set_up, tear_down)
{
	runtime.chunks = 3;
	begin();
	for (uint64_t n = 1; n < 10; n++) {
		assert_ptr_equal(ring_next(&context, 0, context.logs[0].chunk + n),
				 chunk(0, n % 3));
		assert_int_equal(context.slot->current[0], n);
		assert_int_equal(context.slot->chunks[0][(n - 1) % 3].length, n);
		context.slot->chunks[0][(n - 1) % 3].state = CHUNK_FREE;
	}
	assert_true(can_be_written(chunk(0, 3) + NATIVE_CHUNK));
	assert_false(can_be_written(chunk(0, 2) + NATIVE_CHUNK));
}

/* As where the process has no more mappings. */
static void refuse_guard(unsigned log, unsigned n)
{
	assert_int_equal(munmap(chunk(log, n) + NATIVE_CHUNK, NATIVE_PAGE), 0);
}

TEST_WITH(test_a_chunk_without_a_guard_page_is_passed_over, set_up, tear_down)
{
	const struct native_chunk *chunks = context.slot->chunks[0];

	begin();
	refuse_guard(0, 1);
	refuse_guard(0, 2);
	assert_ptr_equal(ring_next(&context, 0, chunk(0, 0) + 5), chunk(0, 3));
	assert_int_equal(context.slot->current[0], 3);
	assert_int_equal(chunks[0].length, 5);
	for (unsigned n = 1; n < 3; n++) {
		assert_int_equal(chunks[n].state, CHUNK_FULL);
		assert_int_equal(chunks[n].length, NATIVE_PASSED_OVER);
	}
	assert_int_equal(chunks[3].state, CHUNK_FREE);
}

TEST_WITH(test_of_each_chunk_a_part_is_used, set_up, tear_down)
{
	const uint32_t part = NATIVE_CHUNK / 2;

	runtime.chunk_bytes = part;
	begin();
	for (unsigned n = 0; n < NATIVE_CHUNKS; n++) {
		if (n)
			(void)ring_next(&context, 0, chunk(0, n - 1) + 8);
		assert_true(can_be_written(chunk(0, n) + part - 1));
		assert_false(can_be_written(chunk(0, n) + part));
		assert_true(can_be_written(chunk(0, n) + part + NATIVE_PAGE));
	}
	context.log = (uint64_t)context.logs[0].chunk;
	assert_false(ring_is_guard(&context, 0, context.log + part - 1));
	assert_true(ring_is_guard(&context, 0, context.log + part));
	assert_false(ring_is_guard(&context, 0, context.log + part + NATIVE_PAGE));
}

TEST_WITH(test_what_has_settled_is_what_is_read, set_up, tear_down)
{
	begin();
	(void)ring_next(&context, 0, chunk(0, 0) + 77);
	context.log = (uint64_t)chunk(0, 1) + 5;
	ring_settle(&context);
	assert_int_equal(context.slot->settled, NATIVE_CHUNK + 5);
	ring_pause(&context);
	context.log += 9;
	ring_settle(&context);
	assert_int_equal(context.slot->settled, NATIVE_CHUNK + 5);
	ring_resume(&context);
	context.log += 9;
	ring_settle(&context);
	assert_int_equal(context.slot->settled, 2 * NATIVE_CHUNK + 9);
	context.discards = true;
	context.log += 9;
	ring_settle(&context);
	assert_int_equal(context.slot->settled, 2 * NATIVE_CHUNK + 9);
}

TEST_WITH(test_without_truth_there_is_one_log, set_up, tear_down)
{
	runtime.flags = 0;
	begin();
	assert_int_equal(context.exits_log, 0);
	assert_false(ring_is_guard(&context, NATIVE_LOG_EXITS, NATIVE_CHUNK));
}

TEST_WITH(test_a_chunk_is_published_with_its_length, set_up, tear_down)
{
	const struct native_chunk *chunks = context.slot->chunks[NATIVE_LOG_TRACE];
	uint32_t event;

	begin();
	event = shared->message_event;
	assert_ptr_equal(ring_next(&context, 0, chunk(0, 0) + 77), chunk(0, 1));
	assert_int_equal(chunks[0].state, CHUNK_FULL);
	assert_int_equal(chunks[0].length, 77);
	assert_int_equal(chunks[1].state, CHUNK_FREE);
	assert_int_equal(context.slot->current[0], 1);
	assert_int_equal(context.slot->current[1], 0);
	assert_int_not_equal(shared->message_event, event);

	context.log = (uint64_t)chunk(0, 1) + 5;
	ring_end(&context);
	assert_int_equal(chunks[1].state, CHUNK_FULL);
	assert_int_equal(chunks[1].length, 5);
	/* Nothing is in it. */
	assert_int_equal(context.slot->chunks[NATIVE_LOG_EXITS][0].state, CHUNK_FREE);
	assert_int_equal(context.slot->state, NATIVE_SLOT_ENDED);
}

TEST_WITH(test_the_end_is_where_the_pointer_was_before_it_was_poisoned, set_up, tear_down)
{
	begin();
	context.real_log = context.log + 9;
	context.log = 0x1000;
	context.poisoned = true;
	ring_end(&context);
	assert_int_equal(context.slot->chunks[NATIVE_LOG_TRACE][0].length, 9);
}

/* Behind a stop range, until the thread ends: what it writes is not read, and its log stays. */
TEST_WITH(test_a_log_that_was_stopped_ends_there, set_up, tear_down)
{
	const uint64_t bytes = NATIVE_LONE_BYTES;
	struct native_thread *slot = context.slot;
	uint8_t *at;

	context.unread = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(context.unread, MAP_FAILED);
	begin();
	(void)ring_next(&context, 0, chunk(0, 0) + 50);
	context.exits_log += 4;
	at = ring_stop(&context, chunk(0, 1) + 7);
	assert_ptr_equal(at, (uint8_t *)context.unread + native_chunk_at(0, 0));
	context.log = (uint64_t)at;
	for (unsigned n = 0; n < 3 * NATIVE_CHUNKS; n++)
		context.log = (uint64_t)ring_next(&context, 0, at + 100);
	context.log += 3;
	context.exits_log += 40;
	assert_ptr_equal(ring_stop(&context, at), at); /* another stop range */
	assert_int_equal(slot->state, NATIVE_SLOT_ACTIVE);
	assert_int_equal(slot->paused, NATIVE_STOPPED);

	ring_end(&context);
	assert_int_equal(slot->state, NATIVE_SLOT_ENDED);
	assert_int_equal(slot->current[0], 2);
	assert_int_equal(slot->chunks[0][1].length, 7);
	assert_int_equal(slot->chunks[1][0].length, 4);
	assert_int_equal(slot->chunks[0][2].state, CHUNK_FREE);
	munmap(context.unread, bytes);
}

TEST_WITH(test_nobody_waits_for_a_recorder_that_is_gone, set_up, tear_down)
{
	begin();
	shared->recorder_alive = 0;
	for (unsigned n = 1; n < 3 * NATIVE_CHUNKS; n++)
		assert_ptr_equal(ring_next(&context, 0, context.logs[0].chunk + 1), chunk(0, n));
}

TEST_WITH(test_what_is_written_in_a_pause_is_not_published, set_up, tear_down)
{
	const struct native_chunk *trace = context.slot->chunks[NATIVE_LOG_TRACE];
	const struct native_chunk *exits = context.slot->chunks[NATIVE_LOG_EXITS];

	begin();
	assert_false(context.paused);
	context.log += 5;
	ring_pause(&context);
	assert_true(context.paused && context.slot->paused);
	assert_int_equal(trace[0].state, CHUNK_FULL);
	assert_int_equal(trace[0].length, 5);
	assert_int_equal(context.log, chunk(NATIVE_LOG_TRACE, 1));
	/* Of this log, nothing was written. */
	assert_int_equal(exits[0].state, CHUNK_FREE);
	assert_int_equal(context.exits_log, chunk(NATIVE_LOG_EXITS, 0));
	for (unsigned i = 0; i < 2 * NATIVE_CHUNKS; i++) {
		memset(chunk(NATIVE_LOG_TRACE, 1), 1, NATIVE_CHUNK);
		assert_ptr_equal(ring_next(&context, 0, chunk(0, 1) + 77), chunk(0, 1));
	}
	*chunk(NATIVE_LOG_EXITS, 0) = 1;
	ring_resume(&context);
	assert_false(context.paused || context.slot->paused);
	assert_int_equal(trace[1].state, CHUNK_FREE);
	assert_int_equal(context.log, chunk(NATIVE_LOG_TRACE, 1));
	assert_int_equal(context.exits_log, chunk(NATIVE_LOG_EXITS, 0));
	for (unsigned i = 0; i < NATIVE_CHUNK; i++)
		assert_int_equal(chunk(NATIVE_LOG_TRACE, 1)[i], 0);
	assert_int_equal(*chunk(NATIVE_LOG_EXITS, 0), 0);
}

TEST_WITH(test_a_thread_can_begin_and_end_in_a_pause, set_up, tear_down)
{
	shared->paused = 1;
	begin();
	assert_true(context.paused && context.slot->paused);
	context.log += 5;
	context.exits_log += 4;
	ring_end(&context);
	for (unsigned log = 0; log < NATIVE_LOGS; log++)
		assert_int_equal(context.slot->chunks[log][0].state, CHUNK_FREE);
	assert_int_equal(context.slot->state, NATIVE_SLOT_ENDED);
	/* The slot's next thread begins as the recorder wants it to. */
	shared->paused = 0;
	begin();
	assert_false(context.paused || context.slot->paused);
}

#define ROUNDS (20 * NATIVE_CHUNKS)

static void *read_chunks(void *unused)
{
	(void)unused;
	for (uint64_t n = 0; n < ROUNDS; n++) {
		struct native_chunk *c = &context.slot->chunks[0][n % NATIVE_CHUNKS];

		while (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != CHUNK_FULL)
			sched_yield();
		assert_int_equal(c->length, 8);
		assert_memory_equal(chunk(0, n), &n, 8);
		memset(chunk(0, n), 0, 8);
		__atomic_store_n(&c->state, CHUNK_FREE, __ATOMIC_RELEASE);
	}
	return NULL;
}

TEST_WITH(test_the_program_waits_for_a_slow_recorder, set_up, tear_down)
{
	pthread_t reader;
	uint8_t *at;

	begin();
	at = chunk(0, 0);
	assert_int_equal(pthread_create(&reader, NULL, read_chunks, NULL), 0);
	for (uint64_t n = 0; n < ROUNDS; n++) {
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(at[i], 0); /* as the recorder has left it */
		memcpy(at, &n, 8);
		at = ring_next(&context, 0, at + 8);
	}
	assert_int_equal(pthread_join(reader, NULL), 0);
}
