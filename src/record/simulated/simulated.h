/* SPDX-License-Identifier: MIT */
/* What the recorders with a simulated processor, qemu and ptrace, have in common. */
#ifndef PTAH_RECORD_SIMULATED_SIMULATED_H
#define PTAH_RECORD_SIMULATED_SIMULATED_H

#include "record/recorder.h"

#include <ptah/engine.h>

#define SIMULATED_DEFAULT_BUFFER (4u << 20)
#define SIMULATED_MIN_BUFFER	 (64u << 10)
#define SIMULATED_MAX_BUFFER	 (64u << 20)

/* User code alone, with the packets that were asked for. */
struct ptah_trace_config simulated_trace(const struct ptah_record_config *config);

/* Bytes of a file, or of memory, that a filter covers. */
uint64_t simulated_filter_size(const struct ptah_record_filter *filter);

/* What none of them can do, and nobody may expect of them silently. */
enum ptah_record_problem simulated_check(const struct ptah_record_config *config,
					 struct ptah_message *why);

/*
 * Opens the writer for what simulated_trace() gives, and fills r->metadata. moments:
 * pieces of trace may overlap, as a driver's snapshots do.
 */
int simulated_open_writer(struct ptah_recorder *r, bool moments);

#endif
