/* SPDX-License-Identifier: MIT */
/*
 * System calls on their way into a recording: takes the entries that threads have left
 * (call_entry.h), puts them into the order of time, and writes them as samples
 * (perfdata_write_call()), or keeps the last ones for a snapshot. Entries come from recorded
 * programs: one that makes no sense ends what is taken with it.
 */
#ifndef PTAH_RECORD_CALL_SAMPLES_H
#define PTAH_RECORD_CALL_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptah_recorder;

/* An entry that was taken. */
struct taken_call {
	uint64_t tsc;
	size_t at;   /* of the entry in call_samples.bytes */
	size_t size; /* of it */
	int32_t pid, tid;
};

/* All zeros at first. The first two lists are left for the next time when they are written. */
struct call_samples {
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

/* Whose entries are taken. */
struct call_origin {
	int32_t pid, tid;
	uint64_t *last;	 /* time of the thread's last entry: times do not go back, */
	uint64_t latest; /* nor are they later than this */
};

/* Room for n bytes of entries, which the caller fills. NULL: there is no memory. */
uint8_t *call_samples_room(struct call_samples *calls, size_t n);
/* Takes the n bytes that were put there. PTAH_E_NOMEM; 1: there is something else than entries. */
int call_samples_take(struct call_samples *calls, size_t n, const struct call_origin *origin);

/* Writes what was taken, or keeps the last bytes of it, as the recorder's policy has it. */
int call_samples_pass(struct call_samples *calls, struct ptah_recorder *r, size_t most);
/* Writes what is kept; it is not kept any more. */
void call_samples_write_kept(struct call_samples *calls, struct ptah_recorder *r);
void call_samples_free(struct call_samples *calls);

#endif
