/* SPDX-License-Identifier: MIT */
/*
 * The kernel is the judge: the same program runs natively and under the runtime's signals, and its
 * frames, registers and results are compared.
 */
#include "test.h"

#include "signal_program.h"

#include "record/native/runtime/sys.h"

#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Frames */

/* Programs of one instruction, which is interrupted; R15 is `seen`. */
void frame_ud2(void), frame_store(void), frame_wild(void), frame_int3(void), frame_int_3(void);
void frame_divide(void), frame_loop(void), frame_no_frame(void);
/* Their handler, where it returns to, and how they begin; all note the registers. */
void frame_handler(void), frame_after(void);
/* What the assembly calls. */
void frame_take(struct signal_frame *frame);
void frame_ended(void);
_Noreturn void frame_begin(const struct registers *r, bool avx);

__asm__(".text\n"
	".macro note where, fp\n"
	"	mov	%rax, \\where+0(%r15)\n"
	"	mov	%rcx, \\where+8(%r15)\n"
	"	mov	%rdx, \\where+16(%r15)\n"
	"	mov	%rbx, \\where+24(%r15)\n"
	"	mov	%rsp, \\where+32(%r15)\n"
	"	mov	%rbp, \\where+40(%r15)\n"
	"	mov	%rsi, \\where+48(%r15)\n"
	"	mov	%rdi, \\where+56(%r15)\n"
	"	mov	%r8, \\where+64(%r15)\n"
	"	mov	%r9, \\where+72(%r15)\n"
	"	mov	%r10, \\where+80(%r15)\n"
	"	mov	%r11, \\where+88(%r15)\n"
	"	mov	%r12, \\where+96(%r15)\n"
	"	mov	%r13, \\where+104(%r15)\n"
	"	mov	%r14, \\where+112(%r15)\n"
	"	mov	%r15, \\where+120(%r15)\n"
	"	pushfq\n"
	"	popq	\\where+128(%r15)\n"
	"	fxsave64 \\fp(%r15)\n"
	".endm\n"
	"frame_handler:\n"
	"	note	0, 320\n"
	"	mov	%rsp, %rdi\n"
	"	sub	$8, %rsp\n"
	"	call	frame_take\n"
	"	add	$8, %rsp\n"
	"	ret\n"
	"frame_after:\n"
	"	note	136, 832\n"
	"	cld\n"
	"	and	$-16, %rsp\n"
	"	call	frame_ended\n"
	"frame_ud2:	ud2\n"
	"frame_store:	mov %rax, (%rbx)\n"
	"frame_wild:	mov %rax, (%rcx)\n"
	"frame_int3:	int3\n"
	"frame_int_3:	.byte 0xcd, 3\n"
	"frame_divide:	div %r9d\n"
	"frame_loop:	jmp frame_loop\n"
	/* Without a frame. */
	"frame_no_frame:	mov %rbx, %rsp\n"
	"	jmp	program_restorer\n"
	"frame_begin:\n"
	/* What C code has left in the vector registers is not always the same. */
	"	mov	$-1, %eax\n"
	"	mov	%eax, %edx\n"
	"	xrstor64 frame_initial_fp(%rip)\n"
	"	fldpi\n"
	"	fld1\n"
	"	mov	$0x1234567890abcdef, %rax\n"
	"	movq	%rax, %xmm0\n"
	"	movq	%rdi, %xmm7\n"
	"	pshufd	$0x1b, %xmm0, %xmm15\n"
	"	test	%sil, %sil\n"
	"	jz	1f\n"
	"	vinsertf128 $1, %xmm15, %ymm15, %ymm3\n"
	"1:	push	136(%rdi)\n"
	"	popfq\n"
	"	mov	128(%rdi), %r14\n" /* RIP */
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
	"	mov	120(%rdi), %r15\n"
	"	mov	56(%rdi), %rdi\n"
	"	jmp	*%r14\n");

/* An XSAVE area without any component. */
__attribute__((used, aligned(64))) struct {
	uint8_t before[FP_MXCSR_AT];
	uint32_t mxcsr;
	uint8_t rest[FP_LEAST - FP_MXCSR_AT - 4];
} frame_initial_fp = {.mxcsr = FP_MXCSR_INITIAL};

struct frame_case {
	const char *name;
	void (*program)(void);
	int signal;
	uint64_t flags;
	bool stack, disarm;
	/* What the handler does with the FP state. */
	enum {
		FP_CHANGED,
		FP_NONE,      /* no pointer to it */
		FP_LEGACY,    /* without the kernel's mark */
		FP_UNALIGNED, /* these are refused */
		FP_RESERVED
	} fp;
	/* The signal is SIGSEGV because another one's handler is where no code is. */
	bool nowhere;
};

#define SIGINFO	 ACTION_SIGINFO
#define ONSTACK	 ACTION_ONSTACK
#define NODEFER	 ACTION_NODEFER
#define ONE_SHOT ACTION_RESETHAND

static const struct frame_case frame_cases[] = {
    {"ud2", frame_ud2, SIGILL, .flags = SIGINFO},
    {"page fault", frame_store, SIGSEGV, .flags = SIGINFO},
    {"not canonical", frame_wild, SIGSEGV, .flags = SIGINFO},
    {"int3", frame_int3, SIGTRAP, .flags = SIGINFO},
    {"int 3", frame_int_3, SIGTRAP, .flags = SIGINFO},
    {"division", frame_divide, SIGFPE, .flags = SIGINFO},
    {"timer", frame_loop, SIGVTALRM, .flags = SIGINFO},
    {"timer, without siginfo", frame_loop, SIGVTALRM, .flags = 0},
    {"timer, no defer", frame_loop, SIGVTALRM, .flags = SIGINFO | NODEFER},
    {"timer, once", frame_loop, SIGVTALRM, .flags = SIGINFO | ONE_SHOT},
    {"timer, other stack", frame_loop, SIGVTALRM, .flags = SIGINFO | ONSTACK, .stack = true},
    {"timer, other stack not wanted", frame_loop, SIGVTALRM, .flags = SIGINFO, .stack = true},
    {"timer, no other stack", frame_loop, SIGVTALRM, .flags = SIGINFO | ONSTACK},
    {"timer, disarming", frame_loop, SIGVTALRM, .flags = SIGINFO | ONSTACK, .stack = true,
     .disarm = true},
    {"fault, other stack", frame_store, SIGSEGV, .flags = SIGINFO | ONSTACK, .stack = true},
    {"fault, once", frame_store, SIGSEGV, .flags = SIGINFO | ONE_SHOT},
    {"ud2, no defer", frame_ud2, SIGILL, .flags = SIGINFO | NODEFER},
    {"no FP state", frame_ud2, SIGILL, .flags = SIGINFO, .fp = FP_NONE},
    {"legacy FP state", frame_ud2, SIGILL, .flags = SIGINFO, .fp = FP_LEGACY},
    {"return without a frame", frame_no_frame, SIGSEGV, .flags = SIGINFO | ONSTACK, .stack = true},
    {"handler nowhere", frame_loop, SIGSEGV, .flags = SIGINFO, .nowhere = true},
};

static struct frame_case frame_case;

#define OTHER_STACK_BYTES (64u << 10)
static uint8_t other_stack[OTHER_STACK_BYTES];
#define BAD_ADDRESS UINT64_C(0x1230)
#define NEW_R12	    UINT64_C(0x0102030405060708)
#define XMM5_AT	    (160 + 5 * 16)

static uint64_t program_mask(void)
{
	uint64_t mask = 0;

	program_call(__NR_rt_sigprocmask, SIG_BLOCK, 0, &mask, SIGNAL_SET_SIZE, 0, 0);
	return mask;
}

static void note_state(void)
{
	struct alternate_stack stack;
	struct action action;

	program_note((int64_t)program_mask());
	program_call(__NR_sigaltstack, 0, &stack, 0, 0, 0, 0);
	program_note((int64_t)stack.address);
	program_note(stack.flags);
	program_note((int64_t)stack.size);
	program_call(__NR_rt_sigaction, (uint64_t)frame_case.signal, 0, &action, SIGNAL_SET_SIZE, 0,
		     0);
	program_note((int64_t)action.handler);
	program_note((int64_t)action.flags);
	program_note((int64_t)action.mask);
}

/* memcpy() with AddressSanitizer looks whether it is one object, which a signal's stack is not. */
static void copy_frame(void *to, const void *from, uint64_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* Keeps the frame and all above it, and changes what the handler's return brings back. */
__attribute__((used)) void frame_take(struct signal_frame *frame)
{
	uint64_t at = (uintptr_t)frame;
	uint64_t other = (uintptr_t)other_stack;
	uint64_t end =
	    at - other < OTHER_STACK_BYTES ? other + OTHER_STACK_BYTES : program_stack_end;
	uint8_t *fp = (uint8_t *)(uintptr_t)frame->context.machine.fp;

	program_seen->frame_at = at;
	program_seen->frame_bytes = end - at;
	copy_frame(program_seen->frame, frame, end - at);
	note_state();
	frame->context.machine.rip = (uintptr_t)frame_after;
	frame->context.machine.r12 = NEW_R12;
	if (frame_case.program == frame_no_frame)
		frame->context.machine.rsp = program_stack_end - 4096;
	frame->context.mask |= SIGNAL_BIT(SIGUSR2);
	memset(fp + XMM5_AT, 0x77, 16);
	if (frame_case.fp == FP_NONE)
		frame->context.machine.fp = 0;
	if (frame_case.fp == FP_LEGACY)
		memset(fp + FP_SOFTWARE_AT, 0, 4);
	if (frame_case.fp == FP_UNALIGNED)
		frame->context.machine.fp += 4;
	if (frame_case.fp == FP_RESERVED)
		memset(fp + FP_HEADER_AT + 8, 0x7f, 8);
}

__attribute__((used)) void frame_ended(void)
{
	note_state();
	program_end();
}

static void frame_program(void)
{
	struct registers r = {.rip = (uintptr_t)frame_case.program,
			      .rflags = 0xad7 | FLAG_DIRECTION /* CF PF AF ZF SF IF OF */};
	struct alternate_stack stack = {.address = (uintptr_t)other_stack,
					.size = OTHER_STACK_BYTES,
					.flags = frame_case.disarm ? STACK_AUTODISARM : 0};
	struct action action = {.handler = (uintptr_t)frame_handler,
				.flags = frame_case.flags | ACTION_RESTORER,
				.restorer = (uintptr_t)program_restorer,
				.mask = SIGNAL_BIT(SIGHUP) | SIGNAL_BIT(SIGKILL)};
	/* By then the program is in its loop: this is processor time, most of which it spends
	 * there. */
	struct itimerval soon = {.it_value = {0, 40000}};
	uint64_t blocked = SIGNAL_BIT(SIGUSR1);

	for (unsigned i = 0; i < 16; i++)
		r.general[i] = UINT64_C(0x1111111100000000) * i + i;
	r.general[3] = BAD_ADDRESS;
	r.general[4] = program_stack_end - 4096 - 24;
	r.general[9] = 0;
	r.general[15] = (uintptr_t)program_seen;
	if (frame_case.stack)
		program_call(__NR_sigaltstack, &stack, 0, 0, 0, 0, 0);
	program_call(__NR_rt_sigprocmask, SIG_SETMASK, &blocked, 0, SIGNAL_SET_SIZE, 0, 0);
	program_call(__NR_rt_sigaction, (uint64_t)frame_case.signal, &action, 0, SIGNAL_SET_SIZE, 0,
		     0);
	if (frame_case.nowhere) {
		action.handler = BAD_ADDRESS / 2;
		program_call(__NR_rt_sigaction, SIGVTALRM, &action, 0, SIGNAL_SET_SIZE, 0, 0);
	}
	if (frame_case.program == frame_loop)
		program_call(__NR_setitimer, (uint64_t)ITIMER_VIRTUAL, &soon, 0, 0, 0, 0);
	frame_begin(&r, __builtin_cpu_supports("avx"));
}

/*
 * Of the registers that XSAVE has saved, XSTATE_BV says which are in the area; what is between
 * them, and the place of those that are not, are undefined (SDM, "Operation of XSAVE"). Linux 6.12
 * and later mark PKRU as being there in any case; if it is 0, its initial value, that is the same
 * as if it were not.
 */
static void clear_unused_registers(uint8_t *fp, uint64_t size)
{
	static uint8_t kept[sizeof(((struct seen *)0)->frame)];
	uint64_t used;

	memcpy(&used, fp + FP_HEADER_AT, sizeof(used));
	memcpy(kept, fp, FP_LEAST);
	memset(kept + FP_LEAST, 0, size - FP_LEAST);
	for (unsigned i = 2; i < 63; i++) {
		unsigned bytes, at, flags, unused;

		if (!(used & UINT64_C(1) << i))
			continue;
		__cpuid_count(13, i, bytes, at, flags, unused);
		if (UINT64_C(1) << i == FP_PKRU)
			bytes = sizeof(uint32_t);
		assert_true(bytes && at >= FP_LEAST && at + bytes <= size);
		memcpy(kept + at, fp + at, bytes);
		if (UINT64_C(1) << i == FP_PKRU && !memcmp(fp + at, "\0\0\0", bytes))
			used &= ~FP_PKRU;
	}
	memcpy(kept + FP_HEADER_AT, &used, sizeof(used));
	memcpy(fp, kept, size);
}

/*
 * Bytes of a frame that the kernel leaves as they were on the stack. Of what is above the frame,
 * only the red zone is compared.
 */
static void clear_undefined(struct seen *s)
{
	struct signal_frame *f = (void *)s->frame;
	uint64_t fp_at = f->context.machine.fp - s->frame_at;
	const struct fp_software *fp = (const void *)(s->frame + fp_at + FP_SOFTWARE_AT);

	f->context.stack.unused = 0;
	memset(f->context.machine.reserved, 0, sizeof(f->context.machine.reserved));
	/* FXSAVE leaves these alone; the kernel's own words follow. */
	memset(s->frame + fp_at + 416, 0, FP_SOFTWARE_AT - 416);
	clear_unused_registers(s->frame + fp_at, fp->size);
	s->frame_bytes = fp_at + fp->extended_size;
	if (!frame_case.stack && !frame_case.nowhere)
		s->frame_bytes += RED_ZONE;
}

static const struct packet *last_async(const struct seen *s)
{
	for (uint64_t i = s->packet_count; i-- > 1;)
		if (s->packets[i].kind == PACKETS_ASYNC)
			return &s->packets[i];
	return NULL;
}

static void compare_frames(const struct frame_case *f)
{
	struct seen *a = program_natively(), *b = program_here();

	print_message("%s\n", f->name);
	frame_case = *f;
	assert_int_equal(program_run_both(frame_program), 0);
	assert_int_equal(a->frame_at, b->frame_at);
	assert_int_equal(a->frame_bytes, b->frame_bytes);
	clear_undefined(a);
	clear_undefined(b);
	assert_memory_equal(a->entry, b->entry, sizeof(a->entry));
	assert_memory_equal(a->entry_fp, b->entry_fp, sizeof(a->entry_fp));
	assert_memory_equal(a->frame, b->frame, a->frame_bytes);
	assert_memory_equal(a->after, b->after, sizeof(a->after));
	assert_memory_equal(a->after_fp, b->after_fp, sizeof(a->after_fp));
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->numbers, b->numbers, sizeof(a->numbers));
	/* It is a test of something. */
	assert_int_equal(a->after[12], NEW_R12);
	assert_int_equal(a->after_fp[XMM5_AT], f->fp == FP_NONE ? 0 : 0x77);
	/* FUP has the address of the instruction, TIP.PGE that of the handler. */
	if (f->program != frame_no_frame && !f->nowhere) {
		const struct packet *p = last_async(b);

		assert_non_null(p);
		assert_int_equal(p->ip, (uintptr_t)f->program);
		assert_int_equal(p[1].kind, PACKETS_ENABLE);
		assert_int_equal(p[1].ip, (uintptr_t)frame_handler);
		assert_true(f->program == frame_loop || p[-1].kind == PACKETS_CUT);
	}
}

TEST(frames)
{
	if (!program_can_run())
		skip();
	for (size_t i = 0; i < sizeof(frame_cases) / sizeof(*frame_cases); i++)
		compare_frames(&frame_cases[i]);
}

/* Deaths: a program ends by the same signal as natively. */

static struct frame_case dying;

static void note_call(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	program_note(program_call(number, a, b, c, d, 0, 0));
}

static void set_action(int signal, uint64_t handler, uint64_t flags)
{
	struct action a = {
	    .handler = handler, .flags = flags, .restorer = (uintptr_t)program_restorer};

	note_call(__NR_rt_sigaction, (uint64_t)signal, (uintptr_t)&a, 0, SIGNAL_SET_SIZE);
}

static void do_nothing(int signal)
{
	program_note(signal);
}

static void fault_program(void)
{
	struct registers r = {.rip = (uintptr_t)dying.program, .rflags = FLAGS_INITIAL};

	r.general[1] = UINT64_C(0x1111111100000000);
	r.general[3] = BAD_ADDRESS;
	r.general[4] = program_stack_end - 4096;
	frame_begin(&r, false);
}

static void blocked_fault_program(void)
{
	uint64_t mask = SIGNAL_BIT(SIGSEGV);

	set_action(SIGSEGV, (uintptr_t)do_nothing, ACTION_RESTORER);
	note_call(__NR_rt_sigprocmask, SIG_BLOCK, (uintptr_t)&mask, 0, SIGNAL_SET_SIZE);
	fault_program();
}

static void ignored_fault_program(void)
{
	set_action(SIGSEGV, SIGNAL_IGNORE, 0);
	fault_program();
}

/* Sends itself a signal. */
static void sent_program(void)
{
	int64_t pid = program_call(__NR_getpid, 0, 0, 0, 0, 0, 0);

	note_call(__NR_kill, (uint64_t)pid, (uint64_t)dying.signal, 0, 0);
	program_end();
}

static void no_restorer_program(void)
{
	set_action(dying.signal, (uintptr_t)do_nothing, 0);
	sent_program();
}

static void small_stack_program(void)
{
	static uint8_t small[4096];
	/* Less than a frame needs with any vector registers. */
	struct alternate_stack stack = {.address = (uintptr_t)small, .size = 2048};
	uint8_t *page = small + 2048 - 1;

	note_call(__NR_sigaltstack, (uintptr_t)&stack, 0, 0, 0);
	*page = 1;
	set_action(dying.signal, (uintptr_t)do_nothing, ACTION_RESTORER | ACTION_ONSTACK);
	sent_program();
}

static void repeated_fault(int signal)
{
	program_note(signal);
	fault_program();
}

static void fault_in_handler_program(void)
{
	set_action(SIGSEGV, (uintptr_t)repeated_fault, ACTION_RESTORER);
	fault_program();
}

/* INT3 and INT 3 end before their signal is sent. */
static unsigned trap_size(void (*fault)(void))
{
	return fault == frame_int3 ? 1 : fault == frame_int_3 ? 2 : 0;
}

static void expect_death(const char *name, void (*program)(void), void (*fault)(void), int signal,
			 bool has_message)
{
	const struct seen *here = program_here();
	int status;

	print_message("%s\n", name);
	dying = (struct frame_case){.program = fault, .signal = signal};
	frame_case = (struct frame_case){.program = frame_loop};
	status = program_run_both(program);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), signal);
	assert_memory_equal(program_natively()->numbers, here->numbers, sizeof(here->numbers));
	if (has_message) {
		assert_int_equal(here->message[0], NATIVE_MESSAGE_FATAL);
		assert_int_equal(here->message[1], signal);
	}
	if (has_message && fault)
		assert_int_equal(here->message[2], (uintptr_t)fault + trap_size(fault));
}

TEST(deaths)
{
	if (!program_can_run())
		skip();
	expect_death("ud2", fault_program, frame_ud2, SIGILL, true);
	expect_death("page fault", fault_program, frame_store, SIGSEGV, true);
	expect_death("not canonical", fault_program, frame_wild, SIGSEGV, true);
	expect_death("int3", fault_program, frame_int3, SIGTRAP, true);
	expect_death("int 3", fault_program, frame_int_3, SIGTRAP, true);
	expect_death("division", fault_program, frame_divide, SIGFPE, true);
	expect_death("blocked", blocked_fault_program, frame_store, SIGSEGV, true);
	expect_death("ignored", ignored_fault_program, frame_store, SIGSEGV, true);
	expect_death("in its handler", fault_in_handler_program, frame_store, SIGSEGV, true);
	expect_death("sent SIGSEGV", sent_program, NULL, SIGSEGV, true);
	expect_death("sent SIGTRAP", sent_program, NULL, SIGTRAP, true);
	/* The kernel's own business. */
	expect_death("sent SIGTERM", sent_program, NULL, SIGTERM, false);
	expect_death("sent SIGABRT", sent_program, NULL, SIGABRT, false);
}

/* The kernel answers what it cannot do with SIGSEGV. */
TEST(impossible_frames)
{
	static const struct frame_case refused[] = {
	    {"unaligned", frame_ud2, SIGILL, .flags = SIGINFO, .fp = FP_UNALIGNED},
	    {"reserved", frame_ud2, SIGILL, .flags = SIGINFO, .fp = FP_RESERVED},
	};
	int status;

	if (!program_can_run())
		skip();
	dying = (struct frame_case){.signal = SIGUSR1};
	status = program_run_both(no_restorer_program);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = program_run_both(small_stack_program);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		frame_case = refused[i];
		print_message("%s\n", frame_case.name);
		status = program_run_both(frame_program);
		assert_int_not_equal(status, -1);
		assert_true(frame_case.fp == FP_UNALIGNED ||
			    (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
	}
}

/* Storms: several timers interrupt a computation and its system calls, and each other. */

#define STORM_TURNS 3000

static volatile uint64_t storm_count[SIGNALS + 1];

static uint64_t compute(uint64_t seed, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		seed = seed % 3 ? seed * 1103515245u + 12345u : seed ^ seed >> 3;
	return seed;
}

static void on_storm(int signal)
{
	double d = (double)signal;

	storm_count[signal]++;
	storm_count[0] += compute((uint64_t)(d * 1.5), 20) & 1;
}

static void start_timer(int which, int signal)
{
	struct itimerval every = {{0, 100}, {0, 100}};

	set_action(signal, (uintptr_t)on_storm, ACTION_RESTORER | ACTION_RESTART);
	note_call(__NR_setitimer, (uint64_t)which, (uintptr_t)&every, 0, 0);
}

static void storm_program(void)
{
	const struct timespec moment = {0, 1};
	uint64_t sum = 1, mask = SIGNAL_BIT(SIGALRM) | SIGNAL_BIT(SIGPROF), old;
	double product = 1;

	start_timer(ITIMER_REAL, SIGALRM);
	start_timer(ITIMER_VIRTUAL, SIGVTALRM);
	start_timer(ITIMER_PROF, SIGPROF);
	/* Until there were enough; what it computes is always the same. */
	for (unsigned i = 0; i < STORM_TURNS || storm_count[SIGALRM] < 50; i++) {
		uint64_t part = compute(i % 100, 300);

		program_call(__NR_rt_sigprocmask, SIG_BLOCK, &mask, &old, 8, 0, 0);
		part += compute(part, 100);
		program_call(__NR_rt_sigprocmask, SIG_SETMASK, &old, 0, 8, 0, 0);
		if (i % 64 == 0)
			program_call(__NR_nanosleep, &moment, 0, 0, 0, 0, 0);
		if (i < STORM_TURNS) {
			sum = sum * 31 + part;
			product = product * 1.0001 + (double)(part % 17);
		}
	}
	program_note((int64_t)sum);
	program_note((int64_t)product);
	program_end();
}

TEST(storm)
{
	if (!program_can_run())
		skip();
	assert_int_equal(program_run_both(storm_program), 0);
	assert_int_equal(program_natively()->count, program_here()->count);
	assert_memory_equal(program_natively()->numbers, program_here()->numbers,
			    sizeof(program_here()->numbers));
}

TEST_GROUP(program_setup, NULL)
