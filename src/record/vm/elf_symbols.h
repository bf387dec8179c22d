/* SPDX-License-Identifier: MIT */
/* The symbols of an ELF file, for the few whose names are known. */
#ifndef PTAH_RECORD_VM_ELF_SYMBOLS_H
#define PTAH_RECORD_VM_ELF_SYMBOLS_H

#include <gelf.h>
#include <stdbool.h>

/*
 * Calls take() for each symbol that the file defines in its sections of a type: SHT_SYMTAB or
 * SHT_DYNSYM. False, without a call: it cannot be opened, or is no ELF program (ET_EXEC, ET_DYN).
 */
bool elf_symbols(const char *path, GElf_Word type,
		 void (*take)(void *context, const char *name, const GElf_Sym *symbol),
		 void *context);

#endif
