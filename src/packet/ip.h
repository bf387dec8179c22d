/* SPDX-License-Identifier: MIT */
/*
 * IP compression and its inverse, inline for the hot loops of the decoder and the
 * model. SDM, "IP Compression" and Table "FUP/TIP IP Reconstruction". Freestanding.
 */
#ifndef PTAH_PACKET_IP_H
#define PTAH_PACKET_IP_H

#include "base/bits.h"
#include "base/compiler.h"

#include <ptah/packet.h>

/* SDM Table "FUP/TIP IP Reconstruction": payload bytes by IPBytes; 9: a reserved value. */
#define PACKET_IP_BYTES(ipc)                                                                       \
	((ipc) == PTAH_IPC_SUPPRESSED				    ? 0                            \
	 : (ipc) == PTAH_IPC_UPDATE_16				    ? 2                            \
	 : (ipc) == PTAH_IPC_UPDATE_32				    ? 4                            \
	 : (ipc) == PTAH_IPC_SEXT_48 || (ipc) == PTAH_IPC_UPDATE_48 ? 6                            \
	 : (ipc) == PTAH_IPC_FULL				    ? 8                            \
								    : 9)

static const uint8_t packet_ip_bytes[8] = {
    PACKET_IP_BYTES(0), PACKET_IP_BYTES(1), PACKET_IP_BYTES(2), PACKET_IP_BYTES(3),
    PACKET_IP_BYTES(4), PACKET_IP_BYTES(5), PACKET_IP_BYTES(6), PACKET_IP_BYTES(7),
};

/* The address that (ipc, payload) means after last_ip; ipc must be valid and not suppressed. */
static inline uint64_t packet_expand_ip(uint64_t last_ip, unsigned ipc, uint64_t payload)
{
	switch (ipc) {
	case PTAH_IPC_UPDATE_16:
		return (last_ip & ~UINT64_C(0xffff)) | payload;
	case PTAH_IPC_UPDATE_32:
		return (last_ip & ~UINT64_C(0xffffffff)) | payload;
	case PTAH_IPC_SEXT_48:
		return sign_extend_48(payload);
	case PTAH_IPC_UPDATE_48:
		return (last_ip & ~UINT64_C(0xffffffffffff)) | payload;
	default:
		return payload;
	}
}

/*
 * Reads the address of the TIP or FUP at `pos`, of which 9 bytes can be read. *ip is the last
 * IP before and the address after. Returns the packet's size; 0, with *ip unchanged, when the
 * packet has no address or a reserved compression. Branches on the compression instead of
 * looking up the size, so that the processor predicts where the next packet begins.
 */
static ALWAYS_INLINE unsigned packet_take_ip(const uint8_t *pos, uint64_t *ip)
{
	const uint64_t low = UINT64_C(0xffffffffffff), payload = load_le64(pos + 1);

	switch (*pos >> 5) {
	case PTAH_IPC_UPDATE_16:
		*ip = (*ip & ~UINT64_C(0xffff)) | (payload & 0xffff);
		return 3;
	case PTAH_IPC_UPDATE_32:
		*ip = (*ip & ~UINT64_C(0xffffffff)) | (payload & 0xffffffff);
		return 5;
	case PTAH_IPC_SEXT_48:
		*ip = sign_extend_48(payload & low);
		return 7;
	case PTAH_IPC_UPDATE_48:
		*ip = (*ip & ~low) | (payload & low);
		return 7;
	case PTAH_IPC_FULL:
		*ip = payload;
		return 9;
	default:
		return 0;
	}
}

/* The shortest compression of ip after last_ip. */
static inline unsigned packet_compress_ip(uint64_t last_ip, uint64_t ip)
{
	uint64_t differs = ip ^ last_ip;

	if (!(differs >> 16))
		return PTAH_IPC_UPDATE_16;
	if (!(differs >> 32))
		return PTAH_IPC_UPDATE_32;
	if (sign_extend_48(ip) == ip)
		return PTAH_IPC_SEXT_48;
	return differs >> 48 ? PTAH_IPC_FULL : PTAH_IPC_UPDATE_48;
}

#endif
