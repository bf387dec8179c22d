/* SPDX-License-Identifier: MIT */
/*
 * Finds what belongs together in two runs (diff.h): first the objects, by their paths, names, and
 * the functions they share; then the entries of each pair of objects, by their names.
 */
#include "output/diff.h"

#include "base/order.h"

#include <ptah/base.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* An object of one side: a range of the entries, which are sorted by path. */
struct object {
	const char *path;
	struct diff_entry *entries;
	size_t count;
	uint64_t value;
	size_t number; /* of its pair, from 1 on; 0: none yet */
};

struct side {
	struct object *objects;
	size_t count;
};

struct comparison {
	struct side sides[DIFF_SIDES];
	size_t pairs;
	struct diff *diff;
};

/* Objects */

/* The name by which an entry is found in another file. */
static const char *other_name(const struct diff_entry *e)
{
	return e->other_name ? e->other_name : e->name;
}

static int by_path(const void *a, const void *b)
{
	const struct diff_entry *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	return order ? order : strcmp(other_name(x), other_name(y));
}

static int list_objects(struct side *s, struct diff_entry *entries, size_t n)
{
	s->objects = calloc(n + 1, sizeof(*s->objects));
	if (!s->objects)
		return PTAH_E_NOMEM;
	if (n)
		qsort(entries, n, sizeof(*entries), by_path);
	for (size_t i = 0; i < n; i++) {
		struct object *o = s->count ? &s->objects[s->count - 1] : NULL;

		if (!o || strcmp(o->path, entries[i].path)) {
			o = &s->objects[s->count++];
			*o = (struct object){.path = entries[i].path, .entries = &entries[i]};
		}
		o->count++;
		o->value += entries[i].value;
	}
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* How many bytes of a library's name are the same in all its versions: "libz.so" of "libz.so.1.2",
 * "libc" of "libc-2.31.so". */
static size_t stem_length(const char *name)
{
	const char *so = strstr(name, ".so");
	const char *dash;

	if (!so || (so[3] && so[3] != '.'))
		return strlen(name);
	dash = strchr(name, '-');
	while (dash && dash < so && !isdigit((unsigned char)dash[1]))
		dash = strchr(dash + 1, '-');
	return dash && dash < so ? (size_t)(dash - name) : (size_t)(so - name);
}

static bool same_path(const struct object *x, const struct object *y)
{
	return !strcmp(x->path, y->path);
}

static bool same_name(const struct object *x, const struct object *y)
{
	return !strcmp(base_name(x->path), base_name(y->path));
}

static bool same_stem(const struct object *x, const struct object *y)
{
	const char *a = base_name(x->path), *b = base_name(y->path);
	const size_t n = stem_length(a);

	return n == stem_length(b) && !strncmp(a, b, n) && strstr(a, ".so") && strstr(b, ".so");
}

/*
 * Whether both objects have an entry of one name, or no names at all. The entries are sorted by
 * these names.
 */
static bool share_a_name(const struct object *x, const struct object *y)
{
	size_t i = 0, k = 0;

	while (i < x->count && k < y->count) {
		const char *name = other_name(&x->entries[i]);
		const int order = strcmp(name, other_name(&y->entries[k]));

		if (!order && name[0])
			return true;
		i += order <= 0;
		k += order >= 0;
	}
	/* Entries without names come first. */
	return !*other_name(&x->entries[x->count - 1]) && !*other_name(&y->entries[y->count - 1]);
}

static void pair_objects(struct comparison *c, struct object *x, struct object *y)
{
	x->number = y->number = ++c->pairs;
	if (strcmp(x->path, y->path))
		c->diff->renamed[c->diff->renamed_count++] = (struct diff_pair){{x->path, y->path}};
}

/* The largest object that has no partner yet. NULL: there is none. */
static struct object *largest(const struct side *s)
{
	struct object *best = NULL;

	for (size_t i = 0; i < s->count; i++)
		if (!s->objects[i].number && s->objects[i].path[0] != '[' &&
		    (!best || s->objects[i].value > best->value))
			best = &s->objects[i];
	return best;
}

static int find_pairs(struct comparison *c)
{
	static bool (*const rules[])(const struct object *,
				     const struct object *) = {same_path, same_name, same_stem};
	struct side *old = &c->sides[DIFF_OLD], *new = &c->sides[DIFF_NEW];
	struct object *x, *y;

	c->diff->renamed = calloc(old->count + 1, sizeof(*c->diff->renamed));
	if (!c->diff->renamed)
		return PTAH_E_NOMEM;
	for (size_t r = 0; r < sizeof(rules) / sizeof(*rules); r++)
		for (size_t i = 0; i < old->count; i++)
			for (size_t k = 0; k < new->count && !old->objects[i].number; k++)
				if (!new->objects[k].number &&
				    rules[r](&old->objects[i], &new->objects[k]))
					pair_objects(c, &old->objects[i], &new->objects[k]);
	/* Two versions of a program often have two names. */
	x = largest(old);
	y = largest(new);
	if (x && y && share_a_name(x, y))
		pair_objects(c, x, y);
	return 0;
}

/* Rows */

/*
 * How many bytes of a name do not depend on the compiler's mood: without the hash of Rust's legacy
 * mangling ("17h", 16 digits, "E").
 */
static size_t name_length(const char *name)
{
	const size_t n = strlen(name);

	if (n < 21 || strncmp(name, "_ZN", 3) || name[n - 1] != 'E' ||
	    strncmp(name + n - 20, "17h", 3))
		return n;
	for (size_t i = n - 17; i < n - 1; i++)
		if (!isxdigit((unsigned char)name[i]))
			return n;
	return n - 20;
}

static int compare_diff_names(const char *a, const char *b)
{
	const size_t n = name_length(a), m = name_length(b);
	int order = memcmp(a, b, n < m ? n : m);

	return order ? order : COMPARE(n, m);
}

static int by_diff_name(const void *a, const void *b)
{
	return compare_diff_names(((const struct diff_entry *)a)->name,
				  ((const struct diff_entry *)b)->name);
}

/* Adds up entries of one name. */
static void merge_entries(struct object *o)
{
	size_t last = 0;

	qsort(o->entries, o->count, sizeof(*o->entries), by_diff_name);
	for (size_t i = 1; i < o->count; i++) {
		if (compare_diff_names(o->entries[last].name, o->entries[i].name)) {
			o->entries[++last] = o->entries[i];
			continue;
		}
		o->entries[last].value += o->entries[i].value;
		o->entries[last].calls += o->entries[i].calls;
	}
	o->count = last + 1;
}

static void use_other_names(struct object *o)
{
	for (size_t i = 0; i < o->count; i++) {
		struct diff_entry *e = &o->entries[i];

		if (e->other_name)
			e->shown = e->other_shown;
		e->name = other_name(e);
	}
}

static bool is_same_file(const struct object *x, const struct object *y)
{
	const struct diff_entry *a = x->entries, *b = y->entries;

	if (!a->build_id_size || !b->build_id_size)
		return same_path(x, y);
	return a->build_id_size == b->build_id_size &&
	       !memcmp(a->build_id, b->build_id, a->build_id_size);
}

static const char *shown_name(const struct diff_entry *e)
{
	return e->shown ? e->shown : e->name;
}

/* At least one of the two is not NULL. The row has the new one's names. */
static void put_difference(struct diff *d, const struct diff_entry *old,
			   const struct diff_entry *new)
{
	const struct diff_entry *sides[] = {old, new};
	struct diff_row *row = &d->rows[d->count++];

	for (int i = 0; i < DIFF_SIDES; i++) {
		const struct diff_entry *e = sides[i];

		if (!e)
			continue;
		row->path = e->path;
		row->name = e->name;
		row->shown = shown_name(e);
		row->in[i] = true;
		row->value[i] = e->value;
		row->calls[i] = e->calls;
	}
}

/* Length of a name without what compilers append to clones: ".constprop.0", ".isra.3", ".llvm.123".
 */
static size_t clone_stem(const char *name)
{
	const char *dot = strchr(name + (name[0] == '.'), '.');

	return dot ? (size_t)(dot - name) : strlen(name);
}

/* Whether the names are those of clones of one function. */
static bool are_clones(const struct diff_entry *x, const struct diff_entry *y)
{
	const size_t n = clone_stem(x->name);

	return n && n == clone_stem(y->name) && !strncmp(x->name, y->name, n);
}

/* Entries of a pair of objects that have no partner of their name. */
struct left_over {
	struct diff_entry **entries[DIFF_SIDES];
	size_t counts[DIFF_SIDES];
	bool same_file; /* then no two of them are one function */
};

/* By stem, so that clones are neighbours. */
static int by_stem(const void *a, const void *b)
{
	const char *x = (*(struct diff_entry *const *)a)->name;
	const char *y = (*(struct diff_entry *const *)b)->name;
	const size_t n = clone_stem(x), m = clone_stem(y);
	int order = memcmp(x, y, n < m ? n : m);

	return order ? order : n < m ? -1 : n > m ? 1 : strcmp(x, y);
}

static int compare_stems(const struct diff_entry *x, const struct diff_entry *y)
{
	const size_t n = clone_stem(x->name), m = clone_stem(y->name);
	int order = memcmp(x->name, y->name, n < m ? n : m);

	return order ? order : COMPARE(n, m);
}

static int compare_shown(const struct diff_entry *x, const struct diff_entry *y)
{
	return strcmp(shown_name(x), shown_name(y));
}

static int by_shown(const void *a, const void *b)
{
	const struct diff_entry *x = *(struct diff_entry *const *)a;
	const struct diff_entry *y = *(struct diff_entry *const *)b;
	const int order = compare_shown(x, y);

	return order ? order : strcmp(x->name, y->name);
}

/* Marks entries of an object that are shown by one name. `list` has room for all of them. */
static void mark_shared(struct object *o, struct diff_entry **list)
{
	for (size_t i = 0; i < o->count; i++)
		list[i] = &o->entries[i];
	qsort(list, o->count, sizeof(*list), by_shown);
	for (size_t i = 1; i < o->count; i++)
		if (!compare_shown(list[i - 1], list[i]))
			list[i - 1]->shared = list[i]->shared = true;
}

/* A way to find entries of two objects that belong together. */
struct match {
	int (*sort)(const void *, const void *);
	int (*compare)(const struct diff_entry *, const struct diff_entry *);
	bool (*fits)(const struct diff_entry *, const struct diff_entry *);
};

/* Different manglings of one function (Rust's legacy one and v0, constructors of C++) are shown
 * alike. */
static bool are_shown_alike(const struct diff_entry *x, const struct diff_entry *y)
{
	return *shown_name(x) && !x->shared && !y->shared;
}

/* Clones whose suffix changed come first. */
static const struct match matches[] = {{by_stem, compare_stems, are_clones},
				       {by_shown, compare_shown, are_shown_alike}};

/* How many entries from the first one on are equal to it. */
static size_t run_length(const struct match *match, struct diff_entry *const *entries, size_t n)
{
	size_t k = 1;

	while (k < n && !match->compare(entries[0], entries[k]))
		k++;
	return k;
}

/* Reports entries that belong together where there is no doubt, and keeps the others. */
static void put_matches(struct diff *d, struct left_over *l, const struct match *match)
{
	struct diff_entry **x = l->entries[DIFF_OLD], **y = l->entries[DIFF_NEW];
	const size_t n = l->counts[DIFF_OLD], m = l->counts[DIFF_NEW];
	size_t i = 0, k = 0, *old = &l->counts[DIFF_OLD], *new = &l->counts[DIFF_NEW];

	if (!n || !m)
		return;
	qsort(x, n, sizeof(*x), match->sort);
	qsort(y, m, sizeof(*y), match->sort);
	*old = *new = 0;
	while (i < n || k < m) {
		const int order = i == n ? 1 : k == m ? -1 : match->compare(x[i], y[k]);
		const size_t a = order <= 0 ? run_length(match, x + i, n - i) : 0;
		const size_t b = order >= 0 ? run_length(match, y + k, m - k) : 0;

		if (a == 1 && b == 1 && match->fits(x[i], y[k])) {
			put_difference(d, x[i], y[k]);
		} else {
			for (size_t j = 0; j < a; j++)
				x[(*old)++] = x[i + j];
			for (size_t j = 0; j < b; j++)
				y[(*new)++] = y[k + j];
		}
		i += a;
		k += b;
	}
}

static void put_left_over(struct diff *d, struct left_over *l)
{
	for (size_t i = 0; i < sizeof(matches) / sizeof(*matches) && !l->same_file; i++)
		put_matches(d, l, &matches[i]);
	for (size_t i = 0; i < l->counts[DIFF_OLD]; i++)
		put_difference(d, l->entries[DIFF_OLD][i], NULL);
	for (size_t i = 0; i < l->counts[DIFF_NEW]; i++)
		put_difference(d, NULL, l->entries[DIFF_NEW][i]);
}

static int put_pair(struct diff *d, struct object *old, struct object *new)
{
	struct left_over left = {.same_file = is_same_file(old, new)};
	size_t i = 0, k = 0;

	if (!left.same_file) {
		use_other_names(old);
		use_other_names(new);
	}
	merge_entries(old);
	merge_entries(new);
	left.entries[DIFF_OLD] = calloc(old->count, sizeof(*left.entries[DIFF_OLD]));
	left.entries[DIFF_NEW] = calloc(new->count, sizeof(*left.entries[DIFF_NEW]));
	if (!left.entries[DIFF_OLD] || !left.entries[DIFF_NEW]) {
		free(left.entries[DIFF_OLD]);
		free(left.entries[DIFF_NEW]);
		return PTAH_E_NOMEM;
	}
	mark_shared(old, left.entries[DIFF_OLD]);
	mark_shared(new, left.entries[DIFF_NEW]);
	while (i < old->count || k < new->count) {
		const int order = i == old->count   ? 1
				  : k == new->count ? -1
						    : compare_diff_names(old->entries[i].name,
									 new->entries[k].name);

		if (!order)
			put_difference(d, &old->entries[i], &new->entries[k]);
		else if (order < 0)
			left.entries[DIFF_OLD][left.counts[DIFF_OLD]++] = &old->entries[i];
		else
			left.entries[DIFF_NEW][left.counts[DIFF_NEW]++] = &new->entries[k];
		i += order <= 0;
		k += order >= 0;
	}
	put_left_over(d, &left);
	free(left.entries[DIFF_OLD]);
	free(left.entries[DIFF_NEW]);
	return 0;
}

static struct object *partner(struct side *s, size_t number)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->objects[i].number == number)
			return &s->objects[i];
	return NULL;
}

static void put_alone(struct diff *d, struct side *s, enum diff_side side)
{
	for (size_t i = 0; i < s->count; i++) {
		struct object *o = &s->objects[i];

		if (o->number)
			continue;
		merge_entries(o);
		for (size_t k = 0; k < o->count; k++)
			put_difference(d, side == DIFF_OLD ? &o->entries[k] : NULL,
				       side == DIFF_NEW ? &o->entries[k] : NULL);
	}
}

static int put_rows(struct comparison *c)
{
	struct side *old = &c->sides[DIFF_OLD], *new = &c->sides[DIFF_NEW];
	int status = 0;

	for (size_t i = 0; i < old->count && status >= 0; i++)
		if (old->objects[i].number)
			status = put_pair(c->diff, &old->objects[i],
					  partner(new, old->objects[i].number));
	put_alone(c->diff, old, DIFF_OLD);
	put_alone(c->diff, new, DIFF_NEW);
	return status;
}

static uint64_t change(const struct diff_row *row)
{
	const uint64_t old = row->value[DIFF_OLD], new = row->value[DIFF_NEW];

	return old < new ? new - old : old - new;
}

static int by_change(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	int order;

	if (change(x) != change(y))
		return change(x) > change(y) ? -1 : 1;
	if (x->value[DIFF_NEW] != y->value[DIFF_NEW])
		return x->value[DIFF_NEW] > y->value[DIFF_NEW] ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order ? order : strcmp(x->path, y->path);
}

int diff_compare(struct diff_entry *entries[DIFF_SIDES], const size_t counts[DIFF_SIDES],
		 struct diff *diff)
{
	struct comparison c = {.diff = diff};
	int status = 0;

	*diff = (struct diff){0};
	for (int side = 0; side < DIFF_SIDES && status >= 0; side++)
		status = list_objects(&c.sides[side], entries[side], counts[side]);
	if (status >= 0)
		status = find_pairs(&c);
	if (status >= 0) {
		diff->rows = calloc(counts[DIFF_OLD] + counts[DIFF_NEW] + 1, sizeof(*diff->rows));
		status = diff->rows ? put_rows(&c) : PTAH_E_NOMEM;
	}
	if (status >= 0)
		qsort(diff->rows, diff->count, sizeof(*diff->rows), by_change);
	for (int side = 0; side < DIFF_SIDES; side++)
		free(c.sides[side].objects);
	return status;
}

void diff_fini(struct diff *diff)
{
	free(diff->rows);
	free(diff->renamed);
	*diff = (struct diff){0};
}
