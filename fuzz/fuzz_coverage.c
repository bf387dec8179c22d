/* SPDX-License-Identifier: MIT */
/*
 * Proves that coverage is what the flow reports, for any code and any traces:
 * bitmap, sets and errors, for one execution after another with one object.
 * Some of the code is provided on demand.
 *
 * Input: see fuzz_program(). The trace is used for three executions: all of it,
 * its first half, its second half.
 */
#include "fuzz.h"

#include "../tests/profile/compare_coverage.h"

/*
 * One byte of trace may lead through a long chain of jumps, and all items are
 * kept for the comparison: so the trace is short.
 */
#define MAX_TRACE 400

struct store {
	const struct ptah_image *full;
	struct ptah_image *image;
};

/* Adds sixteen bytes, or claims to have added code and adds none. */
static bool bring(void *context, uint64_t address, const struct ptah_space *space)
{
	struct store *store = context;
	const uint64_t first = address & ~UINT64_C(15);
	uint8_t bytes[16];
	const size_t n = ptah_image_read(store->full, first, bytes, sizeof(bytes), space);

	if (n > address - first)
		ptah_image_add_bytes(store->image, bytes, n, first, space);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_program program;
	struct execution e[3];
	struct store store;
	unsigned variant;

	if (!fuzz_program(&program, data, size))
		return 0;
	if (program.size > MAX_TRACE)
		program.size = MAX_TRACE;
	e[0] = (struct execution){program.trace, program.size};
	e[1] = (struct execution){program.trace, program.size / 2};
	e[2] =
	    (struct execution){program.trace + program.size / 2, program.size - program.size / 2};
	for (variant = 0; variant < COVERAGE_VARIANTS; variant++)
		CHECK(coverage_equals_flow(program.image, program.image, &program.config, e, 3,
					   variant == 1 ? 19 : 0, variant));
	/* Code on demand, but not with address spaces: it would be added to the wrong one. */
	if (!(data[2] & 0x20)) {
		store.full = program.image;
		CHECK(!ptah_image_new(&store.image));
		program.config.on_missing = bring;
		program.config.missing_context = &store;
		CHECK(
		    coverage_equals_flow(program.image, store.image, &program.config, e, 3, 0, 0));
		ptah_image_free(store.image);
	}
	ptah_image_free(program.image);
	return 0;
}
