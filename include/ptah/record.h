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

/* What becomes of the trace when the buffer is full. */
enum ptah_record_buffer {
	PTAH_RECORD_DRAIN = 0,	    /* the program waits: nothing is lost */
	PTAH_RECORD_SNAPSHOT,	    /* the oldest goes: the end of the run is kept */
	PTAH_RECORD_STOP_WHEN_FULL, /* tracing stops: the beginning is kept */
	PTAH_RECORD_BUFFER_MAX
};

/* An address range of the processor (IA32_RTIT_ADDRn). */
enum ptah_record_action {
	PTAH_RECORD_FILTER = 1, /* only code in these ranges is traced */
	PTAH_RECORD_STOP = 2,	/* tracing stops for good when execution gets there */
};

#define PTAH_RECORD_FILTERS 4

struct ptah_record_filter {
	enum ptah_record_action action;
	const char *path; /* a file that the program maps, as in /proc/PID/maps; NULL: none */
	uint64_t start;	  /* offset in the file; without one, an address */
	uint64_t size;	  /* UINT64_MAX: to the end */
};

struct ptah_record_config {
	size_t size;	    /* sizeof(struct ptah_record_config) */
	const char *output; /* NULL: "perf.data" */
	char *const *argv;  /* the command, NULL-terminated; argv[0] is looked up in PATH */
	bool no_retcomp;    /* without return compression */
	bool long_tnt;	    /* TNT-64 packets */
	enum ptah_record_clock clock;
	uint32_t
	    psb_period;	  /* bytes of trace between PSB+; 0: 4096; power of two, 2 KiB to 64 MiB */
	const char *qemu; /* NULL: qemu-x86_64 in PATH */
	const char *plugin; /* NULL: beside the library */
	enum ptah_record_buffer buffer;
	/* Bytes of trace kept for each thread; 0: 4 MiB. Up to 64 MiB, in whole 64 KiB. */
	uint64_t buffer_size;
	const struct ptah_record_filter *filters;
	size_t filter_count;
	/* Packets about time; with the clock PTAH_CLOCK_INSN an instruction takes a cycle. */
	bool mtc, cyc;
	uint8_t mtc_period;    /* an MTC every 2^n crystal ticks */
	uint8_t cyc_threshold; /* 0, or 2^(n - 1) cycles */
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

/*
 * The file that runs when `argv` is a command: argv[0] found in PATH, "#!"
 * lines followed. Its path as the system lists it in /proc/PID/maps.
 * PTAH_E_MISSING and the like when there is none; PTAH_E_NOSPACE.
 */
PTAH_API int ptah_record_program(char *const *argv, char *path, size_t size);

#endif
