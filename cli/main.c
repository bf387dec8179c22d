/* SPDX-License-Identifier: MIT */
/* The entry point: finds the subcommand and runs it, or lists the subcommands. */
#include "command.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char program_name[] = "ptah";

const struct command *const commands[] = {
    &command_record,   &command_live,
    &command_report,   &command_view,
    &command_annotate, &command_calls,
    &command_waits,    &command_script,
    &command_stat,     &command_verify,
    &command_dump,     &command_asm,
    &command_profile,  &command_merge,
    &command_cover,    &command_export,
    &command_inject,   &command_repack,
    &command_diff,     &command_caps,
    &command_vm,       NULL,
};

static void usage(FILE *to)
{
	fprintf(to, "Usage: ptah COMMAND [OPTIONS] ...\n\n"
		    "Records what a program does with Intel Processor Trace, and decodes it.\n\n"
		    "Commands:\n");
	for (size_t i = 0; commands[i]; i++)
		fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(to, "\nOptions:\n"
		    "  --help     show this help\n"
		    "  --version  show the version\n\n"
		    "'ptah help COMMAND' shows what a command can do. To begin with:\n"
		    "  ptah record -- gzip -k FILE && ptah report\n");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(name, commands[i]->name))
			return commands[i];
	return NULL;
}

#define LONGEST 16 /* a longer word is not compared */

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* The number of slips of the keyboard between two words: a letter too many, too few or wrong, or
 * two in the wrong order (the distance of Damerau and Levenshtein). */
static unsigned count_slips(const char *a, const char *b)
{
	const size_t n = strlen(a), m = strlen(b);
	unsigned d[LONGEST + 1][LONGEST + 1];

	if (n > LONGEST || m > LONGEST)
		return UINT_MAX;
	for (size_t i = 0; i <= n; i++) {
		for (size_t k = 0; k <= m; k++) {
			if (!i || !k) {
				d[i][k] = (unsigned)(i + k);
				continue;
			}
			d[i][k] = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
			d[i][k] = least(d[i][k], least(d[i - 1][k], d[i][k - 1]) + 1);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1);
		}
	}
	return d[n][m];
}

/* Reports a wrong name, with the command that is most like it if there is one. */
static int no_command(const char *name)
{
	const char *nearest = NULL;
	unsigned slips = 3; /* with so many it is another word */

	for (size_t i = 0; commands[i]; i++) {
		unsigned n = count_slips(name, commands[i]->name);

		if (n < slips && n < strlen(commands[i]->name) / 2 + 1) {
			slips = n;
			nearest = commands[i]->name;
		}
	}
	print_clean("ptah: ", "there is no command \"%s\"%s%s%s", name,
		    nearest ? "; did you mean \"" : "", nearest ? nearest : "",
		    nearest ? "\"?" : "");
	fputs("Try 'ptah --help'.\n", stderr);
	return EXIT_USAGE;
}

/* ptah help [COMMAND] */
static int help(const char *name)
{
	const struct command *command = name ? find_command(name) : NULL;
	char option[] = "--help";

	if (!name) {
		usage(stdout);
		return EXIT_OK;
	}
	return command ? command->run(2, (char *[]){(char *)(uintptr_t)name, option, NULL})
		       : no_command(name);
}

/*
 * A command that was started without standard input, output or error would get the number of one of
 * them for a file that it opens, and print into that file. What cannot be read or written takes
 * their places, so that the command reports it.
 */
static void fill_standard_files(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd] | O_CLOEXEC) != fd)
			_exit(EXIT_FAILED);
}

/*
 * Buffers of 64 to 256 KiB lie on the stack of this thread and of others, whose stacks have the size
 * of this limit.
 */
#define STACK_LEAST (UINT64_C(1) << 20)

static int run_command(const struct command *command, int argc, char **argv)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < STACK_LEAST)
		return fail(command,
			    "the limit of the stack is %ju KiB (ulimit -s): this needs %ju",
			    (uintmax_t)limit.rlim_cur >> 10, (uintmax_t)STACK_LEAST >> 10);
	return command->run(argc, argv);
}

int main(int argc, char **argv)
{
	const struct command *command;

	fill_standard_files();

	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return help(argv[2]);
	if (!strcmp(argv[1], "--version")) {
		printf("ptah %s\n", ptah_version());
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--dump-options")) /* for tools/option-docs */
		return options_dump();
	command = find_command(argv[1]);
	return command ? run_command(command, argc - 1, argv + 1) : no_command(argv[1]);
}
