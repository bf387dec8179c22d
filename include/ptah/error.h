/* SPDX-License-Identifier: MIT */
/*
 * Status codes.
 *
 * Functions return 0 or a count on success and one of these negative values on
 * failure. The values are pinned: a number never changes its meaning, and new
 * ones take the gaps. ptah_strerror() gives a sentence, ptah_error_name() the
 * enumerator's last part ("BAD_PACKET", for JSON and tests). Both return
 * static strings, never NULL, and accept any int.
 */
#ifndef PTAH_ERROR_H
#define PTAH_ERROR_H

#include <ptah/api.h>

PTAH_BEGIN_DECLS

/* X(name, value, sentence) */
#define PTAH_ERROR_TABLE(X)                                                                        \
	/* the caller and the system */                                                            \
	X(NOMEM, -1, "out of memory")                                                              \
	X(INVAL, -2, "invalid argument")                                                           \
	X(SYSTEM, -3, "system call failed (see errno)")                                            \
	X(BUSY, -4, "in use, or what was asked for before is not finished")                        \
	X(NOSPACE, -5, "the buffer is too small")                                                  \
	X(UNSUPPORTED, -6, "not supported")                                                        \
	X(LIMIT, -7, "a resource limit was reached")                                               \
	X(DEVICE, -8, "the processor reports an error of its trace output")                        \
	X(INTERNAL, -9, "two ways to the same result differ: a bug of the library")                \
	X(OFFLINE, -10, "no such processor, or it is offline")                                     \
	X(PORT, -11, "a callback of the port broke a rule of hal.h")                               \
	/* the trace: packets */                                                                   \
	X(MORE, -20, "more bytes are needed")                                                      \
	X(BAD_OPCODE, -21, "unknown packet opcode")                                                \
	X(BAD_PACKET, -22, "malformed packet")                                                     \
	X(TRUNCATED, -23, "the trace ends inside a packet")                                        \
	X(NO_SYNC, -24, "no PSB: the trace holds no synchronisation point")                        \
	/* the trace: what packets mean together */                                                \
	X(BAD_CONTEXT, -30, "packet is not allowed here")                                          \
	X(NO_IP, -31, "an IP was needed but the packet suppresses it")                             \
	X(LOST, -32, "trace was lost: a buffer was full, or was overwritten")                      \
	X(EVENT, -33, "an event comes before the next branch")                                     \
	X(QUERY, -34, "the trace answers another kind of branch")                                  \
	X(END, -35, "the trace has ended")                                                         \
	/* the trace against the code */                                                           \
	X(NO_CODE, -40, "no memory image at this address")                                         \
	X(BAD_INSN, -41, "bytes that are not an instruction")                                      \
	X(MISMATCH, -42, "the trace does not fit the code")                                        \
	X(BAD_RETCOMP, -43, "compressed return without a matching call")                           \
	X(NO_PROGRESS, -44, "a loop that consumes no trace")                                       \
	X(NO_THREAD, -45, "which thread runs from here on is not known")                           \
	/* files */                                                                                \
	X(BAD_FILE, -60, "malformed file")                                                         \
	X(BAD_MAGIC, -61, "not a file of this kind")                                               \
	X(FOREIGN, -62, "made for another architecture or trace format")                           \
	X(CHANGED, -63, "the file is not the one that ran (build id differs)")                     \
	X(MISSING, -64, "what is referred to (a file, a process) does not exist")                  \
	X(EMPTY, -65, "the recording holds no Intel PT trace")

enum ptah_error {
	PTAH_OK = 0,
#define PTAH_ERROR_ENUM(name, value, sentence) PTAH_E_##name = (value),
	PTAH_ERROR_TABLE(PTAH_ERROR_ENUM)
#undef PTAH_ERROR_ENUM
};

PTAH_API const char *ptah_strerror(int status);
PTAH_API const char *ptah_error_name(int status);

PTAH_END_DECLS

#endif
