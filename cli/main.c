/* SPDX-License-Identifier: MIT */
/* The entry point: finds the subcommand and runs it, or lists the subcommands. */
#include "command.h"

#include <stdio.h>
#include <string.h>

const struct command *const commands[] = {
    &command_record,
    &command_report,
    &command_script,
    &command_stat,
    &command_verify,
    &command_dump,
    &command_asm,
    &command_profile,
    &command_cover,
    &command_caps,
    NULL,
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
		    "'ptah COMMAND --help' tells what a command can do. To begin with:\n"
		    "  ptah record -- gzip -k FILE && ptah report\n");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("ptah %s\n", ptah_version());
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--dump-options")) /* for tools/option-docs */
		return options_dump();
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(argv[1], commands[i]->name))
			return commands[i]->run(argc - 1, argv + 1);
	fprintf(stderr, "ptah: there is no command \"%s\"\nTry 'ptah --help'.\n", argv[1]);
	return EXIT_USAGE;
}
