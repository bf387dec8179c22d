/* SPDX-License-Identifier: MIT */
/* Texts that grow side by side come out whole, and one after the other. */
#include "export/spill.h"

#include "test.h"

#include <ptah/base.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS 5

TEST(test_side_by_side)
{
	static const size_t sizes[TEXTS] = {0, 1, 4087, 4088, 100000};
	struct spill_text texts[TEXTS] = {{0}};
	struct spill *spill;
	struct out *out;
	char *bytes;
	size_t n, at = 0;

	assert_int_equal(spill_new(&spill), 0);
	for (size_t i = 0; i < sizes[TEXTS - 1]; i++) {
		for (size_t k = 0; k < TEXTS; k++) {
			const char c = (char)('a' + (i + k) % 23);

			if (i < sizes[k])
				spill_bytes(spill, &texts[k], &c, 1);
		}
	}
	assert_int_equal(out_open_memory(&out), 0);
	for (size_t k = 0; k < TEXTS; k++) {
		assert_int_equal(texts[k].size, sizes[k]);
		assert_int_equal(spill_write(spill, &texts[k], out), 0);
	}
	bytes = out_take(out, &n);
	assert_non_null(bytes);
	for (size_t k = 0; k < TEXTS; k++)
		for (size_t i = 0; i < sizes[k]; i++)
			assert_int_equal(bytes[at++], 'a' + (i + k) % 23);
	assert_int_equal(at, n);
	free(bytes);
	spill_free(spill);
}

TEST(test_numbers_and_long_pieces)
{
	static char long_text[20000];
	struct spill_text text = {0};
	struct spill *spill;
	struct out *out;
	char *bytes;
	size_t n;

	assert_int_equal(spill_new(&spill), 0);
	memset(long_text, 'x', sizeof(long_text));
	spill_decimal(spill, &text, 0);
	spill_bytes(spill, &text, long_text, sizeof(long_text));
	spill_decimal(spill, &text, UINT64_MAX);
	assert_int_equal(out_open_memory(&out), 0);
	assert_int_equal(spill_write(spill, &text, out), 0);
	bytes = out_take(out, &n);
	assert_int_equal(n, 1 + sizeof(long_text) + 20);
	assert_int_equal(bytes[0], '0');
	assert_memory_equal(bytes + 1, long_text, sizeof(long_text));
	assert_string_equal(bytes + 1 + sizeof(long_text), "18446744073709551615");
	free(bytes);
	spill_free(spill);
}

TEST(test_folder_that_is_missing)
{
	struct spill *spill;

	assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
	assert_int_equal(spill_new(&spill), PTAH_E_SYSTEM);
	assert_int_equal(errno, ENOENT);
	spill_free(spill);
	unsetenv("TMPDIR");
}
