/* SPDX-License-Identifier: MIT */
/*
 * A virtual machine recorded from outside: code is in pages, which processors have in address
 * spaces and from times on. The expected paths follow from the code and the packets below.
 */
#include "kernel_recording.h"

#include "base/path_hash.h"
#include "session/stream.h"

#include <ptah/live.h>
#include <ptah/profile.h>
#include <ptah/symbol.h>

#include <fcntl.h>

#define KERNEL	UINT64_C(0xffffffff81000000)
#define PROGRAM UINT64_C(0x401000)
#define FIRST	UINT64_C(0x5000) /* address spaces */
#define SECOND	UINT64_C(0x6000)

static const uint8_t kernel[4096] = {0x0f, 0x22, 0xd8, 0xff, 0xe0}; /* mov %rax,%cr3; jmp *%rax */
static const uint8_t short_one[4096] = {0x90, 0xff, 0xe0};	    /* nop; jmp *%rax */
static const uint8_t middle_one[4096] = {0x90, 0x90, 0xff, 0xe0};   /* nop; nop; jmp *%rax */
static const uint8_t long_one[4096] = {0x90, 0x90, 0x90, 0xff, 0xe0};

static const char path[] = "ffffffff81000000\nffffffff81000003\n401000\n401001\n401002\n"
			   "ffffffff81000000\nffffffff81000003\n401000\n401001\n"
			   "ffffffff81000000\nffffffff81000003\n401000\n401001\n401002\n401003\n";

static void put_map(struct recorded *r, int32_t cpu, uint32_t page, uint64_t tsc, uint64_t address,
		    uint64_t cr3)
{
	const struct perfdata_guest_map map = {cpu, page, tsc, address, cr3};

	assert_int_equal(perfdata_add_guest_map(r->w, &map), 0);
}

static void put_psb(struct recorded *r, uint64_t tsc, uint64_t cr3, uint64_t ip)
{
	generator_psb_begin(&r->g);
	generator_tsc(&r->g, tsc);
	generator_pip(&r->g, cr3, false);
	generator_cbr(&r->g, 20);
	generator_psb_end(&r->g, ip, ip);
}

/* The kernel changes CR3 and jumps to the program, which jumps back if `back`. */
static void run_program(struct recorded *r, uint64_t cr3, bool back)
{
	generator_pip(&r->g, cr3, false);
	generator_tip(&r->g, PROGRAM);
	if (back)
		generator_tip(&r->g, KERNEL);
	else
		generator_disable(&r->g);
}

static void put_trace(struct recorded *r)
{
	generator_init(&r->g, r->trace, false, false);
	put_psb(r, 100, FIRST, 0);
	generator_enable(&r->g, KERNEL);
	run_program(r, SECOND, true);
	run_program(r, FIRST, true);
	put_psb(r, 500, FIRST, KERNEL);
	run_program(r, FIRST, false);
}

static void put_truth(struct recorded *r)
{
	static const uint64_t runs[][2] = {{KERNEL, KERNEL + 5}, {PROGRAM, PROGRAM + 4},
					   {KERNEL, KERNEL + 5}, {PROGRAM, PROGRAM + 3},
					   {KERNEL, KERNEL + 5}, {PROGRAM, PROGRAM + 5}};
	struct ptah_truth truth = {.instructions = 15, .indirect = 6};
	struct path_hash hash = {0};

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++)
		path_hash_add(&hash, runs[i][0], runs[i][1]);
	truth.path_hash = path_hash_value(&hash);
	assert_int_equal(perfdata_add_truth(r->w, 0, -1, -1, &truth, 0), 0);
}

static void put_pages(struct recorded *r)
{
	assert_int_equal(perfdata_add_page(r->w, 10, kernel), 0);
	assert_int_equal(perfdata_add_page(r->w, 11, short_one), 0);
	assert_int_equal(perfdata_add_page(r->w, 12, middle_one), 0);
	assert_int_equal(perfdata_add_page(r->w, 7, long_one), 0);
}

/* The truth follows the trace that it is about. */
static void end(struct recorded *r, bool truth)
{
	const struct perfdata_aux aux = {.tid = -1,
					 .cpu = 0,
					 .reference = 1,
					 .bytes = r->trace,
					 .size = (size_t)(r->g.out - r->trace)};
	struct ptah_message why = {""};

	assert_int_equal(perfdata_write_aux(r->w, &aux), 0);
	if (truth)
		put_truth(r);
	if (perfdata_writer_finish(r->w, NULL, &why) < 0)
		fail_msg("%s", why.text);
}

static void record(const char *file)
{
	struct recorded r;

	begin_recording(&r, file);
	put_trace(&r);
	put_pages(&r);
	put_map(&r, 0, 10, 0, KERNEL, PERFDATA_ANY_SPACE);
	put_map(&r, 0, 12, 0, PROGRAM, SECOND);
	/* The change is in the file before the page that it replaces. */
	put_map(&r, 0, 7, 500, PROGRAM, FIRST);
	put_map(&r, 0, 11, 0, PROGRAM, FIRST);
	/* Another processor's memory. */
	put_map(&r, 1, 10, 0, PROGRAM, SECOND);
	put_map(&r, 1, 10, 200, KERNEL, PERFDATA_ANY_SPACE);
	assert_int_equal(perfdata_add_space(r.w, FIRST, 0, "init"), 0);
	assert_int_equal(perfdata_add_space(r.w, FIRST, 300, "shell"), 0);
	assert_int_equal(perfdata_add_space(r.w, SECOND, 0, "a name of many letters"), 0);
	end(&r, true);
}

TEST(code_is_that_of_its_space_and_time)
{
	struct ptah_session *s;

	record("g.data");
	s = open_with("g.data", (struct ptah_session_config){0});
	assert_string_equal(decoded(s), path);
	assert_string_equal(decoded(s), path); /* a second stream begins with the old code */
	assert_null(ptah_session_note(s, 0));
	ptah_session_close(s);
}

TEST(it_equals_the_truth)
{
	const struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = 2, .segment = 32};
	struct ptah_verify result;
	struct ptah_session *s;

	record("g.data");
	s = open_with("g.data", (struct ptah_session_config){0});
	assert_int_equal(ptah_session_verify(s, 0, NULL, &result), 0);
	assert_int_equal(result.decoded.instructions, 15);
	assert_true(result.equal);
	assert_int_equal(ptah_session_verify(s, 0, &jobs, &result), 0);
	assert_true(result.equal);
	ptah_session_close(s);
}

struct sums {
	const struct ptah_session *session;
	uint64_t kernel[2], program[2]; /* of "shell", of the other */
};

static void add_block(void *context, const struct ptah_profile_block *block, int32_t space)
{
	struct sums *sums = context;
	struct ptah_thread who;

	assert_int_equal(ptah_session_space(sums->session, space, &who), 0);
	assert_int_equal(who.pid, -1);
	(block->ip == PROGRAM ? sums->program : sums->kernel)[strcmp(who.comm, "shell") != 0] +=
	    block->count * block->ninsn;
	if (strcmp(who.comm, "shell") != 0)
		assert_string_equal(who.comm, "a name of many ");
}

TEST(counts_belong_to_address_spaces)
{
	struct stream_decoder *stream;
	struct ptah_profile_block *blocks;
	struct sums sums = {0};
	struct ptah_map map;
	size_t count;
	int n;

	record("g.data");
	sums.session = open_with("g.data", (struct ptah_session_config){0});
	assert_int_equal(stream_new(sums.session, 0, &stream), 0);
	while ((n = stream_count(stream)) > 0)
		;
	assert_int_equal(n, 0);
	n = ptah_profile_blocks(stream_profile(stream), &blocks, &count);
	assert_int_equal(n, 0);
	for (size_t i = 0; i < count; i++)
		add_block(&sums, &blocks[i],
			  ptah_session_profile_pid(sums.session, 0, stream_profile(stream),
						   blocks[i].space));
	free(blocks);
	assert_int_equal(sums.program[0], 2 + 4);
	assert_int_equal(sums.program[1], 3);
	assert_int_equal(sums.kernel[0] + sums.kernel[1], 6);
	assert_true(ptah_session_find_map(sums.session, -2, PROGRAM + 1, 0, &map));
	assert_string_equal(map.path, "[code]");
	assert_int_equal(map.address, PROGRAM);
	stream_free(stream);
	ptah_session_close((struct ptah_session *)(uintptr_t)sums.session);
}

/* A machine with a page of vmlinux, which it has twice, and one that is almost the same. */
static void record_files(const char *file, const struct ptah_elf_segment *segment)
{
	static uint8_t text[4096], changed[4096];
	struct recorded r;
	FILE *f = fopen("vmlinux", "r");

	assert_non_null(f);
	assert_int_equal(fseek(f, (long)segment->offset, SEEK_SET), 0);
	assert_int_equal(fread(text, sizeof(text), 1, f), 1);
	fclose(f);
	memcpy(changed, text, sizeof(text));
	changed[4000]++;
	begin_recording(&r, file);
	put_trace(&r);
	assert_int_equal(perfdata_add_page(r.w, 0, text), 0);
	assert_int_equal(perfdata_add_page(r.w, 1, changed), 0);
	put_map(&r, 0, 1, 0, PROGRAM, FIRST);
	put_map(&r, 0, 0, 0, PROGRAM + 4096, FIRST);
	put_map(&r, 1, 0, 100, PROGRAM, SECOND);
	end(&r, false);
}

static void expect_files(const struct ptah_session *s, const struct ptah_elf_segment *segment)
{
	struct ptah_map map;

	assert_true(ptah_session_find_map(s, -2, PROGRAM + 4098, 0, &map)); /* FIRST */
	assert_true(!strcmp(map.path, "/vmlinux") || !strcmp(map.path, "/other"));
	assert_int_equal(map.file_offset, segment->offset);
	assert_int_equal(map.address, PROGRAM + 4096);
	assert_true(ptah_session_find_map(s, -3, PROGRAM, 0, &map)); /* SECOND */
	assert_int_equal(map.file_offset, segment->offset);
	assert_true(ptah_session_find_map(s, -3, PROGRAM, 99, &map)); /* not yet */
	assert_string_equal(map.path, "[code]");
	assert_true(ptah_session_find_map(s, -2, PROGRAM, 0, &map)); /* other bytes */
	assert_string_equal(map.path, "[code]");
}

/* Pages are found in the files below the guest's root, by their content. */
TEST(programs_have_files)
{
	struct ptah_elf_segment *segments;
	struct ptah_session *s;

	assert_int_equal(ptah_elf_segments("vmlinux", 0, &segments), 1);
	record_files("f.data", segments);
	s = open_with("f.data", (struct ptah_session_config){.symfs = "."});
	expect_files(s, segments);
	ptah_session_close(s);
	free(segments);
}

/* The same while the recording comes, through a pipe that has room for all of it. */
TEST(programs_have_files_while_they_run)
{
	const struct ptah_live_config config = {
	    .size = sizeof(config), .session = {.size = sizeof(config.session), .symfs = "."}};
	struct ptah_elf_segment *segments;
	struct ptah_live *live;
	int fd;

	assert_int_equal(ptah_elf_segments("vmlinux", 0, &segments), 1);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	fd = open("pipe", O_RDONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	record_files("pipe", segments);
	assert_int_equal(ptah_live_new(&config, &live), 0);
	while (ptah_live_feed_fd(live, fd, 0) > 0)
		assert_int_equal(ptah_live_poll(live), 0);
	if (ptah_live_finish(live) < 0)
		fail_msg("%s", ptah_live_why(live));
	expect_files(ptah_live_session(live), segments);
	ptah_live_free(live);
	close(fd);
	assert_int_equal(unlink("pipe"), 0);
	free(segments);
}

/* What makes no sense is ignored, and the code there is missing. */
TEST(nonsense_is_ignored)
{
	struct ptah_session *s;
	struct recorded r;

	begin_recording(&r, "n.data");
	put_trace(&r);
	put_map(&r, 0, 10, 0, PROGRAM, FIRST); /* no such page */
	put_map(&r, 0, 7, 0, PROGRAM + 1, FIRST);
	put_map(&r, -1, 7, 0, PROGRAM, FIRST);
	put_map(&r, INT32_MAX, 7, 0, PROGRAM, FIRST);
	assert_int_equal(perfdata_add_page(r.w, 7, kernel), 0);
	put_map(&r, 0, 7, 0, KERNEL, PERFDATA_ANY_SPACE);
	assert_int_equal(perfdata_add_space(r.w, 1, 0, "nobody"), 0);
	end(&r, false);
	s = open_with("n.data", (struct ptah_session_config){0});
	assert_non_null(strstr(decoded(s), "ffffffff81000000\nffffffff81000003\nerror\n"));
	ptah_session_close(s);
}

/* Hundreds of pages and spaces: the tables grow. */
TEST(many_pages)
{
	struct ptah_session *s;
	struct recorded r;

	begin_recording(&r, "m.data");
	put_trace(&r);
	put_pages(&r);
	for (uint64_t i = 0; i < 500; i++)
		put_map(&r, 0, 7, 0, PROGRAM + (i << 12), i << 12);
	put_map(&r, 0, 10, 0, KERNEL, PERFDATA_ANY_SPACE);
	put_map(&r, 0, 12, 90, PROGRAM, SECOND);
	put_map(&r, 0, 11, 90, PROGRAM, FIRST);
	put_map(&r, 0, 7, 500, PROGRAM, FIRST);
	end(&r, false);
	s = open_with("m.data", (struct ptah_session_config){0});
	assert_string_equal(decoded(s), path);
	ptah_session_close(s);
}

TEST_GROUP(make_kernels, remove_kernels)
