/* SPDX-License-Identifier: MIT */
/*
 * The runtime gives up. Before anything outside has seen the program run, the recorder is asked to
 * start it again with another recorder. Later, the program continues untraced from exactly here,
 * which its user reads in a note: it never dies because it cannot be recorded. In tests
 * (NATIVE_STRICT) it does, so that none of them passes because nothing was recorded.
 */
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"

#include <linux/futex.h>
#include <linux/time_types.h>

#define STRICT_STATUS 125
/* How long a process that was refused waits before it looks whether its recorder still exists. */
#define REFUSED_WAIT_NS 100000000

static _Noreturn void end_process(void)
{
	for (;;)
		sys_call(__NR_exit_group, STRICT_STATUS, 0, 0, 0, 0, 0);
}

/* Waits for the recorder to kill this process; returns if there is no recorder any more. */
static void wait_for_end(struct context *c)
{
	struct native_header *shared = c->runtime->shared;
	const struct __kernel_timespec wait = {.tv_nsec = REFUSED_WAIT_NS};
	const uint64_t all = ~UINT64_C(0);
	uint64_t before = 0;

	/* A signal of the program must not find it here. */
	sys_call(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (uint64_t)&all, (uint64_t)&before,
		 sizeof(all), 0, 0);
	while (recorder_is_alive(c))
		sys_call(__NR_futex, (uint64_t)&shared->recorder_alive, FUTEX_WAIT, 1,
			 (uint64_t)&wait, 0, 0);
	sys_call(__NR_rt_sigprocmask, 2, (uint64_t)&before, 0, sizeof(before), 0, 0);
}

static void refuse(struct context *c, uint64_t rip, const char *why)
{
	if (effect_is_committed(c) || c->runtime->flags & NATIVE_STRICT)
		return;
	message_text(c, NATIVE_MESSAGE_REFUSED, rip, why);
	wait_for_end(c);
}

_Noreturn void leave_disabled(struct context *c, const struct registers *r, const char *why)
{
	ring_end(c);
	refuse(c, r->rip, why);
	message_text(c, NATIVE_MESSAGE_LEFT, r->rip, why);
	if (c->runtime->flags & NATIVE_STRICT)
		end_process();
	signals_leave(c, r);
}

_Noreturn void leave(struct context *c, struct registers *r, const char *why)
{
	c->log = (uint64_t)packets_disable(c, packets_room(c, r->rip));
	leave_disabled(c, r, why);
}

/* The program's state may be wrong: it must not continue. */
_Noreturn void leave_broken(struct context *c, const char *what)
{
	refuse(c, 0, what);
	message_text(c, NATIVE_MESSAGE_LEFT, 0, what);
	end_process();
}
