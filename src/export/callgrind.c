/* SPDX-License-Identifier: MIT */
/*
 * callgrind's profile (https://valgrind.org/docs/manual/cl-format.html): how many instructions were
 * executed at each address and line, and what each call instruction called. Addresses are those
 * that objdump shows; strings are written once and then known by their numbers.
 */
#include "export/formats.h"
#include "support/table.h"

#include "base/order.h"
#include "output/outcomes.h"

#include <ptah/base.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Of each function of the annotation, in its order. */
struct known {
	uint64_t address; /* where it begins, as objdump shows it */
	const char *file; /* NULL: unknown */
	uint32_t line;
	bool written; /* its name was */
};

/* A call site, by the function that holds it. */
struct site {
	size_t caller, callee; /* functions */
	uint64_t at;	       /* place; 0: not known */
	uint64_t calls, instructions;
};

struct callgrind {
	struct out *out;
	const struct call_costs *costs;
	const struct annotation *a;
	struct known *known;
	struct site *sites; /* by caller and place */
	size_t site_count;
	struct table files, objects;
	const char *file; /* of the last position; NULL: unknown */
	uint32_t object;  /* of the last function + 1 */
	uint64_t total;
	bool failed; /* memory was short */
};

static size_t number_of(const struct callgrind *w, const struct annotate_function *f)
{
	return (size_t)(f - w->a->functions);
}

static void put_name(struct out *out, const char *what, uint64_t number, const char *name)
{
	out_format(out, "%s=(%" PRIu64 ")", what, number);
	if (name) {
		out_char(out, ' ');
		out_clean(out, name);
	}
	out_char(out, '\n');
}

static void put_interned(struct callgrind *w, struct table *in, const char *what, const char *name)
{
	static const char unknown[] = "???";
	const char *text = name ? name : unknown;
	bool is_new;
	const uint32_t number = table_number(in, (uintptr_t)text, UINT32_MAX, &is_new);

	if (number)
		put_name(w->out, what, number, is_new ? text : NULL);
	else
		w->failed = true;
}

static void put_object(struct callgrind *w, const char *what, uint32_t object)
{
	const struct annotate_object *o = &w->a->objects[object];

	put_interned(w, &w->objects, what, o->path ? o->path : o->shown);
}

static void put_function(struct callgrind *w, const char *what, size_t function)
{
	struct known *k = &w->known[function];
	const struct annotate_function *f = &w->a->functions[function];
	const char *name = f->symbol ? f->symbol : f->section;
	char address[32];

	snprintf(address, sizeof(address), "0x%" PRIx64, k->address);
	put_name(w->out, what, function + 1, k->written ? NULL : name ? name : address);
	k->written = true;
}

/* Costs that follow are of another file: of code that was inlined, or of the function again. */
static void set_file(struct callgrind *w, const char *file, const char *own)
{
	if (file == w->file)
		return;
	put_interned(w, &w->files, file == own ? "fe" : "fi", file);
	w->file = file;
}

static void put_cost(struct callgrind *w, uint64_t address, uint32_t line, uint64_t cost)
{
	out_text(w->out, "0x");
	out_hex(w->out, address);
	out_char(w->out, ' ');
	out_decimal(w->out, line);
	out_char(w->out, ' ');
	out_decimal(w->out, cost);
	out_char(w->out, '\n');
}

/* A call from the instruction at an address, in a line of the current file. */
static void put_call(struct callgrind *w, const struct site *site, uint64_t address, uint32_t line)
{
	const struct known *callee = &w->known[site->callee];
	const struct annotate_function *to = &w->a->functions[site->callee];

	if (to->object != w->a->functions[site->caller].object)
		put_object(w, "cob", to->object);
	if (callee->file != w->file)
		put_interned(w, &w->files, "cfi", callee->file);
	put_function(w, "cfn", site->callee);
	out_format(w->out, "calls=%" PRIu64 " 0x%" PRIx64 " %" PRIu32 "\n", site->calls,
		   callee->address, callee->line);
	put_cost(w, address, line, site->instructions);
}

/* Finding the callers */

/*
 * Of code that is in no file: the last version that the process had of the function at an address.
 */
static const struct annotate_function *find_other(const struct annotation *a, int32_t pid,
						  uint64_t ip)
{
	const struct annotate_function *found = NULL, *f;
	uint64_t version = 0;

	for (uint32_t i = 0; i < a->object_count; i++) {
		const struct annotate_object *o = &a->objects[i];

		if (o->is_file || o->pid != pid || (found && o->version < version))
			continue;
		f = annotation_function(a, i, ip);
		version = f ? o->version : version;
		found = f ? f : found;
	}
	return found;
}

static const struct annotate_function *function_at(const struct call_costs *c, int32_t space,
						   uint64_t ip, uint64_t *place)
{
	const struct annotation *a = c->annotation;
	struct ptah_map map;
	uint32_t object;
	bool changed;

	*place = ip;
	if (names_find_place(c->names, space, ip, PTAH_TIME_LAST, &map, &changed) &&
	    outcomes_is_file(map.path, ip)) {
		*place = ip - map.address + map.file_offset;
		object = annotation_find_file(a, map.path, NULL);
		return object == NO_OBJECT ? NULL : annotation_function(a, object, *place);
	}
	return find_other(a, ip >> 63 ? -1 : space, ip);
}

static int by_place(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return COMPARE_THEN(x->caller, y->caller,
			    COMPARE_THEN(x->at, y->at, COMPARE(x->callee, y->callee)));
}

/* Several processes may have mapped a file at different addresses. */
static void join_sites(struct callgrind *w)
{
	size_t n = 0;

	for (size_t i = 1; i < w->site_count; i++) {
		if (by_place(&w->sites[n], &w->sites[i])) {
			w->sites[++n] = w->sites[i];
			continue;
		}
		w->sites[n].calls += w->sites[i].calls;
		w->sites[n].instructions += w->sites[i].instructions;
	}
	if (w->site_count)
		w->site_count = n + 1;
}

static bool find_sites(struct callgrind *w)
{
	size_t n;
	const struct call_arc *arcs = call_arcs_list(w->costs->arcs, &n);

	w->sites = calloc(n + 1, sizeof(*w->sites));
	if (!w->sites)
		return false;
	for (size_t i = 0; i < n; i++) {
		struct site site = {.calls = arcs[i].calls, .instructions = arcs[i].instructions};
		const struct annotate_function *caller = NULL, *callee;
		uint64_t place;

		callee = function_at(w->costs, arcs[i].callee_space, arcs[i].callee, &place);
		if (arcs[i].site)
			caller =
			    function_at(w->costs, arcs[i].caller_space, arcs[i].site, &site.at);
		if (!caller) {
			caller =
			    function_at(w->costs, arcs[i].caller_space, arcs[i].caller, &place);
			site.at = 0;
		}
		if (!caller || !callee)
			continue;
		site.caller = number_of(w, caller);
		site.callee = number_of(w, callee);
		w->sites[w->site_count++] = site;
	}
	qsort(w->sites, w->site_count, sizeof(*w->sites), by_place);
	join_sites(w);
	return true;
}

/* The first of a function's sites, or where it would be. */
static const struct site *first_site(const struct callgrind *w, size_t function)
{
	size_t at;

	BISECT(at, 0, w->site_count, w->sites[at].caller < function);
	return &w->sites[at];
}

/* Functions */

/* What is known of a function from its code. */
static int know(struct callgrind *w, size_t function)
{
	const struct annotate_function *f = &w->a->functions[function];
	struct known *k = &w->known[function];
	struct annotate_code code;
	int status = annotate_code(w->a, f, &code);

	if (status < 0)
		return status;
	k->address = f->start + code.slide;
	for (size_t i = 0; i < code.count && !k->file; i++) {
		k->file = code.rows[i].file;
		k->line = code.rows[i].line;
	}
	annotate_code_free(&code);
	return 0;
}

/*
 * How many instructions were executed at a row. Where the bytes are not known, these are of all
 * blocks that begin there; each of them has a row, and the first one gets the sum.
 */
static uint64_t cost_of(const struct callgrind *w, const struct annotate_function *f,
			const struct annotate_code *code, const struct annotate_row *row)
{
	uint64_t cost = 0;

	/* In assembly functions may overlap. */
	if (annotation_function(w->a, f->object, row->at) != f)
		return 0;
	if (!code->no_bytes)
		return row->executed;
	if (row > code->rows && row[-1].at == row->at)
		return 0;
	for (size_t i = annotation_piece_at(w->a, f->object, row->at);
	     i < w->a->piece_count && w->a->pieces[i].object == f->object &&
	     w->a->pieces[i].at == row->at;
	     i++)
		cost += w->a->pieces[i].count * w->a->pieces[i].ninsn;
	return cost;
}

/* The costs of a function's code, with the calls that each instruction made. */
static void put_code(struct callgrind *w, size_t function, const struct annotate_code *code)
{
	const struct annotate_function *f = &w->a->functions[function];
	const struct known *k = &w->known[function];
	const struct site *site = first_site(w, function), *end = w->sites + w->site_count;

	/* Of calls whose instruction is not known, and of signals between instructions. */
	for (; site < end && site->caller == function && site->at < f->start; site++)
		put_call(w, site, k->address, k->line);
	for (size_t i = 0; i < code->count; i++) {
		const struct annotate_row *row = &code->rows[i];
		const uint64_t next = i + 1 < code->count ? code->rows[i + 1].at : UINT64_MAX;
		const uint64_t cost = cost_of(w, f, code, row);
		const bool calls = site < end && site->caller == function && site->at < next;

		if (!cost && !calls)
			continue;
		set_file(w, row->file, k->file);
		if (cost)
			put_cost(w, row->at + code->slide, row->line, cost);
		w->total += cost;
		for (; site < end && site->caller == function && site->at < next; site++)
			put_call(w, site, row->at + code->slide, row->line);
	}
}

static int put_functions(struct callgrind *w)
{
	int status = 0;

	for (size_t i = 0; i < w->a->function_count && status >= 0 && !out_failed(w->out); i++) {
		const struct annotate_function *f = &w->a->functions[i];
		struct annotate_code code;

		status = annotate_code(w->a, f, &code);
		if (status < 0)
			break;
		out_char(w->out, '\n');
		if (w->object != f->object + 1)
			put_object(w, "ob", f->object);
		w->object = f->object + 1;
		w->file = w->known[i].file;
		put_interned(w, &w->files, "fl", w->file);
		put_function(w, "fn", i);
		put_code(w, i, &code);
		annotate_code_free(&code);
	}
	return status;
}

static void put_head(const struct callgrind *w)
{
	out_text(w->out, "# callgrind format\nversion: 1\ncreator: ptah-" PTAH_VERSION_STRING "\n");
	if (w->costs->command) {
		out_text(w->out, "cmd: ");
		out_clean(w->out, w->costs->command);
		out_char(w->out, '\n');
	}
	out_text(w->out, "positions: instr line\nevents: Ir\n");
}

int export_callgrind(struct out *out, const struct call_costs *costs)
{
	struct callgrind w = {.out = out, .costs = costs, .a = costs->annotation};
	int status = 0;

	w.known = calloc(w.a->function_count + 1, sizeof(*w.known));
	if (!w.known || !find_sites(&w))
		status = PTAH_E_NOMEM;
	for (size_t i = 0; i < w.a->function_count && status >= 0; i++)
		status = know(&w, i);
	if (status >= 0) {
		put_head(&w);
		status = put_functions(&w);
	}
	if (status >= 0)
		out_format(out, "\ntotals: %" PRIu64 "\n", w.total);
	if (w.failed)
		status = PTAH_E_NOMEM;
	free(w.known);
	free(w.sites);
	table_free(&w.files);
	table_free(&w.objects);
	return status;
}
