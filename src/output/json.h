/* SPDX-License-Identifier: MIT */
/*
 * The JSON writer of all commands. The caller begins and ends objects and arrays,
 * and writes values; the writer adds commas and indentation. `key` is NULL inside
 * arrays.
 */
#ifndef PTAH_OUTPUT_JSON_H
#define PTAH_OUTPUT_JSON_H

#include "output/out.h"

#define JSON_DEPTH 16

struct json {
	struct out *out;
	unsigned depth;
	bool filled[JSON_DEPTH]; /* the level has a value already */
	bool flat[JSON_DEPTH];	 /* the level is on one line */
};

/* Writes a string with its quotes, as all of these functions do. Bytes that are no valid UTF-8
 * become U+FFFD. */
void json_text(struct out *out, const char *value);

void json_init(struct json *j, struct out *out);

/* flat: the whole object is on one line, as a row of a list. */
void json_object(struct json *j, const char *key, bool flat);
void json_array(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_end_array(struct json *j);

void json_string(struct json *j, const char *key, const char *value); /* NULL: null */
void json_number(struct json *j, const char *key, uint64_t value);
void json_signed(struct json *j, const char *key, int64_t value);
void json_real(struct json *j, const char *key,
	       double value); /* three decimals; null if not finite */
void json_seconds(struct json *j, const char *key, uint64_t nanoseconds); /* nine decimals */
void json_address(struct json *j, const char *key, uint64_t value);	  /* "0x..." */
void json_bool(struct json *j, const char *key, bool value);

/* Ends the document with a newline. */
void json_finish(struct json *j);

#endif
