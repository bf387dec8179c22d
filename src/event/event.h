/* SPDX-License-Identifier: MIT */
/*
 * The event decoder's inside, for flow/: the struct, so that the common
 * packets can be taken inline, and the one-item reader.
 */
#ifndef PTAH_EVENT_EVENT_H
#define PTAH_EVENT_EVENT_H

#include "base/compiler.h"
#include "event/time.h"
#include "packet/ip.h"
#include "packet/opcode.h"

#include <ptah/event.h>

/* Bytes kept from one chunk to the next: more than a PSB and what settles it. */
#define EVENT_CARRY 128

/* The most items one packet can lead to (PSBEND: error, PSB, CBR, paging, VMCS, exec-mode, tsx). */
#define EVENT_QUEUE 16

enum event_phase {
	EVENT_UNSYNCED = 0, /* looking for a PSB */
	EVENT_HEADER,	    /* between PSB and PSBEND */
	EVENT_SETTLE,	    /* behind a PSBEND: is its FUP true? (erratum BDM70) */
	EVENT_OVERFLOW,	    /* behind OVF, until an IP says where execution goes on */
	EVENT_RUN,
	EVENT_DONE, /* the trace has ended */
};

/* What the packets of a PSB+ said. */
struct event_header {
	uint64_t offset;
	uint64_t ip;
	bool has_ip;
	bool overflow; /* this PSB+ came between OVF and the address it waits for */
};

struct ptah_event_decoder {
	/* Input: a window, which is the caller's chunk or our carry. */
	const uint8_t *pos, *end;
	uint64_t end_offset;  /* stream offset of `end` */
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
	uint8_t block; /* enum ptah_packet_block */
	bool no_bdm70;
	uint64_t last_ip;
	uint64_t tsc; /* estimate: time.now, kept where the fast paths look */
	struct event_time time;

	/* Pending: a FUP that waits for its TIP; an event that waits for its FUP; changes
	 * that wait for the branch they belong to. */
	bool has_fup, has_bound, has_mode, has_paging, has_vmcs;
	uint64_t fup_ip, fup_offset;
	struct ptah_item bound, pending_mode, paging, vmcs;
	struct event_header header;
	uint64_t overflow_offset;

	uint8_t ratio;
	bool in_tx;

	unsigned queue_first, queue_count;
	struct ptah_item queue[EVENT_QUEUE];
	uint8_t carry[EVENT_CARRY];
};

/* The stream offset of a place in the window. */
static inline uint64_t event_offset(const struct ptah_event_decoder *d, const uint8_t *p)
{
	return d->end_offset - (uint64_t)(d->end - p);
}

/* The next item. 1, or 0 when more bytes are needed or the trace has ended. */
int event_next(struct ptah_event_decoder *d, struct ptah_item *item);

#endif
