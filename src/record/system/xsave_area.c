/* SPDX-License-Identifier: MIT */
/* The compacted format of XSAVES (xsave_area.h). */
#include "record/system/xsave_area.h"

#include "base/bits.h"

#include <string.h>

#define MXCSR	      24
#define MXCSR_BYTES   8 /* with its mask */
#define MXCSR_INITIAL 0x1f80u
#define MXCSR_ALL     0xffffu
#define FCW_INITIAL   0x37fu
#define ST	      32
#define XMM	      160
#define XMM_END	      416

static bool has(uint64_t bits, unsigned component)
{
	return bits >> component & 1;
}

size_t xsave_offset(const struct xsave_layout *l, uint64_t bits, unsigned component)
{
	size_t at = XSAVE_EXTENDED;

	for (unsigned i = 2; i <= component && i < XSAVE_COMPONENTS; i++) {
		if (!has(bits, i))
			continue;
		if (l->component[i].aligned)
			at = (at + 63) & ~(size_t)63;
		if (i == component)
			return at;
		at += l->component[i].size;
	}
	return at;
}

size_t xsave_size(const struct xsave_layout *l, uint64_t bits)
{
	unsigned last = 0;

	for (unsigned i = 2; i < XSAVE_COMPONENTS; i++)
		if (has(bits, i))
			last = i;
	return last ? xsave_offset(l, bits, last) + l->component[last].size : XSAVE_EXTENDED;
}

/* The part of the legacy region that belongs to x87 and SSE; both formats have it at one place. */
static void copy_legacy(uint8_t *to, const uint8_t *from, uint64_t bits)
{
	if (bits & XSAVE_X87) {
		memcpy(to, from, MXCSR);
		memcpy(to + ST, from + ST, XMM - ST);
	}
	if (bits & XSAVE_SSE) {
		memcpy(to + MXCSR, from + MXCSR, MXCSR_BYTES);
		memcpy(to + XMM, from + XMM, XMM_END - XMM);
	}
}

void xsave_compact(const struct xsave_layout *l, uint8_t *compacted, uint64_t bits, uint64_t saved,
		   uint64_t in_use, const uint8_t *standard)
{
	copy_legacy(compacted, standard, saved);
	for (unsigned i = 2; i < XSAVE_COMPONENTS; i++)
		if (has(saved & l->user, i))
			memcpy(compacted + xsave_offset(l, bits, i),
			       standard + l->component[i].offset, l->component[i].size);
	memset(compacted + XSAVE_HEADER, 0, XSAVE_EXTENDED - XSAVE_HEADER);
	store_le64(compacted + XSAVE_HEADER, in_use);
	store_le64(compacted + XSAVE_HEADER + 8, bits | XSAVE_COMPACTED);
}

bool xsave_faults(const uint8_t *compacted, uint64_t enabled, uint64_t restored)
{
	const uint64_t in_use = load_le64(compacted + XSAVE_HEADER);
	const uint64_t bits = load_le64(compacted + XSAVE_HEADER + 8);

	if (!(bits & XSAVE_COMPACTED) || (bits & ~XSAVE_COMPACTED & ~enabled) ||
	    in_use & ~(bits & ~XSAVE_COMPACTED))
		return true;
	for (unsigned i = 16; i < XSAVE_EXTENDED - XSAVE_HEADER; i++)
		if (compacted[XSAVE_HEADER + i])
			return true;
	return restored & in_use & XSAVE_SSE && load_le32(compacted + MXCSR) & ~MXCSR_ALL;
}

static void initial_legacy(uint8_t *area)
{
	memset(area, 0, XSAVE_EXTENDED);
	store_le16(area, FCW_INITIAL);
	store_le32(area + MXCSR, MXCSR_INITIAL);
	store_le32(area + MXCSR + 4, MXCSR_ALL);
}

void xsave_expand(const struct xsave_layout *l, uint8_t *standard, uint64_t restored,
		  const uint8_t *compacted)
{
	const uint64_t in_use = load_le64(compacted + XSAVE_HEADER);
	const uint64_t bits = load_le64(compacted + XSAVE_HEADER + 8);
	uint8_t initial[XSAVE_EXTENDED];

	initial_legacy(initial);
	copy_legacy(standard, initial, restored & ~in_use);
	copy_legacy(standard, compacted, restored & in_use);
	for (unsigned i = 2; i < XSAVE_COMPONENTS; i++) {
		if (!has(restored & l->user, i))
			continue;
		if (has(in_use, i))
			memcpy(standard + l->component[i].offset,
			       compacted + xsave_offset(l, bits, i), l->component[i].size);
		else
			memset(standard + l->component[i].offset, 0, l->component[i].size);
	}
}
