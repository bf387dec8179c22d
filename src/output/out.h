/* SPDX-License-Identifier: MIT */
/*
 * Buffered output with quick number formatting. To a file it writes PATH.tmp
 * and renames it when all is well, so that nothing half-written is left.
 * Errors are remembered: writing goes nowhere after the first.
 */
#ifndef PTAH_OUTPUT_OUT_H
#define PTAH_OUTPUT_OUT_H

#include "base/compiler.h"

#include <ptah/session.h>

struct out;

/* path NULL or "-": standard output. */
int out_open(const char *path, struct out **out, struct ptah_message *why);

/* Flushes, renames, frees. PTAH_E_SYSTEM with a message when anything was not written. */
int out_close(struct out *out, struct ptah_message *why);

/* Frees without keeping a file. */
void out_abort(struct out *out);

void out_bytes(struct out *out, const char *bytes, size_t n);
void out_text(struct out *out, const char *text);
void out_char(struct out *out, char c);

/* Text from a file of a stranger: control characters, which would move a
 * terminal's cursor or break a row, become "?". */
void out_clean(struct out *out, const char *text);
void clean_text(char *text); /* the same in place */
void out_decimal(struct out *out, uint64_t value);
void out_signed(struct out *out, int64_t value);
void out_hex(struct out *out, uint64_t value); /* without 0x */
void out_format(struct out *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* The reader has gone away (EPIPE): stop, it is no error. */
bool out_closed(const struct out *out);
bool out_failed(const struct out *out);
void out_flush(struct out *out);

#endif
