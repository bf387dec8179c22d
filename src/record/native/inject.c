/* SPDX-License-Identifier: MIT */
/*
 * Puts the runtime into a program that stands before its first instruction: lets the program make
 * the system calls that map it, one by one, from a SYSCALL that is put over its first instruction
 * for that time. The calls are watched as such (PTRACE_SYSCALL), so that no signal is involved.
 */
#include "record/native/inject.h"

#include "perfdata/message.h"
#include "record/command.h"
#include "record/native/layout.h"
#include "record/native/runtime/memory.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__

extern const uint8_t inject_native_runtime[], inject_native_runtime_end[];

#define STACK	       (128u << 10) /* of the runtime's first thread */
#define TRIES	       16
#define CODE_SELECTOR  0x33 /* CS of 64-bit code: __USER_CS */
#define SYSCALL_OPCODE UINT64_C(0x050f)
#define SYSCALL_STOP   (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */
#define EXEC_STOP      (SIGTRAP | PTRACE_EVENT_EXEC << 8)
#define GROUP_STOP     PTRACE_EVENT_STOP
#define ALL_SIGNALS    (~UINT64_C(0))

/* A process that is held, while the runtime is put into it. */
struct held {
	pid_t pid;
	struct ptah_message *why;
	struct user_regs_struct program; /* as at its first instruction */
	uint64_t site;			 /* of the SYSCALL, and what is there otherwise */
	uint64_t word;
	uint64_t mask; /* of signals */
	bool stopped;  /* SIGSTOP came meanwhile */
	bool ended;
	/* Guard page, blob, guard page, stack, guard page. */
	uint64_t base, bytes, blob_bytes, stack;
	uint64_t shared, shared_bytes;
	bool held;		/* it can be told to make calls */
	int32_t descriptors[3]; /* that are open in it for now; -1: none */
};

/* Where the stack is not yet used, it holds the arguments of calls. */
struct scratch {
	int32_t sockets[2];
	struct iovec part;
	struct msghdr header;
	uint8_t control[CMSG_SPACE(sizeof(int))];
	char byte;
};

static int fail(struct held *h, const char *what)
{
	if (h->ended)
		return perfdata_message(h->why, PTAH_E_MISSING,
					"the program was killed before its first instruction");
	return perfdata_message(h->why, PTAH_E_SYSTEM,
				"the recorder cannot be put into the program: %s: %s", what,
				strerrordesc_np(errno) ? strerrordesc_np(errno) : "unknown error");
}

/* Stops */

static pid_t wait_for(pid_t pid, int *status, int flags)
{
	pid_t got;

	do
		got = waitpid(pid, status, __WALL | flags);
	while (got < 0 && errno == EINTR);
	return got;
}

/* Lets the process go on to its next entry of a system call, or return from one. */
static bool run_to_call(struct held *h)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, h->pid, 0, 0) && errno != ESRCH)
			return false;
		if (wait_for(h->pid, &status, 0) < 0)
			return false;
		if (!WIFSTOPPED(status)) {
			h->ended = true;
			return false;
		}
		if (WSTOPSIG(status) == SYSCALL_STOP)
			return true;
		/* All signals are blocked but SIGSTOP: it takes effect when the runtime runs. */
		if (WSTOPSIG(status) == SIGSTOP)
			h->stopped = true;
	}
}

/* Has the process make a system call. A negative result: an error; errno is set. */
static int64_t call(struct held *h, uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		    uint64_t e, uint64_t f)
{
	struct user_regs_struct r = h->program;

	r.rip = h->site;
	r.orig_rax = UINT64_MAX; /* there is no call to be restarted */
	r.rax = number;
	r.rdi = a;
	r.rsi = b;
	r.rdx = c;
	r.r10 = d;
	r.r8 = e;
	r.r9 = f;
	if (ptrace(PTRACE_SETREGS, h->pid, 0, &r) || !run_to_call(h) || !run_to_call(h) ||
	    ptrace(PTRACE_GETREGS, h->pid, 0, &r))
		return -1;
	if (r.rax >= (uint64_t)-4095) {
		errno = (int)-(int64_t)r.rax;
		return -1;
	}
	return (int64_t)r.rax;
}

static bool write_memory(const struct held *h, uint64_t to, const void *from, size_t n)
{
	const struct iovec local = {(void *)(uintptr_t)from, n};
	const struct iovec remote = {(void *)(uintptr_t)to, n};

	errno = EFAULT; /* where less than all is written */
	return process_vm_writev(h->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

static bool read_memory(const struct held *h, void *to, uint64_t from, size_t n)
{
	const struct iovec local = {to, n}, remote = {(void *)(uintptr_t)from, n};

	errno = EFAULT;
	return process_vm_readv(h->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* From the exec stop to a process that can be told to make calls. */
static int take_hold(struct held *h)
{
	long word;

	if (ptrace(PTRACE_GETSIGMASK, h->pid, sizeof(h->mask), &h->mask) ||
	    ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(uint64_t), &(uint64_t){ALL_SIGNALS}) ||
	    !run_to_call(h) /* the return from execve */ ||
	    ptrace(PTRACE_GETREGS, h->pid, 0, &h->program))
		return fail(h, "stopping it");
	if (h->program.cs != CODE_SELECTOR)
		return perfdata_message(h->why, PTAH_E_FOREIGN,
					"the program is a 32-bit program; the recorder native "
					"records 64-bit programs only");
	h->site = h->program.rip & ~UINT64_C(7); /* a word that is in one page */
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, h->pid, h->site, 0);
	h->word = (uint64_t)word;
	if (errno || ptrace(PTRACE_POKETEXT, h->pid, h->site,
			    (h->word & ~UINT64_C(0xffff)) | SYSCALL_OPCODE))
		return fail(h, "writing to its code");
	h->held = true;
	return 0;
}

/* Mappings */

/* At a random place where nothing is. flags: MAP_SHARED or MAP_PRIVATE. 0: there is none. */
static uint64_t map(struct held *h, uint64_t bytes, int protection, int flags, int fd)
{
	errno = ENOMEM;
	for (unsigned i = 0; bytes < (MEMORY_HIGH - MEMORY_LOW) / 2 && i < TRIES && !h->ended;
	     i++) {
		uint64_t random = 0, at;
		int64_t got;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return 0;
		at = MEMORY_LOW + random % (MEMORY_HIGH - MEMORY_LOW - bytes);
		at &= ~(uint64_t)(NATIVE_PAGE - 1);
		got =
		    call(h, SYS_mmap, at, bytes, (uint64_t)protection,
			 (uint64_t)(flags | MAP_FIXED_NOREPLACE | MAP_NORESERVE), (uint64_t)fd, 0);
		if (got == (int64_t)at)
			return at;
		if (got >= 0) {
			call(h, SYS_munmap, (uint64_t)got, bytes, 0, 0, 0, 0);
			errno = ENOSYS; /* before Linux 4.17 */
			return 0;
		}
		if (errno != EEXIST)
			return 0;
	}
	return 0;
}

static int map_blob(struct held *h, const struct inject_memory *m)
{
	const uint8_t *blob = m->blob ? m->blob : inject_native_runtime;
	const uint8_t *end = m->blob ? m->blob_end : inject_native_runtime_end;
	size_t n = (size_t)(end - blob);
	uint64_t code;

	h->blob_bytes = (n + NATIVE_PAGE - 1) & ~(uint64_t)(NATIVE_PAGE - 1);
	h->bytes = h->blob_bytes + STACK + 3 * NATIVE_PAGE;
	h->base = map(h, h->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!h->base)
		return fail(h, "mapping memory for its code");
	code = h->base + NATIVE_PAGE;
	h->stack = code + h->blob_bytes + NATIVE_PAGE;
	if (call(h, SYS_mprotect, h->stack, STACK, PROT_READ | PROT_WRITE, 0, 0, 0) < 0 ||
	    call(h, SYS_mprotect, code, h->blob_bytes, PROT_READ | PROT_WRITE, 0, 0, 0) < 0 ||
	    !write_memory(h, code, blob, n) ||
	    call(h, SYS_mprotect, code, h->blob_bytes, PROT_READ | PROT_EXEC, 0, 0, 0) < 0)
		return fail(h, "writing its code");
	return 0;
}

/* The descriptor of the memory */

/* Sends fd through the process's socket of this number, of which the recorder takes a copy. */
static bool send_descriptor(const struct held *h, int number, int fd)
{
	struct iovec part = {(char[]){0}, 1};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	int process = (int)syscall(SYS_pidfd_open, h->pid, 0);
	int socket = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, number, 0);
	bool sent;

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	sent = socket >= 0 && sendmsg(socket, &m, MSG_NOSIGNAL) == 1;
	if (socket >= 0)
		close(socket);
	if (process >= 0)
		close(process);
	return sent;
}

/* Has the process receive the descriptor. Its number there, or -1. */
static int receive_descriptor(struct held *h, int number, struct scratch *s)
{
	uint64_t at = h->stack;
	struct cmsghdr *header = (struct cmsghdr *)(void *)s->control;
	int fd;

	s->part = (struct iovec){(void *)(uintptr_t)(at + offsetof(struct scratch, byte)), 1};
	s->header = (struct msghdr){
	    .msg_iov = (void *)(uintptr_t)(at + offsetof(struct scratch, part)),
	    .msg_iovlen = 1,
	    .msg_control = (void *)(uintptr_t)(at + offsetof(struct scratch, control)),
	    .msg_controllen = sizeof(s->control),
	};
	if (!write_memory(h, at, s, sizeof(*s)) ||
	    call(h, SYS_recvmsg, (uint64_t)number, at + offsetof(struct scratch, header),
		 MSG_CMSG_CLOEXEC, 0, 0, 0) != 1 ||
	    !read_memory(h, s, at, sizeof(*s)))
		return -1;
	errno = EMFILE; /* the kernel says nothing else where the descriptor did not fit */
	if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

static bool close_descriptors(struct held *h)
{
	bool closed = true;

	for (unsigned i = 0; i < 3; i++) {
		if (h->descriptors[i] >= 0)
			closed &=
			    call(h, SYS_close, (uint64_t)h->descriptors[i], 0, 0, 0, 0, 0) >= 0;
		h->descriptors[i] = -1;
	}
	return closed;
}

/*
 * Maps the memory into the process. Its descriptor comes through a socket that the process makes,
 * which needs no names that the process and the recorder would have to have in common (/proc,
 * namespaces, folders). Nothing stays open in it.
 */
static int map_memory(struct held *h, const struct inject_memory *m)
{
	struct scratch s = {0};
	int32_t *fd = &h->descriptors[2];

	if (call(h, SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, h->stack, 0, 0) < 0 ||
	    !read_memory(h, &s, h->stack, sizeof(s.sockets)))
		return fail(h, "making a socket");
	memcpy(h->descriptors, s.sockets, sizeof(s.sockets));
	if (!send_descriptor(h, s.sockets[1], m->fd))
		return fail(h, "sending it the descriptor of the shared memory");
	*fd = receive_descriptor(h, s.sockets[0], &s);
	if (*fd < 0)
		return fail(h, "receiving the descriptor of the shared memory");
	h->shared = map(h, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd);
	if (!h->shared)
		return fail(h, "mapping the shared memory");
	return close_descriptors(h) ? 0 : fail(h, "closing what was opened in it");
}

/* The end */

static void fill_handover(const struct held *h, const struct inject_memory *m,
			  struct native_handover *o)
{
	const struct user_regs_struct *r = &h->program;
	const uint64_t general[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp,
				      r->rsi, r->rdi, r->r8,  r->r9,  r->r10, r->r11,
				      r->r12, r->r13, r->r14, r->r15};

	*o = (struct native_handover){.shared = h->shared,
				      .blob = h->base,
				      .blob_bytes = h->bytes,
				      .rip = r->rip,
				      .rflags = r->eflags,
				      .fs_base = r->fs_base,
				      .gs_base = r->gs_base,
				      .slot = m->slot,
				      .pid = h->pid};
	memcpy(o->registers, general, sizeof(general));
}

/* The process becomes what it was, but that it goes on with these registers. */
static bool detach(struct held *h, struct user_regs_struct *r)
{
	r->orig_rax = UINT64_MAX;
	return !ptrace(PTRACE_POKETEXT, h->pid, h->site, h->word) &&
	       !ptrace(PTRACE_SETREGS, h->pid, 0, r) &&
	       !ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(h->mask), &h->mask) &&
	       !ptrace(PTRACE_DETACH, h->pid, 0, h->stopped ? SIGSTOP : 0);
}

/* It goes on in start(). */
static int let_go(struct held *h, const struct inject_memory *m)
{
	struct user_regs_struct r = h->program;
	struct native_handover o;
	uint64_t at = (h->stack + STACK - sizeof(o)) & ~UINT64_C(15);

	fill_handover(h, m, &o);
	r.rip = h->base + NATIVE_PAGE;
	r.rdi = at;
	r.rsp = at - 8; /* as after a CALL */
	if (!write_memory(h, h->stack, &(struct scratch){0}, sizeof(struct scratch)) ||
	    !write_memory(h, at, &o, sizeof(o)) || !detach(h, &r))
		return fail(h, "letting it run");
	return 0;
}

/* After a failure: takes out of the process what was put into it. False: it cannot go on. */
static bool let_go_natively(struct held *h)
{
	bool undone = h->held && close_descriptors(h);

	if (undone && h->shared)
		undone = call(h, SYS_munmap, h->shared, h->shared_bytes, 0, 0, 0, 0) >= 0;
	if (undone && h->base)
		undone = call(h, SYS_munmap, h->base, h->bytes, 0, 0, 0, 0) >= 0;
	return undone && detach(h, &h->program);
}

int inject_runtime(pid_t pid, const struct inject_memory *memory, struct ptah_message *why)
{
	struct held h = {
	    .pid = pid, .why = why, .shared_bytes = memory->bytes, .descriptors = {-1, -1, -1}};
	int status = take_hold(&h);

	if (status >= 0)
		status = map_blob(&h, memory);
	if (status >= 0)
		status = map_memory(&h, memory);
	if (status >= 0)
		status = let_go(&h, memory);
	if (status < 0 && !h.ended && !(memory->or_natively && let_go_natively(&h)))
		inject_kill(pid);
	return status;
}

#else /* another processor: check.c refuses before */

int inject_runtime(pid_t pid, const struct inject_memory *memory, struct ptah_message *why)
{
	(void)memory;
	inject_kill(pid);
	return perfdata_message(why, PTAH_E_SYSTEM,
				"the recorder native is for x86-64 processors only");
}

#endif

void inject_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (wait_for(pid, &status, 0) == pid && WIFSTOPPED(status))
		;
}

/* Executions */

int inject_seize(pid_t pid, struct ptah_message *why)
{
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD))
		return perfdata_system_message(why, errno, "a recorded process", "trace");
	return 0;
}

/* What a stop means for one who waits for an execve: 1 if this is it. Otherwise it goes on. */
static int pass_stop(pid_t pid, int status)
{
	int signal = WSTOPSIG(status);

	if (status >> 8 == EXEC_STOP)
		return 1;
	if (status >> 16 == GROUP_STOP)
		ptrace(signal == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, pid, 0, 0);
	else
		ptrace(PTRACE_CONT, pid, 0, signal == SYSCALL_STOP ? 0 : signal);
	return 0;
}

int inject_exec(pid_t pid, int *ended, struct ptah_message *why)
{
	int status = 0;
	pid_t got;

	while ((got = wait_for(pid, &status, WNOHANG)) == pid) {
		if (!WIFSTOPPED(status)) {
			*ended = status;
			return perfdata_message(why, PTAH_E_MISSING,
						"a process has ended before its execve");
		}
		if (pass_stop(pid, status))
			return 1;
	}
	*ended = 0;
	return got < 0 ? perfdata_message(why, PTAH_E_MISSING, "a process has disappeared") : 0;
}

/* Held by inject_exec(): this stop has been reported, and nothing more would be. */
static bool is_at_exec(pid_t pid)
{
	siginfo_t info;

	return !ptrace(PTRACE_GETSIGINFO, pid, 0, &info) && info.si_code == EXEC_STOP;
}

void inject_release(pid_t pid)
{
	int status;

	if (is_at_exec(pid)) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
	} else if (!ptrace(PTRACE_INTERRUPT, pid, 0, 0) && wait_for(pid, &status, 0) == pid &&
		   WIFSTOPPED(status)) {
		/* What stops it may be a signal, which then has to take effect. */
		ptrace(PTRACE_DETACH, pid, 0, status >> 16 ? 0 : WSTOPSIG(status));
	}
}

/* Commands */

/* In the child: never returns. */
static void run_command(const char *path, char *const *argv, int socket)
{
	char byte;
	ssize_t n;

	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1) {
		execv(path, argv);
		n = send(socket, &errno, sizeof(errno), MSG_NOSIGNAL);
	}
	_exit(127);
}

/* Waits for the child's execve. It has failed: the child has sent why. */
static int await_exec(pid_t pid, const char *name, int socket, struct ptah_message *why)
{
	int status, error = 0;

	while (wait_for(pid, &status, 0) == pid && WIFSTOPPED(status))
		if (pass_stop(pid, status))
			return 0;
	if (recv(socket, &error, sizeof(error), MSG_DONTWAIT) != sizeof(error))
		return perfdata_message(why, PTAH_E_MISSING,
					"%s was killed before its first instruction", name);
	return perfdata_message(why, PTAH_E_MISSING, "%s cannot be started: %s", name,
				strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
}

static int hold_child(pid_t pid, const char *name, int socket, struct ptah_message *why)
{
	const long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;

	if (ptrace(PTRACE_SEIZE, pid, 0, options)) {
		perfdata_system_message(why, errno, name, "trace");
		inject_kill(pid);
		return PTAH_E_SYSTEM;
	}
	(void)send(socket, "", 1, MSG_NOSIGNAL);
	return await_exec(pid, name, socket, why);
}

static int start_path(const char *path, char *const *argv, pid_t *pid, struct ptah_message *why)
{
	int sockets[2], status;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return perfdata_system_message(why, errno, argv[0], "start");
	*pid = fork();
	if (*pid == 0) {
		close(sockets[0]); /* so that its read() ends when the recorder is killed */
		run_command(path, argv, sockets[1]);
	}
	close(sockets[1]);
	status = *pid < 0 ? perfdata_system_message(why, errno, argv[0], "start")
			  : hold_child(*pid, argv[0], sockets[0], why);
	close(sockets[0]);
	return status;
}

int inject_start(char *const *argv, pid_t *pid, struct ptah_message *why)
{
	char *path = command_find(argv[0]);
	int status;

	if (!path)
		return perfdata_message(why, PTAH_E_MISSING, "%s: command not found", argv[0]);
	status = start_path(path, argv, pid, why);
	free(path);
	return status;
}
