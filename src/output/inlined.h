/* SPDX-License-Identifier: MIT */
/* What those functions executed that the compiler put into others instead of a call. */
#ifndef PTAH_OUTPUT_INLINED_H
#define PTAH_OUTPUT_INLINED_H

#include "output/hotspots.h"

/*
 * Takes the instructions of inlined functions out of blocks, which keep the rest: the sum over all
 * rows stays the same. Each instruction belongs to the innermost function that was inlined there.
 * *rows has one row for each inlined function of a file, wherever it was inlined; their calls are
 * not in the trace, and are 0. Blocks without debug information are left as they are, and so are
 * those whose file has other code than ran. The blocks are put into another order. The caller frees
 * *rows. 0 or an error.
 */
int inlined_take(struct names *names, struct hotspot *blocks, size_t n, struct hotspot **rows,
		 size_t *count);

#endif
