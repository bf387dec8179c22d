/* SPDX-License-Identifier: MIT */
/*
 * What can be refused before a program is recorded from inside. What a program will do is not
 * visible here: the runtime refuses that while it runs (runtime/leave.c).
 */
#ifndef PTAH_RECORD_NATIVE_CHECK_H
#define PTAH_RECORD_NATIVE_CHECK_H

#include "record/recorder.h"

/* What the runtime needs of the machine, and of what a program inherits from the recorder. */
struct native_host {
	bool fsgsbase;	      /* user code can set the base of GS */
	bool shadow_stack;    /* returns are compared with a second stack */
	const char *denied;   /* by an inherited filter: a system call that is needed; or NULL */
	bool all_executable;  /* personality READ_IMPLIES_EXEC */
	bool memory_limited;  /* RLIMIT_AS or RLIMIT_DATA leave too little room */
	bool may_trace_all;   /* the recorder is root */
	unsigned trace_scope; /* kernel.yama.ptrace_scope; 0 without yama */
};

struct native_host native_host_read(void);

/* The bytes of trace from one PSB to the next that the configuration asks for (SDM, PSBFreq). */
static inline uint64_t native_psb_bytes(const struct ptah_record_config *config)
{
	return UINT64_C(2048) << (config->trace.psb_period & 31);
}

/* Each returns the problem, with a complete sentence in *why; PTAH_RECORD_FINE: there is none. */
enum ptah_record_problem native_check_wishes(const struct ptah_record_config *config,
					     struct ptah_message *why);
enum ptah_record_problem native_check_host(const struct native_host *host,
					   struct ptah_message *why);
/*
 * Whether execve() of the file gives privileges that it does not give where it is traced by who may
 * not trace all.
 */
enum ptah_record_problem native_check_program(const char *path, const struct native_host *host,
					      struct ptah_message *why);
/* All of it; for struct recorder_backend. */
enum ptah_record_problem native_check(const struct ptah_record_config *config,
				      struct ptah_message *why);

#endif
