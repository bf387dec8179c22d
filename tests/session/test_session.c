/* SPDX-License-Identifier: MIT */
/*
 * Recordings built by hand, read as sessions: which thread ran which code when, and what was lost.
 */
#include "perfdata/build.h"
#include "session/stream.h"

#include <ptah/session.h>

#include <elf.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>

#define BASE 0x12345

/* Loops through jmp rax, with as many instructions as their names say. */
static const uint8_t three[] = {0x90, 0x90, 0xff, 0xe0};      /* nop; nop; jmp */
static const uint8_t two[] = {0x66, 0x90, 0xff, 0xe0};	      /* xchg ax, ax; jmp */
static const uint8_t four[] = {0x90, 0x90, 0x90, 0xff, 0xe0}; /* nop; nop; nop; jmp */

struct made {
	struct perfdata_buffer file;
	struct ptah_generator g;
	uint8_t trace[4096];
	char path[32];
};

static void begin(struct made *m)
{
	memset(m, 0, sizeof(*m));
	build_begin(&m->file);
	build_info(&m->file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m->file, 7, 7, false, "prog", 0);
	build_itrace_start(&m->file, 7, 7, 0);
	generator_init(&m->g, m->trace, false, false);
}

/* A PSB+ at `tsc`, and `n` jumps from BASE to BASE. */
static void jumps(struct made *m, uint64_t tsc, bool running, unsigned n)
{
	generator_psb(&m->g, tsc, 20, running, BASE);
	if (!running)
		generator_enable(&m->g, BASE);
	while (n--)
		generator_tip(&m->g, BASE);
}

static size_t trace_size(const struct made *m)
{
	return (size_t)(m->g.out - m->trace);
}

static struct ptah_session *finish(struct made *m, const struct ptah_session_config *config)
{
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;

	build_end(&m->file, PERFDATA_FEATURE_ARCH, "x86_64");
	build_file(m->path, m->file.bytes, m->file.size);
	if (ptah_session_open(m->path, config, &s, &why) < 0)
		fail_msg("%s", why.text);
	unlink(m->path);
	perfdata_buffer_free(&m->file);
	return s;
}

/* Ends the recording, with one stream of everything generated. */
static struct ptah_session *finish_whole(struct made *m)
{
	generator_async_disable(&m->g, BASE);
	build_auxtrace(&m->file, 0, 7, -1, 0, m->trace, trace_size(m), trace_size(m));
	return finish(m, NULL);
}

struct sums {
	uint64_t insns, blocks, errors;
	int last_error;
	uint64_t error_offset;
};

static struct sums decode(const struct ptah_session *s, size_t stream)
{
	struct sums sums = {0};
	struct ptah_item items[3];
	struct stream_decoder *st;
	int n;

	assert_int_equal(stream_new(s, stream, &st), 0);
	while ((n = stream_read(st, items, 3)) > 0) {
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK) {
				sums.insns += items[i].ninsn;
				sums.blocks++;
			} else if (items[i].type == PTAH_ITEM_ERROR) {
				sums.errors++;
				sums.last_error = items[i].status;
				sums.error_offset = items[i].offset;
			}
		}
	}
	assert_int_equal(n, 0);
	stream_free(st);
	return sums;
}

/* An ELF file that has nothing but a build id, and `three` where BASE is in its page. */
static void write_vdso(const char *path, const uint8_t id[20])
{
	struct file {
		Elf64_Ehdr head;
		Elf64_Phdr notes;
		Elf64_Nhdr note;
		char name[4];
		uint8_t id[20], code[1024];
	} elf = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
			  .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_version = 1,
			  .e_phoff = sizeof(elf.head),
			  .e_ehsize = sizeof(elf.head),
			  .e_phentsize = sizeof(elf.notes),
			  .e_phnum = 1},
		 .notes = {.p_type = PT_NOTE,
			   .p_offset = offsetof(struct file, note),
			   .p_filesz = sizeof(elf.note) + 24,
			   .p_align = 4},
		 .note = {4, 20, NT_GNU_BUILD_ID},
		 .name = "GNU"};
	FILE *f = fopen(path, "w");

	memcpy(elf.id, id, sizeof(elf.id));
	memcpy((uint8_t *)&elf + BASE % 4096, three, sizeof(three));
	assert_non_null(f);
	assert_int_equal(fwrite(&elf, sizeof(elf), 1, f), 1);
	assert_int_equal(fclose(f), 0);
}

/*
 * perf puts the vdso of the kernel that ran into its cache: .build-id/5a/5a5a.../vdso. Its code is
 * in no file that has a path, and not in a recording of perf's.
 */
TEST(vdso_of_the_cache)
{
	static const char last[] = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
	char cache[] = "/tmp/ptah-cache-XXXXXX", path[128], command[64];
	struct ptah_session_config config = {.size = sizeof(config), .build_id_cache = cache};
	uint8_t id[20];

	memset(id, 0x5a, sizeof(id));
	assert_non_null(mkdtemp(cache));
	snprintf(path, sizeof(path), "%s/.build-id", cache);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/.build-id/5a", cache);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/.build-id/5a/%s", cache, last);
	assert_int_equal(mkdir(path, 0700), 0);
	for (unsigned cached = 0; cached < 2; cached++) {
		struct ptah_session *s;
		struct sums sums;
		struct made m;

		begin(&m);
		build_mmap2(&m.file, 7, BASE & ~UINT64_C(4095), 8192, 0, "[vdso]", 0, id);
		jumps(&m, 100, false, 5);
		generator_async_disable(&m.g, BASE);
		build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, trace_size(&m), trace_size(&m));
		s = finish(&m, &config);
		sums = decode(s, 0);
		assert_int_equal(sums.insns, cached ? 5 * 3 : 0);
		assert_int_equal(sums.errors != 0, !cached);
		ptah_session_close(s);
		snprintf(path, sizeof(path), "%s/.build-id/5a/%s/vdso", cache, last);
		write_vdso(path, id);
	}
	snprintf(command, sizeof(command), "rm -r %s", cache);
	assert_int_equal(system(command), 0);
}

TEST(code_of_the_recording_is_decoded)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	jumps(&m, 100, false, 5);
	s = finish_whole(&m);
	assert_int_equal(ptah_session_streams(s), 1);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.pid, 7);
	assert_int_equal(info.tid, 7);
	assert_string_equal(info.comm, "prog");
	assert_int_equal(info.bytes, trace_size(&m));
	assert_int_equal(decode(s, 0).insns, 5 * 3);
	assert_null(ptah_session_note(s, 0));
	/* AUXTRACE_INFO's clock: 1000 + TSC / 4 */
	assert_int_equal(ptah_session_time(s, 400), 1100);
	ptah_session_close(s);
}

/* A recording has the code of [vdso] once; each 64-bit process has it at an address of its own. */
TEST(code_of_the_vdso_is_decoded)
{
	const uint64_t vdso = 0x7fff12345000;
	struct perfdata_buffer body = {0};
	struct made m;
	struct ptah_session *s;
	struct sums sums;

	begin(&m);
	perfdata_put32(&body, PERFDATA_PTAH_MAGIC);
	perfdata_put32(&body, PERFDATA_PTAH_VERSION);
	perfdata_put32(&body, PERFDATA_PTAH_VDSO);
	perfdata_put32(&body, 8 + 8);
	perfdata_put32(&body, 64);
	perfdata_put32(&body, sizeof(three));
	perfdata_put(&body, three, sizeof(three));
	perfdata_put(&body, NULL, 8 - sizeof(three));
	build_record(&m.file, PERFDATA_HEADER_EVENT_TYPE, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
	build_mmap2(&m.file, 7, vdso, 8192, 0, "[vdso]", 0, NULL);
	generator_psb(&m.g, 100, 20, false, vdso);
	generator_enable(&m.g, vdso);
	for (unsigned i = 0; i < 5; i++)
		generator_tip(&m.g, vdso);
	generator_async_disable(&m.g, vdso);
	build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, trace_size(&m), trace_size(&m));
	s = finish(&m, NULL);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 5 * 3);
	ptah_session_close(s);
}

/*
 * The code changes twice, the second time back to the first: each time the code of that time
 * counts.
 */
TEST(code_changes_at_its_time)
{
	struct made m;
	struct ptah_session *s;
	struct sums sums;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_code(&m.file, 7, 200, BASE, two, sizeof(two));
	build_code(&m.file, 7, 300, BASE, four, sizeof(four));
	build_code(&m.file, 7, 400, BASE, three, sizeof(three));
	jumps(&m, 100, false, 5);
	jumps(&m, 200, true, 7);
	jumps(&m, 300, true, 11);
	jumps(&m, 400, true, 13);
	s = finish_whole(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 5 * 3 + 7 * 2 + 11 * 4 + 13 * 3);
	ptah_session_close(s);
}

/* A file is mapped, replaced by another and mapped again. */
TEST(mapping_that_comes_back)
{
	char a[32], b[32], path_a[PATH_MAX], path_b[PATH_MAX];
	struct made m;
	struct ptah_session *s;
	struct ptah_map map;
	struct sums sums;

	build_file(a, three, sizeof(three));
	build_file(b, two, sizeof(two));
	assert_non_null(realpath(a, path_a));
	assert_non_null(realpath(b, path_b));
	begin(&m);
	/* Not in the order of time, as with perf's buffers of several CPUs. */
	build_mmap2(&m.file, 7, BASE, 4096, 0, path_a, 300, NULL);
	build_mmap2(&m.file, 7, BASE, 4096, 0, path_a, 0, NULL);
	build_mmap2(&m.file, 7, BASE, 4096, 0, path_b, 200, NULL);
	jumps(&m, 100, false, 5);
	jumps(&m, 200, true, 7);
	jumps(&m, 300, true, 11);
	s = finish_whole(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 5 * 3 + 7 * 2 + 11 * 3);
	assert_true(ptah_session_find_map(s, 7, BASE + 1, 100, &map));
	assert_string_equal(map.path, path_a);
	assert_true(ptah_session_find_map(s, 7, BASE + 4095, 200, &map));
	assert_string_equal(map.path, path_b);
	assert_true(ptah_session_find_map(s, 7, BASE, 0, &map));
	assert_string_equal(map.path, path_a);
	assert_false(ptah_session_find_map(s, 7, BASE + 4096, 0, &map));
	assert_false(ptah_session_find_map(s, 7, BASE - 1, 0, &map));
	assert_false(ptah_session_find_map(s, 8, BASE, 0, &map));
	ptah_session_close(s);
	unlink(a);
	unlink(b);
}

/*
 * A mapping at a free address is in memory from the beginning, because time stamps may be coarse.
 */
TEST(late_mapping_at_a_free_place)
{
	struct made m;
	struct ptah_session *s;

	begin(&m);
	build_code(&m.file, 7, 1000, BASE, three, sizeof(three));
	jumps(&m, 100, false, 5);
	s = finish_whole(&m);
	assert_int_equal(decode(s, 0).insns, 5 * 3);
	ptah_session_close(s);
}

/*
 * Bytes that were first seen late, around bytes that had changed by then: they are added where
 * nothing was known, and do not change the code of earlier execution.
 */
TEST(late_bytes_do_not_replace_earlier_ones)
{
	uint8_t late[] = {0xff, 0xe0, 0x90, 0x90};
	uint8_t wrong[] = {0x0f, 0x0b};
	struct made m;
	struct ptah_session *s;
	struct sums sums;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_code(&m.file, 7, 200, BASE + 2, wrong, sizeof(wrong));
	build_code(&m.file, 7, 300, BASE + 2, late, 2);
	memcpy(late, wrong, sizeof(wrong)); /* the code as it was between 200 and 300 */
	build_code(&m.file, 7, 0, BASE + 2, late, sizeof(late));
	jumps(&m, 100, false, 5);
	jumps(&m, 300, true, 7);
	s = finish_whole(&m);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 12 * 3);
	ptah_session_close(s);
}

TEST(exec_empties_the_process)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_map map;

	begin(&m);
	build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_comm(&m.file, 7, 7, true, "other", 200);
	build_code(&m.file, 7, 200, BASE, two, sizeof(two));
	jumps(&m, 100, false, 5);
	jumps(&m, 200, true, 7);
	s = finish_whole(&m);
	assert_int_equal(decode(s, 0).insns, 5 * 3 + 7 * 2);
	assert_true(ptah_session_find_map(s, 7, 0x50000, 100, &map));
	assert_false(ptah_session_find_map(s, 7, 0x50000, 300, &map));
	ptah_session_close(s);
}

/* Adds what was generated as a stream of thread 7, and begins the next. */
static void end_stream(struct made *m, uint32_t index)
{
	generator_async_disable(&m->g, BASE);
	build_auxtrace(&m->file, index, 7, -1, 0, m->trace, trace_size(m), trace_size(m));
	generator_init(&m->g, m->trace, false, false);
}

static void expect_stream(const struct ptah_session *s, size_t i, const char *comm, uint64_t insns,
			  uint64_t map)
{
	struct ptah_stream_info info;
	struct ptah_map found;
	struct sums sums = decode(s, i);

	assert_int_equal(ptah_session_stream_info(s, i, &info), 0);
	assert_int_equal(info.pid, 7);
	assert_string_equal(info.comm, comm);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, insns);
	for (uint64_t address = 0x50000; address <= 0x70000; address += 0x10000)
		assert_int_equal(ptah_session_find_map(s, info.space, address, 0, &found),
				 address == map);
}

/*
 * A thread calls execve, and after its end its number belongs to another process: three streams of
 * one thread number, each over its own memory and with its own names.
 */
TEST(streams_of_one_thread)
{
	struct made m;
	struct ptah_session *s;

	begin(&m);
	build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_comm(&m.file, 7, 7, false, "renamed", 50);
	jumps(&m, 100, false, 5);
	end_stream(&m, 0);
	build_comm(&m.file, 7, 7, true, "second", 200);
	build_mmap2(&m.file, 7, 0x60000, 4096, 0, "//anon", 200, NULL);
	build_code(&m.file, 7, 200, BASE, two, sizeof(two));
	build_itrace_start(&m.file, 7, 7, 200);
	jumps(&m, 200, false, 7);
	end_stream(&m, 1);
	build_comm(&m.file, 9, 9, true, "parent", 0);
	build_mmap2(&m.file, 9, 0x70000, 4096, 0, "//anon", 0, NULL);
	build_fork(&m.file, 7, 7, 9, 9, 400);
	build_code(&m.file, 7, 400, BASE, four, sizeof(four));
	build_itrace_start(&m.file, 7, 7, 400);
	jumps(&m, 400, false, 11);
	end_stream(&m, 2);
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_streams(s), 3);
	expect_stream(s, 0, "renamed", 5 * 3, 0x50000);
	expect_stream(s, 1, "second", 7 * 2, 0x60000);
	expect_stream(s, 2, "parent", 11 * 4, 0x70000);
	ptah_session_close(s);
}

/* With enable_on_exec perf's tracing begins just before the execve, and continues after it. */
TEST(begun_before_execve)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;
	struct ptah_thread who;

	memset(&m, 0, sizeof(m));
	build_begin(&m.file);
	build_info(&m.file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m.file, 7, 7, false, "perf-exec", 40);
	build_itrace_start(&m.file, 7, 7, 50);
	build_comm(&m.file, 7, 7, true, "prog", 60);
	build_mmap2(&m.file, 7, 0x60000, 4096, 0, "//anon", 70, NULL);
	build_code(&m.file, 7, 70, BASE, two, sizeof(two));
	generator_init(&m.g, m.trace, false, false);
	jumps(&m, 100, false, 5);
	s = finish_whole(&m);
	expect_stream(s, 0, "prog", 5 * 2, 0x60000);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.space, 7);
	assert_int_equal(ptah_session_space(s, info.space, &who), 0);
	assert_int_equal(who.pid, 7);
	assert_string_equal(who.comm, "prog");
	assert_int_equal(ptah_session_space(s, -100, &who), PTAH_E_INVAL);
	ptah_session_close(s);
}

/*
 * Two processes that differ in a single byte of code share nothing; a third shares the memory of
 * the first.
 */
TEST(processes_of_one_memory)
{
	static const uint8_t *const code[] = {three, two, three};
	static const uint64_t insns[] = {5 * 3, 5 * 2, 5 * 3};
	struct ptah_workers *workers;
	struct ptah_jobs jobs = {.size = sizeof(jobs)};
	struct made m;
	struct ptah_session *s;

	_Static_assert(sizeof(three) == sizeof(two), "they differ in what they are alone");
	begin(&m);
	for (int i = 0; i < 3; i++) {
		build_comm(&m.file, 10 + i, 10 + i, true, "child", 0);
		build_code(&m.file, 10 + i, 0, BASE, code[i], sizeof(three));
		build_itrace_start(&m.file, 10 + i, 10 + i, 0);
		generator_init(&m.g, m.trace, false, false);
		jumps(&m, 100, false, 5);
		generator_async_disable(&m.g, BASE);
		build_auxtrace(&m.file, (uint32_t)i, 10 + i, -1, 0, m.trace, trace_size(&m),
			       trace_size(&m));
	}
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_streams(s), 3);
	assert_int_equal(ptah_workers_new(s, &workers), 0);
	jobs.workers = workers;
	for (size_t i = 0; i < 3; i++) {
		struct ptah_reader *r;
		struct ptah_item items[64];
		uint64_t sum = 0;
		int n;

		assert_int_equal(ptah_reader_new(s, i, &jobs, &r), 0);
		while ((n = ptah_reader_read(r, items, 64)) > 0)
			for (int k = 0; k < n; k++)
				sum += items[k].type == PTAH_ITEM_BLOCK ? items[k].ninsn : 0;
		assert_int_equal(n, 0);
		assert_int_equal(sum, insns[i]);
		ptah_reader_free(r);
	}
	ptah_workers_free(workers);
	ptah_session_close(s);
}

/* A child has the memory that its parent had at the fork, not what was mapped later. */
TEST(fork_that_was_not_reported)
{
	struct perfdata_buffer body = {0};
	struct made m;
	struct ptah_session *s;
	struct sums sums;

	begin(&m);
	build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_itrace_start(&m.file, 8, 8, 400);
	jumps(&m, 500, false, 5);
	generator_async_disable(&m.g, BASE);
	build_auxtrace(&m.file, 0, 8, -1, 0, m.trace, trace_size(&m), trace_size(&m));
	perfdata_put32(&body, 8);
	perfdata_put32(&body, 7);
	perfdata_put32(&body, 8);
	perfdata_put32(&body, 7);
	perfdata_put64(&body, build_time(600));
	build_record(&m.file, PERFDATA_EXIT, 0, &body, 8, 8, build_time(600));
	perfdata_buffer_free(&body);
	s = finish(&m, NULL);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 5 * 3);
	ptah_session_close(s);
}

TEST(fork_inherits_memory)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;
	struct ptah_map map;
	struct sums sums;

	begin(&m);
	build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_code(&m.file, 7, 500, BASE, two, sizeof(two));
	build_mmap2(&m.file, 7, 0x60000, 4096, 0, "//anon", 500, NULL);
	build_fork(&m.file, 8, 8, 7, 7, 300); /* later in the file, but with an earlier time */
	jumps(&m, 600, false, 5);
	generator_async_disable(&m.g, BASE);
	build_auxtrace(&m.file, 0, 8, -1, 0, m.trace, trace_size(&m), trace_size(&m));
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.pid, 8);
	assert_string_equal(info.comm, "prog");
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 5 * 3);
	assert_true(ptah_session_find_map(s, 8, 0x50000, 0, &map));
	assert_false(ptah_session_find_map(s, 8, 0x60000, 0, &map));
	assert_true(ptah_session_find_map(s, 7, 0x60000, 0, &map));
	ptah_session_close(s);
}

/*
 * perf pads pieces to a multiple of eight bytes but does not count the padding in the next offset.
 */
TEST(padding_inside_a_packet_is_taken_out)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;
	struct sums sums;
	size_t cut, n;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	jumps(&m, 100, false, 50);
	generator_async_disable(&m.g, BASE);
	n = trace_size(&m);
	/* Cut inside a TIP, whose payload would change if zeros were inserted. */
	for (cut = 100; cut % 8 == 0 || m.trace[cut - 1] != 0x2d || m.trace[cut] != 0x45; cut++)
		;
	build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, cut, (cut + 7) & ~(size_t)7);
	build_auxtrace(&m.file, 0, 7, -1, cut, m.trace + cut, n - cut, n - cut);
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.bytes, n);
	assert_int_equal(info.lost, 0);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 50 * 3);
	ptah_session_close(s);
}

/*
 * Three snapshots of a ring: the second begins with the end of the first, the third contains
 * nothing of the second. The kernel's offsets are places in the ring, and the file's pieces are
 * padded with zeros to a multiple of eight bytes.
 */
TEST(snapshots_that_overlap)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;
	struct sums sums;
	size_t places[8], n, first, second;

	begin(&m);
	m.file.size = BUILD_DATA;
	build_info(&m.file, PERFDATA_AUXTRACE_INTEL_PT, true);
	build_comm(&m.file, 7, 7, false, "prog", 0);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	for (unsigned i = 0; i < 6; i++) {
		places[i] = trace_size(&m);
		jumps(&m, 100 + 100 * i, i > 0, 5 + i);
	}
	generator_async_disable(&m.g, BASE);
	n = trace_size(&m);
	/* Tracing stops while a snapshot is taken, so that it ends with a whole packet. */
	first = places[3];
	second = places[4] - places[1] - 5;
	assert_true(first % 8 || second % 8);
	build_auxtrace(&m.file, 0, 7, -1, 0x1000, m.trace, first, (first + 7) & ~(size_t)7);
	build_auxtrace(&m.file, 0, 7, -1, 0x200, m.trace + places[1] + 5, second,
		       (second + 7) & ~(size_t)7);
	build_auxtrace(&m.file, 0, 7, -1, 0x400, m.trace + places[5], n - places[5], n - places[5]);
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.lost, 0);
	/* Nothing is there twice, and nothing of the first two is missing. */
	assert_int_equal(info.bytes, places[1] + 5 + ((second + 7) & ~(size_t)7) + n - places[5]);
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.insns, 3 * (5 + 6 + 7 + 8 + 10));
	ptah_session_close(s);
}

/* A sample of perf record --aux-sample, with the `n` bytes of trace at `from`. */
static void put_aux_sample(struct made *m, uint32_t cpu, size_t from, size_t n)
{
	struct perfdata_buffer body = {0};
	const size_t whole = (n + 7) & ~(size_t)7;

	perfdata_put32(&body, 7); /* pid, tid */
	perfdata_put32(&body, 7);
	perfdata_put64(&body, 1100); /* time */
	perfdata_put64(&body, cpu);
	perfdata_put64(&body, whole);
	perfdata_put(&body, m->trace + from, n);
	perfdata_put(&body, NULL, whole - n);
	build_record(&m->file, PERFDATA_SAMPLE, 0, &body, 7, 7, 1100);
	perfdata_buffer_free(&body);
}

/*
 * perf record --aux-sample: the trace lies in samples, each of which decodes by itself. Those of a
 * CPU overlap as snapshots do.
 */
TEST(trace_in_samples)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;
	size_t places[4];

	begin(&m);
	m.file.size = BUILD_DATA;
	build_with_cpus(&m.file);
	store_le64(m.file.bytes + 112 + 24, PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME |
						PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_AUX);
	build_info(&m.file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&m.file, 7, 7, false, "prog", 0);
	build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	for (unsigned i = 0; i < 4; i++) {
		places[i] = trace_size(&m);
		jumps(&m, 100 + 100 * i, i > 0, 5 + i);
	}
	generator_async_disable(&m.g, BASE);
	put_aux_sample(&m, 1, 0, places[2]);
	put_aux_sample(&m, 2, places[2], places[3] - places[2]);
	put_aux_sample(&m, 1, places[1], trace_size(&m) - places[1]);
	put_aux_sample(&m, 1, 0, 0); /* where there was no trace */
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_streams(s), 2);
	for (size_t i = 0; i < 2; i++) {
		const struct sums sums = decode(s, i);

		assert_int_equal(ptah_session_stream_info(s, i, &info), 0);
		assert_int_equal(info.cpu, 1 + i);
		assert_int_equal(info.tid, -1);
		assert_int_equal(info.pid, 7);
		assert_int_equal(info.lost, 0);
		assert_int_equal(sums.errors, 0);
		assert_int_equal(sums.insns, i ? 3 * 7 : 3 * (5 + 6 + 7 + 8));
	}
	ptah_session_close(s);
}

TEST(missing_piece_is_told)
{
	struct made m;
	struct ptah_session *s;
	struct ptah_stream_info info;
	struct sums sums;
	size_t first;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	jumps(&m, 100, false, 5);
	first = trace_size(&m);
	jumps(&m, 200, true, 7);
	generator_async_disable(&m.g, BASE);
	build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, first, first);
	build_auxtrace(&m.file, 0, 7, -1, first + 1000, m.trace + first, trace_size(&m) - first,
		       trace_size(&m) - first);
	s = finish(&m, NULL);
	assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
	assert_int_equal(info.lost, 1000);
	assert_int_equal(info.bytes, trace_size(&m));
	sums = decode(s, 0);
	assert_int_equal(sums.errors, 1);
	assert_int_equal(sums.last_error, PTAH_E_LOST);
	assert_int_equal(sums.error_offset, first);
	assert_int_equal(sums.insns, 12 * 3);
	ptah_session_close(s);
}

/* The kernel's record of thread 7's trace. */
static void put_aux(struct made *m, uint64_t begin, uint64_t end, uint64_t flags)
{
	struct perfdata_buffer body = {0};

	perfdata_put64(&body, begin);
	perfdata_put64(&body, end - begin);
	perfdata_put64(&body, flags);
	build_record(&m->file, PERFDATA_AUX, 0, &body, 7, 7, build_time(100));
	perfdata_buffer_free(&body);
}

/* The kernel stopped the trace of thread 7 at `end`, because its buffer was full. */
static void put_truncated(struct made *m, uint64_t begin, uint64_t end)
{
	put_aux(m, begin, end, PERFDATA_AUX_TRUNCATED);
}

/*
 * perf_event.h: PERF_AUX_FLAG_TRUNCATED 1, OVERWRITE 2 (a snapshot), PARTIAL 4 ("record contains
 * gaps"), COLLISION 8 ("sample collided with another").
 */
TEST(each_reason_for_gaps_has_its_note)
{
	static const char *const words[] = {"the buffer was full", NULL, "virtual machine",
					    "another recording"};

	for (unsigned flag = 0; flag < 4; flag++) {
		struct ptah_session *s;
		struct made m;

		begin(&m);
		build_code(&m.file, 7, 0, BASE, three, sizeof(three));
		jumps(&m, 100, false, 5);
		put_aux(&m, 0, trace_size(&m), 1u << flag);
		s = finish_whole(&m);
		if (words[flag])
			assert_non_null(strstr(ptah_session_note(s, 0), words[flag]));
		assert_null(ptah_session_note(s, words[flag] != NULL));
		ptah_session_close(s);
	}
}

static uint64_t count(const struct ptah_session *s)
{
	struct ptah_profile_totals totals;
	struct stream_decoder *st;
	struct ptah_item item;
	int n;

	/* What was read would be missing in the counts: a stream that was read is not counted. */
	assert_int_equal(stream_new(s, 0, &st), 0);
	assert_int_equal(stream_read(st, &item, 1), 1);
	assert_int_equal(stream_count(st), PTAH_E_INVAL);
	stream_free(st);
	assert_int_equal(stream_new(s, 0, &st), 0);
	while ((n = stream_count(st)) > 0)
		;
	assert_int_equal(n, 0);
	assert_int_equal(ptah_profile_totals(stream_profile(st), &totals), 0);
	stream_free(st);
	return totals.instructions;
}

/*
 * A full buffer ends in the middle of a packet, and what follows begins with another packet: with a
 * PSB, whose first byte is not the rest of the packet before it; with a TIP.PGE that has a whole
 * address; with one whose address is compressed against one that was lost.
 */
TEST(trace_after_a_full_buffer)
{
	struct made m;
	struct ptah_session *s;
	struct sums sums;
	size_t cuts[3], begins, n;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	jumps(&m, 100, false, 5);
	cuts[0] = trace_size(&m) + 1;
	generator_tip(&m.g, BASE);
	m.g.out = m.trace + cuts[0];
	jumps(&m, 200, false, 7);
	generator_async_disable(&m.g, BASE);
	cuts[1] = trace_size(&m);
	generator_tsc(&m.g, 300);
	m.g.last_ip = GENERATOR_NO_IP;
	generator_mode_exec(&m.g, 1);
	generator_enable(&m.g, BASE);
	for (unsigned i = 0; i < 3; i++)
		generator_tip(&m.g, BASE);
	cuts[2] = trace_size(&m);
	m.g.last_ip = BASE + 0x10000;
	generator_mode_exec(&m.g, 1);
	generator_enable(&m.g, BASE);
	for (unsigned i = 0; i < 4; i++)
		generator_tip(&m.g, BASE);
	generator_async_disable(&m.g, BASE);
	jumps(&m, 400, false, 6);
	generator_async_disable(&m.g, BASE);
	n = trace_size(&m);

	/* The first cut is inside the trace of a record, the second at the end of one. */
	begins = cuts[1];
	put_truncated(&m, 0, cuts[0]);
	build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, begins, (begins + 7) & ~(size_t)7);
	put_truncated(&m, cuts[0], cuts[1]);
	put_truncated(&m, cuts[1], cuts[1]); /* the kernel tried again before there was room */
	build_auxtrace(&m.file, 0, 7, -1, begins, m.trace + begins, n - begins, n - begins);
	put_truncated(&m, cuts[1], cuts[2]);
	put_truncated(&m, cuts[2], n);
	s = finish(&m, NULL);
	sums = decode(s, 0);
	/* Each cut, and the TIP of which there is only the first byte. */
	assert_int_equal(sums.errors, 3 + 1);
	assert_int_equal(sums.last_error, PTAH_E_LOST);
	assert_int_equal(sums.error_offset, cuts[2]);
	assert_int_equal(sums.insns, (5 + 7 + 3 + 6) * 3);
	assert_int_equal(count(s), sums.insns);
	ptah_session_close(s);
}

/* The file is cut at every length: never a crash, always a sentence. */
TEST(file_cut_short)
{
	struct made m;
	size_t whole;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	jumps(&m, 100, false, 5);
	generator_async_disable(&m.g, BASE);
	build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, trace_size(&m), trace_size(&m));
	whole = m.file.size;
	build_end(&m.file, PERFDATA_FEATURE_ARCH, "x86_64");
	for (size_t n = 0; n < m.file.size; n++) {
		struct ptah_message why = {""};
		struct ptah_session *s = NULL;
		int status;

		build_file(m.path, m.file.bytes, n);
		status = ptah_session_open(m.path, NULL, &s, &why);
		unlink(m.path);
		if (status < 0) {
			assert_true(strstr(why.text, m.path) == why.text);
			assert_true(n < whole);
			continue;
		}
		if (n < whole) {
			struct sums sums = decode(s, 0);

			assert_int_equal(sums.last_error, PTAH_E_TRUNCATED);
			assert_non_null(strstr(ptah_session_note(s, 0), "cut short"));
		}
		ptah_session_close(s);
	}
	perfdata_buffer_free(&m.file);
}

static int open_status(struct made *m, const char *arch, struct ptah_message *why)
{
	struct ptah_session *s = NULL;
	int status;

	build_end(&m->file, PERFDATA_FEATURE_ARCH, arch);
	build_file(m->path, m->file.bytes, m->file.size);
	status = ptah_session_open(m->path, NULL, &s, why);
	unlink(m->path);
	ptah_session_close(s);
	perfdata_buffer_free(&m->file);
	return status;
}

TEST(foreign_and_empty_recordings)
{
	struct ptah_message why;
	struct made m;

	begin(&m);
	assert_int_equal(open_status(&m, "x86_64", &why), PTAH_E_EMPTY);
	begin(&m);
	assert_int_equal(open_status(&m, "aarch64", &why), PTAH_E_FOREIGN);
	assert_non_null(strstr(why.text, "aarch64"));
	memset(&m, 0, sizeof(m));
	build_begin(&m.file);
	build_info(&m.file, 3, false);
	build_auxtrace(&m.file, 0, 7, -1, 0, "12345678", 8, 8);
	assert_int_equal(open_status(&m, "x86_64", &why), PTAH_E_FOREIGN);
	assert_non_null(strstr(why.text, "CoreSight"));
	memset(&m, 0, sizeof(m));
	build_begin(&m.file);
	build_comm(&m.file, 7, 7, false, "prog", 0);
	assert_int_equal(open_status(&m, "x86_64", &why), PTAH_E_EMPTY);
	assert_non_null(strstr(why.text, "ptah record"));
}

TEST(missing_and_changed_binaries)
{
	static const uint8_t id[20] = {0xab, 0xcd};
	struct ptah_session_config force = {.size = sizeof(force), .ignore_build_ids = true};
	char file[32], path[PATH_MAX];
	struct ptah_message why;
	struct ptah_session *s;
	struct made m;

	begin(&m);
	build_mmap2(&m.file, 7, BASE, 4096, 0, "/no/such/file", 0, NULL);
	build_auxtrace(&m.file, 0, 7, -1, 0, "", 0, 8);
	assert_int_equal(open_status(&m, "x86_64", &why), PTAH_E_MISSING);
	assert_non_null(strstr(why.text, "/no/such/file"));

	/* The binaries of other processes are not checked. */
	begin(&m);
	build_mmap2(&m.file, 9, BASE, 4096, 0, "/no/such/file", 0, NULL);
	build_auxtrace(&m.file, 0, 7, -1, 0, "", 0, 8);
	assert_int_equal(open_status(&m, "x86_64", &why), 0);

	build_file(file, three, sizeof(three));
	assert_non_null(realpath(file, path));
	begin(&m);
	build_mmap2(&m.file, 7, BASE, 4096, 0, path, 0, id);
	build_auxtrace(&m.file, 0, 7, -1, 0, "", 0, 8);
	assert_int_equal(open_status(&m, "x86_64", &why), PTAH_E_CHANGED);
	assert_non_null(strstr(why.text, path));
	assert_non_null(strstr(why.text, "abcd000000"));

	begin(&m);
	build_mmap2(&m.file, 7, BASE, 4096, 0, path, 0, id);
	jumps(&m, 100, false, 5);
	build_auxtrace(&m.file, 0, 7, -1, 0, m.trace, trace_size(&m), trace_size(&m));
	s = finish(&m, &force);
	assert_int_equal(decode(s, 0).insns, 5 * 3);
	ptah_session_close(s);
	unlink(file);
}

/* The stream of a CPU belongs to the only process. With two processes nothing is guessed. */
TEST(stream_of_a_cpu)
{
	struct ptah_stream_info info;
	struct ptah_session *s;
	struct made m;

	for (int others = 0; others < 2; others++) {
		begin(&m);
		build_mmap2(&m.file, 7, 0x50000, 4096, 0, "//anon", 0, NULL);
		build_code(&m.file, 7, 0, BASE, three, sizeof(three));
		if (others)
			build_mmap2(&m.file, 9, 0x50000, 4096, 0, "//anon", 0, NULL);
		jumps(&m, 100, false, 5);
		build_auxtrace(&m.file, 0, -1, 3, 0, m.trace, trace_size(&m), trace_size(&m));
		s = finish(&m, NULL);
		assert_int_equal(ptah_session_stream_info(s, 0, &info), 0);
		assert_int_equal(info.cpu, 3);
		assert_int_equal(info.tid, -1);
		assert_int_equal(info.pid, others ? -1 : 7);
		assert_int_equal(decode(s, 0).insns, others ? 0 : 5 * 3);
		assert_int_equal(ptah_session_note(s, 0) != NULL, others);
		ptah_session_close(s);
	}
}

static void *decode_in_thread(void *session)
{
	struct ptah_map map;

	for (unsigned i = 0; i < 20; i++) {
		struct sums sums = decode(session, 0);

		if (sums.insns != 5 * 3 + 7 * 2 || sums.errors ||
		    !ptah_session_find_map(session, 7, BASE, 0, &map))
			return session;
	}
	return NULL;
}

/* Something for ThreadSanitizer to look at. */
TEST(one_session_in_several_threads)
{
	pthread_t threads[4];
	struct ptah_session *s;
	struct made m;
	void *failed;

	begin(&m);
	build_code(&m.file, 7, 0, BASE, three, sizeof(three));
	build_code(&m.file, 7, 200, BASE, two, sizeof(two));
	jumps(&m, 100, false, 5);
	jumps(&m, 200, true, 7);
	s = finish_whole(&m);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, decode_in_thread, s), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	ptah_session_close(s);
}
