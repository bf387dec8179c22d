/* SPDX-License-Identifier: MIT */
/*
 * A word of the memory that a recorder shares with the programs that it records: it says whether
 * the recorder lives. The programs have no descriptors, permissions and numbers of processes in
 * common with the recorder, which may be killed at any time, and a killed process still has its
 * number until its parent waits for it. So the word is a robust futex of a thread of the recorder
 * (get_robust_list(2)): the kernel itself takes the thread's number out of it when the thread dies.
 */
#ifndef PTAH_RECORD_LIFELINE_H
#define PTAH_RECORD_LIFELINE_H

#include <stdbool.h>
#include <stdint.h>

#define LIFELINE_OWNER 0x3fffffffu /* FUTEX_TID_MASK of <linux/futex.h> */

/* Whether the recorder lives, and takes what programs give it. word: as it is read now. */
static inline bool lifeline_holds(uint32_t word)
{
	return word & LIFELINE_OWNER;
}

struct lifeline;

/* From now on the word says that this process lives. NULL with errno: there is no thread for it. */
struct lifeline *lifeline_begin(uint32_t *word);
/* Nobody is to wait any more: as if the recorder had died. May be called several times. */
void lifeline_cut(struct lifeline *l);
/* Cuts it, and frees it. The word is not used any more. l: may be NULL. */
void lifeline_end(struct lifeline *l);

#endif
