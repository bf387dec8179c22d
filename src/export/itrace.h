/* SPDX-License-Identifier: MIT */
/* The letters of --itrace (perf-inject(1)): which samples are made of a trace. */
#ifndef PTAH_EXPORT_ITRACE_H
#define PTAH_EXPORT_ITRACE_H

#include <ptah/session.h>

enum itrace_unit {
	ITRACE_INSTRUCTIONS,
	ITRACE_TICKS, /* of the TSC */
	ITRACE_NANOSECONDS,
};

struct itrace {
	bool instructions;
	uint64_t period; /* 0: each instruction is a sample */
	enum itrace_unit unit;
	bool branches;	     /* all of them, */
	bool calls, returns; /* or only calls, or returns, or both */
	bool errors, no_overflows, no_losses;
	unsigned call_chain;   /* callers of instruction samples; 0: none */
	unsigned branch_stack; /* last branches of them; 0: none */
	uint64_t skip;	       /* samples at the beginning that are left out */
	char left_out[16];     /* letters of what no sample is made of: x, w, p, o, I */
};

/* perf's limits and defaults. */
#define ITRACE_MOST_ENTRIES 1024
#define ITRACE_CALL_CHAIN   16
#define ITRACE_BRANCH_STACK 64
#define ITRACE_PERIOD	    100000
#define ITRACE_EVERYTHING   "ibxwpe"

/* `text` may be "" for perf's default. PTAH_E_INVAL with a message. */
int itrace_parse(const char *text, struct itrace *itrace, struct ptah_message *why);

#endif
