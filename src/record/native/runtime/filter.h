/* SPDX-License-Identifier: MIT */
/*
 * Address filters, as a processor has them: tracing goes on or off where a taken branch, or the
 * kernel, has led to, not where the program goes straight on from one instruction to the next. So
 * the state belongs to the way on which a head was reached, not to the head alone: a unit is made
 * for code that is traced or for code that is not (unit.off), and the exits know which one follows.
 *
 * Ranges of a file are where the file is mapped executable at the time.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_FILTER_H
#define PTAH_RECORD_NATIVE_RUNTIME_FILTER_H

#include "record/native/runtime/runtime.h"

/* Takes what the recorder wants, at the beginning. False: there is no memory. */
bool filter_begin(struct runtime *rt, const struct native_header *constants);
/* Executable memory was mapped: ranges of files may have moved. With the cache's lock. */
void filter_update(struct context *c);

bool filter_has(const struct runtime *rt, uint64_t ip);
bool filter_ends(const struct runtime *rt, uint64_t ip);
bool filter_has_stops(const struct runtime *rt);

/* Whether the program is traced from `ip` on, when a taken branch or the kernel leads there. */
static inline bool filter_traces(const struct runtime *rt, uint64_t ip)
{
	return !rt->filters || filter_has(rt, ip);
}

/* Whether the thread's trace ends for good there. */
static inline bool filter_stops(const struct runtime *rt, uint64_t ip)
{
	return rt->filters && filter_ends(rt, ip);
}

/* Whether tracing is on, in the runtime's own code. */
static inline bool filter_is_on(const struct context *c)
{
	return !c->runtime->filters || c->traced;
}

/* Bytes of a context. */
static inline uint64_t filter_context_bytes(const struct runtime *rt)
{
	return rt->filters ? CONTEXT_BYTES_OFF : CONTEXT_BYTES;
}

#endif
