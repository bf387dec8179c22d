/* SPDX-License-Identifier: MIT */
/*
 * What the tracer's files share with each other and with the recorder.
 *
 * The tracer is a process of its own. A single step ends with a SIGTRAP, and
 * one that nobody waits for kills the program: who traces must not be killed
 * with the recorder. It has no other connection to the recorder than a socket;
 * when that closes it lets the programs go and ends. It steps one instruction
 * at a time, of one thread after the other, so that its clock gives everything
 * an order.
 */
#ifndef PTAH_RECORD_PTRACE_TRACER_H
#define PTAH_RECORD_PTRACE_TRACER_H

#include "base/path_hash.h"
#include "record/simulated/code_shadow.h"
#include "record/simulated/insn.h"
#include "record/simulated/trace_output.h"
#include "record/recorder.h"

/* To the recorder. Followed by `size` bytes. */
enum tracer_message_type {
	TRACER_COMM = 1, /* text; value: by execve */
	TRACER_FORK,	 /* value: the parent's pid; address: its tid */
	TRACER_EXIT,
	TRACER_THREAD, /* a stream begins */
	TRACER_MAP,    /* address, length, value: file offset; text: path */
	TRACER_CODE,   /* address; bytes */
	TRACER_TRACE,  /* packets */
	TRACER_TRUTH,  /* struct ptah_truth; value: overflows */
	TRACER_NOTE,   /* text */
	TRACER_LOST,   /* value: bytes of trace that are gone; address: times a buffer was full */
	TRACER_DONE,   /* an order was carried out */
	TRACER_FAILED, /* value: enum ptah_record_problem; text */
	TRACER_END,    /* nothing is traced any more */
};

struct tracer_message {
	uint32_t type, size, stream;
	int32_t pid, tid;
	uint64_t tsc, address, length, value;
};

/* To the tracer; each is answered by TRACER_DONE or TRACER_FAILED. */
enum tracer_order_type {
	TRACER_GO = 1, /* value: the command's pid, which waits to call execve; 0: none */
	TRACER_PAUSE,
	TRACER_RESUME,
	TRACER_SNAPSHOT,
	TRACER_STOP,
};

struct tracer_order {
	uint32_t type;
	int32_t value;
};

struct tracer_setup {
	int socket;
	const struct ptah_record_config *config;
	struct ptah_trace_config trace;
	uint64_t buffer;
};

/* The tracer's whole life. */
_Noreturn void tracer_run(const struct tracer_setup *setup);

/* Inside */

struct insn {
	uint64_t ip, end, target;
	uint8_t size, kind;
	bool syscall;	/* SYSCALL, SYSENTER, INT 80h */
	bool interrupt; /* INT n, INT3, INT1 */
	bool pushf, icebp;
	bool sets_flags; /* POPF, IRET */
	bool covers;	 /* MOV SS: no trap is delivered between it and the next one */
	uint8_t bytes[X86_MAX_SIZE];
};

struct cached;

/* An address space with its threads. */
struct process {
	struct tracer *r;
	struct process *next;
	int32_t pid;
	unsigned threads;
	int memory;    /* /proc/PID/mem; -1: not open */
	bool stale;    /* its maps are to be read again */
	uint64_t born; /* of this image: nothing of it is older */
	uint64_t
	    changed; /* the last change of code; whoever runs code later has a PSB+ behind it */
	struct code_map *maps, *told;
	struct code_map nowhere; /* for what is in no map */
	size_t map_count, told_count, told_capacity;
	struct code_shadow shadow;
	struct cached *cache;
	struct ptah_range ranges[PTAH_RANGES];
	unsigned ranges_known;
};

struct thread {
	struct thread *next;
	struct process *process;
	struct tracer *r;
	int32_t tid;
	uint32_t stream;

	/* Where it is */
	uint64_t ip;
	struct insn insn; /* at ip, if `known` */
	bool known;
	bool follows; /* the one before it was no branch */
	bool running; /* no stop has been reported since it was resumed */
	bool fresh;   /* has not been seen yet */
	bool waits;   /* our command before its execve */
	bool blind;   /* runs untraced from now on */
	bool gone;
	bool in_syscall; /* between its entry and its exit */
	bool restart;	 /* the kernel will call it again unless a handler runs */
	bool listening;	 /* stopped by job control */
	bool forgets;	 /* the kernel has to forget that it steps */
	bool trap_flag;	 /* the program has set TF itself */
	bool unblocked;	 /* SIGTRAP, which the program has blocked */
	bool held;	 /* and which somebody has sent it */
	int signal;	 /* to be delivered */
	uint64_t call;	 /* number of the system call */

	/* Its trace */
	bool begun;
	bool kernel; /* not in user code, as far as the trace tells */
	struct ptah_model m;
	struct trace_output output;
	unsigned ranges_seen;
	uint8_t *memory;   /* staging and buffer */
	uint64_t sent;	   /* bytes of the trace that were sent */
	uint64_t psb_time; /* of the last change of code that a PSB+ has told */
	uint64_t instructions, lost;
	uint64_t counts[KIND_MAX];
	struct path_hash path;
};

struct tracer {
	const struct tracer_setup *setup;
	const struct ptah_record_config *config;
	int socket;
	int32_t parent;
	struct process *processes;
	struct thread *threads;
	uint32_t streams;
	uint64_t clock; /* instructions so far, and 1 for each change of code */
	bool paused, leaving;
	bool hung_up; /* the recorder is gone */
};

/* tracer.c */
void tracer_send(struct tracer *r, const struct tracer_message *message, const void *payload);
/* A message in parts: head first, then so many bytes in all. */
void tracer_send_part(struct tracer *r, const void *bytes, size_t n);
void tracer_note(struct tracer *r, const char *format, ...) PRINTF_LIKE(2, 3);
uint64_t tracer_time(const struct tracer *r);
/* A time later than all that was. */
uint64_t tracer_change_time(struct tracer *r);
struct thread *tracer_find(const struct tracer *r, int32_t tid);
struct thread *tracer_add_thread(struct tracer *r, struct process *process, int32_t tid);
/* `like`: whose memory it begins with; may be NULL. */
struct process *tracer_add_process(struct tracer *r, int32_t pid, const struct process *like);
/* The number behind a line's name in /proc/TID/status; UINT64_MAX: there is none. */
uint64_t tracer_status(int32_t tid, const char *name, int base);

/* fetch.c: instructions */
/*
 * The instruction at ip; `begins`: a branch or the kernel led there. False when
 * there is none that can be read and decoded.
 */
bool fetch_insn(struct process *p, uint64_t ip, bool begins, struct insn *insn);
bool fetch_bytes(struct process *p, uint64_t address, void *bytes, size_t n);
/* The process has called execve, or ended. */
void fetch_forget(struct process *p);

/* process_maps.c: what is mapped, and what of it the recording has */
/* Reads the mappings again. True: some are new. */
bool maps_refresh(struct process *p);
/* The mapping around an address, or p->nowhere. */
struct code_map *maps_find(struct process *p, uint64_t address);
/* Makes sure that a decoder will know these bytes, which are about to run. */
void maps_account_for(struct process *p, uint64_t ip, const uint8_t *bytes, size_t n);
/* The process has called execve, or ended. */
void maps_forget(struct process *p);
/* fork: the new process `to` has what `from` has. */
void maps_copy(struct process *to, const struct process *from);
/* The address filters, before any mapping is known. */
void maps_init_ranges(struct process *p);

/* thread_trace.c: what a thread does becomes its trace */
bool trace_begin(struct thread *t);
/* The instruction has run, and `next` will. */
void trace_pass(struct thread *t, const struct insn *insn, uint64_t next);
/* The instruction, a system call, leads to the kernel. */
void trace_call(struct thread *t, const struct insn *insn);
/* What the thread does leads to the kernel, before (or, `kind` INT, by) the instruction at ip. */
void trace_leave(struct thread *t, unsigned kind, uint64_t ip);
/* Nobody knows how it got from ip to where it is. */
void trace_lose(struct thread *t);
void trace_pause(struct thread *t, bool on);
void trace_snapshot(struct thread *t);
/* Sends the rest, and what was counted. */
void trace_end(struct thread *t);
void trace_free(struct thread *t);

/* stops.c: one thread goes on, and comes back */
void stops_resume(struct thread *t);
void stops_handle(struct thread *t, int status);
/* Leaves it running by itself, as it was. It stands. */
void stops_detach(struct thread *t);
void stops_report_name(struct thread *t, bool exec);

#endif
