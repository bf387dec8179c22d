/* SPDX-License-Identifier: MIT */
/*
 * Writes perf.data files with Intel PT that perf and Ptah read.
 *
 * Everything is appended. After perfdata_writer_flush() the file on disk is
 * valid up to that point even if the process dies. finish() adds the header
 * features. What perf has no record for (truth, code that is in no file, notes)
 * lies between perf's records in one that perf skips: see docs/perf-data.md.
 *
 * Every function returns 0 or a negative enum ptah_error; after a failure the
 * writer stays failed and perfdata_writer_why() tells the sentence.
 */
#ifndef PTAH_PERFDATA_WRITER_H
#define PTAH_PERFDATA_WRITER_H

#include <ptah/session.h>

struct perfdata_writer;

/* For who takes the records into their own hands. */
struct perfdata_piece {
	bool trace;	 /* packets; else a whole record, with its header */
	uint32_t stream; /* of packets: their AUXTRACE index, thread, processor and place */
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
};

/* An event as the kernel was given it. */
struct perfdata_event {
	const char *name; /* "intel_pt//u" */
	const void *attr; /* struct perf_event_attr, PERFDATA_ATTR_SIZE bytes */
	const uint64_t *ids;
	size_t id_count;
};

/* What a driver's AUXTRACE_INFO says that an emulated processor's does not. */
struct perfdata_driver {
	const struct perfdata_event *events; /* instead of the one that others get */
	size_t event_count;
	uint32_t pmu_type; /* 0: no trace, and no AUXTRACE_INFO */
	const char *pmus;  /* all of the machine: "TYPE NAME\n" each; NULL: intel_pt alone */
	const char *cpuid; /* "GenuineIntel,6,158,10"; NULL: not told */
	/* Bits of attr.config: enum perfdata_pt_info has the same names. */
	uint64_t tsc_bit, noretcomp_bit, mtc_bit, mtc_freq_bits, cyc_bit;
	uint8_t
	    sched_switch; /* 0: none; 2: SWITCH records of what is traced; 3: of whole processors */
	bool snapshot, per_cpu, time_zero;
};

struct perfdata_writer_config {
	const char *path;
	char *const *command; /* argv of what is recorded, NULL-terminated (HEADER_CMDLINE holds
				 ours + it) */
	struct perfdata_clock clock;
	bool retcomp;				       /* return compression is on in the trace */
	bool tsc;				       /* TSC packets are in the trace */
	bool mtc, cyc;				       /* and these */
	uint8_t mtc_period, cyc_threshold, psb_period; /* IA32_RTIT_CTL's fields */
	uint32_t tsc_n, tsc_d;			       /* TSC ticks per crystal tick (CPUID.15H) */
	uint32_t nominal_ratio;
	bool snapshot;			      /* moments alone are kept: gaps are no loss */
	const char *filter;		      /* as perf's --filter, resolved; NULL: none */
	const struct perfdata_driver *driver; /* NULL: emulated, with what stands above */
	/* Is given all pieces, and no file is made; NULL: none. Negative: the writer fails.
	 * The first ones are those of a file made through a pipe: HEADER_ATTR, AUXTRACE_INFO. */
	int (*take)(void *context, const struct perfdata_piece *piece);
	void *context;
};

/* An existing file is renamed to PATH.old first, as perf does. */
int perfdata_writer_open(const struct perfdata_writer_config *config, struct perfdata_writer **w,
			 struct ptah_message *why);

/* time: TSC; the writer converts it with the clock. */
int perfdata_write_comm(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			bool exec, const char *comm);
int perfdata_write_fork(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc);
int perfdata_write_exit(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc);
int perfdata_write_itrace_start(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc);

/* An executable mapping. The writer looks up the file's build id (remembering it per path). */
int perfdata_write_mmap2(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			 uint64_t address, uint64_t size, uint64_t file_offset, uint32_t prot,
			 const char *path);

/* The next `size` trace bytes of stream `index`. They must end with a whole packet. */
int perfdata_write_auxtrace(struct perfdata_writer *w, uint32_t index, int32_t tid,
			    const void *bytes, size_t size);

/* Trace of a processor or thread: `offset` is the driver's, `reference` a TSC of then. */
struct perfdata_aux {
	uint32_t index;
	int32_t tid, cpu;
	uint64_t offset, reference;
	const void *bytes;
	size_t size;
};

int perfdata_write_aux(struct perfdata_writer *w, const struct perfdata_aux *aux);

/*
 * A record as the kernel wrote it, with its header, a multiple of eight bytes.
 * Build ids of the files that an MMAP2 names without one go into the header.
 */
int perfdata_write_raw(struct perfdata_writer *w, const void *record, size_t size);
/* `size` bytes of the stream are not there. What comes next begins with a PSB. */
int perfdata_skip_auxtrace(struct perfdata_writer *w, uint32_t index, uint64_t size);

int perfdata_add_truth(struct perfdata_writer *w, uint32_t index, int32_t pid, int32_t tid,
		       const struct ptah_truth *truth, uint64_t lost);

/* Code that no file holds (JIT, patched): visible to `pid` from time tsc on. */
int perfdata_add_code(struct perfdata_writer *w, int32_t pid, uint64_t tsc, uint64_t address,
		      const void *bytes, size_t size);
int perfdata_add_note(struct perfdata_writer *w, const char *text);

int perfdata_writer_flush(struct perfdata_writer *w);
const char *perfdata_writer_why(const struct perfdata_writer *w);

/* Completes the file and frees the writer. */
int perfdata_writer_finish(struct perfdata_writer *w, struct ptah_message *why);

/* Removes the file (puts PATH.old back) and frees the writer. */
void perfdata_writer_abort(struct perfdata_writer *w);

#endif
