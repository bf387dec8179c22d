/* SPDX-License-Identifier: MIT */
/*
 * A growing byte buffer for putting records together. Running out of memory is
 * remembered in `failed`, so that a sequence of puts is checked once.
 */
#ifndef PTAH_PERFDATA_BUFFER_H
#define PTAH_PERFDATA_BUFFER_H

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

/* bytes NULL: zeros. */
void perfdata_put(struct perfdata_buffer *b, const void *bytes, size_t n);
void perfdata_put16(struct perfdata_buffer *b, uint16_t v);
void perfdata_put32(struct perfdata_buffer *b, uint32_t v);
void perfdata_put64(struct perfdata_buffer *b, uint64_t v);

/* A string with its NUL, padded with zeros to a multiple of `align`. */
void perfdata_put_string(struct perfdata_buffer *b, const char *text, size_t align);

/* perf's form of a string in a header feature: u32 size, text padded to 64. */
void perfdata_put_header_string(struct perfdata_buffer *b, const char *text);

#endif
