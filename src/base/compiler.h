/* SPDX-License-Identifier: MIT */
/*
 * Compiler differences, gathered here so that nothing else has an #ifdef for them. Attributes are
 * spelled with underscores: Linux has a macro "noinline".
 */
#ifndef PTAH_BASE_COMPILER_H
#define PTAH_BASE_COMPILER_H

#define LIKELY(x)	       __builtin_expect(!!(x), 1)
#define UNLIKELY(x)	       __builtin_expect(!!(x), 0)
#define NOINLINE	       __attribute__((__noinline__))
#define ALWAYS_INLINE	       inline __attribute__((__always_inline__))
#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))

/* Between two looks at a variable that another processor will change. */
#if defined(__x86_64__) || defined(__i386__)
#define SPIN_PAUSE() __builtin_ia32_pause()
#else
#define SPIN_PAUSE() ((void)0)
#endif

/* Two 64-bit words that compilers keep in one vector register where the processor has them. */
typedef unsigned long long word_pair __attribute__((vector_size(16)));

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
