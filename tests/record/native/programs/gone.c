/* SPDX-License-Identifier: MIT */
/*
 * Code of files that are gone when the recording is read. gone file LIBRARY: copies the library,
 * loads the copy and deletes it; gone memory LIBRARY: loads it from memory without a name; gone exec:
 * becomes echo, from such memory; gone kept LIBRARY: loads the copy, and leaves it where it is; gone
 * shared: runs code of a shared mapping of a file that it has made and deleted; gone large: maps a
 * terabyte of such memory, which has no pages, as code.
 */
#include "report.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

static int copy_to(int to, const char *path)
{
	const int from = open(path, O_RDONLY);
	char bytes[65536];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return -1;
	close(from);
	return n < 0 ? -1 : 0;
}

static void run(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	long (*work)(long) = NULL;

	if (library)
		*(void **)&work = dlsym(library, "work");
	report_number("work", work ? work(1000) : -1);
}

static int map_large(void)
{
	const size_t bytes = (size_t)1 << 40;
	const int file = memfd_create("large", 0);

	if (file < 0 || ftruncate(file, (off_t)bytes))
		return 1;
	report_number("mapped",
		      mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED);
	return 0;
}

static int run_shared(void)
{
	static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
	const char *path = "./shared.bin";
	const int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0755);
	int (*function)(void);
	void *at;

	if (file < 0 || write(file, code, sizeof(code)) != sizeof(code))
		return 1;
	at = mmap(NULL, sizeof(code), PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	unlink(path);
	*(void **)&function = at;
	report_number("shared", at == MAP_FAILED ? -1 : function());
	return 0;
}

int main(int count, char **arguments)
{
	static char *const echo[] = {"echo", "from memory", NULL};
	const char *what = arguments[1], *source = count > 2 ? arguments[2] : "/bin/echo";
	char path[64] = "./copy.so";
	int to;

	if (!strcmp(what, "large"))
		return map_large();
	if (!strcmp(what, "shared"))
		return run_shared();
	if (!strcmp(what, "exec") || !strcmp(what, "memory"))
		to = memfd_create("library", !strcmp(what, "exec") ? MFD_CLOEXEC : 0);
	else
		to = open(path, O_CREAT | O_RDWR | O_TRUNC, 0755);
	if (copy_to(to, source) < 0)
		return 1;
	if (!strcmp(what, "exec")) {
		fexecve(to, echo, environ);
		return 1;
	}
	if (!strcmp(what, "memory"))
		snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	close(strcmp(what, "memory") ? to : -1);
	run(path);
	if (!strcmp(what, "file"))
		unlink(path);
	return 0;
}
