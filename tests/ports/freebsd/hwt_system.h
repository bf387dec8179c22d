/* SPDX-License-Identifier: MIT */
/* For port/freebsd/record/record.c: the modelled devices in the place of FreeBSD's headers. */
#ifndef PTAH_TESTS_PORTS_FREEBSD_HWT_SYSTEM_H
#define PTAH_TESTS_PORTS_FREEBSD_HWT_SYSTEM_H

#include "devices.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#undef CPU_SETSIZE
#define CPU_SETSIZE MAXCPU

#define main				ptah_hwt_main
#define open(path, flags, mode)		device_open(path, flags, mode)
#define ioctl(fd, request, argument)	device_ioctl(fd, request, argument)
#define mmap(a, size, prot, map, fd, o) device_mmap(a, size, prot, map, fd, o)
#define pipe(ends)			device_pipe(ends)
#define fork()				device_fork()
#define waitpid(pid, status, flags)	device_waitpid(pid, status, flags)
#define usleep(us)			((void)(us))
#define kqueue()			(-1)

#endif
