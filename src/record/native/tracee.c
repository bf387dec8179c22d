/* SPDX-License-Identifier: MIT */
/* Lets a process that is held make system calls: see tracee.h. */
#include "record/native/tracee.h"

#include "perfdata/message.h"
#include "record/haste.h"
#include "record/native/runtime/memory.h"
#include "record/native/threads.h"
#include "record/simulated/code_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t tracee_look(pid_t pid, int *status)
{
	return waitpid(pid, status, __WALL | WNOHANG);
}

#ifdef __x86_64__

extern const uint8_t inject_native_runtime[], inject_native_runtime_end[];

#define TRIES	      16
#define SYSCALL_BYTES 2
#define ROOM	      512 /* bytes of the vDSO for a stub */
#define OPTIONS	      (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)

/* Where the stack is not yet used, it holds the arguments of calls. */
struct scratch {
	int32_t sockets[2];
	struct iovec part;
	struct msghdr header;
	uint8_t control[CMSG_SPACE(sizeof(int))];
	char byte;
};

int tracee_fail(struct tracee *h, const char *what)
{
	if (h->ended)
		return perfdata_message(h->why, PTAH_E_MISSING,
					h->runs
					    ? "process %d has ended"
					    : "the program was killed before its first instruction",
					h->process);
	return perfdata_message(h->why, PTAH_E_SYSTEM,
				"the recorder cannot be put into the program: %s: %s", what,
				strerrordesc_np(errno) ? strerrordesc_np(errno) : "unknown error");
}

/* Stops */

/* Lets the process go on to its next entry of a system call, or return from one. */
bool tracee_to_call(struct tracee *h)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, h->pid, 0, 0) && errno != ESRCH)
			return false;
		if (haste_waitpid(h->pid, &status, __WALL, h->late) <= 0)
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
int64_t tracee_call(struct tracee *h, uint64_t number, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d, uint64_t e, uint64_t f)
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
	if (ptrace(PTRACE_SETREGS, h->pid, 0, &r) || !tracee_to_call(h) || !tracee_to_call(h) ||
	    ptrace(PTRACE_GETREGS, h->pid, 0, &r))
		return -1;
	if (r.rax >= (uint64_t)-4095) {
		errno = (int)-(int64_t)r.rax;
		return -1;
	}
	return (int64_t)r.rax;
}

bool tracee_write(const struct tracee *h, uint64_t to, const void *from, size_t n)
{
	const struct iovec local = {(void *)(uintptr_t)from, n};
	const struct iovec remote = {(void *)(uintptr_t)to, n};

	errno = EFAULT; /* where less than all is written */
	return process_vm_writev(h->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

bool tracee_read(const struct tracee *h, void *to, uint64_t from, size_t n)
{
	const struct iovec local = {to, n}, remote = {(void *)(uintptr_t)from, n};

	errno = EFAULT;
	return process_vm_readv(h->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* Mappings */

/* At a random place where nothing is. flags: MAP_SHARED or MAP_PRIVATE. 0: there is none. */
uint64_t tracee_map(struct tracee *h, uint64_t bytes, int protection, int flags, int fd)
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
		got = tracee_call(h, SYS_mmap, at, bytes, (uint64_t)protection,
				  (uint64_t)(flags | MAP_FIXED_NOREPLACE | MAP_NORESERVE),
				  (uint64_t)fd, 0);
		if (got == (int64_t)at)
			return at;
		if (got >= 0) {
			tracee_call(h, SYS_munmap, (uint64_t)got, bytes, 0, 0, 0, 0);
			errno = ENOSYS; /* before Linux 4.17 */
			return 0;
		}
		if (errno != EEXIST)
			return 0;
	}
	return 0;
}

/* What the code of a stub reads. */
struct stub_data {
	uint64_t registers[16], rip, mask;
	int32_t descriptors[4];
	uint8_t overflow, low_flags;
	uint8_t unused[6];
};

extern const uint8_t tracee_stub[], tracee_stub_data[];

/* If nobody stops it behind its call, the program gets back its mask, descriptors and registers. */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	".globl tracee_stub, tracee_stub_data\n"
	".hidden tracee_stub, tracee_stub_data\n"
	"tracee_stub:\n"
	"	syscall\n"
	"	movl $14, %eax\n" /* rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8) */
	"	movl $2, %edi\n"
	"	leaq 136+tracee_stub_data(%rip), %rsi\n"
	"	xorl %edx, %edx\n"
	"	movl $8, %r10d\n"
	"	syscall\n"
	"	movl $3, %eax\n" /* close() */
	"	movl 144+tracee_stub_data(%rip), %edi\n"
	"	syscall\n"
	"	movl $3, %eax\n"
	"	movl 148+tracee_stub_data(%rip), %edi\n"
	"	syscall\n"
	"	movl $3, %eax\n"
	"	movl 152+tracee_stub_data(%rip), %edi\n"
	"	syscall\n"
	"	movb 160+tracee_stub_data(%rip), %al\n"
	"	movb 161+tracee_stub_data(%rip), %ah\n"
	"	addb $127, %al\n"
	"	sahf\n"
	"	movq 0+tracee_stub_data(%rip), %rax\n"
	"	movq 8+tracee_stub_data(%rip), %rcx\n"
	"	movq 16+tracee_stub_data(%rip), %rdx\n"
	"	movq 24+tracee_stub_data(%rip), %rbx\n"
	"	movq 32+tracee_stub_data(%rip), %rsp\n"
	"	movq 40+tracee_stub_data(%rip), %rbp\n"
	"	movq 48+tracee_stub_data(%rip), %rsi\n"
	"	movq 56+tracee_stub_data(%rip), %rdi\n"
	"	movq 64+tracee_stub_data(%rip), %r8\n"
	"	movq 72+tracee_stub_data(%rip), %r9\n"
	"	movq 80+tracee_stub_data(%rip), %r10\n"
	"	movq 88+tracee_stub_data(%rip), %r11\n"
	"	movq 96+tracee_stub_data(%rip), %r12\n"
	"	movq 104+tracee_stub_data(%rip), %r13\n"
	"	movq 112+tracee_stub_data(%rip), %r14\n"
	"	movq 120+tracee_stub_data(%rip), %r15\n"
	"	jmp *128+tracee_stub_data(%rip)\n"
	"	.balign 8\n"
	"tracee_stub_data:\n"
	"	.quad 0\n"
	".popsection\n");

/* Word by word, where /proc cannot be written to. n: a multiple of 8. */
static bool poke_words(const struct tracee *h, uint64_t to, const void *from, size_t n)
{
	uint64_t word;

	for (size_t i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
		memcpy(&word, (const uint8_t *)from + i, sizeof(word));
		if (ptrace(PTRACE_POKETEXT, h->pid, to + i, word))
			return false;
	}
	return n % sizeof(word) == 0;
}

bool tracee_poke(const struct tracee *h, uint64_t to, const void *from, size_t n)
{
	ssize_t written = -1;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", h->pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		written = pwrite(fd, from, n, (off_t)to);
		close(fd);
	}
	return written == (ssize_t)n || poke_words(h, to, from, n);
}

static void fill_general(const struct user_regs_struct *r, uint64_t general[16])
{
	const uint64_t list[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
				   r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};

	memcpy(general, list, sizeof(list));
}

static size_t stub_code(void)
{
	return (size_t)((uintptr_t)tracee_stub_data - (uintptr_t)tracee_stub);
}

/* From then on the program goes on by this stub, and calls come from it. */
static bool put_stub(struct tracee *h, uint64_t at)
{
	const size_t code = stub_code();
	struct user_regs_struct r = h->program;
	struct stub_data data = {.rip = h->program.rip,
				 .mask = h->mask,
				 .descriptors = {-1, -1, -1},
				 .overflow = h->program.eflags >> 11 & 1,
				 .low_flags = (uint8_t)h->program.eflags};

	fill_general(&h->program, data.registers);
	r.rip = at + SYSCALL_BYTES;
	r.orig_rax = UINT64_MAX; /* there is no call to be restarted */
	return tracee_poke(h, at, tracee_stub, code) &&
	       tracee_poke(h, at + code, &data, sizeof(data)) &&
	       !ptrace(PTRACE_SETREGS, h->pid, 0, &r);
}

/* What the stub closes is open in the program. */
static void note_descriptors(const struct tracee *h)
{
	const int32_t descriptors[4] = {h->descriptors[0], h->descriptors[1], h->descriptors[2]};

	if (!h->base) /* the calls come from the runtime that is there already */
		return;
	tracee_poke(h, h->site + stub_code() + offsetof(struct stub_data, descriptors), descriptors,
		    sizeof(descriptors));
}

void tracee_note_descriptor(struct tracee *h, unsigned i, int32_t fd)
{
	h->descriptors[i] = fd;
	note_descriptors(h);
}

bool tracee_find_vdso(pid_t pid, uint64_t *start, uint64_t *end)
{
	char path[32], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		struct code_map map;
		const char *name = code_map_parse(line, &map);

		found = name && !strcmp(name, "[vdso]");
		*start = found ? map.start : 0;
		*end = found ? map.end : 0;
	}
	if (f)
		fclose(f);
	return found;
}

bool tracee_find_room(struct tracee *h, size_t more)
{
	const size_t size = stub_code() + sizeof(struct stub_data), n = ROOM + more;
	uint8_t bytes[2 * ROOM + ROOM] = {0};
	uint64_t start, end;

	if (size > ROOM || n > sizeof(bytes) || !tracee_find_vdso(h->pid, &start, &end) ||
	    !tracee_read(h, bytes, end - n, n) || bytes[0] || memcmp(bytes, bytes + 1, n - 1) != 0)
		return false;
	h->room = end - ROOM;
	return true;
}

bool tracee_put_room(struct tracee *h)
{
	if (!put_stub(h, h->room))
		return false;
	h->site = h->room;
	return true;
}

bool tracee_lend_room(struct tracee *h)
{
	if (!tracee_find_room(h, 0))
		return false;
	if (tracee_put_room(h))
		return true;
	tracee_give_room_back(h);
	return false;
}

uint64_t tracee_tail(const struct tracee *h)
{
	return h->room + SYSCALL_BYTES;
}

bool tracee_give_room_back(struct tracee *h)
{
	static const uint8_t zeros[ROOM];
	const uint64_t room = h->room;

	h->room = 0;
	return !room || tracee_poke(h, room, zeros, ROOM);
}

/* Of the file, where something else is. 0: it has failed. */
static uint64_t map_over(struct tracee *h, uint64_t at, uint64_t bytes, int fd)
{
	return tracee_call(h, SYS_mmap, at, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, (uint64_t)fd, 0) == (int64_t)at
		   ? at
		   : 0;
}

const uint8_t *tracee_blob(const struct inject_memory *m)
{
	return m->blob ? m->blob : inject_native_runtime;
}

size_t tracee_blob_size(const struct inject_memory *m)
{
	const uint8_t *end = m->blob ? m->blob_end : inject_native_runtime_end;

	return (size_t)(end - tracee_blob(m));
}

void tracee_lay_out(struct tracee *h, const struct inject_memory *m)
{
	const uint64_t n = tracee_blob_size(m);

	h->blob_bytes = (n + NATIVE_PAGE - 1) & ~(uint64_t)(NATIVE_PAGE - 1);
	h->bytes = h->blob_bytes + TRACEE_STACK + 4 * NATIVE_PAGE;
	h->stack = h->blob_bytes + 3 * NATIVE_PAGE;
}

int tracee_map_blob(struct tracee *h, const struct inject_memory *m)
{
	uint64_t code, stub;

	tracee_lay_out(h, m);
	h->base = tracee_map(h, h->bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!h->base)
		return tracee_fail(h, "mapping memory for its code");
	code = h->base + NATIVE_PAGE;
	stub = code + h->blob_bytes;
	h->stack += h->base;
	if (!put_stub(h, stub) || !tracee_give_room_back(h) ||
	    (h->poked && ptrace(PTRACE_POKETEXT, h->pid, h->site, h->word)))
		return tracee_fail(h, "writing to its code");
	h->poked = false;
	h->site = stub;
	if (tracee_call(h, SYS_mprotect, h->base, NATIVE_PAGE, PROT_NONE, 0, 0, 0) < 0 ||
	    tracee_call(h, SYS_mprotect, stub + NATIVE_PAGE, NATIVE_PAGE, PROT_NONE, 0, 0, 0) < 0 ||
	    tracee_call(h, SYS_mprotect, h->stack, TRACEE_STACK, PROT_READ | PROT_WRITE, 0, 0, 0) <
		0 ||
	    tracee_call(h, SYS_mprotect, h->stack + TRACEE_STACK, NATIVE_PAGE, PROT_NONE, 0, 0, 0) <
		0 ||
	    tracee_call(h, SYS_mprotect, code, h->blob_bytes, PROT_READ | PROT_WRITE, 0, 0, 0) <
		0 ||
	    !tracee_write(h, code, tracee_blob(m), tracee_blob_size(m)) ||
	    tracee_call(h, SYS_mprotect, code, h->blob_bytes, PROT_READ | PROT_EXEC, 0, 0, 0) < 0)
		return tracee_fail(h, "writing its code");
	return 0;
}

/* The descriptor of the memory */

/* Sends fd through the process's socket of this number, of which the recorder takes a copy. */
static bool send_descriptor(const struct tracee *h, int number, int fd)
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
	int process = (int)syscall(SYS_pidfd_open, h->process, 0);
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
static int receive_descriptor(struct tracee *h, int number, struct scratch *s)
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
	if (!tracee_write(h, at, s, sizeof(*s)) ||
	    tracee_call(h, SYS_recvmsg, (uint64_t)number, at + offsetof(struct scratch, header),
			MSG_CMSG_CLOEXEC, 0, 0, 0) != 1 ||
	    !tracee_read(h, s, at, sizeof(*s)))
		return -1;
	errno = EMFILE; /* the kernel says nothing else where the descriptor did not fit */
	if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

bool tracee_close(struct tracee *h)
{
	bool closed = true;

	for (unsigned i = 0; i < 3; i++) {
		if (h->descriptors[i] >= 0)
			closed &= tracee_call(h, SYS_close, (uint64_t)h->descriptors[i], 0, 0, 0, 0,
					      0) >= 0;
		h->descriptors[i] = -1;
	}
	return closed;
}

static int map_memory(struct tracee *h, const struct inject_memory *m)
{
	struct scratch s = {0};
	int32_t *fd = &h->descriptors[2];

	if (tracee_call(h, SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, h->stack, 0, 0) <
		0 ||
	    !tracee_read(h, &s, h->stack, sizeof(s.sockets)))
		return tracee_fail(h, "making a socket");
	memcpy(h->descriptors, s.sockets, sizeof(s.sockets));
	note_descriptors(h);
	if (!send_descriptor(h, s.sockets[1], m->fd))
		return tracee_fail(h, "sending it the descriptor of the shared memory");
	*fd = receive_descriptor(h, s.sockets[0], &s);
	if (*fd < 0)
		return tracee_fail(h, "receiving the descriptor of the shared memory");
	note_descriptors(h);
	if (h->replaced)
		h->shared = map_over(h, h->replaced, m->bytes, *fd);
	else
		h->shared = tracee_map(h, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd);
	if (!h->shared)
		return tracee_fail(h, "mapping the shared memory");
	return tracee_close(h) ? 0 : tracee_fail(h, "closing what was opened in it");
}

/* From where the kernel holds a new process: some let it be seen how clone() returns, some do not. */
static bool leave_clone(struct tracee *h)
{
	struct user_regs_struct r = h->program;

	r.rip = h->site;
	r.orig_rax = UINT64_MAX;
	r.rax = SYS_getpid;
	return !ptrace(PTRACE_SETREGS, h->pid, 0, &r) && tracee_to_call(h) &&
	       (threads_is_entry(h->pid) || tracee_to_call(h)) && tracee_to_call(h);
}

/*
 * A process that shares the memory of the one that is held, and has files of its own, so that it can
 * close some that the other one needs. False: there is none.
 */
static bool begin_helper(struct tracee *h, struct tracee *helper)
{
	int64_t pid = -1;
	int status;

	*helper = *h;
	if (ptrace(PTRACE_SETOPTIONS, h->pid, 0, OPTIONS | PTRACE_O_TRACECLONE))
		return false;
	pid = tracee_call(h, SYS_clone, CLONE_VM, 0, 0, 0, 0, 0);
	ptrace(PTRACE_SETOPTIONS, h->pid, 0, OPTIONS);
	if (pid <= 0)
		return false;
	helper->pid = helper->process = (pid_t)pid;
	return haste_waitpid(helper->pid, &status, __WALL, h->late) == helper->pid &&
	       WIFSTOPPED(status) &&
	       !ptrace(PTRACE_SETOPTIONS, helper->pid, 0, OPTIONS | PTRACE_O_EXITKILL) &&
	       leave_clone(helper);
}

/* Nobody else is to find it. */
static void end_helper(struct tracee *h, struct tracee *helper)
{
	if (helper->pid == h->pid)
		return;
	tracee_call(helper, SYS_exit_group, 0, 0, 0, 0, 0, 0);
	if (!helper->ended)
		inject_kill(helper->pid);
	tracee_call(h, SYS_wait4, (uint64_t)helper->pid, 0, __WALL, 0, 0, 0);
}

static int map_by_helper(struct tracee *h, const struct inject_memory *m)
{
	struct tracee helper;
	int status = PTAH_E_SYSTEM;

	if (begin_helper(h, &helper)) {
		for (uint64_t i = 0; i < 3; i++)
			tracee_call(&helper, SYS_close, i, 0, 0, 0, 0, 0);
		status = map_memory(&helper, m);
		h->shared = helper.shared;
	}
	end_helper(h, &helper);
	return status;
}

/*
 * Maps the memory into the process. Its descriptor comes through a socket that the process makes,
 * which needs no names that the process and the recorder would have to have in common (/proc,
 * namespaces, folders). Nothing stays open in it. Where it may not open that many files, another
 * process does it.
 */
int tracee_map_memory(struct tracee *h, const struct inject_memory *m)
{
	const int status = map_memory(h, m);

	if (status >= 0 || errno != EMFILE || m->filters || !m->or_natively || !tracee_close(h))
		return status;
	h->why->text[0] = 0;
	return map_by_helper(h, m);
}

/* The end */

/* Without a /proc of its own, or a descriptor that it may open, the process cannot ask for them. */
static void list_mappings(const struct tracee *h, struct native_handover *o)
{
	char path[32], line[512];
	uint32_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", h->process);
	f = fopen(path, "re");
	while (f && n <= NATIVE_MAPPINGS && fgets(line, sizeof(line), f)) {
		struct code_map map;

		if (!code_map_parse(line, &map) ||
		    !(map.prot & PROT_EXEC || map.flags & MAP_SHARED))
			continue;
		if (n < NATIVE_MAPPINGS)
			o->mappings[n] = (struct native_mapping){
			    .start = map.start,
			    .end = map.end,
			    .offset = map.offset,
			    .inode = map.inode,
			    .device = map.major << 20 | map.minor,
			    .protection = (uint8_t)map.prot,
			    .shared = map.flags & MAP_SHARED,
			};
		n++;
	}
	if (f && !ferror(f) && n <= NATIVE_MAPPINGS)
		o->mapping_count = n;
	if (f)
		fclose(f);
}

void tracee_handover(const struct tracee *h, const struct inject_memory *m,
		     struct native_handover *o)
{
	const struct user_regs_struct *r = &h->program;

	*o = (struct native_handover){.shared = h->shared,
				      .blob = h->base,
				      .blob_bytes = h->bytes,
				      .rip = r->rip,
				      .rflags = r->eflags,
				      .fs_base = r->fs_base,
				      .gs_base = r->gs_base,
				      .slot = m->slot,
				      .pid = h->process,
				      .committed = m->committed,
				      .filters = m->filters,
				      .denied = m->denied,
				      .names = h->names,
				      .constants = *m->constants};
	fill_general(r, o->registers);
	if (!h->runs)
		list_mappings(h, o);
}

bool tracee_clear_stack(const struct tracee *h)
{
	return tracee_write(h, h->stack, &(struct scratch){0}, sizeof(struct scratch));
}

uint64_t tracee_top(const struct tracee *h)
{
	return (h->stack + TRACEE_STACK - sizeof(struct native_handover)) & ~UINT64_C(15);
}

#endif
