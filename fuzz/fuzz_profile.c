/* SPDX-License-Identifier: MIT */
/*
 * Proves that a profile counts what the flow reports, for any code and any
 * trace, whole and in chunks: every block, every outcome, every edge.
 *
 * Input: see fuzz_program().
 */
#include "fuzz.h"

#include "../tests/profile/compare_profile.h"

/*
 * One byte of trace may lead through a long chain of jumps, and all items are
 * kept for the comparison: so the trace is short.
 */
#define MAX_TRACE 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_program program;

	if (!fuzz_program(&program, data, size))
		return 0;
	if (program.size > MAX_TRACE)
		program.size = MAX_TRACE;
	for (size_t chunk = 0; chunk < 200; chunk = 8 * chunk + 19) {
		program.config.resync = chunk & 1;
		CHECK(profile_equals_flow(program.image, &program.config, program.trace,
					  program.size, chunk));
	}
	ptah_image_free(program.image);
	return 0;
}
