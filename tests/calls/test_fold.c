/* SPDX-License-Identifier: MIT */
/* Calls that are deeper than the machine keeps: they are left out, and what is above is right. */
#include "test.h"

#include "thread.h"
#include "calls/calls.h"

#include <stdlib.h>

static const struct calls_config three = {
    .size = sizeof(three), .find = thread_find, .max_depth = 3};

TEST(deep_calls_are_left_out)
{
	thread_expect(&three, "A0+2c B0+2c C0+2c D0+2c E0+2r D2+1r C2+1r B2+1r A2+1.",
		      "A+call B+call C+call C-returnf B-return A-trace-end");
	/* Once more, with tail calls and jumps in between, and a call that fits after it. */
	thread_expect(&three, "A0+2c B0+2c C0+2c D0+2j E0+2b E9+2r C2+1r B2+1c D0+1r B3+1r A2+1.",
		      "A+call B+call C+call C-returnf D+call D-return B-return A-trace-end");
}

TEST(exceptions_out_of_the_depth)
{
	/* To a return site of a call that is kept. */
	thread_expect(&three, "A0+2c B0+2c C0+2c D0+2c E0+2J B2+1r A2+1.",
		      "A+call B+call C+call C-unwoundf B-return A-trace-end");
}

TEST(signals_in_the_depth)
{
	thread_expect(
	    &three,
	    "A0+2c B0+2c C0+2c D0+2. async@D2 on H0+1r K0+2s off on D2+1r C2+1r B2+1r A2+1.",
	    "A+call B+call C+call C-returnf B-return A-trace-end");
}

TEST(trace_that_ends_in_the_depth)
{
	thread_expect(&three, "A0+2c B0+2c C0+2c D0+2c E0+2.",
		      "A+call B+call C+call C-trace-endf B-trace-end A-trace-end");
}

/*
 * A recursion of 40,000 calls, and one instruction after it. With a smaller limit it is more than
 * the return sites that are kept, too.
 */
TEST(recursion_of_any_depth)
{
	static const uint32_t limits[] = {0, 1000};
	const size_t depth = 40000, count = 2 * depth + 2;
	struct ptah_item *items = calloc(count, sizeof(*items));
	size_t n = 0;

	assert_non_null(items);
	for (size_t i = 0; i < 2 * depth + 1; i++) {
		const bool call = i < depth;
		const uint64_t ip = i == 0 ? 0x10000 : i <= depth ? 0x20000 : 0x20004;

		items[n++] = (struct ptah_item){.type = PTAH_ITEM_BLOCK,
						.ip = i == 2 * depth ? 0x10004 : ip,
						.end = (i == 2 * depth ? 0x10004 : ip) + 4,
						.ninsn = 2,
						.last_size = 2,
						.insn_class = call	       ? PTAH_INSN_CALL
							      : i == 2 * depth ? PTAH_INSN_OTHER
									       : PTAH_INSN_RETURN};
	}
	for (size_t i = 0; i < 2; i++) {
		const struct calls_config config = {
		    .size = sizeof(config), .find = thread_find, .max_depth = limits[i]};

		/* Begins and ends of A and its calls. */
		assert_int_equal(thread_check(&config, items, n),
				 2 * (limits[i] ? limits[i] : depth + 1));
	}
	free(items);
}
