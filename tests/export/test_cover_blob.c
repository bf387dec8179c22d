/* SPDX-License-Identifier: MIT */
/* What a process reached, as bytes: read from bytes that were written by hand, and refused. */
#include "export/cover_blob.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

/* A frame of Zstandard whose only block is not compressed. */
#define HEAD "\x28\xb5\x2f\xfd\x20"

static int read_pairs(const char *pairs, uint8_t size, uint32_t most, struct cover_reached *list,
		      size_t *n)
{
	char frame[64] = HEAD;
	struct cover_reached *read;
	int status;

	frame[5] = (char)size;
	frame[6] = (char)(size << 3 | 1);
	frame[7] = frame[8] = 0;
	memcpy(frame + 9, pairs, size);
	status = cover_blob_read(frame, 9 + (size_t)size, most, &read, n);
	if (status < 0) {
		assert_null(read);
		return status;
	}
	memcpy(list, read, *n * sizeof(*list));
	free(read);
	return 0;
}

TEST(test_known)
{
	struct cover_reached list[8];
	size_t n;

	assert_int_equal(read_pairs("\x01\x05\x03\x01\x80\x01\xff\x7f\x01\x02", 10, 133, list, &n),
			 0);
	assert_int_equal(n, 4);
	assert_int_equal(list[0].block, 1);
	assert_int_equal(list[0].count, 5);
	assert_int_equal(list[1].block, 4);
	assert_int_equal(list[1].count, 1);
	assert_int_equal(list[2].block, 132);
	assert_int_equal(list[2].count, 16383);
	assert_int_equal(list[3].block, 133);
	assert_int_equal(list[3].count, 2);
	assert_int_equal(
	    read_pairs("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 1, list, &n), 0);
	assert_true(list[0].count == UINT64_MAX);
	assert_int_equal(read_pairs("", 0, 1, list, &n), 0);
	assert_int_equal(n, 0);
}

TEST(test_refused)
{
	static const struct {
		const char *pairs;
		uint8_t size;
	} bad[] = {
	    {"\x01\x05\x03\x01\x80\x01\xff\x7f\x02\x02", 10},	      /* block 134 of 133 */
	    {"\x00\x05", 2},					      /* block 0 */
	    {"\x01\x05\x00\x05", 4},				      /* a block twice */
	    {"\x01\x00", 2},					      /* it did not run */
	    {"\x01", 1},					      /* no count */
	    {"\x01\x80", 2},					      /* half a count */
	    {"\x81\x00\x01", 3},				      /* not the shortest */
	    {"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11},     /* 65 bits */
	    {"\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12}, /* 71 bits */
	};
	struct cover_reached list[8], *read;
	size_t n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(read_pairs(bad[i].pairs, bad[i].size, 133, list, &n),
				 PTAH_E_BAD_FILE);
	assert_int_equal(cover_blob_read("", 0, 133, &read, &n), PTAH_E_BAD_FILE);
	assert_int_equal(cover_blob_read(HEAD, 5, 133, &read, &n), PTAH_E_BAD_FILE);
	/* The size is that of more blocks than there are. */
	assert_int_equal(read_pairs("\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
				    "\x01\x01\x01\x01\x01\x01\x01",
				    22, 1, list, &n),
			 PTAH_E_BAD_FILE);
}

/* Numbers of any size come back. */
TEST(test_written)
{
	struct cover_reached list[64], *read;
	size_t n, size;
	void *blob;

	for (uint32_t i = 0; i < 64; i++)
		list[i] = (struct cover_reached){
		    i < 31 ? UINT32_C(1) << i : (UINT32_C(1) << 30) + i, UINT64_MAX >> i};
	assert_int_equal(cover_blob_write(list, 64, &blob, &size), 0);
	assert_int_equal(cover_blob_read(blob, size, UINT32_MAX, &read, &n), 0);
	assert_int_equal(n, 64);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(read[i].block, list[i].block);
		assert_true(read[i].count == list[i].count);
	}
	free(read);
	assert_int_equal(cover_blob_read(blob, size - 1, UINT32_MAX, &read, &n), PTAH_E_BAD_FILE);
	free(blob);
}
