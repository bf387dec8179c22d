/* SPDX-License-Identifier: MIT */
/* Who ends waits at futexes: the rules of futex(2). */
#include "waits/recording.h"

#define FUTEX	      202
#define WORD	      0x4040c0
#define WAIT	      128 /* FUTEX_WAIT | FUTEX_PRIVATE_FLAG */
#define WAKE	      129
#define WAIT_BITSET   137
#define WAKE_BITSET   138
#define WAIT_ON(bits) ARGS(WORD, WAIT_BITSET, 1, 0, 0, bits)

/* A wake takes as many as it returned, and those that came first. */
TEST_WITH(test_oldest_first, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 2000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 13, 3000, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 1, 14, 4000, 4100, FUTEX, ARGS(WORD, WAKE, 2), 2);
	/* The first to return is not the first that was woken. */
	put_exit(&r->b, 1, 12, 4200, FUTEX, 0);
	put_exit(&r->b, 1, 11, 5000, FUTEX, 0);
	put_call(&r->b, 1, 15, 6000, 6100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 13, 7000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 14);
	assert_int_equal(wait_at(r->waits, 0).woken, 4000);
	assert_int_equal(wait_at(r->waits, 0).end, 5000);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 14);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, 15);
	assert_int_equal(wait_at(r->waits, 2).how, PTAH_WAIT_END_WOKEN);
}

/*
 * A thread that was overtaken on its way into the queue is woken by the next one: the other one was
 * over by then. What found another value has not been in the queue.
 */
TEST_WITH(test_overtaken, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 1100, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 13, 1200, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 15, 1900, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 21, 2000, FUTEX, ARGS(WORD, WAKE, 1));
	put_exit(&r->b, 1, 15, 2050, FUTEX, -11);
	put_exit(&r->b, 1, 21, 2100, FUTEX, 1);
	put_exit(&r->b, 1, 12, 2500, FUTEX, 0);
	put_call(&r->b, 1, 22, 3000, 3100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_call(&r->b, 1, 23, 4000, 4100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 13, 4200, FUTEX, 0);
	put_exit(&r->b, 1, 11, 4300, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 22);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 21);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, 23);
}

/* One that may have been overtaken, and that nobody is known to have woken, has no other wakers. */
TEST_WITH(test_overtaken_unknown, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 1100, FUTEX, ARGS(WORD, WAIT, 2));
	put_switch(&r->b, 1, 12, 1150, true, false);
	put_switch(&r->b, 1, 11, 1200, true, false);
	put_call(&r->b, 1, 21, 2000, 2100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_switch(&r->b, 1, 11, 2200, false, false);
	put_exit(&r->b, 1, 11, 2300, FUTEX, 0);
	put_switch(&r->b, 1, 12, 5000, false, false);
	put_exit(&r->b, 1, 12, 5100, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 21);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
	assert_int_equal(wait_at(r->waits, 1).how, PTAH_WAIT_END_UNKNOWN);
	assert_int_equal(wait_at(r->waits, 1).flags, 0);
}

/* A result that no kernel returns. */
TEST_WITH(test_huge_results, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	for (unsigned i = 0; i < 3; i++)
		put_enter(&r->b, 1, 11 + (int)i, 1000 + 100 * i, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 1, 21, 2000, 2100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 11, 2200, FUTEX, 0);
	put_call(&r->b, 1, 21, 3000, 3100, FUTEX, ARGS(WORD, WAKE, 1), INT64_MAX);
	put_exit(&r->b, 1, 12, 3200, FUTEX, 0);
	put_call(&r->b, 1, 21, 4000, 4100, FUTEX, ARGS(WORD, WAKE, 1), INT64_MAX);
	put_exit(&r->b, 1, 13, 4200, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 21);
}

/* Two threads wake at the same time: either may have been first, unless what the one woke was over. */
TEST_WITH(test_wakes_at_once, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 1100, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 13, 1200, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 21, 2000, FUTEX, ARGS(WORD, WAKE, 1));
	put_enter(&r->b, 1, 22, 2050, FUTEX, ARGS(WORD, WAKE, 1));
	put_exit(&r->b, 1, 22, 2100, FUTEX, 1);
	put_exit(&r->b, 1, 11, 2200, FUTEX, 0);
	put_exit(&r->b, 1, 12, 2300, FUTEX, 0);
	put_call(&r->b, 1, 23, 3000, 3100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 13, 3200, FUTEX, 0);
	put_exit(&r->b, 1, 21, 4000, FUTEX, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
	assert_int_equal(wait_at(r->waits, 1).flags, PTAH_WAIT_SEVERAL);
	assert_int_equal(wait_at(r->waits, 2).flags, 0);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, 23);
}

/* The same address of another process is another word, and another address is, too. */
TEST_WITH(test_other_words, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 2, 21, 2000, 2100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_call(&r->b, 1, 12, 3000, 3100, FUTEX, ARGS(WORD + 4, WAKE, 1), 1);
	put_exit(&r->b, 1, 11, 4000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_UNKNOWN);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, -1);
}

/* EAGAIN: the word had changed, so that there was no wait. A wake that woke nobody ends none. */
TEST_WITH(test_no_wait, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_call(&r->b, 1, 11, 1000, 1100, FUTEX, ARGS(WORD, WAIT, 2), -11);
	put_enter(&r->b, 1, 12, 2000, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 1, 13, 3000, 3100, FUTEX, ARGS(WORD, WAKE, 1), 0);
	put_exit(&r->b, 1, 12, 9000, FUTEX, -110);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).tid, 12);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_TIME);
}

/* FUTEX_WAKE_BITSET passes over those that wait for other bits. */
TEST_WITH(test_bitset, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, WAIT_ON(1));
	put_enter(&r->b, 1, 12, 2000, FUTEX, WAIT_ON(2));
	put_call(&r->b, 1, 13, 3000, 3100, FUTEX, ARGS(WORD, WAKE_BITSET, 1, 0, 0, 2), 1);
	put_exit(&r->b, 1, 12, 4000, FUTEX, 0);
	put_call(&r->b, 1, 14, 5000, 5100, FUTEX, ARGS(WORD, WAKE_BITSET, 1, 0, 0, 1), 1);
	put_exit(&r->b, 1, 11, 6000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 14);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 13);
}

/*
 * FUTEX_CMP_REQUEUE returns how many it woke and moved; it wakes as many as its third argument says,
 * and what it moved is not woken at the first address.
 */
TEST_WITH(test_requeue, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 2000, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 1, 13, 3000, 3100, FUTEX, ARGS(WORD, 132, 1, 10, WORD + 64, 2), 2);
	put_exit(&r->b, 1, 11, 4000, FUTEX, 0);
	put_enter(&r->b, 1, 14, 5000, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 1, 15, 6000, 6100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 14, 7000, FUTEX, 0);
	put_exit(&r->b, 1, 12, 8000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, -1);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, 15);
}

/* What was moved is woken at the other address, after those that waited there before. */
TEST_WITH(test_requeued, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 2000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 13, 2500, FUTEX, ARGS(WORD + 64, WAIT, 2));
	put_call(&r->b, 1, 14, 3000, 3100, FUTEX, ARGS(WORD, 132, 0, 10, WORD + 64, 2), 2);
	put_call(&r->b, 1, 15, 4000, 4100, FUTEX, ARGS(WORD + 64, WAKE, 1), 1);
	put_exit(&r->b, 1, 13, 4200, FUTEX, 0);
	put_call(&r->b, 1, 16, 5000, 5100, FUTEX, ARGS(WORD + 64, WAKE, 2), 2);
	put_exit(&r->b, 1, 12, 5200, FUTEX, 0);
	put_exit(&r->b, 1, 11, 5300, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 16);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 16);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, 15);
}

/*
 * FUTEX_CMP_REQUEUE_PI: who finds the second lock free gets it at once, and all others by the
 * UNLOCK_PI of the one before them.
 */
TEST_WITH(test_requeue_pi, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	const uint64_t *wait = ARGS(WORD, 139, 2, 0, WORD + 64);

	put_enter(&r->b, 1, 11, 1000, FUTEX, wait);
	put_enter(&r->b, 1, 12, 2000, FUTEX, wait);
	put_call(&r->b, 1, 13, 3000, 3100, FUTEX, ARGS(WORD, 140, 1, 10, WORD + 64, 2), 2);
	put_exit(&r->b, 1, 11, 3200, FUTEX, 0);
	put_call(&r->b, 1, 11, 4000, 4100, FUTEX, ARGS(WORD + 64, 135), 0);
	put_exit(&r->b, 1, 12, 4200, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 11);
}

/* UNLOCK_PI gives the lock to the waiter with the highest priority: the one that returns first. */
TEST_WITH(test_unlock_pi, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, 134));
	put_enter(&r->b, 1, 12, 2000, FUTEX, ARGS(WORD, 134));
	put_call(&r->b, 1, 13, 3000, 3100, FUTEX, ARGS(WORD, 135), 0);
	put_exit(&r->b, 1, 12, 3200, FUTEX, 0);
	put_call(&r->b, 1, 12, 4000, 4100, FUTEX, ARGS(WORD, 135), 0);
	put_exit(&r->b, 1, 11, 4200, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 13);
}

/* futex_waitv() returns which of its futexes was woken: a struct has value, address and flags. */
TEST_WITH(test_waitv, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	const uint64_t list[] = {0, WORD, 130, 0, WORD + 64, 130};

	put_enter(&r->b, 1, 11, 1000, 449, ARGS(0x7000, 2));
	put_data(&r->b, 1, 11, 1000, 449, 0, 0, list, sizeof(list));
	put_call(&r->b, 1, 12, 2000, 2100, FUTEX, ARGS(WORD + 64, WAKE, 1), 1);
	put_exit(&r->b, 1, 11, 2200, 449, 1);
	/* Without what it points to, nobody knows. */
	put_enter(&r->b, 1, 11, 30000, 449, ARGS(0x7000, 2));
	put_call(&r->b, 1, 12, 40000, 40100, FUTEX, ARGS(WORD + 64, WAKE, 1), 1);
	put_exit(&r->b, 1, 11, 60000, 449, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 0).address, WORD + 64);
	assert_int_equal(wait_at(r->waits, 1).how, PTAH_WAIT_END_UNKNOWN);
	assert_int_equal(wait_at(r->waits, 1).address, 0);
}

/* It returns the last one that was woken: another one may have been first. */
TEST_WITH(test_waitv_several, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	const uint64_t list[] = {0, WORD, 130, 0, WORD + 64, 130};

	put_enter(&r->b, 1, 11, 1000, 449, ARGS(0x7000, 2));
	put_data(&r->b, 1, 11, 1000, 449, 0, 0, list, sizeof(list));
	put_call(&r->b, 1, 12, 2000, 2100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_call(&r->b, 1, 13, 2200, 2300, FUTEX, ARGS(WORD + 64, WAKE, 1), 1);
	put_exit(&r->b, 1, 11, 2400, 449, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
}

/*
 * A thread loses its processor in FUTEX_WAKE: it may have woken nobody before that, so that whom others
 * wake meanwhile is not certain. It is, if the woken thread takes its processor.
 */
static void put_late_wake(struct recorded *r, bool to_woken)
{
	for (int tid = 11; tid <= 13; tid++) {
		put_enter(&r->b, 1, tid, 1000 + 100 * (uint64_t)tid, FUTEX, ARGS(WORD, WAIT, 2));
		put_switch(&r->b, 1, tid, 1050 + 100 * (uint64_t)tid, true, false);
	}
	put_enter(&r->b, 1, 21, 30000, FUTEX, ARGS(WORD, WAKE, 1));
	put_switch(&r->b, 1, 21, 31000, true, true);
	put_switch(&r->b, 1, 11, to_woken ? 31100 : 45000, false, false);
	put_exit(&r->b, 1, 11, 45100, FUTEX, 0);
	put_call(&r->b, 1, 22, 50000, 50100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_switch(&r->b, 1, 12, 55000, false, false);
	put_exit(&r->b, 1, 12, 55100, FUTEX, 0);
	put_switch(&r->b, 1, 21, 90000, false, false);
	put_exit(&r->b, 1, 21, 91000, FUTEX, 1);
	recorded_find_waits(r);
}

TEST_WITH(test_late_wake, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_late_wake(r, false);
	assert_int_equal(wait_at(r->waits, 1).tid, 12);
	assert_int_equal(wait_at(r->waits, 1).flags, PTAH_WAIT_SEVERAL);
}

TEST_WITH(test_woken_takes_processor, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_late_wake(r, true);
	assert_int_equal(wait_at(r->waits, 1).tid, 12);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 22);
	assert_int_equal(wait_at(r->waits, 1).flags, 0);
}

/* One that was woken on its way to sleep may have come into the queue after others. */
TEST_WITH(test_woken_before_sleep, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	for (int tid = 11; tid <= 12; tid++)
		put_switch(&r->b, 1, tid, 100, false, false);
	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 1100, FUTEX, ARGS(WORD, WAIT, 2));
	put_switch(&r->b, 1, 12, 1200, true, false);
	put_call(&r->b, 1, 21, 2000, 2100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_call(&r->b, 1, 22, 3000, 3100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 11, 40000, FUTEX, 0);
	put_switch(&r->b, 1, 12, 51000, false, false);
	put_exit(&r->b, 1, 12, 52000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 1).tid, 12);
	assert_int_equal(wait_at(r->waits, 1).flags, PTAH_WAIT_SEVERAL);
}

/* At the same address of another process there may be other memory. */
TEST_WITH(test_other_process, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, 0, 2));
	put_call(&r->b, 2, 21, 2000, 2100, FUTEX, ARGS(WORD, 1, 1), 1);
	put_exit(&r->b, 1, 11, 2200, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 21);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
}

/* FUTEX_WAKE_OP returns the sum of both places: whom of the two it woke is not known. */
TEST_WITH(test_wake_op, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 2000, FUTEX, ARGS(WORD + 64, WAIT, 2));
	put_call(&r->b, 1, 13, 3000, 3100, FUTEX, ARGS(WORD, 133, 1, 1, WORD + 64, 0), 2);
	put_exit(&r->b, 1, 11, 4000, FUTEX, 0);
	put_exit(&r->b, 1, 12, 4000, FUTEX, 0);
	put_enter(&r->b, 1, 11, 5000, FUTEX, ARGS(WORD, WAIT, 2));
	put_call(&r->b, 1, 13, 6000, 6100, FUTEX, ARGS(WORD, 133, 1, 1, WORD + 64, 0), 1);
	put_exit(&r->b, 1, 11, 7000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 0).flags, 0);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 1).flags, 0);
	assert_int_equal(wait_at(r->waits, 2).flags, PTAH_WAIT_SEVERAL);
}

/* A wake that was over when a wait began has not ended it, although another one lasted longer. */
TEST_WITH(test_wake_before_wait, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 13, 1000, FUTEX, ARGS(WORD, WAKE, 1));
	put_call(&r->b, 1, 14, 1100, 1200, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_enter(&r->b, 1, 11, 2000, FUTEX, ARGS(WORD, WAIT, 2));
	put_enter(&r->b, 1, 12, 2100, FUTEX, ARGS(WORD, WAIT, 2));
	put_exit(&r->b, 1, 13, 3000, FUTEX, 1);
	put_exit(&r->b, 1, 11, 4000, FUTEX, 0);
	put_call(&r->b, 1, 15, 5000, 5100, FUTEX, ARGS(WORD, WAKE, 1), 1);
	put_exit(&r->b, 1, 12, 6000, FUTEX, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 15);
}

/* The u32 after the lock of glibc's mutex is its owner, if it is a thread of the process. */
TEST_WITH(test_holder, recorded_begin, recorded_end)
{
	const uint32_t owned[] = {2, 12}, other[] = {2, 99};
	struct recorded *r = *state;

	put_call(&r->b, 1, 12, 500, 600, 39, NULL, 1);
	put_enter(&r->b, 1, 11, 1000, FUTEX, ARGS(WORD, WAIT, 2));
	put_data(&r->b, 1, 11, 1000, FUTEX, 0, 0, owned, sizeof(owned));
	put_enter(&r->b, 1, 13, 2000, FUTEX, ARGS(WORD + 64, WAIT, 2));
	put_data(&r->b, 1, 13, 2000, FUTEX, 0, 0, other, sizeof(other));
	put_call(&r->b, 1, 12, 8000, 8100, 39, NULL, 1);
	recorded_find_waits(r);
	/* Neither ever ended. */
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).how, PTAH_WAIT_END_NEVER);
	assert_int_equal(wait_at(r->waits, 0).holder, 12);
	assert_int_equal(wait_at(r->waits, 1).holder, 0);
}
