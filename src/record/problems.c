/* SPDX-License-Identifier: MIT */
/* Everything that can prevent a recording: one table with name, status and advice. */
#include "record/recorder.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
	const char *name;
	int status; /* what ptah_recorder_new() returns for it */
	const char *advice;
} problems[PTAH_RECORD_PROBLEM_MAX] = {
    [PTAH_RECORD_FINE] = {"FINE", 0, "Nothing is wrong."},
    [PTAH_RECORD_NO_PROCESSOR] =
	{"NO_PROCESSOR", PTAH_E_UNSUPPORTED,
	 "Record with the recorder native, qemu or ptrace, which need no hardware, "
	 "or on an Intel processor of the fifth generation Core or later; "
	 "in a virtual machine the host must pass Intel PT on."},
    [PTAH_RECORD_NO_DRIVER] =
	{"NO_DRIVER", PTAH_E_UNSUPPORTED,
	 "Use a Linux kernel with CONFIG_PERF_EVENTS_INTEL_PT (4.1 or later), "
	 "where /sys/bus/event_source/devices/intel_pt is there; or load Ptah's "
	 "kernel module, for the recorder module; or record with the recorder "
	 "native, qemu or ptrace."},
    [PTAH_RECORD_PERMISSION] =
	{"PERMISSION", PTAH_E_SYSTEM,
	 "Trace your own processes, user code alone (/u); or lower "
	 "kernel.perf_event_paranoid or kernel.yama.ptrace_scope (sysctl); or "
	 "run as root or with CAP_PERFMON and CAP_SYS_PTRACE."},
    [PTAH_RECORD_MLOCK] =
	{"MLOCK", PTAH_E_SYSTEM,
	 "Ask for smaller buffers (-m), raise kernel.perf_event_mlock_kb (sysctl) "
	 "or the limit of locked memory (ulimit -l), or use CAP_IPC_LOCK."},
    [PTAH_RECORD_BUSY] =
	{"BUSY", PTAH_E_BUSY,
	 "End the other tracer (perf, a debugger, a hypervisor that uses Intel PT) "
	 "and try again."},
    [PTAH_RECORD_NO_TARGET] =
	{"NO_TARGET", PTAH_E_MISSING,
	 "Look whether the command is in PATH and executable, the process still "
	 "runs, or the processor is online."},
    [PTAH_RECORD_NOT_POSSIBLE] = {"NOT_POSSIBLE", PTAH_E_UNSUPPORTED,
				  "Leave the option out or choose another recorder (--recorder)."},
    [PTAH_RECORD_BAD_OPTION] = {"BAD_OPTION", PTAH_E_INVAL,
				"'ptah caps' lists what this processor takes."},
    [PTAH_RECORD_NO_EMULATOR] = {"NO_EMULATOR", PTAH_E_MISSING,
				 "Install QEMU's user mode emulation (Debian: apt-get install "
				 "qemu-user), and Ptah with its plugin."},
    [PTAH_RECORD_NO_MEMORY] = {"NO_MEMORY", PTAH_E_NOMEM,
			       "Ask for smaller buffers or fewer threads, or raise the limits "
			       "(ulimit -n, -u, -v)."},
    [PTAH_RECORD_OUTPUT] =
	{"OUTPUT", PTAH_E_SYSTEM,
	 "See whether the disk is full and the folder can be written to, or name "
	 "another file (-o)."},
    [PTAH_RECORD_BROKEN] = {"BROKEN", PTAH_E_SYSTEM,
			    "Record again; if it stays, it is a bug: report it."},
    [PTAH_RECORD_TOO_SLOW] =
	{"TOO_SLOW", PTAH_E_UNSUPPORTED,
	 "Ask for single steps (--recorder=ptrace) if the process may become thousands of times "
	 "slower, or record on a machine with Intel PT."},
};

const char *ptah_record_advice(unsigned problem, const char **name)
{
	const bool exists = problem < PTAH_RECORD_PROBLEM_MAX;

	if (name)
		*name = exists ? problems[problem].name : "UNKNOWN";
	return exists ? problems[problem].advice : "";
}

int recorder_status_of(enum ptah_record_problem problem)
{
	return problems[problem].status;
}

enum ptah_record_problem recorder_refuse(struct ptah_message *why, enum ptah_record_problem problem,
					 const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return problem;
}
