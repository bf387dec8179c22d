/* SPDX-License-Identifier: MIT */
/* --filter: looks up the functions and files that the text names. */
#include "record_filter.h"

#include <ptah/session.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What isspace() accepts. */
#define BLANKS " \t\n\v\f\r"

#define FILTER "filter "

struct parser {
	const struct command *command;
	const char *option; /* without -- */
	const char *text, *at, *program;
	bool one_function; /* not a range */
	bool kernel;	   /* names without a file are the kernel's, not the program's */
	struct ptah_symbols *symbols;
};

static int complain_filter(const struct parser *p, const char *what)
{
	if (p->one_function) {
		fail(p->command, "--%s=%s: %s. It is FUNCTION or FUNCTION@FILE", p->option,
		     p->text + strlen(FILTER), what);
		return EXIT_USAGE;
	}
	fail(p->command,
	     "--filter, at '%s': %s. It is 'filter START/SIZE@FILE', 'filter SYMBOL@FILE' or "
	     "'stop ...' (see ptah-record(1)).",
	     p->at, what);
	return EXIT_USAGE;
}

/* Reads the next line of /proc/kallsyms. `name` has PTAH_FILTER_NAME_MAX bytes. */
static bool read_kernel_symbol(FILE *f, uint64_t *address, char *name)
{
	char line[PTAH_FILTER_NAME_MAX + 64], type;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 " %c %1023s", address, &type, name) == 3)
			return true;
	}
	return false;
}

/* Counts the kernel symbols of the name; *start is the address of number `which`. */
static unsigned count_kernel_symbols(FILE *f, const char *wanted, unsigned which, uint64_t *start)
{
	char name[PTAH_FILTER_NAME_MAX];
	uint64_t address;
	unsigned n = 0;

	while (read_kernel_symbol(f, &address, name)) {
		if (strcmp(name, wanted) != 0)
			continue;
		if (n == which)
			*start = address;
		n++;
	}
	return n;
}

/* /proc/kallsyms has no sizes: a symbol ends where the next one begins. */
static uint64_t kernel_symbol_end(FILE *f, uint64_t start)
{
	char name[PTAH_FILTER_NAME_MAX];
	uint64_t address, end = UINT64_MAX;

	rewind(f);
	while (read_kernel_symbol(f, &address, name))
		if (address > start && address < end)
			end = address;
	return end;
}

static int find_kernel_function(struct parser *p, const struct ptah_filter_place *place,
				struct ptah_symbol *symbol)
{
	const unsigned which = place->number ? (unsigned)place->number - 1 : 0;
	FILE *f = fopen("/proc/kallsyms", "re");
	uint64_t start = 0, end;
	unsigned n;

	if (!f)
		return fail(p->command, "--%s: /proc/kallsyms: %s", p->option, strerror(errno));
	n = count_kernel_symbols(f, place->name, which, &start);
	end = start ? kernel_symbol_end(f, start) : 0;
	fclose(f);
	if (!n)
		return fail(p->command, "--%s: the kernel has no symbol '%s'", p->option,
			    place->name);
	if (which >= n || (n > 1 && !place->number))
		return fail(p->command,
			    "--%s: the kernel has %u symbols '%s': say which, '%s#1' to '%s#%u'",
			    p->option, n, place->name, place->name, place->name, n);
	if (!start || end == UINT64_MAX)
		return fail(p->command,
			    "--%s: the kernel hides the address of '%s': run as root, or lower "
			    "kernel.kptr_restrict (sysctl)",
			    p->option, place->name);
	symbol->start = start;
	symbol->size = end - start;
	return EXIT_OK;
}

/* Finds the function that `place` names, in filter->path or, without a path, in the kernel. */
static int find_function(struct parser *p, const struct ptah_record_filter *filter,
			 const struct ptah_filter_place *place, struct ptah_symbol *symbol)
{
	unsigned which = place->number ? (unsigned)place->number - 1 : 0;
	int n;

	if (!filter->path)
		return find_kernel_function(p, place, symbol);
	n = ptah_symbols_find(p->symbols, filter->path, place->name, which, symbol);
	if (n < 0)
		return fail(p->command, "--%s: %s: %s", p->option, filter->path, ptah_strerror(n));
	if (n == 0)
		return fail(p->command,
			    p->one_function
				? "--%s: no function '%s' in %s. Stripped of its symbols?"
				: "--%s: no function '%s' in %s. Stripped of its symbols? Give an "
				  "offset in the file: 'filter 0x1000/0x200@%s'.",
			    p->option, place->name, filter->path, filter->path);
	if (which >= (unsigned)n || (n > 1 && !place->number))
		return fail(p->command,
			    "--%s: %s has %d functions '%s': say which, '%s#1' to '%s#%d'",
			    p->option, filter->path, n, place->name, place->name, place->name, n);
	return EXIT_OK;
}

/* Resolves a range whose start is a name. */
static int resolve_symbols(struct parser *p, struct ptah_record_filter *filter,
			   const struct ptah_filter_place *start,
			   const struct ptah_filter_place *end)
{
	struct ptah_symbol first, last;
	int status = find_function(p, filter, start, &first);

	if (status != EXIT_OK)
		return status;
	filter->start = first.start;
	filter->size = first.size;
	if (!end)
		return EXIT_OK;
	if (!*end->name) {
		filter->size = end->number;
		return EXIT_OK;
	}
	status = find_function(p, filter, end, &last);
	if (status != EXIT_OK)
		return status;
	if (last.start < first.start)
		return fail(p->command, "--%s: '%s' comes after '%s'", p->option, start->name,
			    end->name);
	filter->size = last.start + last.size - first.start;
	return EXIT_OK;
}

static int resolve(struct parser *p, struct ptah_record_filter *filter,
		   const struct ptah_filter_place *start, const struct ptah_filter_place *end)
{
	if (p->one_function && (end || !*start->name || !strcmp(start->name, "*")))
		return complain_filter(p, "it names no function");
	if (!strcmp(start->name, "*")) {
		if (end || !filter->path)
			return complain_filter(p, "'*' is all of a file: 'filter *@FILE'");
		filter->size = UINT64_MAX;
		return EXIT_OK;
	}
	if (*start->name) {
		if (!filter->path && !p->kernel)
			filter->path = p->program ? strdup(p->program) : NULL;
		if (!filter->path && !p->kernel)
			return complain_filter(p, "whose symbol? Say '@FILE'");
		return resolve_symbols(p, filter, start, end);
	}
	if (!end || *end->name)
		return complain_filter(p, "a number needs a size: START/SIZE");
	filter->start = start->number;
	filter->size = end->number;
	return EXIT_OK;
}

static int parse_one(struct parser *p, struct ptah_record_filter *filter)
{
	struct ptah_filter text;
	const char *problem;
	int status;

	if (ptah_filter_parse(&p->at, &text, &problem) < 0)
		return complain_filter(p, problem);
	filter->mode = text.mode;
	if (*text.file) {
		filter->path = realpath(text.file, NULL);
		if (!filter->path)
			return fail(p->command, "--%s: %s: %s", p->option, text.file,
				    strerror(errno));
	}
	status = resolve(p, filter, &text.start, text.has_end ? &text.end : NULL);
	if (status == EXIT_OK && !filter->size)
		return complain_filter(p, "the range is empty");
	if (status == EXIT_OK && filter->size != UINT64_MAX &&
	    filter->start + (filter->size - 1) < filter->start)
		return complain_filter(p, "the range goes beyond the end of memory");
	return status;
}

int filters_parse(const struct command *command, const char *text, const char *program, bool kernel,
		  struct filters *filters)
{
	struct parser p = {.command = command,
			   .option = "filter",
			   .text = text,
			   .at = text,
			   .program = program,
			   .kernel = kernel};
	int status = EXIT_OK;

	filters->count = 0;
	if (ptah_symbols_new(NULL, &p.symbols) < 0)
		return fail(command, "%s", ptah_strerror(PTAH_E_NOMEM));
	do {
		struct ptah_record_filter *filter = &filters->items[filters->count];

		if (filters->count == PTAH_RANGES) {
			status = complain_filter(&p, "a processor has four ranges at most");
			break;
		}
		*filter = (struct ptah_record_filter){0};
		filters->count++;
		status = parse_one(&p, filter);
		p.at += strspn(p.at, BLANKS);
		if (status == EXIT_OK && *p.at && *p.at != ',')
			status = complain_filter(&p, "a comma belongs between two filters");
	} while (status == EXIT_OK && *p.at++ == ',');
	ptah_symbols_free(p.symbols);
	return status;
}

int filters_find_function(const struct command *command, const char *option, const char *text,
			  const char *program, struct ptah_record_filter *filter)
{
	struct parser p = {
	    .command = command, .option = option, .program = program, .one_function = true};
	char *whole;
	int status;

	*filter = (struct ptah_record_filter){0};
	if (asprintf(&whole, FILTER "%s", text) < 0 || ptah_symbols_new(NULL, &p.symbols) < 0)
		return fail(command, "%s", ptah_strerror(PTAH_E_NOMEM));
	p.text = p.at = whole;
	status = parse_one(&p, filter);
	p.at += strspn(p.at, BLANKS);
	if (status == EXIT_OK && *p.at)
		status = complain_filter(&p, "something follows the function");
	ptah_symbols_free(p.symbols);
	free(whole);
	return status;
}

void filters_free(struct filters *filters)
{
	for (size_t i = 0; i < filters->count; i++)
		free((char *)(uintptr_t)filters->items[i].path);
	filters->count = 0;
}
