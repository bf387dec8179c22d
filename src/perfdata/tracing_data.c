/* SPDX-License-Identifier: MIT */
/*
 * Reads tracing data (tools/perf/util/trace-event-read.c): a header that describes the machine, the
 * formats of ftrace's own events, and those of each system of tracepoints. What follows them
 * (symbols, printk formats, command lines) is not used.
 */
#include "perfdata/tracing_data.h"

#include "base/order.h"
#include "base/reader.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* "\27\10\104tracing", the version, little-endian, bytes of a long, bytes of a page. */
static bool read_machine(struct reader *r)
{
	static const uint8_t magic[] = {0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g'};
	const uint8_t *p = reader_bytes(r, sizeof(magic));
	size_t n;

	if (!p || memcmp(p, magic, sizeof(magic)) != 0)
		return false;
	reader_string(r, &n);
	return !reader_u8(r) && reader_u8(r) == 8 && reader_u32(r) && !r->failed;
}

/* "header_page" or "header_event", the size of a text, the text. */
static bool skip_header(struct reader *r, const char *name)
{
	const uint8_t *p = reader_bytes(r, strlen(name) + 1);

	if (!p || memcmp(p, name, strlen(name) + 1) != 0)
		return false;
	return reader_bytes(r, reader_u64(r)) || !r->failed;
}

/* A text that is being read: [p, end). */
struct text {
	const char *p, *end;
};

/* Cuts off the next line. False: there is none. */
static bool next_line(struct text *t, struct text *line)
{
	const char *newline = t->p < t->end ? memchr(t->p, '\n', (size_t)(t->end - t->p)) : NULL;

	if (t->p >= t->end)
		return false;
	*line = (struct text){t->p, newline ? newline : t->end};
	t->p = newline ? newline + 1 : t->end;
	return true;
}

/* Steps over `word` if the text begins with it. */
static bool skip_word(struct text *t, const char *word)
{
	const size_t n = strlen(word);

	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
	if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0)
		return false;
	t->p += n;
	return true;
}

/* A decimal number; *failed if there is none, or one that is too large to be true. */
static uint32_t read_format_number(struct text *t, bool *failed)
{
	bool any = false, too_large = false;
	uint32_t value = 0;

	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
	for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
		too_large |= value >= 100000000;
		value = too_large ? 0 : 10 * value + (uint32_t)(*t->p - '0');
		any = true;
	}
	*failed |= !any || too_large;
	return value;
}

static bool copy_name(char into[TRACING_MAX_NAME], const char *from, const char *end)
{
	const size_t n = (size_t)(end - from);

	if (!n || n >= TRACING_MAX_NAME || memchr(from, '\0', n))
		return false;
	memcpy(into, from, n);
	into[n] = '\0';
	return true;
}

static bool contains(const struct text *t, const char *word)
{
	return memmem(t->p, (size_t)(t->end - t->p), word, strlen(word)) != NULL;
}

static bool is_of_name(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* "unsigned long args[6]", "__data_loc char[] name": the name is the last word before "[". */
static bool read_declaration(struct text t, struct tracing_field *field)
{
	const char *end = t.end;
	bool is_array = false;

	if (end > t.p && end[-1] == ']') {
		while (end > t.p && *end != '[')
			end--;
		is_array = true;
	}
	t.end = end;
	while (end > t.p && is_of_name(end[-1]))
		end--;
	if (!copy_name(field->name, end, t.end))
		return false;
	t.end = end; /* what is left is the type */
	if (contains(&t, "__data_loc"))
		field->place = TRACING_DATA_LOC;
	else if (contains(&t, "__rel_loc"))
		field->place = TRACING_REL_LOC;
	is_array = is_array || field->place != TRACING_FIXED;
	if (is_array)
		field->kind =
		    contains(&t, "char") && !contains(&t, "*") ? TRACING_TEXT : TRACING_ARRAY;
	/* "unsigned char" and u8 are bytes, and no text */
	if (is_array && contains(&t, "unsigned char"))
		field->kind = TRACING_ARRAY;
	field->element = contains(&t, "long") || contains(&t, "64") || contains(&t, "*") ? 8
			 : contains(&t, "short") || contains(&t, "16")			 ? 2
			 : contains(&t, "char") || contains(&t, "u8") || contains(&t, "s8") ||
				 contains(&t, "int8")
			     ? 1
			     : 4;
	return true;
}

/* "field:TYPE NAME;\toffset:8;\tsize:8;\tsigned:1;" */
static bool read_format_field(struct text line, struct tracing_field *field)
{
	const char *semicolon;
	bool failed = false;

	*field = (struct tracing_field){.kind = TRACING_NUMBER};
	if (!skip_word(&line, "field:"))
		return false;
	semicolon = memchr(line.p, ';', (size_t)(line.end - line.p));
	if (!semicolon || !read_declaration((struct text){line.p, semicolon}, field))
		return false;
	line.p = semicolon + 1;
	if (!skip_word(&line, "offset:"))
		return false;
	field->offset = read_format_number(&line, &failed);
	if (!skip_word(&line, ";") || !skip_word(&line, "size:"))
		return false;
	field->size = read_format_number(&line, &failed);
	if (skip_word(&line, ";") && skip_word(&line, "signed:"))
		field->is_signed = read_format_number(&line, &failed);
	if (field->kind == TRACING_NUMBER && field->size != 1 && field->size != 2 &&
	    field->size != 4 && field->size != 8)
		field->kind = TRACING_ARRAY;
	return !failed && (field->place == TRACING_FIXED || field->size == 4);
}

static int read_format_fields(struct text t, struct tracing_format *format)
{
	struct tracing_field field;
	struct text line;
	size_t room = 0;

	while (next_line(&t, &line) && format->count < TRACING_MAX_FIELDS) {
		if (!read_format_field(line, &field))
			continue;
		if (!LIST_ROOM(format->fields, format->count, room))
			return PTAH_E_NOMEM;
		if (!strncmp(field.name, "common_", 7) && format->common == format->count)
			format->common++;
		format->fields[format->count++] = field;
	}
	return 0;
}

/* "name: NAME", "ID: NUMBER", "format:" and the fields. 1, 0: it has no name or number, or an error. */
static int read_format(struct text t, const char *system, struct tracing_format *format)
{
	struct text line;
	bool has_id = false, failed = false;
	int status;

	*format = (struct tracing_format){0};
	if (!copy_name(format->system, system, system + strlen(system)))
		return 0;
	while (!has_id && next_line(&t, &line)) {
		if (skip_word(&line, "name:") && skip_word(&line, ""))
			failed |= !copy_name(format->name, line.p, line.end);
		else if (skip_word(&line, "ID:")) {
			format->id = read_format_number(&line, &failed);
			has_id = true;
		}
	}
	if (!has_id || failed || !format->name[0])
		return 0;
	status = read_format_fields(t, format);
	return status < 0 ? status : 1;
}

static int add_format(struct tracing_formats *f, size_t *room, struct text t, const char *system)
{
	int status;

	if (!LIST_ROOM(f->formats, f->count, *room))
		return PTAH_E_NOMEM;
	status = read_format(t, system, &f->formats[f->count]);
	/* One without fields counts, too: its memory is freed with the others. */
	f->count += status != 0;
	return status;
}

static int compare_formats(const void *a, const void *b)
{
	const struct tracing_format *x = a, *y = b;

	return COMPARE(x->id, y->id);
}

static int read_systems(struct reader *r, struct tracing_formats *formats)
{
	uint32_t systems = reader_u32(r);
	size_t room = 0, n;

	while (systems-- && !r->failed && r->p < r->end) {
		const char *name = reader_string(r, &n);
		/* A name that the end of the data cuts has no NUL. */
		uint32_t events = name + n < (const char *)r->end ? reader_u32(r) : 0;

		while (events-- && !r->failed && formats->count < TRACING_MAX_FORMATS) {
			const uint64_t size = reader_u64(r);
			const char *p = (const char *)reader_bytes(r, size);
			int status =
			    p ? add_format(formats, &room, (struct text){p, p + size}, name) : 0;

			if (status < 0)
				return status;
		}
	}
	return 0;
}

int tracing_formats_read(const uint8_t *bytes, size_t size, struct tracing_formats *formats)
{
	struct reader r = {bytes, bytes ? bytes + size : NULL, false};
	uint32_t own;
	int status;

	*formats = (struct tracing_formats){0};
	if (!bytes || !read_machine(&r) || !skip_header(&r, "header_page") ||
	    !skip_header(&r, "header_event"))
		return 0;
	/* ftrace's own events have no samples. */
	own = reader_u32(&r);
	while (own-- && !r.failed)
		reader_bytes(&r, reader_u64(&r));
	status = read_systems(&r, formats);
	if (status < 0)
		tracing_formats_free(formats);
	else if (formats->count)
		qsort(formats->formats, formats->count, sizeof(*formats->formats), compare_formats);
	return status < 0 ? status : 0;
}

void tracing_formats_free(struct tracing_formats *formats)
{
	for (size_t i = 0; i < formats->count; i++)
		free(formats->formats[i].fields);
	free(formats->formats);
	*formats = (struct tracing_formats){0};
}

const struct tracing_format *tracing_format_find(const struct tracing_formats *formats, uint64_t id)
{
	const struct tracing_format key = {.id = id};

	return formats->count ? bsearch(&key, formats->formats, formats->count,
					sizeof(*formats->formats), compare_formats)
			      : NULL;
}

const uint8_t *tracing_field_bytes(const struct tracing_field *field, const uint8_t *raw,
				   size_t raw_size, size_t *n)
{
	uint64_t at = field->offset, size = field->size;
	uint32_t where;

	*n = 0;
	if (at > raw_size || size > raw_size - at)
		return NULL;
	if (field->place != TRACING_FIXED) {
		where = load_le32(raw + at);
		at = (where & UINT16_MAX) + (field->place == TRACING_REL_LOC ? at + 4 : 0);
		size = where >> 16;
		if (at > raw_size || size > raw_size - at)
			return NULL;
	}
	*n = (size_t)size;
	return raw + at;
}
