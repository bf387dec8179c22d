/* SPDX-License-Identifier: MIT */
/* What the decoding commands share: options, opening a session, choosing streams, the output. */
#ifndef PTAH_CLI_INPUT_H
#define PTAH_CLI_INPUT_H

#include "command.h"
#include "interrupt.h"
#include "output/names.h"
#include "output/source_files.h"

/* The options that describe a raw trace (set_options.c). Values of option_def.at. */
enum set_option_kind {
	SET_PT,
	SET_RAW,
	SET_ELF,
	SET_PE,
	SET_PAGES,
	SET_FILTER,
	SET_MTC_FREQ,
	SET_NOM_FREQ,
	SET_LEAF_15,
	/* The others are ptxed's alone. */
	SET_LEAF_15_EAX,
	SET_LEAF_15_EBX,
	SET_RANGE_CFG,
	SET_RANGE_A,
	SET_RANGE_B,
	SET_SIDEBAND,
	SET_SIDEBAND_PRIMARY,
	SET_SAMPLE_TYPE,
	SET_SAMPLE_CONFIG,
	SET_TIME_ZERO,
	SET_TIME_SHIFT,
	SET_TIME_MULT,
	SET_TSC_OFFSET,
	SET_SYSROOT,
	SET_KCORE,
	SET_VDSO_64,
	SET_VDSO_X32,
	SET_VDSO_32,
	SET_NUMBER_WITHOUT_EFFECT,
};

/* One of them as it was given. */
struct set_option {
	enum set_option_kind kind;
	const char *name, *value;
};

/*
 * The values of the shared options. The struct is the first member of every command's options, so
 * that the offsets in the shared tables hold for all of them.
 */
struct input {
	const char *path; /* perf.data */
	const char *pt;	  /* raw packets: the first --pt; NULL: there is none */
	/* All options that describe a raw trace, in their order. They live as long as the process.
	 */
	const struct set_option *set_options;
	size_t set_option_count;
	const char *save_set; /* where to write what they say, or NULL */
	const char *symfs;
	const char *output;
	int format;
	bool force;
	bool quiet;
	bool no_times; /* no time of a call is shown: none is estimated */
	bool bounds;   /* totals of functions are shown with the bounds of their times */
	bool no_progress;
	bool no_pager;
	int color;     /* enum color_when */
	bool from_hit; /* of a recording that was kept for a hit, what is before it is left out */
	bool no_symbols, no_demangle;
	const char *buildid_dir; /* perf's cache of files by their build ids; NULL: ~/.debug */
	const char *debuginfod;	 /* servers; "": those of the environment; NULL: not given */
	bool no_debuginfod;
	uint64_t limit;	      /* rows to show; 0: all */
	uint64_t pid;	      /* 0: all */
	uint64_t tid;	      /* 0: all */
	const char *comm;     /* NULL: all */
	const char *function; /* NULL: all */
	const char *cpu;      /* a number; NULL: all */
	const char *processor, *errata;
	bool no_tnt, no_retcomp;
	uint64_t jobs; /* 0: the command's default */
	const char *vmlinux, *kallsyms;
	const char *since, *until, *around; /* NULL: not given */
	const char *source_path, *prefix;   /* of source files; NULL: not given */
	uint64_t prefix_strip;
	bool ignored; /* an option of ptxed that has no effect */
	bool calls;   /* counts_read() counts the calls of a recording, too */
	bool samples; /* of other events are wanted, too */
};

/* The tables of shared options. Their values go into a struct input. */
extern const struct option_def input_options[], /* --input */
    raw_options[],				/* --pt, and what describes it */
    ptxed_options[],	    /* the same as libipt's ptxed spells it: in no help and no completion */
    decode_options[],	    /* which streams are decoded, and how */
    output_options[],	    /* --output, --color and --no-pager */
    format_options[],	    /* --format: text, json or tsv */
    jobs_options[],	    /* --jobs of a command that counts: all processors by default */
    ordered_jobs_options[], /* --jobs of a command that reads item by item: one by default */
    symbols_options[],	    /* --no-symbols */
    names_options[],	    /* --no-demangle, --debuginfod */
    limit_options[],	    /* --limit */
    window_options[],	    /* --since, --until and --around */
    function_options[],	    /* --function */
    source_options[],	    /* --source-path, --prefix, --prefix-strip */
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

/* perf's cache of binaries (perf-buildid-cache(1)). NULL: there is none. */
const char *input_build_id_cache(const struct input *input, char *path, size_t n);

/* Whether debuginfod servers may be asked; those of the options are the environment's then. */
bool input_may_fetch(const struct input *input);

/*
 * A ptah_fetch_progress, whose context is the input. The line is overwritten by the next, and by
 * what follows.
 */
bool input_show_fetch(void *input, const char *file, uint64_t done, uint64_t total);

/*
 * Names as the options ask for them: see names_new(). Every command that shows names of functions
 * has names_options.
 */
int input_names(const struct input *input, const struct ptah_session *session,
		struct names **names);

/*
 * For commands that show times: prints a note if the recording has none between its system calls,
 * and how to record them.
 */
void input_note_times(const struct input *input, const struct ptah_session *session);

/* Where source_options and --symfs say that source files are. */
struct source_paths input_source_paths(const struct input *input);

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
 * What stream i is. Characters of its comm that must not reach a terminal are replaced. With a
 * window its bytes are 0: how many of them belong to the window is not known.
 */
void input_stream_info(const struct ptah_session *session, size_t i, struct ptah_stream_info *info);

/* Whether --pid, --tid, --comm and --cpu choose stream i. */
bool input_wants(const struct input *input, const struct ptah_session *session, size_t i);

/* Prints the recording's notes on standard error, unless --quiet is given. */
void input_notes(const struct input *input, const struct ptah_session *session);

/* How many of `count` rows are to be shown, by --limit. */
size_t input_shown(const struct input *input, size_t count);

/*
 * output_create() opens what `path` names (NULL: standard output) and gives it up after a signal
 * (output_given_up()). output_open() also sets colours and, on a terminal, the pager. All return an
 * exit code, and have printed a message on failure. output_close() returns `status` if all was
 * written; after Ctrl-C it leaves no file.
 */
int output_create(const struct command *command, const char *path, struct out **out);
int output_open(const struct command *command, const struct input *input, struct out **out);
int output_close(const struct command *command, struct out *out, int status);

/* Whether both names are of one file. */
bool input_same_file(const char *a, const char *b);

/* Would the file that is there become FILE.old, in place of the recording that is read? */
bool input_becomes_old(const char *input, const char *output);

/* Whether the file is the recording, or one of those that describe raw packets. */
bool input_reads(const struct input *input, const char *file);

/* Refuses an output that would replace what is read. Returns an exit code. */
int input_check_output(const struct command *command, const struct input *input);

#endif
