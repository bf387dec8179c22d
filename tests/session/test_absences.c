/* SPDX-License-Identifier: MIT */
/* When threads were off their processors, by their context switches. */
#include "test.h"

#include "session/absences.h"
#include "session/grow.h"

static void leave(struct ptah_session *s, int32_t tid, uint64_t tsc, bool preempted)
{
	const struct perfdata_record r = {
	    .pid = 7, .tid = tid, .cpu = 1, .out = true, .preempted = preempted};

	assert_int_equal(absences_take(s, &r, tsc), 0);
}

static void come(struct ptah_session *s, int32_t tid, uint64_t tsc)
{
	const struct perfdata_record r = {.pid = 7, .tid = tid, .cpu = 2};

	assert_int_equal(absences_take(s, &r, tsc), 0);
}

static void check(const struct ptah_session *s, int32_t tid, uint64_t from, uint64_t to,
		  uint64_t off, uint64_t preempted)
{
	uint64_t is_off, is_preempted;

	assert_int_equal(ptah_session_time_off(s, tid, from, to, &is_off, &is_preempted), 0);
	assert_int_equal(is_off, off);
	assert_int_equal(is_preempted, preempted);
}

/* Thread 8 runs up to 100, waits up to 150, runs, is preempted from 200 to 230, and from 300 on. */
TEST(times_are_added)
{
	struct ptah_session s = {0};
	uint64_t off, preempted;

	assert_int_equal(ptah_session_time_off(&s, -1, 0, 9, &off, &preempted), PTAH_E_MISSING);
	come(&s, 8, 50);
	leave(&s, 8, 100, false);
	come(&s, 8, 150);
	leave(&s, 9, 160, false);
	come(&s, 9, 161);
	leave(&s, 8, 200, true);
	come(&s, 8, 230);
	leave(&s, 8, 300, true);
	check(&s, 8, 0, 100, 0, 0);
	check(&s, 8, 0, 120, 20, 0);
	check(&s, 8, 120, 210, 40, 10);
	check(&s, 8, 0, 1000, 80, 30);
	check(&s, 9, 0, 1000, 1, 0);
	check(&s, -1, 0, 1000, 81, 30);
	check(&s, 10, 0, 1000, 0, 0);
	absences_free(&s.absences);
}

/* The clock that stands still while a thread is off, and back. */
/* The time after so many ticks, and up to `until` the difference is the same. */
static uint64_t when(const struct absences *t, uint64_t on)
{
	uint64_t until, later;
	const uint64_t tsc = absences_when(t, on, &until);

	assert_true(until >= on);
	if (until != UINT64_MAX) {
		assert_int_equal(absences_when(t, until, &later) - until, tsc - on);
		assert_true(absences_when(t, until + 1, &later) - until - 1 >= tsc - on);
	}
	return tsc;
}

TEST(clock_stands_still)
{
	struct ptah_session s = {0};
	const struct absences *t;

	leave(&s, 8, 100, false);
	come(&s, 8, 150);
	leave(&s, 8, 200, true);
	come(&s, 8, 230);
	t = absences_of(&s, 8);
	assert_non_null(t);
	assert_null(absences_of(&s, 9));
	assert_int_equal(absences_on(t, 100), 100);
	assert_int_equal(absences_on(t, 130), 100);
	assert_int_equal(absences_on(t, 150), 100);
	assert_int_equal(absences_on(t, 160), 110);
	assert_int_equal(absences_on(t, 240), 160);
	assert_int_equal(when(t, 90), 90);
	assert_int_equal(when(t, 100), 100); /* it ended when the thread left */
	assert_int_equal(when(t, 101), 151);
	assert_int_equal(when(t, 150), 200);
	assert_int_equal(when(t, 160), 240);
	absences_free(&s.absences);
}

/* Records that are missing, or not in the order of time, make no time. */
TEST(damage_makes_no_time)
{
	struct ptah_session s = {0};

	leave(&s, 8, 100, false);
	leave(&s, 8, 120, true); /* it came back in between, and nothing says when */
	come(&s, 8, 110);
	come(&s, 8, 400);
	come(&s, 8, 450); /* it left in between */
	leave(&s, 8, 105, false);
	leave(&s, 8, 500, false);
	come(&s, 8, 490);
	check(&s, 8, 0, 1000, 280, 280);
	absences_free(&s.absences);
}

/* A session that grows forgets the oldest; what it says of later times stays the same. */
TEST(grows_without_growing)
{
	struct growth growth = {0};
	struct ptah_session s = {.growth = &growth}, all = {0};
	const struct absences *t, *u;

	for (uint64_t i = 1; i <= 20000; i++) {
		leave(&s, 8, 10 * i, i % 2);
		come(&s, 8, 10 * i + i % 7);
		leave(&all, 8, 10 * i, i % 2);
		come(&all, 8, 10 * i + i % 7);
	}
	t = absences_of(&s, 8);
	u = absences_of(&all, 8);
	assert_true(t->count < 9000);
	for (uint64_t tsc = 190000; tsc < 200000; tsc += 3) {
		assert_int_equal(absences_on(t, tsc), absences_on(u, tsc));
		assert_int_equal(when(t, absences_on(t, tsc)), when(u, absences_on(u, tsc)));
	}
	absences_free(&s.absences);
	absences_free(&all.absences);
}
