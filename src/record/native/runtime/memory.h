/* SPDX-License-Identifier: MIT */
/* Where the memory of the runtime is, and how it begins. The rest is in runtime.h. */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_MEMORY_H
#define PTAH_RECORD_NATIVE_RUNTIME_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct runtime;

/*
 * The recorder and the runtime map what may be anywhere between these addresses. Linux puts
 * position-independent programs above (0x5555...), libraries and stacks far above; programs with
 * fixed addresses are far below, as are the shadows of ThreadSanitizer and AddressSanitizer.
 */
#define MEMORY_LOW  UINT64_C(0x380000000000)
#define MEMORY_HIGH UINT64_C(0x500000000000)

/* The runtime, with nothing filled in but its arena. seed: a random number. NULL: no memory. */
struct runtime *memory_begin(uint64_t seed);
/* Lets memory_is_ours() know of what the recorder has mapped. False: too many ranges. */
bool memory_add(struct runtime *rt, uint64_t start, uint64_t end);

/* Nobody else changes the runtime's memory until memory_release(). Around fork(). */
void memory_hold(struct runtime *rt);
void memory_release(struct runtime *rt);

#endif
