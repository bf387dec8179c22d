/* SPDX-License-Identifier: MIT */
/*
 * What every other header needs: what is exported, the version, status codes, and which processor
 * it is with its errata. Freestanding.
 */
#ifndef PTAH_BASE_H
#define PTAH_BASE_H

#include <stdint.h>

#if defined(__GNUC__)
#define PTAH_API __attribute__((visibility("default")))
#else
#define PTAH_API
#endif

/* They enclose the declarations of a header, after its includes. */
#ifdef __cplusplus
#define PTAH_BEGIN_DECLS extern "C" {
#define PTAH_END_DECLS	 }
#else
#define PTAH_BEGIN_DECLS
#define PTAH_END_DECLS
#endif

PTAH_BEGIN_DECLS

/* The version of the library, when a program is compiled and when it runs. */

#define PTAH_VERSION_MAJOR  0
#define PTAH_VERSION_MINOR  1
#define PTAH_VERSION_PATCH  0
#define PTAH_VERSION_STRING "0.1.0"

/* The version of the library at run time, as "major.minor.patch". */
PTAH_API const char *ptah_version(void);

/*
 * Status codes.
 *
 * Functions return 0 or a count on success and one of these negative values on
 * failure. The values are pinned: a number never changes its meaning, and new
 * ones take the gaps. ptah_strerror() gives a sentence, ptah_error_name() the
 * enumerator's last part ("BAD_PACKET", for JSON and tests). Both return
 * static strings, never NULL, and accept any int.
 */

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

/*
 * Which processor: its family, model and stepping. Freestanding.
 *
 * Source: SDM volume 2, "CPUID", leaf 01H.
 */

/* Family and model as displayed (CPUID.01H, with the extended fields added). 0/0/0: not known. */
struct ptah_cpu {
	uint16_t family;
	uint8_t model;
	uint8_t stepping;
};

/*
 * Reads "6/158/10", "6/158", or perf's "GenuineIntel,6,158,10". The numbers are
 * decimal, or hexadecimal with 0x. PTAH_E_INVAL when the text is none of these;
 * PTAH_E_FOREIGN when perf names another vendor.
 */
PTAH_API int ptah_cpu_parse(const char *text, struct ptah_cpu *cpu);

/*
 * The errata of processors that a decoder can work around.
 *
 * A decoder works around an erratum when its bit is set in
 * struct ptah_event_config.errata. ptah_cpu_errata() says which bits a
 * processor needs. Without a known processor none is set.
 *
 * Source: Intel's specification updates.
 */

enum ptah_erratum {
#define PTAH_ERRATUM(name, text, symptom, handling) PTAH_ERRATUM_##name,
#include <ptah/errata.def>
#undef PTAH_ERRATUM
	PTAH_ERRATUM_MAX
};

/* The errata of a processor, 1 << enum ptah_erratum each; 0 when the processor is not known. */
PTAH_API uint32_t ptah_cpu_errata(const struct ptah_cpu *cpu);

/* Intel's name, and in *symptom, unless `symptom` is NULL, what goes wrong. NULL when out of range. */
PTAH_API const char *ptah_erratum_name(unsigned erratum, const char **symptom);

/* "skd007,SKL168", "all", "none" as bits. PTAH_E_INVAL with an unknown name. */
PTAH_API int ptah_errata_parse(const char *text, uint32_t *errata);

PTAH_END_DECLS

#endif
