/* SPDX-License-Identifier: MIT */
/*
 * Runs of programs at random addresses, folded. What is expected is counted here by file and
 * offset, which no address has to do with.
 */
#include "test.h"

#include "load_counts.h"

#include "calls/tree_internal.h"
#include "counts/counts_internal.h"

#include <ptah/counts.h>

enum {
	FILES = 4,    /* the last one is [vdso], without a build id */
	PLACES = 24,  /* blocks of each file */
	STEP = 64,    /* bytes between two blocks */
	BEGIN = 4096, /* the offset of the first one */
	LENGTH = 8192,
};

/* The counts of all runs, by file and place. */
struct expected {
	uint64_t blocks[FILES][PLACES], taken[FILES][PLACES];
	uint64_t edges[FILES][PLACES][FILES];
	uint64_t calls[FILES][PLACES];
	uint64_t errors;
	uint64_t instructions;
};

static const char *const paths[FILES] = {"/bin/program", "/lib/one", "/lib/two", "[vdso]"};

static uint64_t next_random(uint64_t *chance)
{
	*chance = *chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *chance >> 33;
}

/* A run: where its files are, and which build of the program it is. */
struct run {
	uint64_t base[FILES], chance;
	uint8_t build;
	unsigned files; /* how many it uses */
};

/* The program comes first; libraries in any order above it. */
static struct run run_new(unsigned seed, uint8_t build, unsigned files)
{
	struct run r = {.chance = seed * 1000 + 17, .build = build, .files = files};
	const unsigned first = (unsigned)next_random(&r.chance) % 3;

	r.base[0] = 0x550000000000 + (next_random(&r.chance) << 12);
	for (unsigned i = 1; i < FILES; i++)
		r.base[i] = 0x7f0000000000 + ((uint64_t)((first + i) % 3) << 36) +
			    (next_random(&r.chance) % 4096 << 12);
	return r;
}

static uint64_t address_of(const struct run *r, unsigned file, unsigned place)
{
	return r->base[file] + BEGIN + place * STEP;
}

static void add_files(struct counts_process *p, const struct run *r)
{
	p->files = calloc(FILES, sizeof(*p->files));
	for (unsigned i = 0; i < r->files; i++) {
		struct ptah_counts_file f = {.address = r->base[i] + BEGIN,
					     .size = LENGTH,
					     .file_offset = BEGIN,
					     .path = paths[i]};
		size_t at = p->file_count++;

		f.build_id_size = i == FILES - 1 ? 0 : 20;
		if (f.build_id_size)
			memset(f.build_id, (int)(9 - i), 20);
		if (!i)
			f.build_id[3] = r->build;
		for (; at && p->files[at - 1].address > f.address; at--)
			p->files[at] = p->files[at - 1];
		p->files[at] = f;
	}
}

static void add_lists(struct counts_process *p, struct run *r, struct expected *e)
{
	p->blocks = calloc(FILES * PLACES, sizeof(*p->blocks));
	p->edges = calloc(FILES * PLACES, sizeof(*p->edges));
	for (unsigned i = 0; i < r->files * PLACES; i++) {
		const unsigned file = i / PLACES, place = i % PLACES;
		const unsigned to = (unsigned)next_random(&r->chance) % r->files;
		const uint64_t ip = address_of(r, file, place);
		const uint64_t count = next_random(&r->chance) % 100;

		/* What did not run is in no list. */
		if (!count)
			continue;
		p->blocks[p->block_count++] = (struct ptah_profile_block){
		    .ip = ip,
		    .end = ip + 20,
		    .target = place ? address_of(r, file, 0) : 0,
		    .count = count,
		    .taken = place ? count / 2 : 0,
		    .ninsn = 5,
		    .mode = PTAH_EXEC_64,
		    .insn_class = place ? PTAH_INSN_COND : PTAH_INSN_JUMP_IND,
		    .last_size = 2};
		e->blocks[file][place] += count;
		e->taken[file][place] += place ? count / 2 : 0;
		e->instructions += 5 * count;
		p->edges[p->edge_count++] =
		    (struct ptah_profile_edge){.from = ip + 18,
					       .to = address_of(r, to, place),
					       .count = count + 1,
					       .mode = PTAH_EXEC_64,
					       .insn_class = PTAH_INSN_JUMP_IND};
		e->edges[file][place][to] += count + 1;
	}
	qsort(p->blocks, p->block_count, sizeof(*p->blocks), counts_compare_blocks);
	qsort(p->edges, p->edge_count, sizeof(*p->edges), counts_compare_edges);
}

/* The program calls a function of each library, at a random place, some times. */
static void add_tree(struct counts_process *p, struct run *r, struct expected *e)
{
	const unsigned place = (unsigned)next_random(&r->chance) % PLACES;
	uint64_t insns = 0;

	assert_int_equal(ptah_call_tree_new(NULL, &p->calls), 0);
	for (unsigned i = 1; i < r->files; i++) {
		const struct ptah_call_mark marks[] = {
		    {.function = address_of(r, 0, 0), .thread.instructions = insns},
		    {.function = address_of(r, i, place), .thread.instructions = insns + 2},
		    {.end = 1, .thread.instructions = insns + 5},
		    {.end = 1, .thread.instructions = insns + 9},
		};

		assert_int_equal(ptah_call_tree_add(p->calls, marks, 4), 0);
		e->calls[0][0]++;
		e->calls[i][place]++;
		insns += 9;
	}
}

/* The counts of a run, as they would be loaded from a file. */
static struct ptah_counts *counts_of(struct run r, int32_t pid, struct expected *e)
{
	struct ptah_counts *made = counts_new(), *counts;
	struct counts_process *p = counts_append(made);
	void *bytes;
	size_t n;

	p->pid = pid;
	memcpy(p->comm, "program", 7);
	p->spaces = calloc(1, sizeof(*p->spaces));
	p->spaces[p->space_count++] = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	add_files(p, &r);
	add_lists(p, &r, e);
	add_tree(p, &r, e);
	p->events.errors = next_random(&r.chance) % 3;
	if (p->events.errors) {
		p->events.first_error.offset = next_random(&r.chance) % 4;
		p->events.first_error.ip = address_of(&r, 1, 3);
		p->events.first_error.status = PTAH_E_NO_CODE;
	}
	e->errors += p->events.errors;
	assert_int_equal(ptah_counts_save(made, &bytes, &n), 0);
	ptah_counts_free(made);
	counts = loaded(bytes, n);
	free(bytes);
	return counts;
}

/* Takes an address of the process back to file and place. */
static bool find_place(const struct ptah_counts *c, size_t process, uint64_t address,
		       unsigned *file, unsigned *place)
{
	const struct ptah_counts_file *f = ptah_counts_find(c, process, address, 0);
	const uint64_t offset = f ? f->file_offset + (address - f->address) : 0;

	if (!f)
		return false;
	for (*file = 0; *file < FILES && strcmp(f->path, paths[*file]) != 0; ++*file)
		;
	*place = (unsigned)(offset - BEGIN) / STEP;
	return *file < FILES;
}

/* Takes what the process has away from what is expected. */
static void take_blocks(const struct ptah_counts *c, size_t i, const struct ptah_counts_process *p,
			struct expected *e)
{
	unsigned file = 0, place = 0, to = 0, other = 0;

	for (size_t k = 0; k < p->block_count; k++) {
		const struct ptah_profile_block *b = &p->blocks[k];

		assert_true(find_place(c, i, b->ip, &file, &place));
		e->blocks[file][place] -= b->count;
		e->taken[file][place] -= b->taken;
		assert_int_equal(b->end - b->ip, 20);
		assert_int_equal(!b->target, !place);
		if (b->target) {
			assert_true(find_place(c, i, b->target, &to, &other));
			assert_true(to == file && !other);
		}
	}
	for (size_t k = 0; k < p->edge_count; k++) {
		assert_true(find_place(c, i, p->edges[k].to, &to, &other));
		if (!find_place(c, i, p->edges[k].from, &file, &place)) {
			/* From here on it is of all code without a build id, which [vdso] is. */
			assert_true(p->folded);
			assert_string_equal(ptah_counts_find(c, i, p->edges[k].from, 0)->path,
					    "[no build id]");
			file = FILES - 1;
			place = other;
		}
		assert_int_equal(place, other);
		e->edges[file][place][to] -= p->edges[k].count;
	}
}

/* Functions; in what has no build id, they are one. */
static void take_calls(const struct ptah_counts *c, size_t i, const struct ptah_counts_process *p,
		       struct expected *e)
{
	struct ptah_call_function *f;
	unsigned file, place;
	size_t n;

	if (!p->calls)
		return;
	assert_int_equal(ptah_call_tree_functions(p->calls, &f, &n), 0);
	for (size_t k = 0; k < n; k++) {
		uint64_t calls = f[k].count;

		assert_int_equal(f[k].histogram[0].calls, calls);
		assert_int_equal(f[k].inclusive.instructions,
				 calls * (f[k].histogram[0].max == 9 ? 9 : 3));
		if (find_place(c, i, f[k].function, &file, &place)) {
			e->calls[file][place] -= calls;
			continue;
		}
		assert_string_equal(ptah_counts_find(c, i, f[k].function, 0)->path,
				    "[no build id]");
		for (place = 0; place < PLACES; place++) {
			calls -= e->calls[FILES - 1][place];
			e->calls[FILES - 1][place] = 0;
		}
		assert_int_equal(calls, 0);
	}
	free(f);
}

static void check(const struct ptah_counts *c, struct expected e)
{
	const struct expected none = {0};
	struct ptah_counts_process p;
	struct ptah_profile_totals totals;

	assert_int_equal(ptah_counts_totals(c, &totals, NULL), 0);
	assert_int_equal(totals.instructions, e.instructions);
	assert_int_equal(totals.errors, e.errors);
	e.instructions = e.errors = 0;
	for (size_t i = 0; ptah_counts_process(c, i, &p); i++) {
		take_blocks(c, i, &p, &e);
		take_calls(c, i, &p, &e);
	}
	assert_memory_equal(&e, &none, sizeof(e));
}

static void fold(struct ptah_counts *into, const struct ptah_counts *from)
{
	assert_int_equal(ptah_counts_fold(into, from), 0);
}

/* What was saved and loaded again has nothing but the file's bytes. */
static struct ptah_counts *reloaded(struct ptah_counts *counts)
{
	struct ptah_counts *again;
	void *bytes;
	size_t n;

	assert_int_equal(ptah_counts_save(counts, &bytes, &n), 0);
	again = loaded(bytes, n);
	free(bytes);
	ptah_counts_free(counts);
	return again;
}

#define RUNS 9

/* All runs in this order, by `step` at a time, which are folded into one before. */
static struct ptah_counts *fold_all(struct ptah_counts *const runs[RUNS], unsigned first,
				    unsigned step)
{
	struct ptah_counts *sum = counts_new();

	for (unsigned i = 0; i < RUNS; i += step) {
		struct ptah_counts *some = counts_new();

		for (unsigned k = i; k < i + step && k < RUNS; k++)
			fold(some, runs[(first + k * 2) % RUNS]);
		some = reloaded(some);
		fold(sum, some);
		ptah_counts_free(some);
	}
	return sum;
}

static unsigned count_processes(const struct ptah_counts *c, bool folded)
{
	struct ptah_counts_process p;
	unsigned n = 0;

	for (size_t i = 0; ptah_counts_process(c, i, &p); i++)
		n += p.folded == folded;
	return n;
}

/* Runs with these builds and numbers of files. */
static void try_runs(const uint8_t builds[RUNS], const unsigned files[RUNS], unsigned groups,
		     unsigned apart)
{
	struct ptah_counts *runs[RUNS], *sum, *other, *again;
	struct expected e = {0};

	for (unsigned i = 0; i < RUNS; i++)
		runs[i] = counts_of(run_new(i, builds[i], files[i]), (int32_t)(100 + i / 2), &e);
	sum = fold_all(runs, 0, 1);
	check(sum, e);
	assert_int_equal(count_processes(sum, true), groups);
	assert_int_equal(count_processes(sum, false), apart);
	for (unsigned first = 0; first < RUNS; first++) {
		other = fold_all(runs, first, 1 + first % 4);
		assert_same_bytes(sum, other);
		ptah_counts_free(other);
	}
	/* A sum by itself is what it was. */
	again = counts_new();
	sum = reloaded(sum);
	fold(again, sum);
	assert_same_bytes(sum, again);
	ptah_counts_free(again);
	ptah_counts_free(sum);
	for (unsigned i = 0; i < RUNS; i++)
		ptah_counts_free(runs[i]);
}

TEST(runs_of_one_program)
{
	static const uint8_t builds[RUNS] = {0};
	static const unsigned files[RUNS] = {3, 3, 3, 3, 3, 3, 3, 3, 3};

	try_runs(builds, files, 1, 0);
}

/* A library that some runs do not use moves those behind it. */
TEST(runs_with_other_libraries)
{
	static const uint8_t builds[RUNS] = {0};
	static const unsigned files[RUNS] = {1, 2, 3, 2, 1, 1, 3, 2, 1};

	try_runs(builds, files, 1, 0);
}

TEST(builds_stay_apart)
{
	static const uint8_t builds[RUNS] = {1, 2, 1, 3, 1, 2, 2, 3, 3};
	static const unsigned files[RUNS] = {3, 3, 2, 1, 2, 3, 3, 3, 3};

	try_runs(builds, files, 3, 0);
}

TEST(code_without_build_id_stays_with_its_process)
{
	static const uint8_t builds[RUNS] = {0};
	static const unsigned files[RUNS] = {4, 3, 4, 4, 3, 2, 1, 4, 3};

	try_runs(builds, files, 1, 4);
}

/* The counts of a process without any file, and of one that has the kernel's code alone. */
TEST(what_has_no_place)
{
	struct ptah_counts *from = counts_new(), *sum = counts_new();
	struct ptah_counts_process p;
	struct counts_process *kernel;

	kernel = counts_append(from);
	kernel->pid = 7;
	kernel->spaces = calloc(1, sizeof(*kernel->spaces));
	kernel->spaces[kernel->space_count++] = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	kernel->files = calloc(1, sizeof(*kernel->files));
	kernel->files[kernel->file_count++] =
	    (struct ptah_counts_file){.address = UINT64_C(0xffffffff81000000),
				      .size = 0x1000,
				      .path = "[kernel.kallsyms]_text",
				      .build_id_size = 20};
	kernel->blocks = calloc(1, sizeof(*kernel->blocks));
	kernel->blocks[kernel->block_count++] =
	    (struct ptah_profile_block){.ip = UINT64_C(0xffffffff81000010),
					.end = UINT64_C(0xffffffff81000020),
					.count = 3,
					.ninsn = 4,
					.mode = PTAH_EXEC_64,
					.last_size = 1};
	fold(sum, from);
	fold(sum, from);
	for (size_t i = 0; i < 2; i++) {
		assert_true(ptah_counts_process(sum, i, &p));
		assert_true(!p.folded && p.pid == 7 && p.file_count == 1);
		assert_int_equal(p.blocks[0].ip, UINT64_C(0xffffffff81000010));
		assert_int_equal(p.blocks[0].count, 3);
	}
	assert_false(ptah_counts_process(sum, 2, &p));
	ptah_counts_free(from);
	ptah_counts_free(sum);
}

/* Processes that differ in the address space that a guest's trace names are not added up. */
TEST(own_address_spaces)
{
	struct ptah_counts *from = counts_new(), *sum = counts_new();
	struct ptah_counts_process p;
	struct counts_process *guest = counts_append(from);

	guest->pid = -1;
	guest->spaces = calloc(1, sizeof(*guest->spaces));
	guest->spaces[guest->space_count++] = (struct ptah_space){0x1000, PTAH_SPACE_ANY};
	guest->edges = calloc(1, sizeof(*guest->edges));
	guest->edges[guest->edge_count++] =
	    (struct ptah_profile_edge){.from = 1, .to = 2, .count = 5};
	fold(sum, from);
	assert_true(ptah_counts_process(sum, 0, &p));
	assert_true(!p.folded && p.edge_count == 1 && p.edges[0].count == 5);
	assert_same_bytes(sum, from);
	ptah_counts_free(from);
	ptah_counts_free(sum);
}

TEST(refused)
{
	struct ptah_counts *c = counts_new();

	assert_int_equal(ptah_counts_fold(NULL, c), PTAH_E_INVAL);
	assert_int_equal(ptah_counts_fold(c, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_counts_fold(c, c), PTAH_E_INVAL);
	ptah_counts_free(c);
}
