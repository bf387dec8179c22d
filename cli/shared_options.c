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
     .kind = OPTION_SET,
     .at = SET_PT,
     .arg = "FILE",
     .man_arg = "*FILE*[`:`*FROM*[`-`*TO*]][`,cpu=`*N*][`,tid=`*N*][`,pid=`*N*]",
     .complete = COMPLETE_FILE,
     .help = "read raw packets instead of a recording; also FILE:FROM-TO,cpu=N,tid=N,pid=N",
     .man = "Read the raw packets in *FILE*, or in its bytes from *FROM* up to but not "
	    "including *TO*, instead of a recording. The options below describe them. `--pt` may "
	    "be given several times: `cpu=`*N* and `tid=`*N* say which CPU or thread a file is of, "
	    "and files of the same CPU or thread are one stream, in their order. `pid=`*N* is the "
	    "thread's process. Numbers are decimal, or hexadecimal with 0x. Options as those of "
	    "libipt's `ptxed` add the records of processes and context switches that belong to "
	    "the packets: see `ptah-ptxed`(7)."},
    {.name = "raw",
     .kind = OPTION_SET,
     .at = SET_RAW,
     .arg = "FILE:ADDR",
     .man_arg = "*FILE*[`:`*FROM*[`-`*TO*]]`:`*ADDR*[`,cr3=`*X*][`,vmcs=`*X*][`,pid=`*N*]",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the bytes of FILE lie at ADDR (hexadecimal)",
     .man = "With `--pt`: the bytes of *FILE* (or some of them, as above) lie at the hexadecimal "
	    "address *ADDR*: in the memory of every process, in that of process *N*, or in the "
	    "address spaces with this CR3 and this VMCS pointer (hexadecimal). `--raw`, `--elf`, "
	    "`--pe` and `--pages` may be given several times; where they overlap, the last one "
	    "counts. They also add code to a `ptah-trace`(5) or a folder of another system that "
	    "is given in place of `--pt`."},
    {.name = "elf",
     .kind = OPTION_SET,
     .at = SET_ELF,
     .arg = "FILE[:BASE]",
     .man_arg = "*FILE*[`:`*BASE*][`,cr3=`*X*][`,vmcs=`*X*][`,pid=`*N*]",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the code of an ELF file, moved to BASE",
     .man = "With `--pt`: the executable segments of an ELF file, at their own "
	    "addresses or, for position-independent files, from the hexadecimal "
	    "address *BASE* on."},
    {.name = "pe",
     .kind = OPTION_SET,
     .at = SET_PE,
     .arg = "FILE[:BASE]",
     .man_arg = "*FILE*[`:`*BASE*][`,cr3=`*X*][`,vmcs=`*X*][`,pid=`*N*]",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the code of a program of Windows, loaded at BASE",
     .man = "With `--pt`: the executable sections of a PE file (a program, DLL or driver of "
	    "Windows), where its header wants to be loaded or at the hexadecimal address *BASE*."},
    {.name = "pages",
     .kind = OPTION_SET,
     .at = SET_PAGES,
     .arg = "PREFIX",
     .man_arg = "*PREFIX*[`,cr3=`*X*][`,vmcs=`*X*]",
     .complete = COMPLETE_FILE,
     .help = "with --pt: the pages PREFIX.dump at the addresses in PREFIX.addr",
     .man = "With `--pt`: a page dump. *PREFIX*.addr holds little-endian 64-bit page "
	    "addresses, *PREFIX*.dump the 4 KiB pages in the same order."},
    {.name = "filter",
     .kind = OPTION_SET,
     .at = SET_FILTER,
     .arg = "FILTER",
     .help = "with --pt: the address ranges it was made with, as in ptah record",
     .man = "With `--pt`: the address ranges of the processor, which determine where its trace "
	    "ends and begins again. The text is that of `ptah-record`(1). *FILE* in it is one of "
	    "`--elf`, or a file that the records name."},
    {.name = "mtc-freq",
     .kind = OPTION_SET,
     .at = SET_MTC_FREQ,
     .arg = "N",
     .help = "with --pt: an MTC packet every 2^N ticks of the crystal",
     .man = "With `--pt`: IA32_RTIT_CTL.MTCFreq, an MTC packet every 2^*N* ticks of the crystal. "
	    "This option and the two below are needed to interpret MTC, CYC and CBR packets, so "
	    "that there are times between TSC packets."},
    {.name = "nom-freq",
     .kind = OPTION_SET,
     .at = SET_NOM_FREQ,
     .arg = "N",
     .help = "with --pt: the processor's nominal ratio, MSR_PLATFORM_INFO[15:8]",
     .man = "With `--pt`: the maximum non-turbo ratio, MSR_PLATFORM_INFO[15:8]."},
    {.name = "cpuid-0x15",
     .kind = OPTION_SET,
     .at = SET_LEAF_15,
     .arg = "EAX,EBX",
     .help = "with --pt: the ratio of crystal and TSC, from CPUID leaf 15H",
     .man = "With `--pt`: registers of CPUID leaf 15H. *EBX* / *EAX* is the number of TSC ticks "
	    "for each tick of the crystal."},
    {.name = "save-set",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, save_set),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write what --pt and its options say to FILE, which can be read instead",
     .man =
	 "With `--pt`, or for a folder of another system: write all that describes the trace "
	 "to *FILE*, a `ptah-trace`(5). From then on *FILE* can be read in place of the options. "
	 "Called *ptah.trace*, in the folder with the trace, it describes that folder, "
	 "which can then be handed on. A file that is no ptah.trace is not replaced."},
    {0},
};

const struct option_def decode_options[] = {
    {.name = "symfs",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, symfs),
     .arg = "DIR",
     .complete = COMPLETE_FOLDER,
     .help = "look for binaries below DIR",
     .man = "Search the binaries of the recording, and their debug files, below "
	    "*DIR*; and the maps and jitdumps of code that processes generated."},
    {.name = "buildid-dir",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, buildid_dir),
     .arg = "DIR",
     .complete = COMPLETE_FOLDER,
     .help = "perf's cache of files by build id (default: ~/.debug)",
     .man = "Search for copies of programs and libraries in *DIR* (default: *~/.debug*), the "
	    "cache that `perf record` and `perf buildid-cache` fill, and where what `perf "
	    "archive` packed is unpacked. A copy is used where the file of the recording is "
	    "missing or has another build id; so are those that `--debuginfod` fetches. The "
	    "kernel and debug files are searched there, too. *DIR* is not below `--symfs`."},
    {.name = "vmlinux",
     .letter = 'k',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, vmlinux),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the kernel's code and symbols, as an ELF file",
     .man = "For a recording with the kernel's code: take it from this ELF file, and the "
	    "names of functions too. The path is not below `--symfs`. The build id must be "
	    "the recorded one (see `--force`). Without this option the code is that of the "
	    "copy beside the recording (`perf record --kcore`), of the running kernel if it "
	    "is the one that was recorded, or of a vmlinux with the recorded build id: in "
	    "perf's cache (*~/.debug*), below */usr/lib/debug*, */boot* or "
	    "*/lib/modules*."},
    {.name = "kallsyms",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, kallsyms),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the names of the kernel's functions, as in /proc/kallsyms",
     .man = "For a recording with the kernel's code: the names of its functions, in the "
	    "format of */proc/kallsyms*. The path is not below `--symfs`. If the kernel lay "
	    "elsewhere when it was recorded, the addresses are moved, and modules have no "
	    "names. Without this option the names are those beside the recording, those of "
	    "the running kernel if it has the recorded build id, or those of vmlinux."},
    {.name = "force",
     .letter = 'f',
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, force),
     .help = "go on when binaries have changed or are missing",
     .man = "Decode although a binary is missing or its build id is not the one that "
	    "was recorded. Where the code differs, decoding errors follow."},
    {.name = "pid",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, pid),
     .arg = "PID",
     .help = "only this process",
     .man = "Only this process: all its threads, and all programs that it executed "
	    "one after the other."},
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
     .man = "Only threads of this name. If a thread changed its name, the last name "
	    "in the program counts. The kernel keeps 15 characters of a name, and "
	    "only so many of *NAME* are compared."},
    {.name = "cpu",
     .letter = 'C',
     .kind = OPTION_CPU,
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
	    "as in /proc/cpuinfo; hexadecimal with 0x), or *none*. It determines "
	    "which errata are worked around. By default it is taken from the "
	    "recording; a raw trace does not contain it. `--cpu`=*F/M[/S]*, as `ptxed` spells it, "
	    "means the same."},
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
     .man = "The trace was made without TNT packets (perf's *notnt*); for a "
	    "recording, this is known. The outcomes of conditional branches are then "
	    "in no packet: the path is reported up to such a branch, and then a "
	    "*gap* up to the next packet with an address."},
    {.name = "no-retcomp",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_retcomp),
     .help = "with --no-tnt: it has no compressed returns either",
     .man = "With `--no-tnt`: the trace was made without compressed returns (perf's "
	    "*noretcomp*), so that it contains every return."},
    {0},
};

static const char *const color_choices[] = {"auto", "always", "never", NULL};

const struct option_def output_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write to FILE instead of standard output",
     .man = "Write to *FILE* instead of standard output. It is written as *FILE*.N.tmp, "
	    "where N is a number, and renamed at the end, so that *FILE* is never incomplete. It "
	    "must not be the recording itself."},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct input, color),
     .arg = "WHEN",
     .choices = color_choices,
     .help = "colours: auto, always or never (default: auto)",
     .man = "Colours in text: *auto* (on a terminal, unless `NO_COLOR` is set or `TERM` is "
	    "dumb), *always* or *never*. Default: *auto*."},
    {.name = "no-pager",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_pager),
     .help = "no pager, even on a terminal",
     .man = "Print to the terminal directly, not through the pager that `ptah`(1) describes."},
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
     .man = "Decode with *N* threads. Streams are divided at PSBs, and the segments "
	    "are decoded in parallel; the output is the same as with one thread, "
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
     .man = "Decode with *N* threads. Streams are divided at PSBs, and the segments "
	    "are decoded in parallel; the output is the same as with one thread, "
	    "byte for byte. Memory grows with *N*. It helps where decoding is most "
	    "of the work and the machine has idle processors. Default: 1."},
    {0},
};

const struct option_def symbols_options[] = {
    {.name = "no-symbols",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_symbols),
     .help = "addresses only: quicker",
     .man = "Print addresses only, which is faster."},
    {0},
};

const struct option_def names_options[] = {
    {.name = "no-demangle",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_demangle),
     .help = "names of C++ and Rust as they are in the file",
     .man = "Show the names of functions as they are in the file. Without this option names of "
	    "C++ and Rust are demangled, without the types of parameters, as in `perf report`."},
    {.name = "debuginfod",
     .kind = OPTION_OPTIONAL,
     .at = offsetof(struct input, debuginfod),
     .arg = "URLS",
     .help = "ask servers for files that are missing here",
     .man = "Fetch the debug files that this machine does not have from debuginfod servers: "
	    "*URLS*, with blanks between them, or by default those in the environment variable "
	    "DEBUGINFOD_URLS. Only the files of functions that are shown are asked for, by their "
	    "build ids; and programs and libraries that are missing, or others now. Where "
	    "DEBUGINFOD_URLS is set, as for gdb and other users of elfutils, this "
	    "option is not needed. What has been fetched is kept in the cache of "
	    "`debuginfod-find`(1)."},
    {.name = "no-debuginfod",
     .kind = OPTION_FLAG,
     .at = offsetof(struct input, no_debuginfod),
     .help = "ask no server, although DEBUGINFOD_URLS is set",
     .man = "Ask no server for files, although DEBUGINFOD_URLS is set. Without "
	    "`--debuginfod` and that variable, no network is used."},
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

#define MOMENT                                                                                     \
	"A time in seconds as `ptah script --time` and `perf script` print it (12.345678901); "    \
	"+*LENGTH* after the first time in the trace or -*LENGTH* before the last one, in "        \
	"seconds or with s, ms, us or ns; a percentage of the time between them (25%); or @*N*, "  \
	"the *N*-th instruction of each stream (from 0 on); or *hit*, the moment "                 \
	"for "                                                                                     \
	"which `ptah live --watch` kept the recording"

const struct option_def function_options[] = {
    {.name = "function",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, function),
     .arg = "FUNCTION",
     .help = "only what ran in FUNCTION; of calls also what it called",
     .man = "Only what ran in the function of this name, as it is shown or as it stands in the "
	    "file, where it may have several (fork and __fork): of branches and edges, those that "
	    "begin in it; of a tree of calls also what it called."},
    {0},
};

const struct option_def window_options[] = {
    {.name = "since",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, since),
     .arg = "TIME",
     .help = "only from then on: seconds, +SECONDS, -SECONDS, 25%, instruction @N, hit",
     .man = "Only what ran from then on. " MOMENT ". What is before is not decoded: decoding "
	    "begins at a PSB shortly before the window, over the memory as it was then. With "
	    "@*N* the instructions before it are counted, which takes as long as `ptah stat`. "
	    "Calls that began before the window have no beginning. If the recording has no "
	    "times, or nothing was traced then, that is an error."},
    {.name = "until",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, until),
     .arg = "TIME",
     .help = "only up to then; what --since takes",
     .man = "Only what ran up to then, the time itself included. *TIME* is as for `--since`."},
    {.name = "around",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, around),
     .arg = "TIME[,LENGTH]",
     .man_arg = "*TIME*[`,`*LENGTH*]",
     .help = "only this long around then (default: 1ms; @N: 1000 instructions)",
     .man = "Only what ran around then: half of *LENGTH* before *TIME*, which is as for "
	    "`--since`, and half after it. *LENGTH* is in seconds or with s, ms, us or ns; after "
	    "@*N* a number of instructions. Default: 1ms, or 1000 instructions."},
    {0},
};

const struct option_def source_options[] = {
    {.name = "source-path",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, source_path),
     .arg = "FOLDER:...",
     .complete = COMPLETE_FOLDER,
     .help = "where source files are now",
     .man = "Folders, with colons between them, in which to look for source files that are not "
	    "where the compiler read them: of */build/src/a.c* in turn *FOLDER/build/src/a.c*, "
	    "*FOLDER/src/a.c* and *FOLDER/a.c*."},
    {.name = "prefix",
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, prefix),
     .arg = "PREFIX",
     .complete = COMPLETE_FOLDER,
     .help = "put before absolute names of source files",
     .man = "Put *PREFIX* before the absolute names of source files, as perf annotate and "
	    "`objdump`(1) do."},
    {.name = "prefix-strip",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct input, prefix_strip),
     .arg = "N",
     .help = "leave out the first N folders, with --prefix",
     .man = "With `--prefix`, leave out the first *N* folders of the recorded name."},
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
     .man = "No progress and no remarks on standard error. Failures are still "
	    "reported."},
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
