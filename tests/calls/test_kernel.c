/* SPDX-License-Identifier: MIT */
/*
 * System calls, signals and interrupts. What the kernel does is written down in signal(7),
 * sigreturn(2) and the SDM; the expectations come from there.
 */
#include "test.h"

#include "thread.h"

static void system_call_is_nothing(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3s off on B3+1r A2+1.", "A+call B+call B-return A-trace-end");
}

static void system_call_that_is_executed_again(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3s off on B2+1s off on B3+1r A2+1.",
		      "A+call B+call B-return A-trace-end");
}

static void page_fault_is_nothing(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3. async@B3 on B3+1r A2+1.",
		      "A+call B+call B-return A-trace-end");
}

/* C is __restore_rt, which nothing calls: the handler returns to it. */
static void signal_handler(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+2c D0+1r H2+1r C0+2s off on B3+1r A2+1.",
		      "A+call B+call H+signal D+call D-return H-return C+jumpr C-returnr "
		      "B-return A-trace-end");
}

/* Symbols have __restore_rt; unwind information begins a byte before it. */
static void restorer_in_the_middle_of_a_function(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. async@A2 on H0+2r C1+2s off on A2+1.",
		      "A+call H+signal H-return C+jumpr C-returnr A-trace-end");
}

static void signal_in_a_system_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3s off on H0+1r C0+2s off on B3+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
	/* SA_RESTART: the system call is executed again. */
	thread_expect(NULL, "A0+2c B0+3s off on H0+1r C0+2s off on B2+1s off on B3+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
}

static void signal_before_the_first_instruction_of_a_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c async@B0 on H0+1r C0+2s off on B0+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
}

static void signal_in_a_handler(void **state)
{
	(void)state;
	thread_expect(
	    NULL, "A0+2. async@A2 on H0+1. async@H1 on I0+1r C0+2s off on H1+1r C0+2s off on A2+1.",
	    "A+call H+signal I+signal I-return C+jumpr C-returnr H-return C+jumpr "
	    "C-returnr A-trace-end");
	/* The same handler (SA_NODEFER). */
	thread_expect(
	    NULL, "A0+2. async@A2 on H0+1. async@H1 on H0+1r C0+2s off on H1+1r C0+2s off on A2+1.",
	    "A+call H+signal H+signal H-return C+jumpr C-returnr H-return C+jumpr "
	    "C-returnr A-trace-end");
}

/* The kernel stacks the frames of both; rt_sigreturn of the second leads into the first. */
static void two_signals_at_once(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. async@A2 on I0+1r C0+2s off on H0+1r C0+2s off on A2+1.",
		      "A+call I+signal I-return C+jumpr C-returnr H+signal H-return C+jumpr "
		      "C-returnr A-trace-end");
}

/* The first handler's first instruction faults (its page is not present) before it ran. */
static void fault_at_the_beginning_of_a_handler(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. async@A2 on async@H0 on H0+1r C0+2s off on A2+1.",
		      "A+call H+signal H-return C+jumpr C-returnr A-trace-end");
	thread_expect(NULL,
		      "A0+2. async@A2 on async@H0 on I0+1r C0+2s off on H0+1r C0+2s off on A2+1.",
		      "A+call H+signal I+signal I-return C+jumpr C-returnr H-return C+jumpr "
		      "C-returnr A-trace-end");
}

static void handler_that_calls_longjmp(void **state)
{
	(void)state;
	/* E is longjmp; A called setjmp, which returned to A9. */
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+2c E0+4J A9+1.",
		      "A+call B+call H+signal E+call E-unwound H-unwound B-unwound A-trace-end");
	/* After that, another signal is like the first. */
	thread_expect(NULL,
		      "A0+2. async@A2 on H0+2c E0+4J A9+1. async@A10 on H0+1r C0+2s off on A10+1.",
		      "A+call H+signal E+call E-unwound H-unwound H+signal H-return C+jumpr "
		      "C-returnr A-trace-end");
}

static void handler_that_changes_where_to_continue(void **state)
{
	(void)state;
	/* To elsewhere in the function. */
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+1r C0+2s off on B7+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
	/* To a caller of it. */
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+1r C0+2s off on A7+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-unwound A-trace-end");
	/* To another function, as if it had been called (Go's asyncPreempt). */
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+1r C0+2s off on D0+2r B3+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr D+signal D-return "
		      "B-return A-trace-end");
}

static void handler_that_calls_sigreturn_itself(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. async@A2 on H0+2c D0+3s off on A2+1.",
		      "A+call H+signal D+call D-return H-unwound A-trace-end");
}

static void handler_that_ends_by_a_tail_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. async@A2 on H0+2j D0+3r C0+2s off on A2+1.",
		      "A+call H+signal D+jump D-return H-tail C+jumpr C-returnr A-trace-end");
}

static void rseq_abort_is_a_jump(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3. async@B3 on B9+1r A2+1.",
		      "A+call B+call B-return A-trace-end");
}

/* N is not known to be a function: it may be another thread of a virtual machine. */
static void unknown_code_is_no_handler(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3s off on N3+2. N5+2s off on B3+1r A2+1.",
		      "A+call B+call N+running~ N-unwound~ B-return A-trace-end");
}

/* The kernel. U is the entry of system calls, V a function of it, W the entry of interrupts. */
static void traced_system_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3s U0+2c V0+1r U2+1S B3+1r A2+1.",
		      "A+call B+call U+syscall V+call V-return U-return B-return A-trace-end");
}

static void traced_interrupt(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. irq@A2>W0 W0+2c V0+1r W2+1S A2+1.",
		      "A+call W+interrupt V+call V-return W-return A-trace-end");
	/* In the kernel, and one inside of it. */
	thread_expect(NULL, "A0+2s U0+2. irq@U2>W0 W0+2. irq@W2>W0 W0+2S W2+1S U2+1S A2+1.",
		      "A+call U+syscall W+interrupt W+interrupt W-return W-return U-return "
		      "A-trace-end");
}

static void traced_signal(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. irq@A2>W0 W0+2S H0+1r C0+2s U0+2S A2+1.",
		      "A+call W+interrupt W-return H+signal H-return C+jumpr U+syscall U-return "
		      "C-returnr A-trace-end");
}

/* INT3 reports its own address, and the kernel returns to the next one. */
static void breakpoint(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. irq@A2>W0 W0+2S A3+1.",
		      "A+call W+interrupt W-return A-trace-end");
}

static void trace_that_begins_in_the_kernel(void **state)
{
	(void)state;
	thread_expect(NULL, "V2+2r U5+1S A2+2r B2+1.",
		      "V+running~ V-return~ U+running~ U-return~ A+running~ A-return~ B+running~ "
		      "B-trace-end~");
}

/* Only the kernel is traced: each entry is a tree of its own. */
static void kernel_alone(void **state)
{
	(void)state;
	thread_expect(NULL, "U0+2c V0+1r U2+1S off on W0+2S off on U0+2S off",
		      "U+call V+call V-return U-return W+call W-return U+call U-return");
	thread_expect(NULL, "V3+1r U2+1S off on W0+2S off",
		      "V+running~ V-return~ U+running~ U-return~ W+call W-return");
}

/* V enters a guest, which is not traced, and continues there. */
static void untraced_guest(void **state)
{
	(void)state;
	thread_expect(NULL, "U0+2c guest V0+1S off host on V1+1r U2+1.",
		      "U+call V+call V-return U-trace-end");
}

/* The guest runs A. */
static void traced_guest(void **state)
{
	(void)state;
	thread_expect(NULL,
		      "U0+2c guest V0+1S A3+2c B0+2. irq@B2>V1 host V1+1j guest V0+1S B2+1r A5+1. "
		      "irq@A6>V1 host V1+1r U2+1.",
		      "U+call V+call A+running~ B+call B-suspended A-suspended~ B+running~ "
		      "B-return~ A+running~ A-suspended~ V-return U-trace-end");
}

static void user_interrupt(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2. irq@A2>H0 H0+1c B0+1r H1+2S A2+1.",
		      "A+call H+interrupt B+call B-return H-return A-trace-end");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(system_call_is_nothing),
	    cmocka_unit_test(system_call_that_is_executed_again),
	    cmocka_unit_test(page_fault_is_nothing),
	    cmocka_unit_test(signal_handler),
	    cmocka_unit_test(restorer_in_the_middle_of_a_function),
	    cmocka_unit_test(signal_in_a_system_call),
	    cmocka_unit_test(signal_before_the_first_instruction_of_a_call),
	    cmocka_unit_test(signal_in_a_handler),
	    cmocka_unit_test(two_signals_at_once),
	    cmocka_unit_test(fault_at_the_beginning_of_a_handler),
	    cmocka_unit_test(handler_that_calls_longjmp),
	    cmocka_unit_test(handler_that_changes_where_to_continue),
	    cmocka_unit_test(handler_that_calls_sigreturn_itself),
	    cmocka_unit_test(handler_that_ends_by_a_tail_call),
	    cmocka_unit_test(rseq_abort_is_a_jump),
	    cmocka_unit_test(unknown_code_is_no_handler),
	    cmocka_unit_test(traced_system_call),
	    cmocka_unit_test(traced_interrupt),
	    cmocka_unit_test(traced_signal),
	    cmocka_unit_test(breakpoint),
	    cmocka_unit_test(trace_that_begins_in_the_kernel),
	    cmocka_unit_test(kernel_alone),
	    cmocka_unit_test(untraced_guest),
	    cmocka_unit_test(traced_guest),
	    cmocka_unit_test(user_interrupt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
