/* SPDX-License-Identifier: MIT */
/* Decoding in batches: what batch.c and batch_wide.c share. */
#ifndef PTAH_PACKET_BATCH_H
#define PTAH_PACKET_BATCH_H

#include <ptah/packet.h>

#include <stdbool.h>

/* 64 bytes at a time, on processors with AVX-512 VBMI; chosen when the program runs. */
#if defined(__x86_64__) && __STDC_HOSTED__
#define HAS_WIDE_BATCHES 1
#else
#define HAS_WIDE_BATCHES 0
#endif

struct batch {
	const uint8_t *base, *p, *end;
	struct ptah_packet_record *r, *limit;
};

/* By first byte. */
struct batch_bytes {
	/* The packet's size; BATCH_CAREFUL: only the bytes after it or ptah_packet_decode() say. */
	_Alignas(64) uint8_t size[256];
	uint8_t type[256], detail[256];
	uint8_t payload[256]; /* what the first byte has of it */
	/* Of packets of one byte, by half of it. */
	uint8_t single_detail[128], single_payload[128];
	uint8_t odd_size[128]; /* the sizes of odd bytes, likewise */
};

#define BATCH_CAREFUL 0x80

extern const struct batch_bytes batch_bytes;

/* Whether this processor has what batch_take_windows() needs. */
bool batch_can_wide(void);

/* Whether it is faster here, which was measured on an Intel processor only. */
bool batch_prefers_wide(void);

/*
 * Decodes packets 64 bytes at a time, as long as there are enough bytes and records for that, up to
 * a packet that it leaves to others.
 */
void batch_take_windows(struct batch *batch);

/* ptah_packet_decode_batch(), with or without batch_take_windows(), so that both can be compared.
 */
int packet_decode_batch(struct ptah_packet_cursor *cursor, struct ptah_packet_record *records,
			size_t capacity, bool wide);

#endif
