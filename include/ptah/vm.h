/* SPDX-License-Identifier: MIT */
/*
 * A virtual machine whose processors have Intel PT, on any x86-64 computer.
 *
 * QEMU translates the guest's code (TCG), and the plugin ptah-system.so sees each
 * instruction and feeds a simulated PT processor (model.h) for each virtual one. The
 * guest finds Intel PT in CPUID and its registers, and its own driver uses it.
 *
 * This header makes the command line of such a machine:
 *
 *	struct ptah_vm_config config = {.size = sizeof(config), .options = options};
 *
 *	if (ptah_vm_command(&config, &argv, &why) >= 0)
 *		execv(argv[0], argv);
 *
 * docs/virtual-pt.md shows what can be done with it.
 */
#ifndef PTAH_VM_H
#define PTAH_VM_H

#include <ptah/api.h>
#include <ptah/error.h>

#include <stddef.h>

PTAH_BEGIN_DECLS

struct ptah_message;

/* All 0 but `size`: a machine without a disk, with the processor "skylake". */
struct ptah_vm_config {
	size_t size;	    /* sizeof(struct ptah_vm_config) */
	const char *qemu;   /* a path, or a name in PATH; NULL: qemu-system-x86_64 */
	const char *plugin; /* NULL: beside the library */
	const char *model;  /* of ptah_model_named(); NULL: "skylake" */
	/*
	 * A file to which the plugin appends what ran, when the guest asks for it and at the end.
	 * NULL: none.
	 */
	const char *truth;
	/*
	 * Further arguments of the plugin (docs/virtual-pt.md), with commas between them, such as
	 * "xsaves=on,tsc=host". NULL: none.
	 */
	const char *arguments;
	char *const *options; /* for QEMU; the last one NULL. NULL: none */
};

/*
 * The command line, to be executed as it is: QEMU's path, what Ptah adds, and the options of the
 * caller, which come last. Ptah adds the plugin; the accelerator TCG and a processor (-cpu) of the
 * model's vendor, family and model, where the options choose none.
 *
 * ptah_vm_free_command() frees it. PTAH_E_INVAL: there is no such model, or the options choose
 * another accelerator than TCG. PTAH_E_MISSING: there is no such QEMU or plugin.
 * PTAH_E_UNSUPPORTED: this QEMU lacks what the plugin needs. PTAH_E_NOMEM. *why is the reason, for
 * people.
 */
PTAH_API int ptah_vm_command(const struct ptah_vm_config *config, char ***command,
			     struct ptah_message *why);
PTAH_API void ptah_vm_free_command(char **command);

PTAH_END_DECLS

#endif
