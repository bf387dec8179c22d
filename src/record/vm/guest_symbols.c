/* SPDX-License-Identifier: MIT */
/*
 * Reads the few symbols of guest_symbols.h from lines "ADDRESS TYPE NAME", or from the symbol table
 * of an ELF file.
 */
#include "record/vm/guest_symbols.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "record/system/channel.h"
#include "record/vm/elf_symbols.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct guest_symbols {
	uint64_t text;
	uint64_t values[CHANNEL_SYMBOLS];
};

static void take_guest_symbol(struct guest_symbols *s, const char *name, uint64_t address)
{
	if (!strcmp(name, "_text"))
		s->text = address;
	for (unsigned i = 0; i < CHANNEL_SYMBOLS; i++)
		if (!strcmp(name, channel_symbol(i)))
			s->values[i] = address;
}

static void take_guest_symbol_line(struct guest_symbols *s, const char *line)
{
	unsigned long long address;
	char type, name[64];

	if (sscanf(line, "%llx %c %63s", &address, &type, name) == 3)
		take_guest_symbol(s, name, address);
}

/* All that are needed are global; a file of the kernel may have another of this name for itself. */
static void take_symbol(void *symbols, const char *name, const GElf_Sym *symbol)
{
	if (GELF_ST_BIND(symbol->st_info) == STB_GLOBAL)
		take_guest_symbol(symbols, name, symbol->st_value);
}

static int take_guest_symbol_lines(struct guest_symbols *s, const char *path,
				   struct ptah_message *why)
{
	FILE *f = fopen(path, "re");
	char line[1024];

	if (!f)
		return perfdata_system_message(why, errno, path, "open");
	while (fgets(line, sizeof(line), f))
		take_guest_symbol_line(s, line);
	fclose(f);
	return 0;
}

int guest_symbols_read(const char *path, struct guest_symbols **symbols, struct ptah_message *why)
{
	struct guest_symbols *s = malloc(sizeof(*s));
	bool is_elf;
	int status;

	if (!s)
		return PTAH_E_NOMEM;
	s->text = CHANNEL_NONE;
	for (unsigned i = 0; i < CHANNEL_SYMBOLS; i++)
		s->values[i] = CHANNEL_NONE;
	is_elf = elf_symbols(path, SHT_SYMTAB, take_symbol, s);
	status = is_elf ? 0 : take_guest_symbol_lines(s, path, why);
	if (status >= 0 && (s->text == CHANNEL_NONE || !s->text))
		status = perfdata_message(
		    why, PTAH_E_BAD_FILE,
		    is_elf ? "%s: a program without the symbol _text: it is not a Linux kernel's "
			     "vmlinux, or was stripped; a copy of /proc/kallsyms will do"
			   : "%s: not in the format of /proc/kallsyms and System.map, without the "
			     "symbol _text, or its addresses are hidden; nor a vmlinux",
		    path);
	if (status < 0)
		free(s);
	else
		*symbols = s;
	return status;
}

void guest_symbols_free(struct guest_symbols *symbols)
{
	free(symbols);
}

uint64_t guest_symbol(const struct guest_symbols *s, const char *name)
{
	if (s && !strcmp(name, "_text"))
		return s->text;
	for (unsigned i = 0; s && i < CHANNEL_SYMBOLS; i++)
		if (!strcmp(name, channel_symbol(i)))
			return s->values[i];
	return CHANNEL_NONE;
}
