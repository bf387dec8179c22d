/* SPDX-License-Identifier: MIT */
/* Waits that end with a thread or a process, or by a signal. */
#include "waits/recording.h"

#define FUTEX 202

/* pthread_join(): not private, and the value is the thread's number. */
TEST_WITH(test_join, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_call(&r->b, 1, 12, 500, 600, 39, NULL, 1);
	put_enter(&r->b, 1, 1, 1000, FUTEX, ARGS(0x7000, 265, 12, 0, 0, UINT32_MAX));
	put_enter(&r->b, 1, 12, 2000, 60, ARGS(0));
	put_exit(&r->b, 1, 1, 2500, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_THREAD);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 0).woken, 2000);
}

/* A robust mutex whose owner ends with it: the value is its number with FUTEX_WAITERS. */
TEST_WITH(test_robust, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_call(&r->b, 1, 12, 500, 600, 39, NULL, 1);
	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(0x7000, 0, 0x80000000u | 12));
	put_enter(&r->b, 1, 12, 2000, 60, ARGS(0));
	put_exit(&r->b, 1, 11, 2500, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_FUTEX);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_WOKEN);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
}

/* wait4() of a child that ends meanwhile, and of one that had ended. */
TEST_WITH(test_child, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 2, 2, 500, 231, ARGS(0));
	put_call(&r->b, 1, 1, 1000, 1100, 61, ARGS(-1), 2);
	put_enter(&r->b, 1, 1, 2000, 61, ARGS(-1));
	put_enter(&r->b, 3, 3, 3000, 231, ARGS(0));
	put_exit(&r->b, 1, 1, 4000, 61, 3);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_CHILD);
	assert_int_equal(wait_at(r->waits, 0).waker_pid, 3);
}

/* A signal that another thread has sent, and one of nobody who is recorded. */
TEST_WITH(test_signal, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, 34, NULL);		     /* pause */
	put_call(&r->b, 1, 12, 2000, 2100, 234, ARGS(1, 11, 10), 0); /* tgkill */
	put_exit(&r->b, 1, 11, 2200, 34, -4);
	put_enter(&r->b, 1, 11, 5000, 35, ARGS(0x7000)); /* nanosleep */
	put_exit(&r->b, 1, 11, 6000, 35, -516);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_SIGNAL);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 1).how, PTAH_WAIT_END_SIGNAL);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, -1);
}

/* Two threads sent one: either may have ended the wait. One that came before it has not. */
TEST_WITH(test_signals_of_several, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, 34, NULL);		     /* pause */
	put_call(&r->b, 1, 12, 2000, 2100, 234, ARGS(1, 11, 10), 0); /* tgkill */
	put_call(&r->b, 1, 13, 2200, 2300, 234, ARGS(1, 11, 12), 0);
	put_exit(&r->b, 1, 11, 2400, 34, -4);
	put_enter(&r->b, 1, 11, 5000, 34, NULL);
	put_call(&r->b, 1, 12, 6000, 6100, 234, ARGS(1, 11, 10), 0);
	put_exit(&r->b, 1, 11, 6200, 34, -4);
	put_enter(&r->b, 1, 11, 7000, 34, NULL);
	put_call(&r->b, 1, 12, 8000, 8100, 234, ARGS(1, 11, 10), 0);
	put_call(&r->b, 2, 2, 8200, 8300, 62, ARGS(1, 10), 0); /* kill */
	put_exit(&r->b, 1, 11, 9000, 34, -4);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
	assert_int_equal(wait_at(r->waits, 1).flags, 0);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 2).flags, PTAH_WAIT_SEVERAL);
}

/* What was sent to a process may have come to any of its threads; to a thread, only to that. */
TEST_WITH(test_signal_to_process, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_call(&r->b, 1, 12, 100, 110, 39, NULL, 1);
	put_enter(&r->b, 1, 11, 1000, 35, NULL);
	put_call(&r->b, 2, 2, 2000, 2100, 62, ARGS(1, 10), 0); /* kill */
	put_exit(&r->b, 1, 11, 2200, 35, -4);
	/* rt_sigtimedwait() returns which signal it was: the later one is another. */
	put_enter(&r->b, 1, 11, 5000, 128, NULL);
	put_call(&r->b, 2, 2, 6000, 6100, 62, ARGS(1, 10), 0);
	put_call(&r->b, 3, 3, 6200, 6300, 62, ARGS(1, 12), 0);
	put_exit(&r->b, 1, 11, 7000, 128, 10);
	/* A failed one has sent nothing. */
	put_enter(&r->b, 1, 11, 8000, 35, NULL);
	put_call(&r->b, 3, 3, 8200, 8300, 62, ARGS(1, 12), -1);
	put_exit(&r->b, 1, 11, 9000, 35, -4);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 2);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 2);
	assert_int_equal(wait_at(r->waits, 1).flags, 0);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, -1);
}

/* waitid() leaves in memory whose end it was. */
TEST_WITH(test_waitid, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	uint8_t info[24] = {17};

	store_le32(info + 16, 5);
	put_enter(&r->b, 1, 1, 1000, 247, ARGS(0, 0, 0x7000, 4));
	put_enter(&r->b, 4, 4, 30000, 231, NULL);
	put_enter(&r->b, 5, 5, 40000, 231, NULL);
	put_enter(&r->b, 6, 6, 40001, 231, NULL);
	put_exit(&r->b, 1, 1, 50000, 247, 0);
	put_data(&r->b, 1, 1, 50000, 247, 2, 1, info, sizeof(info));
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_CHILD);
	assert_int_equal(wait_at(r->waits, 0).waker_pid, 5);
}

/* Of timers nobody else is the cause; of a process its end is. */
TEST_WITH(test_polled_timer_and_process, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	const uint64_t timer = 3 | UINT64_C(0x10001) << 32, process = 4 | UINT64_C(0x10001) << 32;

	put_call(&r->b, 1, 1, 100, 110, 283, ARGS(1), 3); /* timerfd_create */
	put_call(&r->b, 1, 1, 200, 210, 434, ARGS(5), 4); /* pidfd_open */
	put_call(&r->b, 1, 1, 1000, 30000, 7, ARGS(0x7000, 1, -1), 1);
	put_data(&r->b, 1, 1, 30000, 7, 0, 1, &timer, sizeof(timer));
	put_enter(&r->b, 1, 1, 40000, 7, ARGS(0x7000, 1, -1));
	put_enter(&r->b, 5, 5, 50000, 231, NULL);
	put_exit(&r->b, 1, 1, 60000, 7, 1);
	put_data(&r->b, 1, 1, 60000, 7, 0, 1, &process, sizeof(process));
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_TIME);
	assert_int_equal(wait_at(r->waits, 0).descriptor, 3);
	assert_int_equal(wait_at(r->waits, 1).waker_pid, 5);
	assert_int_equal(wait_at(r->waits, 1).descriptor, 4);
}
