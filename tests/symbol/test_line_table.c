/* SPDX-License-Identifier: MIT */
/* Line tables that no compiler writes today, byte by byte: see DWARF 5, section 6.2. */
#include "../test.h"

#include "symbol/line_table.h"

#include <ptah/base.h>

/* Version 4, minimum instruction length 1, line base -5, line range 14, opcode base 13. */
static const uint8_t prologue[] = {
    0,	 0,   0,   0,				   /* length, see make() */
    4,	 0,					   /* version */
    38,	 0,   0,   0,				   /* header length */
    1,	 1,   1,   0xfb, 14, 13,		   /* and so on */
    0,	 1,   1,   1,	 1,  0,	 0, 0, 1, 0, 0, 1, /* operands of standard opcodes */
    'i', 'n', 'c', 0,	 0,			   /* folders */
    'a', '.', 'c', 0,	 0,  0,	 0,		   /* files: name, folder, time, size */
    'b', '.', 'h', 0,	 1,  0,	 0, 0,
};

struct bytes {
	uint8_t items[512];
	size_t count;
};

static void add(struct bytes *b, const void *items, size_t n)
{
	memcpy(b->items + b->count, items, n);
	b->count += n;
}

static void add_sequence(struct bytes *b, uint64_t start, uint8_t size, uint8_t line)
{
	const uint8_t set[] = {0, 9, 2}, rest[] = {3, line, 1, 2, size, 0, 1, 1};

	add(b, set, sizeof(set));
	add(b, &start, sizeof(start));
	/* advance_line, copy, advance_pc, end_sequence */
	add(b, rest, sizeof(rest));
}

static struct bytes make(void)
{
	struct bytes b = {{0}, 0};

	add(&b, prologue, sizeof(prologue));
	b.items[6] = (uint8_t)(sizeof(prologue) - 10);
	return b;
}

static bool is_code(const void *context, uint64_t address)
{
	(void)context;
	return address >= 0x1000;
}

static int read_table(struct bytes *b, struct symbol_line_table *table)
{
	struct symbol_line_sections sections = {.lines = {b->items, b->count}};
	uint32_t length = (uint32_t)b->count - 4;

	memcpy(b->items, &length, sizeof(length));
	return symbol_line_table_read(&sections, 0, is_code, NULL, table);
}

/* A discarded function lies at 0: with 127 bytes it does not reach the code, with 5000 it does. */
TEST(rows_of_discarded_functions_are_left_out)
{
	const uint8_t set[] = {0, 9, 2}, wide[] = {3, 1, 1, 2, 0x88, 0x27, 0, 1, 1};
	struct symbol_line_table table;
	struct bytes b = make();
	uint64_t zero = 0;

	add_sequence(&b, 0x1010, 16, 7);
	add(&b, set, sizeof(set));
	add(&b, &zero, sizeof(zero));
	add(&b, wide, sizeof(wide));
	add_sequence(&b, 0x1000, 8, 3);
	assert_int_equal(read_table(&b, &table), 0);
	assert_int_equal(table.count, 2);
	assert_int_equal(table.rows[0].start, 0x1000);
	assert_int_equal(table.rows[0].size, 8);
	assert_int_equal(table.rows[0].line, 4);
	assert_int_equal(table.rows[1].start, 0x1010);
	assert_int_equal(table.rows[1].size, 16);
	assert_int_equal(table.rows[1].line, 8);
	assert_string_equal(symbol_line_table_file(&table, 2)->name, "b.h");
	assert_string_equal(symbol_line_table_file(&table, 2)->folder, "inc");
	assert_null(symbol_line_table_file(&table, 1)->folder);
	assert_null(symbol_line_table_file(&table, 0));
	assert_null(symbol_line_table_file(&table, 3));
	symbol_line_table_free(&table);
}

/* A linker that folds equal functions leaves several sequences at one address. */
TEST(overlapping_sequences_become_disjoint)
{
	struct symbol_line_table table;
	struct bytes b = make();

	add_sequence(&b, 0x1008, 16, 20);
	add_sequence(&b, 0x1000, 16, 10);
	add_sequence(&b, 0x1000, 16, 30);
	assert_int_equal(read_table(&b, &table), 0);
	assert_int_equal(table.count, 2);
	assert_int_equal(table.rows[0].line, 11);
	assert_int_equal(table.rows[0].size, 16);
	assert_int_equal(table.rows[1].start, 0x1010);
	assert_int_equal(table.rows[1].size, 8);
	assert_int_equal(table.rows[1].line, 21);
	symbol_line_table_free(&table);
}

TEST(a_table_that_is_cut_off_is_malformed)
{
	struct symbol_line_table table;
	struct bytes b = make();

	add_sequence(&b, 0x1000, 16, 10);
	for (size_t n = 0; n < sizeof(prologue); n++) {
		struct bytes cut = b;

		cut.count = n > 4 ? n : 4;
		assert_int_equal(read_table(&cut, &table), PTAH_E_BAD_FILE);
		assert_null(table.rows);
	}
}

/* 2^56 entries that take no bytes each. */
TEST(a_count_of_entries_without_bytes_is_refused)
{
	static const uint8_t header[] = {
	    0, 0, 0, 0, 5, 0, 8, 0, 30, 0, 0, 0,    1,	  1,	1,    0xfb, 14,	  13,	0,    1,
	    1, 1, 1, 0, 0, 0, 1, 0, 0,	1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
	};
	struct symbol_line_table table;
	struct bytes b = {{0}, 0};

	add(&b, header, sizeof(header));
	b.items[8] = (uint8_t)(sizeof(header) - 12);
	assert_int_equal(read_table(&b, &table), PTAH_E_BAD_FILE);
}

TEST(a_special_opcode_needs_a_line_range)
{
	const uint8_t special = 200;
	struct symbol_line_table table;
	struct bytes b = make();

	b.items[14] = 0;
	add(&b, &special, 1);
	assert_int_equal(read_table(&b, &table), PTAH_E_BAD_FILE);
}
