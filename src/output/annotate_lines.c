/* SPDX-License-Identifier: MIT */
/* Adds up the instructions of each line of source code (annotate.h). */
#include "base/order.h"
#include "output/annotate_internal.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

struct lines {
	struct annotate_line *list;
	size_t count, capacity;
};

static int by_source_line(const void *a, const void *b)
{
	const struct annotate_line *x = a, *y = b;
	int order = COMPARE(x->object, y->object);

	if (!order && x->file != y->file)
		order = strcmp(x->file, y->file);
	return order ? order : COMPARE(x->line, y->line);
}

static void add_line_counts(struct annotate_line *to, const struct annotate_line *from)
{
	if (from->instructions > to->instructions)
		to->function = from->function;
	to->instructions += from->instructions;
	to->executed += from->executed;
}

/* Joins lines that are equal. */
static void join_equal_lines(struct annotate_line *list, size_t *n)
{
	size_t last = 0;

	if (!*n)
		return;
	qsort(list, *n, sizeof(*list), by_source_line);
	for (size_t i = 1; i < *n; i++) {
		if (by_source_line(&list[last], &list[i]))
			list[++last] = list[i];
		else
			add_line_counts(&list[last], &list[i]);
	}
	*n = last + 1;
}

/*
 * How often a line was executed
 *
 * The compiler may have made several copies of a line, and may have mixed its instructions with
 * those of others. So whole blocks are counted, and not where execution continues from one block to
 * another with the same line in it: a loop of several lines counts each pass, code in two copies
 * both, a line with a call or a condition in its middle once. (gcov counts so too.) A loop within
 * the line has no such beginnings; then the instruction that ran most often has the figure.
 */

/* The lines of one function while they are counted. */
struct counting {
	const struct annotation *annotation;
	const struct annotate_function *function;
	const struct annotate_code *code;
	struct annotate_line *lines; /* sorted */
	size_t count;
	uint64_t *begun, *most; /* of each line */
};

/* The first row at or after a place. */
static size_t row_at(const struct annotate_code *code, uint64_t at)
{
	size_t low;

	BISECT(low, 0, code->count, code->rows[low].at < at);
	return low;
}

static size_t index_of(const struct counting *c, const struct annotate_row *row)
{
	const struct annotate_line key = {
	    .object = c->function->object, .file = row->file, .line = row->line};
	const struct annotate_line *line =
	    row->file && row->line ? bsearch(&key, c->lines, c->count, sizeof(key), by_source_line)
				   : NULL;

	return line ? (size_t)(line - c->lines) : SIZE_MAX;
}

static size_t end_of_piece(const struct counting *c, const struct annotate_piece *p, size_t first)
{
	size_t i = first;

	while (i < c->code->count && i - first < MOST_INSNS && c->code->rows[i].at < p->end)
		i++;
	return i;
}

/* Whether a block has an instruction of the line. */
static bool has_line(const struct counting *c, const struct annotate_piece *p, size_t line)
{
	const size_t first = row_at(c->code, p->at), end = end_of_piece(c, p, first);

	for (size_t i = first; i < end; i++)
		if (index_of(c, &c->code->rows[i]) == line)
			return true;
	return false;
}

/* How often blocks that begin at a place ran, and whether they have the line. */
static uint64_t entered(const struct counting *c, uint64_t at, size_t line)
{
	const struct annotation *a = c->annotation;
	size_t i = annotation_piece_at(a, c->function->object, at);
	bool has = false;
	uint64_t count = 0;

	for (; i < a->piece_count && a->pieces[i].object == c->function->object &&
	       a->pieces[i].at == at;
	     i++) {
		count += a->pieces[i].count;
		has = has || has_line(c, &a->pieces[i], line);
	}
	return has ? count : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How often a block was followed by another one that has the line too. */
static uint64_t continued(const struct counting *c, const struct annotate_piece *p, size_t line)
{
	uint64_t not_taken, n = 0;

	switch (p->insn_class) {
	case PTAH_INSN_COND:
		not_taken = p->count - p->taken - p->unknown;
		if (p->taken && p->has_target)
			n += least(p->taken, entered(c, p->target, line));
		if (not_taken)
			n += least(not_taken, entered(c, p->end, line));
		return n;
	case PTAH_INSN_JUMP:
		return p->has_target ? least(p->count, entered(c, p->target, line)) : 0;
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_RETURN:
		return 0;
	default: /* a call comes back to the next instruction */
		return least(p->count, entered(c, p->end, line));
	}
}

static void count_piece(struct counting *c, const struct annotate_piece *p)
{
	const size_t first = row_at(c->code, p->at), end = end_of_piece(c, p, first);
	size_t last = SIZE_MAX;

	for (size_t i = first; i < end; i++) {
		const size_t line = index_of(c, &c->code->rows[i]);
		bool again = line == SIZE_MAX || line == last;

		for (size_t k = first; k < i && !again; k++)
			again = index_of(c, &c->code->rows[k]) == line;
		last = line;
		if (!again)
			c->begun[line] += p->count - least(p->count, continued(c, p, line));
	}
}

static int count_lines(struct counting *c)
{
	const struct annotation *a = c->annotation;
	size_t i = annotation_first_piece(a, c->function->object, c->function->start);

	c->begun = calloc(2 * c->count + 1, sizeof(*c->begun));
	if (!c->begun)
		return PTAH_E_NOMEM;
	c->most = c->begun + c->count;
	for (; i < a->piece_count && a->pieces[i].object == c->function->object &&
	       a->pieces[i].at < c->function->end;
	     i++)
		if (a->pieces[i].at >= c->function->start)
			count_piece(c, &a->pieces[i]);
	for (i = 0; i < c->code->count; i++) {
		const size_t line = index_of(c, &c->code->rows[i]);

		if (line != SIZE_MAX && c->code->rows[i].executed > c->most[line])
			c->most[line] = c->code->rows[i].executed;
	}
	for (i = 0; i < c->count; i++)
		c->lines[i].executed = c->begun[i] > c->most[i] ? c->begun[i] : c->most[i];
	free(c->begun);
	return 0;
}

static int add_function(struct lines *lines, const struct annotation *a,
			const struct annotate_function *f)
{
	struct annotate_code code;
	struct counting counting = {.annotation = a, .function = f, .code = &code};
	size_t n = 0;
	int status = annotate_code(a, f, &code);

	if (status < 0)
		return status;
	if (!LIST_ROOM_FOR(lines->list, lines->count, code.count, lines->capacity)) {
		annotate_code_free(&code);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < code.count; i++) {
		const struct annotate_row *row = &code.rows[i];

		if (row->line && row->file)
			lines->list[lines->count + n++] =
			    (struct annotate_line){.object = f->object,
						   .file = row->file,
						   .line = row->line,
						   .function = f,
						   .instructions = row->executed};
	}
	counting.lines = lines->list + lines->count;
	join_equal_lines(counting.lines, &n);
	counting.count = n;
	status = count_lines(&counting);
	annotate_code_free(&code);
	lines->count += n;
	return status;
}

int annotate_lines(const struct annotation *a, const struct annotate_function *function,
		   struct annotate_line **list, size_t *n)
{
	struct lines lines = {.list = calloc(1, sizeof(*lines.list)), .capacity = 1};
	int status = lines.list ? 0 : PTAH_E_NOMEM;

	if (function && status >= 0)
		status = add_function(&lines, a, function);
	for (size_t i = 0; !function && status >= 0 && i < a->function_count; i++)
		status = add_function(&lines, a, &a->functions[i]);
	if (status < 0) {
		free(lines.list);
		return status;
	}
	join_equal_lines(lines.list, &lines.count);
	*list = lines.list;
	*n = lines.count;
	return 0;
}
