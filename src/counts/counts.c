/* SPDX-License-Identifier: MIT */
/* Counts by process: created from profiles, added up, merged, and read by callers. */
#include "counts/counts_internal.h"

#include "base/order.h"
#include "session/stream.h"
#include "profile/profile_internal.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

int ptah_counts_new(struct ptah_counts **counts)
{
	if (!counts)
		return PTAH_E_INVAL;
	*counts = calloc(1, sizeof(**counts));
	return *counts ? 0 : PTAH_E_NOMEM;
}

void counts_free_process(struct counts_process *p)
{
	free(p->spaces);
	free(p->blocks);
	free(p->edges);
	free(p->files);
	free(p->wholes);
	ptah_call_tree_free(p->calls);
}

void ptah_counts_free(struct ptah_counts *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		counts_free_process(&c->processes[i]);
	free(c->processes);
	strings_free(&c->paths);
	free(c);
}

struct counts_process *counts_append(struct ptah_counts *c)
{
	if (!LIST_ROOM(c->processes, c->count, c->capacity))
		return NULL;
	memset(&c->processes[c->count], 0, sizeof(*c->processes));
	return &c->processes[c->count++];
}

struct counts_process *counts_insert(struct ptah_counts *c, size_t at)
{
	struct counts_process *p;

	if (!counts_append(c))
		return NULL;
	p = &c->processes[at];
	memmove(p + 1, p, (c->count - 1 - at) * sizeof(*p));
	memset(p, 0, sizeof(*p));
	return p;
}

/* Sums of counts */

bool counts_add_sums(struct counts_sums *into, const struct counts_sums *from)
{
	struct counts_sums s;

	if (__builtin_add_overflow(into->instructions, from->instructions, &s.instructions) ||
	    __builtin_add_overflow(into->edges, from->edges, &s.edges) ||
	    __builtin_add_overflow(into->errors, from->errors, &s.errors) ||
	    __builtin_add_overflow(into->overflows, from->overflows, &s.overflows) ||
	    __builtin_add_overflow(into->gaps, from->gaps, &s.gaps) ||
	    __builtin_add_overflow(into->figures.instructions, from->figures.instructions,
				   &s.figures.instructions) ||
	    __builtin_add_overflow(into->figures.cycles, from->figures.cycles, &s.figures.cycles) ||
	    __builtin_add_overflow(into->figures.time, from->figures.time, &s.figures.time) ||
	    __builtin_add_overflow(into->calls, from->calls, &s.calls))
		return false;
	*into = s;
	return true;
}

bool counts_sum(struct counts_sums *sums, const struct counts_process *p)
{
	struct counts_sums s = {
	    .errors = p->events.errors, .overflows = p->events.overflows, .gaps = p->events.gaps};

	for (size_t i = 0; i < p->block_count; i++) {
		uint64_t n;

		if (__builtin_mul_overflow(p->blocks[i].count, p->blocks[i].ninsn, &n) ||
		    __builtin_add_overflow(s.instructions, n, &s.instructions))
			return false;
	}
	for (size_t i = 0; i < p->edge_count; i++)
		if (__builtin_add_overflow(s.edges, p->edges[i].count, &s.edges))
			return false;
	if (p->calls && !counts_sum_calls(&s, p->calls))
		return false;
	return counts_add_sums(sums, &s);
}

void counts_add_events(struct ptah_profile_totals *into, const struct ptah_profile_totals *from)
{
	if (!into->errors)
		into->first_error = from->first_error;
	into->errors += from->errors;
	into->overflows += from->overflows;
	into->gaps += from->gaps;
}

/* Adding a profile */

static int list_counted_spaces(struct counts_process *p, const struct ptah_profile *profile)
{
	struct ptah_space space;
	size_t n = 0;

	while (ptah_profile_space(profile, (unsigned)n, &space) >= 0)
		n++;
	p->spaces = calloc(n + 1, sizeof(*p->spaces));
	if (!p->spaces)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		ptah_profile_space(profile, (unsigned)i, &p->spaces[i]);
	p->space_count = n;
	return 0;
}

static int take_profile(struct counts_process *p, struct ptah_profile *profile)
{
	int status = ptah_profile_totals(profile, &p->events);

	if (status >= 0) {
		p->events.first_error = counts_timeless(&p->events.first_error);
		status = ptah_profile_blocks(profile, &p->blocks, &p->block_count);
	}
	if (status >= 0)
		status = ptah_profile_edges(profile, &p->edges, &p->edge_count);
	if (status >= 0)
		status = list_counted_spaces(p, profile);
	if (status >= 0)
		status = counts_sort(p);
	/* A decoder also meets spaces in which it counts nothing. */
	return status < 0 ? status : counts_drop_spaces(p);
}

static int by_pid(const void *a, const void *b)
{
	const struct counts_process *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return COMPARE(x->place, y->place);
}

size_t counts_first_of_pid(const struct ptah_counts *c, size_t count, int32_t pid)
{
	size_t at;

	BISECT(at, 0, count, c->processes[at].pid < pid);
	return at;
}

static int by_order(const void *a, const void *b)
{
	const struct counts_process *x = a, *y = b;
	int order = COMPARE(x->pid, y->pid);

	order = order ? order : COMPARE(x->order.stream, y->order.stream);
	order = order ? order : counts_compare_spaces(&x->order.space, &y->order.space);
	return order ? order : by_pid(a, b);
}

void counts_put_in_order(struct ptah_counts *c, bool ordered)
{
	for (size_t i = 0; i < c->count; i++)
		c->processes[i].place = i;
	if (c->count)
		qsort(c->processes, c->count, sizeof(*c->processes), ordered ? by_order : by_pid);
}

int counts_add_process(struct ptah_counts *c, struct counts_process *p)
{
	const size_t first = counts_first_of_pid(c, c->count, p->pid);
	struct counts_sums sums = c->sums;
	struct counts_process *into;
	int status = counts_sum(&sums, p) ? 0 : PTAH_E_LIMIT;
	size_t at = first;

	while (at < c->count && c->processes[at].pid == p->pid &&
	       !counts_same_program(&c->processes[at], p))
		at++;
	if (status >= 0 && at < c->count && c->processes[at].pid == p->pid) {
		status = counts_join(&c->processes[at], p);
	} else if (status >= 0 && at - first >= COUNTS_SAME_PID) {
		status = PTAH_E_LIMIT;
	} else if (status >= 0) {
		into = counts_insert(c, at);
		if (into) {
			*into = *p;
			memset(p, 0, sizeof(*p));
		} else {
			status = PTAH_E_NOMEM;
		}
	}
	counts_free_process(p);
	c->sums = status >= 0 ? sums : c->sums;
	return status;
}

int counts_add_profile(struct ptah_counts *c, int32_t pid, struct ptah_profile *profile)
{
	struct counts_process p = {.pid = pid, .space = pid};
	int status;

	if (!c || !profile)
		return PTAH_E_INVAL;
	status = take_profile(&p, profile);
	if (status < 0) {
		counts_free_process(&p);
		return status;
	}
	return counts_add_process(c, &p);
}

struct counts_process counts_process_of_space(const struct ptah_session *session, int32_t space)
{
	struct counts_process p = {.pid = space, .space = space};
	struct ptah_thread who;

	if (ptah_session_space(session, space, &who) >= 0) {
		p.pid = who.pid;
		/* Only zeros after the NUL: otherwise one name could differ from itself. */
		memcpy(p.comm, who.comm, strnlen(who.comm, sizeof(p.comm) - 1));
	}
	return p;
}

/*
 * The counts of `all` in one of its spaces. A session gives each process a space of its own, so in
 * saved counts the space is "any". The lists of `all` are sorted by space.
 */
static int take_space(struct counts_process *p, const struct counts_process *all, uint32_t space)
{
	size_t block = 0, edge = 0;

	while (block < all->block_count && all->blocks[block].space < space)
		block++;
	while (edge < all->edge_count && all->edges[edge].space < space)
		edge++;
	while (block + p->block_count < all->block_count &&
	       all->blocks[block + p->block_count].space == space)
		p->block_count++;
	while (edge + p->edge_count < all->edge_count &&
	       all->edges[edge + p->edge_count].space == space)
		p->edge_count++;
	p->spaces = calloc(1, sizeof(*p->spaces));
	p->blocks = calloc(p->block_count + 1, sizeof(*p->blocks));
	p->edges = calloc(p->edge_count + 1, sizeof(*p->edges));
	if (!p->spaces || !p->blocks || !p->edges)
		return PTAH_E_NOMEM;
	p->space_count = 1;
	p->spaces[0] = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	memcpy(p->blocks, all->blocks + block, p->block_count * sizeof(*p->blocks));
	memcpy(p->edges, all->edges + edge, p->edge_count * sizeof(*p->edges));
	for (size_t i = 0; i < p->block_count; i++)
		p->blocks[i].space = 0;
	for (size_t i = 0; i < p->edge_count; i++)
		p->edges[i].space = 0;
	return 0;
}

static int add_spaces(struct ptah_counts *c, const struct ptah_session *session,
		      const struct stream *stream, const struct counts_process *all)
{
	int status = 0;

	for (size_t i = 0; i < all->space_count && status >= 0; i++) {
		struct counts_process p = counts_process_of_space(
		    session, session_space_of(session, stream, &all->spaces[i]));

		p.order = (struct counts_order){all->order.stream, all->spaces[i]};
		status = take_space(&p, all, (uint32_t)i);
		if (status >= 0 && (p.block_count || p.edge_count))
			status = counts_add_process(c, &p);
		else
			counts_free_process(&p);
	}
	return status;
}

int ptah_counts_add_stream(struct ptah_counts *c, const struct ptah_session *session, size_t stream,
			   struct ptah_profile *profile)
{
	struct counts_process all,
	    lost = {.pid = -1, .space = -1, .order = {stream, {PTAH_SPACE_ANY, PTAH_SPACE_ANY}}};
	int status;

	if (!c || !session || stream >= session->stream_count || !profile)
		return PTAH_E_INVAL;
	all = counts_process_of_space(session, session->streams[stream].info.space);
	all.order.stream = stream;
	all.permanent = true;
	status = take_profile(&all, profile);
	if (status >= 0 && !session_has_spaces(session, &session->streams[stream]))
		return counts_add_process(c, &all);
	if (status >= 0)
		status = add_spaces(c, session, &session->streams[stream], &all);
	/* Losses belong to the trace, not to a process. */
	lost.events = all.events;
	counts_free_process(&all);
	if (status < 0 || !(lost.events.errors || lost.events.overflows || lost.events.gaps))
		return status;
	return counts_add_process(c, &lost);
}

/* Merging counts */

bool counts_same_mapping(const struct ptah_counts_file *a, const struct ptah_counts_file *b)
{
	return a->file_offset - a->address == b->file_offset - b->address &&
	       !strcmp(a->path, b->path) && a->build_id_size == b->build_id_size &&
	       !memcmp(a->build_id, b->build_id, a->build_id_size);
}

/* Whether there is no address at which the two had different files. */
static bool files_agree(const struct counts_process *a, const struct counts_process *b)
{
	size_t i = 0, j = 0;

	while (i < a->file_count && j < b->file_count) {
		const struct ptah_counts_file *x = &a->files[i], *y = &b->files[j];

		if (x->version < y->version ||
		    (x->version == y->version && counts_last(x) < y->address))
			i++;
		else if (x->version > y->version || counts_last(y) < x->address)
			j++;
		else if (!counts_same_mapping(x, y))
			return false;
		else if (counts_last(x) < counts_last(y))
			i++;
		else
			j++;
	}
	return true;
}

/* The process among the first `count` that is the same as `p`, or NULL. */
static struct counts_process *find_same(const struct ptah_counts *c, size_t count,
					const struct counts_process *p)
{
	for (size_t i = counts_first_of_pid(c, count, p->pid);
	     i < count && c->processes[i].pid == p->pid; i++)
		if (!memcmp(c->processes[i].comm, p->comm, sizeof(p->comm)) &&
		    files_agree(&c->processes[i], p))
			return &c->processes[i];
	return NULL;
}

int counts_keep_paths(struct ptah_counts *c, struct counts_process *p)
{
	for (size_t i = 0; i < p->file_count; i++) {
		const char *path = p->files[i].path;

		p->files[i].path = strings_keep(&c->paths, path, strlen(path));
		if (!p->files[i].path)
			return PTAH_E_NOMEM;
	}
	return 0;
}

static int merge_process(struct ptah_counts *into, size_t sorted, const struct counts_process *from)
{
	struct counts_process copy = {.pid = from->pid, .space = from->space}, *to;
	int status;

	memcpy(copy.comm, from->comm, sizeof(copy.comm));
	status = counts_join(&copy, from);
	if (status >= 0)
		status = counts_keep_paths(into, &copy);
	to = status >= 0 ? find_same(into, sorted, &copy) : NULL;
	if (to) {
		status = counts_move_spaces(&copy.calls, to->calls);
		if (status >= 0)
			status = counts_join(to, &copy);
	} else if (status >= 0) {
		to = counts_append(into);
		if (to) {
			*to = copy;
			memset(&copy, 0, sizeof(copy));
		} else {
			status = PTAH_E_NOMEM;
		}
	}
	counts_free_process(&copy);
	return status;
}

/* Whether there could be more processes of one pid than allowed, if no two of them are the same. */
static bool too_many_of_a_pid(const struct ptah_counts *a, const struct ptah_counts *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->count; i++) {
		const int32_t pid = b->processes[i].pid;

		if (!i || pid != b->processes[i - 1].pid) {
			n = counts_first_of_pid(a, a->count, pid);
			n = pid == INT32_MAX ? a->count - n
					     : counts_first_of_pid(a, a->count, pid + 1) - n;
		}
		if (++n > COUNTS_SAME_PID)
			return true;
	}
	return false;
}

int ptah_counts_merge(struct ptah_counts *into, const struct ptah_counts *from)
{
	const size_t sorted = into ? into->count : 0;
	struct counts_sums sums;
	int status = 0;

	if (!into || !from || into == from)
		return PTAH_E_INVAL;
	sums = into->sums;
	if (!counts_add_sums(&sums, &from->sums) || too_many_of_a_pid(into, from))
		return PTAH_E_LIMIT;
	/* Still right if only some are added: they are upper bounds. */
	into->sums = sums;
	into->times |= from->times;
	for (size_t i = 0; i < from->count && status >= 0; i++)
		status = merge_process(into, sorted, &from->processes[i]);
	/* Appended processes follow those with the same pid. */
	counts_put_in_order(into, false);
	return status;
}

/* What callers read */

bool ptah_counts_process(const struct ptah_counts *c, size_t i, struct ptah_counts_process *process)
{
	const struct counts_process *p;

	if (!c || !process || i >= c->count)
		return false;
	p = &c->processes[i];
	*process = (struct ptah_counts_process){
	    .pid = p->pid,
	    .comm = p->comm,
	    .blocks = p->blocks,
	    .edges = p->edges,
	    .spaces = p->spaces,
	    .files = p->files,
	    .block_count = p->block_count,
	    .edge_count = p->edge_count,
	    .space_count = p->space_count,
	    .file_count = p->file_count,
	    .calls = p->calls,
	    .folded = p->folded,
	};
	counts_add_events(&process->totals, &p->events);
	for (size_t k = 0; k < p->block_count; k++) {
		const struct ptah_profile_block *b = &p->blocks[k];

		process->totals.blocks += b->count;
		process->totals.instructions += b->count * b->ninsn;
		process->totals.classes[b->insn_class] += b->count;
		process->totals.taken += b->taken;
	}
	return true;
}

/* The file of this version alone. */
static const struct ptah_counts_file *find_in_version(const struct counts_process *p,
						      uint64_t address, uint64_t version)
{
	size_t low = 0, high = p->file_count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ptah_counts_file *f = &p->files[middle];

		if (f->version > version || (f->version == version && address < f->address))
			high = middle;
		else if (f->version < version || address > counts_last(f))
			low = middle + 1;
		else
			return f;
	}
	return NULL;
}

const struct ptah_counts_file *counts_find_file(const struct counts_process *p, uint64_t address,
						uint64_t version)
{
	const struct ptah_counts_file *f = find_in_version(p, address, version);

	return f || !version ? f : find_in_version(p, address, 0);
}

const struct ptah_counts_file *ptah_counts_find(const struct ptah_counts *c, size_t i,
						uint64_t address, uint64_t version)
{
	return c && i < c->count ? counts_find_file(&c->processes[i], address, version) : NULL;
}

int ptah_counts_totals(const struct ptah_counts *c, struct ptah_profile_totals *totals,
		       unsigned *times)
{
	struct ptah_counts_process p;

	if (!c || !totals)
		return PTAH_E_INVAL;
	if (times)
		*times = c->times;
	memset(totals, 0, sizeof(*totals));
	for (size_t i = 0; ptah_counts_process(c, i, &p); i++) {
		totals->instructions += p.totals.instructions;
		totals->blocks += p.totals.blocks;
		totals->taken += p.totals.taken;
		for (unsigned k = 0; k < PTAH_INSN_CLASS_MAX; k++)
			totals->classes[k] += p.totals.classes[k];
		counts_add_events(totals, &p.totals);
	}
	return 0;
}
