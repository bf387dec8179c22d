/* SPDX-License-Identifier: MIT */
/*
 * Proves of shards: any bytes are loaded, or refused with a message that contains the offset. A
 * shard that was loaded is saved as bytes that are loaded, cannot be joined with itself, and
 * becomes counts or is refused.
 *
 * Input: such a file. It is tried as it is, and again with the sizes and checksums corrected: its
 * own and those of the counts in it.
 */
#include "fuzz.h"

#include "counts/shard_internal.h"

#include "base/bits.h"
#include "counts/counts_internal.h"

static void check_questions(const struct ptah_shard *s)
{
	uint32_t present = 0;
	size_t unread = 0;

	for (uint32_t i = 1; ptah_shard_has(s, i) >= 0; i++)
		present += ptah_shard_has(s, i) > 0;
	CHECK(present && present == shard_present(s));
	while (ptah_shard_unread(s, unread))
		unread++;
	CHECK(unread <= s->count);
}

/* A shard in which the other parts are all there. */
static void check_finished(struct ptah_shard *s)
{
	struct ptah_message why = {""};
	struct ptah_counts *counts, *again;
	void *bytes;
	size_t n;
	int status;

	s->present = s->parts;
	s->planned = (uint32_t)s->count;
	status = ptah_shard_finish(s, &counts, &why);
	CHECK(status >= 0 || strlen(why.text) > 0);
	if (status < 0)
		return;
	CHECK(!ptah_counts_save(counts, &bytes, &n));
	CHECK(!counts_load(bytes, n, &again, NULL));
	ptah_counts_free(again);
	ptah_counts_free(counts);
	free(bytes);
}

static void try(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_shard *s, *again;
	uint8_t *copy = fuzz_copy(data, size);
	void *bytes;
	size_t n;

	if (ptah_shard_load(copy, size, &s, &why) < 0) {
		CHECK(strstr(why.text, "offset 0x"));
		free(copy);
		return;
	}
	check_questions(s);
	CHECK(!ptah_shard_save(s, &bytes, &n));
	CHECK(!ptah_shard_load(bytes, n, &again, NULL));
	CHECK(ptah_shard_join(s, again, false, &why) == PTAH_E_BAD_FILE);
	/* As if they were different parts. */
	memset(s->bits, 0, shard_bitmap_size(s->parts));
	if (ptah_shard_join(s, again, false, &why) >= 0)
		check_finished(s);
	free(bytes);
	free(copy);
	ptah_shard_free(again);
	ptah_shard_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *whole;

	try(data, size);
	if (size < COUNTS_HEADER)
		return 0;
	whole = fuzz_copy(data, size);
	for (size_t i = COUNTS_HEADER + 8; size - i >= COUNTS_HEADER && i < size; i++) {
		uint64_t n = load_le64(whole + i - 8);

		if (!memcmp(whole + i, COUNTS_MAGIC, 8) && n >= COUNTS_HEADER && n <= size - i)
			counts_put_header(whole + i, (size_t)n);
	}
	counts_put_header(whole, size);
	try(whole, size);
	free(whole);
	return 0;
}
