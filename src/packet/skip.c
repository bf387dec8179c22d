/* SPDX-License-Identifier: MIT */
/* See skip.h. */
#include "packet/skip.h"

#include "packet/opcode.h"

#include "base/bits.h"
#include "base/compiler.h"

#include <ptah/packet.h>

#define EVERY_BYTE UINT64_C(0x0101010101010101)

/* Bytes of an address, and the opcode before it; 0: the SDM reserves the compression. */
#define IP_SIZE(ipc)                                                                               \
	((ipc) == PTAH_IPC_SUPPRESSED				    ? 1                            \
	 : (ipc) == PTAH_IPC_UPDATE_16				    ? 3                            \
	 : (ipc) == PTAH_IPC_UPDATE_32				    ? 5                            \
	 : (ipc) == PTAH_IPC_SEXT_48 || (ipc) == PTAH_IPC_UPDATE_48 ? 7                            \
	 : (ipc) == PTAH_IPC_FULL				    ? 9                            \
								    : 0)
#define IS_IP(b)                                                                                   \
	(((b)&OPCODE_IP_MASK) == OPCODE_TIP || ((b)&OPCODE_IP_MASK) == OPCODE_TIP_PGE ||           \
	 ((b)&OPCODE_IP_MASK) == OPCODE_TIP_PGD || ((b)&OPCODE_IP_MASK) == OPCODE_FUP)
#define SIZE_1(b)   (!((b)&1) ? (b) != OPCODE_EXT : IS_IP(b) ? IP_SIZE((b) >> 5) : 0)
#define SIZES_4(b)  SIZE_1(b), SIZE_1((b) + 1), SIZE_1((b) + 2), SIZE_1((b) + 3)
#define SIZES_16(b) SIZES_4(b), SIZES_4((b) + 4), SIZES_4((b) + 8), SIZES_4((b) + 12)
#define SIZES_64(b) SIZES_16(b), SIZES_16((b) + 16), SIZES_16((b) + 32), SIZES_16((b) + 48)

/* By the first byte; 0: another packet. */
static const uint8_t sizes[256] = {SIZES_64(0), SIZES_64(64), SIZES_64(128), SIZES_64(192)};

/*
 * Whether all eight bytes are TNT-8 packets. None is odd, 0 or 2 then: all have a bit above these
 * two.
 */
static ALWAYS_INLINE bool is_tnt_only(uint64_t word)
{
	const uint64_t above = word >> 2 & 0x3f * EVERY_BYTE;

	return !(word & EVERY_BYTE) && !((above - EVERY_BYTE) & ~above & 0x80 * EVERY_BYTE);
}

unsigned packet_branch_size(uint8_t first)
{
	return sizes[first];
}

/* `stop`: the opcode of a packet with an address at which it stops; 0: none. */
static ALWAYS_INLINE const uint8_t *skip(const uint8_t *p, const uint8_t *end, const uint8_t **last,
					 unsigned stop)
{
	while (p < end) {
		size_t size;

		while (end - p >= 8 && is_tnt_only(load_le64(p))) {
			p += 8;
			*last = p - 1;
		}
		if (p == end)
			break;
		size = sizes[*p];
		if (!size || (size_t)(end - p) < size || (stop && (*p & OPCODE_IP_MASK) == stop))
			break;
		if (*p != OPCODE_PAD)
			*last = p;
		p += size;
	}
	return p;
}

const uint8_t *packet_skip_branches(const uint8_t *p, const uint8_t *end, const uint8_t **last)
{
	return skip(p, end, last, 0);
}

const uint8_t *packet_skip_until_fup(const uint8_t *p, const uint8_t *end, const uint8_t **last)
{
	return skip(p, end, last, OPCODE_FUP);
}

const uint8_t *packet_skip_until_stop(const uint8_t *p, const uint8_t *end, const uint8_t **last)
{
	return skip(p, end, last, OPCODE_TIP_PGD);
}
