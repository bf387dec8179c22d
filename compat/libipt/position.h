/* SPDX-License-Identifier: MIT */
/*
 * Where libipt's decoders stand in the trace. Ptah's items say where what they
 * tell began; libipt says what it looks at next. It is found by going over the
 * packets between, only when somebody asks.
 */
#ifndef PTAH_LIBIPT_POSITION_H
#define PTAH_LIBIPT_POSITION_H

#include "pt_config.h"

/* How far what has been told last goes: through the first packet of this kind. */
enum position_end {
	POSITION_BEFORE, /* nothing yet: not even the packet at the offset */
	POSITION_PACKET, /* the packet at the offset */
	POSITION_FUP,
	POSITION_TIP, /* TIP, TIP.PGE or TIP.PGD */
	POSITION_IP,  /* or a FUP */
	POSITION_EXSTOP,
	POSITION_PWRX,
	POSITION_OVERFLOW, /* an OVF, and the address behind it if one is */
	POSITION_PSBEND, /* or the OVF that comes instead; the offset is of a PSB, or in its PSB+ */
};

struct position {
	uint64_t offset;
	uint8_t end;  /* enum position_end */
	bool at_last; /* stand at that packet: there is more about it */
};

/* What an item that has just been told goes through. */
struct position position_of(const struct ptah_item *item);

/*
 * A query decoder (and what stands on one) reads ahead to the next packet that
 * is about a branch or an event: its offset, or the end of the trace.
 */
uint64_t position_ahead(struct config *config, struct position position);

/* An event decoder looks at the next packet that is no PAD. */
uint64_t position_next(struct config *config, struct position position);

/* Of an error at `offset`: that of the PSB when it is in a PSB+, which counts as one packet. */
uint64_t position_of_error(struct config *config, uint64_t offset);

/* The address that the PSB+ at `offset` has told before an OVF cut it. */
bool position_cut_header_ip(struct config *config, uint64_t offset, uint64_t *ip);

/* Stand only packets about time behind the OVF at `offset`, up to `error`? */
bool position_is_overflow(struct config *config, uint64_t offset, uint64_t error);

/* What calls answer when the packet at `offset`, which is wrong or cut, comes next. */
enum position_kind {
	POSITION_READ_OVER, /* reading ahead fails */
	POSITION_OUTCOMES,  /* the query for it fails */
	POSITION_ADDRESS,
	POSITION_EVENT,
};

enum position_kind position_kind(const struct config *config, uint64_t offset);

#endif
