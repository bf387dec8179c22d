/* SPDX-License-Identifier: MIT */
/*
 * Coverage of what `ptah live` follows: what has been reached, what of it is new, and the file that
 * is written at the end.
 */
#ifndef PTAH_CLI_LIVE_COVER_H
#define PTAH_CLI_LIVE_COVER_H

#include "live_view.h"

struct live_cover;

/* --cover and the like. */
extern const struct option_def live_cover_options[];

/* Checks the options and takes their values apart. Returns an exit code. */
int live_cover_check(struct live_options *options);

/*
 * Opens the file of --cover, under another name. Returns an exit code; *cover is NULL if no
 * coverage was asked for.
 */
int live_cover_new(const struct live_options *options, struct live_cover **cover);
/* Removes the file if it is not complete. NULL does nothing, as in all that follows. */
void live_cover_free(struct live_cover *cover);

/* A callback of the live session (struct ptah_live_config), whose context is the cover. */
int live_cover_take_counts(void *cover, const struct ptah_live_thread *thread,
			   struct ptah_profile *profile);

/* The live session exists, and nothing was decoded. 0 or an error. */
int live_cover_begin(struct live_cover *cover, struct ptah_live *live);

/* A piece of the recording, before it is decoded. */
void live_cover_take_piece(struct live_cover *cover, const struct ptah_record_piece *piece);

/* A process has ended, with a status as of waitpid(). */
void live_cover_take_end(struct live_cover *cover, int32_t pid, int wait_status);

/* Looks what was reached, if it is time to, or if `now`. 0 or an error. */
int live_cover_look(struct live_cover *cover, bool now);

/* Whether nothing new was reached for the time of --until. */
bool live_cover_is_stable(const struct live_cover *cover);

/* Puts the figures into the measure. `final`: those of the whole time. */
void live_cover_measure(struct live_cover *cover, struct live_measure *measure, bool final);

/*
 * Writes the file, after everything was decoded. `pid` and `wait_status` are of the command, 0 and
 * -1 if there was none. Returns an exit code.
 */
int live_cover_end(struct live_cover *cover, int32_t pid, int wait_status);

#endif
