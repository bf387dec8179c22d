/* SPDX-License-Identifier: MIT */
/*
 * With simulated drivers, configurations become the config words that the bit positions in sysfs
 * give, computed here by hand, or are refused with the valid values.
 */
#include "machine.h"

#include "record/perf_event/perf_event.h"
#include "record/perf_event/pmu.h"

#include <ptah/engine/caps.h>

static struct pmu driver(void)
{
	struct pmu pmu;

	put_driver();
	assert_int_equal(pmu_read(root, &pmu), 0);
	return pmu;
}

TEST(files_are_read)
{
	struct pmu pmu = driver();

	assert_int_equal(pmu.type, 8);
	assert_int_equal(pmu.term_count, 14);
	assert_int_equal(pmu_bits(&pmu, "tsc"), 0x400);
	assert_int_equal(pmu_bits(&pmu, "mtc_period"), 0x3c000);
	assert_int_equal(pmu_bits(&pmu, "notnt"), UINT64_C(1) << 55);
	assert_int_equal(pmu_bits(&pmu, "mtc_per"), 0);
	assert_int_equal(pmu.mtc_periods, 0x249);
	assert_int_equal(pmu.cycle_thresholds, 0x1fff);
	assert_int_equal(pmu.num_address_ranges, 2);
	assert_false(pmu.power_event_trace);
	assert_int_equal(pmu.nominal_ratio, 36);
	assert_int_equal(pmu.tsc_art_n, 188);
	assert_int_equal(pmu.tsc_art_d, 2);

	/* The kernel's syntax allows fields in pieces, and in other config words. */
	put_file(PMU "/format/strange", "config:40-41,60,62-63\n");
	put_file(PMU "/format/second", "config1:0-63\n");
	put_file(PMU "/format/nonsense", "config:9-4\n");
	put_file(PMU "/format/large", "config:64\n");
	assert_int_equal(pmu_read(root, &pmu), 0);
	assert_int_equal(pmu_bits(&pmu, "strange"), UINT64_C(0xd000030000000000));
	assert_int_equal(pmu_bits(&pmu, "second"), 0);
	assert_int_equal(pmu_bits(&pmu, "nonsense"), 0);
	assert_int_equal(pmu_bits(&pmu, "large"), 0);
	remove_file(PMU "/format/strange");
	remove_file(PMU "/type");
	assert_int_equal(pmu_read(root, &pmu), PTAH_E_MISSING);
}

static const struct ptah_record_config plain = {.size = sizeof(plain),
						.trace = {.size = sizeof(plain.trace),
							  .user = true,
							  .branch = true,
							  .tsc = true,
							  .mtc = true,
							  .mtc_period = PTAH_RECORD_CHOOSE,
							  .psb_period = PTAH_RECORD_CHOOSE}};

TEST(words)
{
	const struct pmu pmu = driver();
	struct ptah_record_config c;
	struct ptah_message why;
	uint64_t word;

	/* As perf's intel_pt//: pt, tsc, branch; PSBs every 16 KiB (3), MTCs every 8 ticks (3) */
	assert_int_equal(pmu_config(&pmu, &plain, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x3002401 | 0x200 | 3 << 14);
	c = plain;
	c.trace.mtc_period = 6; /* perf's intel_pt/mtc_period=6/ */
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x3002401 | 0x200 | 6 << 14);
	c = plain;
	c.trace.mtc = false;
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x3002401);
	c = plain;
	c.trace.tsc = c.trace.branch = false;
	c.trace.no_retcomp = true;
	c.trace.psb_period = 5;
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x5000801);
	c = plain;
	c.trace.mtc = c.trace.cyc = true;
	c.trace.mtc_period = 9;
	c.trace.cyc_threshold = 12;
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x3002401 | 0x202 | 9 << 14 | 12 << 19);
	c = plain;
	c.trace.ptwrite = c.trace.fup_on_ptwrite = c.trace.no_tnt = true;
	c.backend.pmu_config = UINT64_C(1) << 31;
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x300e601 | 0x1020 | UINT64_C(1) << 55 | UINT64_C(1) << 31);
}

/* If a driver has a field elsewhere, the config word has it there. */
TEST(the_format_is_the_drivers)
{
	struct ptah_record_config c = plain;
	struct ptah_message why;
	struct pmu pmu = driver();
	uint64_t word;

	put_file(PMU "/format/tsc", "config:60\n");
	put_file(PMU "/format/psb_period", "config:32-35\n");
	assert_int_equal(pmu_read(root, &pmu), 0);
	c.trace.psb_period = 1;
	c.trace.mtc = false;
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, UINT64_C(0x1000000100002001));
	/* Before Linux 4.19 there was neither pt nor branch. */
	put_driver();
	remove_file(PMU "/format/pt");
	remove_file(PMU "/format/branch");
	assert_int_equal(pmu_read(root, &pmu), 0);
	assert_int_equal(pmu_config(&pmu, &plain, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x300c600);
	c = plain;
	c.trace.branch = false;
	assert_int_equal(pmu_config(&pmu, &c, &word, &why), PTAH_RECORD_BAD_OPTION);
	/* A processor with the periods 0 and 1: 1 is nearest to the default of 3. */
	put_driver();
	put_file(PMU "/caps/psb_periods", "3\n");
	assert_int_equal(pmu_read(root, &pmu), 0);
	assert_int_equal(pmu_config(&pmu, &plain, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0x100e601);
	put_file(PMU "/caps/psb_cyc", "0\n");
	assert_int_equal(pmu_read(root, &pmu), 0);
	assert_int_equal(pmu_config(&pmu, &plain, &word, &why), PTAH_RECORD_FINE);
	assert_int_equal(word, 0xe601);
}

static void refused(const struct pmu *pmu, const struct ptah_record_config *c, const char *words)
{
	struct ptah_message why = {""};
	uint64_t word;

	assert_int_equal(pmu_config(pmu, c, &word, &why), PTAH_RECORD_BAD_OPTION);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.text);
}

TEST(what_is_not_valid)
{
	struct pmu pmu = driver();
	struct ptah_record_config c = plain;

	c.trace.mtc = true;
	c.trace.mtc_period = 4;
	refused(&pmu, &c, "mtc_period=4 is not for this processor: valid values are 0,3,6,9");
	c.trace.mtc_period = 3;
	pmu.mtc = false;
	refused(&pmu, &c, "mtc=1: this processor cannot");
	c = plain;
	c.trace.cyc = true;
	c.trace.cyc_threshold = 13;
	refused(&pmu, &c, "valid values are 0,1,2,3,4,5,6,7,8,9,10,11,12");
	c = plain;
	c.trace.psb_period = 6;
	refused(&pmu, &c, "psb_period=6 is not for this processor: valid values are 0,1,2,3,4,5");
	pmu.psb_cyc = false;
	refused(&pmu, &c, "cannot be set");
	c = plain;
	c.trace.cyc = true;
	refused(&pmu, &c, "cyc=1");
	c = plain;
	c.trace.power_events = true;
	refused(&pmu, &c, "pwr_evt=1");
	c = plain;
	c.trace.event_trace = true;
	refused(&pmu, &c, "event=1");
	c = plain;
	c.trace.fup_on_ptwrite = true;
	refused(&pmu, &c, "without ptw=1");
	pmu.ptwrite = false;
	c.trace.ptwrite = true;
	refused(&pmu, &c, "ptw=1: this processor");
	c = plain;
	pmu.tnt_disable = false;
	c.trace.no_tnt = true;
	refused(&pmu, &c, "notnt=1");
	c = plain;
	c.backend.pmu_config = UINT64_C(1) << 44;
	refused(&pmu, &c, "0x100000000000");
}

TEST(attributes)
{
	const struct pmu pmu = driver();
	const struct pmu_layout command = {.per_cpu = true, .inherit = true, .on_exec = true};
	const struct pmu_layout paused = {.on_exec = true, .paused = true, .snapshot = true};
	struct ptah_record_config c = plain;
	struct perf_event_attr a;
	unsigned less = 0;

	pmu_trace_attr(&pmu, &c, &command, 0x2401, 4 << 20, &a);
	assert_int_equal(a.type, 8);
	assert_int_equal(a.size, 120);
	assert_int_equal(a.config, 0x2401);
	assert_int_equal(a.sample_period, 1);
	assert_int_equal(a.sample_type, 1 | 2 | 4 | 1 << 7 | 1 << 16);
	assert_int_equal(a.read_format, 4);
	assert_true(a.disabled && a.inherit && a.enable_on_exec && a.sample_id_all);
	assert_true(a.exclude_kernel && a.exclude_hv && !a.exclude_user);
	assert_int_equal(a.aux_watermark, 1 << 20);
	/* TraceEn, User, ToPA, TSCEn, BranchEn: SDM, "IA32_RTIT_CTL MSR" */
	assert_int_equal(pmu_rtit_ctl(&pmu, &a), 0x2509);
	a.config = 0x400; /* without pt the driver adds BranchEn */
	a.exclude_user = 1;
	a.exclude_kernel = 0;
	assert_int_equal(pmu_rtit_ctl(&pmu, &a), 0x2505);

	c.trace.user = false;
	c.trace.os = true;
	pmu_trace_attr(&pmu, &c, &paused, 0x2401, 4 << 20, &a);
	assert_true(!a.exclude_kernel && a.exclude_user);
	assert_true(!a.enable_on_exec && !a.inherit && a.disabled);
	assert_int_equal(a.aux_watermark, 0);

	/* The records continue while the trace is paused. */
	pmu_sideband_attr(&c, &paused, 1 << 20, &a);
	assert_int_equal(a.type, 1);
	assert_int_equal(a.config, 9); /* PERF_COUNT_SW_DUMMY */
	assert_true(a.enable_on_exec && a.mmap && a.mmap2 && a.comm && a.comm_exec && a.task);
	assert_true(a.context_switch && a.build_id && a.sample_id_all && a.watermark);
	assert_false(a.ksymbol || a.text_poke || a.bpf_event);
	assert_int_equal(a.sample_type, 2 | 4 | 1 << 7 | 1 << 16);
	assert_int_equal(a.wakeup_watermark, 1 << 18);
	pmu_sideband_attr(&c, &command, 1 << 20, &a);
	assert_true(a.ksymbol && a.text_poke && a.bpf_event);
	while (pmu_sideband_less(&a))
		less++;
	assert_int_equal(less, 4);
	assert_false(a.build_id || a.text_poke || a.ksymbol || a.bpf_event || a.context_switch);
	assert_true(a.mmap2 && a.comm_exec && a.task); /* required */
}

/* The text of filters, as perf_event_open(2) describes it for PERF_EVENT_IOC_SET_FILTER. */
TEST(filters)
{
	const struct pmu pmu = driver();
	struct ptah_record_filter f[3] = {
	    {PTAH_RANGE_FILTER, "/bin/true", 0x1234, 0x10},
	    {PTAH_RANGE_STOP, "/lib/x.so", 0x20, 0x1},
	    {PTAH_RANGE_FILTER, NULL, 0xffffffff81000000, 0x1000},
	};
	struct ptah_record_config c = plain;
	struct ptah_message why = {""};
	char path[512];
	char *text = NULL;

	c.filters = f;
	c.filter_count = 2;
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_FINE);
	assert_string_equal(text, "filter 0x1234/0x10@/bin/true,stop 0x20/0x1@/lib/x.so");
	free(text);
	c.filter_count = 3;
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_BAD_OPTION);
	assert_non_null(strstr(why.text, "3 address filters: this processor has 2"));
	c.filters = f + 1;
	c.filter_count = 2;
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_BAD_OPTION);
	assert_non_null(strstr(why.text, "names no file"));
	c.trace.user = false;
	c.trace.os = true;
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_FINE);
	assert_string_equal(text, "stop 0x20/0x1@/lib/x.so,filter 0xffffffff81000000/0x1000");
	free(text);
	c.target.kind = PTAH_RECORD_CPUS;
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_NOT_POSSIBLE);
	assert_null(text);
	c = plain;
	c.filters = f;
	c.filter_count = 1;
	f[0].path = "/tmp/a b";
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_NOT_POSSIBLE);
	/* To the end of the file. */
	put_file("/code", "0123456789");
	snprintf(path, sizeof(path), "%s/code", root);
	f[0] = (struct ptah_record_filter){PTAH_RANGE_FILTER, path, 4, UINT64_MAX};
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_FINE);
	assert_non_null(strstr(text, "filter 0x4/0x6@"));
	free(text);
	f[0].start = 10;
	assert_int_equal(pmu_filters(&pmu, &c, &text, &why), PTAH_RECORD_BAD_OPTION);
}

static const struct ptah_record_sink nowhere = {.take = NULL, .context = NULL};

/* The recorder's check on machines that each lack one thing. */
TEST(checks)
{
	char *command[] = {"true", NULL}, *missing[] = {"nonexistent-program", NULL};
	struct ptah_caps caps = {.size = sizeof(caps), .topa = true};
	struct ptah_record_config c = plain;
	struct ptah_message why = {""};

	driver();
	c.target.argv = command;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_FINE);
	c.trace.user = false;
	c.trace.os = true;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_PERMISSION);
	assert_non_null(strstr(why.text, "perf_event_paranoid is 2"));
	put_file("/proc/sys/kernel/perf_event_paranoid", "1\n");
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_FINE);
	c.target.kind = PTAH_RECORD_CPUS;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_PERMISSION);
	assert_non_null(strstr(why.text, "whole processors"));
	put_file("/proc/sys/kernel/perf_event_paranoid", "3\n");
	c = plain;
	c.target.argv = command;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_PERMISSION);
	put_driver();
	c.target.argv = missing;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_NO_TARGET);
	c.target.argv = command;
	c.backend.long_tnt = true;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_NOT_POSSIBLE);
	c.backend.long_tnt = false;
	c.buffer.size = 3 << 20;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_BAD_OPTION);
	c.buffer.size = 4096; /* a single page is enough only where it is overwritten */
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_BAD_OPTION);
	c.buffer.policy = PTAH_RECORD_SNAPSHOT;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_FINE);
	c.buffer.policy = PTAH_RECORD_DRAIN;
	c.buffer.size = 0;
	c.output.kcore = true;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_NOT_POSSIBLE);
	assert_non_null(strstr(why.text, "kcore"));
	c.output.sink = &nowhere; /* as in a dry run: everything else is checked */
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_NOT_POSSIBLE);
	assert_non_null(strstr(why.text, "/proc/kcore"));
	c.output.sink = NULL;
	c.output.kcore = false;
	c.trace.mtc = true;
	c.trace.mtc_period = 1;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_BAD_OPTION);
	remove_file(PMU "/type");
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_NO_DRIVER);
	caps.obstacle = PTAH_CAPS_NO_PT;
	assert_int_equal(perf_event_check(&caps, root, &c, &why), PTAH_RECORD_NO_PROCESSOR);
}

TEST(all_pmus)
{
	char *list;

	driver();
	put_file("/sys/bus/event_source/devices/cpu/type", "4\n");
	list = pmu_list(root);
	assert_non_null(list);
	assert_non_null(strstr(list, "8 intel_pt\n"));
	assert_non_null(strstr(list, "4 cpu\n"));
	assert_int_equal(strlen(list), strlen("8 intel_pt\n4 cpu\n"));
	free(list);
	assert_null(pmu_list("/nonexistent"));
}

TEST_GROUP(make_root, remove_root)
