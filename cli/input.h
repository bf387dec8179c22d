/* SPDX-License-Identifier: MIT */
/* What the decoding commands share: options, opening a session, choosing streams, the output. */
#ifndef PTAH_CLI_INPUT_H
#define PTAH_CLI_INPUT_H

#include "command.h"
#include "output/names.h"

#define MAX_IMAGES 64

struct image_option {
	char kind; /* 'r'aw, 'e'lf, 'p'ages */
	const char *value;
};

/*
 * The values of the shared options. The struct is the first member of every command's options, so
 * that the offsets in the shared tables hold for all of them.
 */
struct input {
	const char *path; /* perf.data */
	const char *pt;	  /* raw packets */
	struct image_option images[MAX_IMAGES];
	unsigned image_count;
	const char *symfs;
	const char *output;
	int format;
	bool force;
	bool quiet;
	bool no_progress;
	bool no_symbols;
	uint64_t limit;	  /* rows to show; 0: all */
	uint64_t pid;	  /* 0: all */
	uint64_t tid;	  /* 0: all */
	const char *comm; /* NULL: all */
	const char *cpu;  /* a number; NULL: all */
	const char *processor, *errata;
	bool no_tnt, no_retcomp;
	uint64_t jobs; /* 0: the command's default */
	const char *vmlinux, *kallsyms;
};

/* The tables of shared options. Their values go into a struct input. */
extern const struct option_def input_options[], /* --input */
    raw_options[],				/* --pt, --raw, --elf and --pages */
    decode_options[],				/* which streams are decoded, and how */
    output_options[],				/* --output */
    format_options[],				/* --format: text, json or tsv */
    jobs_options[],	    /* --jobs of a command that counts: all processors by default */
    ordered_jobs_options[], /* --jobs of a command that reads item by item: one by default */
    symbols_options[],	    /* --no-symbols */
    limit_options[],	    /* --limit */
    quiet_options[],	    /* --no-progress and --quiet */
    help_options[];	    /* --help */

/* The words of --format, in the order of enum format. */
extern const char *const format_choices[];

/*
 * Opens a session. The name of the recording may also be the argument argv[0]. `images`: the code
 * is needed too, not only the packets. Returns an exit code; if it is not 0, a message has been
 * printed.
 */
int input_open(const struct command *command, struct input *input, int argc, char **argv,
	       bool images, struct ptah_session **session);

/* The number of threads to decode with: --jobs or else `jobs` (0: one for each processor). */
unsigned input_jobs(const struct input *input, unsigned jobs);

/*
 * Counts each stream that input_wants(), shows the progress, and passes each
 * profile to `take`, which ends the counting by returning an error. Ctrl-C ends
 * it early. Returns 0 or an error.
 */
int input_count(const struct input *input, const struct ptah_session *session,
		int (*take)(void *context, const struct ptah_stream_info *info, size_t stream,
			    struct ptah_profile *profile),
		void *context);

/*
 * Makes names for the addresses of the session. For a raw trace, they come from
 * the files of --elf and --raw.
 */
int input_names(const struct input *input, const struct ptah_session *session,
		struct names **names);

/* What stream i is. Characters of its comm that must not reach a terminal are replaced. */
void input_stream_info(const struct ptah_session *session, size_t i, struct ptah_stream_info *info);

/* Do --pid, --tid, --comm and --cpu choose stream i? */
bool input_wants(const struct input *input, const struct ptah_session *session, size_t i);

/* Prints the recording's notes on standard error, unless --quiet is given. */
void input_notes(const struct input *input, const struct ptah_session *session);

/* How many of `count` rows are to be shown, by --limit. */
size_t input_shown(const struct input *input, size_t count);

/*
 * Both return an exit code, and have printed a message on failure. output_close() returns `status`
 * if all was written; after Ctrl-C it leaves no file.
 */
int output_open(const struct command *command, const struct input *input, struct out **out);
int output_close(const struct command *command, struct out *out, int status);

/* Has Ctrl-C been pressed? The command then completes what it has begun, and ends. */
bool interrupted(void);

#endif
