/* SPDX-License-Identifier: MIT */
/*
 * Lists what a process had mapped, and which of these changes must wait for their time.
 *
 * Most of what a process maps replaces nothing. It can be in the image from the beginning, because
 * no instruction can have been executed there before; so coarse time stamps do no harm. Only what
 * replaces something earlier has to wait for its time.
 */
#include "session/guest.h"
#include "session/trace_set.h"

#include "base/compiler.h"
#include "base/hash.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

/*
 * Which addresses are taken: a segment tree over the addresses where something begins or ends, so
 * that a recording with a hundred thousand pieces of JIT code takes n log n steps.
 */
struct cover {
	uint64_t *places; /* sorted, each once */
	size_t count;
	size_t leaves; /* a power of two; leaf i is [places[i], places[i + 1]) */
	uint8_t *nodes;
};

#define COVER_ALL  1 /* all leaves below are taken */
#define COVER_SOME 2 /* some leaf below is taken */

static int compare_places(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return COMPARE(x, y);
}

/*
 * The address after a change's last one. A change that ends with the address space ends one byte
 * early here.
 */
static uint64_t end_of(const struct change *c)
{
	return c->size > UINT64_MAX - c->address ? UINT64_MAX : c->address + c->size;
}

static size_t place_of(const struct cover *cover, uint64_t address)
{
	const uint64_t *p =
	    bsearch(&address, cover->places, cover->count, sizeof(address), compare_places);

	return (size_t)(p - cover->places);
}

static int cover_init(struct cover *cover, const struct change **changes, size_t n)
{
	size_t unique = 0;

	cover->count = 0;
	cover->places = malloc((2 * n + 1) * sizeof(*cover->places));
	if (!cover->places)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		cover->places[cover->count++] = changes[i]->address;
		cover->places[cover->count++] = end_of(changes[i]);
	}
	qsort(cover->places, cover->count, sizeof(*cover->places), compare_places);
	for (size_t i = 0; i < cover->count; i++)
		if (!unique || cover->places[unique - 1] != cover->places[i])
			cover->places[unique++] = cover->places[i];
	cover->count = unique;
	for (cover->leaves = 1; cover->leaves < unique; cover->leaves *= 2)
		;
	cover->nodes = calloc(2 * cover->leaves, 1);
	if (!cover->nodes)
		free(cover->places);
	return cover->nodes ? 0 : PTAH_E_NOMEM;
}

static void take_node(struct cover *cover, size_t node)
{
	cover->nodes[node] |= COVER_ALL | COVER_SOME;
	while ((node /= 2) && !(cover->nodes[node] & COVER_SOME))
		cover->nodes[node] |= COVER_SOME;
}

static void cover_take(struct cover *cover, const struct change *c)
{
	size_t left = place_of(cover, c->address) + cover->leaves;
	size_t right = place_of(cover, end_of(c)) + cover->leaves;

	for (; left < right; left /= 2, right /= 2) {
		if (left & 1)
			take_node(cover, left++);
		if (right & 1)
			take_node(cover, --right);
	}
}

static bool below_taken(const struct cover *cover, size_t node)
{
	for (; node; node /= 2)
		if (cover->nodes[node] & COVER_ALL)
			return true;
	return false;
}

static bool cover_is_taken(const struct cover *cover, const struct change *c)
{
	size_t left = place_of(cover, c->address) + cover->leaves;
	size_t right = place_of(cover, end_of(c)) + cover->leaves;

	/* A taken node above the range covers the range's first or last leaf. */
	if (left >= right)
		return false;
	if (below_taken(cover, left) || below_taken(cover, right - 1))
		return true;
	for (; left < right; left /= 2, right /= 2) {
		if (left & 1 && cover->nodes[left++])
			return true;
		if (right & 1 && cover->nodes[--right])
			return true;
	}
	return false;
}

static bool leaves_code(const struct change *c)
{
	return c->type == CHANGE_CODE || (c->type == CHANGE_MAP && change_is_file(c));
}

/*
 * The pages of a virtual machine say themselves whether they replace others: those have a time. All
 * changes of its processors are pages.
 */
static int find_waiting_pages(const struct change **changes, size_t n, bool *waits)
{
	for (size_t i = 0; i < n; i++)
		waits[i] = changes[i]->tsc;
	return 0;
}

static int find_waiting(const struct change **changes, size_t n, bool *waits)
{
	struct cover cover;
	int status;

	if (n && changes[0]->type == CHANGE_PAGE)
		return find_waiting_pages(changes, n, waits);
	status = cover_init(&cover, changes, n);
	if (status < 0)
		return status;
	for (size_t i = 0; i < n; i++) {
		bool taken = cover_is_taken(&cover, changes[i]);

		/* Time 0: in memory from the beginning, however late it was reported. */
		waits[i] = taken && changes[i]->tsc;
		if (taken || leaves_code(changes[i]))
			cover_take(&cover, changes[i]);
	}
	free(cover.places);
	free(cover.nodes);
	return 0;
}

/* A span of a process's own changes, [first, last), with what was inherited before them. */
struct span {
	size_t process, first, last;
};

static struct span span_of(const struct ptah_session *s, size_t process, size_t first, size_t last)
{
	const size_t count = s->processes[process].count;

	return (struct span){process, first, last < count ? last : count};
}

/*
 * The number of changes that are collected. Changes before the last execve are not, and none of the
 * parent's if `first` is after an execve.
 */
static size_t count_changes(const struct ptah_session *s, struct span span)
{
	size_t n = span.last - span.first, process = span.process;

	while (!span.first && s->processes[process].parent != SESSION_NONE) {
		n += s->processes[process].inherited;
		process = s->processes[process].parent;
	}
	return n;
}

static void gather(const struct ptah_session *s, struct span span, const struct change **changes,
		   size_t n)
{
	size_t own = span.last, process = span.process;

	while (process != SESSION_NONE) {
		const struct process *p = &s->processes[process];

		for (size_t i = own; i-- > span.first;)
			changes[--n] = &p->changes[i];
		if (span.first)
			return;
		own = p->inherited;
		process = p->parent;
	}
}

static int list_memory(const struct ptah_session *s, struct span span,
		       const struct change ***changes, bool **waits, size_t *count)
{
	int status = PTAH_E_NOMEM;

	*count = count_changes(s, span);
	*changes = calloc(*count + 1, sizeof(**changes));
	*waits = calloc(*count + 1, sizeof(**waits));
	if (*changes && *waits) {
		gather(s, span, *changes, *count);
		status = find_waiting(*changes, *count, *waits);
	}
	if (status < 0) {
		free(*changes);
		free(*waits);
	}
	return status;
}

int session_memory(const struct ptah_session *s, size_t process, const struct change ***changes,
		   bool **waits, size_t *count)
{
	return list_memory(s, span_of(s, process, 0, SESSION_NONE), changes, waits, count);
}

int session_stream_memory(const struct ptah_session *s, const struct stream *stream,
			  const struct change ***changes, bool **waits, size_t *count)
{
	return list_memory(s, span_of(s, stream->process, stream->first, stream->last), changes,
			   waits, count);
}

/* Streams with the same memory */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return hash_number(hash ^ value) >> 7 ^ value;
}

/* A stream's memory during a comparison. */
struct memory {
	const struct change **changes;
	size_t count;
	bool changes_later;
	uint64_t hash;
};

static int memory_init(struct memory *m, const struct ptah_session *s, const struct stream *stream)
{
	bool *waits;
	int status = session_stream_memory(s, stream, &m->changes, &waits, &m->count);

	if (status < 0)
		return status;
	m->changes_later = false;
	m->hash = m->count;
	for (size_t i = 0; i < m->count; i++) {
		m->changes_later |= waits[i];
		m->hash = mix(mix(m->hash, m->changes[i]->address), m->changes[i]->size);
		m->hash = mix(m->hash, (uintptr_t)m->changes[i]->path);
	}
	free(waits);
	return 0;
}

static bool same_change(const struct change *a, const struct change *b)
{
	if (a == b)
		return true;
	if (a->type != b->type || a->address != b->address || a->size != b->size ||
	    a->file_offset != b->file_offset || a->path != b->path || a->space != b->space ||
	    memcmp(&a->id, &b->id, sizeof(a->id)) != 0)
		return false;
	if (a->type == CHANGE_PAGE)
		return a->bytes == b->bytes;
	return a->type != CHANGE_CODE || !memcmp(a->bytes, b->bytes, (size_t)a->size);
}

static bool same_memory(const struct memory *a, const struct memory *b)
{
	if (a->hash != b->hash || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!same_change(a->changes[i], b->changes[i]))
			return false;
	return true;
}

/*
 * Compares the memory with that of the stream found for its hash, whose changes are listed again
 * for this.
 */
static int compare_with(const struct ptah_session *s, size_t other, const struct memory *m,
			bool *same)
{
	struct memory of;
	int status = memory_init(&of, s, &s->streams[other]);

	if (status < 0)
		return status;
	*same = same_memory(&of, m);
	free(of.changes);
	return 0;
}

/* Streams of a set that run over the code of no process run over the same code. */
static void find_alike_of_none(const struct ptah_session *s, struct stream *stream, size_t i,
			       size_t *first)
{
	if (!s->is_set || stream->cpu != SESSION_NONE || stream->info.space != -1 ||
	    kernel_later(&s->kernel))
		return;
	if (*first == SESSION_NONE)
		*first = i;
	stream->like = *first;
}

static int find_alike(struct ptah_session *s, size_t i, struct table *by_hash, size_t *first)
{
	struct stream *stream = &s->streams[i];
	bool same = false;
	struct memory m;
	size_t other;
	int status;

	stream->like = i;
	if (stream->process == SESSION_NONE)
		find_alike_of_none(s, stream, i, first);
	if (stream->process == SESSION_NONE)
		return 0;
	status = memory_init(&m, s, stream);
	if (status < 0)
		return status;
	if (!m.changes_later && !kernel_later(&s->kernel)) {
		other = table_get(by_hash, (uint32_t)m.hash);
		if (other == SESSION_NONE)
			status = table_set(by_hash, (uint32_t)m.hash, i);
		else
			status = compare_with(s, other, &m, &same);
		if (same)
			stream->like = other;
	}
	free(m.changes);
	return status;
}

int session_find_alike(struct ptah_session *s)
{
	struct table by_hash = {0};
	size_t first = SESSION_NONE;
	int status = 0;

	for (size_t i = 0; i < s->stream_count && status >= 0; i++)
		status = find_alike(s, i, &by_hash, &first);
	table_free(&by_hash);
	return status;
}

/* Look-ups */

static int compare_addresses(const void *a, const void *b, void *context)
{
	const struct change *changes = context;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return COMPARE_THEN(changes[x].address, changes[y].address, COMPARE(x, y));
}

int session_index_process(struct process *p)
{
	size_t execs_at = 0;

	free(p->by_address);
	p->indexed = 0;
	p->by_address = calloc(p->count + 1, sizeof(*p->by_address));
	if (!p->by_address)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < p->count; i++) {
		if (p->changes[i].type == CHANGE_EXEC)
			execs_at = i + 1;
		else
			p->by_address[p->indexed++] = i;
		p->changes[i].execs_at = execs_at;
	}
	qsort_r(p->by_address, p->indexed, sizeof(*p->by_address), compare_addresses, p->changes);
	return change_index_build(&p->index, p->changes, p->count);
}

int session_index_maps(struct ptah_session *s)
{
	int status;

	for (size_t i = 0; i < s->process_count; i++) {
		status = session_index_process(&s->processes[i]);
		if (status < 0)
			return status;
	}
	status = session_index_process(&s->kernel.maps);
	return status < 0 ? status : session_index_process(&s->kernel.functions);
}

/* How many of the first n changes had happened by `tsc`; a tsc of 0 stands for the end. */
static size_t count_until(const struct process *p, size_t n, uint64_t tsc)
{
	size_t at;

	if (!tsc)
		return n;
	BISECT(at, 0, n, p->changes[at].tsc <= tsc);
	return at;
}

/* The process that a space number stands for, and up to when. SESSION_NONE: none. */
static size_t process_of_space(const struct ptah_session *s, int32_t space, uint64_t *tsc)
{
	size_t process, program = (size_t)(-2 - (int64_t)space);

	if (space < -1) {
		if (program >= s->program_count)
			return SESSION_NONE;
		if (!*tsc || (s->programs[program].until && *tsc > s->programs[program].until))
			*tsc = s->programs[program].until;
		return s->programs[program].process;
	}
	process = table_get(&s->processes_by_pid, (uint32_t)space);
	while (process != SESSION_NONE && *tsc && *tsc < s->processes[process].born &&
	       s->processes[process].older != SESSION_NONE)
		process = s->processes[process].older;
	return process;
}

/* Code of a file that the recording has, too, has the names of the file that was mapped there. */
static const struct change *file_of(const struct process *p, const struct change *c)
{
	for (const struct change *at = c; c->type == CHANGE_CODE && at-- > p->changes;) {
		if (at->type == CHANGE_EXEC || c->tsc - at->tsc >= CHANGE_SAME_TICKS)
			break;
		if (at->type == CHANGE_MAP && change_is_file(at) && at->address <= c->address &&
		    c->address - at->address < at->size)
			return at;
	}
	return c;
}

static void describe_change(const struct change *c, struct ptah_map *map)
{
	const bool code = c->type == CHANGE_CODE;

	*map = (struct ptah_map){c->address, c->size, code ? c->address : c->file_offset,
				 code ? "[code]" : c->path};
}

/*
 * At the end (tsc 0) the last code that was at the address counts, although it may have been
 * removed before: it has counts that want a name.
 */
static bool find_kernel_map(const struct ptah_session *s, uint64_t address, uint64_t tsc,
			    struct ptah_map *map)
{
	const struct process *lists[] = {&s->kernel.functions, &s->kernel.maps};
	const enum wanted_change wanted = tsc == PTAH_TIME_FIRST ? WANTED_FIRST
					  : tsc			 ? WANTED_LAST_OR_GONE
								 : WANTED_LAST;
	const uint64_t until = wanted == WANTED_FIRST ? PTAH_TIME_LAST : tsc;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct process *p = lists[i];
		const struct change *c = change_index_find(
		    &p->index, p->changes, 0, count_until(p, p->count, until), address, wanted);

		if (!c || c->type == CHANGE_GONE)
			continue;
		describe_change(c, map);
		return true;
	}
	return false;
}

/*
 * What comes to an address first does not wait for its time (find_waiting()): code that reaches
 * into it may have run earlier. The first of the changes behind the first `n`, up to an execve.
 */
static bool find_later_map(const struct process *p, size_t n, size_t count, uint64_t address,
			   struct ptah_map *map, bool found)
{
	const size_t execs_at = n ? p->changes[n - 1].execs_at : 0;
	const struct change *c;
	size_t end;

	BISECT(end, n, count, p->changes[end].execs_at == execs_at);
	c = change_index_find(&p->index, p->changes, n, end, address, WANTED_FIRST);
	if (c)
		describe_change(file_of(p, c), map);
	/* Those that a child found come behind. */
	return c || (found && end == count);
}

static bool find_process_map(const struct ptah_session *s, int32_t space, uint64_t address,
			     uint64_t tsc, struct ptah_map *map)
{
	const enum wanted_change wanted = tsc == PTAH_TIME_FIRST ? WANTED_FIRST : WANTED_LAST;
	uint64_t until = wanted == WANTED_FIRST ? PTAH_TIME_LAST : tsc;
	size_t process = process_of_space(s, space, &until), inherited = SIZE_MAX;
	bool found = false;

	while (process != SESSION_NONE) {
		const struct process *p = &s->processes[process];
		size_t count = inherited < p->count ? inherited : p->count;
		size_t n = count_until(p, count, until);
		size_t first = n ? p->changes[n - 1].execs_at : 0;
		const struct change *c =
		    change_index_find(&p->index, p->changes, first, n, address, wanted);

		if (c)
			describe_change(file_of(p, c), map);
		found = c ||
			(wanted == WANTED_FIRST ? found
						: find_later_map(p, n, count, address, map, found));
		/* What was there first may be the parent's. */
		if (first || (c && wanted != WANTED_FIRST))
			break;
		inherited = p->inherited;
		process = p->parent;
	}
	return found;
}

bool ptah_session_find_map(const struct ptah_session *s, int32_t space, uint64_t address,
			   uint64_t tsc, struct ptah_map *map)
{
	if (!s || !map)
		return false;
	ptah_session_version(s, &space, &tsc);
	return find_process_map(s, space, address, tsc, map) ||
	       (address >= KERNEL_HALF && find_kernel_map(s, address, tsc, map)) ||
	       guest_find_map(s, space, address, tsc, map) ||
	       session_find_set_map(s, space, address, map);
}
