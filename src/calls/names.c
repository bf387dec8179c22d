/* SPDX-License-Identifier: MIT */
/* How calls begin and end, as words. */
#include <ptah/calls.h>

#include "base/compiler.h"

const char *ptah_call_how_name(bool end, unsigned how)
{
	static const char *const begins[PTAH_CALL_BEGIN_MAX] = {
	    [PTAH_CALL_CALLED] = "call",     [PTAH_CALL_TAIL] = "jump",
	    [PTAH_CALL_SIGNAL] = "signal",   [PTAH_CALL_INTERRUPT] = "interrupt",
	    [PTAH_CALL_SYSCALL] = "syscall", [PTAH_CALL_RESUMED] = "resumed",
	    [PTAH_CALL_RUNNING] = "running",
	};
	static const char *const ends[PTAH_CALL_END_MAX] = {
	    [PTAH_CALL_END_RETURN] = "return",	 [PTAH_CALL_END_TAIL] = "tail",
	    [PTAH_CALL_END_UNWOUND] = "unwound", [PTAH_CALL_END_SUSPENDED] = "suspended",
	    [PTAH_CALL_END_LOST] = "lost",	 [PTAH_CALL_END_EXEC] = "exec",
	    [PTAH_CALL_END_TRACE] = "trace-end",
	};

	if (how >= (end ? ARRAY_SIZE(ends) : ARRAY_SIZE(begins)))
		return NULL;
	return end ? ends[how] : begins[how];
}
