/* SPDX-License-Identifier: MIT */
/*
 * The log of a thread's system calls, which the runtime writes (runtime/call_log.c) and the
 * recorder takes (call_log.c): a ring of bytes in the thread's slot, with entries one after the
 * other, each of a multiple of 8 bytes.
 *
 *	native_thread.calls_head	written by the thread: bytes that it has written
 *	native_thread.calls_tail	a futex word in its low half, written by the recorder: bytes
 *					that it has taken
 *
 * An entry is there when the head is behind it, so that a thread that was killed leaves whole
 * entries alone. One that finds no room waits; it wakes the recorder at each half of the ring.
 */
#ifndef PTAH_RECORD_NATIVE_CALL_ENTRY_H
#define PTAH_RECORD_NATIVE_CALL_ENTRY_H

#include <stdint.h>

enum native_entry_kind {
	NATIVE_ENTRY_CALL = 1, /* it is about to be made: six arguments */
	NATIVE_ENTRY_RETURN,   /* it has returned: its result */
};

#define NATIVE_ENTRY_WORDS 6
#define NATIVE_ENTRY_DATA  4096 /* PATH_MAX: the most bytes that an argument points to */

/* Followed by its words, and by the bytes that an argument points to, padded to a multiple of 8. */
struct native_entry {
	uint64_t tsc;
	uint64_t ip; /* behind the SYSCALL */
	uint32_t number;
	uint16_t data; /* bytes */
	uint8_t kind;  /* enum native_entry_kind */
	uint8_t argument;
};

#define NATIVE_ENTRY_MAX (sizeof(struct native_entry) + 8 * NATIVE_ENTRY_WORDS + NATIVE_ENTRY_DATA)

static inline unsigned native_entry_words(uint8_t kind)
{
	return kind == NATIVE_ENTRY_CALL ? NATIVE_ENTRY_WORDS : 1;
}

#endif
