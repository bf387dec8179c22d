/* SPDX-License-Identifier: MIT */
/* Random valid packets, for tests that compare two ways of reading them. */
#ifndef PTAH_TESTS_PACKET_STREAM_H
#define PTAH_TESTS_PACKET_STREAM_H

#include "random.h"
#include "packet/table.h"

#include <string.h>

struct stream {
	uint64_t seed; /* not 0 */
	uint8_t *bytes;
	size_t size, capacity;
	/* The packets that may be in it, each 1 << enum ptah_packet_type. */
	uint64_t types;
};

/* Packets that libipt 2.0 and its header do not know, as a mask like `types`: the last in
 * packets.def.
 */
#define STREAM_AFTER_LIBIPT_2_0 (UINT64_MAX << PTAH_PACKET_CFE)

/* The type of the packet at p, which may be cut after its opcode; -1: there is none. */
static inline int stream_type_at(const uint8_t *p, size_t n)
{
	uint8_t bytes[PTAH_PACKET_MAX_SIZE] = {0};
	struct ptah_packet packet;

	memcpy(bytes, p, n < sizeof(bytes) ? n : sizeof(bytes));
	return ptah_packet_decode(&packet, bytes, sizeof(bytes), PTAH_BLOCK_NONE) > 0 ? packet.type
										      : -1;
}

static inline bool stream_is_after_libipt_2_0(const uint8_t *p, size_t n)
{
	int type = stream_type_at(p, n);

	return type >= 0 && STREAM_AFTER_LIBIPT_2_0 >> type & 1;
}

static inline uint64_t stream_random(struct stream *s)
{
	return random_next(&s->seed);
}

/* Mostly small numbers, sometimes `bits` wide. */
static inline uint64_t stream_bits(struct stream *s, unsigned bits)
{
	unsigned n = (unsigned)(stream_random(s) % bits) + 1;

	return stream_random(s) >> (64 - n);
}

static inline void stream_fill_ip(struct stream *s, struct ptah_packet *p)
{
	static const uint8_t forms[] = {0, 1, 2, 3, 4, 6}, bits[] = {0, 16, 32, 48, 48, 64};
	unsigned i = (unsigned)(stream_random(s) % sizeof(forms));

	p->u.ip.ipc = forms[i];
	p->u.ip.ip = bits[i] ? stream_bits(s, bits[i]) : 0;
}

/* A field as packets.def has it: any number that fits. */
static inline void stream_fill_field(struct stream *s, struct ptah_packet *p,
				     const struct packet_field *f)
{
	unsigned bits = f->bits ? f->bits : 8u * f->width;
	uint64_t value;

	if (f->present) {
		bool present = stream_random(s) & 1;

		((uint8_t *)p)[f->present] = present;
		if (!present)
			return;
	}
	if (f->size) {
		uint8_t size = stream_random(s) & 1 ? 4 : 8;

		((uint8_t *)p)[f->size] = size;
		bits = 8 * size;
	}
	value =
	    f->kind == PACKET_FIELD_FLAG ? stream_random(s) & 1 : stream_bits(s, bits) << f->shift;
	assert_true(packet_set_field(p, f, value));
}

static inline void stream_fill(struct stream *s, struct ptah_packet *p)
{
	switch (p->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		p->u.tnt.count =
		    (uint8_t)(1 + stream_random(s) % (p->type == PTAH_PACKET_TNT_8 ? 6 : 47));
		p->u.tnt.bits = stream_random(s) & ((UINT64_C(1) << p->u.tnt.count) - 1);
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		stream_fill_ip(s, p);
		break;
	case PTAH_PACKET_MODE_EXEC:
		p->u.exec.mode = (uint8_t)(1 + stream_random(s) % 3);
		p->u.exec.interrupts = stream_random(s) & 1;
		break;
	case PTAH_PACKET_MODE_TSX:
		p->u.tsx.in_tx = stream_random(s) & 1;
		p->u.tsx.aborted = !p->u.tsx.in_tx && (stream_random(s) & 1);
		break;
	case PTAH_PACKET_BBP:
		p->u.bbp.type = (uint8_t)stream_bits(s, 5);
		p->u.bbp.item_size = stream_random(s) & 1 ? 4 : 8;
		break;
	default:
		for (const struct packet_field *f = packet_entries[p->type].fields; f->kind; f++)
			stream_fill_field(s, p, f);
		break;
	}
}

/* Fills the stream with runs of packets of one type, of random length, as real traces have them. */
static inline void stream_make(struct stream *s)
{
	s->size = 0;
	while (s->size + 8 * PTAH_PACKET_MAX_SIZE <= s->capacity) {
		unsigned type = (unsigned)(stream_random(s) % PTAH_PACKET_TYPE_MAX);
		unsigned run = 1 + (unsigned)(stream_random(s) % 8);

		if (!(s->types >> type & 1))
			continue;
		for (unsigned i = 0; i < run; i++) {
			struct ptah_packet p;
			int n;

			memset(&p, 0, sizeof(p));
			p.type = (uint8_t)type;
			stream_fill(s, &p);
			n = ptah_packet_encode(&p, s->bytes + s->size, s->capacity - s->size);
			assert_true(n > 0);
			s->size += (size_t)n;
		}
	}
}

#endif
