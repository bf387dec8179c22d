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
	uint64_t other; /* what else it holds */
	unsigned count; /* TNT: outcomes; IP packets: IPBytes; PTW, BBP, BIP: operand bytes */
	bool ip;	/* a FUP with its address follows */
	bool first, second, third; /* single bits, in the order of the SDM's figure */
};

/* In a PEBS block, how long its items are; 0 outside. */
int packet_read(struct packet *packet, const uint8_t *p, size_t n, unsigned item_size);

/* The first PSB in [at, size); `size` when there is none. */
size_t packet_find_psb(const uint8_t *trace, size_t at, size_t size);

/* SDM "FUP/TIP IP Reconstruction". */
uint64_t packet_ip(const struct packet *packet, uint64_t last_ip);

/* SDM "Indirect Transfer Compression for Returns (RET)": 64 entries. */
#define CALL_STACK 64

/* The executing side: where we are in the code. */
struct walk {
	const struct reference_config *config;
	struct reference *out;
	bool positioned;
	uint64_t ip; /* of the next instruction, not yet reported */
	unsigned mode;
	bool speculative;
	uint64_t tnt; /* outcomes that wait; the oldest is bit tnt_count - 1 */
	unsigned tnt_count;
	uint64_t offset; /* of the packet that moves us */
	struct ptah_space space, next_space;
	bool space_waits; /* for the branch that leads to next_space */
	uint64_t calls[CALL_STACK];
	unsigned depth;
	unsigned forgotten; /* calls ahead, on the way to where a PSB was */
};

void walk_put(struct walk *w, const struct ptah_item *item);

/* Carries out one event and reports it, with the instructions it proves. */
void walk_event(struct walk *w, const struct ptah_item *event);

#endif
