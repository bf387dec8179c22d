/* SPDX-License-Identifier: MIT */
/*
 * A packet clock that is fed with every packet of a trace has, at the end, the time of the
 * event decoder's clock, which test_clock.c compares with the truth.
 */
#include "random_clock.h"
#include "event/event.h"

#include <ptah/event.h>
#include <ptah/packet.h>

static void time_of_events(const struct run *r, struct ptah_time *time)
{
	const struct ptah_event_config config = config_of(r);
	struct ptah_event_decoder *d;
	struct ptah_item items[64];

	assert_int_equal(ptah_event_decoder_new(&config, &d), 0);
	assert_int_equal(ptah_event_feed(d, r->trace, (size_t)(r->g.out - r->trace), true), 0);
	while (ptah_event_read(d, items, 64) > 0)
		;
	event_get_time(d, time);
	ptah_event_decoder_free(d);
}

static void time_of_packets(const struct run *r, struct ptah_packet_clock *clock,
			    struct ptah_time *time)
{
	const uint8_t *p = ptah_packet_find_psb(r->trace, r->g.out);
	struct ptah_packet packet;
	unsigned block = PTAH_BLOCK_NONE;
	int n;

	ptah_packet_clock_reset(clock);
	while (p < r->g.out &&
	       (n = ptah_packet_decode(&packet, p, (size_t)(r->g.out - p), block)) > 0) {
		block = ptah_packet_block_state(&packet, block);
		ptah_packet_clock_feed(clock, &packet, time);
		p += n;
	}
	assert_ptr_equal(p, r->g.out);
}

TEST(as_the_decoder)
{
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct run r = machine(seed);
		struct ptah_event_config config;
		struct ptah_packet_clock *clock;
		struct ptah_time events, packets;

		r.clock.mtc_en = seed & 1;
		r.clock.cyc_en = seed & 2;
		r.clock.mtc_freq = (uint8_t)(seed % 8);
		r.lossy = seed % 4 == 3;
		run_machine(&r);
		config = config_of(&r);
		assert_int_equal(ptah_packet_clock_new(&config, &clock), 0);
		time_of_events(&r, &events);
		for (int again = 0; again < 2; again++) {
			time_of_packets(&r, clock, &packets);
			assert_true(packets.tsc && packets.tsc == events.tsc);
			assert_true(packets.error == events.error);
			assert_true(packets.cycles == events.cycles);
			assert_int_equal(packets.ratio, events.ratio);
		}
		ptah_packet_clock_feed(clock, NULL, &packets);
		assert_true(packets.tsc >= events.tsc && packets.error == UINT64_MAX);
		ptah_packet_clock_free(clock);
		run_free(&r);
	}
}
