/* SPDX-License-Identifier: MIT */
/*
 * Finds functions by name. This scans all symbols, because the table of ranges is
 * made for looking up addresses and does not keep aliases.
 */
#include <ptah/base.h>

#include "symbol/elf.h"

#include <stdlib.h>
#include <string.h>

static void add_name_place(struct symbol_places *places, uint64_t offset, uint64_t size)
{
	size_t i = 0;

	while (i < places->count && places->items[i].offset < offset)
		i++;
	if (i < places->count && places->items[i].offset == offset) {
		places->items[i].size = size > places->items[i].size ? size : places->items[i].size;
		return;
	}
	if (places->count == SYMBOL_PLACES_MAX)
		return;
	memmove(places->items + i + 1, places->items + i,
		(places->count - i) * sizeof(*places->items));
	places->items[i] = (struct symbol_place){offset, size};
	places->count++;
}

/* What is searched: the name in a file, or if `demangled` what people call the function. */
struct search {
	const struct symbol_file *file;
	const char *wanted;
	bool demangled;
	char part[SYMBOL_NAME_MAX]; /* a mangled name that is meant contains this */
	struct symbol_places *places;
};

/*
 * Finds a part of the demangled name that the mangled one has as well, so that not all names have
 * to be demangled: the last identifier before template arguments and parameters.
 */
static void find_name_part(struct search *s)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_";
	const size_t head = strcspn(s->wanted, "<(");
	size_t start = head;

	/* Operators, lambdas, conversions and much of "std" are mangled to other words. */
	if (strstr(s->wanted, "operator") || strstr(s->wanted, "std::") ||
	    strpbrk(s->wanted, "{}' ") || head >= sizeof(s->part))
		return;
	while (start && strchr(word, s->wanted[start - 1]))
		start--;
	memcpy(s->part, s->wanted + start, head - start);
}

static bool is_meant(const struct search *s, const char *name)
{
	if (!s->demangled)
		return !strcmp(name, s->wanted);
	return name[0] == '_' && strstr(name, s->part) && ptah_symbol_matches(name, s->wanted);
}

static void search_table(const struct search *s, Elf *elf, unsigned type)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		Elf_Data *data, *strings;
		GElf_Sym symbol;
		char name[SYMBOL_NAME_MAX];
		uint64_t offset;

		if (!gelf_getshdr(section, &header) || header.sh_type != type)
			continue;
		data = elf_getdata(section, NULL);
		strings = symbol_string_table(elf, header.sh_link);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			symbol_string(strings, symbol.st_name, name, sizeof(name));
			if (is_meant(s, name) && symbol_is_code(elf, &symbol, name) &&
			    symbol_file_offset(s->file, symbol.st_value, &offset))
				add_name_place(s->places, offset, symbol.st_size);
		}
		return;
	}
}

int symbol_file_find(const struct symbol_file *file, const char *path,
		     const struct symbol_folders *folders, const char *name,
		     struct symbol_places *places)
{
	struct search search = {.file = file, .wanted = name, .places = places};
	struct symbol_elf elf, debug;
	bool has_debug;

	places->count = 0;
	if (!symbol_elf_open(path, &elf))
		return PTAH_E_BAD_MAGIC;
	find_name_part(&search);
	has_debug = symbol_debug_open(elf.elf, path, folders, &debug);
	for (unsigned pass = 0; pass < 2 && !places->count; pass++) {
		search.demangled = pass == 1;
		search_table(&search, elf.elf, SHT_SYMTAB);
		search_table(&search, elf.elf, SHT_DYNSYM);
		if (has_debug)
			search_table(&search, debug.elf, SHT_SYMTAB);
	}
	if (has_debug)
		symbol_elf_close(&debug);
	symbol_elf_close(&elf);
	return (int)places->count;
}
