/* SPDX-License-Identifier: MIT */
/*
 * Tracing data: the formats of the tracepoints of a recording, as the kernel describes them in
 * /sys/kernel/tracing/events/SYSTEM/NAME/format. perf stores them in the file's header, or in a
 * record if it writes through a pipe.
 */
#ifndef PTAH_PERFDATA_TRACING_DATA_H
#define PTAH_PERFDATA_TRACING_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is more, or longer, is left out. */
#define TRACING_MAX_FORMATS 16384
#define TRACING_MAX_FIELDS  256
#define TRACING_MAX_NAME    64

enum tracing_kind {
	TRACING_NUMBER, /* of `size` bytes: 1, 2, 4 or 8 */
	TRACING_TEXT,	/* an array of char, which ends at its first NUL */
	TRACING_ARRAY,	/* of numbers of `element` bytes */
};

/* Where the bytes of a field are in the raw data. */
enum tracing_place {
	TRACING_FIXED,	  /* at `offset`, `size` of them */
	TRACING_DATA_LOC, /* a u32 at `offset` says where: size << 16 | offset from the beginning */
	TRACING_REL_LOC,  /* the same, but the offset counts from the end of the u32 */
};

struct tracing_field {
	char name[TRACING_MAX_NAME];
	uint32_t offset, size, element;
	bool is_signed;
	uint8_t kind, place; /* enum tracing_kind, enum tracing_place */
};

struct tracing_format {
	char system[TRACING_MAX_NAME], name[TRACING_MAX_NAME];
	uint64_t id; /* attr.config of its event */
	struct tracing_field *fields;
	size_t count;
	size_t common; /* so many of them are those that every tracepoint begins with */
};

struct tracing_formats {
	struct tracing_format *formats;
	size_t count;
};

/*
 * Reads what perf has stored. What is damaged is left out, with everything after it, so that the
 * formats before it are known. 0, or PTAH_E_NOMEM.
 */
int tracing_formats_read(const uint8_t *bytes, size_t size, struct tracing_formats *formats);
void tracing_formats_free(struct tracing_formats *formats);

/* The format of the events of this number. NULL: it is not known. */
const struct tracing_format *tracing_format_find(const struct tracing_formats *formats,
						 uint64_t id);

/*
 * The bytes of a field in the raw data of a sample, NULL if they do not lie in there. Their number
 * goes to *n.
 */
const uint8_t *tracing_field_bytes(const struct tracing_field *field, const uint8_t *raw,
				   size_t raw_size, size_t *n);

/* To write: a format as the kernel has it. */
struct tracing_text {
	const char *system, *text;
	size_t size;
};

struct perfdata_buffer;

/* Appends tracing data with these formats, those of a system one after another. */
void tracing_put_formats(struct perfdata_buffer *b, const struct tracing_text *texts, size_t count);

#endif
