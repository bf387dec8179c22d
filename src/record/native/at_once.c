/* SPDX-License-Identifier: MIT */
/*
 * Puts the runtime into a program in one go: a list of calls stands in the vDSO's padding behind
 * the code that makes them, and the program stops when all are made. Call by call (tracee.c) it
 * stops twice for each, and each stop waits for its turn on a processor. For this the program opens
 * the memory by the recorder's name of it, /proc/PID/fd/N; where that name may mean something else
 * to it, or nothing, the calls are made one by one.
 */
#include "record/native/tracee.h"

#include "record/haste.h"
#include "record/native/runtime/memory.h"
#include "record/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__

#define CALLS	6
#define OPENS	3	     /* the one that opens the memory */
#define CALL_FD UINT64_C(-2) /* an argument: the descriptor that the list has opened */

/* What the code reads. */
struct calls_data {
	uint64_t tail; /* of the stub: the program goes on as it was */
	uint64_t count;
	uint64_t pid;
	uint64_t calls[CALLS][7]; /* numbers and arguments */
	char path[64];
};

extern const uint8_t tracee_calls[], tracee_calls_stop[], tracee_calls_data[];

/*
 * R13 counts the calls that have succeeded, R12 is what open() has returned. Then the program sends
 * itself a SIGWINCH, which stops it for its tracer alone: a program that has just begun has no
 * handlers, and ignores it. Who has no tracer any more goes on as it was.
 */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	".globl tracee_calls, tracee_calls_stop, tracee_calls_data\n"
	".hidden tracee_calls, tracee_calls_stop, tracee_calls_data\n"
	"tracee_calls:\n"
	"	leaq tracee_calls_data(%rip), %rbx\n"
	"	movq $-1, %r12\n"
	"	xorl %r13d, %r13d\n"
	"1:	cmpq 8(%rbx), %r13\n"
	"	jae 3f\n"
	"	imulq $56, %r13, %r14\n"
	"	movq 24(%rbx, %r14), %r15\n"
	"	movq 32(%rbx, %r14), %rdi\n"
	"	movq 40(%rbx, %r14), %rsi\n"
	"	movq 48(%rbx, %r14), %rdx\n"
	"	movq 56(%rbx, %r14), %r10\n"
	"	movq 64(%rbx, %r14), %r8\n"
	"	movq 72(%rbx, %r14), %r9\n"
	"	cmpq $-2, %rdi\n"
	"	cmoveq %r12, %rdi\n"
	"	cmpq $-2, %r8\n"
	"	cmoveq %r12, %r8\n"
	"	movq %r15, %rax\n"
	"	syscall\n"
	"	cmpq $-4095, %rax\n"
	"	jae 3f\n"
	"	cmpq $2, %r15\n" /* open() */
	"	cmoveq %rax, %r12\n"
	"	cmpq $9, %r15\n" /* mmap(), before Linux 4.17 also somewhere else */
	"	jne 2f\n"
	"	cmpq %rdi, %rax\n"
	"	jne 3f\n"
	"2:	incq %r13\n"
	"	jmp 1b\n"
	"3:	movl $234, %eax\n" /* tgkill(pid, pid, SIGWINCH) */
	"	movl 16(%rbx), %edi\n"
	"	movl %edi, %esi\n"
	"	movl $28, %edx\n"
	"	syscall\n"
	"tracee_calls_stop:\n"
	"	movl $3, %eax\n" /* close() */
	"	movl %r12d, %edi\n"
	"	syscall\n"
	"	jmp *(%rbx)\n"
	"	.balign 8\n"
	"tracee_calls_data:\n"
	"	.quad 0\n"
	".popsection\n");

_Static_assert(offsetof(struct calls_data, count) == 8, "");
_Static_assert(offsetof(struct calls_data, pid) == 16, "");
_Static_assert(offsetof(struct calls_data, calls) == 24, "");
_Static_assert(SYS_open == 2 && SYS_close == 3 && SYS_mmap == 9 && SYS_tgkill == 234, "");
_Static_assert(SIGWINCH == 28, "");

struct calls {
	uint8_t code[256];
	struct calls_data data;
};

static size_t calls_code(void)
{
	return (size_t)((uintptr_t)tracee_calls_data - (uintptr_t)tracee_calls);
}

static bool is_same_in(pid_t pid, const char *name)
{
	char own[40], other[40];
	struct stat a, b;

	snprintf(own, sizeof(own), "/proc/self/%s", name);
	snprintf(other, sizeof(other), "/proc/%d/%s", pid, name);
	return !stat(own, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * What the kernel says of the program in a line of its status, a number. A filter of system calls
 * may end a program for a call; a SIGWINCH that waits already would be taken for this one.
 */
static bool is_plain(pid_t pid)
{
	const uint64_t pending = proc_status_number("", pid, "SigPnd", 16),
		       shared = proc_status_number("", pid, "ShdPnd", 16);

	return !proc_status_number("", pid, "Seccomp", 10) && pending != UINT64_MAX &&
	       shared != UINT64_MAX && !((pending | shared) >> (SIGWINCH - 1) & 1);
}

/* Whether the path means for the program what it means here. */
static bool has_name(pid_t pid, int fd, char *path, size_t size)
{
	struct stat a, b;

	snprintf(path, size, "/proc/%d/fd/%d", getpid(), fd);
	return !stat(path, &a) && !fstat(fd, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
	       is_same_in(pid, "ns/pid") && is_same_in(pid, "ns/mnt") && is_same_in(pid, "root");
}

static uint64_t random_place(uint64_t bytes)
{
	uint64_t random = 0;

	if (bytes >= (MEMORY_HIGH - MEMORY_LOW) / 2 ||
	    getrandom(&random, sizeof(random), 0) != sizeof(random))
		return 0;
	return (MEMORY_LOW + random % (MEMORY_HIGH - MEMORY_LOW - bytes)) &
	       ~(uint64_t)(NATIVE_PAGE - 1);
}

static void fill_calls(struct calls_data *d, const struct tracee *h, uint64_t at)
{
	const uint64_t code = h->base + NATIVE_PAGE;
	const uint64_t path = at + offsetof(struct calls, data.path);
	const uint64_t placed = MAP_FIXED_NOREPLACE | MAP_NORESERVE;
	const uint64_t calls[CALLS][7] = {
	    {SYS_mmap, h->base, h->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | placed,
	     UINT64_MAX},
	    {SYS_mprotect, code, h->blob_bytes + NATIVE_PAGE, PROT_READ | PROT_EXEC},
	    {SYS_mprotect, h->stack, TRACEE_STACK, PROT_READ | PROT_WRITE},
	    {SYS_open, path, O_RDWR | O_CLOEXEC},
	    {SYS_mmap, h->shared, h->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | placed,
	     CALL_FD},
	    {SYS_close, CALL_FD},
	};

	memcpy(d->calls, calls, sizeof(calls));
	d->count = CALLS;
	d->pid = (uint64_t)h->pid;
	d->tail = tracee_tail(h);
}

/* Puts the stub and the calls into the vDSO. 0: there is no room. Returns where the calls are. */
static uint64_t put_calls(struct tracee *h, const char *path)
{
	struct calls c = {.code = {0}};
	uint64_t at;

	if (!tracee_find_room(h, sizeof(c)))
		return 0;
	at = h->room - sizeof(c);
	fill_calls(&c.data, h, at);
	memcpy(c.code + sizeof(c.code) - calls_code(), tracee_calls, calls_code());
	snprintf(c.data.path, sizeof(c.data.path), "%s", path);
	if (tracee_poke(h, at, &c, sizeof(c)) && tracee_put_room(h))
		return at;
	tracee_poke(h, at, &(struct calls){.code = {0}}, sizeof(c));
	tracee_give_room_back(h);
	return 0;
}

/*
 * It goes on by the stub's tail from then on, also if the recorder is killed. Where the list was
 * left between its open() and its close(), the descriptor is one that the stub closes.
 */
static int leave_calls(struct tracee *h, const struct user_regs_struct *at)
{
	struct user_regs_struct r = *at;
	const int made = (int)r.r13;

	if (made > OPENS && made < CALLS)
		tracee_note_descriptor(h, 2, (int32_t)r.r12);
	r.rip = tracee_tail(h);
	return ptrace(PTRACE_SETREGS, h->pid, 0, &r) ? -1 : made;
}

/* Lets it run until all calls are made. The number of those that succeeded; negative: it is dead. */
static int make_calls(struct tracee *h, uint64_t start, uint64_t stop)
{
	const uint64_t mask = ALL_SIGNALS & ~(UINT64_C(1) << (SIGWINCH - 1));
	struct user_regs_struct r = h->program;
	int status, signal;

	r.rip = start;
	r.orig_rax = UINT64_MAX;
	if (ptrace(PTRACE_SETREGS, h->pid, 0, &r) ||
	    ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(mask), &mask))
		return -1;
	for (;;) {
		if (ptrace(PTRACE_CONT, h->pid, 0, 0) && errno != ESRCH)
			return -1;
		if (haste_waitpid(h->pid, &status, __WALL, h->late) <= 0)
			return -1;
		if (!WIFSTOPPED(status)) {
			h->ended = true;
			return -1;
		}
		signal = WSTOPSIG(status);
		if (ptrace(PTRACE_GETREGS, h->pid, 0, &r))
			return -1;
		if (signal == SIGWINCH && !(status >> 16) && r.rip == stop)
			return leave_calls(h, &r);
		if (signal == SIGSTOP)
			h->stopped = true;
	}
}

/* False: the calls that are left of them can be made one by one. */
static bool finish(struct tracee *h, int made, const struct inject_memory *m)
{
	const uint8_t *blob = tracee_blob(m);
	const size_t n = tracee_blob_size(m);

	if (made == CALLS && tracee_poke(h, h->base + NATIVE_PAGE, blob, n))
		return true;
	if (made > OPENS + 1)
		tracee_call(h, SYS_munmap, h->shared, h->shared_bytes, 0, 0, 0, 0);
	tracee_close(h);
	if (made > 0)
		tracee_call(h, SYS_munmap, h->base, h->bytes, 0, 0, 0, 0);
	h->base = h->shared = 0;
	return false;
}

static int run_calls(struct tracee *h, const char *path, const struct inject_memory *m)
{
	const struct calls none = {.code = {0}};
	uint64_t at, code;
	int made;

	at = put_calls(h, path);
	if (!at)
		return TRACEE_UNTOUCHED;
	h->held = true;
	code = at + sizeof(none.code) - calls_code();
	made = make_calls(h, code,
			  code + (size_t)((uintptr_t)tracee_calls_stop - (uintptr_t)tracee_calls));
	if (made < 0 || !tracee_poke(h, at, &none, sizeof(none)))
		return tracee_fail(h, "stopping it");
	return finish(h, made, m) ? TRACEE_DONE : TRACEE_HELD;
}

int tracee_map_at_once(struct tracee *h, const struct inject_memory *m)
{
	char path[sizeof(((struct calls_data *)0)->path)];
	int status = TRACEE_UNTOUCHED;

	/* A filter of system calls may let tracee.c's calls through, and not these. */
	h->names = !m->call_by_call && !m->filters && has_name(h->pid, m->fd, path, sizeof(path));
	if (!h->names || !is_plain(h->pid) || ptrace(PTRACE_GETREGS, h->pid, 0, &h->program) ||
	    h->program.cs != CODE_SELECTOR)
		return TRACEE_UNTOUCHED;
	h->program.rax = 0; /* what execve() is about to return */
	tracee_lay_out(h, m);
	h->base = random_place(h->bytes);
	h->shared = random_place(h->shared_bytes);
	h->stack += h->base;
	if (h->base && h->shared && calls_code() <= sizeof(((struct calls *)0)->code))
		status = run_calls(h, path, m);
	if (status == TRACEE_UNTOUCHED)
		h->base = h->shared = 0;
	return status;
}

#endif
