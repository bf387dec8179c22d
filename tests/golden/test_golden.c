/* SPDX-License-Identifier: MIT */
/*
 * Golden cases, one text file each (case.h). Every case is decoded whole and byte
 * by byte, with room for one item and for many.
 */
#include "golden/case.h"

#include "../event/story.h"

#include <ptah/flow.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

struct golden {
	struct golden_case c;
	struct ptah_image *image;
};

static void read_case(struct golden *g, const char *path)
{
	if (!case_read(&g->c, path))
		fail_msg("%s", g->c.why);
	for (unsigned i = 0; i < g->c.nsections; i++) {
		const struct case_section *s = &g->c.sections[i];

		if (s->size)
			assert_int_equal(ptah_image_add_bytes(g->image, g->c.code + s->first,
							      s->size, s->address, &s->space),
					 0);
	}
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
		 ptah_insn_class_name(insn->insn_class), modes[insn->mode & 3],
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
	assert_int_equal(ptah_flow_new(g->image, &g->c.config, &flow), 0);
	do {
		size_t part = g->c.size - at < chunk ? g->c.size - at : chunk;

		last = at + part == g->c.size;
		assert_int_equal(ptah_flow_feed(flow, g->c.trace + at, part, last), 0);
		at += part;
		while ((n = ptah_flow_read(flow, items, capacity)) > 0)
			for (int i = 0; i < n; i++)
				say_item(text, room, &length, flow, &items[i]);
	} while (!last);
	ptah_flow_free(flow);
}

/* Finds the first line that differs. */
static bool compare(const struct golden *g, const char *got, const char *how)
{
	const char *a = g->c.expected, *b = got;
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
		    g->c.path, how, line, (int)strcspn(a, "\n"), *a ? a : "(the end)",
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
	assert_int_equal(ptah_image_new(&g->image), 0);
	read_case(g, path);
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

TEST(all)
{
	const char *source = getenv("PTAH_SOURCE"), *only = getenv("GOLDEN");
	unsigned cases = 0, wrong = 0;
	struct dirent *entry;
	char folder[400];
	DIR *dir;

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
