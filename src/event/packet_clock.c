/* SPDX-License-Identifier: MIT */
/* The public clock (event.h): hands each packet to the estimate of time.h. */
#include "event/time.h"

#include <ptah/event.h>

#include <stdlib.h>

struct ptah_packet_clock {
	struct event_time begin; /* as configured, before any packet */
	struct event_time time;
	uint32_t ratio; /* of the last CBR */
};

int ptah_packet_clock_new(const struct ptah_event_config *config, struct ptah_packet_clock **clock)
{
	static const struct ptah_event_config unknown = {.size = sizeof(unknown)};
	struct ptah_packet_clock *c;

	if (!clock)
		return PTAH_E_INVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	event_time_configure(&c->begin, config ? config : &unknown);
	ptah_packet_clock_reset(c);
	*clock = c;
	return 0;
}

void ptah_packet_clock_free(struct ptah_packet_clock *c)
{
	free(c);
}

void ptah_packet_clock_reset(struct ptah_packet_clock *c)
{
	c->time = c->begin;
	c->ratio = 0;
}

static void move_packet_clock(struct ptah_packet_clock *c, const struct ptah_packet *packet)
{
	struct event_time *t = &c->time;

	switch (packet->type) {
	case PTAH_PACKET_TSC:
		event_time_tsc(t, packet->u.tsc.tsc);
		break;
	case PTAH_PACKET_TMA:
		event_time_tma(t, packet->u.tma.ctc, packet->u.tma.fc);
		break;
	case PTAH_PACKET_MTC:
		event_time_mtc(t, packet->u.mtc.ctc);
		break;
	case PTAH_PACKET_CYC:
		event_time_cyc(t, packet->u.cyc.cycles);
		break;
	case PTAH_PACKET_CBR:
		c->ratio = packet->u.cbr.ratio;
		event_time_cbr(t, packet->u.cbr.ratio);
		break;
	case PTAH_PACKET_PSB:
		event_time_psb(t);
		break;
	case PTAH_PACKET_OVF:
		event_time_overflow(t);
		break;
	default:
		break;
	}
}

void ptah_packet_clock_feed(struct ptah_packet_clock *c, const struct ptah_packet *packet,
			    struct ptah_time *time)
{
	if (packet)
		move_packet_clock(c, packet);
	else
		event_time_overflow(&c->time);
	if (time)
		*time = (struct ptah_time){
		    .tsc = c->time.now,
		    .error = event_time_bound(&c->time),
		    .cycles = c->time.total_cycles,
		    .ratio = c->ratio,
		};
}
