/* SPDX-License-Identifier: MIT */
/* Waits that end with a thread or a process, or by a signal. */
#include "waits/recording.h"

#define FUTEX 202

/* pthread_join(): not private, and the value is the thread's number. */
static void test_join(void **state)
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
static void test_robust(void **state)
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
static void test_child(void **state)
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
static void test_signal(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    recorded_test(test_join),
	    recorded_test(test_robust),
	    recorded_test(test_child),
	    recorded_test(test_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
