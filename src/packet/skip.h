/* SPDX-License-Identifier: MIT */
/*
 * Passes over the packets of branches without decoding them, for callers that look for the others:
 * nearly all bytes of a trace are TNT and TIP packets. Freestanding.
 */
#ifndef PTAH_PACKET_SKIP_H
#define PTAH_PACKET_SKIP_H

#include <stdint.h>

/*
 * The first packet in [p, end) that is none of TNT-8, TIP, TIP.PGE, TIP.PGD, FUP and PAD, or of
 * which the end is not in there; `end` if there is none. *last is set to the last packet before it
 * that is no PAD, and stays as it is if there is none.
 */
const uint8_t *packet_skip_branches(const uint8_t *p, const uint8_t *end, const uint8_t **last);

/* The same up to the next FUP. */
const uint8_t *packet_skip_until_fup(const uint8_t *p, const uint8_t *end, const uint8_t **last);

/* The same up to the next TIP.PGD. */
const uint8_t *packet_skip_until_stop(const uint8_t *p, const uint8_t *end, const uint8_t **last);

/* The size of such a packet, by its first byte; 0: it is another one. */
unsigned packet_branch_size(uint8_t first);

#endif
