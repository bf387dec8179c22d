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
TEST_WITH(test_bytes, recorded_begin, recorded_end)
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
TEST_WITH(test_reused_number, recorded_begin, recorded_end)
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
TEST_WITH(test_forked, recorded_begin, recorded_end)
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
TEST_WITH(test_peek, recorded_begin, recorded_end)
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
TEST_WITH(test_uncounted, recorded_begin, recorded_end)
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
TEST_WITH(test_forks_at_once, recorded_begin, recorded_end)
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
TEST_WITH(test_reused_process, recorded_begin, recorded_end)
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
TEST_WITH(test_connection, recorded_begin, recorded_end)
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

/* A write that has more bytes than the pipe has room for waits for the last read before its end. */
TEST_WITH(test_full_pipe, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_call(&r->b, 1, 11, 1000, 90000, WRITE, ARGS(4, 0x6000, 60000), 60000); /* has room */
	put_enter(&r->b, 1, 11, 100000, WRITE, ARGS(4, 0x6000, 6000));
	for (uint64_t i = 0; i < 300; i++) /* however many it waits for */
		put_call(&r->b, 1, 12, 110000 + 2 * i, 110001 + 2 * i, READ, ARGS(3, 0x5000, 1), 1);
	put_call(&r->b, 1, 13, 120000, 121000, READ, ARGS(3, 0x5000, 5000), 5000);
	put_exit(&r->b, 1, 11, 130000, WRITE, 6000);
	/* With a larger pipe the same is no wait. */
	put_call(&r->b, 1, 12, 140000, 141000, READ, ARGS(3, 0x5000, 60700), 60700);
	put_call(&r->b, 1, 12, 150000, 150100, 72, ARGS(3, 1031, 131072), 131072);
	put_call(&r->b, 1, 11, 160000, 161000, WRITE, ARGS(4, 0x6000, 60000), 60000);
	put_enter(&r->b, 1, 11, 200000, WRITE, ARGS(4, 0x6000, 6000));
	put_call(&r->b, 1, 12, 210000, 211000, READ, ARGS(3, 0x5000, 100), 100);
	put_exit(&r->b, 1, 11, 230000, WRITE, 6000);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).begin, 100000);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_PIPE);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
}

/* poll() has left in memory which descriptor was ready: a write to another one has not ended it. */
TEST_WITH(test_polled, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	const uint64_t polled[] = {3 | UINT64_C(1) << 32, 5 | UINT64_C(0x10001) << 32};

	put_pipe(&r->b, 1, 100, 3, 4);
	put_pipe(&r->b, 1, 200, 5, 6);
	put_enter(&r->b, 1, 11, 1000, 7, ARGS(0x7000, 2, -1));
	put_call(&r->b, 1, 13, 3000, 3100, WRITE, ARGS(6, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 4000, 7, 1);
	put_data(&r->b, 1, 11, 4000, 7, 0, 1, polled, sizeof(polled));
	put_call(&r->b, 1, 12, 5000, 5100, WRITE, ARGS(4, 0x6000, 1), 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 0).descriptor, 5);
}

/* epoll_ctl(): 1: adds, 3: changes */
static void put_epoll_ctl(struct perfdata_buffer *b, uint64_t time, uint64_t epoll,
			  uint64_t operation, int32_t fd, uint64_t data)
{
	uint8_t event[12] = {1};

	store_le64(event + 4, data);
	put_enter(b, 1, 1, time, 233, ARGS(epoll, operation, (uint64_t)fd, 0x7000));
	put_data(b, 1, 1, time, 233, 3, 0, event, sizeof(event));
	put_exit(b, 1, 1, time + 10, 233, 0);
}

static void put_epoll_add(struct perfdata_buffer *b, uint64_t time, int32_t fd, uint64_t data)
{
	put_epoll_ctl(b, time, 7, 1, fd, data);
}

/* epoll_wait() returns the data of what was ready; those that two descriptors have say nothing. */
TEST_WITH(test_epolled, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	uint8_t event[12] = {1};

	put_pipe(&r->b, 1, 100, 3, 4);
	put_pipe(&r->b, 1, 200, 5, 6);
	put_call(&r->b, 1, 1, 300, 310, 291, ARGS(0), 7); /* epoll_create1 */
	put_epoll_add(&r->b, 400, 3, 0x10);
	put_epoll_add(&r->b, 500, 5, 0x20);
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t at = 10000 * (i + 1);

		store_le64(event + 4, 0x20);
		put_enter(&r->b, 1, 11, at, 232, ARGS(7, 0x7000, 1, -1));
		put_call(&r->b, 1, 13, at + 100, at + 200, WRITE, ARGS(6, 0x6000, 1), 1);
		put_exit(&r->b, 1, 11, at + 300, 232, 1);
		put_data(&r->b, 1, 11, at + 300, 232, 1, 1, event, sizeof(event));
		put_call(&r->b, 1, 13, at + 1000, at + 1100, 233, ARGS(7, 2, 3), 0);
		put_epoll_add(&r->b, at + 2000, 3, 0x20);
	}
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 0).descriptor, 5);
	/* From the writes alone. */
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 1).descriptor, 5);
	assert_int_equal(wait_at(r->waits, 1).flags, 0);
}

/* What another epoll watches has no effect, whatever its data. */
TEST_WITH(test_two_epolls, recorded_begin, recorded_end)
{
	struct recorded *r = *state;
	uint8_t event[12] = {1};

	put_pipe(&r->b, 1, 100, 3, 4);
	put_pipe(&r->b, 1, 200, 5, 6);
	put_call(&r->b, 1, 1, 300, 310, 291, ARGS(0), 7); /* epoll_create1 */
	put_call(&r->b, 1, 1, 320, 330, 291, ARGS(0), 8);
	put_epoll_add(&r->b, 400, 3, 0x10);
	put_epoll_add(&r->b, 450, 5, 0x11);
	for (unsigned i = 0; i < 64; i++)
		put_epoll_ctl(&r->b, 500 + 20 * i, 8, i ? 3 : 1, 5, i);
	store_le64(event + 4, 0x10);
	put_enter(&r->b, 1, 11, 10000, 232, ARGS(7, 0x7000, 1, -1));
	put_call(&r->b, 1, 13, 10100, 10200, WRITE, ARGS(4, 0x6000, 1), 1);
	put_call(&r->b, 1, 14, 10110, 10210, WRITE, ARGS(6, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 10300, 232, 1);
	put_data(&r->b, 1, 11, 10300, 232, 1, 1, event, sizeof(event));
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).descriptor, 3);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 0).flags, 0);
}

/* Two threads read a pipe at once, or write to it: either may have been first. */
TEST_WITH(test_overlapping, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_enter(&r->b, 1, 11, 1000, READ, ARGS(3, 0x5000, 1));
	put_enter(&r->b, 1, 12, 1100, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 13, 40000, 40100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_call(&r->b, 1, 14, 41000, 41100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 12, 41500, READ, 1);
	put_exit(&r->b, 1, 11, 42000, READ, 1);
	put_enter(&r->b, 1, 11, 50000, READ, ARGS(3, 0x5000, 1));
	put_enter(&r->b, 1, 13, 90000, WRITE, ARGS(4, 0x6000, 1));
	put_call(&r->b, 1, 14, 90010, 90100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 13, 90200, WRITE, 1);
	put_exit(&r->b, 1, 11, 90300, READ, 1);
	put_call(&r->b, 1, 11, 90400, 90500, READ, ARGS(3, 0x5000, 1), 1);
	put_enter(&r->b, 1, 11, 100000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 1, 14, 140000, 140100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 140200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(wait_at(r->waits, i).flags, i == 3 ? 0 : PTAH_WAIT_SEVERAL);
	assert_int_equal(wait_at(r->waits, 3).waker_tid, 14);
}

/* Of two threads that wait at one epoll, or read one eventfd, either may have taken what was written. */
TEST_WITH(test_shared, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 4);
	put_call(&r->b, 1, 1, 300, 310, 291, ARGS(0), 7); /* epoll_create1 */
	put_epoll_add(&r->b, 400, 3, 0x10);
	put_call(&r->b, 1, 1, 500, 510, 290, ARGS(0), 8); /* eventfd2 */
	put_enter(&r->b, 1, 11, 1000, 232, ARGS(7, 0x7000, 1, -1));
	put_enter(&r->b, 1, 12, 1100, 232, ARGS(7, 0x7000, 1, -1));
	put_call(&r->b, 1, 13, 2000, 2100, WRITE, ARGS(4, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 2200, 232, 1);
	put_exit(&r->b, 1, 12, 2300, 232, 1);
	put_enter(&r->b, 1, 11, 31000, READ, ARGS(8, 0x6000, 8));
	put_enter(&r->b, 1, 12, 31100, READ, ARGS(8, 0x6000, 8));
	put_call(&r->b, 1, 13, 60000, 60100, WRITE, ARGS(8, 0x6000, 8), 8);
	put_exit(&r->b, 1, 11, 60200, READ, 8);
	put_call(&r->b, 1, 13, 61000, 61100, WRITE, ARGS(8, 0x6000, 8), 8);
	put_call(&r->b, 1, 14, 62000, 62100, WRITE, ARGS(8, 0x6000, 8), 8);
	put_exit(&r->b, 1, 12, 62200, READ, 8);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(wait_at(r->waits, i).waker_tid, 13);
		assert_int_equal(wait_at(r->waits, i).flags, i == 2 ? 0 : PTAH_WAIT_SEVERAL);
	}
}

/* An eventfd that was written to before a read is not 0: the read does not wait. */
TEST_WITH(test_eventfd, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_call(&r->b, 1, 1, 100, 110, 290, ARGS(0, 0), 3); /* eventfd2 */
	put_call(&r->b, 1, 12, 1000, 1100, WRITE, ARGS(3, 0x6000, 8), 8);
	put_enter(&r->b, 1, 11, 2000, READ, ARGS(3, 0x5000, 8));
	put_call(&r->b, 1, 12, 30000, 30100, WRITE, ARGS(3, 0x6000, 8), 8);
	put_exit(&r->b, 1, 11, 40000, READ, 8);
	put_enter(&r->b, 1, 11, 100000, READ, ARGS(3, 0x5000, 8));
	put_call(&r->b, 1, 13, 200000, 200100, WRITE, ARGS(3, 0x6000, 8), 8);
	put_exit(&r->b, 1, 11, 200200, READ, 8);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).begin, 100000);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
}

/*
 * A process with many descriptors that forks and ends again and again: tables are made a limited
 * number of times, and what is not known by then ends no wait.
 */
TEST_WITH(test_many_tables, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_pipe(&r->b, 1, 100, 3, 60000);
	for (unsigned i = 0; i < 3000; i++) {
		put_call(&r->b, 1, 1, 1000 + 20 * i, 1002 + 20 * i, 57, NULL, 2);
		put_enter(&r->b, 2, 2, 1010 + 20 * i, 231, NULL);
	}
	put_call(&r->b, 1, 1, 100000, 100002, 57, NULL, 2);
	put_enter(&r->b, 1, 11, 200000, READ, ARGS(3, 0x5000, 1));
	put_call(&r->b, 2, 2, 250000, 250100, WRITE, ARGS(60000, 0x6000, 1), 1);
	put_call(&r->b, 1, 12, 300000, 300100, WRITE, ARGS(60000, 0x6000, 1), 1);
	put_exit(&r->b, 1, 11, 300200, READ, 1);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 12);
}
