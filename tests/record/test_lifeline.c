/* SPDX-License-Identifier: MIT */
/*
 * A recorder that was killed is known to be dead from the moment on in which it is a zombie,
 * whoever looks: kill(pid, 0) succeeds until its parent has waited for it.
 */
#include "test.h"

#include "record/lifeline.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t *word;

static int set_up(void **state)
{
	(void)state;
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return word == MAP_FAILED;
}

static int tear_down(void **state)
{
	(void)state;
	return munmap(word, 4096);
}

static bool holds(void)
{
	return lifeline_holds(__atomic_load_n(word, __ATOMIC_ACQUIRE));
}

/* A process that holds it, until it ends: by a signal; 0: by itself. */
static pid_t begin_process(int signal)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	if (!lifeline_begin(word) || !signal)
		_exit(0);
	kill(getpid(), signal);
	for (;;)
		pause();
}

/* The child is a zombie when waitid() says that it has ended. */
static void await_zombie(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(kill(pid, 0), 0);
}

TEST_WITH(it_was_killed, set_up, tear_down)
{
	static const int ends[] = {0, SIGKILL, SIGABRT};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		const pid_t pid = begin_process(ends[i]);

		await_zombie(pid);
		assert_true(*word); /* it has held it */
		assert_false(holds());
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		*word = 0;
	}
}

TEST_WITH(it_is_stopped, set_up, tear_down)
{
	const pid_t pid = begin_process(SIGSTOP);
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	assert_true(holds());
	kill(pid, SIGKILL);
	await_zombie(pid);
	assert_false(holds());
	waitpid(pid, NULL, 0);
}

TEST_WITH(it_ends_the_recording, set_up, tear_down)
{
	struct lifeline *first = lifeline_begin(word), *second = lifeline_begin(word + 1);
	const pid_t pid = fork();

	assert_non_null(first);
	assert_non_null(second);
	if (!pid)
		_exit(!lifeline_holds(word[0]) || !lifeline_holds(word[1]));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(holds()); /* a child of it has ended */
	lifeline_cut(first);
	lifeline_cut(first);
	assert_false(holds());
	assert_true(lifeline_holds(word[1]));
	lifeline_end(first);
	lifeline_end(second);
	assert_false(lifeline_holds(word[1]));
	lifeline_end(NULL);
}

/* What a program writes there does not get into the recorder. */
TEST_WITH(it_was_overwritten, set_up, tear_down)
{
	struct lifeline *l = lifeline_begin(word);

	assert_non_null(l);
	memset(word, 0xff, 4096);
	lifeline_end(l);
	assert_false(holds());
}
