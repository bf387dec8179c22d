/* SPDX-License-Identifier: MIT */
/* The samples of a recording, by time and by thread. */
#ifndef PTAH_SESSION_SAMPLES_H
#define PTAH_SESSION_SAMPLES_H

#include "perfdata/tracing_data.h"
#include "support/table.h"

#include <ptah/session.h>

struct perfdata_record;

/* A sample or a context switch. What is in its record is read again when it is asked for. */
struct sample {
	uint64_t time;	       /* by perf's clock */
	const uint8_t *record; /* in the file */
	int32_t pid, tid;
	uint32_t event;
	uint8_t kind;  /* enum ptah_sample_kind */
	uint32_t next; /* the next one of the same thread; UINT32_MAX: none */
};

struct sample_event {
	char name[128];
	const struct tracing_format *format; /* NULL: none is known */
	uint32_t type, aux_action;
	uint64_t config, count;
};

/* The samples of a session. Everything is sorted by samples_finish(). */
struct samples {
	struct sample *samples;
	size_t count, capacity;
	struct sample_event *events;
	size_t event_count;
	struct tracing_formats formats;
	struct table first_of_thread;
};

/* Takes a record that is a sample or a context switch. */
int samples_take(struct ptah_session *session, const struct perfdata_record *record);

/* All records were read. */
int samples_finish(struct ptah_session *session);

void samples_free(struct samples *samples);

size_t session_events(const struct ptah_session *session);

/* The field of this name. PTAH_E_MISSING: there is none. */
int sample_find_field(const struct ptah_session *session, const struct ptah_sample *sample,
		      const char *name, struct ptah_sample_field *field);

#endif
