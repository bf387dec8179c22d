/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* bool, true and false as the kernel defines them. */
#ifndef PTAH_LINUX_STDBOOL_H
#define PTAH_LINUX_STDBOOL_H

#include <linux/stddef.h>
#include <linux/types.h>

#endif
