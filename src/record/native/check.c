/* SPDX-License-Identifier: MIT */
/* See check.h. Each reason to refuse is a sentence, so that the user learns what to change. */
#include "record/native/check.h"

#include "record/command.h"
#include "record/native/attach.h"
#include "record/native/layout.h"
#include "record/native/seccomp.h"
#include "record/proc_stat.h"
#include "record/simulated/simulated.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SMALLEST_SNAPSHOT    (512u << 10)
#define HWCAP2_USER_FSGSBASE 2 /* HWCAP2_FSGSBASE of <asm/hwcap2.h> */
#define SCOPE_ADMIN_ONLY     2 /* of kernel.yama.ptrace_scope */
#define SCOPE_NOBODY	     3
/*
 * The runtime maps less than 1.5 GB, most of which is never touched, and 100 MB that are its own. A
 * program whose limit is this many times more notices nothing of it, unless it uses all that it
 * may.
 */
#define ADDRESSES_ENOUGH (UINT64_C(16) << 30)
#define DATA_ENOUGH	 (UINT64_C(4) << 30)

/* ---- The machine --------------------------------------------------------- */

static bool is_limited(int resource, uint64_t enough)
{
	struct rlimit limit;

	return !getrlimit(resource, &limit) && limit.rlim_cur < enough;
}

static unsigned read_trace_scope(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "r");
	unsigned scope = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%u", &scope) != 1)
		scope = 0;
	fclose(f);
	return scope;
}

static void read_status(struct native_host *host)
{
	const uint64_t mode = proc_status_number("", getpid(), "Seccomp", 10);
	char features[512];

	host->denied = mode && mode != UINT64_MAX ? native_seccomp_denied() : NULL;
	host->shadow_stack =
	    proc_status_line("", getpid(), "x86_Thread_features", features, sizeof(features)) &&
	    strstr(features, "shstk");
}

struct native_host native_host_read(void)
{
	const int personality_now = personality(0xffffffff);
	struct native_host host = {
	    .fsgsbase = getauxval(AT_HWCAP2) & HWCAP2_USER_FSGSBASE,
	    .all_executable = personality_now != -1 && (personality_now & READ_IMPLIES_EXEC),
	    .memory_limited =
		is_limited(RLIMIT_AS, ADDRESSES_ENOUGH) || is_limited(RLIMIT_DATA, DATA_ENOUGH),
	    .may_trace_all = geteuid() == 0,
	    .trace_scope = read_trace_scope(),
	};

	read_status(&host);
	return host;
}

enum ptah_record_problem native_check_host(const struct native_host *host, struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

	if (!host->fsgsbase)
		return recorder_refuse(why, no,
				       "the kernel or the processor does not let programs set the "
				       "base of GS (FSGSBASE), which the recorder native needs");
	if (host->shadow_stack)
		return recorder_refuse(why, no,
				       "programs have shadow stacks here, which the recorder "
				       "native cannot keep right");
	if (host->all_executable)
		return recorder_refuse(why, no,
				       "all memory of programs is executable here (personality "
				       "READ_IMPLIES_EXEC), so that any store could change code");
	if (host->memory_limited)
		return recorder_refuse(why, no,
				       "the memory of programs is limited here (ulimit -v or -d), "
				       "and the recorder native needs some of it");
	if (host->trace_scope >= SCOPE_NOBODY ||
	    (host->trace_scope == SCOPE_ADMIN_ONLY && !host->may_trace_all))
		return recorder_refuse(
		    why, PTAH_RECORD_PERMISSION,
		    "kernel.yama.ptrace_scope is %u, so that the recorder native "
		    "cannot enter a program",
		    host->trace_scope);
	if (host->denied)
		return recorder_refuse(why, no,
				       "a filter of system calls (seccomp) denies %s, which the "
				       "recorder native needs",
				       host->denied);
	return PTAH_RECORD_FINE;
}

/* ---- The program ----------------------------------------------------------- */

/* Whether the file's mode or capabilities count when it is executed: execve(2). */
static bool gives_privileges(const char *path)
{
	struct statvfs fs;
	struct stat st;

	if (stat(path, &st) || statvfs(path, &fs) || (fs.f_flag & ST_NOSUID) ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st.st_gid != getegid()) ||
	       getxattr(path, "security.capability", NULL, 0) > 0;
}

enum ptah_record_problem native_check_program(const char *path, const struct native_host *host,
					      struct ptah_message *why)
{
	if (host->may_trace_all || !gives_privileges(path))
		return PTAH_RECORD_FINE;
	return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
			       "%.200s has privileges of its own (set-user-ID or capabilities), "
			       "which it would lose with the recorder native",
			       path);
}

/* ---- What was asked for ---------------------------------------------------- */

enum ptah_record_problem native_check_wishes(const struct ptah_record_config *config,
					     struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;

	if (config->target.kind == PTAH_RECORD_THREADS)
		return recorder_refuse(why, no,
				       "the recorder native records all threads of a process: "
				       "name it with -p");
	if (config->target.kind != PTAH_RECORD_COMMAND &&
	    config->target.kind != PTAH_RECORD_PROCESSES)
		return recorder_refuse(why, no,
				       "the recorder native records commands and processes alone");
	if (config->trace.os || config->output.kcore)
		return recorder_refuse(why, no,
				       "the kernel cannot be traced: the recorder native is inside "
				       "the program");
	for (size_t i = 0; i < config->filter_count; i++)
		if (config->filters[i].path &&
		    strlen(config->filters[i].path) >= NATIVE_FILTER_PATH)
			return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					       "the path of filter %zu is too long", i);
	if (config->buffer.policy == PTAH_RECORD_SNAPSHOT && config->buffer.size &&
	    config->buffer.size < SMALLEST_SNAPSHOT)
		return recorder_refuse(why, no,
				       "snapshots of the recorder native have at least 512 KiB, "
				       "because decoding can begin in every 128 KiB of them");
	if (config->trace.psb_period != PTAH_RECORD_CHOOSE &&
	    (native_psb_bytes(config) < NATIVE_PAGE || native_psb_bytes(config) > NATIVE_CHUNK))
		return recorder_refuse(
		    why, no, "the recorder native writes PSBs every 4, 8, 16, 32, 64 or 128 KiB");
	if (config->trace.cyc ||
	    (config->trace.mtc && config->trace.mtc_period != PTAH_RECORD_CHOOSE))
		return recorder_refuse(why, no,
				       "the recorder native writes no CYC and no MTC packets");
	if (config->backend.clock == PTAH_CLOCK_INSN)
		return recorder_refuse(why, no,
				       "the recorder native cannot count instructions as time");
	if (config->backend.mark_loops || config->backend.long_tnt)
		return recorder_refuse(
		    why, no,
		    "the recorder native neither marks loops nor writes long TNT "
		    "packets");
	return simulated_check(config, why);
}

/* A limit of the size of files counts for memory of memfd_create(), too. */
static enum ptah_record_problem check_file_limit(struct ptah_message *why)
{
	const uint64_t bytes = native_bytes();

	return is_limited(RLIMIT_FSIZE, bytes)
		   ? recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				     "the size of files is limited here (ulimit -f), and the "
				     "recorder native shares %llu MB of memory with programs",
				     (unsigned long long)bytes >> 20)
		   : PTAH_RECORD_FINE;
}

enum ptah_record_problem native_check(const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	const struct native_host host = native_host_read();
	enum ptah_record_problem problem = native_check_wishes(config, why);
	struct command command = {0};
	int status;

	if (!problem)
		problem = check_file_limit(why);
	if (!problem && config->target.kind == PTAH_RECORD_PROCESSES) {
		for (size_t i = 0; i < config->target.id_count && !problem; i++)
			problem = attach_check(config->target.ids[i], why);
		return problem;
	}
	if (!problem)
		problem = native_check_host(&host, why);
	if (problem)
		return problem;
	status = command_resolve(config->target.argv, &command, why);
	problem =
	    status < 0 ? PTAH_RECORD_NO_TARGET : native_check_program(command.program, &host, why);
	command_free(&command);
	return problem;
}
