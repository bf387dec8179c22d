/* SPDX-License-Identifier: MIT */
/*
 * A flame graph as one SVG file, which any browser opens: callers below what they call, each as
 * wide as what ran in it. A script in the file zooms and searches; without it the picture is whole.
 */
#include "export/formats.h"
#include "export/xml.h"

#include <ptah/base.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	   1200.0 /* pixels wide */
#define MARGIN	   10.0
#define ROW	   17u
#define HEAD	   56u /* above the graph */
#define FOOT	   30u
#define LEAST	   0.1 /* pixels: what is narrower is left out */
#define LETTER	   6.7 /* of the font, which has one width for all */
#define LEAST_TEXT 3   /* letters */
#define COLOURS	   6

/* Colours that colour-blind people can distinguish, too (Okabe and Ito), and lighter ones. */
static const struct {
	unsigned hue, saturation, light;
} colours[COLOURS] = {{41, 85, 66}, {202, 72, 72}, {164, 45, 62},
		      {53, 80, 68}, {26, 75, 68},  {326, 40, 76}};

struct svg {
	struct out *out;
	const struct export_tree *tree;
	double scale; /* pixels for one unit of the value */
	uint64_t total;
	uint32_t rows;	/* the deepest that is shown + 1 */
	uint64_t *next; /* where the next call of each depth begins */
	size_t room;
};

static uint32_t hash_text(const char *text)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash;
}

/* Objects differ by hue, and functions by how light they are. */
static void put_colour(struct out *out, const char *object, const char *function)
{
	const uint32_t i = hash_text(object) % COLOURS;

	out_format(out, "hsl(%u,%u%%,%u%%)", colours[i].hue, colours[i].saturation,
		   colours[i].light + hash_text(function) % 12);
}

/* A number as people read it: 1,234,567. */
static void put_number(struct out *out, uint64_t value)
{
	if (value >= 1000) {
		put_number(out, value / 1000);
		out_format(out, ",%03u", (unsigned)(value % 1000));
	} else {
		out_decimal(out, value);
	}
}

/* A frame from `at` on; row 0 is the lowest. */
static void put_frame(const struct svg *s, uint32_t row, uint64_t at, uint64_t value,
		      const char *name, const char *object, uint64_t calls)
{
	const double x = MARGIN + (double)at * s->scale, width = (double)value * s->scale;
	const uint32_t y = HEAD + (s->rows - 1 - row) * ROW;
	struct out *out = s->out;

	if (width < LEAST)
		return;
	out_text(out, "<g class=\"f\"><title>");
	xml_text(out, name);
	if (object) {
		out_text(out, " (");
		xml_text(out, object);
		out_char(out, ')');
	}
	out_text(out, "\n");
	put_number(out, value);
	out_format(out, " %s, %.2f %%", export_tree_unit(s->tree->value),
		   100.0 * (double)value / (double)s->total);
	if (calls) {
		out_text(out, "; ");
		put_number(out, calls);
		out_text(out, calls == 1 ? " call" : " calls");
	}
	out_format(
	    out, "</title><rect x=\"%.2f\" y=\"%" PRIu32 "\" width=\"%.2f\" height=\"%u\" fill=\"",
	    x, y, width, ROW - 1);
	put_colour(out, object, name);
	out_format(out, "\"/><text x=\"%.2f\" y=\"%" PRIu32 "\">", x + 3, y + ROW - 5);
	if (width >= (LEAST_TEXT + 1) * LETTER)
		xml_text_cut(out, name, (size_t)((width - 6) / LETTER));
	out_text(out, "</text></g>\n");
}

static bool has_row(struct svg *s, uint32_t row)
{
	size_t room = s->room ? s->room : 64;
	uint64_t *next;

	while (room < (size_t)row + 2)
		room *= 2;
	if (room == s->room)
		return true;
	next = reallocarray(s->next, room, sizeof(*next));
	if (!next)
		return false;
	s->next = next;
	s->room = room;
	return true;
}

/*
 * Goes through the calls of a group from `at` on, and writes them, or (`measure`) finds out how
 * many rows they need.
 */
static int put_group(struct svg *s, const struct export_tree_group *group, uint64_t at,
		     uint32_t base, bool measure)
{
	const struct call_graph *graph = group->graph;
	char room[EXPORT_TREE_NAME];

	if (!has_row(s, 1))
		return PTAH_E_NOMEM;
	s->next[1] = at;
	for (uint32_t i = export_tree_next(s->tree, graph, 0); i && !out_failed(s->out);
	     i = export_tree_next(s->tree, graph, i)) {
		const struct graph_node *node = &graph->nodes[i];
		const struct graph_key *key = &graph->keys[node->key];
		const uint64_t value = graph_figure(&node->inclusive, s->tree->value);
		const uint32_t row = base + node->depth - 1;

		if (!has_row(s, node->depth))
			return PTAH_E_NOMEM;
		at = s->next[node->depth];
		s->next[node->depth] += value;
		s->next[node->depth + 1] = at;
		if (!measure)
			put_frame(s, row, at, value, export_tree_name(key, room),
				  key->path ? key->path : key->object, node->count);
		else if ((double)value * s->scale >= LEAST && row >= s->rows)
			s->rows = row + 1;
	}
	return 0;
}

/* A row for everything, one for each group where there are several, and the calls above. */
static int put_groups(struct svg *s, bool measure)
{
	const bool several = s->tree->group_count > 1;
	uint64_t at = 0;
	int status = 0;

	if (!measure)
		put_frame(s, 0, 0, s->total, several ? "all" : "all calls", NULL, 0);
	for (size_t i = 0; i < s->tree->group_count && status >= 0; i++) {
		const struct export_tree_group *group = &s->tree->groups[i];
		const uint64_t value = export_tree_total(s->tree, group->graph);
		char *name = export_tree_group_name(group);

		if (!name)
			return PTAH_E_NOMEM;
		if (several && !measure)
			put_frame(s, 1, at, value, name, NULL, 0);
		free(name);
		status = put_group(s, group, at, several ? 2 : 1, measure);
		at += value;
	}
	return status;
}

static const char style[] =
    "<style>\n"
    "svg{background:#fff}text{font:11px monospace;fill:#000;pointer-events:none}\n"
    "#title{font-size:16px}.f rect{rx:1px;stroke:#fff;stroke-width:.5px}.f:hover "
    "rect{stroke:#000}.f{cursor:pointer}\n"
    ".faint{opacity:.45}.hit rect{fill:#d3f!important}\n"
    "#search,#reset{cursor:pointer;pointer-events:auto;text-decoration:underline}\n"
    "@media(prefers-color-scheme:dark){svg{background:#1b1d21}\n"
    "#title,#about,#detail,#search,#reset,#found{fill:#ddd}.f:hover rect{stroke:#fff}}\n"
    "</style>\n";

/*
 * Frames keep where they were in x0 and w0. A click shows a frame as wide as the page, with what it
 * called above it and its callers, faint, below.
 */
static const char script[] =
    "<script><![CDATA[\n"
    "\"use strict\";\n"
    "(function () {\n"
    "\tconst margin = 10, page = 1200, letter = 6.7, least = 0.1;\n"
    "\tconst svg = document.documentElement;\n"
    "\tconst by = (id) => document.getElementById(id);\n"
    "\tconst frames = Array.from(document.querySelectorAll(\".f\"), (g) => {\n"
    "\t\tconst rect = g.querySelector(\"rect\"), title = g.querySelector(\"title\").textContent;\n"
    "\t\tconst number = (name) => parseFloat(rect.getAttribute(name));\n"
    "\t\treturn {g, rect, text: g.querySelector(\"text\"), title, name: title.split(\"\\n\")[0],\n"
    "\t\t\tx0: number(\"x\") - margin, w0: number(\"width\"), y: number(\"y\")};\n"
    "\t});\n"
    "\tfunction place(f, x, width) {\n"
    "\t\tconst letters = Math.floor((width - 6) / letter);\n"
    "\t\tf.rect.setAttribute(\"x\", x + margin);\n"
    "\t\tf.rect.setAttribute(\"width\", width);\n"
    "\t\tf.text.setAttribute(\"x\", x + margin + 3);\n"
    "\t\tf.text.textContent = letters < 3 ? \"\" : f.name.length <= letters ? f.name\n"
    "\t\t\t: f.name.slice(0, letters - 2) + \"..\";\n"
    "\t}\n"
    "\tfunction zoom(to) {\n"
    "\t\tconst whole = page - 2 * margin, scale = whole / to.w0, slack = 0.02;\n"
    "\t\tfor (const f of frames) {\n"
    "\t\t\tconst holds = f.y >= to.y && f.x0 <= to.x0 + slack &&\n"
    "\t\t\t\tf.x0 + f.w0 >= to.x0 + to.w0 - slack;\n"
    "\t\t\tconst inside = f.y < to.y && f.x0 >= to.x0 - slack &&\n"
    "\t\t\t\tf.x0 + f.w0 <= to.x0 + to.w0 + slack && f.w0 * scale >= least;\n"
    "\t\t\tf.g.style.display = holds || inside ? \"\" : \"none\";\n"
    "\t\t\tf.g.classList.toggle(\"faint\", holds && f !== to);\n"
    "\t\t\tif (holds)\n"
    "\t\t\t\tplace(f, 0, whole);\n"
    "\t\t\telse if (inside)\n"
    "\t\t\t\tplace(f, (f.x0 - to.x0) * scale, f.w0 * scale);\n"
    "\t\t}\n"
    "\t\tby(\"reset\").style.display = to === frames[0] ? \"none\" : \"\";\n"
    "\t}\n"
    "\tfunction search() {\n"
    "\t\tconst wanted = window.prompt(\"Functions with this in their names:\", \"\");\n"
    "\t\tlet found = 0, end = -1;\n"
    "\t\tif (wanted === null)\n"
    "\t\t\treturn;\n"
    "\t\tconst hits = frames.filter((f) => {\n"
    "\t\t\tconst hit = wanted !== \"\" && f.name.toLowerCase().includes(wanted.toLowerCase());\n"
    "\t\t\tf.g.classList.toggle(\"hit\", hit);\n"
    "\t\t\treturn hit;\n"
    "\t\t});\n"
    "\t\thits.sort((a, b) => a.x0 - b.x0 || b.w0 - a.w0);\n"
    "\t\tfor (const f of hits) {\n"
    "\t\t\tfound += Math.max(0, f.x0 + f.w0 - Math.max(end, f.x0));\n"
    "\t\t\tend = Math.max(end, f.x0 + f.w0);\n"
    "\t\t}\n"
    "\t\tby(\"found\").textContent = wanted === \"\" ? \"\" : hits.length + \" frames, \" +\n"
    "\t\t\t(100 * found / frames[0].w0).toFixed(2) + \" %\";\n"
    "\t}\n"
    "\tfor (const f of frames) {\n"
    "\t\tf.g.addEventListener(\"click\", () => zoom(f));\n"
    "\t\tf.g.addEventListener(\"mouseover\", () => {\n"
    "\t\t\tby(\"detail\").textContent = f.title.replace(\"\\n\", \": \");\n"
    "\t\t});\n"
    "\t}\n"
    "\tby(\"search\").style.display = \"\";\n"
    "\tby(\"search\").addEventListener(\"click\", search);\n"
    "\tby(\"reset\").addEventListener(\"click\", () => zoom(frames[0]));\n"
    "\tsvg.addEventListener(\"keydown\", (e) => {\n"
    "\t\tif (e.key === \"/\" || (e.key === \"f\" && e.ctrlKey)) {\n"
    "\t\t\te.preventDefault();\n"
    "\t\t\tsearch();\n"
    "\t\t} else if (e.key === \"Escape\") {\n"
    "\t\t\tzoom(frames[0]);\n"
    "\t\t}\n"
    "\t});\n"
    "})();\n"
    "]]></script>\n";

static void put_head(const struct svg *s)
{
	const uint32_t height = HEAD + s->rows * ROW + FOOT;
	struct out *out = s->out;

	out_format(out,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%" PRIu32
		   "\" viewBox=\"0 0 %.0f %" PRIu32 "\">\n<title>",
		   PAGE, height, PAGE, height);
	xml_text(out, s->tree->command ? s->tree->command : "Flame graph");
	out_text(out, "</title>\n");
	out_text(out, style);
	out_format(out, "<text id=\"title\" x=\"%.0f\" y=\"24\">", MARGIN);
	xml_text_cut(out, s->tree->command ? s->tree->command : "Flame graph", 90);
	out_format(out, "</text>\n<text id=\"about\" x=\"%.0f\" y=\"44\">", MARGIN);
	put_number(out, s->total);
	out_format(out, " %s</text>\n", export_tree_unit(s->tree->value));
	out_text(out, "<text id=\"reset\" x=\"960\" y=\"24\" style=\"display:none\">reset zoom"
		      "</text>\n"
		      "<text id=\"search\" x=\"1060\" y=\"24\" style=\"display:none\">search (/)"
		      "</text>\n"
		      "<text id=\"found\" x=\"960\" y=\"44\"/>\n");
	out_format(out, "<text id=\"detail\" x=\"%.0f\" y=\"%" PRIu32 "\"/>\n", MARGIN,
		   height - FOOT / 3);
}

int export_svg(struct out *out, const struct export_tree *tree)
{
	struct svg s = {.out = out, .tree = tree, .rows = tree->group_count > 1 ? 2 : 1};
	int status;

	for (size_t i = 0; i < tree->group_count; i++)
		s.total += export_tree_total(tree, tree->groups[i].graph);
	s.scale = s.total ? (PAGE - 2 * MARGIN) / (double)s.total : 0;
	status = put_groups(&s, true);
	if (status >= 0) {
		put_head(&s);
		status = put_groups(&s, false);
	}
	if (status >= 0) {
		out_text(out, script);
		out_text(out, "</svg>\n");
	}
	free(s.next);
	return status;
}
