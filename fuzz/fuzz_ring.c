/* SPDX-License-Identifier: MIT */
/*
 * Proves of the reader of the kernel's ring of records: for any content, it
 * returns whole records, in order and byte for byte those of the ring; it
 * returns all of them or refuses the ring; and the ring is empty afterwards.
 *
 * Input: two bytes with the offset of the first byte in the ring, then the
 * content.
 */
#include "fuzz.h"

#include "record/perf_event/ring.h"

#define SIZE 1024u

struct taken {
	const uint8_t *bytes; /* the expected bytes */
	size_t size, at;
};

static int take(void *context, const uint8_t *record, size_t size)
{
	struct taken *t = context;

	CHECK(size >= 8 && size % 8 == 0 && size <= t->size - t->at);
	CHECK((size_t)(record[6] | record[7] << 8) == size);
	CHECK(!memcmp(record, t->bytes + t->at, size));
	t->at += size;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_event_mmap_page page;
	struct taken taken;
	struct ring ring;
	uint8_t *bytes;
	uint64_t start;
	int status;

	if (size < 2)
		return 0;
	memset(&page, 0, sizeof(page));
	start = (uint64_t)(data[0] | data[1] << 8) * 8;
	taken = (struct taken){data + 2, size - 2 < SIZE ? size - 2 : SIZE, 0};
	bytes = calloc(1, SIZE);
	CHECK(bytes);
	for (size_t i = 0; i < taken.size; i++)
		bytes[(start + i) % SIZE] = taken.bytes[i];
	CHECK(!ring_init(&ring, &page, bytes, SIZE, NULL, 0, false));
	page.data_tail = start;
	page.data_head = start + taken.size;
	status = ring_read_records(&ring, take, &taken);
	CHECK(status == 0 || status == PTAH_E_BAD_FILE);
	CHECK(status < 0 || taken.at == taken.size);
	CHECK(ring.records == taken.at && page.data_tail == page.data_head);
	CHECK(ring.losses.truncated <= taken.at / 32 && ring.cut == (ring.losses.truncated != 0));
	ring_fini(&ring);
	free(bytes);
	return 0;
}
