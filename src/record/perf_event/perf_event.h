/* SPDX-License-Identifier: MIT */
/* What tests need of the hardware recorder besides its interface. */
#ifndef PTAH_RECORD_PERF_EVENT_PERF_EVENT_H
#define PTAH_RECORD_PERF_EVENT_PERF_EVENT_H

#include "record/recorder.h"

#include <ptah/caps.h>

/*
 * The check of the recorder hardware on a machine made of files: root is what
 * stands before /proc and /sys, caps the processor. NULL: this machine's.
 */
enum ptah_record_problem perf_event_check(const struct ptah_caps *caps, const char *root,
					  const struct ptah_record_config *config,
					  struct ptah_message *why);

/*
 * The recorder hardware without its trace: the records around it alone, which
 * need no Intel PT. It is not among those that ptah_recorder_new() picks from.
 */
extern const struct recorder_backend recorder_sideband;

#endif
