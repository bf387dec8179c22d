/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share: a check that is also in release builds, random
 * numbers, and inputs made of code and trace.
 */
#ifndef PTAH_FUZZ_FUZZ_H
#define PTAH_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptah/base.h>
#include <ptah/flow.h>

/* The entry point of a target, as libFuzzer calls it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* xorshift64: the same on every machine; the state must not be 0. */
static inline uint64_t fuzz_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline uint64_t fuzz_hash(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * Copies bytes into a block of exactly their size, so that a sanitizer notices
 * a read after the last one. The caller frees it.
 */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = calloc(1, size ? size : 1);

	CHECK(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

/*
 * Skips bytes that are no packet, or refuses to. It decides by those bytes,
 * which are the same in chunks of any size.
 */
static inline int64_t fuzz_unknown(void *context, const uint8_t *bytes, size_t n, uint64_t offset,
				   int status)
{
	(void)context;
	(void)offset;
	CHECK(n >= 1 && n <= PTAH_PACKET_MAX_SIZE && status < 0);
	return (int64_t)((bytes[0] ^ bytes[n - 1]) % 48) - 4;
}

/* An event decoder's configuration from the bits of a byte. 0: the defaults. */
static inline struct ptah_event_config fuzz_event_config(unsigned bits)
{
	struct ptah_event_config config = {.size = sizeof(config)};

	config.errata = bits & 1 ? (UINT32_C(1) << PTAH_ERRATUM_MAX) - 1 : 0;
	config.trace.event_trace = bits & 2;
	config.ticks = bits & 4;
	config.unknown = bits & 8 ? fuzz_unknown : NULL;
	if (bits & 16) {
		config.trace.mtc_period = 3;
		config.nominal_ratio = 20;
		config.tsc_n = 168;
		config.tsc_d = 2;
	}
	config.no_bdm70 = bits & 32;
	config.unchanged = bits & 64;
	return config;
}

/*
 * Adds code to an image. With `spaces`, the first third is at `base` in the
 * address space of CR3 0x1000, the second at `base` in that of CR3 0x2000, and
 * the last third follows in all address spaces. Bytes outside of the address
 * space are left out.
 */
static inline void fuzz_add_code(struct ptah_image *image, const uint8_t *code, size_t size,
				 uint64_t base, bool spaces)
{
	const size_t third = spaces ? size / 3 : 0;

	for (unsigned i = 0; i < 2 && third; i++) {
		const struct ptah_space space = {0x1000 * (i + 1), PTAH_SPACE_ANY};

		ptah_image_add_bytes(image, code + i * third, third, base, &space);
	}
	if (size > 2 * third)
		ptah_image_add_bytes(image, code + 2 * third, size - 2 * third, base + third, NULL);
}

/* Code, a trace and a configuration to decode it with. The caller frees the image. */
struct fuzz_program {
	struct ptah_flow_config config;
	struct ptah_image *image;
	const uint8_t *trace;
	size_t size;
};

/*
 * Reads an input: a byte whose low two bits choose the code's address and whose
 * other bits are the configuration (fuzz_event_config; with errata, a filter as
 * well), two bytes with the code's size (13 bits) and more configuration
 * (address spaces, no_tnt, no_retcomp), the code, the trace. False if the input
 * is too short.
 */
static inline bool fuzz_program(struct fuzz_program *p, const uint8_t *data, size_t size)
{
	static const uint64_t bases[] = {0x401000, 0, UINT64_C(0xfffffffffffff000), 0x7ffffffff000};
	uint64_t base;
	size_t code;

	if (size < 3)
		return false;
	memset(p, 0, sizeof(*p));
	base = bases[data[0] & 3];
	p->config.size = sizeof(p->config);
	p->config.events = fuzz_event_config(data[0] >> 2);
	p->config.events.trace.ranges[0] = (struct ptah_range){base, base + 63, PTAH_RANGE_FILTER};
	p->config.events.trace.no_tnt = data[2] & 0x40;
	p->config.events.trace.no_retcomp = data[2] & 0x80;
	code = (size_t)(data[1] | (data[2] & 0x1f) << 8);
	code = code < size - 3 ? code : size - 3;
	CHECK(!ptah_image_new(&p->image));
	fuzz_add_code(p->image, data + 3, code, base, data[2] & 0x20);
	p->trace = data + 3 + code;
	p->size = size - 3 - code;
	return true;
}

/* A hash of a sequence of items. */
struct fuzz_items {
	uint64_t hash;
	uint64_t count;
};

static inline void fuzz_add_items(struct fuzz_items *sum, const struct ptah_item *items, int n)
{
	sum->hash = fuzz_hash(sum->hash, items, (size_t)n * sizeof(*items));
	sum->count += (uint64_t)n;
}

#endif
