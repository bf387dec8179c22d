/* SPDX-License-Identifier: MIT */
/* The options of `ptah record`, which have perf record's names and meanings. */
#ifndef PTAH_CLI_RECORD_OPTIONS_H
#define PTAH_CLI_RECORD_OPTIONS_H

#include "input.h"
#include "record_target.h"

struct record_options {
	struct input input;	       /* of the tables that ptah live shares with others */
	const struct command *command; /* whose options they are */
	const char *output, *qemu, *plugin, *filter, *only_during, *snapshot, *on_crash,
	    *on_failure, *pages, *delay, *control, *max_size, *symbols, *cr3, *start_at, *stop_at;
	struct text_list events;
	struct target_options target;
	const char *time_resolution;
	bool no_retcomp, long_tnt, mark_loops, truth, no_syscalls, quiet, verbose, no_progress,
	    stop_when_full, no_inherit, kcore, switch_events, no_jit_copies, dry_run, vm;
	uint64_t psb_period, buffer;
	int clock, recorder;
};

/* The table of ptah record is in parts, because ptah live has some of them, too. */
extern const struct option_def record_output_options[], /* --output */
    record_event_options[],   /* --event, --filter, --only-during, --recorder */
    record_machine_options[], /* --vm and what belongs to it */
    record_target_options[],  /* --pid, --tid, --all-cpus, --cpu, --per-thread */
    record_options[],
    record_simulated_options[]; /* --mark-loops, --psb-period, --qemu, --plugin and the like */

#endif
