/* SPDX-License-Identifier: MIT */
/* What the decoding commands read, and where they write: options, session, streams, output. */
#ifndef PTAH_CLI_INPUT_H
#define PTAH_CLI_INPUT_H

#include "command.h"
#include "output/names.h"

#define MAX_IMAGES 64

struct image_option {
	char kind; /* 'r'aw, 'e'lf, 'p'ages */
	const char *value;
};

/* The values of the shared options. It is the first member of every command's options. */
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
	uint64_t jobs; /* 0: as is usual for the command */
};

/* Tables of options that several commands share, with their places in struct input. */
extern const struct option_def input_options[], /* --input */
    raw_options[],				/* --pt, --raw, --elf and --pages */
    decode_options[],				/* what is decoded of it, and how */
    output_options[],				/* --output */
    format_options[],				/* --format: text, json or tsv */
    jobs_options[],				/* --jobs, of a command that counts */
    ordered_jobs_options[],			/* --jobs, of one that reads item by item */
    symbols_options[],				/* --no-symbols */
    limit_options[],				/* --limit */
    quiet_options[],				/* --no-progress and --quiet */
    help_options[];				/* --help */

/* The words of --format; the index of one is an enum format. */
extern const char *const format_choices[];

/* A session for the input. On failure the message has been printed. */
int input_open(const struct command *command, struct input *input, int argc, char **argv,
	       bool images, struct ptah_session **session);

/* The threads to decode with; unless it is said, `jobs` (0: one for each processor). */
unsigned input_jobs(const struct input *input, unsigned jobs);

/*
 * Counts each stream that is wanted, with progress, and hands its profile to
 * `take`, whose negative answer ends it. Ends early when interrupted.
 */
int input_count(const struct input *input, const struct ptah_session *session,
		int (*take)(void *context, const struct ptah_stream_info *info, size_t stream,
			    struct ptah_profile *profile),
		void *context);

/*
 * Names for the addresses of the session; raw traces have them from the files
 * given with --elf and --raw.
 */
int input_names(const struct input *input, const struct ptah_session *session,
		struct names **names);

/* What stream i is, with a comm that can be shown. */
void input_stream_info(const struct ptah_session *session, size_t i, struct ptah_stream_info *info);

/* Is stream i wanted? */
bool input_wants(const struct input *input, const struct ptah_session *session, size_t i);

/* Remarks of the recording on stderr. */
void input_notes(const struct input *input, const struct ptah_session *session);

/* How many of `count` rows --limit shows. */
size_t input_shown(const struct input *input, size_t count);

/* Opens and closes the output. close returns the exit code. */
int output_open(const struct command *command, const struct input *input, struct out **out);
int output_close(const struct command *command, struct out *out, int status);

/* True after Ctrl-C: finish what is begun and end. */
bool interrupted(void);

#endif
