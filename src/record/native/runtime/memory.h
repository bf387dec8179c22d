/* SPDX-License-Identifier: MIT */
/* Where the memory of the runtime is, and how it begins. The rest is in runtime.h. */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_MEMORY_H
#define PTAH_RECORD_NATIVE_RUNTIME_MEMORY_H

#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"

#include <linux/mman.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The recorder and the runtime map what may be anywhere between these addresses, 5 TB below the
 * place of position-independent programs (0x5555...), with room for the code of those. Sanitizers
 * refuse to start where something is mapped in their shadows, and map all that they do not let a
 * program use: this is what each of them leaves to programs. ThreadSanitizer has that from
 * 0x550000000000, MemorySanitizer and DataFlowSanitizer from 0x510000000000 and AddressSanitizer
 * from 0x10007fff8000 on; none of them puts its heap or its shadow below 0x600000000000 again.
 * Programs with fixed addresses, Go, ZGC and V8 are far below, libraries and stacks far above.
 */
#define MEMORY_LOW  UINT64_C(0x550000000000)
#define MEMORY_HIGH UINT64_C(0x555500000000)

/* The runtime, with nothing filled in but its arena. seed: a random number. NULL: no memory. */
struct runtime *memory_begin(uint64_t seed);
/* Lets memory_is_ours() know of what the recorder has mapped. False: too many ranges. */
bool memory_add(struct runtime *rt, uint64_t start, uint64_t end);

/*
 * The memory that is shared with the recorder, once it is mapped, is in no core file. A failure
 * only makes these larger, and slower to write.
 */
static inline void memory_not_dumped(const struct runtime *rt)
{
	if (rt->denied & NATIVE_NEEDS_ADVICE)
		return;
	sys_call(__NR_madvise, (uintptr_t)rt->shared, native_bytes(), MADV_DONTDUMP, 0, 0, 0);
}

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/*
 * Takes all access from a page that can be written to. Since Linux 6.13 (6.15 for shared memory)
 * that needs no mapping of its own, of which the kernel allows a process 65,530.
 */
static inline bool memory_guard(struct runtime *rt, uint64_t page)
{
	if (NATIVE_LIMIT(true, false) && !(rt->denied & NATIVE_NEEDS_ADVICE) &&
	    !sys_call(__NR_madvise, page, NATIVE_PAGE, MADV_GUARD_INSTALL, 0, 0, 0))
		return true;
	__atomic_store_n(&rt->guards_are_mappings, true, __ATOMIC_RELAXED);
	return !sys_call(__NR_mprotect, page, NATIVE_PAGE, PROT_NONE, 0, 0, 0);
}

/* Nobody else changes the runtime's memory until memory_release(). Around fork(). */
void memory_hold(struct runtime *rt);
void memory_release(struct runtime *rt);

#endif
