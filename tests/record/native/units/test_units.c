/* SPDX-License-Identifier: MIT */
/*
 * The translator, hosted: functions of this program run translated in this process, and the packets
 * that they wrote are decoded. Truth is a child in which the same functions run by single steps.
 */
#include "test.h"

#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/units.h"

#include "base/path_hash.h"
#include "x86/x86.h"

#include <ptah/flow.h>

#include <asm/prctl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK (256u << 10)

typedef uint64_t program(uint64_t argument);

/* What ran: by single steps, or as decoded. */
struct way {
	uint64_t instructions, hash, result;
};

/* The runtime's surroundings */

static struct runtime runtime;
static struct context *context;
static uint8_t *chunk;	 /* with a guard page behind it */
static uint8_t *packets; /* of all chunks */
static size_t packet_count, chunks;
static size_t chunk_bytes = NATIVE_CHUNK; /* of it, those that are used */
static jmp_buf back;
static uint64_t result;
static unsigned interrupts;
static bool stopped; /* the trace has ended at a stop range */

/*
 * What runs between two units must leave the vector registers alone, which are the program's: no
 * function of the C library is called there.
 */
#define ROOM (256u << 20)
static uint8_t *arena;

void *memory_take(struct runtime *rt, size_t n)
{
	void *p = arena;

	(void)rt;
	arena += (n + 15) & ~(size_t)15;
	return p;
}

void *memory_map(struct runtime *rt, size_t n)
{
	uint8_t *p;

	arena = (uint8_t *)(((uintptr_t)arena + 4095) & ~(uintptr_t)4095);
	p = memory_take(rt, n);
	for (volatile uint8_t *at = p; at < p + n; at++)
		*at = 0;
	return p;
}

void *memory_take_first(struct runtime *rt, size_t n)
{
	return memory_map(rt, n);
}

void memory_unmap(struct runtime *rt, void *address, size_t n)
{
	(void)rt;
	(void)address;
	(void)n;
}

bool memory_is_ours(const struct runtime *rt, uint64_t address, uint64_t n)
{
	(void)rt;
	(void)address;
	(void)n;
	return false;
}

bool signals_copy(void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
	return true;
}

void memory_ready(const struct runtime *rt, const void *at, size_t n)
{
	(void)rt;
	(void)at;
	(void)n;
}

void memory_prefer_large(const struct runtime *rt, const uint8_t *at, size_t size)
{
	(void)rt;
	(void)at;
	(void)size;
}

uint8_t *memory_code(struct runtime *rt, uint64_t near, size_t n)
{
	(void)rt;
	for (uint64_t away = 1u << 24; away < 1u << 29; away += 1u << 24)
		for (int below = 0; below < 2; below++) {
			const uint64_t at = (below ? near - away : near + away) & ~UINT64_C(4095);
			void *p = mmap((void *)at, n, PROT_READ | PROT_WRITE | PROT_EXEC,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

			if (p != MAP_FAILED)
				return p;
		}
	return NULL;
}

static void keep(const uint8_t *end)
{
	for (const volatile uint8_t *p = chunk + NATIVE_CHUNK - chunk_bytes; p < end && !stopped;
	     p++)
		packets[packet_count++] = *p;
}

static uint8_t *begin_chunk(struct context *c)
{
	for (volatile uint8_t *p = chunk; p < chunk + NATIVE_CHUNK; p++)
		*p = 0;
	c->logs[NATIVE_LOG_TRACE].chunk = chunk;
	chunks++;
	return chunk + NATIVE_CHUNK - chunk_bytes;
}

uint8_t *ring_next(struct context *c, unsigned log, const uint8_t *end)
{
	(void)log;
	keep(end);
	return begin_chunk(c);
}

uint8_t *ring_stop(struct context *c, uint8_t *end)
{
	if (stopped)
		return end;
	keep(end);
	stopped = true;
	return begin_chunk(c);
}

bool ring_is_guard(const struct context *c, unsigned log, uint64_t address)
{
	(void)c;
	return log == NATIVE_LOG_TRACE && address - ((uintptr_t)chunk + NATIVE_CHUNK) < 4096;
}

/* The program has returned. */
_Noreturn void leave(struct context *c, struct registers *r, const char *why)
{
	if (r->rip != runtime.blob)
		printf("left at %lx: %s\n", (unsigned long)r->rip, why);
	result = r->general[0];
	keep(packets_disable(c, packets_room(c, r->rip)));
	longjmp(back, 1);
}

bool message_send(struct context *c, const struct native_message *m, const void *payload)
{
	(void)c;
	(void)m;
	(void)payload;
	return true;
}

void message_text(struct context *c, uint32_t type, uint64_t address, const char *text)
{
	(void)c;
	(void)type;
	(void)address;
	(void)text;
}

_Noreturn void leave_too(struct context *c, struct registers *r)
{
	leave(c, r, "another thread leaves");
}

_Noreturn void leave_broken(struct context *c, const char *what)
{
	(void)c;
	fail_msg("%s", what);
	abort();
}

_Noreturn void signals_step(struct context *c, const struct registers *r)
{
	struct registers at = *r;

	leave(c, &at, "a branch that faults");
}

_Noreturn void step_unknown(struct context *c, const struct registers *r)
{
	struct registers at = *r;

	leave(c, &at, "an instruction cannot be translated");
}

_Noreturn void signals_no_code(struct context *c, struct registers *r)
{
	leave(c, r, "returned");
}

_Noreturn void signals_head(struct context *c, struct registers *r, bool traced)
{
	(void)traced;
	interrupts++;
	c->pending = false;
	gate_resume(c, r, unit_enter(c, r->rip));
}

void syscall_gate(struct context *c, struct registers *r)
{
	uint64_t *g = r->general;

	c->log = (uintptr_t)packets_disable(c, packets_room(c, r->rip));
	g[0] = (uint64_t)syscall((long)g[0], g[7], g[6], g[2], g[10], g[8], g[9]);
	r->rip += 2;
	g[1] = r->rip;
	g[11] = r->rflags;
	c->log = (uintptr_t)packets_enable(c, (uint8_t *)c->log, r->rip);
}

/* Signals of this process */

static const int numbers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				REG_R12, REG_R13, REG_R14, REG_R15};

static void get_registers(const greg_t *g, struct registers *r)
{
	for (unsigned i = 0; i < 16; i++)
		r->general[i] = (uint64_t)g[numbers[i]];
	r->rip = (uint64_t)g[REG_RIP];
	r->rflags = (uint64_t)g[REG_EFL];
}

static void set_registers(greg_t *g, const struct registers *r)
{
	for (unsigned i = 0; i < 16; i++)
		g[numbers[i]] = (greg_t)r->general[i];
	g[REG_RIP] = (greg_t)r->rip;
	g[REG_EFL] = (greg_t)r->rflags;
}

/* At a head: the program goes on there, as it would after a signal had been delivered. */
static void go_on(struct registers *r, uint64_t head)
{
	interrupts++;
	context->pending = false;
	context->r11 = r->general[11];
	r->general[11] = context->log;
	r->rip = unit_enter(context, head);
}

static void on_fault(int number, siginfo_t *info, void *u)
{
	greg_t *g = ((ucontext_t *)u)->uc_mcontext.gregs;
	struct registers r;
	uint64_t head = 0;

	get_registers(g, &r);
	if (!unit_log_fault(context, &r, (uintptr_t)info->si_addr, &head)) {
		signal(number, SIG_DFL);
		return;
	}
	if (head)
		go_on(&r, head);
	set_registers(g, &r);
}

static void on_timer(int number, siginfo_t *info, void *u)
{
	greg_t *g = ((ucontext_t *)u)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	if (context->pending || !runtime.cache)
		return;
	context->pending = true;
	if (!context->inside && unit_is_code(&runtime, (uint64_t)g[REG_RIP]))
		unit_interrupt(context, (uint64_t)g[REG_RIP], (uint64_t *)&g[REG_R11]);
}

/* In each test, because cmocka has handlers of its own. */
static void arm(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};

	action.sa_sigaction = on_fault;
	sigaction(SIGSEGV, &action, NULL);
	action.sa_sigaction = on_timer;
	action.sa_flags |= SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
}

/* Mapped, because a leak checker finds no pointer to what only the kernel, or only GS, leads to. */
static void *map_stack(void)
{
	return mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* As cache.c makes it, but exits are hot after a few passes, and the table of heads grows often. */
static void begin_cache(void)
{
	struct cache *cache = memory_take(&runtime, sizeof(*cache));

	cache->heat = 4;
	cache->bucket_count = 1;
	cache->buckets = memory_take(&runtime, sizeof(*cache->buckets));
	cache->rotates = __builtin_cpu_supports("bmi2") != 0;
	runtime.cache = cache;
}

static void begin(void)
{
	stack_t stack = {.ss_sp = map_stack(), .ss_size = STACK};

	sigaltstack(&stack, NULL);
	arena = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	packets = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	chunk = mmap(NULL, NATIVE_CHUNK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	mprotect(chunk + NATIVE_CHUNK, 4096, PROT_NONE);
	runtime.blob = (uintptr_t)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	context = mmap(NULL, CONTEXT_BYTES_OFF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	context->self = context;
	context->runtime = &runtime;
	runtime.chunk_bytes = NATIVE_CHUNK;
	context->stack = (uintptr_t)map_stack() + STACK;
	begin_cache();
	unit_begin(context);
	syscall(SYS_arch_prctl, ARCH_SET_GS, context);
}

/* Translated */

static uint64_t *program_stack(void)
{
	static uint64_t stack[STACK / 8];
	uint64_t *top = stack + STACK / 8 - 64;

	return (uint64_t *)((uintptr_t)top & ~UINT64_C(15)) - 1;
}

/* Where the program returns to: a page without code. */
static uint64_t returns_to(void)
{
	return runtime.blob;
}

static void translate(program *p, uint64_t argument)
{
	struct registers r = {.rip = (uintptr_t)p, .rflags = 0x202};
	uint64_t *top = program_stack();

	packet_count = chunks = 0;
	interrupts = 0;
	stopped = false;
	*top = returns_to();
	r.general[4] = (uintptr_t)top;
	r.general[7] = argument;
	context->log = (uintptr_t)packets_begin(context, begin_chunk(context), r.rip);
	if (!setjmp(back))
		gate_resume(context, &r, unit_enter(context, r.rip));
}

static size_t read_memory(void *unused, const struct ptah_space *space, uint64_t address,
			  void *bytes, size_t n)
{
	(void)unused;
	(void)space;
	if (address - returns_to() < 4096)
		return 0;
	memcpy(bytes, (const void *)address, n);
	return n;
}

static struct way decode(void)
{
	struct path_hash hash = {0};
	struct way path = {.result = result};
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item item;
	int k;

	assert_false(ptah_image_new(&image));
	ptah_image_set_reader(image, read_memory, NULL);
	assert_false(ptah_flow_new(image, NULL, &flow));
	assert_false(ptah_flow_feed(flow, packets, packet_count, true));
	while ((k = ptah_flow_read(flow, &item, 1)) > 0) {
		if (item.type == PTAH_ITEM_ERROR && item.ip != returns_to())
			fail_msg("offset %lx of %lx: error %d at %lx", (unsigned long)item.offset,
				 (unsigned long)packet_count, item.status, (unsigned long)item.ip);
		if (item.type != PTAH_ITEM_BLOCK)
			continue;
		path.instructions += item.ninsn;
		path_hash_add(&hash, item.ip, item.end);
	}
	assert_int_equal(k, 0);
	path.hash = path_hash_value(&hash);
	ptah_flow_free(flow);
	ptah_image_free(image);
	return path;
}

/* By single steps */

static void run_natively(program *p, uint64_t argument)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	/* On the stack, and with the registers, of the translated one. */
	__asm__ volatile("mov %0, %%rsp\n\tmov %1, %%rdi\n\tjmp *%2" ::"r"(program_stack()),
			 "r"(argument), "a"(p)
			 : "memory", "rdi");
	__builtin_unreachable();
}

/* Address filters */

static struct native_header header;
static uint32_t seed;

static uint32_t draw(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static bool is_in(uint64_t ip, uint32_t mode, bool *any)
{
	bool in = false;

	*any = false;
	for (uint32_t i = 0; i < header.filter_count; i++) {
		const struct native_filter *f = &header.filters[i];

		*any |= f->mode == mode;
		in |= f->mode == mode && ip - f->start < f->size;
	}
	return in;
}

/* As the SDM has it for FilterEn and TraceStop: a taken branch leads to ip. */
struct tracing {
	bool on, over;
};

static void arrive(struct tracing *t, uint64_t ip)
{
	bool any;

	t->over |= is_in(ip, PTAH_RANGE_STOP, &any);
	t->on = (is_in(ip, PTAH_RANGE_FILTER, &any) || !any) && !t->over;
}

static bool is_taken(const struct x86_insn *insn, uint64_t ip, uint64_t next)
{
	if (insn->insn_class == PTAH_INSN_OTHER)
		return false;
	return insn->insn_class != PTAH_INSN_COND || next != ip + insn->size;
}

/* n ranges about the code of a function; none begins and ends with instructions. */
static void set_filters(uint32_t n, uint64_t code)
{
	memset(&header, 0, sizeof(header));
	header.filter_count = n;
	for (uint32_t i = 0; i < n; i++)
		header.filters[i] = (struct native_filter){
		    .mode = draw(8) ? PTAH_RANGE_FILTER : PTAH_RANGE_STOP,
		    .start = code + draw(500) - 100,
		    .size = 1 + draw(draw(2) ? 20 : 300),
		};
	runtime.shared = &header;
	runtime.filters = NULL;
	assert_true(filter_begin(&runtime, &header));
	unit_forget(context, 0, UINT64_MAX);
	runtime.contexts = NULL; /* as of a first thread */
	context->listed = false;
	unit_begin(context);
}

static struct way step(program *p, uint64_t argument)
{
	struct tracing tracing = {.on = true};
	struct x86_insn insn = {0};
	struct path_hash hash = {0};
	struct way path = {0};
	struct user_regs_struct r;
	bool begun = false;
	uint64_t before = 0;
	int status;
	pid_t pid;

	*program_stack() = returns_to();
	pid = fork();
	if (!pid)
		run_natively(p, argument);
	waitpid(pid, &status, 0);
	for (;;) {
		ptrace(PTRACE_GETREGS, pid, NULL, &r);
		if (!begun && r.rip == (uintptr_t)p) {
			begun = true;
			arrive(&tracing, r.rip);
		} else if (begun && is_taken(&insn, before, r.rip)) {
			arrive(&tracing, r.rip);
		}
		if (r.rip == returns_to())
			break;
		if (begun) {
			assert_false(
			    x86_decode((const uint8_t *)r.rip, 15, r.rip, PTAH_EXEC_64, &insn));
			/* A step is one repetition of a string instruction. */
			if (tracing.on && (!insn.rep || r.rip != before)) {
				path.instructions++;
				path_hash_add(&hash, r.rip, r.rip + insn.size);
			}
			before = r.rip;
		}
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
			fail_msg("the stepped program ended");
	}
	path.result = r.rax;
	path.hash = path_hash_value(&hash);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return path;
}

/* Programs */

__attribute__((noinline)) static uint64_t fibonacci(uint64_t n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static uint64_t loops(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += i % 7 == 3 ? i * i : sum >> 3;
	return sum;
}

static uint64_t add(uint64_t x)
{
	return x + 3;
}
static uint64_t multiply(uint64_t x)
{
	return x * 5;
}
static uint64_t rotate(uint64_t x)
{
	return x << 13 | x >> 51;
}

static uint64_t indirect(uint64_t n)
{
	static program *const volatile table[] = {add, multiply, rotate};
	uint64_t x = 1;

	for (uint64_t i = 0; i < n; i++) {
		x = table[(x ^ i) % 3](x);
		switch (x % 9) {
		case 0:
			x += 7;
			break;
		case 1:
			x ^= n;
			break;
		case 2:
			x = rotate(x) + 1;
			break;
		case 3:
			x -= i;
			break;
		case 5:
			x *= 3;
			break;
		case 7:
			x = ~x;
			break;
		default:
			x++;
		}
	}
	return x;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static uint64_t library(uint64_t n)
{
	static int list[100];
	static char text[200];
	uint64_t sum = 0;

	for (int i = 0; i < 100; i++)
		list[i] = (int)((uint64_t)i * 40503 * n % 1009);
	qsort(list, 100, sizeof(*list), compare);
	snprintf(text, sizeof(text), "%d %s %.3f %lx", list[0], "text", (double)n / 7, n);
	for (size_t i = 0; i < strlen(text); i++)
		sum = sum * 31 + (uint8_t)text[i];
	memset(text, 1, sizeof(text));
	return sum + (uint64_t)list[50];
}

/* LOOP, JRCXZ, string instructions, CALL and RET with R11 and arguments, POP of an address. */
uint64_t oddities(uint64_t n);
__asm__("	.text\n"
	"oddities:\n"
	"	push	%rbx\n"
	"	sub	$64, %rsp\n"
	"	mov	%rdi, %rcx\n"
	"	xor	%eax, %eax\n"
	"	xor	%r11d, %r11d\n"
	"1:	lea	(%rax,%rcx,2), %rax\n"
	"	add	$3, %r11\n"
	"	loop	1b\n"
	"	jrcxz	2f\n"
	"	ud2\n"
	"2:	add	%r11, %rax\n"
	"	cld\n"
	"	mov	%rsp, %rdi\n"
	"	mov	$64, %ecx\n"
	"	rep stosb\n"
	"	add	(%rsp), %rax\n"
	"	push	%rax\n"
	"	call	3f\n"
	"	adc	$0, %rax\n"
	"	call	5f\n"
	"5:	pop	%rbx\n"
	"	lea	5b(%rip), %r11\n"
	"	sub	%r11, %rbx\n"
	"	add	%rbx, %rax\n"
	"	call	*6f(%rip)\n"
	"	add	$64, %rsp\n"
	"	pop	%rbx\n"
	"	ret\n"
	"3:	mov	8(%rsp), %r11\n"
	"	cmp	%rax, %r11\n"
	"	jne	4f\n"
	"	add	%r11, %rax\n"
	"4:	stc\n"
	"	ret	$8\n"
	"7:	lea	1(%rax), %rax\n"
	"	ret\n"
	"	.section .data.rel.ro, \"aw\"\n"
	"6:	.quad	7b\n"
	"	.text\n");

static uint64_t calls(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (uint64_t)syscall(SYS_getppid) + (uint64_t)(syscall(-1) < 0);
	return sum;
}

/* Judgement */

static void check_decoded(const struct way *w)
{
	const struct way wanted = *w, got = decode();

	assert_int_equal(got.result, wanted.result);
	assert_int_equal(got.instructions, wanted.instructions);
	assert_int_equal(got.hash, wanted.hash);
}

static void compare_with(const struct way *wanted, program *p, uint64_t argument)
{
	translate(p, argument);
	check_decoded(wanted);
}

static void judge(program *p, uint64_t argument)
{
	const struct way wanted = step(p, argument);

	compare_with(&wanted, p, argument);
}

static void test_programs(void **state)
{
	(void)state;
	arm();
	judge(add, 4);
	judge(loops, 100);
	judge(fibonacci, 8);
	judge(indirect, 100);
	judge(oddities, 10);
	judge(library, 9);
}

/* The second time all is linked. A chunk of a few bytes faults at each place where it can. */
static void test_chunks(void **state)
{
	const struct way recursion = step(fibonacci, 8), jumps = step(indirect, 60);
	const struct way odd = step(oddities, 5);

	(void)state;
	arm();
	for (size_t n = 160; n < 190; n++) {
		chunk_bytes = n;
		compare_with(&recursion, fibonacci, 8);
		compare_with(&jumps, indirect, 60);
		assert_true(chunks > 2);
		compare_with(&odd, oddities, 5);
	}
	chunk_bytes = NATIVE_CHUNK;
}

static void test_system_calls(void **state)
{
	(void)state;
	arm();
	translate(calls, 20);
	assert_int_equal(result, (uint64_t)getppid() * 20 + 20);
}

/* Signals at arbitrary moments: the program does not notice, and the path stays the same. */
static void test_interrupts(void **state)
{
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	const uint64_t wanted = fibonacci(24), other = indirect(200000), third = loops(400000);
	unsigned total = 0;

	(void)state;
	arm();
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < 2 || !total; i++) {
		translate(fibonacci, 24);
		assert_int_equal(result, wanted);
		total += interrupts;
		translate(indirect, 200000);
		assert_int_equal(result, other);
		total += interrupts;
		translate(loops, 400000);
		assert_int_equal(result, third);
		total += interrupts;
	}
	translate(fibonacci, 10);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(decode().hash, step(fibonacci, 10).hash);
	printf("%u interrupts\n", total);
}

/* A range ends and begins anywhere in the code, also within an instruction. */
static void test_filters(void **state)
{
	static const struct {
		program *program;
		uint64_t argument, code;
	} programs[] = {
	    {fibonacci, 9, (uintptr_t)fibonacci}, {loops, 100, (uintptr_t)loops},
	    {indirect, 60, (uintptr_t)indirect},  {indirect, 60, (uintptr_t)add},
	    {oddities, 10, (uintptr_t)oddities},
	};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	unsigned traced = 0, signals = 0;

	(void)state;
	arm();
	for (unsigned i = 0; i < 100; i++) {
		const unsigned k = i % (sizeof(programs) / sizeof(programs[0]));
		struct way wanted;

		seed = i;
		set_filters(1 + draw(NATIVE_FILTERS), programs[k].code);
		runtime.no_retcomp = draw(4) == 0;
		wanted = step(programs[k].program, programs[k].argument);
		traced += wanted.instructions != 0;
		for (unsigned pass = 0; pass < 5; pass++) {
			chunk_bytes = pass == 3 ? 160 + draw(30) : NATIVE_CHUNK;
			if (pass >= 3)
				setitimer(ITIMER_REAL, &often, NULL);
			translate(programs[k].program, programs[k].argument);
			setitimer(ITIMER_REAL, &never, NULL);
			check_decoded(&wanted);
			signals += interrupts;
		}
	}
	chunk_bytes = NATIVE_CHUNK;
	runtime.no_retcomp = false;
	printf("%u were traced, %u interrupts\n", traced, signals);
	assert_true(traced > 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_programs),	 cmocka_unit_test(test_chunks),
	    cmocka_unit_test(test_system_calls), cmocka_unit_test(test_interrupts),
	    cmocka_unit_test(test_filters),
	};

	begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
