/* SPDX-License-Identifier: MIT */
/* Counting by the log of exits: descriptions and numbers made by hand, good ones and hostile ones.
 */
#include "test.h"

#include "record/native/truth.h"

struct description {
	struct native_exit exit;
	struct native_block block;
	uint8_t bytes[32];
};

/* 0x1000: nop; jz +2; nop; ret */
static const struct description first = {
    .exit = {.blocks = 1}, .block = {0x1000, 0x1003}, .bytes = {0x90, 0x74, 0x02}};
static const struct description second = {
    .exit = {.blocks = 1}, .block = {0x1003, 0x1005}, .bytes = {0x90, 0xc3}};

/* By the first program. */
static void describe(struct native_truth *t, uint64_t number, const struct description *d)
{
	if (!t->program_count)
		native_truth_begin(t);
	native_truth_describe(t, 0, 0, number, d, sizeof(*d));
}

static void log_numbers(struct native_truth *t, struct native_truth_thread *thread,
			const uint32_t *numbers, size_t n)
{
	native_truth_keep(t, thread, (const uint8_t *)numbers, n * sizeof(*numbers));
}

TEST(test_counts)
{
	const uint32_t before[] = {1, 2}, after[] = {1};
	struct native_truth t = {0};
	struct native_truth_thread thread = {0};
	struct ptah_truth truth;
	struct path_hash hash = {0};

	log_numbers(&t, &thread, before, 2);
	assert_false(native_truth_get(&t, &thread, &truth)); /* not counted yet */
	describe(&t, 1, &first);
	describe(&t, 2, &second);
	native_truth_count(&t, &thread);
	log_numbers(&t, &thread, after, 1);
	native_truth_count(&t, &thread);
	assert_true(native_truth_get(&t, &thread, &truth));
	assert_int_equal(truth.instructions, 6);
	assert_int_equal(truth.conditional, 2);
	assert_int_equal(truth.returns, 1);
	assert_int_equal(truth.indirect, 0);
	path_hash_add(&hash, 0x1000, 0x1005); /* one run: the branch was not taken */
	path_hash_add(&hash, 0x1000, 0x1003);
	assert_int_equal(truth.path_hash, path_hash_value(&hash));
	native_truth_free(&t);
}

/* An exit that stands for two blocks, and one whose second block is not all there. */
TEST(test_path)
{
	struct {
		struct native_exit exit;
		struct native_block jump;
		uint8_t jump_bytes[8];
		struct native_block target;
		uint8_t target_bytes[8];
	} d = {{2}, {0x1000, 0x1003}, {0x90, 0x74, 0x10}, {0x1013, 0x1014}, {0xc3}};
	const uint32_t numbers[] = {1};

	for (unsigned short_by = 0; short_by < 2; short_by++) {
		struct native_truth t = {0};
		struct native_truth_thread thread = {0};
		struct path_hash hash = {0};
		struct ptah_truth truth;

		native_truth_describe(&t, native_truth_begin(&t), 0, 1, &d, sizeof(d) - short_by);
		log_numbers(&t, &thread, numbers, 1);
		native_truth_count(&t, &thread);
		assert_int_equal(native_truth_get(&t, &thread, &truth), short_by == 0);
		path_hash_add(&hash, 0x1000, 0x1003);
		path_hash_add(&hash, 0x1013, 0x1014);
		if (!short_by) {
			assert_int_equal(truth.instructions, 3);
			assert_int_equal(truth.conditional, 1);
			assert_int_equal(truth.returns, 1);
			assert_int_equal(truth.path_hash, path_hash_value(&hash));
		}
		native_truth_free(&t);
	}
}

/* What a program has described that has ended is not known any more; what others have is. */
TEST(test_forget)
{
	struct native_truth t = {0};
	const unsigned stays = native_truth_begin(&t);
	uint32_t number = 0;

	for (unsigned i = 0; i < 10; i++) {
		const unsigned ends = native_truth_begin(&t);
		struct native_truth_thread thread = {0};
		struct ptah_truth truth;
		uint32_t numbers[2];

		native_truth_describe(&t, stays, 0, ++number, &first, sizeof(first));
		numbers[0] = number;
		for (unsigned k = 0; k < 3 * NATIVE_TRUTH_PAGE; k++)
			native_truth_describe(&t, ends, 0, ++number, &second, sizeof(second));
		numbers[1] = number;
		log_numbers(&t, &thread, numbers, 2);
		native_truth_count(&t, &thread);
		native_truth_forget(&t, ends);
		log_numbers(&t, &thread, numbers, 1);
		native_truth_count(&t, &thread);
		assert_true(native_truth_get(&t, &thread, &truth));
		assert_int_equal(truth.instructions, 6);
	}
	number = 0;
	for (unsigned i = 0; i < NATIVE_EXITS_MAX / NATIVE_TRUTH_PAGE; i++)
		number += t.exits[0].pages[i] != NULL;
	assert_int_equal(number, 10);
	native_truth_free(&t);
}

/* Each of them leaves no truth, and nothing else happens. */
TEST(test_hostile)
{
	struct description bad[8];
	const uint64_t numbers[8] = {1, 1, 1, 1, 1, 0, NATIVE_EXITS_MAX, UINT64_MAX};
	const uint32_t unknown[] = {77, UINT32_MAX};

	for (unsigned i = 0; i < 8; i++)
		bad[i] = first;
	bad[0].exit.blocks = 2;
	bad[1].block.end = bad[1].block.start;
	bad[2].block.end = bad[2].block.start + 33; /* more than there is */
	bad[3].block.end = bad[3].block.start + 2;  /* in the middle of an instruction */
	bad[4].bytes[0] = 0x06;			    /* none of 64-bit mode */
	for (unsigned i = 0; i < 10; i++) {
		struct native_truth t = {0};
		struct native_truth_thread thread = {0};
		struct ptah_truth truth;

		describe(&t, 2, &second);
		if (i < 8)
			describe(&t, numbers[i], &bad[i]);
		else
			log_numbers(&t, &thread, &unknown[i - 8], 1);
		native_truth_count(&t, &thread);
		assert_false(native_truth_get(&t, &thread, &truth));
		native_truth_free(&t);
	}
}
