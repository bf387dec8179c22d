/* SPDX-License-Identifier: MIT */
/*
 * IP compression, both ways, inline for the hot loops of decoder and model.
 * SDM, "IP Compression" and Table "FUP/TIP IP Reconstruction". Freestanding.
 */
#ifndef PTAH_PACKET_IP_H
#define PTAH_PACKET_IP_H

#include "base/bits.h"

#include <ptah/packet.h>

/* Payload bytes by IPBytes; 0xff: reserved value. */
static const uint8_t packet_ip_bytes[8] = {0, 2, 4, 6, 6, 0xff, 8, 0xff};

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

/* The shortest form of ip after last_ip. */
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
