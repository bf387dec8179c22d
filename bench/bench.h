/* SPDX-License-Identifier: MIT */
/* The parts of the benchmark: a trace in memory, and the loops that decode it with each library. */
#ifndef PTAH_BENCH_BENCH_H
#define PTAH_BENCH_BENCH_H

#include <ptah/flow.h>
#include <ptah/image.h>
#include <ptah/packet.h>

/* File bytes [offset, offset + size) at `address`, for either decoder's image. */
struct bench_section {
	char *path;
	uint64_t offset, size, address;
	uint64_t cr3; /* or PTAH_SPACE_ANY */
};

/* One stream, completely in memory, and the code that ran. */
struct bench_trace {
	const char *label;
	uint8_t *bytes;
	size_t size;
	struct bench_section *sections;
	size_t section_count;
	struct ptah_image *image;
	struct ptah_flow_config flow; /* from the recording */
};

/* Loads the largest stream of a perf.data file. Both functions exit with a message on failure. */
void bench_load_session(struct bench_trace *trace, const char *label, const char *path);
/* Loads raw packets and a page dump (see ptah_image_add_pages). */
void bench_load_pages(struct bench_trace *trace, const char *label, const char *pt,
		      const char *prefix);
/* Makes a trace of at least `size` bytes from others; see mix.c. */
void bench_load_mix(struct bench_trace *mix, size_t size, char **prefixes, unsigned count);
/* Adds a copy of a section, in the address space of this CR3, to both decoders' images. */
void bench_add_section(struct bench_trace *trace, const struct bench_section *section,
		       uint64_t cr3);
/* Adds the timing packets that a processor would have sent; see timed.c. */
void bench_add_timing(struct bench_trace *trace);
void bench_trace_free(struct bench_trace *trace);

/* The result of one loop over a trace: counts of packets, or of instructions. */
struct bench_result {
	uint64_t count;
	uint64_t errors;
	/*
	 * A sum over the packets' sizes and payloads, or over the instructions' addresses and
	 * sizes. It shows that each was read, and that both libraries report the same.
	 */
	uint64_t sum;
	uint64_t hash; /* instructions: bench_hash_insn(), in the loops that call it */
};

/* Adds an instruction to the sum: fast, but it ignores classes and order. */
static inline uint64_t bench_add_insn(uint64_t sum, uint64_t ip, unsigned size)
{
	return sum + (ip ^ (uint64_t)size << 56);
}

/* The same, and it ignores nothing; `class` is libipt's number. */
static inline uint64_t bench_hash_insn(uint64_t sum, uint64_t ip, unsigned size,
				       unsigned insn_class)
{
	return (sum ^ ip ^ (uint64_t)size << 56 ^ (uint64_t)insn_class << 60) *
		   UINT64_C(0x9e3779b97f4a7c15) +
	       1;
}

typedef struct bench_result bench_decoder(const struct bench_trace *trace, size_t size);

/* These decode the first `size` bytes. */
bench_decoder bench_ptah_packets, bench_ptah_single, bench_ptah_blocks, bench_ptah_insns;
bench_decoder bench_ptah_spans, bench_ptah_spans_warm;
bench_decoder bench_ptah_insn_hash, bench_ptah_counts, bench_ptah_items;
bench_decoder bench_libipt_packets, bench_libipt_blocks, bench_libipt_insns;

/*
 * The same, with the code that an earlier pass over the trace has decoded. The
 * first call makes that pass too, so it is called once before measuring.
 */
bench_decoder bench_ptah_blocks_warm, bench_libipt_blocks_warm, bench_ptah_counts_warm;
bench_decoder bench_ptah_insns_warm, bench_ptah_items_warm;
/* Blocks and events. */
bench_decoder bench_ptah_events, bench_ptah_events_warm;

/*
 * One execution of a fuzzer: with an object of its own, and with one object for
 * all. Counts the bitmap's entries.
 */
bench_decoder bench_ptah_coverage, bench_ptah_coverage_warm;
/* The first execution of an object, the making and freeing of which are left out of the time. */
bench_decoder bench_ptah_coverage_first;
/* Frees what they keep. */
void bench_ptah_cool(void);
void bench_libipt_cool(void);

const char *bench_libipt_version(void);

/*
 * libxdc, where its sources are (PTAH_LIBXDC, see CMakeLists.txt): its bitmap for a whole trace,
 * with an object of its own and with one for all. bench_libxdc_check() comes first:
 * it prepares the trace, and finds out whether libxdc decodes it.
 */
bench_decoder bench_libxdc_coverage, bench_libxdc_coverage_warm, bench_libxdc_coverage_first;

struct bench_exactness {
	bool is_measurable; /* false: no libxdc, or it fails on this trace */
	char text[120];	    /* whether its edges are the trace's */
};

void bench_libxdc_check(const struct bench_trace *trace, const struct ptah_range *filter,
			struct bench_exactness *result);
void bench_libxdc_cool(void);
/* Frees the copies of the trace and of its pages. */
void bench_libxdc_forget(void);

/* Converts an enum ptah_insn_class to libipt's number. */
unsigned bench_libipt_class(unsigned insn_class);

/* Searches the bytes for a PSB; true if there is one. */
bool bench_libipt_find_psb(const struct bench_trace *trace);

/* Prints one line of the table: `pairs` measurements of each side, in turns. */
void bench_compare(const struct bench_trace *trace, const char *what, unsigned pairs, size_t size,
		   bench_decoder *ptah, bench_decoder *libipt);
void bench_print_header(void);

/* The commands of wire.c, called by main(). */
int bench_timing(int argc, char **argv);
int bench_psb(int argc, char **argv);

/* And that of real.c, with its clock, and a way to leave out the time since it was read. */
int bench_real(int argc, char **argv);
double bench_cpu_seconds(void);
void bench_leave_out(double since);

/* Those of jobs.c. */
int bench_jobs(int argc, char **argv);
int bench_scale(int argc, char **argv);

/* And those of trees.c and live.c. */
int bench_calls(int argc, char **argv);
int bench_live(int argc, char **argv);

_Noreturn void bench_die(const char *what, const char *why);

/* Returns the median, and sorts the values. */
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

#define BENCH_MAX_PAIRS 99

unsigned bench_parse_pairs(const char *text);

#endif
