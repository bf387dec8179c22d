/* SPDX-License-Identifier: MIT */
/* Parses the text that names an event and its terms, as perf's -e takes it. */
#ifndef PTAH_RECORD_PERF_EVENT_EVENT_SPEC_H
#define PTAH_RECORD_PERF_EVENT_EVENT_SPEC_H

#include <ptah/record.h>

/* ptah_record_parse_event(), with the driver's format files in the folder `formats`. */
int event_parse(const char *text, const char *formats, struct ptah_record_config *config,
		struct ptah_message *why);

#endif
