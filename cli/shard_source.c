/* SPDX-License-Identifier: MIT */
/* Opens the recordings of shards, counts one shard, and saves it for `ptah merge`. */
#include "shard_source.h"

#include "saved_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wants(void *context, const struct ptah_session *session, size_t stream)
{
	const struct shard_input *s = context;

	return input_wants(s->input, session, stream);
}

static bool find_shard_file(void *context, int32_t space, uint64_t address, uint64_t tsc,
			    struct ptah_counts_file *file)
{
	const struct shard_input *s = context;

	return names_find_file(s->names, space, address, tsc, file);
}

void shard_source_close(struct shard_input *s)
{
	if (!s->path)
		return;
	input_notes(s->input, s->session);
	names_free(s->names);
	ptah_session_close(s->session);
	free(s->path);
	s->path = NULL;
}

static int open_session(struct shard_input *s, const char *path)
{
	int status;

	s->input->path = path;
	if (input_open(s->command, s->input, 0, NULL, true, &s->session)) {
		s->reported = true;
		return PTAH_E_BAD_FILE;
	}
	status = input_names(s->input, s->session, &s->names);
	s->path = status >= 0 ? strdup(path) : NULL;
	if (s->path)
		return 0;
	if (status >= 0)
		names_free(s->names);
	ptah_session_close(s->session);
	return PTAH_E_NOMEM;
}

static int open_shard_recording(void *context, const char *path,
				struct ptah_shard_recording *recording, struct ptah_message *why)
{
	struct shard_input *s = context;
	int status = 0;

	(void)why;
	if (!s->path || strcmp(path, s->path) != 0) {
		shard_source_close(s);
		status = open_session(s, path);
	}
	*recording = (struct ptah_shard_recording){
	    .session = s->session, .wants = wants, .find = find_shard_file, .context = s};
	return status;
}

static void keep_open(void *context, struct ptah_shard_recording *recording)
{
	(void)context;
	(void)recording;
}

static bool go_on(void *context, uint64_t bytes)
{
	(void)context;
	(void)bytes;
	return !interrupted();
}

struct ptah_shard_source shard_source(struct shard_input *s)
{
	return (struct ptah_shard_source){.size = sizeof(struct ptah_shard_source),
					  .open = open_shard_recording,
					  .close = keep_open,
					  .progress = go_on,
					  .context = s};
}

/* Reads the I/N of --shard. Returns an exit code. */
static int shard_parse(const struct command *command, const char *text, uint32_t *part,
		       uint32_t *parts)
{
	char *end, *last = "?";
	const unsigned long i = strtoul(text, &end, 10);
	const unsigned long n = *end == '/' ? strtoul(end + 1, &last, 10) : 0;

	if (*text < '0' || *text > '9' || *end != '/' || end[1] < '0' || end[1] > '9' || *last ||
	    !i || i > n || n > PTAH_SHARD_PARTS_MAX)
		return fail_usage(command,
				  "--shard: \"%s\" is not a part I/N, such as 3/8, where I is from "
				  "1 to N and N up to %d",
				  text, PTAH_SHARD_PARTS_MAX);
	*part = (uint32_t)i;
	*parts = (uint32_t)n;
	return 0;
}

char *shard_options(const struct input *input)
{
	char *text = NULL;

	/* Each text has its length, so that no two choices are the same text. */
#define TEXT(value) (value) ? strlen(value) : 0, (value) ? (value) : ""
	if (asprintf(&text,
		     "pid %" PRIu64 " tid %" PRIu64 " comm %zu:%s cpu %zu:%s processor %zu:%s "
		     "errata %zu:%s %d %d",
		     input->pid, input->tid, TEXT(input->comm), TEXT(input->cpu),
		     TEXT(input->processor), TEXT(input->errata), input->no_tnt,
		     input->no_retcomp) < 0)
		return NULL;
#undef TEXT
	return text;
}

static int count_part_of_input(struct shard_input *s, const char *const *paths, size_t n,
			       uint32_t part, uint32_t parts, struct ptah_shard **shard,
			       struct ptah_message *why)
{
	const struct ptah_shard_source source = shard_source(s);
	struct ptah_shard_plan *plan;
	char *options = shard_options(s->input);
	int status =
	    options ? ptah_shard_plan_new(paths, n, parts, options, &plan, why) : PTAH_E_NOMEM;

	free(options);
	if (status < 0)
		return status;
	status = ptah_shard_count(plan, part, &source, shard, why);
	ptah_shard_plan_free(plan);
	return status;
}

int shard_write(const struct command *command, const struct ptah_shard *shard, struct out *out)
{
	void *bytes = NULL;
	size_t n = 0;
	const int status = ptah_shard_save(shard, &bytes, &n);

	return saved_write(command, status, bytes, n, out);
}

int shard_count(const struct command *command, struct input *input, int argc, char **argv,
		const char *which, struct out *out)
{
	const char *usual[] = {input->path ? input->path : "perf.data"};
	const char *const *paths = argc ? (const char *const *)argv : usual;
	struct shard_input s = {.command = command, .input = input};
	struct ptah_message why = {""};
	struct ptah_shard *shard = NULL;
	uint32_t part = 0, parts = 0;
	int status = shard_parse(command, which, &part, &parts), problem = 0;

	if (!status)
		problem = count_part_of_input(&s, paths, argc ? (size_t)argc : 1, part, parts,
					      &shard, &why);
	shard_source_close(&s);
	if (!status && interrupted())
		status = interrupted_status();
	if (!status && problem < 0)
		status = s.reported
			     ? EXIT_FAILED
			     : fail(command, "%s", why.text[0] ? why.text : ptah_strerror(problem));
	if (status)
		out_abort(out);
	else
		status = shard_write(command, shard, out);
	ptah_shard_free(shard);
	return status;
}
