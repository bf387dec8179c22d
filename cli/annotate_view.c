/* SPDX-License-Identifier: MIT */
/* The functions of `ptah annotate`: their instructions with source code, as text, TSV and JSON. */
#include "annotate_view.h"

#include "base/order.h"
#include "output/fields.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many instructions in a row that did not run are shown as one line, without --full. */
#define FOLD 8

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static unsigned text_options(const struct annotate_view *v)
{
	return (v->options->att ? ANNOTATE_ATT : 0) |
	       (v->options->input.no_demangle ? ANNOTATE_MANGLED : 0);
}

/* The hottest rows: the fewest lines of source code, or instructions, that have half of all
 * executions of instructions. */

struct weight {
	uint64_t executed;
	uint32_t line;
	const char *file;
	uint64_t at; /* without lines */
};

static int by_listing_line(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->file != y->file)
		return (uintptr_t)x->file < (uintptr_t)y->file ? -1 : 1;
	return COMPARE(x->at, y->at);
}

static int by_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	if (x->executed != y->executed)
		return x->executed > y->executed ? -1 : 1;
	return by_listing_line(a, b);
}

static struct weight weight_of(const struct annotate_code *code, const struct annotate_row *row)
{
	const struct weight w = {.executed = row->executed,
				 .line = row->line,
				 .file = row->file,
				 .at = code->has_lines ? 0 : row->at};

	return w;
}

/* The list of the hottest, for is_hot(). The caller frees *list. */
static int find_hot(const struct annotate_code *code, uint64_t instructions, struct weight **list,
		    size_t *count)
{
	struct weight *w = calloc(code->count + 1, sizeof(*w));
	size_t n = 0, hot = 0;
	uint64_t sum = 0;

	if (!w)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < code->count; i++)
		w[i] = weight_of(code, &code->rows[i]);
	qsort(w, code->count, sizeof(*w), by_listing_line);
	for (size_t i = 0; i < code->count; i++) {
		if (n && !by_listing_line(&w[n - 1], &w[i]))
			w[n - 1].executed += w[i].executed;
		else
			w[n++] = w[i];
	}
	qsort(w, n, sizeof(*w), by_weight);
	while (hot < n && w[hot].executed && sum < instructions - instructions / 2)
		sum += w[hot++].executed;
	qsort(w, hot, sizeof(*w), by_listing_line);
	*list = w;
	*count = hot;
	return 0;
}

static bool is_hot(const struct weight *list, size_t n, const struct annotate_code *code,
		   const struct annotate_row *row)
{
	const struct weight key = weight_of(code, row);

	return n && bsearch(&key, list, n, sizeof(key), by_listing_line);
}

/* Text */

/* A function that is being printed. */
struct listing {
	struct annotate_view *view;
	const struct annotate_function *function;
	struct annotate_code code;
	struct weight *hot;
	size_t hot_count;
	const char *file; /* that the lines above are of */
	int address_width;
};

#define FIGURES (1 + 15 + 1 + 7 + 2)

static void put_listing_figures(struct listing *l, bool hot, uint64_t executed,
				uint64_t instructions)
{
	struct out *out = l->view->out;
	char text[PRETTY_NUMBER];

	pretty_text(out, hot ? PRETTY_HOT : PRETTY_PLAIN, hot ? "*" : " ");
	out_format(out, "%15s ", pretty_number(executed, text));
	if (executed)
		pretty_percent(out, instructions, l->function->instructions);
	else
		out_format(out, "%7s", "");
	out_text(out, "  ");
}

/* The function that the line is of, if it is not the listed one but was inlined. */
static void put_inline(const struct listing *l, const struct annotate_row *row)
{
	const struct annotate_view *v = l->view;
	const uint64_t ip = l->function->ip + (row->at - l->function->start);
	const struct name *found =
	    names_find_version(v->names, (int32_t)l->function->process, ip, l->function->version);
	struct ptah_inline frame;
	char name[512], place[320] = "";

	if (!found->code ||
	    !ptah_symbols_inlines(names_symbols(v->names), found->code, found->code_at, &frame, 1))
		return;
	if (frame.call_file && frame.call_line)
		snprintf(place, sizeof(place), ", called at %.250s:%" PRIu32,
			 annotate_file(v, frame.call_file), frame.call_line);
	out_text(v->out, "  (in ");
	out_clean(v->out, v->options->input.no_demangle
			      ? frame.name
			      : ptah_symbol_demangle(frame.name, 0, name, sizeof(name)));
	out_clean(v->out, place);
	out_char(v->out, ')');
}

/* A line of source code, above the instructions [first, end) that are of it. */
static void put_listing_line(struct listing *l, size_t first, size_t end)
{
	const struct annotate_row *row = &l->code.rows[first];
	struct out *out = l->view->out;
	uint64_t executed = 0, instructions = 0;
	const char *source;
	size_t n;

	for (size_t i = first; i < end; i++) {
		instructions += l->code.rows[i].executed;
		if (l->code.rows[i].executed > executed)
			executed = l->code.rows[i].executed;
	}
	if (row->file != l->file) {
		l->file = row->file;
		out_format(out, "%*s", FIGURES, "");
		pretty_text(out, PRETTY_FAINT, row->file);
		out_char(out, '\n');
	}
	put_listing_figures(l, is_hot(l->hot, l->hot_count, &l->code, row), executed, instructions);
	pretty_style(out, PRETTY_SOURCE);
	out_format(out, "%5" PRIu32 "  ", row->line);
	source = annotate_source(l->view, l->function->object, row->file, row->line, &n);
	if (source)
		annotate_put_source(out, source, n, pretty_rest(out, FIGURES + 7));
	pretty_style(out, PRETTY_PLAIN);
	put_inline(l, row);
	out_char(out, '\n');
}

static void put_raw_bytes(struct out *out, const struct annotate_row *row)
{
	char text[3 * 15 + 1] = "";

	for (unsigned i = 0; i < row->size && i < 15; i++)
		snprintf(text + 3 * i, 4, "%02x ", row->bytes[i]);
	out_format(out, "%-30s ", text);
}

static void put_instruction(struct listing *l, const struct annotate_row *row)
{
	const struct annotate_options *o = l->view->options;
	struct out *out = l->view->out;
	char text[768];

	put_listing_figures(l, !l->code.has_lines && is_hot(l->hot, l->hot_count, &l->code, row),
			    row->executed, row->executed);
	if (o->print_line && row->file && row->line) {
		snprintf(text, sizeof(text), "%.200s:%" PRIu32, annotate_file(l->view, row->file),
			 row->line);
		pretty_text(out, PRETTY_FAINT, text);
		out_text(out, "  ");
	}
	out_format(out, "%*s%*" PRIx64 "  ", l->code.has_lines ? 7 : 0, "", l->address_width,
		   row->at + l->code.slide);
	if (o->raw_bytes && row->size)
		put_raw_bytes(out, row);
	if (l->code.no_bytes)
		snprintf(text, sizeof(text), "(a block; its code is not available)");
	else
		annotate_instruction(l->view->annotation, l->function, &l->code, row,
				     text_options(l->view), text, sizeof(text));
	if (!row->branch) {
		out_clean(out, text);
	} else {
		pretty_column(out, text, 34);
		out_text(out, "  # ");
		annotate_put_branch(out, l->view->annotation, row->branch);
	}
	out_char(out, '\n');
}

/* How many instructions from `first` on did not run, up to the next line of source code. */
static size_t count_idle(const struct listing *l, size_t first, size_t end)
{
	size_t n = 0;

	while (first + n < end && !l->code.rows[first + n].executed)
		n++;
	return n;
}

/* The end of the rows that are of the same line as `first`. */
static size_t end_of_line(const struct listing *l, size_t first)
{
	const struct annotate_row *row = &l->code.rows[first];
	size_t i = first + 1;

	while (i < l->code.count && l->code.rows[i].line == row->line &&
	       l->code.rows[i].file == row->file)
		i++;
	return i;
}

static void put_listing_rows(struct listing *l)
{
	const bool full = l->view->options->full;
	size_t i = 0;

	while (i < l->code.count) {
		const size_t idle = count_idle(l, i, l->code.count);
		size_t end = end_of_line(l, i);

		if (!full && idle >= FOLD) {
			out_format(l->view->out,
				   "%*s(%zu instructions that did not run; --full shows them)\n",
				   FIGURES, "", idle);
			i += idle;
			continue;
		}
		if (l->code.rows[i].file && l->code.rows[i].line)
			put_listing_line(l, i, end);
		for (; i < end && (full || count_idle(l, i, l->code.count) < FOLD); i++)
			put_instruction(l, &l->code.rows[i]);
	}
}

/* ", until 12.345678": when the code came, and when it was replaced. */
static void put_listing_time(const struct annotate_view *v, const char *what, uint64_t tsc)
{
	const struct ptah_session *session = v->annotation->config.session;
	const uint64_t ns = tsc && session ? ptah_session_time(session, tsc) : 0;

	if (ns)
		out_format(v->out, ", %s %" PRIu64 ".%09" PRIu64, what, ns / 1000000000,
			   ns % 1000000000);
	else if (tsc)
		out_format(v->out, ", %s 0x%" PRIx64, what, tsc);
}

static void put_listing_head(struct listing *l)
{
	const struct annotate_view *v = l->view;
	const struct annotate_function *f = l->function;
	const struct annotate_object *o = &v->annotation->objects[f->object];
	struct out *out = v->out;
	char text[1024], n[PRETTY_NUMBER], b[PRETTY_NUMBER], m[PRETTY_NUMBER];

	pretty_text(out, PRETTY_HEAD, annotate_label(f, f->start, text, sizeof(text)));
	put_listing_time(v, "since", f->since);
	put_listing_time(v, "until", f->until);
	out_text(out, "  (");
	out_clean(out, v->options->full_paths && o->path ? o->path : o->shown);
	out_format(out, ")\n  %s instructions, %.2f%% of all; %s conditional branch%s",
		   pretty_number(f->instructions, n),
		   percent(f->instructions, v->annotation->instructions),
		   pretty_number(f->branches, b), f->branches == 1 ? "" : "es");
	if (v->annotation->predicted)
		out_format(out, ", %s missed (%.2f%%)", pretty_number(f->missed, m),
			   percent(f->missed, f->branches));
	out_char(out, '\n');
	if (l->code.no_bytes)
		out_format(out, "  The code is not available: %s\n",
			   o->changed	? "the file has changed since it ran"
			   : o->is_file ? "the file cannot be read"
					: "saved counts have no code that is in no file");
	if (l->code.rewritten)
		out_text(out, "  Other instructions ran here at other times: their counts are "
			      "left out\n");
	if (l->code.cut)
		out_text(out, "  Only its first 4 MB are shown\n");
	pretty_head(out, "\n%16s %7s  %s\n", "executed", "percent",
		    l->code.has_lines ? "source and instructions" : "instructions");
}

static void put_listing_text(void *view, const void *row)
{
	struct annotate_view *v = view;
	const struct annotate_function *f = row;
	struct listing l = {.view = v, .function = f};
	char address[32];

	if (annotate_code(v->annotation, f, &l.code) < 0)
		return;
	if (find_hot(&l.code, f->instructions, &l.hot, &l.hot_count) >= 0) {
		if (f != v->functions[0])
			out_text(v->out, "\n\n");
		l.address_width =
		    snprintf(address, sizeof(address), "%" PRIx64, f->end + l.code.slide);
		put_listing_head(&l);
		put_listing_rows(&l);
	}
	free(l.hot);
	annotate_code_free(&l.code);
}

static void begin_listing_text(void *view)
{
	annotate_summary_text(view);
}

static void end_listing_text(void *view)
{
	const struct annotate_view *v = view;

	if (v->shown < v->count)
		out_format(v->out, "\n%zu more functions (--limit=0 shows all)\n",
			   v->count - v->shown);
}

/* TSV and JSON: an instruction */

struct flat {
	uint64_t executed, ip, taken, unknown, missed, branches, line;
	bool has_branch, has_missed, has_line;
	const char *symbol, *object, *file, *instruction, *bytes;
};

static const struct field fields[] = {
    FIELD_TSV(struct flat, "symbol", FIELD_STRING, symbol),
    FIELD(struct flat, "address", FIELD_ADDRESS, ip),
    FIELD(struct flat, "executed", FIELD_NUMBER, executed),
    {"taken", "taken", FIELD_NUMBER, offsetof(struct flat, taken), 0,
     offsetof(struct flat, has_branch)},
    {"unknown", "unknown", FIELD_NUMBER, offsetof(struct flat, unknown), 0,
     offsetof(struct flat, has_branch)},
    {"missed", "missed", FIELD_NUMBER, offsetof(struct flat, missed), 0,
     offsetof(struct flat, has_missed)},
    FIELD(struct flat, "instruction", FIELD_STRING, instruction),
    FIELD_JSON(struct flat, "bytes", FIELD_STRING, bytes),
    FIELD(struct flat, "file", FIELD_STRING, file),
    {"line", "line", FIELD_NUMBER, offsetof(struct flat, line), 0, offsetof(struct flat, has_line)},
    FIELD_TSV(struct flat, "object", FIELD_STRING, object),
};

static const struct row_type row_type = ROW_TYPE(fields);

struct texts {
	char instruction[768], bytes[2 * 15 + 1];
};

static struct flat flatten(const struct annotate_view *v, const struct annotate_function *f,
			   const struct annotate_code *code, const struct annotate_row *row,
			   const char *symbol, struct texts *texts)
{
	const struct annotate_object *o = &v->annotation->objects[f->object];
	struct flat flat = {.executed = row->executed,
			    .ip = row->at + code->slide,
			    .has_branch = row->branch != NULL,
			    .has_missed = row->branch && v->annotation->predicted,
			    .has_line = row->file && row->line,
			    .line = row->line,
			    .symbol = symbol,
			    .object = o->path ? o->path : o->shown,
			    .file = row->line ? row->file : NULL,
			    .instruction = texts->instruction,
			    .bytes = texts->bytes};

	texts->bytes[0] = '\0';
	for (unsigned i = 0; i < row->size && i < 15; i++)
		snprintf(texts->bytes + 2 * i, 3, "%02x", row->bytes[i]);
	if (code->no_bytes)
		snprintf(texts->instruction, sizeof(texts->instruction), "(block)");
	else
		annotate_instruction(v->annotation, f, code, row, text_options(v),
				     texts->instruction, sizeof(texts->instruction));
	if (row->branch) {
		flat.taken = row->branch->taken;
		flat.unknown = row->branch->unknown;
		flat.missed = row->branch->missed;
	}
	return flat;
}

static void begin_listing_tsv(void *view)
{
	fields_tsv_head(((struct annotate_view *)view)->out, &row_type, 0);
}

static void put_listing_tsv(void *view, const void *row)
{
	const struct annotate_view *v = view;
	const struct annotate_function *f = row;
	struct annotate_code code;
	struct texts texts;
	char symbol[1024];

	if (annotate_code(v->annotation, f, &code) < 0)
		return;
	annotate_label(f, f->start, symbol, sizeof(symbol));
	for (size_t i = 0; i < code.count; i++) {
		const struct flat flat = flatten(v, f, &code, &code.rows[i], symbol, &texts);

		fields_tsv(v->out, &row_type, 0, &flat);
	}
	annotate_code_free(&code);
}

static void begin_listing_json(void *view)
{
	struct annotate_view *v = view;

	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	annotate_summary_json(v);
	json_number(&v->json, "rows", v->count);
	json_array(&v->json, "functions");
}

static void put_lines_json(struct annotate_view *v, const struct annotate_function *f)
{
	struct annotate_line *lines;
	size_t n;

	if (annotate_lines(v->annotation, f, &lines, &n) < 0)
		return;
	json_array(&v->json, "lines");
	for (size_t i = 0; i < n; i++) {
		json_object(&v->json, NULL, true);
		json_string(&v->json, "file", lines[i].file);
		json_number(&v->json, "line", lines[i].line);
		json_number(&v->json, "executed", lines[i].executed);
		json_number(&v->json, "instructions", lines[i].instructions);
		json_end_object(&v->json);
	}
	json_end_array(&v->json);
	free(lines);
}

static void put_listing_json(void *view, const void *row)
{
	struct annotate_view *v = view;
	const struct annotate_function *f = row;
	const struct annotate_object *o = &v->annotation->objects[f->object];
	struct annotate_code code;
	struct texts texts;

	if (annotate_code(v->annotation, f, &code) < 0)
		return;
	json_object(&v->json, NULL, false);
	json_string(&v->json, "function", f->symbol);
	json_string(&v->json, "mangled", f->mangled);
	json_string(&v->json, "object", o->path ? o->path : o->shown);
	json_address(&v->json, "address", f->start + code.slide);
	json_address(&v->json, "ip", f->ip);
	json_number(&v->json, "size", f->end - f->start);
	if (f->since)
		json_number(&v->json, "since_tsc", f->since);
	if (f->until)
		json_number(&v->json, "until_tsc", f->until);
	json_number(&v->json, "instructions", f->instructions);
	json_number(&v->json, "branches_executed", f->branches);
	if (v->annotation->predicted)
		json_number(&v->json, "missed", f->missed);
	json_bool(&v->json, "code_available", !code.no_bytes);
	json_bool(&v->json, "rewritten", code.rewritten);
	put_lines_json(v, f);
	json_array(&v->json, "code");
	for (size_t i = 0; i < code.count; i++) {
		const struct flat flat = flatten(v, f, &code, &code.rows[i], NULL, &texts);

		fields_json(&v->json, &row_type, 0, &flat);
	}
	json_end_array(&v->json);
	json_end_object(&v->json);
	annotate_code_free(&code);
}

static void end_listing_json(void *view)
{
	struct annotate_view *v = view;

	json_end_array(&v->json);
	json_end_object(&v->json);
	json_finish(&v->json);
}

const struct renderer annotate_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = begin_listing_text,
		     .row = put_listing_text,
		     .end = end_listing_text,
		     .offered = true},
    [FORMAT_JSON] = {.begin = begin_listing_json,
		     .row = put_listing_json,
		     .end = end_listing_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_listing_tsv, .row = put_listing_tsv, .offered = true},
};
