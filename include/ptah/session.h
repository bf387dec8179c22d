/* SPDX-License-Identifier: MIT */
/*
 * Sessions: a recording as a whole.
 *
 * A session is a perf.data file (from `ptah record` or `perf record -e
 * intel_pt//`) or a trace set: raw packets of other drivers, with what is known of
 * them (trace_set.h). It knows the trace streams
 * (one per thread or per CPU), the processes, and what they had mapped at which
 * time, and it decodes each stream over the memory as it was then.
 *
 *	struct ptah_message why;
 *	struct ptah_session *s;
 *
 *	if (ptah_session_open("perf.data", NULL, &s, &why) < 0)
 *		die(why.text);
 *	for (i = 0; i < ptah_session_streams(s); i++) {
 *		ptah_reader_new(s, i, NULL, &reader);
 *		while ((k = ptah_reader_read(reader, items, 256)) > 0)
 *			use(items, k);
 *		ptah_reader_free(reader);
 *	}
 *	ptah_session_close(s);
 *
 * An open session does not change: different threads may decode its streams at
 * the same time.
 */
#ifndef PTAH_SESSION_H
#define PTAH_SESSION_H

#include <ptah/base.h>
#include <ptah/engine/trace_config.h>
#include <ptah/flow.h>
#include <ptah/profile.h>
#include <ptah/symbol.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

PTAH_BEGIN_DECLS

/* Why something failed, for people: names the file, the place and what to do. */
struct ptah_message {
	char text[1024];
};

/*
 * The message of a system call that failed with `error` (an errno): "PATH: cannot WHAT: ...", with
 * what to do about it where that is clear. `why` may be NULL. Returns PTAH_E_SYSTEM, or
 * PTAH_E_NOMEM for ENOMEM.
 */
PTAH_API int ptah_system_message(struct ptah_message *why, int error, const char *path,
				 const char *what);

struct ptah_trace_set;

struct ptah_session_config {
	size_t size;	   /* sizeof(struct ptah_session_config) */
	const char *symfs; /* look for binaries below this folder (as perf --symfs); NULL: "/" */
	bool ignore_build_ids; /* decode over binaries that have changed since */
	bool no_images;	       /* packets only: do not look for binaries */
	/*
	 * For recordings with the kernel's code: the kernel's ELF file and its symbols in the
	 * format of /proc/kallsyms (as perf's options of these names). The paths are taken as they
	 * are, without symfs. NULL: what lies beside the recording, what fits of the running
	 * kernel, or in the usual places.
	 */
	const char *vmlinux, *kallsyms;
	/*
	 * perf's cache of files by their build id ("/root/.debug"), without symfs, for the kernel
	 * and for files that are missing or others now. NULL: none.
	 */
	const char *build_id_cache;
	/*
	 * Files that are not there either may be fetched from debuginfod servers:
	 * struct ptah_symbols_search has the rules. Used while the session is opened, and of one
	 * that grows until it is closed.
	 */
	bool fetch;
	ptah_fetch_progress *fetch_progress; /* may be NULL */
	void *fetch_context;
	/*
	 * Samples of other events and context switches are wanted, too, for which the
	 * session keeps 40 bytes each. Otherwise it has none.
	 */
	bool samples;
	/*
	 * The path is that of a file with the packets of one stream, which ran this code: for an
	 * image that is made of bytes, has a reader callback, or shares a cache. It is cloned. NULL:
	 * the path is that of a recording.
	 */
	const struct ptah_image *image;
	/*
	 * In place of a path, which is NULL then: raw traces and what is known of them (trace_set.h).
	 * The set is not needed after the call. Code that cannot be read is an error, with
	 * ignore_build_ids a note.
	 */
	const struct ptah_trace_set *set;
};

struct ptah_session;

/*
 * `path`: a perf.data file, a folder that perf wrote (--threads, --kcore), a
 * pipe, or "-" for standard input; or what ptah_trace_set_open() takes. Data from a
 * pipe, and data that is compressed in the recording, is kept in an unlinked file
 * in /var/tmp while the session is open. A signal whose handler was installed without
 * SA_RESTART ends the waiting for a pipe, and one with any handler the waiting for
 * the writer of a fifo: PTAH_E_SYSTEM.
 */
PTAH_API int ptah_session_open(const char *path, const struct ptah_session_config *config,
			       struct ptah_session **session, struct ptah_message *why);

PTAH_API void ptah_session_close(struct ptah_session *session);

/* What the recorder counted while the program ran. */
struct ptah_truth {
	uint64_t instructions;
	uint64_t conditional; /* conditional branches, taken or not */
	uint64_t indirect;    /* indirect near jumps and calls */
	uint64_t returns;     /* near returns */
	uint64_t path_hash;   /* of the address stream, see docs/path-hash.md */
};

struct ptah_stream_info {
	int32_t pid;	/* -1: unknown, or of several processes: see ptah_reader_thread() */
	int32_t tid;	/* -1: per-CPU stream: see ptah_reader_thread() */
	int32_t cpu;	/* -1: per-thread stream */
	char comm[16];	/* the last name of the thread, or of the process; "" if unknown */
	uint64_t bytes; /* of trace */
	uint64_t lost;	/* bytes the recorder says were lost */
	bool has_truth;
	struct ptah_truth truth;
	/* Identifies the memory that the stream ran over, for ptah_session_find_map(): the pid, or
	 * a number below -1 where that process executed another program later or its pid was used
	 * again. */
	int32_t space;
};

PTAH_API size_t ptah_session_streams(const struct ptah_session *session);
PTAH_API int ptah_session_stream_info(const struct ptah_session *session, size_t stream,
				      struct ptah_stream_info *info);

/* A thread of a recording. */
struct ptah_thread {
	int32_t pid, tid; /* 0: the CPU is idle; -1: not known */
	char comm[16];	  /* its last name, "" if unknown */
};

/*
 * The i-th thread that may have run in a stream: the stream's own or, in a stream per CPU, one of
 * those that the context switches in the recording name for that CPU and, if the stream has a pid,
 * for that process. A CPU's threads are sorted by pid and tid. PTAH_E_MISSING: there are no more,
 * or none is known.
 */
PTAH_API int ptah_session_stream_thread(const struct ptah_session *session, size_t stream, size_t i,
					struct ptah_thread *thread);

/*
 * The name that a thread had at time `tsc`. It kept the name until *until, UINT64_MAX: the end.
 * False: its names, or their times, are not known.
 */
PTAH_API bool ptah_session_thread_name(const struct ptah_session *session, int32_t tid,
				       uint64_t tsc, char comm[16], uint64_t *until);

/* The kinds of namespace that the kernel records, in its order. */
enum ptah_namespace {
	PTAH_NAMESPACE_NET,
	PTAH_NAMESPACE_UTS,
	PTAH_NAMESPACE_IPC,
	PTAH_NAMESPACE_PID,
	PTAH_NAMESPACE_USER,
	PTAH_NAMESPACE_MNT,
	PTAH_NAMESPACE_CGROUP,
	PTAH_NAMESPACE_MAX
};

/* The namespaces that a thread was in from a time on: device and inode as in /proc/PID/ns. */
struct ptah_namespaces {
	int32_t pid, tid;
	uint64_t tsc; /* 0: from the beginning */
	struct {
		uint64_t device, inode; /* 0: not recorded */
		const char *name;	/* "net", "uts" and so on, as in /proc/PID/ns */
	} of[PTAH_NAMESPACE_MAX];
};

/*
 * What the recording says of namespaces (perf record --namespaces), one entry for each thread and
 * each time that it entered others, in the order of time. False: there is no i-th.
 */
PTAH_API bool ptah_session_namespaces(const struct ptah_session *session, size_t i,
				      struct ptah_namespaces *namespaces);

/* A control group that existed (perf record --all-cgroups). */
struct ptah_cgroup {
	uint64_t id;
	const char *path; /* below the mount point of cgroup2; lives as long as the session */
};

PTAH_API bool ptah_session_cgroup(const struct ptah_session *session, size_t i,
				  struct ptah_cgroup *cgroup);

/*
 * The bytes of a stream from `offset`: *bytes points at a contiguous piece
 * that lives as long as the session. Returns its length, 0 at the end.
 */
PTAH_API size_t ptah_session_stream_bytes(const struct ptah_session *session, size_t stream,
					  uint64_t offset, const uint8_t **bytes);

/* A mapping of a process: where in which file an address lies. */
struct ptah_map {
	uint64_t address;
	uint64_t size;
	uint64_t file_offset;
	const char
	    *path; /* "[vdso]", "//anon", ... for what is no file; lives as long as the session */
};

/* Times of look-ups that are none of the trace: at the end, and before anything changed. */
#define PTAH_TIME_LAST	0
#define PTAH_TIME_FIRST UINT64_MAX

/* The time at which to look up what an address was, of counts of this version (profile.h). */
static inline uint64_t ptah_version_time(uint64_t version)
{
	return version ? version : PTAH_TIME_FIRST;
}

/*
 * What `space` had mapped at `address` at time `tsc` (0: at the end; PTAH_TIME_FIRST: what was
 * there first). Where nothing had been mapped by then, what came there first, which is what the
 * trace is read with. `space` is a pid, or that of a stream, or one that
 * ptah_session_profile_pid() returned. In a
 * trace set, code that belongs to no process is found in every space, with the path
 * "[code]" if it is in no file. (In ptah_session_config.image, files with
 * relative paths are not found.) The kernel's code belongs to every space: its path is
 * "[kernel.kallsyms]", with the offset from the symbol of ptah_session_kernel(), or
 * that of a module's file, or a name like "bpf_prog_..." without "/" and "[".
 * false: nothing is known.
 */
PTAH_API bool ptah_session_find_map(const struct ptah_session *session, int32_t space,
				    uint64_t address, uint64_t tsc, struct ptah_map *map);

/*
 * Some spaces of calls stand for another one as of a time, because their functions were replaced
 * later (struct ptah_function); all look-ups understand them. Changes *space to that one and *tsc
 * to the time; leaves both as they are when `space` is none of them.
 */
PTAH_API void ptah_session_version(const struct ptah_session *session, int32_t *space,
				   uint64_t *tsc);

/*
 * Where the names of the kernel's code come from, for ptah_symbols_add_kallsyms()
 * and ptah_symbols_add_vmlinux(). Paths live as long as the session.
 */
struct ptah_kernel {
	uint8_t build_id[20];		/* PTAH_BUILD_ID_MAX */
	uint8_t build_id_size;		/* 0: unknown */
	const char *kallsyms, *vmlinux; /* NULL: none that fits is known */
	const char *symbol;		/* the symbol whose address is recorded, "_text" */
	uint64_t address;		/* its address; 0: unknown */
	uint64_t slide; /* how far the kernel was moved up from vmlinux's addresses */
};

PTAH_API void ptah_session_kernel(const struct ptah_session *session, struct ptah_kernel *kernel);

/* Whether a mapping's path is that of a file, and not "[vdso]", "//anon", a device or a deleted file. */
static inline bool ptah_path_is_file(const char *path)
{
	return path && path[0] == '/' && path[1] != '/' && strncmp(path, "/dev/", 5) != 0 &&
	       strncmp(path, "/memfd:", 7) != 0 && strncmp(path, "/SYSV", 5) != 0 &&
	       !strstr(path, " (deleted)");
}

/* Bytes of a build id that are kept; perf keeps as many. */
#define PTAH_BUILD_ID_MAX 20

/*
 * The build id of the ELF file at `path`, as it is now. Returns its size, 0 when it is no ELF file
 * or has none, PTAH_E_SYSTEM (with errno) when it cannot be opened.
 */
PTAH_API int ptah_build_id_read(const char *path, uint8_t id[PTAH_BUILD_ID_MAX]);

/*
 * The path in perf's cache of files, `cache` ("/root/.debug"), of the file with this build id, which
 * the caller frees. NULL: it is not there.
 */
PTAH_API char *ptah_build_id_find(const char *cache, const uint8_t *id, size_t size);

/*
 * Where a copy of the file that ran is, if the file at its recorded path is missing or another one
 * now: see build_id_cache and fetch. NULL: there is none, or none is needed. Of a path whose file
 * was replaced while it was recorded the answer is of one of the two.
 */
PTAH_API const char *ptah_session_copy(const struct ptah_session *session, const char *path);

/* A TSC value in nanoseconds of perf's clock; 0 when the recording has no conversion. */
PTAH_API uint64_t ptah_session_time(const struct ptah_session *session, uint64_t tsc);

/* How many nanoseconds TSC ticks are: ticks * mult >> shift. False: the recording does not say. */
PTAH_API bool ptah_session_time_scale(const struct ptah_session *session, uint32_t *mult,
				      uint32_t *shift);

/* What a recording's times are. Every output that shows one says which. */
enum ptah_time_kind {
	PTAH_TIME_NONE,	    /* its ticks are not related to a clock */
	PTAH_TIME_MEASURED, /* by the processor, finely: MTC or CYC packets are in the trace */
	/*
	 * Known at some places of the trace only, the stamps (TSC packets): what ran between two of
	 * them has an estimated time, and bounds (ptah_session_time_bounds()).
	 */
	PTAH_TIME_STAMPED,
	PTAH_TIME_SIMULATED, /* a number of instructions: it says nothing of how long it took */
	PTAH_TIME_KIND_MAX
};

struct ptah_times {
	enum ptah_time_kind kind;
	/*
	 * Times of single calls are estimates, because they lie between stamps, or between MTC
	 * packets where there are no CYC packets. Of the latter an item's tsc_error is the bound.
	 */
	bool estimated;
	/*
	 * Threads ran for milliseconds without a stamp of their own, and the recorder never looked at
	 * them meanwhile: their estimates may be far off. Not known of sessions that grow.
	 */
	bool unlooked;
	const char *name; /* of the kind: "none", "measured", "stamped", "simulated" */
	const char *text; /* the same as a sentence for people, with advice for this recording */
};

PTAH_API struct ptah_times ptah_session_times(const struct ptah_session *session);

/*
 * Between which times the item with this offset in its stream has run (with everything before it,
 * and nothing after it). *low is 0, *high UINT64_MAX where nothing is known. PTAH_E_INVAL,
 * PTAH_E_UNSUPPORTED: the stream's items have a tsc_error instead.
 */
PTAH_API int ptah_session_time_bounds(const struct ptah_session *session, size_t stream,
				      uint64_t offset, uint64_t *low, uint64_t *high);

/*
 * How many ticks of [from, to) a thread was on no processor, where the recording has its context
 * switches: *off, and *preempted of these, in which it could have run. tid -1: all threads together.
 * PTAH_E_MISSING: the recording has no such records.
 */
PTAH_API int ptah_session_time_off(const struct ptah_session *session, int32_t tid, uint64_t from,
				   uint64_t to, uint64_t *off, uint64_t *preempted);

/*
 * The configuration that the streams are decoded with. The recording gives the
 * frequencies for MTC, CYC and CBR packets, the errata of its processor, and
 * whether TSC, MTC and CYC packets and Event Trace were on, TNT or return
 * compression off. These fields are 0 where it does not say, and where a trace set
 * does not. `resync` is true. set changes the configuration for the streams that
 * are opened afterwards; their address ranges always come from the recording or
 * the trace set.
 */
PTAH_API void ptah_session_get_flow(const struct ptah_session *session,
				    struct ptah_flow_config *config);
PTAH_API int ptah_session_set_flow(struct ptah_session *session,
				   const struct ptah_flow_config *config);

/* The recorder's command line, NULL if the recording has none. */
PTAH_API const char *ptah_session_command(const struct ptah_session *session);

/* The recording is incomplete (an interrupted copy, a full disk): its end is lost. */
PTAH_API bool ptah_session_truncated(const struct ptah_session *session);

/* Remarks of the recorder ("child 123 was not recorded"), and remarks about the file. NULL when i
 * is out of range. */
PTAH_API const char *ptah_session_note(const struct ptah_session *session, size_t i);

/*
 * A moment for which a recording was kept: a call, a signal or another thing that `ptah live` was
 * told to watch for. Times are nanoseconds of perf's clock, as ptah_session_time() has them; 0: not
 * known.
 */
struct ptah_hit {
	size_t size;	  /* sizeof(struct ptah_hit) */
	uint64_t time;	  /* when it was */
	uint64_t since;	  /* where to begin to look: the beginning of the call, for example */
	int32_t pid, tid; /* where; -1: not known */
	const char *text; /* what it was; it lives as long as the session */
};

/* The i-th one. PTAH_E_MISSING: there are no more. */
PTAH_API int ptah_session_hit(const struct ptah_session *session, size_t i, struct ptah_hit *hit);

/*
 * Keeps what the jobs know of the code that ran from one ptah_session_count(),
 * reader or ptah_session_verify() to the next. Making these tables takes longer
 * than counting a short trace, so it pays for callers that count a session's
 * streams several times or in several calls, or read many streams; within one
 * count the tables are kept in any case. Streams of one process, and of processes
 * with the same memory (a thousand runs of one program), share them. They are
 * made again where code changed while it ran, where the trace names address
 * spaces, and after ptah_session_set_flow(). Free the workers before the session
 * is closed and after their readers. One count or reader at a time may use them,
 * on any thread. They take the memory of the tables and images of each job, for
 * the last few programs.
 */
struct ptah_workers;

PTAH_API int ptah_workers_new(const struct ptah_session *session, struct ptah_workers **workers);
PTAH_API void ptah_workers_free(struct ptah_workers *workers);

/* How many threads share the work, and a callback for the progress. */
struct ptah_jobs {
	size_t size;   /* sizeof(struct ptah_jobs) */
	unsigned jobs; /* threads that work for the caller; with 0 and 1 the caller's thread does
			  everything */
	uint64_t
	    segment; /* cut streams into parts of at least so many bytes; 0: the library chooses */
	/* Or NULL. Called now and then, on the caller's thread, with the number of trace bytes
	 * done. False ends the work early: the present stream is handed out as far as it has been
	 * counted (with jobs: those parts of it that are known to be right, not always from its
	 * beginning on), and no other one is. */
	bool (*progress)(void *context, uint64_t bytes);
	void *context;
	struct ptah_workers *workers; /* of this session, or NULL */
};

/*
 * Counts what streams ran instead of returning the path, which is much faster (profile.h), and
 * passes their profiles to `take` in the order of the streams. `jobs` may be NULL. A profile lives until `take` returns; a
 * negative result ends the work. With jobs a stream is cut at PSBs into parts that
 * are counted in parallel; a job that has nothing left takes half of another's. A
 * part that does not begin in exactly the state in which the previous one ended is
 * counted again from there, so the counts are those of one thread. (A stream that
 * several processes share, and those of a session with a window, are counted by one
 * job each.) Streams for which `wants` returns false are left out (NULL: all are
 * counted). Memory: tables, an image and the counts of one stream for each job,
 * and the counts of up to two streams for each job that wait for their turn.
 * Returns 0, an error, or the negative result of `take`.
 */
PTAH_API int ptah_session_count(const struct ptah_session *session, const struct ptah_jobs *jobs,
				bool (*wants)(void *context, size_t stream),
				int (*take)(void *context, size_t stream,
					    struct ptah_profile *profile),
				void *context);

/*
 * The process that a space stands for (struct ptah_stream_info,
 * ptah_session_profile_pid()): its pid (-1: unknown), tid -1, and the last name that its first
 * thread had while it was that program, "" if none is known. PTAH_E_INVAL: no
 * stream has this space.
 */
PTAH_API int ptah_session_space(const struct ptah_session *session, int32_t space,
				struct ptah_thread *who);

/*
 * The process that blocks and edges of a stream's profile belong to, by their
 * `space`. The result is the stream's own space (struct ptah_stream_info) or,
 * where several processes share a CPU's stream, the pid of the process that ran;
 * -1: not known. Where the code of a trace set belongs to address spaces and the
 * stream to no process, it is a number below -1 for the address space
 * (ptah_session_space() has its name, as "cr3:1aa000").
 */
PTAH_API int32_t ptah_session_profile_pid(const struct ptah_session *session, size_t stream,
					  const struct ptah_profile *profile, unsigned space);

/*
 * The first stream whose code lay at the same places of the same files, and did not change while it
 * ran; the stream itself when there is none before it. What is counted by address may be added up
 * under that stream's space, so that a thousand runs of a program take the room of one.
 */
PTAH_API size_t ptah_session_stream_like(const struct ptah_session *session, size_t stream);

/*
 * Reads a stream: a flow (flow.h) whose image follows the recording. With jobs (NULL: none), threads
 * decode ahead in segments as above: the same items, in the same order. Streams whose code changed
 * while they ran, and those of a session with a window, are decoded by the caller's thread alone.
 * jobs->progress is not called.
 */
struct ptah_reader;

PTAH_API int ptah_reader_new(const struct ptah_session *session, size_t index,
			     const struct ptah_jobs *jobs, struct ptah_reader **reader);
PTAH_API void ptah_reader_free(struct ptah_reader *reader);

/* As ptah_flow_read(); 0 is the end of the stream. */
PTAH_API int ptah_reader_read(struct ptah_reader *reader, struct ptah_item *items, size_t capacity);

/*
 * As ptah_flow_read_blocks(): after 0, call ptah_reader_read(). It returns nothing but 0 where jobs
 * decode ahead.
 */
PTAH_API int ptah_reader_read_blocks(struct ptah_reader *reader, struct ptah_block *blocks,
				     size_t capacity);

/* As ptah_flow_insns(), for a block of the last read. */
PTAH_API int ptah_reader_insns(struct ptah_reader *reader, const struct ptah_item *block,
			       struct ptah_insn *insns, size_t capacity);

/*
 * The thread that ran what the last read returned. In a stream per thread it is
 * always the same. A stream per CPU is followed from thread to thread by the
 * context switches in the recording, and one read returns items of one thread
 * only. Where the exact branch of a switch cannot be found, the thread is not
 * known up to the next switch. If all threads are of one process, the trace is
 * decoded all the same. If several processes share the CPU, an error item with
 * PTAH_E_NO_THREAD is reported, and nothing is decoded up to the next switch.
 */
PTAH_API int ptah_reader_thread(const struct ptah_reader *reader, struct ptah_thread *thread);

/*
 * The number for ptah_session_find_map() of what ran in a block that the last read returned, by the
 * block's `space`; as ptah_session_profile_pid() does for counts.
 */
PTAH_API int32_t ptah_reader_space(const struct ptah_reader *reader, unsigned space);

/*
 * The version of the code at an address, as of the last read, as in counts (profile.h): of the
 * instructions that a block there has. They stay as they are as long as ptah_reader_generation()
 * returns the same number.
 */
PTAH_API uint64_t ptah_reader_version(const struct ptah_reader *reader, unsigned space, uint64_t ip,
				      unsigned mode);

/*
 * A number that changes when the code that ran does, or may have: as long as it is the same, a
 * block at an address of a space has the same instructions. The next reader of a stream with the
 * same memory (ptah_session_stream_like()) may begin with another number.
 */
PTAH_API uint64_t ptah_reader_generation(const struct ptah_reader *reader);

/* Trace bytes used so far (for progress). */
PTAH_API uint64_t ptah_reader_offset(const struct ptah_reader *reader);

struct ptah_verify {
	struct ptah_truth decoded;
	uint64_t errors;	/* error items */
	uint64_t overflows;	/* overflow items */
	struct ptah_item first; /* the first error, if errors > 0; code.space is always 0 */
	/*
	 * How often a silent loop was interrupted: one whose branches are all jumps and
	 * calls to fixed addresses, which have no packet. How often it ran is not in the
	 * trace. These are looked for when instructions are missing and the counts of
	 * branches agree; then they are the cause, or one of the causes.
	 */
	uint64_t silent_loops;
	struct ptah_item silent; /* the first such interruption, if silent_loops > 0 */
	/*
	 * With so many more passes there, the decode equals the truth. 0: that is not so, or
	 * there are too many to find out (more than a hundred million).
	 */
	uint64_t silent_passes;
	bool equal; /* no error and decoded equals the recorder's truth */
};

/*
 * Decodes a stream and compares it with the recorder's truth. PTAH_E_MISSING
 * when there is none. `jobs` as for a reader, or NULL. PTAH_E_INVAL for a session with a window.
 */
PTAH_API int ptah_session_verify(const struct ptah_session *session, size_t stream,
				 const struct ptah_jobs *jobs, struct ptah_verify *result);

/*
 * Windows: a part of a recording.
 *
 * A session with a window decodes only what is inside of it: the streams, readers and counts that
 * are opened afterwards return what they would return for that part of the whole recording.
 * Decoding begins at a PSB shortly before the window, which is found by bisection on the time
 * stamps that follow PSBs, so that a window of a second of a long recording takes the time of a
 * second. Memory and threads are as of then.
 *
 *	struct ptah_window w = {.size = sizeof(w), .until = UINT64_MAX, .last = UINT64_MAX};
 *
 *	w.since = ptah_session_tsc(session, 12500000000, true);
 *	w.until = ptah_session_tsc(session, 12600000000, false);
 *	ptah_session_set_window(session, &w);
 *
 * Not the same as in the whole are only the numbers of address spaces (those of ptah_reader_space()
 * are), and what the trace before the window would decide: which thread ran on a CPU if its switch
 * cannot be placed, and after damage, where decoding continued.
 */

struct ptah_window {
	size_t size; /* sizeof(struct ptah_window) */
	/*
	 * Items with times in [since, until], TSC values as those of items. What has no time is
	 * inside if it is between such items. 0 and UINT64_MAX: no limit.
	 */
	uint64_t since, until;
	/*
	 * Instructions from number `first` to number `last` of the stream, counted from 0. A block
	 * across the first or the last is cut: windows side by side have every instruction once.
	 * What is before the first has to be counted, which takes as long as a count of all that
	 * (ptah_session_count()). 0 and UINT64_MAX: no limit. Not for streams per CPU:
	 * PTAH_E_UNSUPPORTED when they are opened.
	 */
	uint64_t first, last;
	/*
	 * If not 0: of each stream only its end, from the PSB at or before this offset on; and from
	 * there on what is inside the other limits. Items before the first address are missing.
	 */
	uint64_t offset;
};

/* NULL: no window. Readers, streams and counts that exist already keep the one they have. */
PTAH_API int ptah_session_set_window(struct ptah_session *session,
				     const struct ptah_window *window);

/* The session's window. False: it has none, and *window has no limits. */
PTAH_API bool ptah_session_get_window(const struct ptah_session *session,
				      struct ptah_window *window);

/*
 * The packets of a stream for the times of the session's window: those from the last PSB before
 * `since`, with its time stamp, up to the first one after `until`, which is at *to (or *to is
 * UINT64_MAX). Without packets at that time, *to is *from. PTAH_E_UNSUPPORTED: the window counts
 * instructions.
 */
PTAH_API int ptah_session_window_packets(const struct ptah_session *session, size_t stream,
					 uint64_t *from, uint64_t *to);

/*
 * The first and the last time in the trace of a stream, as TSC values. PTAH_E_MISSING: it has no
 * time stamps.
 */
PTAH_API int ptah_session_stream_times(const struct ptah_session *session, size_t stream,
				       uint64_t *first, uint64_t *last);

/*
 * The TSC value of a time in nanoseconds of perf's clock: the first one whose ptah_session_time()
 * is not less if `up`, and otherwise the last one whose ptah_session_time() is not more. 0 when the
 * recording has no conversion, or the TSC was less than 0 then.
 */
PTAH_API uint64_t ptah_session_tsc(const struct ptah_session *session, uint64_t ns, bool up);

/*
 * Segments: a stream whose items are worked on by several threads, with results in order.
 *
 * ptah_reader_read() returns all items to one thread. Where more is to be done with an item than to
 * decode it, such as to print it, that thread is what everything waits for. Here the stream is cut
 * at PSBs, and each thread decodes a segment and does the work for it:
 *
 *	int run(void *context, struct ptah_segment *segment, struct ptah_reader *reader, bool ahead)
 *	{
 *		int n;
 *
 *		while ((n = ptah_reader_read(reader, items, 128)) > 0)
 *			if (ptah_segment_put(segment, make_text(items, n)) != 0)
 *				break;
 *		return n < 0 ? n : 0;
 *	}
 *
 * The results are passed to the caller's thread, in the order of the stream: those of all items,
 * each once, as if one thread had read them.
 */

struct ptah_segment;

struct ptah_segment_functions {
	size_t size; /* sizeof(struct ptah_segment_functions) */
	/*
	 * Works on the items of one segment, which `reader` reads: ptah_reader_insns() and the
	 * others work as for the items of the whole stream. Segment and reader live as long as
	 * run(), and belong to its thread. Runs in the threads of the jobs, several times at once,
	 * with `ahead`: then nothing is known of what was before the segment; or in the caller's
	 * thread. 0, or a negative status that ends everything.
	 */
	int (*run)(void *context, struct ptah_segment *segment, struct ptah_reader *reader,
		   bool ahead);
	/*
	 * Takes over the next result, in the caller's thread. `offset` says how far the stream has
	 * been read. A negative result ends everything. 1: the result is of no use, because the
	 * work depends on what was before the segment; the caller's thread then runs the rest of
	 * the segment, from the first item of this result on.
	 */
	int (*take)(void *context, void *result, uint64_t offset);
	/* Frees a result that is not taken. In any thread. */
	void (*drop)(void *context, void *result);
	/* So many results may wait for the caller's thread, for each job. 0: 1 */
	size_t results;
};

/*
 * Reads a stream. `jobs` as for a reader; jobs->progress is not called. Where nothing can be read
 * ahead (one job, a short stream, a window, a CPU's stream whose threads are followed), run() is
 * called once, in the caller's thread, and reads the stream from its beginning to its end.
 * Otherwise it is called for a segment in the caller's thread where the segment did not begin in
 * the state in which the one before it ended. Memory: as a reader, and the results that wait.
 * Returns 0, an error, or the negative result of a function.
 */
PTAH_API int ptah_session_read_segments(const struct ptah_session *session, size_t index,
					const struct ptah_jobs *jobs,
					const struct ptah_segment_functions *functions,
					void *context);

/*
 * Passes a result of the items that the reader has returned so far and that are in no result yet.
 * Waits while too many others wait. 0; 1: no more results are wanted, and run() should return; or
 * an error. The result is taken or dropped in any case.
 */
PTAH_API int ptah_segment_put(struct ptah_segment *segment, void *result);

/*
 * Samples: what a recording has of other events beside Intel PT.
 *
 * `perf record -e intel_pt//u -e sched:sched_switch -e page-faults` records samples of each event,
 * and recorders of Ptah write the system calls of a program as samples of raw_syscalls:sys_enter and
 * raw_syscalls:sys_exit. A session that was opened for them
 * (ptah_session_config.samples) knows them in the order of time:
 *
 *	for (i = 0; i < ptah_session_samples(session); i++) {
 *		ptah_session_sample(session, i, &sample);
 *		for (k = 0; ptah_sample_field(session, &sample, k, &field) >= 0; k++)
 *			use(field.name, field.number);
 *	}
 *
 * The fields of a tracepoint are those that the recording describes. Names and text come from the
 * recording, so that they may contain any character.
 *
 * The place of a sample in the path of its thread is known by its time: it lies before the first
 * item that is later. Where items have bounds in place of a time (ptah_session_time_bounds()), the
 * place has them, too. A system call ends where tracing begins again, with the same time.
 */

/* An event of a recording. */
struct ptah_sample_event {
	size_t size;	  /* sizeof(struct ptah_sample_event) */
	const char *name; /* "sched:sched_switch"; lives as long as the session */
	uint32_t type;	  /* as in struct perf_event_attr */
	uint64_t config;  /* the same */
	size_t fields;	  /* how many its samples have; 0: it is no tracepoint, or not described */
	uint64_t samples; /* how many there are */
	/* perf_event_attr.aux_action (Linux 6.13): 1: this event traces, and starts paused; 2: its
	 * samples pause the trace; 4: they resume it */
	uint32_t aux_action;
};

/*
 * Events of a recording, numbered from 0 on; that of Intel PT is one of them. PTAH_E_INVAL: there are
 * no more.
 */
PTAH_API int ptah_session_event(const struct ptah_session *session, size_t i,
				struct ptah_sample_event *event);

enum ptah_sample_kind {
	PTAH_SAMPLE_EVENT,
	/* Context switches of a thread: it runs from here on, or does not run any longer. */
	PTAH_SAMPLE_SWITCH_IN,
	PTAH_SAMPLE_SWITCH_OUT,	      /* it waits */
	PTAH_SAMPLE_SWITCH_PREEMPTED, /* it could run, but another thread does */
	PTAH_SAMPLE_KIND_MAX
};

struct ptah_sample {
	size_t size;		      /* sizeof(struct ptah_sample) */
	uint8_t kind;		      /* enum ptah_sample_kind */
	uint32_t event;		      /* its number; of context switches UINT32_MAX */
	uint64_t time;		      /* nanoseconds of perf's clock; 0: not known */
	uint64_t tsc;		      /* the same as items have it; 0: not known */
	int32_t pid, tid, cpu;	      /* where it was taken; -1: not known */
	uint64_t ip, address, period; /* 0 where the event does not record them */
	const uint8_t *raw; /* what a tracepoint has recorded, NULL: nothing. Lives as long as the
			       session */
	size_t raw_size;
};

/* How many samples and context switches of threads there are, and the i-th in the order of time. */
PTAH_API size_t ptah_session_samples(const struct ptah_session *session);
PTAH_API int ptah_session_sample(const struct ptah_session *session, size_t i,
				 struct ptah_sample *sample);

/*
 * The sample of a thread after its sample `i`, as a number for ptah_session_sample(); its first one
 * when `i` is SIZE_MAX. SIZE_MAX: there is none.
 */
PTAH_API size_t ptah_session_next_sample(const struct ptah_session *session, int32_t tid, size_t i);

enum ptah_field_kind {
	PTAH_FIELD_UNSIGNED,
	PTAH_FIELD_SIGNED,
	PTAH_FIELD_TEXT,  /* bytes, without a NUL */
	PTAH_FIELD_ARRAY, /* numbers of `element` bytes each */
	PTAH_FIELD_KIND_MAX
};

struct ptah_sample_field {
	size_t size; /* sizeof(struct ptah_sample_field) */
	const char *name;
	uint8_t kind;	      /* enum ptah_field_kind */
	uint64_t number;      /* of a number; one with a sign is extended to 64 bits */
	const uint8_t *bytes; /* of text and arrays; they live as long as the session */
	size_t count;	      /* of these bytes */
	size_t element;
};

/*
 * The i-th field of a sample, without those that all tracepoints have (common_type and so on).
 * PTAH_E_MISSING: there are no more.
 */
PTAH_API int ptah_sample_field(const struct ptah_session *session, const struct ptah_sample *sample,
			       size_t i, struct ptah_sample_field *field);

/*
 * Filters: parses perf's text of address filters.
 *
 * The text is what `perf record --filter` accepts, and what a recording stores:
 *
 *	ACTION START[/SIZE or /END] [@FILE]
 *
 * Several filters are separated by commas or blanks. ACTION is filter, stop or
 * tracestop. A place is a number (decimal, 0x or octal), the name of a function
 * ("main", "main#2" for the second of that name), or "*" for all of a file.
 *
 *	while (*at) {
 *		if (ptah_filter_parse(&at, &filter, &problem) < 0)
 *			die(problem, at);
 *		use(&filter);
 *		at += strspn(at, ", ");
 *	}
 *
 * Nothing is looked up: names and files are returned as they are in the text.
 */

#define PTAH_FILTER_NAME_MAX 1024 /* bytes, with the NUL */
#define PTAH_FILTER_FILE_MAX 4096

/* One end of a range: a number, or a function's name and its number among those of that name. */
struct ptah_filter_place {
	char name[PTAH_FILTER_NAME_MAX]; /* "": a number; "*": the whole file */
	uint64_t number; /* or, with a name, which function of that name, from 1; 0: the only one */
};

struct ptah_filter {
	uint8_t mode; /* PTAH_RANGE_FILTER or PTAH_RANGE_STOP */
	bool has_end;
	struct ptah_filter_place start;
	struct ptah_filter_place end;	 /* a size, or the name of the last function */
	char file[PTAH_FILTER_FILE_MAX]; /* "": none */
};

/*
 * Parses one filter at *at, which afterwards points at the text after it.
 * PTAH_E_INVAL: *at points at the mistake, and *problem (may be NULL) says what
 * it is.
 */
PTAH_API int ptah_filter_parse(const char **at, struct ptah_filter *filter, const char **problem);

PTAH_END_DECLS

#endif
