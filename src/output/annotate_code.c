/* SPDX-License-Identifier: MIT */
/* Lists the instructions of a function with how often each was executed (annotate.h). */
#include "output/annotate_internal.h"

#include "base/order.h"
#include "output/disasm.h"
#include "support/list.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No function is longer; a symbol's size may be anything. */
#define LONGEST (4u << 20)

/* What is known of each byte of a function. */
struct cell {
	uint64_t executed; /* of the instruction that begins here */
	uint8_t mode;	   /* 0: no instruction that ran begins here */
	bool has_byte;
	uint8_t byte;
	uint32_t line;
	const char *file;
};

struct listing {
	const struct annotation *annotation;
	const struct annotate_function *function;
	struct annotate_code *code;
	struct cell *cells;
	uint64_t code_at;      /* the function, where lines are known */
	size_t size, capacity; /* bytes of the function; rows */
};

/* The bytes as they are in the file. */
static void read_code_file(struct listing *l)
{
	const struct annotate_object *object = &l->annotation->objects[l->function->object];
	char *path = names_local_path(l->annotation->config.names, object->path);
	uint8_t *bytes = malloc(l->size);
	struct ptah_elf_extent extent;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = 0, k;

	while (fd >= 0 && bytes && (size_t)n < l->size &&
	       (k = pread(fd, bytes + n, l->size - (size_t)n, (off_t)l->function->start + n)) > 0)
		n += k;
	for (ssize_t i = 0; i < n; i++) {
		l->cells[i].byte = bytes[i];
		l->cells[i].has_byte = true;
	}
	if (n > 0 && ptah_elf_extent(path, l->function->start, &extent))
		l->code->slide = extent.at - l->function->start;
	else if (n > 0) /* bytes of memory, whose file has no addresses */
		l->code->slide = l->function->ip - l->function->start;
	if (fd >= 0)
		close(fd);
	free(bytes);
	free(path);
}

/* The bytes of code in no file, as they were when they ran. */
static void take_code_bytes(struct listing *l)
{
	const struct annotation *a = l->annotation;
	const struct annotate_function *f = l->function;
	const struct annotate_object *object = &a->objects[f->object];
	size_t at;

	BISECT(at, 0, a->byte_count,
	       a->bytes[at].pid < object->pid || (a->bytes[at].pid == object->pid &&
						  (a->bytes[at].version < object->version ||
						   (a->bytes[at].version == object->version &&
						    a->bytes[at].at + LONGEST_BLOCK <= f->start))));
	for (; at < a->byte_count && a->bytes[at].pid == object->pid &&
	       a->bytes[at].version == object->version && a->bytes[at].at < f->end;
	     at++) {
		const struct annotate_bytes *b = &a->bytes[at];

		for (uint64_t k = 0; k < b->size; k++) {
			struct cell *cell;

			if (b->at + k - f->start >= l->size)
				continue;
			cell = &l->cells[b->at + k - f->start];
			l->code->rewritten |= cell->has_byte && cell->byte != b->bytes[k];
			cell->byte = b->bytes[k];
			cell->has_byte = true;
		}
	}
}

/* The size of the instruction at byte `i`; 0 if it is none. */
static unsigned size_at(const struct listing *l, size_t i, uint8_t mode, uint8_t bytes[15])
{
	unsigned n = 0;

	while (n < 15 && i + n < l->size && l->cells[i + n].has_byte) {
		bytes[n] = l->cells[i + n].byte;
		n++;
	}
	return disasm_size(mode, bytes, n);
}

/* Adds a block to the instructions that it consists of. Returns false if the bytes are not those
 * that ran: the block has another number of instructions there. */
static bool count_block(struct listing *l, const struct annotate_piece *p, bool only_check)
{
	uint8_t bytes[15];
	uint64_t at = p->at;
	unsigned n = 0, size;

	for (; at < p->end; at += size, n++) {
		const uint64_t i = at - l->function->start; /* huge before the function begins */

		if (i >= l->size) {
			if (at < l->function->start)
				return true; /* of the function before, which falls into this one */
			break;
		}
		size = size_at(l, (size_t)i, p->mode, bytes);
		if (!size)
			return false;
		if (only_check)
			continue;
		l->cells[i].mode = p->mode;
		l->cells[i].executed += p->count;
	}
	return at < p->end || (at == p->end && n == p->ninsn);
}

static const struct annotate_piece *piece_end(const struct annotation *a)
{
	return a->pieces + a->piece_count;
}

/* Counts all blocks of the function. False: its bytes are not those that ran. */
static bool count_blocks(struct listing *l)
{
	const struct annotation *a = l->annotation;
	const struct annotate_function *f = l->function;
	const struct annotate_piece *p = a->pieces + annotation_first_piece(a, f->object, f->start);
	size_t right = 0, wrong = 0;

	for (; p < piece_end(a) && p->object == f->object && p->at < f->end; p++) {
		if (p->end <= f->start)
			continue;
		if (p->at < f->start) { /* it began in front of the function: only its end counts */
			struct annotate_piece rest = *p;

			rest.at = f->start;
			rest.ninsn = 0;
			count_block(l, &rest, false);
			continue;
		}
		if (count_block(l, p, true)) {
			count_block(l, p, false);
			right++;
		} else {
			wrong++;
		}
	}
	l->code->rewritten |= wrong && right;
	return right || !wrong;
}

static struct annotate_row *add_code_row(struct listing *l, size_t i)
{
	struct annotate_row *row;

	if (!LIST_ROOM(l->code->rows, l->code->count, l->capacity))
		return NULL;
	row = &l->code->rows[l->code->count++];
	*row = (struct annotate_row){
	    .at = l->function->start + i, .file = l->cells[i].file, .line = l->cells[i].line};
	return row;
}

/* The bytes up to the next instruction that ran, which an instruction that did not run must not
 * reach into. */
static size_t room_at(const struct listing *l, size_t i)
{
	size_t k = i + 1;

	while (k < l->size && k < i + 15 && !l->cells[k].mode)
		k++;
	return k - i;
}

static int list_code_rows(struct listing *l)
{
	uint8_t mode = PTAH_EXEC_64;
	size_t i = 0;

	for (size_t k = 0; k < l->size; k++) {
		if (l->cells[k].mode) {
			mode = l->cells[k].mode;
			break;
		}
	}
	while (i < l->size) {
		const struct cell *cell = &l->cells[i];
		struct annotate_row *row;
		unsigned size;

		if (!cell->has_byte) { /* one row for all bytes that are not known */
			row = add_code_row(l, i);
			while (i < l->size && !l->cells[i].has_byte)
				i++;
			if (!row)
				return PTAH_E_NOMEM;
			continue;
		}
		row = add_code_row(l, i);
		if (!row)
			return PTAH_E_NOMEM;
		row->mode = mode = cell->mode ? cell->mode : mode;
		row->executed = cell->executed;
		size = size_at(l, i, mode, row->bytes);
		row->is_code = size && (cell->mode || size <= room_at(l, i));
		row->size = (uint8_t)(row->is_code ? size : 1);
		row->branch = annotation_branch(l->annotation, l->function->object, row->at);
		i += row->size;
		/* Two instructions that ran may overlap: the second one gets a row, too. */
		for (size_t k = i - row->size + 1; cell->mode && k < i && k < l->size; k++) {
			if (!l->cells[k].mode)
				continue;
			i = k;
			break;
		}
	}
	return 0;
}

/* A row for each block, where there are no bytes. */
static int list_code_blocks(struct listing *l)
{
	const struct annotation *a = l->annotation;
	const struct annotate_function *f = l->function;
	const struct annotate_piece *p = a->pieces + annotation_first_piece(a, f->object, f->start);

	l->code->no_bytes = true;
	l->code->count = 0;
	for (; p < piece_end(a) && p->object == f->object && p->at < f->end; p++) {
		struct annotate_row *row;

		if (p->at < f->start)
			continue;
		row = add_code_row(l, (size_t)(p->at - f->start));
		if (!row)
			return PTAH_E_NOMEM;
		row->executed = p->count;
		row->mode = p->mode;
		if (p->insn_class == PTAH_INSN_COND)
			row->branch = annotation_branch(a, f->object, p->end - p->last_size);
	}
	return 0;
}

static bool take_code_line(void *listing, const struct ptah_line *line)
{
	const struct listing *l = listing;

	for (uint64_t k = 0; k < line->size; k++) {
		const uint64_t i = line->start + k - l->code_at;

		if (i >= l->size)
			continue;
		l->cells[i].file = line->file;
		l->cells[i].line = line->file ? line->line : 0;
		l->code->has_lines |= line->file && line->line;
	}
	return true;
}

/* The lines of code that a process generated. */
static void take_generated_lines(struct listing *l)
{
	const struct annotation *a = l->annotation;
	const struct annotate_function *f = l->function;
	struct ptah_function_line line;
	struct ptah_counts_process p;

	if (!a->generated || f->ip >> 63 || !ptah_counts_process(a->config.counts, f->process, &p))
		return;
	for (size_t i = 0; i < l->size; i++) {
		if (!l->cells[i].has_byte ||
		    !ptah_functions_line(a->generated, p.pid, f->ip + i,
					 ptah_version_time(f->version), &line))
			continue;
		l->cells[i].file = line.file;
		l->cells[i].line = line.line;
		l->code->has_lines = true;
	}
}

static void take_code_lines(struct listing *l)
{
	const struct annotation *a = l->annotation;
	const struct annotate_function *f = l->function;
	const struct name *name =
	    names_find_version(a->config.names, (int32_t)f->process, f->ip, f->version);

	l->code_at = name->code_at;
	if (name->code)
		ptah_symbols_lines(names_symbols(a->config.names), name->code, l->code_at, l->size,
				   take_code_line, l);
	else if (!a->objects[f->object].is_file)
		take_generated_lines(l);
}

int annotate_code(const struct annotation *a, const struct annotate_function *f,
		  struct annotate_code *code)
{
	const struct annotate_object *object = &a->objects[f->object];
	const uint64_t size = f->end - f->start;
	struct listing l = {.annotation = a,
			    .function = f,
			    .code = code,
			    .size = size < LONGEST ? (size_t)size : LONGEST};
	int status;

	memset(code, 0, sizeof(*code));
	code->cut = size > LONGEST;
	l.cells = calloc(l.size + 1, sizeof(*l.cells));
	if (!l.cells)
		return PTAH_E_NOMEM;
	if (object->is_file && !object->changed)
		read_code_file(&l);
	else if (!object->is_file)
		take_code_bytes(&l);
	take_code_lines(&l);
	status = count_blocks(&l) ? list_code_rows(&l) : list_code_blocks(&l);
	free(l.cells);
	if (status < 0)
		annotate_code_free(code);
	return status;
}

void annotate_code_free(struct annotate_code *code)
{
	free(code->rows);
	memset(code, 0, sizeof(*code));
}
