/* SPDX-License-Identifier: MIT */
/* Unpacks the records of perf record -z, piece by piece as they come. */
#ifndef PTAH_LIVE_UNPACK_H
#define PTAH_LIVE_UNPACK_H

#include "live/live.h"

struct live_unpack;

/* Takes a record that was unpacked, with its header. */
typedef int live_unpacked(struct ptah_live *live, const uint8_t *record, size_t size);

/*
 * Unpacks a whole record of COMPRESSED or COMPRESSED2 and passes on the records that it completes.
 * *unpack is made with the first one; live_unpack_free(). A negative result has been noted.
 */
int live_unpack(struct ptah_live *live, struct live_unpack **unpack, const uint8_t *record,
		size_t size, live_unpacked *take);

/* Whether the last record is not complete. `unpack`: NULL too. */
bool live_unpack_is_cut(const struct live_unpack *unpack);
void live_unpack_free(struct live_unpack *unpack);

#endif
