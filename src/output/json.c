/* SPDX-License-Identifier: MIT */
/* Writes JSON values, with the commas and the indentation between them. */
#include "output/json.h"

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

/* The length of the valid UTF-8 sequence at s; 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80	 ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0; /* overlong, a surrogate, or beyond Unicode */
	return n;
}

/* The number of bytes at s that need no escape: nearly always all of them. */
static size_t plain_length(const unsigned char *s)
{
	size_t n = 0;

	while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

/* Bytes that are no valid UTF-8 become U+FFFD. */
static void put_string(struct json *j, const char *value)
{
	const unsigned char *s = (const unsigned char *)value;

	out_char(j->out, '"');
	for (;;) {
		size_t plain = plain_length(s), n;

		out_bytes(j->out, (const char *)s, plain);
		s += plain;
		if (!*s)
			break;
		n = utf8_length(s);

		if (*s == '"' || *s == '\\')
			out_format(j->out, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			out_format(j->out, "\\u%04x", *s);
		else if (n)
			out_bytes(j->out, (const char *)s, n);
		else
			out_text(j->out, "\\ufffd");
		s += n ? n : 1;
	}
	out_char(j->out, '"');
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
		put_string(j, key);
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
		put_string(j, value);
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
