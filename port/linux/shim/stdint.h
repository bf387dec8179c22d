/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The types of <stdint.h> as the kernel defines them: a kernel is built without the headers of a C
 * library, and those of the compiler give int64_t another type.
 */
#ifndef PTAH_LINUX_STDINT_H
#define PTAH_LINUX_STDINT_H

#include <linux/limits.h>
#include <linux/types.h>

#define UINT32_C(value) value##U
#define UINT64_C(value) value##ULL
#define INT64_C(value)	value##LL

#ifndef UINT8_MAX
#define UINT8_MAX  0xffU
#define UINT16_MAX 0xffffU
#define UINT32_MAX 0xffffffffU
#define UINT64_MAX UINT64_C(0xffffffffffffffff)
#define INT32_MAX  0x7fffffff
#define INT64_MAX  INT64_C(0x7fffffffffffffff)
#endif

#endif
