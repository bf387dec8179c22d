/* SPDX-License-Identifier: MIT */
/*
 * The address filter of a recording decides where erratum SKL014 applies: the TIP.PGD of a direct
 * branch that leaves the filter has no IP then, and so looks like that of the next indirect branch.
 */
#include "perfdata/build.h"

#include <ptah/session.h>

#define SKYLAKE	  "GenuineIntel,6,94,3"
#define BROADWELL "GenuineIntel,6,61,4" /* a processor without that erratum */

#define BASE 0x12345

static const uint8_t inside[] = {0x90, 0xe9, 0xfa, 0x0f, 0, 0}; /* nop; jmp BASE + 0x1000 */
static const uint8_t outside[] = {0x90, 0xff, 0xe0};		/* nop; jmp rax */

static struct ptah_session *record(const char *filter, const char *cpuid)
{
	struct perfdata_buffer file = {0}, body = {0};
	uint64_t info[PERFDATA_INFO_MAX] = {[PERFDATA_INFO_PMU_TYPE] = 8};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	struct ptah_generator g;
	uint8_t trace[256];
	char text[264] = "", path[32];

	generator_init(&g, trace, false, false);
	generator_psb(&g, 100, 20, false, 0);
	generator_enable(&g, BASE);
	generator_disable(&g);
	assert_true(strlen(filter) < 256);
	memcpy(text, filter, strlen(filter));
	/* Its NUL, and zeros up to a multiple of eight. */
	info[PERFDATA_INFO_FILTER_LENGTH] = strlen(filter) / 8 * 8 + 8;
	build_begin(&file);
	perfdata_put32(&body, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put32(&body, 0);
	perfdata_put(&body, info, sizeof(info));
	perfdata_put(&body, text, info[PERFDATA_INFO_FILTER_LENGTH]);
	build_record(&file, PERFDATA_AUXTRACE_INFO, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
	build_comm(&file, 7, 7, false, "prog", 0);
	build_mmap2(&file, 7, 0x12000, 0x1000, 0x5000, "//file", 0, NULL);
	build_itrace_start(&file, 7, 7, 0);
	build_code(&file, 7, 0, BASE, inside, sizeof(inside));
	build_code(&file, 7, 0, BASE + 0x1000, outside, sizeof(outside));
	build_auxtrace(&file, 0, 7, -1, 0, trace, (size_t)(g.out - trace), (size_t)(g.out - trace));
	build_end(&file, PERFDATA_FEATURE_CPUID, cpuid);
	build_file(path, file.bytes, file.size);
	if (ptah_session_open(path, NULL, &s, &why) < 0)
		fail_msg("%s", why.text);
	unlink(path);
	perfdata_buffer_free(&file);
	return s;
}

static unsigned instructions(const char *filter, const char *cpuid)
{
	struct ptah_session *s = record(filter, cpuid);
	struct ptah_reader *stream;
	struct ptah_item items[16];
	unsigned count = 0;
	int n;

	assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
	while ((n = ptah_reader_read(stream, items, 16)) > 0) {
		for (int i = 0; i < n; i++) {
			assert_int_not_equal(items[i].type, PTAH_ITEM_ERROR);
			if (items[i].type == PTAH_ITEM_BLOCK)
				count += items[i].ninsn;
		}
	}
	assert_int_equal(n, 0);
	ptah_reader_free(stream);
	ptah_session_close(s);
	return count;
}

#define LEFT_AT_JMP 2
#define WENT_ON	    4

TEST(jump_out_of_the_filter)
{
	static const char *const filters[] = {
	    "filter 0x12345/0x6",
	    "filter 74565/6",		/* perf takes numbers in any base, as strtoull() */
	    "filter 0x5345/0x6@//file", /* the address at which the process has the file mapped */
	    "filter 0x5000/0x1000@//file",
	    "filter 0x5000/0x10@//file,filter 0x5345/0x6@//file",
	    "filter 0x5000/0x10@//file filter 0x5345/0x6@//file",
	    "stop 0x13345/0x1",
	    "tracestop 0x13345/0x1",
	};

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		assert_int_equal(instructions(filters[i], SKYLAKE), LEFT_AT_JMP);
		assert_int_equal(instructions(filters[i], BROADWELL), WENT_ON);
	}
}

TEST(jump_that_stays_inside)
{
	assert_int_equal(instructions("", SKYLAKE), WENT_ON);
	assert_int_equal(instructions("filter 0x12345/0x1001", SKYLAKE), WENT_ON);
	assert_int_equal(instructions("filter 0x12345/0x6,filter 0x13345/0x1", SKYLAKE), WENT_ON);
	assert_int_equal(instructions("stop 0x13346/0x1", SKYLAKE), WENT_ON);
}

/* A filter that is only partly understood is not used. */
TEST(filters_that_are_not_understood)
{
#define ONE "filter 0x12345/0x6"
	static const char *const filters[] = {
	    ONE "@//other",
	    ONE " filter 0x1/0x6@//other",
	    "filter",
	    "filter 0x",
	    "filter 0x12345",
	    "filter 0x12345/0x0",
	    "filter 0xffffffffffffffff/0x2",
	    "filter 0x5fff/0xffffffffffff0000@//file",
	    "filter 0x123450000000000000/0x6",
	    "start 0x12345/0x6",
	    ONE " nonsense",
	    ONE "," ONE "," ONE "," ONE "," ONE, /* more ranges than IA32_RTIT_CTL has */
	};

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		assert_int_equal(instructions(filters[i], SKYLAKE), WENT_ON);
}
