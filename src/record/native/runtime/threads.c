/* SPDX-License-Identifier: MIT */
/*
 * System calls that begin and end threads and processes: exit, execve, fork and their relatives.
 */
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"

const char *process_refusal(const struct context *c, const struct call *call)
{
	(void)c;
	switch (call->treatment) {
	case SYSCALL_FORK:
	case SYSCALL_VFORK:
	case SYSCALL_CLONE:
	case SYSCALL_CLONE3:
		return "the program starts a process or a thread";
	default:
		return NULL;
	}
}

/* The thread, or the process, ends here. */
static _Noreturn void call_exit(struct context *c, const struct call *call)
{
	ring_end(c);
	for (;;)
		syscall_kernel(call);
}

/* Returns only where the call has failed. What this image has logged stays in its slot. */
static int64_t call_exec(struct context *c, const struct call *call)
{
	struct native_message m = {.type = NATIVE_MESSAGE_EXEC};
	int64_t result;

	message_ask(c, &m, NULL);
	signals_exec(c);
	result = syscall_kernel(call);
	signals_exec_failed(c);
	m.type = NATIVE_MESSAGE_EXEC_FAILED;
	message_send(c, &m, NULL);
	return result;
}

void process_call(struct context *c, struct registers *r, const struct call *call)
{
	switch (call->treatment) {
	case SYSCALL_EXIT:
	case SYSCALL_EXIT_GROUP:
		call_exit(c, call);
	case SYSCALL_EXEC:
		syscall_return(r, call, call_exec(c, call));
		return;
	default: /* process_refusal() has refused it */
		leave_disabled(c, r, "the program starts a process or a thread");
	}
}
