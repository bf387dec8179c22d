/* SPDX-License-Identifier: MIT */
/* What the reference decoder's three files share. */
#ifndef PTAH_TESTS_REFERENCE_DECODER_PARTS_H
#define PTAH_TESTS_REFERENCE_DECODER_PARTS_H

#include "decoder.h"

#include <stdlib.h>
#include <string.h>

/* A packet: its type, its bytes, and its payload as one or two numbers. */
struct packet {
	unsigned type; /* enum ptah_packet_type */
	size_t size;
	uint64_t value; /* the payload, or its main part */
	uint64_t other; /* the rest of the payload */
	unsigned count; /* TNT: outcomes; IP packets: IPBytes; PTW, BBP, BIP: operand bytes */
	bool ip;	/* a FUP with its address follows */
	bool first, second, third; /* single bits, in the order of the SDM's figure */
};

/* Reads a packet. `item_size`: of the items in a PEBS block; 0 outside of one. */
int packet_read(struct packet *packet, const uint8_t *p, size_t n, unsigned item_size);

/* The first PSB in [at, size); `size` when there is none. */
size_t packet_find_psb(const uint8_t *trace, size_t at, size_t size);

/* SDM "FUP/TIP IP Reconstruction". */
uint64_t packet_ip(const struct packet *packet, uint64_t last_ip);

/* SDM "Indirect Transfer Compression for Returns (RET)": 64 entries. */
#define CALL_STACK 64

/* The executing side: the place in the code. */
struct walk {
	const struct reference_config *config;
	struct reference *out;
	bool positioned;
	uint64_t ip; /* of the next instruction, not yet reported */
	unsigned mode;
	bool speculative;
	uint64_t tnt; /* not used yet; the oldest is bit tnt_count - 1 */
	unsigned tnt_count;
	bool is_tnt_full;
	uint64_t end;	       /* where the packet that is taken ends */
	uint64_t contradicted; /* a TNT there shows that the last TIP was no deferred one */
	uint64_t offset;       /* of the packet that moves the place */
	struct ptah_space space, next_space;
	bool space_waits; /* next_space becomes valid at the next branch */
	uint64_t calls[CALL_STACK];
	unsigned depth;
	/* After missing code: the next address with code is the place; calls may have been there.
	 */
	bool seeks;
	enum {
		LOST_NONE,
		LOST_IN_HOLE,
		LOST_ON_PATH
	} lost_calls;
	/*
	 * The last far transfer: from where it is returned, and in which space. While the code at
	 * its target is missing, `kept` calls wait for the return.
	 */
	bool far, waits;
	uint64_t far_target, far_return;
	struct ptah_space far_space;
	unsigned kept;
	unsigned
	    forgotten;	/* calls ahead, before the address of the last PSB, that are not pushed */
	bool is_behind; /* nothing has been walked since the last PSB, which had this address */
	uint64_t psb_ip, psb_offset;
};

void walk_put(struct walk *w, const struct ptah_item *item);

/* Carries out one event and reports it, with the instructions it proves. */
void walk_event(struct walk *w, const struct ptah_item *event);

/* The trace has ended: reports the instructions that are known to have run before. */
void walk_end(struct walk *w);

#endif
