/* SPDX-License-Identifier: MIT */
/* Prints what `ptah diff` found. */
#include "diff_view.h"

#include "output/pretty.h"
#include "function_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const diff_by_words[] = {"functions", "branches", "lines", NULL};

double diff_percent(uint64_t old, uint64_t new)
{
	if (!old)
		return new ? HUGE_VAL : 0;
	return 100.0 * ((double)new - (double)old) / (double)old;
}

static const char *status_of(const struct diff_row *row)
{
	if (!row->in[DIFF_OLD])
		return "new";
	if (!row->in[DIFF_NEW])
		return "gone";
	return row->value[DIFF_OLD] == row->value[DIFF_NEW] ? "same" : "changed";
}

/* "+1,234", "-5", "0" */
static const char *signed_text(uint64_t old, uint64_t new, char text[34])
{
	char digits[32];

	pretty_number(old < new ? new - old : old - new, digits);
	snprintf(text, 34, "%s%s", old < new ? "+" : old > new ? "-" : "", digits);
	return text;
}

/* "+8.10%", "new", "gone" */
static const char *change_text(const struct diff_row *row, char text[32])
{
	if (!row->in[DIFF_OLD] || !row->in[DIFF_NEW])
		return status_of(row);
	if (row->value[DIFF_OLD] == row->value[DIFF_NEW])
		return "=";
	snprintf(text, 32, "%+.2f%%", diff_percent(row->value[DIFF_OLD], row->value[DIFF_NEW]));
	return row->value[DIFF_OLD] ? text : "+inf";
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static const char *shown_name(const struct diff_view *v, const struct diff_row *row)
{
	return row->shown[0] ? row->shown : v->by == DIFF_LINES ? "[no line]" : "[no name]";
}

static const char *value_word(const struct diff_view *v)
{
	return v->by == DIFF_BRANCHES ? "executions" : "instructions";
}

static void put_diff_head(struct diff_view *v)
{
	const struct diff_sums *s = &v->all;
	char number[34];

	for (int side = 0; side < DIFF_SIDES; side++) {
		out_text(v->out, side == DIFF_OLD ? "# old: " : "# new: ");
		out_clean(v->out, v->runs[side].path);
		out_format(v->out, ", %s %s", pretty_number(s->value[side], number), value_word(v));
		if (side == DIFF_NEW && s->value[DIFF_OLD] == s->value[DIFF_NEW])
			out_text(v->out, ", the same");
		else if (side == DIFF_NEW) {
			out_format(v->out, ", %s",
				   signed_text(s->value[DIFF_OLD], s->value[DIFF_NEW], number));
			if (s->value[DIFF_OLD])
				out_format(v->out, " (%+.2f%%)",
					   diff_percent(s->value[DIFF_OLD], s->value[DIFF_NEW]));
		}
		if (v->runs[side].totals.errors)
			out_format(v->out, ", %" PRIu64 " decoding errors",
				   v->runs[side].totals.errors);
		out_char(v->out, '\n');
	}
	for (size_t i = 0; i < v->renamed_count; i++) {
		out_text(v->out, "# compared: ");
		out_clean(v->out, v->renamed[i].path[DIFF_OLD]);
		out_text(v->out, " with ");
		out_clean(v->out, v->renamed[i].path[DIFF_NEW]);
		out_char(v->out, '\n');
	}
	if (v->ignored.rows)
		out_format(
		    v->out, "# ignored: %" PRIu64 " rows, %s %s in all\n", v->ignored.rows,
		    signed_text(v->ignored.value[DIFF_OLD], v->ignored.value[DIFF_NEW], number),
		    value_word(v));
	out_char(v->out, '\n');
}

/* The columns before the name. */
enum {
	DIFFERENCE,
	CHANGE,
	OLD,
	NEW,
	CALLS_OLD,
	CALLS_NEW,
	COLUMNS
};

struct cells {
	char text[COLUMNS][34];
};

static void fill_cells(const struct diff_row *r, struct cells *c)
{
	const uint64_t old = r->value[DIFF_OLD], new = r->value[DIFF_NEW];
	char change[32];

	for (int i = 0; i < COLUMNS; i++)
		strcpy(c->text[i], "-");
	signed_text(old, new, c->text[DIFFERENCE]);
	snprintf(c->text[CHANGE], sizeof(c->text[CHANGE]), "%s", change_text(r, change));
	if (r->in[DIFF_OLD]) {
		pretty_number(old, c->text[OLD]);
		pretty_number(r->calls[DIFF_OLD], c->text[CALLS_OLD]);
	}
	if (r->in[DIFF_NEW]) {
		pretty_number(new, c->text[NEW]);
		pretty_number(r->calls[DIFF_NEW], c->text[CALLS_NEW]);
	}
}

/* On a terminal columns are as wide as what they hold. Returns their sum, with the gaps. */
static unsigned set_widths(const struct diff_view *v, const char *const heads[COLUMNS],
			   int width[COLUMNS])
{
	static const int wide[COLUMNS] = {15, 9, 17, 17, 13, 13};
	const bool fit = pretty_rest(v->out, 0);
	unsigned sum = 1;
	struct cells cells = {{""}};

	for (int i = 0; i < COLUMNS; i++)
		width[i] = fit ? (int)strlen(heads[i]) : wide[i];
	for (size_t k = 0; fit && k < v->shown; k++) {
		fill_cells(&v->rows[k], &cells);
		for (int i = 0; i < COLUMNS; i++)
			if ((int)strlen(cells.text[i]) > width[i])
				width[i] = (int)strlen(cells.text[i]);
	}
	for (int i = 0; i < COLUMNS; i++)
		sum += (unsigned)width[i] + 1;
	return sum;
}

static void put_diff_row(struct diff_view *v, const struct diff_row *r, const int width[COLUMNS],
			 unsigned used)
{
	const uint64_t old = r->value[DIFF_OLD], new = r->value[DIFF_NEW];
	const char *name = shown_name(v, r), *object = last_part(r->path);
	const unsigned rest = pretty_rest(v->out, used + 3), all = pretty_columns(name),
		       least = all < 12 ? all : 12;
	unsigned room = pretty_columns(object);
	struct cells c = {{""}};

	if (rest && room + least > rest)
		room = rest - least;
	fill_cells(r, &c);
	pretty_style(v->out, new > old ? PRETTY_BAD : new < old ? PRETTY_GOOD : PRETTY_PLAIN);
	out_format(v->out, "%*s %*s", width[DIFFERENCE], c.text[DIFFERENCE], width[CHANGE],
		   c.text[CHANGE]);
	pretty_style(v->out, PRETTY_PLAIN);
	for (int i = OLD; i < COLUMNS; i++)
		out_format(v->out, " %*s", width[i], c.text[i]);
	out_text(v->out, "  ");
	pretty_name(v->out, name, rest ? rest - room : 0);
	out_text(v->out, " (");
	pretty_name(v->out, object, rest ? room : 0);
	out_text(v->out, ")\n");
}

static void put_diff_text(void *view)
{
	static const char *const second[][DIFF_SIDES] = {
	    [DIFF_FUNCTIONS] = {"calls, old", "calls, new"},
	    [DIFF_BRANCHES] = {"taken, old", "taken, new"},
	    [DIFF_LINES] = {"ran, old", "ran, new"},
	};
	struct diff_view *v = view;
	const char *const heads[COLUMNS] = {
	    "difference", "change", "old", "new", second[v->by][DIFF_OLD], second[v->by][DIFF_NEW]};
	int width[COLUMNS];
	unsigned used;

	put_diff_head(v);
	if (!v->count) {
		out_text(v->out, "nothing changed\n");
		return;
	}
	used = set_widths(v, heads, width);
	pretty_head(v->out, "%*s %*s %*s %*s %*s %*s  %s\n", width[DIFFERENCE], heads[DIFFERENCE],
		    width[CHANGE], heads[CHANGE], width[OLD], heads[OLD], width[NEW], heads[NEW],
		    width[CALLS_OLD], heads[CALLS_OLD], width[CALLS_NEW], heads[CALLS_NEW],
		    v->by == DIFF_FUNCTIONS ? "function (object)" : "place");
	for (size_t i = 0; i < v->shown; i++)
		put_diff_row(v, &v->rows[i], width, used);
	if (v->shown < v->count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n", v->count - v->shown);
}

/* A row as TSV and JSON have it. */
struct flat {
	int64_t difference;
	double percent;
	uint64_t value[DIFF_SIDES], calls[DIFF_SIDES];
	const char *status, *object, *name, *mangled;
	bool has_percent, is_mangled;
};

static const struct field fields[] = {
    FIELD_TSV(struct flat, "status", FIELD_STRING, status),
    FIELD(struct flat, "old", FIELD_NUMBER, value[DIFF_OLD]),
    FIELD(struct flat, "new", FIELD_NUMBER, value[DIFF_NEW]),
    {"percent", "percent", FIELD_REAL, offsetof(struct flat, percent), 0,
     offsetof(struct flat, has_percent)},
    FIELD(struct flat, "calls_old", FIELD_NUMBER, calls[DIFF_OLD]),
    FIELD(struct flat, "calls_new", FIELD_NUMBER, calls[DIFF_NEW]),
    FIELD(struct flat, "object", FIELD_STRING, object),
    FIELD(struct flat, "name", FIELD_STRING, name),
    {NULL, "mangled", FIELD_STRING, offsetof(struct flat, mangled), 0,
     offsetof(struct flat, is_mangled)},
    FIELD_JSON(struct flat, "status", FIELD_STRING, status),
};

static const struct field branch_fields[] = {
    FIELD_TSV(struct flat, "status", FIELD_STRING, status),
    FIELD(struct flat, "old", FIELD_NUMBER, value[DIFF_OLD]),
    FIELD(struct flat, "new", FIELD_NUMBER, value[DIFF_NEW]),
    {"percent", "percent", FIELD_REAL, offsetof(struct flat, percent), 0,
     offsetof(struct flat, has_percent)},
    FIELD(struct flat, "taken_old", FIELD_NUMBER, calls[DIFF_OLD]),
    FIELD(struct flat, "taken_new", FIELD_NUMBER, calls[DIFF_NEW]),
    FIELD(struct flat, "object", FIELD_STRING, object),
    FIELD(struct flat, "name", FIELD_STRING, name),
    {NULL, "mangled", FIELD_STRING, offsetof(struct flat, mangled), 0,
     offsetof(struct flat, is_mangled)},
    FIELD_JSON(struct flat, "status", FIELD_STRING, status),
};

static const struct field line_fields[] = {
    FIELD_TSV(struct flat, "status", FIELD_STRING, status),
    FIELD(struct flat, "old", FIELD_NUMBER, value[DIFF_OLD]),
    FIELD(struct flat, "new", FIELD_NUMBER, value[DIFF_NEW]),
    {"percent", "percent", FIELD_REAL, offsetof(struct flat, percent), 0,
     offsetof(struct flat, has_percent)},
    FIELD(struct flat, "executed_old", FIELD_NUMBER, calls[DIFF_OLD]),
    FIELD(struct flat, "executed_new", FIELD_NUMBER, calls[DIFF_NEW]),
    FIELD(struct flat, "object", FIELD_STRING, object),
    FIELD(struct flat, "name", FIELD_STRING, name),
    {NULL, "mangled", FIELD_STRING, offsetof(struct flat, mangled), 0,
     offsetof(struct flat, is_mangled)},
    FIELD_JSON(struct flat, "status", FIELD_STRING, status),
};

static const struct row_type types[] = {
    [DIFF_FUNCTIONS] = ROW_TYPE(fields),
    [DIFF_BRANCHES] = ROW_TYPE(branch_fields),
    [DIFF_LINES] = ROW_TYPE(line_fields),
};

static struct flat flatten(const struct diff_row *r)
{
	return (struct flat){
	    .percent = diff_percent(r->value[DIFF_OLD], r->value[DIFF_NEW]),
	    .has_percent = r->value[DIFF_OLD] != 0,
	    .value = {r->value[DIFF_OLD], r->value[DIFF_NEW]},
	    .calls = {r->calls[DIFF_OLD], r->calls[DIFF_NEW]},
	    .status = status_of(r),
	    .object = r->path,
	    .name = r->shown[0] ? r->shown : NULL,
	    .mangled = r->name != r->shown && strcmp(r->name, r->shown) ? r->name : NULL,
	    .is_mangled = r->name != r->shown && strcmp(r->name, r->shown) != 0,
	};
}

static void put_diff_tsv(void *view)
{
	struct diff_view *v = view;

	fields_tsv_head(v->out, &types[v->by], 0);
	for (size_t i = 0; i < v->shown; i++) {
		const struct flat row = flatten(&v->rows[i]);

		fields_tsv(v->out, &types[v->by], 0, &row);
	}
}

static void put_diff_sums(struct json *j, const char *key, const struct diff_sums *s)
{
	json_object(j, key, true);
	json_number(j, "old", s->value[DIFF_OLD]);
	json_number(j, "new", s->value[DIFF_NEW]);
	json_real(j, "percent", diff_percent(s->value[DIFF_OLD], s->value[DIFF_NEW]));
	json_number(j, "rows", s->rows);
	json_end_object(j);
}

static void put_diff_json(void *view)
{
	struct diff_view *v = view;
	struct json *j = &v->json;

	json_init(j, v->out);
	json_object(j, NULL, false);
	json_string(j, "old", v->runs[DIFF_OLD].path);
	json_string(j, "new", v->runs[DIFF_NEW].path);
	json_string(j, "by", diff_by_words[v->by]);
	json_string(j, "value", value_word(v));
	put_diff_sums(j, "total", &v->all);
	put_diff_sums(j, "ignored", &v->ignored);
	json_array(j, "renamed");
	for (size_t i = 0; i < v->renamed_count; i++) {
		json_object(j, NULL, true);
		json_string(j, "old", v->renamed[i].path[DIFF_OLD]);
		json_string(j, "new", v->renamed[i].path[DIFF_NEW]);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "rows");
	for (size_t i = 0; i < v->shown; i++) {
		const struct flat row = flatten(&v->rows[i]);

		fields_json(j, &types[v->by], 0, &row);
	}
	json_end_array(j);
	json_end_object(j);
	json_finish(j);
}

const struct renderer diff_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = put_diff_text, .offered = true},
    [FORMAT_JSON] = {.begin = put_diff_json, .offered = true},
    [FORMAT_TSV] = {.begin = put_diff_tsv, .offered = true},
};
