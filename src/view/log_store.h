/* SPDX-License-Identifier: MIT */
/*
 * Memory for the log of calls (call_log.h): a file without a name that is mapped as it grows, so
 * that the system may write it out when memory is short. Addresses that were handed out stay.
 */
#ifndef PTAH_VIEW_LOG_STORE_H
#define PTAH_VIEW_LOG_STORE_H

#include <ptah/session.h>

#include <stddef.h>
#include <stdint.h>

struct log_store;

/*
 * `folder` gets the file; where none can be made there, the store is in memory and has
 * at most LOG_STORE_MEMORY bytes. `most`: bytes; 0: half of what is free in the folder.
 */
int log_store_new(const char *folder, uint64_t most, struct log_store **store);
void log_store_free(struct log_store *store);

#define LOG_STORE_MEMORY (UINT64_C(64) << 20)

/* Takes n bytes, which are 0. NULL: it is full. Not by several threads at once. */
uint8_t *log_store_take(struct log_store *store, size_t n);

/* Bytes taken so far. */
uint64_t log_store_size(const struct log_store *store);

#endif
