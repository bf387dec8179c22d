/* SPDX-License-Identifier: MIT */
/* Counts from the files of the command line, each a recording or a file of saved counts. */
#ifndef PTAH_CLI_SAVED_COUNTS_H
#define PTAH_CLI_SAVED_COUNTS_H

#include "input.h"

/*
 * Adds up the counts of the files argv[0..argc) or, if there are none, of the
 * input's options. *kernel is where the names of the last recording's kernel come
 * from, or --kallsyms. Returns an exit code: 0, and the caller frees *counts; or
 * another one, and a message has been printed.
 */
int counts_read(const struct command *command, struct input *input, int argc, char **argv,
		struct ptah_counts **counts, struct names_kernel *kernel);

/* The counts of a recording that is open already, and its kernel. The same results. */
int counts_of_session(const struct command *command, const struct input *input,
		      const struct ptah_session *session, struct ptah_counts **counts,
		      struct names_kernel *kernel);

/* Prints a note for each file that is not the one that ran, unless --quiet is given. */
void counts_note_changed(const struct input *input, const struct names *names);

/*
 * Creates the file that counts are saved to, and writes it. If not `keep`, or
 * after Ctrl-C, the file is removed: there is never half a file. Both return an
 * exit code.
 */
int counts_create(const struct command *command, const char *path, struct out **out);
int counts_write(const struct command *command, const struct ptah_counts *counts, struct out *out,
		 bool keep);

/*
 * Writes what ptah_counts_save() or ptah_shard_save() has returned, frees the bytes, and closes the
 * file; after an error it removes the file. Returns an exit code.
 */
int saved_write(const struct command *command, int status, void *bytes, size_t n, struct out *out);

#endif
