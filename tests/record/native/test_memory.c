/* SPDX-License-Identifier: MIT */
/* The memory of the runtime: zeroed, closed by pages without access, near the code, known as ours.
 */
#include "record/native/runtime/memory.h"
#include "record/native/layout.h"
#include "record/native/runtime/runtime.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_PAGE (2u << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Whether the kernel can read a byte there. */
static bool is_readable(const void *at)
{
	int pipes[2];
	bool readable;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	readable = write(pipes[1], at, 1) == 1;
	assert_true(readable || errno == EFAULT);
	close(pipes[0]);
	close(pipes[1]);
	return readable;
}

static void assert_guarded(const uint8_t *at, size_t pages)
{
	assert_true(is_readable(at));
	assert_true(is_readable(at + pages * NATIVE_PAGE - 1));
	assert_false(is_readable(at - 1));
	assert_false(is_readable(at + pages * NATIVE_PAGE));
}

TEST(test_map)
{
	struct runtime *rt = memory_begin(1);
	uint8_t *at;

	assert_non_null(rt);
	at = memory_map(rt, NATIVE_PAGE + 1);
	assert_non_null(at);
	assert_guarded(at, 2);
	memset(at, 1, 2 * NATIVE_PAGE);
	assert_true(memory_is_ours(rt, (uintptr_t)at, 1));
	assert_true(memory_is_ours(rt, (uintptr_t)at - 2 * NATIVE_PAGE, NATIVE_PAGE + 1));
	assert_false(memory_is_ours(rt, (uintptr_t)at - 2 * NATIVE_PAGE, NATIVE_PAGE));
	assert_true(memory_is_ours(rt, (uintptr_t)at + 3 * NATIVE_PAGE - 1, 1));
	assert_false(memory_is_ours(rt, (uintptr_t)at + 3 * NATIVE_PAGE, 1));
	assert_true(memory_is_ours(rt, 1, UINT64_MAX));
	assert_true(memory_is_ours(rt, (uintptr_t)rt, 1));
	memory_unmap(rt, at, NATIVE_PAGE + 1);
	assert_false(is_readable(at));
	assert_false(memory_is_ours(rt, (uintptr_t)at, 1));
	assert_null(memory_map(rt, 0));
	assert_null(memory_map(rt, SIZE_MAX));
}

TEST(test_take)
{
	struct runtime *rt = memory_begin(2);
	uint8_t *last = NULL;

	for (unsigned i = 0; i < 100000; i++) {
		uint8_t *at = memory_take(rt, 24);

		assert_non_null(at);
		assert_int_equal((uintptr_t)at % 16, 0);
		assert_true(!last || at >= last + 24 || at + 24 <= last);
		for (unsigned k = 0; k < 24; k++)
			assert_int_equal(at[k], 0);
		memset(at, 0xff, 24);
		last = at;
	}
	last = memory_take(rt, 1 << 20);
	assert_non_null(last);
	assert_guarded(last, (1 << 20) / NATIVE_PAGE);
}

static void assert_near(struct runtime *rt, uint64_t near)
{
	for (unsigned i = 0; i < 8; i++) {
		uint8_t *code = memory_code(rt, near, 1 << 20);
		uint64_t at = (uintptr_t)code, end = at + (1 << 20);
		uint64_t distance = at < near ? near - at : end - near;

		assert_non_null(code);
		assert_true(distance < UINT64_C(1) << 30);
		assert_guarded(code, (1 << 20) / NATIVE_PAGE);
		assert_true(memory_is_ours(rt, at, 1));
		memset(code, 0xcc, 1 << 20);
		/* It is code that can be executed: RET. */
		code[0] = 0xc3;
		((void (*)(void))(uintptr_t)code)();
	}
}

TEST(test_code)
{
	struct runtime *rt = memory_begin(3);
	int local;

	assert_near(rt, (uintptr_t)test_code);
	assert_near(rt, (uintptr_t)memcpy);
	assert_near(rt, (uintptr_t)&local);
	assert_near(rt, 0x400000);
	assert_near(rt, UINT64_C(0x7ffffffff000));
	assert_null(memory_code(rt, 0x400000, 0));
	assert_null(memory_code(rt, UINT64_C(0xffffffff81000000), NATIVE_PAGE));
}

/* The list of ranges is finite. */
TEST(test_full)
{
	struct runtime *rt = memory_begin(4);
	uint64_t n = 0;

	while (memory_map(rt, NATIVE_PAGE))
		n++;
	assert_true(n > 1000);
	assert_null(memory_take(rt, 16));
	assert_false(memory_add(rt, 0x1000, 0x2000));
}

/* What the kernel is asked to do ahead of time changes nothing that can be read. */
TEST(test_pages)
{
	struct runtime *rt = memory_begin(8);
	uint8_t *code = memory_code(rt, (uintptr_t)test_pages, 4 * LARGE_PAGE);
	unsigned char there[16] = {0};

	assert_non_null(code);
	code[5 * NATIVE_PAGE] = 0xc3;
	memory_ready(rt, code + 1, 16 * NATIVE_PAGE - 1);
	assert_int_equal(mincore(code, 16 * NATIVE_PAGE, there), 0);
	/* Linux has it since 5.14. */
	for (unsigned i = 0; i < 16 && !madvise(code, 1, MADV_POPULATE_WRITE); i++)
		assert_true(there[i] & 1);
	memory_prefer_large(rt, code, 4 * LARGE_PAGE);
	for (size_t i = 0; i < 4 * LARGE_PAGE; i++)
		assert_int_equal(code[i], i == 5 * NATIVE_PAGE ? 0xc3 : 0);
	((void (*)(void))(uintptr_t)(code + 5 * NATIVE_PAGE))();
}

/* A large program at a low address needs more areas than chance finds room for. */
TEST(test_many_areas)
{
	const uint64_t near = 0x10000000, n = 8 << 20;
	struct runtime *rt = memory_begin(7);

	assert_non_null(rt);
	for (unsigned i = 0; i < 32; i++) {
		const uint64_t at = (uintptr_t)memory_code(rt, near, n);

		assert_int_not_equal(at, 0);
		assert_int_equal(at % LARGE_PAGE, 0);
		assert_true(at > near && at + n - near < UINT64_C(1) << 30);
	}
}
