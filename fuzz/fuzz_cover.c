/* SPDX-License-Identifier: MIT */
/*
 * Proves of tables of coverage: any bytes are read as what a process reached, or refused; what was
 * read is ascending, within the limit, and is written as bytes that are read as the same. Sets of
 * processes are exact: two blocks share one if and only if the same processes reached them, and
 * each process has the sets of its blocks.
 *
 * Input: such bytes; they are tried as they are, and again as the content of a frame. And words of
 * 8 bytes, each of which says which of 64 blocks a process reached.
 */
#include "fuzz.h"

#include "export/cover_blob.h"
#include "export/cover_sets.h"

#include <zstd.h>

#define BLOCKS	  64
#define PROCESSES 64
#define MOST	  1000000

static void check_blob(const void *bytes, size_t size, uint32_t most)
{
	struct cover_reached *list, *again;
	size_t n, count, written;
	void *blob;
	int status = cover_blob_read(bytes, size, most, &list, &n);

	CHECK(!status || status == PTAH_E_BAD_FILE);
	if (status < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		CHECK(list[i].block > (i ? list[i - 1].block : 0) && list[i].block <= most);
		CHECK(list[i].count);
	}
	CHECK(!cover_blob_write(list, n, &blob, &written));
	CHECK(!cover_blob_read(blob, written, most, &again, &count));
	CHECK(count == n && !memcmp(list, again, n * sizeof(*list)));
	free(blob);
	free(again);
	free(list);
}

static void check_frame(const uint8_t *bytes, size_t size)
{
	const size_t room = ZSTD_compressBound(size);
	void *frame = malloc(room);
	size_t n;

	CHECK(frame);
	n = ZSTD_compress(frame, room, bytes, size, 1);
	CHECK(!ZSTD_isError(n));
	check_blob(frame, n, MOST);
	check_blob(frame, n, 100);
	free(frame);
}

static size_t list_blocks(uint64_t mask, struct cover_reached *list)
{
	size_t n = 0;

	for (uint32_t i = 0; i < BLOCKS; i++)
		if (mask >> i & 1)
			list[n++] = (struct cover_reached){i + 1, 1};
	return n;
}

static void check_sets(const uint64_t *masks, size_t processes)
{
	struct cover_reached list[BLOCKS];
	uint64_t reached_by[BLOCKS + 1] = {0};
	struct cover_sets sets;
	uint32_t last = 0;

	CHECK(!cover_sets_init(&sets, BLOCKS));
	for (size_t p = 0; p < processes; p++) {
		cover_sets_add(&sets, list, list_blocks(masks[p], list));
		for (uint32_t i = 0; i < BLOCKS; i++)
			reached_by[i + 1] |= (masks[p] >> i & 1) << p;
	}
	cover_sets_finish(&sets);
	for (uint32_t a = 1; a <= BLOCKS; a++) {
		CHECK(!sets.set_of[a] == !reached_by[a]);
		CHECK(sets.set_of[a] <= last + 1);
		last = sets.set_of[a] > last ? sets.set_of[a] : last;
		for (uint32_t b = 1; b < a; b++)
			CHECK((sets.set_of[a] == sets.set_of[b]) ==
			      (reached_by[a] == reached_by[b]));
	}
	CHECK(sets.set_count == last);
	for (size_t p = 0; p < processes; p++) {
		uint64_t seen[2] = {0};

		cover_sets_of(&sets, list, list_blocks(masks[p], list));
		for (size_t i = 0; i < sets.touched_count; i++) {
			const uint32_t set = sets.touched[i];

			CHECK(set && set <= last && !(seen[set / 64] >> set % 64 & 1));
			seen[set / 64] |= UINT64_C(1) << set % 64;
		}
		for (uint32_t i = 0; i < BLOCKS; i++)
			if (masks[p] >> i & 1)
				CHECK(seen[sets.set_of[i + 1] / 64] >> sets.set_of[i + 1] % 64 & 1);
	}
	cover_sets_free(&sets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t masks[PROCESSES];
	const size_t processes = size / 8 < PROCESSES ? size / 8 : PROCESSES;

	check_blob(data, size, MOST);
	check_frame(data, size);
	if (processes)
		memcpy(masks, data, processes * 8);
	check_sets(masks, processes);
	return 0;
}
