/* SPDX-License-Identifier: MIT */
/* Parses what to record: lists of processes, threads or CPUs (--pid, --tid, --cpu). */
#include "record_target.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IDS 8192 /* the most processors that Linux can have (CONFIG_NR_CPUS) */

struct list {
	const struct command *command;
	const char *option, *text;
	bool ranges;   /* N-M is allowed: these are processors */
	int32_t least; /* the smallest valid number */
	int32_t *ids;
	size_t count;
};

static int complain_target(const struct list *l, const char *what)
{
	fail(l->command, "%s %s: %s", l->option, l->text, what);
	return EXIT_USAGE;
}

static bool take_target_number(const char **at, int32_t *number)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(*at, &end, 10);
	if (**at < '0' || **at > '9' || errno || value > INT32_MAX)
		return false;
	*at = end;
	*number = (int32_t)value;
	return true;
}

/* A number that is already in the list is not added again. */
static bool add_target_id(struct list *l, int32_t id)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->ids[i] == id)
			return true;
	if (l->count == MAX_IDS)
		return false;
	l->ids[l->count++] = id;
	return true;
}

static int add_target_range(struct list *l, int32_t from, int32_t to)
{
	if (to < from)
		return complain_target(l, "a range goes from the smaller to the larger number");
	for (int64_t id = from; id <= to; id++)
		if (!add_target_id(l, (int32_t)id))
			return complain_target(l, "that is too many");
	return EXIT_OK;
}

static int parse_list(struct list *l)
{
	const char *at = l->text;

	l->ids = calloc(MAX_IDS, sizeof(*l->ids));
	if (!l->ids)
		return fail(l->command, "%s", ptah_strerror(PTAH_E_NOMEM));
	do {
		int32_t from, to;
		int status;

		if (!take_target_number(&at, &from))
			return complain_target(l, l->ranges
						      ? "it is a list of processors, as 0-3,5"
						      : "it is a list of numbers, as 123,456");
		to = from;
		if (l->ranges && *at == '-') {
			at++;
			if (!take_target_number(&at, &to))
				return complain_target(l,
						       "the last processor is missing after '-'");
		}
		if (from < l->least)
			return complain_target(l, "the numbers begin at 1");
		status = add_target_range(l, from, to);
		if (status != EXIT_OK)
			return status;
	} while (*at == ',' && at++);
	return *at ? complain_target(l, l->ranges ? "it is a list of processors, as 0-3,5"
						  : "it is a list of numbers, as 123,456")
		   : EXIT_OK;
}

static int contradiction(const struct command *command, const struct target_options *o)
{
	if (!!o->pids + !!o->tids + (o->cpus || o->all_cpus) > 1)
		fail(command, "-p, -t and -a or -C do not go together: say one of them");
	else if (o->per_thread && (o->cpus || o->all_cpus))
		fail(command, "--per-thread does not go with -a and -C: processors have one "
			      "buffer each");
	else
		return EXIT_OK;
	return EXIT_USAGE;
}

int target_parse(const struct command *command, const struct target_options *o,
		 struct ptah_record_config *config)
{
	struct list l = {.command = command};
	int status = contradiction(command, o);

	if (status != EXIT_OK)
		return status;
	if (o->pids) {
		config->target.kind = PTAH_RECORD_PROCESSES;
		l = (struct list){command, "-p", o->pids, false, 1, NULL, 0};
	} else if (o->tids) {
		config->target.kind = PTAH_RECORD_THREADS;
		l = (struct list){command, "-t", o->tids, false, 1, NULL, 0};
	} else if (o->cpus) {
		config->target.kind = PTAH_RECORD_CPUS;
		l = (struct list){command, "-C", o->cpus, true, 0, NULL, 0};
	} else {
		config->target.kind = o->all_cpus ? PTAH_RECORD_CPUS : PTAH_RECORD_COMMAND;
		return EXIT_OK;
	}
	status = parse_list(&l);
	config->target.ids = l.ids;
	config->target.id_count = l.count;
	return status;
}

void target_free(struct ptah_record_config *config)
{
	free((int32_t *)(uintptr_t)config->target.ids);
	config->target.ids = NULL;
}
