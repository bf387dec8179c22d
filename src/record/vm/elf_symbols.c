/* SPDX-License-Identifier: MIT */
/* Lists the symbols of an ELF file with libelf. The file may be anybody's. */
#include "record/vm/elf_symbols.h"

#include <fcntl.h>
#include <unistd.h>

struct reading {
	void (*take)(void *context, const char *name, const GElf_Sym *symbol);
	void *context;
};

/* The string table, if its last string ends, so that all do. elf_strptr() may scan it each time. */
static const Elf_Data *string_table(Elf *elf, size_t index)
{
	const Elf_Data *data = elf_rawdata(elf_getscn(elf, index), NULL);

	if (!data || !data->d_size || ((const char *)data->d_buf)[data->d_size - 1])
		return NULL;
	return data;
}

static void read_section(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			 const struct reading *r)
{
	const Elf_Data *strings = string_table(elf, header->sh_link);
	Elf_Data *data = elf_getdata(section, NULL);
	const size_t n = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
	GElf_Sym symbol;

	for (size_t i = 0; strings && i < n && i < INT32_MAX; i++)
		if (gelf_getsym(data, (int)i, &symbol) && symbol.st_shndx != SHN_UNDEF &&
		    symbol.st_name < strings->d_size)
			r->take(r->context, (const char *)strings->d_buf + symbol.st_name, &symbol);
}

bool elf_symbols(const char *path, GElf_Word type,
		 void (*take)(void *context, const char *name, const GElf_Sym *symbol),
		 void *context)
{
	const struct reading r = {take, context};
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	GElf_Shdr header;
	GElf_Ehdr file;
	Elf *elf = NULL;
	bool is_program;

	if (fd >= 0 && elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(fd, ELF_C_READ, NULL);
	is_program = elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &file) &&
		     (file.e_type == ET_DYN || file.e_type == ET_EXEC);
	for (Elf_Scn *section = is_program ? elf_nextscn(elf, NULL) : NULL; section;
	     section = elf_nextscn(elf, section))
		if (gelf_getshdr(section, &header) && header.sh_type == type)
			read_section(elf, section, &header, &r);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return is_program;
}
