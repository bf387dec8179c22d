/* SPDX-License-Identifier: MIT */
/*
 * The kernel's code and its names change while it is recorded: records KSYMBOL, BPF_EVENT and
 * TEXT_POKE as linux/perf_event.h and linux/bpf.h define them. Where perf handles them, it must
 * decode the same.
 */
#include "kernel_recording.h"
#include "session/stream.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

/* At the site: one nop of five bytes, or two nops. */
static const uint8_t one_then_two[] = {0x0f, 0x1f, 0x44, 0, 0, 0x66, 0x90, 0x0f, 0x1f, 0};
static const uint8_t two_then_one[] = {0x66, 0x90, 0x0f, 0x1f, 0, 0x0f, 0x1f, 0x44, 0, 0};

static const char one[] = "ffffffffad000040\nffffffffad000041\nffffffffad000048\n"
			  "ffffffffad000049\nffffffffad00004a\nffffffffad00004f\n"
			  "ffffffffad000046\n";
static const char two[] = "ffffffffad000040\nffffffffad000041\nffffffffad000048\n"
			  "ffffffffad000049\nffffffffad00004a\nffffffffad00004c\n"
			  "ffffffffad00004f\nffffffffad000046\n";

static void begin(struct recorded *r)
{
	struct perfdata_build_id id;

	assert_int_equal(perfdata_build_id_read("vmlinux", &id), 0);
	begin_recording(r, "k.data");
	put_kernel(r, &id);
}

/* The recording must be decoded to `expected`, by this library in all its ways, and by perf. */
static void expect_path(const char *expected, bool perf)
{
	struct ptah_session *s =
	    open_with("k.data", (struct ptah_session_config){.vmlinux = "vmlinux"});
	struct ptah_profile_totals totals;
	struct stream_decoder *stream;
	const char *by_perf;
	uint64_t insns = 0;
	int n;

	assert_string_equal(decoded(s), expected);
	assert_string_equal(decoded(s), expected); /* a second stream begins with the old code */
	for (const char *p = expected; (p = strstr(p, "ffffffff")); p++)
		insns++;
	assert_int_equal(stream_new(s, 0, &stream), 0);
	while ((n = stream_count(stream)) > 0)
		;
	assert_int_equal(n, 0);
	assert_int_equal(ptah_profile_totals(stream_profile(stream), &totals), 0);
	assert_int_equal(totals.instructions, insns);
	stream_free(stream);
	ptah_session_close(s);
	by_perf = perf ? decoded_by_perf("-i k.data -k vmlinux") : NULL;
	if (by_perf)
		assert_string_equal(by_perf, expected);
}

TEST(code_is_poked)
{
	struct recorded r;
	char path[1024];

	begin(&r);
	visit(&r, 200);
	put_poke(&r, 300, SITE, 5, 5, one_then_two);
	visit(&r, 400);
	visit(&r, 500);
	put_poke(&r, 600, SITE, 5, 5, two_then_one);
	visit(&r, 700);
	end_recording(&r);
	snprintf(path, sizeof(path), "%s%s%s%s", one, two, two, one);
	expect_path(path, true);
}

/* vmlinux has the code of before a change that was made when the kernel started. */
TEST(old_bytes_are_older_than_the_file)
{
	struct recorded r;
	char path[1024];

	begin(&r);
	visit(&r, 200);
	put_poke(&r, 300, SITE, 5, 5, two_then_one);
	visit(&r, 400);
	put_poke(&r, 500, SITE, 5, 5, one_then_two);
	visit(&r, 600);
	end_recording(&r);
	snprintf(path, sizeof(path), "%s%s%s", two, one, two);
	expect_path(path, false);
}

static int add_up(void *context, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_totals *totals = context;

	(void)stream;
	return ptah_profile_totals(profile, totals);
}

/* Threads that decode parts of the stream, each with its own image, see each change in time. */
TEST(poked_while_threads_decode)
{
	struct ptah_profile_totals totals = {0};
	struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = 3, .segment = 100};
	struct ptah_session *s;
	struct recorded r;

	begin(&r);
	for (unsigned i = 1; i <= 50; i++) {
		generator_psb(&r.g, 1000 * i, 20, false, 0);
		visit(&r, 1000 * i + 10);
		if (i % 10 == 0)
			put_poke(&r, 1000 * i + 500, SITE, 5, 5,
				 i % 20 ? one_then_two : two_then_one);
	}
	end_recording(&r);
	s = open_with("k.data", (struct ptah_session_config){.vmlinux = "vmlinux"});
	assert_int_equal(ptah_session_count(s, &jobs, NULL, add_up, &totals), 0);
	assert_int_equal(totals.errors, 0);
	/* 30 visits with one nop, 20 with two. */
	assert_int_equal(totals.instructions, 30 * 7 + 20 * 8);
	ptah_session_close(s);
}

/* A trampoline is made, and removed: no bytes before, or after. */
TEST(code_appears_and_vanishes)
{
	static const uint8_t code[] = {0x90, 0xff, 0xe0};
	struct recorded r;

	begin(&r);
	visit_at(&r, 200, ETEXT);
	put_poke(&r, 300, ETEXT, 0, sizeof(code), code);
	visit_at(&r, 400, ETEXT);
	put_poke(&r, 500, ETEXT, sizeof(code), 0, code);
	visit_at(&r, 600, ETEXT);
	end_recording(&r);
	expect_path("error\nffffffffad001000\nffffffffad001001\nerror\n", false);
}

/* A record of a virtual machine's guest, and one of user code's addresses, are not this kernel's.
 */
TEST(pokes_of_others)
{
	struct perfdata_buffer body = {0};
	struct recorded r;
	char path[1024];

	begin(&r);
	visit(&r, 200);
	perfdata_put64(&body, SITE);
	perfdata_put16(&body, 5);
	perfdata_put16(&body, 5);
	perfdata_put(&body, one_then_two, sizeof(one_then_two));
	put_record(&r, PERFDATA_TEXT_POKE, PERFDATA_MISC_GUEST_KERNEL, &body, 300);
	perfdata_buffer_free(&body);
	put_poke(&r, 310, SITE & INT64_MAX, 5, 5, one_then_two);
	visit(&r, 400);
	end_recording(&r);
	snprintf(path, sizeof(path), "%s%s", one, one);
	expect_path(path, true);
}

#define JIT UINT64_C(0xffffffffc0100000)

static void expect_function(const struct ptah_session *s, uint64_t address, uint64_t tsc,
			    const char *name)
{
	struct ptah_map map;
	bool found = ptah_session_find_map(s, 7, address, tsc, &map);

	assert_int_equal(found, name != NULL);
	if (name)
		assert_string_equal(map.path, name);
}

TEST(functions_come_and_go)
{
	struct ptah_session *s;
	struct recorded r;

	begin(&r);
	put_ksymbol(&r, 0, JIT, 64, false, "bpf_prog_1_old");
	put_ksymbol(&r, 300, JIT, 64, true, "bpf_prog_1_old");
	put_ksymbol(&r, 400, JIT, 32, false, "bpf_prog_2_new");
	put_ksymbol(&r, 400, JIT + 64, 32, false, "bpf_prog_3");
	put_ksymbol(&r, 500, JIT + 64, 32, true, "bpf_prog_3");
	visit(&r, 200);
	end_recording(&r);
	s = open_with("k.data", (struct ptah_session_config){.vmlinux = "vmlinux"});
	expect_function(s, JIT, 200, "bpf_prog_1_old");
	expect_function(s, JIT + 63, 299, "bpf_prog_1_old");
	expect_function(s, JIT, 350, NULL);
	expect_function(s, JIT + 31, 450, "bpf_prog_2_new");
	expect_function(s, JIT + 32, 450, NULL);
	expect_function(s, JIT + 64, 450, "bpf_prog_3");
	expect_function(s, JIT + 64, 550, NULL);
	expect_function(s, WORK, 550, "[kernel.kallsyms]");
	/* At the end: the last that was there. */
	expect_function(s, JIT + 5, 0, "bpf_prog_2_new");
	expect_function(s, JIT + 64, 0, "bpf_prog_3");
	ptah_session_close(s);
}

/* Two functions of one program; another program is loaded to the same address later. */
TEST(programs_of_bpf)
{
	static const uint8_t code[] = {0x90, 0xff, 0xe0, /* the first; the second: */
				       0x90, 0x90, 0xff, 0xe0};
	static const uint8_t other[] = {0x66, 0x90, 0x90, 0x90, 0xff, 0xe0};
	static const uint64_t addresses[] = {JIT, JIT + 256};
	static const uint32_t sizes[] = {3, 4}, other_size[] = {6};
	struct perfdata_buffer programs = {0};
	struct recorded r;

	begin(&r);
	put_ksymbol(&r, 0, JIT, 3, false, "bpf_prog_1_a");
	put_ksymbol(&r, 0, JIT + 256, 4, false, "bpf_prog_1_b");
	put_bpf_event(&r, 0, 17, false);
	visit_at(&r, 200, JIT);
	visit_at(&r, 220, JIT + 256);
	put_ksymbol(&r, 300, JIT, 3, true, "bpf_prog_1_a");
	put_ksymbol(&r, 300, JIT + 256, 4, true, "bpf_prog_1_b");
	put_bpf_event(&r, 300, 17, true);
	visit_at(&r, 400, JIT);
	put_ksymbol(&r, 500, JIT, 6, false, "bpf_prog_2");
	put_bpf_event(&r, 500, 18, false);
	put_bpf_event(&r, 500, 99, false); /* not in the header */
	visit_at(&r, 600, JIT);
	visit_at(&r, 700, JIT + 256);
	end_recording(&r);
	perfdata_put32(&programs, 2);
	put_program(&programs, 17, 2, addresses, sizes, code);
	put_program(&programs, 18, 1, addresses, other_size, other);
	add_feature("k.data", 25, &programs);
	perfdata_buffer_free(&programs);
	expect_path("ffffffffc0100000\nffffffffc0100001\n"
		    "ffffffffc0100100\nffffffffc0100101\nffffffffc0100102\n"
		    "error\n"
		    "ffffffffc0100000\nffffffffc0100002\nffffffffc0100003\nffffffffc0100004\n"
		    "error\n",
		    false);
}

/* perf reads the first function of a program only, wherever the address is. */
TEST(program_as_perf_reads_it)
{
	static const uint8_t code[] = {0x90, 0x66, 0x90, 0xff, 0xe0};
	static const uint64_t address = JIT;
	static const uint32_t size = sizeof(code);
	struct perfdata_buffer programs = {0};
	struct recorded r;
	char path[1024];

	begin(&r);
	put_ksymbol(&r, 0, JIT, size, false, "bpf_prog_1_a");
	put_bpf_event(&r, 0, 17, false);
	visit(&r, 200);
	visit_at(&r, 300, JIT);
	end_recording(&r);
	perfdata_put32(&programs, 1);
	put_program(&programs, 17, 1, &address, &size, code);
	add_feature("k.data", 25, &programs);
	perfdata_buffer_free(&programs);
	snprintf(path, sizeof(path), "%sffffffffc0100000\nffffffffc0100001\nffffffffc0100003\n",
		 one);
	expect_path(path, true);
}

static void expect_bounds(struct ptah_functions *functions, uint64_t address, const char *name,
			  uint64_t start, uint64_t end)
{
	struct ptah_function_name found;
	struct ptah_function f;

	assert_true(ptah_functions_find(functions, 7, address, 0, &f));
	assert_int_equal(f.low, start);
	assert_int_equal(f.high, end);
	assert_int_equal(f.start, start);
	assert_int_equal(f.flags, PTAH_FUNCTION_KERNEL);
	assert_true(ptah_functions_name(functions, 7, address, 0, &found));
	assert_string_equal(found.name, name);
	assert_string_equal(found.path, "[kernel.kallsyms]");
	assert_int_equal(found.start, start);
}

/* kallsyms and vmlinux have the addresses before the kernel was moved. */
TEST(functions_of_the_kernel_have_bounds)
{
	struct ptah_session_config configs[] = {{.vmlinux = "vmlinux"},
						{.vmlinux = "vmlinux", .kallsyms = "symbols"}};
	char text[256];

	snprintf(text, sizeof(text),
		 "%" PRIx64 " T _text\n%" PRIx64 " T entry\n%" PRIx64 " t work\n%" PRIx64
		 " T site\n%" PRIx64 " T _etext\n",
		 LINKED, ENTRY - SLIDE, WORK - SLIDE, SITE - SLIDE, ETEXT - SLIDE);
	write_text("symbols", text);
	for (unsigned i = 0; i < 2; i++) {
		struct ptah_functions *functions;
		struct ptah_session *s;
		struct recorded r;

		begin(&r);
		visit(&r, 200);
		end_recording(&r);
		s = open_with("k.data", configs[i]);
		assert_int_equal(ptah_functions_new(s, &functions), 0);
		expect_bounds(functions, ENTRY + 3, "entry", ENTRY, WORK);
		expect_bounds(functions, WORK, "work", WORK, SITE);
		ptah_functions_free(functions);
		ptah_session_close(s);
	}
}

TEST_GROUP(make_kernels, remove_kernels)
