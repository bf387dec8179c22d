/* SPDX-License-Identifier: MIT */
/*
 * The positions of libipt's decoders. Ptah's items carry the offset of their first packet; libipt
 * reports the offset of the packet that it reads next. It is found by going over the packets
 * between, and only when a caller asks for it.
 */
#ifndef PTAH_LIBIPT_POSITION_H
#define PTAH_LIBIPT_POSITION_H

#include "pt_config.h"

/* How far the item reported last extends: through the first packet of this kind. */
enum position_end {
	POSITION_BEFORE, /* not even the packet at the offset */
	POSITION_PACKET, /* the packet at the offset only */
	POSITION_FUP,
	POSITION_TIP, /* TIP, TIP.PGE or TIP.PGD */
	POSITION_IP,  /* the same, or a FUP */
	POSITION_EXSTOP,
	POSITION_PWRX,
	POSITION_OVERFLOW, /* an OVF, and the address right after it, if there is one */
	POSITION_PSBEND,   /* or the OVF that ends the PSB+; the offset is in the PSB+ */
};

struct position {
	uint64_t offset;
	uint8_t end;  /* enum position_end */
	bool at_last; /* stay at that packet: more is to be reported about it */
};

/* How far an item extends that has just been reported. */
struct position position_of(const struct ptah_item *item);

/*
 * A query decoder (and those built on one) reads ahead to the next packet of a branch or an event.
 * Returns its offset, or that of the end of the trace.
 */
uint64_t position_ahead(struct config *config, struct position position);

/* An event decoder reads ahead to the next packet that is not a PAD. */
uint64_t position_next(struct config *config, struct position position);

/*
 * The offset that libipt reports for an error at `offset`: that of the PSB if it is in a PSB+,
 * which counts as one packet.
 */
uint64_t position_of_error(struct config *config, uint64_t offset);

/* The address in the PSB+ at `offset`, which an OVF has cut after its FUP. */
bool position_cut_header_ip(struct config *config, uint64_t offset, uint64_t *ip);

/* Whether there are only packets about time between the OVF at `offset` and `error`. */
bool position_is_overflow(struct config *config, uint64_t offset, uint64_t error);

/* What fails when the packet at `offset`, which is malformed or incomplete, comes next. */
enum position_kind {
	POSITION_READ_OVER, /* reading ahead */
	POSITION_OUTCOMES,  /* the query for an outcome */
	POSITION_ADDRESS,
	POSITION_EVENT,
};

enum position_kind position_kind(const struct config *config, uint64_t offset);

#endif
