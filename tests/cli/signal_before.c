/* SPDX-License-Identifier: MIT */
/*
 * Loaded before ptah, it raises the signal SIGNAL just before a call that may wait for ever,
 * so that the handler has run when the call begins: the moment that is lost when a command looks
 * for the signal before the call only. CALL names the call, and AT which one of those that wait.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void begins(const char *call)
{
	static int count;
	const char *wanted = getenv("CALL"), *at = getenv("AT");

	if (!wanted || strcmp(wanted, call) != 0 ||
	    strcmp(program_invocation_short_name, "ptah") != 0 || ++count != (at ? atoi(at) : 1))
		return;
	fprintf(stderr, "SIGNAL before %s\n", call);
	raise(atoi(getenv("SIGNAL")));
}

static void begins_with(const char *call, int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		begins(call);
}

static void begins_to_open(const char *path)
{
	struct stat st;

	if (!stat(path, &st) && S_ISFIFO(st.st_mode))
		begins("open");
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t read(int fd, void *bytes, size_t n)
{
	begins_with("read", fd);
	return NEXT(read)(fd, bytes, n);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	if (fd != STDERR_FILENO)
		begins_with("write", fd);
	return NEXT(write)(fd, bytes, n);
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	for (nfds_t i = 0; i < n; i++)
		begins_with("poll", fds[i].fd);
	return NEXT(poll)(fds, n, ms);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	if (!(options & WNOHANG))
		begins("waitpid");
	return NEXT(waitpid)(pid, status, options);
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (!(flags & O_NONBLOCK))
		begins_to_open(path);
	return NEXT(open)(path, flags, mode);
}

/* In place of work that takes hours and looks at no signal. */
DIR *opendir(const char *path)
{
	const char *wanted = getenv("CALL");

	begins("opendir");
	while (wanted && !strcmp(wanted, "opendir"))
		pause();
	return NEXT(opendir)(path);
}

FILE *fopen(const char *path, const char *mode)
{
	begins_to_open(path);
	return NEXT(fopen)(path, mode);
}

/* What getc_unlocked() calls when it needs more, where the compiler has inlined it. */
int __uflow(FILE *file)
{
	begins_with("getc", fileno(file));
	return NEXT(__uflow)(file);
}

int getc_unlocked(FILE *file)
{
	if (file->_IO_read_ptr >= file->_IO_read_end)
		begins_with("getc", fileno(file));
	return NEXT(getc_unlocked)(file);
}

/* What getline() calls, in the same way. */
ssize_t __getdelim(char **line, size_t *room, int end, FILE *file)
{
	begins_with("getline", fileno(file));
	return NEXT(__getdelim)(line, room, end, file);
}

ssize_t getline(char **line, size_t *room, FILE *file)
{
	begins_with("getline", fileno(file));
	return NEXT(getline)(line, room, file);
}
