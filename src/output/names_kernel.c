/* SPDX-License-Identifier: MIT */
/* The names of the kernel's functions. Its symbols are read when the first one is looked up. */
#include "output/names_internal.h"

#include <stdio.h>
#include <string.h>

#define CORE PTAH_KERNEL_CODE

void names_kernel_of(const struct ptah_session *session, struct names_kernel *kernel)
{
	struct ptah_kernel k;

	ptah_session_kernel(session, &k);
	*kernel = (struct names_kernel){
	    .address = k.address, .slide = k.slide, .build_id_size = k.build_id_size};
	memcpy(kernel->build_id, k.build_id, sizeof(kernel->build_id));
	snprintf(kernel->kallsyms, sizeof(kernel->kallsyms), "%s", k.kallsyms ? k.kallsyms : "");
	snprintf(kernel->vmlinux, sizeof(kernel->vmlinux), "%s", k.vmlinux ? k.vmlinux : "");
	snprintf(kernel->symbol, sizeof(kernel->symbol), "%s", k.symbol);
}

void names_use_kernel(struct names *n, const struct names_kernel *kernel)
{
	n->kernel = *kernel;
	n->kernel_read = false;
}

void names_set_kernel_id(const struct names *n, struct ptah_counts_file *file)
{
	if (strcmp(file->path, CORE) != 0)
		return;
	file->build_id_size = n->kernel.build_id_size;
	memcpy(file->build_id, n->kernel.build_id, sizeof(file->build_id));
}

bool names_is_other_kernel(const struct names *n, const struct ptah_counts_file *file)
{
	const struct names_kernel *k = &n->kernel;

	return !strcmp(file->path, CORE) && k->build_id_size && file->build_id_size &&
	       (file->build_id_size != k->build_id_size ||
		memcmp(file->build_id, k->build_id, k->build_id_size) != 0);
}

static void read_symbols(struct names *n)
{
	struct names_kernel *k = &n->kernel;
	int status = PTAH_E_MISSING;

	if (n->kernel_read)
		return;
	n->kernel_read = true;
	if (k->vmlinux[0])
		ptah_symbols_add_vmlinux(n->symbols, k->vmlinux, k->slide, PTAH_VMLINUX_LINES);
	if (k->kallsyms[0])
		status = ptah_symbols_add_kallsyms(n->symbols, k->kallsyms,
						   k->symbol[0] ? k->symbol : "_text", &k->address);
	if (status < 0 && k->vmlinux[0])
		ptah_symbols_add_vmlinux(n->symbols, k->vmlinux, k->slide, PTAH_VMLINUX_NAMES);
}

/* Code with a name of its own ("bpf_prog_...") instead of a file. */
static bool is_function(const char *path)
{
	return *path && *path != '/' && *path != '[';
}

void names_look_up_kernel(struct names *n, const struct ptah_map *map, struct name *name)
{
	const bool core = map && !strcmp(map->path, CORE);
	struct ptah_kernel_symbol symbol;
	uint64_t ip = name->ip;

	if (map && is_function(map->path)) {
		name->symbol = name->path;
		name->named = true;
		name->offset = ip - map->address;
		name->start = map->address;
		return;
	}
	read_symbols(n);
	if (!core && n->kernel.no_modules)
		return;
	/* Counts of several recordings may have the kernel at another address than its symbols. */
	if (core && n->kernel.address)
		ip = n->kernel.address + map->file_offset + (ip - map->address);
	if ((core || !map) && n->kernel.vmlinux[0]) {
		name->code = CORE;
		name->code_at = ip;
	}
	if (!ptah_symbols_lookup_kernel(n->symbols, ip, &symbol))
		return;
	if (!map)
		name->path = name->dso = symbol.module[0] ? symbol.module : CORE;
	name->symbol = symbol.name;
	name->named = true;
	name->offset = ip - symbol.start;
	name->start = name->ip - name->offset;
}
