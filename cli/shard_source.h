/* SPDX-License-Identifier: MIT */
/* Parts of recordings, as the options of a command say how they are opened and counted. */
#ifndef PTAH_CLI_SHARD_SOURCE_H
#define PTAH_CLI_SHARD_SOURCE_H

#include "input.h"

/*
 * Where the recordings of shards come from. The last one stays open, because parts that are counted
 * one after the other are often of one recording.
 */
struct shard_input {
	const struct command *command;
	struct input *input;
	bool reported; /* a recording could not be opened, and a message has been printed */
	char *path;    /* of the one that is open; NULL: none */
	struct ptah_session *session;
	struct names *names;
};

/* The callbacks, with *input as their context. Ctrl-C ends a count. */
struct ptah_shard_source shard_source(struct shard_input *input);

/* Closes the recording that is open. */
void shard_source_close(struct shard_input *input);

/* What the counts depend on, besides the recordings: the text for ptah_shard_plan_new(), which the
 * caller frees. NULL: out of memory. */
char *shard_options(const struct input *input);

/*
 * Counts the part `which`, the I/N of --shard, of the recordings argv[0..argc) or, if there are
 * none, of the input's, and writes it to `out`, which it closes or, on failure, aborts. Returns an
 * exit code.
 */
int shard_count(const struct command *command, struct input *input, int argc, char **argv,
		const char *which, struct out *out);

/* Writes a shard and closes the file. Returns an exit code. */
int shard_write(const struct command *command, const struct ptah_shard *shard, struct out *out);

#endif
