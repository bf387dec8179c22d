/* SPDX-License-Identifier: MIT */
/*
 * Coverage for a fuzzer: decodes one short trace after another and prints how much
 * each of them ran that none had run before. The traces are encoded here; a fuzzer
 * gets them from a recorder or the processor.
 */
#include <ptah/packet.h>
#include <ptah/profile.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t code[] = {
    0x84, 0xc0, /* 401000: test al, al */
    0x75, 0x03, /* 401002: jnz 401007 */
    0xff, 0xc1, /* 401004: inc ecx */
    0x90,	/* 401006: nop */
    0xff, 0xca, /* 401007: dec edx */
    0x75, 0xf5, /* 401009: jnz 401000 */
    0x0f, 0x05, /* 40100b: syscall */
};

static void put(uint8_t *trace, size_t *n, struct ptah_packet packet)
{
	*n += (size_t)ptah_packet_encode(&packet, trace + *n, 64 - *n);
}

/* One execution, given by its branch outcomes, the first in the highest of `count` bits. */
static void run(struct ptah_coverage *coverage, unsigned count, uint64_t bits)
{
	struct ptah_coverage_result result;
	uint64_t last_ip = 0, ip;
	uint8_t trace[64];
	size_t n = 0;
	unsigned ipc = ptah_packet_compress_ip(&last_ip, 0x401000, &ip);

	put(trace, &n, (struct ptah_packet){.type = PTAH_PACKET_PSB});
	put(trace, &n,
	    (struct ptah_packet){.type = PTAH_PACKET_MODE_EXEC, .u.exec.mode = PTAH_EXEC_64});
	put(trace, &n, (struct ptah_packet){.type = PTAH_PACKET_PSBEND});
	put(trace, &n,
	    (struct ptah_packet){.type = PTAH_PACKET_TIP_PGE, .u.ip = {(uint8_t)ipc, ip}});
	put(trace, &n,
	    (struct ptah_packet){.type = PTAH_PACKET_TNT_8, .u.tnt = {(uint8_t)count, bits}});
	put(trace, &n, (struct ptah_packet){.type = PTAH_PACKET_TIP_PGD});
	if (ptah_coverage_run(coverage, trace, n, &result) < 0)
		exit(1);
	printf("%zu new edges, %zu new blocks, %zu entries, %" PRIu64 " errors\n", result.new_edges,
	       result.new_blocks, result.entries, result.errors);
}

int main(void)
{
	struct ptah_profile_edge *edges;
	struct ptah_coverage *coverage;
	struct ptah_image *image;
	size_t n;

	if (ptah_image_new(&image) < 0 ||
	    ptah_image_add_bytes(image, code, sizeof(code), 0x401000, NULL) < 0 ||
	    ptah_coverage_new(image, NULL, &coverage) < 0)
		return 1;
	run(coverage, 2, 2);  /* al is not 0; one round of the loop */
	run(coverage, 4, 14); /* two rounds: the same branch, another outcome */
	run(coverage, 4, 14);
	run(coverage, 2, 0); /* al is 0 */
	if (ptah_profile_edges(ptah_coverage_profile(coverage), &edges, &n) < 0)
		return 1;
	for (size_t i = 0; i < n; i++)
		printf("%" PRIx64 " -> %" PRIx64 " %" PRIu64 "\n", edges[i].from, edges[i].to,
		       edges[i].count);
	free(edges);
	ptah_coverage_free(coverage);
	ptah_image_free(image);
	return 0;
}
