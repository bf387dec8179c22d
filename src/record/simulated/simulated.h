/* SPDX-License-Identifier: MIT */
/*
 * What the recorders with a simulated processor (qemu, ptrace) share outside the program: options
 * and the opening of the writer.
 */
#ifndef PTAH_RECORD_SIMULATED_SIMULATED_H
#define PTAH_RECORD_SIMULATED_SIMULATED_H

#include "record/recorder.h"

#include <ptah/engine/engine.h>

#define SIMULATED_DEFAULT_BUFFER (4u << 20)
#define SIMULATED_MIN_BUFFER	 (64u << 10)
#define SIMULATED_MAX_BUFFER	 (64u << 20)

/* Notes about a thread of whose trace a part is missing. PRIu64: what was kept, and of how much. */
#define SIMULATED_NOTE_END                                                                         \
	"snapshot: the last %" PRIu64 " bytes of %" PRIu64 " bytes of trace were kept"
/* PRIu64: the size of its buffer. */
#define SIMULATED_NOTE_FULL                                                                        \
	"tracing of a thread ended when its buffer of %" PRIu64 " bytes was full"

/* The trace that a configuration asks for. User code alone is traced. */
struct ptah_trace_config simulated_trace(const struct ptah_record_config *config);

/*
 * The number of bytes that a filter covers. A filter "to the end" of a file needs the file's size.
 */
uint64_t simulated_filter_size(const struct ptah_record_filter *filter);

/* Refuses the options that no simulated processor has, so that none is ignored silently. */
enum ptah_record_problem simulated_check(const struct ptah_record_config *config,
					 struct ptah_message *why);

/*
 * Opens the writer for a trace as of simulated_trace(), and fills in r->metadata. moments: pieces
 * of trace may overlap, as the snapshots of the kernel's driver do. clock: NULL: a tick is a
 * nanosecond. calls: there will be samples of system calls.
 */
int simulated_open_writer(struct ptah_recorder *r, bool moments, const struct perfdata_clock *clock,
			  bool calls);

#endif
