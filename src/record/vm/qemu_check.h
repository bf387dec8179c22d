/* SPDX-License-Identifier: MIT */
/* Whether a QEMU can load the plugin ptah-system.so. */
#ifndef PTAH_RECORD_VM_QEMU_CHECK_H
#define PTAH_RECORD_VM_QEMU_CHECK_H

#include <ptah/session.h>

/*
 * Looks at the functions that the program exports to plugins. PTAH_E_UNSUPPORTED: it lacks some,
 * and *why names what. A file that is no ELF program, such as a script that starts QEMU, cannot be
 * judged and is accepted: then the plugin itself reports what is missing.
 */
int qemu_check(const char *path, struct ptah_message *why);

#endif
