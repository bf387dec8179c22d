/* SPDX-License-Identifier: MIT */
/* Who ends waits for bytes: whoever wrote the first one that was read. */
#include "waits/recording.h"

#define READ  0
#define WRITE 1
#define CLOSE 3
#define PIPE2 293

static void put_pipe(struct perfdata_buffer *b, int32_t pid, uint64_t time, int32_t from,
		     int32_t to)
{
	const int32_t pair[] = {from, to};

	put_call(b, pid, pid, time, time + 10, PIPE2, ARGS(0x7000, 0), 0);
	put_data(b, pid, pid, time + 10, PIPE2, 0, 1, pair, sizeof(pair));
}

/* Of two writes before a read's end, the first has its byte. */
static void test_bytes(void **state)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_enter(&r->b, 1, 11, 1000, READ, ARGS(3, 0x5000, 2));
	put_call(&r->b, 1, 12, 2000, 2100, WRITE, ARGS(4, 0x6000, 3), 3);
	put_exit(&r->b, 1, 11, 2200, READ, 2);
	/* The byte that is left was there: this read does not wait, and the next one does. */
	put_call(&r->b, 1, 11, 3000, 3100, READ, ARGS(3, 0x5000, 1), 1);
	put_enter(&r->b, 1, 11, 4000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 13, 5000, 5100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 5200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_PIPE);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 0).woken, 2000);
	assert_int_equal(wait_at(r->waits, 1).begin, 4000);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 13);
}

/* A number that is closed and opened again is another pipe. */
static void test_reused_number(void **state)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_call(&r->b, 1, 12, 200, 210, WRITE, ARGS(4, 0x6000, 1), 1);
	put_call(&r->b, 1, 1, 300, 310, CLOSE, ARGS(3), 0);
	put_call(&r->b, 1, 1, 320, 330, CLOSE, ARGS(4), 0);
	put_pipe(&r->b, 1, 400, 3, 4);
	put_enter(&r->b, 1, 11, 1000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 13, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 2200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
}

/* A child has the pipes of its parent. */
static void test_forked(void **state)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_enter(&r->b, 1, 1, 200, 57, NULL);
	put_exit(&r->b, 2, 2, 250, 57, 0);
	put_exit(&r->b, 1, 1, 260, 57, 2);
	put_enter(&r->b, 1, 1, 1000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 2, 2, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 1, 2200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_pid, 2);
}

/* MSG_PEEK waits for a byte and leaves it there: the next read has the same one. */
static void test_peek(void **state)
{
	struct recorded *r = *state;
	const int32_t pair[] = {3, 4};

	put_call(&r->b, 1, 1, 100, 110, 53, ARGS(1, 1, 0, 0x7000), 0); /* socketpair */
	put_data(&r->b, 1, 1, 110, 53, 3, 1, pair, sizeof(pair));
	put_enter(&r->b, 1, 11, 1000, 45, ARGS(3, 0x5000, 1, 2)); /* recvfrom(MSG_PEEK) */
	put_call(&r->b, 1, 12, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 2200, 45, 1);
	put_call(&r->b, 1, 11, 3000, 3100, READ, ARGS(3, 0x5000, 1), 1);
	put_enter(&r->b, 1, 11, 4000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 13, 5000, 5100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 5200, READ, 1);
	/* No write after a read's end has written what it read. */
	put_call(&r->b, 1, 11, 6000, 96000, READ, ARGS(3, 0x5000, 1), 1);
	put_call(&r->b, 1, 14, 97000, 97100, WRITE, ARGS(4, 0x6000, 1), 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 1).begin, 4000);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 2).waker_tid, -1);
}

/* splice() to a pipe: from there on it is not known who wrote a byte. */
static void test_uncounted(void **state)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_enter(&r->b, 1, 11, 1000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 12, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 2200, READ, 1);
	put_enter(&r->b, 1, 11, 100000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 13, 200000, 200100, 275, ARGS(9, 0, 4, 0, 1), 1); /* splice */
	put_call(&r->b, 1, 12, 200200, 200300, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 201000, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, -1);
}

/* A child that returns before its parent is of whoever began to fork last, of those that still do. */
static void test_forks_at_once(void **state)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 9, 100, 3, 4);
	put_enter(&r->b, 1, 1, 200, 57, NULL);
	put_enter(&r->b, 5, 5, 210, 57, NULL);
	put_enter(&r->b, 9, 9, 220, 57, NULL);
	put_exit(&r->b, 1, 1, 230, 57, 2);
	put_exit(&r->b, 10, 10, 240, 57, 0);
	put_enter(&r->b, 9, 19, 1000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 10, 10, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 9, 19, 2200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_pid, 10);
}

/* The number of a process that has ended is that of another child, which inherits, too. */
static void test_reused_process(void **state)
{
	struct recorded *r = *state;

	put_call(&r->b, 1, 1, 100, 110, 57, NULL, 2);
	put_call(&r->b, 2, 2, 200, 210, 290, ARGS(0, 0), 3); /* eventfd2 */
	put_enter(&r->b, 2, 2, 300, 231, ARGS(0));
	put_pipe(&r->b, 1, 400, 3, 4);
	put_call(&r->b, 1, 1, 500, 510, 57, NULL, 2);
	put_enter(&r->b, 1, 1, 1000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 2, 2, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 1, 2200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_pid, 2);
}

/* A connection's sides are connected by the address, although accept() returns first. */
static void test_connection(void **state)
{
	static const uint8_t address[] = {1, 0, '/', 't', 'm', 'p', '/', 's', 0};
	struct recorded *r = *state;

	put_call(&r->b, 1, 1, 100, 110, 41, ARGS(1, 1, 0), 3); /* socket */
	put_enter(&r->b, 1, 1, 200, 49, ARGS(3, 0x7000, 9));   /* bind */
	put_data(&r->b, 1, 1, 200, 49, 1, 0, address, sizeof(address));
	put_exit(&r->b, 1, 1, 210, 49, 0);
	put_call(&r->b, 2, 2, 300, 310, 41, ARGS(1, 1, 0), 5);
	put_enter(&r->b, 1, 1, 400, 288, ARGS(3, 0, 0));     /* accept4 */
	put_enter(&r->b, 2, 2, 500, 42, ARGS(5, 0x7000, 9)); /* connect */
	put_data(&r->b, 2, 2, 500, 42, 1, 0, address, sizeof(address));
	put_exit(&r->b, 1, 1, 600, 288, 4);
	put_exit(&r->b, 2, 2, 700, 42, 0);
	put_enter(&r->b, 2, 2, 1000, 45, ARGS(5, 0x7000, 1));	      /* recvfrom */
	put_call(&r->b, 1, 1, 2000, 2100, 44, ARGS(4, 0x7000, 1), 1); /* sendto */
	put_exit(&r->b, 2, 2, 2200, 45, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	/* accept() waited for the connection, */
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_SOCKET);
	assert_int_equal(wait_at(r->waits, 0).tid, 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 2);
	assert_int_equal(wait_at(r->waits, 0).woken, 500);
	/* and whoever connected for an answer. */
	assert_int_equal(wait_at(r->waits, 1).tid, 2);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    recorded_test(test_bytes),		recorded_test(test_reused_number),
	    recorded_test(test_forked),		recorded_test(test_forks_at_once),
	    recorded_test(test_reused_process), recorded_test(test_peek),
	    recorded_test(test_uncounted),	recorded_test(test_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
