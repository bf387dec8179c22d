/* SPDX-License-Identifier: MIT */
/*
 * Golden cases: one text file each, a small program, a trace as packet text,
 * and what must come out of it. Every case is decoded whole and byte by byte,
 * with room for one item and for many.
 *
 *	# What it shows, and where the SDM says so.
 *	config errata=SKD010 iflags ticks no-tnt filter=401000-401fff (optional)
 *	code 401000 cr3=1000                                     (any number; cr3, vmcs optional)
 *	  90            # nop
 *	trace
 *	  PSB
 *	  ...           (as `ptah asm` takes it)
 *	expect
 *	  psb noip status
 *	  401000 other  (an instruction: address, class, and what is not usual about it)
 *	  async-branch ip=401001 to=402000
 *
 * Expected lines come from the SDM, never from the decoder. An error's ip is where
 * the path stands by then, which is behind all that the trace has proven to have run;
 * "noip": tracing was off, or the path had been lost.
 */
#include "../event/story.h"

#include <ptah/flow.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

enum part {
	PART_HEAD,
	PART_CODE,
	PART_TRACE,
	PART_EXPECT
};

struct golden {
	char path[1024];
	struct ptah_flow_config config;
	struct ptah_image *image;
	struct ptah_packet_parser parser;
	uint8_t trace[16384];
	size_t size;
	char expected[65536];
	size_t length;
	/* The code section that is being read. */
	uint64_t address;
	struct ptah_space space;
	uint8_t code[4096];
	size_t code_size;
};

static void bad(const struct golden *g, unsigned line, const char *what, const char *text)
{
	fail_msg("%s:%u: %s: %s", g->path, line, what, text);
}

static void end_code(struct golden *g)
{
	if (g->code_size)
		assert_int_equal(
		    ptah_image_add_bytes(g->image, g->code, g->code_size, g->address, &g->space),
		    0);
	g->code_size = 0;
}

static void read_code(struct golden *g, unsigned line, char *text)
{
	for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
		char *end;

		if (g->code_size == sizeof(g->code))
			bad(g, line, "too much code", word);
		g->code[g->code_size++] = (uint8_t)strtoul(word, &end, 16);
		if (*end || end != word + 2)
			bad(g, line, "no byte", word);
	}
}

static void begin_code(struct golden *g, unsigned line, const char *text)
{
	const char *cr3 = strstr(text, "cr3="), *vmcs = strstr(text, "vmcs=");
	char *end;

	end_code(g);
	g->address = strtoull(text, &end, 16);
	if (end == text)
		bad(g, line, "no address", text);
	g->space.cr3 = cr3 ? strtoull(cr3 + 4, NULL, 16) : PTAH_SPACE_ANY;
	g->space.vmcs = vmcs ? strtoull(vmcs + 5, NULL, 16) : PTAH_SPACE_ANY;
}

static void add_range(struct golden *g, const char *text, uint8_t kind)
{
	for (unsigned i = 0; i < PTAH_FILTER_RANGES; i++) {
		struct ptah_filter_range *r = &g->config.ranges[i];
		char *end;

		if (r->kind)
			continue;
		r->kind = kind;
		r->first = strtoull(text, &end, 16);
		r->last = strtoull(end + 1, NULL, 16);
		return;
	}
}

static void read_config(struct golden *g, unsigned line, char *text)
{
	for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
		if (!strcmp(word, "iflags"))
			g->config.events.iflags = true;
		else if (!strcmp(word, "ticks"))
			g->config.events.ticks = true;
		else if (!strcmp(word, "no-tnt"))
			g->config.no_tnt = true;
		else if (!strcmp(word, "no-retcomp"))
			g->config.no_retcomp = true;
		else if (!strcmp(word, "no-bdm70"))
			g->config.events.no_bdm70 = true;
		else if (!strncmp(word, "filter=", 7))
			add_range(g, word + 7, PTAH_RANGE_FILTER);
		else if (!strncmp(word, "stop=", 5))
			add_range(g, word + 5, PTAH_RANGE_STOP);
		else if (strncmp(word, "errata=", 7) ||
			 ptah_errata_parse(word + 7, &g->config.events.errata) < 0)
			bad(g, line, "no such setting", word);
	}
}

static void read_trace(struct golden *g, unsigned line, const char *text)
{
	int size =
	    ptah_packet_parse(&g->parser, text, g->trace + g->size, sizeof(g->trace) - g->size);

	if (size < 0)
		bad(g, line, g->parser.expected ? g->parser.expected : "no packet", text);
	g->size += (size_t)size;
}

/* Without comment and blanks around it. */
static char *strip(char *line)
{
	char *hash = strchr(line, '#');

	if (hash)
		*hash = '\0';
	line += strspn(line, " \t");
	for (size_t n = strlen(line); n && strchr(" \t\r\n", line[n - 1]);)
		line[--n] = '\0';
	return line;
}

static void read_case(struct golden *g)
{
	FILE *f = fopen(g->path, "r");
	enum part part = PART_HEAD;
	char buffer[1024];
	unsigned line = 0;

	assert_non_null(f);
	while (fgets(buffer, sizeof(buffer), f)) {
		char *text = strip(buffer);

		line++;
		if (!*text)
			continue;
		if (!strncmp(text, "config ", 7)) {
			read_config(g, line, text + 7);
		} else if (!strncmp(text, "code ", 5)) {
			begin_code(g, line, text + 5);
			part = PART_CODE;
		} else if (!strcmp(text, "trace")) {
			part = PART_TRACE;
		} else if (!strcmp(text, "expect")) {
			part = PART_EXPECT;
		} else if (part == PART_CODE) {
			read_code(g, line, text);
		} else if (part == PART_TRACE) {
			read_trace(g, line, text);
		} else if (part == PART_EXPECT) {
			g->length += (size_t)snprintf(
			    g->expected + g->length, sizeof(g->expected) - g->length, "%s\n", text);
			assert_true(g->length < sizeof(g->expected));
		} else {
			bad(g, line, "belongs to nothing", text);
		}
	}
	fclose(f);
	end_code(g);
	if (part != PART_EXPECT)
		bad(g, line, "no expectation", "add `expect`");
}

static void say(char *text, size_t room, size_t *length, const char *line)
{
	*length += (size_t)snprintf(text + *length, room - *length, "%s\n", line);
	assert_true(*length < room);
}

static void say_insn(char *text, size_t room, size_t *length, const struct ptah_item *block,
		     const struct ptah_insn *insn, bool last)
{
	static const char *const modes[] = {" ?", " 16-bit", " 32-bit", ""};
	char line[128];

	snprintf(line, sizeof(line), "%" PRIx64 " %s%s%s%s%s", insn->ip,
		 ptah_insn_class_name(insn->class), modes[insn->mode & 3],
		 last && block->flags & PTAH_ITEM_TAKEN ? " taken" : "",
		 last && block->flags & PTAH_ITEM_UNKNOWN ? " unknown" : "",
		 block->flags & PTAH_ITEM_SPECULATIVE ? " spec" : "");
	say(text, room, length, line);
}

static void say_item(char *text, size_t room, size_t *length, struct ptah_flow *flow,
		     const struct ptah_item *item)
{
	static struct story story;
	struct ptah_insn insns[256];
	int n;

	if (item->type == PTAH_ITEM_BLOCK) {
		n = ptah_flow_insns(flow, item, insns, 256);
		assert_int_equal(n, item->ninsn);
		for (int i = 0; i < n; i++)
			say_insn(text, room, length, item, &insns[i], i == n - 1);
		assert_int_equal(insns[n - 1].size, item->last_size);
		assert_true(insns[n - 1].ip + insns[n - 1].size == item->end ||
			    item->mode != PTAH_EXEC_64);
		return;
	}
	story.length = 0;
	story_item(&story, item);
	story.text[story.length - 2] = '\0'; /* "; " */
	say(text, room, length, story.text);
}

static void decode(struct golden *g, size_t chunk, size_t capacity, char *text, size_t room)
{
	struct ptah_item items[64];
	struct ptah_flow *flow;
	size_t length = 0, at = 0;
	bool last;
	int n;

	text[0] = '\0';
	assert_int_equal(ptah_flow_new(g->image, &g->config, &flow), 0);
	do {
		size_t part = g->size - at < chunk ? g->size - at : chunk;

		last = at + part == g->size;
		assert_int_equal(ptah_flow_feed(flow, g->trace + at, part, last), 0);
		at += part;
		while ((n = ptah_flow_read(flow, items, capacity)) > 0)
			for (int i = 0; i < n; i++)
				say_item(text, room, &length, flow, &items[i]);
	} while (!last);
	ptah_flow_free(flow);
}

/* Where the first line differs. */
static bool compare(const struct golden *g, const char *got, const char *how)
{
	const char *a = g->expected, *b = got;
	unsigned line = 1;

	if (!strcmp(a, b))
		return true;
	for (; *a && *b; line++) {
		size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");

		if (na != nb || memcmp(a, b, na))
			break;
		a += na + 1;
		b += nb + 1;
	}
	print_error("%s (%s): line %u of what comes out\n  expected: %.*s\n  got:      %.*s\n",
		    g->path, how, line, (int)strcspn(a, "\n"), *a ? a : "(the end)",
		    (int)strcspn(b, "\n"), *b ? b : "(the end)");
	if (getenv("GOLDEN_VERBOSE"))
		print_error("%s", got);
	return false;
}

static bool check(const char *path)
{
	struct golden *g = calloc(1, sizeof(*g));
	char *got = malloc(65536);
	bool good;

	assert_non_null(g);
	assert_non_null(got);
	snprintf(g->path, sizeof(g->path), "%s", path);
	g->config.size = sizeof(g->config);
	g->config.events.size = sizeof(g->config.events);
	assert_int_equal(ptah_image_new(&g->image), 0);
	read_case(g);
	decode(g, SIZE_MAX, 64, got, 65536);
	good = compare(g, got, "whole");
	decode(g, 1, 64, got, 65536);
	good = good && compare(g, got, "byte by byte");
	decode(g, SIZE_MAX, 1, got, 65536);
	good = good && compare(g, got, "item by item");
	ptah_image_free(g->image);
	free(got);
	free(g);
	return good;
}

static void all(void **state)
{
	const char *source = getenv("PTAH_SOURCE"), *only = getenv("GOLDEN");
	unsigned cases = 0, wrong = 0;
	struct dirent *entry;
	char folder[400];
	DIR *dir;

	(void)state;
	assert_non_null(source);
	snprintf(folder, sizeof(folder), "%s/tests/golden", source);
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		size_t n = strlen(entry->d_name);
		char path[700];

		if (n < 5 || strcmp(entry->d_name + n - 4, ".txt") ||
		    (only && !strstr(entry->d_name, only)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		cases++;
		wrong += !check(path);
	}
	closedir(dir);
	print_message("%u golden cases, %u wrong\n", cases, wrong);
	assert_true(cases > 0);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
