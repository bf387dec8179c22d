/* SPDX-License-Identifier: MIT */
/* The options that several commands share, each defined once. */
#include "input.h"

const char *const format_choices[] = {"text", "json", "tsv", NULL};

const struct option_def input_options[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, path),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the recording (default: perf.data)",
     .man = "The recording to read, as written by `ptah-record`(1) or by `perf "
	    "record -e intel_pt//`: a file, one of perf's folders (`--threads`, "
	    "`--kcore`), or a pipe, with - for standard input. The name may also "
	    "stand alone, without the option. Default: *perf.data*."},
    {0},
};

const struct option_def raw_options[] = {
    {.name = "pt",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, pt),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "read raw packets instead of a recording",
     .man = "Read the raw packets in *FILE* instead of a recording. The memory that "
	    "ran comes from the three options below, which may be given many times; "
	    "where they overlap, the last one holds."},
    {.name = "raw",
     .kind = OPTION_IMAGE,
     .arg = "FILE:ADDR",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the bytes of FILE lie at ADDR (hexadecimal)",
     .man = "With `--pt`: the bytes of *FILE* lie at the hexadecimal address *ADDR*."},
    {.name = "elf",
     .kind = OPTION_IMAGE,
     .arg = "FILE[:BASE]",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the code of an ELF file, moved to BASE",
     .man = "With `--pt`: the executable segments of an ELF file, at their own "
	    "addresses or, for position-independent files, from the hexadecimal "
	    "address *BASE* on."},
    {.name = "pages",
     .kind = OPTION_IMAGE,
     .arg = "PREFIX",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the pages PREFIX.dump at the addresses in PREFIX.addr",
     .man = "With `--pt`: a page dump. *PREFIX*.addr holds little-endian 64-bit page "
	    "addresses, *PREFIX*.dump the 4 KiB pages in the same order."},
    {0},
};

const struct option_def decode_options[] = {
    {.name = "symfs",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, symfs),
     .arg = "DIR",
     .complete = COMPLETE_FOLDER,
     .help = "look for binaries below DIR",
     .man = "Look for the binaries of the recording, and for their debug files, "
	    "below *DIR*."},
    {.name = "force",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, force),
     .help = "go on when binaries have changed or are missing",
     .man = "Decode although a binary is missing or its build id is not the one that "
	    "was recorded. Where the code differs there will be errors."},
    {.name = "pid",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, pid),
     .arg = "PID",
     .help = "only this process",
     .man = "Only this process: its threads, and every program that it was."},
    {.name = "tid",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, tid),
     .arg = "TID",
     .help = "only this thread",
     .man = "Only the stream of this thread."},
    {.name = "comm",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, comm),
     .arg = "NAME",
     .help = "only threads of this name",
     .man = "Only threads of this name, which is their last one in the program that "
	    "they ran; of a longer *NAME* the first 15 characters count, as the "
	    "kernel keeps no more."},
    {.name = "cpu",
     .letter = 'C',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, cpu),
     .arg = "CPU",
     .help = "only this CPU's stream, in a recording that has one per CPU",
     .man = "Only the stream of this CPU, in recordings that have one stream per "
	    "CPU."},
    {.name = "processor",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, processor),
     .arg = "F/M[/S]",
     .help = "family/model/stepping that recorded (default: as the recording says)",
     .man = "The family, model and stepping of the processor that recorded (numbers "
	    "as in /proc/cpuinfo; hexadecimal with 0x), or *none*. It decides which "
	    "errata are worked around. By default the recording says; a raw trace "
	    "does not."},
    {.name = "errata",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, errata),
     .arg = "LIST",
     .complete = COMPLETE_ERRATA,
     .help = "work around these errata, all or none (default: the processor's)",
     .man = "Work around these errata and no others: names with commas between them, "
	    "*all* or *none*. They are listed in `ptah-errata`(7)."},
    {.name = "no-tnt",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_tnt),
     .help = "the trace has no TNT packets (a recording says so itself)",
     .man = "The trace was made without TNT packets (perf's *notnt*), as a recording "
	    "says itself. Which way conditional branches went is then in no packet: "
	    "where one ran, the path is reported up to it, and a *gap* until the "
	    "next packet with an address."},
    {.name = "no-retcomp",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_retcomp),
     .help = "with --no-tnt: it has no compressed returns either",
     .man = "With `--no-tnt`: the trace was made without compressed returns (perf's "
	    "*noretcomp*), so that every return is in it."},
    {0},
};

const struct option_def output_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write to FILE instead of standard output",
     .man = "Write to *FILE* instead of standard output. The text goes to *FILE*.tmp "
	    "first, so that there is never half a *FILE*."},
    {0},
};

const struct option_def format_options[] = {
    {.name = "format",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct input, format),
     .arg = "FORMAT",
     .choices = format_choices,
     .help = "text, json or tsv (default: text)",
     .man = "*text* for people (the default), *json* or *tsv* for programs. JSON is one document; "
	    "addresses are strings such as \"0x401000\". TSV begins with a line of names."},
    {0},
};

const struct option_def jobs_options[] = {
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, jobs),
     .arg = "N",
     .help = "decode with N threads (default: one for each processor)",
     .man = "Decode with *N* threads. Streams are cut at their PSBs and the pieces "
	    "decoded side by side; what is printed is the same as with one thread, "
	    "byte for byte. Memory grows with *N*. Default: one for each processor."},
    {0},
};

const struct option_def ordered_jobs_options[] = {
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, jobs),
     .arg = "N",
     .help = "decode with N threads (default: 1)",
     .man = "Decode with *N* threads. Streams are cut at their PSBs and the pieces "
	    "decoded side by side; what is printed is the same as with one thread, "
	    "byte for byte. Memory grows with *N*. It pays where decoding is most of "
	    "the work, on machines with processors to spare. Default: 1."},
    {0},
};

const struct option_def symbols_options[] = {
    {.name = "no-symbols",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_symbols),
     .help = "addresses only: quicker",
     .man = "Addresses only. Quicker."},
    {0},
};

const struct option_def limit_options[] = {
    {.name = "limit",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, limit),
     .arg = "N",
     .help = "rows to show (default: 20; 0: all)",
     .man = "How many rows to show. Default: 20; 0: all."},
    {0},
};

const struct option_def quiet_options[] = {
    {.name = "no-progress",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_progress),
     .help = "no progress line on a terminal",
     .man = "No progress line, even on a terminal."},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, quiet),
     .help = "no progress and no remarks on stderr",
     .man = "No progress and no remarks on standard error. Failures are still told."},
    {0},
};

const struct option_def help_options[] = {
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_HELP,
     .help = "show this help",
     .man = "Show a short help."},
    {0},
};
