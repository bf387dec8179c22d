/* SPDX-License-Identifier: MIT */
/* A trace with clocks of many kinds put into it, and what decoders are told of them. */
#ifndef PTAH_TESTS_FLOW_TIMED_TRACE_H
#define PTAH_TESTS_FLOW_TIMED_TRACE_H

#include <ptah/flow.h>

/* The caller frees it. `config` is set, too. NULL: `trace` has bytes that are no packets. */
uint8_t *timed_new(const uint8_t *trace, size_t size, unsigned seed, size_t *n,
		   struct ptah_flow_config *config);

#endif
