/* SPDX-License-Identifier: MIT */
/* The options that ptah live has besides those of ptah record. */
#include "live_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct live_options, field)

static const char *const clocks[] = {"default", "insn", "host", NULL};
static const char *const color_choices[] = {"auto", "always", "never", NULL};

const struct option_def live_options[] = {
    {.name = "input",
     .letter = 'i',
     .kind = OPTION_TEXT,
     .at = AT(record.input.path),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "read what comes through a pipe; - is standard input",
     .man = "Record nothing, and read a recording in the layout of a pipe while it comes: *FILE*, "
	    "which may be a fifo, or with - standard input. `perf record -o -` (of a command, of "
	    "threads with `--per-thread`, or of processors with `-a`) and `ptah record -o` *FIFO* "
	    "write it, and `--output` of this command."},
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = AT(record.output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write the recording, too",
     .man = "Write the recording to *FILE*, too, a perf.data in the layout of a pipe, which every "
	    "command reads. Without this option nothing is written."},
    {.name = "every",
     .kind = OPTION_TEXT,
     .at = AT(every),
     .arg = "TIME",
     .help = "how long an interval is (default: 1s)",
     .man = "How long an interval is, in seconds or with ms, s, m or h. Default: 1s. The least is "
	    "10ms."},
    {.name = "for",
     .kind = OPTION_TEXT,
     .at = AT(duration),
     .arg = "TIME",
     .help = "end after so long; the command is ended, too",
     .man =
	 "End after this time, as for `--every`. That of a command begins when there is trace of "
	 "it. A command that still runs then is ended by SIGTERM."},
    {.name = "format",
     .kind = OPTION_CHOICE,
     .at = AT(format),
     .arg = "FORMAT",
     .choices = format_choices,
     .help = "text, json or tsv: lines, on a terminal too",
     .man =
	 "Print lines, although standard output is a terminal: *text*, a line for each interval "
	 "and at the end a table as that of `ptah-report`(1); *json*, a line with one object for "
	 "each interval; or *tsv*, a line for each function of each interval. The last object, "
	 "or the last lines, have \"final\" set: their interval is the whole time. Times of calls "
	 "are nanoseconds. Default, where standard output is no terminal: *text*."},
    {.name = "limit",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .at = AT(limit),
     .arg = "N",
     .help = "functions to print (default: 5 in a line, 20 in JSON, TSV and tables; 0: all)",
     .man = "How many functions are printed. Default: 5 in a line of text, 20 in a table, in JSON "
	    "and in TSV; 0: all that ran in the interval."},
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .at = AT(sort),
     .arg = "COLUMN",
     .choices = live_sort_words,
     .help = "now, total, calls, p99, max or waits (default: now)",
     .man =
	 "What functions are sorted by: instructions of the last interval (*now*, the default), "
	 "instructions since the beginning (*total*), *calls* in the last interval, or the times "
	 "of single calls: *p99* or *max*; or for how long their threads waited in them, what they "
	 "called included: *waits*, where context switches are recorded."},
    {.name = "save",
     .kind = OPTION_TEXT,
     .at = AT(save),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "save the exact counts at the end, as ptah profile --save",
     .man = "At the end, save the exact counts of blocks and edges as `ptah profile --save` does "
	    "(`ptah-profile`(1)). The trace is decoded a second time for them."},
    {.name = "watch",
     .kind = OPTION_LIST,
     .at = AT(watches),
     .arg = "EVENT",
     .help = "save what led to it: 'f > 2ms', 'enter f@libx.so', 'exit != 0'; see WATCHES",
     .man = "Save the end of the recording when this happens (see WATCHES). Several can be "
	    "given."},
    {.name = "keep",
     .kind = OPTION_TEXT,
     .at = AT(keep),
     .arg = "TIME|SIZE",
     .help = "how much of each thread is saved on a hit (default: 50ms)",
     .man = "How much of the trace of each thread of the process is saved on a hit: that of the "
	    "last *TIME* (us, ms, s, m, h), or the last *SIZE* bytes of each thread (with K, M or "
	    "G). What is saved begins at a PSB, so it is somewhat more. Default: 50ms. At most "
	    "256 MiB are kept."},
    {.name = "on-hit",
     .kind = OPTION_LIST,
     .at = AT(actions),
     .arg = "save:FILE|COMMAND",
     .help = "where a hit is saved (default: save:hit-%n.data), and what is run then",
     .man = "*save:FILE*: where the end of the recording is saved on a hit. In the name %n is the "
	    "number of the hit, %p the process, %t the thread; default: hit-%n.data. Anything "
	    "else is a command of the shell, which is run after the file has been written, with "
	    "its name as the last argument. Both can be given."},
    {.name = "hits",
     .kind = OPTION_NUMBER,
     .at = AT(hits),
     .arg = "N",
     .help = "end after so many hits; the command is ended, too",
     .man = "End after *N* hits. Without this option nothing ends, and the first 100 hits are "
	    "saved."},
    {.name = "control",
     .kind = OPTION_TEXT,
     .at = AT(record.control),
     .arg = "fd:N|fifo:PATH",
     .help = "take commands; 'hit TEXT' saves what led to this moment, as does SIGUSR2",
     .man = "Take commands from a descriptor or a fifo, as `ptah-record`(1) does, and *hit*, after "
	    "which any text may follow: it saves the end of the recording, as SIGUSR2 to `ptah "
	    "live` does."},
    {.name = "drop",
     .kind = OPTION_FLAG,
     .at = AT(drop),
     .help = "leave trace out when it comes faster than it is decoded",
     .man = "Leave trace out, and report how much, when it comes faster than it is decoded. "
	    "Without this option the recorder waits, and with a simulated processor the program; "
	    "on hardware the buffers become full, and what is lost there is reported."},
    {.name = "queue",
     .kind = OPTION_SIZE,
     .at = AT(queue),
     .arg = "SIZE",
     .help = "how much trace may wait to be decoded (default: 1M; with --drop, -i, -a, -C 8M)",
     .man = "How many bytes of trace may wait to be decoded, before the recorder waits or trace is "
	    "left out (`--drop`). It limits the lag, and memory. Of the trace of processors, eight "
	    "times as many bytes may wait for what must be decoded before them. Default: 1M; with "
	    "`--drop`, `-i`, `-a` or `-C`, 8M."},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .at = AT(record.input.jobs),
     .arg = "N",
     .help = "decode with N threads (default: one for each processor)",
     .man = "Decode with *N* threads. One of them decodes a thread of the program at a time; calls "
	    "of threads that move between processors (`-a`, `-C`) are all followed by one. "
	    "Default: one for each processor."},
    {.name = "command-output",
     .kind = OPTION_TEXT,
     .at = AT(command_output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "where the command's output goes",
     .man = "Write what *COMMAND* prints, on standard output and standard error, to *FILE*. "
	    "Without this option, what it would print on the terminal is lost while the screen is "
	    "shown; with lines, its standard output goes to standard error."},
    {.name = "clock",
     .kind = OPTION_CHOICE,
     .at = AT(record.clock),
     .arg = "CLOCK",
     .choices = clocks,
     .help = "insn or host: what TSC counts (default: host)",
     .man = "What the time stamp counter of a simulated processor counts: *host* (the default) is "
	    "nanoseconds of the machine's monotonic clock, *insn* retired instructions."},
    {.name = "no-inherit",
     .kind = OPTION_FLAG,
     .at = AT(record.no_inherit),
     .help = "leave out children, and threads that begin later",
     .man = "Do not record children, and threads that begin later."},
    {.name = "buffer",
     .kind = OPTION_SIZE,
     .at = AT(record.buffer),
     .arg = "SIZE",
     .help = "room for trace of each thread or processor (default: qemu 256K, others 4M)",
     .man = "The room for trace of each thread or processor, as for `ptah-record`(1). A smaller "
	    "one makes the lag smaller. Default: 256K for the recorders *qemu* and *ptrace*, "
	    "otherwise 4M."},
    {0},
};

const struct option_def live_input_options[] = {
    {.name = "symfs",
     .kind = OPTION_TEXT,
     .at = AT(record.input.symfs),
     .arg = "DIR",
     .complete = COMPLETE_FOLDER,
     .help = "look for binaries below DIR",
     .man = "Search the binaries, and their debug files, below *DIR*."},
    {.name = "buildid-dir",
     .kind = OPTION_TEXT,
     .at = AT(record.input.buildid_dir),
     .arg = "DIR",
     .complete = COMPLETE_FOLDER,
     .help = "perf's cache of files by build id (default: ~/.debug)",
     .man = "perf's cache of files by build id, as for `ptah-report`(1)."},
    {.name = "vmlinux",
     .letter = 'k',
     .kind = OPTION_TEXT,
     .at = AT(record.input.vmlinux),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the kernel's code and symbols, as an ELF file",
     .man = "The kernel's code and symbols, as for `ptah-report`(1)."},
    {.name = "kallsyms",
     .kind = OPTION_TEXT,
     .at = AT(record.input.kallsyms),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the names of the kernel's functions, as in /proc/kallsyms",
     .man = "The names of the kernel's functions, as for `ptah-report`(1)."},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .at = AT(record.input.color),
     .arg = "WHEN",
     .choices = color_choices,
     .help = "colours: auto, always or never (default: auto)",
     .man = "Colours: *auto* (on a terminal, unless `NO_COLOR` is set or `TERM` is dumb), *always* "
	    "or *never*. Default: *auto*."},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .at = AT(record.quiet),
     .help = "no remarks on stderr",
     .man = "No remarks on standard error. Failures are still reported."},
    {0},
};

bool live_parse_time(const char *text, double *seconds)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}};
	char *end;

	*seconds = strtod(text, &end);
	if ((*text < '0' || *text > '9') && *text != '.')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(end, units[i].name)) {
			*seconds *= units[i].seconds;
			return end != text && isfinite(*seconds) && *seconds <= 1e9;
		}
	return false;
}
