/* SPDX-License-Identifier: MIT */
/* Streams are divided between jobs: step by step, with seams that fit and seams that do not. */
#include "test.h"

#include "session/shares.h"

#include <stdlib.h>

#define SLOT 10

/* The beginning of a share was found, with a state that has this address. */
static void find(struct share *share, uint64_t start, uint64_t ip)
{
	share->segment = (struct segment){
	    .start = start, .stop = start + 5, .state = {.plain = true, .offset = start, .ip = ip}};
	share->found = true;
	share->claimed = share->segment.stop;
}

static struct flow_state state_of(const struct share *share)
{
	return share->segment.state;
}

/* Counts a share as far as it goes. Returns the step that is not counting. */
static enum share_step count(struct shared_stream *stream, struct share *share, uint64_t *reached)
{
	enum share_step step;

	while ((step = shares_step(stream, share, *reached, SLOT, reached)) == SHARE_COUNT)
		;
	return step;
}

/* A job that comes late takes half of what is left, and the first goes on up to there. */
TEST(split_and_prove)
{
	struct shared_stream stream = {.bytes = 1000};
	struct share *first, *second;
	struct flow_state end;
	uint64_t bytes, reached = 0, other;

	assert_int_equal(shares_open(&stream, 1, SLOT), 0);
	first = shares_take(&stream);
	assert_true(first && first->segment.whole_start && !shares_take(&stream));
	assert_int_equal(shares_step(&stream, first, reached, SLOT, &reached), SHARE_COUNT);
	assert_true(reached == SLOT && shares_largest(&stream, &bytes) == first && bytes == 990);
	second = shares_split(&stream, first);
	assert_true(second && second->from == 505 && shares_end(first) == 505);
	/* What has no beginning yet cannot be divided, and the first share waits for it. */
	assert_true(shares_largest(&stream, &bytes) == first && bytes == 495);
	assert_int_equal(count(&stream, first, &reached), SHARE_WAIT);
	assert_true(reached == 505);
	find(second, 520, 0x1000);
	assert_int_equal(count(&stream, first, &reached), SHARE_PROVE);
	assert_true(reached == 520);
	end = state_of(second);
	assert_true(shares_prove(&stream, first, &end, 0, 0) && second->verified && second->timed);
	shares_finish(&stream, first);
	other = 520;
	assert_int_equal(count(&stream, second, &other), SHARE_DONE);
	assert_true(other == UINT64_MAX);
	shares_finish(&stream, second);
	assert_true(shares_are_complete(&stream));
	shares_free(&stream);
}

/* Nobody has begun the next share: there is no seam. A share without a beginning leaves none. */
TEST(no_seam)
{
	struct shared_stream stream = {.bytes = 1000};
	struct share *first, *second;
	uint64_t reached = 0;

	assert_int_equal(shares_open(&stream, 4, SLOT), 0);
	first = shares_take(&stream);
	second = shares_take(&stream);
	assert_int_equal(stream.unfinished, 4);
	assert_int_equal(count(&stream, first, &reached), SHARE_WAIT);
	shares_remove(&stream, second);
	assert_int_equal(count(&stream, first, &reached), SHARE_DONE);
	assert_true(stream.unfinished == 1 && !first->next);
	shares_free(&stream);
}

/* Where no share that is split off has a beginning, or the right one, it comes to an end. */
TEST(too_many_failures)
{
	struct shared_stream stream = {.bytes = 100000};
	struct share *first, *half;
	struct flow_state end;
	uint64_t bytes, reached = 0;
	unsigned splits = 0;

	assert_int_equal(shares_open(&stream, 1, SLOT), 0);
	first = shares_take(&stream);
	while (shares_largest(&stream, &bytes) == first) {
		half = shares_split(&stream, first);
		assert_non_null(half);
		if (splits++ % 2) {
			shares_remove(&stream, half);
			continue;
		}
		find(half, half->from, 0x1000);
		assert_int_equal(count(&stream, first, &reached), SHARE_PROVE);
		end = state_of(half);
		end.ip++;
		assert_false(shares_prove(&stream, first, &end, 0, 0));
		first->claimed = reached = 0;
		assert_true(splits <= SHARES_MOST_FAILURES);
	}
	assert_int_equal(splits, SHARES_MOST_FAILURES);
	assert_int_equal(count(&stream, first, &reached), SHARE_DONE);
	shares_free(&stream);
}

static struct partial *partial_of(struct share *share)
{
	struct partial *partial = calloc(1, sizeof(*partial));

	assert_non_null(partial);
	partial->from = share->from;
	share->partial = partial;
	return partial;
}

/*
 * The second share began in the wrong state. Its job had counted the fourth share as well, in the
 * same sum: that is to be counted again, from where it began.
 */
TEST(wrong_state)
{
	struct shared_stream stream = {.bytes = 1000};
	struct share *shares[4];
	struct flow_state end;
	uint64_t reached = 0;

	assert_int_equal(shares_open(&stream, 4, SLOT), 0);
	for (unsigned i = 0; i < 4; i++) {
		shares[i] = shares_take(&stream);
		if (i)
			find(shares[i], 250 * i + 3, 0x1000 * i);
	}
	shares_add_partial(&stream, partial_of(shares[1]));
	shares[3]->partial = shares[1]->partial;
	shares_finish(&stream, shares[1]);
	shares_finish(&stream, shares[3]);
	assert_int_equal(count(&stream, shares[0], &reached), SHARE_PROVE);
	end = state_of(shares[1]);
	end.ip++;
	assert_false(shares_prove(&stream, shares[0], &end, 0, 0));
	assert_true(shares[1]->removed && !stream.partials && stream.unfinished == 3);
	assert_int_equal(count(&stream, shares[0], &reached), SHARE_PROVE);
	assert_true(reached == 503);
	end = state_of(shares[2]);
	end.tsc++; /* the time alone differs: that matters only where the image changes later */
	assert_true(shares_prove(&stream, shares[0], &end, 0, 0) && !shares[2]->timed);
	assert_false(shares_prove(&stream, shares[0], &end, 0, 1));
	assert_ptr_equal(shares_take(&stream), shares[3]);
	assert_true(shares[3]->found && shares[3]->claimed == 758);
	shares_free(&stream);
}

/* One job counts the stream again, from its beginning to its end. */
TEST(restart)
{
	struct shared_stream stream = {.bytes = 1000};
	struct share *share;
	uint64_t bytes, reached = 0;

	assert_int_equal(shares_open(&stream, 2, SLOT), 0);
	share = shares_take(&stream);
	shares_add_partial(&stream, partial_of(share));
	assert_int_equal(shares_restart(&stream), 0);
	assert_true(share->removed && !stream.partials);
	share = shares_take(&stream);
	assert_true(share && share->segment.whole_start && !shares_take(&stream));
	assert_null(shares_largest(&stream, &bytes));
	assert_int_equal(count(&stream, share, &reached), SHARE_DONE);
	shares_free(&stream);
}
