/* SPDX-License-Identifier: MIT */
/* The list of code that a process generated, and look-ups in it (jit.h). */
#include "symbol/jit.h"

#include "base/order.h"
#include "base/text.h"
#include "support/list.h"
#include "symbol/ranges.h"

#include <ptah/base.h>

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
	/* What a file that grows meanwhile had. A NUL follows, which ends the last string. */
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

/* Memory of a list: what is in it does not move. */
struct symbol_jit_block {
	struct symbol_jit_block *next;
	size_t used, room;
	uint8_t bytes[];
};

#define BLOCK ((size_t)64 << 10)

void symbol_jit_free(struct symbol_jit *jit)
{
	struct symbol_jit_block *block, *next;

	for (block = jit->blocks; block; block = next) {
		next = block->next;
		free(block);
	}
	free(jit->codes);
	free(jit->reach);
	free(jit->file);
	*jit = (struct symbol_jit){0};
}

size_t symbol_jit_memory(const struct symbol_jit *jit)
{
	return jit->kept + jit->room * sizeof(*jit->codes) + jit->reach_room * sizeof(*jit->reach) +
	       jit->file_size;
}

/* Room for `n` bytes. NULL: there is no memory. */
static void *allocate(struct symbol_jit *jit, size_t n)
{
	struct symbol_jit_block *block = jit->blocks;
	const size_t room = n > BLOCK / 4 ? n : BLOCK;

	if (!block || block->room - block->used < n) {
		block = n > SYMBOL_JIT_FILE_MAX ? NULL : malloc(sizeof(*block) + room);
		if (!block) {
			jit->failed = true;
			return NULL;
		}
		block->used = 0;
		block->room = room;
		jit->kept += sizeof(*block) + room;
		/* One that is full at once comes behind the one that is not. */
		block->next = room > n || !jit->blocks ? jit->blocks : jit->blocks->next;
		if (room > n || !jit->blocks)
			jit->blocks = block;
		else
			jit->blocks->next = block;
	}
	block->used += n;
	return block->bytes + block->used - n;
}

const void *symbol_jit_keep(struct symbol_jit *jit, const void *bytes, size_t n)
{
	void *copy = allocate(jit, n);

	return copy ? memcpy(copy, bytes, n) : NULL;
}

const char *symbol_jit_keep_name(struct symbol_jit *jit, const char *name, size_t n)
{
	char *copy;

	n = strnlen(name, n < SYMBOL_NAME_MAX ? n : SYMBOL_NAME_MAX - 1);
	if (!n)
		return "?";
	jit->failed |= n >= SYMBOL_NAMES_MAX - jit->named;
	copy = jit->failed ? NULL : allocate(jit, n + 1);
	if (!copy)
		return "?";
	memcpy(copy, name, n);
	copy[n] = '\0';
	/* A terminal would obey control characters. */
	text_clean(copy);
	jit->named += n + 1;
	return copy;
}

void symbol_jit_add(struct symbol_jit *jit, struct symbol_jit_code code)
{
	if (code.start >= code.end || jit->failed)
		return;
	if (jit->count >= SYMBOL_RANGES_MAX || !LIST_ROOM(jit->codes, jit->count, jit->room)) {
		jit->failed = true;
		return;
	}
	jit->codes[jit->count++] = code;
}

static int compare_codes(const void *a, const void *b)
{
	const struct symbol_jit_code *x = a, *y = b;

	return COMPARE_THEN(x->start, y->start, COMPARE(x->order, y->order));
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
static void add_jit_piece(struct symbol_jit *pieces, const struct symbol_jit_code *of,
			  uint64_t start, uint64_t end)
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

/* Cuts off, of the sorted codes from `first` on, what was replaced by code that follows. */
static void replace(struct symbol_jit *jit, size_t first)
{
	struct symbol_jit pieces = {0};
	struct heap heap = {calloc(jit->count - first + 1, sizeof(*heap.codes)), 0};
	uint64_t at = 0;
	size_t i = first;

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
		add_jit_piece(&pieces, heap.codes[0], at, end);
		at = end;
	}
	free(heap.codes);
	jit->failed |= pieces.failed;
	jit->count = first;
	for (i = 0; i < pieces.count && !jit->failed; i++)
		symbol_jit_add(jit, pieces.codes[i]);
	free(pieces.codes);
}

/* Merges the sorted codes [first, middle) and those from there on. */
static void merge_sorted_codes(struct symbol_jit *jit, size_t first, size_t middle)
{
	const size_t count = jit->count - middle;
	struct symbol_jit_code *codes = jit->codes, *right;
	size_t i = middle, k = count;

	right = count ? malloc(count * sizeof(*right)) : NULL;
	if (!right) {
		jit->failed |= count > 0;
		return;
	}
	memcpy(right, codes + middle, count * sizeof(*right));
	for (size_t at = jit->count; k; at--)
		codes[at - 1] = i > first && compare_codes(&codes[i - 1], &right[k - 1]) > 0
				    ? codes[--i]
				    : right[--k];
	free(right);
}

/* Makes the codes from `first` on a run: those that are indexed are in runs, which end `ends`. */
static int make_run(struct symbol_jit *jit, size_t first, const size_t *ends, size_t count)
{
	uint64_t reach = 0;

	qsort(jit->codes + jit->indexed, jit->count - jit->indexed, sizeof(*jit->codes),
	      compare_codes);
	/* The last ones are the shortest ones. */
	for (size_t i = count; i-- > 0;)
		merge_sorted_codes(jit, i ? ends[i - 1] : first, ends[i]);
	if (jit->no_times)
		replace(jit, first);
	if (jit->reach_room < jit->room) {
		uint64_t *more = reallocarray(jit->reach, jit->room, sizeof(*more));

		jit->failed |= !more;
		jit->reach = more ? more : jit->reach;
		jit->reach_room = more ? jit->room : jit->reach_room;
	}
	if (jit->failed) {
		/* What was found before is found still, unless it was merged with what is new. */
		jit->count = jit->indexed = first;
		return PTAH_E_NOMEM;
	}
	for (size_t i = first; i < jit->count; i++) {
		if (jit->codes[i].end > reach)
			reach = jit->codes[i].end;
		jit->reach[i] = reach;
	}
	jit->runs[jit->run_count++] = jit->indexed = jit->count;
	return 0;
}

static size_t run_begin(const struct symbol_jit *jit, size_t run)
{
	return run ? jit->runs[run - 1] : 0;
}

/*
 * What is new becomes a run, together with the runs before it that are not twice as long: so a list
 * that grows code by code has few runs, and a code is sorted a few times.
 */
int symbol_jit_index(struct symbol_jit *jit)
{
	size_t first = jit->indexed, last = jit->run_count, count;

	if (jit->failed)
		return PTAH_E_NOMEM;
	if (first == jit->count)
		return 0;
	while (last > 0 && (last == SYMBOL_JIT_RUNS ||
			    first - run_begin(jit, last - 1) < 2 * (jit->count - first)))
		first = run_begin(jit, --last);
	count = jit->run_count - last;
	jit->run_count = last;
	return make_run(jit, first, jit->runs + last, count);
}

/* Where in the run [low, high) the codes end that begin at or below `address`. */
static size_t count_from(const struct symbol_jit *jit, size_t low, size_t high, uint64_t address)
{
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (jit->codes[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether `a` is there in place of `b`, both being known at the time. */
static bool replaces(const struct symbol_jit_code *a, const struct symbol_jit_code *b)
{
	return a->from != b->from ? a->from > b->from : a->order > b->order;
}

static bool is_there(const struct symbol_jit_code *code, uint64_t tsc)
{
	return !tsc || code->from <= tsc;
}

/*
 * Whether `a` rather than `b` is the code at the time. It may be the next one, as times are coarse.
 */
static bool is_better(const struct symbol_jit_code *a, const struct symbol_jit_code *b,
		      uint64_t tsc)
{
	if (is_there(a, tsc) != is_there(b, tsc))
		return is_there(a, tsc);
	return is_there(a, tsc) ? replaces(a, b) : replaces(b, a);
}

/* The codes of a run that may contain the address: [first, next). */
struct part {
	size_t first, next, end;
};

/* Returns false if these are too many. */
static bool find_jit_part(const struct symbol_jit *jit, size_t run, uint64_t address, size_t *steps,
			  struct part *part)
{
	const size_t begin = run_begin(jit, run);

	part->end = jit->runs[run];
	part->next = part->first = count_from(jit, begin, part->end, address);
	while (part->first > begin && jit->reach[part->first - 1] > address) {
		if (++*steps > STEPS_MAX)
			return false;
		part->first--;
	}
	return true;
}

/* Leaves out of [*low, *high) what other code of the run has replaced. */
static void cut_replaced_code(const struct symbol_jit *jit, size_t run, const struct part *part,
			      const struct symbol_jit_code *found, uint64_t address, uint64_t tsc,
			      uint64_t *low, uint64_t *high)
{
	const size_t begin = run_begin(jit, run);
	const struct symbol_jit_code *c;

	for (size_t i = part->next; i > begin && jit->reach[i - 1] > *low; i--) {
		c = &jit->codes[i - 1];
		if (part->next - i > STEPS_MAX)
			break;
		if (c->end <= address && c->end > *low && is_there(c, tsc) && replaces(c, found))
			*low = c->end;
	}
	for (size_t i = part->next; i < part->end && i - part->next < STEPS_MAX; i++) {
		c = &jit->codes[i];
		if (c->start >= *high)
			break;
		if (is_there(c, tsc) && replaces(c, found))
			*high = c->start;
	}
}

const struct symbol_jit_code *symbol_jit_find(const struct symbol_jit *jit, uint64_t address,
					      uint64_t tsc, uint64_t *low, uint64_t *high)
{
	const struct symbol_jit_code *found = NULL, *c;
	struct part parts[SYMBOL_JIT_RUNS];
	size_t steps = 0;

	for (size_t run = 0; run < jit->run_count; run++) {
		if (!find_jit_part(jit, run, address, &steps, &parts[run]))
			return NULL;
		for (size_t i = parts[run].next; i > parts[run].first; i--) {
			c = &jit->codes[i - 1];
			if (address < c->end && (!found || is_better(c, found, tsc)))
				found = c;
		}
	}
	if (!found)
		return NULL;
	if (!is_there(found, tsc))
		tsc = found->from;
	*low = found->start;
	*high = found->end;
	for (size_t run = 0; run < jit->run_count; run++)
		cut_replaced_code(jit, run, &parts[run], found, address, tsc, low, high);
	return found;
}

uint64_t symbol_jit_until(const struct symbol_jit *jit, uint64_t address, uint64_t tsc)
{
	uint64_t until = UINT64_MAX;
	size_t steps = 0;
	struct part part;

	for (size_t run = 0; run < jit->run_count; run++) {
		if (!find_jit_part(jit, run, address, &steps, &part))
			return until;
		for (size_t i = part.first; i < part.next; i++) {
			const struct symbol_jit_code *c = &jit->codes[i];

			if (address < c->end && c->from > tsc && c->from < until)
				until = c->from;
		}
	}
	return until;
}
