/* SPDX-License-Identifier: MIT */
/* Writes JSON values, with the commas and the indentation between them. */
#include "output/json.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void json_init(struct json *j, struct out *out)
{
	memset(j, 0, sizeof(*j));
	j->out = out;
}

static void indent(struct json *j)
{
	out_char(j->out, '\n');
	for (unsigned i = 0; i < j->depth; i++)
		out_text(j->out, "  ");
}

/* The number of bytes at s that need no escape: nearly always all of them. */
static size_t plain_length(const unsigned char *s)
{
	size_t n = 0;

	while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

/* What a terminal would obey is escaped. */
void json_text(struct out *out, const char *value)
{
	size_t n;

	out_char(out, '"');
	for (;; value += n) {
		uint32_t c;

		n = plain_length((const unsigned char *)value);
		out_bytes(out, value, n);
		value += n;
		if (!*value)
			break;
		c = text_character(value, &n);
		if (c == '"' || c == '\\')
			out_format(out, "\\%c", (char)c);
		else if (c == TEXT_INVALID)
			out_text(out, "\\ufffd");
		else if (text_is_harmful(c))
			out_format(out, "\\u%04" PRIx32, c);
		else
			out_bytes(out, value, n);
	}
	out_char(out, '"');
}

/* Writes what precedes a value: a comma, indentation, the key. */
static void begin_value(struct json *j, const char *key)
{
	if (j->filled[j->depth])
		out_char(j->out, ',');
	if (j->depth) {
		if (j->flat[j->depth]) {
			if (j->filled[j->depth])
				out_char(j->out, ' ');
		} else {
			indent(j);
		}
	}
	j->filled[j->depth] = true;
	if (key) {
		json_text(j->out, key);
		out_text(j->out, ": ");
	}
}

static void descend(struct json *j, const char *key, char open, bool flat)
{
	begin_value(j, key);
	out_char(j->out, open);
	flat = flat || j->flat[j->depth];
	if (j->depth < JSON_DEPTH - 1)
		j->depth++;
	j->filled[j->depth] = false;
	j->flat[j->depth] = flat;
}

static void ascend(struct json *j, char close)
{
	bool line = j->filled[j->depth] && !j->flat[j->depth];

	if (j->depth)
		j->depth--;
	if (line)
		indent(j);
	out_char(j->out, close);
}

void json_object(struct json *j, const char *key, bool flat)
{
	descend(j, key, '{', flat);
}

void json_array(struct json *j, const char *key)
{
	descend(j, key, '[', false);
}

void json_end_object(struct json *j)
{
	ascend(j, '}');
}

void json_end_array(struct json *j)
{
	ascend(j, ']');
}

void json_string(struct json *j, const char *key, const char *value)
{
	begin_value(j, key);
	if (value)
		json_text(j->out, value);
	else
		out_text(j->out, "null");
}

void json_number(struct json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	out_decimal(j->out, value);
}

void json_signed(struct json *j, const char *key, int64_t value)
{
	begin_value(j, key);
	out_signed(j->out, value);
}

void json_real(struct json *j, const char *key, double value)
{
	begin_value(j, key);
	if (isfinite(value))
		out_format(j->out, "%.3f", value);
	else
		out_text(j->out, "null");
}

void json_seconds(struct json *j, const char *key, uint64_t nanoseconds)
{
	begin_value(j, key);
	out_seconds(j->out, nanoseconds);
}

void json_address(struct json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	out_text(j->out, "\"0x");
	out_hex(j->out, value);
	out_char(j->out, '"');
}

void json_bool(struct json *j, const char *key, bool value)
{
	begin_value(j, key);
	out_text(j->out, value ? "true" : "false");
}

void json_finish(struct json *j)
{
	out_char(j->out, '\n');
}
