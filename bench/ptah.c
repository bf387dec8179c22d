/* SPDX-License-Identifier: MIT */
/* Ptah's side: through the public API, as a user would. */
#include "bench.h"

struct bench_result bench_ptah_packets(const struct bench_trace *trace, size_t size)
{
	const uint8_t *end = trace->bytes + size;
	const uint8_t *p = ptah_packet_find_psb(trace->bytes, end);
	struct bench_result result = {0, 0};
	struct ptah_packet packet;
	unsigned block = 0;

	while (p && p < end) {
		int n = ptah_packet_decode(&packet, p, (size_t)(end - p), block);

		if (n < 0) {
			result.errors++;
			p = ptah_packet_find_psb(p + 1, end);
			continue;
		}
		block = ptah_packet_block_state(&packet, block);
		result.count++;
		p += n;
	}
	return result;
}

static struct ptah_flow *start(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow;

	if (ptah_flow_new(trace->image, NULL, &flow) < 0 ||
	    ptah_flow_feed(flow, trace->bytes, size, true) < 0)
		bench_die(trace->label, "cannot be decoded");
	return flow;
}

struct bench_result bench_ptah_blocks(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size);
	struct bench_result result = {0, 0};
	struct ptah_item items[256];
	int n;

	while ((n = ptah_flow_read(flow, items, 256)) > 0) {
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK)
				result.count += items[i].ninsn;
			else
				result.errors += items[i].type == PTAH_ITEM_ERROR;
		}
	}
	ptah_flow_free(flow);
	return result;
}

struct bench_result bench_ptah_insns(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size);
	struct bench_result result = {0, 0};
	static struct ptah_insn insns[65536];
	struct ptah_item items[256];
	int n, k;

	while ((n = ptah_flow_read(flow, items, 256)) > 0) {
		for (int i = 0; i < n; i++) {
			result.errors += items[i].type == PTAH_ITEM_ERROR;
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			k = ptah_flow_insns(flow, &items[i], insns, 65536);
			result.count += k > 0 ? (uint64_t)k : 0;
		}
	}
	ptah_flow_free(flow);
	return result;
}
