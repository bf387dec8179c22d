/* SPDX-License-Identifier: MIT */
/* What context switches and wake-ups say of waits. */
#include "waits/recording.h"

#define READ	 0
#define RECVFROM 45
#define WAIT4	 61
#define FUTEX	 202

/* A thread that ran on did not wait; one that left waited until it ran again. */
TEST_WITH(test_slept_or_not, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_switch(&r->b, 1, 11, 100, false, false);
	put_call(&r->b, 1, 11, 1000, 60000, 7, ARGS(0, 1, 100), 1); /* poll */
	put_enter(&r->b, 1, 11, 100000, FUTEX, ARGS(0x4040c0, 128, 2));
	put_switch(&r->b, 1, 11, 101000, true, false);
	put_call(&r->b, 1, 12, 102000, 102100, FUTEX, ARGS(0x4040c0, 129, 1), 1);
	put_switch(&r->b, 1, 11, 150000, false, false);
	put_exit(&r->b, 1, 11, 151000, FUTEX, 0);
	recorded_find_waits(r);
	assert_true(ptah_waits_has_switches(r->waits, 11));
	assert_false(ptah_waits_has_switches(r->waits, 12));
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_FUTEX);
	assert_int_equal(wait_at(r->waits, 0).woken, 102000);
	assert_int_equal(wait_at(r->waits, 0).ran, 150000);
}

/* For a lock with priority inheritance the kernel spins while the one that has it runs. */
TEST_WITH(test_spun, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_switch(&r->b, 1, 11, 100, false, false);
	put_enter(&r->b, 1, 11, 100000, FUTEX, ARGS(0x4040c0, 134)); /* LOCK_PI */
	put_call(&r->b, 1, 12, 140000, 140100, FUTEX, ARGS(0x4040c0, 135), 0);
	put_exit(&r->b, 1, 11, 141000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
}

/* A thread that could run on waits for a processor. */
TEST_WITH(test_preempted, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_switch(&r->b, 1, 11, 1000, true, true);
	put_switch(&r->b, 1, 11, 5000, false, false);
	put_switch(&r->b, 1, 11, 6000, true, false);
	put_switch(&r->b, 1, 11, 9000, false, false);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_PREEMPTED);
	assert_int_equal(wait_at(r->waits, 0).begin, 1000);
	assert_int_equal(wait_at(r->waits, 0).end, 5000);
	/* Without system calls it is not known whether it was in one. */
	assert_int_equal(wait_at(r->waits, 1).kind, PTAH_WAIT_CALL);
}

/* Where the calls do not say who ended a wait, a wake-up does: and the call in which it was made. */
TEST_WITH(test_wakeup, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, 7, ARGS(0, 1, -1)); /* poll */
	put_enter(&r->b, 1, 12, 2000, 1, ARGS(4, 0, 1));
	put_wakeup(&r->b, 1, 12, 2500, 11);
	put_exit(&r->b, 1, 12, 3000, 1, 1);
	put_exit(&r->b, 1, 11, 4000, 7, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_WOKEN);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	/* The call in which it was woken began before it did. */
	assert_int_equal(wait_at(r->waits, 0).woken, 2000);
	assert_int_equal(wait_at(r->waits, 0).waker_call, 1);
}

/*
 * Two threads came into the kernel's queue of a futex in another order than into their calls: that the
 * wake-ups say, and then nobody else could have been the waker.
 */
TEST_WITH(test_overtaken, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(0x4040c0, 128, 2));
	put_enter(&r->b, 1, 12, 1100, FUTEX, ARGS(0x4040c0, 128, 2));
	put_enter(&r->b, 1, 13, 2000, FUTEX, ARGS(0x4040c0, 129, 1));
	put_wakeup(&r->b, 1, 13, 2500, 12);
	put_exit(&r->b, 1, 13, 3000, FUTEX, 1);
	put_enter(&r->b, 1, 14, 4000, FUTEX, ARGS(0x4040c0, 129, 1));
	put_wakeup(&r->b, 1, 14, 4500, 11);
	put_exit(&r->b, 1, 14, 5000, FUTEX, 1);
	put_exit(&r->b, 1, 11, 6000, FUTEX, 0);
	put_exit(&r->b, 1, 12, 6100, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	for (size_t i = 0; i < 2; i++) {
		const struct ptah_wait wait = wait_at(r->waits, i);

		assert_int_equal(wait.waker_tid, wait.tid == 11 ? 14 : 13);
		assert_int_equal(wait.woken, wait.tid == 11 ? 4000 : 2000);
		assert_false(wait.flags & PTAH_WAIT_SEVERAL);
	}
}

/* A call that fails may have waited: recv() with SO_RCVTIMEO fails with EAGAIN (socket(7)). */
TEST_WITH(test_failed, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, RECVFROM, ARGS(3, 0x5000, 1));
	put_switch(&r->b, 1, 11, 2000, true, false);
	put_switch(&r->b, 1, 11, 900000, false, false);
	put_exit(&r->b, 1, 11, 901000, RECVFROM, -11);
	/* One that never left its processor has not, and one that failed at once. */
	put_call(&r->b, 1, 11, 1000000, 1900000, RECVFROM, ARGS(3, 0x5000, 1), -11);
	put_call(&r->b, 1, 12, 2000000, 2001000, WAIT4, ARGS(-1), -10);
	/* Without switches only the time says so. */
	put_call(&r->b, 1, 12, 3000000, 3900000, WAIT4, ARGS(-1), -10);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).begin, 1000);
	assert_int_equal(wait_at(r->waits, 0).end, 901000);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_TIME);
	assert_int_equal(wait_at(r->waits, 1).begin, 3000000);
	assert_int_equal(wait_at(r->waits, 1).how, PTAH_WAIT_END_UNKNOWN);
}

/* A call whose return was lost is over when the thread makes another one. */
TEST_WITH(test_lost_return, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(0x4040c0, 128, 2));
	put_switch(&r->b, 1, 11, 2000, true, false);
	put_switch(&r->b, 1, 11, 50000, false, false);
	put_call(&r->b, 1, 11, 900000, 900100, 39, NULL, 1);
	/* Without switches it is not known whether it waited, and until when. */
	put_enter(&r->b, 1, 12, 1000000, FUTEX, ARGS(0x4040c0, 128, 2));
	put_call(&r->b, 1, 12, 1900000, 1900100, 39, NULL, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).tid, 11);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_UNKNOWN);
	assert_int_equal(wait_at(r->waits, 0).end, 50000);
}

/* A thread's call is found although the beginning of a later one was lost. */
TEST_WITH(test_lost_beginning, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, 7, ARGS(0, 1, -1)); /* poll */
	put_enter(&r->b, 1, 12, 2000, 1, ARGS(4, 0, 1));
	put_wakeup(&r->b, 1, 12, 2500, 11);
	put_exit(&r->b, 1, 12, 3000, 1, 1);
	put_exit(&r->b, 1, 11, 4000, 7, 1);
	put_exit(&r->b, 1, 12, 5000, 1, 1);
	put_exit(&r->b, 1, 12, 6000, 1, 1);
	put_exit(&r->b, 1, 12, 7000, 1, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 0).waker_call, 1);
}

/* A thread that makes calls is on a processor: the switches between them were lost. */
TEST_WITH(test_lost_switches, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_switch(&r->b, 1, 11, 1000, true, true);
	put_call(&r->b, 1, 11, 200000, 200100, 39, ARGS(0), 1); /* getpid */
	/* So it is not known that this one did not sleep. */
	put_enter(&r->b, 1, 11, 300000, FUTEX, ARGS(0x4040c0, 128, 2));
	put_call(&r->b, 1, 12, 330000, 330100, FUTEX, ARGS(0x4040c0, 129, 1), 1);
	put_exit(&r->b, 1, 11, 350000, FUTEX, 0);
	put_switch(&r->b, 1, 11, 500000, false, false);
	put_switch(&r->b, 1, 11, 600000, true, true);
	put_switch(&r->b, 1, 11, 610000, false, false);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_FUTEX);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 1).kind, PTAH_WAIT_PREEMPTED);
	assert_int_equal(wait_at(r->waits, 1).begin, 600000);
}

/* Who leaves twice or comes twice has switched in between. */
TEST_WITH(test_unpaired_switches, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_switch(&r->b, 1, 11, 1000, true, true);
	put_switch(&r->b, 1, 11, 100000, true, true);
	put_switch(&r->b, 1, 11, 110000, false, false);
	put_switch(&r->b, 1, 11, 300000, false, false);
	put_switch(&r->b, 1, 11, 400000, true, true);
	put_switch(&r->b, 1, 11, 410000, false, false);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).begin, 100000);
	assert_int_equal(wait_at(r->waits, 1).begin, 400000);
}
