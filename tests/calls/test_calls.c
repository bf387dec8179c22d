/* SPDX-License-Identifier: MIT */
/* The figures of marks: places, levels, times, cycles, and what belongs to the call itself. */
#include "test.h"

#include "thread.h"
#include "calls/calls.h"

#define A 0x10000
#define B 0x20000
#define C 0x30000

/* A block of two instructions of two bytes. */
static struct ptah_item block(uint64_t ip, unsigned insn_class, uint64_t tsc)
{
	return (struct ptah_item){.type = PTAH_ITEM_BLOCK,
				  .ip = ip,
				  .end = ip + 4,
				  .ninsn = 2,
				  .last_size = 2,
				  .insn_class = (uint8_t)insn_class,
				  .tsc = tsc};
}

static struct ptah_item event(unsigned type, uint64_t tsc)
{
	return (struct ptah_item){
	    .type = (uint8_t)type, .flags = PTAH_ITEM_IP_SUPPRESSED, .tsc = tsc};
}

static struct ptah_item tick(uint64_t cycles)
{
	return (struct ptah_item){.type = PTAH_ITEM_TICK, .cycles = cycles};
}

static size_t run(const struct ptah_item *items, size_t n, struct ptah_call_mark *marks)
{
	const struct calls_config config = {.size = sizeof(config), .find = thread_find};
	struct calls_marks *calls;
	size_t count;
	int k;

	assert_int_equal(calls_marks_new(&config, &calls), 0);
	assert_int_equal(calls_marks_take(calls, items, n, marks, 32, &count), n);
	while ((k = calls_marks_finish(calls, marks + count, 32 - count)) > 0)
		count += (size_t)k;
	calls_marks_free(calls);
	return count;
}

TEST(places_and_figures)
{
	/* A packet comes with the time at which the block before it ended. */
	const struct ptah_item items[] = {
	    block(A, PTAH_INSN_CALL, 1000),	 block(B, PTAH_INSN_CALL_IND, 1010),
	    block(C, PTAH_INSN_RETURN, 1100),	 block(B + 4, PTAH_INSN_RETURN, 1105),
	    block(A + 4, PTAH_INSN_OTHER, 1120),
	};
	struct ptah_call_mark m[32];

	assert_int_equal(run(items, 5, m), 6);
	/* A begins, B begins, C begins */
	assert_true(!m[0].end && m[0].function == A && m[0].site == 0 && m[0].depth == 0);
	assert_true(m[0].tsc == 0 && m[0].thread.instructions == 0);
	assert_true(!m[1].end && m[1].function == B && m[1].site == A + 2 && m[1].depth == 1);
	assert_true(m[1].tsc == 1000 && m[1].thread.instructions == 2);
	assert_true(!m[2].end && m[2].function == C && m[2].site == B + 2 && m[2].tsc == 1010);
	/* C ends */
	assert_true(m[3].end && m[3].id == m[2].id && m[3].site == C + 2);
	assert_true(m[3].begin_tsc == 1010 && m[3].tsc == 1100);
	assert_true(m[3].total.instructions == 2 && m[3].total.ticks == 90);
	assert_true(m[3].self.instructions == 2 && m[3].self.ticks == 90);
	/* B ends */
	assert_true(m[4].id == m[1].id && m[4].total.instructions == 6);
	assert_true(m[4].self.instructions == 4);
	assert_true(m[4].total.ticks == 105 && m[4].self.ticks == 15);
	assert_true(m[5].id == m[0].id && m[5].flags & PTAH_CALL_NO_END && m[5].site == 0);
	assert_true(m[5].total.instructions == 10 && m[5].self.instructions == 4);
}

TEST(without_times)
{
	const struct ptah_item items[] = {block(A, PTAH_INSN_CALL, 0),
					  block(B, PTAH_INSN_RETURN, 0),
					  block(A + 4, PTAH_INSN_OTHER, 0)};
	struct ptah_call_mark m[32];

	assert_int_equal(run(items, 3, m), 4);
	for (int i = 0; i < 4; i++)
		assert_true(!m[i].tsc && !m[i].begin_tsc && !m[i].total.ticks);
}

/* The function that runs first begins at the time of the PSB+. */
TEST(time_of_the_beginning)
{
	const struct ptah_item items[] = {event(PTAH_ITEM_PSB, 900),
					  block(A, PTAH_INSN_OTHER, 1000)};
	struct ptah_call_mark m[32];

	assert_int_equal(run(items, 2, m), 2);
	assert_true(m[0].tsc == 900 && m[1].begin_tsc == 900 && m[1].total.ticks == 100);
}

/*
 * Times that begin late, and that go back: no time passes before the first, nor backwards, nor a
 * second time up to where it has been.
 */
TEST(times_that_are_odd)
{
	const struct ptah_item items[] = {
	    block(A, PTAH_INSN_CALL, 0), block(B, PTAH_INSN_OTHER, 5000),
	    block(B + 4, PTAH_INSN_OTHER, 4000), block(B + 8, PTAH_INSN_RETURN, 4100),
	    block(A + 4, PTAH_INSN_OTHER, 4100)};
	struct ptah_call_mark m[32];

	assert_int_equal(run(items, 5, m), 4);
	assert_true(m[2].end && m[2].begin_tsc == 0 && m[2].tsc == 5000);
	assert_true(m[2].total.ticks == 0);
}

/* A system call takes 500 ticks, and an overflow 10,000, of which nothing is known. */
TEST(time_in_the_kernel_and_in_losses)
{
	struct ptah_item items[] = {
	    block(A, PTAH_INSN_CALL, 1000),	   block(B, PTAH_INSN_FAR_CALL, 1100),
	    event(PTAH_ITEM_DISABLED, 1110),	   event(PTAH_ITEM_ENABLED, 1610),
	    block(B + 4, PTAH_INSN_OTHER, 1700),   event(PTAH_ITEM_OVERFLOW, 11700),
	    block(B + 8, PTAH_INSN_RETURN, 11800), block(A + 4, PTAH_INSN_OTHER, 11800)};
	struct ptah_call_mark m[32];

	items[5].flags = 0;
	items[5].ip = B + 8;
	assert_int_equal(run(items, 8, m), 4);
	assert_true(m[2].end && m[2].flags & PTAH_CALL_HAS_LOSS);
	assert_true(m[2].total.ticks == 800 && m[2].self.off_ticks == 500);
	assert_true(m[2].tsc - m[2].begin_tsc == 10800);
}

TEST(cycles)
{
	const struct ptah_item items[] = {tick(100), block(A, PTAH_INSN_CALL, 1000),
					  tick(130), block(B, PTAH_INSN_RETURN, 1010),
					  tick(150), block(A + 4, PTAH_INSN_OTHER, 1020)};
	struct ptah_call_mark m[32];

	assert_int_equal(run(items, 6, m), 4);
	assert_true(m[1].thread.cycles == 100);
	assert_true(m[2].end && m[2].total.cycles == 30 && m[3].total.cycles == 150);
	assert_true(m[3].self.cycles == 120);
}

/* Callers that are known by their returns only are above the function that ran first. */
TEST(levels)
{
	const struct ptah_item items[] = {
	    block(C + 8, PTAH_INSN_RETURN, 0), block(B + 8, PTAH_INSN_CALL, 0),
	    block(C, PTAH_INSN_RETURN, 0), block(B + 12, PTAH_INSN_RETURN, 0),
	    block(A + 8, PTAH_INSN_OTHER, 0)};
	static const int expected[] = {0, 0, -1, 0, 0, -1, -2, -2};
	struct ptah_call_mark m[32];

	assert_int_equal(run(items, 5, m), 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(m[i].level, expected[i]);
}

TEST(arguments)
{
	struct calls_config config = {.size = 1};
	struct ptah_call_mark mark;
	struct calls_marks *calls;
	size_t count;

	assert_int_equal(calls_marks_new(&config, &calls), PTAH_E_INVAL);
	assert_int_equal(calls_marks_new(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(calls_marks_new(NULL, &calls), 0);
	assert_int_equal(calls_marks_take(calls, NULL, 1, &mark, 1, &count), PTAH_E_INVAL);
	assert_int_equal(calls_marks_take(calls, NULL, 0, &mark, 0, &count), PTAH_E_INVAL);
	assert_int_equal(calls_marks_take(calls, NULL, 0, &mark, 1, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(calls_marks_take_spans(calls, NULL, 1, &mark, 1, &count), PTAH_E_INVAL);
	assert_int_equal(calls_marks_finish(calls, NULL, 1), PTAH_E_INVAL);
	assert_int_equal(calls_marks_exec(NULL, 0), PTAH_E_INVAL);
	assert_int_equal(calls_marks_lost(NULL), PTAH_E_INVAL);
	calls_marks_free(calls);
	calls_marks_free(NULL);
}

/* A machine begins again after its end. */
TEST(another_trace)
{
	const struct ptah_item item = block(A, PTAH_INSN_CALL, 0);
	struct ptah_call_mark m[4];
	struct calls_marks *calls;
	size_t count;

	assert_int_equal(calls_marks_new(NULL, &calls), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(calls_marks_take(calls, &item, 1, m, 4, &count), 1);
		assert_int_equal(count, 1);
		assert_true(!m[0].end && m[0].depth == 0 && m[0].level == 0);
		assert_int_equal(calls_marks_finish(calls, m, 4), 1);
		assert_true(m[0].end && m[0].total.instructions == 2);
		assert_int_equal(calls_marks_finish(calls, m, 4), 0);
	}
	calls_marks_free(calls);
}
