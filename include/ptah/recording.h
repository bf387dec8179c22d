/* SPDX-License-Identifier: MIT */
/*
 * Writes a recording: a perf.data file that perf and Ptah read, made of what a
 * capture engine, a hypervisor or a simulator has collected.
 *
 * A recording has streams of trace, and sideband that says what ran: processes,
 * mappings, context switches. It is written in one pass and with little memory,
 * by the program that drains the capture's buffers; or all at once.
 *
 *	struct ptah_recording_config config = {
 *		.size = sizeof(config), .path = "perf.data", .caps = &caps, .trace = &trace};
 *	struct ptah_recording_stream on_cpu = {.size = sizeof(on_cpu), .cpu = 2};
 *
 *	ptah_recording_new(&config, &r, &why);
 *	ptah_recording_add_stream(r, &on_cpu, &stream);
 *	ptah_recording_add_switch(r, 2, 0, pid, tid);   (who ran there first)
 *	ptah_recording_add_map(r, &map);
 *	while (draining) {
 *		ptah_recording_add_records(r, stream, records, k);
 *		ptah_recording_add_trace(r, stream, position, bytes, n);
 *		ptah_recording_flush(r);
 *	}
 *	ptah_recording_finish(r);   (the file is complete)
 *	ptah_recording_free(r);     (without finish: nothing is left of it)
 *
 * Times are values of the processor's time stamp counter; 0 means from the
 * beginning. Calls need not be in the order of time, but what is added for the same
 * time takes effect in the order of the calls. TSC packets lack the highest byte of
 * the time: perf takes it from the latest time that was given before the trace, so add
 * records first.
 *
 * A call that cannot be carried out changes nothing in the recording, which can be
 * continued: PTAH_E_INVAL for wrong arguments, with a sentence from
 * ptah_recording_why(). When memory or the output fails, that is the end: all
 * further calls return the same error, and ptah_recording_finish() keeps what was
 * written before.
 *
 * Everything is copied. One thread at a time may use a recording.
 */
#ifndef PTAH_RECORDING_H
#define PTAH_RECORDING_H

#include <ptah/engine/engine.h>
#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_recording;

/* What the streams are of: all streams of a recording are of one kind. */
enum ptah_recording_kind {
	PTAH_RECORDING_CPUS = 0, /* processors, whatever ran there */
	PTAH_RECORDING_THREADS,	 /* threads, or virtual processors, wherever they ran */
	PTAH_RECORDING_KIND_MAX
};

struct ptah_recording_config {
	size_t size; /* sizeof(struct ptah_recording_config) */

	/*
	 * The output. An existing file is renamed to PATH.old. NULL: the descriptor `fd`, which
	 * stays the caller's: an empty file, or a pipe. A pipe, a device and a file that was opened
	 * to append get the layout that perf writes through a pipe, in which nothing is changed
	 * later. The library does not touch SIGPIPE.
	 */
	const char *path;
	int fd;

	uint8_t kind; /* enum ptah_recording_kind */
	/*
	 * The streams are snapshots of buffers that wrap: each ptah_recording_add_trace() is one,
	 * it may overlap with the one before, and what is missing between them is no loss. For
	 * several snapshots of one buffer; what one buffer holds at the end needs no `snapshot`.
	 */
	bool snapshot;

	/*
	 * The processor, as ptah_caps_discover() reports it: its model, for errata, and its
	 * clocks. NULL: not known; then MTC and CYC packets give no times.
	 */
	const struct ptah_caps *caps;
	/*
	 * What was traced. NULL: `rtit_ctl` says it, the value of IA32_RTIT_CTL while it was
	 * traced; the ranges and the CR3 are in other registers, and so are not known.
	 */
	const struct ptah_trace_config *trace;
	uint64_t rtit_ctl;

	/*
	 * Nanoseconds = zero + (TSC * mult >> shift), as in Linux' perf_event_mmap_page. mult 0: by
	 * the frequency that `caps` gives, from 0 on; where it gives none, a TSC tick counts as a
	 * nanosecond.
	 */
	struct {
		uint16_t shift;
		uint32_t mult;
		uint64_t zero;
	} clock;

	char *const *command;  /* argv of what was traced, NULL-terminated; NULL: none */
	const char *osrelease; /* of the traced kernel ("6.1.0-32-amd64"); NULL: not known */
};

/*
 * Opens the output and writes what precedes the trace. PTAH_E_INVAL for a
 * configuration that makes no sense; *why (may be NULL) has the reason.
 */
PTAH_API int ptah_recording_new(const struct ptah_recording_config *config,
				struct ptah_recording **r, struct ptah_message *why);

/*
 * Makes what was added so far part of the file: it can be read even if the writer
 * is killed afterwards. Call it once for each round of draining.
 */
PTAH_API int ptah_recording_flush(struct ptah_recording *r);

/*
 * Completes the file; afterwards only why, bytes and free may be called. If the
 * recording has failed, or the file cannot be completed (the disk is full), this
 * returns the first failure, and the file has what could be written before, with a
 * note that says so. Without any trace no file is left: PTAH_E_EMPTY.
 */
PTAH_API int ptah_recording_finish(struct ptah_recording *r);

/*
 * NULL does nothing. A file that was not finished is removed, and PATH.old put back; a
 * descriptor's file becomes empty again.
 */
PTAH_API void ptah_recording_free(struct ptah_recording *r);

/* Why the last call that failed did, "" if none has. Valid until the next call. */
PTAH_API const char *ptah_recording_why(const struct ptah_recording *r);

/* Bytes of trace that were added. */
PTAH_API uint64_t ptah_recording_bytes(const struct ptah_recording *r);

/*
 * Trace
 */

/*
 * A stream: what one capture has written. Several captures of one processor or thread are several
 * streams.
 */
struct ptah_recording_stream {
	size_t size;	  /* sizeof(struct ptah_recording_stream) */
	int32_t cpu;	  /* CPUS: the processor, from 0 on, at most 65535 */
	int32_t pid, tid; /* THREADS: the process and the thread, from 1 on */
	/*
	 * THREADS: when it begins. It continues when the thread executes another program. The
	 * streams of a thread that has several are added in the order of time.
	 */
	uint64_t tsc;
};

/* *stream: its number, for the calls below. */
PTAH_API int ptah_recording_add_stream(struct ptah_recording *r,
				       const struct ptah_recording_stream *config,
				       uint32_t *stream);

/*
 * The bytes of a stream from `position` on, which are in several places, as ptah_capture_pieces()
 * returns them; of a piece, `address` and `size` are used. Positions are those of the capture: they
 * never go back, and a jump means that the bytes in between were lost. The first position of a stream
 * may be any, and its first bytes any part of a packet, as in a buffer that has wrapped. Bytes may be
 * cut anywhere into calls.
 */
PTAH_API int ptah_recording_add_pieces(struct ptah_recording *r, uint32_t stream, uint64_t position,
				       const struct ptah_piece *pieces, size_t n);

/* The same for bytes that are in one place. */
static inline int ptah_recording_add_trace(struct ptah_recording *r, uint32_t stream,
					   uint64_t position, const void *bytes, size_t size)
{
	const struct ptah_piece piece = {bytes, 0, size};

	return ptah_recording_add_pieces(r, stream, position, &piece, 1);
}

/*
 * The engine's records of the stream's capture (ptah_capture_records()), in order:
 * where trace is missing and why becomes part of the recording. Records and the
 * trace that they are about may be added in any order.
 */
PTAH_API int ptah_recording_add_records(struct ptah_recording *r, uint32_t stream,
					const struct ptah_capture_record *records, size_t n);

/*
 * What ran
 *
 * Numbers of processes and threads are the traced system's, from 1 on. Code that no
 * system separates into processes (firmware, a hypervisor, bare metal) is one
 * process, whose number the caller chooses.
 */

/* What happens to a thread. */
enum ptah_recording_change {
	PTAH_RECORDING_NAME, /* it has another name, which is cut after 15 bytes */
	/*
	 * It begins: as another thread of its process (pid is parent_pid), or as a new process, which
	 * begins with its parent's memory and name. It cannot be its own parent.
	 */
	PTAH_RECORDING_FORK,
	PTAH_RECORDING_EXEC, /* its process executes a program: earlier mappings and code are gone */
	PTAH_RECORDING_EXIT,
	PTAH_RECORDING_TASK_MAX
};

struct ptah_recording_task {
	size_t size;  /* sizeof(struct ptah_recording_task) */
	uint8_t kind; /* enum ptah_recording_change */
	int32_t pid, tid;
	uint64_t tsc;
	int32_t parent_pid, parent_tid; /* FORK */
	const char *name;		/* NAME, EXEC */
};

PTAH_API int ptah_recording_add_task(struct ptah_recording *r,
				     const struct ptah_recording_task *task);

/*
 * CPUS: from this time on the thread runs on the processor; 0 and 0: nothing does, it is idle. The
 * switches of a processor are added in the order of time, and the first one says who ran when its
 * trace began.
 */
PTAH_API int ptah_recording_add_switch(struct ptah_recording *r, int32_t cpu, uint64_t tsc,
				       int32_t pid, int32_t tid);

/* As a pid: the kernel, whose code is the same for all processes. */
#define PTAH_RECORDING_KERNEL (-1)

/* A file, or a part of one, is mapped with its code. */
struct ptah_recording_map {
	size_t size; /* sizeof(struct ptah_recording_map) */
	int32_t pid; /* or PTAH_RECORDING_KERNEL: the kernel itself, or one of its modules */
	uint64_t tsc;
	uint64_t address, bytes;
	/* Of the kernel itself, whose path is "[kernel.kallsyms]_text": the address of _text. */
	uint64_t file_offset;
	const char *path;
	/*
	 * The file's build id; build_id_size 0: not known. With `read_build_id` it is read from the
	 * file at `path`, which then has to be on this machine; what has none has none.
	 */
	uint8_t build_id[PTAH_BUILD_ID_MAX];
	uint8_t build_id_size;
	bool read_build_id;
};

PTAH_API int ptah_recording_add_map(struct ptah_recording *r, const struct ptah_recording_map *map);

/*
 * Bytes that were executed and are in no file, or no longer as they are there. They
 * replace what was known of these addresses from this time on; with 0 they are there
 * from the beginning, where nothing else is known. perf decodes code of processes from
 * files alone, and of the kernel also what has a `name`, which is given when the code
 * appears and NULL when it changes. Addresses of the kernel are in the upper half.
 */
PTAH_API int ptah_recording_add_code(struct ptah_recording *r, int32_t pid, uint64_t tsc,
				     uint64_t address, const void *bytes, size_t size,
				     const char *name);

/* A remark for people, in UTF-8: at most 4096 bytes are kept. */
PTAH_API int ptah_recording_add_note(struct ptah_recording *r, const char *text);

PTAH_END_DECLS

#endif
