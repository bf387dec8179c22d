/* SPDX-License-Identifier: MIT */
/*
 * Go's table of functions: tables of each layout are written here, after the comments of Go's
 * linker and debug/gosym, and read. tests/cli/go.sh compares with what Go itself says of a program.
 */
#include "../test.h"

#include "base/bits.h"
#include "symbol/go.h"

#include <ptah/symbol.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT UINT64_C(0x401000)

struct made {
	uint8_t bytes[4096];
	size_t n;
};

static void put(struct made *m, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		m->bytes[m->n++] = (uint8_t)(value >> 8 * i);
}

static size_t put_text(struct made *m, const char *text)
{
	const size_t at = m->n;

	memcpy(m->bytes + at, text, strlen(text) + 1);
	m->n += strlen(text) + 1;
	return at;
}

static void store(struct made *m, size_t at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		m->bytes[at + i] = (uint8_t)(value >> 8 * i);
}

/* Values and how many bytes of code each is for; the first value is counted from -1. */
struct step {
	int change;
	unsigned code;
};

static size_t put_values(struct made *m, const struct step *steps, size_t n)
{
	const size_t at = m->n;

	for (size_t i = 0; i < n; i++) {
		const uint32_t c =
		    (uint32_t)steps[i].change << 1 ^ (uint32_t)(steps[i].change >> 31);

		if (c >= 128) {
			put(m, (c & 0x7f) | 0x80, 1);
			put(m, c >> 7, 1);
		} else {
			put(m, c, 1);
		}
		put(m, steps[i].code, 1);
	}
	put(m, 0, 1);
	return at;
}

static const struct {
	uint32_t magic;
	unsigned words;
	bool short_addresses;
} layouts[] = {
    {0xfffffffb, 1, false}, {0xfffffffa, 7, false}, {0xfffffff0, 8, true}, {0xfffffff1, 8, true}};

/* main.one has 32 bytes and two files, main.two 16 bytes. */
static void make_table(struct made *m, unsigned layout, uint64_t text)
{
	static const struct step lines[] = {{11, 8}, {200, 16}, {-3, 8}};
	static const struct step files[] = {{2, 24}, {1, 8}}, line[] = {{6, 16}},
				 file[] = {{2, 16}};
	const bool old = layout == 0, small = layouts[layout].short_addresses;
	const unsigned address = small ? 4 : 8;
	size_t words, functions, names[2], values[4], units = 0, strings[2], list, base;

	memset(m, 0, sizeof(*m));
	put(m, layouts[layout].magic, 4);
	put(m, 0x08010000, 4);
	words = m->n;
	m->n += (size_t)8 * layouts[layout].words;
	store(m, words, 2, 8);
	functions = m->n; /* 1.2: right after the header */
	if (old)
		m->n += 2 * 16 + 8 + 4;
	base = old ? 0 : m->n;
	names[0] = put_text(m, "main.one") - base;
	names[1] = put_text(m, "main.two") - base;
	if (!old) {
		store(m, words + 8 * (layouts[layout].words - 5), base, 8);
		/* Three files of the unit; the first one of another unit is before them. */
		store(m, words + 8 * (layouts[layout].words - 4), m->n, 8);
		units = m->n;
		put(m, 0, 4);
		m->n += 16;
		base = m->n;
		store(m, words + 8 * (layouts[layout].words - 3), base, 8);
	}
	strings[0] = put_text(m, "/src/a.go") - base;
	strings[1] = put_text(m, "/src/b.go") - base;
	list = m->n;
	if (old) {
		put(m, 3, 4);
		put(m, strings[0], 4);
		put(m, strings[1], 4);
	} else {
		store(m, units + 4 + 4, strings[0], 4);
		store(m, units + 4 + 8, strings[1], 4);
		store(m, units + 4, UINT32_MAX, 4);
		base = m->n;
		put(m, 0, 1);
		store(m, words + 8 * (layouts[layout].words - 2), base, 8);
	}
	if (old)
		base = 0;
	values[0] = put_values(m, lines, 3) - base;
	values[1] = put_values(m, files, 2) - base;
	values[2] = put_values(m, line, 1) - base;
	values[3] = put_values(m, file, 1) - base;
	if (!old) {
		functions = base = m->n;
		store(m, words + 8 * (layouts[layout].words - 1), base, 8);
		m->n += (size_t)2 * 2 * address + address;
	}
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t start = (i ? 32 : 0) + (small ? 0 : TEXT);

		store(m, functions + (size_t)2 * address * i, start, address);
		store(m, functions + (size_t)2 * address * i + address, m->n - base, address);
		put(m, start, address);
		put(m, names[i], 4);
		put(m, 0, 4);
		put(m, 0, 4);
		put(m, 0, 4);
		put(m, values[2 * i + 1], 4);
		put(m, values[2 * i], 4);
		put(m, 0, 4);
		put(m, 1, 4); /* the unit's first index */
	}
	store(m, functions + (size_t)2 * address * 2, 48 + (small ? 0 : TEXT), address);
	if (old)
		store(m, functions + 2 * 16 + 8, list, 4);
	if (small)
		store(m, words + 16, text, 8);
}

static void expect_line(const struct symbol_go *go, uint64_t inside, const char *file,
			uint32_t line, uint64_t start, uint64_t end)
{
	struct symbol_go_line found;

	assert_true(symbol_go_line(go, TEXT + inside, &found));
	assert_int_equal(found.line, line);
	assert_non_null(found.file);
	assert_string_equal(found.file, file);
	assert_int_equal(found.start, TEXT + start);
	assert_int_equal(found.end, TEXT + end);
}

/* Lines as they are visited, as text. */
static bool list_line(void *context, const struct symbol_go_line *line)
{
	char *text = context;

	snprintf(text + strlen(text), 256 - strlen(text), "%d-%d %s:%u\n",
		 (int)(line->start - TEXT), (int)(line->end - TEXT), line->file ? line->file : "?",
		 line->line);
	return true;
}

static void expect_lines(const struct symbol_go *go, uint64_t start, uint64_t end,
			 const char *wanted)
{
	char text[256] = "";

	assert_int_equal(symbol_go_lines(go, start, end, list_line, text), 0);
	assert_string_equal(text, wanted);
}

TEST(each_layout_is_read)
{
	for (unsigned layout = 0; layout < 4; layout++) {
		struct symbol_ranges ranges = {0};
		struct symbol_names names = {0};
		struct symbol_go_line none;
		struct symbol_go go;
		struct made m;

		make_table(&m, layout, layout == 3 ? 0 : TEXT);
		assert_true(symbol_go_open(&go, m.bytes, m.n, TEXT));
		symbol_go_add(&go, &ranges, &names);
		assert_int_equal(ranges.count, 2);
		assert_string_equal(names.bytes + ranges.items[0].name, "main.one");
		assert_int_equal(ranges.items[0].start, TEXT);
		assert_int_equal(ranges.items[0].end, TEXT + 32);
		assert_string_equal(names.bytes + ranges.items[1].name, "main.two");
		assert_int_equal(ranges.items[1].start, TEXT + 32);
		assert_int_equal(ranges.items[1].end, TEXT + 48);
		symbol_ranges_free(&ranges);
		free(names.bytes);

		expect_line(&go, 0, "/src/a.go", 10, 0, 8);
		expect_line(&go, 23, "/src/a.go", 210, 8, 24);
		expect_line(&go, 24, "/src/b.go", 207, 24, 32);
		expect_line(&go, 33, "/src/a.go", 5, 32, 48);
		expect_lines(&go, 0, UINT64_MAX,
			     "0-8 /src/a.go:10\n8-24 /src/a.go:210\n24-32 /src/b.go:207\n"
			     "32-48 /src/a.go:5\n");
		expect_lines(&go, TEXT + 10, TEXT + 40,
			     "10-24 /src/a.go:210\n24-32 /src/b.go:207\n32-40 /src/a.go:5\n");
		expect_lines(&go, TEXT + 48, TEXT + 50, "");
		assert_false(symbol_go_line(&go, TEXT - 1, &none));
		assert_false(symbol_go_line(&go, TEXT + 48, &none));
	}
}

/* Wherever the table is cut off, what remains is read or refused. */
TEST(tables_that_are_cut_do_no_harm)
{
	for (unsigned layout = 0; layout < 4; layout++) {
		struct made m;

		make_table(&m, layout, TEXT);
		for (size_t n = 0; n < m.n; n++) {
			struct symbol_ranges ranges = {0};
			struct symbol_names names = {0};
			struct symbol_go_line line;
			struct symbol_go go;
			uint8_t *copy = malloc(n + 1);
			char text[256];

			assert_non_null(copy);
			memcpy(copy, m.bytes, n);
			if (symbol_go_open(&go, copy, n, TEXT)) {
				symbol_go_add(&go, &ranges, &names);
				assert_true(ranges.count <= 2);
				symbol_go_line(&go, TEXT + 25, &line);
				memset(text, 0, sizeof(text));
				symbol_go_lines(&go, 0, UINT64_MAX, list_line, text);
			}
			symbol_ranges_free(&ranges);
			free(names.bytes);
			free(copy);
		}
	}
}
