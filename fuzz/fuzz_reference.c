/* SPDX-License-Identifier: MIT */
/*
 * Proves that the flow is right, for any code and any trace, by comparison with
 * the reference decoder, which shares nothing but the instruction decoder with
 * it: both report the same entries, and the flow does so in chunks of any size.
 *
 * Input: a byte of configuration (the code's address, no_bdm70, iflags, address
 * spaces, ranges, resync), two bytes with the code's size, the code, the trace.
 */
#include "fuzz.h"

#include "../tests/reference/compare_flow.h"

/* At most this many entries are compared. */
#define LIMIT 20000

/*
 * The flow takes a chain of direct branches that is longer than this code
 * allows for a loop. The reference decoder would follow it.
 */
#define MAX_CODE 4096

static void check(const uint8_t *trace, size_t size, struct ptah_image *image,
		  const struct reference_config *config)
{
	struct reference reference, flow;

	reference_decode(trace, size, config, &reference);
	for (size_t chunk = 0; chunk < 40; chunk = 3 * chunk + 1) {
		flow_decode(trace, size, chunk, image, config, &flow);
		CHECK(same_answer(&flow, &reference));
		reference_free(&flow);
	}
	reference_free(&reference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t bases[] = {0x401000, 0, UINT64_C(0xfffffffffffff000), 0x7ffffffff000};
	struct reference_config config = {.read = read_image, .limit = LIMIT};
	struct ptah_image *image;
	size_t code;

	if (size < 3)
		return 0;
	code = (size_t)(data[1] | data[2] << 8) % (MAX_CODE + 1);
	size -= 3;
	code = code < size ? code : size;
	CHECK(!ptah_image_new(&image));
	fuzz_add_code(image, data + 3, code, bases[data[0] & 3], data[0] & 16);
	config.context = image;
	config.no_bdm70 = data[0] & 4;
	config.iflags = data[0] & 8;
	config.resync = data[0] & 128;
	config.ranges[0] = (struct ptah_range){.first = bases[data[0] & 3],
					       .last = bases[data[0] & 3] + code / 2,
					       .mode = (data[0] >> 5 & 3) % 3};
	check(data + 3 + code, size - code, image, &config);
	ptah_image_free(image);
	return 0;
}
