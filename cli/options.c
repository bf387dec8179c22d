/* SPDX-License-Identifier: MIT */
/* One table per command drives parsing and help. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const format_choices[] = {"text", "json", "tsv", NULL};

int fail(const struct command *command, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "ptah %s: ", command->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_FAILED;
}

int fail_errors(const struct command *command, uint64_t errors)
{
	return fail(command,
		    "%" PRIu64 " decoding error%s: parts of the path are missing ('ptah script "
		    "--blocks' shows where)",
		    errors, errors == 1 ? "" : "s");
}

void options_help(const struct command *command, struct out *out)
{
	out_format(out, "Usage: ptah %s %s\n\n%s\n\nOptions:\n", command->name, command->usage,
		   command->details);
	for (const struct option_def *o = command->options; o->name; o++) {
		char left[64], letter[5] = "    ";

		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name, o->arg ? "=" : "",
			 o->arg ? o->arg : "");
		out_format(out, "%-28s %s\n", left, o->help);
	}
	out_format(out, "\nSee ptah-%s(1) for more.\n", command->name);
}

static int complain(const struct command *command, int *status, const char *format, ...)
    PRINTF_LIKE(3, 4);

static int complain(const struct command *command, int *status, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "ptah %s: ", command->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nTry 'ptah %s --help'.\n", command->name);
	*status = EXIT_USAGE;
	return -1;
}

static bool add_image(struct input *input, const char *name, const char *value)
{
	if (input->image_count == MAX_IMAGES)
		return false;
	input->images[input->image_count++] = (struct image_option){name[0], value};
	return true;
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool parse_size(const char *text, uint64_t *value)
{
	static const char units[] = "KMG";
	const char *unit;
	unsigned shift = 0;
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	if (*end && (unit = strchr(units, *end)) != NULL && !end[1])
		shift = 10u * (unsigned)(unit - units + 1);
	else if (*end)
		return false;
	if (*text < '0' || *text > '9' || errno || *value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static int set(const struct command *command, const struct option_def *o, const char *value,
	       void *values, int *status)
{
	void *at = (char *)values + o->at;

	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)at = value;
		return 0;
	case OPTION_NUMBER:
		if (parse_number(value, at))
			return 0;
		return complain(command, status, "--%s=%s: not a number", o->name, value);
	case OPTION_SIZE:
		if (parse_size(value, at))
			return 0;
		return complain(command, status,
				"--%s=%s: not a size (bytes, or a number and K, M or G)", o->name,
				value);
	case OPTION_IMAGE:
		if (add_image(at, o->name, value))
			return 0;
		return complain(command, status, "more than %d images", MAX_IMAGES);
	case OPTION_CHOICE:
		for (int i = 0; o->choices[i]; i++) {
			if (!strcmp(value, o->choices[i])) {
				*(int *)at = i;
				return 0;
			}
		}
		return complain(command, status, "--%s=%s: it takes %s", o->name, value, o->help);
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
	for (const struct option_def *o = command->options; o->name; o++)
		if (strlen(o->name) == n && !strncmp(o->name, name, n))
			return o;
	return NULL;
}

static const struct option_def *find_letter(const struct command *command, char letter)
{
	for (const struct option_def *o = command->options; o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static bool takes_value(const struct option_def *o)
{
	return o->kind != OPTION_FLAG && o->kind != OPTION_HELP;
}

/* One argument that begins with a dash; *i moves on over a value that stands apart. */
static int parse_one(const struct command *command, int argc, char **argv, int *i, void *values,
		     int *status)
{
	const char *arg = argv[*i], *value = NULL;
	bool is_long = arg[1] == '-';
	size_t n = is_long ? strcspn(arg + 2, "=") : 1;
	const struct option_def *o =
	    is_long ? find_long(command, arg + 2, n) : find_letter(command, arg[1]);

	if (!o)
		return complain(command, status, "unknown option %s", arg);
	if (is_long && arg[2 + n])
		value = arg + 2 + n + 1;
	else if (!is_long && arg[2])
		value = arg + 2;
	if (value && !takes_value(o))
		return complain(command, status, "--%s takes no value", o->name);
	if (o->kind == OPTION_HELP)
		return show_help(command, status);
	if (!value && takes_value(o)) {
		if (*i + 1 >= argc)
			return complain(command, status, "--%s needs a value (%s)", o->name,
					o->arg);
		value = argv[++*i];
	}
	return set(command, o, value, values, status);
}

int options_parse(const struct command *command, int argc, char **argv, void *values, int *status)
{
	int i, first = argc;

	/* Options may stand behind the file, but not behind a command to record. */
	for (i = 1; i < first; i++) {
		if (argv[i][0] != '-' || !argv[i][1]) {
			if (command == &command_record)
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
		if (parse_one(command, first, argv, &i, values, status) < 0)
			return -1;
	}
	return first;
}
