/* SPDX-License-Identifier: MIT */
/*
 * What `ptah view` shows of a recording, or of two: answers to questions of the page (query.h).
 *
 *	view_model_new(&config, &model);
 *	view_query_parse(&query, "bars?thread=0&axis=time&from=0&to=4096&unit=1");
 *	view_model_answer(model, &query, &answer);	any thread, several at once
 *	view_model_free(model);
 *
 * view_model_new() starts a thread that reads the recording. Answers are given from the beginning:
 * they have what was read so far, and say that they are not complete.
 *
 * Memory: config.memory bytes for levels of detail (levels.h), the call trees of
 * ptah_session_call_trees(), and per thread of the program its open calls. The calls themselves lie
 * in a file without a name (call_log.h).
 */
#ifndef PTAH_VIEW_MODEL_H
#define PTAH_VIEW_MODEL_H

#include "output/json.h"
#include "output/names.h"
#include "output/source_files.h"
#include "view/query.h"

#include <ptah/calls.h>
#include <ptah/session.h>

struct view_model;

/* A recording, and how it is read. All that it points to must live as long as the model. */
struct view_recording {
	const struct ptah_session *session; /* NULL: there is none */
	struct names *names;		    /* of the session */
	const char *path;		    /* as the user named it */
	/* Others, without a session, for what is looked up by counts (sources.h). NULL: there are
	 * no answers about source code. */
	struct names *code_names;
	struct source_paths source_paths;
	const char *symfs; /* where files are, as in session.h; NULL: "/" */
	/* Streams for which it returns false are left out. NULL: all are read. */
	bool (*wants)(void *context, size_t stream);
	void *context;
};

/* The recording that is shown, and the one that it is compared with. */
enum view_side {
	VIEW_SHOWN,
	VIEW_OLD,
	VIEW_SIDES
};

struct view_model_config {
	struct view_recording recordings[VIEW_SIDES];
	unsigned jobs;	    /* threads that decode; 0: one for each processor */
	uint64_t memory;    /* bytes for levels of detail; 0: VIEW_MEMORY */
	uint64_t log;	    /* bytes for the log of calls; 0: half of what is free in the folder */
	const char *folder; /* of the log's file; NULL: /var/tmp */
};

#define VIEW_MEMORY (UINT64_C(256) << 20)

/* 0 or an error with its reason. */
int view_model_new(const struct view_model_config *config, struct view_model **model,
		   struct ptah_message *why);
void view_model_free(struct view_model *model);

/* A view_answerer, whose context is the model: 0 or PTAH_E_NOMEM. */
int view_model_answer(void *model, const struct view_query *query, struct view_answer *answer);

/* The reading and the answers end soon: the latter with the status 503. */
void view_model_stop(struct view_model *model);

/*
 * Waits until all is read; `stopped` (may be NULL) is called now and then, and ends the waiting by
 * true. Returns 0, or the error that ended the reading.
 */
int view_model_wait(struct view_model *model, bool (*stopped)(void));

/* What the reading met, which is not in the pages' figures. */
struct view_problems {
	uint64_t errors; /* decoding errors */
	bool log_full;	 /* there was no room for all single calls */
};

void view_model_problems(struct view_model *model, struct view_problems *problems);

/*
 * What a file for the browser should have: the text of the i-th question, the most important first.
 * False: there are no more. Only after all is read.
 */
bool view_model_file_query(struct view_model *model, size_t i, char text[VIEW_QUERY_SIZE]);

/*
 * The rest is for the files that make answers.
 */

/* An answer that is being made. */
struct view_reply {
	struct out *out;  /* in memory */
	struct json json; /* on `out` */
	unsigned status;  /* of a refusal */
	const char *why;  /* of a refusal */
};

/* Refuses a question: status 400, 404 or 503, with a sentence. Returns 1, for the maker to return.
 */
int view_refuse(struct view_reply *reply, unsigned status, const char *why);

/*
 * A kind of answer: `make` writes it to reply->out and returns 0, the result of view_refuse(), or a
 * negative enum ptah_error. Any thread calls it, several at once.
 */
struct view_answer_kind {
	const char *path;
	const char *type; /* VIEW_JSON or VIEW_BINARY */
	int (*make)(struct view_model *model, const struct view_query *query,
		    struct view_reply *reply);
};

#define VIEW_JSON   "application/json"
#define VIEW_BINARY "application/octet-stream"

/* Ends with an element without a path. */
extern const struct view_answer_kind view_answer_kinds[];

/* A recording; its session is NULL where there is none. */
const struct view_recording *view_model_recording(const struct view_model *model,
						  enum view_side side);
/* Its code with counts; NULL where there is none. */
struct view_sources;
struct view_sources *view_model_sources(const struct view_model *model, enum view_side side);

/* What two recordings differ in; NULL: there is only one. */
struct difference;
struct difference *view_model_difference(const struct view_model *model);
unsigned view_model_jobs(const struct view_model *model);

/*
 * Whether the model has been stopped. Long work asks now and then, and ends with view_refuse(503).
 */
bool view_model_is_stopped(const struct view_model *model);

/* The functions of names.h may be called between these only. Do not hold it for long. */
void view_names_lock(struct view_model *model, enum view_side side);
void view_names_unlock(struct view_model *model, enum view_side side);

/* A function: the same wherever its file was mapped. Texts live as long as the model. */
struct view_function {
	const char *name;    /* as it is shown; an address where none is known */
	const char *mangled; /* as in the file; the same */
	const char *path;    /* of the file, as recorded; "" where it is not known */
	const char *object;  /* its last part, or "[unknown]" */
	uint64_t place;	     /* the offset in the file; 0 of code that was generated */
	uint64_t ip;	     /* where it begins, in the first process that had it */
	int32_t space;	     /* of that process, see ptah_session_find_map() */
	bool generated;	     /* while the program ran */
	const char *file;    /* of the source, where it begins; NULL: not known */
	uint32_t line;	     /* 0: not known */
};

/* A function of the recording that is shown. False: there is no such function. */
bool view_function(struct view_model *model, uint64_t id, struct view_function *function);
/* How many there are so far. */
uint32_t view_function_count(struct view_model *model);

#endif
