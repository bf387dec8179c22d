/* SPDX-License-Identifier: MIT */
/* Which functions of two runs are compared with each other. */
#include "test.h"

#include "output/diff.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static const uint8_t id_1[] = {1, 1}, id_2[] = {2, 2};

#define ENTRY(PATH, NAME, VALUE)                                                                   \
	{                                                                                          \
		.path = PATH, .name = NAME, .value = VALUE                                         \
	}

static const struct diff_row *row_of(const struct diff *d, const char *name)
{
	const struct diff_row *found = NULL;

	for (size_t i = 0; i < d->count; i++) {
		if (strcmp(d->rows[i].name, name))
			continue;
		assert_null(found);
		found = &d->rows[i];
	}
	assert_non_null(found);
	return found;
}

static void check_row(const struct diff *d, const char *name, int64_t old, int64_t new)
{
	const struct diff_row *row = row_of(d, name);

	assert_int_equal(row->in[DIFF_OLD], old >= 0);
	assert_int_equal(row->in[DIFF_NEW], new >= 0);
	assert_int_equal(row->value[DIFF_OLD], old < 0 ? 0 : old);
	assert_int_equal(row->value[DIFF_NEW], new < 0 ? 0 : new);
}

static void compare(struct diff_entry *old, size_t n, struct diff_entry *new, size_t m,
		    struct diff *d)
{
	struct diff_entry *lists[] = {old, new};
	const size_t counts[] = {n, m};

	assert_int_equal(diff_compare(lists, counts, d), 0);
}

TEST(functions_of_one_name_are_compared)
{
	struct diff_entry old[] = {ENTRY("/bin/a", "main", 10), ENTRY("/bin/a", "gone", 5),
				   ENTRY("/lib/b", "main", 3), ENTRY("/bin/a", "f", 1),
				   ENTRY("/bin/a", "f", 2)};
	struct diff_entry new[] = {ENTRY("/lib/b", "other", 7), ENTRY("/bin/a", "main", 40),
				   ENTRY("/bin/a", "f", 4)};
	struct diff d;

	compare(old, COUNT(old), new, COUNT(new), &d);
	assert_int_equal(d.count, 5);
	assert_int_equal(d.renamed_count, 0);
	assert_string_equal(d.rows[0].name, "main"); /* the greatest change is first */
	assert_string_equal(d.rows[0].path, "/bin/a");
	assert_int_equal(d.rows[0].value[DIFF_OLD], 10);
	assert_int_equal(d.rows[0].value[DIFF_NEW], 40);
	check_row(&d, "gone", 5, -1);
	check_row(&d, "other", -1, 7);
	check_row(&d, "f", 3, 4); /* two static functions of one name are added up */
	diff_fini(&d);
}

/* A library of another version, and a program of another name. */
TEST(objects_find_their_partners)
{
	struct diff_entry old[] = {ENTRY("/x/lib/libz.so.1.2", "inflate", 10),
				   ENTRY("/lib/libc-2.31.so", "read", 10),
				   ENTRY("/x/app-1", "main", 10), ENTRY("/y/tool", "run", 1)};
	struct diff_entry new[] = {ENTRY("/lib/libz.so.1.3", "inflate", 11),
				   ENTRY("/lib/libc-2.36.so", "read", 12),
				   ENTRY("/x/app-2", "main", 13), ENTRY("/z/tool", "run", 2)};
	struct diff d;

	compare(old, COUNT(old), new, COUNT(new), &d);
	assert_int_equal(d.count, 4);
	check_row(&d, "inflate", 10, 11);
	check_row(&d, "read", 10, 12);
	check_row(&d, "main", 10, 13);
	check_row(&d, "run", 1, 2);
	assert_int_equal(d.renamed_count, 4);
	diff_fini(&d);
}

/* Two programs without a function of one name are not two versions of one program. */
TEST(strangers_are_not_compared)
{
	struct diff_entry old[] = {ENTRY("/a", "f", 1), ENTRY("[vdso]", "time", 9)};
	struct diff_entry new[] = {ENTRY("/b", "g", 1)};
	struct diff d;

	compare(old, COUNT(old), new, COUNT(new), &d);
	assert_int_equal(d.count, 3);
	assert_int_equal(d.renamed_count, 0);
	check_row(&d, "f", 1, -1);
	check_row(&d, "g", -1, 1);
	diff_fini(&d);
	old[0].name = new[0].name = ""; /* both are stripped */
	compare(old, COUNT(old), new, COUNT(new), &d);
	assert_int_equal(d.count, 2);
	assert_int_equal(d.renamed_count, 1);
	diff_fini(&d);
	compare(old, COUNT(old), NULL, 0, &d);
	assert_int_equal(d.count, 2);
	diff_fini(&d);
	compare(NULL, 0, NULL, 0, &d);
	assert_int_equal(d.count, 0);
	diff_fini(&d);
}

/* A name that was made from an address holds in the same file only. */
TEST(made_up_names_need_the_same_file)
{
	for (int same = 0; same < 2; same++) {
		struct diff_entry old[] = {{.path = "/a",
					    .name = "fn_10",
					    .other_name = "",
					    .value = 1,
					    .build_id = id_1,
					    .build_id_size = 2},
					   {.path = "/a",
					    .name = "fn_20",
					    .other_name = "",
					    .value = 2,
					    .build_id = id_1,
					    .build_id_size = 2}};
		struct diff_entry new[] = {{.path = "/a",
					    .name = "fn_10",
					    .other_name = "",
					    .value = 5,
					    .build_id = same ? id_1 : id_2,
					    .build_id_size = 2}};
		struct diff d;

		(void)state;
		compare(old, COUNT(old), new, COUNT(new), &d);
		if (same) {
			assert_int_equal(d.count, 2);
			check_row(&d, "fn_10", 1, 5);
			check_row(&d, "fn_20", 2, -1);
		} else {
			assert_int_equal(d.count, 1);
			check_row(&d, "", 3, 5);
		}
		diff_fini(&d);
	}
}

/* What a compiler appends to the names of clones may change, and Rust's hash always does. */
TEST(clones_and_hashes)
{
	struct diff_entry old[] = {ENTRY("/a1", "main", 1), ENTRY("/a1", "f.constprop.0", 10),
				   ENTRY("/a1", "g.part.0", 1), ENTRY("/a1", "g.part.1", 2),
				   ENTRY("/a1", "_ZN3app1f17h0123456789abcdefE", 7)};
	struct diff_entry new[] = {ENTRY("/a2", "main", 1), ENTRY("/a2", "f.isra.0", 12),
				   ENTRY("/a2", "g.part.2", 3),
				   ENTRY("/a2", "_ZN3app1f17hfedcba9876543210E", 8)};
	struct diff_entry one[] = {ENTRY("/a1", "main", 1), ENTRY("/a1", "f.constprop.0", 10)};
	struct diff_entry other[] = {ENTRY("/a1", "main", 1), ENTRY("/a1", "f.constprop.1", 10)};
	struct diff d;

	compare(old, COUNT(old), new, COUNT(new), &d);
	assert_int_equal(d.count, 6);
	check_row(&d, "f.isra.0", 10, 12);
	check_row(&d, "g.part.0", 1, -1); /* which of the two is g.part.2 is not known */
	check_row(&d, "g.part.2", -1, 3);
	check_row(&d, "_ZN3app1f17hfedcba9876543210E", 7, 8);
	diff_fini(&d);
	/* In the same file they are two functions. */
	compare(one, COUNT(one), other, COUNT(other), &d);
	assert_int_equal(d.count, 3);
	diff_fini(&d);
}

#define SHOWN(ID, NAME, SHOWN, VALUE)                                                              \
	{                                                                                          \
		.path = "/a", .name = NAME, .shown = SHOWN, .value = VALUE, .build_id = ID,        \
		.build_id_size = sizeof(ID)                                                        \
	}

/* Names as rustc -C symbol-mangling-version=legacy and =v0 make them, and g++ for a constructor. */
TEST(manglings_of_one_function)
{
	struct diff_entry old[] = {
	    SHOWN(id_1, "_ZN3app4work17h0123456789abcdefE", "app::work", 10),
	    SHOWN(id_1, "_ZN1AC1Ev", "A::A()", 5),
	    SHOWN(id_1, "_ZN1BC1Ev", "B::B()", 5), /* C2 runs in both: which one was C1? */
	    SHOWN(id_1, "_ZN1BC2Ev", "B::B()", 6),
	    SHOWN(id_1, "_ZN3app1f17h1111111111111111E", "app::f", 1),
	};
	struct diff_entry new[] = {
	    SHOWN(id_2, "_RNvCs1234_3app4work", "app::work", 12),
	    SHOWN(id_2, "_ZN1AC2Ev", "A::A()", 7),
	    SHOWN(id_2, "_ZN1BC2Ev", "B::B()", 6),
	    SHOWN(id_2, "_ZN1BC4Ev", "B::B()", 9),
	    SHOWN(id_2, "_RNvCs1234_3app1f", "app::f", 2), /* of two versions of a crate */
	    SHOWN(id_2, "_RNvCs5678_3app1f", "app::f", 3),
	};
	struct diff d;

	compare(old, COUNT(old), new, COUNT(new), &d);
	assert_int_equal(d.count, 8);
	check_row(&d, "_RNvCs1234_3app4work", 10, 12);
	check_row(&d, "_ZN1AC2Ev", 5, 7);
	check_row(&d, "_ZN1BC1Ev", 5, -1);
	check_row(&d, "_ZN1BC2Ev", 6, 6);
	check_row(&d, "_ZN1BC4Ev", -1, 9);
	check_row(&d, "_ZN3app1f17h1111111111111111E", 1, -1);
	check_row(&d, "_RNvCs1234_3app1f", -1, 2);
	check_row(&d, "_RNvCs5678_3app1f", -1, 3);
	diff_fini(&d);
}
