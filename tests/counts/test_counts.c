/* SPDX-License-Identifier: MIT */
/* Counts without their profiles: kept, located, saved, loaded, merged. */
#include "test.h"

#include "../flow/random_machine.h"
#include "../flow/world.h"
#include "load_counts.h"
#include "counts/counts_internal.h"
#include "profile/profile_internal.h"

#include <ptah/counts.h>

struct run {
	struct world *w;
	struct ptah_image *image;
	struct ptah_profile *profile;
};

static void run_begin(struct run *r, unsigned seed)
{
	size_t size;

	r->w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
	assert_int_equal(ptah_image_new(&r->image), 0);
	assert_int_equal(ptah_image_add_bytes(r->image, r->w->code, sizeof(r->w->code), BASE, NULL),
			 0);
	assert_int_equal(ptah_profile_new(r->image, NULL, &r->profile), 0);
	assert_int_equal(ptah_profile_feed(r->profile, r->w->trace, size, true), 0);
}

static void run_end(struct run *r)
{
	ptah_profile_free(r->profile);
	ptah_image_free(r->image);
	world_free(r->w);
}

static const struct ptah_profile_block *find_block(const struct ptah_counts_process *p,
						   const struct ptah_profile *profile,
						   const struct ptah_profile_block *wanted)
{
	struct ptah_space space;

	assert_int_equal(ptah_profile_space(profile, wanted->space, &space), 0);
	for (size_t i = 0; i < p->block_count; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];

		if (b->ip == wanted->ip && b->end == wanted->end && b->mode == wanted->mode &&
		    b->insn_class == wanted->insn_class && b->truncated == wanted->truncated &&
		    p->spaces[b->space].cr3 == space.cr3 && p->spaces[b->space].vmcs == space.vmcs)
			return b;
	}
	fail_msg("a block is missing");
	return NULL;
}

/* The process has each block and each edge of the profile, and no more. */
static void check_process(const struct ptah_counts_process *p, struct ptah_profile *profile)
{
	struct ptah_profile_block *blocks;
	struct ptah_profile_edge *edges;
	uint64_t sum = 0;
	size_t n;

	assert_int_equal(ptah_profile_blocks(profile, &blocks, &n), 0);
	assert_true(n > 0);
	assert_int_equal(p->block_count, n);
	for (size_t i = 0; i < n; i++) {
		const struct ptah_profile_block *b = find_block(p, profile, &blocks[i]);

		assert_true(b->count == blocks[i].count && b->taken == blocks[i].taken);
		assert_true(b->unknown == blocks[i].unknown && b->target == blocks[i].target);
		assert_true(b->ninsn == blocks[i].ninsn && b->last_size == blocks[i].last_size);
	}
	free(blocks);
	assert_int_equal(ptah_profile_edges(profile, &edges, &n), 0);
	assert_int_equal(p->edge_count, n);
	for (size_t i = 0; i < n; i++)
		sum += edges[i].count - p->edges[i].count;
	assert_true(sum == 0);
	free(edges);
}

TEST(saved_and_loaded)
{
	for (unsigned seed = 1; seed <= 16; seed++) {
		struct ptah_profile_totals wanted;
		struct ptah_counts_process process;
		struct ptah_counts *counts = counts_new(), *again;
		struct run r;
		void *bytes;
		size_t n;

		run_begin(&r, seed);
		assert_int_equal(counts_add_profile(counts, 7, r.profile), 0);
		assert_int_equal(ptah_counts_save(counts, &bytes, &n), 0);
		again = loaded(bytes, n);
		free(bytes);
		assert_same_bytes(counts, again);
		assert_true(ptah_counts_process(again, 0, &process));
		assert_int_equal(process.pid, 7);
		check_process(&process, r.profile);
		assert_int_equal(ptah_profile_totals(r.profile, &wanted), 0);
		assert_memory_equal(&process.totals, &wanted, sizeof(wanted));
		assert_false(ptah_counts_process(again, 1, &process));
		ptah_counts_free(again);
		ptah_counts_free(counts);
		run_end(&r);
	}
}

/* Added profile by profile, merged from files, or merged as profiles: the result is the same. */
TEST(merged)
{
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct ptah_counts *all = counts_new(), *one = counts_new(), *two = counts_new();
		struct ptah_profile *other;
		struct run r;

		run_begin(&r, seed);
		/* The same code and the first third of its trace. */
		assert_int_equal(ptah_profile_new(r.image, NULL, &other), 0);
		assert_int_equal(ptah_profile_feed(other, r.w->trace, 5000, true), 0);
		assert_int_equal(counts_add_profile(all, 7, r.profile), 0);
		assert_int_equal(counts_add_profile(all, -1, other), 0);
		assert_int_equal(counts_add_profile(all, 7, other), 0);

		assert_int_equal(counts_add_profile(one, 7, other), 0);
		assert_int_equal(counts_add_profile(two, -1, other), 0);
		assert_int_equal(profile_merge(r.profile, other), 0);
		ptah_counts_free(one);
		one = counts_new();
		assert_int_equal(counts_add_profile(one, 7, r.profile), 0);
		assert_int_equal(ptah_counts_merge(one, two), 0);
		assert_same_bytes(all, one);
		ptah_profile_free(other);
		ptah_counts_free(all);
		ptah_counts_free(one);
		ptah_counts_free(two);
		run_end(&r);
	}
}

/* Files written by hand; `size` 0 ends the list. */
static bool find_in(void *context, int32_t pid, uint64_t address, uint64_t tsc,
		    struct ptah_counts_file *file)
{
	(void)tsc;
	(void)pid;
	for (const struct ptah_counts_file *f = context; f->size; f++) {
		if (address - f->address < f->size) {
			*file = *f;
			return true;
		}
	}
	return false;
}

/* 0x400000: NOP; JMP RAX, and the same every 0x1000 bytes; each leads to the next. */
static struct ptah_counts *five_places(const struct ptah_counts_file *files)
{
	struct ptah_counts *counts = counts_new();
	struct ptah_generator g;
	struct ptah_profile *profile;
	struct ptah_image *image;
	uint8_t trace[512];

	generator_init(&g, trace, false, false);
	assert_int_equal(ptah_image_new(&image), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(
		    ptah_image_add_bytes(image, "\x90\xff\xe0", 3, 0x400000 + i * 0x1000, NULL), 0);
	generator_psb(&g, 1, 20, false, 0);
	generator_enable(&g, 0x400000);
	for (unsigned i = 1; i < 5; i++)
		generator_tip(&g, 0x400000 + i * 0x1000);
	generator_disable(&g);
	assert_int_equal(ptah_profile_new(image, NULL, &profile), 0);
	assert_int_equal(ptah_profile_feed(profile, trace, (size_t)(g.out - trace), true), 0);
	assert_int_equal(counts_add_profile(counts, 7, profile), 0);
	assert_int_equal(ptah_counts_locate(counts, find_in, (void *)(uintptr_t)files), 0);
	ptah_profile_free(profile);
	ptah_image_free(image);
	return counts;
}

#define LIB                                                                                        \
	{                                                                                          \
		0x402000, 0x1000, 0, "/lib/b", {1, 2, 3}, 3, 0                                     \
	}
#define MAIN                                                                                       \
	{                                                                                          \
		0x400000, 0x4000, 0x1000, "/bin/a", {0}, 0, 0                                      \
	}

static void check_file(const struct ptah_counts_file *f, uint64_t address, uint64_t size,
		       uint64_t offset, const char *path)
{
	assert_true(f->address == address && f->size == size && f->file_offset == offset);
	assert_string_equal(f->path, path);
}

/* A library in the middle of a program's mapping; nothing is known about the last address. */
TEST(located)
{
	static const struct ptah_counts_file files[] = {LIB, MAIN, {0}};
	struct ptah_counts *counts = five_places(files), *again;
	struct ptah_counts_process p;
	void *bytes;
	size_t n;

	assert_int_equal(ptah_counts_save(counts, &bytes, &n), 0);
	again = loaded(bytes, n);
	free(bytes);
	assert_true(ptah_counts_process(again, 0, &p));
	assert_int_equal(p.file_count, 3);
	check_file(&p.files[0], 0x400000, 0x2000, 0x1000, "/bin/a");
	check_file(&p.files[1], 0x402000, 0x1000, 0, "/lib/b");
	check_file(&p.files[2], 0x403000, 0x1000, 0x4000, "/bin/a");
	assert_int_equal(p.files[1].build_id_size, 3);
	assert_memory_equal(p.files[1].build_id, "\1\2\3", 3);
	assert_true(p.files[0].path == p.files[2].path);
	assert_ptr_equal(ptah_counts_find(again, 0, 0x402fff, 0), &p.files[1]);
	assert_null(ptah_counts_find(again, 0, 0x404000, 0));
	assert_null(ptah_counts_find(again, 0, 0x3fffff, 0));
	assert_null(ptah_counts_find(again, 1, 0x400000, 0));
	ptah_counts_free(again);
	ptah_counts_free(counts);
}

/* One pid with different files at the same address: these are two processes. */
TEST(same_pid_of_two_programs)
{
	static const struct ptah_counts_file ones[] = {MAIN, {0}}, others[] = {LIB, {0}};
	struct ptah_counts *one = five_places(ones), *same = five_places(ones),
			   *other = five_places(others);
	struct ptah_counts_process p;

	assert_int_equal(ptah_counts_merge(one, same), 0);
	assert_int_equal(ptah_counts_merge(one, other), 0);
	assert_true(ptah_counts_process(one, 0, &p));
	assert_int_equal(p.pid, 7);
	assert_true(p.totals.instructions == 20); /* twice five times two */
	assert_true(ptah_counts_process(one, 1, &p));
	assert_int_equal(p.pid, 7);
	assert_true(p.totals.instructions == 10);
	assert_string_equal(p.files[0].path, "/lib/b");
	assert_false(ptah_counts_process(one, 2, &p));
	ptah_counts_free(one);
	ptah_counts_free(same);
	ptah_counts_free(other);
}

/* Merged with itself the sum doubles, until it does not fit; then nothing is added. */
TEST(sums_that_do_not_fit)
{
	static const struct ptah_counts_file files[] = {MAIN, {0}};
	struct ptah_counts *counts = five_places(files);
	struct ptah_profile_totals totals;
	uint64_t wanted = 10;
	int status = 0;

	while (status >= 0) {
		struct ptah_counts *copy;
		void *bytes;
		size_t n;

		assert_int_equal(ptah_counts_totals(counts, &totals, NULL), 0);
		assert_true(totals.instructions == wanted);
		assert_int_equal(ptah_counts_save(counts, &bytes, &n), 0);
		copy = loaded(bytes, n);
		free(bytes);
		status = ptah_counts_merge(counts, copy);
		ptah_counts_free(copy);
		wanted *= status >= 0 ? 2 : 1;
	}
	assert_int_equal(status, PTAH_E_LIMIT);
	assert_true(wanted > UINT64_MAX / 2);
	assert_int_equal(ptah_counts_totals(counts, &totals, NULL), 0);
	assert_true(totals.instructions == wanted);
	ptah_counts_free(counts);
}

/* The process at offset 40 without its bytes from `from` on, and another version number. */
static void check_version(uint8_t version, size_t from)
{
	static const struct ptah_counts_file files[] = {LIB, MAIN, {0}};
	const size_t begin = 40 + from, end = 40 + 136;
	struct ptah_counts *counts = five_places(files), *old;
	uint64_t hash = UINT64_C(0xcbf29ce484222325), size;
	uint8_t *bytes;
	void *saved;
	size_t n;

	assert_int_equal(ptah_counts_save(counts, &saved, &n), 0);
	bytes = saved;
	memmove(bytes + begin, bytes + end, n - end);
	n -= end - begin;
	bytes[8] = version;
	size = n;
	memcpy(bytes + 16, &size, sizeof(size));
	for (size_t i = 32; i < n; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	memcpy(bytes + 24, &hash, sizeof(hash));
	old = loaded(bytes, n);
	assert_same_bytes(old, counts);
	free(saved);
	ptah_counts_free(old);
	ptah_counts_free(counts);
}

/* Version 1 had no names, version 2 no calls. */
TEST(older_versions)
{
	check_version(1, 112);
	check_version(2, 128);
}

static void refused(const uint8_t *bytes, size_t n, const char *said)
{
	struct ptah_message why = {""};
	struct ptah_counts *counts;
	uint8_t *copy = malloc(n ? n : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	assert_true(counts_load(copy, n, &counts, &why) < 0);
	free(copy);
	if (strncmp(why.text, "offset 0x", 9) != 0 || !strstr(why.text, said))
		fail_msg("\"%s\", not \"%s\"", why.text, said);
}

/* Cut anywhere, or with any bit flipped, the file is refused with an offset. */
TEST(damaged)
{
	static const struct ptah_counts_file files[] = {LIB, MAIN, {0}};
	struct ptah_counts *counts = five_places(files);
	uint8_t *bytes;
	void *saved;
	size_t n;

	assert_int_equal(ptah_counts_save(counts, &saved, &n), 0);
	ptah_counts_free(counts);
	bytes = saved;
	for (size_t i = 0; i < n; i++)
		refused(bytes, i, i < 8 ? "not saved counts" : i < 32 ? "header" : "cut short");
	for (size_t i = 0; i < n; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			refused(bytes, n,
				i < 8		    ? "not saved counts"
				: i == 8 && bit < 2 ? "" /* version 1 or 2 */
				: i < 12	    ? "version"
				: i < 16	    ? "header"
				: i < 24	    ? "bytes"
						    : "checksum");
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	}
	ptah_counts_free(loaded(bytes, n));
	free(saved);
}
