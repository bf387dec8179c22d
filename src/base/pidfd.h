/* SPDX-License-Identifier: MIT */
/* How a process ended, by its pidfd, also when its parent has waited for it already. */
#ifndef PTAH_BASE_PIDFD_H
#define PTAH_BASE_PIDFD_H

#include <errno.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* PIDFD_GET_INFO of <linux/pidfd.h>, since Linux 6.13; the exit status since 6.15. */
struct pidfd_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
#define PIDFD_INFO_IOCTL _IOWR(0xff, 11, char[64])
#define PIDFD_INFO_ENDED (UINT64_C(1) << 3)

/* 1: *wait_status is as of waitpid(); 0: not yet known; -1: this kernel does not tell it. */
static inline int pidfd_wait_status(int fd, int *wait_status)
{
	struct pidfd_info info = {.mask = PIDFD_INFO_ENDED};

	if (ioctl(fd, PIDFD_INFO_IOCTL, &info) < 0)
		return errno == ESRCH || errno == ENOTTY || errno == EINVAL || errno == EBADF ? -1
											      : 0;
	if (!(info.mask & PIDFD_INFO_ENDED))
		return 0;
	*wait_status = info.exit_code;
	return 1;
}

#endif
