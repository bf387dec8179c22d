/* SPDX-License-Identifier: MIT */
/* Instructions as text, through Zydis. */
#ifndef PTAH_OUTPUT_DISASM_H
#define PTAH_OUTPUT_DISASM_H

#include <ptah/flow.h>

/* Intel syntax, or AT&T. Writes at most n bytes with a NUL; "(bad)" for what does not decode. */
void disasm(const struct ptah_insn *insn, bool att, char *text, size_t n);

#endif
