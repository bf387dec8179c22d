/* SPDX-License-Identifier: MIT */
/*
 * The functions of a process that were at an address before others were: a library that was
 * unmapped, generated code that was replaced. Each such *version* is the process as of a time, and
 * has a number of its own that stands for a space.
 */
#ifndef PTAH_SESSION_VERSIONS_H
#define PTAH_SESSION_VERSIONS_H

#include <ptah/session.h>

struct versions;

/* NULL: out of memory. */
struct versions *versions_new(void);
void versions_free(struct versions *versions);

/*
 * The version of `space` in which a function of this identity, which is not the one of the end, was
 * at an address at time `tsc`. 0: there are too many, or out of memory. Different threads may ask
 * at the same time.
 */
uint16_t versions_number(struct versions *versions, int32_t space, uint64_t identity, uint64_t tsc);

/* The space that stands for a version. */
int32_t versions_space(unsigned version);

#endif
