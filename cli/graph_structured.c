/* SPDX-License-Identifier: MIT */
/* The call graphs of `ptah report` as TSV and JSON. */
#include "graph_rows.h"
#include "time_head.h"

#include "output/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A row as TSV and JSON have it. */
struct flat {
	uint64_t row, parent, depth;
	double percent, self_percent;
	const char *function, *object, *file, *caller, *comm, *times;
	uint64_t line, ip, calls;
	struct ptah_call_figures inclusive, self;
	int32_t pid, tid, cpu;
	bool is_function, has_pid, has_tid;
};

enum asked {
	ASKED_TREE = 1 << 0,
	ASKED_PAIRS = 1 << 1,
	ASKED_CYCLES = 1 << 2,
	ASKED_TIME = 1 << 3,
	ASKED_FILES = 1 << 4,
	ASKED_CPU = 1 << 5,
	ASKED_KIND = 1 << 6,
};

#define FLAT(name, kind, member, asked)                                                            \
	{                                                                                          \
		name, name, kind, offsetof(struct flat, member), asked, 0                          \
	}

static const struct field flat_fields[] = {
    FLAT("row", FIELD_NUMBER, row, ASKED_TREE),
    FLAT("parent", FIELD_NUMBER, parent, ASKED_TREE),
    FLAT("depth", FIELD_NUMBER, depth, ASKED_TREE),
    FLAT("percent", FIELD_REAL, percent, 0),
    FLAT("self_percent", FIELD_REAL, self_percent, 0),
    FLAT("calls", FIELD_NUMBER, calls, 0),
    FLAT("instructions", FIELD_NUMBER, inclusive.instructions, 0),
    FLAT("self_instructions", FIELD_NUMBER, self.instructions, 0),
    FLAT("cycles", FIELD_NUMBER, inclusive.cycles, ASKED_CYCLES),
    FLAT("self_cycles", FIELD_NUMBER, self.cycles, ASKED_CYCLES),
    FLAT("seconds", FIELD_SECONDS, inclusive.time, ASKED_TIME),
    FLAT("self_seconds", FIELD_SECONDS, self.time, ASKED_TIME),
    FLAT("object", FIELD_STRING, object, 0),
    FLAT("function", FIELD_STRING, function, 0),
    FLAT("file", FIELD_STRING, file, ASKED_FILES),
    FLAT("line", FIELD_NUMBER, line, ASKED_FILES),
    FLAT("caller", FIELD_STRING, caller, ASKED_PAIRS),
    {"ip", "ip", FIELD_ADDRESS, offsetof(struct flat, ip), 0, offsetof(struct flat, is_function)},
    {"pid", "pid", FIELD_SIGNED, offsetof(struct flat, pid), 0, offsetof(struct flat, has_pid)},
    {"tid", "tid", FIELD_SIGNED, offsetof(struct flat, tid), 0, offsetof(struct flat, has_tid)},
    FLAT("comm", FIELD_STRING, comm, 0),
    FLAT("cpu", FIELD_SIGNED, cpu, ASKED_CPU),
    {"times", NULL, FIELD_STRING, offsetof(struct flat, times), ASKED_KIND, 0},
};

static const struct row_type flat_type = ROW_TYPE(flat_fields);

static unsigned asked_fields(const struct graph_view *v)
{
	unsigned asked = v->kind == GRAPH_TREE ? ASKED_TREE : 0;

	if (v->kind == GRAPH_PAIR_TABLE)
		asked |= ASKED_PAIRS;
	if (v->files)
		asked |= ASKED_FILES;
	for (size_t i = 0; i < v->group_count; i++) {
		const struct ptah_call_figures *f = &v->groups[i].graph->totals.inclusive;

		asked |= (f->cycles ? ASKED_CYCLES : 0) | (f->time ? ASKED_TIME : 0);
		asked |= f->time && (v->session || v->times) ? ASKED_KIND : 0;
		asked |= v->groups[i].cpu != INT32_MIN ? ASKED_CPU : 0;
	}
	return asked;
}

#define ADDRESS_TEXT 24

static struct flat flatten(const struct graph_view *v, const struct graph_group *group,
			   const struct graph_key *key, const struct ptah_call_figures *inclusive,
			   const struct ptah_call_figures *self, uint64_t calls,
			   char address[ADDRESS_TEXT])
{
	const uint64_t total = graph_total(v, group);
	const char *function = key->special ? key->special : key->function;

	/* As in text, a function without a name is called by its address. */
	if (!function && v->functions) {
		snprintf(address, ADDRESS_TEXT, "0x%" PRIx64, key->ip);
		function = address;
	}
	return (struct flat){
	    .percent = graph_percent(graph_figure(inclusive, v->value), total),
	    .self_percent = graph_percent(graph_figure(self, v->value), total),
	    .function = function,
	    .object = v->objects && !key->special ? (key->path ? key->path : key->object) : NULL,
	    .file = key->file,
	    .line = key->line,
	    .comm = group->comm[0] ? group->comm : NULL,
	    .ip = key->ip,
	    .calls = calls,
	    .inclusive = *inclusive,
	    .self = *self,
	    .pid = group->pid,
	    .tid = group->tid,
	    .cpu = group->cpu,
	    .times =
		v->session ? ptah_session_times(v->session).name : time_head_saved_kind(v->times),
	    .is_function = v->functions && !key->special,
	    .has_pid = group->pid != INT32_MIN,
	    .has_tid = group->tid != INT32_MIN,
	};
}

struct row_walk {
	struct graph_view *v;
	const struct graph_group *group;
	void (*put)(struct graph_view *v, const struct flat *row);
};

static void put_tree_row(void *context, const struct graph_line *line)
{
	const struct row_walk *w = context;
	const struct graph_key *key = &w->group->graph->keys[line->node->key];
	char address[ADDRESS_TEXT];
	struct flat row = flatten(w->v, w->group, key, &line->node->inclusive, &line->node->self,
				  line->node->count, address);

	row.row = line->row;
	row.parent = line->parent;
	row.depth = line->depth;
	w->v->rows = line->row;
	w->put(w->v, &row);
}

static int put_tree_rows(const struct row_walk *w)
{
	return graph_walk(w->group->graph, graph_least(w->v, w->group), 0, false, w->v->rows,
			  put_tree_row, (void *)(uintptr_t)w);
}

static void put_table_rows(const struct row_walk *w)
{
	size_t n = 0;
	struct graph_table_row *rows = graph_list_rows(w->v, w->group->graph, &n);

	for (size_t i = 0; rows && i < input_shown(w->v->input, n); i++) {
		const struct graph_table_row *r = &rows[i];
		char address[ADDRESS_TEXT];
		struct flat row =
		    flatten(w->v, w->group, r->key, &r->inclusive, &r->self, r->count, address);

		if ((double)r->figure < graph_least(w->v, w->group))
			break;
		if (r->caller)
			row.caller = r->caller->special	   ? r->caller->special
				     : r->caller->function ? r->caller->function
				     : r->caller->file	   ? r->caller->file
							   : r->caller->path;
		w->put(w->v, &row);
	}
	free(rows);
}

static void put_graph_rows(struct graph_view *v,
			   void (*put)(struct graph_view *v, const struct flat *row))
{
	for (size_t i = 0; i < v->group_count; i++) {
		const struct row_walk w = {v, &v->groups[i], put};

		if (v->kind == GRAPH_TREE)
			put_tree_rows(&w);
		else
			put_table_rows(&w);
	}
}

static void put_tsv_row(struct graph_view *v, const struct flat *row)
{
	fields_tsv(v->out, &flat_type, asked_fields(v), row);
}

void graph_put_tsv(void *view)
{
	struct graph_view *v = view;

	fields_tsv_head(v->out, &flat_type, asked_fields(v));
	put_graph_rows(v, put_tsv_row);
}

static void put_json_row(struct graph_view *v, const struct flat *row)
{
	fields_json(&v->json, &flat_type, asked_fields(v), row);
}

static void put_json_totals(struct graph_view *v)
{
	struct ptah_call_totals t = {0};
	uint64_t threads = 0, folded_elsewhere = 0;

	for (size_t i = 0; i < v->group_count; i++) {
		const struct ptah_call_totals *g = &v->groups[i].graph->totals;

		t.inclusive.instructions += g->inclusive.instructions;
		t.inclusive.cycles += g->inclusive.cycles;
		t.inclusive.time += g->inclusive.time;
		t.calls += g->calls;
		t.partial += g->partial;
		t.folded_calls += g->folded_calls;
		t.folded.instructions += g->folded.instructions;
		threads += v->groups[i].threads;
		folded_elsewhere += v->groups[i].graph->folded_elsewhere;
	}
	if (v->session)
		json_number(&v->json, "threads", threads);
	json_number(&v->json, "instructions", t.inclusive.instructions);
	json_number(&v->json, "cycles", t.inclusive.cycles);
	json_seconds(&v->json, "seconds", t.inclusive.time);
	json_number(&v->json, "calls", t.calls);
	json_number(&v->json, "partial_calls", t.partial);
	json_number(&v->json, "folded_calls", t.folded_calls);
	json_number(&v->json, "folded_instructions", t.folded.instructions);
	if (v->input->function)
		json_number(&v->json, "folded_elsewhere", folded_elsewhere);
}

void graph_put_json(void *view)
{
	struct graph_view *v = view;

	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_string(&v->json, "command", v->session ? ptah_session_command(v->session) : NULL);
	json_string(&v->json, "value", v->value_word);
	if (v->session)
		time_head_put_json(&v->json, v->session);
	else
		json_string(&v->json, "times", time_head_saved_kind(v->times));
	if (v->kind == GRAPH_TREE)
		json_string(&v->json, "call_graph", v->upward ? "callee" : "caller");
	put_json_totals(v);
	json_array(&v->json, "notes");
	for (size_t i = 0; v->session && ptah_session_note(v->session, i); i++)
		json_string(&v->json, NULL, ptah_session_note(v->session, i));
	json_end_array(&v->json);
	json_array(&v->json, v->kind == GRAPH_TREE ? "nodes" : "rows");
	put_graph_rows(v, put_json_row);
	json_end_array(&v->json);
	json_end_object(&v->json);
	json_finish(&v->json);
}
