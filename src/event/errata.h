/* SPDX-License-Identifier: MIT */
/* Handling of the errata that show in the bytes of one packet; errata.c says where the others are.
 */
#ifndef PTAH_EVENT_ERRATA_H
#define PTAH_EVENT_ERRATA_H

#include "event/event.h"

/*
 * Looks at the packet of `size` bytes at the decoder's position, which has been decoded.
 * Returns its size. Where an erratum has corrupted it, makes *packet a PAD and returns how
 * many bytes to skip. Returns PTAH_E_MORE when more bytes must be fed to decide.
 */
int errata_packet(struct ptah_event_decoder *d, struct ptah_packet *packet, int size);

#endif
