/* SPDX-License-Identifier: MIT */
/* The symbols of a guest's Linux kernel that a recording from outside needs. */
#ifndef PTAH_RECORD_VM_GUEST_SYMBOLS_H
#define PTAH_RECORD_VM_GUEST_SYMBOLS_H

#include <ptah/session.h>

struct guest_symbols;

/*
 * Reads a file in the format of /proc/kallsyms, as System.map is, or a vmlinux with its symbol
 * table. PTAH_E_BAD_FILE: it has not the symbol _text, or hides the addresses.
 */
int guest_symbols_read(const char *path, struct guest_symbols **symbols, struct ptah_message *why);
void guest_symbols_free(struct guest_symbols *symbols);

/* CHANNEL_NONE: there is no such symbol, or no symbols. */
uint64_t guest_symbol(const struct guest_symbols *symbols, const char *name);

#endif
