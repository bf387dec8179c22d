/* SPDX-License-Identifier: MIT */
/*
 * What the files of the recorder hardware share, and what the recorder module (module/) takes from
 * them for the records around its trace: perf_event.c answers the calls of the interface, check.c
 * finds out whether the recording is possible, held_command.c starts the command, targets.c finds
 * what is to be recorded, recording_file.c opens the output, drain.c brings records and trace from
 * the kernel's rings into it, and hotplug.c follows processors that come online and go offline.
 */
#ifndef PTAH_RECORD_PERF_EVENT_HARDWARE_H
#define PTAH_RECORD_PERF_EVENT_HARDWARE_H

#include "record/perf_event/beside.h"
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

/* Trace that another driver captures: perf delivers the records around it alone. */
struct hardware_source {
	int fd;		/* becomes readable when there is something to do */
	bool by_thread; /* its streams are those of threads; false: of processors */
};

/*
 * h->polled: the pidfd of the command, the source's descriptor, the events beside the trace, then the
 * events of the records, from HARDWARE_POLLED + beside_polled on.
 */
#define HARDWARE_POLLED 2

struct hardware {
	struct ptah_recorder *r;
	const struct hardware_source *source; /* NULL: perf's driver */
	struct pmu pmu;			      /* with a source: what the caller has found out */
	struct events events;
	struct events elsewhere;     /* only records: of processors that are not recorded */
	bool elsewhere_missing;	     /* ... which could not be opened */
	struct beside_event *beside; /* of the configuration's events, beside_count of them */
	size_t beside_count, beside_polled;
	struct waiting command;
	int32_t *tids, *cpus;
	size_t tid_count, cpu_count;
	struct pollfd *polled;
	size_t left; /* how many of the events of the records belong to what still runs */
	struct event_sizes sizes;
	/* How many processors may come online later, and how many events they may need. */
	size_t late_cpus, late_events;
	int64_t began, looked; /* milliseconds: the recording, and the last look at processors */
	uint8_t *attempts;     /* of HARDWARE_CPUS: how often an event was refused there */
	char *filters;
	/* OUTPUT and OUTPUT/data, where the recording is a folder with a copy of the kernel. */
	char *folder, *file;
	char *old_folder;
	bool made_folder;
	bool tracing; /* between start() and stop(), also while paused */
	bool wrote;   /* records were written since the last FINISHED_ROUND */
};

/* perf_event.c: the steps of a recording */

/*
 * Finds the targets, opens the events, and the output. `h` is all zeros but for events.has_trace,
 * source and pmu. hardware_close() is called afterwards in any case, and frees all but `h` itself.
 */
int hardware_open(struct hardware *h, struct ptah_recorder *r);
void hardware_close(struct hardware *h);
/* Switches the records on, unless the command's execve() will, and writes what existed before. */
int hardware_start_records(struct hardware *h);
/* Switches the events beside the trace, which go with it. */
bool hardware_switch_beside(const struct hardware *h, bool on);
/* Switches all records off and takes the last, and with `traces` all trace. */
void hardware_end_records(struct hardware *h, bool traces);
/* Of h->polled, those of the events of the records. */
static inline struct pollfd *hardware_polled_records(const struct hardware *h)
{
	return h->polled + HARDWARE_POLLED + h->beside_polled;
}
/* Waits for something to read. False: what is recorded has ended. */
bool hardware_wait(struct hardware *h, int timeout_ms);

/* Whether the recording has trace, from perf's driver or from another source. */
static inline bool hardware_has_trace(const struct hardware *h)
{
	return h->events.has_trace || h->source;
}

/* host.c: the processor that the caller runs on. The calling thread is not moved. */
void hardware_caps(struct ptah_caps *caps);

/* check.c */
/* What can be checked without a look at processor, driver and permissions. */
enum ptah_record_problem hardware_check_wishes(const char *root,
					       const struct ptah_record_config *config,
					       struct ptah_message *why);
/* Whether this user may have the records of what the configuration traces. */
enum ptah_record_problem hardware_check_records(const struct ptah_record_config *config,
						struct ptah_message *why);
enum ptah_record_problem hardware_check(const struct ptah_record_config *config,
					struct ptah_message *why);
enum ptah_record_problem hardware_check_sideband(const struct ptah_record_config *config,
						 struct ptah_message *why);

/* hotplug.c */
#define HARDWARE_CPUS 4096 /* processors with higher numbers are not followed */
/* How long a change remains unnoticed, in milliseconds. */
#define HARDWARE_LOOK_MS 100
/* Whether the recording depends on which processors are online. */
bool hardware_follows_cpus(const struct hardware *h);
/* Finds out how many processors may come online later. */
int hardware_prepare_cpus(struct hardware *h);
/*
 * Records processors that have come online, and takes what there is of those that went offline. To
 * be called again and again; looks at the processors every HARDWARE_LOOK_MS.
 */
void hardware_follow_cpus(struct hardware *h);

/* held_command.c */
/* Forks h->command, which waits before its execve(). */
int hardware_fork_command(struct hardware *h);
/* Lets the command run. Fails if its execve() fails. */
int hardware_release_command(struct hardware *h);
/* The same in two steps: the second one waits for the execve(). */
void hardware_send_command(struct hardware *h);
int hardware_confirm_command(struct hardware *h);
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
/* Copies the kernel into that folder, or passes the copy to the sink, if one was requested. */
int hardware_copy_kernel(struct hardware *h);
void hardware_fill_metadata(struct hardware *h);
int hardware_open_writer(struct hardware *h);
/* Writes the code of [vdso], if user code is traced: it is in no file. */
void hardware_write_vdso(struct hardware *h);
/* Notes what differs from the configuration, and which records this kernel does not support. */
void hardware_write_notes(struct hardware *h, bool small);

/*
 * elsewhere.c: opens the events of the processors that are not recorded, if some processors were
 * named. They are a help: where they cannot be opened, a note says so.
 */
void hardware_open_elsewhere(struct hardware *h);

/* drain.c */
/* Takes all records, and with `traces` all trace, out of the rings. */
void hardware_drain(struct hardware *h, bool traces);
void hardware_read_records(struct hardware *h, size_t ring);
/* Takes everything out of a ring that the kernel no longer writes to. */
void hardware_read_rest(struct hardware *h, size_t ring);
/* Takes the newest trace of each ring that overwrites its oldest. The trace is switched off. */
void hardware_read_snapshots(struct hardware *h);
void hardware_sum_losses(struct hardware *h);

#endif
