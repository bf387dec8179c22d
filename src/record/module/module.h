/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder module share: module.c answers the calls of the interface, check.c
 * finds out whether the recording is possible, device.c makes the driver's calls, streams.c brings
 * trace from the driver's buffers into the recording, and exec.c holds a command at its execve().
 * The records of maps, names and switches are perf's: record/perf_event/.
 */
#ifndef PTAH_RECORD_MODULE_MODULE_H
#define PTAH_RECORD_MODULE_MODULE_H

#include "record/module/device.h"
#include "record/perf_event/hardware.h"
#include "record/perf_event/proc.h"
#include "record/recording.h"

/* A capture of the driver: its buffer and page are mapped. */
struct module_stream {
	uint32_t capture; /* the driver's number */
	uint32_t stream;  /* the recording's */
	bool ended;	  /* its thread has, and its trace was taken */
	bool counted;	  /* it has trace */
	struct device_mapping mapping;
	struct ptah_capture_reader reader;
	uint64_t taken; /* position up to which the bytes are in the recording */
};

struct module {
	struct hardware records;
	struct hardware_source source;
	struct device device;
	struct ptah_recording *recording;
	struct module_stream *streams;
	size_t stream_count, stream_room;
	uint64_t missed; /* threads for which the driver had no capture */
	struct ptah_trace_config trace;
};

/* check.c */

enum ptah_record_problem module_check(const struct ptah_record_config *config,
				      struct ptah_message *why);
/* What perf's driver would say about this processor. */
void module_describe(const struct ptah_caps *caps, struct pmu *pmu);
/* What to trace, as the driver gets it: word is the attr.config of perf's driver. */
void module_trace_config(const struct ptah_record_config *config, uint64_t word,
			 struct ptah_trace_config *trace);
/*
 * Makes address ranges of the filters. A file's code is looked up in the mappings of process `pid`;
 * 0: none.
 */
int module_place_filters(struct ptah_recorder *r, int32_t pid, struct ptah_trace_config *trace);

/* streams.c */

/* Adds a capture, which is released with the streams; at once, if this fails. */
int module_add_stream(struct module *m, const struct device_mapping *mapping);
/* Takes what has been traced; of buffers that wrap only with `all`, while nothing is traced. */
int module_drain(struct module *m, bool all);
void module_free_streams(struct module *m);

/* exec.c */

/*
 * Lets the held command run up to the end of its execve(), where it stops before its first
 * instruction. Returns 1; 0: it ended before that.
 */
int module_run_to_exec(struct hardware *h);
/* Lets it run on. */
void module_let_go(int32_t pid);

#endif
