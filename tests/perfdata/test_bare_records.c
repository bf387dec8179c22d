/* SPDX-License-Identifier: MIT */
/*
 * Reads files of bare records, built by hand as the kernel writes them to perf's buffers
 * (perf_event.h).
 */
#include "perfdata/build.h"

#include "perfdata/reader.h"

#include <sys/stat.h>

#define TID_TIME (PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME)

/* The records of a file that build_begin() began. */
static void write_records(char *path, const struct perfdata_buffer *b)
{
	build_file(path, b->bytes + BUILD_DATA, b->size - BUILD_DATA);
}

static struct perfdata_records_part part_of(const char *path)
{
	return (struct perfdata_records_part){
	    .path = path, .sample_type = TID_TIME, .cpu = -1, .pid = -1, .tid = -1};
}

static struct perfdata_file *open_parts(const struct perfdata_records_part *parts, size_t n)
{
	const struct perfdata_records config = {
	    .parts = parts, .count = n, .clock = {.shift = 3, .mult = 2, .zero = 1000}};
	struct ptah_message why = {""};
	struct perfdata_file *f = NULL;

	if (perfdata_open_records(&config, &f, &why) < 0)
		fail_msg("%s", why.text);
	return f;
}

static void next(struct perfdata_file *f, struct perfdata_record *r, uint32_t type)
{
	struct ptah_message why = {""};

	if (perfdata_next(f, r, &why) != 1)
		fail_msg("%s", why.text);
	assert_int_equal(r->type, type);
}

static void ends(struct perfdata_file *f)
{
	struct ptah_message why = {""};
	struct perfdata_record r;

	assert_int_equal(perfdata_next(f, &r, &why), 0);
	assert_string_equal(why.text, "");
}

/* What the kernel wrote is returned; trace, samples and records about the recording are not. */
TEST(records_of_the_kernel)
{
	struct perfdata_buffer b = {0}, body = {0};
	struct perfdata_records_part part;
	struct perfdata_record r, again;
	struct perfdata_clock clock;
	struct perfdata_file *f;
	char path[32];
	uint64_t fork;

	build_begin(&b);
	build_info(&b, PERFDATA_AUXTRACE_INTEL_PT, true);
	build_comm(&b, 7, 8, true, "a name", 400);
	build_auxtrace(&b, 5, 8, -1, 0x100, "0123456789", 10, 16);
	perfdata_put64(&body, 0); /* a sample: not used whatever it has */
	build_record(&b, PERFDATA_SAMPLE, 0, &body, 7, 8, 1);
	build_mmap2(&b, 7, 0x1000, 0x2000, 0x3000, "/bin/x", 404, NULL);
	build_fork(&b, 9, 10, 7, 8, 412);
	build_record(&b, 60, 0, &body, 7, 8, 1202); /* of a future kernel */
	build_code(&b, 7, 99, 0x4000, "abc", 3);
	build_itrace_start(&b, 7, 8, 416);
	write_records(path, &b);
	part = part_of(path);
	f = open_parts(&part, 1);
	unlink(path);

	assert_true(perfdata_clock(f, &clock));
	assert_int_equal(clock.zero, 1000);
	assert_false(perfdata_snapshot(f));
	next(f, &r, PERFDATA_COMM);
	assert_int_equal(r.time, 1100);
	assert_int_equal(r.tid, 8);
	assert_memory_equal(r.text, "a name", 6);
	next(f, &r, PERFDATA_MMAP2);
	assert_int_equal(r.address, 0x1000);
	next(f, &r, PERFDATA_FORK);
	assert_int_equal(r.ppid, 7);
	fork = r.offset;
	next(f, &r, PERFDATA_HEADER_EVENT_TYPE);
	assert_int_equal(r.tag, PERFDATA_PTAH_CODE);
	assert_memory_equal(r.bytes, "abc", 3);
	assert_int_equal(perfdata_read_at(f, fork, &again), 0);
	assert_int_equal(again.type, PERFDATA_FORK);
	assert_int_equal(again.time, build_time(412));
	next(f, &r, PERFDATA_ITRACE_START);
	assert_int_equal(r.pid, 7);
	assert_int_equal(r.time, build_time(416));
	ends(f);
	assert_false(perfdata_truncated(f));
	perfdata_close(f);
	perfdata_buffer_free(&body);
	perfdata_buffer_free(&b);
}

/* A part has what its records lack: the CPU, and without SAMPLE_TID the thread. */
TEST(what_records_lack)
{
	/* SWITCH with the time alone, then MMAP of the kernel, whose pid is -1. */
	static const uint64_t bytes[] = {
	    PERFDATA_SWITCH | UINT64_C(16) << 48,
	    5000,
	    PERFDATA_MMAP | UINT64_C(56) << 48,
	    UINT32_MAX,
	    0x1000,
	    0x2000,
	    0,
	    0x78, /* "x" */
	    6000,
	};
	struct perfdata_records_part part;
	struct perfdata_record r;
	struct perfdata_file *f;
	char path[32];

	build_file(path, bytes, sizeof(bytes));
	part = part_of(path);
	part.sample_type = PERFDATA_SAMPLE_TIME;
	part.cpu = 3;
	part.pid = 70;
	part.tid = 71;
	f = open_parts(&part, 1);
	unlink(path);
	next(f, &r, PERFDATA_SWITCH);
	assert_int_equal(r.cpu, 3);
	assert_int_equal(r.pid, 70);
	assert_int_equal(r.tid, 71);
	assert_int_equal(r.time, 5000);
	next(f, &r, PERFDATA_MMAP);
	assert_int_equal(r.pid, -1);
	assert_int_equal(r.time, 6000);
	ends(f);
	perfdata_close(f);
}

/* Two parts of a file and all of another one: every record has an offset of its own. */
TEST(several_parts)
{
	struct perfdata_buffer b = {0}, other = {0};
	struct perfdata_records_part parts[3];
	struct perfdata_record r;
	struct perfdata_file *f;
	uint64_t offsets[3], first;
	char path[32], second[32];

	build_begin(&b);
	build_comm(&b, 1, 1, false, "one", 4);
	first = b.size - BUILD_DATA;
	build_comm(&b, 2, 2, false, "two", 8);
	build_comm(&b, 9, 9, false, "left out", 8);
	write_records(path, &b);
	build_begin(&other);
	build_with_cpus(&other);
	build_comm(&other, 3, 3, false, "three", 12);
	write_records(second, &other);
	parts[0] = part_of(path);
	parts[0].to = first;
	parts[1] = part_of(path);
	parts[1].from = first;
	parts[1].to = 2 * first;
	parts[2] = part_of(second);
	parts[2].sample_type = TID_TIME | PERFDATA_SAMPLE_CPU;
	parts[2].cpu = 5; /* the records have their own: 0 */
	f = open_parts(parts, 3);
	unlink(path);
	unlink(second);
	for (int32_t i = 0; i < 3; i++) {
		next(f, &r, PERFDATA_COMM);
		assert_int_equal(r.pid, i + 1);
		offsets[i] = r.offset;
	}
	assert_int_equal(r.cpu, 0);
	ends(f);
	for (int32_t i = 3; i-- > 0;) {
		assert_int_equal(perfdata_read_at(f, offsets[i], &r), 0);
		assert_int_equal(r.pid, i + 1);
		assert_int_equal(r.time, build_time(4 * ((uint64_t)i + 1)));
		assert_int_equal(r.cpu, i == 2 ? 0 : -1);
	}
	perfdata_close(f);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&other);
}

/* The events of a recording may end their records in different ways; the last u64 is their id. */
TEST(several_events)
{
	static const struct perfdata_records_event events[] = {
	    {5, TID_TIME | PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER},
	    {0, TID_TIME | PERFDATA_SAMPLE_IDENTIFIER},
	    {6, PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_IDENTIFIER},
	};
	static const uint64_t bytes[] = {
	    /* ITRACE_START of (1, 2); tid, time, CPU, id 5 */
	    PERFDATA_ITRACE_START | UINT64_C(48) << 48,
	    1 | UINT64_C(2) << 32,
	    1 | UINT64_C(2) << 32,
	    1000,
	    4,
	    5,
	    /* the same; tid, time, id 0 */
	    PERFDATA_ITRACE_START | UINT64_C(40) << 48,
	    1 | UINT64_C(2) << 32,
	    1 | UINT64_C(2) << 32,
	    2000,
	    0,
	    /* the same; time, id 6 */
	    PERFDATA_ITRACE_START | UINT64_C(32) << 48,
	    1 | UINT64_C(2) << 32,
	    3000,
	    6,
	    /* the same; an id that nobody knows ends it like id 0 */
	    PERFDATA_ITRACE_START | UINT64_C(40) << 48,
	    1 | UINT64_C(2) << 32,
	    1 | UINT64_C(2) << 32,
	    4000,
	    77,
	};
	struct perfdata_records config = {
	    .count = 1, .events = events, .event_count = ARRAY_SIZE(events)};
	struct perfdata_records_part part;
	struct perfdata_record r;
	struct perfdata_file *f;
	char path[32];

	build_file(path, bytes, sizeof(bytes));
	part = part_of(path);
	part.sample_type = 0;
	config.parts = &part;
	assert_int_equal(perfdata_open_records(&config, &f, NULL), 0);
	unlink(path);
	for (uint64_t i = 1; i <= 4; i++) {
		next(f, &r, PERFDATA_ITRACE_START);
		assert_int_equal(r.time, 1000 * i);
		assert_int_equal(r.cpu, i == 1 ? 4 : -1);
	}
	ends(f);
	perfdata_close(f);
}

/* With the clock of build_info() four ticks are a nanosecond. */
TEST(earlier_and_later)
{
	static const struct {
		int64_t ticks;
		uint64_t time;
	} cases[] = {{0, 1100}, {40, 1090}, {-40, 1110}, {4400, 0}, {INT64_MAX, 0}};
	struct perfdata_buffer b = {0};
	struct perfdata_records_part part;
	struct perfdata_record r;
	char path[32];

	build_begin(&b);
	build_comm(&b, 7, 8, true, "a name", 400);
	write_records(path, &b);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perfdata_file *f;

		part = part_of(path);
		part.tsc_offset = cases[i].ticks;
		f = open_parts(&part, 1);
		next(f, &r, PERFDATA_COMM);
		assert_int_equal(r.time, cases[i].time);
		perfdata_close(f);
	}
	unlink(path);
	perfdata_buffer_free(&b);
}

/* A file that ends inside a record is cut there; what follows in other files is read. */
TEST(cut_files)
{
	struct perfdata_buffer b = {0};
	struct perfdata_records_part parts[2];
	struct perfdata_record r;
	uint64_t first, size;
	char path[32], whole[32];

	build_begin(&b);
	build_comm(&b, 1, 1, false, "one", 4);
	first = b.size - BUILD_DATA;
	build_comm(&b, 2, 2, false, "two", 8);
	size = b.size - BUILD_DATA;
	write_records(whole, &b);
	parts[1] = part_of(whole);
	for (uint64_t n = first; n <= size; n++) {
		struct perfdata_file *f;

		build_file(path, b.bytes + BUILD_DATA, n);
		parts[0] = part_of(path);
		f = open_parts(parts, 2);
		unlink(path);
		next(f, &r, PERFDATA_COMM);
		if (n == size)
			next(f, &r, PERFDATA_COMM);
		next(f, &r, PERFDATA_COMM);
		next(f, &r, PERFDATA_COMM);
		ends(f);
		assert_int_equal(perfdata_truncated(f), n != first && n != size);
		if (perfdata_truncated(f)) {
			assert_string_equal(perfdata_cut_path(f), path);
			assert_int_equal(perfdata_size(f), n);
		}
		perfdata_close(f);
	}
	unlink(whole);
	perfdata_buffer_free(&b);
}

/* The file got its size first, or was cut before the end that the caller knows. */
TEST(zeros_and_missing_ends)
{
	struct perfdata_buffer b = {0};
	struct perfdata_records_part part;
	struct perfdata_record r;
	struct perfdata_file *f;
	char path[32];

	build_begin(&b);
	build_comm(&b, 1, 1, false, "one", 4);
	perfdata_put(&b, NULL, 101);
	write_records(path, &b);
	part = part_of(path);
	f = open_parts(&part, 1);
	next(f, &r, PERFDATA_COMM);
	ends(f);
	assert_false(perfdata_truncated(f));
	perfdata_close(f);

	part.to = 4096;
	f = open_parts(&part, 1);
	next(f, &r, PERFDATA_COMM);
	ends(f);
	assert_true(perfdata_truncated(f));
	perfdata_close(f);
	unlink(path);
	perfdata_buffer_free(&b);
}

static void refused(const struct perfdata_records_part *part, int status, const char *words)
{
	const struct perfdata_records config = {.parts = part, .count = 1};
	struct ptah_message why = {""};
	struct perfdata_file *f = NULL;

	assert_int_equal(perfdata_open_records(&config, &f, &why), status);
	if (!strstr(why.text, words) || strstr(why.text, part->path) != why.text)
		fail_msg("%s", why.text);
}

TEST(what_is_refused)
{
	struct perfdata_records_part part = part_of("/no/such/file");
	char path[32];

	refused(&part, PTAH_E_SYSTEM, "No such file");
	part.path = "/";
	refused(&part, PTAH_E_BAD_FILE, "not a regular file");
	build_file(path, "12345678", 8);
	part.path = path;
	part.from = 9;
	refused(&part, PTAH_E_BAD_FILE, "begin at offset 9");
	part.from = 5;
	part.to = 4;
	refused(&part, PTAH_E_BAD_FILE, "end at offset 4");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(&part, PTAH_E_BAD_FILE, "not a regular file");
	unlink(path);
}

/* Sizes that lie. All bytes of the record follow, so that nothing is cut. */
TEST(broken_records)
{
	static const struct {
		uint32_t type;
		uint16_t size;
	} cases[] = {
	    {PERFDATA_COMM, 0},	 {PERFDATA_COMM, 7},	    {PERFDATA_COMM, 8},
	    {PERFDATA_COMM, 12}, {PERFDATA_MMAP2, 16},	    {PERFDATA_FORK, 8},
	    {PERFDATA_LOST, 8},	 {PERFDATA_COMPRESSED, 16}, {PERFDATA_AUXTRACE, 16},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perfdata_buffer b = {0};
		struct perfdata_records_part part;
		struct ptah_message why = {""};
		struct perfdata_record r;
		struct perfdata_file *f;
		char path[32], place[64];

		perfdata_put(&b, (const uint64_t[]){60 | UINT64_C(8) << 48}, 8);
		perfdata_put32(&b, cases[i].type);
		perfdata_put16(&b, 0);
		perfdata_put16(&b, cases[i].size);
		perfdata_put64(&b, 1);
		perfdata_put64(&b, 1);
		build_file(path, b.bytes, b.size);
		part = part_of(path);
		f = open_parts(&part, 1);
		unlink(path);
		assert_int_equal(perfdata_next(f, &r, &why), PTAH_E_BAD_FILE);
		assert_true(strstr(why.text, path) == why.text);
		snprintf(place, sizeof(place), "offset %d", 8);
		assert_non_null(strstr(why.text, place));
		perfdata_close(f);
		perfdata_buffer_free(&b);
	}
}
