/* SPDX-License-Identifier: MIT */
/* Reads jitdumps: the code that a runtime generated, with its times, bytes and lines (jit.h). */
#include "base/reader.h"
#include "base/text.h"
#include "symbol/jit.h"

#include <ptah/base.h>

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC	    0x4a695444 /* "JiTD" */
#define HEADER_SIZE SYMBOL_JITDUMP_HEADER
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

/*
 * Node.js adds the size of an ELF header to the addresses of lines, for an earlier version of perf.
 * That is so if it holds for all lines of the file, and brings some behind the end of their code.
 */
#define NODE_SHIFT 0x40

/*
 * Whether the entries are those of code of `size` bytes. Node.js 20 writes garbage in place of the
 * names of files, with zeros in it, so that what follows cannot be read.
 */
static bool check_lines(struct symbol_jitdump *d, uint64_t size)
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

/*
 * Code that is moved: the last one that was loaded at the old address. That is looked for among the
 * codes in the order of the file, from the last one on, but not among more than a few thousand: a
 * garbage collector moves what it has just compiled, or everything in turn.
 */
#define MOVE_MAX 4096

/* So many times the bytes of the file so far may be moved. */
#define MOVED_MAX 4

static void note_recent(struct symbol_jitdump *d, struct symbol_jit *jit,
			const struct symbol_jit_code *code)
{
	if (d->recent_count == d->recent_room && d->recent_room < MOVE_MAX) {
		const size_t room = d->recent_room ? 2 * d->recent_room : 64;
		struct symbol_jit_code *more = reallocarray(d->recent, room, sizeof(*more));

		if (!more) {
			jit->failed = true;
			return;
		}
		d->recent = more;
		d->recent_room = room;
		d->recent_next = d->recent_count;
	}
	d->recent[d->recent_next] = *code;
	d->recent_next = (d->recent_next + 1) % d->recent_room;
	d->recent_count += d->recent_count < d->recent_room;
}

static void add_jitdump_code(struct symbol_jitdump *d, struct symbol_jit *jit,
			     struct symbol_jit_code code, uint64_t address, uint64_t size)
{
	if (!size || size > UINT64_MAX - address)
		return;
	code.start = code.head = address;
	code.end = address + size;
	code.size = size;
	code.from = d->time;
	code.order = jit->order++;
	symbol_jit_add(jit, code);
	note_recent(d, jit, &code);
}

/* What stays as long as the list does. */
static const uint8_t *stay(const struct symbol_jitdump *d, struct symbol_jit *jit,
			   const uint8_t *bytes, uint64_t n)
{
	return d->copies ? symbol_jit_keep(jit, bytes, (size_t)n) : bytes;
}

static void read_load(struct symbol_jitdump *d, struct symbol_jit *jit, struct reader *r)
{
	struct symbol_jit_code code = {0};
	uint64_t address, size;
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
	code.name = symbol_jit_keep_name(jit, text, n);
	code.bytes = !d->copies || d->code ? stay(d, jit, code.bytes, size) : NULL;
	if (d->debug && d->debug_address == address && check_lines(d, size)) {
		code.debug = stay(d, jit, d->debug, d->debug_size);
		code.debug_size = d->debug_size;
		code.lines = d->lines;
		code.debug_head = address;
	}
	d->debug = NULL;
	add_jitdump_code(d, jit, code, address, size);
}

static void read_move(struct symbol_jitdump *d, struct symbol_jit *jit, struct reader *r)
{
	uint64_t old, address, size;

	reader_bytes(r, 16);
	old = reader_u64(r);
	address = reader_u64(r);
	size = reader_u64(r);
	/* Records are not read again from lines on if one of them may count twice. */
	d->debug = NULL;
	if (r->failed)
		return;
	for (size_t i = 1; i <= d->recent_count; i++) {
		struct symbol_jit_code moved =
		    d->recent[(d->recent_next + d->recent_room - i) % d->recent_room];

		if (moved.head != old || moved.size != size)
			continue;
		/* A short record may move much code, so what follows has names only. */
		d->moved += size;
		if (d->moved / MOVED_MAX > d->taken)
			moved.bytes = NULL;
		add_jitdump_code(d, jit, moved, address, size);
		return;
	}
}

static void read_debug_info(struct symbol_jitdump *d, struct reader *r)
{
	d->debug_address = reader_u64(r);
	d->lines = reader_u64(r);
	d->debug = r->failed ? NULL : r->p;
	d->debug_size = (uint64_t)(r->end - r->p);
	/* An entry has at least 17 bytes. */
	if (d->lines > (uint64_t)(r->end - r->p) / 17)
		d->lines = (uint64_t)(r->end - r->p) / 17;
}

/* Takes a record. False: there is none that is complete, and *wanted is the bytes that it needs. */
static bool read_record(struct symbol_jitdump *d, struct symbol_jit *jit, struct reader *r,
			size_t *wanted)
{
	struct reader record = *r;
	uint32_t type, size;

	*wanted = PREFIX_SIZE;
	if ((size_t)(r->end - r->p) < PREFIX_SIZE)
		return false;
	type = reader_u32(&record);
	size = reader_u32(&record);
	*wanted = size;
	d->damaged = size < PREFIX_SIZE;
	if (d->damaged || (size_t)(r->end - r->p) < size)
		return false;
	d->time = reader_u64(&record);
	r->p += size;
	d->taken += size;
	record.end = r->p;
	if (type == RECORD_LOAD)
		read_load(d, jit, &record);
	else if (type == RECORD_MOVE)
		read_move(d, jit, &record);
	else if (type == RECORD_DEBUG_INFO)
		read_debug_info(d, &record);
	return true;
}

/* Lines that are larger, or farther before their code, are left out. */
#define LINES_MAX ((size_t)4 << 20)

size_t symbol_jitdump_take(struct symbol_jitdump *d, struct symbol_jit *jit, const uint8_t *bytes,
			   size_t n, size_t *wanted)
{
	struct reader r = {bytes, bytes + n, false};
	const uint8_t *used = bytes, *lines = bytes, *before = NULL;

	while (read_record(d, jit, &r, wanted)) {
		if (d->debug != before)
			lines = used;
		used = r.p;
		if ((size_t)(used - lines) > LINES_MAX)
			d->debug = NULL;
		before = d->debug;
	}
	/* What follows lines is read again with them, until their code has come. */
	if (!d->debug || !d->copies)
		lines = used;
	if (d->copies)
		d->debug = NULL;
	if (d->damaged)
		*wanted = 0;
	jit->is_truncated = d->damaged || used != bytes + n;
	jit->line_shift = d->beyond && d->least >= NODE_SHIFT ? NODE_SHIFT : 0;
	if (d->damaged)
		return (size_t)(used - bytes);
	*wanted += (size_t)(used - lines);
	d->taken -= (uint64_t)(used - lines);
	return (size_t)(lines - bytes);
}

int64_t symbol_jitdump_begin(struct symbol_jitdump *d, struct symbol_jit *jit, const uint8_t *bytes,
			     size_t n)
{
	struct reader r = {bytes, bytes + n, false};
	uint32_t size, machine;

	d->least = UINT64_MAX;
	if (reader_u32(&r) != MAGIC || reader_u32(&r) != 1 ||
	    (size = reader_u32(&r)) < HEADER_SIZE ||
	    /* Python 3.13 leaves the machine out. */
	    ((machine = reader_u32(&r)) != EM_X86_64 && machine != EM_NONE))
		return PTAH_E_BAD_MAGIC;
	reader_u32(&r);
	jit->pid = (int32_t)reader_u32(&r);
	jit->time = reader_u64(&r);
	jit->is_tsc = reader_u64(&r) & FLAG_TSC;
	return r.failed ? PTAH_E_BAD_MAGIC : (int64_t)size;
}

void symbol_jitdump_end(struct symbol_jitdump *d)
{
	free(d->recent);
	d->recent = NULL;
	d->recent_count = d->recent_room = d->recent_next = 0;
}

int symbol_jitdump_read(const char *path, struct symbol_jit *jit)
{
	struct symbol_jitdump d = {0};
	int64_t header;
	size_t wanted;
	int status;

	*jit = (struct symbol_jit){0};
	status = symbol_read_file(path, false, &jit->file, &jit->file_size);
	if (status < 0)
		return status;
	header = symbol_jitdump_begin(&d, jit, jit->file, jit->file_size);
	status = header < 0 || (uint64_t)header > jit->file_size ? PTAH_E_BAD_MAGIC : 0;
	if (status >= 0) {
		symbol_jitdump_take(&d, jit, jit->file + header, jit->file_size - (size_t)header,
				    &wanted);
		status = symbol_jit_index(jit);
	}
	symbol_jitdump_end(&d);
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
	r.end = code->debug + code->debug_size;
	for (uint64_t i = 0; i < code->lines && !r.failed; i++) {
		const uint64_t address = reader_u64(&r);
		const uint32_t number = reader_u32(&r);
		const char *text;
		size_t n;

		reader_u32(&r); /* column */
		text = reader_string(&r, &n);
		if (!is_same_file(text, n))
			name = text;
		if (r.failed || !name || address - code->debug_head - jit->line_shift > inside)
			break;
		*file = name;
		*line = number;
		found = true;
	}
	return found;
}
