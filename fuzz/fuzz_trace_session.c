/* SPDX-License-Identifier: MIT */
/*
 * Proves of sessions of trace sets: whatever a set says of the files it names, it is opened, or
 * refused with a message. Every query of an open session works, the pieces of a stream add up to
 * its size, decoding ends, and counting gives as many instructions as reading.
 *
 * Input: the text of a set, a byte 0, and the content of the only file that the text may name,
 * whose path is "100": trace, code and perf's records.
 */
#include "fuzz.h"

#include "traceset/text.h"
#include "session/stream.h"

#include <sys/mman.h>
#include <unistd.h>

#define FOLDER	    "/proc/self/fd"
#define NUMBER	    100
#define MAX_STREAMS 16
#define MAX_ITEMS   (UINT64_C(1) << 18)

/* Names the set no other file, so that the result does not depend on the machine? */
static bool is_closed(const struct ptah_trace_set *set)
{
	static const char file[] = FOLDER "/100";
	bool closed = !set->kallsyms && !set->root && (!set->kcore || !strcmp(set->kcore, file));

	for (size_t i = 0; i < set->stream_count; i++)
		closed = closed && !strcmp(set->streams[i].file.path, file);
	for (size_t i = 0; i < set->code_count; i++)
		closed =
		    closed && !strcmp(set->code[i].file.path, file) && !set->code[i].recorded_path;
	for (size_t i = 0; i < set->sideband_count; i++)
		closed = closed && !strcmp(set->sideband[i].file.path, file);
	return closed;
}

static void check_bytes(const struct ptah_session *s, size_t stream, uint64_t size)
{
	uint64_t at = 0;
	const uint8_t *bytes;
	size_t n;

	while ((n = ptah_session_stream_bytes(s, stream, at, &bytes)) > 0)
		at += n;
	CHECK(at == size);
}

static void check_block(const struct ptah_session *s, const struct stream_decoder *stream,
			const struct ptah_item *block)
{
	const int32_t space = stream_space(stream, block->code.space);
	struct ptah_thread who;
	struct ptah_map map;

	if (ptah_session_find_map(s, space, block->ip, block->tsc, &map))
		CHECK(map.path && block->ip - map.address < map.size);
	if (space < -1)
		CHECK(!ptah_session_space(s, space, &who) && strlen(who.comm) < sizeof(who.comm));
}

/* The number of instructions of a stream; UINT64_MAX: too many. */
static uint64_t decode(const struct ptah_session *s, size_t index)
{
	uint64_t count = 0, insns = 0;
	struct stream_decoder *stream;
	struct ptah_item items[64];
	int n;

	CHECK(!stream_new(s, index, &stream));
	while ((n = stream_read(stream, items, 64)) > 0 && count < MAX_ITEMS) {
		count += (uint64_t)n;
		for (int i = 0; i < n; i++) {
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			insns += items[i].ninsn;
			check_block(s, stream, &items[i]);
		}
	}
	CHECK(n >= 0);
	stream_free(stream);
	return n ? UINT64_MAX : insns;
}

static void count(const struct ptah_session *s, size_t index, uint64_t insns)
{
	struct ptah_profile_totals totals;
	struct stream_decoder *stream;

	CHECK(!stream_new(s, index, &stream));
	while (stream_count(stream) > 0)
		;
	if (stream_profile(stream)) {
		CHECK(!ptah_profile_totals(stream_profile(stream), &totals));
		CHECK(totals.instructions == insns);
	}
	stream_free(stream);
}

static void use(const struct ptah_session *s)
{
	const size_t streams = ptah_session_streams(s);
	struct ptah_stream_info info;
	struct ptah_thread thread;

	for (size_t i = 0; ptah_session_note(s, i); i++)
		CHECK(strlen(ptah_session_note(s, i)) < (1 << 20));
	for (size_t i = 0; i < streams && i < MAX_STREAMS; i++) {
		uint64_t insns;

		CHECK(!ptah_session_stream_info(s, i, &info));
		CHECK(ptah_session_stream_like(s, i) <= i);
		check_bytes(s, i, info.bytes);
		for (size_t k = 0; !ptah_session_stream_thread(s, i, k, &thread); k++)
			CHECK(thread.tid > 0);
		insns = decode(s, i);
		if (insns != UINT64_MAX)
			count(s, i, insns);
	}
}

static void open_and_use(const struct ptah_trace_set *set, bool force)
{
	struct ptah_session_config config = {.size = sizeof(config), .ignore_build_ids = force};
	struct ptah_message why = {""};
	struct ptah_session *s;

	config.set = set;
	if (ptah_session_open(NULL, &config, &s, &why) < 0) {
		CHECK(strlen(why.text) > 0);
		return;
	}
	use(s);
	ptah_session_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\0', size);
	const size_t n = end ? (size_t)(end - data) : size;
	struct ptah_trace_set *set;
	char *text;
	int fd;

	if (!end)
		return 0;
	text = malloc(n + 1);
	CHECK(text && !ptah_trace_set_new(&set) && !traceset_set_folder(set, FOLDER));
	memcpy(text, data, n);
	if (!traceset_parse_text("NAME", text, n, set, NULL) && is_closed(set)) {
		fd = memfd_create("fuzz", 0);
		CHECK(fd >= 0 && dup2(fd, NUMBER) == NUMBER && !close(fd));
		CHECK(write(NUMBER, end + 1, size - n - 1) == (ssize_t)(size - n - 1));
		open_and_use(set, false);
		open_and_use(set, true);
		close(NUMBER);
	}
	ptah_trace_set_free(set);
	free(text);
	return 0;
}
