/* SPDX-License-Identifier: MIT */
/* Reads /proc/self/maps: see proc_maps.h. */
#include "record/native/runtime/proc_maps.h"

#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"

#include <linux/fcntl.h>
#include <linux/mman.h>

bool proc_maps_open(const struct runtime *rt, struct proc_maps *in, uint8_t *buffer)
{
	static const char path[] = "/proc/self/maps";
	int64_t file;

	if (rt->denied & NATIVE_NEEDS_MAPS)
		return false;
	file = sys_call(__NR_openat, (uint64_t)AT_FDCWD, (uintptr_t)path, O_RDONLY | O_CLOEXEC, 0,
			0, 0);
	*in = (struct proc_maps){.file = (uint64_t)file, .buffer = buffer};
	return !sys_is_error(file);
}

void proc_maps_close(struct proc_maps *in)
{
	sys_call(__NR_close, in->file, 0, 0, 0, 0, 0);
}

/* The next character; -1: the end. */
static int next(struct proc_maps *in)
{
	if (in->at == in->end) {
		const int64_t got =
		    sys_call(__NR_read, in->file, (uintptr_t)in->buffer, PROC_MAPS_BUFFER, 0, 0, 0);

		if (got <= 0)
			return in->last = -1;
		in->at = 0;
		in->end = (uint32_t)got;
	}
	return in->last = in->buffer[in->at++];
}

static uint64_t read_number(struct proc_maps *in, unsigned base)
{
	uint64_t n = 0;

	for (;;) {
		const int c = next(in);

		if (c >= '0' && c <= '9')
			n = n * base + (unsigned)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			n = n * base + (unsigned)(c - 'a') + 10;
		else
			return n;
	}
}

/* The rest of a line, without the blanks before it. */
static void read_path(struct proc_maps *in)
{
	uint32_t n = 0;

	while (in->last == ' ')
		next(in);
	for (; in->last >= 0 && in->last != '\n'; next(in))
		if (n + 1 < in->path_room)
			in->path[n++] = (char)in->last;
	if (in->path_room)
		in->path[n] = 0;
}

/* A line: "start-end rwxp offset major:minor inode path". */
bool proc_maps_next(struct proc_maps *in, struct native_mapping *m)
{
	*m = (struct native_mapping){.start = read_number(in, 16)};
	if (in->last < 0)
		return false;
	m->end = read_number(in, 16);
	m->protection |= next(in) == 'r' ? PROT_READ : 0;
	m->protection |= next(in) == 'w' ? PROT_WRITE : 0;
	m->protection |= next(in) == 'x' ? PROT_EXEC : 0;
	m->shared = next(in) == 's';
	next(in);
	m->offset = read_number(in, 16);
	m->device = (uint32_t)(read_number(in, 16) << 20);
	m->device |= (uint32_t)read_number(in, 16);
	m->inode = read_number(in, 10);
	read_path(in);
	return true;
}
