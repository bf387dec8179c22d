/* SPDX-License-Identifier: MIT */
/* The shadow knows the bytes of mapped files and those that were kept, and notices changes. */
#include "test.h"

#include "record/simulated/code_shadow.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define BASE UINT64_C(0x400000)

static const struct code_map nowhere;
static const uint8_t code[8] = {0x90, 0x90, 0xc3, 1, 2, 3, 4, 5};

/* A file of two pages, all bytes `fill`, mapped at BASE. */
static struct code_map mapped(char *path, uint8_t fill)
{
	uint8_t bytes[2 * PAGE];
	int fd = mkstemp(path);

	memset(bytes, fill, sizeof(bytes));
	assert_true(fd >= 0 && write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
	close(fd);
	return (struct code_map){.start = BASE, .end = BASE + 2 * PAGE, .path = path};
}

TEST(test_kept_bytes_are_known)
{
	struct code_shadow s = {.buckets = 2};
	struct code_difference d;
	uint8_t other[8];

	d = code_shadow_compare(&s, BASE + PAGE - 4, code, sizeof(code), &nowhere);
	assert_true(d.fresh && !d.changed);
	code_shadow_keep(&s, BASE + PAGE - 4, code, sizeof(code), &nowhere, 0);
	d = code_shadow_compare(&s, BASE + PAGE - 4, code, sizeof(code), &nowhere);
	assert_true(!d.fresh && !d.changed && !d.change);
	d = code_shadow_compare(&s, BASE + PAGE - 5, code, 1, &nowhere);
	assert_true(d.fresh);

	memcpy(other, code, sizeof(other));
	other[6]++;
	d = code_shadow_compare(&s, BASE + PAGE - 4, other, sizeof(other), &nowhere);
	assert_true(!d.fresh && d.changed);
	code_shadow_keep(&s, BASE + PAGE - 4, other, sizeof(other), &nowhere, 77);
	d = code_shadow_compare(&s, BASE + PAGE - 4, other, sizeof(other), &nowhere);
	assert_true(!d.fresh && !d.changed);
	assert_int_equal(d.change, 77);
	code_shadow_clear(&s);
}

TEST(test_files_are_known)
{
	char path[] = "/tmp/ptah-shadow-XXXXXX";
	struct code_map map = mapped(path, 0x90);
	struct code_shadow s = {.buckets = 64};
	struct code_difference d;

	d = code_shadow_compare(&s, BASE + PAGE - 1, code, 2, &map);
	assert_true(!d.fresh && !d.changed);
	d = code_shadow_compare(&s, BASE, code, 3, &map);
	assert_true(!d.fresh && d.changed);
	code_shadow_clear(&s);
	unlink(path);
}

TEST(test_a_mapping_over_another_is_read_again)
{
	char first[] = "/tmp/ptah-shadow-XXXXXX", second[] = "/tmp/ptah-shadow-XXXXXX";
	struct code_map old = mapped(first, 0x90), new = mapped(second, 0xc3);
	struct code_shadow s = {.buckets = 64};
	struct code_difference d;

	new.change = 5;
	d = code_shadow_compare(&s, BASE, code, 2, &old);
	assert_true(!d.fresh && !d.changed && !d.change);
	d = code_shadow_compare(&s, BASE, code + 2, 1, &new);
	assert_true(!d.fresh && !d.changed);
	assert_int_equal(d.change, 5);
	code_shadow_clear(&s);
	unlink(first);
	unlink(second);
}

TEST(test_pages_are_dropped_and_copied)
{
	struct code_shadow s = {.buckets = 2}, copy = {.buckets = 2};

	for (unsigned i = 0; i < 8; i++)
		code_shadow_keep(&s, BASE + i * PAGE, code, sizeof(code), &nowhere, i);
	code_shadow_copy(&copy, &s);
	code_shadow_drop(&s, BASE + 3 * PAGE, BASE + 5 * PAGE);
	for (unsigned i = 0; i < 8; i++) {
		const uint64_t at = BASE + i * PAGE;

		assert_int_equal(code_shadow_compare(&s, at, code, sizeof(code), &nowhere).fresh,
				 i == 3 || i == 4);
		assert_false(code_shadow_compare(&copy, at, code, sizeof(code), &nowhere).fresh);
		assert_int_equal(
		    code_shadow_compare(&copy, at, code, sizeof(code), &nowhere).change, i);
	}
	code_shadow_clear(&s);
	code_shadow_clear(&copy);
}
