/* SPDX-License-Identifier: MIT */
/* Loads and unloads libraries. With -DLIBRARY: one of them. */
#ifdef LIBRARY
int value(int n);

/* Each library's code has another length. */
int value(int n)
{
	for (volatile int i = 0; i < LIBRARY; i++)
		n += i % 2 ? LIBRARY : 1;
	return n;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int use(const char *path, int (**keep)(int))
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*value)(int);
	void *symbol;
	int n;

	if (!library || !(symbol = dlsym(library, "value"))) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	memcpy(&value, &symbol, sizeof(value));
	n = value(1);
	if (*keep && *keep == value)
		printf("again at the same place\n");
	*keep = value;
	dlclose(library);
	return n;
}

int main(void)
{
	int (*place)(int) = NULL;

	for (int i = 0; i < 5; i++) {
		if (use("./one.so", &place) != 1 + 3 + 3 * 6)
			return 1;
		if (use("./two.so", &place) != 1 + 5 + 5 * 10)
			return 2;
	}
	return 0;
}
#endif
