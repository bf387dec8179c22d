/* SPDX-License-Identifier: MIT */
/*
 * Options as libipt's ptxed spells them, so that its command lines, and those that libipt's scripts
 * print, work here. They are in no command's help; ptah-ptxed(7) lists them.
 */
#include "input.h"

#define NUMBER(option, kind_of_it, text)                                                           \
	{                                                                                          \
		.name = (option), .kind = OPTION_SET, .at = (kind_of_it), .arg = "N",              \
		.help = "a number", .man = (text)                                                  \
	}
#define NAMED_FILE(option, kind_of_it, text)                                                       \
	{                                                                                          \
		.name = (option), .kind = OPTION_SET, .at = (kind_of_it), .arg = "FILE",           \
		.help = "a file", .man = (text)                                                    \
	}
#define NO_EFFECT(option, text)                                                                    \
	{                                                                                          \
		.name = (option), .kind = OPTION_FLAG, .at = offsetof(struct input, ignored),      \
		.help = "no effect", .man = "No effect: " text                                     \
	}
/* Those of the ranges 0 to 3, each explained once. */
#define RANGE(n, text_cfg, text_a, text_b)                                                         \
	NUMBER("filter:addr" #n "_cfg", SET_RANGE_CFG, text_cfg),                                  \
	    NUMBER("filter:addr" #n "_a", SET_RANGE_A, text_a),                                    \
	    NUMBER("filter:addr" #n "_b", SET_RANGE_B, text_b)

const struct option_def ptxed_options[] = {
    {.name = "pevent:primary",
     .kind = OPTION_SET,
     .at = SET_SIDEBAND_PRIMARY,
     .arg = "FILE",
     .man_arg = "*FILE*[`:`*FROM*[`-`*TO*]]",
     .help = "records of perf",
     .man = "Records as in the buffer of a perf event: which processes there were, what they had "
	    "mapped, and which thread ran when. May be given several times. The context switches "
	    "in a primary file are those of the CPU that the packets are of. This matters where "
	    "`--pt` does not say the CPU: they must then be of one CPU."},
    {.name = "pevent:secondary",
     .kind = OPTION_SET,
     .at = SET_SIDEBAND,
     .arg = "FILE",
     .man_arg = "*FILE*[`:`*FROM*[`-`*TO*]]",
     .help = "more records of perf",
     .man = "The same, from other CPUs. Where `--pt` says the CPU, there is no difference between "
	    "primary and secondary."},
    NUMBER("pevent:sample-type", SET_SAMPLE_TYPE,
	   "`perf_event_attr.sample_type` of the event that wrote the records of the files that "
	   "follow. It says which fields end a record."),
    {.name = "pevent:sample-config",
     .kind = OPTION_SET,
     .at = SET_SAMPLE_CONFIG,
     .arg = "ID:TYPE",
     .help = "the sample type of an event",
     .man = "The same for the event with this id, where events differ. May be given several times. "
	    "The id 0 is that of the records that perf made up itself."},
    NUMBER(
	"pevent:time-zero", SET_TIME_ZERO,
	"`time_zero` of `struct perf_event_mmap_page`. A record's time in nanoseconds is "
	"*time-zero* + (TSC times *time-mult* >> *time-shift*). By default a nanosecond is a tick. "
	"libipt's *perf-get-opts.bash* rounds this number, by up to two microseconds."),
    NUMBER("pevent:time-shift", SET_TIME_SHIFT, "`time_shift` there: 0 to 63."),
    NUMBER("pevent:time-mult", SET_TIME_MULT, "`time_mult` there: not 0."),
    NUMBER("pevent:tsc-offset", SET_TSC_OFFSET,
	   "The records of the files that follow are valid by so many ticks earlier or, if the "
	   "number is negative, later."),
    {.name = "pevent:sysroot",
     .kind = OPTION_SET,
     .at = SET_SYSROOT,
     .arg = "DIR",
     .help = "as --symfs",
     .man = "The files that the records name are below *DIR*: the same as `--symfs`."},
    NAMED_FILE("pevent:kcore", SET_KCORE,
	       "The kernel's code: an ELF file as */proc/kcore*. The names of its functions are "
	       "those of `--kallsyms`."),
    NAMED_FILE("pevent:vdso-x64", SET_VDSO_64,
	       "The code of *[vdso]* in 64-bit processes, which is in no file of the system."),
    NAMED_FILE("pevent:vdso-x32", SET_VDSO_X32, "The same for processes of the x32 ABI."),
    NAMED_FILE("pevent:vdso-ia32", SET_VDSO_32, "The same for 32-bit processes."),
    NUMBER("pevent:kernel-start", SET_NUMBER_WITHOUT_EFFECT,
	   "No effect: the kernel's addresses are the upper half, and its mappings are in the "
	   "records."),
    NUMBER("cpuid-0x15.eax", SET_LEAF_15_EAX, "EAX of CPUID leaf 15H, as in `--cpuid-0x15`."),
    NUMBER("cpuid-0x15.ebx", SET_LEAF_15_EBX, "EBX of CPUID leaf 15H, as in `--cpuid-0x15`."),
    RANGE(0,
	  "IA32_RTIT_CTL.ADDR0_CFG: 1, the trace is of code in the range alone; 2, it ends where "
	  "execution enters the range; 0, the range is not used. In Ptah's own words: `--filter`.",
	  "IA32_RTIT_ADDR0_A: the range's first address.",
	  "IA32_RTIT_ADDR0_B: the range's last address."),
    RANGE(1, "The same of range 1.", "The same of range 1.", "The same of range 1."),
    RANGE(2, "The same of range 2.", "The same of range 2.", "The same of range 2."),
    RANGE(3, "The same of range 3.", "The same of range 3.", "The same of range 3."),
    NO_EFFECT("block-decoder", "there is one decoder, and all commands use it."),
    NO_EFFECT("insn-decoder", "there is one decoder, and all commands use it."),
    NO_EFFECT("resync-on-error", "after an error, decoding always continues at the next packet "
				 "from which it can."),
    NUMBER("iscache-limit", SET_NUMBER_WITHOUT_EFFECT,
	   "No effect: files are mapped, and the system decides how much of them is in memory."),
    {0},
};
