/* SPDX-License-Identifier: MIT */
/*
 * A golden case: a small program, a trace as packet text, and the items
 * that must come out of it.
 *
 *	# What it shows, and where the SDM says so.
 *	config errata=SKD010 iflags ticks no-tnt resync filter=401000-401fff (optional;
 *	       also no-iflags, no-retcomp, no-bdm70, stop=)
 *	code 401000 cr3=1000                                     (any number; cr3, vmcs optional)
 *	  90            # nop
 *	trace
 *	  PSB
 *	  ...           (as `ptah asm` takes it)
 *	expect
 *	  psb noip status
 *	  401000 other  (an instruction: address, class, and flags)
 *	  async-branch ip=401001 to=402000
 *
 * Expected lines come from the SDM, never from the decoder. An error's ip is
 * the place of the path at that time, after everything that the trace has
 * proven to have run; "noip": tracing was off, or the path had been lost.
 */
#ifndef PTAH_TESTS_GOLDEN_CASE_H
#define PTAH_TESTS_GOLDEN_CASE_H

#include <ptah/flow.h>
#include <ptah/packet.h>

#define CASE_SECTIONS 32

struct case_section {
	uint64_t address;
	struct ptah_space space;
	size_t first, size; /* in struct golden_case.code */
};

struct golden_case {
	char path[1024];
	struct ptah_flow_config config;
	uint8_t trace[16384];
	size_t size;
	uint8_t code[65536];
	size_t code_size;
	struct case_section sections[CASE_SECTIONS];
	unsigned nsections;
	char expected[65536];
	size_t length;
	char why[1500]; /* what is wrong with the file: one line for people */
};

/* false, with `why`, when the file is not such a case. */
bool case_read(struct golden_case *c, const char *path);

#endif
