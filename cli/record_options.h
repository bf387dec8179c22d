/* SPDX-License-Identifier: MIT */
/* The options of `ptah record`, which have perf record's names and meanings. */
#ifndef PTAH_CLI_RECORD_OPTIONS_H
#define PTAH_CLI_RECORD_OPTIONS_H

#include "command.h"
#include "record_target.h"

struct record_options {
	const char *output, *qemu, *plugin, *event, *filter, *snapshot, *on_crash, *on_failure,
	    *pages, *delay, *control, *max_size, *symbols, *cr3, *start_at, *stop_at;
	struct target_options target;
	bool no_retcomp, long_tnt, mark_loops, truth, quiet, verbose, no_progress, stop_when_full,
	    no_inherit, kcore, switch_events, no_jit_copies, dry_run, vm;
	uint64_t psb_period, buffer;
	int clock, recorder;
};

extern const struct option_def record_options[];

#endif
