/* SPDX-License-Identifier: MIT */
/*
 * A program whose instructions have known costs runs by a clock of its own, which is stamped now and
 * then: the estimated times are near that clock, however expensive a piece of code is.
 */
#include "test.h"

#include "packet/opcode.h"
#include "session/session.h"
#include "session/span_times.h"
#include "session/stamps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CALLS  20000
#define LOOPS  4000
#define PERIOD 200000 /* ticks between two looks */
#define BATCH  100
#define CODES  7

/* Of code: how much runs at once, how many instructions a byte of trace has, and what they cost. */
static const struct {
	unsigned least, most, per_byte;
	double cost;
} codes[CODES] = {
    {20, 40, 4, 0.6},		/* what calls the others */
    {300, 3000, 20, 0.5},	/* computes */
    {20000, 200000, 20, 0.5},	/* computes for long */
    {100, 1500, 5, 120},	/* misses the cache */
    {100000, 900000, 20, 0.45}, /* across some looks */
    {200, 201, 5, 300},		/* page faults */
    {16000, 16001, 20, 0.6}	/* computes, always as long */
};

struct run {
	uint8_t *trace;
	size_t size, capacity;
	struct ptah_span *spans;
	double *times; /* of the program's clock, at the spans' ends */
	unsigned *code;
	size_t count, next, read;
	double now, look;
	bool steady; /* code always takes the same */
	uint64_t seed;
};

static unsigned random_below(struct run *r, unsigned n)
{
	r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((r->seed >> 33) % n);
}

static void put(struct run *r, const void *bytes, size_t n)
{
	if (r->size + n > r->capacity) {
		r->capacity = 2 * r->capacity + 4096;
		r->trace = realloc(r->trace, r->capacity);
		assert_non_null(r->trace);
	}
	memcpy(r->trace + r->size, bytes, n);
	r->size += n;
}

static void put_tsc(struct run *r, double time)
{
	uint8_t packet[SIZE_TSC] = {OPCODE_TSC};
	uint64_t tsc = (uint64_t)time;

	for (unsigned i = 1; i < SIZE_TSC; i++, tsc >>= 8)
		packet[i] = (uint8_t)tsc;
	put(r, packet, sizeof(packet));
}

static void put_psb(struct run *r)
{
	static const uint8_t begin[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
					2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
	static const uint8_t end[] = {OPCODE_EXT, EXT_PSBEND};

	put(r, begin, sizeof(begin));
	put_tsc(r, r->now);
	put(r, end, sizeof(end));
}

/* A span runs, and its branches are traced as they do. The watcher looks when its time has come. */
static void run_span(struct run *r, unsigned code)
{
	const unsigned n =
	    codes[code].least + random_below(r, codes[code].most - codes[code].least);
	const unsigned bytes = 1 + n / codes[code].per_byte;
	const double factor = r->steady ? 1 : 0.8 + random_below(r, 400) / 1000.0;
	const double ticks = n * codes[code].cost * factor;
	const uint8_t tnt = 0x54;

	for (unsigned i = 0; i < bytes; i++) {
		put(r, &tnt, 1);
		r->now += ticks / bytes;
		if (r->now < r->look || i + 1 == bytes)
			continue;
		put_tsc(r, r->now);
		r->look = r->now + PERIOD / 2 + random_below(r, PERIOD);
	}
	r->spans[r->count] = (struct ptah_span){.ip = 0x1000 * (code + 1),
						.to = 0x100000,
						.offset = r->size - 1,
						.ninsn = n,
						.insn_class = PTAH_INSN_JUMP};
	r->code[r->count] = code;
	r->times[r->count++] = r->now;
}

static void begin_run(struct run *r)
{
	*r = (struct run){.now = 1e9, .look = 1e9, .seed = 1};
	r->spans = calloc(2 * CALLS, sizeof(*r->spans));
	r->times = calloc(2 * CALLS, sizeof(*r->times));
	r->code = calloc(2 * CALLS, sizeof(*r->code));
	assert_true(r->spans && r->times && r->code);
	put_psb(r);
}

static void run_program(struct run *r)
{
	begin_run(r);
	for (unsigned i = 0; i < CALLS; i++) {
		const unsigned which = random_below(r, 1000);

		if (i % 100 == 99)
			put_psb(r);
		run_span(r, 0);
		run_span(r, which < 800 ? 1 : which < 900 ? 2 : which < 990 ? 3 : 4);
	}
	put_tsc(r, r->now);
}

/* A loop that takes about as long as from look to look: all intervals have nearly the same code. */
static void run_loop(struct run *r)
{
	begin_run(r);
	for (unsigned i = 0; i < LOOPS; i++) {
		run_span(r, 3);
		run_span(r, 5);
		run_span(r, 6);
	}
	put_tsc(r, r->now);
}

static void free_run(struct run *r)
{
	free(r->trace);
	free(r->spans);
	free(r->times);
	free(r->code);
}

/* A read_untimed. */
static int read_run(void *context, struct timed_batch *batch)
{
	struct run *r = context;
	const size_t n = r->count - r->next < BATCH ? r->count - r->next : BATCH;

	batch->spans = r->spans + r->next;
	batch->span_count = n;
	r->next += n;
	r->read += n;
	return n > 0;
}

static struct stream stream_of(const struct run *r, struct piece *piece)
{
	*piece = (struct piece){.bytes = r->trace};
	return (struct stream){
	    .info = {.bytes = r->size}, .cpu = SESSION_NONE, .pieces = piece, .count = 1};
}

/*
 * How far the sum of each code's estimates may be from the truth: 1 is all of it. What takes a
 * small part of the time may be further from it, by a part of the whole.
 */
static void check_totals(const double *truth, const double *estimates, double tolerance)
{
	double all = 0;

	for (unsigned i = 0; i < CODES; i++)
		all += truth[i];
	for (unsigned i = 0; i < CODES; i++)
		if (fabs(estimates[i] - truth[i]) > tolerance * (truth[i] + all / 5))
			fail_msg("code %u: %.0f ticks of %.0f", i, estimates[i], truth[i]);
}

static void compare(struct run *r, struct span_times *times, const struct stream *stream,
		    double tolerance)
{
	double truth[CODES] = {0}, estimates[CODES] = {0}, begin = 1e9, estimated_begin = 1e9;
	struct timed_batch batch = {0};
	size_t i = 0;

	while (span_times_next(times, stream, read_run, r, false, &batch) > 0) {
		for (size_t k = 0; k < batch.span_count; k++, i++) {
			const double estimate = (double)batch.spans[k].tsc;

			assert_int_equal(batch.spans[k].offset, r->spans[i].offset);
			assert_true(estimate >= estimated_begin);
			/* Both lie between the same looks, and those are not further apart. */
			assert_true(fabs(estimate - r->times[i]) <= 1.5 * PERIOD + 30000);
			truth[r->code[i]] += r->times[i] - begin;
			estimates[r->code[i]] += estimate - estimated_begin;
			begin = r->times[i];
			estimated_begin = estimate;
		}
	}
	assert_int_equal(i, r->count);
	check_totals(truth, estimates, tolerance);
}

TEST(totals_are_near_the_truth)
{
	struct span_times times = {.used = true};
	struct piece piece;
	struct stream stream;
	struct run r;

	run_program(&r);
	stream = stream_of(&r, &piece);
	assert_true(span_times_look_ahead(&times, &stream, read_run, NULL, &r) >= 0);
	assert_int_equal(r.read, r.count);
	r.next = 0;
	compare(&r, &times, &stream, 0.02);
	span_times_free(&times);
	free_run(&r);
}

TEST(intervals_with_the_same_code)
{
	struct span_times times = {.used = true};
	struct piece piece;
	struct stream stream;
	struct run r;

	run_loop(&r);
	stream = stream_of(&r, &piece);
	assert_true(span_times_look_ahead(&times, &stream, read_run, NULL, &r) >= 0);
	r.next = 0;
	compare(&r, &times, &stream, 0.05);
	span_times_free(&times);
	free_run(&r);
}

/* A seek_untimed. */
static void seek_run(void *context, uint64_t offset)
{
	struct run *r = context;

	while (r->next < r->count && r->spans[r->next].offset < offset)
		r->next++;
}

/* Of a long stream parts are read ahead. */
TEST(parts_say_enough)
{
	struct span_times times = {.used = true};
	struct piece piece;
	struct stream stream;
	struct run r;

	run_program(&r);
	stream = stream_of(&r, &piece);
	assert_true(span_times_look_ahead(&times, &stream, read_run, seek_run, &r) >= 0);
	assert_true(r.read < r.count / 4 * 3);
	r.next = 0;
	compare(&r, &times, &stream, 0.03);
	span_times_free(&times);
	free_run(&r);
}

/* Without a look ahead, costs are learned as the recording goes on. */
TEST(learns_as_it_goes)
{
	struct span_times times = {.used = true};
	struct piece piece;
	struct stream stream;
	struct run r;

	run_program(&r);
	stream = stream_of(&r, &piece);
	compare(&r, &times, &stream, 0.1);
	span_times_free(&times);
	free_run(&r);
}

/*
 * Code that takes as long for each byte of trace, with looks in the middle of it: their packets are
 * no branches that took time.
 */
TEST(looks_take_no_time)
{
	const double byte = codes[3].per_byte * codes[3].cost;
	struct span_times times = {.used = true};
	struct timed_batch batch;
	struct piece piece;
	struct stream stream;
	struct run r;
	size_t i = 0;

	begin_run(&r);
	r.steady = true;
	while (r.count < 1000)
		run_span(&r, 3);
	put_tsc(&r, r.now);
	stream = stream_of(&r, &piece);
	while (span_times_next(&times, &stream, read_run, &r, false, &batch) > 0)
		for (size_t k = 0; k < batch.span_count; k++, i++)
			assert_true(fabs((double)batch.spans[k].tsc - r.times[i]) < 2 * byte);
	assert_int_equal(i, r.count);
	span_times_free(&times);
	free_run(&r);
}

/* Whether a recorder has looked is in the trace, also that it was not necessary. */
TEST(missing_looks_are_found)
{
	static const struct ptah_session session = {.has_clock = true, .clock = {.mult = 1}};
	static const struct {
		double look; /* the first one */
		unsigned code, spans;
		enum stamp_looks looks;
	} cases[] = {
	    {1e9, 4, 100, LOOKS_FOUND},
	    {INFINITY, 4, 100, LOOKS_MISSING},
	    {INFINITY, 1, 100, LOOKS_SPARED},
	    /* PSBs are no looks, and where they are frequent none are missing. */
	    {INFINITY, 4, 1, LOOKS_SPARED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct piece piece;
		struct stream stream;
		struct run r;

		begin_run(&r);
		r.look = cases[i].look;
		for (unsigned k = 0; k < 5; k++) {
			put_psb(&r);
			while (r.count % cases[i].spans || r.count == k * cases[i].spans)
				run_span(&r, cases[i].code);
		}
		put_psb(&r);
		stream = stream_of(&r, &piece);
		assert_int_equal(stamps_find_looks(&session, &stream), cases[i].looks);
		free_run(&r);
	}
}
