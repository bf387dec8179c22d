/* SPDX-License-Identifier: MIT */
/* Counts the instructions in a range of a file's code (session.h). */
#include "session/session.h"
#include "x86/x86.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* No block is longer. */
#define LONGEST (255 * 15)

static int open_file(const struct ptah_session *session, const char *path)
{
	const char *copy = ptah_session_copy(session, path);
	char *local = copy ? NULL : session_path(session, path);
	int fd = -1;

	if (copy || local)
		fd = open(copy ? copy : local, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	free(local);
	return fd;
}

/* 0: the bytes are not whole instructions. */
static unsigned count_insns(const uint8_t *bytes, size_t n, unsigned mode)
{
	struct x86_insn insn;
	unsigned count = 0;

	for (size_t at = 0; at < n; at += insn.size, count++)
		if (x86_decode(bytes + at, n - at, 0, mode, &insn) < 0)
			return 0;
	return count;
}

unsigned session_count_insns(const struct ptah_session *s, int32_t space, uint64_t from,
			     uint64_t to, uint64_t tsc)
{
	uint8_t bytes[LONGEST], class = ELFCLASSNONE;
	struct ptah_map map;
	unsigned count = 0;
	int fd;

	if (to - from > sizeof(bytes) || !ptah_session_find_map(s, space, from, tsc, &map) ||
	    !map.path || !ptah_path_is_file(map.path))
		return 0;
	fd = open_file(s, map.path);
	if (fd < 0)
		return 0;
	if (pread(fd, &class, 1, EI_CLASS) == 1 &&
	    pread(fd, bytes, to - from, (off_t)(map.file_offset + (from - map.address))) ==
		(ssize_t)(to - from))
		count = count_insns(bytes, to - from,
				    class == ELFCLASS32 ? PTAH_EXEC_32 : PTAH_EXEC_64);
	close(fd);
	return count;
}
