/* SPDX-License-Identifier: MIT */
/* What an event carries, by name: one table for every format (see events.def). */
#ifndef PTAH_OUTPUT_ITEMS_H
#define PTAH_OUTPUT_ITEMS_H

#include "output/json.h"
#include "output/out.h"

#include <ptah/event.h>

enum item_field_kind {
	ITEM_FIELD_DECIMAL = 0,
	ITEM_FIELD_HEX,
	ITEM_FIELD_WORD, /* true, and nothing more */
};

struct item_field {
	const char *name;
	enum item_field_kind kind;
	uint64_t value;
};

#define ITEM_FIELDS 8

/* Fills `fields` (ITEM_FIELDS of them) and returns how many the item has, without ip and clocks. */
unsigned item_fields(const struct ptah_item *item, struct item_field *fields);

/* " vector 14 cr2 0x1000" */
void item_fields_text(struct out *out, const struct ptah_item *item);

/* Keys of the object that is open: "vector": 14, "cr2": "0x1000" */
void item_fields_json(struct json *json, const struct ptah_item *item);

#endif
