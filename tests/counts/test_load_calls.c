/* SPDX-License-Identifier: MIT */
/* Saved calls that are damaged: what contradicts itself is refused, and the rest is read as it is.
 */
#include "test.h"

#include "../calls/tree_check.h"
#include "counts/counts_internal.h"

#include <ptah/counts.h>

/* FNV-1a, as docs/profile-file.md has it. */
static void set_checksum(uint8_t *bytes, size_t n)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 32; i < n; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	memcpy(bytes + 24, &hash, sizeof(hash));
}

/* The sums of the lists agree, whatever the file said. */
static void check_tree(const struct ptah_call_tree *tree)
{
	struct ptah_call_figures sum = {0};
	struct ptah_call_totals totals;
	struct ptah_call_node *nodes;
	struct ptah_call_function *functions;
	struct ptah_call_pair *pairs;
	uint64_t calls;
	size_t n;

	assert_int_equal(ptah_call_tree_totals(tree, &totals), 0);
	assert_int_equal(ptah_call_tree_nodes(tree, &nodes, &n), 0);
	for (size_t i = 0; i < n; i++)
		list_add(&sum, &nodes[i].self);
	assert_figures(&sum, &totals.inclusive);
	assert_int_equal(ptah_call_tree_functions(tree, &functions, &n), 0);
	for (size_t i = 0; i < n; i++)
		assert_true(functions[i].inclusive.instructions <= totals.inclusive.instructions);
	assert_int_equal(ptah_call_tree_pairs(tree, &pairs, &n), 0);
	sum = nodes[0].self;
	list_add(&sum, &totals.unlisted);
	calls = totals.unlisted_calls;
	for (size_t i = 0; i < n; i++) {
		list_add(&sum, &pairs[i].self);
		calls += pairs[i].count;
	}
	assert_figures(&sum, &totals.inclusive);
	assert_int_equal(calls, totals.calls);
	free(nodes);
	free(functions);
	free(pairs);
}

/* Loads the bytes. When they are good, the same are saved, and the lists can be read. */
static bool is_good(const uint8_t *bytes, size_t n)
{
	struct ptah_message why = {""};
	struct ptah_counts *counts;
	struct ptah_counts_process p;
	uint8_t *exact = malloc(n);
	void *again;
	size_t m;
	int status;

	memcpy(exact, bytes, n);
	status = counts_load(exact, n, &counts, &why);
	free(exact);
	if (status < 0) {
		assert_int_equal(status, PTAH_E_BAD_FILE);
		assert_memory_equal(why.text, "offset 0x", 9);
		return false;
	}
	assert_int_equal(ptah_counts_save(counts, &again, &m), 0);
	assert_int_equal(m, n);
	assert_memory_equal(again, bytes, n);
	free(again);
	assert_true(ptah_counts_process(counts, 0, &p));
	if (p.calls)
		check_tree(p.calls);
	ptah_counts_free(counts);
	return true;
}

static uint8_t *saved(size_t *n)
{
	const struct list_shape shape = {3, 4, 5, 40, true, false};
	struct call_list *list = list_new(&shape);
	struct ptah_call_tree *tree = tree_of(list, 30, 10);
	struct ptah_counts *counts;
	void *bytes;

	assert_int_equal(ptah_counts_new(&counts), 0);
	assert_int_equal(counts_add_calls(counts, 7, tree), 0);
	assert_int_equal(ptah_counts_save(counts, &bytes, n), 0);
	ptah_counts_free(counts);
	ptah_call_tree_free(tree);
	list_free(list);
	return bytes;
}

TEST(every_number_may_be_wrong)
{
	size_t n;
	uint8_t *bytes = saved(&n);

	assert_true(is_good(bytes, n));
	for (size_t at = 40; at + 8 <= n; at += 8) {
		uint64_t right, wrong[6];

		memcpy(&right, bytes + at, 8);
		wrong[0] = right + 1;
		wrong[1] = right - 1;
		wrong[2] = right ^ UINT64_C(1) << 32;
		wrong[3] = right ^ UINT64_C(1) << 63;
		wrong[4] = ~right;
		wrong[5] = 0;
		for (unsigned i = 0; i < 6; i++) {
			if (wrong[i] == right)
				continue;
			memcpy(bytes + at, &wrong[i], 8);
			set_checksum(bytes, n);
			is_good(bytes, n);
		}
		memcpy(bytes + at, &right, 8);
	}
	free(bytes);
}

TEST(a_file_that_ends_early)
{
	size_t n;
	uint8_t *bytes = saved(&n);

	for (size_t size = 40; size < n; size += 13) {
		memcpy(bytes + 16, &size, sizeof(size));
		set_checksum(bytes, size);
		assert_false(is_good(bytes, size));
	}
	free(bytes);
}
