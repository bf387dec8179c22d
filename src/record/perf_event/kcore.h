/* SPDX-License-Identifier: MIT */
/* A copy of the kernel's code as it runs, beside a recording: perf record --kcore. */
#ifndef PTAH_RECORD_PERF_EVENT_KCORE_H
#define PTAH_RECORD_PERF_EVENT_KCORE_H

#include <ptah/session.h>

/*
 * Whether /proc/kcore, kallsyms and modules tell this user what is needed: 0,
 * or an error with a sentence. root: what stands before /proc.
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
