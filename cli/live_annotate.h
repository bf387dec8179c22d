/* SPDX-License-Identifier: MIT */
/* The source code and the instructions of one function, with how often each has run so far. */
#ifndef PTAH_CLI_LIVE_ANNOTATE_H
#define PTAH_CLI_LIVE_ANNOTATE_H

#include "live_view.h"

#include <ptah/counts.h>

/*
 * The exact counts up to now, for which the session must count (PTAH_LIVE_COUNTS) and stand still
 * (ptah_live_hold()), or have ended. 0 or an error.
 */
int live_counts(const struct live_view *v, struct ptah_counts **counts);

/*
 * The listing of the row's function, as `ptah annotate` prints it, for so many columns. The caller
 * frees *text, which is NULL where nothing of the function has been counted. 0 or an error.
 */
int live_annotate(const struct live_view *v, const struct live_row *row, unsigned columns,
		  char **text);

#endif
