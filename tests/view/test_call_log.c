/* SPDX-License-Identifier: MIT */
/* What is written to a log is read from it, from the beginning of any block on. */
#include "test.h"

#include "view/call_log.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKS 60000

/* A mark as it was written. */
struct written {
	bool end;
	uint32_t entry;
	unsigned how, flags;
	struct log_counts at;
	size_t depth;
	uint64_t number;
	struct log_counts begin, self;
};

struct writing {
	struct written list[MARKS];
	struct log_frame *open;
	size_t depth;
	uint64_t seed, number;
	struct log_counts now;
};

static uint64_t next(struct writing *w)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed;
}

/* Mostly small numbers, at times of any size. */
static uint64_t number(struct writing *w)
{
	return next(w) % 50 ? next(w) % 20 : next(w) >> (20 + next(w) % 40);
}

static void pass_time(struct writing *w)
{
	struct log_counts n = {.instructions = number(w)};

	if (next(w) % 3 == 0)
		n.active = n.time = number(w);
	if (next(w) % 20 == 0)
		n.active += number(w);
	if (next(w) % 20 == 0)
		n.time += number(w);
	if (next(w) % 7 == 0)
		n.cycles = number(w);
	if (next(w) % 30 == 0)
		n.off = number(w);
	log_add(&w->now, &n);
	if (w->depth)
		log_add(&w->open[w->depth - 1].self, &n);
}

/* Writes marks; `deep`: the depth that they stay near to. */
static void write_all(struct call_log *log, struct writing *w, size_t deep)
{
	w->open = calloc(MARKS, sizeof(*w->open));
	assert_non_null(w->open);
	for (size_t i = 0; i < MARKS; i++) {
		struct written *m = &w->list[i];

		pass_time(w);
		m->at = w->now;
		m->end = w->depth && (w->depth > deep ? next(w) % 4 != 0 : next(w) % 3 == 0);
		if (m->end) {
			const struct log_frame *f = &w->open[--w->depth];

			m->how = next(w) % 7;
			m->flags = next(w) % 9 ? 0 : next(w) % 512;
			m->entry = f->entry;
			m->number = f->number;
			m->begin = f->begin;
			m->self = f->self;
			m->depth = w->depth;
			assert_int_equal(call_log_end(log, &w->now, m->how, m->flags), 0);
			continue;
		}
		m->entry = next(w) % 5 ? (uint32_t)(next(w) % 40) : (uint32_t)(next(w) % 100000);
		m->number = w->number++;
		m->begin = w->now;
		m->depth = w->depth;
		w->open[w->depth++] =
		    (struct log_frame){.entry = m->entry, .number = m->number, .begin = w->now};
		assert_int_equal(call_log_begin(log, &w->now, m->entry, m->entry % 7), 0);
	}
}

static void check_mark(const struct log_mark *m, const struct log_cursor *c,
		       const struct written *w)
{
	assert_int_equal(m->end, w->end);
	assert_int_equal(m->depth, w->depth);
	assert_int_equal(m->frame->entry, w->entry);
	assert_int_equal(m->frame->number, w->number);
	assert_memory_equal(&m->frame->begin, &w->begin, sizeof(w->begin));
	assert_memory_equal(&m->frame->self, &w->self, sizeof(w->self));
	assert_memory_equal(&c->at, &w->at, sizeof(w->at));
	if (w->end) {
		assert_int_equal(m->how, w->how);
		assert_int_equal(m->flags, w->flags);
	}
}

/* Reads a block by itself. Returns how many marks it has; begins: by function. */
static size_t check_block(const struct log_block *block, const struct written *w)
{
	struct log_cursor c = {0};
	struct log_mark mark;
	uint64_t begins[7] = {0}, calls;
	size_t n = 0;

	assert_int_equal(log_cursor_enter(&c, block), 0);
	assert_int_equal(c.depth, block->depth);
	while (log_cursor_next(&c, &mark)) {
		check_mark(&mark, &c, &w[n]);
		begins[mark.frame->entry % 7] += !mark.end;
		n++;
	}
	assert_int_equal(c.status, 0);
	for (uint32_t i = 0; i < 7 && block->functions; i++) {
		assert_true(log_block_calls(block, i, &calls));
		assert_int_equal(calls, begins[i]);
	}
	log_cursor_fini(&c);
	return n;
}

static void check_log(const char *folder, uint64_t seed, size_t deep)
{
	struct writing *w = calloc(1, sizeof(*w));
	struct log_store *store;
	struct call_log log;
	size_t n = 0;

	assert_non_null(w);
	w->seed = seed;
	assert_int_equal(log_store_new(folder, 0, &store), 0);
	call_log_init(&log, store);
	write_all(&log, w, deep);
	assert_false(log.full);
	assert_true(log.count > 1);
	for (size_t i = 0; i < log.count; i++) {
		assert_int_equal(!log.blocks[i].functions, i + 1 == log.count);
		n += check_block(&log.blocks[i], &w->list[n]);
	}
	assert_int_equal(n, MARKS);
	for (size_t i = 0; i < log.count; i++) {
		const uint64_t at = log.blocks[i].begin.instructions;
		const size_t k = log_block_at(log.blocks, log.count, LOG_INSTRUCTIONS, at);

		assert_true(k >= i && log.blocks[k].begin.instructions == at);
	}
	call_log_fini(&log);
	log_store_free(store);
	free(w->open);
	free(w);
}

TEST(random_logs)
{
	check_log("/var/tmp", 1, 20);
	check_log("/var/tmp", 2, 3000);
	check_log("/nowhere", 3, 100);
}

/* Where there is no more room, what was written before can be read. */
TEST(full)
{
	struct writing *w = calloc(1, sizeof(*w));
	struct log_store *store;
	struct call_log log;
	size_t n = 0;

	assert_non_null(w);
	w->seed = 5;
	assert_int_equal(log_store_new("/nowhere", 1 << 20, &store), 0);
	call_log_init(&log, store);
	for (unsigned i = 0; i < 8 && !log.full; i++) {
		w->depth = 0;
		free(w->open);
		write_all(&log, w, 500);
		if (!i)
			for (size_t k = 0; k + 1 < log.count; k++)
				n += check_block(&log.blocks[k], &w->list[n]);
		while (log.depth)
			assert_int_equal(call_log_end(&log, &log.at, 0, 0), 0);
	}
	assert_true(log.full);
	assert_true(n > 0);
	assert_true(log_store_size(store) <= 1 << 20);
	call_log_fini(&log);
	log_store_free(store);
	free(w->open);
	free(w);
}

/* Bytes that are not a log's are an error and nothing worse. */
TEST(damaged)
{
	uint8_t bytes[300];
	uint64_t seed = 11, calls;

	for (unsigned run = 0; run < 20000; run++) {
		struct log_block block = {.bytes = bytes, .size = run % sizeof(bytes)};
		struct log_cursor c = {0};
		struct log_mark mark;

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			bytes[i] = (uint8_t)(seed >> 56) & (i % 3 ? 0x7f : 0xff);
		}
		bytes[0] = run % 2 ? 0 : bytes[0];
		block.functions = bytes;
		block.functions_size = block.size;
		log_block_calls(&block, 3, &calls);
		if (!log_cursor_enter(&c, &block))
			while (log_cursor_next(&c, &mark))
				;
		log_cursor_fini(&c);
	}
}
