/* SPDX-License-Identifier: MIT */
/* The table of `ptah record`'s options, with those of perf record that are refused. */
#include "record_options.h"

static const char *const clocks[] = {"default", "insn", "host", NULL};
/* In the order of enum ptah_recorder_kind. */
static const char *const recorders[] = {"best", "hardware", "qemu",   "ptrace",
					"vm",	"module",   "native", NULL};

#define AT(field) offsetof(struct record_options, field)
#define REFUSED(option, short_option, why)                                                         \
	{                                                                                          \
		.name = (option), .letter = (short_option), .kind = OPTION_REFUSED, .help = (why)  \
	}
#define NO_SAMPLES  "Intel PT takes no samples: every branch is recorded, with its time"
#define SAY_IN_MODE "say it in the event: -e intel_pt//u is user code, //k the kernel, //uk both"
#define ONE_FILE    "the recording is one plain file, written as it comes"

const struct option_def record_output_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = AT(output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "where to write (default: perf.data)",
     .man = "Where to write. Default: *perf.data*. A pipe or a device gets the layout that perf "
	    "writes through a pipe."},
    {0},
};

const struct option_def record_event_options[] = {
    {.name = "event",
     .letter = 'e',
     .kind = OPTION_LIST,
     .at = AT(events),
     .arg = "EVENT",
     .man_arg = "`intel_pt/`*TERMS*`/u`",
     .help = "intel_pt/TERMS/uk (default: intel_pt//u), on hardware others, too",
     .man = "The options of the processor, separated by commas, by the names that "
	    "`perf-intel-pt`(1) has for them: `noretcomp`; `mtc` and "
	    "`mtc_period`=*N* (an MTC packet every 2^N ticks of the crystal); `cyc` "
	    "and `cyc_thresh`=*N* (0, or at least 2^(N-1) cycles between CYC "
	    "packets); `psb_period`=*N* (a PSB every 2^(N+11) bytes). On hardware "
	    "there is an MTC packet every 2^3 ticks, as with perf, unless `mtc=0` is "
	    "given. Under emulation an instruction takes one cycle or, with "
	    "`--clock=host`, the time that it took. Also `tsc`, `branch`, `ptw`, "
	    "`fup_on_ptw`, `pwr_evt`, `event`, `notnt`, and the terms that this "
	    "machine's driver describes in "
	    "*/sys/bus/event_source/devices/intel_pt/format*; emulated processors do "
	    "not have these. After the slash, `u` means user code and `k` the "
	    "kernel; without either, it is user code. Under emulation there is no "
	    "kernel to trace.\n"
	    ".IP\n"
	    "On hardware other events can be recorded beside the trace, each with an `-e` of "
	    "its own or in a list with commas, as in perf record: tracepoints "
	    "*GROUP*`:`*NAME* (those that `perf probe` makes, too), the kernel's events "
	    "`page-faults`, `minor-faults`, `major-faults`, `context-switches`, "
	    "`cpu-migrations`, `alignment-faults`, `emulation-faults`, `cpu-clock`, "
	    "`task-clock`, and the counters `cycles`, `instructions`, `ref-cycles`, "
	    "`bus-cycles`, `branches`, `branch-misses`, `cache-references`, `cache-misses`, "
	    "with `:u` or `:k` after the name for user code or the kernel alone. Each time that "
	    "a tracepoint or a fault, switch or migration happens is a sample; of clocks and "
	    "counters there are 4000 samples a second, as with perf. intel_pt is recorded "
	    "whether it is named or not. Tracepoints need root. The events have buffers apart, of "
	    "256 KiB for each event on each processor (or `-m`), so that those that happen "
	    "often cannot push out what the trace needs; how many samples were lost is a note "
	    "in the recording.\n"
	    ".IP\n"
	    "With Linux 6.13 and later, other events can switch the trace of "
	    "their thread off and on, in the kernel, where they happen, as in perf record: "
	    "`-e` *GROUP*`:`*NAME*`/aux-action=pause/` and `/aux-action=resume/` of tracepoints "
	    "(those that `perf probe` makes, too), and "
	    "`-e mem:`*ADDRESS*`:x/aux-action=resume/` of an instruction. With "
	    "`-e intel_pt/aux-action=start-paused/u` nothing is traced until the first of them "
	    "resumes the trace. No samples of these events are recorded."},
    {.name = "only-during",
     .kind = OPTION_ONCE,
     .at = AT(only_during),
     .arg = "FUNCTION[@FILE]",
     .help = "trace only calls of FUNCTION and what they call (hardware, Linux 6.13)",
     .man =
	 "Trace only while *FUNCTION* of the command, or of *FILE*, runs, with all that it calls: "
	 "nothing is traced until it is called, and the kernel pauses the trace when it returns. "
	 "The calls of all threads count, each for its own thread. A function that calls itself "
	 "is traced until the innermost of its calls returns. On hardware, with Linux 6.13 and "
	 "later, as root; `--filter` with the function's name is possible everywhere, and leaves "
	 "out what it calls."},
    {.name = "filter",
     .kind = OPTION_ONCE,
     .at = AT(filter),
     .arg = "FILTER",
     .help = "trace only 'filter SYMBOL@FILE' or START/SIZE@FILE; 'stop ...' ends it there",
     .man = "Address ranges of the processor, four at most, separated by commas:\n"
	    ".RS\n"
	    ".TP\n"
	    "`filter` *START*[`/`*SIZE*] [`@`*FILE*]\n"
	    "Only code in these ranges is traced.\n"
	    ".TP\n"
	    "`stop` *START*[`/`*SIZE*] [`@`*FILE*]\n"
	    "Tracing of a thread ends when execution enters the range.\n"
	    ".RE\n"
	    ".IP\n"
	    "*START* is the name of a function, *NAME*`#`*N* the Nth of that name, "
	    "or a number with a *SIZE*: an offset in *FILE*, or an address where no "
	    "file is named. A name without a file belongs to the command, or to the "
	    "process of `-p`; with `intel_pt//k` it belongs to the kernel. *NAME*` / "
	    "`*NAME2* is from one function to the end of another, `*@`*FILE* all of "
	    "a file. If code is mapped later, its range takes effect then. As on a "
	    "processor, only branches enter and leave a range: execution that "
	    "continues into it without a branch is not traced."},
    {.name = "recorder",
     .kind = OPTION_CHOICE,
     .at = AT(recorder),
     .arg = "RECORDER",
     .choices = recorders,
     .help = "best, hardware, module, native, qemu, ptrace or vm (default: best)",
     .man = "`hardware` (Linux' intel_pt driver), `module` (Ptah's kernel module, */dev/ptah*), "
	    "`qemu`, `ptrace`, `vm` (see `--vm`), `native` (code inside the program, new), "
	    "or `best` (the default): the first of the first four that can record what is "
	    "requested. For a running process (`-p`) `native` is one of them, and (`-p`, "
	    "`-t`) `best` never is `ptrace`, which makes it thousands of times slower: "
	    "that has to be named."},
    {0},
};

const struct option_def record_machine_options[] = {
    {.name = "vm",
     .kind = OPTION_FLAG,
     .at = AT(vm),
     .help = "COMMAND is qemu-system-x86_64: record the virtual machine from outside",
     .man = "The command is *qemu-system-x86_64* with its options. The virtual machine is "
	    "recorded from outside, from its first instruction on: firmware, boot loader, any "
	    "kernel and its programs, of 16, 32 and 64 bits. The guest does not take part in it "
	    "and sees no Intel PT. Each of its processors has a stream. Without `-e`, the kernel "
	    "and user code are traced. QEMU translates the guest's code (TCG); KVM is not "
	    "possible. Where no `-cpu` is given, the guest gets a processor without fast string "
	    "instructions, with which QEMU is slow. Addresses for `--filter` are numbers."},
    {.name = "symbols",
     .kind = OPTION_TEXT,
     .at = AT(symbols),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "with --vm: symbols of the guest's Linux: kallsyms, System.map or vmlinux",
     .man = "With `--vm`: the symbols of the guest's Linux kernel: vmlinux, System.map, or a "
	    "copy of */proc/kallsyms* of this kernel (booted with nokaslr). From them the "
	    "recorder knows where the kernel lies and the names of processes. Give the file to "
	    "`--kallsyms` or `--vmlinux` of `ptah report` and the like as well."},
    {.name = "cr3",
     .kind = OPTION_TEXT,
     .at = AT(cr3),
     .arg = "ADDRESS",
     .help = "with --vm: trace the address space with this CR3 alone",
     .man = "With `--vm`: trace only while CR3 has this value, without its low 12 bits."},
    {.name = "start-at",
     .kind = OPTION_TEXT,
     .at = AT(start_at),
     .arg = "ADDRESS",
     .help = "with --vm: begin to trace when this instruction runs",
     .man = "With `--vm`: tracing of a processor begins when it runs this instruction, or to be "
	    "exact with the block of code that QEMU made around it."},
    {.name = "stop-at",
     .kind = OPTION_TEXT,
     .at = AT(stop_at),
     .arg = "ADDRESS",
     .help = "with --vm: end the trace when this instruction runs",
     .man = "With `--vm`: tracing of a processor ends when it is about to run this instruction."},
    {0},
};

const struct option_def record_target_options[] = {
    {.name = "pid",
     .letter = 'p',
     .kind = OPTION_TEXT,
     .at = AT(target.pids),
     .arg = "PID,...",
     .man_arg = "*PID*,...",
     .help = "record running processes",
     .man = "Record these processes with all their threads."},
    {.name = "tid",
     .letter = 't',
     .kind = OPTION_TEXT,
     .at = AT(target.tids),
     .arg = "TID,...",
     .man_arg = "*TID*,...",
     .help = "record running threads",
     .man = "Record only these threads."},
    {.name = "all-cpus",
     .letter = 'a',
     .kind = OPTION_FLAG,
     .at = AT(target.all_cpus),
     .help = "record whatever runs",
     .man = "Record whatever runs, on all processors; also on those that come online while "
	    "recording."},
    {.name = "cpu",
     .letter = 'C',
     .kind = OPTION_TEXT,
     .at = AT(target.cpus),
     .arg = "LIST",
     .help = "record whatever runs on these processors, as 0-3,5",
     .man = "Record whatever runs on these processors: `0-3,5`."},
    {.name = "per-thread",
     .kind = OPTION_FLAG,
     .at = AT(target.per_thread),
     .help = "a buffer for each thread instead of each processor",
     .man = "Use a buffer for each thread that exists at the beginning, instead of "
	    "one for each processor."},
    {0},
};

const struct option_def record_options[] = {
    {.name = "no-inherit",
     .letter = 'i',
     .kind = OPTION_FLAG,
     .at = AT(no_inherit),
     .help = "leave out children, and threads that begin later",
     .man = "Do not record children, and threads that begin later."},
    {.name = "kcore",
     .kind = OPTION_FLAG,
     .at = AT(kcore),
     .help = "keep a copy of the kernel's code",
     .man = "Keep a copy of the kernel's code with the recording, for decoding."},
    {.name = "no-jit-copies",
     .kind = OPTION_FLAG,
     .at = AT(no_jit_copies),
     .help = "do not copy the lists of generated code (perf-PID.map, jit-PID.dump)",
     .man = "Do not copy what the recorded programs list of the code that they generate. "
	    "Otherwise, at the end of the recording, maps for perf (*/tmp/perf-PID.map*) and "
	    "jitdumps (*jit-PID.dump*) are copied into the folder *FILE*`.jit`, 1 GiB at most, so "
	    "that their names are known later."},
    {.name = "mmap-pages",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .at = AT(pages),
     .arg = "[DATA][,AUX]",
     .man_arg = "[*DATA*][`,`*AUX*]",
     .help = "room for records and for trace: pages, or sizes with B, K, M or G",
     .man = "The room for records (*DATA*) and for trace (*AUX*) of each thread or "
	    "processor: a number of pages, or a size with B, K, M or G. It is "
	    "rounded up to a power of two of pages, as perf does. An emulated "
	    "processor's *AUX* is 64K to 64M."},
    {.name = "snapshot",
     .letter = 'S',
     .kind = OPTION_OPTIONAL,
     .at = AT(snapshot),
     .arg = "SIZE",
     .man_arg = "[`e`]*SIZE*",
     .help = "keep the last SIZE bytes of each trace; SIGUSR2 saves them",
     .man = "Keep only the last *SIZE* bytes of each trace, or as much as the buffer "
	    "holds. SIGUSR2, or `snapshot` by `--control`, saves them; so does the "
	    "end of the recording. The size directly follows the option (`-S1M`, "
	    "`--snapshot=1M`); the next argument is taken for the size if it is one."},
    {.name = "on-crash",
     .kind = OPTION_OPTIONAL,
     .at = AT(on_crash),
     .arg = "SIZE",
     .help = "keep the last SIZE bytes of each trace, and only if a program crashes",
     .man = "A flight recorder: as `--snapshot`, but the recording is kept only if a signal "
	    "ends the command or a process of it (SIGSEGV, SIGABRT, SIGKILL and others; not "
	    "SIGINT, SIGTERM or SIGPIPE), or a snapshot was taken. Otherwise no file is left. "
	    "`ptah script --last=20` shows the end of each thread."},
    {.name = "on-failure",
     .kind = OPTION_OPTIONAL,
     .at = AT(on_failure),
     .arg = "SIZE",
     .help = "the same, also if the command's exit status is not 0",
     .man = "As `--on-crash`, and the recording is also kept if the command exits with "
	    "another status than 0, or any signal ends it."},
    {.name = "stop-when-full",
     .kind = OPTION_FLAG,
     .at = AT(stop_when_full),
     .help = "end each thread's trace when its buffer is full",
     .man = "End the trace of a thread when its buffer is full: the beginning is "
	    "kept."},
    {.name = "buffer",
     .kind = OPTION_SIZE,
     .at = AT(buffer),
     .arg = "SIZE",
     .help = "room for trace, as -m ,SIZE (default: 4M)",
     .man = "The same as `-m ,SIZE`, but not rounded: emulated processors take a "
	    "multiple of 64K up to 64M. Default: 4M. An emulated program waits when "
	    "the buffer is full."},
    {.name = "max-size",
     .kind = OPTION_TEXT,
     .at = AT(max_size),
     .arg = "SIZE",
     .help = "end the recording when the file is this large (B, K, M or G)",
     .man = "End the recording when the file has this size, a number with B, K, M or G. What "
	    "the buffers hold then is written too, so that the file becomes a little larger. "
	    "The command is not ended, as perf does: it runs on unrecorded."},
    {.name = "delay",
     .letter = 'D',
     .kind = OPTION_TEXT,
     .at = AT(delay),
     .arg = "MSECS",
     .help = "begin to trace after so long; -1: when --control says enable",
     .man = "Begin to trace this many milliseconds after the start; -1: when "
	    "`--control` receives `enable`."},
    {.name = "control",
     .kind = OPTION_TEXT,
     .at = AT(control),
     .arg = "CHANNEL",
     .man_arg = "`fd:`*N*[`,`*ACK*], `fifo:`*PATH*[`,`*ACK*]",
     .help = "fd:N[,ACK] or fifo:PATH[,ACK]: take enable, disable, snapshot, stop",
     .man = "Read commands, one a line, from an open descriptor or a fifo: `enable`, "
	    "`disable`, `snapshot`, `stop` (ends the recording), `ping`, and "
	    "`evlist` (names the event on stderr). When a command has been carried out, "
	    "\"ack\" and a newline are written to *ACK*."},
    {.name = "switch-events",
     .kind = OPTION_FLAG,
     .at = AT(switch_events),
     .help = "nothing: context switches are always recorded",
     .man = "Has no effect: context switches, where there are any, are always recorded."},
    {.name = "clock",
     .kind = OPTION_CHOICE,
     .at = AT(clock),
     .arg = "CLOCK",
     .choices = clocks,
     .help = "insn or host: what TSC counts (default: the recorder's own)",
     .man = "What the time stamp counter counts: *insn* is retired instructions, which "
	    "makes recordings repeatable (with the recorder qemu, which also makes the "
	    "memory layout and the program's random seed the same each time); *host* is the "
	    "machine's time. By default the recorders qemu, ptrace and vm count "
	    "instructions, and native has the machine's time, the only one that it can "
	    "have."},
    {.name = "dry-run",
     .kind = OPTION_FLAG,
     .at = AT(dry_run),
     .help = "say which recorder it would be, and end",
     .man = "Check the options, print which recorder would be used and why, and end. "
	    "No file is written."},
    {.name = "no-progress",
     .kind = OPTION_FLAG,
     .at = AT(no_progress),
     .help = "no progress line on a terminal",
     .man = "No progress line on a terminal."},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .at = AT(quiet),
     .help = "say nothing unless something is wrong",
     .man = "Print nothing unless something is wrong: neither the recorder, nor "
	    "progress, nor closing lines."},
    {.name = "verbose",
     .letter = 'v',
     .kind = OPTION_FLAG,
     .at = AT(verbose),
     .help = "say more",
     .man = "Also print the processor's identity and clock, and what `--control` and "
	    "signals did."},
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_HELP,
     .help = "show this help",
     .man = "Show a short help."},
    /* Options of perf record that are refused, each with the reason. */
    REFUSED("freq", 'F', NO_SAMPLES),
    REFUSED("count", 'c', NO_SAMPLES),
    REFUSED("call-graph", 'g', NO_SAMPLES),
    REFUSED("branch-any", 'b', NO_SAMPLES),
    REFUSED("branch-filter", 'j', NO_SAMPLES),
    REFUSED("weight", 'W', NO_SAMPLES),
    REFUSED("data", 'd', NO_SAMPLES),
    REFUSED("stat", 's', NO_SAMPLES),
    REFUSED("no-samples", 'n', NO_SAMPLES),
    REFUSED("raw-samples", 'R', NO_SAMPLES),
    REFUSED("aux-sample", 0, NO_SAMPLES),
    REFUSED("timestamp", 'T', "the trace has its own time: -e intel_pt/mtc,cyc/"),
    REFUSED("clockid", 'k', "time is the processor's TSC; see --clock for emulated ones"),
    REFUSED("all-user", 0, SAY_IN_MODE),
    REFUSED("all-kernel", 0, SAY_IN_MODE),
    REFUSED("uid", 'u', "name the user's processes: -p \"$(pgrep -d, -u USER)\""),
    REFUSED("cgroup", 'G', "name the group's processes: -p, with its cgroup.procs"),
    REFUSED("no-buildid", 'B', "build ids are always recorded: they cost no time"),
    REFUSED("no-buildid-cache", 'N', "no copies are made of what ran"),
    REFUSED("switch-output", 0, ONE_FILE),
    REFUSED("compression-level", 'z', ONE_FILE),
    REFUSED("threads", 0, ONE_FILE),
    REFUSED("aio", 0, ONE_FILE),
    REFUSED("overwrite", 0, "use --snapshot"),
    {0},
};

const struct option_def record_simulated_options[] = {
    {.name = "no-retcomp",
     .kind = OPTION_FLAG,
     .at = AT(no_retcomp),
     .help = "no return compression: larger, quicker to decode",
     .man = "No return compression: every return has a TIP packet. The recording is "
	    "larger."},
    {.name = "long-tnt",
     .kind = OPTION_FLAG,
     .at = AT(long_tnt),
     .help = "send TNT-64 packets instead of TNT-8",
     .man = "Collect up to 47 conditional branches in a TNT-64 packet instead of 6 "
	    "in a TNT-8."},
    {.name = "truth",
     .kind = OPTION_FLAG,
     .at = AT(truth),
     .help = "native: count what runs in a second way, too",
     .man =
	 "The recorder *native* also writes which code ran, without packets, so that "
	 "*ptah verify* can compare; it is slower. The recorders *qemu*, "
	 "*ptrace* and *vm* always do. A processor cannot: of *hardware* the recording has a note "
	 "instead, as it has where the truth of a thread is missing."},
    {.name = "time-resolution",
     .kind = OPTION_TEXT,
     .at = AT(time_resolution),
     .arg = "TIME",
     .help = "native: look so often at what time it is, as 50us, or off (default: 100us)",
     .man = "How often the recorder *native* looks how far the threads are, and writes the time "
	    "into the trace: *50us*, *1ms*, or *off*. The default is *100us*. It looks less often "
	    "where it would take more than a tenth of a processor for it, and where no thread "
	    "gets on. Times are exact where the kernel is entered and left in any case. Where the "
	    "kernel allows it, the recording has the context switches of the threads, too, but "
	    "with *off*; see "
	    "*docs/time.md*."},
    {.name = "no-syscalls",
     .kind = OPTION_FLAG,
     .at = AT(no_syscalls),
     .help = "native, qemu, ptrace: leave out the system calls",
     .man = "The recorders *native*, *qemu* and *ptrace* write each system call into the "
	    "recording, with its "
	    "arguments, its result, and the times at which the program made it and got it back, as "
	    "samples of the events *raw_syscalls:sys_enter* and *raw_syscalls:sys_exit*, which "
	    "*perf script* prints; and paths, addresses of sockets and the like as "
	    "*ptah:sys_data*, but no buffers that are read or written. A call takes some 200 bytes "
	    "of the file. This option leaves them out. With *--snapshot* the last ones "
	    "are kept, in as much memory as the trace of one thread takes."},
    {.name = "mark-loops",
     .kind = OPTION_FLAG,
     .at = AT(mark_loops),
     .help = "simulated: make loops of plain jumps and calls countable",
     .man = "For simulated processors: a loop whose branches are all jumps and calls to fixed "
	    "addresses leaves no packets, so that a trace does not contain how often it ran "
	    "before an interrupt ended it. With this option the processor is interrupted twice "
	    "in each pass, which takes about 14 bytes of trace. Decoders need to know nothing "
	    "about it. An instruction that jumps to itself remains uncounted."},
    {.name = "psb-period",
     .kind = OPTION_NUMBER,
     .at = AT(psb_period),
     .arg = "BYTES",
     .help = "trace bytes between PSB+ (default: 4096, natively 131072; a power of two)",
     .man = "Bytes of trace between two synchronisation points, a power of two from "
	    "2 KiB to 64 MiB, natively from 4 KiB to 128 KiB. Default: 4096, natively 128 KiB. "
	    "A decoder that meets code that is missing goes on at the next one."},
    {.name = "qemu",
     .kind = OPTION_TEXT,
     .at = AT(qemu),
     .arg = "PATH",
     .complete = COMPLETE_FILE,
     .help = "the emulator (default: qemu-x86_64)",
     .man = "The emulator. Default: *qemu-x86_64* in `PATH`."},
    {.name = "plugin",
     .kind = OPTION_TEXT,
     .at = AT(plugin),
     .arg = "PATH",
     .complete = COMPLETE_FILE,
     .help = "the recorder's plugin (default: found beside ptah)",
     .man = "The recorder's plugin, *ptah-qemu.so*. Default: the one that was "
	    "installed with this program."},
    {0},
};
