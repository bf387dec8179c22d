/* SPDX-License-Identifier: MIT */
/* Chooses a command's renderer, or reports which formats the command has. */
#include "render.h"

#include "input.h"

#include <stdio.h>

const struct renderer *renderer_choose(const struct command *command,
				       const struct renderer *renderers, int format,
				       const char *what)
{
	char list[64] = "";
	size_t n = 0;

	if (renderers[format].offered)
		return &renderers[format];
	for (int i = 0; i < FORMAT_MAX; i++)
		if (renderers[i].offered)
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? " or " : "",
					      format_choices[i]);
	fail_usage(command, "%s%s--format=%s: it takes %s", what, *what ? " " : "",
		   format_choices[format], list);
	return NULL;
}
