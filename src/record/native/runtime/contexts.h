/* SPDX-License-Identifier: MIT */
/* Contexts of threads, and their slots in the shared memory. */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_CONTEXTS_H
#define PTAH_RECORD_NATIVE_RUNTIME_CONTEXTS_H

#include "record/native/runtime/runtime.h"

/*
 * A free slot, which is ACTIVE then. NULL: all are in use. Waits for the recorder where threads
 * have ended whose slots it has not freed yet.
 */
struct native_thread *slot_claim(struct context *c);
/* NULL: nothing happens. */
void slot_release(struct native_thread *slot);

/*
 * A context for a thread that its parent is about to start with these flags. It has a slot, or
 * writes its trace to where nobody reads it (context.discards). NULL: there is no memory.
 */
struct context *context_take(struct context *parent, uint64_t clone_flags);
/* The same with a slot that was claimed already. NULL: none. */
struct context *context_take_with(struct context *parent, struct native_thread *slot,
				  uint64_t clone_flags);
struct native_thread *slot_at(const struct runtime *rt, unsigned n);
/* Reports the thread to the recorder, if it has a slot. Its log has begun. */
void context_report(struct context *c);
/*
 * Its logs begin in this slot, of which it tells the recorder. False: they cannot, and the slot is
 * not the thread's.
 */
bool context_begin(struct context *c, struct native_thread *slot);
/* The thread could not be started. */
void context_give_back(struct context *c);
/* The thread ends. Its context may be another thread's at once. */
_Noreturn void context_end(struct context *c, uint64_t status);

#endif
