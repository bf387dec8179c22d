/* SPDX-License-Identifier: MIT */
#ifndef PTAH_PORT_NULL_PORT_H
#define PTAH_PORT_NULL_PORT_H

#include <ptah/hal.h>

extern const struct ptah_hal null_port;

#endif
