/* SPDX-License-Identifier: MIT */
/*
 * Decodes with the library's flow into the reference's form, and finds the first difference between
 * the two.
 */
#ifndef PTAH_TESTS_REFERENCE_COMPARE_FLOW_H
#define PTAH_TESTS_REFERENCE_COMPARE_FLOW_H

#include "decoder.h"

#include <ptah/flow.h>

/* Decodes with the flow in chunks of `chunk` bytes, each in memory of its own; 0: whole. */
void flow_decode(const uint8_t *trace, size_t size, size_t chunk, const struct ptah_image *image,
		 const struct reference_config *config, struct reference *result);

/* A read callback for struct reference_config; the context is a struct ptah_image. */
size_t read_image(void *context, const struct ptah_space *space, uint64_t address, void *bytes,
		  size_t n);

/*
 * Whether both are the same, entry by entry. If one was cut by its limit, up to there. If not, the
 * first difference is on stderr.
 */
bool same_answer(const struct reference *flow, const struct reference *reference);

#endif
