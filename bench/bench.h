/* SPDX-License-Identifier: MIT */
/* The benchmark's parts: a trace in memory, and ways to go through it. */
#ifndef PTAH_BENCH_BENCH_H
#define PTAH_BENCH_BENCH_H

#include <ptah/flow.h>
#include <ptah/image.h>
#include <ptah/packet.h>

/* File bytes [offset, offset + size) at `address`, for either decoder's image. */
struct bench_section {
	char *path;
	uint64_t offset, size, address;
};

/* One stream, whole and in memory, and the code it ran. */
struct bench_trace {
	const char *label;
	uint8_t *bytes;
	size_t size;
	struct bench_section *sections;
	size_t section_count;
	struct ptah_image *image;
	struct ptah_flow_config flow; /* as the recording says */
};

/* Of a perf.data file: its largest stream. Both exit with a sentence on failure. */
void bench_load_session(struct bench_trace *trace, const char *label, const char *path);
/* Of raw packets and a page dump (see ptah_image_add_pages). */
void bench_load_pages(struct bench_trace *trace, const char *label, const char *pt,
		      const char *prefix);
/* Puts in the packets about time that a processor would have sent; see timed.c. */
void bench_add_timing(struct bench_trace *trace);
void bench_trace_free(struct bench_trace *trace);

/* What going through a trace found: packets, or instructions. */
struct bench_result {
	uint64_t count;
	uint64_t errors;
	/* Of the packets' sizes and payloads, or of instructions' addresses and sizes: they are
	 * read, and the same. */
	uint64_t sum;
	uint64_t hash; /* instructions: bench_hash_insn(), where it is made */
};

/* One more instruction: quick, and blind to classes and order. */
static inline uint64_t bench_add_insn(uint64_t sum, uint64_t ip, unsigned size)
{
	return sum + (ip ^ (uint64_t)size << 56);
}

/* The same and blind to nothing; `class` is libipt's number. */
static inline uint64_t bench_hash_insn(uint64_t sum, uint64_t ip, unsigned size,
				       unsigned insn_class)
{
	return (sum ^ ip ^ (uint64_t)size << 56 ^ (uint64_t)insn_class << 60) *
		   UINT64_C(0x9e3779b97f4a7c15) +
	       1;
}

typedef struct bench_result bench_decoder(const struct bench_trace *trace, size_t size);

/* Decode the first `size` bytes. */
bench_decoder bench_ptah_packets, bench_ptah_single, bench_ptah_blocks, bench_ptah_insns;
bench_decoder bench_ptah_insn_hash, bench_ptah_counts, bench_ptah_items;
bench_decoder bench_libipt_packets, bench_libipt_blocks, bench_libipt_insns;

/*
 * The same with what an earlier pass over the trace has left: decoded code. The
 * first call makes that pass, too: call it once before measuring.
 */
bench_decoder bench_ptah_blocks_warm, bench_libipt_blocks_warm, bench_ptah_counts_warm;
bench_decoder bench_ptah_insns_warm, bench_ptah_items_warm;

/* A fuzzer's execution: with an object of its own, and with one for all. Counts the bitmap. */
bench_decoder bench_ptah_coverage, bench_ptah_coverage_warm;
/* Ends what they keep. */
void bench_ptah_cool(void);
void bench_libipt_cool(void);

const char *bench_libipt_version(void);

/* An enum ptah_insn_class as libipt numbers it. */
unsigned bench_libipt_class(unsigned insn_class);

/* Searches it for a PSB; whether there is one. */
bool bench_libipt_find_psb(const struct bench_trace *trace);

/* One line of the table: `pairs` measurements of each in turns. */
void bench_compare(const struct bench_trace *trace, const char *what, unsigned pairs, size_t size,
		   bench_decoder *ptah, bench_decoder *libipt);
void bench_print_header(void);

/* Commands of wire.c, as in main(). */
int bench_timing(int argc, char **argv);
int bench_psb(int argc, char **argv);

/* And of executions.c. */
int bench_fuzz(int argc, char **argv);

_Noreturn void bench_die(const char *what, const char *why);

/* The median; sorts. */
double bench_median(double *values, size_t n);
double bench_seconds(void);

/* xorshift64: the same on every machine. */
static inline uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

unsigned bench_parse_pairs(const char *text);

#endif
