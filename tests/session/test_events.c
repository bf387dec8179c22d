/* SPDX-License-Identifier: MIT */
/* Streams are decoded with what the recording contains about clocks and processor. */
#include "perfdata/build.h"

#include "model/clock.h"

#include <ptah/base.h>
#include <ptah/session.h>

#define BASE  0x12345
#define JUMPS 400

/* nop; nop; jmp rax */
static const uint8_t code[] = {0x90, 0x90, 0xff, 0xe0};

/* A machine with 84 TSC ticks for 2 crystal ticks (CPUID.15H EBX, EAX). */
static const struct ptah_clock machine = {.tsc_en = true,
					  .mtc_en = true,
					  .cyc_en = true,
					  .mtc_freq = 3,
					  .cyc_thresh = 4,
					  .nominal_ratio = 21,
					  .ratio = 34,
					  .n = 84,
					  .d = 2,
					  .tsc = 1000000};

struct jump {
	uint64_t offset, tsc;
};

struct made {
	struct perfdata_buffer file;
	uint8_t trace[1 << 16];
	size_t size;
	struct jump jumps[JUMPS];
};

/*
 * attr.config of intel_pt/mtc,mtc_period=3,cyc,cyc_thresh=4,tsc/ by the kernel's format files, and
 * what perf writes with it.
 */
#define CONFIG (1u << 9 | 3u << 14 | 1u << 1 | 4u << 19 | 1u << 10)

static const uint64_t clocks[PERFDATA_INFO_MAX] = {
    [PERFDATA_INFO_PMU_TYPE] = 8,     [PERFDATA_INFO_TSC_BIT] = 1 << 10,
    [PERFDATA_INFO_MTC_BIT] = 1 << 9, [PERFDATA_INFO_MTC_FREQ_BITS] = 15 << 14,
    [PERFDATA_INFO_TSC_CTC_N] = 84,   [PERFDATA_INFO_TSC_CTC_D] = 2,
    [PERFDATA_INFO_CYC_BIT] = 1 << 1, [PERFDATA_INFO_MAX_NONTURBO] = 21,
};

static void run(struct made *m)
{
	struct ptah_clock c = machine;
	struct ptah_generator g;

	generator_init(&g, m->trace, false, false);
	clock_init(&c);
	clock_psb(&c, &g, false, 0);
	clock_packet(&c, &g);
	generator_enable(&g, BASE);
	for (unsigned i = 0; i < JUMPS; i++) {
		clock_pass(&c, &g, 1 + i * 7919 % 500);
		clock_packet(&c, &g);
		m->jumps[i] = (struct jump){(uint64_t)(g.out - m->trace), c.tsc};
		generator_tip(&g, BASE);
	}
	generator_async_disable(&g, BASE);
	m->size = (size_t)(g.out - m->trace);
	assert_true(m->size < sizeof(m->trace));
}

static struct ptah_session *record(struct made *m, const uint64_t *info, uint64_t config,
				   const char *cpuid)
{
	struct perfdata_buffer body = {0};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	char path[32];

	memset(m, 0, sizeof(*m));
	run(m);
	build_begin(&m->file);
	store_le64(m->file.bytes + 112 + 8, config);
	perfdata_put32(&body, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put32(&body, 0);
	perfdata_put(&body, info, PERFDATA_INFO_MAX * sizeof(*info));
	build_record(&m->file, PERFDATA_AUXTRACE_INFO, 0, &body, 0, 0, 0);
	perfdata_buffer_free(&body);
	build_comm(&m->file, 7, 7, false, "prog", 0);
	build_itrace_start(&m->file, 7, 7, 0);
	build_code(&m->file, 7, 0, BASE, code, sizeof(code));
	build_auxtrace(&m->file, 0, 7, -1, 0, m->trace, m->size, m->size);
	build_end(&m->file, PERFDATA_FEATURE_CPUID, cpuid);
	build_file(path, m->file.bytes, m->file.size);
	if (ptah_session_open(path, NULL, &s, &why) < 0)
		fail_msg("%s", why.text);
	unlink(path);
	perfdata_buffer_free(&m->file);
	return s;
}

static void check(const struct made *m, const struct ptah_item *item, unsigned *bounded)
{
	uint64_t off;

	assert_int_not_equal(item->type, PTAH_ITEM_ERROR);
	for (unsigned i = 0; item->type == PTAH_ITEM_BLOCK && i < JUMPS; i++) {
		if (m->jumps[i].offset != item->offset || item->tsc_error == PTAH_TSC_UNBOUNDED)
			continue;
		off = item->tsc > m->jumps[i].tsc ? item->tsc - m->jumps[i].tsc
						  : m->jumps[i].tsc - item->tsc;
		assert_true(item->tsc_error < 16);
		assert_true(off < UINT64_C(1) << item->tsc_error);
		++*bounded;
	}
}

/* Counts the blocks whose time has an error bound, and checks the bound. */
static unsigned decode(const struct made *m, const struct ptah_session *s)
{
	struct ptah_reader *stream;
	struct ptah_item items[16];
	unsigned bounded = 0;
	int n;

	assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
	while ((n = ptah_reader_read(stream, items, 16)) > 0)
		for (int i = 0; i < n; i++)
			check(m, &items[i], &bounded);
	assert_int_equal(n, 0);
	ptah_reader_free(stream);
	return bounded;
}

TEST(clocks_of_the_recording)
{
	const struct ptah_flow_config none = {.size = sizeof(none),
					      .events.size = sizeof(none.events)};
	struct ptah_flow_config flow;
	struct ptah_session *s;
	static struct made m;

	s = record(&m, clocks, CONFIG, "GenuineIntel,6,85,4");
	ptah_session_get_flow(s, &flow);
	assert_int_equal(flow.events.trace.mtc_period, 3);
	assert_int_equal(flow.events.trace.cyc_threshold, 4);
	assert_int_equal(flow.events.nominal_ratio, 21);
	assert_int_equal(flow.events.tsc_n, 84);
	assert_int_equal(flow.events.tsc_d, 2);
	assert_false(flow.events.trace.event_trace);
	assert_true(decode(&m, s) > JUMPS * 9 / 10);
	/* The caller's configuration takes precedence. */
	assert_int_equal(ptah_session_set_flow(s, &none), 0);
	assert_int_equal(decode(&m, s), 0);
	ptah_session_close(s);
}

/* SDM "IA32_RTIT_CTL": EventEn is bit 31, and perf's config has it there. */
TEST(event_trace)
{
	struct ptah_flow_config flow;
	struct ptah_session *s;
	static struct made m;

	s = record(&m, clocks, CONFIG | UINT64_C(1) << 31, "GenuineIntel,6,143,8");
	ptah_session_get_flow(s, &flow);
	assert_true(flow.events.trace.event_trace);
	ptah_session_close(s);
}

/* SDM "IA32_RTIT_CTL": DisTNT is bit 55, DisRETC bit 11; perf's config has them there. */
TEST(outcomes_not_recorded)
{
	struct ptah_flow_config flow;
	struct ptah_session *s;
	static struct made m;

	s = record(&m, clocks, CONFIG | UINT64_C(1) << 55, "");
	ptah_session_get_flow(s, &flow);
	assert_true(flow.events.trace.no_tnt && !flow.events.trace.no_retcomp);
	ptah_session_close(s);
	s = record(&m, clocks, CONFIG | UINT64_C(1) << 11, "");
	ptah_session_get_flow(s, &flow);
	assert_true(!flow.events.trace.no_tnt && flow.events.trace.no_retcomp);
	ptah_session_close(s);
}

/* The header's CPUID is vendor, family, model, stepping. */
TEST(errata_of_the_processor)
{
	static const struct {
		const char *cpuid;
		struct ptah_cpu cpu;
	} list[] = {
	    {"GenuineIntel,6,94,3", {6, 94, 3}},
	    {"GenuineIntel,6,158,10", {6, 158, 10}},
	    {"GenuineIntel,6,61,4", {6, 61, 4}},
	    {"AuthenticAMD,6,94,3", {0}},
	    {"GenuineIntel,6", {0}},
	    {"GenuineIntel,6,94,3,1", {0}},
	    {"GenuineIntel,6,99999999999999999999999,3", {0}},
	    {"", {0}},
	};
	struct ptah_flow_config flow;
	struct ptah_session *s;
	static struct made m;

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		s = record(&m, clocks, CONFIG, list[i].cpuid);
		ptah_session_get_flow(s, &flow);
		assert_int_equal(flow.events.errata, ptah_cpu_errata(&list[i].cpu));
		assert_true(!flow.events.errata == !list[i].cpu.family);
		ptah_session_close(s);
	}
}

/* Impossible clock ratios: the time then has no error bound, and nothing else happens. */
TEST(clocks_that_cannot_be)
{
	static const uint64_t values[] = {0,	     1, 255, 256, UINT32_MAX, UINT64_C(1) << 32,
					  UINT64_MAX};
	static const unsigned fields[] = {PERFDATA_INFO_MTC_FREQ_BITS, PERFDATA_INFO_TSC_CTC_N,
					  PERFDATA_INFO_TSC_CTC_D,     PERFDATA_INFO_MAX_NONTURBO,
					  PERFDATA_INFO_CYC_BIT,       PERFDATA_INFO_MTC_BIT};
	struct ptah_flow_config flow;
	struct ptah_reader *stream;
	struct ptah_item items[16];
	struct ptah_session *s;
	static struct made m;

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]) * 7; i++) {
		uint64_t info[PERFDATA_INFO_MAX];
		int n;

		memcpy(info, clocks, sizeof(info));
		info[fields[i / 7]] = values[i % 7];
		s = record(&m, info, i % 2 ? CONFIG : UINT64_MAX, "");
		ptah_session_get_flow(s, &flow);
		assert_true(flow.events.trace.mtc_period <= 15 &&
			    flow.events.trace.cyc_threshold <= 15);
		assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
		while ((n = ptah_reader_read(stream, items, 16)) > 0)
			for (int k = 0; k < n; k++)
				assert_int_not_equal(items[k].type, PTAH_ITEM_ERROR);
		assert_int_equal(n, 0);
		ptah_reader_free(stream);
		ptah_session_close(s);
	}
}
