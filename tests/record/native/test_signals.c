/* SPDX-License-Identifier: MIT */
/*
 * The kernel is the judge: the same program runs natively and under the runtime's signals, and its
 * frames, registers and results are compared.
 */
#include "test.h"

#include "signal_program.h"

#include "record/native/runtime/sys.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Written by the program that runs; and what two programs have written. */
static struct seen *shared;
static struct seen seen_natively, seen_here;

static int setup(void **state)
{
	(void)state;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED;
}

/* Runs the program natively and here; its status has to be the same. */
static int run_both(void (*program)(void))
{
	int natively, here;

	memset(shared, 0, sizeof(*shared));
	natively = program_run_function(program, true, shared);
	seen_natively = *shared;
	memset(shared, 0, sizeof(*shared));
	here = program_run_function(program, false, shared);
	seen_here = *shared;
	assert_int_equal(natively, here);
	return here;
}

/* Frames */

/* Programs of one instruction, which is interrupted; R15 is `seen`. */
void frame_ud2(void), frame_store(void), frame_wild(void), frame_int3(void), frame_int_3(void);
void frame_divide(void), frame_loop(void);
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
	"frame_begin:\n"
	"	fninit\n"
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

struct frame_case {
	const char *name;
	void (*program)(void);
	int signal;
	uint64_t flags;
	bool stack, disarm;
};

#define SIGINFO	 ACTION_SIGINFO
#define ONSTACK	 ACTION_ONSTACK
#define NODEFER	 ACTION_NODEFER
#define ONE_SHOT ACTION_RESETHAND

static const struct frame_case frame_cases[] = {
    {"ud2", frame_ud2, SIGILL, SIGINFO, false, false},
    {"page fault", frame_store, SIGSEGV, SIGINFO, false, false},
    {"not canonical", frame_wild, SIGSEGV, SIGINFO, false, false},
    {"int3", frame_int3, SIGTRAP, SIGINFO, false, false},
    {"int 3", frame_int_3, SIGTRAP, SIGINFO, false, false},
    {"division", frame_divide, SIGFPE, SIGINFO, false, false},
    {"timer", frame_loop, SIGALRM, SIGINFO, false, false},
    {"timer, without siginfo", frame_loop, SIGALRM, 0, false, false},
    {"timer, no defer", frame_loop, SIGALRM, SIGINFO | NODEFER, false, false},
    {"timer, once", frame_loop, SIGALRM, SIGINFO | ONE_SHOT, false, false},
    {"timer, other stack", frame_loop, SIGALRM, SIGINFO | ONSTACK, true, false},
    {"timer, other stack not wanted", frame_loop, SIGALRM, SIGINFO, true, false},
    {"timer, no other stack", frame_loop, SIGALRM, SIGINFO | ONSTACK, false, false},
    {"timer, disarming", frame_loop, SIGALRM, SIGINFO | ONSTACK, true, true},
    {"fault, other stack", frame_store, SIGSEGV, SIGINFO | ONSTACK, true, false},
    {"fault, once", frame_store, SIGSEGV, SIGINFO | ONE_SHOT, false, false},
    {"ud2, no defer", frame_ud2, SIGILL, SIGINFO | NODEFER, false, false},
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
	memcpy(program_seen->frame, frame, end - at);
	note_state();
	frame->context.machine.rip = (uintptr_t)frame_after;
	frame->context.machine.r12 = NEW_R12;
	frame->context.mask |= SIGNAL_BIT(SIGUSR2);
	memset(fp + XMM5_AT, 0x77, 16);
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
	struct itimerval soon = {.it_value = {0, 1000}};
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
	if (frame_case.signal == SIGALRM)
		program_call(__NR_setitimer, (uint64_t)ITIMER_REAL, &soon, 0, 0, 0, 0);
	frame_begin(&r, __builtin_cpu_supports("avx"));
}

/* Bytes of a frame that the kernel leaves as they were on the stack. */
static void clear_undefined(struct seen *s)
{
	struct signal_frame *f = (void *)s->frame;
	uint8_t *fp = s->frame + (f->context.machine.fp - s->frame_at);

	f->context.stack.unused = 0;
	memset(f->context.machine.reserved, 0, sizeof(f->context.machine.reserved));
	/* FXSAVE leaves these alone; the kernel's own words follow. */
	memset(fp + 416, 0, FP_SOFTWARE_AT - 416);
}

static void compare_frames(const struct frame_case *f)
{
	struct seen *a = &seen_natively, *b = &seen_here;

	print_message("%s\n", f->name);
	frame_case = *f;
	assert_int_equal(run_both(frame_program), 0);
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
	assert_int_equal(a->after_fp[XMM5_AT], 0x77);
}

static void frames(void **state)
{
	(void)state;
	if (!program_can_run())
		skip();
	for (size_t i = 0; i < sizeof(frame_cases) / sizeof(*frame_cases); i++)
		compare_frames(&frame_cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
