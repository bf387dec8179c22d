/* SPDX-License-Identifier: MIT */
/* What the command's files share: options, input, output, the list of subcommands. */
#ifndef PTAH_CLI_CLI_H
#define PTAH_CLI_CLI_H

#include "base/compiler.h"
#include "output/json.h"
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

struct option_def {
	const char *name; /* without --; NULL ends a table */
	char letter;	  /* 0: none */
	enum option_kind kind;
	size_t at;	 /* offset of the value in the command's options */
	const char *arg; /* what stands behind it in the help */
	const char *help;
	const char *const *choices; /* NULL-terminated */
};

struct command {
	const char *name;
	const char *usage;   /* behind "ptah NAME " */
	const char *summary; /* one line */
	const char *details; /* paragraphs of the help */
	const struct option_def *options;
	int (*run)(int argc, char **argv);
};

extern const struct command command_record, command_dump, command_asm, command_script,
    command_report, command_stat, command_verify, command_profile, command_cover, command_caps;

/*
 * Parses options into *values. Returns the index of the first argument that is
 * none, or -1 when there is nothing more to do: *status is the exit code.
 */
int options_parse(const struct command *command, int argc, char **argv, void *values, int *status);
void options_help(const struct command *command, struct out *out);

/* A number and B (bytes), K, M or G, whose first is in `units`; without a letter *bare. */
bool parse_size(const char *text, const char *units, uint64_t *value, bool *bare);

/* "ptah NAME: message" on stderr. Returns EXIT_FAILED. */
int fail(const struct command *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* What was decoded has been shown, but it is not all that ran. Returns EXIT_FAILED. */
int fail_errors(const struct command *command, uint64_t errors);

enum format {
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_TSV
};
extern const char *const format_choices[];

/* What to read, and where to write; every decoding command begins its options with it. */
#define MAX_IMAGES 64

struct image_option {
	char kind; /* 'r'aw, 'e'lf, 'p'ages */
	const char *value;
};

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
	uint64_t pid;	  /* 0: all */
	uint64_t tid;	  /* 0: all */
	const char *comm; /* NULL: all */
	const char *cpu;  /* a number; NULL: all */
	const char *processor, *errata;
	bool no_tnt, no_retcomp;
	uint64_t jobs; /* 0: as is usual for the command */
};

/* clang-format off */
#define INPUT_OPTION(name, letter, kind, type, field, arg, help, choices)                          \
	{name, letter, kind, offsetof(type, input.field), arg, help, choices}
#define INPUT_OPTIONS(type)                                                                        \
	INPUT_SOURCE_OPTIONS(type),                                                                \
	INPUT_OPTION("format", 0, OPTION_CHOICE, type, format, "FORMAT",                           \
		     "text, json or tsv (default: text)", format_choices),                         \
	INPUT_TALK_OPTIONS(type)
/* ... for a command with formats of its own. */
#define INPUT_SOURCE_OPTIONS(type)                                                                 \
	INPUT_OPTION("input", 'i', OPTION_TEXT, type, path, "FILE",                                \
		     "the recording (default: perf.data)", NULL),                                  \
	INPUT_OPTION("pt", 0, OPTION_TEXT, type, pt, "FILE",                                       \
		     "read raw packets instead of a recording", NULL),                             \
	{"raw", 0, OPTION_IMAGE, offsetof(type, input), "FILE:ADDR",                               \
	 "with --pt: the bytes of FILE lie at ADDR (hexadecimal)", NULL},                          \
	{"elf", 0, OPTION_IMAGE, offsetof(type, input), "FILE[:BASE]",                             \
	 "with --pt: the code of an ELF file, moved to BASE", NULL},                               \
	{"pages", 0, OPTION_IMAGE, offsetof(type, input), "PREFIX",                                \
	 "with --pt: the pages PREFIX.dump at the addresses in PREFIX.addr", NULL},                \
	INPUT_OPTION("symfs", 0, OPTION_TEXT, type, symfs, "DIR",                                  \
		     "look for binaries below DIR", NULL),                                         \
	INPUT_OPTION("force", 'f', OPTION_FLAG, type, force, NULL,                                 \
		     "go on when binaries have changed or are missing", NULL),                     \
	INPUT_OPTION("pid", 0, OPTION_NUMBER, type, pid, "PID", "only this process", NULL),        \
	INPUT_OPTION("tid", 0, OPTION_NUMBER, type, tid, "TID", "only this thread", NULL),         \
	INPUT_OPTION("comm", 0, OPTION_TEXT, type, comm, "NAME",                                   \
		     "only threads of this name", NULL),                                           \
	INPUT_OPTION("cpu", 'C', OPTION_TEXT, type, cpu, "CPU",                                    \
		     "only this CPU's stream, in a recording that has one per CPU", NULL),         \
	INPUT_OPTION("processor", 0, OPTION_TEXT, type, processor, "F/M[/S]",                      \
		     "family/model/stepping that recorded (default: as the recording says)", NULL),\
	INPUT_OPTION("errata", 0, OPTION_TEXT, type, errata, "LIST",                               \
		     "work around these errata, all or none (default: the processor's)", NULL),    \
	INPUT_OPTION("no-tnt", 0, OPTION_FLAG, type, no_tnt, NULL,                                 \
		     "the trace has no TNT packets (a recording says so itself)", NULL),           \
	INPUT_OPTION("no-retcomp", 0, OPTION_FLAG, type, no_retcomp, NULL,                         \
		     "with --no-tnt: it has no compressed returns either", NULL),                  \
	INPUT_OPTION("output", 'o', OPTION_TEXT, type, output, "FILE",                             \
		     "write to FILE instead of standard output", NULL)
/* ... for a command that counts, and for one that reads item by item. */
#define INPUT_JOBS_OPTION(type)                                                                    \
	INPUT_OPTION("jobs", 'j', OPTION_NUMBER, type, jobs, "N",                                  \
		     "decode with N threads (default: one for each processor)", NULL)
#define INPUT_ORDERED_JOBS_OPTION(type)                                                            \
	INPUT_OPTION("jobs", 'j', OPTION_NUMBER, type, jobs, "N",                                  \
		     "decode with N threads (default: 1)", NULL)
#define INPUT_TALK_OPTIONS(type)                                                                   \
	INPUT_OPTION("no-progress", 0, OPTION_FLAG, type, no_progress, NULL,                       \
		     "no progress line on a terminal", NULL),                                      \
	INPUT_OPTION("quiet", 'q', OPTION_FLAG, type, quiet, NULL,                                 \
		     "no progress and no remarks on stderr", NULL),                                \
	{"help", 'h', OPTION_HELP, 0, NULL, "show this help", NULL}
/* clang-format on */

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
struct names;
int input_names(const struct input *input, const struct ptah_session *session,
		struct names **names);

/* What stream i is, with a comm that can be shown. */
void input_stream_info(const struct ptah_session *session, size_t i, struct ptah_stream_info *info);

/* Is stream i wanted? */
bool input_wants(const struct input *input, const struct ptah_session *session, size_t i);

/* Remarks of the recording on stderr. */
void input_notes(const struct input *input, const struct ptah_session *session);

/* Opens and closes the output. close returns the exit code. */
int output_open(const struct command *command, const struct input *input, struct out **out);
int output_close(const struct command *command, struct out *out, int status);

/* True after Ctrl-C: finish what is begun and end. */
bool interrupted(void);

/* Progress on stderr, if that is a terminal. */
struct progress {
	bool on, shown;
	uint64_t total, before;
	double last;
};

/* `summary`: the command prints nothing before it has read everything. */
void progress_begin(struct progress *p, const struct input *input,
		    const struct ptah_session *session, bool summary);
void progress_at(struct progress *p, uint64_t offset); /* in the current stream */
void progress_next(struct progress *p, uint64_t stream_bytes);
void progress_end(struct progress *p);

double now(void); /* seconds */

/* Packets of a stream, in order. */
struct packet_place {
	uint64_t offset;
	const uint8_t *bytes; /* as on the wire */
	size_t size;
	int status;   /* negative: bad bytes, skipped up to the next PSB */
	bool goes_on; /* more of the bad bytes before */
	bool has_ip;
	uint64_t ip; /* of IP packets, expanded */
	struct ptah_packet packet;
};

/*
 * Calls `each` for every packet until it returns false. `sync`: what stands
 * before the first PSB is no packet but bytes of status PTAH_E_NO_SYNC.
 */
void packets_each(const struct ptah_session *session, size_t stream, bool sync,
		  bool (*each)(void *context, const struct packet_place *place), void *context);

/* Adds them up by type, and returns how many bytes are none; ends early when interrupted. */
uint64_t packets_count(const struct ptah_session *session, size_t stream, uint64_t *counts);

#endif
