/* SPDX-License-Identifier: MIT */
/* Prints a command's table of options, as its help and as lines for tools/option-docs. */
#include "input.h"

#include <ptah/model/model.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void put_option(struct out *out, const struct option_def *o)
{
	const bool optional = o->kind == OPTION_OPTIONAL;
	char left[64], letter[5] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(left, sizeof(left), "  %s--%s%s%s%s", letter, o->name,
		 !o->arg    ? ""
		 : optional ? "[="
			    : "=",
		 o->arg ? o->arg : "", optional ? "]" : "");
	out_format(out, "%-28s %s\n", left, o->help);
}

void options_help(const struct command *command, struct out *out)
{
	bool also = false;

	out_format(out, "Usage: %s %s %s\n\n%s\n\nOptions:\n", program_name, command->name,
		   command->usage, command->details);
	for (const struct option_def *const *table = command->options; *table; table++) {
		also |= *table == ptxed_options;
		for (const struct option_def *o = *table; o->name && *table != ptxed_options; o++)
			if (o->kind != OPTION_REFUSED)
				put_option(out, o);
	}
	out_format(out, "\nSee ptah-%s(1) for more.\n", command->name);
	if (also)
		out_text(out, "With --pt, options of libipt's ptxed are accepted too: see "
			      "ptah-ptxed(7).\n");
}

/* The dump: a line for each command and for each option, its fields separated by tabs. */

static const char *const completion_names[] = {
    [COMPLETE_NOTHING] = "nothing", [COMPLETE_FILE] = "file",	[COMPLETE_FOLDER] = "folder",
    [COMPLETE_COMMAND] = "command", [COMPLETE_ERRATA] = "list", [COMPLETE_MODELS] = "words",
    [COMPLETE_PACKETS] = "list",
};

static void put_lower(struct out *out, const char *word)
{
	for (; *word; word++)
		out_char(out, (char)tolower((unsigned char)*word));
}

/* Writes the words that a shell offers as values, separated by blanks. */
static void put_help_words(struct out *out, const struct option_def *o)
{
	const struct ptah_model_processor *model;

	for (size_t i = 0; o->choices && o->choices[i]; i++)
		out_format(out, "%s%s", i ? " " : "", o->choices[i]);
	if (o->complete == COMPLETE_ERRATA) {
		out_text(out, "all none");
		for (unsigned i = 0; i < PTAH_ERRATUM_MAX; i++)
			out_format(out, " %s", ptah_erratum_name(i, NULL));
	} else if (o->complete == COMPLETE_MODELS) {
		out_text(out, "list");
		for (size_t i = 0; (model = ptah_model_named(i)); i++)
			out_format(out, " %s", model->name);
	} else if (o->complete == COMPLETE_PACKETS) {
		out_text(out, "tnt mode bad");
		for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++) {
			out_char(out, ' ');
			put_lower(out, ptah_packet_name(i));
		}
	}
}

/* Writes newlines as \n, so that a record stays one line. */
static void put_help_escaped(struct out *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			out_text(out, "\\n");
		else
			out_char(out, *text);
	}
}

static void put_man(struct out *out, const struct option_note *notes, const struct option_def *o)
{
	put_help_escaped(out, o->man ? o->man : "");
	for (const struct option_note *note = notes; note && note->name; note++) {
		if (strcmp(note->name, o->name) != 0)
			continue;
		out_char(out, ' ');
		put_help_escaped(out, note->man);
	}
}

/* `what`: "option" or, for those that are on a man page alone, "page-option". */
static void dump_option(struct out *out, const char *what, const char *name,
			const struct option_note *notes, const struct option_def *o)
{
	out_format(out, "%s\t%s\t%s\t%c\t%s\t%s\t%s\t", what, name, o->name,
		   o->letter ? o->letter : '-',
		   !o->arg			? "none"
		   : o->kind == OPTION_OPTIONAL ? "optional"
						: "required",
		   o->arg ? o->arg : "", o->man_arg ? o->man_arg : "");
	out_format(out, "%s\t", o->choices ? "words" : completion_names[o->complete]);
	put_help_words(out, o);
	out_format(out, "\t%s\t", o->help);
	put_man(out, notes, o);
	out_char(out, '\n');
}

int options_dump(void)
{
	struct ptah_message why;
	struct out *out;

	if (out_open(NULL, &out, &why) < 0)
		return EXIT_FAILED;
	for (size_t i = 0; commands[i]; i++) {
		const struct command *c = commands[i];

		out_format(out, "command\t%s\t%s\t%s\n", c->name, completion_names[c->operand],
			   c->summary);
		for (const struct option_def *const *table = c->options; *table; table++)
			for (const struct option_def *o = *table; o->name; o++)
				if (o->kind != OPTION_REFUSED && *table != ptxed_options)
					dump_option(out, "option", c->name, c->notes, o);
	}
	for (const struct option_def *o = ptxed_options; o->name; o++)
		dump_option(out, "page-option", "ptxed", NULL, o);
	return out_close(out, &why) < 0 ? EXIT_FAILED : EXIT_OK;
}
