/* SPDX-License-Identifier: MIT */
/* Reads jitdumps: the code that a runtime generated, with its times, bytes and lines (jit.h). */
#include "base/reader.h"
#include "base/text.h"
#include "symbol/jit.h"

#include <ptah/error.h>

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC	    0x4a695444 /* "JiTD" */
#define HEADER_SIZE 40
#define PREFIX_SIZE 16
#define FLAG_TSC    1

enum record_type {
	RECORD_LOAD,
	RECORD_MOVE,
	RECORD_DEBUG_INFO,
};

/* A name of one byte 0xff: that of the entry before. */
static bool is_same_file(const char *name, size_t n)
{
	return n == 1 && (uint8_t)name[0] == 0xff;
}

/* What the reader keeps from one record to the next. */
struct dump {
	struct symbol_jit *jit;
	uint64_t time; /* of the record */
	/* The lines that the next code of this address has. */
	const uint8_t *debug;
	uint64_t debug_address, lines;
	uint64_t debug_size;
	uint64_t moved; /* bytes of code */
	/* How far lines are from the beginning of their code: the least, and whether any is behind
	 * the end. */
	uint64_t least;
	bool beyond;
};

/*
 * Node.js adds the size of an ELF header to the addresses of lines, for an earlier version of perf.
 * That is so if it holds for all lines of the file, and brings some behind the end of their code.
 */
#define NODE_SHIFT 0x40

/*
 * Are the entries those of code of `size` bytes? Node.js 20 writes garbage in place of the names of
 * files, with zeros in it, so that what follows cannot be read.
 */
static bool check_lines(struct dump *d, uint64_t size)
{
	struct reader r = {d->debug, d->debug + d->debug_size, false};
	uint64_t first = 0, last = 0;

	for (uint64_t i = 0; i < d->lines; i++) {
		const uint64_t at = reader_u64(&r) - d->debug_address;
		const char *text;
		size_t n;

		reader_u64(&r); /* line and column */
		text = reader_string(&r, &n);
		if (r.failed || (const uint8_t *)text + n == r.end || at < last ||
		    at > size + NODE_SHIFT ||
		    (!is_same_file(text, n) && (!n || !text_is_clean(text))) ||
		    (!i && is_same_file(text, n)))
			return false;
		first = i ? first : at;
		last = at;
	}
	d->least = first < d->least ? first : d->least;
	d->beyond |= last > size;
	return d->lines;
}

static void add_code(struct dump *d, struct symbol_jit_code code, uint64_t address, uint64_t size)
{
	if (!size || size > UINT64_MAX - address)
		return;
	code.start = code.head = address;
	code.end = address + size;
	code.size = size;
	code.from = d->time;
	code.order = d->jit->count;
	symbol_jit_add(d->jit, code);
}

static void read_load(struct dump *d, struct reader *r)
{
	struct symbol_jit_code code = {0};
	uint64_t address, size;
	char name[SYMBOL_NAME_MAX];
	const char *text;
	size_t n;

	reader_bytes(r, 16); /* pid, tid, and the address at which it was generated */
	address = reader_u64(r);
	size = reader_u64(r);
	reader_u64(r); /* index */
	text = reader_string(r, &n);
	code.bytes = reader_bytes(r, size);
	if (r->failed)
		return;
	n = n < sizeof(name) ? n : sizeof(name) - 1;
	memcpy(name, text, n);
	name[n] = '\0';
	code.name = symbol_names_add(&d->jit->names, n ? name : "?", "");
	if (d->debug && d->debug_address == address && check_lines(d, size)) {
		code.debug = d->debug;
		code.lines = d->lines;
		code.debug_head = address;
	}
	d->debug = NULL;
	add_code(d, code, address, size);
}

/*
 * Code that is moved: the last one that was loaded at the old address. That is looked for among the
 * codes in the order of the file, from the last one on, but not among more than a few thousand: a
 * garbage collector moves what it has just compiled, or everything in turn.
 */
#define MOVE_MAX 4096

/* So many times the bytes of the file may be moved. */
#define MOVED_MAX 4

static void read_move(struct dump *d, struct reader *r)
{
	const struct symbol_jit *jit = d->jit;
	uint64_t old, address, size;

	reader_bytes(r, 16);
	old = reader_u64(r);
	address = reader_u64(r);
	size = reader_u64(r);
	if (r->failed)
		return;
	for (size_t i = 0; i < jit->count && i < MOVE_MAX; i++) {
		const struct symbol_jit_code *code = &jit->codes[jit->count - 1 - i];

		struct symbol_jit_code moved = *code;

		if (code->head != old || code->size != size)
			continue;
		/* A short record may move much code, so what follows has names only. */
		d->moved += size;
		if (d->moved / MOVED_MAX > jit->file_size)
			moved.bytes = NULL;
		add_code(d, moved, address, size);
		return;
	}
}

static void read_debug_info(struct dump *d, struct reader *r)
{
	d->debug_address = reader_u64(r);
	d->lines = reader_u64(r);
	d->debug = r->failed ? NULL : r->p;
	d->debug_size = (uint64_t)(r->end - r->p);
	/* An entry has at least 17 bytes. */
	if (d->lines > (uint64_t)(r->end - r->p) / 17)
		d->lines = (uint64_t)(r->end - r->p) / 17;
}

/* Reads a record. False at the end of the file, and at a record that is not complete. */
static bool read_record(struct dump *d, struct reader *r)
{
	struct reader record;
	uint32_t type, size;

	if (r->p == r->end)
		return false;
	type = reader_u32(r);
	size = reader_u32(r);
	d->time = reader_u64(r);
	record.p = reader_bytes(r, size - PREFIX_SIZE);
	record.end = r->p;
	record.failed = r->failed;
	if (size < PREFIX_SIZE || r->failed) {
		d->jit->is_truncated = true;
		return false;
	}
	if (type == RECORD_LOAD)
		read_load(d, &record);
	else if (type == RECORD_MOVE)
		read_move(d, &record);
	else if (type == RECORD_DEBUG_INFO)
		read_debug_info(d, &record);
	return true;
}

int symbol_jitdump_read(const char *path, struct symbol_jit *jit)
{
	struct dump d = {.jit = jit, .least = UINT64_MAX};
	struct reader r, header;
	uint32_t size, machine;
	int status;

	*jit = (struct symbol_jit){0};
	status = symbol_read_file(path, false, &jit->file, &jit->file_size);
	if (status < 0)
		return status;
	r = (struct reader){jit->file, jit->file + jit->file_size, false};
	header = r;
	if (reader_u32(&header) != MAGIC || reader_u32(&header) != 1 ||
	    (size = reader_u32(&header)) < HEADER_SIZE ||
	    /* Python 3.13 leaves the machine out. */
	    ((machine = reader_u32(&header)) != EM_X86_64 && machine != EM_NONE) ||
	    !reader_bytes(&r, size)) {
		symbol_jit_free(jit);
		return PTAH_E_BAD_MAGIC;
	}
	reader_u32(&header);
	jit->pid = (int32_t)reader_u32(&header);
	jit->time = reader_u64(&header);
	jit->is_tsc = reader_u64(&header) & FLAG_TSC;
	while (read_record(&d, &r))
		;
	for (size_t i = 0; i < jit->count && d.beyond && d.least >= NODE_SHIFT; i++)
		jit->codes[i].debug_head += NODE_SHIFT;
	status = symbol_jit_index(jit);
	if (status < 0)
		symbol_jit_free(jit);
	return status;
}

bool symbol_jit_line(const struct symbol_jit *jit, const struct symbol_jit_code *code,
		     uint64_t inside, const char **file, unsigned *line)
{
	struct reader r = {code->debug, NULL, false};
	const char *name = NULL;
	bool found = false;

	if (!code->debug)
		return false;
	r.end = jit->file + jit->file_size;
	for (uint64_t i = 0; i < code->lines && !r.failed; i++) {
		const uint64_t address = reader_u64(&r);
		const uint32_t number = reader_u32(&r);
		const char *text;
		size_t n;

		reader_u32(&r); /* column */
		text = reader_string(&r, &n);
		if (!is_same_file(text, n))
			name = text;
		if (r.failed || !name || address - code->debug_head > inside)
			break;
		*file = name;
		*line = number;
		found = true;
	}
	return found;
}
