/* SPDX-License-Identifier: MIT */
/* Damages traces in the ways that happen: flipped bits, losses, repetitions, misplaced packets. */
#include "twin.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 16384 /* bytes used of a long trace, to keep the test short */
#define MOST   4     /* the most mistakes in one trace */

static const struct {
	uint8_t size;
	uint8_t bytes[11];
} packets[] = {
    {1, {0x00}},							/* PAD */
    {1, {0x04}},							/* TNT: not taken */
    {1, {0x06}},							/* TNT: taken */
    {1, {0xaa}},							/* TNT: six */
    {8, {0x02, 0xa3, 0x55, 0x55, 0x55, 0x05, 0x00, 0x00}},		/* long TNT */
    {1, {0x01}},							/* TIP.PGD */
    {1, {0x0d}},							/* TIP */
    {1, {0x11}},							/* TIP.PGE */
    {1, {0x1d}},							/* FUP */
    {3, {0x2d, 0x00, 0x10}},						/* TIP, 2 bytes */
    {3, {0x31, 0x10, 0x10}},						/* TIP.PGE, 2 bytes */
    {3, {0x3d, 0x08, 0x10}},						/* FUP, 2 bytes */
    {3, {0x21, 0x20, 0x10}},						/* TIP.PGD, 2 bytes */
    {2, {0x02, 0xf3}},							/* OVF */
    {2, {0x02, 0x23}},							/* PSBEND */
    {2, {0x02, 0x83}},							/* TraceStop */
    {2, {0x99, 0x01}},							/* MODE.Exec: 64-bit */
    {2, {0x99, 0x02}},							/* MODE.Exec: 32-bit */
    {2, {0x99, 0x20}},							/* MODE.TSX: end */
    {2, {0x99, 0x21}},							/* MODE.TSX: begin */
    {2, {0x99, 0x22}},							/* MODE.TSX: abort */
    {8, {0x02, 0x43, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00}},		/* PIP */
    {7, {0x02, 0xc8, 0x01, 0x00, 0x00, 0x00, 0x00}},			/* VMCS */
    {4, {0x02, 0x03, 0x20, 0x00}},					/* CBR */
    {8, {0x19, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00}},		/* TSC */
    {7, {0x02, 0x73, 0x10, 0x00, 0x00, 0x08, 0x00}},			/* TMA */
    {2, {0x59, 0x11}},							/* MTC */
    {1, {0x2b}},							/* CYC */
    {2, {0x37, 0x20}},							/* CYC, 2 bytes */
    {6, {0x02, 0x12, 0xef, 0xbe, 0xad, 0xde}},				/* PTWRITE */
    {6, {0x02, 0x92, 0xef, 0xbe, 0xad, 0xde}},				/* PTWRITE with a FUP */
    {10, {0x02, 0xc2, 0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00}}, /* MWAIT */
    {4, {0x02, 0x22, 0x80, 0x12}},					/* PWRE */
    {7, {0x02, 0xa2, 0x34, 0x01, 0x00, 0x00, 0x00}},			/* PWRX */
    {2, {0x02, 0x62}},							/* EXSTOP */
    {2, {0x02, 0xe2}},							/* EXSTOP with a FUP */
    {11, {0x02, 0xc3, 0x88, 1, 2, 3, 4, 5, 6, 7, 8}},			/* MNT */
    /* NEWER: packets that libipt 2.0 does not know. */
    {4, {0x02, 0x13, 0x01, 0x0e}},		      /* CFE: interrupt */
    {4, {0x02, 0x13, 0x81, 0x0e}},		      /* CFE: interrupt with a FUP */
    {4, {0x02, 0x13, 0x02, 0x00}},		      /* CFE: IRET */
    {4, {0x02, 0x13, 0x83, 0x00}},		      /* CFE: SMI with a FUP */
    {4, {0x02, 0x13, 0x04, 0x00}},		      /* CFE: RSM */
    {4, {0x02, 0x13, 0x05, 0x11}},		      /* CFE: SIPI */
    {4, {0x02, 0x13, 0x09, 0x20}},		      /* CFE: VM exit by an interrupt */
    {4, {0x02, 0x13, 0x8f, 0x00}},		      /* CFE: SYSCALL with a FUP */
    {11, {0x02, 0x53, 0x00, 1, 2, 3, 4, 5, 6, 7, 8}}, /* EVD: CR2 */
    {11, {0x02, 0x53, 0x01, 1, 2, 3, 4, 5, 6, 7, 8}}, /* EVD: VM exit's qualification */
    {11, {0x02, 0x53, 0x02, 1, 2, 3, 4, 5, 6, 7, 8}}, /* EVD: VM exit's reason */
    {2, {0x99, 0x05}},				      /* MODE.Exec: 64-bit, IF */
    {3, {0xd9, 0x01, 0x00}},			      /* TRIG */
    {3, {0xd9, 0x02, 0x00}},			      /* TRIG */
};
#define COUNT (sizeof(packets) / sizeof(*packets))
#define NEWER 14 /* the last ones */

/* Inserts `size` bytes at `at`; there is room. */
static void insert(struct twin_input *to, size_t at, const uint8_t *bytes, size_t size)
{
	memmove(to->bytes + at + size, to->bytes + at, to->size - at);
	memcpy(to->bytes + at, bytes, size);
	to->size += size;
}

static void damage(struct twin_input *to, uint64_t *random)
{
	const uint64_t choice = twin_random(random);
	const size_t at = twin_random(random) % to->size;
	size_t n = 1 + twin_random(random) % 64;
	uint8_t piece[64];

	n = n < to->size - at ? n : to->size - at;
	switch (choice % 8) {
	case 0:
		to->bytes[at] ^= (uint8_t)(1 << (choice >> 8) % 8);
		break;
	case 1:
		to->bytes[at] = (uint8_t)(choice >> 8);
		break;
	case 2: /* a loss */
		n = n < to->size - 1 ? n : to->size - 1;
		memmove(to->bytes + at, to->bytes + at + n, to->size - at - n);
		to->size -= n;
		break;
	case 3: /* a repetition */
		memcpy(piece, to->bytes + at, n);
		insert(to, twin_random(random) % to->size, piece, n);
		break;
	case 4: /* cut off */
		if (choice >> 8 & 1)
			to->size = at + 1;
		break;
	default: {
		size_t i = (choice >> 8) % (to->newer ? COUNT : COUNT - NEWER);

		insert(to, at, packets[i].bytes, packets[i].size);
	}
	}
}

void twin_mutate(struct twin_input *to, const struct twin_input *from, uint64_t seed)
{
	uint64_t random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	size_t first = 0, size = from->size;
	unsigned mistakes;

	for (unsigned i = 0; i < 4; i++)
		twin_random(&random);
	*to = *from;
	to->damaged = true;
	if (size > WINDOW) {
		size_t psb = twin_find_psb(from, twin_random(&random) % size);

		first = psb == SIZE_MAX ? 0 : psb;
		size = from->size - first < WINDOW ? from->size - first : WINDOW;
		size = 1 + size / 4 + twin_random(&random) % (size - size / 4);
	}
	to->bytes = malloc(size + MOST * 64);
	if (!to->bytes)
		twin_die(from->name, "out of memory");
	memcpy(to->bytes, from->bytes + first, size);
	to->size = size;
	mistakes = 1 + twin_random(&random) % MOST;
	for (unsigned i = 0; i < mistakes; i++)
		damage(to, &random);
}
