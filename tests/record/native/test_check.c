/* SPDX-License-Identifier: MIT */
/* What the recorder native refuses beforehand: each reason by itself, and nothing else. */
#include "record/native/check.h"
#include "record/native/layout.h"

#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *command[] = {"true", NULL};

static struct ptah_record_config plain_config(void)
{
	struct ptah_record_config config = {.size = sizeof(config), .target.argv = command};

	ptah_record_trace_default(&config.trace);
	return config;
}

/* The sentence names the matter. */
static void refuses(const struct ptah_record_config *config, const char *matter)
{
	struct ptah_message why = {""};

	assert_int_equal(native_check_wishes(config, &why), PTAH_RECORD_NOT_POSSIBLE);
	assert_non_null(strstr(why.text, matter));
}

TEST(test_wishes)
{
	static char long_path[NATIVE_FILTER_PATH + 1];
	struct ptah_record_filter filter = {.size = 1, .path = "program"};
	struct ptah_record_config config = plain_config();
	struct ptah_message why = {""};

	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	config.target.kind = PTAH_RECORD_PROCESSES;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	for (unsigned kind = PTAH_RECORD_PROCESSES + 1; kind < PTAH_RECORD_TARGET_MAX; kind++) {
		config.target.kind = kind;
		refuses(&config, kind == PTAH_RECORD_THREADS ? "-p" : "commands");
	}
#define REFUSES(member, value, matter)                                                             \
	config = plain_config();                                                                   \
	config.member = (value);                                                                   \
	refuses(&config, matter)
	REFUSES(trace.os, true, "kernel");
	REFUSES(output.kcore, true, "kernel");
	REFUSES(trace.psb_period, 0, "PSBs");
	REFUSES(trace.psb_period, 7, "PSBs");
	REFUSES(trace.cyc, true, "CYC");
	REFUSES(backend.mark_loops, true, "loops");
	REFUSES(backend.clock, PTAH_CLOCK_INSN, "as time");
	REFUSES(backend.long_tnt, true, "long TNT");
	REFUSES(trace.tsc, false, "TSC"); /* of every simulated processor */
	config = plain_config();
	config.trace.mtc = true;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	config.trace.mtc_period = 3;
	refuses(&config, "MTC");
	config = plain_config();
	config.buffer.size = 64 << 10;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	config.buffer.policy = PTAH_RECORD_STOP_WHEN_FULL;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	config.buffer.policy = PTAH_RECORD_SNAPSHOT;
	refuses(&config, "512 KiB");
	config.buffer.size = 0;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	config = plain_config();
	config.filters = &filter;
	config.filter_count = 1;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_FINE);
	memset(long_path, 'a', NATIVE_FILTER_PATH);
	filter.path = long_path;
	assert_int_equal(native_check_wishes(&config, &why), PTAH_RECORD_BAD_OPTION);
	assert_non_null(strstr(why.text, "path"));
}

static const struct native_host good = {.fsgsbase = true};

static void host_refuses(const struct native_host *host, const char *matter)
{
	struct ptah_message why = {""};

	assert_int_not_equal(native_check_host(host, &why), PTAH_RECORD_FINE);
	assert_non_null(strstr(why.text, matter));
}

TEST(test_hosts)
{
	struct native_host host = good;
	struct ptah_message why = {""};

	assert_int_equal(native_check_host(&host, &why), PTAH_RECORD_FINE);
	host.fsgsbase = false;
	host_refuses(&host, "FSGSBASE");
	host = good;
	host.shadow_stack = true;
	host_refuses(&host, "shadow");
	host = good;
	host.denied = "mprotect";
	host_refuses(&host, "(seccomp) denies mprotect");
	host = good;
	host.all_executable = true;
	host_refuses(&host, "personality");
	host = good;
	host.memory_limited = true;
	host_refuses(&host, "ulimit");
	/* 1: descendants alone, which the recorded program is. 2: root alone. 3: nobody. */
	for (host = good; host.trace_scope < 4; host.trace_scope++) {
		host.may_trace_all = false;
		assert_int_equal(native_check_host(&host, &why),
				 host.trace_scope < 2 ? PTAH_RECORD_FINE : PTAH_RECORD_PERMISSION);
		host.may_trace_all = true;
		assert_int_equal(native_check_host(&host, &why),
				 host.trace_scope < 3 ? PTAH_RECORD_FINE : PTAH_RECORD_PERMISSION);
	}
}

/* In a child, whose exit status is 0 if `change` is seen. */
static void sees(bool (*change_and_look)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(!change_and_look());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* From here on, this process's calls of `number` have this result; all others are carried out. */
static bool filter(unsigned number, unsigned result)
{
	const struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, result),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {4, (struct sock_filter *)code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Under a filter that was there before, the first answer is that filter's. */
static bool filter_denies(unsigned number, unsigned result, const char *call)
{
	const char *before = native_host_read().denied, *after;

	if (!filter(number, result))
		return false;
	after = native_host_read().denied;
	return before || (call ? after && !strcmp(after, call) : !after);
}

static bool filter_of_others_is_none(void)
{
	return filter_denies(SYS_swapoff, SECCOMP_RET_KILL, NULL);
}

static bool filter_of_pidfd_getfd_is_seen(void)
{
	return filter_denies(SYS_pidfd_getfd, SECCOMP_RET_ERRNO | EPERM, "pidfd_getfd");
}

static bool filter_with_errors_is_seen(void)
{
	return filter_denies(SYS_ptrace, SECCOMP_RET_ERRNO | EPERM, "ptrace");
}

static bool filter_that_kills_is_seen(void)
{
	return filter_denies(SYS_process_vm_writev, SECCOMP_RET_KILL, "process_vm_writev");
}

static bool filter_of_arguments_is_seen(void)
{
	const struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {6, (struct sock_filter *)code};
	const char *before = native_host_read().denied, *after;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return false;
	after = native_host_read().denied;
	return before || (after && !strcmp(after, "mprotect"));
}

static bool personality_is_seen(void)
{
	return !native_host_read().all_executable &&
	       personality((unsigned long)personality(0xffffffff) | READ_IMPLIES_EXEC) != -1 &&
	       native_host_read().all_executable;
}

static bool set_limit(int resource, uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		return false;
	limit.rlim_cur = bytes;
	return !setrlimit(resource, &limit);
}

/* A limit with room for sanitizers is none; one of 1 GB leaves too little. */
static bool limit_is_seen(int resource)
{
	return set_limit(resource, UINT64_C(1) << 46) && !native_host_read().memory_limited &&
	       set_limit(resource, UINT64_C(1) << 30) && native_host_read().memory_limited;
}

static bool address_limit_is_seen(void)
{
	return limit_is_seen(RLIMIT_AS);
}

static bool data_limit_is_seen(void)
{
	return limit_is_seen(RLIMIT_DATA);
}

TEST(test_the_host_is_read)
{
	sees(filter_of_others_is_none);
	sees(filter_of_pidfd_getfd_is_seen);
	sees(filter_with_errors_is_seen);
	sees(filter_that_kills_is_seen);
	sees(filter_of_arguments_is_seen);
	sees(personality_is_seen);
	sees(address_limit_is_seen);
	sees(data_limit_is_seen);
	assert_int_equal(native_host_read().may_trace_all, geteuid() == 0);
}

static char file[] = "/tmp/ptah-test-check-XXXXXX";

/* The same file with and without the bit. */
static bool set_user_id_is_seen(void)
{
	struct ptah_message why = {""};
	struct native_host host = good;

	if (chmod(file, 0755) || native_check_program(file, &host, &why) != PTAH_RECORD_FINE)
		return false;
	if (chmod(file, 04755) || native_check_program(file, &host, &why) != PTAH_RECORD_FINE)
		return false; /* its owner's anyway */
	if (!geteuid() && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return false;
	if (geteuid() != 65534 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))
		return true; /* nothing can be said here */
	if (!native_check_program(file, &host, &why) || !strstr(why.text, "privileges"))
		return false;
	host.may_trace_all = true;
	return !native_check_program(file, &host, &why);
}

TEST(test_privileges)
{
	const int fd = mkstemp(file);

	assert_true(fd >= 0);
	close(fd);
	sees(set_user_id_is_seen);
	assert_int_equal(unlink(file), 0);
}

TEST(test_commands)
{
	static char *nothing[] = {"/nothing/of/this/name", NULL};
	struct ptah_record_config config = plain_config();
	struct ptah_message why = {""};

	if (native_check(&config, &why) != PTAH_RECORD_FINE) {
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	config.target.argv = nothing;
	assert_int_equal(native_check(&config, &why), PTAH_RECORD_NO_TARGET);
}
