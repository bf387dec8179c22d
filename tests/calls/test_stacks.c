/* SPDX-License-Identifier: MIT */
/*
 * Several stacks, and jumps out of one: setjmp, exceptions, coroutines. B is a function that
 * switches stacks and is known to do so by nothing but what it does; R is known by name.
 */
#include "test.h"

#include "thread.h"
#include "calls/calls.h"

#include <stdlib.h>

TEST(longjmp_to_a_caller)
{
	/* C is setjmp, D longjmp. */
	thread_expect(NULL, "A0+2c C0+2r A2+1c E0+2c F0+2c D0+4J A2+1b A9+1.",
		      "A+call C+call C-return E+call F+call D+call D-unwound F-unwound E-unwound "
		      "A-trace-end");
}

/* As a switch of stacks that takes the return address from the stack and jumps to it. */
TEST(a_jump_to_the_own_return_address_returns)
{
	thread_expect(NULL, "A0+2c D0+4J A2+1.", "A+call D+call D-return A-trace-end");
}

TEST(exception_is_caught_by_a_caller)
{
	/* D is __cxa_throw, E unwinds and leaves by a return to the landing pad A20. */
	thread_expect(NULL, "A0+2c B0+2c C0+1c D0+5c E0+9r A20+2c F0+1r A22+1.",
		      "A+call B+call C+call D+call E+call E-unwound D-unwound C-unwound "
		      "B-unwound F+call F-return A-trace-end");
}

TEST(cleanup_on_the_way)
{
	thread_expect(NULL, "A0+2c B0+2c D0+5c E0+9r B20+1c F0+1r B21+1c G0+4c E0+9r A20+1.",
		      "A+call B+call D+call E+call E-unwound D-unwound F+call F-return G+call "
		      "E+call E-unwound G-unwound B-unwound A-trace-end");
}

TEST(exception_caught_where_it_was_thrown)
{
	thread_expect(NULL, "A0+2c D0+5c E0+9r A20+1r Z3+1.",
		      "A+call D+call E+call E-unwound D-unwound A-return Z+running~ Z-trace-end~");
}

/* Landing pads in cold parts. */
TEST(exception_lands_in_a_cold_part)
{
	thread_expect(NULL, "A0+2c B0+2c E0+9r a4+1j A20+1.",
		      "A+call B+call E+call E-unwound B-unwound A-trace-end");
}

/* A calls itself, and both calls have a cleanup to do, which ends in _Unwind_Resume (S). */
TEST(cleanup_in_a_recursive_function)
{
	/* That the inner one is first is likely, not known. */
	thread_expect(NULL, "A0+2c A0+2c D0+5c E0+9r A20+2c S0+4c E0+9r A20+2r Z3+1.",
		      "A+call A+call D+call E+call E-unwound D-unwound S+call E+call E-unwound "
		      "S-unwound A-unwound? A-return Z+running~ Z-trace-end~");
	/* The landing pad is the address after the call of _Unwind_Resume, by its stub (P). */
	thread_expect(NULL, "A0+2c A0+2c D0+5c E0+9r A20+2c P0+1J S0+4r A22+1r Z3+1.",
		      "A+call A+call D+call E+call E-unwound D-unwound P+call S+jump S-unwound "
		      "P-unwound A-unwound? A-return Z+running~ Z-trace-end~");
}

/* Each call of A has called setjmp (T) at A2, but the innermost. */
TEST(longjmp_in_a_recursive_function)
{
	thread_expect(NULL, "A0+2c T0+2r A2+2c A0+2b A8+2c D0+4J A2+1b A20+1r Z3+1.",
		      "A+call T+call T-return A+call D+call D-unwound A-unwound A-return "
		      "Z+running~ Z-trace-end~");
	/* The outer call has called it in two places. */
	thread_expect(NULL, "A0+2c T0+2r A2+2c T0+2r A4+1c A0+2b A8+2c D0+4J A2+1b A20+1r Z3+1.",
		      "A+call T+call T-return T+call T-return A+call D+call D-unwound A-unwound "
		      "A-return Z+running~ Z-trace-end~");
}

/* Two calls of A have called setjmp (T) at A2, and D continues in one of them. */
TEST(longjmp_to_one_of_several)
{
	/* In the inner one, which returns to the outer one: but until then nothing says so. */
	thread_expect(NULL,
		      "Z0+2c A0+2c T0+2r A2+2c A0+2c T0+2r A2+1b A8+2c D0+4J A2+1b A20+1r A4+1r "
		      "Z2+1.",
		      "Z+call A+call T+call T-return A+call T+call T-return D+call D-unwound "
		      "A-return? A-return Z-trace-end");
	/* In the outer one: the inner one has not returned. */
	thread_expect(NULL,
		      "Z0+2c A0+2c T0+2r A2+2c A0+2c T0+2r A2+1b A8+2c D0+4J A2+1b A20+1r Z2+1.",
		      "Z+call A+call T+call T-return A+call T+call T-return D+call D-unwound "
		      "A-unwound? A-return Z-trace-end");
}

/*
 * Makecontext and swapcontext: C runs on another stack. It gives way in B (called from C2), and is
 * continued by B, called from A.
 */
TEST(coroutine)
{
	thread_expect(NULL, "A0+2c B0+9r C0+2c B0+9r A2+1c B0+9r C2+2c D0+1r C4+1c B0+9r A3+1.",
		      "A+call B+call C+jump B+call B-suspended C-suspended B-return "
		      "B+call C+resumed B+resumed B-return D+call D-return B+call B-suspended "
		      "C-suspended B-return A-trace-end");
}

/* The same with a function that is known to switch stacks, and leaves by a jump. */
TEST(coroutine_by_a_known_switch)
{
	thread_expect(NULL, "A0+2c R0+9J C0+2c R0+9J A2+1c R0+9J C2+2c D0+1r C4+1c R0+9J A3+1.",
		      "A+call R+call C+jump R+call R-suspended C-suspended R-return "
		      "R+call C+resumed R+resumed R-return D+call D-return R+call R-suspended "
		      "C-suspended R-return A-trace-end");
}

/* The switch is behind one function for all: what continues shows only when that returns. */
TEST(coroutine_behind_a_common_function)
{
	thread_expect(
	    NULL,
	    "A0+2c E0+3c B0+9r C0+2c E0+3c B0+9r E3+1r A2+1c E0+3c B0+9r E3+1r C2+1c D0+1r "
	    "C3+1.",
	    "A+call E+call B+call C+jump E+call B+call B-return E-suspended C-suspended "
	    "B-unwound E-return E+call B+call B-return C+resumed E+resumed E-return D+call "
	    "D-return C-trace-end E-trace-end A-trace-end");
}

/* Three that give way to each other, without a scheduler. */
TEST(coroutines_in_a_ring)
{
	thread_expect(
	    NULL, "A0+2c R0+2J C0+2c R0+2J D0+2c R0+2J A2+1c R0+2J C2+2c R0+2J D2+2c R0+2J A3+1.",
	    "A+call R+call C+jump R+call R-suspended C-suspended D+jump R+call "
	    "R-suspended D-suspended R-return R+call C+resumed R+resumed R-return R+call "
	    "R-suspended C-suspended D+resumed R+resumed R-return R+call R-suspended "
	    "D-suspended R-return A-trace-end");
}

/* C returns, to __start_context (F), which ends in setcontext (B) and continues the first stack. */
TEST(coroutine_that_ends)
{
	thread_expect(NULL, "A0+2c B0+9r C0+2r F0+2c B0+9r A2+1.",
		      "A+call B+call C+jump C-return F+jump B+call B-suspended F-suspended "
		      "B-return A-trace-end");
}

/* A stack that was there before the trace. */
TEST(coroutine_from_before_the_trace)
{
	thread_expect(NULL, "A3+2c B0+9r C5+2r D5+2c B0+9r A5+1c B0+9r D7+1.",
		      "A+running~ B+call C+running~ C-return~ D+running~ B+call B-suspended "
		      "D-suspended~ B-return B+call D+resumed~ B+resumed B-return D-trace-end~ "
		      "B-trace-end A-trace-end~");
}

TEST(two_stacks_at_one_address)
{
	/* C and D both wait in B, called by E; C first. */
	thread_expect(
	    NULL,
	    "A0+2c R0+2J C0+2c E0+2c R0+2J A2+1c R0+2J D0+2c E0+2c R0+2J A3+1c R0+2J E2+1r "
	    "C2+1.",
	    "A+call R+call C+jump E+call R+call R-suspended E-suspended C-suspended "
	    "R-return R+call D+jump E+call R+call R-suspended E-suspended D-suspended "
	    "R-return R+call C+resumed? E+resumed? R+resumed? R-return? E-return? "
	    "C-trace-end? R-trace-end A-trace-end");
	/* It was D. */
	thread_expect(
	    NULL,
	    "A0+2c R0+2J C0+2c E0+2c R0+2J A2+1c R0+2J D0+2c E0+2c R0+2J A3+1c R0+2J E2+1r "
	    "D2+1.",
	    "A+call R+call C+jump E+call R+call R-suspended E-suspended C-suspended "
	    "R-return R+call D+jump E+call R+call R-suspended E-suspended D-suspended "
	    "R-return R+call C+resumed? E+resumed? R+resumed? R-return? E-suspended? "
	    "C-suspended? D+resumed E+resumed E-return D-trace-end R-trace-end "
	    "A-trace-end");
}

/* Go: f calls morestack (C), which runs newstack (D) on another stack and goes back by gogo (R). */
TEST(go_grows_a_stack)
{
	thread_expect(NULL, "A0+2c B0+3c C0+2c D0+3c R0+3J B3+1j B0+4r A2+1.",
		      "A+call B+call C+call D+call R+call R-unwound D-unwound C-return B-return "
		      "A-trace-end");
}

/* R ends in G, which has no name. */
TEST(switch_that_ends_in_another_function)
{
	thread_expect(NULL, "A0+2c R0+2j G0+2J B0+2c R0+2j G0+2J H0+1.",
		      "A+call R+call G+jump B+jump R+call G+jump G-suspended R-suspended "
		      "B-suspended H+jump H-trace-end G-trace-end R-trace-end A-trace-end");
}

/*
 * G does what gogo does in go_grows_a_stack(), and has no name. From then on it is known that a
 * function to which it jumps is on another stack, and B does not stay open below H.
 */
TEST(switch_without_a_name)
{
	thread_expect(NULL, "A0+2c C0+2c D0+3c G0+3J A2+1c G0+2J B0+2c G0+2J H0+1.",
		      "A+call C+call D+call G+call G-unwound D-unwound C-unwound G+call B+jump "
		      "G+call G-suspended B-suspended H+jump H-trace-end G-trace-end A-trace-end");
}

/*
 * Go: gopark (C) of one goroutine (A) calls mcall (D), which calls park_m (E) on the scheduler's
 * stack, which starts another goroutine (B) by gogo (R), which parks in its turn. Which of them
 * gogo continues in gopark shows only when gopark returns.
 */
TEST(go_parks)
{
	thread_expect(
	    NULL,
	    "A0+2c C0+2c D0+2C E0+3c R0+2J B0+2c C0+2c D0+2C E0+3c R0+2J C2+1r A2+1c C0+2c "
	    "D0+2C E0+3c R0+2J C2+1r B2+1.",
	    "A+call C+call D+call E+call R+call B+jump C+call D+call E+call R+call "
	    "R-unwound E-unwound D-return C-suspended B-suspended R-unwound E-unwound "
	    "D-unwound C-return C+call D+call E+call R+call R-unwound E-unwound D-return "
	    "B+resumed C+resumed C-return B-trace-end C-trace-end A-trace-end");
}

/* OCaml: an exception restores the stack pointer of its handler, and returns into it. */
TEST(ocaml_raises)
{
	thread_expect(NULL, "A0+2c B0+2c C0+4r A9+1r Z3+1.",
		      "A+call B+call C+call C-unwound B-unwound A-return Z+running~ "
		      "Z-trace-end~");
}

/* Two instructions of two bytes. */
static struct ptah_item block(uint64_t ip, unsigned insn_class)
{
	return (struct ptah_item){.type = PTAH_ITEM_BLOCK,
				  .ip = ip,
				  .end = ip + 4,
				  .ninsn = 2,
				  .last_size = 2,
				  .insn_class = (uint8_t)insn_class};
}

/*
 * A coroutine (B) that is 5,000 calls deep, and switches with nothing in between. Its calls are not
 * listed again at every switch: a trace of a megabyte would have billions of them.
 */
TEST(deep_stacks_that_switch_all_the_time)
{
	enum {
		A = 0x10000,
		B = 0x20000,
		R = 0x120000,
		DEPTH = 5000,
		SWITCHES = 2000
	};
	const struct calls_config config = {.size = sizeof(config), .find = thread_find};
	struct ptah_item *items = calloc(DEPTH + 6 * SWITCHES + 3, sizeof(*items));
	size_t n = 0;

	assert_non_null(items);
	items[n++] = block(A, PTAH_INSN_CALL);
	items[n++] = block(R, PTAH_INSN_JUMP_IND);
	for (int i = 0; i < DEPTH; i++)
		items[n++] = block(B, PTAH_INSN_CALL);
	for (int i = 0; i < SWITCHES; i++) {
		items[n++] = block(R, PTAH_INSN_JUMP_IND); /* called by B, goes to A */
		if (i)
			items[n++] = block(A + 8, PTAH_INSN_JUMP);
		items[n++] = block(A + 4, PTAH_INSN_CALL);
		items[n++] = block(R, PTAH_INSN_JUMP_IND); /* goes to B */
		if (i)
			items[n++] = block(B + 8, PTAH_INSN_JUMP);
		items[n++] = block(B + 4, PTAH_INSN_CALL);
	}
	assert_true(thread_check(&config, items, n) < 8 * (DEPTH + 6 * SWITCHES));
	free(items);
}
