/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the logs of system calls: takes what threads have written, puts it into
 * the order of time, and writes it as samples (perfdata_write_call()). The logs belong to the
 * recorded programs as much as to us: an entry is copied before it is looked at, and one that makes
 * no sense ends what is taken of its log.
 */
#ifndef PTAH_RECORD_NATIVE_CALL_LOG_H
#define PTAH_RECORD_NATIVE_CALL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recording;

/* An entry that was taken. */
struct taken_call {
	uint64_t tsc;
	size_t at;     /* of the entry in native_calls.bytes */
	uint32_t slot; /* whose thread's it is */
};

/* All zeros at first. Both lists are only used within a call, and kept for the next one. */
struct native_calls {
	uint8_t *bytes;
	size_t size, room;
	struct taken_call *list;
	size_t count, list_room;
	bool unordered; /* an entry is earlier than the one before it */
};

/* Takes and writes what all threads have logged. */
void native_take_calls(struct recording *r);
void native_calls_free(struct native_calls *calls);

#endif
