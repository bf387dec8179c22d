/* SPDX-License-Identifier: MIT */
/*
 * Packet clock: the time at each packet, for programs that read packets.
 *
 * TSC, TMA, MTC, CYC and CBR packets together give an estimate of the TSC and a
 * bound on its error. The event decoder keeps such a clock by itself
 * (ptah_event_time()); this one is for callers that read packets, and feed it.
 *
 *	ptah_packet_clock_new(&config, &clock);
 *	while ((n = ptah_packet_decode(&packet, p, (size_t)(end - p), block)) > 0) {
 *		ptah_packet_clock_feed(clock, &packet);
 *		ptah_packet_clock_time(clock, &time);
 *		...
 *	}
 *	ptah_packet_clock_free(clock);
 *
 * A clock belongs to one thread at a time.
 */
#ifndef PTAH_PACKET_CLOCK_H
#define PTAH_PACKET_CLOCK_H

#include <ptah/event.h>
#include <ptah/packet.h>

PTAH_BEGIN_DECLS

struct ptah_packet_clock;

/*
 * Uses from `config` what MTC, CYC and CBR packets need to become time
 * (trace.mtc, trace.mtc_period, trace.cyc_threshold, tsc_n, tsc_d, nominal_ratio), and
 * erratum SKL168. NULL: nothing of that is known, and only TSC packets move the
 * clock.
 */
PTAH_API int ptah_packet_clock_new(const struct ptah_event_config *config,
				   struct ptah_packet_clock **clock);
PTAH_API void ptah_packet_clock_free(struct ptah_packet_clock *clock);

/* Forgets everything but the configuration; the next packet is the first of another stream. */
PTAH_API void ptah_packet_clock_reset(struct ptah_packet_clock *clock);

/* The next packet of the stream, of any type. */
PTAH_API void ptah_packet_clock_feed(struct ptah_packet_clock *clock,
				     const struct ptah_packet *packet);

/* Bytes were skipped because they are no packets: the error has no bound up to the next TSC. */
PTAH_API void ptah_packet_clock_lost(struct ptah_packet_clock *clock);

/* The time after the last packet. */
PTAH_API void ptah_packet_clock_time(const struct ptah_packet_clock *clock, struct ptah_time *time);

PTAH_END_DECLS

#endif
