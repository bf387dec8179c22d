/* SPDX-License-Identifier: MIT */
/* -e EVENT, -e EVENT/aux-action=ACTION/ and --only-during (record_triggers.h). */
#include "record_triggers.h"

#include "record_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ACTION "/aux-action="

bool triggers_is_event(const char *text)
{
	return strncmp(text, "intel_pt", 8) != 0 || !strchr("/:", text[8]);
}

size_t triggers_length(const char *list)
{
	bool in_terms = false;
	size_t n = 0;

	for (; list[n] && (list[n] != ',' || in_terms); n++)
		in_terms ^= list[n] == '/';
	return n;
}

static int complain(const struct command *command, const char *text, const char *what)
{
	fail(command,
	     "-e %s: %s. Beside intel_pt there are events that are recorded (tracepoints "
	     "GROUP:NAME, "
	     "page-faults, cycles and the like) and those that switch the trace: "
	     "GROUP:NAME/aux-action=pause/ of a tracepoint, mem:ADDRESS:x/aux-action=resume/ of an "
	     "instruction (see ptah-record(1))",
	     text, what);
	return EXIT_USAGE;
}

static struct ptah_record_trigger *new_trigger(const struct command *command,
					       struct triggers *triggers)
{
	if (triggers->count == PTAH_RECORD_TRIGGERS) {
		fail(command, "more than %d events pause and resume the trace",
		     PTAH_RECORD_TRIGGERS);
		return NULL;
	}
	triggers->items[triggers->count] = (struct ptah_record_trigger){0};
	return &triggers->items[triggers->count++];
}

/* Takes over a name from the heap. */
static const char *keep_name(struct triggers *triggers, char *name)
{
	if (name)
		triggers->names[triggers->name_count++] = name;
	return name;
}

/* "mem:0x401000:x" */
static bool parse_breakpoint(const char *name, uint64_t *address)
{
	char *end;

	errno = 0;
	*address = strtoull(name + 4, &end, 0);
	return name[4] >= '0' && name[4] <= '9' && !errno && !strcmp(end, ":x");
}

/* An event whose samples are recorded. The recorder knows which there are. */
static int add_recorded(const struct command *command, const char *text, struct triggers *triggers)
{
	if (triggers->event_count == PTAH_RECORD_EVENTS) {
		fail(command, "more than %d events beside Intel PT", PTAH_RECORD_EVENTS);
		return EXIT_USAGE;
	}
	triggers->events[triggers->event_count] = strdup(text);
	return triggers->events[triggers->event_count++]
		   ? EXIT_OK
		   : fail(command, "%s", ptah_strerror(PTAH_E_NOMEM));
}

int triggers_add_event(const struct command *command, const char *text, struct triggers *triggers)
{
	const char *slash = strchr(text, '/');
	struct ptah_record_trigger *trigger;
	bool resume;
	char *name;

	if (!slash && strncmp(text, "mem:", 4) != 0)
		return add_recorded(command, text, triggers);
	if (!slash || strncmp(slash, ACTION, strlen(ACTION)) != 0)
		return complain(command, text, "such an event needs an aux-action");
	resume = !strcmp(slash + strlen(ACTION), "resume/");
	if (!resume && strcmp(slash + strlen(ACTION), "pause/") != 0)
		return complain(command, text, "its aux-action is pause or resume");
	trigger = new_trigger(command, triggers);
	if (!trigger)
		return EXIT_USAGE;
	name = strndup(text, (size_t)(slash - text));
	trigger->name = keep_name(triggers, name);
	if (!name)
		return fail(command, "%s", ptah_strerror(PTAH_E_NOMEM));
	trigger->resume = resume;
	trigger->kind = PTAH_TRIGGER_TRACEPOINT;
	if (!strncmp(name, "mem:", 4)) {
		trigger->kind = PTAH_TRIGGER_ADDRESS;
		if (!parse_breakpoint(name, &trigger->address))
			return complain(command, text, "it is no address with :x after it");
	} else if (!strchr(name, ':')) {
		return complain(command, text, "it is no tracepoint");
	}
	return EXIT_OK;
}

int triggers_add_function(const struct command *command, const char *text, const char *program,
			  struct triggers *triggers)
{
	struct ptah_record_filter function = {0};
	int status = filters_find_function(command, "only-during", text, program, &function);
	const char *path = keep_name(triggers, (char *)(uintptr_t)function.path);

	for (int at_return = 0; at_return < 2 && status == EXIT_OK; at_return++) {
		struct ptah_record_trigger *trigger = new_trigger(command, triggers);

		if (!trigger)
			return EXIT_USAGE;
		*trigger = (struct ptah_record_trigger){.kind = at_return ? PTAH_TRIGGER_RETURN
									  : PTAH_TRIGGER_ENTRY,
							.resume = !at_return,
							.name = path,
							.address = function.start};
	}
	return status;
}

void triggers_free(struct triggers *triggers)
{
	for (size_t i = 0; i < triggers->name_count; i++)
		free(triggers->names[i]);
	for (size_t i = 0; i < triggers->event_count; i++)
		free(triggers->events[i]);
}
