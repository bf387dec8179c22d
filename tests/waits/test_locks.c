/* SPDX-License-Identifier: MIT */
/* Who ends waits for locks of files, semaphores of System V, and messages. */
#include "waits/recording.h"

#define OPEN  2
#define CLOSE 3
#define SEMOP 65
#define FLOCK 73
#define EX    2
#define UN    8

/* The same file, as another descriptor of another process. */
static void put_open(struct perfdata_buffer *b, int32_t pid, uint64_t time, int32_t fd)
{
	static const char name[] = "/tmp/lock";

	put_enter(b, pid, pid, time, OPEN, ARGS(0x7000));
	put_data(b, pid, pid, time, OPEN, 0, 0, name, sizeof(name));
	put_exit(b, pid, pid, time + 10, OPEN, fd);
}

/* A lock is given back by whoever had it, not by those that had it before. */
TEST_WITH(test_flock, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_open(&r->b, 1, 100, 3);
	put_open(&r->b, 2, 200, 4);
	put_open(&r->b, 3, 300, 5);
	put_call(&r->b, 1, 1, 400, 410, FLOCK, ARGS(3, EX), 0);
	put_enter(&r->b, 2, 2, 1000, FLOCK, ARGS(4, EX));
	put_enter(&r->b, 3, 3, 1100, FLOCK, ARGS(5, EX));
	put_call(&r->b, 1, 1, 50000, 50010, FLOCK, ARGS(3, UN), 0);
	put_exit(&r->b, 3, 3, 50100, FLOCK, 0);
	put_call(&r->b, 3, 3, 90000, 90010, CLOSE, ARGS(5), 0);
	put_exit(&r->b, 2, 2, 90100, FLOCK, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 2);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_LOCK);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 3);
	assert_int_equal(wait_at(r->waits, 0).flags, 0);
	assert_int_equal(wait_at(r->waits, 1).waker_tid, 1);
}

/*
 * Who closes a descriptor gives back nothing: without a lock, with one that it has given back already,
 * or while it has another descriptor of the open file.
 */
TEST_WITH(test_close_without_lock, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_open(&r->b, 1, 100, 3);
	put_open(&r->b, 2, 200, 4);
	put_open(&r->b, 3, 300, 5);
	put_call(&r->b, 1, 1, 390, 395, 32, ARGS(3), 6); /* dup */
	put_call(&r->b, 1, 1, 400, 410, FLOCK, ARGS(3, EX), 0);
	put_enter(&r->b, 2, 2, 1000, FLOCK, ARGS(4, EX));
	put_call(&r->b, 1, 1, 40000, 40010, CLOSE, ARGS(3), 0);
	put_call(&r->b, 1, 1, 50000, 50010, FLOCK, ARGS(6, UN), 0);
	put_call(&r->b, 3, 3, 50020, 50030, CLOSE, ARGS(5), 0);
	put_call(&r->b, 1, 1, 50040, 50050, CLOSE, ARGS(6), 0);
	put_enter(&r->b, 1, 1, 50060, 231, NULL);
	put_exit(&r->b, 2, 2, 50100, FLOCK, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 1);
	assert_int_equal(wait_at(r->waits, 0).woken, 50000);
}

/* The end of a process gives back its locks; that of another one does not. */
TEST_WITH(test_end_of_holder, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_open(&r->b, 1, 100, 3);
	put_open(&r->b, 2, 200, 4);
	put_call(&r->b, 1, 1, 400, 410, FLOCK, ARGS(3, EX), 0);
	put_enter(&r->b, 2, 2, 1000, FLOCK, ARGS(4, EX));
	put_enter(&r->b, 1, 1, 50000, 231, NULL);
	put_enter(&r->b, 5, 5, 50050, 231, NULL);
	put_exit(&r->b, 2, 2, 50100, FLOCK, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 1);
}

static void put_semop(struct perfdata_buffer *b, int32_t tid, uint64_t time, uint16_t number,
		      int16_t change)
{
	const uint16_t operation[] = {number, (uint16_t)change, 0};

	put_enter(b, 1, tid, time, SEMOP, ARGS(8, 0x7000, 1));
	put_data(b, 1, tid, time, SEMOP, 1, 0, operation, sizeof(operation));
}

/* semop() on another semaphore of the set, or one that takes, has ended nothing. */
TEST_WITH(test_semaphore, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_semop(&r->b, 11, 1000, 1, -1);
	put_semop(&r->b, 12, 40000, 0, 1);
	put_exit(&r->b, 1, 12, 40010, SEMOP, 0);
	put_semop(&r->b, 13, 50000, 1, 1);
	put_exit(&r->b, 1, 13, 50010, SEMOP, 0);
	put_semop(&r->b, 14, 50020, 1, -1);
	put_exit(&r->b, 1, 14, 50030, SEMOP, 0);
	put_exit(&r->b, 1, 11, 50100, SEMOP, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 13);
	assert_int_equal(wait_at(r->waits, 0).flags, 0);
}

static void put_lock(struct perfdata_buffer *b, int32_t pid, uint64_t time, int32_t fd,
		     uint64_t command, uint16_t type, uint64_t start)
{
	uint8_t lock[32] = {0};

	store_le16(lock, type);
	store_le64(lock + 8, start);
	store_le64(lock + 16, 10);
	put_enter(b, pid, pid, time, 72, ARGS((uint64_t)fd, command, 0x7000));
	put_data(b, pid, pid, time, 72, 2, 0, lock, sizeof(lock));
}

/* Locks of other bytes of the file are others. */
TEST_WITH(test_bytes_of_file, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_open(&r->b, 1, 100, 3);
	put_open(&r->b, 2, 200, 4);
	put_open(&r->b, 3, 300, 5);
	put_lock(&r->b, 2, 1000, 4, 7, 1, 100);
	put_lock(&r->b, 1, 40000, 3, 6, 2, 95);
	put_exit(&r->b, 1, 1, 40010, 72, 0);
	put_lock(&r->b, 3, 40020, 5, 6, 2, 110);
	put_exit(&r->b, 3, 3, 40030, 72, 0);
	put_exit(&r->b, 2, 2, 40100, 72, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_LOCK);
	assert_int_equal(wait_at(r->waits, 0).waker_tid, 1);
}

/*
 * The locks of a process go with any close() of the file; not those that it gave back or made shared
 * before, nor those of other bytes.
 */
TEST_WITH(test_close_of_process, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	for (int32_t pid = 1; pid <= 5; pid++)
		put_open(&r->b, pid, 100 * (uint64_t)pid, 3);
	put_lock(&r->b, 1, 600, 3, 6, 1, 100); /* this one has it until it closes */
	put_exit(&r->b, 1, 1, 610, 72, 0);
	put_lock(&r->b, 3, 620, 3, 6, 1, 200); /* of other bytes */
	put_exit(&r->b, 3, 3, 630, 72, 0);
	put_lock(&r->b, 4, 640, 3, 6, 1, 105); /* given back */
	put_exit(&r->b, 4, 4, 650, 72, 0);
	put_lock(&r->b, 4, 660, 3, 6, 2, 105);
	put_exit(&r->b, 4, 4, 670, 72, 0);
	put_lock(&r->b, 2, 1000, 3, 7, 1, 100);
	put_call(&r->b, 1, 1, 50000, 50010, CLOSE, ARGS(3), 0);
	put_call(&r->b, 3, 3, 50020, 50030, CLOSE, ARGS(3), 0);
	put_call(&r->b, 4, 4, 50040, 50050, CLOSE, ARGS(3), 0);
	put_enter(&r->b, 1, 1, 50060, 231, NULL);
	put_enter(&r->b, 4, 4, 50070, 231, NULL);
	put_exit(&r->b, 2, 2, 50100, 72, 0);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).woken, 50000);
}

/* A message from either of two threads may have been the one. */
TEST_WITH(test_messages, recorded_begin, recorded_end)
{
	struct recorded *r = *state;

	put_enter(&r->b, 1, 11, 1000, 70, ARGS(9)); /* msgrcv */
	put_call(&r->b, 1, 12, 40000, 40010, 69, ARGS(9), 0);
	put_call(&r->b, 1, 13, 40020, 40030, 69, ARGS(9), 0);
	put_exit(&r->b, 1, 11, 40100, 70, 4);
	recorded_find_waits(r);
	assert_int_equal(ptah_waits_count(r->waits), 1);
	assert_int_equal(wait_at(r->waits, 0).kind, PTAH_WAIT_MESSAGE);
	assert_int_equal(wait_at(r->waits, 0).flags, PTAH_WAIT_SEVERAL);
}
