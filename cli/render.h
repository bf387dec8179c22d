/* SPDX-License-Identifier: MIT */
/*
 * How a command shows what it has found: a renderer for each word of --format.
 *
 * A command chooses its renderer once, hands it one thing after the other, and
 * has no other place where the format counts. Each function gets the command's
 * own view (a struct with the output and whatever else is needed to print); one
 * that a format needs not is NULL.
 */
#ifndef PTAH_CLI_RENDER_H
#define PTAH_CLI_RENDER_H

#include "command.h"

enum format {
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_TSV,
	FORMAT_MAX
};

struct renderer {
	void (*begin)(void *view);
	void (*begin_stream)(void *view, const void *stream);
	void (*row)(void *view, const void *row);
	void (*event)(void *view, const void *event); /* something between the rows */
	void (*end_stream)(void *view);
	void (*end)(void *view);
	bool offered; /* false: the command has no such format */
};

/*
 * The renderer of a format, from a command's FORMAT_MAX renderers. NULL when it
 * is not offered: a message names those that are, for `what` ("" or an option).
 */
const struct renderer *renderer_choose(const struct command *command,
				       const struct renderer *renderers, int format,
				       const char *what);

/* Does nothing where there is nothing to do. */
#define RENDER(renderer, function, ...)                                                            \
	do {                                                                                       \
		if ((renderer)->function)                                                          \
			(renderer)->function(__VA_ARGS__);                                         \
	} while (0)

#endif
