/* SPDX-License-Identifier: MIT */
/*
 * The terms of -e: those of perf-intel-pt(1), and those that a driver describes in its format
 * files.
 */
#include "test.h"

#include "record/perf_event/event_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-test-event-XXXXXX";

static void write_format(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static struct ptah_record_config parsed(const char *text)
{
	struct ptah_record_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};

	if (event_parse(text, folder, &config, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	return config;
}

static void refused(const char *text, const char *sentence)
{
	struct ptah_record_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};

	assert_int_equal(event_parse(text, folder, &config, &why), PTAH_E_INVAL);
	if (!strstr(why.text, sentence))
		fail_msg("%s: '%s' is not in: %s", text, sentence, why.text);
}

TEST(names)
{
	struct ptah_record_config c = parsed("intel_pt/cyc=1,cyc_thresh=2,mtc,mtc_period=3/u");

	assert_true(c.trace.cyc && c.trace.mtc && c.trace.user && !c.trace.os);
	assert_int_equal(c.trace.cyc_threshold, 2);
	assert_int_equal(c.trace.mtc_period, 3);
	assert_true(parsed("intel_pt//k").trace.os);
	assert_false(parsed("intel_pt//k").trace.user);
	assert_true(parsed("intel_pt//uk").trace.user);
	assert_false(parsed("intel_pt/tsc=0/").trace.tsc);
	assert_false(parsed("intel_pt/mtc=0/").trace.mtc);
	assert_int_equal(parsed("intel_pt/mtc/").trace.mtc_period, 0);
	assert_int_equal(parsed("intel_pt/mtc_period=6/").trace.mtc_period, 6);
	assert_int_equal(parsed("intel_pt/mtc_period=0/").trace.mtc_period, PTAH_RECORD_CHOOSE);
	assert_true(parsed("intel_pt/cyc/").trace.mtc);
	assert_int_equal(parsed("intel_pt/cyc/").trace.mtc_period, PTAH_RECORD_CHOOSE);
	assert_true(parsed("intel_pt/tsc/").trace.tsc);
	assert_false(parsed("intel_pt/branch=0/").trace.branch);
	assert_true(parsed("intel_pt/ptw,fup_on_ptw,pwr_evt,event,notnt/").trace.ptwrite);
	assert_true(parsed("intel_pt/ptw,notnt/").trace.no_tnt);
	assert_int_equal(parsed("intel_pt/psb_period=0/").trace.psb_period, 0);
	assert_int_equal(parsed("intel_pt/psb_period=0xf/").trace.psb_period, 15);
	assert_true(parsed("intel_pt/aux-action=start-paused,cyc/").triggers.start_paused);
	assert_true(parsed("intel_pt/aux-action=start-paused,cyc/").trace.cyc);
	assert_false(parsed("intel_pt/cyc/").triggers.start_paused);
	parsed("intel_pt");
	parsed("intel_pt:u");
}

TEST(mistakes)
{
	refused("", "the event is intel_pt/TERMS/");
	refused("cycles", "the event is intel_pt/TERMS/");
	refused("intel_pt2//", "the event is intel_pt/TERMS/");
	refused("intel_pt/cyc", "a slash is missing");
	refused("intel_pt/cyc/x", "the modifiers are");
	refused("intel_pt/pt=0/", "without pt nothing");
	refused("intel_pt/cyc=2/", "cyc takes 0 to 1");
	refused("intel_pt/mtc_period=16/", "mtc_period takes 0 to 15");
	refused("intel_pt/cyc=/", "stands a number");
	refused("intel_pt/cyc=-1/", "stands a number");
	refused("intel_pt/cyc=1x/", "stands a number");
	refused("intel_pt/cyc=99999999999999999999/", "stands a number");
	refused("intel_pt/aux-action=resume/", "is start-paused");
	refused("intel_pt/aux-action=start-pausedx/", "is start-paused");
	refused("intel_pt/nonsense/", "known terms are");
	refused("intel_pt/../../x/", "known terms are");
	refused("intel_pt/,/", "known terms are");
}

/* As /sys/bus/event_source/devices/intel_pt/format has them. */
TEST(driver_terms)
{
	write_format("one", "config:55\n");
	write_format("four", "config:56-59\n");
	write_format("split", "config:0,5-7\n");
	write_format("elsewhere", "config1:0-7\n");
	write_format("wide", "config:60-70\n");
	write_format("empty", "");
	assert_int_equal(parsed("intel_pt/one/").backend.pmu_config, UINT64_C(1) << 55);
	assert_int_equal(parsed("intel_pt/one=0/").backend.pmu_config, 0);
	assert_int_equal(parsed("intel_pt/four=0xa,one/").backend.pmu_config,
			 UINT64_C(0xa) << 56 | UINT64_C(1) << 55);
	/* The lowest bit is bit 0, the next three are bits 5 to 7. */
	assert_int_equal(parsed("intel_pt/split=11/").backend.pmu_config, 1 | 5 << 5);
	assert_int_equal(parsed("intel_pt/four=15,four=1/").backend.pmu_config, UINT64_C(1) << 56);
	refused("intel_pt/four=16/", "not as many bits");
	refused("intel_pt/elsewhere/", "not in config");
	refused("intel_pt/wide=1/", "not as many bits");
	refused("intel_pt/empty/", "no text");
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const files[] = {"one", "four", "split", "elsewhere", "wide", "empty"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		unlink(path);
	}
	return rmdir(folder);
}

TEST_GROUP(make_folder, remove_folder)
