/* SPDX-License-Identifier: MIT */
/*
 * Buffered output with fast formatting of numbers. A file is written as PATH.tmp
 * and renamed at the end, so that no incomplete file is left. The first failure of
 * a write is remembered and reported by out_close(); later writes do nothing.
 */
#ifndef PTAH_OUTPUT_OUT_H
#define PTAH_OUTPUT_OUT_H

#include "base/compiler.h"

#include <ptah/session.h>

struct out;

/* `path`: NULL or "-" is standard output. 0, PTAH_E_NOMEM, or PTAH_E_SYSTEM with a message. */
int out_open(const char *path, struct out **out, struct ptah_message *why);

/* How text for people looks (pretty.h). All 0, as after out_open(): in a file or a pipe. */
struct out_look {
	bool color;
	unsigned columns; /* of the terminal; 0: there is none */
};

void out_set_look(struct out *out, const struct out_look *look);
const struct out_look *out_look(const struct out *out);

/*
 * Shows standard output by the pager `command` (pager.h), which is started with the first bytes: a
 * command that fails before it prints starts none. The caller keeps the string. Where the pager
 * cannot be started, the output goes to the terminal directly.
 */
void out_set_pager(struct out *out, const char *command);

/* Flushes, renames and frees; waits for the end of the pager. PTAH_E_SYSTEM with a message when
 * something was not written. */
int out_close(struct out *out, struct ptah_message *why);

/* Frees, and removes the temporary file. */
void out_abort(struct out *out);

void out_bytes(struct out *out, const char *bytes, size_t n);
void out_text(struct out *out, const char *text);
void out_char(struct out *out, char c);

/* Writes text from an untrusted file. Characters that a terminal would obey, or that break a row
 * (base/text.h), become "?". */
void out_clean(struct out *out, const char *text);
void out_decimal(struct out *out, uint64_t value);
void out_signed(struct out *out, int64_t value);
void out_hex(struct out *out, uint64_t value);		 /* without 0x */
void out_seconds(struct out *out, uint64_t nanoseconds); /* 12.000000345 */
void out_format(struct out *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* Has the consumer of the output gone (EPIPE)? Then the command stops; it is no error. */
bool out_closed(const struct out *out);
bool out_failed(const struct out *out);
void out_flush(struct out *out);

#endif
