/* SPDX-License-Identifier: MIT */
/*
 * Finds functions by name. This scans all symbols, because the table of ranges is
 * made for looking up addresses and does not keep aliases.
 */
#include <ptah/error.h>

#include "symbol/elf.h"

#include <stdlib.h>
#include <string.h>

static void add_place(struct symbol_places *places, uint64_t offset, uint64_t size)
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

static void search_table(const struct symbol_file *file, Elf *elf, unsigned type,
			 const char *wanted, struct symbol_places *places)
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
			if (!strcmp(name, wanted) && symbol_is_code(&symbol, name) &&
			    symbol_file_offset(file, symbol.st_value, &offset))
				add_place(places, offset, symbol.st_size);
		}
		return;
	}
}

int symbol_file_find(const struct symbol_file *file, const char *path, const char *root,
		     const char *name, struct symbol_places *places)
{
	struct symbol_elf elf, debug;

	places->count = 0;
	if (!symbol_elf_open(path, &elf))
		return PTAH_E_BAD_MAGIC;
	search_table(file, elf.elf, SHT_SYMTAB, name, places);
	search_table(file, elf.elf, SHT_DYNSYM, name, places);
	if (symbol_debug_open(elf.elf, path, root, &debug)) {
		search_table(file, debug.elf, SHT_SYMTAB, name, places);
		symbol_elf_close(&debug);
	}
	symbol_elf_close(&elf);
	return (int)places->count;
}
