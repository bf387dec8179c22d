/* SPDX-License-Identifier: MIT */
/* Measures the packet layer alone, on bytes that are generated for it. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMING_SIZE (64u << 20)

/* The distance between PSBs, that of IA32_RTIT_CTL.PSBFreq = 1. */
#define PSB_PERIOD 4096

static size_t put(uint8_t *bytes, unsigned type, uint64_t payload, unsigned detail)
{
	struct ptah_packet_record record = {
	    .type = (uint8_t)type, .detail = (uint8_t)detail, .payload = payload};
	struct ptah_packet packet;
	int n;

	ptah_packet_unpack(&packet, &record);
	n = ptah_packet_encode(&packet, bytes, PTAH_PACKET_MAX_SIZE);
	if (n < 0)
		bench_die("timing", "a packet cannot be encoded");
	return (size_t)n;
}

/* A random branch: 2 of 3 are conditional; the others have a near, a far or a random target. */
static size_t put_branch(uint8_t *bytes, uint64_t r)
{
	unsigned count = 1 + r % 6;

	if (r >> 8 & 1 || r >> 9 & 1)
		return put(bytes, PTAH_PACKET_TNT_8, r >> 16 & ((1u << count) - 1), count);
	switch (r >> 10 & 3) {
	case 0:
		return put(bytes, PTAH_PACKET_TIP, r >> 48, PTAH_IPC_UPDATE_16);
	case 3:
		return put(bytes, PTAH_PACKET_TIP, r >> 16, PTAH_IPC_SEXT_48);
	default:
		return put(bytes, PTAH_PACKET_TIP, r >> 32, PTAH_IPC_UPDATE_32);
	}
}

/* Cycle-accurate mode: a CYC before each branch packet, an MTC at one in eight. */
static void make_timing(struct bench_trace *trace)
{
	uint64_t seed = 88172645463325252, psb = 0, tsc = 1;
	uint8_t *p = trace->bytes;

	while (trace->size < TIMING_SIZE) {
		uint64_t r = bench_random(&seed);
		uint8_t *at = p + trace->size;

		if (trace->size >= psb) {
			psb += PSB_PERIOD;
			at += put(at, PTAH_PACKET_PSB, 0, 0);
			at += put(at, PTAH_PACKET_TSC, tsc += 10000, 0);
			at += put(at, PTAH_PACKET_TMA, 1, 0);
			at += put(at, PTAH_PACKET_CBR, 30, 0);
			at += put(at, PTAH_PACKET_PSBEND, 0, 0);
		}
		/*
		 * A random number of cycles: up to 31 in 3 of 4 cases, more than 4095 in 1 of
		 * 64.
		 */
		at += put(at, PTAH_PACKET_CYC,
			  r & 3	   ? r >> 2 & 31
			  : r & 63 ? r >> 2 & 0xfff
				   : r >> 2 & 0x3ffff,
			  0);
		if (!(r >> 40 & 7))
			at += put(at, PTAH_PACKET_MTC, r >> 48 & 0xff, 0);
		at += put_branch(at, bench_random(&seed));
		trace->size = (size_t)(at - p);
	}
}

int bench_timing(int argc, char **argv)
{
	struct bench_trace trace = {.label = "timing"};

	if (argc != 2)
		return 2;
	trace.bytes = malloc(TIMING_SIZE + 256);
	if (!trace.bytes)
		bench_die("timing", "out of memory");
	make_timing(&trace);
	bench_compare(&trace, "packets", bench_parse_pairs(argv[1]), trace.size, bench_ptah_packets,
		      bench_libipt_packets);
	bench_compare(&trace, "one by one", bench_parse_pairs(argv[1]), trace.size,
		      bench_ptah_single, bench_libipt_packets);
	free(trace.bytes);
	return 0;
}

/* PSB search */

typedef bool finder(const struct bench_trace *trace);

static bool find_first(const struct bench_trace *trace)
{
	return ptah_packet_find_psb(trace->bytes, trace->bytes + trace->size);
}

static bool find_last(const struct bench_trace *trace)
{
	return ptah_packet_find_last_psb(trace->bytes, trace->bytes + trace->size);
}

/* Only reads the bytes, which are even: the speed of the memory. */
static bool find_byte(const struct bench_trace *trace)
{
	return memchr(trace->bytes, 1, trace->size);
}

/* The median of nine measurements, in GB/s. */
static double speed(finder *volatile find, const struct bench_trace *trace)
{
	unsigned rounds = trace->size < 1u << 24 ? (1u << 28) / (unsigned)trace->size : 1;
	double gb[9];

	for (unsigned i = 0; i < 9; i++) {
		double start = bench_seconds();

		for (unsigned k = 0; k < rounds; k++)
			if (find(trace))
				bench_die("psb", "there is none");
		gb[i] = (double)trace->size * rounds / 1e9 / (bench_seconds() - start);
	}
	return bench_median(gb, 9);
}

int bench_psb(int argc, char **argv)
{
	static const size_t sizes[] = {256 << 10, 256 << 20};
	uint64_t seed = 88172645463325252;

	(void)argv;
	if (argc != 1)
		return 2;
	printf("%8s %10s %10s %10s %10s  GB/s\n", "MB", "first PSB", "last PSB", "libipt",
	       "memchr");
	for (unsigned i = 0; i < 2; i++) {
		struct bench_trace trace = {.label = "psb", .size = sizes[i]};

		trace.bytes = malloc(trace.size);
		if (!trace.bytes)
			bench_die("psb", "out of memory");
		for (size_t k = 0; k < trace.size; k++)
			trace.bytes[k] = (uint8_t)(bench_random(&seed) << 1);
		printf("%8.1f %10.1f %10.1f %10.1f %10.1f\n", (double)trace.size / 1e6,
		       speed(find_first, &trace), speed(find_last, &trace),
		       speed(bench_libipt_find_psb, &trace), speed(find_byte, &trace));
		free(trace.bytes);
	}
	return 0;
}
