/* SPDX-License-Identifier: MIT */
/* Reads a golden case from its text file; a line that it does not know is an error. */
#include "golden/case.h"

#include <ptah/base.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum part {
	PART_HEAD,
	PART_CODE,
	PART_TRACE,
	PART_EXPECT
};

struct reader {
	struct golden_case *c;
	struct ptah_packet_parser parser;
	enum part part;
	unsigned line;
};

static bool bad(const struct reader *r, const char *what, const char *text)
{
	snprintf(r->c->why, sizeof(r->c->why), "%.900s:%u: %s: %.400s", r->c->path, r->line, what,
		 text);
	return false;
}

static bool read_code(struct reader *r, char *text)
{
	struct golden_case *c = r->c;

	for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
		char *end;

		if (c->code_size == sizeof(c->code))
			return bad(r, "too much code", word);
		c->code[c->code_size++] = (uint8_t)strtoul(word, &end, 16);
		if (*end || end != word + 2)
			return bad(r, "no byte", word);
		c->sections[c->nsections - 1].size++;
	}
	return true;
}

static bool begin_code(struct reader *r, const char *text)
{
	const char *cr3 = strstr(text, "cr3="), *vmcs = strstr(text, "vmcs=");
	struct case_section *s;
	char *end;

	if (r->c->nsections == CASE_SECTIONS)
		return bad(r, "too many sections", text);
	s = &r->c->sections[r->c->nsections++];
	s->first = r->c->code_size;
	s->address = strtoull(text, &end, 16);
	if (end == text)
		return bad(r, "no address", text);
	s->space.cr3 = cr3 ? strtoull(cr3 + 4, NULL, 16) : PTAH_SPACE_ANY;
	s->space.vmcs = vmcs ? strtoull(vmcs + 5, NULL, 16) : PTAH_SPACE_ANY;
	r->part = PART_CODE;
	return true;
}

static void add_range(struct golden_case *c, const char *text, uint8_t kind)
{
	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		struct ptah_range *range = &c->config.events.trace.ranges[i];
		char *end;

		if (range->mode)
			continue;
		range->mode = kind;
		range->first = strtoull(text, &end, 16);
		range->last = strtoull(end + 1, NULL, 16);
		return;
	}
}

static bool read_config(struct reader *r, char *text)
{
	struct ptah_flow_config *config = &r->c->config;

	for (char *word = strtok(text, " \t"); word; word = strtok(NULL, " \t")) {
		if (!strcmp(word, "iflags"))
			config->events.trace.event_trace = true;
		else if (!strcmp(word, "no-iflags"))
			config->events.no_iflags = true;
		else if (!strcmp(word, "ticks"))
			config->events.ticks = true;
		else if (!strcmp(word, "no-tnt"))
			config->events.trace.no_tnt = true;
		else if (!strcmp(word, "no-retcomp"))
			config->events.trace.no_retcomp = true;
		else if (!strcmp(word, "resync"))
			config->resync = true;
		else if (!strcmp(word, "no-bdm70"))
			config->events.no_bdm70 = true;
		else if (!strncmp(word, "filter=", 7))
			add_range(r->c, word + 7, PTAH_RANGE_FILTER);
		else if (!strncmp(word, "stop=", 5))
			add_range(r->c, word + 5, PTAH_RANGE_STOP);
		else if (strncmp(word, "errata=", 7) ||
			 ptah_errata_parse(word + 7, &config->events.errata) < 0)
			return bad(r, "no such setting", word);
	}
	return true;
}

static bool read_trace(struct reader *r, const char *text)
{
	struct golden_case *c = r->c;
	int size =
	    ptah_packet_parse(&r->parser, text, c->trace + c->size, sizeof(c->trace) - c->size);

	if (size < 0)
		return bad(r, r->parser.expected ? r->parser.expected : "no packet", text);
	c->size += (size_t)size;
	return true;
}

static bool read_expected(struct reader *r, const char *text)
{
	struct golden_case *c = r->c;

	c->length += (size_t)snprintf(c->expected + c->length, sizeof(c->expected) - c->length,
				      "%s\n", text);
	return c->length < sizeof(c->expected) || bad(r, "too long", text);
}

/* The line without its comment and without blanks around it. */
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

static bool read_line(struct reader *r, char *text)
{
	if (!*text)
		return true;
	if (!strncmp(text, "config ", 7))
		return read_config(r, text + 7);
	if (!strncmp(text, "code ", 5))
		return begin_code(r, text + 5);
	if (!strcmp(text, "trace"))
		r->part = PART_TRACE;
	else if (!strcmp(text, "expect"))
		r->part = PART_EXPECT;
	else if (r->part == PART_CODE)
		return read_code(r, text);
	else if (r->part == PART_TRACE)
		return read_trace(r, text);
	else if (r->part == PART_EXPECT)
		return read_expected(r, text);
	else
		return bad(r, "belongs to nothing", text);
	return true;
}

bool case_read(struct golden_case *c, const char *path)
{
	struct reader r = {.c = c};
	char buffer[1024];
	bool good = true;
	FILE *f;

	memset(c, 0, sizeof(*c));
	snprintf(c->path, sizeof(c->path), "%s", path);
	c->config.size = sizeof(c->config);
	c->config.events.size = sizeof(c->config.events);
	f = fopen(path, "r");
	if (!f)
		return bad(&r, "cannot be read", strerror(errno));
	while (good && fgets(buffer, sizeof(buffer), f)) {
		r.line++;
		good = read_line(&r, strip(buffer));
	}
	fclose(f);
	if (good && r.part != PART_EXPECT)
		return bad(&r, "no expectation", "add `expect`");
	return good;
}
