/* SPDX-License-Identifier: MIT */
/*
 * Tracing switched off and on, interrupts and PSB+ in a program that does little else, so that the
 * packets of each are remembered at each place: flows that remember return what a flow returns that
 * does not, and as many instructions as the simulated processor ran.
 */
#include "base/compiler.h"
#include "forms.h"
#include "model/generator.h"
#include "test.h"
#include "timed_trace.h"

#include <ptah/base.h>

#define BASE  UINT64_C(0x400000)
#define OUT   UINT64_C(0x7ffff7001000)
#define STEPS 6000
#define ROOM  (STEPS * 64)

static const uint8_t code[] = {
    [0x00] = 0x90, 0x90, 0x74, 0x06,	   /* nop; nop; je 0x0a */
    [0x04] = 0xe8, 0x17, 0,    0,    0,	   /* call 0x20 */
    [0x09] = 0x90, 0x90, 0xeb, 0x03,	   /* nop; nop; jmp 0x10 */
    [0x10] = 0x90, 0x75, 0xed, 0xff, 0xe0, /* nop; jne 0; jmp *rax */
    [0x20] = 0x90, 0x74, 0x01,		   /* nop; je 0x24 */
    [0x23] = 0x90, 0x90, 0xc3,		   /* nop; nop; ret */
};

static const uint8_t starts[] = {0x00, 0x01, 0x02, 0x04, 0x09, 0x0a, 0x0b, 0x10,
				 0x11, 0x13, 0x20, 0x21, 0x23, 0x24, 0x25};

struct walker {
	struct ptah_generator g;
	uint64_t seed, cr3;
	unsigned at; /* the next instruction's offset in the code */
	unsigned returns[64], depth;
	uint64_t instructions;
	bool event; /* one came before this instruction already */
	uint8_t *trace;
};

static unsigned pick(struct walker *w, unsigned n)
{
	w->seed = w->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(w->seed >> 33) % n;
}

static unsigned any_start(struct walker *w)
{
	return starts[pick(w, ARRAY_SIZE(starts))];
}

static void pads(struct walker *w)
{
	for (unsigned n = pick(w, 3) ? 0 : pick(w, 20); n; n--)
		*w->g.out++ = OPCODE_PAD;
}

static void psb(struct walker *w, bool on)
{
	generator_psb_begin(&w->g);
	pads(w);
	if (pick(w, 2))
		generator_mode_tsx(&w->g, false, false);
	if (on || pick(w, 2))
		generator_mode_exec(&w->g, 1);
	if (on)
		generator_ip_packet(&w->g, OPCODE_FUP, BASE + w->at);
	generator_pip(&w->g, w->cr3, false);
	generator_vmcs(&w->g, 0x5000);
	if (pick(w, 2))
		generator_cbr(&w->g, (uint8_t)(pick(w, 8) ? 20 : 21));
	generator_psbend(&w->g);
}

/* What may come while tracing is off, and then tracing is on again. */
static void off(struct walker *w)
{
	w->g.depth = 0;
	pads(w);
	while (!pick(w, 3)) {
		switch (pick(w, 4)) {
		case 0:
			psb(w, false);
			break;
		case 1:
			w->cr3 = (uint64_t)(1 + pick(w, 3)) << 12;
			generator_pip(&w->g, w->cr3, false);
			break;
		case 2:
			generator_cbr(&w->g, (uint8_t)(20 + pick(w, 2)));
			break;
		default:
			pads(w);
		}
	}
	if (!pick(w, 4))
		generator_mode_exec(&w->g, 1 | (pick(w, 2) ? 4 : 0));
	w->at = any_start(w);
	generator_enable(&w->g, BASE + w->at);
}

/* Something happens before the next instruction, or nothing. */
static void happen(struct walker *w)
{
	switch (pick(w, 40)) {
	case 0: /* an interrupt, to code that is not traced */
		generator_flush_tnt(&w->g);
		generator_ip_packet(&w->g, OPCODE_FUP, BASE + w->at);
		pads(w);
		if (pick(w, 2))
			*w->g.out++ = OPCODE_TIP_PGD;
		else
			generator_ip_packet(&w->g, OPCODE_TIP_PGD, OUT);
		off(w);
		break;
	case 1: /* an interrupt, to code that is */
		generator_flush_tnt(&w->g);
		generator_ip_packet(&w->g, OPCODE_FUP, BASE + w->at);
		pads(w);
		w->at = any_start(w);
		generator_ip_packet(&w->g, OPCODE_TIP, BASE + w->at);
		break;
	case 2:
		psb(w, true);
		break;
	default:
		break;
	}
}

/* A branch out of the address filter. */
static bool leaves(struct walker *w, uint64_t to)
{
	if (pick(w, 12))
		return false;
	generator_flush_tnt(&w->g);
	generator_ip_packet(&w->g, OPCODE_TIP_PGD, to);
	off(w);
	return true;
}

static void jump_if(struct walker *w, unsigned target, unsigned next)
{
	const bool taken = pick(w, 2);

	generator_tnt(&w->g, taken);
	w->at = taken ? target : next;
}

/* Runs one instruction. */
static void step(struct walker *w)
{
	unsigned to;

	w->instructions++;
	switch (w->at) {
	case 0x02:
		jump_if(w, 0x0a, 0x04);
		break;
	case 0x04:
		generator_call(&w->g, BASE + 9);
		w->returns[w->depth++ % ARRAY_SIZE(w->returns)] = 9;
		w->at = 0x20;
		break;
	case 0x0b:
		w->at = 0x10;
		break;
	case 0x11:
		jump_if(w, 0x00, 0x13);
		break;
	case 0x13:
		to = any_start(w);
		if (leaves(w, OUT + to))
			break;
		generator_tip(&w->g, BASE + to);
		w->at = to;
		break;
	case 0x21:
		jump_if(w, 0x24, 0x23);
		break;
	case 0x25:
		to = w->depth ? w->returns[--w->depth % ARRAY_SIZE(w->returns)] : any_start(w);
		if (leaves(w, OUT))
			break;
		generator_return(&w->g, BASE + to);
		w->at = to;
		break;
	default:
		w->at++;
		break;
	}
}

static size_t run(struct walker *w, unsigned seed)
{
	*w = (struct walker){.seed = seed, .cr3 = 0x1000, .trace = malloc(ROOM)};
	assert_non_null(w->trace);
	generator_init(&w->g, w->trace, seed & 1, seed & 2);
	psb(w, true);
	for (unsigned i = 0; i < STEPS; i++) {
		happen(w);
		step(w);
	}
	generator_flush_tnt(&w->g);
	generator_ip_packet(&w->g, OPCODE_FUP, BASE + w->at);
	*w->g.out++ = OPCODE_TIP_PGD;
	return (size_t)(w->g.out - w->trace);
}

/* What the simulated processor ran, and no error. */
static void count(const struct ptah_image *image, const struct walker *w, size_t size, bool quiet)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .no_events = quiet};
	struct ptah_block blocks[300];
	struct ptah_flow *flow;

	assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
	for (unsigned pass = 0; pass < 3; pass++) {
		uint64_t instructions = 0;
		struct ptah_item item;
		int n;

		ptah_flow_seek(flow, 0);
		assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
		do {
			while ((n = ptah_flow_read_blocks(flow, blocks, 300)) > 0)
				for (int i = 0; i < n; i++)
					instructions += blocks[i].ninsn;
			n = ptah_flow_read(flow, &item, 1);
			assert_true(n <= 0 || (!quiet && item.type != PTAH_ITEM_ERROR));
		} while (n > 0);
		assert_int_equal(instructions, w->instructions);
	}
	ptah_flow_free(flow);
}

TEST(switching)
{
	static const size_t chunks[] = {0, 100, 1000}, capacities[] = {300, 64, 7, 1, 129};
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, sizeof(code), BASE, NULL), 0);
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct ptah_flow_config config = {.size = sizeof(config)};
		struct walker w;
		size_t size = run(&w, seed);

		count(image, &w, size, false);
		count(image, &w, size, true);
		config.events.unchanged = seed % 5 == 0;
		config.events.errata = seed % 7 == 0 ? (1u << PTAH_ERRATUM_MAX) - 1 : 0;
		config.events.trace.event_trace = seed % 3 == 0;
		if (seed % 4 == 0) {
			uint8_t *timed = timed_new(w.trace, size, seed, &size, &config);

			assert_non_null(timed);
			free(w.trace);
			w.trace = timed;
		}
		assert_true(forms_equal(image, &config, w.trace, size, chunks[seed % 3],
					capacities[seed % 5]));
		free(w.trace);
	}
	ptah_image_free(image);
}
