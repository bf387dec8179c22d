/* SPDX-License-Identifier: MIT */
/*
 * Buffered output with fast formatting of numbers. A file is written under another name
 * (temporary.h) and renamed at the end, so that no incomplete file is left. The first failure of
 * a write is remembered and reported by out_close(); later writes do nothing.
 */
#ifndef PTAH_OUTPUT_OUT_H
#define PTAH_OUTPUT_OUT_H

#include "base/compiler.h"

#include <ptah/session.h>

struct out;

/* `path`: NULL or "-" is standard output. 0, PTAH_E_NOMEM, or PTAH_E_SYSTEM with a message. */
int out_open(const char *path, struct out **out, struct ptah_message *why);

/*
 * Keeps what is written in memory. out_take() returns it, with a NUL after its *n bytes, and frees
 * the rest; the caller frees it. NULL: there was not enough memory. out_abort() frees everything.
 */
int out_open_memory(struct out **out);
void *out_take(struct out *out, size_t *n);

/* What is in memory so far, up to the next write. out_clear() forgets it. */
const char *out_written(struct out *out, size_t *n);
void out_clear(struct out *out);

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

/*
 * A signal whose handler was installed without SA_RESTART ends a write that waits for the consumer,
 * or the wait for the end of the pager. Then `given_up` is asked whether to go on; `pager`: it is
 * the pager that is waited for. If it returns true, a pager is sent SIGTERM, and the output has
 * failed with EINTR otherwise. NULL, as after out_open(): the output waits for ever.
 */
void out_set_given_up(struct out *out, bool (*given_up)(bool pager));

/* Flushes, renames and frees; waits for the end of the pager. PTAH_E_SYSTEM with a message when
 * something was not written. */
int out_close(struct out *out, struct ptah_message *why);

/* Frees, and removes the temporary file. */
void out_abort(struct out *out);

void out_bytes(struct out *out, const char *bytes, size_t n);

/* The same for many bytes: they are written from where they are, if possible. */
void out_pass(struct out *out, const char *bytes, size_t n);
void out_text(struct out *out, const char *text);
void out_char(struct out *out, char c);

/* Writes text from an untrusted file. Characters that a terminal would obey, or that break a row
 * (base/text.h), become "?". */
void out_clean(struct out *out, const char *text);
void out_decimal(struct out *out, uint64_t value);
void out_signed(struct out *out, int64_t value);
void out_hex(struct out *out, uint64_t value);		 /* without 0x */
void out_seconds(struct out *out, uint64_t nanoseconds); /* 12.000000345 */

/* 16 digits, with leading zeros, into `text`. Returns the end; there is no NUL. */
char *text_hex(char *text, uint64_t value);

/* As out_seconds(), into `text`, which has room for 32 bytes. Returns the end. */
char *text_seconds(char *text, uint64_t nanoseconds);
void out_format(struct out *out, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Room for the caller to write into, of at most OUT_ROOM bytes. out_advance() takes over what was
 * written from there up to `end`.
 */
#define OUT_ROOM (128u << 10)
char *out_room(struct out *out, size_t n);
void out_advance(struct out *out, const char *end);

bool out_failed(const struct out *out);
void out_flush(struct out *out);

#endif
