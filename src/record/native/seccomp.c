/* SPDX-License-Identifier: MIT */
/*
 * See seccomp.h. A filter cannot be read without privileges, and what it says may depend on the
 * arguments: so the calls are made, with arguments like those of the runtime, on things that belong
 * to the child alone.
 */
#include "record/native/seccomp.h"

#include "base/compiler.h"
#include "record/proc_stat.h"
#include "record/shared_memory.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

/* The child's, and of one probe each. */
struct state {
	unsigned at;	  /* index of the call that is being made */
	void *memory;	  /* a page */
	int file;	  /* of shared memory */
	pid_t traced;	  /* a child of the child */
	int alive[2];	  /* a pipe: it ends when the child does */
	uint64_t word[2]; /* to be read and written by others */
};

static bool makes_memory_file(struct state *s)
{
	s->file = shared_memory_create("ptah", PAGE);
	return s->file >= 0;
}

static bool maps(struct state *s)
{
	void *shared =
	    mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->file, 0);

	s->memory = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return shared != MAP_FAILED && s->memory != MAP_FAILED && !munmap(shared, PAGE);
}

static bool makes_code(struct state *s)
{
	return !mprotect(s->memory, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) &&
	       !mprotect(s->memory, PAGE, PROT_READ | PROT_EXEC) &&
	       !mprotect(s->memory, PAGE, PROT_READ | PROT_WRITE);
}

/* An error is as good, but whoever is killed for it cannot be recorded. */
static bool advises(struct state *s)
{
	madvise(s->memory, PAGE, MADV_NORMAL);
	return true;
}

static bool asks_for_pages(struct state *s)
{
	unsigned char page;

	mincore(s->memory, PAGE, &page);
	return true;
}

static bool sets_signals(struct state *s)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	const stack_t none = {.ss_flags = SS_DISABLE};
	sigset_t all;

	(void)s;
	sigfillset(&all);
	return !sigaction(SIGTRAP, &ignore, NULL) && !sigaltstack(&none, NULL) &&
	       !sigprocmask(SIG_SETMASK, &all, NULL);
}

/* All signals are blocked, SIGTRAP is ignored. */
static bool sends_signals(struct state *s)
{
	siginfo_t info = {.si_code = SI_QUEUE};
	const long pid = getpid(), tid = syscall(SYS_gettid);

	(void)s;
	return !syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGTRAP, &info) &&
	       !syscall(SYS_tgkill, pid, tid, SIGTRAP);
}

static bool wakes(struct state *s)
{
	return syscall(SYS_futex, s->word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0;
}

static bool yields(struct state *s)
{
	(void)s;
	return !syscall(SYS_sched_yield);
}

/* The base of GS is 0 in programs that do not use it. */
static bool sets_gs(struct state *s)
{
#ifdef __x86_64__
	(void)s;
	return !syscall(SYS_arch_prctl, ARCH_SET_GS, 0UL);
#else
	(void)s;
	return true;
#endif
}

static bool reads_maps(struct state *s)
{
	const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const bool got = fd >= 0 && read(fd, s->memory, PAGE) > 0;

	return got && !close(fd);
}

static bool makes_sockets(struct state *s)
{
	int pair[2];

	(void)s;
	return !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) && !close(pair[0]) &&
	       !close(pair[1]);
}

static bool forks(struct state *s)
{
	char byte;

	if (pipe2(s->alive, O_CLOEXEC))
		return false;
	s->traced = fork();
	if (s->traced)
		return s->traced > 0;
	close(s->alive[1]);
	while (read(s->alive[0], &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static bool traces(struct state *s)
{
	int status;

	return !ptrace(PTRACE_SEIZE, s->traced, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD) &&
	       !ptrace(PTRACE_INTERRUPT, s->traced, 0, 0) &&
	       waitpid(s->traced, &status, __WALL) == s->traced && WIFSTOPPED(status);
}

static bool reads_memory(struct state *s)
{
	const struct iovec local = {&s->word[0], sizeof(s->word[0])};
	const struct iovec remote = {&s->word[1], sizeof(s->word[1])};

	return process_vm_readv(s->traced, &local, 1, &remote, 1, 0) == sizeof(s->word[0]);
}

static bool writes_memory(struct state *s)
{
	const struct iovec local = {&s->word[0], sizeof(s->word[0])};
	const struct iovec remote = {&s->word[1], sizeof(s->word[1])};

	return process_vm_writev(s->traced, &local, 1, &remote, 1, 0) == sizeof(s->word[0]);
}

static bool takes_descriptors(struct state *s)
{
	const long process = syscall(SYS_pidfd_open, s->traced, 0);
	const long fd = process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, s->alive[0], 0);

	return fd >= 0 && !close((int)fd) && !close((int)process);
}

static const struct {
	const char *name;
	bool (*works)(struct state *s);
} probes[] = {
    {"memfd_create", makes_memory_file},
    {"mmap", maps},
    {"mprotect", makes_code},
    {"madvise", advises},
    {"mincore", asks_for_pages},
    {"rt_sigaction", sets_signals},
    {"rt_tgsigqueueinfo", sends_signals},
    {"futex", wakes},
    {"sched_yield", yields},
    {"arch_prctl", sets_gs},
    {"open", reads_maps},
    {"socketpair", makes_sockets},
    {"fork", forks},
    {"ptrace", traces},
    {"process_vm_readv", reads_memory},
    {"process_vm_writev", writes_memory},
    {"pidfd_getfd", takes_descriptors},
};

/* Never returns. No core file: a filter ends who calls by SIGSYS. */
static void make_calls(struct state *s)
{
	const struct rlimit none = {0, 0};
	size_t i = 0;

	setrlimit(RLIMIT_CORE, &none);
	for (; i < ARRAY_SIZE(probes); i++) {
		__atomic_store_n(&s->at, (unsigned)i, __ATOMIC_RELEASE);
		if (!probes[i].works(s))
			break;
	}
	if (s->traced > 0)
		kill(s->traced, SIGKILL);
	_exit(i < ARRAY_SIZE(probes));
}

const char *native_seccomp_denied(void)
{
	struct state *s =
	    mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *denied = NULL;
	int status = -1;
	pid_t pid;

	if (s == MAP_FAILED)
		return "mmap";
	memset(s, 0, sizeof(*s));
	pid = fork();
	if (!pid)
		make_calls(s);
	if (pid < 0)
		denied = "fork";
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && status)
		denied = probes[s->at % ARRAY_SIZE(probes)].name;
	munmap(s, sizeof(*s));
	return denied;
}

uint32_t native_seccomp_filters(int32_t pid)
{
	const uint64_t mode = proc_status_number("", pid, "Seccomp", 10);

	return mode && mode != UINT64_MAX
		   ? (uint32_t)proc_status_number("", pid, "Seccomp_filters", 10)
		   : 0;
}
