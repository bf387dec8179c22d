/* SPDX-License-Identifier: MIT */
/* What the writers of the fuzzers' seeds share: seeds.c says what they are. */
#ifndef PTAH_FUZZ_SEEDS_H
#define PTAH_FUZZ_SEEDS_H

#include <ptah/packet.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
	uint8_t bytes[8192];
	size_t size;
};

struct seed {
	const char *name;
	void (*make)(struct buffer *b);
};

/* The seeds of one kind. */
struct seeds {
	const struct seed *list;
	size_t count;
};

extern const struct seeds seeds_of_packets, seeds_of_files, seeds_of_recordings, seeds_of_saved,
    seeds_of_engine;
/* One packet of every type. */
extern const struct seeds seeds_of_every_type;

void put_bytes(struct buffer *b, const void *bytes, size_t n);
void put_packet(struct buffer *b, struct ptah_packet packet);
/* The example of a packet in packets.def. */
void put_example(struct buffer *b, struct ptah_packet_parser *parser, unsigned type);
/* PSB+ as a processor writes it while packets are enabled. */
void put_psb(struct buffer *b, uint64_t ip);
/* n of them. */
void put_words(struct buffer *b, const uint64_t *words, size_t n);

/* A packet by its type and the fields of its payload. */
#define PUT(b, name, ...)                                                                          \
	put_packet((b), (struct ptah_packet){.type = PTAH_PACKET_##name, ##__VA_ARGS__})
#define IP(b, name, address) PUT(b, name, .u.ip = {.ipc = PTAH_IPC_SEXT_48, .ip = (address)})

/* A word of two 32-bit fields. */
#define PAIR(low, high) ((uint64_t)(uint32_t)(low) | (uint64_t)(high) << 32)

#endif
