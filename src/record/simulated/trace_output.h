/* SPDX-License-Identifier: MIT */
/*
 * A thread's simulated processor with the capture engine that directs its output
 * into the thread's trace buffer: byte n of the trace lies at n modulo the
 * buffer's size. For recorders that watch a program and tell the processor what
 * it does.
 *
 * A PMI runs on the thread itself, as an interrupt would: the processor goes to
 * the kernel, where nothing is traced, and the engine looks at it.
 */
#ifndef PTAH_RECORD_SIMULATED_TRACE_OUTPUT_H
#define PTAH_RECORD_SIMULATED_TRACE_OUTPUT_H

#include "model/processor.h"

#include <ptah/engine.h>

/* Where the program is when it is not in its own code. User code alone is traced. */
#define SIMULATED_KERNEL_IP UINT64_C(0xffffffff81000000)

#define SIMULATED_STAGING (64u << 10)
#define SIMULATED_RATIO	  20 /* bus clocks of the processor's maximum, and TSC per crystal tick */
#define SIMULATED_TSC_N	  100
#define SIMULATED_TSC_D	  1

/* The caller's: what is to be where, before trace_output_begin(). */
struct trace_output {
	struct ptah_model *m;
	uint8_t *staging; /* SIMULATED_STAGING bytes */
	uint8_t *buffer;
	uint64_t buffer_size;
	struct ptah_trace_config trace;
	uint8_t policy;		   /* enum ptah_capture_policy */
	ptah_capture_drain *drain; /* for PTAH_POLICY_DRAIN */
	void *cookie;		   /* drain's */
	bool long_tnt;
	int32_t pid;
	uint64_t time; /* TSC */

	struct ptah_engine *engine;
	struct ptah_capture *capture;
	bool buffer_taken;
};

/* What processor it is. */
const struct ptah_model_processor *trace_output_processor(void);

/* The processor is in the kernel, and traces. False: out of memory, or it refused. */
bool trace_output_begin(struct trace_output *o);
/* The same, but the capture waits for ptah_capture_resume(). */
bool trace_output_begin_paused(struct trace_output *o);
void trace_output_end(struct trace_output *o);

/*
 * The instruction at [ip, end), whose kind is an enum insn_kind but not KIND_KERNEL,
 * has run, and execution goes on at `next`.
 */
void trace_output_insn(struct ptah_model *m, unsigned kind, uint64_t ip, uint64_t end,
		       uint64_t next);

/* A filter: addresses [start, start + size) of memory, or of a file where it is mapped. */
uint64_t trace_output_filter_last(uint64_t start, uint64_t size);
/*
 * What a map of [start, end), with the file's `offset` at `start`, shows of
 * [from, from + size) of the file, into *first and *last. False: nothing.
 */
bool trace_output_filter_shown(uint64_t from, uint64_t size, uint64_t start, uint64_t end,
			       uint64_t offset, uint64_t *first, uint64_t *last);

#endif
