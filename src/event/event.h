/* SPDX-License-Identifier: MIT */
/*
 * The event decoder's inside, for its own files and for flow/: the struct, so
 * that the common packets can be taken inline, and the one-item reader.
 */
#ifndef PTAH_EVENT_EVENT_H
#define PTAH_EVENT_EVENT_H

#include "base/compiler.h"
#include "event/time.h"
#include "packet/ip.h"
#include "packet/opcode.h"

#include <ptah/errata.h>
#include <ptah/event.h>

/* Bytes kept from one chunk to the next: more than a PSB and what settles it. */
#define EVENT_CARRY 128

/* Events that may wait for one FUP. Hardware sends two at most. */
#define EVENT_BOUND 4

/* More than one packet can lead to: a TIP.PGE that settles a PSB+ (error, PSB, its states, each of
 * which may be two), releases what waited and is an error itself. */
#define EVENT_QUEUE 64

/* Packets of a PSB+ that say something, where each is told. Hardware sends half as many. */
#define EVENT_STATES 16

enum event_phase {
	EVENT_UNSYNCED = 0, /* looking for a PSB */
	EVENT_HEADER,	    /* between PSB and PSBEND */
	EVENT_SETTLE,	    /* behind a PSBEND: is its FUP true? (erratum BDM70) */
	EVENT_OVERFLOW,	    /* behind OVF, until an IP says where execution goes on */
	EVENT_DOUBT,	    /* behind OVF and a FUP: is it true? (erratum APL12) */
	EVENT_RUN,
	EVENT_DONE, /* the trace has ended */
};

/* RFLAGS.IF as MODE.Exec tells it. */
enum event_iflag {
	EVENT_IF_CLEAR = 0,
	EVENT_IF_SET = 1,
	EVENT_IF_UNKNOWN,
};

/* What the packets of a PSB+ said. */
struct event_header {
	uint64_t offset;
	uint64_t ip;
	bool has_ip;
	bool overflow; /* this PSB+ came between OVF and the address it waits for */
	bool doubt;    /* and that address is in doubt */
	bool has_tsx, in_tx;
};

/* Packets behind a PSB+, or a FUP in doubt, that are held back until it is settled. */
struct event_held {
	struct ptah_packet packet;
	uint64_t offset;
};

#define EVENT_HELD 8

/* Events that wait for an address. */
struct event_waiting {
	unsigned count;
	struct ptah_item items[EVENT_BOUND];
};

struct ptah_event_decoder {
	/* Input: a window, which is the caller's chunk or our carry. */
	const uint8_t *pos, *end;
	uint64_t end_offset;  /* stream offset of `end` */
	uint64_t start;	      /* stream offset of the first byte */
	const uint8_t *chunk; /* the caller's bytes behind the carry, while that is the window */
	size_t chunk_size;
	size_t carry_old; /* carry bytes that are not in the chunk */
	bool in_carry;
	bool last;

	/* True when nothing is pending: TNT and TIP mean just themselves. */
	bool plain;
	uint8_t phase;
	bool synced; /* a PSB has been seen */
	bool enabled;
	bool enabled_known;
	uint8_t mode;
	uint8_t iflag;	   /* enum event_iflag */
	uint8_t block;	   /* enum ptah_packet_block */
	uint8_t tsc_error; /* of `tsc`, as in struct ptah_item */
	uint64_t last_ip;
	uint64_t tsc; /* estimate: time.now, kept where the fast paths look */
	struct event_time time;
	struct ptah_event_config config;

	/*
	 * Pending: a FUP that waits for its TIP; events that wait for the next
	 * FUP (`bound`), or for the FUP of the branch they come with, if it has
	 * one (`follow`); an MWAIT that waits for its EXSTOP; changes that wait
	 * for the branch they belong to; data of an event that is to come (EVD).
	 */
	bool has_fup, has_mwait, has_mode, has_paging, has_vmcs;
	uint64_t fup_ip, fup_offset, fup_tsc;
	struct event_waiting bound, follow;
	struct ptah_item mwait, pending_mode, paging, vmcs;
	struct ptah_item data; /* fields and `detail` bits from EVD; 0: none */
	struct event_header header;
	unsigned state_count;
	unsigned held_count;
	uint64_t overflow_offset, overflow_tsc, sync_offset;
	int64_t skip; /* bytes that the caller's callback wants skipped */

	uint8_t ratio;
	bool in_tx;

	unsigned queue_first, queue_count;

	/* Seldom in use, and at the end, so that event_save() can leave them out. */
	struct event_held held[EVENT_HELD];
	struct ptah_item states[EVENT_STATES]; /* of this PSB+, for `unchanged` */
	struct ptah_item queue[EVENT_QUEUE];
	uint8_t carry[EVENT_CARRY];
};

/*
 * A copy of the decoder, to go back to: only for this one, and while the chunk
 * that was fed last is as it was. save.c
 */
void event_save(const struct ptah_event_decoder *d, struct ptah_event_decoder *copy);
void event_restore(struct ptah_event_decoder *d, const struct ptah_event_decoder *copy);

/* The stream offset of a place in the window. */
static inline uint64_t event_offset(const struct ptah_event_decoder *d, const uint8_t *p)
{
	return d->end_offset - (uint64_t)(d->end - p);
}

static inline bool event_has_erratum(const struct ptah_event_decoder *d, enum ptah_erratum erratum)
{
	return d->config.errata >> erratum & 1;
}

/* The next item. 1, or 0 when more bytes are needed or the trace has ended. */
int event_next(struct ptah_event_decoder *d, struct ptah_item *item);

/*
 * CYC packets for those who ask for no time between two other packets: added
 * up, and told to the clocks when somebody looks. SDM "Cycle Count (CYC)
 * Packet".
 */
struct event_cycles {
	uint64_t sum;  /* not told yet */
	uint64_t room; /* stays above the sum */
	bool any;      /* even a CYC of 0 cycles is one */
};

/* A CYC of so many cycles, if there was `any`. The room until somebody must look again. */
uint64_t event_tell_cycles(struct ptah_event_decoder *d, uint64_t cycles, bool any, uint64_t limit);

/* Tells them and begins anew. The decoder's time stays below `limit` until the room is used. */
static ALWAYS_INLINE void event_settle_cycles(struct ptah_event_decoder *d, struct event_cycles *c,
					      uint64_t limit)
{
	/* One by one, and all back in one register: `c` is none that has an address. */
	c->room = event_tell_cycles(d, c->sum, c->any, limit);
	c->sum = 0;
	c->any = false;
}

/*
 * Takes the packet at `pos`, after those cycles, if it is one of TSC, TMA, MTC
 * and CYC, whole in the window, and means nothing but time; the decoder's
 * position is behind it. Only while `plain`. False when it is none of these, or
 * the limit has come. Adds none itself.
 */
bool event_take_clock_at(struct ptah_event_decoder *d, const uint8_t *pos, struct event_cycles c,
			 uint64_t limit);

/*
 * Adds the CYC at `pos` (2 bytes can be read). Its size, or 0: it is too long, or
 * there is no room for it, and event_take_clock_at() is to take it.
 */
static ALWAYS_INLINE unsigned event_add_cyc(struct event_cycles *c, const uint8_t *pos)
{
	const unsigned word = load_le16(pos);
	uint64_t sum = c->sum + (word >> 3 & 0x1f);
	unsigned size = 1;

	if (word & CYC_MORE) {
		if (UNLIKELY(word >> 8 & CYC_MORE_STILL))
			return 0;
		sum += (uint64_t)(word >> 9) << 5;
		size = 2;
	}
	if (UNLIKELY(sum >= c->room))
		return 0;
	c->sum = sum;
	c->any = true;
	return size;
}

/* queue.c: items and what waits to become one. */

struct ptah_item *event_push(struct ptah_event_decoder *d, unsigned type, uint64_t offset);

/* Puts a prepared item behind the others, with the time and state of now. */
void event_push_pending(struct ptah_event_decoder *d, const struct ptah_item *pending, bool has_ip,
			uint64_t ip);

/* An error item. */
void event_push_error(struct ptah_event_decoder *d, int status, uint64_t offset);

/* No more is to come for now: what was held back or waited is told as it stands. */
void event_conclude(struct ptah_event_decoder *d);

/* Says what is wrong and looks for the next PSB. */
void event_fail(struct ptah_event_decoder *d, int status, uint64_t offset);

/* Changes that were waiting for the branch which has just been pushed. */
void event_release_changes(struct ptah_event_decoder *d, bool has_ip, uint64_t ip);

void event_wait(struct ptah_event_decoder *d, struct event_waiting *list,
		const struct ptah_item *item);

/* Everything on the list happened at `ip`. */
void event_deliver(struct ptah_event_decoder *d, struct event_waiting *list, bool has_ip,
		   uint64_t ip);

/* What waits for an address gets none. */
void event_give_up(struct ptah_event_decoder *d);

/* Packets were dropped or damaged: nothing that was pending can be completed. */
void event_forget_pending(struct ptah_event_decoder *d);

/* True while packets to come may complete something. */
static inline bool event_is_pending(const struct ptah_event_decoder *d)
{
	return d->has_fup || d->has_mwait || d->bound.count || d->follow.count || d->data.type;
}

/* take.c: what a packet means in the phase the decoder is in. */

void event_take(struct ptah_event_decoder *d, const struct ptah_packet *packet, uint64_t offset);
void event_take_in_run(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset);
void event_take_paging(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset, bool wait);
void event_take_vmcs(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset, bool wait);
void event_take_mode(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset);

/* The address of an IP packet; false when suppressed. */
static inline bool event_take_ip(struct ptah_event_decoder *d, const struct ptah_packet *packet,
				 uint64_t *ip)
{
	*ip = 0;
	return ptah_packet_ip(&d->last_ip, packet->u.ip.ipc, packet->u.ip.ip, ip);
}

/* The clocks have moved, or are lost. */
void event_set_time(struct ptah_event_decoder *d);

/* header.c: PSB+. */

void event_begin_header(struct ptah_event_decoder *d, uint64_t offset);
void event_take_in_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			  uint64_t offset);

/* Behind PSBEND, while its FUP is in question. False when the packet has been used. */
bool event_settle_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset);

/* Settled: its FUP is true or not. What was held back follows it. */
void event_settle(struct ptah_event_decoder *d, bool on);
void event_take_held(struct ptah_event_decoder *d);

/* The PSB+ is complete and believed; `on`: its FUP is true. */
void event_deliver_header(struct ptah_event_decoder *d, bool on);

/* The PSB+ is believed: whether a transaction is open from here on. */
void event_set_tsx(struct ptah_event_decoder *d);

/* An OVF cuts the PSB+: what it said until then, where each packet is told. */
void event_cut_header(struct ptah_event_decoder *d);

/* Keeps what a packet of a PSB+ says until the PSB item is told, for `unchanged`. */
void event_keep_state(struct ptah_event_decoder *d, const struct ptah_item *state);

/* overflow.c: OVF and what follows it. */

void event_take_overflow(struct ptah_event_decoder *d, uint64_t offset);
void event_take_in_overflow(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			    uint64_t offset);
/* True when the packet waits until the doubt is settled. */
bool event_hold_in_doubt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset);
void event_take_in_doubt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset);

/* The wait is over: execution goes on at `ip`, or tracing is off. */
void event_resume(struct ptah_event_decoder *d, bool on, uint64_t ip);

/* The FUP in doubt is believed. A MODE.Exec behind it goes with what is to come. */
void event_resume_at_fup(struct ptah_event_decoder *d);

/* extra.c: packets about other things than branches. False when the packet is none. */

bool event_take_extra(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset);

#endif
