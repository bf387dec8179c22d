/* SPDX-License-Identifier: MIT */
/*
 * How a command prints what it has found: a renderer for each word of --format.
 *
 * A command chooses its renderer once and calls its functions; no other code
 * depends on the format. Each function gets the command's own view: a struct
 * with the output and whatever else is needed to print. A function that a format
 * does not need is NULL.
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
	void (*event)(void *view, const void *event); /* an event between rows */
	void (*end_stream)(void *view);
	void (*end)(void *view);
	bool offered; /* false: the command has no such format */
};

/*
 * The renderer of a format, from an array of FORMAT_MAX. Returns NULL when the
 * command does not offer it, and has then printed which formats it offers; `what`
 * names the option that they depend on, or is "".
 */
const struct renderer *renderer_choose(const struct command *command,
				       const struct renderer *renderers, int format,
				       const char *what);

/* Calls a function of a renderer, if there is one. */
#define RENDER(renderer, function, ...)                                                            \
	do {                                                                                       \
		if ((renderer)->function)                                                          \
			(renderer)->function(__VA_ARGS__);                                         \
	} while (0)

#endif
