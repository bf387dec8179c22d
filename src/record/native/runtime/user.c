/* SPDX-License-Identifier: MIT */
/*
 * Processes that become another user's without execve, as daemons do: each user has a memory of its
 * own (users.h), so the process ends its trace and goes on in another memory, which the recorder
 * maps where the old one was. With several threads, which may be different users' meanwhile, it
 * runs on untraced.
 */
#include "record/native/runtime/contexts.h"
#include "record/native/runtime/memory.h"
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"
#include "record/native/users.h"

#include <asm/errno.h>
#include <linux/capability.h>
#include <linux/time_types.h>

#define WAIT_NS	 1000000 /* between two questions */
#define PATIENCE 5000	 /* questions until the recorder is held to be unable to answer */

void user_read(struct native_user *user)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
	uint32_t *u, *g;

	*user = (struct native_user){.space = 0};
	u = user->uids;
	g = user->gids;
	sys_call(__NR_getresuid, (uint64_t)&u[0], (uint64_t)&u[1], (uint64_t)&u[2], 0, 0, 0);
	sys_call(__NR_getresgid, (uint64_t)&g[0], (uint64_t)&g[1], (uint64_t)&g[2], 0, 0, 0);
	sys_call(__NR_capget, (uint64_t)&head, (uint64_t)data, 0, 0, 0, 0);
	user->capabilities = (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

#define NO_RECORDER (-ESRCH)

/* The recorder's answer, once it traces this thread; without it there is no such call. */
static int64_t ask(struct context *c)
{
	const struct native_message m = {.type = NATIVE_MESSAGE_USER};
	const struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};
	int64_t answer = -ENOSYS;

	if (!message_send(c, &m, NULL))
		return NO_RECORDER;
	for (unsigned i = 0; i < PATIENCE && answer == -ENOSYS; i++) {
		answer = sys_call(NATIVE_CALL, NATIVE_CALL_MOVE, 0, 0, 0, 0, 0);
		if (answer == -ENOSYS && !recorder_is_alive(c))
			return NO_RECORDER;
		if (answer == -ENOSYS)
			sys_call(__NR_nanosleep, (uint64_t)&wait, 0, 0, 0, 0, 0);
	}
	return answer;
}

/* False: the thread has no slot. */
static bool begin_in(struct context *c, struct native_thread *slot)
{
	if (context_begin(c, slot))
		return true;
	slot_release(slot);
	c->discards = true;
	c->stopped = NULL;
	return false;
}

bool user_changed(struct context *c, const struct registers *r, const struct native_user *before)
{
	struct native_user now;
	int64_t slot;

	user_read(&now);
	if (native_user_is(before, &now))
		return false;
	slot = ask(c);
	if (slot == NO_RECORDER)
		return false;
	if (slot < 0 || slot >= NATIVE_THREADS)
		leave_disabled(c, r,
			       "it has become another user's and has several threads, or processes "
			       "of too many users are recorded");
	memory_not_dumped(c->runtime);
	__builtin_memset(c->runtime->guarded, 0, sizeof(c->runtime->guarded));
	if (!begin_in(c, slot_at(c->runtime, (unsigned)slot)))
		leave_disabled(c, r, "there is no memory for the recorder in the program");
	return true;
}
