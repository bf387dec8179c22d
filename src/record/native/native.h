/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder native share: native.c starts and steers the command, setup.c
 * prepares what it needs, targets.c attaches to processes that run already, rounds.c takes what
 * programs have done since it was called last, reports.c their messages and thread_traces.c their
 * traces; maps.c writes their code, family.c knows the processes, and exec.c follows them into
 * other programs.
 */
#ifndef PTAH_RECORD_NATIVE_NATIVE_H
#define PTAH_RECORD_NATIVE_NATIVE_H

#include "record/call_samples.h"
#include "record/native/call_log.h"
#include "record/native/inject.h"
#include "record/native/keep.h"
#include "record/native/messages_in.h"
#include "record/native/pauses.h"
#include "record/native/streams.h"
#include "record/native/switches.h"
#include "record/native/tracer.h"
#include "record/native/truth.h"
#include "record/native/users.h"
#include "record/qemu/processes.h"
#include "record/recorder.h"

#include <sys/types.h>
#include <time.h>

#define NATIVE_POLL_MS	      2	 /* a round waits so long for programs */
#define NATIVE_ENDED_PROGRAMS 64 /* what they ran is forgotten in the next round */
#define NATIVE_SILENT	      64 /* processes that ended without a word, and are remembered */

struct seized;

/* What the recorder shares with the processes of one user. */
struct native_memory {
	struct recording *r;
	int fd;
	struct native_header *shared;
	struct lifeline *lifeline;
	struct native_messages *messages;
	struct native_user user;
	bool taken; /* `user` says whose it is */
};

struct recording {
	struct ptah_recorder *r;
	uint64_t bytes; /* of a memory */
	uint32_t flags;
	struct native_header constants; /* what is constant in it */
	struct native_memory memories[NATIVE_MEMORIES];
	unsigned memory_count;
	struct native_streams *streams;
	bool live;		  /* somebody takes the recording while it is being made */
	bool more;		  /* chunks are left that the last round has not taken */
	unsigned first;		  /* slot whose chunks the next round takes first */
	bool ended[NATIVE_SLOTS]; /* by slot: when the round began, its thread had */
	int64_t looked;		  /* nanoseconds: when chunks that are not FULL were looked at */
	struct call_samples calls;
	struct native_truth truth;
	struct native_truth_thread truths[NATIVE_SLOTS]; /* by slot */
	/* Programs that have ended, and have perhaps a child that nobody knows of yet. */
	struct ended_program {
		int32_t pid;
		unsigned program;
	} ended_programs[NATIVE_ENDED_PROGRAMS];
	size_t ended_program_count;
	/* Of the trace in a slot, where not all of it is kept. */
	struct kept {
		struct native_end end;
		uint64_t written;
		bool snapped; /* a snapshot has had a part of it */
		bool full;
	} kept[NATIVE_SLOTS];
	uint64_t buffer; /* bytes that are kept of each thread, where not all are */
	uint8_t *joined; /* room for them, and for a chunk */
	struct processes processes;
	/* The last ones that ended without a word: who waits for them may say why. */
	struct silent {
		int32_t pid;
		char name[16];
	} silent[NATIVE_SILENT];
	unsigned silent_count;
	struct seized *seized; /* exec.c */
	unsigned seized_waits; /* since the last one was seized */
	struct tracer tracer;
	struct native_pauses pauses;
	struct switches *switches; /* NULL: the kernel does not say them, or nobody asks */
	pid_t pid;		   /* of the command; 0: it has ended */
	const char *name;
	char own_name[16];
	uint64_t controls[NATIVE_SLOTS]; /* by slot: struct native_control of its process */
	size_t attached;		 /* of the targets: to so many processes */
	int32_t detaching;		 /* a process; 0: none */
	/* Of the targets: where its struct native_control is; it has ended, or runs on untraced. */
	struct {
		uint64_t control;
		bool over;
	} * targets;
	bool rest_taken;
	uint32_t stream_count;
	uint64_t last_tsc;
	uint32_t event; /* native_header.message_event, before what was taken last */
	bool refused;	/* r->refusal says why */
	bool committed; /* too late to be refused */
	bool has_vdso;	/* the recording has its code */
	struct timespec began;
	uint64_t new_code;   /* bytes of code of files that are newer, which the recording has */
	uint64_t bare_code;  /* bytes that were read of memory that has no file */
	bool bare_noted;     /* a note says that some were not */
	bool holds_switches; /* recording pauses */
	bool switches_lost;  /* a note says that some are missing */
	bool damage_noted;   /* a note says that the shared memory was damaged */
};

static inline struct perfdata_writer *native_writer(const struct recording *r)
{
	return r->r->writer;
}

static inline void native_wrote(struct recording *r, int status)
{
	recorder_wrote(r->r, status);
}

/* Something was written to a memory that no runtime writes. */
static inline bool native_is_damaged(const struct recording *r)
{
	bool damaged = r->streams->damaged;

	for (unsigned i = 0; i < r->memory_count; i++)
		damaged |= r->memories[i].messages->damaged;
	return damaged;
}

static inline bool native_is_attached(const struct recording *r)
{
	return r->r->config.target.kind == PTAH_RECORD_PROCESSES;
}

/* native.c: nobody waits for the recorder any more. */
void native_leave(struct recording *r);

/* setup.c: two functions of the recorder's interface. */
int native_open(struct ptah_recorder *recorder);
void native_close(struct ptah_recorder *recorder);

/* Whether context switches are recorded: when threads ran is known then. */
void native_follow_switches(struct recording *r, int32_t pid);
/* A pause has begun, or ends: switches in it are not recorded. */
void native_hold_switches(struct recording *r, bool on);

/*
 * thread_traces.c, of --truth: the process ends, or becomes another program, which describes exits
 * of its own; `parent` has forked; programs whose exits nobody can log any more are forgotten.
 */
void native_end_program(struct recording *r, struct process *process);
void native_note_parent(struct recording *r, int32_t parent);
void native_forget_programs(struct recording *r);

/* targets.c */
/* Attaches to the processes of the configuration. */
int native_start_attached(struct ptah_recorder *recorder);
bool native_is_target(const struct recording *r, int32_t pid);
/* The process, if it is a target, has ended or runs on untraced. */
void native_set_over(struct recording *r, int32_t pid);
bool native_all_over(const struct recording *r);
/* 0: it is about to be another program, whose threads have not said anything yet. */
void native_set_control(struct recording *r, int32_t pid, uint64_t control);
/* What was there before the recording is there after it: it runs on natively. */
void native_let_all_go(struct recording *r);

/* rounds.c */
/* Waits up to timeout_ms for a process to end, and takes all messages and all published trace. */
void native_drain(struct recording *r, int timeout_ms);

/* reports.c: native_messages.take */
void native_take_message(void *context, const struct native_message *m, const char *payload);

/* memories.c */
/* Makes one more. */
int native_memory_add(struct recording *r);
/* That of the user whose thread it is. NULL: there are too many users, or the thread is gone. */
struct native_memory *native_memory_of(struct recording *r, int32_t tid);
#define NATIVE_MANY_USERS "processes of too many users are recorded at the same time"
/* What a process of this memory gets. */
struct inject_memory native_memory_for(const struct native_memory *memory, unsigned slot);
/* Looks whether what nobody else than the recorder writes is still what it has written. */
void native_memory_look(struct native_memory *memory);
/* Where the process has it mapped. 0: it has not. */
uint64_t native_memory_at(const struct native_memory *memory, int32_t pid);
void native_memories_free(struct recording *r);

static inline unsigned native_memory_number(const struct native_memory *memory)
{
	return (unsigned)(memory - memory->r->memories);
}

/* thread_traces.c */
/* A slot of the memory for the first thread of a process. NATIVE_SLOTS: none is free. */
unsigned native_claim_slot(const struct native_memory *memory);
/* No thread has begun in the slot. */
void native_give_slot_back(const struct recording *r, unsigned slot);
/* native_streams.take */
void native_take_bytes(void *context, const struct native_stream *s, unsigned log,
		       const uint8_t *bytes, size_t n);
/*
 * Takes the rest of a thread, whose system calls have been taken. exec: see
 * native_finish_process().
 */
void native_finish_thread(struct recording *r, unsigned slot, int32_t exec);
/* exec: the thread that made the process continue with another program; 0: it does not. */
void native_finish_process(struct recording *r, int32_t pid, int32_t exec);
/* Whether a round has left chunks of the process. */
bool native_has_more(const struct recording *r, int32_t pid);
/* Of each thread that has not ended: what is kept, and what has not arrived yet. */
void native_write_ends(struct recording *r);

/* maps.c */
/*
 * Sets r->last_tsc to now. Other threads may have gone on after a message, until the kernel ended
 * them: what they ran is before the new program's mappings, which are the code of all that comes
 * later.
 */
void native_take_time(struct recording *r);
/* Writes the executable mappings of files, and the vDSO, that overlap [start, end). */
void native_write_maps(struct recording *r, int32_t pid, uint64_t tsc, uint64_t start,
		       uint64_t end);
/* Writes one mapping, which the process has described: see NATIVE_MESSAGE_MAPPED. */
void native_write_mapped(struct recording *r, const struct native_message *m, const char *payload);
/* Writes what these do not describe; the runtime sends what can be written to. */
void native_write_code(struct recording *r, int32_t pid);

/* family.c */
/* The parent that the kernel knows; 0: there is no such process. */
int32_t native_parent_of(int32_t pid);
void native_read_comm(int32_t pid, char name[16]);
/*
 * A message can name any process and thread, and the recorder may be more powerful than the
 * program: these say what the kernel and the recorder itself know. Whether the thread is one of a
 * process that runs the runtime.
 */
bool native_is_recorded(const struct recording *r, int32_t pid, int32_t tid);
/*
 * Whether a process that is new to the recorder can have come from those that have this memory, or
 * has ended. Its user's may be less than theirs by now.
 */
bool native_may_begin(const struct native_memory *memory, int32_t pid);
bool native_has_ended(int32_t pid);
/* Whether the thread is the process's, or has ended. */
bool native_has_thread(int32_t pid, int32_t tid);
const char *native_name_of(const struct recording *r, int32_t pid);
void native_add_process(struct recording *r, int32_t pid, int32_t parent, const char *name,
			const struct native_memory *memory);
/*
 * The name of a process that has ended, or NULL if it is known how. Those that native_bury() has
 * forgotten are remembered for some time for this, and asked for once.
 */
const char *native_take_untold(struct recording *r, int32_t pid);
/* The i-th process has ended, or is not recorded any more. */
void native_bury(struct recording *r, size_t i);
/* The same of all that have ended and of which no round has left anything. */
void native_bury_dead(struct recording *r);

/* exec.c */
/* A process is about to execve, and waits for the answer. */
void native_seize(const struct native_memory *from, const struct native_message *m);
/* A process says that it is another user's now, and waits at NATIVE_CALL_MOVE. */
void native_seize_to_move(const struct native_memory *from, const struct native_message *m);
/* Its threads that were seized are let go, as soon as they stop. */
void native_release_process(struct recording *r, int32_t pid);
bool native_is_seized(const struct recording *r, int32_t pid);
/* Nanoseconds until they are to be looked at again. 0: there are none. */
int64_t native_seized_wait(struct recording *r);
/* Those that stand before the first instruction of their new programs get the runtime. */
void native_look_at_seized(struct recording *r);
/* Lets all of them go. False: some do not stop yet. */
bool native_release_seized(struct recording *r);
/* Those that are left are traced until this thread ends. */
void native_free_seized(struct recording *r);

/* move.c */
/* Whether the thread stands at NATIVE_CALL_MOVE; *status: what was waited for, if it does not. */
int native_await_move(pid_t tid, int *status);
#define NATIVE_MOVE_EXECS 2 /* it has become another program instead */
/* It is there: the process gets the memory of its user, or is told to leave. */
void native_move(struct recording *r, int32_t pid, int32_t tid);

#endif
