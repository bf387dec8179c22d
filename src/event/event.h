/* SPDX-License-Identifier: MIT */
/*
 * The inside of the event decoder, for its own files and for the flow: its state, so
 * that the flow can take the most frequent packets inline, and the functions that the
 * files share.
 */
#ifndef PTAH_EVENT_EVENT_H
#define PTAH_EVENT_EVENT_H

#include "base/compiler.h"
#include "event/time.h"
#include "packet/ip.h"
#include "packet/opcode.h"

#include <ptah/base.h>
#include <ptah/event.h>

/* Bytes that are kept from one chunk to the next: more than a PSB and the bytes that decide where
 * it begins. */
#define EVENT_CARRY 128

/* Events that may wait for the same FUP. Hardware sends at most two. */
#define EVENT_BOUND 4

/* More items than one packet can cause. The most come from a TIP.PGE that decides about a PSB+: an
 * error, the PSB, its states (up to two items each), the items that waited, and an error of its
 * own.
 */
#define EVENT_QUEUE 64

/* State packets of one PSB+ that can be reported one by one. Hardware sends half as many. */
#define EVENT_STATES 16

enum event_phase {
	EVENT_UNSYNCED = 0, /* looking for a PSB */
	EVENT_HEADER,	    /* between PSB and PSBEND */
	EVENT_SETTLE,	    /* after a PSBEND: is the PSB+'s FUP true? (erratum BDM70) */
	EVENT_OVERFLOW,	    /* after an OVF, until an IP packet: execution continues there */
	EVENT_DOUBT,	    /* after an OVF and a FUP: is the FUP true? (erratum APL12) */
	EVENT_RESTART,	    /* at the first packet after TraceEn was set again */
	EVENT_RUN,
	EVENT_DONE, /* the trace has ended */
};

/* RFLAGS.IF, as the last MODE.Exec reported it. */
enum event_iflag {
	EVENT_IF_CLEAR = 0,
	EVENT_IF_SET = 1,
	EVENT_IF_UNKNOWN,
};

/* What the packets of the PSB+ have carried so far. */
struct event_header {
	uint64_t offset;
	uint64_t ip;
	bool has_ip;
	bool overflow; /* the PSB+ is between an OVF and the address that should follow it */
	bool doubt;    /* the address after that OVF is in doubt (erratum APL12) */
	bool has_tsx, in_tx;
};

/* A packet that is held back until it is decided whether the FUP before it is true. */
struct event_held {
	struct ptah_packet packet;
	uint64_t offset;
};

#define EVENT_HELD 8

/* Events that wait for the address of a FUP. */
struct event_waiting {
	unsigned count;
	struct ptah_item items[EVENT_BOUND];
};

struct ptah_event_decoder {
	/* Input: a window of bytes, which is the caller's chunk or the carry (input.c). */
	const uint8_t *pos, *end;
	uint64_t end_offset;  /* stream offset of `end` */
	uint64_t start;	      /* stream offset of the first byte */
	const uint8_t *chunk; /* the caller's bytes that follow, while the carry is the window */
	size_t chunk_size;
	size_t carry_old; /* bytes in the carry that are from chunks before this one */
	bool in_carry;
	bool last;

	/* Nothing is pending: a TNT or TIP depends on no packet before it. */
	bool plain;
	uint8_t phase;
	bool synced; /* a PSB has been seen */
	bool enabled;
	bool enabled_known;
	bool mode_known; /* a MODE.Exec said so, and no packet was lost since */
	uint8_t mode;
	uint8_t iflag;	   /* enum event_iflag */
	uint8_t block;	   /* enum ptah_packet_block */
	uint8_t tsc_error; /* of `tsc`, as in struct ptah_item */
	uint64_t last_ip;
	uint64_t tsc; /* estimate: a copy of time.now, where the fast paths read it */
	struct event_time time;
	struct ptah_event_config config;

	/*
	 * Pending: a FUP that waits for its TIP; events that wait for the next
	 * FUP (`bound`); events that come with a branch and wait for the FUP of
	 * that branch, which may have none (`follow`); an MWAIT that waits for
	 * its EXSTOP; changes of state that wait for the branch they belong to;
	 * data that EVD packets have sent for the event that follows.
	 */
	bool has_fup, has_mwait, has_mode, has_paging, has_vmcs;
	uint64_t fup_ip, fup_offset, fup_tsc;
	struct event_waiting bound, follow;
	struct ptah_item mwait, pending_mode, paging, vmcs;
	struct ptah_item data; /* members and `detail` bits from EVDs; type 0: none */
	struct event_header header;
	unsigned state_count;
	unsigned held_count;
	uint64_t overflow_offset, overflow_tsc;
	int64_t skip; /* bytes that the callback `unknown` wants skipped */

	uint8_t ratio;
	bool in_tx;

	unsigned queue_first, queue_count;

	/* Seldom in use: at the end, so that event_save() need not copy them. */
	struct event_held held[EVENT_HELD];
	struct ptah_item states[EVENT_STATES]; /* of this PSB+, for `unchanged` */
	struct ptah_item queue[EVENT_QUEUE];
	uint8_t carry[EVENT_CARRY];
};

/*
 * Copies the decoder's state, and puts it back. The copy is good only for this decoder,
 * and only while the chunk that was fed last is unchanged. save.c
 */
void event_save(const struct ptah_event_decoder *d, struct ptah_event_decoder *copy);
void event_restore(struct ptah_event_decoder *d, const struct ptah_event_decoder *copy);

/* The stream offset of a position in the window. */
static inline uint64_t event_offset(const struct ptah_event_decoder *d, const uint8_t *p)
{
	return d->end_offset - (uint64_t)(d->end - p);
}

static inline bool event_has_erratum(const struct ptah_event_decoder *d, enum ptah_erratum erratum)
{
	return d->config.errata >> erratum & 1;
}

/*
 * As ptah_event_seek(), to an offset at which the processor began to trace again after trace was
 * lost: a packet begins there, perhaps no PSB. Decoding begins at the first TIP.PGE that has a
 * complete address, or at the first PSB.
 */
void event_restart(struct ptah_event_decoder *d, uint64_t offset);

/*
 * All items of the packets before this offset have been returned, and none that follows is of a
 * packet before it; 0: that is not known.
 */
uint64_t event_settled(const struct ptah_event_decoder *d);

/* The next item. 1, or 0 when more bytes are needed or the trace has ended. */
int event_next(struct ptah_event_decoder *d, struct ptah_item *item);

/*
 * Cycles of CYC packets that the clock has not been given yet. A loop over packets that
 * needs no time adds them up here and hands the sum to the clock when the time is next
 * needed. SDM "Cycle Count (CYC) Packet".
 */
struct event_cycles {
	uint64_t sum;
	uint64_t room; /* the sum stays below it */
	bool any;      /* a CYC has been added, perhaps of 0 cycles */
};

/* Adds the cycles to the clock as those of one CYC, if `any`. Returns the room for the next sum:
 * while it stays below, the decoder's time stays below `limit`. */
uint64_t event_tell_cycles(struct ptah_event_decoder *d, uint64_t cycles, bool any, uint64_t limit);

/* Adds the sum to the clock and begins a new sum. While that stays below the room, the decoder's
 * time stays below `limit`. */
static ALWAYS_INLINE void event_settle_cycles(struct ptah_event_decoder *d, struct event_cycles *c,
					      uint64_t limit)
{
	/* Member by member, so that the compiler can keep `c` in registers. */
	c->room = event_tell_cycles(d, c->sum, c->any, limit);
	c->sum = 0;
	c->any = false;
}

/*
 * Takes the packet at `pos`, after the cycles of `c`, if it is a TSC, TMA, MTC or CYC
 * that is whole in the window and only moves the time. The decoder's position is then
 * after the packet. To be called only while `plain`. Returns false when the packet is
 * another one, or when the time has reached `limit`. The cycles of the caller's `c` have been
 * added in each case: the caller begins a new sum.
 */
bool event_take_clock_at(struct ptah_event_decoder *d, const uint8_t *pos, struct event_cycles c,
			 uint64_t limit);

/*
 * Adds the CYC at `pos`, of which 2 bytes can be read. Returns its size, or 0 when it is
 * longer than 2 bytes or there is no room: then event_take_clock_at() has to take it.
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

/* queue.c: items, and events that are not items yet. */

struct ptah_item *event_push(struct ptah_event_decoder *d, unsigned type, uint64_t offset);

/* Appends a prepared item to the queue, with the current time and state. */
void event_push_pending(struct ptah_event_decoder *d, const struct ptah_item *pending, bool has_ip,
			uint64_t ip);

/* An error item. */
void event_push_error(struct ptah_event_decoder *d, int status, uint64_t offset);

/*
 * No more packets come before the next PSB: reports what was held back, and without an address what
 * waits for one. An incomplete PSB+ is dropped.
 */
void event_conclude(struct ptah_event_decoder *d);

/* Reports an error and looks for the next PSB. */
void event_fail(struct ptah_event_decoder *d, int status, uint64_t offset);

/*
 * Whether it is reported that RFLAGS.IF was `before` and is `now` (enum event_iflag). Where it is
 * not known whether the trace has Event Trace, a flag that was never 1 is one that is not traced,
 * as on processors without Event Trace.
 */
bool event_reports_iflag(const struct ptah_event_decoder *d, uint8_t before, uint8_t now);

/* Reports the changes of state that waited for the branch which has just been reported. */
void event_release_changes(struct ptah_event_decoder *d, bool has_ip, uint64_t ip);

void event_wait(struct ptah_event_decoder *d, struct event_waiting *list,
		const struct ptah_item *item);

/* Reports everything on the list, as having happened at `ip`. */
void event_deliver(struct ptah_event_decoder *d, struct event_waiting *list, bool has_ip,
		   uint64_t ip);

/* Reports everything that waits for an address, without one. */
void event_give_up(struct ptah_event_decoder *d);

/* Drops everything that is pending: packets were lost or damaged, so it can not be completed. */
void event_forget_pending(struct ptah_event_decoder *d);

/* True while packets that follow may complete something. */
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

/* Copies the clock's time and error bound to where items get them from. */
void event_set_time(struct ptah_event_decoder *d);

/* header.c: PSB+. */

void event_begin_header(struct ptah_event_decoder *d, uint64_t offset);
void event_take_in_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			  uint64_t offset);

/* For each packet after a PSBEND while the PSB+'s FUP is in question. False when the packet is held
 * back. */
bool event_settle_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset);

/* Called when it is known whether the PSB+'s FUP is true (`on`). Reports the PSB+, and then what
 * was held back. */
void event_settle(struct ptah_event_decoder *d, bool on);
void event_take_held(struct ptah_event_decoder *d);

/* Reports a complete PSB+; `on`: tracing is on and its FUP is the address. */
void event_deliver_header(struct ptah_event_decoder *d, bool on);

/* Sets the state of the transaction from the PSB+. */
void event_set_tsx(struct ptah_event_decoder *d);

/* An OVF cuts the PSB+: reports the packets that it had until then (with `unchanged`). */
void event_cut_header(struct ptah_event_decoder *d);

/* Keeps the state from a packet of the PSB+ until the PSB item is reported (`unchanged`). */
void event_keep_state(struct ptah_event_decoder *d, const struct ptah_item *state);

/* overflow.c: OVF and what follows it. */

void event_take_overflow(struct ptah_event_decoder *d, uint64_t offset);
void event_take_in_overflow(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			    uint64_t offset);
/* While the FUP after an OVF is in doubt. True when the packet is held back. */
bool event_hold_in_doubt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset);
void event_take_in_doubt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset);

/* Ends the overflow: reports it; execution continues at `ip` (`on`), or tracing is off. */
void event_resume(struct ptah_event_decoder *d, bool on, uint64_t ip);

/* Ends the overflow at the FUP that was in doubt. A MODE.Exec after that FUP belongs to a branch
 * that follows. */
void event_resume_at_fup(struct ptah_event_decoder *d);

/* extra.c: packets about other things than branches. False when the packet is not one of them. */

bool event_take_extra(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset);

void event_get_time(const struct ptah_event_decoder *decoder, struct ptah_time *time);

#endif
