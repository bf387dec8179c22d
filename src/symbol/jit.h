/* SPDX-License-Identifier: MIT */
/*
 * Code that a process generated while it ran, as its runtime has listed it: in a map for perf
 * (/tmp/perf-PID.map), which has a name for each range of addresses, or in a jitdump, which also
 * has times, the code itself and its lines.
 */
#ifndef PTAH_SYMBOL_JIT_H
#define PTAH_SYMBOL_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Files that are larger are not read. */
#define SYMBOL_JIT_FILE_MAX (UINT64_C(1) << 30)

/* Code that was at [head, head + size); the piece [start, end) of it has not been replaced. */
struct symbol_jit_code {
	uint64_t start, end;
	uint64_t head, size;
	uint64_t from; /* the time from which it was there; 0: always */
	const char *name;
	size_t order;	      /* its place in the file: what follows replaces what precedes */
	const uint8_t *bytes; /* `size` bytes; NULL: they are not known */
	/* Its lines, as they are in the file, and the address of its first byte in them. */
	const uint8_t *debug;
	uint64_t lines, debug_size, debug_head;
};

/* Each sorted part of a list is at least twice as long as the next one. */
#define SYMBOL_JIT_RUNS 32

/*
 * A list of code. It may grow while it is in use: what is added is not found before
 * symbol_jit_index(), and names that were found stay where they are until the list is freed.
 */
struct symbol_jit {
	struct symbol_jit_code *codes;
	size_t count, room;
	size_t indexed;		      /* so many are in runs; those after them were added since */
	size_t runs[SYMBOL_JIT_RUNS]; /* where each run ends; it is sorted by start */
	size_t run_count;
	uint64_t *reach; /* the highest end of all codes of the run up to each */
	size_t reach_room;
	struct symbol_jit_block *blocks; /* names, and what else was copied */
	size_t kept, named;		 /* bytes in them; those of names */
	size_t order;			 /* of the next code */
	uint8_t *file;			 /* of a jitdump that was read at once */
	size_t file_size;
	bool no_times; /* a map: of each address the last code alone is kept */
	bool failed;   /* out of memory, or too many */
	/* Of a jitdump: */
	uint64_t time;	     /* at which it was begun, by its own clock; 0: not known */
	bool is_tsc;	     /* its clock is the TSC, and not CLOCK_MONOTONIC */
	int32_t pid;	     /* of the process that wrote it */
	bool is_truncated;   /* its last record is not complete */
	uint64_t line_shift; /* how far lines are behind their code */
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

/* Bytes of memory that a list takes. */
size_t symbol_jit_memory(const struct symbol_jit *jit);

/* The bytes of a regular file, and a NUL. The caller frees them. An error as above. */
int symbol_read_file(const char *path, bool owner, uint8_t **bytes, size_t *size);

/*
 * The readers call this: it adds code, after its name was kept; ends with the index for look-ups.
 */
void symbol_jit_add(struct symbol_jit *jit, struct symbol_jit_code code);
int symbol_jit_index(struct symbol_jit *jit);

/* Copies bytes, which stay as long as the list. NULL: out of memory, and the list has failed. */
const void *symbol_jit_keep(struct symbol_jit *jit, const void *bytes, size_t n);
/* The same for a name of `n` bytes, of which control characters are replaced. Never NULL. */
const char *symbol_jit_keep_name(struct symbol_jit *jit, const char *name, size_t n);

/* The parsers, for bytes that come in parts */

/*
 * Takes the complete lines of a map; `last`: also the one at the end that is not. Returns how many
 * bytes were used: what follows is to come again, with more.
 */
size_t symbol_perf_map_take(struct symbol_jit *jit, const uint8_t *bytes, size_t n, bool last);

/* What the reader of a jitdump keeps from one record to the next. */
struct symbol_jitdump {
	bool copies; /* the bytes that are taken do not stay: lines are copied, */
	bool code;   /* and so is code */
	bool damaged;
	uint64_t time; /* of the record */
	/* The lines that the next code of this address has. */
	const uint8_t *debug;
	uint64_t debug_address, lines, debug_size;
	uint64_t taken, moved; /* bytes of records, and of code that was moved */
	/* How far lines are from the beginning of their code: the least, and whether any is behind
	 * the end. */
	uint64_t least;
	bool beyond;
	/* The last codes, as a ring: `recent_next` is where the next one goes. */
	struct symbol_jit_code *recent;
	size_t recent_count, recent_room, recent_next;
};

#define SYMBOL_JITDUMP_HEADER 40

/* Takes the header. Returns the header's size; or PTAH_E_BAD_MAGIC. n: at least as above. */
int64_t symbol_jitdump_begin(struct symbol_jitdump *dump, struct symbol_jit *jit,
			     const uint8_t *bytes, size_t n);

/*
 * Takes complete records. Returns how many bytes were used: what follows is to come again when
 * there are *wanted bytes from there on; 0: nothing follows.
 */
size_t symbol_jitdump_take(struct symbol_jitdump *dump, struct symbol_jit *jit,
			   const uint8_t *bytes, size_t n, size_t *wanted);
void symbol_jitdump_end(struct symbol_jitdump *dump);

/*
 * A list that is read while it is written: jit_file.c. Its file stays open, so that it may be
 * deleted.
 */
struct symbol_jit_file {
	int fd; /* -1: it is closed */
	bool is_dump;
	bool begun;	 /* the header of a jitdump was read */
	bool ended;	 /* damaged, or too large: nothing more is read */
	uint64_t offset; /* up to which it was read, */
	uint64_t wanted; /* and the size that it must have before there is more */
	uint64_t restarts;
	uint8_t first[64]; /* its first bytes: another file has others */
	size_t first_size;
	struct symbol_jitdump dump;
};

/* `code`: copies code, too. Takes the descriptor over, which is of a regular file. */
void symbol_jit_file_init(struct symbol_jit_file *file, int fd, bool is_dump, bool code);
void symbol_jit_file_close(struct symbol_jit_file *file);

/*
 * Reads the header of a jitdump. 1: it is known; 0: it has not been written yet, or the file is a
 * map; PTAH_E_BAD_MAGIC.
 */
int symbol_jit_file_begin(struct symbol_jit_file *file, struct symbol_jit *jit);

/*
 * Reads what has been written since, about `most` bytes of it, and adds its code, which the caller
 * puts into the index. A file that was written anew is read anew. `last`: nothing more will be
 * written. Returns how many bytes were read; or an error.
 */
int64_t symbol_jit_file_more(struct symbol_jit_file *file, struct symbol_jit *jit, uint64_t most,
			     bool last);

/*
 * The code that was at `address` at time `tsc`, 0: the last one. Where none was there yet, it is
 * the first one after that time: something ran there, and the times in a trace are coarse. [*low,
 * *high) is the part of it that was there. NULL: none is known.
 */
const struct symbol_jit_code *symbol_jit_find(const struct symbol_jit *jit, uint64_t address,
					      uint64_t tsc, uint64_t *low, uint64_t *high);

/* The first time after `tsc` at which other code comes to the address; UINT64_MAX: none does. */
uint64_t symbol_jit_until(const struct symbol_jit *jit, uint64_t address, uint64_t tsc);

static inline const char *symbol_jit_name(const struct symbol_jit *jit,
					  const struct symbol_jit_code *code)
{
	(void)jit;
	return code->name;
}

/*
 * The line of the byte at `inside` of code of a jitdump. *file lives as long as the jitdump, and
 * may have characters that must not reach a terminal. False: not known.
 */
bool symbol_jit_line(const struct symbol_jit *jit, const struct symbol_jit_code *code,
		     uint64_t inside, const char **file, unsigned *line);

#endif
