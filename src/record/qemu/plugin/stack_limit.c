/* SPDX-License-Identifier: MIT */
/*
 * Sets the limit of the stack's size when the program does (ulimit -s). QEMU ignores that, because
 * the limit is also that of its own stack; so the program would read the old limit back, and the
 * programs that it starts would not have the new one.
 */
#include "record/qemu/plugin/plugin.h"

#include <sys/resource.h>

/* What QEMU's own main thread needs. A smaller limit is not set. */
#define LEAST_STACK (1u << 20)

/* Between a call and its return, which happen on the same thread. */
static _Thread_local struct rlimit wanted;
static _Thread_local bool pending;

void plugin_before_stack_limit(uint64_t limit)
{
	uint64_t words[2]; /* current, greatest */

	pending = limit && plugin_read(limit, words, sizeof(words)) && words[0] >= LEAST_STACK;
	if (pending)
		wanted = (struct rlimit){words[0], words[1]};
}

/* The limit is set after the call, so that the call returns the old one. */
void plugin_after_stack_limit(int64_t result)
{
	if (pending && !result)
		setrlimit(RLIMIT_STACK, &wanted);
	pending = false;
}
