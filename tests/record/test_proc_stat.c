/* SPDX-License-Identifier: MIT */
/* What the kernel says of this process and its threads. */
#include "../test.h"

#include "record/proc_stat.h"

#include <stdlib.h>
#include <unistd.h>

TEST(lines_of_status_have_whole_names)
{
	const int32_t pid = getpid();
	char text[64], little[4];

	assert_int_equal(proc_status_number("", pid, "Tgid", 10), pid);
	assert_int_equal(proc_status_number("", pid, "PPid", 10), getppid());
	assert_true(proc_status_number("", pid, "Tgi", 10) == UINT64_MAX);
	assert_true(proc_status_number("", pid, "NoSuchLine", 10) == UINT64_MAX);
	assert_true(proc_status_number("/nonexistent", pid, "Tgid", 10) == UINT64_MAX);
	assert_true(proc_status_line("", pid, "Name", text, sizeof(text)));
	assert_string_equal(text, "\trecord-test_pro"); /* a comm has 15 characters */
	assert_true(proc_status_line("", pid, "Name", little, sizeof(little)));
	assert_string_equal(little, "\tre");
}

TEST(threads_are_listed)
{
	int32_t *tids;

	assert_int_equal(proc_threads("", getpid(), &tids), 1);
	assert_int_equal(tids[0], getpid());
	free(tids);
	assert_int_equal(proc_threads("", INT32_MAX, &tids), 0);
	free(tids);
}
