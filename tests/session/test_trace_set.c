/* SPDX-License-Identifier: MIT */
/*
 * Trace sets as sessions: several streams, processes at the same addresses, switches, records
 * beside raw trace. What must have run is known from the packets, which are made here or by a
 * simulated execution.
 */
#include "folder.h"

#include "../flow/random_machine.h"
#include "../perfdata/build.h"
#include "base/path_hash.h"
#include "model/clock.h"
#include "traceset/set.h"

#include <ptah/base.h>
#include <ptah/trace_set.h>

#include <inttypes.h>
#include <sys/stat.h>

/* Loops through jmp rax, with as many instructions as their names say. */
static const uint8_t three[] = {0x90, 0x90, 0xff, 0xe0};      /* nop; nop; jmp */
static const uint8_t two[] = {0x66, 0x90, 0xff, 0xe0};	      /* xchg ax, ax; jmp */
static const uint8_t four[] = {0x90, 0x90, 0x90, 0xff, 0xe0}; /* nop; nop; nop; jmp */

#define PLACE 0x12345 /* of the loops */

struct made {
	struct ptah_trace_set *set;
	struct ptah_generator g;
	uint8_t trace[4096];
};

static void begin(struct made *m)
{
	memset(m, 0, sizeof(*m));
	assert_int_equal(ptah_trace_set_new(&m->set), 0);
	generator_init(&m->g, m->trace, false, false);
}

/* A PSB+ at `tsc`, and just after it `n` jumps from PLACE to PLACE; then tracing is off. */
static void jumps(struct made *m, uint64_t tsc, unsigned n)
{
	generator_psb(&m->g, tsc, 20, false, 0);
	generator_enable(&m->g, PLACE);
	generator_tsc(&m->g, tsc + 1);
	while (n--)
		generator_tip(&m->g, PLACE);
	generator_async_disable(&m->g, PLACE);
}

/* The same in an address space. */
static void jumps_in(struct made *m, uint64_t cr3, unsigned n)
{
	generator_psb_begin(&m->g);
	generator_tsc(&m->g, 100);
	generator_pip(&m->g, cr3, false);
	generator_psb_end(&m->g, false, 0);
	generator_enable(&m->g, PLACE);
	while (n--)
		generator_tip(&m->g, PLACE);
	generator_async_disable(&m->g, PLACE);
}

static size_t trace_size(const struct made *m)
{
	return (size_t)(m->g.out - m->trace);
}

/* Ends a file of trace, and begins the next one. */
static void end_trace(struct made *m, const char *path)
{
	write_file(path, m->trace, trace_size(m));
	generator_init(&m->g, m->trace, false, false);
}

static void add_stream(struct made *m, const char *path, int32_t cpu, int32_t pid, int32_t tid)
{
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {.path = path}, .cpu = cpu, .pid = pid, .tid = tid};

	assert_int_equal(ptah_trace_set_add_stream(m->set, &stream), 0);
}

static struct ptah_trace_code code_at(const char *path, uint64_t address)
{
	return (struct ptah_trace_code){.size = sizeof(struct ptah_trace_code),
					.kind = PTAH_TRACE_CODE_RAW,
					.file = {.path = path},
					.address = address};
}

static void add_code_at(struct made *m, const char *path, uint64_t address, int32_t pid,
			uint64_t cr3)
{
	struct ptah_trace_code code = code_at(path, address);

	code.pid = pid;
	if (cr3)
		code.space = (struct ptah_space){cr3, PTAH_SPACE_ANY};
	assert_int_equal(ptah_trace_set_add_code(m->set, &code), 0);
}

static void add_code(struct made *m, const char *path, int32_t pid, uint64_t cr3)
{
	add_code_at(m, path, PLACE, pid, cr3);
}

static void add_switch(struct made *m, uint64_t tsc, int32_t cpu, int32_t pid, int32_t tid)
{
	const struct ptah_trace_switch change = {
	    .size = sizeof(change), .tsc = tsc, .cpu = cpu, .pid = pid, .tid = tid};

	assert_int_equal(ptah_trace_set_add_switch(m->set, &change), 0);
}

static struct ptah_session *open_set(struct made *m)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;

	config.set = m->set;
	if (ptah_session_open(NULL, &config, &s, &why) < 0)
		fail_msg("%s", why.text);
	ptah_trace_set_free(m->set);
	return s;
}

/* The set cannot be opened, for this reason. */
static void refused(struct made *m, int status, const char *reason)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;

	config.set = m->set;
	assert_int_equal(ptah_session_open(NULL, &config, &s, &why), status);
	if (!strstr(why.text, reason))
		fail_msg("\"%s\" is not in \"%s\"", reason, why.text);
	ptah_trace_set_free(m->set);
}

struct sums {
	uint64_t insns, errors;
	int last_error;
	uint64_t of_tid[16]; /* instructions of these threads */
};

static struct sums decode(const struct ptah_session *s, size_t stream)
{
	struct sums sums = {0};
	struct ptah_item items[3];
	struct ptah_thread thread;
	struct ptah_reader *st;
	int n;

	assert_int_equal(ptah_reader_new(s, stream, NULL, &st), 0);
	while ((n = ptah_reader_read(st, items, 3)) > 0) {
		assert_int_equal(ptah_reader_thread(st, &thread), 0);
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK) {
				sums.insns += items[i].ninsn;
				if (thread.tid >= 0 && thread.tid < 16)
					sums.of_tid[thread.tid] += items[i].ninsn;
			} else if (items[i].type == PTAH_ITEM_ERROR) {
				sums.errors++;
				sums.last_error = items[i].status;
			}
		}
	}
	assert_int_equal(n, 0);
	ptah_reader_free(st);
	return sums;
}

static void decodes_to(const struct ptah_session *s, size_t stream, uint64_t insns)
{
	const struct sums sums = decode(s, stream);

	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, insns);
}

static int make_files(void **state)
{
	if (make_folder(state))
		return -1;
	write_file("three", three, sizeof(three));
	write_file("two", two, sizeof(two));
	write_file("four", four, sizeof(four));
	return 0;
}

/* Each CPU has a stream; the pieces of one are put together in the order of the set. */
TEST(streams_of_several_files)
{
	struct ptah_stream_info info;
	struct ptah_session *s;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	end_trace(&m, "first");
	jumps(&m, 200, 7);
	end_trace(&m, "second");
	jumps(&m, 100, 1);
	end_trace(&m, "other");
	add_stream(&m, "first", 4, -1, -1);
	add_stream(&m, "other", 2, -1, -1);
	add_stream(&m, "second", 4, -1, -1);
	add_code(&m, "three", -1, 0);
	s = open_set(&m);
	assert_int_equal(ptah_session_streams(s), 2);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_true(info.cpu == 4 && info.tid == -1 && info.pid == -1 && !info.lost);
	decodes_to(s, 0, 3 * (5 + 7));
	decodes_to(s, 1, 3);
	assert_null(ptah_session_note(s, 0));
	ptah_session_close(s);
}

/* Entries of which nothing is known are streams of their own. */
TEST(nothing_known_of_streams)
{
	struct ptah_session *s;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	end_trace(&m, "first");
	add_stream(&m, "first", -1, -1, -1);
	add_stream(&m, "first", -1, 0, 0);
	add_code(&m, "two", -1, 0);
	s = open_set(&m);
	assert_int_equal(ptah_session_streams(s), 2);
	decodes_to(s, 0, 2 * 5);
	decodes_to(s, 1, 2 * 5);
	assert_int_equal(ptah_session_stream_like(s, 1), 0);
	ptah_session_close(s);
}

/* Bytes [from, to) of a file, and what was lost between two pieces. */
TEST(pieces_with_a_loss)
{
	struct ptah_trace_stream stream = {.size = sizeof(stream), .cpu = 0};
	struct ptah_stream_info info;
	struct ptah_session *s;
	size_t end_of_first;
	struct sums sums;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	end_of_first = trace_size(&m);
	generator_tip(&m.g, PLACE); /* is not named, and would be an error */
	stream.file.from = trace_size(&m);
	jumps(&m, 200, 7);
	end_trace(&m, "trace");
	stream.file = (struct ptah_trace_file){"trace", 0, end_of_first};
	assert_int_equal(ptah_trace_set_add_stream(m.set, &stream), 0);
	stream.file = (struct ptah_trace_file){"trace", end_of_first + 3, 0};
	stream.lost = 1000;
	assert_int_equal(ptah_trace_set_add_stream(m.set, &stream), 0);
	add_code(&m, "three", -1, 0);
	s = open_set(&m);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.lost, 1000);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 1);
	assert_int_equal(sums.last_error, PTAH_E_LOST);
	assert_int_equal(sums.insns, 3 * (5 + 7));
	ptah_session_close(s);
}

/* The count of each space of a stream, by the number that the session has for it. */
struct by_space {
	const struct ptah_session *session;
	struct {
		int32_t space;
		uint64_t insns;
	} of[8];
	size_t count;
};

static int take_spaces(void *context, size_t stream, struct ptah_profile *profile)
{
	struct by_space *by = context;
	struct ptah_profile_block *blocks;
	size_t n, k;

	assert_int_equal(ptah_profile_blocks(profile, &blocks, &n), 0);
	for (size_t i = 0; i < n; i++) {
		const int32_t space =
		    ptah_session_profile_pid(by->session, stream, profile, blocks[i].space);

		for (k = 0; k < by->count && by->of[k].space != space; k++)
			;
		assert_true(k < 8);
		by->count = k == by->count ? k + 1 : by->count;
		by->of[k].space = space;
		by->of[k].insns += blocks[i].count * (blocks[i].ip == PLACE ? 1 : 0);
	}
	free(blocks);
	return 0;
}

/* The items of told_apart_by_cr3(): each block's space has the name of its CR3. */
static void names_of_items(const struct ptah_session *s)
{
	const struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = 2, .segment = 1};
	struct ptah_reader *reader;
	struct ptah_item items[3];
	struct ptah_thread who;
	unsigned first = 0, second = 0;
	int n;

	assert_int_equal(ptah_reader_new(s, 0, &jobs, &reader), 0);
	while ((n = ptah_reader_read(reader, items, 3)) > 0) {
		for (int i = 0; i < n; i++) {
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			assert_int_equal(
			    ptah_session_space(s, ptah_reader_space(reader, items[i].code.space),
					       &who),
			    0);
			first += !strcmp(who.comm, "cr3:1aa000") ? items[i].ninsn : 0;
			second += !strcmp(who.comm, "cr3:2bb000") ? items[i].ninsn : 0;
		}
	}
	ptah_reader_free(reader);
	assert_int_equal(first, 3 * (5 + 2));
	assert_int_equal(second, 2 * 9);
}

/* Two processes have other code at the same address: CR3 in the trace tells them apart. */
TEST(told_apart_by_cr3)
{
	struct by_space by = {0};
	struct ptah_session *s;
	struct ptah_thread who;
	struct ptah_map map;
	struct made m;

	begin(&m);
	jumps_in(&m, 0x1aa000, 5);
	jumps_in(&m, 0x2bb000, 9);
	jumps_in(&m, 0x1aa000, 2);
	end_trace(&m, "trace");
	add_stream(&m, "trace", 0, -1, -1);
	add_code(&m, "three", -1, 0x1aa000);
	add_code(&m, "two", -1, 0x2bb000);
	s = open_set(&m);
	decodes_to(s, 0, 3 * (5 + 2) + 2 * 9);
	names_of_items(s);
	by.session = s;
	assert_int_equal(ptah_session_count(s, NULL, NULL, take_spaces, &by), 0);
	assert_int_equal(by.count, 2);
	for (size_t i = 0; i < 2; i++) {
		char path[64];
		const bool first = by.of[i].insns == 5 + 2;

		assert_true(by.of[i].space < -1 && (first || by.of[i].insns == 9));
		assert_int_equal(ptah_session_space(s, by.of[i].space, &who), 0);
		assert_int_equal(who.pid, -1);
		assert_string_equal(who.comm, first ? "cr3:1aa000" : "cr3:2bb000");
		assert_true(ptah_session_find_map(s, by.of[i].space, PLACE + 1, 0, &map));
		snprintf(path, sizeof(path), "%s/%s", folder, first ? "three" : "two");
		assert_string_equal(map.path, path);
		assert_true(map.address == PLACE && !map.file_offset && map.size == 4);
	}
	assert_false(ptah_session_find_map(s, -1, PLACE + 4, 0, &map));
	ptah_session_close(s);
}

/* ... the pid of their threads does. */
TEST(told_apart_by_pid)
{
	const struct ptah_trace_thread thread = {
	    .size = sizeof(thread), .pid = 6, .tid = 8, .comm = "eight"};
	struct ptah_stream_info info;
	struct ptah_session *s;
	struct ptah_map map;
	struct made m;
	char path[64];

	begin(&m);
	jumps(&m, 100, 5);
	end_trace(&m, "trace");
	add_stream(&m, "trace", -1, 5, 5);
	add_stream(&m, "trace", -1, 6, 6);
	add_stream(&m, "trace", -1, -1, 8);
	add_code(&m, "three", 5, 0);
	add_code(&m, "two", 6, 0);
	assert_int_equal(ptah_trace_set_add_thread(m.set, &thread), 0);
	s = open_set(&m);
	decodes_to(s, 0, 3 * 5);
	decodes_to(s, 1, 2 * 5);
	decodes_to(s, 2, 2 * 5);
	assert_int_equal(ptah_session_stream_info(s, 2, &info), 0);
	assert_true(info.pid == 6 && info.tid == 8 && info.cpu == -1 && info.space == 6);
	assert_string_equal(info.comm, "eight");
	assert_int_equal(ptah_session_stream_like(s, 1), 1);
	assert_int_equal(ptah_session_stream_like(s, 2), 1);
	snprintf(path, sizeof(path), "%s/two", folder);
	assert_true(ptah_session_find_map(s, 6, PLACE, 0, &map));
	assert_string_equal(map.path, path);
	assert_true(ptah_session_find_map(s, 5, PLACE, 0, &map));
	assert_false(ptah_session_find_map(s, 7, PLACE, 0, &map));
	ptah_session_close(s);
}

/* ... context switches do, in any order. Without perf's clock the times are TSC values. */
TEST(told_apart_by_switches)
{
	struct ptah_thread thread;
	struct ptah_session *s;
	struct sums sums;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	jumps(&m, 200, 7);
	jumps(&m, 300, 2);
	jumps(&m, 400, 1);
	end_trace(&m, "trace");
	add_stream(&m, "trace", 3, -1, -1);
	add_code(&m, "three", 5, 0);
	add_code(&m, "two", 6, 0);
	add_switch(&m, 250, 3, 5, 7);
	add_switch(&m, 0, 3, 5, 5);
	add_switch(&m, 150, 3, 6, 6);
	add_switch(&m, 350, 3, 6, 6);
	add_switch(&m, 150, 2, 5, 5); /* of another CPU */
	s = open_set(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.of_tid[5], 3 * 5);
	assert_int_equal(sums.of_tid[6], 2 * (7 + 1));
	assert_int_equal(sums.of_tid[7], 3 * 2);
	assert_int_equal(ptah_session_stream_thread(s, 0, 2, &thread), 0);
	assert_true(thread.pid == 6 && thread.tid == 6);
	assert_int_equal(ptah_session_stream_thread(s, 0, 3, &thread), PTAH_E_MISSING);
	ptah_session_close(s);
}

/*
 * A set does not say whether there are MTCs. One that comes at once after the TSC of a PSB+ shows
 * that a switch is far away, although the time is not certain to be later than that TSC.
 */
TEST(mtc_at_once_after_a_stay)
{
	const struct ptah_trace_processor processor = {
	    .size = sizeof(processor),
	    .trace = {.size = sizeof(processor.trace), .mtc_period = 3},
	    .tsc_n = 2,
	    .tsc_d = 1,
	    .nominal_ratio = 20};
	struct ptah_clock clock = {.tsc_en = true,
				   .mtc_en = true,
				   .mtc_freq = 3,
				   .nominal_ratio = 20,
				   .ratio = 20,
				   .n = 2,
				   .d = 1,
				   .tsc = 1003 * 16 - 4};
	struct ptah_session *s;
	struct sums sums;
	struct made m;

	begin(&m);
	clock_init(&clock);
	clock_psb(&clock, &m.g, false, 0);
	generator_enable(&m.g, PLACE);
	clock_pass(&clock, &m.g, 4); /* up to the MTC */
	for (unsigned i = 0; i < 5; i++)
		generator_tip(&m.g, PLACE);
	generator_async_disable(&m.g, PLACE);
	clock_pass(&clock, &m.g, 4000);
	generator_enable(&m.g, PLACE);
	generator_tip(&m.g, PLACE);
	generator_async_disable(&m.g, PLACE);
	end_trace(&m, "trace");
	add_stream(&m, "trace", 3, -1, -1);
	add_code(&m, "three", 5, 0);
	add_code(&m, "two", 6, 0);
	add_switch(&m, 0, 3, 5, 5);
	add_switch(&m, 1003 * 16 + 2000, 3, 6, 6);
	assert_int_equal(ptah_trace_set_processor(m.set, &processor), 0);
	s = open_set(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.of_tid[5], 3 * 5);
	assert_int_equal(sums.of_tid[6], 2);
	ptah_session_close(s);
}

/* Nobody says which of two processes ran: nothing is guessed, and a note says why. */
TEST(not_told_apart)
{
	struct ptah_session *s;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	end_trace(&m, "trace");
	add_stream(&m, "trace", 3, -1, -1);
	add_code(&m, "three", 5, 0);
	add_code(&m, "two", 6, 0);
	s = open_set(&m);
	assert_int_equal(decode(s, 0).insns, 0);
	assert_non_null(strstr(ptah_session_note(s, 0), "context switches"));
	ptah_session_close(s);
}

/* A process has other code at an address from a time on. */
TEST(code_is_replaced_at_its_time)
{
	struct ptah_trace_code code = code_at("two", PLACE);
	struct ptah_session *s;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	jumps(&m, 300, 7);
	end_trace(&m, "trace");
	add_stream(&m, "trace", -1, 5, 5);
	code.pid = 5;
	code.tsc = 200;
	assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
	add_code(&m, "three", 5, 0);
	s = open_set(&m);
	decodes_to(s, 0, 3 * 5 + 2 * 7);
	ptah_session_close(s);
}

/* Code of every process, and that of one over it. */
TEST(code_of_all_processes)
{
	struct ptah_session *s;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	end_trace(&m, "trace");
	add_stream(&m, "trace", -1, 5, 5);
	add_stream(&m, "trace", -1, 6, 6);
	add_code(&m, "four", -1, 0);
	add_code(&m, "two", 6, 0);
	s = open_set(&m);
	decodes_to(s, 0, 4 * 5);
	decodes_to(s, 1, 2 * 5);
	ptah_session_close(s);
}

/* A file that was not handed on is taken from where it lay when it ran. */
TEST(recorded_path)
{
	struct ptah_trace_code code = code_at("not/here", PLACE);
	char path[64];

	snprintf(path, sizeof(path), "%s/two", folder);
	code.recorded_path = path;
	for (int32_t pid = -1; pid <= 5; pid += 6) {
		struct ptah_session *s;
		struct made m;

		begin(&m);
		jumps(&m, 100, 5);
		end_trace(&m, "trace");
		add_stream(&m, "trace", -1, 5, 5);
		code.pid = pid;
		assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
		s = open_set(&m);
		decodes_to(s, 0, 2 * 5);
		ptah_session_close(s);
	}
}

/* The pages of PREFIX.dump, of one process and of all. */
TEST(pages)
{
	struct ptah_trace_code code = {.size = sizeof(code), .kind = PTAH_TRACE_CODE_PAGES};
	static uint8_t dump[3 * 4096];
	uint8_t addresses[3 * 8];
	struct ptah_session *s;
	struct made m;

	store_le64(addresses, 0x50000);
	store_le64(addresses + 8, PLACE & ~0xfffull);
	store_le64(addresses + 16, (PLACE & ~0xfffull) + 0x1000);
	memcpy(dump + 4096 + (PLACE & 0xfff), two, sizeof(two));
	write_file("p.dump", dump, sizeof(dump));
	write_file("p.addr", addresses, sizeof(addresses));
	code.file.path = "p";
	for (int32_t pid = -1; pid <= 5; pid += 6) {
		struct ptah_map map;

		begin(&m);
		jumps(&m, 100, 5);
		end_trace(&m, "trace");
		add_stream(&m, "trace", -1, 5, 5);
		code.pid = pid;
		assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
		s = open_set(&m);
		decodes_to(s, 0, 2 * 5);
		assert_true(ptah_session_find_map(s, 5, PLACE, 0, &map));
		assert_non_null(strstr(map.path, "/p.dump"));
		assert_int_equal(map.file_offset + (PLACE - map.address), 4096 + (PLACE & 0xfff));
		ptah_session_close(s);
	}
}

/* A PE file with one section at 0x1000, in which the loop lies at 0x345. */
static void write_pe(const char *path, const void *loop, size_t n)
{
	static const struct {
		unsigned at, value;
	} words[] = {{60, 0x40},    {0x40, 0x4550},   {0x44, 0x00018664}, {0x54, 0x70},
		     {0x58, 0x20b}, {0x70, 0x500000}, {0xd0, 0x1000},	  {0xd4, 0x1000},
		     {0xd8, 0x400}, {0xdc, 0x200},    {0xec, 0x60000020}};
	uint8_t file[0x600] = "MZ";

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		memcpy(file + words[i].at, &words[i].value, 4);
	memcpy(file + 0x200 + 0x345, loop, n);
	write_file(path, file, sizeof(file));
}

/* Programs of Windows, of a process and of an address space, moved to another base. */
TEST(programs_of_windows)
{
	struct ptah_trace_code code = {.size = sizeof(code),
				       .kind = PTAH_TRACE_CODE_PE,
				       .file = {.path = "three.exe"},
				       .address = PLACE - 0x1345,
				       .pid = 5};
	struct ptah_session *s;
	struct ptah_map map;
	struct made m;

	write_pe("three.exe", three, sizeof(three));
	write_pe("two.exe", two, sizeof(two));
	for (unsigned i = 0; i < 2; i++) {
		begin(&m);
		if (i) {
			jumps_in(&m, 0x1aa000, 10);
			code.file.path = "two.exe";
			code.pid = 0;
			code.space = (struct ptah_space){0x1aa000, PTAH_SPACE_ANY};
		} else {
			jumps(&m, 100, 10);
		}
		end_trace(&m, "a.pt");
		add_stream(&m, "a.pt", 0, i ? -1 : 5, i ? -1 : 5);
		assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
		s = open_set(&m);
		decodes_to(s, 0, i ? 20 : 30);
		if (!i) {
			assert_true(ptah_session_find_map(s, 5, PLACE, 0, &map));
			assert_true(map.address == PLACE - 0x345 && map.file_offset == 0x200);
			assert_non_null(strstr(map.path, "three.exe"));
		}
		ptah_session_close(s);
	}
	code.file.path = "three";
	for (unsigned i = 0; i < 2; i++) {
		begin(&m);
		jumps(&m, 100, 1);
		end_trace(&m, "a.pt");
		add_stream(&m, "a.pt", 0, 5, 5);
		code.pid = i ? 5 : 0;
		code.space.cr3 = i ? 0 : 0x1aa000;
		code.space.vmcs = i ? 0 : PTAH_SPACE_ANY;
		assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
		refused(&m, PTAH_E_BAD_MAGIC, "three: it is no PE file");
	}
}

/* What is known of the processor reaches the decoder; address ranges cannot be changed later. */
TEST(processor_and_filter)
{
	struct ptah_trace_processor p = {.size = sizeof(p),
					 .cpu = {6, 0x3d, 4}, /* Broadwell: BDM70 */
					 .tsc_n = 168,
					 .tsc_d = 2,
					 .nominal_ratio = 24,
					 .has_clock = true,
					 .time_shift = 3,
					 .time_mult = 2,
					 .time_zero = 1000};
	struct ptah_flow_config flow;
	struct ptah_session *s;
	struct made m;

	begin(&m);
	jumps(&m, 100, 5);
	end_trace(&m, "trace");
	add_stream(&m, "trace", 0, -1, -1);
	add_code(&m, "two", -1, 0);
	p.trace.mtc_period = 3;
	p.trace.no_retcomp = true;
	p.trace.ranges[0] = (struct ptah_range){PLACE, PLACE + 3, PTAH_RANGE_FILTER};
	assert_int_equal(ptah_trace_set_processor(m.set, &p), 0);
	s = open_set(&m);
	ptah_session_get_flow(s, &flow);
	assert_true(flow.events.trace.mtc_period == 3 && flow.events.trace.no_retcomp);
	assert_true(flow.events.tsc_n == 168 && flow.events.tsc_d == 2);
	assert_int_equal(flow.events.nominal_ratio, 24);
	assert_int_equal(flow.events.errata, ptah_cpu_errata(&p.cpu));
	assert_true(flow.events.errata & 1u << PTAH_ERRATUM_BDM70);
	assert_int_equal(flow.events.trace.ranges[0].first, PLACE);
	assert_int_equal(ptah_session_time(s, 400), 1100);
	decodes_to(s, 0, 2 * 5);
	ptah_session_close(s);
}

/*
 * A conditional branch that leaves the filter has a TIP.PGD without an address (SDM "TIP.PGD Packet
 * Definition"): with the set's ranges the branch was taken, without them nobody knows.
 */
TEST(branch_out_of_the_filter)
{
	static const uint8_t out[] = {0x90, 0x0f, 0x84, 0xf9, 0x0f, 0, 0}; /* nop; jz +0x1000 */
	struct ptah_trace_processor p = {.size = sizeof(p)};

	write_file("out", out, sizeof(out));
	p.trace.ranges[0] = (struct ptah_range){PLACE, PLACE + 6, PTAH_RANGE_FILTER};
	for (int filtered = 0; filtered < 2; filtered++) {
		struct ptah_item items[16];
		struct ptah_reader *stream;
		struct ptah_session *s;
		bool taken = false;
		struct made m;
		int n;

		begin(&m);
		generator_psb(&m.g, 100, 20, false, 0);
		generator_enable(&m.g, PLACE);
		generator_disable(&m.g);
		end_trace(&m, "trace");
		add_stream(&m, "trace", 0, -1, -1);
		add_code(&m, "out", -1, 0);
		if (filtered)
			assert_int_equal(ptah_trace_set_processor(m.set, &p), 0);
		s = open_set(&m);
		assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
		n = ptah_reader_read(stream, items, 16);
		for (int i = 0; i < n; i++)
			if (items[i].type == PTAH_ITEM_BLOCK)
				taken = items[i].flags & PTAH_ITEM_TAKEN;
		assert_int_equal(taken, filtered);
		ptah_reader_free(stream);
		ptah_session_close(s);
	}
}

/* perf's clock in the records of the tests below; see build_time(). */
static void set_perf_clock(struct made *m)
{
	const struct ptah_trace_processor p = {.size = sizeof(p),
					       .has_clock = true,
					       .time_shift = 3,
					       .time_mult = 2,
					       .time_zero = 1000};

	assert_int_equal(ptah_trace_set_processor(m->set, &p), 0);
}

/* Writes records and adds them to the set. */
static void add_records(struct made *m, const char *path, struct perfdata_buffer *b, bool primary)
{
	struct ptah_trace_sideband sideband = {.size = sizeof(sideband),
					       .sample_type =
						   PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME |
						   (build_has_cpus(b) ? PERFDATA_SAMPLE_CPU : 0),
					       .cpu = -1,
					       .primary = primary};

	write_file(path, b->bytes, b->size);
	perfdata_buffer_free(b);
	*b = (struct perfdata_buffer){0};
	sideband.file = (struct ptah_trace_file){.path = path, .from = BUILD_DATA};
	assert_int_equal(ptah_trace_set_add_sideband(m->set, &sideband), 0);
}

/* A process runs on each of two CPUs, and nothing but the records says which of them was traced. */
TEST(cpu_of_the_primary_records)
{
	static const struct {
		bool primary[2]; /* those of CPU 2, of CPU 3 */
		int32_t cpu;	 /* of the stream */
	} cases[] = {
	    {{true, false}, 2}, {{false, true}, 3}, {{false, false}, -1}, {{true, true}, -1}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perfdata_buffer b = {0};
		struct ptah_stream_info info;
		struct ptah_session *s;
		char path[64];
		struct made m;

		begin(&m);
		jumps(&m, 1000, 5);
		end_trace(&m, "trace");
		add_stream(&m, "trace", -1, -1, -1);
		for (int32_t k = 0; k < 2; k++) {
			build_begin(&b);
			build_with_cpus(&b);
			snprintf(path, sizeof(path), "%s/%s", folder, k ? "three" : "two");
			build_mmap2(&b, 5 + k, PLACE, 4, 0, path, 400, NULL);
			build_switch_on(&b, (uint32_t)(2 + k), false, 5 + k, 5 + k, 0, 0, 800);
			add_records(&m, k ? "records.3" : "records.2", &b, cases[i].primary[k]);
		}
		set_perf_clock(&m);
		s = open_set(&m);
		assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
		assert_int_equal(info.cpu, cases[i].cpu);
		if (info.cpu >= 0)
			decodes_to(s, 0, 5 * (info.cpu == 2 ? 2 : 3));
		else
			assert_non_null(strstr(ptah_session_note(s, 0), "unknown CPU"));
		ptah_session_close(s);
	}
}

/* The only thread that begins is the one that was traced. */
TEST(thread_of_the_records)
{
	struct perfdata_buffer b = {0};
	struct ptah_stream_info info;
	struct ptah_session *s;
	char path[64];
	struct made m;

	begin(&m);
	jumps(&m, 1000, 5);
	end_trace(&m, "trace");
	add_stream(&m, "trace", -1, -1, -1);
	build_begin(&b);
	build_comm(&b, 5, 6, false, "six", 400);
	snprintf(path, sizeof(path), "%s/two", folder);
	build_mmap2(&b, 5, PLACE, sizeof(two), 0, path, 400, NULL);
	build_itrace_start(&b, 5, 6, 400);
	add_records(&m, "records", &b, false);
	set_perf_clock(&m);
	s = open_set(&m);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.pid, 5);
	assert_int_equal(info.tid, 6);
	assert_string_equal(info.comm, "six");
	decodes_to(s, 0, 2 * 5);
	ptah_session_close(s);
}

/* A copy of the vdso, by the size of the program's addresses. */
TEST(code_of_the_vdso)
{
	struct ptah_trace_system system = {.size = sizeof(system)};
	static const struct {
		uint64_t address;
		const char *paths[PTAH_TRACE_VDSO_MAX]; /* 64, 32, x32 */
		unsigned insns;				/* in a pass; 0: there is no code */
	} cases[] = {
	    {0x7fff00012345, {"two", "three", "four"}, 2},
	    {PLACE, {"two", "three", "four"}, 3},
	    {PLACE, {"two", NULL, "four"}, 4},
	    {PLACE, {"two", NULL, NULL}, 0},
	    {0x7fff00012345, {NULL, "three", "four"}, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perfdata_buffer b = {0};
		struct ptah_session *s;
		struct sums sums;
		struct made m;

		begin(&m);
		generator_psb(&m.g, 1000, 20, false, 0);
		generator_enable(&m.g, cases[i].address);
		generator_tip(&m.g, cases[i].address);
		generator_async_disable(&m.g, cases[i].address);
		end_trace(&m, "trace");
		add_stream(&m, "trace", -1, 5, 5);
		build_begin(&b);
		build_mmap2(&b, 5, cases[i].address, 4096, 0, "[vdso]", 400, NULL);
		add_records(&m, "records", &b, false);
		set_perf_clock(&m);
		memcpy(system.vdso, cases[i].paths, sizeof(system.vdso));
		assert_int_equal(ptah_trace_set_system(m.set, &system), 0);
		s = open_set(&m);
		sums = decode(s, 0);
		assert_int_equal(sums.errors != 0, !cases[i].insns);
		if (cases[i].insns)
			assert_int_equal(sums.insns, cases[i].insns);
		ptah_session_close(s);
	}
}

/* The filter as text: a range in a file, which a process maps, or which is code of the set. */
TEST(filter_of_a_file)
{
	struct ptah_trace_system system = {.size = sizeof(system)};
	static const uint8_t out[] = {0x90, 0x0f, 0x84, 0xf9, 0x0f, 0, 0}; /* nop; jz +0x1000 */
	static const char *const formats[] = {"filter 0x0/0x7@%s/out", "filter 0/7@%s/other", ""};

	write_file("out", out, sizeof(out));
	for (size_t i = 0; i < 2 * ARRAY_SIZE(formats); i++) {
		const int32_t pid = i % 2 ? 5 : -1;
		struct ptah_item items[16];
		struct ptah_reader *stream;
		struct ptah_session *s;
		bool taken = false;
		char text[128];
		struct made m;
		int n;

		begin(&m);
		generator_psb(&m.g, 100, 20, false, 0);
		generator_enable(&m.g, PLACE);
		generator_disable(&m.g);
		end_trace(&m, "trace");
		add_stream(&m, "trace", -1, pid, pid);
		add_code(&m, "out", pid, 0);
		snprintf(text, sizeof(text), formats[i / 2], folder);
		system.filter = *text ? text : NULL;
		assert_int_equal(ptah_trace_set_system(m.set, &system), 0);
		s = open_set(&m);
		assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
		n = ptah_reader_read(stream, items, 16);
		for (int k = 0; k < n; k++)
			if (items[k].type == PTAH_ITEM_BLOCK)
				taken = items[k].flags & PTAH_ITEM_TAKEN;
		assert_int_equal(taken, i / 2 == 0);
		ptah_reader_free(stream);
		ptah_session_close(s);
	}
}

/* Records of perf beside raw trace: maps, names and switches, with perf's clock. */
TEST(records_beside_the_trace)
{
	struct ptah_trace_processor p = {.size = sizeof(p),
					 .has_clock = true,
					 .time_shift = 3,
					 .time_mult = 2,
					 .time_zero = 1000};
	struct ptah_trace_sideband sideband = {.size = sizeof(sideband),
					       .file = {.path = "records"},
					       .sample_type =
						   PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME,
					       .cpu = 3};
	struct perfdata_buffer b = {0};
	struct ptah_session *s;
	struct sums sums;
	char path[64];
	struct made m;
	uint64_t until;
	char comm[16];

	begin(&m);
	jumps(&m, 1000, 5);
	jumps(&m, 2000, 7);
	end_trace(&m, "trace");
	add_stream(&m, "trace", 3, -1, -1);
	build_begin(&b);
	snprintf(path, sizeof(path), "%s/three", folder);
	build_mmap2(&b, 5, PLACE, sizeof(three), 0, path, 400, NULL);
	snprintf(path, sizeof(path), "%s/two", folder);
	build_mmap2(&b, 6, PLACE, sizeof(two), 0, path, 400, NULL);
	build_comm(&b, 5, 5, false, "five", 500);
	build_switch(&b, false, 5, 5, 0, 0, 800);
	build_switch(&b, true, 5, 5, 6, 6, 1600);
	build_switch(&b, false, 6, 6, 5, 5, 1604);
	write_file("records", b.bytes, b.size);
	perfdata_buffer_free(&b);
	/* After the header and attribute, which other tracers do not write. */
	sideband.file.from = BUILD_DATA;
	assert_int_equal(ptah_trace_set_add_sideband(m.set, &sideband), 0);
	assert_int_equal(ptah_trace_set_processor(m.set, &p), 0);
	s = open_set(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.of_tid[5], 3 * 5);
	assert_int_equal(sums.of_tid[6], 2 * 7);
	assert_true(ptah_session_thread_name(s, 5, 1000, comm, &until));
	assert_string_equal(comm, "five");
	ptah_session_close(s);
}

/*
 * The process executes another program: what it had mapped goes, code of every process (a vDSO)
 * stays.
 */
TEST(execve_beside_code_of_all)
{
	struct ptah_trace_processor p = {.size = sizeof(p),
					 .has_clock = true,
					 .time_shift = 3,
					 .time_mult = 2,
					 .time_zero = 1000};
	struct ptah_trace_sideband sideband = {.size = sizeof(sideband),
					       .file = {.path = "records", .from = BUILD_DATA},
					       .sample_type =
						   PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME,
					       .cpu = -1};
	struct perfdata_buffer b = {0};
	struct ptah_session *s;
	struct sums sums;
	char path[64];
	struct made m;

	begin(&m);
	jumps(&m, 1000, 5); /* of the first program */
	jumps(&m, 3000, 7); /* not mapped any more */
	generator_psb(&m.g, 3200, 20, false, 0);
	generator_enable(&m.g, 0x7000);
	generator_tip(&m.g, 0x7000);
	generator_async_disable(&m.g, 0x7000);
	end_trace(&m, "trace");
	add_stream(&m, "trace", -1, 5, 5);
	add_code_at(&m, "four", 0x7000, -1, 0);
	build_begin(&b);
	snprintf(path, sizeof(path), "%s/three", folder);
	build_comm(&b, 5, 5, true, "first", 300);
	build_mmap2(&b, 5, PLACE, sizeof(three), 0, path, 400, NULL);
	build_comm(&b, 5, 5, true, "second", 2000);
	write_file("records", b.bytes, b.size);
	perfdata_buffer_free(&b);
	assert_int_equal(ptah_trace_set_add_sideband(m.set, &sideband), 0);
	assert_int_equal(ptah_trace_set_processor(m.set, &p), 0);
	s = open_set(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 1);
	assert_int_equal(sums.last_error, PTAH_E_NO_CODE);
	assert_int_equal(sums.insns, 3 * 5 + 4);
	ptah_session_close(s);
}

/*
 * Two simulated executions of different programs at the same addresses, one after the other on one
 * CPU: each must be the path that was executed.
 */
TEST(simulated_programs)
{
	for (unsigned seed = 1; seed <= 4; seed++) {
		struct ptah_trace_stream stream = {.size = sizeof(stream), .cpu = 1};
		struct path_hash path[2] = {{0}};
		uint64_t instructions[2] = {0};
		struct machine *machines[2];
		struct ptah_item items[64];
		struct ptah_reader *st;
		struct ptah_session *s;
		struct made m;
		int n;

		begin(&m);
		for (unsigned i = 0; i < 2; i++) {
			char name[16];
			size_t size;

			machines[i] = machine_new(10 * i + seed, seed & 1, seed & 2, false, &size);
			snprintf(name, sizeof(name), "code%u", i);
			write_file(name, machines[i]->code, sizeof(machines[i]->code));
			add_code_at(&m, name, BASE, -1, 0x1000 * (i + 1));
			generator_psb_begin(&m.g);
			generator_pip(&m.g, 0x1000 * (i + 1), false);
			generator_psb_end(&m.g, false, 0);
			snprintf(name, sizeof(name), "space%u", i);
			end_trace(&m, name);
			stream.file = (struct ptah_trace_file){.path = name};
			assert_int_equal(ptah_trace_set_add_stream(m.set, &stream), 0);
			snprintf(name, sizeof(name), "trace%u", i);
			write_file(name, machines[i]->trace, size);
			/* Packets are cut anywhere. */
			stream.file.to = size / 3 + seed;
			assert_int_equal(ptah_trace_set_add_stream(m.set, &stream), 0);
			stream.file.from = size / 3 + seed;
			stream.file.to = 0;
			assert_int_equal(ptah_trace_set_add_stream(m.set, &stream), 0);
		}
		s = open_set(&m);
		assert_int_equal(ptah_session_streams(s), 1);
		assert_int_equal(ptah_reader_new(s, 0, NULL, &st), 0);
		while ((n = ptah_reader_read(st, items, 64)) > 0) {
			for (int i = 0; i < n; i++) {
				assert_int_not_equal(items[i].type, PTAH_ITEM_ERROR);
				if (items[i].type != PTAH_ITEM_BLOCK)
					continue;
				assert_in_range(items[i].code.space, 1, 2);
				instructions[items[i].code.space - 1] += items[i].ninsn;
				path_hash_add(&path[items[i].code.space - 1], items[i].ip,
					      items[i].end);
			}
		}
		ptah_reader_free(st);
		ptah_session_close(s);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(instructions[i], machines[i]->instructions);
			assert_int_equal(path_hash_value(&path[i]),
					 path_hash_value(&machines[i]->path));
			machine_free(machines[i]);
		}
	}
}

/* A small text cannot make a long work of a small file. */
TEST(named_again_and_again)
{
	struct ptah_trace_sideband sideband = {
	    .size = sizeof(sideband), .file = {.path = "trace", .from = 1}, .cpu = -1};
	struct made m;

	begin(&m);
	jumps(&m, 100, 1);
	end_trace(&m, "trace");
	assert_true(!symlink("trace", "same"));
	for (unsigned i = 0; i < 65; i++)
		add_stream(&m, i % 3 ? "trace" : i % 2 ? "same" : "././/trace", -1, -1, -1);
	refused(&m, PTAH_E_LIMIT, "/trace: its bytes are named more than 64 times");
	begin(&m);
	for (unsigned i = 0; i < 70; i++)
		assert_int_equal(ptah_trace_set_add_sideband(m.set, &sideband), 0);
	refused(&m, PTAH_E_LIMIT, "/trace: its bytes are named more than 64 times");
	begin(&m);
	add_stream(&m, "trace", -1, -1, -1);
	for (unsigned i = 0; i < 32769; i++)
		add_code_at(&m, "two", 0x1000 * i, -1, 0);
	refused(&m, PTAH_E_LIMIT, "/two: more than 32768 pieces of code");
}

TEST(what_is_refused)
{
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {.path = "trace", .to = 10000}, .cpu = 0};
	struct ptah_trace_code code = code_at("two", PLACE);
	struct ptah_session_config force = {.size = sizeof(force), .ignore_build_ids = true};
	struct ptah_session *s;
	struct made m;

	begin(&m);
	refused(&m, PTAH_E_EMPTY, "no file of trace");
	begin(&m);
	add_stream(&m, "nothing", 0, -1, -1);
	refused(&m, PTAH_E_SYSTEM, "/nothing: cannot open");
	begin(&m);
	end_trace(&m, "empty");
	add_stream(&m, "empty", 0, -1, -1);
	refused(&m, PTAH_E_EMPTY, "/empty: the file is empty");
	begin(&m);
	add_stream(&m, ".", 0, -1, -1);
	refused(&m, PTAH_E_EMPTY, "not a regular file");
	begin(&m);
	jumps(&m, 100, 1);
	end_trace(&m, "trace");
	assert_int_equal(ptah_trace_set_add_stream(m.set, &stream), 0);
	refused(&m, PTAH_E_BAD_FILE, "/trace: its bytes from 0 to 10000");
	begin(&m);
	add_stream(&m, "trace", 0, -1, -1);
	add_code(&m, "nothing", -1, 0);
	refused(&m, PTAH_E_SYSTEM, "/nothing: cannot open");
	begin(&m);
	add_stream(&m, "trace", 0, -1, -1);
	add_code(&m, "nothing", 5, 0);
	refused(&m, PTAH_E_SYSTEM, "/nothing: cannot open");
	begin(&m);
	add_stream(&m, "trace", 0, -1, -1);
	code.kind = PTAH_TRACE_CODE_ELF;
	assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
	refused(&m, PTAH_E_BAD_MAGIC, "/two: it is no ELF file");
	begin(&m);
	add_stream(&m, "trace", 0, -1, -1);
	code.kind = PTAH_TRACE_CODE_RAW;
	code.build_id_size = 20;
	assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
	refused(&m, PTAH_E_CHANGED, "/two is not the file that ran");
	/* With --force it is used, and what cannot be used is noted. */
	begin(&m);
	add_stream(&m, "trace", 0, -1, -1);
	assert_int_equal(ptah_trace_set_add_code(m.set, &code), 0);
	add_code(&m, "nothing", 5, 0);
	force.set = m.set;
	assert_int_equal(ptah_session_open(NULL, &force, &s, NULL), 0);
	ptah_trace_set_free(m.set);
	decodes_to(s, 0, 2);
	assert_non_null(strstr(ptah_session_note(s, 0), "nothing is not used"));
	ptah_session_close(s);
}

TEST_GROUP(make_files, remove_folder)
