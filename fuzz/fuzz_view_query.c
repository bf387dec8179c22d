/* SPDX-License-Identifier: MIT */
/*
 * Proves of the questions of `ptah view`, which any program on the machine may send: any bytes are
 * parsed or refused; what was parsed, written with every byte as %XX, is parsed to the same;
 * numbers are within their limits and finite.
 */
#include "fuzz.h"

#include "view/query.h"

#include <math.h>
#include <ptah/base.h>

static char *put_encoded(char *to, const char *text)
{
	for (; *text; text++)
		to += sprintf(to, "%%%02X", (unsigned char)*text);
	return to;
}

static void check_same(const struct view_query *a)
{
	char *text = malloc(3 * sizeof(a->text) + 2 * VIEW_QUERY_PARAMETERS + 2), *to;
	struct view_query b;

	CHECK(text);
	to = put_encoded(text, a->path);
	*to++ = '?';
	for (size_t i = 0; i < a->count; i++) {
		to = put_encoded(to, a->parameters[i].name);
		*to++ = '=';
		to = put_encoded(to, a->parameters[i].value);
		*to++ = '&';
	}
	*to = '\0';
	if ((size_t)(to - text) < VIEW_QUERY_SIZE) {
		CHECK(!view_query_parse(&b, text));
		CHECK(!strcmp(a->path, b.path));
		for (size_t i = 0; i < a->count; i++) {
			const char *value = view_query_text(&b, a->parameters[i].name);

			CHECK(!*a->parameters[i].name ||
			      (value && !strcmp(value, a->parameters[i].value)));
		}
	} else {
		CHECK(view_query_parse(&b, text) == PTAH_E_INVAL);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);
	struct view_query query;
	int status;

	CHECK(text);
	if (size)
		memcpy(text, data, size);
	status = view_query_parse(&query, text);
	CHECK(!status || status == PTAH_E_INVAL);
	CHECK(query.count <= VIEW_QUERY_PARAMETERS && strlen(query.path) < VIEW_QUERY_SIZE);
	for (size_t i = 0; i < query.count; i++) {
		const char *name = query.parameters[i].name;
		uint64_t number;
		double real;

		CHECK(view_query_text(&query, name) == query.parameters[i].value);
		CHECK(!view_query_number(&query, name, 999, &number) || number <= 999);
		CHECK(!view_query_real(&query, name, &real) || isfinite(real));
	}
	if (!status)
		check_same(&query);
	free(text);
	return 0;
}
