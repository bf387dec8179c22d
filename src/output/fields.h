/* SPDX-License-Identifier: MIT */
/*
 * Fields: one description of a table for TSV and JSON.
 *
 * A field says under which name a member of a row stands in a column of TSV and
 * in an object of JSON, and how it is written. The order is that of the
 * description; a field whose place differs between the two stands twice in it,
 * once for each.
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
};

struct field {
	const char *tsv;  /* the column; NULL: none */
	const char *json; /* the key; NULL: none */
	enum field_kind kind;
	size_t at;	/* offset in the row */
	unsigned asked; /* the bit that asks for the field; 0: it is always there */
	size_t has;	/* offset of a bool: has the row a value? 0: it always has */
};

/* Fields of `type`, in both formats by one name or by two, or in one of them alone. */
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

/* The line of names, and a row. `asked`: the bits of the fields that were asked for. */
void fields_tsv_head(struct out *out, const struct row_type *type, unsigned asked);
void fields_tsv(struct out *out, const struct row_type *type, unsigned asked, const void *row);

/* The members of a row, in the object that is open; and a whole object on one line. */
void fields_json_members(struct json *json, const struct row_type *type, unsigned asked,
			 const void *row);
void fields_json(struct json *json, const struct row_type *type, unsigned asked, const void *row);

#endif
