/* SPDX-License-Identifier: MIT */
/* Prints the packets of a raw trace, one per line. The packet layer allocates nothing. */
#include <ptah/packet.h>

#include <stdio.h>
#include <stdlib.h>

static uint8_t *read_all(FILE *f, size_t *size)
{
	uint8_t *bytes = NULL;
	size_t room = 0;

	for (*size = 0; !feof(f) && !ferror(f); *size += fread(bytes + *size, 1, room - *size, f)) {
		if (*size < room)
			continue;
		room = 2 * room + 65536;
		bytes = realloc(bytes, room);
		if (!bytes)
			exit(1);
	}
	return bytes;
}

int main(void)
{
	size_t size;
	uint8_t *trace = read_all(stdin, &size);
	const uint8_t *end = trace + size, *p = ptah_packet_find_psb(trace, end);
	unsigned block = PTAH_BLOCK_NONE;
	struct ptah_packet packet;
	char text[128];

	while (p && p < end) {
		int n = ptah_packet_decode(&packet, p, (size_t)(end - p), block);

		if (n < 0) {
			fprintf(stderr, "offset %zu: %s\n", (size_t)(p - trace), ptah_strerror(n));
			block = PTAH_BLOCK_NONE;
			p = ptah_packet_find_psb(p + 1, end);
			continue;
		}
		ptah_packet_format(&packet, text, sizeof(text));
		printf("%zu %s %s\n", (size_t)(p - trace), ptah_packet_name(packet.type), text);
		block = ptah_packet_block_state(&packet, block);
		p += n;
	}
	free(trace);
	return 0;
}
