/* SPDX-License-Identifier: MIT */
/*
 * Traces that begin and end in the middle, losses, missing code, filters. A call that the machine
 * cannot know must not be in its list, and what it leaves open must be right again later.
 */
#include "test.h"

#include "thread.h"
#include "calls/calls.h"

TEST(callers_are_known_by_their_returns)
{
	thread_expect(NULL, "C5+2r B3+1c D0+1r B4+1r A7+1.",
		      "C+running~ C-return~ B+running~ D+call D-return B-return~ A+running~ "
		      "A-trace-end~");
}

TEST(empty_trace)
{
	thread_expect(NULL, "", "");
	thread_expect(NULL, "off on off", "");
	thread_expect(NULL, "ovf err off", "");
}

TEST(exception_into_an_unknown_caller)
{
	/* The unwinder D leaves by a return to the landing pad A9; nothing showed A before. */
	thread_expect(NULL, "B5+2c D0+3r A9+1.",
		      "B+running~ D+call A+running~ A-trace-end~ D-trace-end B-trace-end~");
}

TEST(loss_inside_a_call)
{
	thread_expect(NULL, "A0+2c B0+3. ovf@B9 B9+1r A2+1.",
		      "A+call B+call B-return! A-trace-end!");
	thread_expect(NULL, "A0+2c B0+3. err on B9+1r A2+1.",
		      "A+call B+call B-return! A-trace-end!");
	thread_expect(NULL, "A0+2c B0+3. lost B9+1r A2+1.", "A+call B+call B-return! A-trace-end!");
	thread_expect(NULL, "A0+2c B0+3. gap B9+1r A2+1.", "A+call B+call B-return! A-trace-end!");
}

TEST(loss_of_a_return)
{
	thread_expect(NULL, "A0+2c B0+2c C0+1. ovf@B2 B2+1r A2+1.",
		      "A+call B+call C+call C-return! B-return! A-trace-end!");
	thread_expect(NULL, "A0+2c B0+2c C0+1. ovf@A9 A9+1.",
		      "A+call B+call C+call C-lost! B-lost! A-trace-end!");
}

TEST(loss_of_a_call)
{
	/* Into the middle of it: its beginning is not known. */
	thread_expect(NULL, "A0+2c B0+2. ovf@C5 C5+2r B7+1r A2+1.",
		      "A+call B+call C+running~ C-return~ B-return! A-trace-end!");
	/* To its first instruction, which counts as a call though a loop may begin there. */
	thread_expect(NULL, "A0+2c B0+2. ovf@C0 C0+2r B7+1r A2+1.",
		      "A+call B+call C+call~ C-return~ B-return! A-trace-end!");
	/* Which turns out to be a call of A after B had returned. */
	thread_expect(NULL, "A0+2c B0+2. ovf@C5 C5+2r A9+1.",
		      "A+call B+call C+running~ C-return~ B-lost! A-trace-end!");
}

TEST(loss_of_several_calls)
{
	thread_expect(NULL, "A0+2c B0+2. ovf@D5 D5+2r C7+1r B7+1r A2+1.",
		      "A+call B+call D+running~ D-return~ C+running~ C-return~ B-return! "
		      "A-trace-end!");
}

TEST(loss_before_anything)
{
	thread_expect(NULL, "ovf@A3 A3+1c B0+1r A4+1.", "A+running~ B+call B-return A-trace-end~");
}

TEST(branch_before_a_loss_is_not_guessed)
{
	thread_expect(NULL, "A0+2c ovf@B0 B0+2r A2+1.", "A+call B+call~ B-return~ A-trace-end!");
	/* The same where decoding begins there. */
	thread_expect(NULL, "ovf@B0 B0+2r A2+1.", "B+call~ B-return~ A+running~ A-trace-end~");
	thread_expect(NULL, "A0+2c B0+2r ovf@A2 A2+1.", "A+call B+call B-return! A-trace-end!");
}

TEST(many_losses_stay_bounded)
{
	char text[512] = "A0+2.", expected[2048];

	for (unsigned i = 0; i < 20; i++)
		strcat(text, i % 2 ? " ovf@B5 B5+1." : " ovf@C5 C5+1.");
	/* B and C are found open after the first time. */
	strcpy(expected, "A+call C+running~ B+running~");
	for (unsigned i = 2; i < 20; i++)
		strcat(expected, i % 2 ? " B+running~" : " B-lost~!");
	strcat(expected, " B-trace-end~ C-trace-end~! A-trace-end!");
	thread_expect(NULL, text, expected);
}

/* N is code that is not in the image: its calls into known code are seen, its own branches not. */
TEST(missing_code)
{
	thread_expect(NULL, "A0+2c err@N0 A2+1.", "A+call N+call N-return! A-trace-end!");
	thread_expect(NULL, "A0+2c err@N0 B0+3r err@N9 B0+3r err@N9 A2+1.",
		      "A+call N+call B+call B-return B+call B-return N-return! "
		      "A-trace-end!");
}

TEST(code_outside_of_a_filter)
{
	/* B is outside. */
	thread_expect(NULL, "A0+2c off>B0 on A2+1r off>C5",
		      "A+call B+call B-return A-return C+running~ C-trace-end~");
	/* It calls D, which is inside. */
	thread_expect(NULL, "A0+2c off>B0 on D0+2r off>B4 on A2+1.",
		      "A+call B+call D+call D-return B-return A-trace-end");
	/* Without the address. */
	thread_expect(NULL, "A0+2c off on A2+1.", "A+call A-trace-end");
	thread_expect(NULL, "A0+2r off on A0+2r off", "A+call A-return A+call A-return");
}

TEST(transaction_aborts)
{
	thread_expect(NULL, "A0+2. A2+1c B0+2. abort@B2>A9 A9+1.",
		      "A+call B+call B-lost A-trace-end");
}

TEST(exec)
{
	thread_expect(NULL, "A0+2c B0+3s off exec on C5+1c D0+1r C6+1.",
		      "A+call B+call B-exec A-exec C+running~ D+call D-return C-trace-end~");
}

/* Functions that nothing is known of but that they were called. */
TEST(without_bounds)
{
	const struct calls_config config = {.size = sizeof(config)};

	thread_expect(&config, "A0+2c B0+3b B9+3c C0+1r B12+1j B1+1r A2+1c C0+1r A3+1.",
		      "A+running~ B+call C+call C-return B-return C+call C-return A-trace-end~");
	/* C was called before: a jump to it is a tail call. */
	thread_expect(&config, "A0+2c C0+1r A2+1c B0+3j C0+1r A3+1.",
		      "A+running~ C+call C-return B+call C+jump C-return B-tail A-trace-end~");
	/* An exception, by the return site of the call that it leaves. */
	thread_expect(&config, "A0+2c B0+2c C0+3J A2+1.",
		      "A+running~ B+call C+call C-unwound B-unwound A-trace-end~");
}
