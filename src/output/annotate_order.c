/* SPDX-License-Identifier: MIT */
/* Puts what the order of execution showed (outcomes.h) at its places. */
#include "base/order.h"
#include "output/annotate_internal.h"

#include <stdlib.h>

/* An address of the session: the object of a file, or the process of other code. */
struct found_place {
	uint32_t object; /* NO_OBJECT: in no file that ran */
	bool is_file;
	int32_t pid;
	uint64_t at;
};

static struct found_place find_ordered_place(const struct annotation *a, int32_t space, uint64_t ip,
					     uint64_t version)
{
	const struct ptah_session *session = a->config.session;
	const int32_t lookup = space == OUTCOMES_KERNEL ? 0 : space;
	struct found_place place = {.object = NO_OBJECT, .pid = -1, .at = ip};
	struct ptah_thread who = {.pid = space};
	struct ptah_map map;

	if (ptah_session_find_map(session, lookup, ip, ptah_version_time(version), &map) &&
	    outcomes_is_file(map.path, ip)) {
		place.is_file = true;
		place.at = map.file_offset + (ip - map.address);
		place.object = annotation_find_file(a, map.path, NULL);
	} else if (!(ip >> 63)) {
		if (ptah_session_space(session, space, &who) < 0)
			who.pid = space;
		place.pid = who.pid;
	}
	return place;
}

static int by_ordered_place(const void *a, const void *b)
{
	const struct annotate_bytes *x = a, *y = b;

	return COMPARE_THEN(x->pid, y->pid,
			    COMPARE_THEN(x->version, y->version,
					 COMPARE_THEN(x->at, y->at, COMPARE(x->size, y->size))));
}

static int add_ordered_bytes(struct annotation *a)
{
	const struct outcomes *o = a->config.outcomes;

	a->bytes = calloc(o->code_count + 1, sizeof(*a->bytes));
	if (!a->bytes)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < o->code_count; i++) {
		const struct outcome_code *code = &o->code[i];
		const struct found_place place =
		    find_ordered_place(a, code->space, code->ip, code->version);

		if (!place.is_file)
			a->bytes[a->byte_count++] =
			    (struct annotate_bytes){.pid = place.pid,
						    .version = code->version,
						    .at = place.at,
						    .size = code->size,
						    .mode = code->mode,
						    .bytes = o->bytes + code->at};
	}
	qsort(a->bytes, a->byte_count, sizeof(*a->bytes), by_ordered_place);
	return 0;
}

/* The branch of an outcome. NULL: it was not counted. */
static const struct annotate_branch *find_ordered_branch(const struct annotation *a,
							 const struct outcome *outcome)
{
	const struct found_place place =
	    find_ordered_place(a, outcome->space, outcome->ip, outcome->version);
	const struct annotate_branch *b = NULL;
	uint32_t object = 0;

	if (place.is_file)
		return annotation_branch(a, place.object, place.at);
	for (; !b && object != NO_OBJECT; object += object != NO_OBJECT) {
		object = annotation_find_other(a, place.pid, outcome->version, object);
		b = annotation_branch(a, object, place.at);
	}
	return b;
}

int annotation_add_outcomes(struct annotation *a)
{
	const struct outcomes *o = a->config.outcomes;

	for (size_t i = 0; i < o->branch_count; i++) {
		struct annotate_branch *b =
		    (struct annotate_branch *)(uintptr_t)find_ordered_branch(a, &o->branches[i]);

		a->missed += o->branches[i].missed;
		if (b)
			b->missed += o->branches[i].missed;
	}
	return add_ordered_bytes(a);
}
