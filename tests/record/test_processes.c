/* SPDX-License-Identifier: MIT */
/* The list of processes finds each by its number, however many there are, and notices their ends. */
#include "test.h"

#include "record/qemu/processes.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODYS (1 << 23) /* Linux gives no process such a number (PID_MAX_LIMIT) */
#define COUNT	3000

TEST(each_is_found)
{
	struct processes p = {0};
	uint64_t random = 1;
	bool there[COUNT] = {false};

	assert_null(processes_find(&p, 1));
	for (unsigned n = 0; n < 4 * COUNT; n++) {
		const unsigned i = (unsigned)((random >> 33) % COUNT);
		const int32_t pid = NOBODYS + 64 * (int32_t)i; /* many with the same remainder */
		struct process *process = processes_find(&p, pid);

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		assert_int_equal(process != NULL, there[i]);
		there[i] = !there[i];
		if (process) {
			assert_int_equal(process->parent, i);
			processes_remove(&p, (size_t)(process - p.list));
		} else {
			assert_non_null(processes_add(&p, pid, (int32_t)i, "one"));
		}
	}
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(processes_find(&p, NOBODYS + 64 * (int32_t)i) != NULL, there[i]);
	processes_free(&p);
}

/* poll() refuses more entries than RLIMIT_NOFILE. */
TEST(more_than_descriptors)
{
	struct processes p = {0};
	struct rlimit before, few;
	const pid_t pid = fork();
	siginfo_t info;

	if (!pid)
		_exit(0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){64, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_non_null(processes_add(&p, pid, getpid(), "child"));
	assert_non_null(processes_add(&p, getpid(), 1, "test"));
	for (int32_t i = 0; i < 200; i++)
		assert_non_null(processes_add(&p, NOBODYS + i, pid, "another"));
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	processes_wait(&p, 0);
	assert_true(processes_find(&p, pid)->dead);
	assert_true(processes_find(&p, NOBODYS + 199)->dead);
	assert_false(processes_find(&p, getpid())->dead);
	processes_free(&p);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}
