/* SPDX-License-Identifier: MIT */
/* What tests need of the recorder hardware beyond its interface. */
#ifndef PTAH_RECORD_PERF_EVENT_PERF_EVENT_H
#define PTAH_RECORD_PERF_EVENT_PERF_EVENT_H

#include "record/recorder.h"

#include <ptah/engine/caps.h>

/*
 * The recorder's check on a simulated machine: root is the prefix of /proc and /sys, caps the
 * processor. NULL: this machine's.
 */
enum ptah_record_problem perf_event_check(const struct ptah_caps *caps, const char *root,
					  const struct ptah_record_config *config,
					  struct ptah_message *why);

/*
 * The recorder hardware without trace: it records maps, names and switches, which needs no Intel
 * PT. ptah_recorder_new() does not choose it.
 */
extern const struct recorder_backend recorder_sideband;

#endif
