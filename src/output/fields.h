/* SPDX-License-Identifier: MIT */
/*
 * Fields: one description of a table for TSV and JSON.
 *
 * A row is any struct. A field describes one of its members: the name of its
 * column in TSV, its key in JSON, and how its value is written. The order is that
 * of the array. If TSV and JSON have a member at different places, it has two
 * fields in the array, one for each.
 */
#ifndef PTAH_OUTPUT_FIELDS_H
#define PTAH_OUTPUT_FIELDS_H

#include "output/json.h"
#include "output/out.h"

enum field_kind {
	FIELD_SIGNED,  /* int32_t */
	FIELD_NUMBER,  /* uint64_t */
	FIELD_ADDRESS, /* uint64_t, as 0x401000 */
	FIELD_STRING,  /* const char *; NULL: nothing in TSV, null in JSON */
	FIELD_REAL,    /* double, with three decimals */
	FIELD_BOOL,    /* bool, in TSV 1 or 0 */
	FIELD_SECONDS, /* uint64_t of nanoseconds, written as seconds with nine decimals */
};

struct field {
	const char *tsv;  /* the column; NULL: none */
	const char *json; /* the key; NULL: none */
	enum field_kind kind;
	size_t at;	/* offset in the row */
	unsigned asked; /* the bit that includes the field; 0: it is always included */
	size_t has;	/* offset of a bool: does the row have a value? 0: it always does */
};

/* A field of struct `type` with one name for both formats, with two names, or in one format only.
 */
#define FIELD(type, name, kind, member)                                                            \
	{                                                                                          \
		name, name, kind, offsetof(type, member), 0, 0                                     \
	}
#define FIELD_TWO(type, tsv, json, kind, member)                                                   \
	{                                                                                          \
		tsv, json, kind, offsetof(type, member), 0, 0                                      \
	}
#define FIELD_TSV(type, name, kind, member)                                                        \
	{                                                                                          \
		name, NULL, kind, offsetof(type, member), 0, 0                                     \
	}
#define FIELD_JSON(type, name, kind, member)                                                       \
	{                                                                                          \
		NULL, name, kind, offsetof(type, member), 0, 0                                     \
	}

struct row_type {
	const struct field *fields;
	size_t count;
};

#define ROW_TYPE(fields)                                                                           \
	{                                                                                          \
		fields, sizeof(fields) / sizeof(*(fields))                                         \
	}

/* Whether the field is a column of TSV. */
bool fields_has_column(const struct field *field, unsigned asked);

/* Write the line of column names, and a row. `asked`: the bits of the fields to include. */
void fields_tsv_head(struct out *out, const struct row_type *type, unsigned asked);
void fields_tsv(struct out *out, const struct row_type *type, unsigned asked, const void *row);

/* Write the members of a row into the object that is open, and a row as an object on one line. */
void fields_json_members(struct json *json, const struct row_type *type, unsigned asked,
			 const void *row);
void fields_json(struct json *json, const struct row_type *type, unsigned asked, const void *row);

#endif
