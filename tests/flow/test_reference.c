/* SPDX-License-Identifier: MIT */
/*
 * The flow against the reference decoder, instruction by instruction and event
 * by event: random programs whole and cut into chunks; and against
 * what the programs did.
 */
#include "test.h"

#include "machine.h"

#include "../reference/compare.h"

#include <ptah/flow.h>

static void same_in_chunks(const struct ptah_image *image, const uint8_t *trace, size_t size,
			   size_t chunk, const struct reference_config *config,
			   struct reference *reference)
{
	struct reference flow;

	flow_decode(trace, size, chunk, image, config, &flow);
	assert_true(same_answer(&flow, reference));
	reference_free(&flow);
}

/* Both decode the trace; `reference` is what they agree on. Free it. */
static void agree(const struct ptah_image *image, const uint8_t *trace, size_t size, size_t chunk,
		  struct reference *reference)
{
	const struct reference_config config = {.read = read_image, .context = (void *)image};

	reference_decode(trace, size, &config, reference);
	same_in_chunks(image, trace, size, 0, &config, reference);
	if (chunk)
		same_in_chunks(image, trace, size, chunk, &config, reference);
}

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

static uint64_t count(const struct reference *r, unsigned type)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += r->items[i].type == type;
	return n;
}

static void machine(unsigned seed, bool retcomp, bool long_tnt, bool lossy, size_t chunk)
{
	struct reference r;
	size_t size;
	struct machine *m = machine_new(seed, retcomp, long_tnt, lossy, &size);
	struct ptah_image *image = image_of(m->code, sizeof(m->code));

	agree(image, m->trace, size, chunk, &r);
	assert_true(count(&r, PTAH_ITEM_ERROR) == 0);
	assert_true(count(&r, PTAH_ITEM_OVERFLOW) == m->overflows);
	if (!lossy)
		assert_true(count(&r, PTAH_ITEM_BLOCK) == m->instructions);
	reference_free(&r);
	ptah_image_free(image);
	machine_free(m);
}

static void plain(void **state)
{
	static const size_t chunks[] = {0, 1, 7, 4096};

	(void)state;
	for (unsigned seed = 1; seed <= 8; seed++)
		machine(seed, seed & 1, seed & 2, false, chunks[seed % 4]);
}

static void overflows(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 8; seed++)
		machine(seed, seed & 1, seed & 2, true, seed % 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain),
	    cmocka_unit_test(overflows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
