/* SPDX-License-Identifier: MIT */
/* The functions that are traced, and the names by which show.c knows them. */
#ifndef PTAH_PORT_BARE_PROGRAM_H
#define PTAH_PORT_BARE_PROGRAM_H

#include <stdint.h>

/*
 * Functions of the traced program are in a section of their own, which is the address range that
 * is traced. program.c is compiled so that each call is an indirect one: then each has a TIP packet
 * with the function's address, which direct calls have not.
 */
#define TRACED __attribute__((noinline, section(".traced")))

struct program_name {
	uint64_t address;
	const char *text;
};

extern uint8_t traced_begin[], traced_end[];		     /* link.ld */
extern const struct program_name names_begin[], names_end[]; /* of program.c; link.ld */

/* Calls gcd(48, 18), then collatz(6), which calls half() and triple() in the order of 6, 3, 10...
 */
unsigned short_path(void);
unsigned gcd(unsigned a, unsigned b);
unsigned collatz(unsigned n);
unsigned half(unsigned n);
unsigned triple(unsigned n);

/* Calls step() so many times. */
void long_path(unsigned n);
void step(void);
extern volatile unsigned steps; /* calls of step() */

/* long_path(n), short_path(), and then an invalid instruction. */
void crash(unsigned n);

#endif
