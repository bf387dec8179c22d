/* SPDX-License-Identifier: MIT */
/*
 * Proves of recordings: any file is opened, or refused with a message that
 * begins with its name. Every query of an open recording works, the pieces of a
 * stream add up to its size, and decoding ends. The seeds include pipe mode,
 * compressed records, and a CPU's stream with context switches.
 *
 * Input: a perf.data file. The binaries that it names are searched for in an
 * empty folder.
 */
#include "fuzz.h"

#include <ptah/session.h>

#include <sys/mman.h>
#include <unistd.h>

#define MAX_STREAMS 16
#define MAX_ITEMS   (UINT64_C(1) << 20)

static void check_bytes(const struct ptah_session *s, size_t stream, uint64_t size)
{
	uint64_t at = 0, sum = 0;
	const uint8_t *bytes;
	size_t n;

	while ((n = ptah_session_stream_bytes(s, stream, at, &bytes)) > 0) {
		for (size_t i = 0; i < n; i++)
			sum += bytes[i];
		at += n;
	}
	CHECK(at == size);
	CHECK(sum <= 255 * size);
}

static void check_maps(const struct ptah_session *s, int32_t pid, const struct ptah_item *item)
{
	struct ptah_map map;

	if (ptah_session_find_map(s, pid, item->ip, item->tsc, &map)) {
		CHECK(map.path && item->ip - map.address < map.size);
	}
	if (ptah_session_find_map(s, pid, item->ip, 0, &map)) {
		CHECK(map.path && item->ip - map.address < map.size);
	}
	ptah_session_time(s, item->tsc);
}

static void decode(const struct ptah_session *s, size_t index, const struct ptah_stream_info *info)
{
	struct ptah_item items[64];
	struct ptah_insn insns[64];
	struct ptah_reader *stream;
	struct ptah_thread thread;
	uint64_t count = 0;
	int n;

	CHECK(!ptah_reader_new(s, index, NULL, &stream));
	while ((n = ptah_reader_read(stream, items, 64)) > 0 && count < MAX_ITEMS) {
		CHECK(n <= 64 && ptah_reader_offset(stream) <= info->bytes);
		CHECK(!ptah_reader_thread(stream, &thread));
		CHECK(info->tid < 0 || thread.tid == info->tid);
		for (int i = 0; i < n; i++) {
			CHECK(items[i].offset <= info->bytes);
			check_maps(s, thread.pid, &items[i]);
		}
		if (items[n - 1].type == PTAH_ITEM_BLOCK)
			ptah_reader_insns(stream, &items[n - 1], insns, 64);
		count += (uint64_t)n;
	}
	CHECK(n >= 0);
	ptah_reader_free(stream);
}

/* Decoding a window ends, too, wherever time stamps are and whatever they say. */
static void decode_part(struct ptah_session *s, size_t index, const struct ptah_window *window)
{
	struct ptah_item items[64];
	struct ptah_reader *stream;
	uint64_t count = 0;
	int n = 0;

	CHECK(!ptah_session_set_window(s, window));
	if (ptah_reader_new(s, index, NULL, &stream) < 0)
		return;
	while ((n = ptah_reader_read(stream, items, 64)) > 0 && count < MAX_ITEMS)
		count += (uint64_t)n;
	CHECK(n >= 0);
	ptah_reader_free(stream);
}

static void decode_windows(struct ptah_session *s, size_t index, uint64_t bytes)
{
	struct ptah_window w = {.size = sizeof(w), .until = UINT64_MAX, .last = UINT64_MAX};
	uint64_t first, last;

	w.offset = bytes / 2;
	decode_part(s, index, &w);
	w.offset = 0;
	w.first = 100;
	w.last = 1000;
	decode_part(s, index, &w);
	w.first = 0;
	w.last = UINT64_MAX;
	if (ptah_session_stream_times(s, index, &first, &last) >= 0) {
		w.since = first + (last - first) / 4;
		w.until = first + (last - first) / 2;
		decode_part(s, index, &w);
		ptah_session_tsc(s, ptah_session_time(s, first), true);
	}
	CHECK(!ptah_session_set_window(s, NULL));
}

static void use(struct ptah_session *s)
{
	size_t streams = ptah_session_streams(s);
	struct ptah_stream_info info;

	for (size_t i = 0; ptah_session_note(s, i); i++)
		CHECK(strlen(ptah_session_note(s, i)) < (1 << 20));
	if (ptah_session_command(s))
		CHECK(strlen(ptah_session_command(s)) < (1 << 20));
	CHECK(streams > 0);
	CHECK(ptah_session_stream_info(s, streams, &info) < 0);
	for (size_t i = 0; i < streams && i < MAX_STREAMS; i++) {
		struct ptah_verify result;
		int status;

		CHECK(!ptah_session_stream_info(s, i, &info));
		check_bytes(s, i, info.bytes);
		decode(s, i, &info);
		decode_windows(s, i, info.bytes);
		status = ptah_session_verify(s, i, NULL, &result);
		CHECK(status == (info.has_truth ? 0 : PTAH_E_MISSING));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_session_config config = {.size = sizeof(config),
					     .symfs = "/var/empty/ptah-fuzz"};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	char path[64];
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ptah_session_open(path, &config, &s, &why) == 0) {
		use(s);
		ptah_session_close(s);
	} else {
		CHECK(strlen(why.text) > 0);
		config.ignore_build_ids = true;
		if (ptah_session_open(path, &config, &s, &why) == 0) {
			use(s);
			ptah_session_close(s);
		}
	}
	close(fd);
	return 0;
}
