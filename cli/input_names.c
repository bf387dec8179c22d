/* SPDX-License-Identifier: MIT */
/* Names of functions as the options ask for them: demangled or not, with debug files or servers. */
#include "input.h"

#include "base/text.h"
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *input_build_id_cache(const struct input *input, char *path, size_t n)
{
	const char *home = getenv("HOME");

	if (input->buildid_dir)
		return input->buildid_dir;
	if (!home || snprintf(path, n, "%s/.debug", home) >= (int)n)
		return NULL;
	return path;
}

bool input_show_fetch(void *input, const char *file, uint64_t done, uint64_t total)
{
	const struct input *in = input;
	const char *slash = strrchr(file, '/');
	const char *name = slash ? slash + 1 : file;

	if (in->quiet || in->no_progress || !isatty(STDERR_FILENO) || !text_is_clean(name))
		return !interrupted();
	if (total && done >= total)
		fprintf(stderr, "\r%-72s\r", "");
	else if (total)
		fprintf(stderr, "\rfetching for %.30s: %.1f of %.1f MB  ", name, (double)done / 1e6,
			(double)total / 1e6);
	else
		fprintf(stderr, "\rasking servers for %.30s  ", name);
	return !interrupted();
}

bool input_may_fetch(const struct input *input)
{
	const char *known = getenv("DEBUGINFOD_URLS");

	if (!input->no_debuginfod && input->debuginfod && *input->debuginfod)
		setenv("DEBUGINFOD_URLS", input->debuginfod, 1);
	return !input->no_debuginfod && (input->debuginfod || (known && *known));
}

static void allow_servers(const struct input *input, struct names *names)
{
	const char *known;

	if (!input_may_fetch(input))
		return;
	known = getenv("DEBUGINFOD_URLS");
	if (!known || !*known)
		fprintf(stderr,
			"note: --debuginfod: no servers are known; name them as its value, or "
			"in the environment variable DEBUGINFOD_URLS\n");
	if (names_use_debuginfod(names, input_show_fetch, (void *)(uintptr_t)input) < 0 &&
	    input->debuginfod)
		fprintf(stderr, "note: --debuginfod: libdebuginfod.so.1 is not installed "
				"(Debian: libdebuginfod1)\n");
}

int input_names(const struct input *input, const struct ptah_session *session, struct names **names)
{
	int status = names_new(session, input->symfs, names);
	const char *cache;
	char path[4096];

	if (status < 0)
		return status;
	if (input->no_demangle)
		names_keep_mangled(*names);
	cache = input_build_id_cache(input, path, sizeof(path));
	if (cache)
		status = names_use_cache(*names, cache);
	if (status >= 0)
		allow_servers(input, *names);
	return status;
}

struct source_paths input_source_paths(const struct input *input)
{
	return (struct source_paths){.prefix = input->prefix,
				     .strip = input->prefix_strip,
				     .symfs = input->symfs,
				     .folders = input->source_path};
}
