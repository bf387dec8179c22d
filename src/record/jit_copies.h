/* SPDX-License-Identifier: MIT */
/*
 * Copies the lists that the recorded programs' runtimes have written of the code that they
 * generated (maps for perf, jitdumps) beside the recording, where they stay when the programs'
 * files are removed or the numbers of their processes are used again.
 */
#ifndef PTAH_RECORD_JIT_COPIES_H
#define PTAH_RECORD_JIT_COPIES_H

#include "record/recorder.h"

/* Lists that are larger are not copied, nor more than this of all together. */
#define JIT_COPIES_MAX (UINT64_C(1) << 30)

/* Notes when the recording begins: a list that was written before is that of another process. */
void jit_copies_begin(struct ptah_recorder *r);

/* Copies the lists of all processes of the recording, whose writer must still be there. */
void jit_copies_make(struct ptah_recorder *r);

#endif
