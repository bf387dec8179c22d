/* SPDX-License-Identifier: MIT */
/*
 * Coverage as the file that DynamoRIO's drcov writes (version 2, module table
 * version 3, binary), which Lighthouse and other tools read: the files that were
 * mapped, and the blocks that ran as offsets into them.
 */
#ifndef PTAH_OUTPUT_DRCOV_H
#define PTAH_OUTPUT_DRCOV_H

#include "output/names.h"
#include "output/out.h"

struct drcov;

/* `names` tells what is mapped where; binaries are looked for below `symfs` (or NULL) first. */
int drcov_new(const struct names *names, const char *symfs, struct drcov **drcov);
void drcov_free(struct drcov *drcov);

/*
 * A block that ran. Where no file is mapped, or the format's numbers are too
 * small for it, it is left out and counted. PTAH_E_NOMEM.
 */
int drcov_add(struct drcov *drcov, int32_t pid, uint64_t ip, uint64_t end);
size_t drcov_left_out(const struct drcov *drcov);

void drcov_write(struct drcov *drcov, struct out *out);

#endif
