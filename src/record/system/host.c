/* SPDX-License-Identifier: MIT */
/* Looks up the functions of QEMU that the plugin calls (host.h). */
#include "record/system/system.h"

#include <dlfcn.h>
#include <stdio.h>

struct host host;

static void *find_host_function(const char *name, const char *other)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	return found || !other ? found : dlsym(RTLD_DEFAULT, other);
}

static const struct symbol {
	const char *name, *other;
	size_t at;
} symbols[] = {
#define X(result, member, parameters, name, other) {name, other, offsetof(struct host, member)},
    HOST_FUNCTIONS(X)
#undef X
#define X(type, member, name, other) {name, other, offsetof(struct host, member)},
	HOST_VARIABLES(X)
#undef X
};

bool host_find(void)
{
	char missing[1024] = "";
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *found = find_host_function(symbols[i].name, symbols[i].other);

		memcpy((char *)&host + symbols[i].at, &found, sizeof(found));
		if (!found && n < sizeof(missing))
			n += (size_t)snprintf(missing + n, sizeof(missing) - n, " %s",
					      symbols[i].name);
	}
	if (n)
		system_say("this QEMU does not export%s: use one that is built with modules, as "
			   "those of Debian (7.2, and 10.0 of bookworm-backports) are",
			   missing);
	return !n;
}

void *host_current_cpu(void)
{
	static __thread void **current; /* QEMU's variable of this thread */

	if (!current)
		current = dlsym(RTLD_DEFAULT, "current_cpu");
	return current ? *current : NULL;
}
