/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the logs, against the runtime's (ring.c), which writes into the same
 * memory; and what a program can do to it that is not the runtime.
 */
#include "record/native/streams.h"

#include "record/native/runtime/runtime.h"

#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SLOT 3

static struct native_header *shared;
static struct runtime runtime;
static struct context context;
static struct native_streams *streams;
static void (*goes_on)(void); /* what the thread does while its last trace is taken */

/* What has arrived of each log. */
static struct arrived {
	uint8_t *bytes;
	size_t n, room;
} arrived[NATIVE_LOGS];

bool recorder_is_alive(const struct context *c)
{
	(void)c;
	return __atomic_load_n(&shared->recorder_alive, __ATOMIC_ACQUIRE);
}

static void take(void *unused, const struct native_stream *s, unsigned log, const uint8_t *bytes,
		 size_t n)
{
	struct arrived *a = &arrived[log];

	(void)unused;
	assert_true(n > 0 && n <= NATIVE_CHUNK);
	assert_int_equal(s->pid, 11);
	assert_int_equal(s->tid, 12);
	assert_int_equal(s->stream, 5);
	if (a->n + n > a->room) {
		a->room = 2 * (a->n + n);
		a->bytes = realloc(a->bytes, a->room);
		assert_non_null(a->bytes);
	}
	memcpy(a->bytes + a->n, bytes, n);
	a->n += n;
	if (log == NATIVE_LOG_TRACE && goes_on)
		goes_on();
}

static struct native_thread *thread_at(unsigned slot)
{
	return (struct native_thread *)(void *)((uint8_t *)shared + native_slot_at(slot));
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
	context = (struct context){.runtime = &runtime, .slot = thread_at(SLOT)};
	context.slot->state = NATIVE_SLOT_ACTIVE;
	streams = calloc(1, sizeof(*streams));
	assert_non_null(streams);
	streams->memory = (uint8_t *)shared;
	streams->slots = NATIVE_THREADS;
	streams->flags = NATIVE_TRUTH;
	streams->chunks = NATIVE_CHUNKS;
	streams->chunk_bytes = NATIVE_CHUNK;
	streams->take = take;
	memset(arrived, 0, sizeof(arrived));
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	free(streams);
	for (unsigned log = 0; log < NATIVE_LOGS; log++)
		free(arrived[log].bytes);
	return munmap(shared, native_bytes());
}

static void drain(void)
{
	unsigned most = STREAMS_ALL;

	assert_false(streams_drain(streams, SLOT, &most));
}

static void begin(void)
{
	assert_true(streams_begin(streams, SLOT, 11, 12, 5));
	ring_begin(&context);
}

/* A TIP whose address ends with zeros; the number of its bytes. It is stored in its order. */
static size_t put_tip(volatile uint8_t *at, uint64_t ip)
{
	*at = 0x6d;
	for (unsigned i = 0; i < 6; i++)
		at[1 + i] = (uint8_t)(ip >> 8 * i);
	return 7;
}

/* Writes n packets, of one byte (TNT) and of seven, and a number for each; counts from `first`. */
static void write_packets(uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++) {
		volatile uint8_t *at = (volatile uint8_t *)context.log;
		uint8_t *end = context.logs[NATIVE_LOG_TRACE].chunk + runtime.chunk_bytes;
		uint32_t *number = (uint32_t *)context.exits_log;

		if (end - (uint8_t *)context.log < 8)
			at = ring_next(&context, NATIVE_LOG_TRACE, (uint8_t *)context.log);
		if (i % 3) {
			*at = (uint8_t)(4 | (i & 1) << 1);
			context.log = (uint64_t)(at + 1);
		} else {
			context.log = (uint64_t)(at + put_tip(at, (uint64_t)i << 12));
		}
		if (!runtime.flags)
			continue;
		if ((uint8_t *)number == context.logs[NATIVE_LOG_EXITS].chunk + NATIVE_CHUNK)
			number = (uint32_t *)(void *)ring_next(&context, NATIVE_LOG_EXITS,
							       (uint8_t *)number);
		*number = i;
		context.exits_log = (uint64_t)(number + 1);
	}
}

/* Everything up to the n-th packet has arrived, in order. */
static void expect_packets(uint32_t n)
{
	size_t at = 0;

	for (uint32_t i = 1; i <= n; i++) {
		uint8_t packet[7];
		size_t size = 1;
		uint32_t number;

		if (i % 3)
			packet[0] = (uint8_t)(4 | (i & 1) << 1);
		else
			size = put_tip(packet, (uint64_t)i << 12);
		assert_true(at + size <= arrived[NATIVE_LOG_TRACE].n);
		assert_memory_equal(arrived[NATIVE_LOG_TRACE].bytes + at, packet, size);
		at += size;
		if (!runtime.flags)
			continue;
		assert_true(i * sizeof(number) <= arrived[NATIVE_LOG_EXITS].n);
		memcpy(&number, arrived[NATIVE_LOG_EXITS].bytes + (i - 1) * sizeof(number),
		       sizeof(number));
		assert_int_equal(number, i);
	}
	assert_int_equal(arrived[NATIVE_LOG_TRACE].n, at);
	assert_int_equal(arrived[NATIVE_LOG_EXITS].n, runtime.flags ? n * sizeof(uint32_t) : 0);
}

static void expect_free(void)
{
	const uint8_t *chunk = (uint8_t *)thread_at(SLOT) + native_chunk_at(NATIVE_LOG_TRACE, 0);

	assert_int_equal(thread_at(SLOT)->state, NATIVE_SLOT_FREE);
	assert_false(streams->list[SLOT].used);
	for (unsigned log = 0; log < NATIVE_LOGS; log++) {
		assert_int_equal(thread_at(SLOT)->current[log], 0);
		for (unsigned i = 0; i < NATIVE_CHUNKS; i++)
			assert_int_equal(thread_at(SLOT)->chunks[log][i].state, CHUNK_FREE);
	}
	for (size_t i = 0; i < NATIVE_CHUNK; i++)
		assert_int_equal(chunk[i], 0);
}

TEST_WITH(test_a_thread_that_ends_is_taken_whole, set_up, tear_down)
{
	const uint32_t part = 50000; /* more than a chunk, less than all chunks */

	begin();
	for (uint32_t i = 0; i < 40; i++) {
		write_packets(1 + i * part, part);
		drain();
		assert_false(streams_has_ended(streams, SLOT));
	}
	ring_end(&context);
	assert_true(streams_has_ended(streams, SLOT));
	streams_finish(streams, SLOT, false);
	expect_packets(40 * part);
	assert_false(streams->damaged);
	expect_free();
	/* The slot can be used again. */
	assert_true(streams_begin(streams, SLOT, 11, 12, 5));
}

static void *write_alone(void *count)
{
	write_packets(1, *(uint32_t *)count);
	ring_end(&context);
	return NULL;
}

TEST_WITH(test_a_thread_that_is_faster_waits_and_loses_nothing, set_up, tear_down)
{
	uint32_t count = 4000000; /* 12 MB of packets: three times round */
	pthread_t writer;

	begin();
	assert_int_equal(pthread_create(&writer, NULL, write_alone, &count), 0);
	while (!streams_has_ended(streams, SLOT))
		drain();
	pthread_join(writer, NULL);
	streams_finish(streams, SLOT, false);
	expect_packets(count);
	assert_false(streams->damaged);
}

/* The last packet of 3 n ends with zeros, which are its own; other ends are TNTs. */
TEST_WITH(test_of_a_killed_thread_all_whole_packets_are_taken, set_up, tear_down)
{
	for (uint32_t n = 1; n < 8; n++) {
		begin();
		write_packets(1, n);
		streams_finish(streams, SLOT, false);
		expect_packets(n);
		assert_false(streams->damaged);
		expect_free();
		context.slot->state = NATIVE_SLOT_ACTIVE;
		arrived[NATIVE_LOG_TRACE].n = arrived[NATIVE_LOG_EXITS].n = 0;
	}
}

/* Where tracing was disabled last, nothing is missing. */
TEST_WITH(test_of_a_thread_killed_in_a_system_call_nothing_is_missing, set_up, tear_down)
{
	for (unsigned disabled = 0; disabled < 2; disabled++) {
		begin();
		write_packets(1, 6);
		*(uint8_t *)context.log = disabled ? 0x01 : 0x06; /* TIP.PGD without an IP, a TNT */
		streams_finish(streams, SLOT, false);
		assert_int_equal(streams->list[SLOT].closed, disabled);
		context.slot->state = NATIVE_SLOT_ACTIVE;
		arrived[NATIVE_LOG_TRACE].n = arrived[NATIVE_LOG_EXITS].n = 0;
	}
}

/* Nothing is taken that may still be stored, and the slot is not another thread's. */
TEST_WITH(test_of_a_thread_that_runs_on_whole_packets_are_taken, set_up, tear_down)
{
	static const uint8_t hole[] = {0, 0, 6}; /* of a store, the second half is seen first */

	for (unsigned i = 0; i < 3; i++) {
		if (i)
			assert_int_equal(tear_down(state) + set_up(state), 0);
		begin();
		write_packets(1, 5);
		if (i == 0) /* its last four bytes are 0, or not stored yet */
			put_tip((uint8_t *)context.log, 0x7f12);
		else if (i == 1)
			memcpy((uint8_t *)context.log, hole, sizeof(hole));
		streams_finish(streams, SLOT, true);
		expect_packets(5);
		assert_false(streams->damaged);
		assert_false(streams->list[SLOT].used);
		assert_int_equal(context.slot->state, NATIVE_SLOT_ACTIVE);
	}
}

/* Comes back from its system call, runs, and begins the next one. */
static void run_on(void)
{
	uint8_t *at;

	write_packets(101, 3);
	at = (uint8_t *)context.log;
	at[0] = 1; /* TIP.PGD without an address */
	context.log++;
}

/* It goes on to another chunk of either log, up to its very beginning. */
static void change_trace(void)
{
	ring_next(&context, NATIVE_LOG_TRACE, (const uint8_t *)context.log);
}

static void change_exits(void)
{
	ring_next(&context, NATIVE_LOG_EXITS, (const uint8_t *)context.exits_log);
}

TEST_WITH(test_a_thread_that_runs_on_while_it_is_taken_is_not_closed, set_up, tear_down)
{
	static void (*const steps[])(void) = {NULL, run_on, change_trace, change_exits};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (i)
			assert_int_equal(tear_down(state) + set_up(state), 0);
		begin();
		write_packets(1, 100);
		*(uint8_t *)context.log++ = 1; /* TIP.PGD without an address */
		goes_on = steps[i];
		streams_finish(streams, SLOT, false);
		goes_on = NULL;
		assert_int_equal(streams->list[SLOT].closed, !steps[i]);
	}
}

static void pause_and_run(void)
{
	goes_on = NULL;
	ring_pause(&context);
	run_on();
}

TEST_WITH(test_a_thread_that_pauses_while_it_is_taken_ends_there, set_up, tear_down)
{
	uint32_t n = 0;

	begin();
	while (context.logs[NATIVE_LOG_TRACE].number < 2)
		write_packets(++n, 1);
	goes_on = pause_and_run;
	streams_finish(streams, SLOT, true);
	expect_packets(n);
	assert_true(streams->list[SLOT].closed);
	assert_false(streams->damaged);
}

TEST_WITH(test_a_chunk_that_was_passed_over_has_nothing, set_up, tear_down)
{
	uint8_t *chunk = (uint8_t *)thread_at(SLOT) + native_chunk_at(NATIVE_LOG_TRACE, 1);
	uint32_t n = 0;

	assert_int_equal(munmap(chunk + NATIVE_CHUNK, NATIVE_PAGE),
			 0); /* no guard page can be there */
	begin();
	while (context.logs[NATIVE_LOG_TRACE].number < 3) {
		write_packets(++n, 1);
		if (n % 1000 == 0)
			drain();
	}
	ring_end(&context);
	/* In the recorder it is there. */
	assert_ptr_equal(mmap(chunk + NATIVE_CHUNK, NATIVE_PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 chunk + NATIVE_CHUNK);
	streams_finish(streams, SLOT, false);
	expect_packets(n);
	assert_false(streams->damaged);
}

/* As one in a system call, when its process is let go. It goes on writing, and ends. */
TEST_WITH(test_a_thread_that_ends_after_it_was_taken_has_damaged_nothing, set_up, tear_down)
{
	begin();
	write_packets(1, 5);
	streams_finish(streams, SLOT, true);
	expect_packets(5);
	write_packets(6, 2 * NATIVE_CHUNK);
	ring_end(&context);
	assert_true(streams_has_ended(streams, SLOT));
	streams_give_up(streams, SLOT);
	assert_false(streams->damaged);
	expect_free();
	/* A thread that nobody has reported has not ended: a program has written it. */
	streams_give_up(streams, SLOT);
	assert_true(streams->damaged);
}

TEST_WITH(test_a_part_of_a_packet_at_the_end_is_left_out, set_up, tear_down)
{
	struct native_chunk *chunk = &thread_at(SLOT)->chunks[NATIVE_LOG_TRACE][0];

	begin();
	write_packets(1, 6);
	for (size_t cut = 1; cut < 7; cut++) {
		streams->list[SLOT].next[NATIVE_LOG_TRACE] = 0;
		arrived[NATIVE_LOG_TRACE].n = 0;
		put_tip((uint8_t *)context.log, UINT64_C(0x123456789abc));
		chunk->length = (uint32_t)(context.log - (uint64_t)context.logs[0].chunk + cut);
		chunk->state = CHUNK_FULL;
		/* give_back() clears the chunk: as it was for the next round */
		uint8_t *bytes = malloc(NATIVE_CHUNK);
		assert_non_null(bytes);
		memcpy(bytes, context.logs[0].chunk, NATIVE_CHUNK);
		drain();
		memcpy(context.logs[0].chunk, bytes, NATIVE_CHUNK);
		free(bytes);
		assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 4 + 2 * 7);
		assert_true(streams->damaged);
	}
}

static void mark_full(unsigned log, unsigned chunk, uint32_t length)
{
	thread_at(SLOT)->chunks[log][chunk] = (struct native_chunk){CHUNK_FULL, length};
}

/* A program marks chunks that the runtime has not filled. */
TEST_WITH(test_chunks_that_are_not_full_are_noticed, set_up, tear_down)
{
	for (unsigned i = 0; i < 6; i++) {
		if (i)
			assert_int_equal(tear_down(state) + set_up(state), 0);
		begin();
		write_packets(1, 90);
		switch (i) {
		case 0: /* the one that is written, to its end, which has not been written */
			mark_full(NATIVE_LOG_TRACE, 0, NATIVE_CHUNK);
			break;
		case 1:
			mark_full(NATIVE_LOG_EXITS, 0, NATIVE_CHUNK);
			break;
		case 2:
			mark_full(NATIVE_LOG_TRACE, 0, 0);
			break;
		case 3: /* what is in it is right, and it is written on */
			mark_full(NATIVE_LOG_TRACE, 0, (uint32_t)(30 * 9));
			drain();
			assert_false(streams->damaged);
			write_packets(91, 3);
			break;
		case 4: /* one that the thread has not come to */
			memset((uint8_t *)thread_at(SLOT) + native_chunk_at(NATIVE_LOG_TRACE, 1), 6,
			       100);
			mark_full(NATIVE_LOG_TRACE, 1, 100);
			break;
		default:
			break;
		}
		drain();
		ring_end(&context);
		streams_finish(streams, SLOT, false);
		assert_int_equal(streams->damaged, i < 5);
	}
}

TEST_WITH(test_numbers_that_make_no_sense_do_no_harm, set_up, tear_down)
{
	struct native_thread *t = thread_at(SLOT);
	uint64_t random = 1;

	assert_false(streams_begin(streams, NATIVE_THREADS, 11, 12, 5));
	assert_false(streams_begin(streams, UINT64_MAX, 11, 12, 5));
	assert_true(streams->damaged);
	begin();
	assert_false(streams_begin(streams, SLOT, 11, 12, 5));

	/* A length beyond the chunk. */
	streams->damaged = false;
	t->chunks[NATIVE_LOG_TRACE][0] = (struct native_chunk){CHUNK_FULL, NATIVE_CHUNK + 1};
	drain();
	assert_true(streams->damaged);
	assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 0);

	/* Everything random: it comes to an end, and what arrives is in whole packets. */
	for (unsigned round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(*t); i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			((uint8_t *)t)[i] = (uint8_t)(random >> 56);
		}
		for (unsigned log = 0; log < NATIVE_LOGS; log++)
			for (unsigned n = 0; n < NATIVE_CHUNKS; n++) {
				t->chunks[log][n].state = random >> (n & 31) & 1;
				t->chunks[log][n].length %= 2 * NATIVE_CHUNK;
				memset((uint8_t *)t + native_chunk_at(log, n),
				       (int)(random >> n & 255), 4096);
			}
		drain();
		streams_finish(streams, SLOT, false);
		assert_int_equal(t->state, NATIVE_SLOT_FREE);
		assert_true(streams_begin(streams, SLOT, 11, 12, 5));
	}
}

/* It is in a system call, and what it has written before has arrived. */
TEST_WITH(test_what_a_waiting_thread_has_written_is_taken_once, set_up, tear_down)
{
	begin();
	write_packets(1, 10);
	drain();
	assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 0);
	streams_take_written(streams, SLOT);
	expect_packets(10);
	streams_take_written(streams, SLOT);
	expect_packets(10);
	write_packets(11, 2 * NATIVE_CHUNK);
	drain();
	streams_take_written(streams, SLOT);
	expect_packets(10 + 2 * NATIVE_CHUNK);
	write_packets(11 + 2 * NATIVE_CHUNK, 5);
	ring_end(&context);
	streams_finish(streams, SLOT, false);
	expect_packets(15 + 2 * NATIVE_CHUNK);
	assert_false(streams->damaged);
}

/* As above, and the recording ends: the zeros that its last packet ends with are not missing. */
TEST_WITH(test_a_waiting_thread_that_is_taken_as_running_has_damaged_nothing, set_up, tear_down)
{
	begin();
	write_packets(1, 9);
	streams_take_written(streams, SLOT);
	streams_finish(streams, SLOT, true);
	expect_packets(9);
	assert_false(streams->damaged);
}

TEST_WITH(test_a_thread_that_is_killed_in_a_pause_ends_where_the_pause_began, set_up, tear_down)
{
	begin();
	write_packets(1, 10);
	assert_false(streams_has_paused(streams, SLOT));
	ring_pause(&context);
	assert_true(streams_has_paused(streams, SLOT));
	write_packets(1000, 3);
	streams_take_written(streams, SLOT);
	streams_finish(streams, SLOT, false);
	expect_packets(10);
	assert_true(streams->list[SLOT].closed);
	assert_false(streams->damaged);
	assert_int_equal(thread_at(SLOT)->paused, 0);
	/* Nothing of it is left for the slot's next thread. */
	context.slot->state = NATIVE_SLOT_ACTIVE;
	begin();
	write_packets(11, 10);
	streams_finish(streams, SLOT, false);
	expect_packets(20);
}

TEST_WITH(test_a_thread_goes_on_after_a_pause, set_up, tear_down)
{
	begin();
	write_packets(1, 10);
	ring_pause(&context);
	write_packets(1000, 2 * NATIVE_CHUNK);
	ring_resume(&context);
	write_packets(11, 10);
	/* It is killed. */
	streams_finish(streams, SLOT, false);
	expect_packets(20);
	assert_false(streams->list[SLOT].closed);
	assert_false(streams->damaged);
}

/* Without a log of exits, where slots are smaller. */
static void begin_without_truth(void)
{
	runtime.flags = streams->flags = 0;
	context.slot = thread_at(SLOT);
	context.slot->state = NATIVE_SLOT_ACTIVE;
	begin();
}

TEST_WITH(test_what_has_settled_is_taken_before_the_chunk_is_full, set_up, tear_down)
{
	begin();
	write_packets(1, 10);
	ring_settle(&context);
	write_packets(11, 5); /* with a log of exits, this is not taken */
	for (unsigned i = 0; i < 2; i++) {
		streams_take_early(streams, SLOT);
		assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 7 + 3 * 7);
		assert_int_equal(arrived[NATIVE_LOG_EXITS].n, 0);
	}
	write_packets(16, 2 * NATIVE_CHUNK);
	drain();
	ring_settle(&context);
	streams_take_early(streams, SLOT);
	write_packets(16 + 2 * NATIVE_CHUNK, 5);
	ring_end(&context);
	streams_take_early(streams, SLOT);
	streams_finish(streams, SLOT, false);
	expect_packets(20 + 2 * NATIVE_CHUNK);
	assert_false(streams->damaged);
}

/* The last packet is one that may be stored in part. */
TEST_WITH(test_of_a_thread_that_runs_all_but_the_last_packet_is_taken, set_up, tear_down)
{
	begin_without_truth();
	for (uint32_t n = 1; n < 40; n++) {
		write_packets(n, 1);
		streams_take_early(streams, SLOT);
		expect_packets(n - 1);
	}
	ring_settle(&context);
	streams_take_early(streams, SLOT);
	expect_packets(39);
	/* A PSB, byte by byte; the other half of a store is seen before the first one is. */
	for (unsigned i = 0; i < 16; i++) {
		((uint8_t *)context.log)[i] = i & 1 ? 0x82 : 0x02;
		streams_take_early(streams, SLOT);
		expect_packets(39);
	}
	memset((uint8_t *)context.log, 0, 16);
	((uint8_t *)context.log)[2] = ((uint8_t *)context.log)[3] = 4;
	streams_take_early(streams, SLOT);
	expect_packets(39);
	assert_false(streams->damaged);
}

/* An exit has stored packets at the end of a chunk, and stores them in the next one again. */
TEST_WITH(test_what_is_stored_again_in_the_next_chunk_is_not_taken_twice, set_up, tear_down)
{
	uint32_t n = 0;

	begin_without_truth();
	while ((uint8_t *)context.log < context.logs[0].chunk + NATIVE_CHUNK - 40)
		write_packets(++n, 1);
	for (uint8_t *at = (uint8_t *)context.log; at < context.logs[0].chunk + NATIVE_CHUNK; at++)
		*at = 6;
	streams_take_early(streams, SLOT);
	assert_true(arrived[NATIVE_LOG_TRACE].n > NATIVE_CHUNK - 300);
	context.log = (uint64_t)ring_next(&context, NATIVE_LOG_TRACE, (uint8_t *)context.log);
	write_packets(n + 1, 10);
	ring_settle(&context);
	drain();
	streams_take_early(streams, SLOT);
	expect_packets(n + 10);
	assert_false(streams->damaged);
}

TEST_WITH(test_what_is_discarded_in_a_pause_is_not_taken_early, set_up, tear_down)
{
	begin_without_truth();
	ring_pause(&context);
	write_packets(1000, 30);
	ring_settle(&context);
	streams_take_early(streams, SLOT);
	assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 0);
	assert_int_equal(streams_look(streams, SLOT), 0);
	ring_resume(&context);
	streams_take_early(streams, SLOT);
	assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 0);
	write_packets(1, 30);
	ring_settle(&context);
	streams_take_early(streams, SLOT);
	expect_packets(30);
}

#define PARTS 100u
#define PART  9000u /* packets: some more than a third of a chunk */
static unsigned looks;

/* Writes on when it has been looked at. */
static void *write_in_parts(void *unused)
{
	for (unsigned i = 0; i < PARTS; i++) {
		const unsigned before = __atomic_load_n(&looks, __ATOMIC_ACQUIRE);

		write_packets(1 + i * PART, PART);
		while (__atomic_load_n(&looks, __ATOMIC_ACQUIRE) == before)
			sched_yield();
	}
	ring_end(&context);
	return unused;
}

TEST_WITH(test_a_thread_that_writes_is_taken_early_and_whole, set_up, tear_down)
{
	unsigned most = 1, early = 0;
	pthread_t writer;

	runtime.chunks = streams->chunks = 2;
	runtime.chunk_bytes = streams->chunk_bytes = NATIVE_CHUNK / 2;
	begin_without_truth();
	assert_int_equal(pthread_create(&writer, NULL, write_in_parts, NULL), 0);
	while (!streams_has_ended(streams, SLOT)) {
		const size_t before = arrived[NATIVE_LOG_TRACE].n;

		streams_take_early(streams, SLOT);
		early += arrived[NATIVE_LOG_TRACE].n != before;
		__atomic_fetch_add(&looks, 1, __ATOMIC_RELEASE);
		most = 1;
		streams_drain(streams, SLOT, &most);
	}
	pthread_join(writer, NULL);
	streams_finish(streams, SLOT, false);
	assert_true(early > PARTS / 2);
	expect_packets(PARTS * PART);
	assert_false(streams->damaged);
}

TEST_WITH(test_no_more_chunks_are_taken_than_wanted, set_up, tear_down)
{
	unsigned most = 2;

	begin();
	while (context.logs[NATIVE_LOG_TRACE].number < 3)
		write_packets(1, 1);
	assert_true(streams_has_more(streams, SLOT));
	assert_true(streams_drain(streams, SLOT, &most));
	assert_int_equal(most, 0);
	assert_int_equal(streams->list[SLOT].next[NATIVE_LOG_TRACE], 2);
	assert_true(streams_drain(streams, SLOT, &most));
	assert_int_equal(streams->list[SLOT].next[NATIVE_LOG_TRACE], 2);
	most = 5;
	assert_false(streams_drain(streams, SLOT, &most));
	assert_int_equal(most, 4);
	assert_false(streams_has_more(streams, SLOT));
}

/* Its thread would wait for ever for the message that the damage has swallowed. */
TEST_WITH(test_chunks_of_a_thread_that_nobody_reported, set_up, tear_down)
{
	struct native_chunk *chunk = &thread_at(SLOT)->chunks[NATIVE_LOG_TRACE][0];

	chunk->state = CHUNK_FULL;
	drain();
	assert_int_equal(chunk->state, CHUNK_FULL); /* its message may still come */
	streams->damaged = true;
	drain();
	assert_int_equal(chunk->state, CHUNK_FREE);
	assert_int_equal(arrived[NATIVE_LOG_TRACE].n, 0);
}
