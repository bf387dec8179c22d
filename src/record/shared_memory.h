/* SPDX-License-Identifier: MIT */
/* The memory that a recorder shares with the programs that it records. */
#ifndef PTAH_RECORD_SHARED_MEMORY_H
#define PTAH_RECORD_SHARED_MEMORY_H

#include <stdint.h>

/*
 * A file of `bytes` zeros in memory, called `name` in /proc. Programs can open it there, so it is
 * sealed: it can neither shrink, which would make every access a SIGBUS, nor grow, and they cannot
 * seal it against writing, so that nobody could map it any more. Returns a descriptor, or -1 with
 * errno.
 */
int shared_memory_create(const char *name, uint64_t bytes);

#endif
