/* SPDX-License-Identifier: MIT */
/*
 * Random programs on the packet generator, decoded: the instructions that the
 * flow reports must be those that ran. The expected path is the simulated
 * execution's own, not the decoder's.
 */
#include "test.h"

#include "random_machine.h"

#include <ptah/flow.h>

struct decoded {
	struct path_hash path;
	uint64_t instructions, conditional, overflows, errors;
};

static void decode(const struct machine *m, size_t size, size_t chunk, struct decoded *d)
{
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[64];
	int n;

	memset(d, 0, sizeof(*d));
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, m->code, sizeof(m->code), BASE, NULL), 0);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	for (size_t at = 0; at < size; at += chunk) {
		size_t part = size - at < chunk ? size - at : chunk;

		assert_int_equal(ptah_flow_feed(flow, m->trace + at, part, at + part == size), 0);
		while ((n = ptah_flow_read(flow, items, 64)) > 0) {
			for (int i = 0; i < n; i++) {
				d->errors += items[i].type == PTAH_ITEM_ERROR;
				d->overflows += items[i].type == PTAH_ITEM_OVERFLOW;
				if (items[i].type != PTAH_ITEM_BLOCK)
					continue;
				path_hash_add(&d->path, items[i].ip, items[i].end);
				d->instructions += items[i].ninsn;
				d->conditional += items[i].insn_class == PTAH_INSN_COND;
			}
		}
	}
	ptah_flow_free(flow);
	ptah_image_free(image);
}

static void compare(unsigned seed, bool retcomp, bool long_tnt, size_t chunk)
{
	struct decoded d;
	size_t size;
	struct machine *m = machine_new(seed, retcomp, long_tnt, false, &size);

	decode(m, size, chunk ? chunk : size, &d);
	assert_true(d.errors == 0);
	assert_true(d.instructions == m->instructions);
	assert_true(d.conditional == m->conditional);
	assert_true(path_hash_value(&d.path) == path_hash_value(&m->path));
	machine_free(m);
}

TEST(plain)
{
	for (unsigned seed = 1; seed <= 20; seed++)
		compare(seed, false, false, 0);
}

TEST(return_compression)
{
	for (unsigned seed = 1; seed <= 20; seed++)
		compare(seed, true, false, 0);
}

TEST(long_tnt)
{
	for (unsigned seed = 1; seed <= 20; seed++)
		compare(seed, seed & 1, true, 0);
}

TEST(chunks)
{
	compare(7, true, false, 1);
	compare(8, true, true, 7);
	compare(9, false, false, 4096);
}

/*
 * With overflows: each is reported, decoding continues exactly where the trace says, and nothing is
 * an error. What ran right before an overflow without leaving a packet cannot be known, so less is
 * decoded than ran.
 */
TEST(overflows)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct decoded d;
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, false, true, &size);

		decode(m, size, size, &d);
		assert_true(m->overflows > 0);
		assert_true(d.errors == 0);
		assert_true(d.overflows == m->overflows);
		assert_true(d.instructions <= m->instructions);
		assert_true(d.instructions > m->instructions * 9 / 10);
		assert_true(d.conditional == m->conditional);
		machine_free(m);
	}
}
