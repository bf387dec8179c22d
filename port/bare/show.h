/* SPDX-License-Identifier: MIT */
/* Recorded bytes as text on the serial line: packets, and what they say about program.c. */
#ifndef PTAH_PORT_BARE_SHOW_H
#define PTAH_PORT_BARE_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints a line for each packet. Returns false when bytes are no packet. */
bool show_packets(const uint8_t *bytes, size_t n);

/* How many TIP packets have this address; -1 when bytes are no packet. */
long show_count(const uint8_t *bytes, size_t n, uint64_t address);

#endif
