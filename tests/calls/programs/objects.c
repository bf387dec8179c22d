/* SPDX-License-Identifier: MIT */
/*
 * Calls between a program and its libraries. With -DLIBRARY=1 this is a library that the program is
 * linked with, with -DLIBRARY=2 one that it loads, unloads, and loads again.
 */
#include "call_log.h"

#include <dlfcn.h>
#include <stdlib.h>

#ifdef LIBRARY

static volatile unsigned count;

NOINLINE static unsigned inside(unsigned n)
{
	return n ? inside(n - 1) + count : 1;
}

__attribute__((constructor)) static void loaded(void)
{
	count = inside(1);
}

#if LIBRARY == 2 /* the other library's would run after the log has been written */
__attribute__((destructor)) static void unloaded(void)
{
	count = inside(2);
}
#endif

/* Through the PLT, although it is in the same library. */
unsigned exported(unsigned n)
{
	return n ? inside(n) : 7;
}

unsigned with_callback(unsigned (*function)(unsigned), unsigned n)
{
	return n ? with_callback(function, n - 1) + function(n) : exported(n);
}

#else

unsigned with_callback(unsigned (*function)(unsigned), unsigned n), exported(unsigned n);

NOINLINE static unsigned callback(unsigned n)
{
	return exported(n % 3);
}

NOINLINE static void loads(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	unsigned (*function)(unsigned (*)(unsigned), unsigned);

	if (!library)
		abort();
	*(void **)&function = dlsym(library, "with_callback");
	function(callback, 3);
	calls_write();
	dlclose(library);
}

int main(int argc, char **argv)
{
	for (unsigned i = 0; i < 3; i++)
		if (with_callback(callback, i) + exported(i) == 0)
			return 1;
	if (argc > 1) {
		loads(argv[1]);
		loads(argv[1]);
	}
	return 0;
}

#endif
