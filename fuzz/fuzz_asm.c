/* SPDX-License-Identifier: MIT */
/*
 * Proves of packet text: any bytes, printed as `ptah dump` prints them, are
 * assembled to the same bytes, malformed and unknown packets included. Any text
 * is assembled, or refused with what was expected and where; and the bytes that
 * it is assembled to are printed and assembled to the same bytes again.
 */
#include "fuzz.h"

#include <ptah/packet.h>

#define LINE 256

/* Prints the line of a packet, or of up to 16 bytes that are no packet (packet NULL). */
static void format(const struct ptah_packet *packet, const uint8_t *bytes, size_t size, char *line)
{
	char cut[12];
	int n = ptah_packet_format_line(packet, bytes, size, line, LINE);

	CHECK(n > 0 && n < LINE && strlen(line) == (size_t)n);
	CHECK(ptah_packet_format_line(packet, bytes, size, NULL, 0) == n);
	CHECK(ptah_packet_format_line(packet, bytes, size, cut, sizeof(cut)) == n);
	CHECK(strlen(cut) < sizeof(cut) && !strncmp(cut, line, strlen(cut)));
}

static void check_line(struct ptah_packet_parser *parser, const char *line, const uint8_t *bytes,
		       size_t size)
{
	uint8_t *got = fuzz_copy(bytes, size);

	memset(got, 0xa5, size);
	if (size)
		CHECK(ptah_packet_parse(&(struct ptah_packet_parser){.last_ip = parser->last_ip,
								     .block = parser->block},
					line, got, size - 1) == PTAH_E_NOSPACE);
	CHECK(ptah_packet_parse(parser, line, got, size) == (int)size);
	CHECK(!memcmp(got, bytes, size));
	free(got);
}

/* Prints the bytes up to the next PSB, which are no packets. Returns their number. */
static size_t check_bad(struct ptah_packet_parser *parser, const uint8_t *bytes, size_t size)
{
	const uint8_t *psb = ptah_packet_find_psb(bytes, bytes + size);
	size_t bad = psb ? (size_t)(psb - bytes) : size;

	for (size_t i = 0; i < bad; i += 16) {
		size_t n = bad - i < 16 ? bad - i : 16;
		char line[LINE];

		format(NULL, bytes + i, n, line);
		check_line(parser, line, bytes + i, n);
	}
	return bad;
}

/* From bytes to text and back. `sync`: bytes before the first PSB are no packets. */
static void check_trace(const uint8_t *bytes, size_t size, bool sync)
{
	struct ptah_packet_parser parser = {0};
	unsigned block = PTAH_BLOCK_NONE;
	size_t i = sync ? check_bad(&parser, bytes, size) : 0;

	while (i < size) {
		struct ptah_packet packet;
		char line[LINE];
		int n = ptah_packet_decode(&packet, bytes + i, size - i, block);

		if (n < 0) {
			size_t bad = check_bad(&parser, bytes + i, size - i);

			CHECK(bad);
			block = PTAH_BLOCK_NONE;
			i += bad;
			continue;
		}
		format(&packet, bytes + i, (size_t)n, line);
		check_line(&parser, line, bytes + i, (size_t)n);
		block = ptah_packet_block_state(&packet, block);
		CHECK(parser.block == block);
		i += (size_t)n;
	}
}

static void check_text_line(struct ptah_packet_parser *parser, const char *line)
{
	uint8_t bytes[4096];
	int size = ptah_packet_parse(parser, line, bytes, sizeof(bytes));

	CHECK(size >= 0 || size == PTAH_E_INVAL || size == PTAH_E_NOSPACE);
	CHECK((size == PTAH_E_INVAL) == (parser->expected != NULL));
	CHECK(parser->at <= strlen(line));
	if (size > 0)
		check_trace(bytes, (size_t)size, false);
}

static void check_text(const uint8_t *data, size_t size)
{
	struct ptah_packet_parser parser = {0};

	while (size) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t n = end ? (size_t)(end - data) : size;
		char *line = calloc(1, n + 1);

		CHECK(line);
		memcpy(line, data, n);
		check_text_line(&parser, line);
		free(line);
		n += end != NULL;
		data += n;
		size -= n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_trace(data, size, false);
	check_trace(data, size, true);
	check_text(data, size);
	return 0;
}
