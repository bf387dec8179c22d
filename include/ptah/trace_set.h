/* SPDX-License-Identifier: MIT */
/*
 * Trace sets: raw traces that belong together, and what is needed to decode them.
 *
 * A driver that does not write perf.data leaves anonymous packets, one file for
 * each CPU or thread. A trace set says what they are: the CPU or thread of each
 * stream, which code lay where, how the clocks run, and which records about
 * processes and context switches belong to them. It is built call by call, or
 * read from a text file (ptah.trace, see ptah-trace(5)) or from a folder that
 * another system's tracer wrote.
 *
 *	struct ptah_trace_stream stream = {.size = sizeof(stream), .cpu = 0};
 *	struct ptah_trace_code code = {.size = sizeof(code), .kind = PTAH_TRACE_CODE_ELF};
 *
 *	ptah_trace_set_new(&set);
 *	stream.file.path = "cpu0.pt";
 *	ptah_trace_set_add_stream(set, &stream);
 *	code.file.path = "driver.sys";
 *	code.address = 0xfffff80012340000;
 *	ptah_trace_set_add_code(set, &code);
 *	config.set = set;
 *	ptah_session_open(NULL, &config, &session, &why);
 *	ptah_trace_set_free(set);
 *
 * ptah_session_open() does the same for the path of a ptah.trace or of such a
 * folder.
 *
 * Files are only named here; opening the session reads them. Relative paths are
 * those of the working folder at the time of the call and, in a ptah.trace, of the
 * folder that it lies in. All strings are copied. The functions that add something
 * return 0, PTAH_E_NOMEM or PTAH_E_INVAL, and after a failure the set is what it
 * was before. In all structs 0 is the default of a member, but for the number of a
 * CPU: -1 is unknown.
 */
#ifndef PTAH_TRACE_SET_H
#define PTAH_TRACE_SET_H

#include <ptah/base.h>
#include <ptah/engine/trace_config.h>
#include <ptah/image.h>
#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_trace_set;

PTAH_API int ptah_trace_set_new(struct ptah_trace_set **set);
PTAH_API void ptah_trace_set_free(struct ptah_trace_set *set);

/* A piece of a file: its bytes [from, to). With `to` 0 the piece ends with the file. */
struct ptah_trace_file {
	const char *path;
	uint64_t from, to;
};

/*
 * The packets of one CPU or thread, or a piece of them. Entries with the same CPU
 * and the same thread are one stream, in the order in which they are added.
 * An entry with neither is a stream of its own.
 *
 * The stream of a thread runs over the memory of its process, if code is known of
 * that process. The stream of a CPU runs over the memory of whichever process the
 * context switches name. Without context switches it runs over that of the set's
 * only process; without processes, over the code of the address spaces that its
 * PIP and VMCS packets name.
 */
struct ptah_trace_stream {
	size_t size; /* sizeof(struct ptah_trace_stream) */
	struct ptah_trace_file file;
	int32_t cpu;	  /* -1: unknown, or not of one CPU */
	int32_t pid, tid; /* 0 or -1: unknown */
	uint64_t lost;	  /* bytes that are known to be missing before this piece */
	bool gap;	  /* some are missing, however many */
	/* Tracing was started anew for this piece, so it begins with a PSB, and nothing is missing
	 * before it: decoding begins anew, too. */
	bool separate;
};

PTAH_API int ptah_trace_set_add_stream(struct ptah_trace_set *set,
				       const struct ptah_trace_stream *stream);

enum ptah_trace_code_kind {
	PTAH_TRACE_CODE_RAW,   /* bytes as they lay in memory */
	PTAH_TRACE_CODE_ELF,   /* the executable segments of an ELF file, which is all of `file` */
	PTAH_TRACE_CODE_PE,    /* the executable sections of a PE file (Windows), in the same way */
	PTAH_TRACE_CODE_PAGES, /* path is a PREFIX: see ptah_image_add_pages(); no from and to */
	PTAH_TRACE_CODE_MAX
};

/*
 * Code that was executed.
 *
 * With a pid it is what that process had mapped from `tsc` on, and replaces what
 * the process had there before. Without one it is code of every process, or of the
 * address space that `space` names, for the whole trace; what is added later lies
 * over what was added before.
 */
struct ptah_trace_code {
	size_t size;  /* sizeof(struct ptah_trace_code) */
	uint8_t kind; /* enum ptah_trace_code_kind */
	struct ptah_trace_file file;
	/* RAW: of the byte file.from. ELF, PE: where it was loaded, its lowest segment or header;
	 * 0: where the file says. */
	uint64_t address;
	struct ptah_space space; /* without a pid; all 0: any */
	int32_t pid;		 /* 0 or -1: none */
	uint64_t tsc;		 /* with a pid; 0: from the beginning */
	/* Where the file lay when it ran: it is used if there is none at file.path. NULL: not
	 * known. */
	const char *recorded_path;
	/* Of the file that ran: another one is refused, as for a recording. Size 0: not known. */
	uint8_t build_id[PTAH_BUILD_ID_MAX], build_id_size;
};

PTAH_API int ptah_trace_set_add_code(struct ptah_trace_set *set,
				     const struct ptah_trace_code *code);

/* A thread, with its name. */
struct ptah_trace_thread {
	size_t size; /* sizeof(struct ptah_trace_thread) */
	int32_t pid, tid;
	char comm[16]; /* "": not known */
};

PTAH_API int ptah_trace_set_add_thread(struct ptah_trace_set *set,
				       const struct ptah_trace_thread *thread);

/*
 * A context switch: from `tsc` on, this thread runs on this CPU. In any order. Who
 * ran before the first switch of a CPU is not known, unless its tsc is 0.
 */
struct ptah_trace_switch {
	size_t size;  /* sizeof(struct ptah_trace_switch) */
	uint64_t tsc; /* 0: from the beginning */
	int32_t cpu;
	int32_t pid, tid; /* both 0: the CPU is idle; -1: not known, or not traced */
};

PTAH_API int ptah_trace_set_add_switch(struct ptah_trace_set *set,
				       const struct ptah_trace_switch *change);

/*
 * perf's records (PERF_RECORD_MMAP2, COMM, SWITCH and so on), as in the ring buffer
 * of a perf event or in the data section of a perf.data file. Each ends with the
 * trailer that `sample_type` describes, as with perf_event_attr.sample_id_all. The
 * CPU and the thread are those of records whose trailer lacks them.
 */
struct ptah_trace_sideband {
	size_t size; /* sizeof(struct ptah_trace_sideband) */
	struct ptah_trace_file file;
	uint64_t sample_type; /* of struct perf_event_attr; 0: that of the events below, or none */
	int32_t cpu;	      /* -1: unknown */
	int32_t pid, tid;     /* 0 or -1: unknown */
	int64_t tsc_offset;   /* the records count by so many TSC ticks earlier than they say */
	/* Streams of which neither CPU nor thread is known are of the CPU whose context switches
	 * these are. Without any such file: of all files. */
	bool primary;
};

PTAH_API int ptah_trace_set_add_sideband(struct ptah_trace_set *set,
					 const struct ptah_trace_sideband *sideband);

/*
 * Where the records of several perf events end in different ways: the sample_type of the event
 * with this id, which PERF_SAMPLE_IDENTIFIER puts at the end of each record.
 */
struct ptah_trace_event {
	size_t size; /* sizeof(struct ptah_trace_event) */
	uint64_t id, sample_type;
};

PTAH_API int ptah_trace_set_add_event(struct ptah_trace_set *set,
				      const struct ptah_trace_event *event);

/* The processor that recorded, what it was asked to trace, and how its clocks run. 0: not known. */
struct ptah_trace_processor {
	size_t size; /* sizeof(struct ptah_trace_processor) */
	struct ptah_cpu cpu;
	/* As in struct ptah_event_config: mtc_period, cyc_threshold, event_trace, no_tnt,
	 * no_retcomp, and the ranges; and os, if the kernel was traced. Its size may be 0. */
	struct ptah_trace_config trace;
	uint32_t tsc_n, tsc_d; /* CPUID.15H EBX, EAX: TSC ticks per crystal tick are n / d */
	uint8_t nominal_ratio; /* maximum non-turbo ratio: MSR_PLATFORM_INFO[15:8] */
	/* perf's clock in nanoseconds is time_zero + (TSC * time_mult >> time_shift). */
	bool has_clock;
	uint16_t time_shift; /* below 64 */
	uint32_t time_mult;  /* not 0 */
	uint64_t time_zero;
};

/* Replaces what was set before. */
PTAH_API int ptah_trace_set_processor(struct ptah_trace_set *set,
				      const struct ptah_trace_processor *processor);

/* The programs that a vdso is for. */
enum ptah_trace_vdso {
	PTAH_TRACE_VDSO_64,
	PTAH_TRACE_VDSO_32,
	PTAH_TRACE_VDSO_X32, /* 64-bit instructions and 32-bit addresses */
	PTAH_TRACE_VDSO_MAX
};

/* The system that was traced, and its files here. NULL: not known, or as it was set before. */
struct ptah_trace_system {
	size_t size; /* sizeof(struct ptah_trace_system) */
	/* The kernel's code and the names of its functions: an ELF file as /proc/kcore, and a file in
	 * the format of /proc/kallsyms. */
	const char *kcore, *kallsyms;
	/*
	 * A folder in which the files that the sideband names lie as on the machine that recorded:
	 * /bin/sh as FOLDER/bin/sh. A file that is not there is looked for at its own path. A session
	 * that is given a root (symfs) does not use it.
	 */
	const char *root;
	/*
	 * The address filter that the trace was made with, as ptah_filter_parse() reads it: ranges as
	 * numbers, in a file or without ("filter 0x1149/0x2a@/bin/x"). A file is one of the code, or
	 * one that records name; a relative path is that of a file here. Takes the place of the
	 * processor's ranges.
	 */
	const char *filter;
	/* Copies of the code that the kernel maps into such programs, which is in no file: what
	 * records of mappings call "[vdso]". */
	const char *vdso[PTAH_TRACE_VDSO_MAX];
};

/*
 * Adds to what was set before. PTAH_E_INVAL: a path is empty, or the filter is none, names a
 * function, or has more ranges than a processor.
 */
PTAH_API int ptah_trace_set_system(struct ptah_trace_set *set,
				   const struct ptah_trace_system *system);

/*
 * Reads a ptah.trace, a folder that contains one, or a folder or file of another
 * system (ptah-trace(5) lists them). PTAH_E_BAD_MAGIC: the path is none of these.
 */
PTAH_API int ptah_trace_set_open(const char *path, struct ptah_trace_set **set,
				 struct ptah_message *why);

/*
 * Writes the set as a ptah.trace. Files below the folder of `path` are named
 * relative to it, so that the folder can be handed on. After a failure there is no
 * file. PTAH_E_INVAL: `path` is a file that the set names, and stays as it is.
 */
PTAH_API int ptah_trace_set_save(const struct ptah_trace_set *set, const char *path,
				 struct ptah_message *why);

PTAH_END_DECLS

#endif
