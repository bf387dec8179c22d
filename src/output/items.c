/* SPDX-License-Identifier: MIT */
/* Writes the fields of an item, which <ptah/events.def> lists, as text and as JSON. */
#include "output/items.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Which member of the item decides whether it has the field, and how `mask` is compared with it. */
enum condition {
	WHEN_ALWAYS = 0,
	WHEN_DETAIL,   /* all bits of `mask` are set in `detail` */
	WHEN_FLAGS,    /* all bits of `mask` are set in `flags` */
	WHEN_NO_FLAGS, /* no bit of `mask` is set in `flags` */
	WHEN_MODE,     /* `mask` equals `mode` */
};

struct row {
	const char *name;
	uint8_t kind;	   /* enum item_field_kind */
	uint8_t at, width; /* the member of struct ptah_item; a word has none */
	uint8_t when;	   /* enum condition */
	uint8_t mask;
};

/* The fields of events.def; after the last of a type comes one without a name. */
static const struct row rows[PTAH_ITEM_TYPE_MAX][ITEM_FIELDS] = {
#define ALWAYS				       WHEN_ALWAYS, 0
#define DETAIL(bits)			       WHEN_DETAIL, (bits)
#define FLAGS(bits)			       WHEN_FLAGS, (bits)
#define NO_FLAGS(bits)			       WHEN_NO_FLAGS, (bits)
#define MODE(mode)			       WHEN_MODE, (mode)
#define MEMBER(member)			       offsetof(struct ptah_item, member), sizeof(((struct ptah_item *)0)->member)
#define PTAH_FIELD_DECIMAL(member, word, when) {word, ITEM_FIELD_DECIMAL, MEMBER(member), when},
#define PTAH_FIELD_HEX(member, word, when)     {word, ITEM_FIELD_HEX, MEMBER(member), when},
#define PTAH_FIELD_WORD(word, when)	       {word, ITEM_FIELD_WORD, 0, 0, when},
#define PTAH_ITEM(item, name, what, fields)    [PTAH_ITEM_##item] = {fields{NULL, 0, 0, 0, 0, 0}},
#include <ptah/events.def>
};

static bool applies(const struct row *row, const struct ptah_item *item)
{
	switch (row->when) {
	case WHEN_DETAIL:
		return (item->detail & row->mask) == row->mask;
	case WHEN_FLAGS:
		return (item->flags & row->mask) == row->mask;
	case WHEN_NO_FLAGS:
		return !(item->flags & row->mask);
	case WHEN_MODE:
		return item->mode == row->mask;
	default:
		return true;
	}
}

static uint64_t field_value(const struct row *row, const struct ptah_item *item)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)item + row->at, row->width);
	return row->width ? value : 1;
}

unsigned item_fields(const struct ptah_item *item, struct item_field *fields)
{
	unsigned n = 0;

	if (item->type >= PTAH_ITEM_TYPE_MAX)
		return 0;
	for (const struct row *row = rows[item->type]; row->name; row++)
		if (applies(row, item))
			fields[n++] =
			    (struct item_field){row->name, row->kind, field_value(row, item)};
	if (item->flags & PTAH_ITEM_STATUS && item->type != PTAH_ITEM_PSB && n < ITEM_FIELDS)
		fields[n++] = (struct item_field){"status", ITEM_FIELD_WORD, 1};
	return n;
}

void item_fields_text(struct out *out, const struct ptah_item *item)
{
	struct item_field fields[ITEM_FIELDS];
	unsigned n = item_fields(item, fields);

	for (unsigned i = 0; i < n; i++) {
		out_format(out, " %s", fields[i].name);
		if (fields[i].kind == ITEM_FIELD_HEX)
			out_format(out, " 0x%" PRIx64, fields[i].value);
		else if (fields[i].kind == ITEM_FIELD_DECIMAL)
			out_format(out, " %" PRIu64, fields[i].value);
	}
}

void item_fields_json(struct json *json, const struct ptah_item *item)
{
	struct item_field fields[ITEM_FIELDS];
	unsigned n = item_fields(item, fields);

	for (unsigned i = 0; i < n; i++) {
		if (fields[i].kind == ITEM_FIELD_HEX)
			json_address(json, fields[i].name, fields[i].value);
		else if (fields[i].kind == ITEM_FIELD_DECIMAL)
			json_number(json, fields[i].name, fields[i].value);
		else
			json_bool(json, fields[i].name, true);
	}
}
