/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder hardware share: perf_event.c answers the calls of
 * the interface, check.c finds out whether the recording is possible, held_command.c starts the
 * command, targets.c finds what is to be recorded, recording_file.c opens the output, and drain.c
 * brings records and trace from the kernel's rings into it.
 */
#ifndef PTAH_RECORD_PERF_EVENT_HARDWARE_H
#define PTAH_RECORD_PERF_EVENT_HARDWARE_H

#include "record/perf_event/events.h"
#include "record/perf_event/perf_event.h"

#include <poll.h>
#include <sys/types.h>

/* A command that waits before its execve(). */
struct waiting {
	pid_t pid;
	int socket; /* one byte lets it run; it answers with errno if execve() fails */
	int ended;  /* pidfd that reports its end; -1: none */
};

struct hardware {
	struct ptah_recorder *r;
	struct pmu pmu;
	struct events events;
	struct waiting command;
	int32_t *tids, *cpus;
	size_t tid_count, cpu_count;
	struct pollfd *polled; /* the events of the records, then the pidfd of the command */
	size_t left;	       /* how many of those events belong to what still runs */
	char *filters;
	/* OUTPUT and OUTPUT/data, where the recording is a folder with a copy of the kernel. */
	char *folder, *file;
	char *old_folder;
	bool made_folder;
	bool tracing; /* between start() and stop(), also while paused */
	bool wrote;   /* records were written since the last FINISHED_ROUND */
};

/* check.c */
enum ptah_record_problem hardware_check(const struct ptah_record_config *config,
					struct ptah_message *why);
enum ptah_record_problem hardware_check_sideband(const struct ptah_record_config *config,
						 struct ptah_message *why);

/* held_command.c */
/* Forks h->command, which waits before its execve(). */
int hardware_fork_command(struct hardware *h);
/* Lets the command run. Fails if its execve() fails. */
int hardware_release_command(struct hardware *h);
/* Kills the command unless it was released (`started`), and closes its descriptors. */
void hardware_close_command(struct waiting *c, bool started);

/* targets.c */
/* Finds the threads and processors, and starts the command if there is one. */
int hardware_find_targets(struct hardware *h);
/* Writes records for the processes, names and mappings that existed before the recording began. */
void hardware_report_existing(struct hardware *h);

/* recording_file.c */
/* Makes OUTPUT a folder, for the recording and the copy of the kernel. */
int hardware_make_folder(struct hardware *h);
void hardware_remove_folder(struct hardware *h);
/* Copies the kernel into that folder, if there is one. */
int hardware_copy_kernel(struct hardware *h);
void hardware_fill_metadata(struct hardware *h);
int hardware_open_writer(struct hardware *h);
/* Notes what differs from the configuration, and which records this kernel does not support. */
void hardware_write_notes(struct hardware *h, bool small);

/* drain.c */
/* Takes all records, and with `traces` all trace, out of the rings. */
void hardware_drain(struct hardware *h, bool traces);
void hardware_read_records(struct hardware *h, size_t ring);
/* Takes the newest trace of each ring that overwrites its oldest. The trace is switched off. */
void hardware_read_snapshots(struct hardware *h);
void hardware_sum_losses(struct hardware *h);

#endif
