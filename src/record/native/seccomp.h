/* SPDX-License-Identifier: MIT */
/* What a seccomp filter that the recorder lives under, and so its programs, lets through. */
#ifndef PTAH_RECORD_NATIVE_SECCOMP_H
#define PTAH_RECORD_NATIVE_SECCOMP_H

#include <stdint.h>

/*
 * Makes the system calls that the recorder and its runtime need, in a child: a filter may kill who
 * calls. NULL: all of them work; else the name of the first that does not.
 */
const char *native_seccomp_denied(void);

/* So many filters a process has. UINT32_MAX: some (before Linux 5.9 the kernel does not say). */
uint32_t native_seccomp_filters(int32_t pid);

#endif
