/* SPDX-License-Identifier: MIT */
/* A wait for a process ends with the process, or when it is late; also when that is set meanwhile. */
#include "test.h"

#include "record/haste.h"
#include "support/monotonic.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t begin(unsigned milliseconds, int status)
{
	const pid_t pid = fork();

	if (!pid) {
		usleep(milliseconds * 1000);
		_exit(status);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(the_process_ends)
{
	const int64_t no_end = 0, later = monotonic_ns() + INT64_C(3600) * 1000000000;
	const int64_t *const ends[] = {NULL, &no_end, &later};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		int status = 0;
		const pid_t pid = begin(30, 3);

		assert_int_equal(haste_waitpid(pid, &status, 0, ends[i]), pid);
		assert_int_equal(status, 3 << 8);
		assert_int_equal(haste_waitpid(pid, &status, 0, ends[i]), -1);
	}
}

TEST(it_is_late)
{
	const int64_t past = 1;
	const pid_t pid = begin(3600000, 0);
	int status;

	assert_int_equal(haste_waitpid(pid, &status, 0, &past), 0);
	assert_int_equal(haste_waitpid(pid, &status, __WALL, &past), 0);
	end(pid);
}

static int64_t late;

static void *hurry(void *unused)
{
	usleep(50000);
	__atomic_store_n(&late, monotonic_ns(), __ATOMIC_RELEASE);
	return unused;
}

TEST(it_becomes_late)
{
	const pid_t pid = begin(3600000, 0);
	pthread_t thread;
	int status;

	assert_int_equal(pthread_create(&thread, NULL, hurry, NULL), 0);
	assert_int_equal(haste_waitpid(pid, &status, 0, &late), 0);
	pthread_join(thread, NULL);
	end(pid);
}
