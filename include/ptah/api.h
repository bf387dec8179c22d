/* SPDX-License-Identifier: MIT */
/* What every public header needs: symbol visibility, and C linkage for C++. */
#ifndef PTAH_API_H
#define PTAH_API_H

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

#endif
