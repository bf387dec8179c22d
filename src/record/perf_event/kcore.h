/* SPDX-License-Identifier: MIT */
/* Copies the running kernel's code beside a recording, as perf record --kcore does. */
#ifndef PTAH_RECORD_PERF_EVENT_KCORE_H
#define PTAH_RECORD_PERF_EVENT_KCORE_H

#include <ptah/session.h>

/*
 * Whether this user may read what is needed of /proc/kcore, kallsyms and modules: 0, or an error
 * with a sentence. root: prefix of /proc, "" outside tests.
 */
int kcore_check(const char *root, struct ptah_message *why);

/* The next bytes of one of the copy's files. */
struct kcore_piece {
	const char *name; /* "kcore", "kallsyms" or "modules" */
	uint64_t offset;  /* of the bytes in the file; 0: the file begins */
	const void *bytes;
	size_t size; /* 0: the file is empty */
};

/* Takes a piece; a negative result ends the copy, with *why as the sentence if it is set. */
struct kcore_sink {
	int (*take)(void *context, const struct kcore_piece *piece, struct ptah_message *why);
	void *context;
};

/*
 * Passes on the files of a copy, each from its first byte to its last: kcore (an ELF core file of
 * the code of the kernel and its modules), kallsyms, modules.
 */
int kcore_send(const char *root, const struct kcore_sink *sink, struct ptah_message *why);

/* Makes FOLDER with these files. On failure nothing is left of it. */
int kcore_copy(const char *root, const char *folder, struct ptah_message *why);

/* Removes what kcore_copy() made. */
void kcore_remove(const char *folder);

#endif
