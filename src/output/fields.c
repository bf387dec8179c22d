/* SPDX-License-Identifier: MIT */
/* Writes rows as TSV or JSON, as the description of their fields says. */
#include "output/fields.h"

static bool is_asked(const struct field *f, unsigned asked)
{
	return !f->asked || f->asked & asked;
}

bool fields_has_column(const struct field *f, unsigned asked)
{
	return f->tsv && is_asked(f, asked);
}

static bool has_value(const struct field *f, const void *row)
{
	return !f->has || *(const bool *)((const char *)row + f->has);
}

void fields_tsv_head(struct out *out, const struct row_type *type, unsigned asked)
{
	bool first = true;

	for (size_t i = 0; i < type->count; i++) {
		const struct field *f = &type->fields[i];

		if (!fields_has_column(f, asked))
			continue;
		if (!first)
			out_char(out, '\t');
		out_text(out, f->tsv);
		first = false;
	}
	out_char(out, '\n');
}

static void put_tsv(struct out *out, const struct field *f, const void *at)
{
	switch (f->kind) {
	case FIELD_SIGNED:
		out_signed(out, *(const int32_t *)at);
		break;
	case FIELD_NUMBER:
		out_decimal(out, *(const uint64_t *)at);
		break;
	case FIELD_ADDRESS:
		out_text(out, "0x");
		out_hex(out, *(const uint64_t *)at);
		break;
	case FIELD_STRING:
		if (*(const char *const *)at)
			out_clean(out, *(const char *const *)at);
		break;
	case FIELD_REAL:
		out_format(out, "%.3f", *(const double *)at);
		break;
	case FIELD_BOOL:
		out_char(out, *(const bool *)at ? '1' : '0');
		break;
	case FIELD_SECONDS:
		out_seconds(out, *(const uint64_t *)at);
		break;
	}
}

void fields_tsv(struct out *out, const struct row_type *type, unsigned asked, const void *row)
{
	bool first = true;

	for (size_t i = 0; i < type->count; i++) {
		const struct field *f = &type->fields[i];

		if (!fields_has_column(f, asked))
			continue;
		if (!first)
			out_char(out, '\t');
		if (has_value(f, row))
			put_tsv(out, f, (const char *)row + f->at);
		first = false;
	}
	out_char(out, '\n');
}

static void put_json(struct json *json, const struct field *f, const void *at)
{
	switch (f->kind) {
	case FIELD_SIGNED:
		json_signed(json, f->json, *(const int32_t *)at);
		break;
	case FIELD_NUMBER:
		json_number(json, f->json, *(const uint64_t *)at);
		break;
	case FIELD_ADDRESS:
		json_address(json, f->json, *(const uint64_t *)at);
		break;
	case FIELD_STRING:
		json_string(json, f->json, *(const char *const *)at);
		break;
	case FIELD_REAL:
		json_real(json, f->json, *(const double *)at);
		break;
	case FIELD_BOOL:
		json_bool(json, f->json, *(const bool *)at);
		break;
	case FIELD_SECONDS:
		json_seconds(json, f->json, *(const uint64_t *)at);
		break;
	}
}

void fields_json_members(struct json *json, const struct row_type *type, unsigned asked,
			 const void *row)
{
	for (size_t i = 0; i < type->count; i++) {
		const struct field *f = &type->fields[i];

		if (f->json && is_asked(f, asked) && has_value(f, row))
			put_json(json, f, (const char *)row + f->at);
	}
}

void fields_json(struct json *json, const struct row_type *type, unsigned asked, const void *row)
{
	json_object(json, NULL, true);
	fields_json_members(json, type, asked, row);
	json_end_object(json);
}
