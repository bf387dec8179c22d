/* SPDX-License-Identifier: MIT */
/*
 * A thread's simulated processor, and the capture engine that directs its output into the thread's
 * trace buffer: byte n of the trace lies at n modulo the buffer's size. Used by recorders that
 * observe a program and report to the processor what it does.
 *
 * A PMI runs on the thread itself, as an interrupt would: the processor enters the kernel, where
 * nothing is traced, and the engine looks at its output.
 */
#ifndef PTAH_RECORD_SIMULATED_TRACE_OUTPUT_H
#define PTAH_RECORD_SIMULATED_TRACE_OUTPUT_H

#include "model/processor.h"

#include <ptah/engine/engine.h>

/* Address of the processor while it is in the kernel, which is not traced. */
#define SIMULATED_KERNEL_IP UINT64_C(0xffffffff81000000)

#define SIMULATED_STAGING (64u << 10)
#define SIMULATED_RATIO	  20  /* nominal frequency, in multiples of the bus clock */
#define SIMULATED_TSC_N	  100 /* TSC ticks per crystal tick: N / D */
#define SIMULATED_TSC_D	  1

/* The caller fills in the first group of members before trace_output_begin(). */
struct trace_output {
	struct ptah_model *m;
	uint8_t *staging; /* SIMULATED_STAGING bytes */
	uint8_t *buffer;
	uint64_t buffer_size;
	struct ptah_trace_config trace;
	uint8_t policy;		   /* enum ptah_capture_policy */
	ptah_capture_drain *drain; /* for PTAH_POLICY_DRAIN */
	void *cookie;		   /* argument of `drain` */
	bool long_tnt;
	bool mark_loops;
	int32_t pid;
	uint64_t time; /* TSC */

	struct ptah_engine *engine;
	struct ptah_capture *capture;
	bool buffer_taken;
};

/* The processor that is simulated. */
const struct ptah_model_processor *trace_output_processor(void);

/*
 * Starts tracing; the processor is in the kernel then. False: out of memory, or the engine refused
 * the configuration.
 */
bool trace_output_begin(struct trace_output *o);
/* The same, but nothing is traced before ptah_capture_resume(). */
bool trace_output_begin_paused(struct trace_output *o);
void trace_output_end(struct trace_output *o);

/*
 * Reports to the processor that the instruction at [ip, end) has been executed and that execution
 * continues at `next`. kind: an enum insn_kind other than KIND_KERNEL.
 */
void trace_output_insn(struct ptah_model *m, unsigned kind, uint64_t ip, uint64_t end,
		       uint64_t next);

/*
 * Emits a TSC packet with this time, where the program enters the kernel or leaves it: decoders then
 * know where in the path a system call lies.
 */
void trace_output_stamp(struct ptah_model *m, uint64_t tsc);

/*
 * The last address of a filter that begins at `start`, in memory or in a file; UINT64_MAX if it
 * would lie beyond.
 */
uint64_t trace_output_filter_last(uint64_t start, uint64_t size);
/*
 * Which addresses show [from, from + size) of a file that is mapped at [start, end) from `offset`
 * on: *first and *last. False: none.
 */
bool trace_output_filter_shown(uint64_t from, uint64_t size, uint64_t start, uint64_t end,
			       uint64_t offset, uint64_t *first, uint64_t *last);

#endif
