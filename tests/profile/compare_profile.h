/* SPDX-License-Identifier: MIT */
/*
 * A profile compared with a plain flow: both are fed the same bytes, and every count of the profile
 * must be the sum of the flow's items.
 */
#ifndef PTAH_TESTS_PROFILE_COMPARE_PROFILE_H
#define PTAH_TESTS_PROFILE_COMPARE_PROFILE_H

#include <ptah/profile.h>

#include <stdbool.h>

/*
 * Feeds both in chunks of up to `chunk` bytes (0: whole). True when both agree; otherwise the first
 * difference is on stderr.
 */
bool profile_equals_flow(const struct ptah_image *image, const struct ptah_flow_config *config,
			 const uint8_t *trace, size_t size, size_t chunk);

#endif
