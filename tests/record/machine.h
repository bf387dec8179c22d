/* SPDX-License-Identifier: MIT */
/* A simulated machine: writes the files of its /proc and /sys. */
#ifndef PTAH_TESTS_MACHINE_H
#define PTAH_TESTS_MACHINE_H

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PMU "/sys/bus/event_source/devices/intel_pt"

static char root[] = "/tmp/ptah-test-machine-XXXXXX";

static inline void put_file(const char *path, const char *text)
{
	char name[512];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(name, 0777);
		*slash = '/';
	}
	f = fopen(name, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static inline void remove_file(const char *path)
{
	char name[512];

	snprintf(name, sizeof(name), "%s%s", root, path);
	unlink(name);
}

/*
 * The driver's files as of Linux 6.1 on a processor of the twelfth generation: bit positions as in
 * arch/x86/events/intel/pt.c, capabilities in hexadecimal.
 */
static inline void put_driver(void)
{
	static const char *const files[][2] = {
	    {PMU "/type", "8\n"},
	    {PMU "/max_nonturbo_ratio", "36\n"},
	    {PMU "/tsc_art_ratio", "188:2\n"},
	    {PMU "/format/pt", "config:0\n"},
	    {PMU "/format/cyc", "config:1\n"},
	    {PMU "/format/pwr_evt", "config:4\n"},
	    {PMU "/format/fup_on_ptw", "config:5\n"},
	    {PMU "/format/mtc", "config:9\n"},
	    {PMU "/format/tsc", "config:10\n"},
	    {PMU "/format/noretcomp", "config:11\n"},
	    {PMU "/format/ptw", "config:12\n"},
	    {PMU "/format/branch", "config:13\n"},
	    {PMU "/format/mtc_period", "config:14-17\n"},
	    {PMU "/format/cyc_thresh", "config:19-22\n"},
	    {PMU "/format/psb_period", "config:24-27\n"},
	    {PMU "/format/event", "config:31\n"},
	    {PMU "/format/notnt", "config:55\n"},
	    {PMU "/caps/psb_cyc", "1\n"},
	    {PMU "/caps/mtc", "1\n"},
	    {PMU "/caps/ip_filtering", "1\n"},
	    {PMU "/caps/ptwrite", "1\n"},
	    {PMU "/caps/power_event_trace", "0\n"},
	    {PMU "/caps/event_trace", "0\n"},
	    {PMU "/caps/tnt_disable", "1\n"},
	    {PMU "/caps/topa_output", "1\n"},
	    {PMU "/caps/num_address_ranges", "2\n"},
	    {PMU "/caps/mtc_periods", "249\n"},
	    {PMU "/caps/cycle_thresholds", "1fff\n"},
	    {PMU "/caps/psb_periods", "3f\n"},
	    {"/proc/sys/kernel/perf_event_paranoid", "2\n"},
	    {"/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n"},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		put_file(files[i][0], files[i][1]);
}

static inline int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

#endif
