/* SPDX-License-Identifier: MIT */
/*
 * Calls, tail calls and returns as compilers and linkers make them. The expectations are written
 * from what such code does with the stack.
 */
#include "test.h"

#include "thread.h"

static void calls_and_returns(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3c C0+1r B3+1r A2+1c B0+4r A3+1.",
		      "A+call B+call C+call C-return B-return B+call B-return A-trace-end");
}

static void recursion(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c A0+2c A0+2b A6+1r A2+1r A2+1.",
		      "A+call A+call A+call A-return A-return A-trace-end");
}

static void tail_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3j C0+2c D0+1r C2+1r A2+1.",
		      "A+call B+call C+jump D+call D-return C-return B-tail A-trace-end");
}

static void conditional_tail_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3b B3+1b C0+2r A2+1.",
		      "A+call B+call C+jump C-return B-tail A-trace-end");
}

static void loop_of_tail_calls(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3j C0+3j B0+3j C0+3r A2+1.",
		      "A+call B+call C+jump C-tail B-tail B+jump C+jump C-return B-tail "
		      "A-trace-end");
}

static void jump_to_the_own_beginning_is_a_loop(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3b B0+3b B3+1r A2+1.", "A+call B+call B-return A-trace-end");
}

static void cold_part_is_no_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3b b0+3c C0+1r b3+1j B7+1r A2+1.",
		      "A+call B+call C+call C-return B-return A-trace-end");
}

static void cold_part_without_parent(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3b L0+3c C0+1r L3+1j B7+1r A2+1.",
		      "A+call B+call C+call C-return B-return A-trace-end");
}

static void shared_code_is_no_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3b C4+3r A2+1.", "A+call B+call B-return A-trace-end");
}

static void outlined_code_jumps_back(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3j C0+3j B3+2r A2+1.",
		      "A+call B+call C+jump C-return B-return A-trace-end");
}

static void stub(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c P0+1J B0+3r A2+1.",
		      "A+call P+call B+jump B-return P-tail A-trace-end");
}

/* Q is the linkage table's first entry, D the resolver, E what it calls to find the function. */
static void lazy_binding_by_jump(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c P0+1J P1+2j Q0+2J D0+5c E0+2r D5+3J B0+3r A2+1.",
		      "A+call P+call Q+jump D+jump E+call E-return B+jump B-return D-tail Q-tail "
		      "P-tail A-trace-end");
}

static void lazy_binding_by_return(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c P0+1J P1+2j Q0+2J D0+5c E0+2r D5+3r B0+3r A2+1.",
		      "A+call P+call Q+jump D+jump E+call E-return B+jump B-return D-tail Q-tail "
		      "P-tail A-trace-end");
}

static void call_next_is_no_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+3c B3+3r A2+1.", "A+call B+call B-return A-trace-end");
}

/* As clang -Os places functions: one ends with a jump to, or a call of, the one behind it. */
static void jump_to_the_next_function_is_a_tail_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c J0+2j J126+2j K0+3r A2+1.",
		      "A+call J+call K+jump K-return J-tail A-trace-end");
}

static void call_of_the_next_function_is_a_call(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c J0+2j J126+2c K0+2c D0+3r K2+1.",
		      "A+call J+call K+call D+call D-return K-trace-end J-trace-end A-trace-end");
}

static void what_goes_on_in_the_next_function_tail_calls_it(void **state)
{
	(void)state;
	/* In one block, in the next one, and after a call that was the function's last instruction. */
	thread_expect(NULL, "A0+2c J0+2j J126+5r A2+1.",
		      "A+call J+call K+jump K-return J-tail A-trace-end");
	thread_expect(NULL, "A0+2c J0+2j J126+2b K0+3r A2+1.",
		      "A+call J+call K+jump K-return J-tail A-trace-end");
	thread_expect(NULL, "A0+2c J0+2j J126+2c D0+2r K0+3r A2+1.",
		      "A+call J+call D+call D-return K+jump K-return J-tail A-trace-end");
}

static void retpoline_call(void **state)
{
	(void)state;
	/* B: call 1f; 2: pause; jmp 2b; 1: overwrite; ret */
	thread_expect(NULL, "A0+2c B0+1c B4+2r C0+3r A2+1.",
		      "A+call B+call C+jump C-return B-tail A-trace-end");
}

static void retpoline_jump(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+1c B4+2r C0+3j D0+1c D4+2r C9+1r A2+1.",
		      "A+call B+call C+jump D+jump D-return C-return B-tail A-trace-end");
}

static void subroutine_inside_a_function(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+1c B4+2r B1+3r A2+1.", "A+call B+call B-return A-trace-end");
}

static void threaded_code_by_returns(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+1r C0+2r D0+3r A2+1.",
		      "A+call B+call C+jump C-return D+jump D-return B-tail A-trace-end");
}

static void return_inside_a_function_is_a_jump(void **state)
{
	(void)state;
	thread_expect(NULL, "A0+2c B0+1r B9+2r A2+1.", "A+call B+call B-return A-trace-end");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(calls_and_returns),
	    cmocka_unit_test(recursion),
	    cmocka_unit_test(tail_call),
	    cmocka_unit_test(conditional_tail_call),
	    cmocka_unit_test(loop_of_tail_calls),
	    cmocka_unit_test(jump_to_the_own_beginning_is_a_loop),
	    cmocka_unit_test(cold_part_is_no_call),
	    cmocka_unit_test(cold_part_without_parent),
	    cmocka_unit_test(shared_code_is_no_call),
	    cmocka_unit_test(outlined_code_jumps_back),
	    cmocka_unit_test(stub),
	    cmocka_unit_test(lazy_binding_by_jump),
	    cmocka_unit_test(lazy_binding_by_return),
	    cmocka_unit_test(call_next_is_no_call),
	    cmocka_unit_test(jump_to_the_next_function_is_a_tail_call),
	    cmocka_unit_test(call_of_the_next_function_is_a_call),
	    cmocka_unit_test(what_goes_on_in_the_next_function_tail_calls_it),
	    cmocka_unit_test(retpoline_call),
	    cmocka_unit_test(retpoline_jump),
	    cmocka_unit_test(subroutine_inside_a_function),
	    cmocka_unit_test(threaded_code_by_returns),
	    cmocka_unit_test(return_inside_a_function_is_a_jump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
