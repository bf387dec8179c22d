/* SPDX-License-Identifier: MIT */
/* Instructions as text. */
#ifndef PTAH_OUTPUT_DISASM_H
#define PTAH_OUTPUT_DISASM_H

#include <ptah/flow.h>

/*
 * Writes an instruction in Intel syntax, or in AT&T syntax: at most n bytes with the NUL. Bytes
 * that are no instruction give "(bad)".
 */
void disasm(const struct ptah_insn *insn, bool att, char *text, size_t n);

/* How many bytes the instruction has that begins `bytes`. 0: it is none, or has more than n. */
unsigned disasm_size(enum ptah_exec_mode mode, const uint8_t *bytes, size_t n);

#endif
