/* SPDX-License-Identifier: MIT */
/* The version of the library, when a program is compiled and when it runs. */
#ifndef PTAH_VERSION_H
#define PTAH_VERSION_H

#include <ptah/api.h>

PTAH_BEGIN_DECLS

#define PTAH_VERSION_MAJOR  0
#define PTAH_VERSION_MINOR  1
#define PTAH_VERSION_PATCH  0
#define PTAH_VERSION_STRING "0.1.0"

/* The version of the library at run time, as "major.minor.patch". */
PTAH_API const char *ptah_version(void);

PTAH_END_DECLS

#endif
