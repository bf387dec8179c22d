/* SPDX-License-Identifier: MIT */
/*
 * Recording a command.
 *
 * The recorder here runs the command under qemu-user with a plugin that feeds
 * the simulated PT processor: it needs no PT hardware and no privileges. The
 * file it makes is perf.data (see session.h).
 */
#ifndef PTAH_RECORD_H
#define PTAH_RECORD_H

#include <ptah/session.h>

enum ptah_record_clock {
	PTAH_CLOCK_INSN = 0, /* TSC counts retired instructions: repeatable */
	PTAH_CLOCK_HOST = 1, /* TSC is nanoseconds of CLOCK_MONOTONIC */
};

struct ptah_record_config {
	size_t size;	    /* sizeof(struct ptah_record_config) */
	const char *output; /* NULL: "perf.data" */
	char *const *argv;  /* the command, NULL-terminated; argv[0] is looked up in PATH */
	bool no_retcomp;    /* without return compression */
	bool long_tnt;	    /* TNT-64 packets */
	enum ptah_record_clock clock;
	uint32_t
	    psb_period;	  /* bytes of trace between PSB+; 0: 4096; power of two, 2 KiB to 128 MiB */
	const char *qemu; /* NULL: qemu-x86_64 in PATH */
	const char *plugin; /* NULL: beside the library */
};

struct ptah_record_result {
	int wait_status; /* of the command, as waitpid() gives it */
	uint64_t trace_bytes;
	uint64_t instructions;
	uint32_t threads;
	uint32_t notes; /* remarks stored in the file (children left out, ...) */
};

/*
 * Runs the command to its end and records it. Returns 0 when the recording is
 * whole, whatever the command's exit status. On failure nothing is left at
 * `output` and *why says what happened.
 */
PTAH_API int ptah_record(const struct ptah_record_config *config, struct ptah_record_result *result,
			 struct ptah_message *why);

#endif
