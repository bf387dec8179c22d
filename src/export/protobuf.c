/* SPDX-License-Identifier: MIT */
/* Varints, keys and lengths (protobuf.h). */
#include "export/protobuf.h"

#include "base/bits.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

#define VARINT_MAX 10 /* bytes of a 64-bit number */

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
};

/* Room for n more bytes. */
static bool reserve_message_bytes(struct protobuf *p, size_t n)
{
	if (p->failed)
		return false;
	p->failed = !LIST_ROOM_FOR(p->bytes, p->n, n, p->room);
	return !p->failed;
}

static unsigned put_varint(uint8_t *to, uint64_t value)
{
	unsigned n = 0;

	for (; value > 0x7f; value >>= 7)
		to[n++] = (uint8_t)(value | 0x80);
	to[n++] = (uint8_t)value;
	return n;
}

void protobuf_packed(struct protobuf *p, uint64_t value)
{
	if (reserve_message_bytes(p, VARINT_MAX))
		p->n += put_varint(p->bytes + p->n, value);
}

static void put_key(struct protobuf *p, unsigned field, enum wire_type type)
{
	protobuf_packed(p, (uint64_t)field << 3 | type);
}

void protobuf_number(struct protobuf *p, unsigned field, uint64_t value)
{
	put_key(p, field, WIRE_VARINT);
	protobuf_packed(p, value);
}

void protobuf_fixed64(struct protobuf *p, unsigned field, uint64_t value)
{
	put_key(p, field, WIRE_FIXED64);
	if (!reserve_message_bytes(p, sizeof(value)))
		return;
	store_le64(p->bytes + p->n, value);
	p->n += sizeof(value);
}

void protobuf_bytes(struct protobuf *p, unsigned field, const void *bytes, size_t n)
{
	put_key(p, field, WIRE_BYTES);
	protobuf_packed(p, n);
	if (!n || !reserve_message_bytes(p, n))
		return;
	memcpy(p->bytes + p->n, bytes, n);
	p->n += n;
}

void protobuf_text(struct protobuf *p, unsigned field, const char *text)
{
	protobuf_bytes(p, field, text, strlen(text));
}

/* A length of one byte is put there for now; protobuf_end() makes room for a longer one. */
size_t protobuf_begin(struct protobuf *p, unsigned field)
{
	put_key(p, field, WIRE_BYTES);
	protobuf_packed(p, 0);
	return p->n;
}

void protobuf_end(struct protobuf *p, size_t begin)
{
	uint8_t length[VARINT_MAX];
	const size_t n = p->n - begin;
	const unsigned size = put_varint(length, n);

	if (!reserve_message_bytes(p, size - 1))
		return;
	memmove(p->bytes + begin + size - 1, p->bytes + begin, n);
	memcpy(p->bytes + begin - 1, length, size);
	p->n += size - 1;
}

int protobuf_flush(struct protobuf *p, struct out *out)
{
	if (p->failed)
		return PTAH_E_NOMEM;
	out_bytes(out, (const char *)p->bytes, p->n);
	p->n = 0;
	return 0;
}

void protobuf_free(struct protobuf *p)
{
	free(p->bytes);
	*p = (struct protobuf){0};
}
