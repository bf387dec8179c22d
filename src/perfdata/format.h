/* SPDX-License-Identifier: MIT */
/*
 * The numbers of the perf.data format, shared by writer and reader.
 *
 * Sources: Linux tools/perf/Documentation/perf.data-file-format.txt,
 * include/uapi/linux/perf_event.h, tools/lib/perf/include/perf/event.h, tools/perf/util/intel-pt.h.
 * They are repeated here, and not taken from a system header, so that the library builds alike
 * everywhere.
 */
#ifndef PTAH_PERFDATA_FORMAT_H
#define PTAH_PERFDATA_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

/* The file header: "PERFILE2", then u64 fields at these offsets. */
#define PERFDATA_MAGIC		 "PERFILE2"
#define PERFDATA_MAGIC_SWAPPED	 "2ELIFREP" /* the same, written by a big-endian machine */
#define PERFDATA_MAGIC_OLD	 "PERFFILE" /* before Linux 3.1 */
#define PERFDATA_HEADER_SIZE	 104
#define PERFDATA_PIPE_SIZE	 16 /* header of a file written through a pipe: magic, size */
#define PERFDATA_AT_SIZE	 8
#define PERFDATA_AT_ATTR_SIZE	 16
#define PERFDATA_AT_ATTRS	 24 /* a section: u64 offset, u64 size */
#define PERFDATA_AT_DATA	 40
#define PERFDATA_AT_DATA_SIZE	 48
#define PERFDATA_AT_FEATURES	 72 /* 256 bits */
#define PERFDATA_FEATURE_WORDS	 4
#define PERFDATA_SECTION_SIZE	 16
#define PERFDATA_RECORD_HEADER	 8 /* u32 type, u16 misc, u16 size */
#define PERFDATA_AUXTRACE_HEADER 48

/* struct perf_event_attr as of Linux 5.13: its size, and fields by offset. */
#define PERFDATA_ATTR_SIZE	      120
#define PERFDATA_ATTR_SIZE_MIN	      64
#define PERFDATA_ATTR_AT_TYPE	      0
#define PERFDATA_ATTR_AT_SIZE	      4
#define PERFDATA_ATTR_AT_CONFIG	      8
#define PERFDATA_ATTR_AT_PERIOD	      16
#define PERFDATA_ATTR_AT_SAMPLE_TYPE  24
#define PERFDATA_ATTR_AT_READ_FORMAT  32
#define PERFDATA_ATTR_AT_FLAGS	      40
#define PERFDATA_ATTR_AT_BRANCH_TYPE  72
#define PERFDATA_ATTR_AT_REGS_USER    80
#define PERFDATA_ATTR_AT_CLOCKID      92
#define PERFDATA_ATTR_AT_REGS_INTR    96
#define PERFDATA_ATTR_AT_AUX_ACTION   116 /* Linux 6.13 and later; u32 */
#define PERFDATA_AUX_START_PAUSED     1u  /* the event traces nothing until another resumes it */
#define PERFDATA_AUX_PAUSE	      2u  /* the event pauses the trace of its group's leader, */
#define PERFDATA_AUX_RESUME	      4u  /* or resumes it */
#define PERFDATA_ATTR_INHERIT	      (UINT64_C(1) << 1)
#define PERFDATA_ATTR_EXCLUDE_USER    (UINT64_C(1) << 4)
#define PERFDATA_ATTR_EXCLUDE_KERNEL  (UINT64_C(1) << 5)
#define PERFDATA_ATTR_EXCLUDE_HV      (UINT64_C(1) << 6)
#define PERFDATA_ATTR_MMAP	      (UINT64_C(1) << 8)
#define PERFDATA_ATTR_COMM	      (UINT64_C(1) << 9)
#define PERFDATA_ATTR_TASK	      (UINT64_C(1) << 13)
#define PERFDATA_ATTR_SAMPLE_ID_ALL   (UINT64_C(1) << 18)
#define PERFDATA_ATTR_MMAP2	      (UINT64_C(1) << 23)
#define PERFDATA_ATTR_COMM_EXEC	      (UINT64_C(1) << 24)
#define PERFDATA_ATTR_USE_CLOCKID     (UINT64_C(1) << 25)
#define PERFDATA_ATTR_CONTEXT_SWITCH  (UINT64_C(1) << 26)
#define PERFDATA_ATTR_KSYMBOL	      (UINT64_C(1) << 29)
#define PERFDATA_ATTR_TEXT_POKE	      (UINT64_C(1) << 33)
#define PERFDATA_ATTR_BUILD_ID	      (UINT64_C(1) << 34)
#define PERFDATA_READ_ENABLED	      1
#define PERFDATA_READ_RUNNING	      2
#define PERFDATA_READ_FORMAT_ID	      4
#define PERFDATA_READ_GROUP	      8
#define PERFDATA_READ_LOST	      16
#define PERFDATA_BRANCH_HW_INDEX      (UINT64_C(1) << 17)
#define PERFDATA_SAMPLE_IP	      (1u << 0)
#define PERFDATA_SAMPLE_TID	      (1u << 1)
#define PERFDATA_SAMPLE_TIME	      (1u << 2)
#define PERFDATA_SAMPLE_ADDR	      (1u << 3)
#define PERFDATA_SAMPLE_READ	      (1u << 4)
#define PERFDATA_SAMPLE_CALLCHAIN     (1u << 5)
#define PERFDATA_SAMPLE_ID	      (1u << 6)
#define PERFDATA_SAMPLE_CPU	      (1u << 7)
#define PERFDATA_SAMPLE_PERIOD	      (1u << 8)
#define PERFDATA_SAMPLE_STREAM_ID     (1u << 9)
#define PERFDATA_SAMPLE_RAW	      (1u << 10)
#define PERFDATA_SAMPLE_BRANCH_STACK  (1u << 11)
#define PERFDATA_SAMPLE_REGS_USER     (1u << 12)
#define PERFDATA_SAMPLE_STACK_USER    (1u << 13)
#define PERFDATA_SAMPLE_WEIGHT	      (1u << 14)
#define PERFDATA_SAMPLE_DATA_SRC      (1u << 15)
#define PERFDATA_SAMPLE_IDENTIFIER    (1u << 16)
#define PERFDATA_SAMPLE_TRANSACTION   (1u << 17)
#define PERFDATA_SAMPLE_REGS_INTR     (1u << 18)
#define PERFDATA_SAMPLE_PHYS_ADDR     (1u << 19)
#define PERFDATA_SAMPLE_AUX	      (1u << 20)
#define PERFDATA_SAMPLE_CGROUP	      (1u << 21)
#define PERFDATA_SAMPLE_DATA_PAGE     (1u << 22)
#define PERFDATA_SAMPLE_CODE_PAGE     (1u << 23)
#define PERFDATA_SAMPLE_WEIGHT_STRUCT (1u << 24)
#define PERFDATA_TYPE_SOFTWARE	      1
#define PERFDATA_SOFTWARE_DUMMY	      9 /* attr.config */
#define PERFDATA_TYPE_TRACEPOINT      2
#define PERFDATA_TYPE_BREAKPOINT      5 /* larger ones are of PMUs */

/* attr.config of intel_pt (the format folder of the PMU in sysfs). */
#define PERFDATA_PT_PT	       (UINT64_C(1) << 0)
#define PERFDATA_PT_CYC	       (UINT64_C(1) << 1)
#define PERFDATA_PT_PWR_EVT    (UINT64_C(1) << 4)
#define PERFDATA_PT_FUP_ON_PTW (UINT64_C(1) << 5)
#define PERFDATA_PT_MTC	       (UINT64_C(1) << 9)
#define PERFDATA_PT_TSC	       (UINT64_C(1) << 10)
#define PERFDATA_PT_NORETCOMP  (UINT64_C(1) << 11)
#define PERFDATA_PT_PTW	       (UINT64_C(1) << 12)
#define PERFDATA_PT_BRANCH     (UINT64_C(1) << 13)
#define PERFDATA_PT_MTC_PERIOD (UINT64_C(15) << 14)
#define PERFDATA_PT_CYC_THRESH (UINT64_C(15) << 19)
#define PERFDATA_PT_EVENT      (UINT64_C(1) << 31)
#define PERFDATA_PT_NOTNT      (UINT64_C(1) << 55)

/* Record types. Below 64 the kernel writes them, from 64 on perf does. */
enum perfdata_type {
	PERFDATA_MMAP = 1,
	PERFDATA_LOST = 2,
	PERFDATA_COMM = 3,
	PERFDATA_EXIT = 4,
	PERFDATA_FORK = 7,
	PERFDATA_SAMPLE = 9,
	PERFDATA_MMAP2 = 10,
	PERFDATA_AUX = 11,
	PERFDATA_ITRACE_START = 12,
	PERFDATA_LOST_SAMPLES = 13,
	PERFDATA_SWITCH = 14,
	PERFDATA_SWITCH_CPU_WIDE = 15,
	PERFDATA_NAMESPACES = 16,
	PERFDATA_KSYMBOL = 17,
	PERFDATA_BPF_EVENT = 18,
	PERFDATA_CGROUP = 19,
	PERFDATA_TEXT_POKE = 20,
	PERFDATA_AUX_OUTPUT_HW_ID = 21,
	PERFDATA_USER = 64,
	PERFDATA_HEADER_ATTR = 64,
	/*
	 * Deprecated since Linux 3.x, so that every perf skips it. Ptah stores its own records in
	 * it: docs/perf-data.md.
	 */
	PERFDATA_HEADER_EVENT_TYPE = 65,
	PERFDATA_HEADER_TRACING_DATA = 66, /* followed by as many bytes as its first field says */
	PERFDATA_HEADER_BUILD_ID = 67,
	PERFDATA_FINISHED_ROUND = 68,
	PERFDATA_ID_INDEX = 69,
	PERFDATA_AUXTRACE_INFO = 70,
	PERFDATA_AUXTRACE = 71,
	PERFDATA_AUXTRACE_ERROR = 72,
	PERFDATA_THREAD_MAP = 73,
	PERFDATA_CPU_MAP = 74,
	PERFDATA_EVENT_UPDATE = 78,
	PERFDATA_TIME_CONV = 79,
	PERFDATA_HEADER_FEATURE = 80,
	PERFDATA_COMPRESSED = 81,
	PERFDATA_COMPRESSED2 = 83,
};

/* Bits of `misc` in a record's header. */
#define PERFDATA_MISC_CPUMODE	    7u
#define PERFDATA_MISC_KERNEL	    1u
#define PERFDATA_MISC_USER	    2u
#define PERFDATA_MISC_GUEST_KERNEL  4u
#define PERFDATA_MISC_GUEST_USER    5u
#define PERFDATA_MISC_COMM_EXEC	    (1u << 13)
#define PERFDATA_MISC_SWITCH_OUT    (1u << 13)
#define PERFDATA_MISC_PREEMPTED	    (1u << 14) /* SWITCH: the thread that leaves could run on */
#define PERFDATA_MISC_MMAP_DATA	    (1u << 13)
#define PERFDATA_MISC_MMAP_BUILD_ID (1u << 14)
#define PERFDATA_MISC_BUILD_ID_SIZE (1u << 15) /* HEADER_BUILD_ID: the size of the id is stored */

/* Whether this `misc` is of something in a virtual machine. */
static inline bool perfdata_is_guest_mode(uint16_t misc)
{
	const unsigned mode = misc & PERFDATA_MISC_CPUMODE;

	return mode == PERFDATA_MISC_GUEST_KERNEL || mode == PERFDATA_MISC_GUEST_USER;
}

/* Flags of PERF_RECORD_AUX. */
#define PERFDATA_AUX_TRUNCATED 1u
#define PERFDATA_AUX_PARTIAL   4u
#define PERFDATA_AUX_COLLISION 8u

/* KSYMBOL: a flag; BPF_EVENT: its types. */
#define PERFDATA_KSYMBOL_UNREGISTER  1u
#define PERFDATA_KSYMBOL_OUT_OF_LINE 2u /* a kind: the code is in no file */
#define PERFDATA_BPF_LOAD	     1
#define PERFDATA_BPF_UNLOAD	     2

/*
 * The feature BPF_PROG_INFO: u32 number of programs; for each one u32 size of the info, u32 size of
 * the data, u64 bits of the arrays that the data contains, struct bpf_prog_info (linux/bpf.h), the
 * data. In place of addresses, the info has offsets in the data (tools/perf/util/bpf-utils.h).
 */
#define PERFDATA_BPF_ARRAY_CODE	      (1u << 0)
#define PERFDATA_BPF_ARRAY_KSYMS      (1u << 3)
#define PERFDATA_BPF_ARRAY_LENGTHS    (1u << 4)
#define PERFDATA_BPF_AT_ID	      4
#define PERFDATA_BPF_AT_CODE_SIZE     16
#define PERFDATA_BPF_AT_CODE	      24
#define PERFDATA_BPF_AT_KSYM_COUNT    104
#define PERFDATA_BPF_AT_LENGTHS_COUNT 108
#define PERFDATA_BPF_AT_KSYMS	      112
#define PERFDATA_BPF_AT_LENGTHS	      120
#define PERFDATA_BPF_INFO_MIN	      128

/* HEADER_COMPRESSED: the kind of compression. */
#define PERFDATA_COMPRESS_ZSTD 1

/* EVENT_UPDATE: u64 kind, u64 id; with this kind the event's name follows. */
#define PERFDATA_EVENT_UPDATE_NAME 2

/* The kinds of PERF_RECORD_AUXTRACE_INFO. */
#define PERFDATA_AUXTRACE_INTEL_PT 1

/*
 * What the TSC packets of Ptah's own recorders mean, in the 32 bits after the kind, which perf does
 * not read: this mark and a number (enum perfdata_time_source).
 */
#define PERFDATA_TIME_MARK	UINT32_C(0x50540000) /* "PT" */
#define PERFDATA_TIME_MARK_MASK UINT32_C(0xffff0000)

enum perfdata_time_source {
	PERFDATA_TIME_NOT_SAID, /* a processor's, in all recordings but old ones of Ptah */
	PERFDATA_TIME_STAMPED,	/* a clock that a recorder has read at places that it chose */
	PERFDATA_TIME_SIMULATED /* a number of instructions */
};

/* The u64 fields after the kind in AUXTRACE_INFO, for Intel PT (enum in intel-pt.h). */
enum perfdata_pt_info {
	PERFDATA_INFO_PMU_TYPE,
	PERFDATA_INFO_TIME_SHIFT,
	PERFDATA_INFO_TIME_MULT,
	PERFDATA_INFO_TIME_ZERO,
	PERFDATA_INFO_CAP_TIME_ZERO,
	PERFDATA_INFO_TSC_BIT,
	PERFDATA_INFO_NORETCOMP_BIT,
	PERFDATA_INFO_SCHED_SWITCH,
	PERFDATA_INFO_SNAPSHOT,
	PERFDATA_INFO_PER_CPU,
	PERFDATA_INFO_MTC_BIT,
	PERFDATA_INFO_MTC_FREQ_BITS,
	PERFDATA_INFO_TSC_CTC_N,
	PERFDATA_INFO_TSC_CTC_D,
	PERFDATA_INFO_CYC_BIT,
	PERFDATA_INFO_MAX_NONTURBO,
	PERFDATA_INFO_FILTER_LENGTH,
	PERFDATA_INFO_MAX
};

/* Header features. */
enum perfdata_feature {
	PERFDATA_FEATURE_TRACING_DATA = 1,
	PERFDATA_FEATURE_BUILD_ID = 2,
	PERFDATA_FEATURE_HOSTNAME = 3,
	PERFDATA_FEATURE_OSRELEASE = 4,
	PERFDATA_FEATURE_VERSION = 5,
	PERFDATA_FEATURE_ARCH = 6,
	PERFDATA_FEATURE_NRCPUS = 7,
	PERFDATA_FEATURE_CPUID = 9,
	PERFDATA_FEATURE_TOTAL_MEM = 10,
	PERFDATA_FEATURE_CMDLINE = 11,
	PERFDATA_FEATURE_EVENT_DESC = 12,
	PERFDATA_FEATURE_BRANCH_STACK = 15,
	PERFDATA_FEATURE_PMU_MAPPINGS = 16,
	PERFDATA_FEATURE_AUXTRACE = 18,
	PERFDATA_FEATURE_BPF_PROG_INFO = 25,
	PERFDATA_FEATURE_COMPRESSED = 27,
	PERFDATA_FEATURE_CLOCK_DATA = 29,
	PERFDATA_FEATURE_MAX = 256
};

/* HEADER_BUILD_ID records and entries: header, s32 pid, 24 bytes of id, file name. */
#define PERFDATA_BUILD_ID_MAX	20
#define PERFDATA_BUILD_ID_FIXED 36

/*
 * Ptah's records (docs/perf-data.md): u32 magic, u32 version, then entries of
 * u32 tag, u32 size and `size` bytes, padded to 8.
 */
#define PERFDATA_PTAH_MAGIC   0x48415450u /* "PTAH" */
#define PERFDATA_PTAH_VERSION 1
#define PERFDATA_PTAH_TRUTH   1 /* see perfdata_add_truth() for the fields */
#define PERFDATA_PTAH_CODE    2
#define PERFDATA_PTAH_NOTE    3
#define PERFDATA_PTAH_VDSO    4
/* A page of code of a virtual machine, where a processor had it, and whose address space it was */
#define PERFDATA_PTAH_PAGE	  5
#define PERFDATA_PTAH_GUEST_MAP	  6
#define PERFDATA_PTAH_SPACE	  7
#define PERFDATA_PTAH_ROUND	  8 /* a round of the recorder has ended */
#define PERFDATA_PTAH_HIT	  9
#define PERFDATA_PTAH_TRUTH_SIZE  64
#define PERFDATA_PTAH_CODE_HEADER 24
#define PERFDATA_PTAH_PAGE_HEADER 8
#define PERFDATA_PTAH_GUEST_SIZE  32
#define PERFDATA_PTAH_SPACE_SIZE  32
#define PERFDATA_PTAH_HIT_HEADER  24

#endif
