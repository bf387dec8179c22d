/* SPDX-License-Identifier: MIT */
/* The runtime's other files, as signals.c sees them, where the program is its own translation. */
#include "signal_program.h"

#include "record/native/runtime/changes.h"
#include "record/native/runtime/sys.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_FILL 0xa5
/* Where no sanitizer has anything. */
#define PROGRAM_STACK_AT UINT64_C(0x400000000000)
#define RUNTIME_STACK	 (256u << 10)
#define HWCAP2_FSGSBASE	 2u

const uint64_t program_stack_end = PROGRAM_STACK_AT + PROGRAM_STACK_BYTES;
struct seen *program_seen;

/* 1 under the runtime. For the assembly. */
uint8_t test_translated;
/* What test_load() loads. */
struct registers test_registers;
/* Where a program was interrupted: test_store is executed instead, and faults. */
static uint64_t interrupted_at;

void test_load(const struct registers *r);
void test_load_native(const struct registers *r);
void test_syscall_at(void);
void test_store(void);
extern const uint8_t test_window_start[], test_window_end[];
_Noreturn void test_gate(struct context *c, struct registers *r);
_Noreturn void test_again(struct context *c);

__asm__(".text\n"
	/* The registers of a thread, by their offsets in struct registers; RDI is last. */
	".macro load_registers\n"
	"	mov	0(%rdi), %rax\n"
	"	mov	8(%rdi), %rcx\n"
	"	mov	16(%rdi), %rdx\n"
	"	mov	24(%rdi), %rbx\n"
	"	mov	32(%rdi), %rsp\n"
	"	mov	40(%rdi), %rbp\n"
	"	mov	48(%rdi), %rsi\n"
	"	mov	64(%rdi), %r8\n"
	"	mov	72(%rdi), %r9\n"
	"	mov	80(%rdi), %r10\n"
	"	mov	88(%rdi), %r11\n"
	"	mov	96(%rdi), %r12\n"
	"	mov	104(%rdi), %r13\n"
	"	mov	112(%rdi), %r14\n"
	"	mov	120(%rdi), %r15\n"
	"	mov	56(%rdi), %rdi\n"
	".endm\n"
	"test_load_native:\n"
	"	pushq	136(%rdi)\n"
	"	popfq\n"
	"	load_registers\n"
	"	jmp	*test_registers+128(%rip)\n"
	/*
	 * Into the program from the runtime: the last test of `pending` and what follows begin
	 * again when a signal comes.
	 */
	"test_load:\n"
	"	movb	$0, %gs:0x60\n"
	"test_window_start:\n"
	"	cmpb	$0, %gs:0x61\n"
	"	jne	1f\n"
	"	pushq	136(%rdi)\n"
	"	popfq\n"
	"	load_registers\n"
	"test_window_end:\n"
	"	jmp	*test_registers+128(%rip)\n"
	"1:	movb	$1, %gs:0x60\n"
	"	mov	%gs:0, %rdi\n"
	"	mov	%gs:0x50, %rsp\n"
	"	push	$0\n"
	"	jmp	test_again\n"
	/* The store that faults at a head, when the program is to be interrupted. */
	"test_store:\n"
	"	movb	$0, 0\n"
	/* int64_t program_call(number, six arguments) */
	".globl program_call\n"
	"program_call:\n"
	"	mov	%rdi, %rax\n"
	"	mov	%rsi, %rdi\n"
	"	mov	%rdx, %rsi\n"
	"	mov	%rcx, %rdx\n"
	"	mov	%r8, %r10\n"
	"	mov	%r9, %r8\n"
	"	mov	8(%rsp), %r9\n"
	"1:	cmpb	$0, test_translated(%rip)\n"
	"	jne	2f\n"
	"test_syscall_at:\n"
	"	syscall\n"
	"	ret\n"
	".globl program_restorer\n"
	"program_restorer:\n"
	"	mov	$15, %eax\n"
	"	jmp	1b\n"
	/* The gate of system calls: RCX and R11 are free there. */
	"2:	movb	$1, %gs:0x60\n"
	"	mov	%rsp, %rcx\n"
	"	mov	%gs:0x50, %rsp\n"
	"	cmp	%al, %al\n" /* equal, as natively: SYSCALL saves the flags */
	"	pushfq\n"
	"	cld\n"
	"	lea	test_syscall_at(%rip), %r11\n"
	"	push	%r11\n"
	"	push	%r15\n"
	"	push	%r14\n"
	"	push	%r13\n"
	"	push	%r12\n"
	"	push	%r11\n"
	"	push	%r10\n"
	"	push	%r9\n"
	"	push	%r8\n"
	"	push	%rdi\n"
	"	push	%rsi\n"
	"	push	%rbp\n"
	"	push	%rcx\n" /* RSP */
	"	push	%rbx\n"
	"	push	%rdx\n"
	"	push	%rcx\n"
	"	push	%rax\n"
	"	mov	%gs:0, %rdi\n"
	"	mov	%rsp, %rsi\n"
	"	and	$-16, %rsp\n"
	"	call	test_gate\n"
	"	hlt\n");

/*
 * The runtime leaves the vector registers alone; so must what it calls here. (This file is compiled
 * for general registers only.)
 */
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *result = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
	return result;
}

void *memset(void *to, int value, size_t n)
{
	void *result = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
	return result;
}

/* The runtime's other files */

/* Whole pages where it is much. */
void *memory_take(struct runtime *rt, size_t n)
{
	return n >= 64 << 10 ? memory_map(rt, n) : calloc(1, n);
}

uint64_t unit_fill_table(struct context *c, uint64_t target)
{
	(void)c, (void)target;
	abort(); /* nothing here comes to address 0 */
}

void *memory_map(struct runtime *rt, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)rt;
	return p == MAP_FAILED ? NULL : p;
}

bool message_send(struct context *c, const struct native_message *m, const void *payload)
{
	(void)c, (void)payload;
	program_seen->message[0] = m->type;
	program_seen->message[1] = m->value;
	program_seen->message[2] = m->address;
	return true;
}

void ring_end(struct context *c)
{
	(void)c;
}

/* Nobody asks for a pause here. */
void pause_follow(struct context *c, uint64_t ip, bool traced)
{
	(void)c, (void)ip, (void)traced;
}

static void add_packet(enum packet_kind kind, uint64_t ip)
{
	if (program_seen->packet_count < SEEN_NUMBERS)
		program_seen->packets[program_seen->packet_count++] = (struct packet){kind, ip};
}

uint8_t *packets_room(struct context *c, uint64_t ip)
{
	(void)ip;
	return (uint8_t *)(uintptr_t)c->log;
}

uint8_t *packets_enable(struct context *c, uint8_t *at, uint64_t ip)
{
	(void)c;
	add_packet(PACKETS_ENABLE, ip);
	return at;
}

uint8_t *packets_async_disable(struct context *c, uint8_t *at, uint64_t ip)
{
	(void)c;
	add_packet(PACKETS_ASYNC, ip);
	return at;
}

void unit_cut(struct context *c, uint64_t cache_address)
{
	(void)c;
	add_packet(PACKETS_CUT, cache_address);
}

uint64_t unit_enter(struct context *c, uint64_t head)
{
	(void)c;
	return head < 4096 ? 0 : head; /* no page is ever there */
}

static bool is_in_window(uint64_t rip)
{
	return rip >= (uintptr_t)test_window_start && rip <= (uintptr_t)test_window_end;
}

bool unit_is_code(const struct runtime *rt, uint64_t address)
{
	const struct context *c;

	(void)rt;
	__asm__ volatile("mov %%gs:0, %0" : "=r"(c));
	(void)address;
	return !c->inside;
}

bool unit_is_forgotten(const struct runtime *rt, uint64_t address)
{
	(void)rt;
	(void)address;
	return false;
}

/* The programs here do not change their code. */
bool changes_give_back(struct context *c, uint64_t address)
{
	(void)c;
	(void)address;
	return false;
}

bool changes_give_back_all(struct context *c)
{
	(void)c;
	return false;
}

void step_begin(struct context *c, const struct registers *r)
{
	(void)c;
	(void)r;
	abort();
}

void step_end(struct context *c, const struct registers *r)
{
	(void)c;
	(void)r;
	abort();
}

void unit_interrupt(struct context *c, uint64_t rip, uint64_t *r11)
{
	struct machine_context *m =
	    (void *)((uint8_t *)r11 - offsetof(struct machine_context, r11));

	if (is_in_window(rip)) {
		m->rip = (uintptr_t)test_again;
		m->rdi = (uintptr_t)c;
		m->rsp = c->stack - 8;
		c->inside = true;
		return;
	}
	interrupted_at = rip;
	c->poisoned = true;
	m->rip = (uintptr_t)test_store;
}

bool unit_log_fault(struct context *c, struct registers *r, uint64_t address, uint64_t *head)
{
	(void)address;
	if (r->rip != (uintptr_t)test_store)
		return false;
	r->rip = interrupted_at;
	*head = interrupted_at;
	c->poisoned = false;
	return true;
}

bool unit_state(struct context *c, struct registers *r)
{
	(void)c, (void)r;
	return true;
}

_Noreturn void gate_resume(struct context *c, const struct registers *r, uint64_t cache_address)
{
	(void)cache_address;
	if (r->rip == (uintptr_t)test_syscall_at) {
		struct registers copy = *r;

		test_gate(c, &copy);
	}
	test_registers = *r;
	test_load(&test_registers);
	abort();
}

_Noreturn void leave(struct context *c, struct registers *r, const char *why)
{
	(void)c, (void)r, (void)why;
	_exit(100);
}

_Noreturn void leave_too(struct context *c, struct registers *r)
{
	leave(c, r, "another thread leaves");
}

_Noreturn void leave_broken(struct context *c, const char *what)
{
	(void)c, (void)!write(2, what, strlen(what));
	_exit(101);
}

/* Gates */

_Noreturn void test_again(struct context *c)
{
	struct registers r = test_registers;

	signals_head(c, &r, true);
}

_Noreturn void test_gate(struct context *c, struct registers *r)
{
	add_packet(PACKETS_DISABLE, r->rip);
	if (!signals_syscall(c, r)) {
		uint64_t call[7] = {r->general[0],  r->general[7], r->general[6], r->general[2],
				    r->general[10], r->general[8], r->general[9]};
		int64_t result;

		if (signals_call(c, call, &result)) {
			r->general[0] = (uint64_t)result;
			r->general[1] = r->rip + 2;
			r->general[11] = r->rflags;
			r->rip += 2;
		}
	}
	signals_head(c, r, false);
}

/* Programs */

bool program_can_run(void)
{
	return getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
}

void program_note(int64_t number)
{
	if (program_seen->count < SEEN_NUMBERS)
		program_seen->numbers[program_seen->count++] = number;
}

_Noreturn void program_end(void)
{
	sys_call(__NR_exit_group, 0, 0, 0, 0, 0, 0);
	__builtin_unreachable();
}

static _Noreturn void begin_program(const struct registers *r, bool native)
{
	static struct native_header header;
	static struct runtime rt = {.shared = &header};
	static struct context c;
	uint8_t *stack = memory_map(NULL, RUNTIME_STACK);

	test_registers = *r;
	if (native) {
		test_load_native(&test_registers);
		abort();
	}
	c.self = &c;
	c.runtime = &rt;
	c.stack = (uintptr_t)stack + RUNTIME_STACK;
	c.pid = c.tid = getpid();
	c.inside = true;
	test_translated = 1;
	__asm__ volatile("wrgsbase %0" ::"r"(&c));
	signals_begin(&c);
	test_load(&test_registers);
	abort();
}

int program_run(const struct registers *r, bool native, struct seen *seen)
{
	struct registers copy = *r;
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		void *stack = mmap((void *)(uintptr_t)PROGRAM_STACK_AT, PROGRAM_STACK_BYTES,
				   PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (stack != (void *)(uintptr_t)PROGRAM_STACK_AT)
			_exit(102);
		memset(stack, STACK_FILL, PROGRAM_STACK_BYTES);
		*(uint64_t *)(uintptr_t)(program_stack_end - 8) = (uintptr_t)program_end;
		program_seen = seen;
		/* A sanitizer has an alternate stack, and cmocka has handlers. */
		const struct alternate_stack no_stack = {.flags = STACK_DISABLE};

		sys_call(__NR_sigaltstack, (uintptr_t)&no_stack, 0, 0, 0, 0, 0);
		for (int n = 1; n <= SIGNALS; n++) {
			const struct action none = {.handler = SIGNAL_DEFAULT};

			sys_call(__NR_rt_sigaction, (uint64_t)n, (uintptr_t)&none, 0,
				 SIGNAL_SET_SIZE, 0, 0);
		}
		if (!copy.general[4])
			copy.general[4] = program_stack_end - 64;
		begin_program(&copy, native);
	}
	waitpid(child, &status, 0);
	return status;
}

int program_run_function(void (*function)(void), bool native, struct seen *seen)
{
	struct registers r = {.rip = (uintptr_t)function, .rflags = 0x202};

	/* As behind a CALL; the return address is program_end(). */
	r.general[4] = program_stack_end - 8;
	return program_run(&r, native, seen);
}

/* Written by the program that runs; and what two programs have written. */
static struct seen *shared;
static struct seen seen_natively, seen_here;

int program_setup(void **state)
{
	(void)state;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED;
}

int program_run_both(void (*function)(void))
{
	int natively, here;

	memset(shared, 0, sizeof(*shared));
	natively = program_run_function(function, true, shared);
	seen_natively = *shared;
	memset(shared, 0, sizeof(*shared));
	here = program_run_function(function, false, shared);
	seen_here = *shared;
	if (natively == here)
		return here;
	fprintf(stderr, "status %#x natively, %#x here\n", (unsigned)natively, (unsigned)here);
	return -1;
}

struct seen *program_natively(void)
{
	return &seen_natively;
}

struct seen *program_here(void)
{
	return &seen_here;
}
