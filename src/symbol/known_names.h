/* SPDX-License-Identifier: MIT */
/* What a function's name says of how it is left. */
#ifndef PTAH_SYMBOL_KNOWN_NAMES_H
#define PTAH_SYMBOL_KNOWN_NAMES_H

#include <ptah/symbol.h>

/*
 * Flags of enum ptah_function_flags. A name is compared without leading underscores and without a
 * version ("swapcontext@@GLIBC_2.2.5").
 */
unsigned symbol_name_flags(const char *name);

#endif
