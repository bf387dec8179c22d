/* SPDX-License-Identifier: MIT */
/*
 * A recording with the packets about time that a processor would have sent: TSC
 * and TMA in each PSB+, MTC as the crystal goes, CYC before branches. The
 * branches, and so the instructions, stay what they were.
 *
 * The rates are perf's for `intel_pt/cyc=1/`: mtc_period 3 and cyc_thresh 0,
 * which is a CYC before every packet that may have one and that does not come
 * in the same cycle as the one before.
 */
#include "bench.h"

#include "model/clock.h"

#include <stdlib.h>
#include <string.h>

/* A TSC of 3.0 GHz and a crystal of 24 MHz (CPUID.15H 250 / 2), the core at 3.6 GHz. */
static const struct ptah_clock machine = {
    .tsc_en = true,
    .mtc_en = true,
    .cyc_en = true,
    .mtc_freq = 3,
    .cyc_thresh = 0,
    .nominal = 30,
    .ratio = 36,
    .n = 250,
    .d = 2,
    .tsc = 1000000000,
};

struct timed {
	struct ptah_clock clock;
	struct ptah_generator g; /* for its `out` */
	uint8_t *bytes;
	size_t capacity;
	uint64_t seed;
	bool in_header; /* between PSB and PSBEND */
	bool bound;	/* the packet before and the next are one event */
};

/*
 * Core cycles since the packet before: one to three for a conditional branch and
 * what is around it, more for an indirect one; now and then a misprediction, and
 * seldom a miss of the caches.
 */
static uint64_t cycles_before(struct timed *t, const struct ptah_packet *packet)
{
	const uint64_t r = bench_random(&t->seed);
	uint64_t cycles;

	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		cycles = packet->u.tnt.count + r % (2 * packet->u.tnt.count + 1);
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		cycles = 2 + r % 8;
		break;
	case PTAH_PACKET_TIP_PGE: /* the system has run */
		return 500 + r % 4096;
	default:
		return 0;
	}
	cycles += r >> 16 & 15 ? 0 : 18;
	cycles += r >> 24 & 255 ? 0 : 40 + (r >> 32 & 255);
	return cycles;
}

/* Room for what comes before a packet, of so many cycles, and for the packet. */
static void make_room(struct timed *t, uint64_t cycles)
{
	const size_t used = (size_t)(t->g.out - t->bytes);
	const size_t wanted =
	    (size_t)(clock_mtcs_due(&t->clock, cycles) + 4) * CLOCK_BURST + PTAH_PACKET_MAX_SIZE;

	if (t->capacity - used >= wanted)
		return;
	t->capacity = 2 * t->capacity + wanted;
	t->bytes = realloc(t->bytes, t->capacity);
	if (!t->bytes)
		bench_die("timed", "out of memory");
	t->g.out = t->bytes + used;
}

/* SDM "Cycle Count (CYC) Packet": those that one may come before. */
static bool is_cyc_eligible(unsigned type)
{
	switch (type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_MODE_TSX:
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
	case PTAH_PACKET_OVF:
	case PTAH_PACKET_PTW:
	case PTAH_PACKET_EXSTOP:
		return true;
	default:
		return false;
	}
}

static bool is_about_time(unsigned type)
{
	return type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA || type == PTAH_PACKET_MTC ||
	       type == PTAH_PACKET_CYC || type == PTAH_PACKET_CBR;
}

static void copy(struct timed *t, const struct ptah_packet *packet, const uint8_t *bytes)
{
	memcpy(t->g.out, bytes, packet->size);
	t->g.out += packet->size;
}

static void take(struct timed *t, const struct ptah_packet *packet, const uint8_t *bytes)
{
	const bool passes = !t->in_header && !t->bound;
	const uint64_t cycles = passes ? cycles_before(t, packet) : 0;

	make_room(t, cycles);
	if (is_about_time(packet->type))
		return;
	if (cycles)
		clock_pass(&t->clock, &t->g, cycles);
	if (!t->in_header && is_cyc_eligible(packet->type))
		clock_packet(&t->clock, &t->g);
	copy(t, packet, bytes);
	if (packet->type == PTAH_PACKET_PSB) {
		clock_tell(&t->clock, &t->g);
		generator_cbr(&t->g, t->clock.ratio);
	}
	t->in_header =
	    packet->type == PTAH_PACKET_PSB || (t->in_header && packet->type != PTAH_PACKET_PSBEND);
	t->bound = packet->type == PTAH_PACKET_FUP || packet->type == PTAH_PACKET_MODE_EXEC ||
		   packet->type == PTAH_PACKET_MODE_TSX || packet->type == PTAH_PACKET_PIP ||
		   packet->type == PTAH_PACKET_VMCS;
	t->bound &= !t->in_header;
}

void bench_add_timing(struct bench_trace *trace)
{
	struct timed t = {.clock = machine, .seed = 88172645463325252};
	const uint8_t *p = ptah_packet_find_psb(trace->bytes, trace->bytes + trace->size);
	const uint8_t *const end = trace->bytes + trace->size;
	struct ptah_packet packet;
	unsigned block = PTAH_BLOCK_NONE;
	int n;

	clock_init(&t.clock);
	while (p && (n = ptah_packet_decode(&packet, p, (size_t)(end - p), block)) > 0) {
		block = ptah_packet_block_state(&packet, block);
		take(&t, &packet, p);
		p += n;
	}
	if (p != end)
		bench_die(trace->label, "no trace to put times into");
	free(trace->bytes);
	trace->bytes = t.bytes;
	trace->size = (size_t)(t.g.out - t.bytes);
	if (!trace->flow.size)
		trace->flow = (struct ptah_flow_config){.size = sizeof(trace->flow)};
	trace->flow.events.size = sizeof(trace->flow.events);
	trace->flow.events.mtc_freq = machine.mtc_freq;
	trace->flow.events.nominal_ratio = machine.nominal;
	trace->flow.events.tsc_ctc_n = machine.n;
	trace->flow.events.tsc_ctc_d = machine.d;
	trace->flow.events.cyc_thresh = machine.cyc_thresh;
}
