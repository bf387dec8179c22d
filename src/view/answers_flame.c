/* SPDX-License-Identifier: MIT */
/*
 * The answers "flame" (of everything, of a thread, of a window; by caller or by callee) and
 * "histogram" (of a function's calls).
 */
#include "base/order.h"
#include "view/answers.h"
#include "view/flame.h"

#include <stdlib.h>
#include <string.h>

/* An answer has at most so many nodes, those with the most. */
#define MOST 100000

static int compare_figures(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return COMPARE(y, x);
}

/* Nodes below this figure are left out, so that at most MOST are shown. */
static int find_least(const struct flame *f, uint64_t *least)
{
	uint64_t *figures;

	*least = 0;
	if (f->count <= MOST)
		return 0;
	figures = malloc(f->count * sizeof(*figures));
	if (!figures)
		return PTAH_E_NOMEM;
	for (uint32_t i = 0; i < f->count; i++)
		figures[i] = f->nodes[i].inclusive;
	qsort(figures, f->count, sizeof(*figures), compare_figures);
	*least = figures[MOST] + 1;
	free(figures);
	return 0;
}

/* The order of nodes in the answer: parents first, siblings by their figures. */
struct order {
	uint32_t *list;	   /* nodes */
	uint32_t *numbers; /* of nodes in the answer */
	uint32_t count;
};

static int compare_nodes(const void *a, const void *b, void *flame)
{
	const struct flame *f = flame;
	const struct flame_node *x = &f->nodes[*(const uint32_t *)a];
	const struct flame_node *y = &f->nodes[*(const uint32_t *)b];

	if (x->inclusive != y->inclusive)
		return x->inclusive > y->inclusive ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Sorting all nodes by figure keeps parents first: none has less than its children. */
static int make_order(const struct flame *f, uint64_t least, struct order *o)
{
	o->list = calloc(f->count, sizeof(*o->list));
	o->numbers = calloc(f->count, sizeof(*o->numbers));
	if (!o->list || !o->numbers)
		return PTAH_E_NOMEM;
	for (uint32_t i = 0; i < f->count; i++)
		if (!i || f->nodes[i].inclusive >= least)
			o->list[o->count++] = i;
	qsort_r(o->list, o->count, sizeof(*o->list), compare_nodes, (void *)(uintptr_t)f);
	for (uint32_t i = 0; i < o->count; i++)
		o->numbers[o->list[i]] = i;
	return 0;
}

static void put_columns(struct json *j, const struct flame *f, const struct order *o)
{
	static const char *const words[] = {[FLAME_ROOT] = "[all]",
					    [FLAME_OUTSIDE] = "[outside of functions]",
					    [FLAME_FOLDED] = "[folded]"};

	json_array(j, "function");
	for (uint32_t i = 0; i < o->count; i++)
		json_signed(j, NULL,
			    f->nodes[o->list[i]].special ? -1
							 : (int64_t)f->nodes[o->list[i]].function);
	json_end_array(j);
	json_array(j, "special");
	for (uint32_t i = 0; i < o->count; i++)
		json_string(j, NULL, words[f->nodes[o->list[i]].special]);
	json_end_array(j);
	json_array(j, "parent");
	for (uint32_t i = 0; i < o->count; i++)
		json_signed(j, NULL,
			    o->list[i] ? (int64_t)o->numbers[f->nodes[o->list[i]].parent] : -1);
	json_end_array(j);
	json_array(j, "incl");
	for (uint32_t i = 0; i < o->count; i++)
		json_number(j, NULL, f->nodes[o->list[i]].inclusive);
	json_end_array(j);
	json_array(j, "self");
	for (uint32_t i = 0; i < o->count; i++)
		json_number(j, NULL, f->nodes[o->list[i]].self);
	json_end_array(j);
	json_array(j, "count");
	for (uint32_t i = 0; i < o->count; i++)
		json_number(j, NULL, f->nodes[o->list[i]].count);
	json_end_array(j);
}

static int put_flame(struct json *j, const struct flame *f, bool complete)
{
	struct order o = {0};
	uint64_t least;
	int status = find_least(f, &least);

	if (status >= 0)
		status = make_order(f, least, &o);
	if (status >= 0) {
		json_object(j, NULL, true);
		json_bool(j, "complete", complete);
		json_bool(j, "exact", !f->inexact);
		json_number(j, "least", least);
		json_number(j, "left_out", f->count - o.count);
		put_columns(j, f, &o);
		json_end_object(j);
		json_finish(j);
	}
	free(o.list);
	free(o.numbers);
	return status;
}

/* What a flame graph is asked for. */
struct asked {
	bool up;
	bool all;		    /* neither one thread of several nor a window */
	struct view_thread *thread; /* NULL: all */
	struct flame_window window;
};

static int get_value(struct view_model *m, const struct view_query *query, struct view_reply *reply,
		     enum ptah_call_value *value)
{
	const char *text = view_query_text(query, "value");

	if (!text || !strcmp(text, "instructions"))
		*value = PTAH_CALL_VALUE_INSTRUCTIONS;
	else if (!strcmp(text, "time") && m->has_time)
		*value = PTAH_CALL_VALUE_TIME;
	else if (!strcmp(text, "cycles") && m->has_cycles)
		*value = PTAH_CALL_VALUE_CYCLES;
	else if (!strcmp(text, "time") || !strcmp(text, "cycles"))
		return view_refuse(reply, 404, "The recording does not have this.");
	else
		return view_refuse(reply, 400, "value is instructions, cycles or time.");
	return 0;
}

static int get_asked(struct view_model *m, const struct view_query *query, struct view_reply *reply,
		     struct asked *a)
{
	const char *direction = view_query_text(query, "direction");
	const bool windowed = view_query_text(query, "from") || view_query_text(query, "to");
	int status = get_value(m, query, reply, &a->window.value);

	a->up = direction && !strcmp(direction, "up");
	if (direction && !a->up && strcmp(direction, "down") != 0)
		return view_refuse(reply, 400, "direction is down or up.");
	if (!status && view_query_text(query, "thread"))
		status = view_get_thread(m, query, reply, &a->thread);
	a->window.axis = LOG_INSTRUCTIONS;
	if (!status && (windowed || view_query_text(query, "axis")))
		status = view_get_axis(m, query, reply, &a->window.axis);
	if (!status)
		status = view_get_window(query, reply, &a->window.from, &a->window.to);
	/* The only thread is all of them. */
	a->all = !windowed && (!a->thread || !view_thread_get(m, 1));
	return status;
}

/* The threads that are asked for. */
static int add_threads(struct view_model *m, const struct asked *a, struct flame *f)
{
	struct view_thread *t;
	int status = 0;

	if (a->thread)
		return flame_add_thread(f, m, a->thread, &a->window);
	for (size_t i = 0; (t = view_thread_get(m, i)) && status >= 0; i++)
		status = flame_add_thread(f, m, t, &a->window);
	return status;
}

static int make_flame_answer(struct view_model *m, const struct asked *a, struct flame *f,
			     bool *complete)
{
	const struct view_trees *trees = view_trees_get(m);
	int status = flame_init(f);

	*complete = a->all ? trees != NULL : view_calls_are_read(m);
	if (status >= 0 && a->all && trees)
		status = flame_from_trees(trees, a->window.value, f);
	else if (status >= 0 && !a->all)
		status = add_threads(m, a, f);
	if (status >= 0 && a->up) {
		struct flame up;

		status = flame_invert(f, &up);
		up.inexact = f->inexact;
		flame_fini(f);
		*f = up;
	}
	flame_sum(f);
	return status;
}

int view_answer_flame(struct view_model *m, const struct view_query *query,
		      struct view_reply *reply)
{
	struct asked asked = {0};
	struct flame f;
	bool complete;
	int status = get_asked(m, query, reply, &asked);

	if (status)
		return status;
	status = make_flame_answer(m, &asked, &f, &complete);
	if (status >= 0)
		status = put_flame(&reply->json, &f, complete);
	flame_fini(&f);
	if (m->stop)
		return view_refuse(reply, 503, "Ptah is ending.");
	return status;
}

/* Histograms */

/* Each power of two has so many parts, where it is large enough. */
#define PARTS 4

struct histogram {
	uint64_t low[64 * PARTS], high[64 * PARTS], calls[64 * PARTS];
	size_t count;
};

/* The edge after this one. */
static uint64_t next_edge(uint64_t edge)
{
	const unsigned power = edge ? 63 - (unsigned)__builtin_clzll(edge) : 0;
	const uint64_t step = power > 1 ? UINT64_C(1) << (power - 2) : 1;

	return edge > UINT64_MAX - step ? UINT64_MAX : edge + step;
}

/* How many calls took at most `value`. */
static uint64_t calls_up_to(const struct view_trees *t, const struct ptah_call_function *f,
			    enum ptah_call_value of, uint64_t value)
{
	uint64_t low = 0, high = f->histogram[of].calls;

	/* The quantile of n calls of them is the n-th smallest value. */
	while (low < high) {
		const uint64_t middle = low + (high - low + 1) / 2;

		if (ptah_call_tree_quantile(
			t->sum, f, of, (double)middle / (double)f->histogram[of].calls) <= value)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static void make_histogram(const struct view_trees *t, const struct ptah_call_function *f,
			   enum ptah_call_value of, struct histogram *h)
{
	uint64_t edge = f->histogram[of].min, before = 0;

	while (before < f->histogram[of].calls && h->count < ARRAY_SIZE(h->low)) {
		const uint64_t next = next_edge(edge);
		const uint64_t calls = next > f->histogram[of].max
					   ? f->histogram[of].calls
					   : calls_up_to(t, f, of, next - 1);

		h->low[h->count] = edge;
		h->high[h->count] = next;
		h->calls[h->count++] = calls - before;
		before = calls;
		edge = next;
	}
}

static void put_numbers(struct json *j, const char *key, const uint64_t *numbers, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_number(j, NULL, numbers[i]);
	json_end_array(j);
}

static int put_histogram(struct json *j, const struct view_trees *t, uint64_t id,
			 enum ptah_call_value value)
{
	struct ptah_call_function *functions;
	struct histogram *h = calloc(1, sizeof(*h));
	size_t count;
	int status = h ? ptah_call_tree_functions(t->sum, &functions, &count) : PTAH_E_NOMEM;

	if (status < 0) {
		free(h);
		return status;
	}
	for (size_t i = 0; i < count; i++)
		if (functions[i].function == id + 1)
			make_histogram(t, &functions[i], value, h);
	free(functions);
	json_object(j, NULL, true);
	put_numbers(j, "low", h->low, h->count);
	put_numbers(j, "high", h->high, h->count);
	put_numbers(j, "calls", h->calls, h->count);
	json_end_object(j);
	json_finish(j);
	free(h);
	return 0;
}

int view_answer_histogram(struct view_model *m, const struct view_query *query,
			  struct view_reply *reply)
{
	const struct view_trees *t = view_trees_get(m);
	enum ptah_call_value value;
	uint64_t id;
	int status = get_value(m, query, reply, &value);

	if (status)
		return status;
	if (!view_query_number(query, "function", UINT32_MAX, &id) || id >= view_function_count(m))
		return view_refuse(reply, 404, "There is no such function.");
	if (!t)
		return view_refuse(reply, 503, "The recording is still being read.");
	return put_histogram(&reply->json, t, id, value);
}
