/* SPDX-License-Identifier: MIT */
/*
 * Proves of the packet layer, for any bytes: a packet that was decoded is
 * encoded to as many bytes with the same meaning; a packet that is cut short is
 * incomplete, and never decoded as another one; bytes after a packet do not
 * matter; the PSB search finds what a plain comparison finds; text stays within
 * its buffer; a batch, of any capacity and with any end of its bytes, is what
 * decoding one by one gives, with windows and without them.
 */
#include "fuzz.h"

#include "packet/batch.h"

#define MOST_RECORDS 200

static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
				2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};

static void check_text(const struct ptah_packet *packet)
{
	char all[256], cut[8];
	int length = ptah_packet_format(packet, all, sizeof(all));

	CHECK(length >= 0 && (size_t)length < sizeof(all) && strlen(all) == (size_t)length);
	CHECK(ptah_packet_format(packet, cut, sizeof(cut)) == length);
	CHECK(strlen(cut) < sizeof(cut) && !strncmp(cut, all, sizeof(cut) - 1));
	CHECK(ptah_packet_name(packet->type));
}

/* decode(encode(packet)) is the packet: it is encoded to the same bytes again. */
static void check_round_trip(const struct ptah_packet *packet, unsigned block)
{
	uint8_t first[PTAH_PACKET_MAX_SIZE], second[PTAH_PACKET_MAX_SIZE];
	struct ptah_packet again;
	char a[256], b[256];
	int n = ptah_packet_encode(packet, first, sizeof(first));

	CHECK(n == packet->size);
	CHECK(ptah_packet_encode(packet, first, (size_t)n - 1) == PTAH_E_NOSPACE);
	CHECK(ptah_packet_decode(&again, first, (size_t)n, block) == n);
	CHECK(again.type == packet->type && again.size == packet->size);
	CHECK(ptah_packet_encode(&again, second, sizeof(second)) == n);
	CHECK(!memcmp(first, second, (size_t)n));
	ptah_packet_format(packet, a, sizeof(a));
	ptah_packet_format(&again, b, sizeof(b));
	CHECK(!strcmp(a, b));
	CHECK(ptah_packet_block_state(packet, block) == ptah_packet_block_state(&again, block));
}

/* The packet's bytes are enough, and no prefix of them is. */
static void check_cuts(const struct ptah_packet *packet, const uint8_t *bytes, unsigned block)
{
	for (size_t n = 0; n <= packet->size; n++) {
		uint8_t *cut = fuzz_copy(bytes, n);
		struct ptah_packet other;
		int size = ptah_packet_decode(&other, cut, n, block);

		CHECK(size == (n < packet->size ? PTAH_E_MORE : packet->size));
		free(cut);
	}
}

/*
 * The bytes before a PSB may happen to end with its pattern. So if the pattern
 * runs for less than two PSBs, the packet is the last 16 bytes.
 */
static const uint8_t *settle(const uint8_t *first, const uint8_t *end)
{
	size_t run = sizeof(psb);

	if (!first)
		return NULL;
	while ((size_t)(end - first) >= run + 2 && first[run] == 2 && first[run + 1] == 0x82)
		run += 2;
	return run < 2 * sizeof(psb) ? first + run - sizeof(psb) : first;
}

static void check_find(const uint8_t *data, size_t size)
{
	const uint8_t *first = NULL, *last = NULL;

	for (size_t i = 0; i + sizeof(psb) <= size; i++) {
		if (memcmp(data + i, psb, sizeof(psb)) != 0)
			continue;
		last = data + i;
		if (!first)
			first = last;
	}
	CHECK(ptah_packet_find_psb(data, data + size) == settle(first, data + size));
	CHECK(ptah_packet_find_last_psb(data, data + size) == last);
}

/* Checks one call and returns the number of bytes that it consumed. */
static size_t check_batch(const uint8_t *data, size_t size, size_t capacity, unsigned *block,
			  bool wide)
{
	struct ptah_packet_record records[MOST_RECORDS];
	struct ptah_packet_cursor cursor = {data, data + size, *block};
	int n = packet_decode_batch(&cursor, records, capacity, wide);
	struct ptah_packet one, unpacked;
	char a[256], b[256];
	size_t at = 0;

	CHECK(n <= (int)capacity && n != 0);
	for (int i = 0; i < n; i++) {
		CHECK(ptah_packet_decode(&one, data + at, size - at, *block) == records[i].size);
		CHECK(records[i].offset == at && records[i].type == one.type);
		ptah_packet_unpack(&unpacked, &records[i]);
		ptah_packet_format(&one, a, sizeof(a));
		ptah_packet_format(&unpacked, b, sizeof(b));
		CHECK(!strcmp(a, b));
		*block = ptah_packet_block_state(&one, *block);
		at += records[i].size;
	}
	if (n < 0)
		CHECK(ptah_packet_decode(&one, data, size, *block) == n);
	CHECK(cursor.next == data + at && cursor.block == *block);
	return at;
}

/* Decodes all bytes in chunks and capacities that the first bytes choose. */
static void check_batches(const uint8_t *data, size_t size, bool wide)
{
	size_t chunk = size ? 1 + data[0] : 1;
	size_t capacity = size > 1 ? 1 + data[1] % MOST_RECORDS : 1;
	unsigned block = PTAH_BLOCK_NONE;

	for (size_t at = 0, have = 0; at < size || have < size;) {
		have = size - have < chunk ? size : have + chunk;
		for (;;) {
			uint8_t *bytes = fuzz_copy(data + at, have - at);
			size_t n = check_batch(bytes, have - at, capacity, &block, wide);

			free(bytes);
			at += n;
			if (n)
				continue;
			/* Malformed, or cut by the end of the chunk or of the trace. */
			if (have == size || have - at >= PTAH_PACKET_MAX_SIZE)
				at += at < have;
			if (at == have || have < size)
				break;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = fuzz_copy(data, size);
	unsigned block = PTAH_BLOCK_NONE;
	struct ptah_packet packet;

	check_find(bytes, size);
	check_batches(bytes, size, false);
	if (batch_can_wide())
		check_batches(bytes, size, true);
	for (size_t i = 0; i < size;) {
		int n = ptah_packet_decode(&packet, bytes + i, size - i, block);

		if (n == PTAH_E_MORE)
			break;
		if (n < 0) {
			CHECK(n == PTAH_E_BAD_OPCODE || n == PTAH_E_BAD_PACKET);
			i++;
			continue;
		}
		CHECK(n > 0 && n <= PTAH_PACKET_MAX_SIZE && (size_t)n <= size - i);
		CHECK(packet.size == n && packet.type < PTAH_PACKET_TYPE_MAX);
		check_text(&packet);
		check_round_trip(&packet, block);
		check_cuts(&packet, bytes + i, block);
		block = ptah_packet_block_state(&packet, block);
		i += (size_t)n;
	}
	free(bytes);
	return 0;
}
