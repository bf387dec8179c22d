/* SPDX-License-Identifier: MIT */
/*
 * Lists of a kernel's symbols in the format of /proc/kallsyms: a line "ADDRESS TYPE NAME" for each
 * symbol, and after a tabulator "[MODULE]" for those of modules.
 */
#ifndef PTAH_SYMBOL_KALLSYMS_H
#define PTAH_SYMBOL_KALLSYMS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Longer lines than this are cut. KSYM_NAME_LEN is 512, MODULE_NAME_LEN 56. */
#define KALLSYMS_LINE 1024

struct kallsyms_line {
	uint64_t address;
	char type; /* as in nm(1): 't' and 'T' are code */
	char name[KALLSYMS_LINE];
	char module[64]; /* with its brackets; "": the kernel itself */
};

/* Reads the next line that has the format. False at the end. */
bool symbol_kallsyms_next(FILE *file, struct kallsyms_line *line);

/*
 * Finds a symbol by its name: *address is 0 when the file hides addresses (kernel.kptr_restrict).
 * PTAH_E_SYSTEM with errno when the file cannot be opened; PTAH_E_BAD_FILE when it does not contain
 * the symbol.
 */
int symbol_kallsyms_find(const char *path, const char *name, uint64_t *address);

#endif
