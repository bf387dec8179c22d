/* SPDX-License-Identifier: MIT */
/* Variables of ELF files by address: what a lock is called. */
#include "symbol/elf.h"

#include <stdio.h>
#include <string.h>

/* What a table of symbols has at an address. */
static bool find_in_table(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, uint64_t address,
			  char *name, size_t size, uint64_t *offset)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
		const char *text;

		if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF ||
		    address - symbol.st_value >= symbol.st_size)
			continue;
		text = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (!text || !*text)
			continue;
		snprintf(name, size, "%s", text);
		*offset = address - symbol.st_value;
		return true;
	}
	return false;
}

bool ptah_elf_variable(const char *path, uint64_t address, char *name, size_t size,
		       uint64_t *offset)
{
	struct symbol_elf elf;
	Elf_Scn *section = NULL;
	bool found = false;

	if (!path || !name || !size || !offset || !symbol_elf_open(path, &elf))
		return false;
	while (!found && (section = elf_nextscn(elf.elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) &&
		    (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
			found =
			    find_in_table(elf.elf, section, &header, address, name, size, offset);
	}
	symbol_elf_close(&elf);
	return found;
}
