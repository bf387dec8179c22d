/* SPDX-License-Identifier: MIT */
/* The headers of FreeBSD that the recorder needs. The test has another file of this name. */
#ifndef PTAH_PORT_FREEBSD_RECORD_HWT_SYSTEM_H
#define PTAH_PORT_FREEBSD_RECORD_HWT_SYSTEM_H

#include <sys/param.h>
#include <sys/cpuset.h>
#include <sys/event.h>
#include <sys/hwt.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <amd64/pt/pt.h>

#endif
