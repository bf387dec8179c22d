/* SPDX-License-Identifier: MIT */
/* A subcommand: its name, its table of options, and how both are parsed and shown. */
#ifndef PTAH_CLI_COMMAND_H
#define PTAH_CLI_COMMAND_H

#include "base/compiler.h"
#include "output/out.h"

#include <ptah/ptah.h>

#include <stdarg.h>

/* Exit codes. 2 is for a command line that makes no sense, as in other Unix tools. */
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
	OPTION_CHOICE,	 /* int: the index of the given word in `choices` */
	OPTION_CPU,	 /* of struct input: a CPU's number or, with a slash, a processor */
	OPTION_SET,	 /* appended to struct input's set_options; `at` is the kind */
	OPTION_ONCE,	 /* const char *; a second one is refused */
	OPTION_LIST,	 /* struct text_list: may be given several times */
	OPTION_OPTIONAL, /* const char *; "" when no value is given. A value directly follows
			    the option (-S1M, --snapshot=1M); the next argument is taken for
			    the value only if it is a size, or where there are choices, a list
			    of these and of numbers */
	OPTION_REFUSED,	 /* an option of perf that is refused; `help` is the reason */
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
 * An option. Parsing and --help use the tables directly; tools/option-docs writes
 * the OPTIONS section of the man page and the completions of the shells from them.
 *
 * `man` is plain text with *italic* and `bold` words; a line that begins with a
 * dot is a request of roff.
 */
/* The values of an OPTION_LIST. */
#define TEXT_LIST 32

struct text_list {
	const char *texts[TEXT_LIST];
	size_t count;
};

struct option_def {
	const char *name; /* without --; NULL marks the end of a table */
	char letter;	  /* 0: none */
	enum option_kind kind;
	size_t at;		    /* offset of the value in the command's options */
	const char *arg;	    /* the value's name in the help */
	const char *man_arg;	    /* its form on the man page; NULL: `arg` in italics */
	const char *help;	    /* one line */
	const char *man;	    /* one paragraph or more */
	const char *const *choices; /* NULL-terminated */
	/* OPTION_OPTIONAL: perf's words that the command refuses by a message of its own; without
	 * them the next argument would be taken for a file. NULL: none. */
	const char *const *refused;
	enum completion complete;
};

/* A sentence that a command's man page adds to the text of a shared option. */
struct option_note {
	const char *name, *man;
};

struct command {
	const char *name;
	const char *usage;			 /* what follows "ptah NAME " */
	const char *summary;			 /* one line */
	const char *details;			 /* paragraphs of the help */
	const struct option_def *const *options; /* tables, the last one NULL */
	const struct option_note *notes;	 /* NULL: none. The last element has no name */
	enum completion operand;		 /* the arguments that are no options */
	int (*run)(int argc, char **argv);
};

extern const struct command command_record, command_dump, command_asm, command_script,
    command_report, command_stat, command_verify, command_profile, command_cover, command_caps,
    command_vm, command_diff, command_annotate, command_calls, command_export, command_inject,
    command_repack, command_view, command_merge, command_live, command_waits;

/*
 * The program's name, and all its commands in the order of the help; the list ends with NULL.
 * main.c defines both; mpi/main.c does so for ptah-mpi.
 */
extern const char program_name[];
extern const struct command *const commands[];

/*
 * Parses options into *values. Returns the index of the first argument that is
 * no option; or -1 when the command has to end with the exit code *status: help
 * has been printed, or a message.
 */
int options_parse(const struct command *command, int argc, char **argv, void *values, int *status);

/* Prints what --help shows. */
void options_help(const struct command *command, struct out *out);

/* Prints all tables as lines of text, for tools/option-docs. Returns an exit code. */
int options_dump(void);

/*
 * Parses a number that may be followed by one of the letters in `units` (of B, K, M and G).
 * *bare: there was no letter. Returns false when the text is neither.
 */
bool parse_size(const char *text, const char *units, uint64_t *value, bool *bare);

/*
 * Prints `head` and a line of text on standard error. In the text, which may contain names from
 * untrusted files, characters that a terminal would obey (base/text.h) become "?".
 */
void print_clean(const char *head, const char *format, ...) PRINTF_LIKE(2, 3);
void vprint_clean(const char *head, const char *format, va_list args);

/* Prints "ptah NAME: message" on standard error. Returns EXIT_FAILED. */
int fail(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same, for a command line that makes no sense. Returns EXIT_USAGE. */
int fail_usage(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same, with a second line that names --help. */
int fail_options(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);
int vfail_options(const struct command *command, const char *format, va_list args);

/* Reports that decoding errors left parts of the path out of the output. Returns EXIT_FAILED. */
int fail_errors(const struct command *command, uint64_t errors);

/* Reports that nothing of the function of --function ran. Returns EXIT_FAILED. */
int fail_function(const struct command *command, const char *function);

/* Whether this is the name of a file that can be read. */
bool is_readable(const char *path);

/* Reports that a file stands where a function is expected. Returns EXIT_FAILED. */
int fail_file(const struct command *command, const char *path);

#endif
