/* SPDX-License-Identifier: MIT */
/*
 * Reads perf.data files: from perf and from Ptah. Knows records, not what they
 * mean for a decode. The file is mapped; every pointer handed out points into
 * the mapping and lives until perfdata_close(). What comes through a pipe, and
 * what compressed records hold, is mapped from files without a name.
 */
#ifndef PTAH_PERFDATA_READER_H
#define PTAH_PERFDATA_READER_H

#include "perfdata/build_id.h"
#include "perfdata/writer.h"

struct perfdata_file;

/* One record that says something. Which fields mean something depends on `type`. */
struct perfdata_record {
	uint32_t type;	 /* enum perfdata_type; PERFDATA_HEADER_EVENT_TYPE: Ptah's, see tag */
	uint32_t tag;	 /* Ptah's record: PERFDATA_PTAH_* */
	uint64_t offset; /* in the file */
	uint64_t time;	 /* perf's clock; 0: none */
	int32_t pid, tid, ppid, ptid,
	    cpu; /* switches: ppid, ptid are the other thread's; -1: unknown */
	uint64_t address, size, file_offset; /* mappings; code: address, size */
	const char *text;		     /* comm, path, note (not terminated: see text_size) */
	size_t text_size;
	const uint8_t *bytes; /* AUXTRACE: trace; code: its bytes */
	uint64_t trace_size;
	uint64_t trace_offset;	     /* AUXTRACE: place in its stream */
	uint32_t index;		     /* AUXTRACE and truth: stream */
	uint64_t lost;		     /* AUX: bytes; LOST: events; truth: overflows */
	uint64_t tsc;		     /* code */
	bool exec;		     /* COMM */
	bool out;		     /* switches: the thread leaves, and comes otherwise */
	bool executable;	     /* mappings */
	struct perfdata_build_id id; /* mappings; size 0: not known */
	struct ptah_truth truth;
};

/*
 * Opens a recording and checks its header: a file, perf's folder of them, a
 * pipe, or "-" for standard input. *why says what is wrong with it.
 */
int perfdata_open(const char *path, struct perfdata_file **file, struct ptah_message *why);
void perfdata_close(struct perfdata_file *file);

/* The next record that is of use here. 1, 0 at the end, or an error. */
int perfdata_next(struct perfdata_file *file, struct perfdata_record *record,
		  struct ptah_message *why);

/* What MTC, CYC and CBR packets are counted in; 0: not known, or not in use. */
struct perfdata_timing {
	uint8_t mtc_freq, cyc_thresh; /* IA32_RTIT_CTL's fields */
	uint8_t nominal_ratio;	      /* maximum non-turbo ratio */
	uint32_t tsc_n, tsc_d;	      /* TSC ticks per ticks of the crystal clock */
	bool event_trace;	      /* IA32_RTIT_CTL.EventEn */
	bool no_tnt, no_retcomp;      /* ... DisTNT, DisRETC */
};

/* From AUXTRACE_INFO and the attribute; false when the recording has none. Known likewise. */
bool perfdata_timing(const struct perfdata_file *file, struct perfdata_timing *timing);

/* The processor ("GenuineIntel,6,158,10"), "" when the header does not tell. */
const char *perfdata_cpuid(const struct perfdata_file *file);

/* The address filter, as perf gave it to the kernel: *n characters, 0 where there is none. */
const char *perfdata_filter(const struct perfdata_file *file, size_t *n);

/* The clock of AUXTRACE_INFO; false when the recording has none. Known once it was read past. */
bool perfdata_clock(const struct perfdata_file *file, struct perfdata_clock *clock);

/* The record at an offset that perfdata_next() gave; what comes next is not changed. */
int perfdata_read_at(struct perfdata_file *file, uint64_t offset, struct perfdata_record *record);

/*
 * Says that these bytes of a mapped file are not needed for now: they take no
 * memory until they are read again, by whatever thread.
 */
void perfdata_forget(const uint8_t *begin, const uint8_t *end);

/* AUXTRACE_INFO's kind (PERFDATA_AUXTRACE_INTEL_PT, ...); 0 until one was read past. */
uint32_t perfdata_auxtrace(const struct perfdata_file *file);

/* True when only moments were kept (perf record --snapshot): gaps are no loss. */
bool perfdata_snapshot(const struct perfdata_file *file);

/* True when samples had trace in them (perf record --aux-sample). Known once they were read past.
 */
bool perfdata_aux_samples(const struct perfdata_file *file);

/* perf's copy of the kernel's code beside the recording (--kcore), an ELF file; or NULL. */
const char *perfdata_kcore(const struct perfdata_file *file);

/* True when the recorder did not end properly: the last records may be missing. */
bool perfdata_unfinished(const struct perfdata_file *file);

/* True when the file has lost its end since it was written. */
bool perfdata_truncated(const struct perfdata_file *file);

uint64_t perfdata_size(const struct perfdata_file *file);

/* The build id that the header lists for a path. */
bool perfdata_find_build_id(const struct perfdata_file *file, const char *path,
			    struct perfdata_build_id *id);

/* The command line as one string, NULL if the file has none. */
const char *perfdata_command(const struct perfdata_file *file);

#endif
