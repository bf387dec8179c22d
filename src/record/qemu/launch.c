/* SPDX-License-Identifier: MIT */
/*
 * Builds the command line and the environment for QEMU, so that the recorded program gets the
 * arguments and the environment that it would get without QEMU.
 */
#include "record/qemu/launch.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

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

static size_t count_arguments(char *const *list)
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

/*
 * The option -s for a program whose stack has no limit. QEMU takes the stack's size from its limit,
 * but with none it takes 8 MB; and it maps the stack as a whole, so that the size must be one that
 * the system grants. 4 GB cost QEMU 0.1 seconds and 30 MB, which it needs for its own tables. NULL:
 * no option is needed.
 */
static const char *stack_size(void)
{
	static const struct {
		const char *text;
		size_t bytes;
	} sizes[] = {{"4096M", (size_t)4 << 30},
		     {"1024M", (size_t)1 << 30},
		     {"256M", (size_t)256 << 20},
		     {"64M", (size_t)64 << 20}};
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur != RLIM_INFINITY)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		void *at = mmap(NULL, sizes[i].bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at != MAP_FAILED) {
			munmap(at, sizes[i].bytes);
			return sizes[i].text;
		}
	}
	return NULL;
}

char **launch_arguments(const char *qemu, const char *plugin, const struct command *command,
			char *const *environment, bool repeatable)
{
	size_t options = count_by_option(environment), n = count_arguments(command->argv), k = 0;
	char **argv = calloc(n + 2 * options + 11, sizeof(*argv));
	const char *stack = stack_size();

	if (!argv)
		return NULL;
	argv[k++] = word(qemu);
	argv[k++] = word("-plugin");
	argv[k++] = word(plugin);
	if (repeatable) {
		argv[k++] = word("-seed");
		argv[k++] = word("1");
	}
	if (stack) {
		argv[k++] = word("-s");
		argv[k++] = word(stack);
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
	size_t options = count_by_option(environment), n = count_arguments(environment), k = 0;
	char **list = calloc(n + 1, sizeof(*list));

	while (list && n-- > 0)
		if (n >= options || !fits_option(environment[n]))
			list[k++] = environment[n];
	return list;
}
