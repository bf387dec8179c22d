/* SPDX-License-Identifier: MIT */
/* Puts what the order of execution showed (outcomes.h) at its places. */
#include "output/annotate_internal.h"

#include <stdlib.h>

/* The object and the place of an address of the session. */
static uint32_t find_place(const struct annotation *a, int32_t space, uint64_t ip, uint64_t *at)
{
	const struct ptah_session *session = a->config.session;
	const int32_t lookup = space == OUTCOMES_KERNEL ? 0 : space;
	struct ptah_thread who = {.pid = space};
	struct ptah_map map;
	bool known = ptah_session_find_map(session, lookup, ip, 0, &map);

	*at = ip;
	if (known && outcomes_is_file(map.path, ip)) {
		*at = map.file_offset + (ip - map.address);
		return annotation_find_object(a, map.path, true, -1, NULL);
	}
	if (!(ip >> 63) && ptah_session_space(session, space, &who) < 0)
		who.pid = space;
	return annotation_find_object(a, known ? map.path : NULL, false, ip >> 63 ? -1 : who.pid,
				      NULL);
}

static int by_place(const void *a, const void *b)
{
	const struct annotate_bytes *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

static int add_bytes(struct annotation *a)
{
	const struct outcomes *o = a->config.outcomes;

	a->bytes = calloc(o->code_count + 1, sizeof(*a->bytes));
	if (!a->bytes)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < o->code_count; i++) {
		const struct outcome_code *code = &o->code[i];
		uint64_t at;
		const uint32_t object = find_place(a, code->space, code->ip, &at);

		if (object != NO_OBJECT)
			a->bytes[a->byte_count++] =
			    (struct annotate_bytes){.object = object,
						    .at = at,
						    .size = code->size,
						    .mode = code->mode,
						    .bytes = o->bytes + code->at};
	}
	qsort(a->bytes, a->byte_count, sizeof(*a->bytes), by_place);
	return 0;
}

int annotation_add_outcomes(struct annotation *a)
{
	const struct outcomes *o = a->config.outcomes;

	for (size_t i = 0; i < o->branch_count; i++) {
		uint64_t at;
		const uint32_t object = find_place(a, o->branches[i].space, o->branches[i].ip, &at);
		struct annotate_branch *b =
		    (struct annotate_branch *)(uintptr_t)annotation_branch(a, object, at);

		a->missed += o->branches[i].missed;
		if (b)
			b->missed += o->branches[i].missed;
	}
	return add_bytes(a);
}
