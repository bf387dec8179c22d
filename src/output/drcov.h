/* SPDX-License-Identifier: MIT */
/*
 * Coverage as a file of DynamoRIO's drcov (version 2, module table version 3,
 * binary), which Lighthouse and other tools read. It lists the mapped files, and
 * the blocks that ran as offsets into them.
 */
#ifndef PTAH_OUTPUT_DRCOV_H
#define PTAH_OUTPUT_DRCOV_H

#include "output/names.h"
#include "output/out.h"

struct drcov;

/* `names` knows what is mapped where, and where the binaries are. */
int drcov_new(struct names *names, struct drcov **drcov);
void drcov_free(struct drcov *drcov);

/*
 * Adds a block that ran. A block in no file, or one that the format's numbers are
 * too small for, is left out and counted as such. 0, or PTAH_E_NOMEM.
 */
int drcov_add(struct drcov *drcov, int32_t pid, uint64_t ip, uint64_t end, uint64_t version);
size_t drcov_left_out(const struct drcov *drcov);

void drcov_write(struct drcov *drcov, struct out *out);

#endif
