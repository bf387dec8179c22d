/* SPDX-License-Identifier: MIT */
/*
 * What the recorders have in common: one behind the interface of record.h is a
 * struct recorder_backend.
 */
#ifndef PTAH_RECORD_RECORDER_H
#define PTAH_RECORD_RECORDER_H

#include "base/compiler.h"
#include "perfdata/writer.h"

#include <ptah/record.h>

struct recorder_backend {
	enum ptah_recorder_kind kind;
	/*
	 * Can it do what is asked, here and now? Changes nothing. When it cannot, *why
	 * says so in a sentence that stands by itself.
	 */
	enum ptah_record_problem (*check)(const struct ptah_record_config *config,
					  struct ptah_message *why);
	/* Makes r->self, and opens r->writer (recorder_open_writer()). close() follows in any
	 * case, of what there is by then. */
	int (*open)(struct ptah_recorder *r);
	int (*start)(struct ptah_recorder *r);
	int (*poll)(struct ptah_recorder *r, int timeout_ms); /* 1: it goes on */
	int (*pause)(struct ptah_recorder *r, bool on);
	int (*snapshot)(struct ptah_recorder *r);
	/* Takes the rest. What runs goes on untraced. Once, and only after start(). */
	int (*stop)(struct ptah_recorder *r);
	void (*close)(struct ptah_recorder *r);
	/* It has nothing to do with a command that only says how long to record: recorder.c
	 * starts it. */
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
	void *self;			/* the backend's */
	struct perfdata_writer *writer; /* NULL before open, and when it is finished */
	struct ptah_record_status status;
	struct ptah_record_metadata metadata;
	enum recorder_state state;
	int32_t timer; /* the command that says how long, if it is ours; 0: none */
	int error;     /* the first failure */
	enum ptah_record_problem problem;
	struct ptah_message why;
	char choice[1200];
};

extern const struct recorder_backend recorder_hardware; /* perf_event/ */
extern const struct recorder_backend recorder_qemu;	/* qemu/ */
extern const struct recorder_backend recorder_ptrace;	/* ptrace/ */

/* Keeps the first failure. Returns `status`. The format's text is the sentence. */
int recorder_fail(struct ptah_recorder *r, enum ptah_record_problem problem, int status,
		  const char *format, ...) PRINTF_LIKE(4, 5);

/* What a call of the writer returned: keeps its failure and sentence. */
int recorder_wrote(struct ptah_recorder *r, int status);

/* Opens r->writer for the output or the sink; the rest of *config is the backend's. */
int recorder_open_writer(struct ptah_recorder *r, struct perfdata_writer_config *config);

/* A remark in the recording. */
void recorder_note(struct ptah_recorder *r, const char *format, ...) PRINTF_LIKE(2, 3);

/* For check(): a sentence into *why, and the problem as result. */
enum ptah_record_problem recorder_refuse(struct ptah_message *why, enum ptah_record_problem problem,
					 const char *format, ...) PRINTF_LIKE(3, 4);

/* problems.c: the status that stands for a problem. */
int recorder_status_of(enum ptah_record_problem problem);

/* timer.c: the command that only says how long, where the backend leaves it to recorder.c. */
enum ptah_record_problem timer_check(const struct ptah_recorder *r, struct ptah_message *why);
int timer_start(struct ptah_recorder *r);
/* It has ended. False also when there is none. */
bool timer_is_over(struct ptah_recorder *r);

/* As ptah_recorder_new(), with this recorder and no other; NULL: the best. */
int recorder_new(const struct recorder_backend *backend, const struct ptah_record_config *config,
		 struct ptah_recorder **recorder, enum ptah_record_problem *problem,
		 struct ptah_message *why);

#endif
