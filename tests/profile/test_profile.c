/* SPDX-License-Identifier: MIT */
/*
 * Profiles of random programs: equal to the flow's items, block by block, and
 * to what the simulated programs did.
 */
#include "test.h"

#include "../flow/machine.h"
#include "../flow/world.h"
#include "compare.h"

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

static void machine(unsigned seed, bool retcomp, bool long_tnt, bool lossy, size_t chunk)
{
	struct ptah_profile_totals totals;
	struct ptah_profile *profile;
	size_t size;
	struct machine *m = machine_new(seed, retcomp, long_tnt, lossy, &size);
	struct ptah_image *image = image_of(m->code, sizeof(m->code));

	assert_true(profile_equals_flow(image, NULL, m->trace, size, chunk));
	assert_int_equal(ptah_profile_new(image, NULL, &profile), 0);
	assert_int_equal(ptah_profile_feed(profile, m->trace, size, true), 0);
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	assert_true(totals.errors == 0);
	assert_true(totals.overflows == m->overflows);
	assert_true(totals.classes[PTAH_INSN_COND] == m->conditional);
	if (!lossy)
		assert_true(totals.instructions == m->instructions);
	ptah_profile_free(profile);
	ptah_image_free(image);
	machine_free(m);
}

static void machines(void **state)
{
	static const size_t chunks[] = {0, 1, 100, 4096};

	(void)state;
	for (unsigned seed = 1; seed <= 24; seed++)
		machine(seed, seed & 1, seed & 2, seed & 4, chunks[(seed - 1) / 6]);
}

/* Returns are told not to be compressed: another way through the rows. */
static void no_return_compression(void **state)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .no_retcomp = true};

	(void)state;
	for (unsigned seed = 1; seed <= 12; seed++) {
		size_t size;
		/* ... and half of the time the word is wrong: errors, the same ones. */
		struct machine *m = machine_new(seed, seed & 1, false, false, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));

		assert_true(profile_equals_flow(image, &config, m->trace, size, 0));
		ptah_image_free(image);
		machine_free(m);
	}
}

static void worlds(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 16; seed++) {
		const struct ptah_flow_config config = {.size = sizeof(config),
							.no_tnt = seed % 8 == 0};
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		assert_true(profile_equals_flow(image, &config, w->trace, size, 0));
		assert_true(profile_equals_flow(image, &config, w->trace, size, 37));
		ptah_image_free(image);
		world_free(w);
	}
}

/* Damage, anywhere: the same errors, and the same counts around them. */
static void damage(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 40; seed++) {
		size_t size;
		struct world *w = world_new(seed % 7 + 1, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		for (unsigned i = 0; i < 10; i++)
			w->trace[world_pick(w, (unsigned)size)] ^= (uint8_t)(1 << world_pick(w, 8));
		assert_true(profile_equals_flow(image, NULL, w->trace, size, seed & 8 ? 0 : 501));
		ptah_image_free(image);
		world_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(machines),
	    cmocka_unit_test(no_return_compression),
	    cmocka_unit_test(worlds),
	    cmocka_unit_test(damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
