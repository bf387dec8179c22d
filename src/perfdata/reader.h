/* SPDX-License-Identifier: MIT */
/*
 * Reads perf.data files of perf and of Ptah: their records, not what these mean for a decode. The
 * file is mapped; every pointer that is returned points into the mapping and is valid until
 * perfdata_close(). What arrives through a pipe, and the content of compressed records, is mapped
 * from files without a name.
 */
#ifndef PTAH_PERFDATA_READER_H
#define PTAH_PERFDATA_READER_H

#include "perfdata/build_id.h"
#include "perfdata/writer.h"

struct perfdata_file;

/*
 * One record. Which fields are used depends on `type`; those not listed here are used by several.
 */
struct perfdata_record {
	/*
	 * enum perfdata_type; PERFDATA_HEADER_EVENT_TYPE: one of Ptah's, see tag; 0: see
	 * perfdata_read_at()
	 */
	uint32_t type;
	uint32_t tag;	 /* PERFDATA_PTAH_*, of Ptah's records */
	uint64_t offset; /* of the record in the file */
	uint64_t time;	 /* by perf's clock; 0: none */
	uint64_t event;	 /* the id of its event; 0: unknown */
	/* -1: unknown. Of context switches ppid and ptid are the other thread's. */
	int32_t pid, tid, ppid, ptid, cpu;
	uint64_t address, size, file_offset; /* mappings; code, KSYMBOL: address, size; vdso: size
					      */
	const char *text; /* comm, path, name, note (not terminated: see text_size) */
	size_t text_size;
	const uint8_t
	    *bytes; /* AUXTRACE and samples: the trace; code, vdso, TEXT_POKE: its bytes */
	uint64_t trace_size;
	uint64_t trace_offset; /* AUXTRACE, AUX: offset in its stream */
	uint32_t index;	       /* AUXTRACE, samples and truth: stream */
	uint64_t lost;	       /* AUX: PERFDATA_AUX_*; LOST: events; truth: overflows */
	uint64_t tsc;	       /* code */
	uint32_t program;      /* BPF_EVENT: id */
	uint32_t old_size;     /* TEXT_POKE: bytes[] has the old bytes, then `size` new ones */
	bool removed;	       /* KSYMBOL, BPF_EVENT: from now on it does not exist */
	/*
	 * CGROUP: its id. NAMESPACES: how many; `bytes` are a u64 device and inode for each. vdso:
	 * 64, of 64-bit processes.
	 */
	uint64_t number;
	uint64_t hit_time, hit_since; /* HIT: by perf's clock; 0: not known */
	bool exec;		      /* COMM */
	bool out;	 /* context switches: the thread leaves the CPU; false: it arrives */
	bool preempted;	 /* SWITCH: it leaves although it could run on */
	bool executable; /* mappings; those of the kernel, with pid -1, always are */
	bool primary;	 /* of bare records: see struct perfdata_records_part */
	struct perfdata_build_id id; /* mappings; size 0: unknown */
	const uint8_t *raw; /* as it is in the file, with its header but without trace after it */
	uint16_t raw_size;
	struct ptah_truth truth;
};

/*
 * Opens a recording and checks its header: a file, a folder that perf made, a pipe, or "-" for
 * standard input. On failure *why is the reason.
 */
int perfdata_open(const char *path, struct perfdata_file **file, struct ptah_message *why);
void perfdata_close(struct perfdata_file *file);

/*
 * A file of bare records, or a part of one: records as they are in a buffer of perf_event_open(2),
 * one after the other, without a file header.
 */
struct perfdata_records_part {
	const char *path;
	uint64_t from, to; /* its bytes [from, to); to 0: to the end */
	/*
	 * perf_event_attr.sample_type: which fields end a record that no event's id identifies
	 * (sample_id_all is 1). 0: those of the first event below, or of the event 0.
	 */
	uint64_t sample_type;
	int32_t cpu, pid, tid; /* of the records that do not have them; -1: unknown */
	int64_t tsc_offset;    /* the records are valid by so many TSC ticks earlier */
	bool primary;	       /* returned with each record */
};

/* Where the records of several events end in different ways: the event with this id. */
struct perfdata_records_event {
	uint64_t id, sample_type;
};

struct perfdata_records {
	const struct perfdata_records_part *parts;
	size_t count;
	const struct perfdata_records_event *events;
	size_t event_count;
	struct perfdata_clock clock; /* mult 0: there is none, so that times are not known */
	bool kernel;		     /* the kernel was traced too */
};

/*
 * Opens files of bare records as one recording without trace: perfdata_next(), perfdata_read_at()
 * and the functions below work as for a recording. Of Ptah's own records code and notes are
 * returned. A file that ends inside a record is truncated, and so is one that ends before `to`.
 * Nothing in `config` is needed after the call.
 */
int perfdata_open_records(const struct perfdata_records *config, struct perfdata_file **file,
			  struct ptah_message *why);

/*
 * A recording without a file, whose records come one by one, as through a pipe. `name` is that of
 * the recording in messages. Times, events and features are known once their records have come.
 */
int perfdata_open_pushed(const char *name, struct perfdata_file **file);

/*
 * Reads a record of `size` bytes. 1; 0: it is not used. It points into `bytes`, and so may the
 * recording if *keep: then they must stay until it is closed. Trace after a record (AUXTRACE,
 * HEADER_TRACING_DATA) is the caller's. PTAH_E_BAD_FILE; PTAH_E_FOREIGN for compressed records.
 */
int perfdata_push(struct perfdata_file *file, const uint8_t *bytes, size_t size,
		  struct perfdata_record *record, bool *keep, struct ptah_message *why);

/* The last record was not complete. */
void perfdata_cut_pushed(struct perfdata_file *file);

/*
 * Reads the next record that is used: those of virtual machines, which "perf inject --guest-data"
 * puts among the others, are not. Returns 1, 0 at the end, or an error.
 */
int perfdata_next(struct perfdata_file *file, struct perfdata_record *record,
		  struct ptah_message *why);

/* perfdata_next() returns all records from now on, also those that it knows by their type alone. */
void perfdata_keep_all(struct perfdata_file *file);

/* An event of the recording. Those of a pipe are known once their records have been read. */
struct perfdata_event_info {
	uint32_t type;
	uint64_t sample_type, flags; /* of `attr` */
	uint8_t attr[120];	     /* PERFDATA_ATTR_SIZE: the rest is cut off, or 0 */
	char name[128];		     /* "": not known */
	size_t id_count;
};

/* False: there is no i-th. */
bool perfdata_event(const struct perfdata_file *file, size_t i, struct perfdata_event_info *info);
/* Its first ids, at most `room`. Returns how many. */
size_t perfdata_event_ids(const struct perfdata_file *file, size_t i, uint64_t *ids, size_t room);

/* A file whose build id the header lists. */
struct perfdata_listed_file {
	const char *path;
	bool kernel; /* the kernel, or a module of it */
	struct perfdata_build_id id;
};

/* Visits them all but those of virtual machines, until `visit` returns false. */
void perfdata_each_build_id(const struct perfdata_file *file,
			    bool (*visit)(void *context, const struct perfdata_listed_file *file),
			    void *context);

/* What is needed to interpret MTC, CYC and CBR packets; 0: unknown, or not in use. */
struct perfdata_timing {
	uint8_t mtc_freq, cyc_thresh; /* IA32_RTIT_CTL's fields */
	uint8_t nominal_ratio;	      /* maximum non-turbo ratio */
	uint32_t tsc_n, tsc_d;	      /* TSC ticks per crystal tick: tsc_n / tsc_d */
	bool tsc, mtc, cyc;	 /* IA32_RTIT_CTL.TSCEn, MTCEn, CYCEn: are there such packets? */
	bool event_trace;	 /* IA32_RTIT_CTL.EventEn */
	bool no_tnt, no_retcomp; /* ... DisTNT, DisRETC */
};

/*
 * From AUXTRACE_INFO and the attribute; false: the recording has none. Like that of other functions
 * below, the answer is known once AUXTRACE_INFO has been read.
 */
bool perfdata_timing(const struct perfdata_file *file, struct perfdata_timing *timing);

/* What the recorder's TSC packets mean (format.h). */
enum perfdata_time_source perfdata_time_source(const struct perfdata_file *file);

/* The processor ("GenuineIntel,6,158,10"); "": the header does not contain it. */
const char *perfdata_cpuid(const struct perfdata_file *file);

/* The address filter as perf passed it to the kernel: *n characters, 0 if there is none. */
const char *perfdata_filter(const struct perfdata_file *file, size_t *n);

/*
 * The clock in AUXTRACE_INFO; false: the recording has none. Known once that record has been read.
 */
bool perfdata_clock(const struct perfdata_file *file, struct perfdata_clock *clock);

/*
 * Reads the record at an offset that perfdata_next() returned. perfdata_next() continues where it
 * was. Its type is 0 if what came after it in the file says that it is not used.
 */
int perfdata_read_at(struct perfdata_file *file, uint64_t offset, struct perfdata_record *record);

/*
 * Releases the memory of these bytes of a mapped file, until they are read again, by whatever
 * thread.
 */
void perfdata_forget(const uint8_t *begin, const uint8_t *end);

/*
 * The kind in AUXTRACE_INFO (PERFDATA_AUXTRACE_INTEL_PT, ...); 0 until that record has been read.
 */
uint32_t perfdata_auxtrace(const struct perfdata_file *file);

/*
 * True for snapshots (perf record --snapshot), and for samples with trace (--aux-sample), once one
 * was read: what is missing between them is no loss.
 */
bool perfdata_snapshot(const struct perfdata_file *file);

/* True once AUXTRACE_INFO was read that says so: there is a buffer for each CPU, not each thread.
 */
bool perfdata_per_cpu(const struct perfdata_file *file);

/*
 * The path of perf's copy of the kernel's code beside the recording (--kcore), an ELF file; or
 * NULL.
 */
const char *perfdata_kcore(const struct perfdata_file *file);

/* The same for the copy of /proc/kallsyms. */
const char *perfdata_kallsyms(const struct perfdata_file *file);

/* A program of BPF that was loaded: its functions lie one after the other in `code`. */
struct perfdata_program {
	uint32_t id;
	size_t count;		  /* of functions */
	const uint8_t *addresses; /* u64 each */
	const uint8_t *sizes;	  /* u32 each; NULL: one function is all of the code */
	const uint8_t *code;
	size_t code_size;
};

/*
 * The next program in the header, from *at on, which is 0 at first. False: there are no more. Known
 * once all records have been read.
 */
bool perfdata_next_program(const struct perfdata_file *file, size_t *at,
			   struct perfdata_program *program);

/* Whether the kernel was traced too. */
bool perfdata_has_kernel(const struct perfdata_file *file);

/* The release of the kernel ("6.1.0-32-amd64"); "": the header does not contain it. */
const char *perfdata_osrelease(const struct perfdata_file *file);

/* The name of the machine (uname -n); "": the header does not contain it. */
const char *perfdata_hostname(const struct perfdata_file *file);

/* True when the recorder did not end properly: the last records may be missing. */
bool perfdata_unfinished(const struct perfdata_file *file);

/* True when the file was cut after it had been written. */
bool perfdata_truncated(const struct perfdata_file *file);

/* The file's size; of one that was cut, the offset at which it ends. */
uint64_t perfdata_size(const struct perfdata_file *file);

/* The path of the file that was cut. */
const char *perfdata_cut_path(const struct perfdata_file *file);

/* The build id that the header lists for a path. */
bool perfdata_find_build_id(const struct perfdata_file *file, const char *path,
			    struct perfdata_build_id *id);

/* The command line as one string, NULL if the file has none. */
const char *perfdata_command(const struct perfdata_file *file);

#endif
