/* SPDX-License-Identifier: MIT */
/*
 * What is found in maps for perf and in jitdumps follows from the lines and records that the test
 * writes, over which it goes once more with a plain loop.
 */
#include "random.h"
#include "../test.h"

#include "base/bits.h"
#include "symbol/jit.h"

#include <ptah/base.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/ptah-jit-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_bytes(const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static const char *name_at(const struct symbol_jit *jit, uint64_t address, uint64_t tsc)
{
	uint64_t low, high;
	const struct symbol_jit_code *code = symbol_jit_find(jit, address, tsc, &low, &high);

	return code ? symbol_jit_name(jit, code) : "";
}

TEST(the_lines_of_a_map_are_read)
{
	static const char text[] = "7f0000001000 40 LazyCompile:~hot /a b.js:1:2\n"
				   "0x7f0000001040 0x20 py::f:/x.py\r\n"
				   "no line\n"
				   "7f0000001060 zz broken\n"
				   "12345678901234567 10 too long\n"
				   "7f0000001080 0 empty\n"
				   "ffffffffffffff00 200 beyond\n"
				   "7f0000001090 10 esc\x1b[31m\n"
				   "7f00000010a0 10 without a newline";
	struct symbol_jit jit;

	write_bytes(text, strlen(text));
	assert_int_equal(symbol_perf_map_read(path, true, &jit), 0);
	assert_int_equal(jit.count, 4);
	assert_string_equal(name_at(&jit, 0x7f0000000fff, 0), "");
	assert_string_equal(name_at(&jit, 0x7f0000001000, 0), "LazyCompile:~hot /a b.js:1:2");
	assert_string_equal(name_at(&jit, 0x7f000000103f, 0), "LazyCompile:~hot /a b.js:1:2");
	assert_string_equal(name_at(&jit, 0x7f0000001040, 0), "py::f:/x.py");
	assert_string_equal(name_at(&jit, 0x7f0000001060, 0), "");
	assert_string_equal(name_at(&jit, 0x7f0000001080, 0), "");
	assert_string_equal(name_at(&jit, 0x7f0000001090, 0), "esc?[31m");
	assert_string_equal(name_at(&jit, 0x7f00000010af, 0), "without a newline");
	symbol_jit_free(&jit);
}

static uint64_t seed = 88172645463325252u;

static uint64_t chance(uint64_t n)
{
	return random_next(&seed) % n;
}

#define LINES 40

/* Code is generated where other code was: the last line that has an address is valid. */
TEST(later_lines_replace_earlier_ones)
{
	for (unsigned round = 0; round < 200; round++) {
		uint64_t start[LINES], size[LINES];
		char text[LINES * 64];
		size_t n = 0;
		struct symbol_jit jit;

		for (unsigned i = 0; i < LINES; i++) {
			start[i] = 0x1000 + chance(300);
			size[i] = 1 + chance(chance(3) ? 20 : 200);
			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "%" PRIx64 " %" PRIx64 " %u\n", start[i], size[i], i);
		}
		write_bytes(text, n);
		assert_int_equal(symbol_perf_map_read(path, true, &jit), 0);
		for (uint64_t address = 0xff0; address < 0x1200; address++) {
			char expected[16] = "";

			for (unsigned i = 0; i < LINES; i++)
				if (address - start[i] < size[i])
					snprintf(expected, sizeof(expected), "%u", i);
			assert_string_equal(name_at(&jit, address, 0), expected);
		}
		symbol_jit_free(&jit);
	}
}

TEST(missing_files_are_reported)
{
	struct symbol_jit jit;

	assert_int_equal(symbol_perf_map_read("/nowhere/map", true, &jit), PTAH_E_SYSTEM);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(symbol_perf_map_read("/dev/null", true, &jit), PTAH_E_SYSTEM);
	assert_int_equal(errno, EINVAL);
	write_bytes("1000 10 a\n", 10);
	assert_int_equal(symbol_jitdump_read(path, &jit), PTAH_E_BAD_MAGIC);
}

/* A jitdump that is being written. */
struct dump {
	uint8_t bytes[65536];
	size_t n, record;
};

static void put(struct dump *d, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		d->bytes[d->n++] = (uint8_t)(value >> 8 * i);
}

static void begin_dump(struct dump *d, unsigned machine, uint64_t flags)
{
	*d = (struct dump){0};
	put(d, 0x4a695444, 4);
	put(d, 1, 4);
	put(d, 40, 4);
	put(d, machine, 4);
	put(d, 0, 4);
	put(d, 77, 4);
	put(d, 5000, 8);
	put(d, flags, 8);
}

static void begin_record(struct dump *d, unsigned type, uint64_t time)
{
	d->record = d->n;
	put(d, type, 4);
	put(d, 0, 4);
	put(d, time, 8);
}

static void end_record(struct dump *d)
{
	store_le32(d->bytes + d->record + 4, (uint32_t)(d->n - d->record));
}

static void put_load(struct dump *d, uint64_t time, uint64_t address, uint64_t size,
		     const char *name)
{
	begin_record(d, 0, time);
	put(d, 77, 4);
	put(d, 77, 4);
	put(d, address, 8);
	put(d, address, 8);
	put(d, size, 8);
	put(d, 1, 8);
	memcpy(d->bytes + d->n, name, strlen(name) + 1);
	d->n += strlen(name) + 1;
	for (uint64_t i = 0; i < size; i++)
		put(d, (uint8_t)(*name + i), 1);
	end_record(d);
}

static void put_move(struct dump *d, uint64_t time, uint64_t from, uint64_t to, uint64_t size)
{
	begin_record(d, 1, time);
	put(d, 77, 4);
	put(d, 77, 4);
	put(d, to, 8);
	put(d, from, 8);
	put(d, to, 8);
	put(d, size, 8);
	put(d, 1, 8);
	end_record(d);
}

static void put_line(struct dump *d, uint64_t address, unsigned line, const char *file)
{
	put(d, address, 8);
	put(d, line, 4);
	put(d, 0, 4);
	memcpy(d->bytes + d->n, file, strlen(file) + 1);
	d->n += strlen(file) + 1;
}

TEST(a_jitdump_has_what_was_there_at_a_time)
{
	static struct dump d;
	struct symbol_jit jit;
	uint64_t low, high;
	const struct symbol_jit_code *code;

	begin_dump(&d, 62, 0);
	put_load(&d, 100, 0x1000, 64, "a");
	put_load(&d, 200, 0x1010, 16, "b"); /* in the middle of what a was */
	put_move(&d, 300, 0x1010, 0x2000, 16);
	put_load(&d, 400, 0x1000, 32, "c");
	write_bytes(d.bytes, d.n);
	assert_int_equal(symbol_jitdump_read(path, &jit), 0);
	assert_int_equal(jit.pid, 77);
	assert_int_equal(jit.time, 5000);
	assert_false(jit.is_tsc);
	assert_false(jit.is_truncated);
	assert_string_equal(name_at(&jit, 0x1010, 99), "a"); /* the first one */
	assert_string_equal(name_at(&jit, 0x1010, 199), "a");
	assert_string_equal(name_at(&jit, 0x1010, 200), "b");
	assert_string_equal(name_at(&jit, 0x1000, 399), "a");
	assert_string_equal(name_at(&jit, 0x1010, 0), "c");
	assert_string_equal(name_at(&jit, 0x2000, 299), "b");
	assert_string_equal(name_at(&jit, 0x2010, 299), "");
	assert_string_equal(name_at(&jit, 0x2008, 300), "b");

	code = symbol_jit_find(&jit, 0x1030, 250, &low, &high);
	assert_non_null(code);
	assert_int_equal(low, 0x1020); /* b has replaced the part before */
	assert_int_equal(high, 0x1040);
	assert_int_equal(code->head, 0x1000);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(code->bytes[i], 'a' + i);
	code = symbol_jit_find(&jit, 0x1000, 150, &low, &high);
	assert_int_equal(high, 0x1040); /* b is not there yet */
	code = symbol_jit_find(&jit, 0x200f, 300, &low, &high);
	assert_int_equal(code->bytes[15], 'b' + 15);
	symbol_jit_free(&jit);
}

TEST(lines_follow_code_that_is_moved)
{
	static struct dump d;
	const struct symbol_jit_code *code;
	struct symbol_jit jit;
	uint64_t low, high;
	const char *file;
	unsigned line;

	begin_dump(&d, 62, 1);
	begin_record(&d, 2, 100);
	put(&d, 0x1000, 8);
	put(&d, 3, 8);
	put_line(&d, 0x1004, 10, "one.js");
	put_line(&d, 0x1008, 11, "\xff");
	put_line(&d, 0x1010, 3, "two.js");
	end_record(&d);
	put_load(&d, 100, 0x1000, 64, "a");
	put_move(&d, 300, 0x1000, 0x2000, 64);
	put_load(&d, 400, 0x5000, 64, "b");
	write_bytes(d.bytes, d.n);
	assert_int_equal(symbol_jitdump_read(path, &jit), 0);
	assert_true(jit.is_tsc);
	code = symbol_jit_find(&jit, 0x2000, 0, &low, &high);
	assert_non_null(code);
	assert_false(symbol_jit_line(&jit, code, 3, &file, &line));
	assert_true(symbol_jit_line(&jit, code, 4, &file, &line));
	assert_string_equal(file, "one.js");
	assert_int_equal(line, 10);
	assert_true(symbol_jit_line(&jit, code, 15, &file, &line));
	assert_string_equal(file, "one.js");
	assert_int_equal(line, 11);
	assert_true(symbol_jit_line(&jit, code, 60, &file, &line));
	assert_string_equal(file, "two.js");
	assert_int_equal(line, 3);
	code = symbol_jit_find(&jit, 0x5000, 0, &low, &high);
	assert_false(symbol_jit_line(&jit, code, 60, &file, &line));
	symbol_jit_free(&jit);
}

/* A code with one line at `first` and one at `last`, counted from its beginning. */
static void put_two_lines(struct dump *d, uint64_t address, const char *file, unsigned first,
			  unsigned last)
{
	begin_record(d, 2, 100);
	put(d, address, 8);
	put(d, 2, 8);
	put_line(d, address + first, 1, file);
	put_line(d, address + last, 2, "\xff");
	end_record(d);
	put_load(d, 100, address, 128, "f");
}

/* The line at byte `inside` of the code at `address`; 0: not known. */
static unsigned line_at(const struct symbol_jit *jit, uint64_t address, uint64_t inside)
{
	uint64_t low, high;
	const struct symbol_jit_code *code = symbol_jit_find(jit, address, 0, &low, &high);
	const char *file;
	unsigned line = 0;

	assert_non_null(code);
	return symbol_jit_line(jit, code, inside, &file, &line) ? line : 0;
}

/*
 * Node.js counts 64 bytes too many (kElfHeaderSize in V8's perf-jit.cc). A file in which a line is
 * nearer to its code, or in which none is behind its end, was not written by it.
 */
TEST(lines_of_node_are_moved)
{
	static const struct {
		unsigned first, last;
		bool moved;
	} files[] = {{64, 72, false}, {70, 190, true}, {63, 120, false}};

	for (size_t i = 0; i < 3; i++) {
		const unsigned shift = files[i].moved ? 64 : 0;
		static struct dump d;
		struct symbol_jit jit;

		begin_dump(&d, 62, 1);
		put_two_lines(&d, 0x1000, "a.js", 64, 66);
		put_two_lines(&d, 0x2000, "b.js", files[i].first, files[i].last);
		write_bytes(d.bytes, d.n);
		assert_int_equal(symbol_jitdump_read(path, &jit), 0);
		assert_int_equal(line_at(&jit, 0x1000, 0), files[i].moved);
		assert_int_equal(line_at(&jit, 0x1000, 63), files[i].moved ? 2 : 0);
		assert_int_equal(line_at(&jit, 0x1000, 65), files[i].moved ? 2 : 1);
		assert_int_equal(line_at(&jit, 0x2000, files[i].first - shift), 1);
		assert_int_equal(line_at(&jit, 0x2000, files[i].last - shift), 2);
		symbol_jit_free(&jit);
	}
}

/* Node.js 20 writes other memory in place of a file's name: then nothing is known. */
TEST(lines_that_make_no_sense)
{
	static const struct {
		const char *file;
		unsigned first, last;
	} wrong[] = {
	    {"\xe4J\x01", 0, 8}, {"", 0, 8}, {"\xff", 0, 8}, {"a.js", 8, 0}, {"a.js", 0, 193}};
	static struct dump d;
	struct symbol_jit jit;

	begin_dump(&d, 62, 1);
	for (unsigned i = 0; i < 5; i++)
		put_two_lines(&d, 0x1000 * (i + 1), wrong[i].file, wrong[i].first, wrong[i].last);
	put_two_lines(&d, 0x8000, "good.js", 0, 64);
	write_bytes(d.bytes, d.n);
	assert_int_equal(symbol_jitdump_read(path, &jit), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(line_at(&jit, 0x1000 * (i + 1), 10), 0);
	assert_int_equal(line_at(&jit, 0x8000, 10), 1);
	symbol_jit_free(&jit);
}

/* A process that was killed leaves an incomplete record. */
TEST(a_jitdump_that_is_cut_has_what_precedes)
{
	static struct dump d;
	struct symbol_jit jit;
	size_t whole;

	begin_dump(&d, 62, 0);
	put_load(&d, 100, 0x1000, 64, "a");
	whole = d.n;
	put_load(&d, 200, 0x2000, 64, "b");
	for (size_t n = whole; n < d.n; n++) {
		write_bytes(d.bytes, n);
		assert_int_equal(symbol_jitdump_read(path, &jit), 0);
		assert_int_equal(jit.is_truncated, n > whole);
		assert_string_equal(name_at(&jit, 0x1000, 0), "a");
		assert_string_equal(name_at(&jit, 0x2000, 0), "");
		symbol_jit_free(&jit);
	}
	begin_dump(&d, 183, 0); /* of ARM */
	write_bytes(d.bytes, d.n);
	assert_int_equal(symbol_jitdump_read(path, &jit), PTAH_E_BAD_MAGIC);
}

/* Files that are read while they are written */

static int open_file(void)
{
	const int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	return fd;
}

static void append(const void *bytes, size_t n)
{
	FILE *f = fopen(path, "ab");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* Writes the file in pieces of up to `most` bytes, and reads it after each. */
static void read_in_pieces(const uint8_t *bytes, size_t n, size_t most, bool is_dump,
			   struct symbol_jit *jit)
{
	struct symbol_jit_file file;
	size_t done = 0;

	write_bytes("", 0);
	*jit = (struct symbol_jit){0};
	symbol_jit_file_init(&file, open_file(), is_dump, true);
	while (done < n) {
		const size_t size = 1 + chance(most < n - done ? most : n - done);

		append(bytes + done, size);
		done += size;
		assert_true(symbol_jit_file_more(&file, jit, 1 + chance(1000), false) >= 0);
		assert_int_equal(symbol_jit_index(jit), 0);
	}
	while (symbol_jit_file_more(&file, jit, UINT64_MAX, true) > 0)
		;
	assert_int_equal(symbol_jit_index(jit), 0);
	symbol_jit_file_close(&file);
}

static void expect_equal(const struct symbol_jit *a, const struct symbol_jit *b, uint64_t address,
			 uint64_t tsc)
{
	uint64_t low[2] = {0}, high[2] = {0};
	const struct symbol_jit_code *x = symbol_jit_find(a, address, tsc, &low[0], &high[0]);
	const struct symbol_jit_code *y = symbol_jit_find(b, address, tsc, &low[1], &high[1]);
	const char *file[2] = {"", ""};
	unsigned line[2] = {0};

	assert_int_equal(!x, !y);
	if (!x)
		return;
	assert_string_equal(x->name, y->name);
	assert_int_equal(low[0], low[1]);
	assert_int_equal(high[0], high[1]);
	assert_int_equal(x->head, y->head);
	assert_int_equal(x->from, y->from);
	assert_int_equal(!x->bytes, !y->bytes);
	if (x->bytes)
		assert_memory_equal(x->bytes, y->bytes, x->size);
	assert_int_equal(symbol_jit_line(a, x, address - x->head, &file[0], &line[0]),
			 symbol_jit_line(b, y, address - y->head, &file[1], &line[1]));
	assert_string_equal(file[0], file[1]);
	assert_int_equal(line[0], line[1]);
}

#define CODES 60

static void put_random_code(struct dump *d, uint64_t time, unsigned number)
{
	const uint64_t address = 0x1000 + 16 * chance(40), size = 1 + chance(100);
	char name[16];

	snprintf(name, sizeof(name), "f%u", number);
	if (!chance(4)) {
		put_move(d, time, address, 0x1000 + 16 * chance(40), size);
		return;
	}
	if (chance(2)) {
		begin_record(d, 2, time);
		put(d, address, 8);
		put(d, 1, 8);
		put_line(d, address, number + 1, name);
		end_record(d);
	}
	/* What is unknown is passed, also between lines and their code. */
	if (!chance(4)) {
		begin_record(d, 4, time);
		put(d, 0, 8);
		end_record(d);
	}
	put_load(d, time, address, size, name);
}

TEST(a_jitdump_may_be_read_while_it_is_written)
{
	static struct dump d;

	for (unsigned round = 0; round < 100; round++) {
		struct symbol_jit whole, grown;

		begin_dump(&d, 62, 0);
		for (unsigned i = 0; i < CODES; i++)
			put_random_code(&d, 100 + 10 * i, i);
		read_in_pieces(d.bytes, d.n, round % 2 ? 40 : 3000, true, &grown);
		assert_int_equal(symbol_jitdump_read(path, &whole), 0);
		assert_int_equal(whole.count, grown.count);
		assert_int_equal(whole.time, grown.time);
		for (uint64_t address = 0xff8; address < 0x1300; address += 4)
			for (uint64_t tsc = 0; tsc < 800; tsc += 95)
				expect_equal(&whole, &grown, address, tsc);
		symbol_jit_free(&whole);
		symbol_jit_free(&grown);
	}
}

TEST(a_map_may_be_read_while_it_is_written)
{
	for (unsigned round = 0; round < 100; round++) {
		char text[LINES * 64];
		struct symbol_jit whole, grown;
		size_t n = 0;

		for (unsigned i = 0; i < LINES; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "%" PRIx64 " %" PRIx64 " f%u%s", 0x1000 + chance(300),
					      1 + chance(100), i,
					      i + 1 < LINES || round % 2 ? "\n" : "");
		read_in_pieces((const uint8_t *)text, n, 60, false, &grown);
		assert_int_equal(symbol_perf_map_read(path, true, &whole), 0);
		for (uint64_t address = 0xff0; address < 0x1200; address++)
			expect_equal(&whole, &grown, address, 0);
		symbol_jit_free(&whole);
		symbol_jit_free(&grown);
	}
}

/* So that a list that grows code by code can be searched. */
TEST(a_list_that_grows_has_few_runs)
{
	struct symbol_jit jit = {0};

	for (unsigned i = 0; i < 5000; i++) {
		const uint64_t start = chance(UINT32_MAX);

		symbol_jit_add(&jit, (struct symbol_jit_code){.start = start,
							      .end = start + 1,
							      .head = start,
							      .size = 1,
							      .name = "",
							      .order = i});
		assert_int_equal(symbol_jit_index(&jit), 0);
		assert_in_range(jit.run_count, 1, 14);
	}
	assert_int_equal(jit.indexed, 5000);
	symbol_jit_free(&jit);
}

/* The new file is shorter, or has another beginning. Names that were found stay. */
TEST(a_file_that_is_written_anew_is_read_anew)
{
	static const char *const after[] = {"1000 10 other\n", "2000 10 other\n3000 10 more\n"};

	for (size_t i = 0; i < 2; i++) {
		static const char before[] = "1000 10 first\n2000 10 second\n";
		struct symbol_jit jit = {0};
		struct symbol_jit_file file;
		const char *name;

		write_bytes(before, strlen(before));
		symbol_jit_file_init(&file, open_file(), false, false);
		assert_true(symbol_jit_file_more(&file, &jit, UINT64_MAX, false) > 0);
		assert_int_equal(symbol_jit_index(&jit), 0);
		name = name_at(&jit, 0x1000, 0);
		write_bytes(after[i], strlen(after[i]));
		assert_true(symbol_jit_file_more(&file, &jit, UINT64_MAX, false) > 0);
		assert_int_equal(symbol_jit_index(&jit), 0);
		assert_string_equal(name_at(&jit, i ? 0x2000 : 0x1000, 0), "other");
		assert_string_equal(name_at(&jit, i ? 0x1000 : 0x2000, 0), "");
		assert_string_equal(name, "first");
		symbol_jit_file_close(&file);
		symbol_jit_free(&jit);
	}
}

/* A record that is never complete costs nothing, and one that makes no sense ends the list. */
TEST(damaged_files_end)
{
	static struct dump d;
	struct symbol_jit_file file;
	struct symbol_jit jit = {0};
	uint64_t offset;

	begin_dump(&d, 62, 0);
	put_load(&d, 100, 0x1000, 64, "a");
	offset = d.n;
	put(&d, 0, 4);
	put(&d, 1 << 20, 4);
	put(&d, 0, 8);
	write_bytes(d.bytes, d.n);
	symbol_jit_file_init(&file, open_file(), true, false);
	assert_true(symbol_jit_file_more(&file, &jit, UINT64_MAX, false) > 0);
	assert_int_equal(file.offset, offset);
	assert_int_equal(file.wanted, offset + (1 << 20));
	append(d.bytes, 1000);
	assert_int_equal(symbol_jit_file_more(&file, &jit, UINT64_MAX, false), 0);
	assert_false(file.ended);
	symbol_jit_file_close(&file);

	store_le32(d.bytes + offset + 4, UINT32_MAX);
	write_bytes(d.bytes, d.n);
	symbol_jit_file_init(&file, open_file(), true, false);
	symbol_jit_file_more(&file, &jit, UINT64_MAX, false);
	assert_true(file.ended);
	symbol_jit_file_close(&file);
	assert_int_equal(symbol_jit_index(&jit), 0);
	assert_string_equal(name_at(&jit, 0x1000, 0), "a");
	symbol_jit_free(&jit);
}

TEST_GROUP(make_file, remove_file)
