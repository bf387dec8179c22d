/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder qemu share: qemu.c starts and steers the command,
 * setup.c prepares what it needs, handover.c passes it on, reports.c takes the
 * plugin's messages, and thread_traces.c its traces.
 */
#ifndef PTAH_RECORD_QEMU_QEMU_H
#define PTAH_RECORD_QEMU_QEMU_H

#include "record/call_samples.h"
#include "record/command.h"
#include "record/qemu/processes.h"
#include "record/qemu/shared.h"
#include "record/recorder.h"

/* A slot of the shared memory, which holds the stream of one thread. */
struct slot {
	bool used;
	bool claimed; /* its thread waits until the recorder releases it */
	bool damaged; /* its positions make no sense: nothing is taken any more */
	uint32_t stream;
	int32_t pid, tid;
	/* Offset in its trace up to which it has been taken; a buffer that is drained. */
	uint64_t tail;
	/* Offset up to which it has been taken early, beyond `tail`; 0: it has not. */
	uint64_t early;
	/* Offset in its trace up to which snapshots have taken or skipped bytes. */
	uint64_t snapped;
	uint64_t call_time; /* of the last system call */
};

struct recording {
	struct shared_header *shared;
	/*
	 * The recorder's own copies of what it has put into the shared memory, where the program
	 * could change it: the constants, and how far the messages have been read.
	 */
	struct shared_header *constants;
	uint64_t message_tail;
	/* The program has written to the shared memory: no truth is believed any more. */
	bool damaged;
	uint64_t buffer; /* bytes of each thread's trace buffer */
	enum ptah_record_buffer policy;
	int memory; /* file descriptor of the shared memory */
	struct lifeline *lifeline;
	int socket; /* where processes ask for it; -1: none */
	struct ptah_recorder *r;
	struct perfdata_writer *writer; /* r->writer */
	struct command command;
	char *qemu, *plugin;
	struct slot slots[SHARED_THREADS];
	uint32_t streams;
	bool exec; /* threads are being finished because of an execve: their process continues */
	struct processes processes;
	int32_t pid;	  /* pid of the command */
	const char *name; /* its basename */
	uint64_t last_tsc;
	uint64_t instructions; /* of the threads that have ended */
	uint8_t *joined;       /* room for a trace buffer and a staging area */
	bool live;	       /* somebody decodes the recording while it is being made */
	bool more;	       /* the last round has left trace */
	unsigned first;	       /* slot of the thread whose trace the next round takes first */
	struct call_samples calls;
	int64_t looked; /* nanoseconds: when trace was taken early */
};

static inline struct shared_thread *qemu_slot_thread(const struct recording *r, unsigned i)
{
	return shared_slot(r->shared, r->buffer, i);
}

static inline void qemu_keep_status(struct recording *r, int status)
{
	recorder_wrote(r->r, status);
}

static inline void qemu_add_note(struct recording *r, const char *text)
{
	recorder_note(r->r, "%s", text);
}

/* setup.c */
/* Ends the recording with a sentence made of `path`, `what` could not be done to it, and errno. */
int qemu_fail_system(struct recording *r, const char *path, const char *what);
/* Creates the memory that the plugin maps (r->memory, r->shared). */
int qemu_create_shared(struct recording *r, const struct ptah_record_config *config);
/* Reports damage if the constants in the shared memory are no longer what they were. */
void qemu_check_constants(struct recording *r);
/*
 * Called when something in the shared memory cannot be the plugin's: the first time, a note says
 * so. From then on the recording gets no truth, with which trace could agree by chance.
 */
void qemu_damage(struct recording *r);

/* handover.c */
/* Opens the socket. Without one, processes that change their user are lost at their execve. */
void qemu_listen(struct recording *r);
/* Answers the processes that have asked. */
void qemu_hand_over(struct recording *r);

/* reports.c */
void qemu_add_process(struct recording *r, int32_t pid, int32_t parent, const char *name);
/* Takes all messages that the plugins have sent, and writes or keeps their system calls. */
void qemu_drain_messages(struct recording *r);
/* Removes the processes that had died before the last messages were taken. */
void qemu_bury_dead(struct recording *r);

/* thread_traces.c */
/* Takes what a running thread has published, which ends with a whole packet. */
void qemu_drain_published(struct recording *r, unsigned i);
/*
 * Takes what a thread has written that is in a system call, also what it has not published: the
 * recorder claims it for a moment.
 */
void qemu_take_early(struct recording *r, unsigned i);
/* Lets a thread run on whose trace cannot be taken because the shared memory was damaged. */
void qemu_leave_alone(struct recording *r, unsigned i);
/*
 * Writes what is left of a thread's trace, or what exists when a snapshot is taken: the bytes in
 * the buffer, then those in the processor's staging area, then the packets that end it. The program
 * could have written to this memory, so nothing in it is trusted.
 */
void qemu_write_rest(struct recording *r, struct shared_thread *t, struct slot *slot,
		     struct shared_state *s);
/*
 * Copies a thread's state out of the shared memory: the live one or, when the thread died while it
 * changed that, the one of its checkpoint. False: something else than the plugin has written there.
 */
bool qemu_take_state(const struct recording *r, unsigned i, bool torn, struct shared_state *s);
/* Ends a thread's trace, from the state that the thread left in shared memory. */
void qemu_finish_thread(struct recording *r, unsigned i);

#endif
