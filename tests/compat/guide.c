/* SPDX-License-Identifier: MIT */
/*
 * guide RECORDING: runs the pairs of code in docs/migrating-from-libipt.md, which guide.sh puts
 * into guide.h, over the first stream of a recording. Both of a pair must find the same, and
 * whole_recording() must find what the recorder counted.
 */
#include "guide.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what)
{
	fprintf(stderr, "guide: %s\n", what);
	exit(1);
}

static void check(const char *what, uint64_t one, uint64_t other)
{
	printf("%s: %" PRIu64 " and %" PRIu64 "\n", what, one, other);
	if (one != other || !one)
		die("not the same, or nothing");
}

static uint8_t *join(const struct ptah_session *session, size_t *size)
{
	struct ptah_stream_info info;
	const uint8_t *piece;
	uint8_t *bytes;
	size_t n;

	ptah_session_stream_info(session, 0, &info);
	bytes = malloc(info.bytes + 1);
	if (!bytes)
		die("out of memory");
	for (*size = 0; (n = ptah_session_stream_bytes(session, 0, *size, &piece)); *size += n)
		memcpy(bytes + *size, piece, n);
	return bytes;
}

/* Adds the files whose code ran to both images. */
static void fill(const struct ptah_session *session, struct pt_image *old, struct ptah_image *new)
{
	struct ptah_stream_info info;
	struct ptah_reader *stream;
	struct ptah_item items[256];
	struct ptah_map map;
	uint8_t byte;
	int n;

	ptah_session_stream_info(session, 0, &info);
	if (ptah_reader_new(session, 0, NULL, &stream) < 0)
		die("no stream");
	while ((n = ptah_reader_read(stream, items, 256)) > 0)
		for (int i = 0; i < n; i++) {
			if (items[i].type != PTAH_ITEM_BLOCK ||
			    ptah_image_read(new, items[i].ip, &byte, 1, NULL))
				continue;
			if (!ptah_session_find_map(session, info.space, items[i].ip, 0, &map))
				die("no map");
			if (ptah_image_add_file(new, map.path, map.file_offset, map.size,
						map.address, NULL) < 0 ||
			    pt_image_add_file(old, map.path, map.file_offset, map.size, NULL,
					      map.address) < 0)
				die(map.path);
		}
	ptah_reader_free(stream);
}

int main(int argc, char **argv)
{
	uint64_t old_errors = 0, new_errors = 0;
	struct ptah_session *session;
	struct ptah_stream_info info;
	struct ptah_message why;
	struct ptah_image *new = NULL;
	struct pt_image *old = pt_image_alloc("guide");
	uint8_t *bytes, *end;
	size_t size;

	if (argc != 2 || !old || ptah_image_new(&new) < 0)
		die("usage: guide RECORDING");
	if (ptah_session_open(argv[1], NULL, &session, &why) < 0)
		die(why.text);
	bytes = join(session, &size);
	end = bytes + size;
	fill(session, old, new);
	ptah_session_stream_info(session, 0, &info);

	printf("%s\n", pt_library_version().ext);
	check("packets", old_packets(bytes, end), new_packets(bytes, end));
	check("blocks", old_blocks(bytes, end, old, &old_errors),
	      new_blocks(bytes, end, new, &new_errors));
	if (old_errors || new_errors)
		die("errors");
	check("calls", old_calls(bytes, end, old), new_calls(bytes, end, new));
	check("outcomes", old_outcomes(bytes, end), new_outcomes(bytes, end));
	check("all", whole_recording(argv[1]), info.truth.instructions);

	pt_image_free(old);
	ptah_image_free(new);
	ptah_session_close(session);
	free(bytes);
	return 0;
}
