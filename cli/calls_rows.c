/* SPDX-License-Identifier: MIT */
/* The tables of `ptah calls`: functions with their percentiles, and callers or callees of one. */
#include "calls_view.h"

#include "base/order.h"
#include "base/text.h"
#include "output/fields.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const struct calls_key *key;
	const char *function, *object; /* the path where it is known, as in `ptah report` */
	const char *times;
	uint64_t ip, calls, partial, total, least, most, self, min, p50, p90, p99, max;
	bool timed;   /* there is a histogram */
	bool bounded; /* the most is known */
};

static const struct field fields[] = {
    FIELD(struct row, "calls", FIELD_NUMBER, calls),
    FIELD(struct row, "partial", FIELD_NUMBER, partial),
    FIELD(struct row, "total", FIELD_NUMBER, total),
    {"at_least", "at_least", FIELD_NUMBER, offsetof(struct row, least), CALLS_BOUNDS, 0},
    {"at_most", "at_most", FIELD_NUMBER, offsetof(struct row, most), CALLS_BOUNDS,
     offsetof(struct row, bounded)},
    FIELD(struct row, "self", FIELD_NUMBER, self),
    {"min", "min", FIELD_NUMBER, offsetof(struct row, min), 0, offsetof(struct row, timed)},
    {"p50", "p50", FIELD_NUMBER, offsetof(struct row, p50), 0, offsetof(struct row, timed)},
    {"p90", "p90", FIELD_NUMBER, offsetof(struct row, p90), 0, offsetof(struct row, timed)},
    {"p99", "p99", FIELD_NUMBER, offsetof(struct row, p99), 0, offsetof(struct row, timed)},
    {"max", "max", FIELD_NUMBER, offsetof(struct row, max), 0, offsetof(struct row, timed)},
    FIELD(struct row, "object", FIELD_STRING, object),
    FIELD(struct row, "function", FIELD_STRING, function),
    FIELD(struct row, "ip", FIELD_ADDRESS, ip),
    CALLS_KIND_FIELD(struct row),
};

static const struct row_type row_type = ROW_TYPE(fields);

static const struct calls_key *key_at(const struct calls_view *v, uint64_t function)
{
	return function && function <= v->key_count ? &v->keys[function - 1] : NULL;
}

static bool make_calls_row(const struct calls_view *v, const struct ptah_call_tree *tree,
			   const struct ptah_call_function *f, struct row *row)
{
	const enum ptah_call_value value = (enum ptah_call_value)v->options->value;
	const struct calls_key *key = key_at(v, f->function);

	if (!key || (v->wanted_count && !key->wanted))
		return false;
	*row = (struct row){.key = key,
			    .function = key->function,
			    .object = *key->path ? key->path : key->object,
			    .ip = key->ip,
			    .calls = f->count,
			    .partial = f->partial,
			    .total = calls_figure(v, &f->inclusive),
			    .least = f->time_least,
			    .most = f->time_most,
			    .self = calls_figure(v, &f->self),
			    .min = f->histogram[value].min,
			    .p50 = ptah_call_tree_quantile(tree, f, value, 0.5),
			    .p90 = ptah_call_tree_quantile(tree, f, value, 0.9),
			    .p99 = ptah_call_tree_quantile(tree, f, value, 0.99),
			    .max = f->histogram[value].max,
			    .timed = f->histogram[value].calls,
			    .bounded = f->time_most,
			    .times = calls_kind_name(v)};
	return true;
}

static uint64_t sort_value(const struct row *r, int sort)
{
	switch (sort) {
	case CALLS_SELF:
		return r->self;
	case CALLS_COUNT:
		return r->calls;
	case CALLS_MIN:
		return r->min;
	case CALLS_P50:
		return r->p50;
	case CALLS_P90:
		return r->p90;
	case CALLS_P99:
		return r->p99;
	case CALLS_MAX:
		return r->max;
	default:
		return r->total;
	}
}

static int compare_calls_rows(const void *a, const void *b, void *view)
{
	const struct row *x = a, *y = b;
	const int sort = ((const struct calls_view *)view)->options->sort;
	const uint64_t p = sort_value(x, sort), q = sort_value(y, sort);
	int order;

	if (sort != CALLS_NAME && p != q)
		return p > q ? -1 : 1;
	order = strcmp(x->function, y->function);
	return order ? order : strcmp(x->key->path, y->key->path);
}

/* The columns of text before the function. */
static const struct {
	const char *head;
	unsigned width; /* where there is room */
	unsigned asked; /* as of struct field */
} columns[] = {{"calls", 12, 0},
	       {"partial", 8, 0},
	       {"total", 15, 0},
	       {"at least", 11, CALLS_BOUNDS},
	       {"at most", 11, CALLS_BOUNDS},
	       {"self", 15, 0},
	       {"min", 11, 0},
	       {"p50", 11, 0},
	       {"p90", 11, 0},
	       {"p99", 11, 0},
	       {"max", 11, 0}};

enum {
	COLUMNS = ARRAY_SIZE(columns)
};

struct cells {
	char text[COLUMNS][32];
};

/* 0: nothing is certain. */
static void put_bound(uint64_t ns, char text[32])
{
	if (ns)
		pretty_time(ns, text);
	else
		strcpy(text, "-");
}

static void fill_calls_cells(const struct calls_view *v, const struct row *r, struct cells *cells)
{
	const uint64_t figures[] = {r->self, r->min, r->p50, r->p90, r->p99, r->max};

	pretty_number(r->calls, cells->text[0]);
	pretty_number(r->partial, cells->text[1]);
	calls_text(v, r->total, cells->text[2]);
	put_bound(r->least, cells->text[3]);
	put_bound(r->most, cells->text[4]);
	for (size_t i = 5; i < COLUMNS; i++)
		if (i == 5 || r->timed)
			calls_text(v, figures[i - 5], cells->text[i]);
		else
			strcpy(cells->text[i], "-");
}

static bool has_column(const struct calls_view *v, size_t i)
{
	return !columns[i].asked || calls_asked(v) & columns[i].asked;
}

/* On a terminal columns are as wide as what they hold. Returns the columns of the line in all. */
static unsigned set_widths(const struct calls_view *v, const struct row *rows, size_t n,
			   unsigned width[COLUMNS])
{
	const bool fit = pretty_rest(v->out, 0);
	unsigned sum = 1;
	struct cells cells;

	for (size_t i = 0; i < COLUMNS; i++)
		width[i] = fit ? (unsigned)strlen(columns[i].head) : columns[i].width;
	for (size_t k = 0; fit && k < n; k++) {
		fill_calls_cells(v, &rows[k], &cells);
		for (size_t i = 0; i < COLUMNS; i++)
			if (strlen(cells.text[i]) > width[i])
				width[i] = (unsigned)strlen(cells.text[i]);
	}
	for (size_t i = 0; i < COLUMNS; i++)
		sum += has_column(v, i) ? width[i] + 1 : 0;
	return sum;
}

static void put_calls_text(struct calls_view *v, const struct row *rows, size_t shown, size_t count)
{
	unsigned width[COLUMNS];
	const unsigned used = set_widths(v, rows, shown, width);
	struct cells cells;

	calls_put_time_head(v);
	pretty_head(v->out,
		    "# total, self and percentiles: %s of each call, what it called included\n",
		    calls_value_name(v));
	for (size_t i = 0; i < COLUMNS; i++)
		if (has_column(v, i))
			pretty_head(v->out, "%*s ", (int)width[i], columns[i].head);
	pretty_head(v->out, " function (object)\n");
	for (size_t k = 0; k < shown; k++) {
		const struct calls_key *key = rows[k].key;

		fill_calls_cells(v, &rows[k], &cells);
		for (size_t i = 0; i < COLUMNS; i++)
			if (has_column(v, i))
				out_format(v->out, "%*s ", (int)width[i], cells.text[i]);
		out_char(v->out, ' ');
		pretty_name(v->out, key->function,
			    pretty_rest(v->out, used + 3 + pretty_columns(key->object)));
		out_text(v->out, " (");
		pretty_name(v->out, key->object, 0);
		out_text(v->out, ")\n");
	}
	if (shown < count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n", count - shown);
}

/* Writes `n` rows of `size` bytes as JSON, in an array called `key`, or as TSV. */
static void put_calls_list(const struct calls_view *v, const char *key, const struct row_type *type,
			   const void *rows, size_t size, size_t n)
{
	const char *row = rows;
	struct json json;

	if (v->options->input.format == FORMAT_TSV) {
		fields_tsv_head(v->out, type, calls_asked(v));
		for (size_t i = 0; i < n; i++)
			fields_tsv(v->out, type, calls_asked(v), row + i * size);
		return;
	}
	json_init(&json, v->out);
	json_object(&json, NULL, false);
	json_string(&json, "value", calls_value_name(v));
	calls_put_time_json(v, &json);
	json_number(&json, "errors", v->errors);
	json_array(&json, key);
	for (size_t i = 0; i < n; i++)
		fields_json(&json, type, calls_asked(v), row + i * size);
	json_end_array(&json);
	json_end_object(&json);
	json_finish(&json);
}

static void put_calls_rows(struct calls_view *v, const struct row *rows, size_t shown, size_t count)
{
	if (v->options->input.format == FORMAT_TEXT)
		put_calls_text(v, rows, shown, count);
	else
		put_calls_list(v, "functions", &row_type, rows, sizeof(*rows), shown);
}

int calls_put_functions(struct calls_view *v, const struct ptah_call_tree *tree)
{
	struct ptah_call_function *functions = NULL;
	struct row *rows;
	size_t n = 0, count = 0;
	int status = ptah_call_tree_functions(tree, &functions, &n);

	rows = calloc(n + 1, sizeof(*rows));
	if (status < 0 || !rows) {
		free(functions);
		free(rows);
		return fail(&command_calls, "%s",
			    ptah_strerror(status < 0 ? status : PTAH_E_NOMEM));
	}
	for (size_t i = 0; i < n; i++) {
		v->folded |= functions[i].flags & PTAH_CALL_FOLDED;
		count += make_calls_row(v, tree, &functions[i], &rows[count]);
	}
	if (count)
		qsort_r(rows, count, sizeof(*rows), compare_calls_rows, v);
	put_calls_rows(v, rows, input_shown(&v->options->input, count), count);
	free(functions);
	free(rows);
	return EXIT_OK;
}

/* Callers and callees */

struct pair_row {
	const struct calls_key *key; /* of the other; NULL: none */
	const char *function, *other, *other_object, *times;
	uint64_t calls, total, self;
	double percent; /* of all callers' or callees' total */
};

static const struct field pair_fields[] = {
    FIELD(struct pair_row, "percent", FIELD_REAL, percent),
    FIELD(struct pair_row, "calls", FIELD_NUMBER, calls),
    FIELD(struct pair_row, "total", FIELD_NUMBER, total),
    FIELD(struct pair_row, "self", FIELD_NUMBER, self),
    FIELD_TWO(struct pair_row, "object", "object", FIELD_STRING, other_object),
    FIELD_TWO(struct pair_row, "function", "function", FIELD_STRING, other),
    FIELD_TWO(struct pair_row, "of", "of", FIELD_STRING, function),
    CALLS_KIND_FIELD(struct pair_row),
};

static const struct row_type pair_type = ROW_TYPE(pair_fields);

static int compare_pairs(const void *a, const void *b)
{
	const struct pair_row *x = a, *y = b;

	return COMPARE_THEN(y->total, x->total,
			    COMPARE_THEN(y->calls, x->calls, strcmp(x->other, y->other)));
}

static bool make_pair(const struct calls_view *v, const struct ptah_call_pair *p, bool callers,
		      struct pair_row *row)
{
	const struct calls_key *of = key_at(v, callers ? p->callee : p->caller);
	const struct calls_key *other = key_at(v, callers ? p->caller : p->callee);

	if (!of || !of->wanted)
		return false;
	*row = (struct pair_row){.key = other,
				 .function = of->function,
				 .other = other ? other->function : "[outermost]",
				 .other_object = !other		? ""
						 : *other->path ? other->path
								: other->object,
				 .calls = p->count,
				 .total = calls_figure(v, &p->inclusive),
				 .self = calls_figure(v, &p->self),
				 .times = calls_kind_name(v)};
	return true;
}

static void put_pairs_text(struct calls_view *v, const struct pair_row *rows, size_t shown,
			   size_t count, uint64_t sum, bool callers)
{
	char a[32], b[32], c[32];

	calls_put_time_head(v);
	pretty_head(v->out, "# %s of %s; %s\n", callers ? "callers" : "callees",
		    count ? rows->function : "", calls_value_name(v));
	pretty_head(v->out, "%7s %12s %15s %15s  %s\n", "percent", "calls", "total", "self",
		    "function (object)");
	for (size_t i = 0; i < shown; i++) {
		pretty_percent(v->out, rows[i].total, sum);
		out_format(v->out, " %12s %15s %15s  ", pretty_number(rows[i].calls, a),
			   calls_text(v, rows[i].total, b), calls_text(v, rows[i].self, c));
		pretty_name(v->out, rows[i].other, pretty_rest(v->out, 75));
		if (rows[i].key) {
			out_text(v->out, " (");
			pretty_name(v->out, rows[i].key->object, 0);
			out_char(v->out, ')');
		}
		out_char(v->out, '\n');
	}
	if (shown < count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n", count - shown);
}

static void put_calls_pairs(struct calls_view *v, const struct pair_row *rows, size_t count,
			    uint64_t sum, bool callers)
{
	const size_t shown = input_shown(&v->options->input, count);

	if (v->options->input.format == FORMAT_TEXT)
		put_pairs_text(v, rows, shown, count, sum, callers);
	else
		put_calls_list(v, callers ? "callers" : "callees", &pair_type, rows, sizeof(*rows),
			       shown);
}

int calls_put_pairs(struct calls_view *v, const struct ptah_call_tree *tree, bool callers)
{
	struct ptah_call_pair *pairs = NULL;
	struct pair_row *rows;
	size_t n = 0, count = 0;
	uint64_t sum = 0;
	int status = ptah_call_tree_pairs(tree, &pairs, &n);

	rows = calloc(n + 1, sizeof(*rows));
	if (status < 0 || !rows) {
		free(pairs);
		free(rows);
		return fail(&command_calls, "%s",
			    ptah_strerror(status < 0 ? status : PTAH_E_NOMEM));
	}
	for (size_t i = 0; i < n; i++)
		count += make_pair(v, &pairs[i], callers, &rows[count]);
	for (size_t i = 0; i < count; i++)
		sum += rows[i].total;
	for (size_t i = 0; i < count; i++)
		rows[i].percent = sum ? 100.0 * (double)rows[i].total / (double)sum : 0.0;
	if (count)
		qsort(rows, count, sizeof(*rows), compare_pairs);
	put_calls_pairs(v, rows, count, sum, callers);
	free(pairs);
	free(rows);
	return EXIT_OK;
}
