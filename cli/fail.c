/* SPDX-License-Identifier: MIT */
/* Prints error messages on standard error, each with the command's name. */
#include "command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void put_message(const struct command *command, const char *format, va_list args)
{
	fprintf(stderr, "ptah %s: ", command->name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

int fail(const struct command *command, const char *format, ...)
{
	va_list args;

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

int fail_errors(const struct command *command, uint64_t errors)
{
	return fail(command,
		    "%" PRIu64 " decoding error%s: parts of the path are missing ('ptah script "
		    "--blocks' shows where)",
		    errors, errors == 1 ? "" : "s");
}
