/* SPDX-License-Identifier: MIT */
/*
 * The bounds of a function in memory, as functions.h finds them and calls.h uses them.
 *
 * A function may consist of several pieces, such as the one that compilers expect to run and the
 * one that they do not (".cold"), and other functions may lie between these. So there are two
 * answers to "which function is it?": the piece that holds the address, and where the function
 * that the piece belongs to is entered.
 */
#ifndef PTAH_FUNCTION_H
#define PTAH_FUNCTION_H

#include <ptah/api.h>

#include <stdint.h>

PTAH_BEGIN_DECLS

enum ptah_function_flags {
	/* Code of a procedure linkage table: it jumps to the function, or to the resolver. */
	PTAH_FUNCTION_STUB = 1 << 0,
	/*
	 * The dynamic linker's code that the linkage table jumps to at a first call. It leaves by a
	 * jump to the function that it has found.
	 */
	PTAH_FUNCTION_RESOLVER = 1 << 1,
	/* A piece that lies apart from its function and is reached by jumps, such as ".cold". */
	PTAH_FUNCTION_FRAGMENT = 1 << 2,
	/* With FRAGMENT: which function it belongs to is not known. `start` is that of the piece.
	 */
	PTAH_FUNCTION_NO_PARENT = 1 << 3,
	/* The file has no symbol here: the bounds come from its unwind information (.eh_frame). */
	PTAH_FUNCTION_FRAME = 1 << 4,
	/*
	 * Only the section or the mapping that holds the address is known, and that no known
	 * function is in [low, high): there may be several that have neither symbol nor frame.
	 */
	PTAH_FUNCTION_SECTION = 1 << 5,
	PTAH_FUNCTION_KERNEL = 1 << 6, /* of the kernel or one of its modules */
	PTAH_FUNCTION_JIT = 1 << 7,    /* generated while the program ran */
	/*
	 * It exchanges stacks: where it goes to, other than to its caller, another coroutine,
	 * goroutine or thread runs (swapcontext, runtime.gogo).
	 */
	PTAH_FUNCTION_SWITCH = 1 << 8,
	/*
	 * It gives up its caller and continues in a caller of that one, never in its own
	 * (_Unwind_Resume).
	 */
	PTAH_FUNCTION_UNWINDS = 1 << 9,
	/* It may return again later, without being called (setjmp). */
	PTAH_FUNCTION_TWICE = 1 << 10,
};

struct ptah_function {
	/* The piece of the function that holds the address. The answer is the same for all of it.
	 */
	uint64_t low, high;
	/* The address where the function is entered, which identifies it in its address space. */
	uint64_t start;
	uint32_t flags; /* enum ptah_function_flags */
	/*
	 * Other functions were at `start` at other times, and this is not the one of the end: the
	 * number of marks of its calls has this version (see struct ptah_call_mark). 0: it is.
	 */
	uint16_t version;
	uint16_t reserved;
};

PTAH_END_DECLS

#endif
