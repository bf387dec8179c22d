/* SPDX-License-Identifier: MIT */
/* The null port's table of callbacks (port.c), for the program that links with it (start.c). */
#ifndef PTAH_PORT_NULL_PORT_H
#define PTAH_PORT_NULL_PORT_H

#include <ptah/hal.h>

extern const struct ptah_hal null_port;

#endif
