/* SPDX-License-Identifier: MIT */
/* What the engine needs of <string.h>, in a kernel that has the functions and not the header. */
#ifndef PTAH_PORT_FREEBSD_KERNEL_STRING_H
#define PTAH_PORT_FREEBSD_KERNEL_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

#endif
