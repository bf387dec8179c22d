/* SPDX-License-Identifier: MIT */
/*
 * The memory that is shared with recorded programs keeps its size, whoever opens it: an access
 * behind its end would be a SIGBUS (memfd_create(2), fcntl(2)).
 */
#include "test.h"

#include "record/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536

static int open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

TEST(truncated)
{
	const int fd = shared_memory_create("test", BYTES), other = open_again(fd);
	char *at;

	assert_true(fd >= 0 && other >= 0);
	assert_true(ftruncate(other, 0) && errno == EPERM);
	assert_true(ftruncate(other, (off_t)BYTES << 10) && errno == EPERM);
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	at[BYTES - 1] = 1;
	munmap(at, BYTES);
	close(other);
	close(fd);
}

/* Programs that begin later map it for writing. */
TEST(sealed)
{
	const int fd = shared_memory_create("test", BYTES), other = open_again(fd);
	void *at;

	assert_true(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE) && errno == EPERM);
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	assert_true(at != MAP_FAILED);
	munmap(at, BYTES);
	close(other);
	close(fd);
}
