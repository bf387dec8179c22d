/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* size_t, NULL and offsetof() as the kernel defines them. */
#ifndef PTAH_LINUX_STDDEF_H
#define PTAH_LINUX_STDDEF_H

#include <linux/stddef.h>
#include <linux/types.h>

#endif
