/* SPDX-License-Identifier: MIT */
/*
 * Numbers of address spaces: one for each, always the same, and as many as fit in a block's field.
 */
#include "test.h"

#include "flow/code_cache.h"

#include <ptah/base.h>
#include <ptah/image.h>

/* CR3s differ in low and high pages, and every third space is a guest's. */
static struct ptah_space space_of(uint32_t i)
{
	return (struct ptah_space){.cr3 = (uint64_t)(i % 300) << 12 | (uint64_t)(i / 300) << 32,
				   .vmcs = i % 3 ? PTAH_SPACE_ANY : (uint64_t)i << 12};
}

TEST(each_has_its_number)
{
	const struct ptah_space any = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	struct ptah_space space;
	struct ptah_image *image;
	struct flow_arena arena = {.huge = true};
	struct code_cache cache;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(code_init(&cache, image, &arena), 0);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 1; i < PTAH_FLOW_MAX_SPACES; i++) {
			space = space_of(i);
			assert_int_equal(code_set_space(&cache, &space), 0);
			assert_int_equal(cache.space, i);
			assert_int_equal(cache.spaces[i].cr3, space.cr3);
			assert_int_equal(cache.spaces[i].vmcs, space.vmcs);
		}
		/* All numbers are used; those given stay valid. */
		space = space_of(PTAH_FLOW_MAX_SPACES);
		assert_int_equal(code_set_space(&cache, &space), PTAH_E_LIMIT);
		assert_int_equal(cache.space, PTAH_FLOW_MAX_SPACES - 1);
		assert_int_equal(code_set_space(&cache, &any), 0);
		assert_int_equal(cache.space, 0);
	}
	code_fini(&cache);
	flow_arena_fini(&arena);
	ptah_image_free(image);
}
