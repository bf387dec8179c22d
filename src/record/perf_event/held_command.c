/* SPDX-License-Identifier: MIT */
/*
 * The command that is recorded. It is forked first, so that events can be opened for it, and waits
 * before its execve() until they are.
 */
#include "record/perf_event/hardware.h"

#include "record/haste.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS 20 /* between two looks whether it is late */

/* In the child: never returns. */
static void run_command(char *const *argv, int socket)
{
	char byte;
	ssize_t n;

	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1) {
		execvp(argv[0], argv);
		/* hardware_release_command() reads errno and makes the sentence. */
		n = send(socket, &errno, sizeof(errno), MSG_NOSIGNAL);
	}
	_exit(127);
}

int hardware_fork_command(struct hardware *h)
{
	struct waiting *c = &h->command;
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return recorder_fail(h->r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "%s cannot be started: too many open files (ulimit -n)",
				     h->r->config.target.argv[0]);
	c->pid = fork();
	if (c->pid == 0) {
		close(sockets[0]); /* so that its read() ends when the recorder is killed */
		run_command(h->r->config.target.argv, sockets[1]);
	}
	close(sockets[1]);
	c->socket = sockets[0];
	if (c->pid < 0) {
		c->pid = 0;
		return recorder_fail(h->r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "%s cannot be started: no more processes (ulimit -u)",
				     h->r->config.target.argv[0]);
	}
	c->ended = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return 0;
}

void hardware_send_command(struct hardware *h)
{
	h->r->status.pid = h->command.pid;
	/* If it has been killed meanwhile, waitpid() will report it. */
	(void)send(h->command.socket, "", 1, MSG_NOSIGNAL);
}

/* Of a command that is about to execve, for which the kernel reads its file. False: it is late. */
static bool await_answer(const struct hardware *h)
{
	struct pollfd answer = {.fd = h->command.socket, .events = POLLIN};

	while (poll(&answer, 1, ANSWER_MS) <= 0)
		if (recorder_is_late(h->r))
			return false;
	return true;
}

int hardware_confirm_command(struct hardware *h)
{
	struct waiting *c = &h->command;
	int error = 0;
	ssize_t n;

	if (!await_answer(h))
		return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
				     "%s has not started yet", h->r->config.target.argv[0]);
	n = recv(c->socket, &error, sizeof(error), MSG_DONTWAIT);
	if (n != sizeof(error))
		return 0; /* execve() closed its end: the command runs */
	haste_waitpid(c->pid, NULL, 0, &h->r->late);
	c->pid = h->r->status.pid = 0;
	return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
			     "%s cannot be started: %s", h->r->config.target.argv[0],
			     strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
}

int hardware_release_command(struct hardware *h)
{
	if (!h->command.pid)
		return 0;
	hardware_send_command(h);
	return hardware_confirm_command(h);
}

void hardware_close_command(struct waiting *c, bool started)
{
	if (c->socket >= 0)
		close(c->socket);
	if (c->ended >= 0)
		close(c->ended);
	if (!c->pid || started)
		return;
	kill(c->pid, SIGKILL); /* it still waits */
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
}
