/* SPDX-License-Identifier: MIT */
/*
 * A system call as recorders pass it from where it is made to where it is written
 * (call_samples.h): one entry at its beginning and one at its end, each of a multiple of 8 bytes.
 *
 * The recorder native has a ring of them in each thread's slot, which its runtime writes
 * (native/runtime/call_log.c) and the recorder takes (native/call_log.c):
 *
 *	native_thread.calls_head	written by the thread: bytes that it has written
 *	native_thread.calls_tail	a futex word in its low half, written by the recorder: bytes
 *					that it has taken
 *
 * An entry is there when the head is behind it, so that a thread that was killed leaves whole
 * entries alone. One that finds no room waits; it wakes the recorder at each half of the ring.
 * With the recorders qemu and ptrace an entry is a message.
 */
#ifndef PTAH_RECORD_CALL_ENTRY_H
#define PTAH_RECORD_CALL_ENTRY_H

#include <stdint.h>

enum call_entry_kind {
	CALL_ENTRY_CALL = 1, /* it is about to be made: six arguments */
	CALL_ENTRY_RETURN,   /* it has returned: its result */
};

#define CALL_ENTRY_WORDS 6
#define CALL_ENTRY_DATA	 4096 /* PATH_MAX: the most bytes that an argument points to */

/* Followed by its words, and by the bytes that an argument points to, padded to a multiple of 8. */
struct call_entry {
	uint64_t tsc;
	uint64_t ip; /* behind the SYSCALL */
	uint32_t number;
	uint16_t data; /* bytes */
	uint8_t kind;  /* enum call_entry_kind */
	uint8_t argument;
};

#define CALL_ENTRY_MAX (sizeof(struct call_entry) + 8 * CALL_ENTRY_WORDS + CALL_ENTRY_DATA)

static inline unsigned call_entry_words(uint8_t kind)
{
	return kind == CALL_ENTRY_CALL ? CALL_ENTRY_WORDS : 1;
}

#endif
