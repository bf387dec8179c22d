/* SPDX-License-Identifier: MIT */
/*
 * Writes the files in which DynamoRIO's drmemtrace keeps the kernel's part of a thread, one piece
 * of trace for each system call: the layout is that of trace_entry.h and syscall_pt_trace.cpp in
 * its sources. All numbers are little-endian, and an entry is 59 bits of value below 5 bits of
 * type.
 */
#ifndef PTAH_TESTS_DRMEMTRACE_H
#define PTAH_TESTS_DRMEMTRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum drmemtrace_type {
	DRMEMTRACE_PID,
	DRMEMTRACE_TID,
	DRMEMTRACE_METADATA, /* value: bytes of metadata that follow */
	DRMEMTRACE_DATA,     /* value: see drmemtrace_put_syscall() */
	DRMEMTRACE_SYSNUM,
	DRMEMTRACE_INDEX,
	DRMEMTRACE_ARGUMENTS, /* value: how many, each of 8 bytes after the header */
};

static inline void drmemtrace_put(FILE *f, enum drmemtrace_type type, uint64_t value)
{
	const uint64_t entry = (uint64_t)type << 59 | (value & (UINT64_MAX >> 5));

	fwrite(&entry, sizeof(entry), 1, f);
}

/* The beginning of a thread's file. metadata: the struct pt_metadata_t of drpttracer_shared.h. */
static inline void drmemtrace_put_metadata(FILE *f, int32_t pid, int32_t tid, const void *metadata,
					   size_t size)
{
	drmemtrace_put(f, DRMEMTRACE_PID, (uint64_t)pid);
	drmemtrace_put(f, DRMEMTRACE_TID, (uint64_t)tid);
	drmemtrace_put(f, DRMEMTRACE_METADATA, size);
	fwrite(metadata, size, 1, f);
}

struct drmemtrace_syscall {
	int32_t pid, tid;
	uint64_t number, index;
	const uint64_t *arguments; /* those of today have none */
	uint64_t argument_count;
	const void *trace;
	size_t size;
	bool old; /* as before October 2023: the size does not count the first three entries */
};

static inline void drmemtrace_put_syscall(FILE *f, const struct drmemtrace_syscall *s)
{
	drmemtrace_put(f, DRMEMTRACE_PID, (uint64_t)s->pid);
	drmemtrace_put(f, DRMEMTRACE_TID, (uint64_t)s->tid);
	drmemtrace_put(f, DRMEMTRACE_DATA, s->size + (s->old ? 24 : 48) + 8 * s->argument_count);
	drmemtrace_put(f, DRMEMTRACE_SYSNUM, s->number);
	drmemtrace_put(f, DRMEMTRACE_INDEX, s->index);
	drmemtrace_put(f, DRMEMTRACE_ARGUMENTS, s->argument_count);
	if (s->argument_count)
		fwrite(s->arguments, 8, s->argument_count, f);
	fwrite(s->trace, s->size, 1, f);
}

#endif
