/* SPDX-License-Identifier: MIT */
/* The functions of a kernel by address, for symbol.c. Internal to the layer symbol. */
#ifndef PTAH_SYMBOL_KERNEL_H
#define PTAH_SYMBOL_KERNEL_H

#include "symbol/elf.h"

/* Linux on x86-64 uses the upper half of the addresses. */
#define SYMBOL_KERNEL_HALF (UINT64_C(1) << 63)

struct symbol_kernel {
	struct symbol_ranges ranges; /* sorted by address, disjoint */
	struct symbol_names names;   /* each is followed by that of the module, "" for none */
};

/* The contents of ptah_symbols_add_kallsyms() and ptah_symbols_add_vmlinux(). */
int symbol_kernel_read_kallsyms(struct symbol_kernel *kernel, const char *path,
				const char *reference, uint64_t *address);
int symbol_kernel_read_vmlinux(struct symbol_kernel *kernel, const char *path, uint64_t slide);
void symbol_kernel_free(struct symbol_kernel *kernel);

bool symbol_kernel_find(const struct symbol_kernel *kernel, uint64_t address,
			struct ptah_kernel_symbol *symbol);

#endif
