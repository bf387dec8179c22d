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
	size_t at;   /* of the entry in native_calls.bytes */
	size_t size; /* of it */
	int32_t pid, tid;
};

/* All zeros at first. The first two lists are only used within a call, and left for the next one. */
struct native_calls {
	uint8_t *bytes;
	size_t size, room;
	struct taken_call *list;
	size_t count, list_room;
	bool unordered; /* an entry is earlier than the one before it */
	/*
	 * Where the end of the trace alone is kept: so are calls, each as a struct taken_call and
	 * its entry. The first `gone` bytes are of calls that are not kept any more.
	 */
	uint8_t *kept;
	size_t kept_size, kept_room, gone;
};

/* Takes what all threads have logged, and writes or keeps it. */
void native_take_calls(struct recording *r);
/* Writes what is kept; it is not kept any more. */
void native_write_kept_calls(struct recording *r);
void native_calls_free(struct native_calls *calls);

#endif
