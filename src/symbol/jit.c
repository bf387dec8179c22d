/* SPDX-License-Identifier: MIT */
/* The list of code that a process generated, and look-ups in it (jit.h). */
#include "symbol/jit.h"

#include <ptah/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A look-up that would compare more codes than this gives up: no runtime has so many in a place. */
#define STEPS_MAX 65536

static int read_all(int fd, uint8_t **bytes, size_t *size)
{
	uint8_t *text = NULL;
	size_t room = *size + 1, used = 0;

	text = malloc(room);
	while (text && used < room) {
		ssize_t n = pread(fd, text + used, room - used, (off_t)used);

		if (n < 0) {
			free(text);
			return PTAH_E_SYSTEM;
		}
		if (n == 0)
			break;
		used += (size_t)n;
	}
	/* Of a file that grows meanwhile, what it had. A NUL follows, which ends the last string.
	 */
	*size = used < *size ? used : *size;
	*bytes = text;
	if (text)
		text[*size] = 0;
	return text ? 0 : PTAH_E_NOMEM;
}

int symbol_read_file(const char *path, bool owner, uint8_t **bytes, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), status = PTAH_E_SYSTEM;
	int error = 0;
	struct stat st;

	if (fd < 0)
		return PTAH_E_SYSTEM;
	if (fstat(fd, &st) < 0)
		error = errno;
	else if (!S_ISREG(st.st_mode))
		error = EINVAL;
	else if ((uint64_t)st.st_size > SYMBOL_JIT_FILE_MAX)
		error = EFBIG;
	else if (owner && geteuid() && st.st_uid && st.st_uid != geteuid())
		error = EPERM;
	if (!error) {
		*size = (size_t)st.st_size;
		status = read_all(fd, bytes, size);
		error = errno;
	}
	close(fd);
	errno = error;
	return status;
}

void symbol_jit_free(struct symbol_jit *jit)
{
	free(jit->codes);
	free(jit->reach);
	free(jit->names.bytes);
	free(jit->file);
	*jit = (struct symbol_jit){0};
}

void symbol_jit_add(struct symbol_jit *jit, struct symbol_jit_code code)
{
	if (code.start >= code.end || jit->failed)
		return;
	if (jit->count == jit->room) {
		size_t room = jit->room ? 2 * jit->room : 256;
		struct symbol_jit_code *codes = NULL;

		if (room <= SYMBOL_RANGES_MAX)
			codes = reallocarray(jit->codes, room, sizeof(*codes));
		if (!codes) {
			jit->failed = true;
			return;
		}
		jit->codes = codes;
		jit->room = room;
	}
	jit->codes[jit->count++] = code;
}

static int compare_codes(const void *a, const void *b)
{
	const struct symbol_jit_code *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

int symbol_jit_index(struct symbol_jit *jit)
{
	uint64_t reach = 0;

	if (jit->failed || jit->names.failed)
		return PTAH_E_NOMEM;
	free(jit->reach);
	jit->reach = calloc(jit->count + 1, sizeof(*jit->reach));
	if (!jit->reach)
		return PTAH_E_NOMEM;
	if (jit->count)
		qsort(jit->codes, jit->count, sizeof(*jit->codes), compare_codes);
	for (size_t i = 0; i < jit->count; i++) {
		if (jit->codes[i].end > reach)
			reach = jit->codes[i].end;
		jit->reach[i] = reach;
	}
	return 0;
}

/* A heap of the codes that have begun: the one that comes last in the file is at its top. */
struct heap {
	const struct symbol_jit_code **codes;
	size_t count;
};

static void heap_push(struct heap *h, const struct symbol_jit_code *code)
{
	size_t i = h->count++;

	for (; i && h->codes[(i - 1) / 2]->order < code->order; i = (i - 1) / 2)
		h->codes[i] = h->codes[(i - 1) / 2];
	h->codes[i] = code;
}

static void heap_pop(struct heap *h)
{
	const struct symbol_jit_code *last = h->codes[--h->count];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < h->count; i = child) {
		if (child + 1 < h->count && h->codes[child + 1]->order > h->codes[child]->order)
			child++;
		if (h->codes[child]->order < last->order)
			break;
		h->codes[i] = h->codes[child];
	}
	h->codes[i] = last;
}

/* Adds a piece of a code, or makes the last piece longer if it is of the same code. */
static void add_piece(struct symbol_jit *pieces, const struct symbol_jit_code *of, uint64_t start,
		      uint64_t end)
{
	struct symbol_jit_code piece = *of;

	if (pieces->count && pieces->codes[pieces->count - 1].order == of->order &&
	    pieces->codes[pieces->count - 1].end == start) {
		pieces->codes[pieces->count - 1].end = end;
		return;
	}
	piece.start = start;
	piece.end = end;
	symbol_jit_add(pieces, piece);
}

void symbol_jit_replace(struct symbol_jit *jit)
{
	struct symbol_jit pieces = {0};
	struct heap heap = {0};
	uint64_t at = 0;
	size_t i = 0;

	if (symbol_jit_index(jit) < 0)
		return;
	heap.codes = calloc(jit->count + 1, sizeof(*heap.codes));
	pieces.failed = !heap.codes;
	while (!pieces.failed && (i < jit->count || heap.count)) {
		uint64_t end;

		if (!heap.count)
			at = jit->codes[i].start;
		for (; i < jit->count && jit->codes[i].start == at; i++)
			heap_push(&heap, &jit->codes[i]);
		while (heap.count && heap.codes[0]->end <= at)
			heap_pop(&heap);
		if (!heap.count)
			continue;
		end = heap.codes[0]->end;
		if (i < jit->count && jit->codes[i].start < end)
			end = jit->codes[i].start;
		add_piece(&pieces, heap.codes[0], at, end);
		at = end;
	}
	free(heap.codes);
	free(jit->codes);
	jit->codes = pieces.codes;
	jit->count = pieces.count;
	jit->room = pieces.room;
	jit->failed = pieces.failed;
}

/* How many codes begin at or below `address`. */
static size_t count_from(const struct symbol_jit *jit, uint64_t address)
{
	size_t low = 0, high = jit->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (jit->codes[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Is `a` there in place of `b`, both being known at the time? */
static bool replaces(const struct symbol_jit_code *a, const struct symbol_jit_code *b)
{
	return a->from != b->from ? a->from > b->from : a->order > b->order;
}

static bool is_there(const struct symbol_jit_code *code, uint64_t tsc)
{
	return !tsc || code->from <= tsc;
}

/* Is `a` rather than `b` the code at the time? It may be the next one, as times are coarse. */
static bool is_better(const struct symbol_jit_code *a, const struct symbol_jit_code *b,
		      uint64_t tsc)
{
	if (is_there(a, tsc) != is_there(b, tsc))
		return is_there(a, tsc);
	return is_there(a, tsc) ? replaces(a, b) : replaces(b, a);
}

const struct symbol_jit_code *symbol_jit_find(const struct symbol_jit *jit, uint64_t address,
					      uint64_t tsc, uint64_t *low, uint64_t *high)
{
	const size_t next = count_from(jit, address);
	const struct symbol_jit_code *found = NULL, *c;
	size_t first = next;

	for (; first && jit->reach[first - 1] > address; first--) {
		c = &jit->codes[first - 1];
		if (next - first > STEPS_MAX)
			return NULL;
		if (address < c->end && (!found || is_better(c, found, tsc)))
			found = c;
	}
	if (!found)
		return NULL;
	if (!is_there(found, tsc))
		tsc = found->from;
	*low = found->start;
	*high = found->end;
	for (size_t i = first; i < next; i++) {
		c = &jit->codes[i];
		if (c->end <= address && c->end > *low && is_there(c, tsc) && replaces(c, found))
			*low = c->end;
	}
	for (size_t i = next; i < jit->count && i - next < STEPS_MAX; i++) {
		c = &jit->codes[i];
		if (c->start >= *high)
			break;
		if (is_there(c, tsc) && replaces(c, found))
			*high = c->start;
	}
	return found;
}
