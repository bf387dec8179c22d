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

/*
 * Makes FOLDER with kcore (an ELF core file of the code of the kernel and its
 * modules), kallsyms and modules.
 */
int kcore_copy(const char *root, const char *folder, struct ptah_message *why);

/* Removes what kcore_copy() made. */
void kcore_remove(const char *folder);

#endif
