/* SPDX-License-Identifier: MIT */
/* What the files of this port share. */
#ifndef PTAH_PORT_WINDOWS_HAL_H
#define PTAH_PORT_WINDOWS_HAL_H

#include "hypertrace_pt.h"

#include <ptah/engine.h>

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

/* Calls work(argument); -1 when it raised an exception, which is caught. */
int windows_guarded(VOID (*work)(PVOID argument), PVOID argument);

#endif
