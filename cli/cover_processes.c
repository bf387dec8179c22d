/* SPDX-License-Identifier: MIT */
/* Writes tables of coverage from recordings, and asks them which processes reached a place. */
#include "cover_processes.h"

#include "export/cover_query.h"
#include "export/cover_table.h"
#include "output/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writing */

/* A callback of input_count(). */
static int add_cover_stream(void *table, const struct ptah_stream_info *info, size_t stream,
			    struct ptah_profile *profile)
{
	(void)info;
	return cover_table_add(table, stream, profile);
}

static uint64_t count_errors(struct cover_table *table)
{
	uint64_t errors = 0;
	size_t n;
	const struct cover_process *p = cover_table_processes(table, &n);

	for (size_t i = 0; i < n; i++)
		errors += p[i].errors;
	return errors;
}

int cover_write_processes(const struct command *command, const struct input *input,
			  struct ptah_session *session)
{
	struct ptah_message why = {""};
	struct cover_table *table = NULL;
	struct names *names = NULL;
	uint64_t errors = 0;
	int problem = input_names(input, session, &names);

	input_watch_signals();
	if (problem >= 0) {
		names_show_all(names);
		problem = cover_table_open(input->output, session, names, &table, &why);
	}
	if (problem >= 0)
		problem = input_count(input, session, add_cover_stream, table);
	input_notes(input, session);
	if (problem >= 0 && !interrupted()) {
		errors = count_errors(table);
		problem = cover_table_close(table, &why);
	} else {
		cover_table_abort(table);
	}
	names_free(names);
	if (problem < 0)
		return fail(command, "%s", *why.text ? why.text : ptah_strerror(problem));
	if (interrupted())
		return interrupted_status();
	return errors ? fail_errors(command, errors) : EXIT_OK;
}

/* Asking */

struct shown {
	uint64_t count;
	int64_t pid;
	uint64_t status;
	bool ended;
	const char *signal, *comm, *command;
};

static const struct field fields[] = {
    FIELD_TSV(struct shown, "count", FIELD_NUMBER, count),
    FIELD_TSV(struct shown, "pid", FIELD_SIGNED, pid),
    {"status", NULL, FIELD_NUMBER, offsetof(struct shown, status), 0,
     offsetof(struct shown, ended)},
    FIELD_TSV(struct shown, "signal", FIELD_STRING, signal),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
    FIELD_TSV(struct shown, "command", FIELD_STRING, command),
};

static const struct row_type type = ROW_TYPE(fields);

static int put_cover_answers(const struct command *command, const struct input *input,
			     const struct cover_answer *answers, size_t n)
{
	struct out *out;
	int status = output_open(command, input, &out);

	if (status)
		return status;
	fields_tsv_head(out, &type, 0);
	for (size_t i = 0; i < n; i++) {
		const struct cover_answer *a = &answers[i];
		const struct shown shown = {
		    .count = a->count,
		    .pid = a->pid,
		    .status = (uint64_t)a->exit_status,
		    .ended = a->exit_status >= 0,
		    .signal = a->exit_signal > 0 ? sigabbrev_np(a->exit_signal) : NULL,
		    .comm = a->comm,
		    .command = a->command,
		};

		fields_tsv(out, &type, 0, &shown);
	}
	return output_close(command, out, EXIT_OK);
}

/* What is asked, and how many of the places are not in the table. */
struct asking {
	const struct input *input;
	struct cover_query *query;
	struct ptah_message why;
	size_t found, missing;
	int status;
};

static bool ask(struct asking *a, char *place)
{
	const int found = *place ? cover_query_add(a->query, place, &a->why) : 1;

	if (found < 0)
		a->status = found;
	if (!found) {
		a->missing++;
		if (!a->input->quiet)
			print_clean("note: ", "%s: no code of it is in the table", place);
	}
	a->found += found > 0;
	return found >= 0;
}

static void ask_lines(struct asking *a)
{
	char *line = NULL;
	size_t room = 0;

	do {
		if (getline(&line, &room, stdin) < 0)
			break;
		line[strcspn(line, "\n")] = '\0';
	} while (ask(a, line));
	free(line);
}

/* Names of C++ have commas inside of brackets. */
static char *end_of_place(char *place)
{
	int depth = 0;

	for (; *place && (*place != ',' || depth); place++)
		depth += (*place == '<' || *place == '(') - (*place == '>' || *place == ')');
	return place;
}

static void ask_words(struct asking *a, const char *places)
{
	char *copy = strdup(places), *end;
	bool more = copy != NULL;

	a->status = copy ? 0 : PTAH_E_NOMEM;
	for (char *place = copy; more; place = end + 1) {
		end = end_of_place(place);
		more = *end;
		*end = '\0';
		more = ask(a, place) && more;
	}
	free(copy);
}

int cover_ask_processes(const struct command *command, const struct input *input, const char *table,
			const char *places)
{
	const struct cover_answer *answers;
	struct asking a = {.input = input};
	size_t n;
	int code = EXIT_OK;

	a.status = cover_query_open(table, &a.query, &a.why);
	if (a.status < 0)
		return fail(command, "%s", *a.why.text ? a.why.text : ptah_strerror(a.status));
	if (strcmp(places, "-") != 0)
		ask_words(&a, places);
	else
		ask_lines(&a);
	if (a.status >= 0)
		a.status = cover_query_answer(a.query, &answers, &n, &a.why);
	if (a.status < 0)
		code = fail(command, "%s", *a.why.text ? a.why.text : ptah_strerror(a.status));
	else if (a.missing && !a.found)
		code = fail(command, "%s has no code of these places", table);
	else
		code = put_cover_answers(command, input, answers, n);
	cover_query_free(a.query);
	return code;
}
