/* SPDX-License-Identifier: MIT */
/*
 * Messages of protocol buffers, field by field into memory.
 *
 *	struct protobuf p = {0};
 *	size_t packet = protobuf_begin(&p, 1);	a message inside of a message
 *	protobuf_number(&p, 8, time);
 *	protobuf_text(&p, 2, "name");
 *	protobuf_end(&p, packet);
 *	if (protobuf_flush(&p, out) < 0)	writes and forgets it
 *		...
 *	protobuf_free(&p);
 *
 * When memory is short, what follows is left out and protobuf_flush() returns PTAH_E_NOMEM.
 */
#ifndef PTAH_EXPORT_PROTOBUF_H
#define PTAH_EXPORT_PROTOBUF_H

#include "output/out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0: empty. */
struct protobuf {
	uint8_t *bytes;
	size_t n, room;
	bool failed; /* memory was short */
};

/* Fields of the types uint64, uint32, bool and enum; of int64 and int32 as two's complement. */
void protobuf_number(struct protobuf *p, unsigned field, uint64_t value);
void protobuf_fixed64(struct protobuf *p, unsigned field, uint64_t value);
void protobuf_bytes(struct protobuf *p, unsigned field, const void *bytes, size_t n);

/* The text has to be valid UTF-8 (utf8.h): readers refuse everything else. */
void protobuf_text(struct protobuf *p, unsigned field, const char *text);

/*
 * What is written until protobuf_end() is a message in a field, or the values of a packed field.
 * They nest. Returns what protobuf_end() needs.
 */
size_t protobuf_begin(struct protobuf *p, unsigned field);
void protobuf_end(struct protobuf *p, size_t begin);

/* A value of a packed field, without a key. */
void protobuf_packed(struct protobuf *p, uint64_t value);

/* Writes all to `out`, and is empty then. 0, or PTAH_E_NOMEM. */
int protobuf_flush(struct protobuf *p, struct out *out);
void protobuf_free(struct protobuf *p);

#endif
