/* SPDX-License-Identifier: MIT */
/* The first code of the runtime that runs in a program. */
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"

_Noreturn void start(struct native_handover *h)
{
	(void)h;
	for (;;)
		sys_call(__NR_exit_group, 125, 0, 0, 0, 0, 0);
}
