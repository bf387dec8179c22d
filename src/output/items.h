/* SPDX-License-Identifier: MIT */
/* The fields of events, by name: one table for all formats, made from events.def. */
#ifndef PTAH_OUTPUT_ITEMS_H
#define PTAH_OUTPUT_ITEMS_H

#include "output/json.h"
#include "output/out.h"

#include <ptah/event.h>

enum item_field_kind {
	ITEM_FIELD_DECIMAL = 0,
	ITEM_FIELD_HEX,
	ITEM_FIELD_WORD, /* a word without a value */
};

struct item_field {
	const char *name;
	enum item_field_kind kind;
	uint64_t value;
};

#define ITEM_FIELDS 8

/*
 * Fills in up to ITEM_FIELDS fields and returns how many the item has. Its address and clocks are
 * not among them.
 */
unsigned item_fields(const struct ptah_item *item, struct item_field *fields);

/* Writes " vector 14 cr2 0x1000". */
void item_fields_text(struct out *out, const struct ptah_item *item);

/* Writes "vector": 14, "cr2": "0x1000" into the object that is open. */
void item_fields_json(struct json *json, const struct ptah_item *item);

#endif
