/* SPDX-License-Identifier: MIT */
/*
 * Code that a process generated is decoded and named by its jitdump, as of the time of the trace.
 * The expected counts follow from the packets and from the code in the jitdump.
 */
#include "kernel_recording.h"
#include "session/stream.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

#define PLACE UINT64_C(0x500000)

/* Two loops through jmp rax, the second one generated where the first one was. */
static const uint8_t three[] = {0x90, 0x90, 0xff, 0xe0}; /* nop; nop; jmp */
static const uint8_t two[] = {0x66, 0x90, 0xff, 0xe0};	 /* xchg ax, ax; jmp */

static int make_folder(void **state)
{
	(void)state;
	return !mkdtemp(kernel_folder) || chdir(kernel_folder);
}

static void put_load(struct perfdata_buffer *b, uint64_t time, uint64_t address, const char *name,
		     const void *code, uint32_t size)
{
	perfdata_put32(b, 0);
	perfdata_put32(b, 16 + 40 + (uint32_t)strlen(name) + 1 + size);
	perfdata_put64(b, time);
	perfdata_put32(b, 7);
	perfdata_put32(b, 7);
	perfdata_put64(b, address);
	perfdata_put64(b, address);
	perfdata_put64(b, size);
	perfdata_put64(b, 1);
	perfdata_put(b, name, strlen(name) + 1);
	perfdata_put(b, code, size);
}

/*
 * A jitdump whose clock is `ahead` of the recording's, in which it is mapped at 150. `tsc`: it says
 * that its clock is the TSC.
 */
static void write_dump(const char *path, uint64_t ahead, bool tsc)
{
	struct perfdata_buffer b = {0};
	FILE *f = fopen(path, "w");

	perfdata_put32(&b, 0x4a695444);
	perfdata_put32(&b, 1);
	perfdata_put32(&b, 40);
	perfdata_put32(&b, 62);
	perfdata_put32(&b, 0);
	perfdata_put32(&b, 7);
	perfdata_put64(&b, 150 + ahead);
	perfdata_put64(&b, tsc);
	put_load(&b, 200 + ahead, PLACE, "three", three, sizeof(three));
	put_load(&b, 300 + ahead, PLACE, "two", two, sizeof(two));
	assert_non_null(f);
	assert_int_equal(fwrite(b.bytes, b.size, 1, f), 1);
	assert_int_equal(fclose(f), 0);
	perfdata_buffer_free(&b);
}

static void jumps(struct recorded *r, uint64_t tsc, unsigned n)
{
	generator_tsc(&r->g, tsc);
	generator_enable(&r->g, PLACE);
	while (n--)
		generator_tip(&r->g, PLACE);
	generator_async_disable(&r->g, PLACE);
}

static void put_map(struct recorded *r, uint64_t tsc, uint64_t address, const char *path)
{
	const struct perfdata_mapping map = {.address = address, .size = 4096, .prot = 5};
	const struct perfdata_build_id none = {0};

	assert_int_equal(perfdata_write_foreign_map(r->w, 7, 7, tsc, &map, path, &none), 0);
}

static struct ptah_session *open_generated(const char *dump)
{
	struct recorded r;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", kernel_folder, dump);
	begin_recording(&r, "j.data");
	put_map(&r, 120, PLACE, "//anon");
	put_map(&r, 150, 0x700000, path);
	jumps(&r, 250, 5);
	/* The runtime changes the protection of its code, which is reported as a mapping. */
	put_map(&r, 280, PLACE, "//anon");
	jumps(&r, 350, 7);
	end_recording(&r);
	return open_with("j.data", (struct ptah_session_config){0});
}

static void expect_name(const struct ptah_session *s, uint64_t tsc, const char *name)
{
	struct ptah_function_name found;
	struct ptah_functions *functions;
	struct ptah_function f;

	assert_int_equal(ptah_functions_new(s, &functions), 0);
	assert_true(ptah_functions_name(functions, 7, PLACE + 2, tsc, &found));
	assert_string_equal(found.name, name);
	assert_int_equal(found.start, PLACE);
	assert_true(ptah_functions_find(functions, 7, PLACE + 2, tsc, &f));
	assert_int_equal(f.low, PLACE);
	assert_int_equal(f.high, PLACE + 4);
	assert_int_equal(f.flags, PTAH_FUNCTION_JIT);
	ptah_functions_free(functions);
}

static void expect_code(void)
{
	struct ptah_session *s = open_generated("jit-7.dump");
	struct ptah_profile_totals totals;
	struct stream_decoder *stream;
	int n;

	assert_int_equal(stream_new(s, 0, &stream), 0);
	while ((n = stream_count(stream)) > 0)
		;
	assert_int_equal(n, 0);
	assert_int_equal(ptah_profile_totals(stream_profile(stream), &totals), 0);
	assert_int_equal(totals.errors, 0);
	assert_int_equal(totals.instructions, 5 * 3 + 7 * 2);
	stream_free(stream);
	expect_name(s, 250, "three");
	expect_name(s, 350, "two");
	expect_name(s, 0, "two");
	ptah_session_close(s);
}

TEST(a_jitdump_serves_as_code)
{
	write_dump("jit-7.dump", 123456, false);
	expect_code();
	write_dump("jit-7.dump", 0, true);
	expect_code();
}

/* Such a clock counts other things than time. It is not used, and a note says so. */
TEST(a_jitdump_of_another_clock_gives_names_only)
{
	struct ptah_session *s;

	write_dump("jit-7.dump", UINT64_C(1) << 60, false);
	s = open_generated("jit-7.dump");
	expect_name(s, 250, "two");
	assert_true(has_note(s, "jit-7.dump: its clock is not that of the recording"));
	ptah_session_close(s);
}

TEST(a_jitdump_that_is_missing_is_noted)
{
	struct ptah_session *s = open_generated("jit-8.dump");

	assert_true(has_note(s, "jit-8.dump: No such file"));
	ptah_session_close(s);
}

TEST(a_map_for_perf_beside_the_recording_gives_names)
{
	struct ptah_session *s;

	write_text("perf-7.map", "500000 4 LazyCompile:f\n");
	s = open_generated("jit-8.dump");
	expect_name(s, 250, "LazyCompile:f");
	ptah_session_close(s);
	assert_int_equal(unlink("perf-7.map"), 0);
	assert_int_equal(mkdir("root", 0700), 0);
	assert_int_equal(mkdir("root/tmp", 0700), 0);
	write_text("root/tmp/perf-7.map", "500000 4 other\n");
	s = open_with("j.data",
		      (struct ptah_session_config){.ignore_build_ids = true, .symfs = "root"});
	expect_name(s, 250, "other");
	ptah_session_close(s);
}

TEST_GROUP(make_folder, remove_kernels)
