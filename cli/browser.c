/* SPDX-License-Identifier: MIT */
/* Starts the user's browser as xdg-open does (browser.h). */
#include "browser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

bool browser_expected(void)
{
	return variable("BROWSER") || variable("DISPLAY") || variable("WAYLAND_DISPLAY");
}

/* The shell command for an entry of $BROWSER; the address is its argument $1. */
static char *command_of(const char *browser)
{
	const size_t n = strcspn(browser, ":");
	const char *place = memmem(browser, n, "%s", 2);
	char *command = NULL;
	int size;

	if (place)
		size = asprintf(&command, "%.*s\"$1\"%.*s", (int)(place - browser), browser,
				(int)(browser + n - place - 2), place + 2);
	else
		size = asprintf(&command, "%.*s \"$1\"", (int)n, browser);
	return size < 0 ? NULL : command;
}

/* A session of its own, default signals, and no terminal. */
static int spawn(char **arguments)
{
	extern char **environ;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, ignored;
	pid_t pid;
	int error;

	sigemptyset(&none);
	sigemptyset(&ignored);
	sigaddset(&ignored, SIGPIPE);
	sigaddset(&ignored, SIGXFSZ);
	if (posix_spawn_file_actions_init(&files))
		return ENOMEM;
	if (posix_spawnattr_init(&attributes)) {
		posix_spawn_file_actions_destroy(&files);
		return ENOMEM;
	}
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &ignored);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						  POSIX_SPAWN_SETSID);
	error = posix_spawnp(&pid, arguments[0], &files, &attributes, arguments, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return error;
}

int browser_open(const char *address)
{
	const char *browser = variable("BROWSER");
	char *opener[] = {"xdg-open", (char *)(uintptr_t)address, NULL};
	char *shell[] = {"sh", "-c", NULL, "ptah", (char *)(uintptr_t)address, NULL};
	int error;

	if (!browser)
		return spawn(opener);
	shell[2] = command_of(browser);
	error = shell[2] ? spawn(shell) : ENOMEM;
	free(shell[2]);
	return error;
}
