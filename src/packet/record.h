/* SPDX-License-Identifier: MIT */
/* A packet's 16-byte form (see <ptah/packet.h>). Freestanding. */
#ifndef PTAH_PACKET_RECORD_H
#define PTAH_PACKET_RECORD_H

#include <ptah/packet.h>

/* All of the record but its offset, which stays. */
void packet_pack(struct ptah_packet_record *record, const struct ptah_packet *packet);

#endif
