/* SPDX-License-Identifier: MIT */
/*
 * Calls, tail calls and returns as compilers and linkers make them. The expectations are written
 * from what such code does with the stack.
 */
#include "test.h"

#include "thread.h"

TEST(calls_and_returns)
{
	thread_expect(NULL, "A0+2c B0+3c C0+1r B3+1r A2+1c B0+4r A3+1.",
		      "A+call B+call C+call C-return B-return B+call B-return A-trace-end");
}

TEST(recursion)
{
	thread_expect(NULL, "A0+2c A0+2c A0+2b A6+1r A2+1r A2+1.",
		      "A+call A+call A+call A-return A-return A-trace-end");
}

TEST(tail_call)
{
	thread_expect(NULL, "A0+2c B0+3j C0+2c D0+1r C2+1r A2+1.",
		      "A+call B+call C+jump D+call D-return C-return B-tail A-trace-end");
}

TEST(conditional_tail_call)
{
	thread_expect(NULL, "A0+2c B0+3b B3+1b C0+2r A2+1.",
		      "A+call B+call C+jump C-return B-tail A-trace-end");
}

TEST(loop_of_tail_calls)
{
	thread_expect(NULL, "A0+2c B0+3j C0+3j B0+3j C0+3r A2+1.",
		      "A+call B+call C+jump C-tail B-tail B+jump C+jump C-return B-tail "
		      "A-trace-end");
}

TEST(jump_to_the_own_beginning_is_a_loop)
{
	thread_expect(NULL, "A0+2c B0+3b B0+3b B3+1r A2+1.", "A+call B+call B-return A-trace-end");
}

TEST(cold_part_is_no_call)
{
	thread_expect(NULL, "A0+2c B0+3b b0+3c C0+1r b3+1j B7+1r A2+1.",
		      "A+call B+call C+call C-return B-return A-trace-end");
}

TEST(cold_part_without_parent)
{
	thread_expect(NULL, "A0+2c B0+3b L0+3c C0+1r L3+1j B7+1r A2+1.",
		      "A+call B+call C+call C-return B-return A-trace-end");
}

TEST(shared_code_is_no_call)
{
	thread_expect(NULL, "A0+2c B0+3b C4+3r A2+1.", "A+call B+call B-return A-trace-end");
}

TEST(outlined_code_jumps_back)
{
	thread_expect(NULL, "A0+2c B0+3j C0+3j B3+2r A2+1.",
		      "A+call B+call C+jump C-return B-return A-trace-end");
}

TEST(stub)
{
	thread_expect(NULL, "A0+2c P0+1J B0+3r A2+1.",
		      "A+call P+call B+jump B-return P-tail A-trace-end");
}

/* Q is the linkage table's first entry, D the resolver, E what it calls to find the function. */
TEST(lazy_binding_by_jump)
{
	thread_expect(NULL, "A0+2c P0+1J P1+2j Q0+2J D0+5c E0+2r D5+3J B0+3r A2+1.",
		      "A+call P+call Q+jump D+jump E+call E-return B+jump B-return D-tail Q-tail "
		      "P-tail A-trace-end");
}

TEST(lazy_binding_by_return)
{
	thread_expect(NULL, "A0+2c P0+1J P1+2j Q0+2J D0+5c E0+2r D5+3r B0+3r A2+1.",
		      "A+call P+call Q+jump D+jump E+call E-return B+jump B-return D-tail Q-tail "
		      "P-tail A-trace-end");
}

TEST(call_next_is_no_call)
{
	thread_expect(NULL, "A0+2c B0+3c B3+3r A2+1.", "A+call B+call B-return A-trace-end");
}

/* As clang -Os places functions: one ends with a jump to, or a call of, the one behind it. */
TEST(jump_to_the_next_function_is_a_tail_call)
{
	thread_expect(NULL, "A0+2c J0+2j J126+2j K0+3r A2+1.",
		      "A+call J+call K+jump K-return J-tail A-trace-end");
}

TEST(call_of_the_next_function_is_a_call)
{
	thread_expect(NULL, "A0+2c J0+2j J126+2c K0+2c D0+3r K2+1.",
		      "A+call J+call K+call D+call D-return K-trace-end J-trace-end A-trace-end");
}

TEST(what_goes_on_in_the_next_function_tail_calls_it)
{
	/* In one block, in the next one, and after a call that was the function's last instruction. */
	thread_expect(NULL, "A0+2c J0+2j J126+5r A2+1.",
		      "A+call J+call K+jump K-return J-tail A-trace-end");
	thread_expect(NULL, "A0+2c J0+2j J126+2b K0+3r A2+1.",
		      "A+call J+call K+jump K-return J-tail A-trace-end");
	thread_expect(NULL, "A0+2c J0+2j J126+2c D0+2r K0+3r A2+1.",
		      "A+call J+call D+call D-return K+jump K-return J-tail A-trace-end");
}

TEST(retpoline_call)
{
	/* B: call 1f; 2: pause; jmp 2b; 1: overwrite; ret */
	thread_expect(NULL, "A0+2c B0+1c B4+2r C0+3r A2+1.",
		      "A+call B+call C+jump C-return B-tail A-trace-end");
}

TEST(retpoline_jump)
{
	thread_expect(NULL, "A0+2c B0+1c B4+2r C0+3j D0+1c D4+2r C9+1r A2+1.",
		      "A+call B+call C+jump D+jump D-return C-return B-tail A-trace-end");
}

TEST(subroutine_inside_a_function)
{
	thread_expect(NULL, "A0+2c B0+1c B4+2r B1+3r A2+1.", "A+call B+call B-return A-trace-end");
}

TEST(threaded_code_by_returns)
{
	thread_expect(NULL, "A0+2c B0+1r C0+2r D0+3r A2+1.",
		      "A+call B+call C+jump C-return D+jump D-return B-tail A-trace-end");
}

TEST(return_inside_a_function_is_a_jump)
{
	thread_expect(NULL, "A0+2c B0+1r B9+2r A2+1.", "A+call B+call B-return A-trace-end");
}
