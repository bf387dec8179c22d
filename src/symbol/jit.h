/* SPDX-License-Identifier: MIT */
/*
 * Code that a process generated while it ran, as its runtime has listed it: in a map for perf
 * (/tmp/perf-PID.map), which has a name for each range of addresses, or in a jitdump, which also
 * has times, the code itself and its lines.
 */
#ifndef PTAH_SYMBOL_JIT_H
#define PTAH_SYMBOL_JIT_H

#include "symbol/ranges.h"

/* Files that are larger are not read. */
#define SYMBOL_JIT_FILE_MAX (UINT64_C(1) << 30)

/* Code that was at [head, head + size); the piece [start, end) of it has not been replaced. */
struct symbol_jit_code {
	uint64_t start, end;
	uint64_t head, size;
	uint64_t from; /* the time from which it was there; 0: always */
	size_t name;
	size_t order;	      /* its place in the file: what follows replaces what precedes */
	const uint8_t *bytes; /* `size` bytes; NULL: they are not known */
	/* Its lines, as they are in the file, and the address of its first byte in them. */
	const uint8_t *debug;
	uint64_t lines, debug_head;
};

struct symbol_jit {
	struct symbol_jit_code *codes; /* sorted by start once the file has been read */
	size_t count, room;
	uint64_t *reach; /* the highest end of all codes up to each */
	struct symbol_names names;
	uint8_t *file; /* of a jitdump */
	size_t file_size;
	bool failed; /* out of memory, or too many */
	/* Of a jitdump: */
	uint64_t time;	   /* at which it was begun, by its own clock; 0: not known */
	bool is_tsc;	   /* its clock is the TSC, and not CLOCK_MONOTONIC */
	int32_t pid;	   /* of the process that wrote it */
	bool is_truncated; /* its last record is not complete */
};

/*
 * Reads a map for perf. A line is "START SIZE NAME", both numbers hexadecimal; lines that are not
 * so are ignored. Where lines overlap, the last one is valid. PTAH_E_SYSTEM (errno), PTAH_E_NOMEM.
 * `owner`: refuse a file of another user than this one, of root, and of who calls (errno EPERM).
 */
int symbol_perf_map_read(const char *path, bool owner, struct symbol_jit *jit);

/*
 * Reads a jitdump (tools/perf/Documentation/jitdump-specification.txt of Linux). PTAH_E_BAD_MAGIC:
 * it is none of x86-64. What follows a damaged or incomplete record is left out.
 */
int symbol_jitdump_read(const char *path, struct symbol_jit *jit);

void symbol_jit_free(struct symbol_jit *jit);

/* The bytes of a regular file, and a NUL. The caller frees them. An error as above. */
int symbol_read_file(const char *path, bool owner, uint8_t **bytes, size_t *size);

/* For the readers: adds code; ends with the index for look-ups. */
void symbol_jit_add(struct symbol_jit *jit, struct symbol_jit_code code);
int symbol_jit_index(struct symbol_jit *jit);

/* Cuts off what was replaced by code that follows in the file, for files without times. */
void symbol_jit_replace(struct symbol_jit *jit);

/*
 * The code that was at `address` at time `tsc`, 0: the last one. Where none was there yet, it is
 * the first one after that time: something ran there, and the times in a trace are coarse. [*low,
 * *high) is the part of it that was there. NULL: none is known.
 */
const struct symbol_jit_code *symbol_jit_find(const struct symbol_jit *jit, uint64_t address,
					      uint64_t tsc, uint64_t *low, uint64_t *high);

static inline const char *symbol_jit_name(const struct symbol_jit *jit,
					  const struct symbol_jit_code *code)
{
	return jit->names.bytes + code->name;
}

/*
 * The line of the byte at `inside` of code of a jitdump. *file lives as long as the jitdump, and
 * may have characters that must not reach a terminal. False: not known.
 */
bool symbol_jit_line(const struct symbol_jit *jit, const struct symbol_jit_code *code,
		     uint64_t inside, const char **file, unsigned *line);

#endif
