/* SPDX-License-Identifier: MIT */
/* Parses a command line by the command's table of options. */
#include "input.h"
#include "support/list.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int complain_option(const struct command *command, int *status, const char *format, ...)
    PRINTF_LIKE(3, 4);

static int complain_option(const struct command *command, int *status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfail_options(command, format, args);
	va_end(args);
	*status = EXIT_USAGE;
	return -1;
}

/* A process parses one command line, and the list lives as long as the process. */
static struct set_option *set_options;

static bool add_set_option(struct input *input, const struct option_def *o, const char *value)
{
	if (!LIST_ADD(set_options, input->set_option_count))
		return false;
	set_options[input->set_option_count - 1] =
	    (struct set_option){(enum set_option_kind)o->at, o->name, value};
	input->set_options = set_options;
	if (o->at == SET_PT && !input->pt)
		input->pt = value;
	return true;
}

/* ptxed's --cpu is the processor that recorded: a value that is no number of a CPU. */
static void set_cpu(struct input *input, const char *value)
{
	if (strchr(value, '/') || !strcmp(value, "none"))
		input->processor = value;
	else
		input->cpu = value;
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

bool parse_size(const char *text, const char *units, uint64_t *value, bool *bare)
{
	static const char letters[] = "BKMG";
	unsigned shift = 0;
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	*bare = !*end;
	if (*end) {
		if (end[1] || !strchr(units, *end))
			return false;
		shift = 10u * (unsigned)(strchr(letters, *end) - letters);
	}
	if (*text < '0' || *text > '9' || errno || *value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static int set(const struct command *command, const struct option_def *o, const char *value,
	       void *values, int *status)
{
	void *at = o->kind == OPTION_SET ? NULL : (char *)values + o->at;
	bool bare;

	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case OPTION_ONCE:
		if (*(const char **)at)
			return complain_option(command, status, "--%s can be given once", o->name);
		*(const char **)at = value;
		return 0;
	case OPTION_LIST:
		if (((struct text_list *)at)->count == TEXT_LIST)
			return complain_option(command, status, "--%s can be given %d times",
					       o->name, TEXT_LIST);
		((struct text_list *)at)->texts[((struct text_list *)at)->count++] = value;
		return 0;
	case OPTION_TEXT:
	case OPTION_OPTIONAL:
		*(const char **)at = value;
		return 0;
	case OPTION_NUMBER:
		if (parse_number(value, at))
			return 0;
		return complain_option(command, status, "--%s=%s: not a number", o->name, value);
	case OPTION_SIZE:
		if (parse_size(value, "KMG", at, &bare))
			return 0;
		return complain_option(command, status,
				       "--%s=%s: not a size (bytes, or a number and K, M or G)",
				       o->name, value);
	case OPTION_CPU:
		set_cpu(values, value);
		return 0;
	case OPTION_SET:
		if (add_set_option(values, o, value))
			return 0;
		return complain_option(command, status, "out of memory");
	case OPTION_CHOICE:
		for (int i = 0; o->choices[i]; i++) {
			if (!strcmp(value, o->choices[i])) {
				*(int *)at = i;
				return 0;
			}
		}
		return complain_option(command, status, "--%s=%s: it takes %s", o->name, value,
				       o->help);
	default:
		return 0;
	}
}

static int show_help(const struct command *command, int *status)
{
	struct ptah_message why;
	struct out *out;

	*status = EXIT_FAILED;
	if (out_open(NULL, &out, &why) < 0)
		return -1;
	options_help(command, out);
	if (out_close(out, &why) >= 0)
		*status = EXIT_OK;
	return -1;
}

static const struct option_def *find_long(const struct command *command, const char *name, size_t n)
{
	for (const struct option_def *const *table = command->options; *table; table++)
		for (const struct option_def *o = *table; o->name; o++)
			if (strlen(o->name) == n && !strncmp(o->name, name, n))
				return o;
	return NULL;
}

static const struct option_def *find_letter(const struct command *command, char letter)
{
	for (const struct option_def *const *table = command->options; *table; table++)
		for (const struct option_def *o = *table; o->name; o++)
			if (o->letter == letter)
				return o;
	return NULL;
}

static bool takes_value(const struct option_def *o)
{
	return o->kind != OPTION_FLAG && o->kind != OPTION_HELP;
}

static bool is_one_of(const char *const *words, const char *word, size_t n)
{
	for (size_t i = 0; words && words[i]; i++)
		if (strlen(words[i]) == n && !memcmp(words[i], word, n))
			return true;
	return false;
}

/* Whether it is a list of numbers and words that the option knows, and no file. */
static bool is_list_for(const struct option_def *o, const char *list)
{
	for (const char *at = list;; at++) {
		const size_t n = strcspn(at, ",");
		const bool known = (n && strspn(at, "0123456789.") == n) ||
				   is_one_of(o->choices, at, n) || is_one_of(o->refused, at, n);

		if (!known)
			return false;
		at += n;
		if (!*at)
			return access(list, F_OK) != 0;
	}
}

/*
 * The value of an option that may have none: the next argument if it is a size, or of an option
 * with choices a list of these; or else "".
 */
static const char *optional_value(const struct option_def *o, int argc, char **argv, int *i)
{
	uint64_t size;
	bool bare;

	if (*i + 1 < argc && (o->choices ? is_list_for(o, argv[*i + 1])
					 : parse_size(argv[*i + 1], "KMG", &size, &bare)))
		return argv[++*i];
	return "";
}

/* `value`: the value attached to the option, or NULL; then the next argument is taken and *i moved.
 */
static int take_option(const struct command *command, const struct option_def *o, const char *value,
		       int argc, char **argv, int *i, void *values, int *status)
{
	if (o->kind == OPTION_REFUSED)
		return complain_option(command, status, "%s: %s", argv[*i], o->help);
	if (value && !takes_value(o))
		return complain_option(command, status, "--%s takes no value", o->name);
	if (o->kind == OPTION_HELP)
		return show_help(command, status);
	if (!value && o->kind == OPTION_OPTIONAL)
		value = optional_value(o, argc, argv, i);
	if (!value && takes_value(o)) {
		if (*i + 1 >= argc)
			return complain_option(command, status, "--%s needs a value (%s)", o->name,
					       o->arg);
		value = argv[++*i];
	}
	return set(command, o, value, values, status);
}

static int parse_long(const struct command *command, int argc, char **argv, int *i, void *values,
		      int *status)
{
	const char *arg = argv[*i];
	size_t n = strcspn(arg + 2, "=");
	const struct option_def *o = find_long(command, arg + 2, n);

	if (!o)
		return complain_option(command, status, "unknown option %s", arg);
	return take_option(command, o, arg[2 + n] ? arg + 2 + n + 1 : NULL, argc, argv, i, values,
			   status);
}

/* Several letters may follow one dash. The rest after a letter that takes a value is its value. */
static int parse_letters(const struct command *command, int argc, char **argv, int *i, void *values,
			 int *status)
{
	const char *arg = argv[*i];

	for (const char *at = arg + 1; *at; at++) {
		const struct option_def *o = find_letter(command, *at);
		bool with_value = o && takes_value(o);
		const char *value = with_value && at[1] ? at + 1 : NULL;

		/* Nobody means a value that begins with "=". */
		if (value && *value == '=' && o->kind != OPTION_REFUSED)
			return complain_option(command, status, "%s: write -%c%s or --%s=%s", arg,
					       *at, value + 1, o->name, value + 1);
		if (!o && at == arg + 1)
			return complain_option(command, status, "unknown option %s", arg);
		if (!o)
			return complain_option(command, status, "unknown option -%c in %s", *at,
					       arg);
		if (take_option(command, o, value, argc, argv, i, values, status) < 0)
			return -1;
		if (with_value)
			break;
	}
	return 0;
}

int options_parse(const struct command *command, int argc, char **argv, void *values, int *status)
{
	int i, first = argc;

	/* Options may follow the file, but not the command to record, which has options of its own.
	 */
	for (i = 1; i < first; i++) {
		if (argv[i][0] != '-' || !argv[i][1]) {
			if (command->operand == COMPLETE_COMMAND)
				return i;
			char *argument = argv[i];

			memmove(argv + i, argv + i + 1, (size_t)(argc - i - 1) * sizeof(*argv));
			argv[argc - 1] = argument;
			first--;
			i--;
			continue;
		}
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if ((argv[i][1] == '-' ? parse_long : parse_letters)(command, first, argv, &i,
								     values, status) < 0)
			return -1;
	}
	return first;
}
