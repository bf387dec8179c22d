/* SPDX-License-Identifier: MIT */
/* See shared_memory.h. */
#include "record/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int shared_memory_create(const char *name, uint64_t bytes)
{
	const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error;

	if (fd < 0 || (!ftruncate(fd, (off_t)bytes) &&
		       !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}
