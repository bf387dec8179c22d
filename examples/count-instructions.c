/* SPDX-License-Identifier: MIT */
/* Prints how many instructions each thread of a recording ran. */
#include <ptah/ptah.h>

#include <inttypes.h>
#include <stdio.h>

static uint64_t count(struct ptah_reader *reader)
{
	struct ptah_item items[256];
	uint64_t total = 0;
	int n;

	while ((n = ptah_reader_read(reader, items, 256)) > 0)
		for (int i = 0; i < n; i++)
			if (items[i].type == PTAH_ITEM_BLOCK)
				total += items[i].ninsn;
	return total;
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "perf.data";
	struct ptah_session *session;
	struct ptah_message why;

	if (ptah_session_open(path, NULL, &session, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (size_t i = 0; i < ptah_session_streams(session); i++) {
		struct ptah_stream_info info;
		struct ptah_reader *reader;

		ptah_session_stream_info(session, i, &info);
		if (ptah_reader_new(session, i, NULL, &reader) < 0)
			continue;
		printf("%d %s %" PRIu64 "\n", info.tid, info.comm, count(reader));
		ptah_reader_free(reader);
	}
	ptah_session_close(session);
	return 0;
}
