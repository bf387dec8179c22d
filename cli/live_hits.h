/* SPDX-License-Identifier: MIT */
/* What `ptah live` does when something happens that it was told to watch for. */
#ifndef PTAH_CLI_LIVE_HITS_H
#define PTAH_CLI_LIVE_HITS_H

#include "live_view.h"

struct live_hits;

/*
 * Reads --watch, --keep, --on-hit and --hits. Returns an exit code; *hits is NULL when nothing is
 * watched for.
 */
int live_hits_new(const struct live_options *options, struct live_hits **hits);

/* Waits for the commands of --on-hit that still run. */
void live_hits_free(struct live_hits *hits);

/* A callback of the live session (struct ptah_live_config). */
int live_hits_take_hit(struct live_hits *hits, const struct ptah_live_hit *hit);

/* Puts the watches into the live session's configuration. */
void live_hits_configure(struct live_hits *hits, struct ptah_live_config *config);

/* Whether a call is watched for its time. hits may be NULL. */
bool live_hits_need_times(const struct live_hits *hits);

/* Prints a note for each function that the program which is started does not have. */
void live_hits_note_unknown(const struct live_hits *hits, const char *program);

/* The live session exists. */
void live_hits_begin(struct live_hits *hits, struct ptah_live *live);

/* Keeps a piece of the recording. 0 or an error. */
int live_hits_take(struct live_hits *hits, const struct ptah_record_piece *piece);

/* A process has ended, with a status as of waitpid(). */
void live_hits_ended(struct live_hits *hits, int32_t pid, int wait_status);

/* Somebody asks for what is kept now; `why`: SIGUSR2, a line of --control. */
void live_hits_ask(struct live_hits *hits, const char *why);

/*
 * Between pieces of the recording: forgets what is too old, and saves what was asked for. `final`:
 * everything has been decoded. 1; 0: there have been as many hits as were asked for; or an error.
 */
int live_hits_look(struct live_hits *hits, bool final);

/* The next hit that has not been reported: its text, and the file ("": not saved). False: none. */
bool live_hits_next(struct live_hits *hits, struct live_hit_line *line);

/* How many hits there were of which nothing was saved, because there were too many. */
uint64_t live_hits_unsaved(struct live_hits *hits);

/* Says of which watches no function has run. `m`: the final measure. */
void live_hits_note_absent(const struct live_hits *hits, const struct live_measure *m);

#endif
