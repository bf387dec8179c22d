/* SPDX-License-Identifier: MIT */
/*
 * The log of system calls, from the runtime's side into the samples of a file: what is expected is
 * what docs/perf-data.md says. And what a program can do to it that is not the runtime.
 */
#include "record/native/call_log.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "perfdata/reader.h"
#include "record/call_entry.h"
#include "record/native/native.h"
#include "record/native/runtime/syscalls.h"

#include "test.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_NAME "calls.data"
#define SLOT	  2
#define PAGE	  4096
#define FIELDS	  60 /* of a sample: where the words begin */

static struct native_header *shared;
static struct runtime runtime;
static struct context context;
static struct recording *recording;
static struct ptah_recorder *recorder;
static unsigned wakes;

bool recorder_is_alive(const struct context *c)
{
	(void)c;
	return __atomic_load_n(&shared->recorder_alive, __ATOMIC_ACQUIRE);
}

void ring_wake_recorder(const struct context *c)
{
	(void)c;
	wakes++;
}

/*
 * As the runtime has it: memory that is not there is no fault. (Its header has a struct of the same
 * name as one of the recorder.)
 */
bool signals_copy(void *to, const void *from, size_t n);

bool signals_copy(void *to, const void *from, size_t n)
{
	const struct iovec local = {to, n}, remote = {(void *)(uintptr_t)from, n};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)n;
}

static int set_up(void **unused)
{
	static const struct perfdata_writer_config config = {
	    .path = FILE_NAME, .clock.mult = 1, .tsc = true, .calls = true};

	(void)unused;
	shared = mmap(NULL, native_bytes(), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->recorder_alive = 1;
	recorder = calloc(1, sizeof(*recorder));
	recording = calloc(1, sizeof(*recording));
	recording->r = recorder;
	recording->flags = NATIVE_CALLS;
	recording->streams = calloc(1, sizeof(*recording->streams));
	recording->streams->memory = (uint8_t *)shared;
	recording->streams->slots = NATIVE_THREADS;
	recording->streams->flags = NATIVE_CALLS;
	recording->streams->list[SLOT] = (struct native_stream){.used = true, .pid = 70, .tid = 71};
	streams_use(recording->streams, SLOT);
	assert_int_equal(perfdata_writer_open(&config, &recorder->writer, NULL), 0);
	runtime = (struct runtime){.shared = shared, .flags = NATIVE_CALLS};
	context = (struct context){.runtime = &runtime};
	context.slot = (struct native_thread *)(void *)((uint8_t *)shared + native_slot_at(SLOT));
	wakes = 0;
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	if (recorder->writer)
		perfdata_writer_abort(recorder->writer);
	call_samples_free(&recording->calls);
	free(recording->streams);
	free(recording);
	free(recorder);
	munmap(shared, native_bytes());
	return 0;
}

static struct call call_of(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	return (struct call){.words = {number, a, b, c, d, 55, 66}, .next = 0x1002};
}

/* The call is made at one time, and returns at another. */
static void log_call(const struct call *call, uint64_t tsc)
{
	context.stamp = tsc;
	call_log_call(&context, call);
}

static void log_return(const struct call *call, int64_t result, uint64_t tsc)
{
	context.stamp = tsc;
	call_log_return(&context, call, result);
}

/* The samples of the file that is finished by this: raw[n] is the last one. */
static const uint8_t *raw[64];
static struct perfdata_file *file;

static unsigned read_samples(void)
{
	struct perfdata_record record;
	unsigned n = 0;
	/* A file without trace would not be kept. */
	static const uint8_t psb[16] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
					0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};

	perfdata_write_auxtrace(recorder->writer, 0, 71, psb, sizeof(psb));
	assert_int_equal(perfdata_writer_finish(recorder->writer, NULL, NULL), 0);
	recorder->writer = NULL;
	assert_int_equal(perfdata_open(FILE_NAME, &file, NULL), 0);
	perfdata_keep_all(file);
	while (perfdata_next(file, &record, NULL) > 0)
		if (record.type == PERFDATA_SAMPLE && n < 64)
			raw[n++] = record.raw;
	return n;
}

static void close_file(void)
{
	perfdata_close(file);
	unlink(FILE_NAME);
}

static uint64_t word(const uint8_t *sample, unsigned at)
{
	return load_le64(sample + at);
}

/* What all samples have. id: that of the event; format: its ID. */
static void check_sample(const uint8_t *sample, unsigned id, unsigned format, uint64_t time)
{
	assert_int_equal(load_le16(sample + 4), 2);
	assert_int_equal(word(sample, 8), id);
	assert_int_equal(word(sample, 16), 0x1002);
	assert_int_equal(load_le32(sample + 24), 70);
	assert_int_equal(load_le32(sample + 28), 71);
	assert_int_equal(word(sample, 32), time);
	assert_int_equal(load_le32(sample + 48) % 8, 4);
	assert_int_equal(load_le32(sample + 48) + 52, load_le16(sample + 6));
	assert_int_equal(load_le16(sample + 52), format);
	assert_int_equal(load_le32(sample + 56), 71);
}

/* sys_data, with its bytes and a zero after them. */
static void check_data(const uint8_t *sample, uint64_t time, unsigned argument, bool after,
		       const void *bytes, size_t n)
{
	check_sample(sample, 4, 3, time);
	assert_int_equal(load_le32(sample + 68), argument);
	assert_int_equal(load_le32(sample + 72), after);
	assert_int_equal(load_le32(sample + 76), 28 | n << 16);
	assert_memory_equal(sample + 80, bytes, n);
	assert_int_equal(sample[80 + n], 0);
}

TEST_WITH(test_a_call_is_two_samples, set_up, tear_down)
{
	const struct call call = call_of(SYS_lseek, 11, 22, 33, 44);

	log_call(&call, 1000);
	native_take_calls(recording); /* while it lasts */
	log_return(&call, -EBADF, 1005);
	native_take_calls(recording);
	assert_int_equal(read_samples(), 2);
	check_sample(raw[0], 2, 1, 1000);
	assert_int_equal(word(raw[0], FIELDS), SYS_lseek);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(word(raw[0], FIELDS + 8 + 8 * i), 11 * (i + 1));
	check_sample(raw[1], 3, 2, 1005);
	assert_int_equal(word(raw[1], FIELDS), SYS_lseek);
	assert_int_equal((int64_t)word(raw[1], FIELDS + 8), -EBADF);
	close_file();
}

/* Two pages, of which the second one is not there. */
static char *last_page(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(munmap(p + PAGE, PAGE), 0);
	return p;
}

TEST_WITH(test_paths, set_up, tear_down)
{
	char *page = last_page(), *whole = page + PAGE - 5;
	char *longest = malloc(2 * PAGE);
	struct call call;

	memcpy(whole, "/etc", 5);
	memset(longest, 'x', 2 * PAGE);
	call = call_of(SYS_open, (uintptr_t)whole, 0, 0, 0);
	log_call(&call, 1);
	call = call_of(SYS_openat, 3, (uintptr_t)longest, 0, 0);
	log_call(&call, 2);
	whole[4] = 'x'; /* now it goes on where no memory is */
	call = call_of(SYS_open, (uintptr_t)whole, 0, 0, 0);
	log_call(&call, 3);
	native_take_calls(recording);
	assert_int_equal(read_samples(), 5);
	check_data(raw[1], 1, 0, false, "/etc", 5);
	check_data(raw[3], 2, 1, false, longest, 4096);
	check_sample(raw[4], 2, 1, 3);
	munmap(page, PAGE);
	free(longest);
	close_file();
}

TEST_WITH(test_what_calls_leave_behind, set_up, tear_down)
{
	static const int32_t pair[2] = {3, 4};
	static const uint8_t name[4] = {1, 0, 'a', 0};
	static const uint32_t size = sizeof(name), too_large = 100;
	static const uint32_t futex[3] = {1, 2, 3};
	char *page = last_page();
	struct call calls[] = {
	    call_of(SYS_pipe2, (uintptr_t)pair, 0, 0, 0),
	    call_of(SYS_socketpair, 1, 1, 0, (uintptr_t)pair),
	    call_of(SYS_accept, 3, (uintptr_t)name, (uintptr_t)&size, 0),
	    call_of(SYS_connect, 3, (uintptr_t)name, size, 0),
	    call_of(SYS_bind, 3, (uintptr_t)page + PAGE - 4, too_large, 0),
	    call_of(SYS_futex, (uintptr_t)futex, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, 0),
	    call_of(SYS_futex, (uintptr_t)futex, FUTEX_WAKE, 1, 0),
	    call_of(SYS_futex, (uintptr_t)page + PAGE - 8, FUTEX_WAIT, 0, 0),
	};

	for (unsigned i = 0; i < 8; i++) {
		log_call(&calls[i], 10 * i + 1);
		log_return(&calls[i], 0, 10 * i + 2);
	}
	log_call(&calls[0], 100);
	log_return(&calls[0], -EMFILE, 101);
	native_take_calls(recording);
	assert_int_equal(read_samples(), 18 + 6);
	check_data(raw[2], 2, 0, true, pair, 8);
	check_data(raw[5], 12, 3, true, pair, 8);
	check_data(raw[8], 22, 1, true, name, 4);
	check_data(raw[10], 31, 1, false, name, 4);
	check_data(raw[15], 51, 0, false, (uint32_t[]){1, 3}, 8);
	check_data(raw[20], 71, 0, false, (uint32_t[]){0}, 4);
	munmap(page, PAGE);
	close_file();
}

TEST_WITH(test_times_of_several_threads_are_in_order, set_up, tear_down)
{
	const struct call call = call_of(SYS_getpid, 0, 0, 0, 0);
	struct context first = context;

	recording->streams->list[0] = (struct native_stream){.used = true, .pid = 70, .tid = 72};
	context.slot = (struct native_thread *)(void *)((uint8_t *)shared + native_slot_at(0));
	log_call(&call, 5);
	log_return(&call, 1, 9);
	context = first;
	log_call(&call, 4);
	log_return(&call, 1, 8);
	native_take_calls(recording);
	assert_int_equal(read_samples(), 4);
	for (unsigned i = 0; i < 4; i++) {
		static const unsigned times[] = {4, 5, 8, 9};

		assert_int_equal(word(raw[i], 32), times[i]);
		assert_int_equal(load_le32(raw[i] + 28), i % 2 ? 72 : 71);
	}
	close_file();
}

TEST_WITH(test_nothing_is_logged_where_nothing_is_read, set_up, tear_down)
{
	const struct call call = call_of(SYS_getpid, 0, 0, 0, 0);

	context.discards = true;
	log_call(&call, 1);
	log_return(&call, 1, 2);
	context.discards = false;
	context.paused = true;
	log_call(&call, 3);
	context.paused = false; /* it goes on in the call: a return alone says nothing */
	log_return(&call, 1, 4);
	runtime.flags = 0;
	log_call(&call, 5);
	assert_int_equal(context.slot->calls_head, 0);
	runtime.flags = NATIVE_CALLS;
	call_log_begin(&context, SYS_execve, 0x1002);
	native_take_calls(recording);
	assert_int_equal(read_samples(), 1);
	close_file();
}

static void *take_all(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE))
		native_take_calls(recording);
	native_take_calls(recording);
	return NULL;
}

/* The number of each call is its place: none is missing, and none comes twice. */
TEST_WITH(test_a_thread_that_is_faster_waits, set_up, tear_down)
{
	const unsigned count = 40000;
	struct perfdata_record record;
	unsigned seen = 0;
	bool stop = false;
	pthread_t id;

	assert_int_equal(pthread_create(&id, NULL, take_all, &stop), 0);
	for (unsigned i = 0; i < count; i++) {
		const struct call call = call_of(SYS_openat, i, (uintptr_t) "some path", 0, 0);

		log_call(&call, i + 1);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(id, NULL);
	assert_true(wakes >= context.calls_head / NATIVE_CALL_BYTES);
	assert_true(context.calls_head > NATIVE_CALL_BYTES * 2);
	assert_int_equal(read_samples(), 64);
	perfdata_close(file);
	assert_int_equal(perfdata_open(FILE_NAME, &file, NULL), 0);
	perfdata_keep_all(file);
	while (perfdata_next(file, &record, NULL) > 0)
		if (record.type == PERFDATA_SAMPLE && word(record.raw, 8) == 2)
			assert_int_equal(word(record.raw, FIELDS + 8), seen++);
	assert_int_equal(seen, count);
	assert_false(recording->streams->damaged);
	close_file();
}

/* Fills the log until an entry finds no room. */
static void fill(void)
{
	const struct call call = call_of(SYS_getpid, 0, 0, 0, 0);

	while (context.calls_head + CALL_ENTRY_MAX <= NATIVE_CALL_BYTES)
		log_call(&call, 1);
}

TEST_WITH(test_nobody_waits_for_a_recorder_that_is_gone, set_up, tear_down)
{
	const struct call call = call_of(SYS_getpid, 0, 0, 0, 0);

	fill();
	shared->recorder_alive = 0;
	log_call(&call, 1);
	assert_false(context.call_logged);
}

/* A program can have the recorder take a thread for one that has ended. */
TEST_WITH(test_nobody_waits_for_a_slot_that_was_freed, set_up, tear_down)
{
	const struct call call = call_of(SYS_getpid, 0, 0, 0, 0);

	fill();
	context.slot->calls_head = context.slot->calls_tail = 0;
	log_call(&call, 1);
	assert_false(context.call_logged);
	assert_int_equal(context.slot->calls_head, 0);
}

/* Whatever stands in the log, the recorder stays in it, and the file can be read. */
TEST_WITH(test_any_bytes_may_stand_in_the_log, set_up, tear_down)
{
	uint8_t *log = (uint8_t *)context.slot + NATIVE_CALLS_AT;
	struct call_entry e = {.kind = CALL_ENTRY_CALL, .tsc = UINT64_MAX, .data = 4096};

	srandom(1);
	for (unsigned i = 0; i < 300; i++) {
		const uint64_t before = recording->streams->list[SLOT].calls;

		for (unsigned k = 0; k < NATIVE_CALL_BYTES; k++)
			log[k] = (uint8_t)(random() >> 7);
		if (i % 2) { /* an entry that makes sense, of the future, before others */
			e.data = (uint16_t)(random() % 4097);
			memcpy(log + before % (NATIVE_CALL_BYTES - 64) / 8 * 8, &e, sizeof(e));
		}
		context.slot->calls_head = i % 3 ? before + (uint64_t)random() % NATIVE_CALL_BYTES
						 : (uint64_t)random() << 32;
		native_take_calls(recording);
		assert_int_equal(context.slot->calls_tail, context.slot->calls_head);
	}
	assert_true(recording->streams->damaged);
	read_samples();
	close_file();
}

TEST_WITH(test_times_do_not_go_back_nor_ahead, set_up, tear_down)
{
	const struct call call = call_of(SYS_getpid, 0, 0, 0, 0);

	log_call(&call, 500);
	log_call(&call, 400);
	log_call(&call, UINT64_MAX);
	native_take_calls(recording);
	assert_int_equal(read_samples(), 3);
	assert_int_equal(word(raw[1], 32), 500);
	assert_true(word(raw[2], 32) <= recording->last_tsc);
	close_file();
}
