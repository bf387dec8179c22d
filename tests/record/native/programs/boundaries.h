/* SPDX-License-Identifier: MIT */
/* What the program boundaries.c and its driver, step_signals.c, know of each other. */
#ifndef PTAH_TESTS_BOUNDARIES_H
#define PTAH_TESTS_BOUNDARIES_H

#include <stdint.h>
#include <sys/types.h>

/* Arguments of getpgid(), by which the driver sees where the program is. No process has them. */
#define MARK_START INT32_C(0x7f005054)
#define MARK_END   INT32_C(0x7f005055)

/* Descriptors: the program sends struct hello, and goes on when it has received a byte. */
#define HELLO_FD 3
#define GO_FD	 4

/* What a handler sees of the interrupted program. */
struct state {
	uint64_t rip, rflags, general[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t xmm[2][2];
	uint64_t st[2]; /* the significands of ST0 and ST1 */
	uint32_t mxcsr, control, status;
};

struct report {
	uint64_t handled; /* signals */
	uint64_t result;
	uint64_t stop; /* written by the driver */
	struct state state;
};

struct hello {
	pid_t pid;
	uint64_t report;
	uint64_t body, body_end; /* all registers are defined within */
};

#endif
