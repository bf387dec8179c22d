/* SPDX-License-Identifier: MIT */
/*
 * Reads rings that a thread writes in the kernel's place: it writes bytes first, then publishes the
 * head with release, never passes the tail in full-trace mode, and overwrites in overwrite mode
 * (perf_event_open(2), "MMAP layout"). Every byte that it writes, and every byte that it has to
 * drop, is known.
 */
#include "test.h"

#include "record/perf_event/ring.h"

#include <ptah/base.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DATA   4096u
#define AUX    4096u
#define ROUNDS 300u /* times round the buffer, however often the reader is late */

struct kernel {
	struct perf_event_mmap_page page;
	uint8_t data[DATA];
	uint8_t aux[AUX];
	uint64_t data_head, written; /* all of the trace so far */
	struct ptah_record_losses losses;
	atomic_bool done;
	unsigned seed;
};

static unsigned draw(struct kernel *k)
{
	return (k->seed = k->seed * 1103515245u + 12345u) >> 16 & 0x7fff;
}

/* The byte of the trace at an offset: no two rounds of the buffer are equal. */
static uint8_t pattern(uint64_t at)
{
	return (uint8_t)((at ^ at >> 8 ^ at >> 12 ^ at >> 20) * 167 + 13);
}

/* Like perf_output_begin(): false when the ring is full. */
static bool put_record(struct kernel *k, const void *bytes, size_t size)
{
	uint64_t tail = __atomic_load_n(&k->page.data_tail, __ATOMIC_ACQUIRE);

	if (k->data_head + size - tail > DATA)
		return false;
	for (size_t i = 0; i < size; i++)
		k->data[(k->data_head + i) % DATA] = ((const uint8_t *)bytes)[i];
	k->data_head += size;
	__atomic_store_n(&k->page.data_head, k->data_head, __ATOMIC_RELEASE);
	return true;
}

static void put_words(struct kernel *k, uint32_t type, unsigned n, uint64_t a, uint64_t b,
		      uint64_t c)
{
	const uint64_t record[4] = {type | (uint64_t)(8 + 8 * n) << 48, a, b, c};

	while (!put_record(k, record, 8 + 8 * n))
		sched_yield();
}

/* Writes PERF_RECORD_AUX with flags, and counts the losses as perf_event.h describes them. */
static void put_aux(struct kernel *k, uint64_t at, uint64_t size, uint64_t flags)
{
	k->losses.truncated += flags & 1;
	k->losses.partial += flags >> 2 & 1;
	k->losses.collisions += flags >> 3 & 1;
	put_words(k, 11, 3, at, size, flags);
}

static void write_trace(struct kernel *k, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		k->aux[(k->written + i) % AUX] = pattern(k->written + i);
	k->written += size;
}

static void *produce(void *context)
{
	struct kernel *k = context;

	while (k->written < (uint64_t)ROUNDS * AUX) {
		uint64_t tail = __atomic_load_n(&k->page.aux_tail, __ATOMIC_ACQUIRE);
		uint64_t wanted = draw(k) % 800 + 1, space = AUX - (k->written - tail);
		uint64_t size = wanted < space ? wanted : space, at = k->written;

		write_trace(k, size);
		__atomic_store_n(&k->page.aux_head, k->written, __ATOMIC_RELEASE);
		put_aux(k, at, size, (size < wanted) | (uint64_t)(draw(k) % 8) << 1);
		if (draw(k) % 50 == 0) {
			put_words(k, 2, 2, 1, 5, 0); /* LOST: id 1, five records */
			k->losses.lost_records += 5;
		}
		if (draw(k) % 50 == 0) {
			put_words(k, 13, 1, 7, 0, 0); /* LOST_SAMPLES: seven */
			k->losses.lost_records += 7;
		}
		if (size < wanted)
			sched_yield();
	}
	atomic_store(&k->done, true);
	return NULL;
}

struct consumer {
	uint64_t records, bytes, next_aux;
};

static int take(void *context, const uint8_t *record, size_t size)
{
	struct consumer *c = context;
	uint64_t words[4];

	assert_true(size >= 8 && size <= 32);
	memcpy(words, record, size);
	if ((uint32_t)words[0] == 11) {
		/* Records arrive in the order in which they were written, and none is missing. */
		assert_int_equal(words[1], c->next_aux);
		c->next_aux = words[1] + words[2];
	}
	c->records++;
	c->bytes += size;
	return 0;
}

static struct kernel *new_kernel(unsigned seed)
{
	struct kernel *k = calloc(1, sizeof(*k));

	assert_non_null(k);
	k->seed = seed;
	return k;
}

static void check_trace(const struct ring_trace *trace, uint64_t offset)
{
	assert_int_equal(trace->offset, offset);
	for (size_t i = 0; i < trace->size; i++)
		if (trace->bytes[i] != pattern(offset + i))
			fail_msg("byte %zu of the piece at %llu", i, (unsigned long long)offset);
}

static void equal_losses(const struct ptah_record_losses *a, const struct ptah_record_losses *b)
{
	assert_int_equal(a->truncated, b->truncated);
	assert_int_equal(a->overwritten, b->overwritten);
	assert_int_equal(a->partial, b->partial);
	assert_int_equal(a->collisions, b->collisions);
	assert_int_equal(a->lost_records, b->lost_records);
}

TEST(a_racing_kernel)
{
	struct kernel *k = new_kernel(1);
	struct consumer c = {0};
	struct ring ring;
	struct ring_trace trace;
	uint64_t got = 0;
	pthread_t thread;
	bool done;

	assert_int_equal(ring_init(&ring, &k->page, k->data, DATA, k->aux, AUX, false), 0);
	assert_int_equal(pthread_create(&thread, NULL, produce, k), 0);
	do {
		done = atomic_load(&k->done);
		assert_int_equal(ring_read_records(&ring, take, &c), 0);
		if (ring_read_trace(&ring, &trace)) {
			check_trace(&trace, got);
			got += trace.size;
		}
	} while (!done);
	pthread_join(thread, NULL);
	assert_int_equal(ring_read_records(&ring, take, &c), 0);
	assert_false(ring_read_trace(&ring, &trace));
	assert_int_equal(got, k->written);
	assert_true(got >= (uint64_t)ROUNDS * AUX);
	assert_int_equal(c.next_aux, k->written);
	assert_int_equal(ring.records, k->data_head);
	assert_true(k->losses.partial && k->losses.lost_records);
	assert_int_equal(ring.cut, k->losses.truncated != 0);
	equal_losses(&ring.losses, &k->losses);
	ring_fini(&ring);
	free(k);
}

/* The event is off while a snapshot is taken: `turn` says whose turn it is. */
struct relay {
	struct kernel *k;
	atomic_uint turn; /* even: the kernel's turn; odd: the reader's */
	uint64_t sizes[8];
};

static void *produce_snapshots(void *context)
{
	struct relay *relay = context;

	for (unsigned i = 0; i < 8; i++) {
		while (atomic_load(&relay->turn) != 2 * i)
			sched_yield();
		for (uint64_t left = relay->sizes[i]; left;) {
			uint64_t size = left < 100 ? left : 100;

			write_trace(relay->k, size);
			/* The place in the buffer: the number of rounds is not published. */
			__atomic_store_n(&relay->k->page.aux_head, relay->k->written % AUX,
					 __ATOMIC_RELEASE);
			left -= size;
		}
		atomic_store(&relay->turn, 2 * i + 1);
	}
	return NULL;
}

/* Snapshots have what was written, as far as it fits into the buffer. */
TEST(snapshots_of_a_buffer_that_goes_round)
{
	struct relay relay = {
	    .k = new_kernel(2),
	    .sizes = {1000, 0, 3096, 5, AUX, 3 * AUX + 700, AUX - 1, 10},
	};
	uint64_t written = 0, overwritten = 0, offset = 0;
	struct ring ring;
	struct ring_trace trace;
	pthread_t thread;

	assert_int_equal(
	    ring_init(&ring, &relay.k->page, relay.k->data, DATA, relay.k->aux, AUX, true), 0);
	assert_int_equal(pthread_create(&thread, NULL, produce_snapshots, &relay), 0);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t n = relay.sizes[i], kept = n < AUX ? n : AUX;

		while (atomic_load(&relay.turn) != 2 * i + 1)
			sched_yield();
		written += n;
		assert_int_equal(ring_read_snapshot(&ring, &trace), n != 0);
		if (n) {
			assert_int_equal(trace.size, kept);
			/* Its bytes are the last ones written. */
			for (size_t b = 0; b < trace.size; b++)
				assert_int_equal(trace.bytes[b], pattern(written - kept + b));
			/*
			 * The number of rounds is unknown: only the part of a round is counted as
			 * lost.
			 */
			overwritten += n > AUX ? n % AUX : 0;
			offset += n > AUX ? n % AUX : 0;
			assert_int_equal(trace.offset, offset);
			offset += kept;
		}
		assert_int_equal(ring.losses.overwritten, overwritten);
		atomic_store(&relay.turn, 2 * i + 2);
	}
	pthread_join(thread, NULL);
	assert_false(ring_read_snapshot(&ring, &trace));
	ring_fini(&ring);
	free(relay.k);
}

static int count(void *context, const uint8_t *record, size_t size)
{
	(void)record;
	*(size_t *)context += size;
	return 0;
}

static int refuse(void *context, const uint8_t *record, size_t size)
{
	(void)record;
	(void)size;
	return --*(int *)context ? 0 : PTAH_E_NOSPACE;
}

#define LINUX_PAGES 4
#define LINUX_AUX   (LINUX_PAGES * 4096u)

/*
 * Where Linux' driver stops the trace (pt_buffer_reset_markers() in
 * arch/x86/events/intel/pt.c, 6.1, with regions of a page): 0 if it does not begin.
 */
static uint64_t linux_stop(uint64_t head, uint64_t tail)
{
	const uint64_t size = (tail - (head + 1)) % LINUX_AUX;
	uint64_t pages = size / 4096, stop;

	if (head - tail >= LINUX_AUX || head % 4096 + size + 1 < 4096)
		return 0;
	pages += (head + size + 1) % 4096 == 0;
	stop = (head / 4096 + pages) * 4096; /* the end of the page before this one */
	return stop > head ? stop : stop + LINUX_AUX;
}

/* Trace that was not taken is not overwritten, wherever the consumer has got to. */
TEST(the_driver_of_linux)
{
	struct perf_event_mmap_page page = {0};
	static uint8_t data[4096], aux[LINUX_AUX];
	struct kernel *k = new_kernel(7);
	struct ring_trace trace;
	struct ring ring;
	uint64_t head = 0, next = 0;

	assert_int_equal(ring_init(&ring, &page, data, sizeof(data), aux, LINUX_AUX, false), 0);
	for (unsigned i = 0; i < 20000; i++) {
		const uint64_t stop = linux_stop(head, page.aux_tail);
		uint64_t n = draw(k) % 5000;

		n = !stop ? 0 : n < stop - head ? n : stop - head;
		for (; n; n--, head++)
			aux[head % LINUX_AUX] = pattern(head);
		page.aux_head = head;
		if (draw(k) % 2 || !ring_read_trace(&ring, &trace))
			continue;
		assert_int_equal(trace.offset, next);
		for (size_t j = 0; j < trace.size; j++)
			assert_int_equal(trace.bytes[j], pattern(next + j));
		next += trace.size;
	}
	assert_int_equal(ring.losses.overwritten, 0);
	assert_true(next > 1000u * 4096);
	ring_fini(&ring);
	free(k);
}

TEST(a_ring_without_records)
{
	static const uint16_t sizes[] = {0, 7, 12, 65528};
	struct kernel *k = new_kernel(3);
	struct ring ring;
	size_t n = 0;
	int left = 2;

	assert_int_equal(ring_init(&ring, &k->page, k->data, DATA, NULL, 0, false), 0);
	assert_int_equal(ring_read_records(&ring, count, &n), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t record[2] = {3 | (uint64_t)sizes[i] << 48, 0};

		put_words(k, 3, 0, 0, 0, 0);
		assert_true(put_record(k, record, 16));
		assert_int_equal(ring_read_records(&ring, count, &n), PTAH_E_BAD_FILE);
		/* The valid record before it was taken, and reading continues. */
		assert_int_equal(n, 8 * (i + 1));
		assert_int_equal(ring_read_records(&ring, count, &n), 0);
	}
	/* A head that is too far ahead. */
	k->page.data_head += DATA + 8;
	assert_int_equal(ring_read_records(&ring, count, &n), PTAH_E_BAD_FILE);
	k->data_head = k->page.data_head;

	/* A record that take() refuses is passed to it only once. */
	put_words(k, 3, 0, 0, 0, 0);
	put_words(k, 3, 0, 0, 0, 0);
	put_words(k, 3, 0, 0, 0, 0);
	assert_int_equal(ring_read_records(&ring, refuse, &left), PTAH_E_NOSPACE);
	ring_fini(&ring);
	free(k);
}
