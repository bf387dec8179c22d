/* SPDX-License-Identifier: MIT */
/*
 * Reads JSON files that nobody vouches for. Every value knows its place, so that an error says
 * "trace.json: processes[1].threads[0].tid: expected ...".
 */
#ifndef PTAH_TRACESET_JSON_FILE_H
#define PTAH_TRACESET_JSON_FILE_H

#include "base/compiler.h"

#include <ptah/session.h>

/*
 * What is more than this is refused: json-c takes up to 40 times the file's size, and 750 bytes for
 * "{}" alone.
 */
#define JSON_FILE_MAX	      (4u << 20) /* bytes */
#define JSON_FILE_MAX_OBJECTS 65536
#define JSON_FILE_MAX_DEPTH   32

struct json_object;

struct json_file {
	const char *path;
	struct json_object *root;
	struct ptah_message *why; /* gets the errors of all values */
};

/* A value and where it is. What `outer` points at must live as long as the value is used. */
struct json_value {
	const struct json_file *file;
	const struct json_value *outer; /* the object or array that it is in; NULL: the document */
	const char *name;		/* in an object */
	size_t index;			/* in an array */
	struct json_object *json;	/* NULL: null, or missing */
};

/* Fills in `document`, the outermost value. The caller closes the file if this succeeds. */
int json_file_open(struct json_file *file, const char *path, struct ptah_message *why,
		   struct json_value *document);
void json_file_close(struct json_file *file);

/* Writes "FILE: PLACE: ..." and returns `status`. */
int json_value_fail(const struct json_value *value, int status, const char *format, ...)
    PRINTF_LIKE(3, 4);

static inline bool json_value_is_null(const struct json_value *value)
{
	return !value->json;
}

/*
 * A member of an object, by the first of its names that the object has, up to NULL: formats change
 * their names. The member is null if the object has none of them. Errors: `object` is none.
 */
int json_value_member(const struct json_value *object, const char *const *names,
		      struct json_value *member);

/* The number of elements; null has none. */
int json_value_count(const struct json_value *array, size_t *count);
void json_value_element(const struct json_value *array, size_t i, struct json_value *element);

/* A string without NUL; it lives until the file is closed. */
int json_value_text(const struct json_value *value, const char **text);

/* An integer from `min` to `max`: a number, or a string with a decimal or (0x) hexadecimal one. */
int json_value_number(const struct json_value *value, uint64_t min, uint64_t max, uint64_t *number);

#endif
