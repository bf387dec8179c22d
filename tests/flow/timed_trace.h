/* SPDX-License-Identifier: MIT */
/*
 * A trace with packets of many kinds of clocks added, and the configuration that decoders need for
 * it.
 */
#ifndef PTAH_TESTS_FLOW_TIMED_TRACE_H
#define PTAH_TESTS_FLOW_TIMED_TRACE_H

#include <ptah/flow.h>

/*
 * Returns the new trace, which the caller frees, and sets `config`. NULL: `trace` has bytes that
 * are no packets.
 */
uint8_t *timed_new(const uint8_t *trace, size_t size, unsigned seed, size_t *n,
		   struct ptah_flow_config *config);

#endif
