/* SPDX-License-Identifier: MIT */
/* Prints error messages and remarks on standard error. */
#include "command.h"
#include "interrupt.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void vprint_clean(const char *head, const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		return;
	text_clean(text);
	fprintf(stderr, "%s%s\n", head, text);
	free(text);
}

void print_clean(const char *head, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprint_clean(head, format, args);
	va_end(args);
}

static void put_message(const struct command *command, const char *format, va_list args)
{
	char head[32];

	snprintf(head, sizeof(head), "%s %s: ", program_name, command->name);
	vprint_clean(head, format, args);
}

int fail(const struct command *command, const char *format, ...)
{
	va_list args;

	/* What fails after Ctrl-C fails because of it, as a call that waited (EINTR). */
	if (interrupted())
		return interrupted_status();
	va_start(args, format);
	put_message(command, format, args);
	va_end(args);
	return EXIT_FAILED;
}

int fail_usage(const struct command *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_message(command, format, args);
	va_end(args);
	return EXIT_USAGE;
}

int vfail_options(const struct command *command, const char *format, va_list args)
{
	put_message(command, format, args);
	fprintf(stderr, "Try '%s %s --help'.\n", program_name, command->name);
	return EXIT_USAGE;
}

int fail_options(const struct command *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfail_options(command, format, args);
	va_end(args);
	return EXIT_USAGE;
}

int fail_errors(const struct command *command, uint64_t errors)
{
	return fail(command,
		    "%" PRIu64 " decoding error%s: parts of the path are missing ('ptah script "
		    "--blocks' shows where)",
		    errors, errors == 1 ? "" : "s");
}

int fail_function(const struct command *command, const char *function)
{
	return fail(command, "no function \"%s\" ran; 'ptah report --limit=0' lists those that did",
		    function);
}

bool is_readable(const char *path)
{
	return !access(path, R_OK);
}

int fail_file(const struct command *command, const char *path)
{
	return fail(command, "%s is a file: -i %s reads it", path, path);
}
