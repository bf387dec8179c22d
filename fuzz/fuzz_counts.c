/* SPDX-License-Identifier: MIT */
/*
 * Proves of saved counts: any bytes are loaded, or refused with a message that
 * contains the offset. Counts that were loaded are saved as the same bytes, can
 * be queried in every way, added to themselves and folded with themselves as two
 * runs; what was folded is folded to itself. Sums of calls agree.
 *
 * Input: such a file. It is tried as it is, and again with size and checksum
 * corrected.
 */
#include "fuzz.h"

#include "counts/counts_internal.h"

#include "base/bits.h"

/* What ran in all nodes, and in all pairs and outside of calls, is what ran. */
static void check_calls(const struct ptah_call_tree *tree)
{
	struct ptah_call_totals totals;
	struct ptah_call_node *nodes;
	struct ptah_call_function *functions;
	struct ptah_call_pair *pairs;
	uint64_t self = 0, of_pairs;
	size_t n;

	CHECK(!ptah_call_tree_totals(tree, &totals));
	CHECK(!ptah_call_tree_nodes(tree, &nodes, &n));
	for (size_t i = 0; i < n; i++)
		self += nodes[i].self.instructions;
	CHECK(self == totals.inclusive.instructions);
	CHECK(!ptah_call_tree_functions(tree, &functions, &n));
	for (size_t i = 0; i < n; i++) {
		CHECK(functions[i].inclusive.time <= totals.inclusive.time);
		ptah_call_tree_quantile(tree, &functions[i], PTAH_CALL_VALUE_TIME, 0.9);
	}
	CHECK(!ptah_call_tree_pairs(tree, &pairs, &n));
	of_pairs = nodes[0].self.instructions + totals.unlisted.instructions;
	for (size_t i = 0; i < n; i++)
		of_pairs += pairs[i].self.instructions;
	CHECK(of_pairs == self);
	free(nodes);
	free(functions);
	free(pairs);
}

static void check_questions(const struct ptah_counts *c)
{
	struct ptah_counts_process p;
	struct ptah_profile_totals all;
	uint64_t instructions = 0;

	for (size_t i = 0; ptah_counts_process(c, i, &p); i++) {
		for (size_t k = 0; k < p.block_count; k++)
			CHECK(p.blocks[k].space < p.space_count);
		for (size_t k = 0; k < p.edge_count; k++)
			CHECK(p.edges[k].space < p.space_count);
		for (size_t k = 0; k < p.file_count; k++) {
			const struct ptah_counts_file *f = &p.files[k];

			CHECK(strlen(f->path) > 0);
			CHECK(ptah_counts_find(c, i, f->address, f->version) == f);
			CHECK(ptah_counts_find(c, i, f->address + (f->size - 1), f->version) == f);
		}
		if (p.calls)
			check_calls(p.calls);
		CHECK(p.totals.instructions <= UINT64_MAX - instructions);
		instructions += p.totals.instructions;
	}
	CHECK(!ptah_counts_totals(c, &all, NULL) && all.instructions == instructions);
}

/* Counts that were added to themselves are valid; wrong results of a finder do no harm. */
static bool find(void *context, int32_t pid, uint64_t address, uint64_t tsc,
		 struct ptah_counts_file *file)
{
	uint64_t *chance = context;

	(void)pid;
	(void)tsc;
	file->path = fuzz_random(chance) & 1 ? "/x" : "/y";
	file->address = address - fuzz_random(chance) % 64;
	file->size = fuzz_random(chance) % 128;
	file->file_offset = file->address;
	return fuzz_random(chance) & 3;
}

static void check_doubled(struct ptah_counts *c, const struct ptah_counts *again)
{
	struct ptah_counts *third;
	struct ptah_profile_totals x, y;
	uint64_t chance = 1;
	void *bytes;
	size_t n;
	int status;

	CHECK(!ptah_counts_totals(c, &x, NULL));
	status = ptah_counts_merge(c, again);
	CHECK(!status || status == PTAH_E_LIMIT);
	CHECK(!ptah_counts_totals(c, &y, NULL));
	CHECK(y.instructions == (status ? x.instructions : 2 * x.instructions));
	CHECK(!ptah_counts_locate(c, find, &chance));
	check_questions(c);
	CHECK(!ptah_counts_save(c, &bytes, &n));
	CHECK(!counts_load(bytes, n, &third, NULL));
	ptah_counts_free(third);
	free(bytes);
}

static struct ptah_counts *copy_of(const struct ptah_counts *c)
{
	struct ptah_counts *copy;
	void *bytes;
	size_t n;

	CHECK(!ptah_counts_save(c, &bytes, &n));
	CHECK(!counts_load(bytes, n, &copy, NULL));
	free(bytes);
	return copy;
}

static bool is_same(const struct ptah_counts *a, const struct ptah_counts *b)
{
	void *x, *y;
	size_t n, m;
	bool same;

	CHECK(!ptah_counts_save(a, &x, &n) && !ptah_counts_save(b, &y, &m));
	same = n == m && !memcmp(x, y, n);
	free(x);
	free(y);
	return same;
}

static void check_folded(const struct ptah_counts *c, const struct ptah_counts *again)
{
	struct ptah_profile_totals x, y;
	struct ptah_counts *sum, *copy, *twice;
	int status;

	CHECK(!ptah_counts_new(&sum) && !ptah_counts_new(&twice) &&
	      !ptah_counts_totals(c, &x, NULL));
	status = ptah_counts_fold(sum, c);
	CHECK(!status || status == PTAH_E_LIMIT);
	if (!status) {
		check_questions(sum);
		CHECK(!ptah_counts_totals(sum, &y, NULL));
		CHECK(y.instructions == x.instructions && y.errors == x.errors);
		copy = copy_of(sum);
		CHECK(!ptah_counts_fold(twice, copy) && is_same(sum, twice));
		ptah_counts_free(copy);
		status = ptah_counts_fold(sum, again);
		CHECK(!status || status == PTAH_E_LIMIT);
	}
	if (!status) {
		CHECK(!ptah_counts_totals(sum, &y, NULL) && y.instructions == 2 * x.instructions);
		ptah_counts_free(copy_of(sum));
	}
	ptah_counts_free(sum);
	ptah_counts_free(twice);
}

static void try(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_counts *c, *again;
	uint8_t *copy = fuzz_copy(data, size);
	void *bytes;
	size_t n;

	if (counts_load(copy, size, &c, &why) < 0) {
		CHECK(!strncmp(why.text, "offset 0x", 9));
		free(copy);
		return;
	}
	check_questions(c);
	CHECK(!ptah_counts_save(c, &bytes, &n));
	/* Files are written in the latest version, or in the one before it. */
	if (load_le32(copy + COUNTS_AT_VERSION) >= COUNTS_VERSION - 1)
		CHECK(n == size && !memcmp(bytes, copy, n));
	CHECK(!counts_load(bytes, n, &again, NULL));
	free(bytes);
	free(copy);
	check_folded(c, again);
	check_doubled(c, again);
	ptah_counts_free(again);
	ptah_counts_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *whole;

	try(data, size);
	if (size < COUNTS_HEADER)
		return 0;
	whole = fuzz_copy(data, size);
	store_le64(whole + COUNTS_AT_SIZE, size);
	store_le64(whole + COUNTS_AT_CHECKSUM,
		   counts_checksum(whole + COUNTS_HEADER, size - COUNTS_HEADER));
	try(whole, size);
	free(whole);
	return 0;
}
