/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder hardware share: perf_event.c answers the calls of
 * the interface, check.c says what is possible, held_command.c starts the command,
 * targets.c finds what is to be recorded, recording_file.c opens the output, and
 * drain.c brings records and trace from the kernel's rings into it.
 */
#ifndef PTAH_RECORD_PERF_EVENT_HARDWARE_H
#define PTAH_RECORD_PERF_EVENT_HARDWARE_H

#include "record/perf_event/events.h"
#include "record/perf_event/perf_event.h"

#include <poll.h>
#include <sys/types.h>
#include <time.h>

/* A command that was made to wait before its execve(). */
struct waiting {
	pid_t pid;
	int socket; /* a byte lets it run; it answers with errno when it could not */
	int ended;  /* pidfd; -1: none */
};

struct hardware {
	struct ptah_recorder *r;
	struct pmu pmu;
	struct events events;
	struct waiting command;
	int32_t *tids, *cpus;
	size_t tid_count, cpu_count;
	struct pollfd *polled; /* those of the records' events, then of the command */
	size_t left;	       /* of them, events of what still runs */
	char *filters;
	char *folder, *file; /* of a recording with a copy of the kernel: OUTPUT, OUTPUT/data */
	char *old_folder;
	bool made_folder;
	bool tracing; /* the trace is on, apart from pauses */
	bool wrote;   /* records since the last round */
	time_t flushed;
};

/* check.c */
enum ptah_record_problem hardware_check(const struct ptah_record_config *config,
					struct ptah_message *why);
enum ptah_record_problem hardware_check_sideband(const struct ptah_record_config *config,
						 struct ptah_message *why);

/* held_command.c */
/* Makes h->command, which waits. */
int hardware_fork_command(struct hardware *h);
/* Lets the command run, and sees whether its execve() did. */
int hardware_release_command(struct hardware *h);
/* started: it was released; else it is killed. */
void hardware_close_command(struct waiting *c, bool started);

/* targets.c */
/* Finds the threads and processors, and starts the command if there is one. */
int hardware_find_targets(struct hardware *h);
/* What was there before the recording began, as records. */
void hardware_tell_what_is_there(struct hardware *h);

/* recording_file.c */
/* OUTPUT becomes a folder with the recording and the copy of the kernel. */
int hardware_make_folder(struct hardware *h);
void hardware_remove_folder(struct hardware *h);
/* Copies the kernel into that folder, if there is one. */
int hardware_copy_kernel(struct hardware *h);
void hardware_fill_metadata(struct hardware *h);
int hardware_open_writer(struct hardware *h);
/* What is different from what was asked for, or from what newer kernels tell. */
void hardware_write_notes(struct hardware *h, bool small);

/* drain.c */
/* Takes all records, and with `traces` the trace. */
void hardware_drain(struct hardware *h, bool traces);
void hardware_read_records(struct hardware *h, size_t ring);
/* Each ring's last bytes, while nothing is traced. */
void hardware_read_snapshots(struct hardware *h);
void hardware_sum_losses(struct hardware *h);

#endif
