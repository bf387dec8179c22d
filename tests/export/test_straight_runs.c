/* SPDX-License-Identifier: MIT */
/*
 * Straight runs: random programs are walked instruction by instruction, and what the walk notes of
 * itself is compared with the runs that are made of its blocks alone.
 */
#include "test.h"

#include "export/straight_runs.h"

#include <ptah/base.h>
#include <stdlib.h>

static const struct straight_run *find(const struct straight_runs *r, uint64_t start, uint64_t last)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->run[i].start == start && r->run[i].last == last)
			return &r->run[i];
	return NULL;
}

/* 100 to 108: a conditional branch, taken 7 times of 10, to 100; 110 to 118: a return. */
TEST(test_loop)
{
	struct run_block blocks[] = {{.ip = 100, .last = 108, .end = 110, .count = 10, .left = 7},
				     {.ip = 110, .last = 118, .end = 119, .count = 3, .left = 3}};
	struct run_entry entries[] = {{100, 7, false}, {100, 3, true}};
	struct straight_runs runs;
	uint64_t sum = 0;

	assert_int_equal(straight_runs_make(blocks, 2, entries, 2, &runs), 0);
	for (size_t i = 0; i < runs.count; i++) {
		assert_int_equal(runs.run[i].start, 100);
		sum += runs.run[i].count;
	}
	assert_int_equal(sum, 10);
	assert_non_null(find(&runs, 100, 118));
	assert_int_equal(runs.broken, 0);
	straight_runs_free(&runs);
}

/* An interrupt cuts the block 100-108 after 104; what follows belongs to the same runs. */
TEST(test_cut)
{
	struct run_block blocks[] = {{.ip = 100, .last = 108, .end = 110, .count = 8, .left = 8},
				     {.ip = 100, .last = 102, .end = 104, .count = 2, .cut = true},
				     {.ip = 104, .last = 108, .end = 110, .count = 2, .left = 2}};
	struct run_entry entries[] = {{100, 10, true}};
	struct straight_runs runs;

	assert_int_equal(straight_runs_make(blocks, 3, entries, 1, &runs), 0);
	assert_int_equal(runs.count, 1);
	assert_int_equal(runs.run[0].start, 100);
	assert_int_equal(runs.run[0].last, 108);
	assert_int_equal(runs.run[0].count, 10);
	assert_true(runs.run[0].by_call);
	straight_runs_free(&runs);
}

/* Where jumps explain all that ran, a block that was cut before it is the end of a run. */
TEST(test_cut_and_gone)
{
	struct run_block blocks[] = {{.ip = 100, .last = 102, .end = 104, .count = 2, .cut = true},
				     {.ip = 104, .last = 108, .end = 110, .count = 2, .left = 2}};
	struct run_entry entries[] = {{100, 2, true}, {104, 2, false}};
	struct straight_runs runs;

	assert_int_equal(straight_runs_make(blocks, 2, entries, 2, &runs), 0);
	assert_int_equal(runs.count, 2);
	assert_int_equal(find(&runs, 100, 102)->count, 2);
	assert_int_equal(find(&runs, 104, 108)->count, 2);
	straight_runs_free(&runs);
}

TEST(test_nothing)
{
	struct straight_runs runs;

	assert_int_equal(straight_runs_make(NULL, 0, NULL, 0, &runs), 0);
	assert_int_equal(runs.count, 0);
	straight_runs_free(&runs);
}

/* More runs than RUNS_ALIVE pass one place: some are cut, and no execution is lost. */
TEST(test_many_alive)
{
	enum {
		MANY = 3 * RUNS_ALIVE
	};
	struct run_block *blocks = calloc(MANY, sizeof(*blocks));
	struct run_entry *entries = calloc(MANY, sizeof(*entries));
	struct straight_runs runs;
	uint64_t *covered = calloc(MANY, sizeof(*covered));

	for (uint64_t i = 0; i < MANY; i++) {
		blocks[i] = (struct run_block){
		    .ip = 2 * i, .last = 2 * i, .end = 2 * i + 2, .count = i + 1};
		entries[i] = (struct run_entry){2 * i, 1, true};
	}
	assert_int_equal(straight_runs_make(blocks, MANY, entries, MANY, &runs), 0);
	assert_true(runs.broken > 0);
	for (size_t i = 0; i < runs.count; i++)
		for (uint64_t at = runs.run[i].start; at <= runs.run[i].last; at += 2)
			covered[at / 2] += runs.run[i].count;
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(covered[i], i + 1);
	straight_runs_free(&runs);
	free(blocks);
	free(entries);
	free(covered);
}

/* Random programs */

#define INSNS 60

enum kind {
	PLAIN,
	COND,
	JUMP
};

static struct {
	enum kind kind;
	uint64_t ip, size;
	unsigned target;
} program[INSNS];

/* What the walk notes: executions, passings of each instruction to the next, runs by their ends. */
static struct {
	uint64_t executed[INSNS], passed[INSNS], begun[INSNS], ended[INSNS];
} truth, got;

static unsigned seed;

static unsigned dice(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 12) % n;
}

static void make_program(void)
{
	uint64_t ip = 0x1000;

	for (unsigned i = 0; i < INSNS; i++) {
		program[i].kind = dice(4) ? PLAIN : dice(4) ? COND : JUMP;
		program[i].ip = ip;
		program[i].size = 1 + dice(9);
		program[i].target = dice(INSNS);
		ip += program[i].size;
	}
	program[INSNS - 1].kind = JUMP;
}

struct lists {
	struct run_block blocks[20000];
	struct run_entry entries[20000];
	size_t block_count, entry_count;
};

static void end_block(struct lists *l, unsigned first, unsigned last, bool left, bool cut)
{
	l->blocks[l->block_count++] =
	    (struct run_block){.ip = program[first].ip,
			       .last = program[last].ip,
			       .end = program[last].ip + program[last].size,
			       .count = 1,
			       .left = left,
			       .cut = cut};
}

/* Walks from a random instruction; events cut blocks, and the walk goes on there. */
static void walk(struct lists *l, int steps, bool cuts)
{
	unsigned at = dice(INSNS), first = at;

	truth.begun[at]++;
	for (;;) {
		const bool taken =
		    program[at].kind == JUMP || (program[at].kind == COND && dice(2));
		const bool closed = program[at].kind == COND || (cuts && !dice(8));

		truth.executed[at]++;
		if (taken) {
			end_block(l, first, at, true, false);
			truth.ended[at]++;
			if (steps-- <= 0)
				return;
			at = program[at].target;
			truth.begun[at]++;
			l->entries[l->entry_count++] =
			    (struct run_entry){program[at].ip, 1, dice(2)};
			first = at;
			continue;
		}
		truth.passed[at]++;
		if (closed) {
			end_block(l, first, at, false, program[at].kind != COND);
			first = at + 1;
		}
		at++;
	}
}

static unsigned number_of(uint64_t ip)
{
	unsigned i = 0;

	while (program[i].ip != ip)
		assert_true(++i < INSNS);
	return i;
}

static void add_up(const struct straight_runs *r)
{
	for (size_t i = 0; i < r->count; i++) {
		const unsigned first = number_of(r->run[i].start), last = number_of(r->run[i].last);

		assert_true(first <= last);
		got.begun[first] += r->run[i].count;
		got.ended[last] += r->run[i].count;
		for (unsigned k = first; k <= last; k++)
			got.executed[k] += r->run[i].count;
		for (unsigned k = first; k < last; k++)
			got.passed[k] += r->run[i].count;
	}
}

TEST(test_random)
{
	struct lists *l = malloc(sizeof(*l));

	for (unsigned round = 0; round < 600; round++) {
		struct straight_runs runs;

		seed = round;
		memset(&truth, 0, sizeof(truth));
		memset(&got, 0, sizeof(got));
		l->block_count = l->entry_count = 0;
		make_program();
		for (unsigned i = 0; i < 1 + round % 4; i++)
			walk(l, 300, round & 1);
		assert_int_equal(straight_runs_make(l->blocks, l->block_count, l->entries,
						    l->entry_count, &runs),
				 0);
		add_up(&runs);
		assert_memory_equal(&got, &truth, sizeof(got));
		straight_runs_free(&runs);
	}
	free(l);
}
