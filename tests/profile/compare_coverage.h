/* SPDX-License-Identifier: MIT */
/*
 * Coverage compared with a plain flow: bitmap and sets are computed a second time from the flow's
 * items over each trace, and must be the same.
 */
#ifndef PTAH_TESTS_PROFILE_COMPARE_COVERAGE_H
#define PTAH_TESTS_PROFILE_COMPARE_COVERAGE_H

#include <ptah/profile.h>

#include <stdbool.h>

struct execution {
	const uint8_t *trace;
	size_t size;
};

/* Ways to make a coverage: rows, few rows, no rows, ranges with a small bitmap. */
#define COVERAGE_VARIANTS 4

/*
 * Runs one coverage over n traces, twice, in chunks of up to `chunk` bytes (0: whole), and a new
 * flow over each. The coverage reads `image`, to which missing code may be added on request; the
 * flow reads `full`. True when both agree; otherwise the first difference is on stderr.
 */
bool coverage_equals_flow(const struct ptah_image *full, const struct ptah_image *image,
			  const struct ptah_flow_config *config, const struct execution *executions,
			  size_t n, size_t chunk, unsigned variant);

#endif
