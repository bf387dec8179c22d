/* SPDX-License-Identifier: MIT */
/*
 * Random programs, traced and decoded: the machine finds the same calls in the flow's spans as in
 * its items.
 */
#include "test.h"

#include "flow/flow_machine.h"
#include "flow/random_machine.h"
#include "mark_list.h"
#include "calls/calls.h"

#include <ptah/calls.h>

#include <stdlib.h>

#define PIECE 64 /* bytes of code that are taken for a function */

static bool find(void *context, unsigned space, uint64_t ip, uint64_t tsc, struct ptah_function *f)
{
	(void)context;
	(void)space;
	(void)tsc;
	if (ip / PIECE % 8 == 7) /* some are not known */
		return false;
	f->low = f->start = ip / PIECE * PIECE;
	f->high = f->low + PIECE;
	f->flags = ip / PIECE % 8 == 6 ? PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT : 0;
	return true;
}

static void take_items(struct calls_marks *calls, const struct ptah_item *items, size_t n,
		       struct list *l)
{
	struct ptah_call_mark marks[100];
	size_t count;

	for (size_t k = 0; k < n;) {
		const int used = calls_marks_take(calls, items + k, n - k, marks, 100, &count);

		assert_true(used >= 0);
		append(l, marks, count);
		k += (size_t)used;
	}
}

/* What calls are found in. */
enum form {
	ITEMS,
	SPANS,
	EVENT_SPANS, /* with events among them */
	FORMS
};

static void take_spans(struct calls_marks *calls, struct ptah_flow *flow, enum form form,
		       struct list *l)
{
	struct ptah_call_mark marks[100];
	struct ptah_span spans[PTAH_FLOW_MIN_SPANS];
	size_t count;
	int n;

	while ((n = form == SPANS ? ptah_flow_read_spans(flow, spans, PTAH_FLOW_MIN_SPANS)
				  : flow_read_event_spans(flow, spans, PTAH_FLOW_MIN_SPANS)) > 0) {
		for (int k = 0, used; k < n; k += used) {
			used = calls_marks_take_spans(calls, spans + k, (size_t)(n - k), marks, 100,
						      &count);
			assert_true(used >= 0);
			append(l, marks, count);
		}
	}
	assert_int_equal(n, 0);
}

static void find_calls(const struct machine *m, size_t size, enum form form, struct list *l)
{
	const struct calls_config config = {.size = sizeof(config), .find = find};
	struct ptah_call_mark marks[100];
	struct calls_marks *calls;
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[64];
	int n;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, m->code, sizeof(m->code), BASE, NULL), 0);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, m->trace, size, true), 0);
	assert_int_equal(calls_marks_new(&config, &calls), 0);
	flow_set_bounds(flow, calls_marks_bounds, calls);
	do {
		if (form != ITEMS)
			take_spans(calls, flow, form, l);
		n = ptah_flow_read(flow, items, form == ITEMS ? 64 : 1);
		take_items(calls, items, n > 0 ? (size_t)n : 0, l);
	} while (n > 0);
	while ((n = calls_marks_finish(calls, marks, 100)) > 0)
		append(l, marks, (size_t)n);
	calls_marks_free(calls);
	ptah_flow_free(flow);
	ptah_image_free(image);
}

static size_t count_calls(const struct list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->count; i++)
		n += !l->marks[i].end && l->marks[i].how == PTAH_CALL_CALLED;
	return n;
}

TEST(same_calls)
{
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct list lists[FORMS] = {{0}}, *const items = &lists[ITEMS];
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, false, &size);

		for (unsigned form = 0; form < FORMS; form++)
			find_calls(m, size, form, &lists[form]);
		assert_true(items->count > 100);
		for (unsigned form = SPANS; form < FORMS; form++) {
			assert_int_equal(items->count, lists[form].count);
			for (size_t i = 0; i < items->count; i++)
				if (memcmp(&items->marks[i], &lists[form].marks[i],
					   sizeof(*items->marks)))
					fail_msg("seed %u, form %u, mark %zu of %zu", seed, form, i,
						 items->count);
		}
		for (unsigned form = 0; form < FORMS; form++)
			free(lists[form].marks);
		machine_free(m);
	}
}

/*
 * A span says where its branch went, even if a loss follows and nothing is known to have run there.
 * Items do not, so that with spans there is a call more before some losses.
 */
TEST(calls_before_losses)
{
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct list items = {0}, spans = {0};
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, true, &size);

		find_calls(m, size, ITEMS, &items);
		find_calls(m, size, seed % 3 ? SPANS : EVENT_SPANS, &spans);
		assert_true(items.marks[items.count - 1].thread.instructions ==
			    spans.marks[spans.count - 1].thread.instructions);
		assert_true(count_calls(&spans) >= count_calls(&items));
		assert_true(count_calls(&spans) <= count_calls(&items) + m->overflows);
		free(items.marks);
		free(spans.marks);
		machine_free(m);
	}
}
