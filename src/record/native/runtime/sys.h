/* SPDX-License-Identifier: MIT */
/*
 * System calls of the runtime itself, without libc. Only the files that do what a call says use
 * it: memory.c, messages.c, ring.c, syscalls.c, signals.c, threads.c, leave.c, start.c, mappings.c,
 * changes.c, attach.c, call_log.c.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_SYS_H
#define PTAH_RECORD_NATIVE_RUNTIME_SYS_H

#include <asm/unistd.h>
#include <stdbool.h>
#include <stdint.h>

/* The kernel's largest error number: results from -SYS_ERROR_MAX to -1 are errors. */
#define SYS_ERROR_MAX 4095

/* The kernel's result: -errno for an error. Arguments that a call does not have are ignored. */
static inline int64_t sys_call(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			       uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	int64_t result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline void sys_set_gs(const void *base)
{
	__asm__ volatile("wrgsbase %0" : : "r"(base) : "memory");
}

static inline bool sys_is_error(int64_t result)
{
	return (uint64_t)result >= (uint64_t)-SYS_ERROR_MAX;
}

#endif
