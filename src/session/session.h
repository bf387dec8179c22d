/* SPDX-License-Identifier: MIT */
/* The structures of a session, shared by its files. */
#ifndef PTAH_SESSION_SESSION_H
#define PTAH_SESSION_SESSION_H

#include "perfdata/reader.h"
#include "session/change_index.h"
#include "support/table.h"
#include "session/absences.h"
#include "session/samples.h"
#include "calls/calls.h"

#include <ptah/session.h>
#include <ptah/trace_set.h>

#include <stdatomic.h>

#define SESSION_NONE SIZE_MAX

/* The largest piece in bytes. After a piece has been decoded its memory is released. */
#define SESSION_PIECE_MAX (UINT64_C(1) << 20)

/* The kinds of change of a process's memory. */
enum change_type {
	CHANGE_MAP,  /* a file is mapped */
	CHANGE_CODE, /* bytes that are in no file */
	CHANGE_EXEC, /* execve: everything is unmapped */
	CHANGE_PAGE, /* of a virtual machine: a page of code is in an address space */
	/* Of the kernel: */
	CHANGE_POKE, /* old_size bytes become `size` others */
	CHANGE_GONE, /* what was there does not exist any longer */
};

struct change {
	uint8_t type;
	uint64_t tsc;
	uint64_t address, size, file_offset;
	/* MAP: the path as recorded, without symfs; equal paths are the same pointer */
	const char *path;
	bool unfit; /* MAP: the file is missing or another one: its code is not used */
	bool given; /* MAP: by a trace set, so that the path is a file's, whatever it looks like */
	const uint8_t *bytes; /* CODE; POKE: the new ones, after the old ones */
	uint16_t old_size;    /* POKE */
	uint64_t space;	      /* PAGE: CR3, or PTAH_SPACE_ANY */
	struct perfdata_build_id id;
	size_t execs_at; /* how many of its process's changes precede the last EXEC */
};

/*
 * Changes of the same time are less than this apart: that of a mapping is recorded in nanoseconds,
 * that of code in ticks.
 */
#define CHANGE_SAME_TICKS 100

/*
 * A process, with the changes of its memory in the order of time. It begins with the first
 * `inherited` changes of its parent, which are not copied, so that a recording with many forks
 * takes no more memory than its file.
 */
struct process {
	int32_t pid;
	size_t parent, inherited; /* parent: index, or SESSION_NONE */
	uint64_t born;		  /* time of its fork */
	size_t program;		  /* the program that it runs; SESSION_NONE: not created yet */
	size_t exec;		  /* number of changes up to its last execve; 0: there was none */
	size_t older;		  /* the process that had this pid before; SESSION_NONE: none */
	struct change *changes;
	size_t count, capacity;
	bool has_maps;
	bool has_fresh; /* see grow_settle() */
	/* For look-ups: the changes by the address where they begin, and by those they cover. */
	size_t *by_address;
	size_t indexed;
	struct change_index index;
};

/* The name that a thread had from `tsc` on. */
struct thread_name {
	uint64_t tsc;
	char comm[16];
};

struct thread {
	int32_t pid, tid;
	char comm[16]; /* the last name */
	/* All of its names, in the order of time; of those at one time, the last one is valid. */
	struct thread_name *names;
	size_t name_count, name_capacity;
	/* Its begins that no stream has used yet, and its last begin; SESSION_NONE: none. */
	size_t first, last;
	bool begun; /* the last begin is of the thread that has this number now */
};

/* What a process ran between two execve. */
struct program {
	size_t process;
	uint64_t until; /* time of its last moment; 0: the end of the recording */
	/* Its part of its process's own changes: [first, last). */
	size_t first, last; /* first 0: also the inherited ones; last SESSION_NONE: up to the end */
	char comm[16];	    /* the last name of its first thread */
};

/*
 * A thread's trace begins: once, or again after an execve, or when its number is used again. Each
 * begin belongs to the thread's next stream.
 */
struct begin {
	size_t program;
	char comm[16];
	size_t next; /* the thread's next begin; SESSION_NONE: none */
};

/* The addresses of the kernel: the upper half. */
#define KERNEL_HALF (UINT64_C(1) << 63)

/*
 * The kernel: what the recording contains about it, and the files of this machine that fit.
 * Everything is 0 or NULL if it is not known.
 */
struct kernel {
	struct process maps;	  /* the kernel itself and its modules */
	struct process functions; /* code that comes and goes, each with a name: KSYMBOL */
	struct process code;	  /* changes of its code */
	size_t later;		  /* the first of these that has a time: see kernel.c */
	struct table programs;	  /* of BPF: where perfdata_next_program() finds an id; */
	bool has_programs;	  /* it is filled in */
	/* A symbol ("_text") and its address, from which the kernel's addresses are known. */
	char symbol[32];
	uint64_t address;
	struct perfdata_build_id id;
	/* Its code. Of a trace set also all other code that belongs to no process. */
	struct ptah_image *image;
	char *kallsyms, *vmlinux; /* where the names come from; paths without symfs */
	uint64_t slide;		  /* how far it was moved up from vmlinux's addresses */
};

/* From `tsc` on this thread runs on a CPU. The thread before it left at `from`. */
struct turn {
	uint64_t from, tsc;
	int32_t pid, tid; /* 0: the CPU is idle; -1: unknown */
	size_t process;	  /* index; SESSION_NONE: none */
	/*
	 * The turn of the same thread before this one: its number, and on which CPU it was (index;
	 * SESSION_NONE: there is none). Of a session that grows, `is_next`: it is known that all
	 * before this one are over.
	 */
	size_t cpu_before, before;
	bool is_next;
};

/* The last turn of a thread. */
struct last_turn {
	size_t cpu, number;
};

struct cpu {
	struct turn *turns; /* in the order of time */
	size_t count, capacity;
	/* In a session that grows, so many turns before these are forgotten; and their stream. */
	size_t gone;
	size_t stream;
	/*
	 * The last turn is known from the record of the thread before it, and its own record
	 * follows.
	 */
	bool comes;
	/* The thread of the last turn has left, and the next thread is not known yet. */
	bool has_left;
	uint64_t left; /* time at which it left */
};

/* A thread that ran on a CPU. */
struct runner {
	int32_t pid, tid;
};

/* A piece of a stream: trace that is contiguous in the file. */
struct piece {
	const uint8_t *bytes;
	uint64_t offset : 61;  /* offset in the stream; the piece ends where the next one begins */
	uint64_t gap : 1;      /* it does not continue the piece before it */
	uint64_t separate : 1; /* with gap: no trace is missing */
	uint64_t restart : 1;  /* with gap: a packet begins with it, after TraceEn was set again */
};

/* Where the trace of a record is in a stream: at offset `at`. */
struct placement {
	uint64_t end; /* as the recorder counts; increases */
	uint64_t size;
	uint64_t at;
};

/* The trace before offset `at` was written before this time. */
struct limit {
	uint64_t at, tsc;
};

struct stream {
	uint32_t index;
	struct ptah_stream_info info;
	size_t process; /* index; SESSION_NONE: unknown */
	/* The part of the process's changes that the stream ran over, as in struct program. */
	size_t first, last;
	size_t like; /* the first stream that ran over the same memory, or this one itself */
	/* In a session that grows (grow.h), more trace may come; and its thread's begin. */
	bool grows;
	size_t begin;
	uint64_t contiguous; /* from this offset on no trace is missing */
	/*
	 * The CPU whose turns are followed; SESSION_NONE: none. With a `process` the turns say
	 * which thread ran; without, they also say whose memory it ran over.
	 */
	size_t cpu;
	/* If a CPU is followed: the threads that ran there, each once, sorted. */
	struct runner *runners;
	size_t runner_count;
	struct piece *pieces;
	size_t count, capacity;
	uint64_t expected;	 /* trace_offset that the next piece has if nothing is missing */
	const uint8_t *snapshot; /* the trace of the last record */
	uint64_t snapshot_size;
	struct placement *placements; /* while the records are read: of a perf.data */
	size_t placement_count, placement_capacity;
	struct limit *limits; /* of a CPU: sorted */
	size_t limit_count, limit_capacity;
};

/* The turn with a number, which counts from the first one of the CPU. */
static inline const struct turn *cpu_turn(const struct cpu *cpu, size_t number)
{
	return &cpu->turns[number - cpu->gone];
}

/* Whether several processes share the stream, each with memory of its own. */
static inline bool stream_is_shared(const struct stream *stream)
{
	return stream->cpu != SESSION_NONE && stream->process == SESSION_NONE;
}

/* Whether counts of the stream belong to several processes or address spaces with numbers. */
bool session_has_spaces(const struct ptah_session *session, const struct stream *stream);

/* The number of the one that counts in `space` belong to, if session_has_spaces(). -1: unknown. */
int32_t session_space_of(const struct ptah_session *session, const struct stream *stream,
			 const struct ptah_space *space);

/* The offset at which a piece ends, and its size. */
static inline uint64_t piece_end(const struct stream *stream, size_t i)
{
	return i + 1 < stream->count ? stream->pieces[i + 1].offset : stream->info.bytes;
}

static inline uint64_t piece_size(const struct stream *stream, size_t i)
{
	return piece_end(stream, i) - stream->pieces[i].offset;
}

/*
 * What a set's records say of a stream of which neither CPU nor thread is known: the only CPU that
 * has context switches, the only thread that begins. -1: there is none; -2: several.
 */
struct clue {
	bool has_primary; /* context switches of other files do not count */
	int32_t cpu, tid;
};

/* A file of a trace set with packets, mapped. */
struct set_file {
	const char *path; /* without symbolic links */
	uint8_t *bytes;
	uint64_t size;
	uint64_t named; /* bytes of all its pieces together */
	size_t next;	/* the next one with the same hash; SESSION_NONE: none */
};

/*
 * Where the file of a mapping is, which is missing at its path or another one there. Sorted by path
 * and id, as the mapping has them; the path is one of the session's. `local` is NULL if no copy was
 * found.
 */
struct file_copy {
	const char *path;
	struct perfdata_build_id id;
	char *local;
};

/* A page of code of a virtual machine, and the file that has it; path NULL: none is known. */
struct guest_page {
	const uint8_t *bytes;
	const char *path; /* without symfs */
	uint64_t file_offset;
};

struct growth;
struct guest_files;

enum session_looks {
	SESSION_LOOKS_UNKNOWN,
	SESSION_LOOKS_ENOUGH,
	SESSION_LOOKS_SOME, /* there were, but threads that needed them had none */
	SESSION_LOOKS_NONE
};

struct ptah_session {
	struct ptah_session_config config;
	struct growth *growth; /* of a session that grows while it is recorded: grow.h; else NULL */
	char *symfs, *build_id_cache;
	char *root; /* of a trace set, NULL: none; its copies of the recorded files lie below it */
	struct perfdata_file *file; /* of a trace set: its sideband records */
	bool is_set;		    /* a trace set, not a recording */
	bool as_named;		    /* built by calls, so that its paths are the caller's own */
	struct set_file *files;
	size_t file_count, file_capacity;
	struct table files_by_path;
	struct ptah_range ranges[PTAH_RANGES]; /* of a set: what was traced */
	const char *kcore, *kallsyms;	       /* of a set: the kernel's files; NULL: none */
	const char *vdso[PTAH_TRACE_VDSO_MAX]; /* of a set: NULL: none */
	/* The code of [vdso] in 64-bit processes, if it is in the recording. */
	const uint8_t *vdso_code;
	uint64_t vdso_size;
	/*
	 * A set has its address filter here as text, or NULL; and where code that belongs to no
	 * process lies in files.
	 */
	const char *filter;
	struct change *code;
	size_t code_count;
	struct clue clue;
	bool is_guest; /* the recording of a virtual machine: its code is in pages (guest.h) */
	struct {
		struct guest_page *pages;
		struct guest_files *files; /* of a session that grows: guest_files.c */
		bool has_files;		   /* of some pages the file is known */
		size_t page_count, page_capacity;
		struct table pages_by_number;
		struct ptah_space *spaces; /* as the maps name them */
		struct table by_cr3;	   /* of a session that grows: see guest_find_space() */
		size_t space_count, space_capacity;
	} guest;
	/*
	 * The address spaces that the code of a set or a virtual machine names, sorted, each once.
	 * The i-th has the number -2 - i, and programs[i] stands for it.
	 */
	struct ptah_space *spaces;
	size_t space_count;
	struct ptah_flow_config flow; /* configuration for the decode of streams */
	unsigned flow_set;	      /* how often `flow` was changed */
	struct ptah_window window;    /* what streams that are opened decode; see its declaration */
	bool has_clock;
	uint32_t time_source; /* enum perfdata_time_source */
	atomic_int looks;     /* enum session_looks, found when it is first asked for */
	struct perfdata_clock clock;
	uint64_t tsc_high; /* the highest byte of TSC, which no time here and in the trace has */
	struct stream *streams;
	size_t stream_count, stream_capacity;
	struct process *processes;
	size_t process_count, process_capacity;
	struct thread *threads;
	size_t thread_count, thread_capacity;
	struct program *programs;
	size_t program_count, program_capacity;
	struct begin *begins;
	size_t begin_count, begin_capacity;
	struct cpu *cpus;
	size_t cpu_count, cpu_capacity;
	struct last_turn *last_turns; /* while records are read: see last_by_tid */
	size_t last_turn_count, last_turn_capacity;
	struct table last_by_tid; /* the thread's index there */
	struct table streams_by_index, processes_by_pid, threads_by_tid, cpus_by_number;
	struct table kernel_threads; /* by pid: true, or false if it was reused */
	struct versions *versions;   /* versions.h */
	struct strings paths;
	struct file_copy *copies; /* copies.c */
	size_t copy_count, copy_capacity;
	struct symbol_debuginfod *servers; /* that copies are fetched from; NULL: none yet */
	bool servers_failed;
	struct file_table *mapped; /* files that its streams run over */
	struct kernel kernel;
	char *folder;	  /* of the recording, in which files about it may be; NULL: not known */
	char *jit_folder; /* copies of lists of generated code (jit_folder.h), or NULL */
	struct jitdump *jitdumps; /* see jit.h */
	size_t jitdump_count, jitdump_capacity;
	/* Of threads whose context switches are recorded (absences.h). */
	struct absence_lists absences;
	uint64_t begin, end;	 /* the times of the first and the last record, as in the trace */
	uint64_t jit_generation; /* of a session that grows: how often lists have grown */
	bool use_jit_code;	 /* the recording has no code of its own that processes generated */
	struct ptah_namespaces *namespaces; /* in the order of time */
	size_t namespaces_count, namespaces_capacity;
	struct ptah_cgroup *cgroups;
	size_t cgroup_count, cgroup_capacity;
	char **notes;
	size_t note_count, note_capacity;
	struct samples samples;
	struct ptah_hit *hits; /* their text is owned */
	size_t hit_count, hit_capacity;
};

int session_note(struct ptah_session *session, const char *text, size_t n);

/* Takes a record that says for which moment the recording was kept. */
int session_on_hit(struct ptah_session *session, const struct perfdata_record *record);

/* session.c: an empty session with this configuration. */
int session_make(const struct ptah_session_config *config, struct ptah_session **session);
/* Takes from the recording what is needed to decode its packets. */
void session_read_events(struct ptah_session *session);

/*
 * records.c: reads the file's records, and what `set` has, into the session. `path` is its name in
 * messages. `set`: NULL for a recording.
 */
int session_read_records(struct ptah_session *session, const char *path,
			 const struct ptah_trace_set *set, struct ptah_message *why);

/*
 * pieces.c: adds `size` bytes of trace to the stream `index`; `offset` is where the recorder places
 * them.
 */
int session_add_trace(struct ptah_session *session, uint32_t index, int32_t tid, int32_t cpu,
		      uint64_t offset, const uint8_t *bytes, uint64_t size);

/* Adds a stream without trace, which is the one of `index` from now on. NULL: out of memory. */
struct stream *session_new_stream(struct ptah_session *session, uint32_t index);

/* The piece that contains the byte at `offset`; stream->count: none. */
size_t session_piece_at(const struct stream *stream, uint64_t offset);

/* How trace relates to the trace before it. */
enum session_joint {
	JOINT_NONE,	/* continues it */
	JOINT_GAP,	/* some is missing */
	JOINT_SEPARATE, /* a trace of its own, and none is missing */
};

/* Adds trace at the end of a stream. */
int session_add_pieces(struct stream *stream, const uint8_t *bytes, uint64_t size,
		       enum session_joint joint);

/*
 * Releases the memory of the pieces before `next` (see perfdata_forget), so that decoding needs the
 * memory of a few pieces and not of the whole trace.
 */
void session_release_before(const struct stream *stream, size_t next);

/* memory.c: what was mapped when */
/* How many of the first n changes had happened by `tsc`; a tsc of 0 stands for the end. */
size_t session_changes_until(const struct process *p, size_t n, uint64_t tsc);

/*
 * Lists all changes of a process's memory in the order of time; the caller frees *changes and
 * *waits. waits[i]: changes[i] replaces something and must be applied at its time; the others can
 * be applied at the beginning.
 */
int session_memory(const struct ptah_session *session, size_t process,
		   const struct change ***changes, bool **waits, size_t *count);

/*
 * The same for the memory that a stream ran over: that of one program, if its process ran several.
 */
int session_stream_memory(const struct ptah_session *session, const struct stream *stream,
			  const struct change ***changes, bool **waits, size_t *count);

int session_index_maps(struct ptah_session *session);
/* The same for one process, again after it has changed. */
int session_index_process(struct process *p);

/*
 * Finds streams that have the same memory, which does not change while they run, and sets `like`.
 */
int session_find_alike(struct ptah_session *session);

/*
 * filters.c: the address filter of the recording, as the addresses at which the process had its
 * files mapped. All ranges are off if an address is unknown.
 */
int session_filters(const struct ptah_session *session, size_t process,
		    struct ptah_range ranges[PTAH_RANGES]);

/* files.c: the files that were mapped */

/* The path to open for a recorded path. The caller frees it. */
char *session_path(const struct ptah_session *session, const char *path);

/*
 * The same for a mapping, which may have a copy elsewhere. What the caller of the library named in
 * a trace set is at that path; what a ptah.trace, a folder or a recording names is below symfs.
 */
char *session_map_path(const struct ptah_session *session, const struct change *change);

/*
 * function_code.c: how many instructions of a file are in [from, to). 0: not known; the code is in
 * no file, or the bytes are not whole instructions. As calls_insn_counter of calls.h.
 */
unsigned session_count_insns(const struct ptah_session *s, int32_t space, uint64_t from,
			     uint64_t to, uint64_t tsc);

/* Whether a change of the type MAP maps a file. */
static inline bool change_is_file(const struct change *change)
{
	return change->given || ptah_path_is_file(change->path);
}

/* Checks that the file of a MAP exists and is the one that ran, or that there is a copy of it. */
int session_check_file(struct ptah_session *session, const struct change *change,
		       struct ptah_message *why);

/*
 * copies.c: finds a copy of a mapping's file, whose build id was `was`, and keeps where it is. 1;
 * 0: there is none; or an error.
 */
int session_find_copy(struct ptah_session *session, const struct change *change,
		      const struct perfdata_build_id *was);
/* The copy that was found for a mapping. NULL: none. */
const char *session_copy_of(const struct ptah_session *session, const struct change *change);
void session_forget_copies(struct ptah_session *session);

/* The path in perf's cache of a file's folder, with `name` after it. NULL: no cache, no memory. */
char *session_cached_path(const char *cache, const struct perfdata_build_id *id, const char *name);

/* Whether a recorded build id is that of a file. */
bool session_same_id(const struct perfdata_build_id *was, const struct perfdata_build_id *is);
/* Whether the file at this path of this machine has the build id. */
bool session_has_id(const char *path, const struct perfdata_build_id *id);

/*
 * kernel_files.c: finds the kernel's code and its names on this machine. What is found but does not
 * fit is refused with a note, or with a message if the caller named it.
 */
int session_find_kernel(struct ptah_session *session, struct ptah_message *why);
void session_forget_kernel(struct kernel *kernel);

/* kernel.c: sets `later`, when all changes are known. */
void kernel_find_later(struct kernel *kernel);
/* Completes the image: the kernel's code before the first change that has a time. */
int kernel_begin(struct kernel *kernel);
/* Makes a change of the kernel's code in an image. */
int kernel_apply(struct ptah_image *image, const struct change *change);
/* The number of changes that have a time. */
static inline size_t kernel_later(const struct kernel *kernel)
{
	return kernel->code.count - kernel->later;
}

/*
 * running_kernel.c: whether the recorded kernel is the one that runs here, so that its files below
 * /proc fit: has it the same build id or, where the recording has none, the same release?
 */
bool running_kernel_fits(const struct ptah_session *session);

/* Adds the code of the running kernel from /proc/kcore. The number of mappings, or an error. */
int running_kernel_add_code(const struct ptah_session *session, struct ptah_image *image);

/*
 * Looks for the files that the streams ran over, and for copies of those that are missing or have
 * changed. Without a copy that is an error, unless the caller ignores build ids.
 */
int session_check_files(struct ptah_session *session, struct ptah_message *why);

#endif
