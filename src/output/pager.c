/* SPDX-License-Identifier: MIT */
/* Finds out what the terminal can show, and runs the pager. */
#include "output/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool is_dumb(void)
{
	const char *term = variable("TERM");

	return !term || !strcmp(term, "dumb");
}

/* No terminal is wider than this; a wrong COLUMNS does no harm. */
#define WIDEST 10000

static unsigned columns_of(int fd)
{
	const char *columns = variable("COLUMNS");
	unsigned long n = columns ? strtoul(columns, NULL, 10) : 0;
	struct winsize size;

	if (!n && !ioctl(fd, TIOCGWINSZ, &size))
		n = size.ws_col;
	return n && n <= WIDEST ? (unsigned)n : 80;
}

void terminal_look(int fd, enum color_when when, struct out_look *look)
{
	const bool terminal = isatty(fd);

	*look = (struct out_look){
	    .color = when == COLOR_ALWAYS ||
		     (when == COLOR_AUTO && terminal && !is_dumb() && !variable("NO_COLOR")),
	    .columns = terminal ? columns_of(fd) : 0,
	};
}

const char *pager_command(void)
{
	const char *command = getenv("PTAH_PAGER");

	if (!isatty(STDOUT_FILENO) || is_dumb())
		return NULL;
	if (!command)
		command = getenv("PAGER");
	if (!command)
		command = "less";
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

struct pager {
	pid_t pid;
	int error_fd; /* a copy of standard error; -1: the pager does not show it */
	struct sigaction interrupt;
};

/* A copy of the environment with LESS=FRX, and LV=-c for lv (as git has it), unless they are set.
 * The caller frees the array. */
static char **pager_environment(void)
{
	static char less[] = "LESS=FRX", lv[] = "LV=-c";
	size_t n = 0, k = 0;
	char **copy;

	while (environ[n])
		n++;
	copy = calloc(n + 3, sizeof(*copy));
	if (!copy)
		return NULL;
	for (; k < n; k++)
		copy[k] = environ[k];
	if (!getenv("LESS"))
		copy[k++] = less;
	if (!getenv("LV"))
		copy[k] = lv;
	return copy;
}

/* The shell runs the pager, as the variable may have options, quotes and pipes. A plain name is run
 * directly, so that it is noticed if there is no such program. */
static int spawn(const char *command, int input, pid_t *pid)
{
	const bool plain = !command[strcspn(command, " \t\n|&;<>()$`\\\"'*?[#~=%")];
	char *const direct[] = {(char *)(uintptr_t)command, NULL};
	char *const shell[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			       (char *)(uintptr_t)command, NULL};
	char **environment = pager_environment();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t signals;
	int error;

	if (!environment)
		return ENOMEM;
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	sigaddset(&signals, SIGXFSZ);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	error = posix_spawnp(pid, plain ? command : "sh", &actions, &attributes,
			     plain ? direct : shell, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	free(environment);
	return error;
}

/* While the pager runs, Ctrl-C is for it: the command's handler is called every time, so that a
 * second Ctrl-C does not end the command and leave the terminal to the pager and the shell. */
static void keep_interrupt_handler(struct pager *p)
{
	struct sigaction keep;

	sigaction(SIGINT, NULL, &p->interrupt);
	keep = p->interrupt;
	keep.sa_flags &= ~(int)SA_RESETHAND;
	if (keep.sa_handler != SIG_DFL)
		sigaction(SIGINT, &keep, NULL);
}

struct pager *pager_start(const char *command, int *fd)
{
	struct pager *p = calloc(1, sizeof(*p));
	int ends[2], error;

	if (!p || pipe2(ends, O_CLOEXEC)) {
		free(p);
		return NULL;
	}
	error = spawn(command, ends[0], &p->pid);
	close(ends[0]);
	if (error) {
		close(ends[1]);
		free(p);
		return NULL;
	}
	p->error_fd = -1;
	if (isatty(STDERR_FILENO)) {
		p->error_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
		if (p->error_fd >= 0)
			dup2(ends[1], STDERR_FILENO);
	}
	signal(SIGPIPE, SIG_IGN);
	keep_interrupt_handler(p);
	*fd = ends[1];
	return p;
}

void pager_end(const struct pager *p)
{
	kill(p->pid, SIGTERM);
}

void pager_wait(struct pager *p, bool (*given_up)(bool pager))
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	int status;

	if (!p)
		return;
	if (p->error_fd >= 0) {
		dup2(p->error_fd, STDERR_FILENO);
		close(p->error_fd);
	}
	sigaction(SIGINT, &ignore, NULL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		if (given_up && given_up(true))
			pager_end(p);
	sigaction(SIGINT, &p->interrupt, NULL);
	free(p);
}
