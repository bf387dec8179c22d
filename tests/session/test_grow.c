/* SPDX-License-Identifier: MIT */
/*
 * Streams of a session that grows while they are decoded: where memory for what belongs to them
 * cannot be had, that is reported. The test is linked so that the session's allocations come here.
 */
#include "test.h"

#include "session/grow.h"
#include "session/guest.h"

#include <ptah/base.h>

#include <stdlib.h>

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *old, size_t size);

/* How many allocations succeed before one fails; negative: all succeed. */
static int left = -1;

static bool fails(void)
{
	return left >= 0 && left-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

/* A session whose first trace is of processor 3. */
static struct ptah_session *begin(bool is_guest, size_t *stream)
{
	const struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_session *s;

	assert_int_equal(grow_new(&config, "grown", &s), 0);
	s->is_guest = is_guest;
	*stream = grow_stream(s, 0, -1, 3);
	assert_true(*stream != SESSION_NONE);
	return s;
}

/*
 * Names the stream while the allocation after so many fails. 0: that has been reported. 1: there
 * were not so many.
 */
static int name_within(bool is_guest, int allocations)
{
	size_t stream;
	struct ptah_session *s = begin(is_guest, &stream);
	int status;
	bool failed;

	left = allocations;
	status = grow_name(s, stream);
	failed = left < 0;
	left = -1;
	if (failed) {
		assert_int_equal(status, PTAH_E_NOMEM);
		/* There is memory again. */
		assert_int_equal(grow_name(s, stream), 0);
	}
	assert_int_equal(failed ? 0 : status, 0);
	if (is_guest) {
		assert_true(s->streams[stream].process != SESSION_NONE);
		assert_int_equal(s->streams[stream].process, guest_processor(s, 3));
	} else {
		assert_true(s->streams[stream].cpu != SESSION_NONE);
		assert_int_equal(s->cpus[s->streams[stream].cpu].stream, stream);
	}
	ptah_session_close(s);
	return failed ? 0 : 1;
}

static void test_no_memory(bool is_guest)
{
	int n = 0;

	while (!name_within(is_guest, n))
		n++;
	assert_true(n > 0);
}

TEST(no_memory_for_a_guests_processor)
{
	test_no_memory(true);
}

TEST(no_memory_for_a_processor)
{
	test_no_memory(false);
}
