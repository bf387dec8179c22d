/* SPDX-License-Identifier: MIT */
/*
 * A growing byte buffer for building records. `failed` is set when memory runs out and stays set,
 * so that a sequence of puts is checked once.
 */
#ifndef PTAH_PERFDATA_BYTE_BUFFER_H
#define PTAH_PERFDATA_BYTE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perfdata_buffer {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	bool failed;
};

void perfdata_buffer_free(struct perfdata_buffer *b);

/* Appends n bytes; bytes NULL: zeros. */
void perfdata_put(struct perfdata_buffer *b, const void *bytes, size_t n);
void perfdata_put16(struct perfdata_buffer *b, uint16_t v);
void perfdata_put32(struct perfdata_buffer *b, uint32_t v);
void perfdata_put64(struct perfdata_buffer *b, uint64_t v);

/* Appends a string with its NUL, padded with zeros to a multiple of `align`. */
void perfdata_put_string(struct perfdata_buffer *b, const char *text, size_t align);

/* Appends a string as header features have it: u32 size, text padded to a multiple of 64. */
void perfdata_put_header_string(struct perfdata_buffer *b, const char *text);

#endif
