/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder qemu share: qemu.c starts and steers the command,
 * setup.c prepares what it needs, reports.c takes the plugin's messages, and
 * thread_traces.c its traces.
 */
#ifndef PTAH_RECORD_QEMU_QEMU_H
#define PTAH_RECORD_QEMU_QEMU_H

#include "record/command.h"
#include "record/qemu/processes.h"
#include "record/qemu/shared.h"
#include "record/recorder.h"

#include <time.h>

/* A slot of the shared memory that holds a stream. */
struct slot {
	bool used;
	bool claimed; /* its thread waits for us */
	uint32_t stream;
	int32_t pid, tid;
	uint64_t snapped; /* bytes of its trace that snapshots have taken, or left behind */
};

struct recording {
	struct shared_header *shared;
	uint64_t buffer; /* bytes of each thread's */
	enum ptah_record_buffer policy;
	int memory; /* descriptor */
	struct ptah_recorder *r;
	struct perfdata_writer *writer; /* r's */
	struct command command;
	char *qemu, *plugin;
	struct slot slots[SHARED_THREADS];
	uint32_t streams;
	bool exec; /* threads are finished by an execve: their process goes on */
	struct processes processes;
	int32_t pid;	  /* of the command */
	const char *name; /* its basename */
	uint64_t last_tsc;
	time_t flushed;
	uint8_t *joined; /* of a trace buffer's and a staging area's size */
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
/* Ends the recording with what errno says of `path`. */
int qemu_fail_system(struct recording *r, const char *path, const char *what);
/* The plugin's path, the caller's to free. It lies beside the library or the command, or where it
 * was installed. NULL: nowhere. */
char *qemu_find_plugin(void);
/* Makes the memory that the plugin maps (r->memory, r->shared). */
int qemu_create_shared(struct recording *r, const struct ptah_record_config *config);

/* reports.c */
void qemu_add_process(struct recording *r, int32_t pid, int32_t parent, const char *name);
/* Takes all messages that are there. */
void qemu_drain_messages(struct recording *r);
/* Forgets the processes that were dead before the last messages were taken. */
void qemu_bury_dead(struct recording *r);

/* thread_traces.c */
/* While the thread runs: takes what it has published, which ends with a whole packet. */
void qemu_drain_published(struct recording *r, unsigned i);
/*
 * What is left of a thread's trace, or what is there when a snapshot is taken:
 * in the buffer, then in the processor's staging area, then the packets of its
 * end. Believes nothing of what the program could have written there.
 */
void qemu_write_rest(struct recording *r, struct shared_thread *t, struct slot *slot,
		     struct shared_state *s);
/* Ends a thread's trace from the state it left behind. */
void qemu_finish_thread(struct recording *r, unsigned i);

#endif
