/* SPDX-License-Identifier: MIT */
/* The reader returns the same records from each of perf's layouts. */
#include "perfdata/build.h"
#include "perfdata/relayout.h"

#include "perfdata/reader.h"

#include <sys/stat.h>

/* Makes a recording with a record of each kind that is used, and trace between them. */
static void make(struct perfdata_buffer *b)
{
	uint8_t id[20], trace[100];

	memset(id, 0x5a, sizeof(id));
	for (unsigned i = 0; i < sizeof(trace); i++)
		trace[i] = (uint8_t)i;
	build_begin(b);
	build_with_cpus(b);
	store_le64(b->bytes + 104, 33); /* the event's id */
	store_le64(b->bytes + 112 + 120, 104);
	store_le64(b->bytes + 112 + 128, 8);
	build_info(b, PERFDATA_AUXTRACE_INTEL_PT, false);
	for (int32_t i = 0; i < 40; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/bin/file-%d", (int)i);
		build_comm(b, 7 + i, 7 + i, true, path + 5, (uint64_t)(400 + 4 * i));
		build_mmap2(b, 7 + i, 0x1000, 0x2000, 0x3000, path, (uint64_t)(402 + 4 * i), id);
		build_switch(b, true, 7 + i, 7 + i, 8 + i, 8 + i, (uint64_t)(403 + 4 * i));
		if (i % 16 == 3)
			build_auxtrace(b, 0, -1, 0, (uint64_t)(104 * (i / 16)), trace,
				       sizeof(trace), 104);
	}
	build_code(b, 7, 99, 0x4000, "abc", 3);
	build_end(b, PERFDATA_FEATURE_ARCH, "x86_64");
}

static struct layout layout_of(const struct perfdata_buffer *b)
{
	return (struct layout){b->bytes, b->size};
}

static struct perfdata_file *open_at(const char *path)
{
	struct ptah_message why = {""};
	struct perfdata_file *f = NULL;

	if (perfdata_open(path, &f, &why) < 0)
		fail_msg("%s", why.text);
	return f;
}

static struct perfdata_file *open_bytes(const struct perfdata_buffer *b)
{
	struct perfdata_file *f;
	char path[32];

	build_file(path, b->bytes, b->size);
	f = open_at(path);
	unlink(path);
	return f;
}

static void same_record(const struct perfdata_record *a, const struct perfdata_record *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->time, b->time);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->tid, b->tid);
	assert_int_equal(a->ptid, b->ptid);
	assert_int_equal(a->cpu, b->cpu);
	assert_int_equal(a->address, b->address);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->exec, b->exec);
	assert_int_equal(a->out, b->out);
	assert_int_equal(a->id.size, b->id.size);
	assert_int_equal(a->trace_size, b->trace_size);
	assert_int_equal(a->trace_offset, b->trace_offset);
	assert_int_equal(a->text_size, b->text_size);
	if (a->text_size)
		assert_memory_equal(a->text, b->text, a->text_size);
	if (a->bytes)
		assert_memory_equal(a->bytes, b->bytes,
				    a->type == PERFDATA_AUXTRACE ? a->trace_size : a->size);
}

/* Both have the same records in the same order, and again when they are read by offset. */
static void same_records(struct perfdata_file *a, struct perfdata_file *b)
{
	struct perfdata_record x, y, again;
	struct ptah_message why = {""};
	unsigned n = 0;
	int more;

	while ((more = perfdata_next(a, &x, &why)) > 0) {
		if (perfdata_next(b, &y, &why) != 1)
			fail_msg("%u: %s", n, why.text);
		same_record(&x, &y);
		assert_int_equal(perfdata_read_at(b, y.offset, &again), 0);
		same_record(&x, &again);
		n++;
	}
	assert_int_equal(more, 0);
	assert_int_equal(perfdata_next(b, &y, &why), 0);
	assert_int_equal(n, 3 * 40 + 3 + 1);
	assert_false(perfdata_unfinished(b));
	assert_false(perfdata_truncated(b));
	assert_int_equal(perfdata_auxtrace(b), PERFDATA_AUXTRACE_INTEL_PT);
}

static void check_layout(struct perfdata_buffer *made)
{
	struct perfdata_buffer b = {0};
	struct perfdata_file *plain, *other;

	make(&b);
	plain = open_bytes(&b);
	other = open_bytes(made);
	same_records(plain, other);
	perfdata_close(plain);
	perfdata_close(other);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(made);
}

TEST(pipes)
{
	struct perfdata_buffer b = {0}, out = {0};

	make(&b);
	layout_to_pipe(&out, layout_of(&b));
	layout_tracing_data(&out);
	layout_record(&out, PERFDATA_FINISHED_ROUND, 0);
	check_layout(&out);
	perfdata_buffer_free(&b);
}

TEST(compressed)
{
	static const size_t pieces[] = {1, 7, 8, 100, 4096, 60000};

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct perfdata_buffer b = {0}, out = {0};

		make(&b);
		layout_to_packed(&out, layout_of(&b), pieces[i],
				 i % 2 ? PERFDATA_COMPRESSED : PERFDATA_COMPRESSED2);
		check_layout(&out);
		layout_to_packed_pipe(&out, layout_of(&b), pieces[i]);
		check_layout(&out);
		perfdata_buffer_free(&b);
	}
}

/* Reads a pipe that is filled by a child. */
static struct perfdata_file *open_pipe(const struct perfdata_buffer *b, bool standard_input)
{
	struct perfdata_file *f;
	char path[32];
	int ends[2], saved = -1;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		close(ends[0]);
		for (size_t at = 0; at < b->size; at += 100)
			if (write(ends[1], b->bytes + at, b->size - at < 100 ? b->size - at : 100) <
			    0)
				break;
		_exit(0);
	}
	close(ends[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	if (standard_input) {
		saved = dup(0);
		assert_int_equal(dup2(ends[0], 0), 0);
	}
	f = open_at(standard_input ? "-" : path);
	if (standard_input) {
		dup2(saved, 0);
		close(saved);
	}
	close(ends[0]);
	return f;
}

TEST(real_pipes)
{
	for (unsigned i = 0; i < 2; i++) {
		struct perfdata_buffer b = {0}, out = {0};
		struct perfdata_file *plain, *other;

		make(&b);
		layout_to_pipe(&out, layout_of(&b));
		plain = open_bytes(&b);
		other = open_pipe(&out, i);
		same_records(plain, other);
		perfdata_close(plain);
		perfdata_close(other);
		perfdata_buffer_free(&b);
		perfdata_buffer_free(&out);
	}
}

static void write_at(const char *path, const struct perfdata_buffer *b)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(!b->size || fwrite(b->bytes, b->size, 1, f) == 1);
	assert_int_equal(fclose(f), 0);
}

/* The records of a folder are returned file by file. */
TEST(folders)
{
	static const char *const names[] = {"layout/data", "layout/data.0", "layout/data.1"};
	struct perfdata_buffer b = {0}, out[3] = {{0}};
	struct perfdata_record x, y, again;
	struct perfdata_file *plain, *other;
	struct ptah_message why = {""};
	unsigned n = 0;

	make(&b);
	layout_to_folder(out, layout_of(&b));
	mkdir("layout", 0700);
	for (unsigned i = 0; i < 3; i++)
		write_at(names[i], &out[i]);
	plain = open_bytes(&b);
	other = open_at("layout");
	/* Ptah's own record is in the first file. */
	assert_int_equal(perfdata_next(other, &y, &why), 1);
	assert_int_equal(y.type, PERFDATA_HEADER_EVENT_TYPE);
	while (perfdata_next(other, &y, &why) == 1) {
		assert_int_equal(perfdata_next(plain, &x, &why), 1);
		same_record(&x, &y);
		assert_int_equal(perfdata_read_at(other, y.offset, &again), 0);
		same_record(&x, &again);
		n++;
	}
	assert_int_equal(n, 3 * 40 + 3);
	perfdata_close(plain);
	perfdata_close(other);
	for (unsigned i = 0; i < 3; i++) {
		unlink(names[i]);
		perfdata_buffer_free(&out[i]);
	}
	rmdir("layout");
	perfdata_buffer_free(&b);
}

/* Reads everything in a file, or up to the first error. */
static int read_all(const void *bytes, size_t n, struct ptah_message *why)
{
	struct perfdata_file *f = NULL;
	struct perfdata_record r;
	unsigned long sum = 0;
	char path[32];
	int status;

	why->text[0] = '\0';
	build_file(path, bytes, n);
	status = perfdata_open(path, &f, why);
	unlink(path);
	while (status >= 0 && (status = perfdata_next(f, &r, why)) > 0) {
		for (size_t i = 0; i < r.text_size; i++)
			sum += (uint8_t)r.text[i];
		for (uint64_t i = 0; r.type == PERFDATA_AUXTRACE && i < r.trace_size; i++)
			sum += r.bytes[i];
		assert_true(sum < 1u << 30);
	}
	if (status < 0)
		assert_true(strlen(why->text) > 0);
	perfdata_close(f);
	return status;
}

static unsigned random_number(unsigned *seed)
{
	*seed = *seed * 1103515245 + 12345;
	return *seed >> 8;
}

/*
 * Files cut anywhere, and with some bytes changed: they are read up to there, or refused with a
 * sentence.
 */
TEST(damage)
{
	struct ptah_message why;

	for (unsigned kind = 0; kind < 3; kind++) {
		struct perfdata_buffer b = {0}, out = {0};
		unsigned seed = kind, refused = 0;

		make(&b);
		if (kind == 0)
			layout_to_pipe(&out, layout_of(&b));
		else if (kind == 1)
			layout_to_packed(&out, layout_of(&b), 300, PERFDATA_COMPRESSED);
		else
			layout_to_packed_pipe(&out, layout_of(&b), 300);
		for (size_t n = 0; n < out.size; n++) {
			/* It is unknown whether what came through a pipe is complete. */
			int status = read_all(out.bytes, n, &why);

			if (n < 16)
				assert_true(status < 0);
			else if (kind == 0)
				assert_int_equal(status, 0);
		}
		for (unsigned i = 0; i < 3000; i++) {
			size_t at[3];
			uint8_t was[3];

			for (unsigned k = 0; k < 3; k++) {
				at[k] = random_number(&seed) % out.size;
				was[k] = out.bytes[at[k]];
				out.bytes[at[k]] ^= (uint8_t)(1 + random_number(&seed) % 255);
			}
			refused += read_all(out.bytes, out.size, &why) < 0;
			for (unsigned k = 3; k-- > 0;)
				out.bytes[at[k]] = was[k];
		}
		assert_true(refused > 0);
		assert_int_equal(read_all(out.bytes, out.size, &why), 0);
		perfdata_buffer_free(&b);
		perfdata_buffer_free(&out);
	}
}

/* A recording from a pipe that was cut is reported as truncated. */
TEST(cut_pipe_is_told)
{
	struct perfdata_buffer b = {0}, out = {0};
	struct ptah_message why = {""};
	struct perfdata_record r;
	struct perfdata_file *f;

	make(&b);
	layout_to_pipe(&out, layout_of(&b));
	out.size -= 300;
	f = open_bytes(&out);
	while (perfdata_next(f, &r, &why) == 1)
		;
	assert_true(perfdata_truncated(f));
	perfdata_close(f);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&out);
}

/* Compressed records that unpack to an implausible size are refused before they fill the disk. */
TEST(compressed_bomb)
{
	struct perfdata_buffer b = {0}, records = {0}, out = {0};
	uint8_t *zeros = calloc(1, 100 << 20), *record = zeros;
	struct ptah_message why;

	make(&b);
	/* Records of an unknown type, of 65528 bytes each. */
	for (unsigned i = 0; i < 1600; i++, record += 65528) {
		store_le32(record, 60);
		store_le16(record + 6, 65528);
	}
	for (unsigned kind = 0; kind < 2; kind++) {
		const size_t n = kind ? 1600u * 65528 : 2u * 65528;
		size_t size = ZSTD_compressBound(n);
		uint8_t *packed = malloc(size);

		size = ZSTD_compress(packed, size, zeros, n, 19);
		assert_true(size < 60000);
		layout_record(&records, PERFDATA_COMPRESSED, size);
		perfdata_put(&records, packed, size);
		free(packed);
		/* More than the header says, and a header that says nothing. */
		layout_around(&out, layout_of(&b), &records, kind ? 0 : 65536);
		assert_int_equal(read_all(out.bytes, out.size, &why), PTAH_E_BAD_FILE);
		assert_non_null(strstr(why.text, "too big"));
		records.size = out.size = 0;
	}
	free(zeros);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&records);
	perfdata_buffer_free(&out);
}

TEST(other_compression)
{
	struct perfdata_buffer b = {0}, out = {0};
	struct ptah_message why;
	struct layout section = {0};

	make(&b);
	layout_to_packed(&out, layout_of(&b), 300, PERFDATA_COMPRESSED);
	assert_true(layout_feature(layout_of(&out), PERFDATA_FEATURE_COMPRESSED, &section));
	store_le32(out.bytes + (section.bytes - out.bytes) + 4, 2);
	assert_int_equal(read_all(out.bytes, out.size, &why), PTAH_E_UNSUPPORTED);
	assert_non_null(strstr(why.text, "-z"));
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&out);
}
