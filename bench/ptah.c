/* SPDX-License-Identifier: MIT */
/* The loops with Ptah, through the public API, as a user would write them. */
#include "bench.h"

#include <ptah/ptah.h>

struct bench_result bench_ptah_packets(const struct bench_trace *trace, size_t size)
{
	static struct ptah_packet_record records[1024];
	const uint8_t *end = trace->bytes + size;
	struct ptah_packet_cursor cursor = {trace->bytes, end, PTAH_BLOCK_NONE};
	struct bench_result result = {0};
	int n = 0;

	while ((cursor.next = ptah_packet_find_psb(cursor.next, end))) {
		cursor.block = PTAH_BLOCK_NONE;
		while ((n = ptah_packet_decode_batch(&cursor, records, 1024)) > 0) {
			result.count += (uint64_t)n;
			for (int i = 0; i < n; i++)
				result.sum += records[i].size + records[i].payload;
		}
		if (n == PTAH_E_MORE)
			break;
		result.errors++;
		cursor.next++;
	}
	return result;
}

/* The payload of a packet, in the form of a record, for the packets that libipt knows. */
static uint64_t payload_of(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		return packet->u.tnt.bits;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		return packet->u.ip.ip;
	case PTAH_PACKET_CYC:
		return packet->u.cyc.cycles;
	case PTAH_PACKET_MTC:
		return packet->u.mtc.ctc;
	case PTAH_PACKET_TSC:
		return packet->u.tsc.tsc;
	case PTAH_PACKET_TMA:
		return packet->u.tma.ctc | (uint64_t)packet->u.tma.fc << 16;
	case PTAH_PACKET_CBR:
		return packet->u.cbr.ratio;
	case PTAH_PACKET_PIP:
		return packet->u.pip.cr3;
	case PTAH_PACKET_VMCS:
		return packet->u.vmcs.base;
	case PTAH_PACKET_PTW:
		return packet->u.ptw.payload;
	case PTAH_PACKET_MODE_TSX:
		return packet->u.tsx.in_tx | (uint64_t)packet->u.tsx.aborted << 1;
	default:
		return 0;
	}
}

/* The plain decoder. */
struct bench_result bench_ptah_single(const struct bench_trace *trace, size_t size)
{
	const uint8_t *p = trace->bytes, *end = p + size;
	struct bench_result result = {0};
	struct ptah_packet packet;
	unsigned block;
	int n = 0;

	while ((p = ptah_packet_find_psb(p, end))) {
		block = PTAH_BLOCK_NONE;
		while ((n = ptah_packet_decode(&packet, p, (size_t)(end - p), block)) > 0) {
			block = ptah_packet_block_state(&packet, block);
			result.count++;
			result.sum += packet.size + payload_of(&packet);
			p += n;
		}
		if (n == PTAH_E_MORE)
			break;
		result.errors++;
		p++;
	}
	return result;
}

/* Who reads blocks or instructions wants no events, who reads items or spans wants all. */
enum events {
	WITH_EVENTS,
	WITHOUT_EVENTS
};

static struct ptah_flow *start(const struct bench_trace *trace, size_t size, enum events events)
{
	struct ptah_flow_config config = trace->flow;
	struct ptah_flow *flow;

	config.size = sizeof(config);
	config.no_events = events == WITHOUT_EVENTS;
	if (ptah_flow_new(trace->image, &config, &flow) < 0 ||
	    ptah_flow_feed(flow, trace->bytes, size, true) < 0)
		bench_die(trace->label, "cannot be decoded");
	return flow;
}

/* Each item is read, as a user would. */
volatile uint64_t bench_seen;

/* With times and addresses. */
static struct bench_result count_items(struct ptah_flow *flow)
{
	struct bench_result result = {0};
	struct ptah_item items[256];
	uint64_t seen = 0;
	int n;

	while ((n = ptah_flow_read(flow, items, 256)) > 0) {
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK) {
				result.count += items[i].ninsn;
				seen += items[i].ip ^ items[i].end;
			} else {
				result.errors += items[i].type == PTAH_ITEM_ERROR;
			}
		}
	}
	bench_seen = seen;
	return result;
}

/* Address, size, number of instructions. */
static struct bench_result count_blocks(struct ptah_flow *flow)
{
	struct bench_result result = {0};
	struct ptah_block blocks[512];
	struct ptah_item item;
	uint64_t seen = 0;
	int n;

	do {
		while ((n = ptah_flow_read_blocks(flow, blocks, 512)) > 0) {
			for (int i = 0; i < n; i++) {
				result.count += blocks[i].ninsn;
				seen += blocks[i].ip ^ blocks[i].size;
			}
		}
		n = ptah_flow_read(flow, &item, 1);
		result.errors += n > 0 && item.type == PTAH_ITEM_ERROR;
	} while (n > 0);
	bench_seen = seen;
	return result;
}

/* Calls, returns and the like, with how many instructions ran between them, and times. */
static struct bench_result count_spans(struct ptah_flow *flow)
{
	struct bench_result result = {0};
	struct ptah_span spans[512];
	struct ptah_item item;
	uint64_t seen = 0;
	int n;

	do {
		while ((n = ptah_flow_read_spans(flow, spans, 512)) > 0) {
			for (int i = 0; i < n; i++) {
				result.count += spans[i].ninsn;
				seen += spans[i].ip ^ spans[i].to;
			}
		}
		n = ptah_flow_read(flow, &item, 1);
		result.errors += n > 0 && item.type == PTAH_ITEM_ERROR;
	} while (n > 0);
	bench_seen = seen;
	return result;
}

struct bench_result bench_ptah_spans(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size, WITH_EVENTS);
	struct bench_result result = count_spans(flow);

	ptah_flow_free(flow);
	return result;
}

struct bench_result bench_ptah_items(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size, WITH_EVENTS);
	struct bench_result result = count_items(flow);

	ptah_flow_free(flow);
	return result;
}

/* The same with the events, as libipt's block decoder reports them as well. */
struct bench_result bench_ptah_events(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size, WITH_EVENTS);
	struct bench_result result = count_blocks(flow);

	ptah_flow_free(flow);
	return result;
}

struct bench_result bench_ptah_blocks(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size, WITHOUT_EVENTS);
	struct bench_result result = count_blocks(flow);

	ptah_flow_free(flow);
	return result;
}

static struct ptah_flow *warm_flows[2]; /* by enum events */

/* From the beginning again, with the code that an earlier pass has decoded. */
static struct ptah_flow *start_warm(const struct bench_trace *trace, size_t size,
				    enum events events)
{
	struct ptah_flow **warm = &warm_flows[events];

	if (!*warm) {
		*warm = start(trace, size, events);
		count_blocks(*warm);
	}
	ptah_flow_seek(*warm, 0);
	if (ptah_flow_feed(*warm, trace->bytes, size, true) < 0)
		bench_die(trace->label, "cannot be decoded again");
	return *warm;
}

struct bench_result bench_ptah_items_warm(const struct bench_trace *trace, size_t size)
{
	return count_items(start_warm(trace, size, WITH_EVENTS));
}

struct bench_result bench_ptah_spans_warm(const struct bench_trace *trace, size_t size)
{
	return count_spans(start_warm(trace, size, WITH_EVENTS));
}

struct bench_result bench_ptah_events_warm(const struct bench_trace *trace, size_t size)
{
	return count_blocks(start_warm(trace, size, WITH_EVENTS));
}

struct bench_result bench_ptah_blocks_warm(const struct bench_trace *trace, size_t size)
{
	return count_blocks(start_warm(trace, size, WITHOUT_EVENTS));
}

/* Makes exact counts of everything, and reads them once. */

static struct ptah_profile *new_profile(const struct bench_trace *trace)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .flow = trace->flow};
	struct ptah_profile *profile;

	if (ptah_profile_new(trace->image, &config, &profile) < 0)
		bench_die(trace->label, "cannot be counted");
	return profile;
}

static struct bench_result count(struct ptah_profile *profile, const struct bench_trace *trace,
				 size_t size)
{
	struct ptah_profile_totals totals;

	if (ptah_profile_feed(profile, trace->bytes, size, true) < 0 ||
	    ptah_profile_totals(profile, &totals) < 0)
		bench_die(trace->label, "cannot be counted");
	return (struct bench_result){.count = totals.instructions, .errors = totals.errors};
}

struct bench_result bench_ptah_counts(const struct bench_trace *trace, size_t size)
{
	struct ptah_profile *profile = new_profile(trace);
	struct bench_result result = count(profile, trace, size);

	ptah_profile_free(profile);
	return result;
}

static struct ptah_profile *warm_profile;

struct bench_result bench_ptah_counts_warm(const struct bench_trace *trace, size_t size)
{
	if (!warm_profile) {
		warm_profile = new_profile(trace);
		count(warm_profile, trace, size);
	}
	ptah_profile_seek(warm_profile, 0);
	ptah_profile_reset(warm_profile);
	return count(warm_profile, trace, size);
}

/* Coverage: one execution after another */

static struct ptah_coverage *new_coverage(const struct bench_trace *trace)
{
	const struct ptah_coverage_config config = {.size = sizeof(config), .flow = trace->flow};
	struct ptah_coverage *coverage;

	if (ptah_coverage_new(trace->image, &config, &coverage) < 0)
		bench_die(trace->label, "cannot be covered");
	return coverage;
}

static struct bench_result cover(struct ptah_coverage *coverage, const struct bench_trace *trace,
				 size_t size)
{
	struct ptah_coverage_result result;

	if (ptah_coverage_run(coverage, trace->bytes, size, &result) < 0)
		bench_die(trace->label, "cannot be covered");
	return (struct bench_result){.count = result.entries, .errors = result.errors};
}

struct bench_result bench_ptah_coverage(const struct bench_trace *trace, size_t size)
{
	struct ptah_coverage *coverage = new_coverage(trace);
	struct bench_result result = cover(coverage, trace, size);

	ptah_coverage_free(coverage);
	return result;
}

struct bench_result bench_ptah_coverage_first(const struct bench_trace *trace, size_t size)
{
	double clock = bench_cpu_seconds();
	struct ptah_coverage *coverage = new_coverage(trace);
	struct bench_result result;

	bench_leave_out(clock);
	result = cover(coverage, trace, size);
	clock = bench_cpu_seconds();
	ptah_coverage_free(coverage);
	bench_leave_out(clock);
	return result;
}

static struct ptah_coverage *warm_coverage;

struct bench_result bench_ptah_coverage_warm(const struct bench_trace *trace, size_t size)
{
	if (!warm_coverage)
		warm_coverage = new_coverage(trace);
	return cover(warm_coverage, trace, size);
}

void bench_ptah_cool(void)
{
	ptah_coverage_free(warm_coverage);
	warm_coverage = NULL;
	for (unsigned i = 0; i < 2; i++) {
		ptah_flow_free(warm_flows[i]);
		warm_flows[i] = NULL;
	}
	ptah_profile_free(warm_profile);
	warm_profile = NULL;
}

/* Instruction by instruction; each is read. */
static struct bench_result count_insns(struct ptah_flow *flow, bool hash)
{
	struct bench_result result = {0};
	struct ptah_step steps[1024];
	unsigned classes[PTAH_INSN_CLASS_MAX];
	struct ptah_item item;
	int n;

	for (unsigned i = 0; i < PTAH_INSN_CLASS_MAX; i++)
		classes[i] = bench_libipt_class(i);
	do {
		while ((n = ptah_flow_read_steps(flow, steps, 1024)) > 0) {
			for (int i = 0; i < n; i++)
				result.sum = bench_add_insn(result.sum, steps[i].ip, steps[i].size);
			for (int i = 0; hash && i < n; i++)
				result.hash =
				    bench_hash_insn(result.hash, steps[i].ip, steps[i].size,
						    classes[steps[i].insn_class]);
			result.count += (uint64_t)n;
		}
		n = ptah_flow_read(flow, &item, 1);
		result.errors += n > 0 && item.type == PTAH_ITEM_ERROR;
	} while (n > 0);
	return result;
}

struct bench_result bench_ptah_insns(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size, WITHOUT_EVENTS);
	struct bench_result result = count_insns(flow, false);

	ptah_flow_free(flow);
	return result;
}

struct bench_result bench_ptah_insn_hash(const struct bench_trace *trace, size_t size)
{
	struct ptah_flow *flow = start(trace, size, WITHOUT_EVENTS);
	struct bench_result result = count_insns(flow, true);

	ptah_flow_free(flow);
	return result;
}

struct bench_result bench_ptah_insns_warm(const struct bench_trace *trace, size_t size)
{
	return count_insns(start_warm(trace, size, WITHOUT_EVENTS), false);
}
