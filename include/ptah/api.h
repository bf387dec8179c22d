/* SPDX-License-Identifier: MIT */
/* What every public header needs: symbol visibility and nothing else. */
#ifndef PTAH_API_H
#define PTAH_API_H

#if defined(__GNUC__)
#define PTAH_API __attribute__((visibility("default")))
#else
#define PTAH_API
#endif

#endif
