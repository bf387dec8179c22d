/* SPDX-License-Identifier: MIT */
/*
 * Puts TSC, TMA, CBR, MTC and CYC packets between the packets of a trace that
 * has none, at random settings of the clock (src/model/retime.h).
 */
#include "timed_trace.h"

#include "model/retime.h"

#include <stdlib.h>

/* MTC or CYC or both, thresholds, and a crystal frequency. */
static struct ptah_clock timed_clock(unsigned seed)
{
	struct ptah_clock clock = {.tsc_en = true,
				   .mtc_en = seed % 5 != 1,
				   .cyc_en = seed % 5 != 2,
				   .mtc_freq = (uint8_t)(seed % 4 * 3),
				   .cyc_thresh = (uint8_t)(seed % 3 == 2 ? 4 : 0),
				   .nominal_ratio = 30,
				   .ratio = 36,
				   .n = seed & 1 ? 250 : 84,
				   .d = seed & 1 ? 2 : 1,
				   .tsc = UINT64_C(1) << (seed % 3 * 28)};

	clock_init(&clock);
	return clock;
}

static struct ptah_event_config timed_config(const struct ptah_clock *clock)
{
	return (struct ptah_event_config){.size = sizeof(struct ptah_event_config),
					  .trace.mtc_period = clock->mtc_freq,
					  .nominal_ratio = clock->nominal_ratio,
					  .tsc_n = clock->n,
					  .tsc_d = clock->d,
					  .trace.cyc_threshold = clock->cyc_thresh};
}

/* Sometimes, between two packets: another frequency, or a sleep. */
static void timed_incident(struct ptah_retimer *t)
{
	switch (t->in_header || t->bound ? 99 : retime_random(t) % 100) {
	case 0:
		clock_set_ratio(&t->clock, &t->g, (uint8_t)(8 + retime_random(t) % 40));
		break;
	case 1:
		clock_sleep(&t->clock, &t->g, retime_random(t) % 10000);
		break;
	default:
		break;
	}
}

uint8_t *timed_new(const uint8_t *trace, size_t size, unsigned seed, size_t *n,
		   struct ptah_flow_config *config)
{
	struct ptah_retimer t = {.clock = timed_clock(seed), .seed = seed};
	const size_t room = 64 * size + (1u << 20);
	uint8_t *const bytes = malloc(room);
	unsigned block = PTAH_BLOCK_NONE;
	struct ptah_packet packet;
	size_t at = 0;
	int length;

	config->events = timed_config(&t.clock);
	t.g.out = bytes;
	for (; bytes && at < size; at += (size_t)length) {
		length = ptah_packet_decode(&packet, trace + at, size - at, block);
		if (length <= 0 ||
		    room - (size_t)(t.g.out - bytes) < retime_room(&t, &packet) + 4 * CLOCK_BURST)
			break;
		block = ptah_packet_block_state(&packet, block);
		retime_packet(&t, &packet, trace + at);
		timed_incident(&t);
	}
	*n = (size_t)(t.g.out - bytes);
	if (at == size)
		return bytes;
	free(bytes);
	return NULL;
}
