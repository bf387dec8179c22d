/* SPDX-License-Identifier: MIT */
/* What was written is read back after every flush. A failure leaves no file that looks complete. */
#include "perfdata/build.h"

#include "perfdata/reader.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char *const command[] = {(char *)"prog", (char *)"an argument", NULL};

static struct perfdata_writer_config config_of(const char *path)
{
	return (struct perfdata_writer_config){
	    .path = path,
	    .command = command,
	    .clock = {.shift = 2, .mult = 3, .zero = 1000},
	    .retcomp = true,
	    .tsc = true,
	    .nominal_ratio = 20,
	};
}

static struct perfdata_writer *open_writer(const char *path)
{
	struct perfdata_writer_config config = config_of(path);
	struct perfdata_writer *w = NULL;
	struct ptah_message why = {""};

	if (perfdata_writer_open(&config, &w, &why) < 0)
		fail_msg("%s", why.text);
	return w;
}

static int next(struct perfdata_file *f, struct perfdata_record *r)
{
	struct ptah_message why = {""};
	int status = perfdata_next(f, r, &why);

	if (status < 0)
		fail_msg("%s", why.text);
	return status;
}

static struct perfdata_file *open_reader(const char *path)
{
	struct perfdata_file *f = NULL;
	struct ptah_message why = {""};

	if (perfdata_open(path, &f, &why) < 0)
		fail_msg("%s", why.text);
	return f;
}

static unsigned count_records(const char *path, bool *unfinished)
{
	struct perfdata_file *f = open_reader(path);
	struct perfdata_record r;
	unsigned n = 0;

	while (next(f, &r))
		n++;
	*unfinished = perfdata_unfinished(f);
	perfdata_close(f);
	return n;
}

static void new_path(char *path)
{
	build_file(path, "", 0);
	unlink(path);
}

TEST(written_and_read)
{
	static const struct perfdata_mapping mapping = {
	    .address = 0x1000, .size = 0x2000, .file_offset = 0x3000, .prot = 5, .flags = 2};
	struct ptah_truth truth = {1, 2, 3, 4, 5};
	struct perfdata_build_id id, own;
	struct perfdata_clock clock;
	struct perfdata_writer *w;
	struct perfdata_record r;
	struct perfdata_file *f;
	char path[32];

	new_path(path);
	w = open_writer(path);
	assert_int_equal(perfdata_write_comm(w, 7, 8, 10, true, "a name that is far too long"), 0);
	assert_int_equal(perfdata_write_mmap2(w, 7, 8, 20, &mapping, "/proc/self/exe"), 0);
	assert_int_equal(perfdata_write_mmap2(w, 7, 8, 20, &mapping, "/no/such/file"), 0);
	assert_int_equal(perfdata_write_fork(w, 9, 10, 7, 8, 30), 0);
	assert_int_equal(perfdata_write_itrace_start(w, 7, 8, 40), 0);
	assert_int_equal(perfdata_write_auxtrace(w, 3, 8, "0123456789", 10), 0);
	assert_int_equal(perfdata_write_auxtrace(w, 3, 8, "abcdefgh", 8), 0);
	assert_int_equal(perfdata_add_code(w, 7, 50, 0x4000, "code!", 5), 0);
	assert_int_equal(perfdata_add_vdso(w, "syscall", 7), 0);
	assert_int_equal(perfdata_add_note(w, "a note"), 0);
	assert_int_equal(perfdata_add_truth(w, 3, 7, 8, &truth, 6), 0);
	assert_int_equal(perfdata_write_exit(w, 7, 8, 7, 7, 60), 0);
	assert_int_equal(perfdata_writer_finish(w, NULL, NULL), 0);

	f = open_reader(path);
	assert_false(perfdata_unfinished(f));
	assert_string_equal(perfdata_command(f), "ptah record -- prog an argument");
	assert_true(next(f, &r));
	assert_int_equal(r.type, PERFDATA_COMM);
	assert_memory_equal(r.text, "a name that is ", 16); /* 15 and the NUL, as in the kernel */
	assert_true(r.exec);
	assert_int_equal(r.time, 1000 + 10 * 3 / 4);
	assert_true(perfdata_clock(f, &clock));
	assert_int_equal(clock.mult, 3);
	assert_true(next(f, &r));
	assert_int_equal(r.type, PERFDATA_MMAP2);
	assert_int_equal(r.file_offset, 0x3000);
	assert_int_equal(perfdata_build_id_read("/proc/self/exe", &own), 0);
	assert_int_equal(r.id.size, own.size);
	assert_memory_equal(r.id.bytes, own.bytes, own.size);
	if (own.size) {
		assert_true(perfdata_find_build_id(f, "/proc/self/exe", &id));
		assert_int_equal(id.size, own.size);
		assert_memory_equal(id.bytes, own.bytes, own.size);
	}
	assert_false(perfdata_find_build_id(f, "/proc/self/ex", &id));
	assert_true(next(f, &r));
	assert_memory_equal(r.text, "/no/such/file", 14);
	assert_int_equal(r.id.size, 0);
	assert_true(next(f, &r));
	assert_int_equal(r.type, PERFDATA_FORK);
	assert_int_equal(r.ppid, 7);
	assert_true(next(f, &r));
	assert_int_equal(r.type, PERFDATA_ITRACE_START);
	assert_true(next(f, &r));
	assert_int_equal(r.type, PERFDATA_AUXTRACE);
	assert_int_equal(r.index, 3);
	assert_int_equal(r.tid, 8);
	assert_int_equal(r.cpu, -1);
	assert_int_equal(r.trace_offset, 0);
	assert_int_equal(r.trace_size, 16); /* with PAD, as perf wants it */
	assert_memory_equal(r.bytes, "0123456789\0\0\0\0\0", 16);
	assert_true(next(f, &r));
	assert_int_equal(r.trace_offset, 16);
	assert_memory_equal(r.bytes, "abcdefgh", 8);
	assert_true(next(f, &r));
	assert_int_equal(r.tag, PERFDATA_PTAH_CODE);
	assert_int_equal(r.pid, 7);
	assert_int_equal(r.tsc, 50);
	assert_int_equal(r.address, 0x4000);
	assert_int_equal(r.size, 5);
	assert_memory_equal(r.bytes, "code!", 5);
	assert_true(next(f, &r));
	assert_int_equal(r.tag, PERFDATA_PTAH_VDSO);
	assert_int_equal(r.number, 64);
	assert_int_equal(r.size, 7);
	assert_memory_equal(r.bytes, "syscall", 7);
	assert_true(next(f, &r));
	assert_int_equal(r.tag, PERFDATA_PTAH_NOTE);
	assert_int_equal(r.text_size, 6);
	assert_memory_equal(r.text, "a note", 6);
	assert_true(next(f, &r));
	assert_int_equal(r.tag, PERFDATA_PTAH_TRUTH);
	assert_int_equal(r.index, 3);
	assert_memory_equal(&r.truth, &truth, sizeof(truth));
	assert_int_equal(r.lost, 6);
	assert_true(next(f, &r));
	assert_int_equal(r.type, PERFDATA_EXIT);
	assert_false(next(f, &r));
	perfdata_close(f);
	unlink(path);
}

/* After a flush the file is readable, however the writer ends. */
TEST(readable_at_every_flush)
{
	struct perfdata_writer *w;
	bool unfinished;
	char path[32];

	new_path(path);
	w = open_writer(path);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(count_records(path, &unfinished), 2 * i);
		assert_true(unfinished || !i);
		assert_int_equal(perfdata_write_comm(w, 7, 7, i, false, "x"), 0);
		assert_int_equal(perfdata_write_auxtrace(w, 0, 7, "12345", 5), 0);
		assert_int_equal(perfdata_writer_flush(w), 0);
	}
	/* What was written after the last flush does no harm. */
	assert_int_equal(perfdata_write_auxtrace(w, 0, 7, "12345", 5), 0);
	assert_int_equal(count_records(path, &unfinished), 40);
	assert_int_equal(perfdata_writer_finish(w, NULL, NULL), 0);
	assert_int_equal(count_records(path, &unfinished), 41);
	assert_false(unfinished);
	unlink(path);
}

TEST(old_recording_is_kept)
{
	struct perfdata_writer *w;
	char path[32], old[40];
	struct stat st;

	build_file(path, "precious", 8);
	snprintf(old, sizeof(old), "%s.old", path);
	w = open_writer(path);
	assert_int_equal(stat(old, &st), 0);
	assert_int_equal(st.st_size, 8);
	perfdata_writer_abort(w); /* renames the old file back */
	assert_int_equal(stat(old, &st), -1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 8);

	w = open_writer(path);
	assert_int_equal(perfdata_writer_finish(w, NULL, NULL), 0);
	assert_int_equal(stat(old, &st), 0);
	assert_int_equal(st.st_size, 8);
	unlink(path);
	unlink(old);
}

TEST(places_that_do_not_do)
{
	static const struct {
		const char *path, *words;
	} cases[] = {
	    {"/no/such/folder/file", "No such file"},
	    {"/", "directory"},
	    {"/dev/full", "No space left"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perfdata_writer_config config = config_of(cases[i].path);
		struct perfdata_writer *w = NULL;
		struct ptah_message why = {""};
		struct stat before, after;

		memset(&before, 0, sizeof(before));
		memset(&after, 0, sizeof(after));
		if (stat(cases[i].path, &before) && i)
			continue;
		assert_int_equal(perfdata_writer_open(&config, &w, &why), PTAH_E_SYSTEM);
		assert_true(strstr(why.text, cases[i].path) == why.text);
		assert_non_null(strstr(why.text, cases[i].words));
		/* A device is neither renamed nor removed. */
		stat(cases[i].path, &after);
		assert_int_equal(before.st_ino, after.st_ino);
	}
}

/* Counts notes that begin with `begin`, and the names that a process has got. */
static void count_notes(const char *path, const char *begin, unsigned *notes, unsigned *names)
{
	struct perfdata_file *f = open_reader(path);
	struct perfdata_record r;

	*notes = *names = 0;
	while (next(f, &r)) {
		*notes += r.tag == PERFDATA_PTAH_NOTE && r.text_size > strlen(begin) &&
			  !memcmp(r.text, begin, strlen(begin));
		*names += r.type == PERFDATA_COMM;
	}
	perfdata_close(f);
}

/*
 * A record's size is a u16 (perf_event_open(2), struct perf_event_header): one that does not fit is
 * left out with a note, and the recording goes on.
 */
TEST(too_long)
{
	static const struct perfdata_mapping mapping = {.size = 1, .prot = 5};
	static const struct perfdata_build_id none;
	static char text[70000];
	struct perfdata_writer *w;
	unsigned notes, names;
	char path[32];

	memset(text, 'x', sizeof(text) - 1);
	new_path(path);
	w = open_writer(path);
	assert_int_equal(perfdata_add_note(w, text), 0); /* cut */
	assert_int_equal(perfdata_write_comm(w, 7, 7, 1, false, text), 0);
	assert_int_equal(perfdata_write_mmap2(w, 7, 7, 1, &mapping, text), 0);
	assert_int_equal(perfdata_write_kernel_map(w, 1, &mapping, text, &none), 0);
	assert_int_equal(perfdata_write_ksymbol(w, 1, 1, 1, text), 0);
	assert_int_equal(perfdata_write_poke(w, 1, 1, text, 65500), 0);
	assert_int_equal(perfdata_add_vdso(w, text, 65500), 0);
	assert_int_equal(perfdata_write_raw(w, text, 65536), 0);
	assert_int_equal(perfdata_write_comm(w, 7, 7, 1, false, "x"), 0);
	assert_null(perfdata_writer_why(w));
	assert_int_equal(perfdata_writer_notes(w), 2);
	assert_int_equal(perfdata_writer_finish(w, NULL, NULL), 0);
	count_notes(path, "a mapping with its path is left out", &notes, &names);
	assert_int_equal(notes, 1);
	assert_int_equal(names, 2);
	count_notes(path, "6 records are left out", &notes, &names);
	assert_int_equal(notes, 1);
	unlink(path);
}

/* Code of all sizes around those of a record and of two is in the recording as a whole. */
TEST(long_code)
{
	static const size_t sizes[] = {1, 32768, 32769, 65464, 65480, 65528, 65536, 66000};
	static uint8_t code[66000], got[66000];
	struct perfdata_file *f;
	struct perfdata_record r;
	struct perfdata_writer *w;
	char path[32];

	for (size_t i = 0; i < sizeof(code); i++)
		code[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = 0;

		new_path(path);
		w = open_writer(path);
		assert_int_equal(perfdata_add_code(w, 7, 1, 0x1000, code, sizes[i]), 0);
		assert_int_equal(perfdata_writer_finish(w, NULL, NULL), 0);
		f = open_reader(path);
		while (next(f, &r)) {
			assert_int_equal(r.tag, PERFDATA_PTAH_CODE);
			assert_int_equal(r.address, 0x1000 + n);
			assert_true(r.size <= sizeof(got) - n);
			memcpy(got + n, r.bytes, r.size);
			n += r.size;
		}
		perfdata_close(f);
		unlink(path);
		assert_int_equal(n, sizes[i]);
		assert_memory_equal(got, code, n);
	}
}

/* An event that is opened later: as many ids as there is room for. */
TEST(late_ids)
{
	static const uint64_t first[] = {11, 12}, expected[] = {11, 12, 13}, other = 21;
	static uint8_t attr[PERFDATA_ATTR_SIZE] = {[PERFDATA_ATTR_AT_SIZE] = PERFDATA_ATTR_SIZE};
	const struct perfdata_event events[] = {{"intel_pt//u", attr, first, 2, 1},
						{"dummy:u", attr, &other, 1, 1}};
	const struct perfdata_driver driver = {.events = events, .event_count = 2, .pmu_type = 8};
	const char *path = "/tmp/ptah-test-late-ids";
	struct perfdata_writer_config config = config_of(path);
	struct perfdata_writer *w = NULL;
	struct ptah_message why = {""};
	uint8_t bytes[4096];
	uint64_t attrs, entry, ids;
	int fd;

	config.driver = &driver;
	assert_int_equal(perfdata_writer_open(&config, &w, &why), 0);
	assert_int_equal(perfdata_add_id(w, 0, 13), 0);
	assert_int_equal(perfdata_add_id(w, 0, 14), PTAH_E_LIMIT);
	assert_int_equal(perfdata_writer_finish(w, NULL, &why), 0);
	fd = open(path, O_RDONLY);
	assert_true(read(fd, bytes, sizeof(bytes)) > 512);
	close(fd);
	unlink(path);
	attrs = load_le64(bytes + PERFDATA_AT_ATTRS);
	entry = load_le64(bytes + PERFDATA_AT_ATTR_SIZE);
	ids = load_le64(bytes + attrs + entry - 16);
	assert_int_equal(load_le64(bytes + attrs + entry - 8), sizeof(expected));
	assert_memory_equal(bytes + ids, expected, sizeof(expected));
	/* The other event's id is where it was. */
	ids = load_le64(bytes + attrs + 2 * entry - 16);
	assert_int_equal(load_le64(bytes + attrs + 2 * entry - 8), 8);
	assert_int_equal(load_le64(bytes + ids), other);
}

/* Writes until no more fits into the file. Returns how much trace was kept. */
static uint64_t fill(const char *path, uint64_t limit, uint64_t *given)
{
	static const uint64_t id = 1;
	static uint8_t attr[PERFDATA_ATTR_SIZE], trace[5000];
	const struct perfdata_event event = {"intel_pt//u", attr, &id, 1, 0};
	const struct perfdata_driver driver = {.events = &event, .event_count = 1, .pmu_type = 8};
	struct perfdata_writer_config config = config_of(path);
	struct perfdata_writer *w = NULL;
	struct ptah_message why = {""};
	struct rlimit old, small;
	uint64_t kept = UINT64_MAX;

	config.driver = &driver;
	assert_int_equal(perfdata_writer_open(&config, &w, &why), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){limit, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	*given = 0;
	for (unsigned i = 1; !perfdata_writer_why(w); i++) {
		const struct perfdata_aux aux = {.index = 0,
						 .tid = 7,
						 .cpu = -1,
						 .offset = *given,
						 .bytes = trace,
						 .size = 8 * (i * 37 % 600 + 1)};

		perfdata_write_comm(w, 7, 7, i, false, "name");
		if (perfdata_write_aux(w, &aux) >= 0)
			*given += aux.size;
	}
	assert_int_equal(perfdata_writer_finish(w, &kept, &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, strerror(EFBIG)));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	return kept;
}

/* The header's list of the AUXTRACE records, against the records. Returns their number. */
static uint64_t check_index(const char *path)
{
	static uint8_t bytes[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, bytes, sizeof(bytes));
	uint64_t data, end, section = 0, entries;

	close(fd);
	assert_in_range(n, PERFDATA_HEADER_SIZE, sizeof(bytes));
	data = load_le64(bytes + PERFDATA_AT_DATA);
	end = data + load_le64(bytes + PERFDATA_AT_DATA_SIZE);
	for (unsigned i = 0; i < PERFDATA_FEATURE_AUXTRACE; i++)
		section += bytes[PERFDATA_AT_FEATURES + i / 8] >> i % 8 & 1;
	section = load_le64(bytes + end + section * PERFDATA_SECTION_SIZE);
	entries = load_le64(bytes + section);
	for (uint64_t i = 0; i < entries; i++) {
		const uint64_t at = load_le64(bytes + section + 8 + 16 * i);

		assert_in_range(at, data, end - PERFDATA_AUXTRACE_HEADER);
		assert_int_equal(load_le32(bytes + at), PERFDATA_AUXTRACE);
	}
	return entries;
}

/* A file that cannot grow any more keeps what is complete, and says why it ends. */
TEST(a_full_disk)
{
	char path[32];

	signal(SIGXFSZ, SIG_IGN);
	for (uint64_t limit = 2000; limit < 400000; limit += 9973) {
		struct perfdata_file *f;
		struct perfdata_record r;
		uint64_t kept, given, found = 0, pieces = 0;
		bool noted = false, unfinished;
		struct stat st;

		new_path(path);
		kept = fill(path, limit, &given);
		assert_in_range(kept, 0, given);
		if (!kept) {
			assert_int_equal(stat(path, &st), -1);
			assert_in_range(limit, 0, 70000);
			continue;
		}
		f = open_reader(path);
		while (next(f, &r)) {
			found += r.type == PERFDATA_AUXTRACE ? r.trace_size : 0;
			pieces += r.type == PERFDATA_AUXTRACE;
			noted = noted || (r.type == PERFDATA_HEADER_EVENT_TYPE &&
					  r.tag == PERFDATA_PTAH_NOTE);
		}
		unfinished = perfdata_unfinished(f);
		perfdata_close(f);
		assert_int_equal(found, kept);
		/* At most what makes room for the features is cut off. */
		assert_in_range(given - kept, 0, 150000);
		assert_int_equal(stat(path, &st), 0);
		assert_in_range(st.st_size, 0, limit);
		assert_true(noted != unfinished);
		if (limit > 80000)
			assert_false(unfinished);
		if (!unfinished) {
			assert_int_equal(check_index(path), pieces);
		}
		unlink(path);
	}
}
