/* SPDX-License-Identifier: MIT */
/* source_store.h: what is added up, and what stays apart. */
#include "test.h"

#include "export/source_store.h"

#include <stdio.h>
#include <stdlib.h>

static void add_branch(struct source_store *store, uint32_t file, uint64_t group, uint32_t ordinal,
		       uint64_t order, uint64_t count)
{
	const struct stored_branch branch = {.file = file,
					     .line = 5,
					     .function = SOURCE_NO_FUNCTION,
					     .ordinal = ordinal,
					     .group = group,
					     .order = order,
					     .executed = count,
					     .ways = {{.count = count, .fall_through = true}, {0}}};

	assert_true(source_store_branch(store, &branch));
}

static void add_line(struct source_store *store, uint32_t file, uint32_t line, uint32_t function,
		     uint64_t count)
{
	const struct stored_line l = {
	    .file = file, .line = line, .function = function, .count = count};

	assert_true(source_store_line(store, &l));
}

static void finish(struct source_store *store, struct source_coverage *coverage)
{
	*coverage = (struct source_coverage){0};
	assert_int_equal(source_store_finish(store, coverage), 0);
	source_store_free(store);
}

static void fini(struct source_coverage *coverage)
{
	for (size_t i = 0; i < coverage->file_count; i++)
		source_file_fini(&coverage->files[i]);
	free(coverage->files);
}

TEST(names_with_dots_are_one_file)
{
	static const char first[] = "/src/sub/../a.h", second[] = "/src/./a.h",
			  other[] = "/src/b.h";
	const struct source_coverage_config config = {0};
	struct source_store store = {.config = &config};
	struct source_coverage c;

	add_line(&store, source_store_file(&store, other), 9, SOURCE_NO_FUNCTION, 1);
	add_line(&store, source_store_file(&store, first), 3, SOURCE_NO_FUNCTION, 2);
	add_line(&store, source_store_file(&store, second), 3, SOURCE_NO_FUNCTION, 40);
	add_line(&store, source_store_file(&store, second), 2, SOURCE_NO_FUNCTION, 0);
	finish(&store, &c);
	assert_int_equal(c.file_count, 2);
	assert_string_equal(c.files[0].name, "/src/a.h");
	assert_int_equal(c.files[0].line_count, 2);
	assert_int_equal(c.files[0].lines_hit, 1);
	assert_int_equal(c.files[0].lines[0].line, 2);
	assert_int_equal(c.files[0].lines[1].count, 42);
	assert_string_equal(c.files[1].name, "/src/b.h");
	fini(&c);
}

TEST(copies_are_added_up_and_other_shapes_are_not)
{
	static const char name[] = "/a.c";
	const struct source_coverage_config config = {0};
	struct source_store store = {.config = &config};
	struct source_coverage c;
	const uint32_t file = source_store_file(&store, name);

	add_line(&store, file, 5, SOURCE_NO_FUNCTION, 1);
	add_branch(&store, file, 77, 0, 100, 3); /* a copy with two branches */
	add_branch(&store, file, 77, 1, 100, 0);
	add_branch(&store, file, 55, 0, 50, 7); /* compiled otherwise, earlier in the code */
	add_branch(&store, file, 77, 0, 200, 4);
	add_branch(&store, file, 77, 1, 200, 9);
	finish(&store, &c);
	assert_int_equal(c.files[0].branch_count, 3);
	assert_int_equal(c.files[0].branches[0].executed, 7);
	assert_int_equal(c.files[0].branches[1].executed, 3 + 4);
	assert_int_equal(c.files[0].branches[2].ways[0].count, 9);
	assert_true(c.files[0].branches[2].ways[0].fall_through);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(c.files[0].branches[i].block, i);
	assert_int_equal(c.files[0].ways_hit, 3);
	fini(&c);
}

TEST(functions_keep_their_lines)
{
	static const char name[] = "/a.c";
	const struct source_coverage_config config = {0};
	struct source_store store = {.config = &config};
	struct source_coverage c;
	const uint32_t file = source_store_file(&store, name);
	/* In two programs; by their addresses `last` comes first. */
	const struct stored_function list[] = {
	    {file, {.name = "last", .shown = "last", .first = 20, .last = 22, .calls = 1}},
	    {file, {.name = "first", .shown = "first", .first = 3, .last = 5, .calls = 2}},
	    {file, {.name = "last", .shown = "last", .first = 20, .last = 23, .calls = 4}},
	};

	for (size_t i = 0; i < 3; i++)
		assert_true(source_store_function(&store, &list[i]));
	add_line(&store, file, 3, 1, 2);
	add_line(&store, file, 20, 0, 1);
	add_line(&store, file, 23, 2, 4);
	finish(&store, &c);
	assert_int_equal(c.files[0].function_count, 2);
	assert_string_equal(c.files[0].functions[1].name, "last");
	assert_int_equal(c.files[0].functions[1].calls, 5);
	assert_int_equal(c.files[0].functions[1].last, 23);
	assert_int_equal(c.files[0].lines[0].function, 0);
	assert_int_equal(c.files[0].lines[1].function, 1);
	assert_int_equal(c.files[0].lines[2].function, 1);
	fini(&c);
}

TEST(patterns_are_of_whole_names)
{
	static const char *const names[] = {"/src/a.c", "/src/sub/b.c", "/usr/include/c.h", "d.c"};
	static const char *const include[] = {"/src/*", "*.h", NULL};
	static const char *const exclude[] = {"*/sub/*", "a.c", NULL};
	const struct source_coverage_config config = {.include = include, .exclude = exclude};
	struct source_store store = {.config = &config};
	static const bool wanted[] = {true, false, true, false};

	for (size_t i = 0; i < 4; i++)
		assert_int_equal(source_store_file(&store, names[i]), i);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(store.files[i].wanted, wanted[i]);
	source_store_free(&store);
}

TEST(many_lines_of_many_files)
{
	const struct source_coverage_config config = {0};
	struct source_store store = {.config = &config};
	char names[600][8];
	struct source_coverage c;

	for (unsigned i = 0; i < 600; i++)
		snprintf(names[i], sizeof(names[i]), "/%u", i);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 600; i++)
			for (uint32_t line = 1; line <= 120; line++)
				add_line(&store, source_store_file(&store, names[i]), line,
					 SOURCE_NO_FUNCTION, line == 7);
	/* More than 2^16 are added up on the way. */
	assert_true(store.line_count < 3 * 600 * 120);
	finish(&store, &c);
	assert_int_equal(c.file_count, 600);
	for (size_t i = 0; i < 600; i++) {
		assert_int_equal(c.files[i].line_count, 120);
		assert_int_equal(c.files[i].lines_hit, 1);
		assert_int_equal(c.files[i].lines[6].count, 3);
	}
	fini(&c);
}
