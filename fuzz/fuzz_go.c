/* SPDX-License-Identifier: MIT */
/*
 * Proves of Go's tables of functions (.gopclntab): any bytes are read or refused; functions have a
 * name and bounds that are not empty, a line that is found contains the address, and lines are
 * visited within the bounds of the request.
 *
 * Input: the table.
 */
#include "fuzz.h"

#include "symbol/go.h"

struct visited {
	uint64_t start, end;
	unsigned left;
};

static bool check_line(void *context, const struct symbol_go_line *line)
{
	struct visited *v = context;

	CHECK(v->start <= line->start && line->start < line->end && line->end <= v->end);
	return --v->left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbol_ranges ranges = {0};
	struct symbol_names names = {0};
	struct symbol_go_line line;
	struct symbol_go go;

	if (!symbol_go_open(&go, data, size, 0x401000))
		return 0;
	symbol_go_add(&go, &ranges, &names);
	for (size_t i = 0; i < ranges.count && i < 64; i++) {
		const struct symbol_range *r = &ranges.items[i];
		const uint64_t at[] = {r->start, r->start + r->size / 2, r->end - 1, r->end};

		struct visited v = {r->start, r->start + r->size / 2 + 1, 1000};

		CHECK(r->start < r->end && names.bytes[r->name]);
		symbol_go_lines(&go, v.start, v.end, check_line, &v);
		for (size_t k = 0; k < sizeof(at) / sizeof(*at); k++) {
			if (!symbol_go_line(&go, at[k], &line))
				continue;
			CHECK(line.start <= at[k] && at[k] < line.end);
			CHECK(!line.file || strlen(line.file) < size);
		}
	}
	symbol_ranges_free(&ranges);
	free(names.bytes);
	return 0;
}
