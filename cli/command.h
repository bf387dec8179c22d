/* SPDX-License-Identifier: MIT */
/* A subcommand: its name, its table of options, and how both are parsed and shown. */
#ifndef PTAH_CLI_COMMAND_H
#define PTAH_CLI_COMMAND_H

#include "base/compiler.h"
#include "output/out.h"

#include <ptah/ptah.h>

/* Exit codes, as everywhere: 2 is for a command line that makes no sense. */
enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_INTERRUPTED = 130
};

enum option_kind {
	OPTION_FLAG,	 /* bool: set */
	OPTION_TEXT,	 /* const char * */
	OPTION_NUMBER,	 /* uint64_t; decimal or 0x */
	OPTION_SIZE,	 /* uint64_t; bytes, or with K, M or G */
	OPTION_CHOICE,	 /* int: index of the word in `choices` */
	OPTION_IMAGE,	 /* appended to struct input's images */
	OPTION_ONCE,	 /* const char *; a second one is refused */
	OPTION_OPTIONAL, /* const char *: "" without a value, which stands directly behind
			    the option; one that is a size may stand apart */
	OPTION_REFUSED,	 /* known from elsewhere, with no meaning here: `help` says why */
	OPTION_HELP,
};

/* What a shell offers as the value of an option, besides its choices. */
enum completion {
	COMPLETE_NOTHING = 0,
	COMPLETE_FILE,
	COMPLETE_FOLDER,
	COMPLETE_COMMAND, /* a program and its arguments */
	COMPLETE_ERRATA,
	COMPLETE_MODELS,
	COMPLETE_PACKETS,
};

/*
 * An option. From the table of a command follow parsing, --help, the OPTIONS
 * section of its man page, and the completions of the shells.
 *
 * `man` is plain text with *italic* and `bold` words; a line that begins with a
 * dot is passed on to roff as it is.
 */
struct option_def {
	const char *name; /* without --; NULL ends a table */
	char letter;	  /* 0: none */
	enum option_kind kind;
	size_t at;		    /* offset of the value in the command's options */
	const char *arg;	    /* the value's name in the help */
	const char *man_arg;	    /* the same on the man page; NULL: `arg`, in italics */
	const char *help;	    /* a line */
	const char *man;	    /* paragraphs */
	const char *const *choices; /* NULL-terminated */
	enum completion complete;
};

/* A sentence that a command's man page adds to an option it shares with others. */
struct option_note {
	const char *name, *man;
};

struct command {
	const char *name;
	const char *usage;			 /* what follows "ptah NAME " */
	const char *summary;			 /* one line */
	const char *details;			 /* paragraphs of the help */
	const struct option_def *const *options; /* tables, the last one NULL */
	const struct option_note *notes;	 /* NULL: none; the last one has no name */
	enum completion operand;		 /* what stands there without an option */
	int (*run)(int argc, char **argv);
};

extern const struct command command_record, command_dump, command_asm, command_script,
    command_report, command_stat, command_verify, command_profile, command_cover, command_caps;

/* All of them, in the order in which the help lists them; NULL-terminated. */
extern const struct command *const commands[];

/*
 * Parses options into *values. Returns the index of the first argument that is
 * none, or -1 when there is nothing more to do: *status is the exit code.
 */
int options_parse(const struct command *command, int argc, char **argv, void *values, int *status);

/* The help that --help prints. */
void options_help(const struct command *command, struct out *out);

/* All tables as text, for tools/option-docs. */
int options_dump(void);

/* A number and B (bytes), K, M or G, whose first is in `units`; without a letter *bare. */
bool parse_size(const char *text, const char *units, uint64_t *value, bool *bare);

/* "ptah NAME: message" on stderr. Returns EXIT_FAILED. */
int fail(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same for a command line that makes no sense. Returns EXIT_USAGE. */
int fail_usage(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* What was decoded has been shown, but it is not all that ran. Returns EXIT_FAILED. */
int fail_errors(const struct command *command, uint64_t errors);

#endif
