/* SPDX-License-Identifier: MIT */
/*
 * Builds the command line and the environment for QEMU, so that the recorded program gets the
 * arguments and the environment that it would get without QEMU.
 */
#include "record/qemu/launch.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

/*
 * QEMU passes its own environment on to the program in reverse order: it puts each variable before
 * those it has put already. Variables that would change QEMU itself are given by the option -E
 * instead, which puts them before all others. All variables that precede them are given by -E too,
 * so that the order is kept. -E takes a list with commas: a variable that contains a comma stays in
 * the environment, and comes after those of -E.
 */

static const char *const emulators_own[] = {"LD_",   "GLIBC_TUNABLES=", "MALLOC_",
					    "QEMU_", "G_DEBUG=",	"G_SLICE="};

/* Whether the variable would change the emulator, or the libraries that it uses. */
static bool is_emulators(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(emulators_own); i++)
		if (!strncmp(variable, emulators_own[i], strlen(emulators_own[i])))
			return true;
	return false;
}

/* How many variables, from the first, are given by -E. Those with a comma among them are not. */
static size_t count_by_option(char *const *environment)
{
	size_t n = 0;

	for (size_t i = 0; environment[i]; i++)
		if (is_emulators(environment[i]))
			n = i + 1;
	return n;
}

static bool fits_option(const char *variable)
{
	return strchr(variable, '=') && !strchr(variable, ',');
}

static size_t count(char *const *list)
{
	size_t n = 0;

	while (list[n])
		n++;
	return n;
}

char *launch_quote(const char *text)
{
	char *quoted = malloc(2 * strlen(text) + 1), *to = quoted;

	if (!quoted)
		return NULL;
	for (; *text; text++) {
		if (*text == ',')
			*to++ = ',';
		*to++ = *text;
	}
	*to = '\0';
	return quoted;
}

/* argv has no const although nobody writes to its strings. */
static char *word(const char *text)
{
	return (char *)(uintptr_t)text;
}

char **launch_arguments(const char *qemu, const char *plugin, const struct command *command,
			char *const *environment, bool repeatable)
{
	size_t options = count_by_option(environment), n = count(command->argv), k = 0;
	char **argv = calloc(n + 2 * options + 9, sizeof(*argv));

	if (!argv)
		return NULL;
	argv[k++] = word(qemu);
	argv[k++] = word("-plugin");
	argv[k++] = word(plugin);
	if (repeatable) {
		argv[k++] = word("-seed");
		argv[k++] = word("1");
	}
	while (options-- > 0) {
		if (!fits_option(environment[options]))
			continue;
		argv[k++] = word("-E");
		argv[k++] = environment[options];
	}
	argv[k++] = word("-0");
	argv[k++] = command->argv[0];
	argv[k++] = command->program;
	memcpy(argv + k, command->argv + 1, n * sizeof(*argv));
	return argv;
}

char **launch_environment(char *const *environment)
{
	size_t options = count_by_option(environment), n = count(environment), k = 0;
	char **list = calloc(n + 1, sizeof(*list));

	while (list && n-- > 0)
		if (n >= options || !fits_option(environment[n]))
			list[k++] = environment[n];
	return list;
}
