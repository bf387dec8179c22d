/* SPDX-License-Identifier: MIT */
/* What the files of the model share: threads with their logs and levels, and the reading thread. */
#ifndef PTAH_VIEW_MODEL_INTERNAL_H
#define PTAH_VIEW_MODEL_INTERNAL_H

#include "view/call_log.h"
#include "view/functions.h"
#include "view/levels.h"
#include "view/model.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * A lock that the reading thread takes over and over, and lets go to whoever waits for it: a plain
 * mutex would be taken again before anybody else wakes up.
 */
struct view_lock {
	pthread_mutex_t mutex;
	pthread_cond_t served;
	atomic_uint waiting;
};

int view_lock_init(struct view_lock *lock);
void view_lock_fini(struct view_lock *lock);
void view_lock_write(struct view_lock *lock);
void view_unlock_write(struct view_lock *lock);
void view_lock_read(struct view_lock *lock);
void view_unlock_read(struct view_lock *lock);

/* What is no call. */
enum view_event_kind {
	VIEW_EVENT_GAP,
	VIEW_EVENT_OVERFLOW,
	VIEW_EVENT_ERROR,
	VIEW_EVENT_SIGNAL,
	VIEW_EVENT_SYSCALL,
	VIEW_EVENT_INTERRUPT,
	VIEW_EVENT_EXEC,
	VIEW_EVENT_BEGIN,
	VIEW_EVENT_END,
	VIEW_EVENT_KINDS
};

struct view_event {
	uint8_t kind;
	bool untraced;	/* tracing was off from then on */
	int16_t status; /* of an error: enum ptah_error */
	uint32_t depth;
	uint32_t count; /* with others that came right after it, where there were too many */
	uint64_t at[LOG_AXES], end[LOG_AXES];
	uint64_t ip, offset;
};

/* So many events of a thread are kept one by one. */
#define VIEW_EVENTS 500000

/* What the writer of the log and the levels knows of an open call. */
struct view_open {
	uint32_t function;
	uint16_t flags;
	uint8_t how;
};

/* A thread of the program. `info` does not change. */
struct view_thread {
	struct ptah_call_thread info;
	struct view_lock lock;
	/* What follows, by whoever holds the lock; some is the reading thread's alone. */
	struct call_log log;
	struct levels levels[LOG_AXES];
	struct log_counts now;
	uint64_t begin[LOG_AXES]; /* of its first mark */
	uint64_t calls;		  /* that began: those that ran before the trace do not count */
	uint64_t errors, losses;
	size_t most_depth;
	bool ended;
	struct view_event *events;
	size_t event_count, event_capacity;
	/* The thread's that decodes: of the open calls of the trace, stubs, which are left out. */
	bool *hidden;
	size_t open, open_capacity;
	/* The thread's that writes: */
	struct view_open *calling; /* as many as the log has frames */
	size_t calling_capacity;
	bool begun, timed;
	uint64_t tsc, ticks, off_ticks, origin;
	uint64_t active; /* what has to be added to nanoseconds of (origin + ticks) */
};

/* What ran on a CPU: its bars are turns, each of the thread whose number is its function. */
struct view_cpu {
	int32_t number;
	struct view_lock lock;
	/* What follows, by whoever holds the lock. */
	struct levels turns; /* on the axis of time */
	struct bar now;	     /* the turn that has not ended; calls 0: none */
};

/* Histograms and paths, by functions: see trees.c. */
struct view_trees;
/* System calls and waits: see answers_waits.c. */
struct view_waits;

struct view_model {
	struct view_model_config config;
	unsigned jobs;
	pthread_mutex_t names_lock[VIEW_SIDES];
	bool has_time;
	struct ptah_waits *ends; /* while calls are read: waits until the end; or NULL */
	atomic_bool has_cycles;
	uint64_t begin; /* time of the recording's first moment, as ptah_session_time() */
	uint64_t length[LOG_AXES];
	uint32_t mult, shift;
	uint64_t trace_bytes;
	struct view_sources *sources[VIEW_SIDES];
	struct difference *difference;
	struct view_functions *functions;
	struct log_store *store;
	pthread_t reader;
	bool running;
	atomic_bool stop;
	atomic_ullong read_bytes, tree_bytes;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* What follows, by whoever holds the lock. */
	struct view_thread **threads;
	size_t thread_count, thread_capacity;
	struct view_cpu **cpus; /* in the order of their numbers */
	size_t cpu_count;
	bool calls_read, done; /* all calls are in the levels; trees are made, too */
	int status;	       /* of the reading */
	struct view_trees *trees;
	struct view_waits *waits; /* NULL: not read yet, or the recording has none */
};

/* pass.c: reads all calls. 0 or an error. */
int view_read_calls(struct view_model *model);

/* trees.c: makes the trees of all calls. 0 or an error. */
int view_read_trees(struct view_model *model);
void view_trees_free(struct view_trees *trees);

/* answers_waits.c: finds what threads waited for. 0 or an error. */
int view_read_waits(struct view_model *model);
void view_waits_free(struct view_waits *waits);

/* NULL: there is none. */
struct view_thread *view_thread_get(struct view_model *model, uint64_t number);
void view_thread_free(struct view_thread *thread);

/* The i-th CPU; NULL: there is none. They are known from the beginning. */
struct view_cpu *view_cpu_get(struct view_model *model, size_t i);
bool view_cpu_number(struct view_model *model, size_t i, int32_t *number);

/* cpus.c: finds the CPUs of the recording. 0 or PTAH_E_NOMEM. */
int view_cpus_new(struct view_model *model);
void view_cpus_free(struct view_model *model);
/* A thread ran on a CPU between two times; -1: it is not known where. No thread: all turns end. */
int view_cpu_add(struct view_model *model, int32_t number, size_t thread, uint64_t from,
		 uint64_t to);
int view_cpus_finish(struct view_model *model);

/* Whether all calls have been read. */
bool view_calls_are_read(struct view_model *model);

/* The trees, NULL: not made yet. They stay until the model is freed. */
const struct view_trees *view_trees_get(struct view_model *model);

/* With the lock of names of the side that is shown. */
void view_naming(struct view_model *model, struct view_naming *naming);

static inline uint64_t view_nanoseconds(const struct view_model *m, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * m->mult >> m->shift);
}

/* Parameters: which thread, axis and window. Return 0 or the result of view_refuse(). */
int view_get_thread(struct view_model *model, const struct view_query *query,
		    struct view_reply *reply, struct view_thread **thread);
int view_get_axis(struct view_model *model, const struct view_query *query,
		  struct view_reply *reply, enum log_axis *axis);
/* Without `from` and `to`: everything. */
int view_get_window(const struct view_query *query, struct view_reply *reply, uint64_t *from,
		    uint64_t *to);

#endif
