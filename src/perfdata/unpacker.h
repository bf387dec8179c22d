/* SPDX-License-Identifier: MIT */
/*
 * Unpacks compressed records (perf record -z), COMPRESSED and COMPRESSED2. Each of them holds a
 * piece of one zstd stream; a record in that stream may begin in one piece and end in a later one.
 *
 *	status = perfdata_unpacker_begin(u, record, size);
 *	while (status >= 0 && (status = perfdata_unpacker_next(u, &records, &n)) > 0)
 *		status = use(records, n);
 */
#ifndef PTAH_PERFDATA_UNPACKER_H
#define PTAH_PERFDATA_UNPACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perfdata_unpacker;

/* What is wrong with a compressed record. */
enum perfdata_unpack_fault {
	PERFDATA_UNPACK_SHORT,	    /* it says that it holds more than it does */
	PERFDATA_UNPACK_DAMAGED,    /* zstd does not understand its data */
	PERFDATA_UNPACK_TOO_BIG,    /* it becomes implausibly large */
	PERFDATA_UNPACK_NO_RECORDS, /* a record in it is smaller than a record's header */
};

/* `most`: the largest size of what one compressed record holds; 0: not known. NULL: no memory. */
struct perfdata_unpacker *perfdata_unpacker_new(uint32_t most);
/* `u`: NULL too. */
void perfdata_unpacker_free(struct perfdata_unpacker *u);

/* Another zstd stream begins. What the last one left incomplete is forgotten. */
void perfdata_unpacker_restart(struct perfdata_unpacker *u);

/*
 * Begins to unpack a whole compressed record, with its header. Its bytes must stay until
 * perfdata_unpacker_next() has returned 0. 0, or PTAH_E_BAD_FILE and a fault.
 */
int perfdata_unpacker_begin(struct perfdata_unpacker *u, const uint8_t *record, size_t size);

/*
 * Unpacks some of the records that the compressed one completes. 1: *records has whole records, one
 * after the other, *n bytes, until the next call; 0: there are no more; PTAH_E_BAD_FILE: a fault.
 */
int perfdata_unpacker_next(struct perfdata_unpacker *u, const uint8_t **records, size_t *n);

/* What was wrong, after PTAH_E_BAD_FILE. */
enum perfdata_unpack_fault perfdata_unpacker_fault(const struct perfdata_unpacker *u);

/* Whether the last record in the stream is not complete. `u`: NULL too. */
bool perfdata_unpacker_is_cut(const struct perfdata_unpacker *u);

#endif
