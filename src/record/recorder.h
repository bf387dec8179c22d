/* SPDX-License-Identifier: MIT */
/*
 * The interface between recorder.c, which implements ptah/record.h, and the recorders behind it.
 * Each recorder is one struct recorder_backend.
 */
#ifndef PTAH_RECORD_RECORDER_H
#define PTAH_RECORD_RECORDER_H

#include "base/compiler.h"
#include "perfdata/writer.h"

#include <ptah/record.h>

#include <time.h>

#define RECORDER_REFUSED 2 /* of poll() */

struct recorder_backend {
	enum ptah_recorder_kind kind;
	/*
	 * Reports whether the recorder can do what the configuration requests, here and now;
	 * changes nothing. If it cannot, *why is a complete sentence.
	 */
	enum ptah_record_problem (*check)(const struct ptah_record_config *config,
					  struct ptah_message *why);
	/*
	 * Makes r->self and opens r->writer (recorder_open_writer()). close() is called afterwards
	 * in any case, also when this fails halfway.
	 */
	int (*open)(struct ptah_recorder *r);
	int (*start)(struct ptah_recorder *r);
	/*
	 * Returns 1 while the recording continues. RECORDER_REFUSED: the program, as it ran, turned
	 * out to be one that this recorder cannot record, and nobody outside of it has seen it run;
	 * r->refusal is a sentence without a full stop. recorder.c then closes this recorder, which
	 * kills the program, and starts it again with the recorder qemu.
	 */
	int (*poll)(struct ptah_recorder *r, int timeout_ms);
	int (*pause)(struct ptah_recorder *r, bool on);
	int (*snapshot)(struct ptah_recorder *r);
	/*
	 * Takes the rest of the trace; programs that still run continue untraced. Called once at
	 * most, and only after start().
	 */
	int (*stop)(struct ptah_recorder *r);
	void (*close)(struct ptah_recorder *r);
	/*
	 * Called again and again after stop(), as long as the caller waits for the command. May be
	 * NULL.
	 */
	void (*look_after)(struct ptah_recorder *r);
	/* recorder.c starts and awaits a command that only says how long to record (timer.c). */
	bool timer;
};

enum recorder_state {
	RECORDER_NEW = 0,
	RECORDER_STARTED,
	RECORDER_STOPPED,
	RECORDER_FINISHED,
};

struct ptah_recorder {
	const struct recorder_backend *backend;
	struct ptah_record_config config;
	void *self;			/* belongs to the backend */
	struct perfdata_writer *writer; /* NULL before open() and after the file is complete */
	struct ptah_record_status status;
	struct ptah_record_metadata metadata;
	enum recorder_state state;
	int32_t timer;	       /* pid of the command of timer.c; 0: none runs */
	int32_t command;       /* pid that the command had; 0: it has not begun */
	bool end_noted;	       /* a note says which signal ended the command */
	bool end_told;	       /* the sink knows how the command ended */
	int error;	       /* status of the first failure */
	int64_t late;	       /* haste.h */
	int64_t flushed;       /* milliseconds of CLOCK_MONOTONIC */
	bool kept;	       /* the file is complete, as far as it could be written */
	struct timespec began; /* by the clock of files' times */
	enum ptah_record_problem problem;
	struct ptah_message why;
	struct ptah_message refusal; /* see poll() */
	char choice[1200];
};

extern const struct recorder_backend recorder_hardware; /* perf_event/ */
extern const struct recorder_backend recorder_module;	/* module/ */
extern const struct recorder_backend recorder_native;	/* native/ */
extern const struct recorder_backend recorder_qemu;	/* qemu/ */
extern const struct recorder_backend recorder_ptrace;	/* ptrace/ */
extern const struct recorder_backend recorder_vm;	/* vm/ */

/* Records the first failure, with the formatted sentence. Returns `status`. */
int recorder_fail(struct ptah_recorder *r, enum ptah_record_problem problem, int status,
		  const char *format, ...) PRINTF_LIKE(4, 5);

/*
 * Takes what a call of the writer returned: a failure becomes the recorder's, with the writer's
 * sentence. Returns `status`.
 */
int recorder_wrote(struct ptah_recorder *r, int status);

/* Whether the output has reached config.output.max_size. */
bool recorder_is_full(const struct ptah_recorder *r);

/*
 * Called at the end of each round of draining, in which records were taken before trace. Every
 * tenth of a second it makes the file valid up to here.
 */
void recorder_flush(struct ptah_recorder *r);

/* Whether there is no time left for waiting: ptah_recorder_hurry(). */
bool recorder_is_late(const struct ptah_recorder *r);

/* Opens r->writer for the output file or the sink. The backend fills in the rest of *config. */
int recorder_open_writer(struct ptah_recorder *r, struct perfdata_writer_config *config);

/* Writes a remark for the user into the recording. */
void recorder_note(struct ptah_recorder *r, const char *format, ...) PRINTF_LIKE(2, 3);

/* A signal that ended a process. */
struct recorder_end {
	int signal;
	int32_t pid, tid; /* tid: the thread that it came to */
	const char *comm; /* of the process; "": not known */
	bool placed;	  /* `ip` is known */
	uint64_t ip;	  /* the instruction that faulted, or would have been the next */
};

/*
 * Notes the end of a process, if the signal is one that nobody sends to end a program. That it has
 * ended is told by recorder_process_ended().
 */
void recorder_note_end(struct ptah_recorder *r, const struct recorder_end *end);

/* Passes on how a process ended: a status as of waitpid(). */
void recorder_process_ended(struct ptah_recorder *r, int32_t pid, int wait_status);

/* For check(): puts the sentence into *why and returns the problem. */
enum ptah_record_problem recorder_refuse(struct ptah_message *why, enum ptah_record_problem problem,
					 const char *format, ...) PRINTF_LIKE(3, 4);

/* problems.c: the status that is returned for a problem. */
int recorder_status_of(enum ptah_record_problem problem);

/*
 * timer.c: the command that only says how long to record, where the backend leaves it to
 * recorder.c.
 */
enum ptah_record_problem timer_check(const struct ptah_recorder *r, struct ptah_message *why);
int timer_start(struct ptah_recorder *r);
/* True once the command has ended; false also when there is none. */
bool timer_is_over(struct ptah_recorder *r);

/* As ptah_recorder_new(), with this recorder alone; NULL: the best that is possible. */
int recorder_new(const struct recorder_backend *backend, const struct ptah_record_config *config,
		 struct ptah_recorder **recorder, enum ptah_record_problem *problem,
		 struct ptah_message *why);

#endif
