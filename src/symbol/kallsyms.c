/* SPDX-License-Identifier: MIT */
/* Reads the names of a kernel's code from a file like /proc/kallsyms, or from vmlinux. */
#include "symbol/kallsyms.h"

#include "symbol/fragments.h"
#include "symbol/kernel.h"
#include "symbol/known_names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

bool symbol_kallsyms_next(FILE *file, struct kallsyms_line *line)
{
	char text[KALLSYMS_LINE];

	while (fgets(text, sizeof(text), file)) {
		int n;

		line->module[0] = '\0';
		n = sscanf(text, "%16" SCNx64 " %c %1023s %63s", &line->address, &line->type,
			   line->name, line->module);
		if (n < 3)
			continue;
		if (n < 4 || line->module[0] != '[')
			line->module[0] = '\0';
		return true;
	}
	return false;
}

/* Opens a regular file. Others, such as a fifo, would keep the reader waiting. */
static FILE *open_kallsym_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	FILE *file = NULL;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		file = fdopen(fd, "r");
	else
		errno = EINVAL;
	if (!file)
		close(fd);
	return file;
}

int symbol_kallsyms_find(const char *path, const char *name, uint64_t *address)
{
	struct kallsyms_line line;
	FILE *file = open_kallsym_file(path);
	bool found = false;

	*address = 0;
	if (!file)
		return PTAH_E_SYSTEM;
	while (!found && symbol_kallsyms_next(file, &line))
		found = !line.module[0] && !strcmp(line.name, name);
	fclose(file);
	if (!found)
		return PTAH_E_BAD_FILE;
	*address = line.address;
	return 0;
}

static bool is_code(char type)
{
	return type && strchr("tTwWiu", type);
}

/*
 * Adds a symbol as a range of one byte, which bound() extends later. The module's name follows the
 * symbol's in the list of names.
 */
static void add_symbol(struct symbol_kernel *kernel, const struct kallsyms_line *line,
		       uint64_t address)
{
	size_t length;
	struct symbol_range range = {
	    .start = address,
	    .end = address + 1,
	    .head = address,
	    .name = symbol_names_add(&kernel->names, line->name, ""),
	    .named = is_code(line->type),
	};

	/* Data that begins where a function does must not take its name. */
	if (range.named)
		range.rank = line->type == 'T'		? SYMBOL_RANK_GLOBAL
			     : strchr("wW", line->type) ? SYMBOL_RANK_WEAK
							: SYMBOL_RANK_LOCAL;
	if (range.named && symbol_is_fragment(line->name, &length))
		range.flags = PTAH_FUNCTION_FRAGMENT;
	else if (range.named)
		range.flags = (uint16_t)symbol_name_flags(line->name);

	symbol_names_add(&kernel->names, line->module, "");
	symbol_ranges_add(&kernel->ranges, range);
}

static const char *module_of(const struct symbol_kernel *kernel, const struct symbol_range *range)
{
	const char *name = kernel->names.bytes + range->name;

	return name + strlen(name) + 1;
}

/*
 * A symbol ends where the next one begins, of data too. The last one of a module, or of all, ends
 * with its page: what lies between modules belongs to none.
 */
static void bound(struct symbol_kernel *kernel)
{
	struct symbol_ranges *ranges = &kernel->ranges;

	for (size_t i = 0; i < ranges->count; i++) {
		struct symbol_range *r = &ranges->items[i];
		const struct symbol_range *next = i + 1 < ranges->count ? r + 1 : NULL;
		uint64_t end = next ? next->start : UINT64_MAX;

		if (!next || strcmp(module_of(kernel, r), module_of(kernel, next)) != 0) {
			uint64_t page = r->start | (PAGE - 1);

			end = page < end ? page + (page != UINT64_MAX) : end;
		}
		r->end = end;
		r->size = end - r->start;
	}
}

/* A number for each module; the kernel itself and its modules are the groups of symbols. */
static uint64_t module_group(const char *module)
{
	uint64_t group = SYMBOL_GROUP_GLOBAL + 1;

	for (; *module; module++)
		group = (group ^ (uint8_t)*module) * UINT64_C(0x100000001b3);
	return group;
}

/* Finds the functions of fragments. The list does not say which of several with one name it is. */
static void find_parents(struct symbol_kernel *kernel)
{
	struct symbol_parents parents = {0};
	const char *names = kernel->names.bytes;

	for (size_t i = 0; i < kernel->ranges.count; i++) {
		const struct symbol_range *r = &kernel->ranges.items[i];

		if (r->flags & PTAH_FUNCTION_FRAGMENT)
			symbol_parents_want(&parents, names + r->name,
					    module_group(module_of(kernel, r)));
	}
	symbol_parents_sort(&parents);
	for (size_t i = 0; i < kernel->ranges.count && parents.count; i++) {
		const struct symbol_range *r = &kernel->ranges.items[i];

		if (r->named)
			symbol_parents_offer(&parents, names + r->name,
					     module_group(module_of(kernel, r)), r->start);
	}
	for (size_t i = 0; i < kernel->ranges.count; i++) {
		struct symbol_range *r = &kernel->ranges.items[i];

		if (!(r->flags & PTAH_FUNCTION_FRAGMENT))
			continue;
		r->parent = symbol_parents_find(&parents, names + r->name,
						module_group(module_of(kernel, r)));
		if (!r->parent)
			r->flags |= PTAH_FUNCTION_NO_PARENT;
	}
	symbol_parents_free(&parents);
}

/* Makes the ranges searchable. PTAH_E_NOMEM: there are too many, and the list is empty again. */
static int finish_kernel_symbols(struct symbol_kernel *kernel)
{
	if (!kernel->ranges.failed && !kernel->names.failed) {
		find_parents(kernel);
		symbol_ranges_sort(&kernel->ranges, &kernel->names);
		bound(kernel);
		return 0;
	}
	symbol_kernel_free(kernel);
	return PTAH_E_NOMEM;
}

static void read_kallsym_lines(struct symbol_kernel *kernel, FILE *file, uint64_t shift)
{
	struct kallsyms_line line;

	while (symbol_kallsyms_next(file, &line)) {
		/* Addresses below are offsets in the data of each CPU. A module is not where it was
		 * if the kernel is not. */
		if (line.address < SYMBOL_KERNEL_HALF || (shift && line.module[0]))
			continue;
		add_symbol(kernel, &line, line.address + shift);
	}
}

int symbol_kernel_read_kallsyms(struct symbol_kernel *kernel, const char *path,
				const char *reference, uint64_t *address)
{
	uint64_t found, shift;
	FILE *file;
	int status = symbol_kallsyms_find(path, reference, &found);

	if (status < 0)
		return status;
	if (found < SYMBOL_KERNEL_HALF)
		return PTAH_E_EMPTY;
	shift = *address ? *address - found : 0;
	file = open_kallsym_file(path);
	if (!file)
		return PTAH_E_SYSTEM;
	symbol_kernel_free(kernel);
	read_kallsym_lines(kernel, file, shift);
	fclose(file);
	*address = found + shift;
	return finish_kernel_symbols(kernel);
}

int symbol_kernel_read_vmlinux(struct symbol_kernel *kernel, const char *path, uint64_t slide)
{
	const struct symbol_folders folders = {.root = ""};
	struct symbol_file file;

	if (!symbol_file_read(path, &folders, &file))
		return PTAH_E_BAD_MAGIC;
	symbol_kernel_free(kernel);
	for (size_t i = 0; i < file.ranges.count; i++) {
		const struct symbol_range *r = &file.ranges.items[i];
		struct symbol_range moved = *r;

		moved.start += slide;
		moved.end += slide;
		moved.head += slide;
		moved.parent += moved.parent ? slide : 0;
		moved.name = symbol_names_add(&kernel->names, file.names.bytes + r->name, "");
		symbol_names_add(&kernel->names, "", "");
		symbol_ranges_add(&kernel->ranges, moved);
	}
	symbol_file_free(&file);
	if (!kernel->ranges.failed && !kernel->names.failed)
		return 0;
	symbol_kernel_free(kernel);
	return PTAH_E_NOMEM;
}

void symbol_kernel_free(struct symbol_kernel *kernel)
{
	symbol_ranges_free(&kernel->ranges);
	free(kernel->names.bytes);
	kernel->names = (struct symbol_names){0};
}

bool symbol_kernel_find(const struct symbol_kernel *kernel, uint64_t address,
			struct ptah_kernel_symbol *symbol)
{
	const struct symbol_range *range = symbol_ranges_find(&kernel->ranges, address);

	if (!range || !range->named)
		return false;
	*symbol = (struct ptah_kernel_symbol){
	    .name = kernel->names.bytes + range->name,
	    .module = module_of(kernel, range),
	    .start = range->head,
	    .size = range->size,
	};
	return true;
}
