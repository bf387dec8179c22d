/* SPDX-License-Identifier: MIT */
/*
 * What the tracer's files share, and the messages between the tracer and the recorder.
 *
 * The tracer is a process of its own. Each single step ends with a SIGTRAP, which kills the program
 * if no tracer handles it; so the tracer must not be killed together with the recorder. A socket is
 * its only connection to the recorder; when that closes, the tracer detaches from the programs and
 * ends. It steps one instruction of one thread at a time, so that its clock orders everything.
 */
#ifndef PTAH_RECORD_PTRACE_TRACER_H
#define PTAH_RECORD_PTRACE_TRACER_H

#include "base/path_hash.h"
#include "record/simulated/code_shadow.h"
#include "record/simulated/insn.h"
#include "record/simulated/trace_output.h"
#include "record/recorder.h"

/* Messages to the recorder, each followed by `size` bytes. */
enum tracer_message_type {
	TRACER_COMM = 1, /* text: the name; value: 1 if by execve */
	TRACER_FORK,	 /* value: the parent's pid; address: its tid */
	TRACER_EXIT,
	TRACER_THREAD, /* a thread's stream begins */
	TRACER_MAP,    /* struct perfdata_mapping; text: path */
	TRACER_CODE,   /* address; bytes */
	TRACER_TRACE,  /* packets */
	TRACER_TRUTH,  /* struct ptah_truth; value: overflows */
	TRACER_NOTE,   /* text */
	/* A signal ended the process. value: it; tid: the thread that it came to; address: where */
	TRACER_FATAL,
	TRACER_ENDED, /* the process has exited. value: its status, as of waitpid() */
	/* value: bytes of lost trace; address: number of times that a buffer was full. */
	TRACER_LOST,
	TRACER_CALL,	 /* a system call begins or ends: an entry (call_entry.h) */
	TRACER_PROGRESS, /* value: instructions of all threads so far */
	TRACER_DONE,	 /* an order was carried out */
	TRACER_FAILED,	 /* value: enum ptah_record_problem; text */
	TRACER_END,	 /* nothing is traced any more, and the tracer ends */
};

struct tracer_message {
	uint32_t type, size, stream;
	int32_t pid, tid;
	uint64_t tsc, address, value;
};

/* Orders to the tracer. Each is answered by TRACER_DONE or TRACER_FAILED. */
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
	bool live; /* somebody decodes the recording while it is being made */
};

/* Runs the tracer. Called in its process. */
_Noreturn void tracer_run(const struct tracer_setup *setup);

/* The tracer's own structures */

struct insn {
	uint64_t ip, end, target;
	uint8_t size, kind;
	bool syscall;	/* SYSCALL, SYSENTER, INT 80h */
	bool interrupt; /* INT n, INT3, INT1 */
	bool pushf, icebp;
	bool sets_flags; /* POPF, IRET */
	bool covers;	 /* MOV SS: no trap is delivered before the next instruction has run too */
	uint8_t bytes[X86_MAX_SIZE];
};

struct cached;

/* An address space with its threads. */
struct process {
	struct tracer *r;
	struct process *next;
	int32_t pid;
	unsigned threads;
	int memory;	    /* /proc/PID/mem; -1: not open */
	bool stale;	    /* its mappings may have changed: read them again */
	bool named_unknown; /* stops.c: an instruction, in a note */
	uint64_t born;	    /* time at which this program began */
	/*
	 * Time of the last change of code. A thread that runs code later emits a PSB+ with a later
	 * time first.
	 */
	uint64_t changed;
	struct code_map *maps, *told;
	struct code_map nowhere; /* for addresses in no mapping */
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
	struct insn insn; /* the instruction at ip, if `known` */
	bool known;
	bool follows; /* the instruction before it was no branch */
	bool running; /* no stop has been reported since it was resumed */
	bool fresh;   /* has not stopped yet since it began */
	bool waits;   /* the command, before its execve */
	bool blind;   /* runs untraced from now on */
	bool gone;
	bool in_syscall; /* in a system call, between its entry and exit stops */
	bool restart;	 /* the kernel will restart the system call unless a handler runs */
	bool listening;	 /* stopped by job control */
	bool forgets;	 /* see forget_step() */
	bool trap_flag;	 /* the program has set TF itself */
	bool unblocked;	 /* the tracer has unblocked SIGTRAP, which the program blocks */
	bool held;	 /* a SIGTRAP was sent to it while `unblocked` */
	int signal;	 /* signal to deliver when it is resumed */
	int delivered;	 /* signal with which it was resumed last */
	uint64_t call;	 /* number of the system call */
	bool logged;	 /* the recording has its beginning */

	/* Its trace */
	bool begun;
	bool kernel; /* in the kernel, according to its trace */
	struct ptah_model m;
	struct trace_output output;
	unsigned ranges_seen;
	uint8_t *memory; /* staging area and trace buffer */
	uint64_t sent;	 /* bytes of trace that were sent; of a live recording also of those in
			    the staging area */
	/* Time of the last change, of code or of the thread's name, that a PSB+ has covered. */
	uint64_t psb_time;
	uint64_t named; /* time at which the thread last changed its name */
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
	uint64_t clock;	       /* instructions so far, plus 1 for each change of code */
	uint64_t instructions; /* those that are traced */
	bool paused, leaving;
	bool hung_up; /* the recorder has ended */
	int64_t sent; /* nanoseconds: when trace was sent early */
};

/* tracer.c */
void tracer_send(struct tracer *r, const struct tracer_message *message, const void *payload);
/* Sends further bytes of a message whose head was sent without them. */
void tracer_send_part(struct tracer *r, const void *bytes, size_t n);
void tracer_note(struct tracer *r, const char *format, ...) PRINTF_LIKE(2, 3);
uint64_t tracer_time(const struct tracer *r);
/* A new time, later than all before. */
uint64_t tracer_change_time(struct tracer *r);
struct thread *tracer_find(const struct tracer *r, int32_t tid);
struct thread *tracer_add_thread(struct tracer *r, struct process *process, int32_t tid);
/* like: the process whose memory it begins with; may be NULL. */
struct process *tracer_add_process(struct tracer *r, int32_t pid, const struct process *like);

/* fetch.c: instructions */
/*
 * Reads the instruction at ip. begins: a branch or the kernel led there, so that a run begins.
 * False: it cannot be read or decoded.
 */
bool fetch_insn(struct process *p, uint64_t ip, bool begins, struct insn *insn);
bool fetch_bytes(struct process *p, uint64_t address, void *bytes, size_t n);
/* The process has called execve, or ended. */
void fetch_forget(struct process *p);

/* process_maps.c: what is mapped, and which part of it the recording has */
/* Reads the mappings again. True: there are new ones. */
bool maps_refresh(struct process *p);
/* The mapping that contains the address; p->nowhere if none does. */
struct code_map *maps_find(struct process *p, uint64_t address);
/* Makes sure that a decoder will know these bytes, which are about to run. */
void maps_account_for(struct process *p, uint64_t ip, const uint8_t *bytes, size_t n);
/* The process has called execve, or ended. */
void maps_forget(struct process *p);
/* fork: copies what is known of `from` to the new process `to`. */
void maps_copy(struct process *to, const struct process *from);
/* Sets the address filters up, before any mapping is known. */
void maps_init_ranges(struct process *p);

/* thread_trace.c: turns what a thread does into its trace */
bool trace_begin(struct thread *t);
/* The instruction was executed, and `next` is the address after it. */
void trace_pass(struct thread *t, const struct insn *insn, uint64_t next);
/* The instruction, a system call, enters the kernel. */
void trace_call(struct thread *t, const struct insn *insn);
/* The thread enters the kernel, before the instruction at ip or, if `kind` is INT, by it. */
void trace_leave(struct thread *t, unsigned kind, uint64_t ip);
/* It is unknown how the thread got from ip to where it is: reports lost trace. */
void trace_lose(struct thread *t);
void trace_pause(struct thread *t, bool on);
void trace_snapshot(struct thread *t);
/* Ends the trace: sends the rest of it, and the truth. */
/* Sends what there is, also what fills no region of the buffer yet. */
void trace_send_early(struct thread *t);
void trace_end(struct thread *t);
void trace_free(struct thread *t);

/* log_calls.c: sends system calls, unless they are not recorded */
struct user_regs_struct;
/* The instruction t->insn has made the call t->call. */
void syscall_enter(struct thread *t, const struct user_regs_struct *regs);
void syscall_leave(struct thread *t, const struct user_regs_struct *regs);
/* A new thread or process returns from the call that has made it. */
void syscall_begin(struct thread *t, const struct user_regs_struct *regs);

/* stops.c: resumes one thread, and handles its stops */
void stops_resume(struct thread *t);
void stops_handle(struct thread *t, int status);
/* Detaches from a stopped thread, which runs on as it was. */
void stops_detach(struct thread *t);
void stops_report_name(struct thread *t, bool exec);

#endif
