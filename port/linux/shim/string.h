/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The two functions that the engine uses. The kernel has them. */
#ifndef PTAH_LINUX_STRING_H
#define PTAH_LINUX_STRING_H

#include <linux/types.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

#endif
