/* SPDX-License-Identifier: MIT */
/*
 * What -e names beside Intel PT, as in perf record: events that are recorded, and events that switch
 * the trace on and off (EVENT/aux-action=resume/; --only-during, too).
 */
#ifndef PTAH_CLI_RECORD_TRIGGERS_H
#define PTAH_CLI_RECORD_TRIGGERS_H

#include "record_options.h"

struct triggers {
	struct ptah_record_trigger items[PTAH_RECORD_TRIGGERS];
	size_t count;
	char *names[PTAH_RECORD_TRIGGERS + 1]; /* to be freed; and of a function that is too many */
	size_t name_count;
	char *events[PTAH_RECORD_EVENTS]; /* those that are recorded; to be freed */
	size_t event_count;
};

/* Whether the text of -e is such an event, not that of Intel PT. */
bool triggers_is_event(const char *text);
/* The bytes of the first event of a list, in which a comma between slashes is part of an event. */
size_t triggers_length(const char *list);
/* Each returns an exit code, and has printed a message if it is not 0. */
int triggers_add_event(const struct command *command, const char *text, struct triggers *triggers);
/* FUNCTION[@FILE]; a function without a file is one of `program` (NULL: unknown). */
int triggers_add_function(const struct command *command, const char *text, const char *program,
			  struct triggers *triggers);
void triggers_free(struct triggers *triggers);

#endif
