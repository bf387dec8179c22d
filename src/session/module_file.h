/* SPDX-License-Identifier: MIT */
/*
 * The file of a kernel's module (.ko) is an object file: its sections have no addresses, and what
 * branches to other sections and to the kernel is filled in by the kernel. This does what the
 * kernel does (kernel/module/main.c, arch/x86/kernel/module.c), as far as branches need it.
 */
#ifndef PTAH_SESSION_MODULE_FILE_H
#define PTAH_SESSION_MODULE_FILE_H

#include "perfdata/build_id.h"

#include <ptah/image.h>

/* Functions of the kernel by their names, to which modules branch. */
struct kernel_exports {
	struct kernel_export {
		const char *name;
		size_t at; /* offset of the name in `names` until they are sorted */
		uint64_t address;
	} * items;
	size_t count, capacity;
	char *names;
	size_t used, room;
};

/*
 * Reads them from a list of symbols (/proc/kallsyms) or, if that is NULL, from the ELF file
 * `vmlinux`. Addresses are moved up: by what is missing from the list's symbol `reference` to
 * `address`, or by `slide`. 0 or an error; free them in any case.
 */
int kernel_exports_read(struct kernel_exports *exports, const char *kallsyms, const char *vmlinux,
			const char *reference, uint64_t address, uint64_t slide);
void kernel_exports_free(struct kernel_exports *exports);

/* Where a module lay, and which file it was. */
struct module_place {
	uint64_t address, size;
	const struct perfdata_build_id *id; /* size 0: unknown */
};

/*
 * Adds the code of the module in the file `path` (.ko, or .ko.zst) to an image. A branch whose
 * target is unknown is left out, so that it counts as missing code. 1; 0: the file is none, or not
 * the one that ran; or PTAH_E_NOMEM.
 */
int module_file_add(struct ptah_image *image, const char *path, const struct module_place *place,
		    const struct kernel_exports *exports);

#endif
