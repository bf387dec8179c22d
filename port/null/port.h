/* SPDX-License-Identifier: MIT */
/* The null port's callbacks, for start.c. */
#ifndef PTAH_PORT_NULL_PORT_H
#define PTAH_PORT_NULL_PORT_H

#include <ptah/engine/hal.h>

extern const struct ptah_hal null_port;

#endif
