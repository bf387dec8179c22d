/* SPDX-License-Identifier: MIT */
/* Errata that show in a packet's bytes. The others are where they show: see errata.c. */
#ifndef PTAH_EVENT_ERRATA_H
#define PTAH_EVENT_ERRATA_H

#include "event/event.h"

/*
 * Looks at a packet of `size` bytes at `pos` that decoded well. Returns its
 * size; or, where it is none, the size of what to skip, with *packet a PAD;
 * PTAH_E_MORE when bytes must be fed to decide.
 */
int errata_packet(struct ptah_event_decoder *d, struct ptah_packet *packet, int size);

#endif
