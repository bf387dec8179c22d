/* SPDX-License-Identifier: MIT */
/* For assembly: names that C code of the runtime knows. */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_ASSEMBLY_H
#define PTAH_RECORD_NATIVE_RUNTIME_ASSEMBLY_H

/* clang-format off */
	.macro function name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.balign	16
\name:
	.endm

/* A place within a function. */
	.macro place name
	.globl	\name
	.hidden	\name
\name:
	.endm
/* clang-format on */

#endif
