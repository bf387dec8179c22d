/* SPDX-License-Identifier: MIT */
/* What the files of this port share. */
#ifndef PTAH_PORT_WINDOWS_PORT_H
#define PTAH_PORT_WINDOWS_PORT_H

#include "hypertrace_pt.h"

#include <ptah/engine/engine.h>

/* mingw-w64 declares the first two, and has them nowhere; the third needs -msse. */
#ifdef __MINGW32__
#define _mm_sfence() __asm__ volatile("sfence" ::: "memory")
#define _disable()   __asm__ volatile("cli" ::: "memory")
#define _enable()    __asm__ volatile("sti" ::: "memory")
#endif

/* The callbacks, and what they ask; both are complete after PtInitialize(). */
extern struct ptah_hal windows_hal;
extern PT_PLATFORM windows_platform;

VOID windows_hal_init(VOID);

/* Writes the problem, by the name of HyperDbg's field: PT_BAD_CONFIG. */
INT32 windows_refuse(PT_PER_CPU *cpu, const char *field, const char *reason);
/* The result of an engine's function that had a configuration to check, and writes the problem. */
INT32 windows_judge(PT_PER_CPU *cpu, int status, const struct ptah_trace_problem *problem);
INT32 windows_translate(PT_PER_CPU *cpu, const PT_TRACE_CONFIG *from, struct ptah_trace_config *to);

/* Calls work(argument); -1 when it raised an exception, which is caught. */
int windows_guarded(VOID (*work)(PVOID argument), PVOID argument);

#endif
