/* SPDX-License-Identifier: MIT */
/*
 * System calls, signals and interrupts. What the kernel does is written down in signal(7),
 * sigreturn(2) and the SDM; the expectations come from there.
 */
#include "test.h"

#include "thread.h"

TEST(system_call_is_nothing)
{
	thread_expect(NULL, "A0+2c B0+3s off on B3+1r A2+1.", "A+call B+call B-return A-trace-end");
}

TEST(system_call_that_is_executed_again)
{
	thread_expect(NULL, "A0+2c B0+3s off on B2+1s off on B3+1r A2+1.",
		      "A+call B+call B-return A-trace-end");
}

TEST(page_fault_is_nothing)
{
	thread_expect(NULL, "A0+2c B0+3. async@B3 on B3+1r A2+1.",
		      "A+call B+call B-return A-trace-end");
}

/* C is __restore_rt, which nothing calls: the handler returns to it. */
TEST(signal_handler)
{
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+2c D0+1r H2+1r C0+2s off on B3+1r A2+1.",
		      "A+call B+call H+signal D+call D-return H-return C+jumpr C-returnr "
		      "B-return A-trace-end");
}

/* Symbols have __restore_rt; unwind information begins a byte before it. */
TEST(restorer_in_the_middle_of_a_function)
{
	thread_expect(NULL, "A0+2. async@A2 on H0+2r C1+2s off on A2+1.",
		      "A+call H+signal H-return C+jumpr C-returnr A-trace-end");
}

TEST(signal_in_a_system_call)
{
	thread_expect(NULL, "A0+2c B0+3s off on H0+1r C0+2s off on B3+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
	/* SA_RESTART: the system call is executed again. */
	thread_expect(NULL, "A0+2c B0+3s off on H0+1r C0+2s off on B2+1s off on B3+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
}

TEST(signal_before_the_first_instruction_of_a_call)
{
	thread_expect(NULL, "A0+2c async@B0 on H0+1r C0+2s off on B0+1r A2+1.",
		      "A+call B+call H+signal H-return C+jumpr C-returnr B-return A-trace-end");
}

TEST(signal_in_a_handler)
{
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
TEST(two_signals_at_once)
{
	thread_expect(NULL, "A0+2. async@A2 on I0+1r C0+2s off on H0+1r C0+2s off on A2+1.",
		      "A+call I+signal I-return C+jumpr C-returnr H+signal H-return C+jumpr "
		      "C-returnr A-trace-end");
}

/* The first handler's first instruction faults (its page is not present) before it ran. */
TEST(fault_at_the_beginning_of_a_handler)
{
	thread_expect(NULL, "A0+2. async@A2 on async@H0 on H0+1r C0+2s off on A2+1.",
		      "A+call H+signal H-return C+jumpr C-returnr A-trace-end");
	thread_expect(NULL,
		      "A0+2. async@A2 on async@H0 on I0+1r C0+2s off on H0+1r C0+2s off on A2+1.",
		      "A+call H+signal I+signal I-return C+jumpr C-returnr H-return C+jumpr "
		      "C-returnr A-trace-end");
}

TEST(handler_that_calls_longjmp)
{
	/* E is longjmp; A called setjmp, which returned to A9. */
	thread_expect(NULL, "A0+2c B0+3. async@B3 on H0+2c E0+4J A9+1.",
		      "A+call B+call H+signal E+call E-unwound H-unwound B-unwound A-trace-end");
	/* After that, another signal is like the first. */
	thread_expect(NULL,
		      "A0+2. async@A2 on H0+2c E0+4J A9+1. async@A10 on H0+1r C0+2s off on A10+1.",
		      "A+call H+signal E+call E-unwound H-unwound H+signal H-return C+jumpr "
		      "C-returnr A-trace-end");
}

TEST(handler_that_changes_where_to_continue)
{
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

TEST(handler_that_calls_sigreturn_itself)
{
	thread_expect(NULL, "A0+2. async@A2 on H0+2c D0+3s off on A2+1.",
		      "A+call H+signal D+call D-return H-unwound A-trace-end");
}

TEST(handler_that_ends_by_a_tail_call)
{
	thread_expect(NULL, "A0+2. async@A2 on H0+2j D0+3r C0+2s off on A2+1.",
		      "A+call H+signal D+jump D-return H-tail C+jumpr C-returnr A-trace-end");
}

TEST(rseq_abort_is_a_jump)
{
	thread_expect(NULL, "A0+2c B0+3. async@B3 on B9+1r A2+1.",
		      "A+call B+call B-return A-trace-end");
}

/* N is not known to be a function: it may be another thread of a virtual machine. */
TEST(unknown_code_is_no_handler)
{
	thread_expect(NULL, "A0+2c B0+3s off on N3+2. N5+2s off on B3+1r A2+1.",
		      "A+call B+call N+running~ N-unwound~ B-return A-trace-end");
}

/* The kernel. U is the entry of system calls, V a function of it, W the entry of interrupts. */
TEST(traced_system_call)
{
	thread_expect(NULL, "A0+2c B0+3s U0+2c V0+1r U2+1S B3+1r A2+1.",
		      "A+call B+call U+syscall V+call V-return U-return B-return A-trace-end");
}

TEST(traced_interrupt)
{
	thread_expect(NULL, "A0+2. irq@A2>W0 W0+2c V0+1r W2+1S A2+1.",
		      "A+call W+interrupt V+call V-return W-return A-trace-end");
	/* In the kernel, and one inside of it. */
	thread_expect(NULL, "A0+2s U0+2. irq@U2>W0 W0+2. irq@W2>W0 W0+2S W2+1S U2+1S A2+1.",
		      "A+call U+syscall W+interrupt W+interrupt W-return W-return U-return "
		      "A-trace-end");
}

TEST(traced_signal)
{
	thread_expect(NULL, "A0+2. irq@A2>W0 W0+2S H0+1r C0+2s U0+2S A2+1.",
		      "A+call W+interrupt W-return H+signal H-return C+jumpr U+syscall U-return "
		      "C-returnr A-trace-end");
}

/* INT3 reports its own address, and the kernel returns to the next one. */
TEST(breakpoint)
{
	thread_expect(NULL, "A0+2. irq@A2>W0 W0+2S A3+1.",
		      "A+call W+interrupt W-return A-trace-end");
}

TEST(trace_that_begins_in_the_kernel)
{
	thread_expect(NULL, "V2+2r U5+1S A2+2r B2+1.",
		      "V+running~ V-return~ U+running~ U-return~ A+running~ A-return~ B+running~ "
		      "B-trace-end~");
}

/* Only the kernel is traced: each entry is a tree of its own. */
TEST(kernel_alone)
{
	thread_expect(NULL, "U0+2c V0+1r U2+1S off on W0+2S off on U0+2S off",
		      "U+call V+call V-return U-return W+call W-return U+call U-return");
	thread_expect(NULL, "V3+1r U2+1S off on W0+2S off",
		      "V+running~ V-return~ U+running~ U-return~ W+call W-return");
}

/* V enters a guest, which is not traced, and continues there. */
TEST(untraced_guest)
{
	thread_expect(NULL, "U0+2c guest V0+1S off host on V1+1r U2+1.",
		      "U+call V+call V-return U-trace-end");
}

/* The guest runs A. */
TEST(traced_guest)
{
	thread_expect(NULL,
		      "U0+2c guest V0+1S A3+2c B0+2. irq@B2>V1 host V1+1j guest V0+1S B2+1r A5+1. "
		      "irq@A6>V1 host V1+1r U2+1.",
		      "U+call V+call A+running~ B+call B-suspended A-suspended~ B+running~ "
		      "B-return~ A+running~ A-suspended~ V-return U-trace-end");
}

TEST(user_interrupt)
{
	thread_expect(NULL, "A0+2. irq@A2>H0 H0+1c B0+1r H1+2S A2+1.",
		      "A+call H+interrupt B+call B-return H-return A-trace-end");
}
