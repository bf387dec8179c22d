/* SPDX-License-Identifier: MIT */
/*
 * Writes perf.data files with Intel PT that perf and Ptah can read.
 *
 * Everything is appended. After perfdata_writer_flush() the file on disk is valid up to that point,
 * even if the process is killed. finish() adds the header features. What perf has no record for
 * (truth, code that is in no file, notes) is stored in a record type that perf skips: see
 * docs/perf-data.md.
 *
 * Every function returns 0 or a negative enum ptah_error. After a failure the writer stays failed,
 * and perfdata_writer_why() returns the sentence. A record that is too long for the format is left
 * out, which is no failure: a note says so.
 */
#ifndef PTAH_PERFDATA_WRITER_H
#define PTAH_PERFDATA_WRITER_H

#include "perfdata/build_id.h"

#include <ptah/session.h>

#include <sys/uio.h>

struct perfdata_writer;

/* What the writer passes to the callback `take`, when it writes no file. */
struct perfdata_piece {
	/* packets; false: a whole record, with its header, and after HEADER_TRACING_DATA its data */
	bool trace;
	uint32_t stream; /* of packets: AUXTRACE index, thread, processor and offset */
	int32_t tid, cpu;
	uint64_t offset;
	const void *bytes;
	size_t size;
};

/* Time: perf nanoseconds = zero + (tsc * mult >> shift), as in perf_event_mmap_page. */
struct perfdata_clock {
	uint16_t shift;
	uint32_t mult;
	uint64_t zero;
	/* To write: its nanoseconds are those of CLOCK_MONOTONIC, and the file says so. */
	bool monotonic;
};

/* A perf event, as it was passed to the kernel. */
struct perfdata_event {
	const char *name; /* "intel_pt//u" */
	const void *attr; /* struct perf_event_attr, PERFDATA_ATTR_SIZE bytes */
	const uint64_t *ids;
	size_t id_count;
	size_t id_room; /* so many more ids can be added later: perfdata_add_id() */
};

/* The number of intel_pt on most machines; AUXTRACE_INFO has it too. */
#define PERFDATA_PMU_TYPE 8

/*
 * Fills in an attribute of intel_pt, for a recording that no driver made: PERFDATA_ATTR_SIZE zeros.
 * config: the driver's terms; flags: those that not all recordings of this writer have.
 */
void perfdata_build_attr(uint8_t *attr, uint64_t config, uint64_t flags);

/* What a recording by the kernel's driver has beyond that of a simulated processor. */
struct perfdata_driver {
	/* The events; without a driver the writer makes one up. */
	const struct perfdata_event *events;
	size_t event_count;
	uint32_t pmu_type; /* 0: no trace, and no AUXTRACE_INFO */
	const char *pmus;  /* all PMUs of the machine, "TYPE NAME\n" each; NULL: intel_pt alone */
	const char *cpuid; /* "GenuineIntel,6,158,10"; NULL: left out */
	/* Bits of attr.config, for the fields of the same names in enum perfdata_pt_info. */
	uint64_t tsc_bit, noretcomp_bit, mtc_bit, mtc_freq_bits, cyc_bit;
	/* 0: no SWITCH records; 2: of the traced threads; 3: of whole processors. */
	uint8_t sched_switch;
	bool snapshot, per_cpu, time_zero;
	bool branch_stacks; /* there are samples with branch stacks */
	bool no_index; /* no list of the AUXTRACE records, for which memory grows with the trace */
};

struct perfdata_writer_config {
	const char *path;
	/*
	 * With `to_fd` the recording goes to this descriptor, which stays the caller's, and `path`
	 * is only its name in messages.
	 */
	bool to_fd;
	int fd;
	/*
	 * argv of the recorded command, NULL-terminated (HEADER_CMDLINE becomes "ptah record --"
	 * and these).
	 */
	char *const *command;
	bool bare_command; /* HEADER_CMDLINE is `command` alone, or left out if that is empty */
	struct perfdata_clock clock;
	uint32_t time_source;			       /* enum perfdata_time_source (format.h) */
	bool retcomp;				       /* the trace has compressed returns */
	bool tsc;				       /* the trace has TSC packets */
	bool mtc, cyc;				       /* and MTC, CYC packets */
	uint8_t mtc_period, cyc_threshold, psb_period; /* IA32_RTIT_CTL's fields */
	uint32_t tsc_n, tsc_d;			       /* TSC ticks per crystal tick (CPUID.15H) */
	uint32_t nominal_ratio;
	/* The trace consists of snapshots: what is missing between them is no loss. */
	bool snapshot;
	bool calls; /* there will be samples of system calls: perfdata_write_call() */
	/* The formats of the driver's tracepoints, as in the feature TRACING_DATA; NULL: none. */
	const void *tracing;
	size_t tracing_size;
	const char *filter;    /* address filters in perf's syntax, with numbers; NULL: none */
	const char *osrelease; /* of the recorded kernel, "": not known; NULL: that of this one */
	/* NULL: a simulated processor, described by the members above */
	const struct perfdata_driver *driver;
	/*
	 * A callback that takes all pieces instead of a file; NULL: write a file. If it returns a
	 * negative status, the writer fails. The first pieces are those of a recording made through
	 * a pipe: HEADER_ATTR, AUXTRACE_INFO.
	 */
	int (*take)(void *context, const struct perfdata_piece *piece);
	void *context;
	/*
	 * Asked when a signal has ended a write that waits for the reader of a pipe: true ends the
	 * recording with EINTR. NULL: the writer waits for ever.
	 */
	bool (*given_up)(void);
	/*
	 * A time in nanoseconds of CLOCK_MONOTONIC, which may be set at any moment: from then on the
	 * writer fails instead of waiting for the reader of a pipe. NULL, 0: it waits.
	 */
	const int64_t *late;
};

/*
 * An existing file is renamed to PATH.old first, as perf does, and its folder of copies
 * (jit_folder.h) to PATH.old.jit. What is no regular file gets the
 * layout that perf writes through a pipe, from its first byte to its last.
 */
int perfdata_writer_open(const struct perfdata_writer_config *config, struct perfdata_writer **w,
			 struct ptah_message *why);

/* tsc: the time; the writer converts it with the clock. */
int perfdata_write_comm(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			bool exec, const char *comm);
int perfdata_write_fork(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc);
int perfdata_write_exit(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc);
int perfdata_write_itrace_start(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc);

/* A thread on a processor. */
struct perfdata_turn {
	int32_t cpu, pid, tid;
};

/* The thread ran on the processor when the processor's trace began (ITRACE_START). */
int perfdata_write_first_turn(struct perfdata_writer *w, const struct perfdata_turn *turn);
/* The processor switches between two threads: two records, as the kernel writes them. */
int perfdata_write_switch(struct perfdata_writer *w, const struct perfdata_turn *from,
			  const struct perfdata_turn *to, uint64_t tsc);

/*
 * The thread leaves the processor (`out`; preempted: although it could run on), or comes to it: as
 * the kernel writes it for threads that are traced.
 */
int perfdata_write_thread_switch(struct perfdata_writer *w, const struct perfdata_turn *turn,
				 uint64_t tsc, bool out, bool preempted);

/* An executable mapping, as /proc/PID/maps shows it. */
struct perfdata_mapping {
	uint64_t address, size, file_offset;
	uint64_t inode; /* with its device; 0: of no file */
	uint32_t major, minor;
	uint32_t prot, flags; /* as for mmap() */
};

/*
 * Writes a mapping. The writer reads the file's build id, once for each path; a record that has one
 * has no device and inode.
 */
int perfdata_write_mmap2(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			 const struct perfdata_mapping *mapping, const char *path);

/*
 * The same for a file that this machine may not have, or has in another version: its build id is
 * `id`, of size 0 if it is not known.
 */
int perfdata_write_foreign_map(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			       const struct perfdata_mapping *mapping, const char *path,
			       const struct perfdata_build_id *id);

/*
 * A mapping of the kernel: itself ("[kernel.kallsyms]_text", with the address of that symbol as
 * file offset) or a module. Of `mapping`, address, size and file_offset are used. An `id` of size 0
 * is not known.
 */
int perfdata_write_kernel_map(struct perfdata_writer *w, uint64_t tsc,
			      const struct perfdata_mapping *mapping, const char *path,
			      const struct perfdata_build_id *id);

/* From this time on the kernel has code of this name there, which no file has (KSYMBOL). */
int perfdata_write_ksymbol(struct perfdata_writer *w, uint64_t tsc, uint64_t address, uint32_t size,
			   const char *name);
/* From this time on these bytes are the kernel's code there (TEXT_POKE); at most PERFDATA_POKE. */
#define PERFDATA_POKE 32768
int perfdata_write_poke(struct perfdata_writer *w, uint64_t tsc, uint64_t address,
			const void *bytes, size_t size);

/* A system call is made, or has returned. */
struct perfdata_call {
	int32_t pid, tid;
	uint64_t tsc, ip; /* ip: behind its instruction */
	int64_t number;
	bool returned;
	uint64_t words[6]; /* its arguments; the result alone */
	/* What an argument points to; size 0: nothing was copied. At most PERFDATA_CALL_DATA. */
	unsigned argument;
	const void *data;
	size_t data_size;
};

#define PERFDATA_CALL_DATA 4096

/* Writes samples of raw_syscalls:sys_enter or sys_exit and, of the data, of ptah:sys_data. */
int perfdata_write_call(struct perfdata_writer *w, const struct perfdata_call *call);

/* The next `size` bytes of trace of stream `index`. They must end with a whole packet. */
int perfdata_write_auxtrace(struct perfdata_writer *w, uint32_t index, int32_t tid,
			    const void *bytes, size_t size);

/*
 * Trace of a processor or thread. offset: as the driver counts; reference: the TSC at that moment.
 */
struct perfdata_aux {
	uint32_t index;
	int32_t tid, cpu;
	uint64_t offset, reference;
	const void *bytes;
	size_t size;
	/*
	 * Instead of `bytes`: parts that follow one another, of `size` bytes together. A callback
	 * gets each as a piece.
	 */
	const struct iovec *parts;
	size_t part_count;
};

int perfdata_write_aux(struct perfdata_writer *w, const struct perfdata_aux *aux);

/*
 * What happened to a stream's trace before `offset`: flags of PERF_RECORD_AUX. The stream is that
 * of a processor (turn->cpu) or of a thread.
 */
int perfdata_write_aux_flags(struct perfdata_writer *w, const struct perfdata_turn *stream,
			     uint64_t tsc, uint64_t offset, uint64_t flags);

/*
 * A record as the kernel wrote it, with its header; a multiple of eight bytes. If it is an MMAP2
 * without a build id, the id of its file goes into the header.
 */
int perfdata_write_raw(struct perfdata_writer *w, const void *record, size_t size);
/*
 * The header lists this build id for the path, whatever the file is now. To be called before the
 * records that map it.
 */
int perfdata_list_build_id(struct perfdata_writer *w, const char *path, bool kernel,
			   const struct perfdata_build_id *id);
/*
 * Another id of the driver's event `event`, before the first record that has it. A callback gets it
 * as a HEADER_ATTR. PTAH_E_LIMIT when id_room ids were added; the writer does not fail then.
 */
int perfdata_add_id(struct perfdata_writer *w, size_t event, uint64_t id);
/* `size` bytes of the stream are missing. The next trace begins with a PSB. */
int perfdata_skip_auxtrace(struct perfdata_writer *w, uint32_t index, uint64_t size);

int perfdata_add_truth(struct perfdata_writer *w, uint32_t index, int32_t pid, int32_t tid,
		       const struct ptah_truth *truth, uint64_t lost);
/* How many streams have no truth so far, of *streams in all. */
size_t perfdata_without_truth(const struct perfdata_writer *w, size_t *streams);

/* Code that is in no file (JIT, patched): memory of `pid` from time tsc on. Of any size. */
int perfdata_add_code(struct perfdata_writer *w, int32_t pid, uint64_t tsc, uint64_t address,
		      const void *bytes, size_t size);
/* The code of [vdso], which is in no file, in the 64-bit processes of the machine. */
int perfdata_add_vdso(struct perfdata_writer *w, const void *bytes, size_t size);

/*
 * Code of a virtual machine. A page is PERFDATA_PAGE bytes with a number that no other page of the
 * recording has; it precedes the maps that name it.
 */
#define PERFDATA_PAGE	   4096
#define PERFDATA_ANY_SPACE UINT64_MAX

int perfdata_add_page(struct perfdata_writer *w, uint32_t page, const void *bytes);

/*
 * From time tsc on, the processor `cpu` has the page at `address`, in the address space `cr3` (as
 * PIP packets have it) or in all that have no page of their own there (PERFDATA_ANY_SPACE). tsc 0:
 * from the beginning.
 */
struct perfdata_guest_map {
	int32_t cpu;
	uint32_t page;
	uint64_t tsc, address, cr3;
};

int perfdata_add_guest_map(struct perfdata_writer *w, const struct perfdata_guest_map *map);
/* From time tsc on, the address space is that of a process with this name. */
int perfdata_add_space(struct perfdata_writer *w, uint64_t cr3, uint64_t tsc, const char *name);

int perfdata_add_note(struct perfdata_writer *w, const char *text);

/* A moment for which the recording was kept. */
int perfdata_add_hit(struct perfdata_writer *w, const struct ptah_hit *hit);

/*
 * A round of the recorder has ended: it has taken all records that were written before the round
 * began, and then trace (docs/live.md). Written for a callback and through a pipe, and not while
 * nothing happens.
 */
int perfdata_end_round(struct perfdata_writer *w);
/* Whether somebody reads what is written while it is: rounds are marked. */
bool perfdata_writer_is_read(const struct perfdata_writer *w);

int perfdata_writer_flush(struct perfdata_writer *w);
/* The number of notes so far, the writer's own ones among them. */
uint32_t perfdata_writer_notes(const struct perfdata_writer *w);
/* The first failure, or 0; and its sentence, or NULL. */
int perfdata_writer_status(const struct perfdata_writer *w);
const char *perfdata_writer_why(const struct perfdata_writer *w);

/* Whether the recording has a record of this process. */
bool perfdata_has_process(const struct perfdata_writer *w, int32_t pid);
/* Jitdump number i that a process has mapped, and the process. NULL: there are no more. */
const char *perfdata_mapped_dump(const struct perfdata_writer *w, size_t i, int32_t *pid);
/*
 * Where copies of lists of generated code go (jit_folder.h). NULL: the recording is in no file of
 * this writer's.
 */
const char *perfdata_copies_folder(const struct perfdata_writer *w);

/* The size of the file so far, or of what the callback has taken. */
uint64_t perfdata_writer_size(const struct perfdata_writer *w);

/*
 * Completes the file and frees the writer. If the writer has failed, or fails now (the disk is
 * full), this returns its status, and the file ends with the last record that could be written and
 * a note that says why. A file without any trace is removed then, as by perfdata_writer_abort().
 * *trace_size: bytes of trace in the file. trace_size and why may be NULL.
 */
int perfdata_writer_finish(struct perfdata_writer *w, uint64_t *trace_size,
			   struct ptah_message *why);

/* Removes the file, renames PATH.old back, and frees the writer. */
void perfdata_writer_abort(struct perfdata_writer *w);

#endif
