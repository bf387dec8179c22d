/* SPDX-License-Identifier: MIT */
/*
 * Adds to a recording the timing packets that a processor would have sent.
 *
 * The rates are those of perf's `intel_pt/cyc=1/`: mtc_period 3 and cyc_thresh
 * 0. The latter means a CYC before every packet that can have one, unless it is
 * in the same cycle as the packet before.
 */
#include "bench.h"

#include "model/retime.h"

#include <stdlib.h>

/* A TSC of 3.0 GHz and a crystal of 24 MHz (CPUID.15H 250 / 2), the core at 3.6 GHz. */
static const struct ptah_clock machine = {
    .tsc_en = true,
    .mtc_en = true,
    .cyc_en = true,
    .mtc_freq = 3,
    .cyc_thresh = 0,
    .nominal_ratio = 30,
    .ratio = 36,
    .n = 250,
    .d = 2,
    .tsc = 1000000000,
};

struct output {
	uint8_t *bytes;
	size_t capacity;
};

static void make_room(struct output *o, struct ptah_retimer *t, size_t wanted)
{
	const size_t used = o->bytes ? (size_t)(t->g.out - o->bytes) : 0;

	if (o->capacity - used >= wanted)
		return;
	o->capacity = 2 * o->capacity + wanted;
	o->bytes = realloc(o->bytes, o->capacity);
	if (!o->bytes)
		bench_die("timed", "out of memory");
	t->g.out = o->bytes + used;
}

/* The clock's parameters, for the decoders. */
static void configure(struct ptah_flow_config *flow)
{
	flow->size = sizeof(*flow);
	flow->events.size = sizeof(flow->events);
	flow->events.trace.mtc_period = machine.mtc_freq;
	flow->events.nominal_ratio = machine.nominal_ratio;
	flow->events.tsc_n = machine.n;
	flow->events.tsc_d = machine.d;
	flow->events.trace.cyc_threshold = machine.cyc_thresh;
}

void bench_add_timing(struct bench_trace *trace)
{
	struct ptah_retimer t = {.clock = machine, .seed = 88172645463325252};
	const uint8_t *const end = trace->bytes + trace->size;
	const uint8_t *p = ptah_packet_find_psb(trace->bytes, end);
	unsigned block = PTAH_BLOCK_NONE;
	struct output o = {NULL, 0};
	struct ptah_packet packet;
	int n;

	clock_init(&t.clock);
	while (p && (n = ptah_packet_decode(&packet, p, (size_t)(end - p), block)) > 0) {
		block = ptah_packet_block_state(&packet, block);
		make_room(&o, &t, retime_room(&t, &packet));
		retime_packet(&t, &packet, p);
		p += n;
	}
	if (p != end)
		bench_die(trace->label, "not a whole trace to put times into");
	free(trace->bytes);
	trace->bytes = o.bytes;
	trace->size = (size_t)(t.g.out - o.bytes);
	configure(&trace->flow);
}
