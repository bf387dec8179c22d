/* SPDX-License-Identifier: MIT */
/* The bytes of a blob as constants of the library: see ptah_add_runtime() in cmake/runtime.cmake. */
	.section .rodata
	.globl	BLOB, BLOB_END
	.hidden	BLOB, BLOB_END
	.balign	16
BLOB:
	.incbin BLOB_FILE
BLOB_END:
	.byte	0
	.section .note.GNU-stack, "", @progbits
