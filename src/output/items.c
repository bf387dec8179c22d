/* SPDX-License-Identifier: MIT */
#include "output/items.h"

#include "base/compiler.h"

#include <inttypes.h>

enum source {
	FROM_NOTHING, /* a word */
	FROM_TO,
	FROM_VALUE,
	FROM_VALUE_LOW,
	FROM_VALUE_HIGH,
	FROM_COUNT,
};

/* When the item has the field. */
enum condition {
	ALWAYS = 0,
	DETAIL,	   /* all bits of `mask` are set in `detail` */
	FLAGS,	   /* ... in `flags` */
	NOT_FLAGS, /* none of them is */
	MODE,	   /* `mode` is `mask` */
};

static const struct row {
	uint8_t type;
	const char *name;
	uint8_t source; /* enum source */
	uint8_t kind;	/* enum item_field_kind */
	uint8_t when;	/* enum condition */
	uint8_t mask;
} rows[] = {
#define ROW(type, ...)                                                                             \
	{                                                                                          \
		PTAH_ITEM_##type, __VA_ARGS__                                                      \
	}
#define WORD(type, name, ...) ROW(type, name, FROM_NOTHING, ITEM_FIELD_WORD, __VA_ARGS__)
    ROW(DISABLED, "to", FROM_TO, ITEM_FIELD_HEX, NOT_FLAGS, PTAH_ITEM_IP_SUPPRESSED),
    ROW(ASYNC_DISABLED, "to", FROM_TO, ITEM_FIELD_HEX, NOT_FLAGS, PTAH_ITEM_IP_SUPPRESSED),
    ROW(ASYNC_BRANCH, "to", FROM_TO, ITEM_FIELD_HEX, ALWAYS, 0),
    WORD(EXEC_MODE, "16-bit", MODE, PTAH_EXEC_16),
    WORD(EXEC_MODE, "32-bit", MODE, PTAH_EXEC_32),
    WORD(EXEC_MODE, "64-bit", MODE, PTAH_EXEC_64),
    ROW(PAGING, "cr3", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    WORD(PAGING, "non-root", FLAGS, PTAH_ITEM_NON_ROOT),
    ROW(ASYNC_PAGING, "cr3", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    WORD(ASYNC_PAGING, "non-root", FLAGS, PTAH_ITEM_NON_ROOT),
    ROW(VMCS, "base", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(ASYNC_VMCS, "base", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(GAP, "to", FROM_TO, ITEM_FIELD_HEX, ALWAYS, 0),
    WORD(TSX, "begin", FLAGS, PTAH_ITEM_SPECULATIVE),
    WORD(TSX, "abort", FLAGS, PTAH_ITEM_ABORTED),
    WORD(TSX, "commit", NOT_FLAGS, PTAH_ITEM_SPECULATIVE | PTAH_ITEM_ABORTED),
    ROW(CBR, "ratio", FROM_VALUE, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(PTWRITE, "payload", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(PTWRITE, "size", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(MNT, "payload", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(MWAIT, "hints", FROM_VALUE_LOW, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(MWAIT, "extensions", FROM_VALUE_HIGH, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(PWRE, "state", FROM_VALUE, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(PWRE, "sub-state", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    WORD(PWRE, "hardware", DETAIL, PTAH_DETAIL_HW),
    ROW(PWRX, "last", FROM_VALUE, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(PWRX, "deepest", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    WORD(PWRX, "interrupt", DETAIL, PTAH_DETAIL_INTERRUPT),
    WORD(PWRX, "store", DETAIL, PTAH_DETAIL_STORE),
    WORD(PWRX, "autonomous", DETAIL, PTAH_DETAIL_AUTONOMOUS),
    ROW(IFLAGS, "if", FROM_VALUE, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(INTERRUPT, "vector", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(INTERRUPT, "cr2", FROM_VALUE, ITEM_FIELD_HEX, DETAIL, PTAH_DETAIL_CR2),
    ROW(SIPI, "vector", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(VMEXIT, "vector", FROM_COUNT, ITEM_FIELD_DECIMAL, DETAIL, PTAH_DETAIL_VECTOR),
    ROW(VMEXIT, "reason", FROM_TO, ITEM_FIELD_DECIMAL, DETAIL, PTAH_DETAIL_REASON),
    ROW(VMEXIT, "qualification", FROM_VALUE, ITEM_FIELD_HEX, DETAIL, PTAH_DETAIL_QUALIFICATION),
    ROW(UINTR, "vector", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(SWINTR, "vector", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(TRIGGER, "bits", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(TRIGGER, "instructions", FROM_COUNT, ITEM_FIELD_DECIMAL, DETAIL, PTAH_DETAIL_ICNT),
    WORD(TRIGGER, "multiple", DETAIL, PTAH_DETAIL_MULT),
    ROW(PEBS_BEGIN, "type", FROM_VALUE, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(PEBS_BEGIN, "size", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(PEBS_ITEM, "id", FROM_TO, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(PEBS_ITEM, "payload", FROM_VALUE, ITEM_FIELD_HEX, ALWAYS, 0),
    ROW(PEBS_ITEM, "size", FROM_COUNT, ITEM_FIELD_DECIMAL, ALWAYS, 0),
    ROW(TICK, "cycles", FROM_VALUE, ITEM_FIELD_DECIMAL, ALWAYS, 0),
};

static bool applies(const struct row *row, const struct ptah_item *item)
{
	switch (row->when) {
	case DETAIL:
		return (item->detail & row->mask) == row->mask;
	case FLAGS:
		return (item->flags & row->mask) == row->mask;
	case NOT_FLAGS:
		return !(item->flags & row->mask);
	case MODE:
		return item->mode == row->mask;
	default:
		return true;
	}
}

static uint64_t field_value(const struct row *row, const struct ptah_item *item)
{
	switch (row->source) {
	case FROM_TO:
		return item->to;
	case FROM_VALUE:
		return item->value;
	case FROM_VALUE_LOW:
		return item->value & UINT32_MAX;
	case FROM_VALUE_HIGH:
		return item->value >> 32;
	case FROM_COUNT:
		return item->count;
	default:
		return 1;
	}
}

unsigned item_fields(const struct ptah_item *item, struct item_field *fields)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows) && n < ITEM_FIELDS; i++)
		if (rows[i].type == item->type && applies(&rows[i], item))
			fields[n++] = (struct item_field){rows[i].name, rows[i].kind,
							  field_value(&rows[i], item)};
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
