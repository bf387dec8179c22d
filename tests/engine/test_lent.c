/* SPDX-License-Identifier: MIT */
/*
 * Captures in memory that the test has allocated: scattered blocks in any order hold the whole
 * trace, memory that cannot be a buffer is refused, and the engine neither clears nor frees any.
 * A copy of the processor's output is the judge.
 */
#include "random.h"
#include "engine/stream.h"

#include <ptah/engine/captures.h>

#define BLOCKS 16

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_model_faults faults;
	struct ptah_hal_memory own[BLOCKS]; /* as they were allocated */
	struct ptah_hal_memory lent[BLOCKS];
	size_t allocated; /* with the blocks */
};

static void open_scene(struct scene *s, const char *processor, size_t size)
{
	size_t i;

	memset(s, 0, sizeof(*s));
	rig_open(&s->rig, ptah_model_find(processor), 2);
	rig_silence(&s->rig, 0, &s->faults);
	s->config = rig_config(&s->rig, &s->trace);
	for (i = 0; i < BLOCKS; i++) {
		assert_int_equal(s->rig.hal.alloc(s->rig.machine, size, size & -size, &s->own[i]),
				 PTAH_OK);
		memset(s->own[i].address, 0xee, size);
		s->lent[i * 7 % BLOCKS] = s->own[i];
	}
	s->config.buffer = 0;
	s->config.memory = s->lent;
	s->config.memories = BLOCKS;
	s->allocated = ptah_machine_allocated(s->rig.machine);
}

static void close_scene(struct scene *s)
{
	size_t i;

	assert_int_equal(ptah_machine_allocated(s->rig.machine), s->allocated);
	for (i = 0; i < BLOCKS; i++)
		s->rig.hal.release(s->rig.machine, &s->own[i]);
	stream_free(&s->stream);
	rig_close(&s->rig);
}

static bool is_lent(const struct scene *s, const void *address)
{
	const uint8_t *at = address, *block;
	size_t i;

	for (i = 0; i < s->config.memories; i++) {
		block = s->lent[i].address;
		if (at >= block && at < block + s->lent[i].size)
			return true;
	}
	return false;
}

static void check_bytes(struct scene *s, struct ptah_capture *c)
{
	struct ptah_capture_status status = rig_status(c);
	struct ptah_piece piece;

	assert_int_equal(status.position, rig_output(&s->rig, 0));
	assert_true(status.position > status.oldest);
	assert_true(ptah_capture_pieces(c, status.oldest, status.position, &piece, 1) > 0);
	assert_true(is_lent(s, piece.address));
	stream_check(&s->stream, c, status.oldest, status.position);
}

/* Single pages anywhere, as another part of the kernel has allocated them; three laps. */
TEST(scattered_pages_hold_the_trace)
{
	static const char *const processors[] = {"skylake", "minimal"};
	struct ptah_capture_status status;
	struct ptah_capture *c;
	struct scene s;
	size_t i;

	for (i = 0; i < 2; i++) {
		open_scene(&s, processors[i], 4096);
		c = rig_capture(&s.rig, &s.config);
		status = rig_status(c);
		assert_int_equal(status.buffer, BLOCKS * 4096);
		assert_int_equal(status.region, 4096);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		stream_put(&s.stream, &s.rig, 0, 3 * BLOCKS * 4096 + 777);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		check_bytes(&s, c);
		assert_int_equal(ptah_capture_resize(c, 8192, 0, NULL), PTAH_E_INVAL);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		close_scene(&s);
	}
}

/* The walk over a capture's memory gives what was lent, in its order, and tables that name it. */
TEST(a_walk_finds_all_memory)
{
	struct ptah_hal_memory memory[7];
	struct ptah_capture *c;
	struct scene s;
	size_t at = 0;
	int n, i;

	open_scene(&s, "skylake", 4096);
	c = rig_capture(&s.rig, &s.config);
	while ((n = ptah_capture_memory(c, at, memory, 7)) > 0) {
		for (i = 0; i < n; i++, at++) {
			if (at >= BLOCKS) {
				assert_int_equal(memory[i].purpose, PTAH_MEMORY_TABLE);
				assert_int_equal(load_le64(memory[i].address) & ~UINT64_C(4095),
						 s.lent[0].physical);
				continue;
			}
			assert_int_equal(memory[i].purpose, PTAH_MEMORY_REGION);
			assert_ptr_equal(memory[i].address, s.lent[at].address);
			assert_int_equal(memory[i].physical, s.lent[at].physical);
			assert_int_equal(memory[i].size, s.lent[at].size);
		}
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, BLOCKS + rig_status(c).tables);
	assert_int_equal(ptah_capture_memory(c, SIZE_MAX, memory, 7), 0);
	assert_int_equal(ptah_capture_memory(NULL, 0, memory, 7), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);
}

/* Larger blocks have larger regions, each in one block. */
TEST(regions_are_as_large_as_the_blocks_allow)
{
	struct ptah_capture *c;
	struct scene s;

	open_scene(&s, "skylake", 16384);
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(rig_status(c).region, 16384);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	s.lent[3].size = 12288; /* a multiple of 4096 alone */
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(rig_status(c).region, 4096);
	assert_int_equal(rig_status(c).buffer, BLOCKS * 16384 - 4096);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	s.config.region = 8192;
	assert_int_equal(ptah_capture_new(s.rig.engine, &s.config, &c, NULL), PTAH_E_INVAL);
	/* As many bytes as whole regions have, but one would reach from a block into the next. */
	s.lent[4].size = 12288;
	assert_int_equal(ptah_capture_new(s.rig.engine, &s.config, &c, NULL), PTAH_E_INVAL);
	close_scene(&s);
}

/* A region and its overflow page; a single range. */
TEST(other_shapes)
{
	struct ptah_capture *c;
	struct scene s;

	open_scene(&s, "skylake", 8192);
	s.config.memories = 2;
	s.lent[1].size = 4096;
	s.config.shape = PTAH_SHAPE_OVERFLOW;
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(rig_status(c).region, 8192);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	stream_put(&s.stream, &s.rig, 0, 5000);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	check_bytes(&s, c);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);

	open_scene(&s, "skylake", 8192);
	s.config.memories = 1;
	s.config.shape = PTAH_SHAPE_SINGLE;
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	stream_put(&s.stream, &s.rig, 0, 11000);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	check_bytes(&s, c);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);
}

static void expect_refusal(struct scene *s, const char *field)
{
	struct ptah_trace_problem problem = {0};
	struct ptah_capture *c = NULL;

	assert_int_equal(ptah_capture_new(s->rig.engine, &s->config, &c, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, field);
	assert_non_null(problem.reason);
	memcpy(s->lent, s->own, sizeof(s->own));
	assert_int_equal(ptah_machine_allocated(s->rig.machine), s->allocated);
}

TEST(memory_that_cannot_be_a_buffer_is_refused)
{
	struct scene s;

	open_scene(&s, "skylake", 8192);
	s.lent[5].physical += 512;
	expect_refusal(&s, "memory");
	s.lent[5].size = 8000;
	expect_refusal(&s, "memory");
	s.lent[5].size = 0;
	expect_refusal(&s, "memory");
	s.lent[5].address = NULL;
	expect_refusal(&s, "memory");
	/* Beyond what the processor can address: begins there, or ends there. */
	s.lent[5].physical = UINT64_C(1) << ptah_engine_caps(s.rig.engine, 0)->physical_bits;
	expect_refusal(&s, "memory");
	s.lent[5].physical =
	    (UINT64_C(1) << ptah_engine_caps(s.rig.engine, 0)->physical_bits) - 4096;
	expect_refusal(&s, "memory");
	/* The same block twice; the second half of one. */
	s.lent[5] = s.lent[11];
	expect_refusal(&s, "memory");
	s.lent[2] = s.lent[9];
	s.lent[2].size = 4096;
	s.lent[2].physical += 4096;
	expect_refusal(&s, "memory");
	s.config.buffer = BLOCKS * 8192 + 4096;
	expect_refusal(&s, "buffer");
	s.config.buffer = 0;
	s.config.memories = 0;
	expect_refusal(&s, "memories");
	s.config.memories = BLOCKS;
	s.config.region = 16384;
	expect_refusal(&s, "memories");
	s.config.region = 0;
	s.config.no_memory = true;
	expect_refusal(&s, "no_memory");
	close_scene(&s);
}

static uint64_t seed = 11;

static uint64_t below(uint64_t n)
{
	return random_below(&seed, n);
}

/* Block by block and pair by pair. */
static bool is_buffer(const struct ptah_hal_memory *memory, size_t n, uint64_t limit)
{
	size_t i, k;

	for (i = 0; i < n; i++) {
		if (!memory[i].size || memory[i].size % 4096 || memory[i].physical % 4096 ||
		    memory[i].physical + memory[i].size > limit)
			return false;
		for (k = 0; k < i; k++) {
			if (memory[i].physical < memory[k].physical + memory[k].size &&
			    memory[k].physical < memory[i].physical + memory[i].size)
				return false;
		}
	}
	return true;
}

/* Lists of any blocks: accepted exactly if they are a buffer, with the largest regions possible. */
TEST(random_lists)
{
	unsigned round, accepted = 0;
	struct ptah_capture *c;
	struct scene s;
	uint64_t limit, region, all;
	size_t i, n;
	bool good;

	open_scene(&s, "skylake", 4096);
	limit = UINT64_C(1) << ptah_engine_caps(s.rig.engine, 0)->physical_bits;
	for (round = 0; round < 20000; round++) {
		n = 1 + below(BLOCKS);
		for (i = 0, all = 0; i < n; i++) {
			s.lent[i].physical = (limit / 2) + below(200) * 8192;
			s.lent[i].size = 4096 << below(3);
			if (!below(100))
				s.lent[i].physical += below(2) ? 4096 : 2048;
			if (!below(200))
				s.lent[i].size = below(2) ? 0 : 5000;
			if (!below(300))
				s.lent[i].physical = limit - 4096 * below(3);
			all |= s.lent[i].physical | s.lent[i].size;
		}
		s.config.memories = n;
		good = is_buffer(s.lent, n, limit);
		assert_int_equal(ptah_capture_new(s.rig.engine, &s.config, &c, NULL),
				 good ? PTAH_OK : PTAH_E_INVAL);
		if (!good)
			continue;
		accepted++;
		region = rig_status(c).region;
		assert_false(all % region);
		assert_true(all % (region * 2) || rig_status(c).regions < 8);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
	}
	assert_true(accepted > 1000);
	close_scene(&s);
}

TEST(each_processor_of_a_set_has_its_memory)
{
	struct ptah_captures_memory memory[2] = {{0}};
	struct ptah_captures_problem problem;
	struct ptah_captures_config config = {.size = sizeof(config)};
	struct ptah_captures *set;
	struct scene s;

	open_scene(&s, "skylake", 4096);
	config.capture = &s.config;
	config.memory = memory;
	assert_int_equal(ptah_captures_new(s.rig.engine, &config, &set, &problem), PTAH_E_INVAL);
	s.config.memory = NULL;
	s.config.memories = 0;
	memory[0] = (struct ptah_captures_memory){s.lent, 12};
	assert_int_equal(ptah_captures_new(s.rig.engine, &config, &set, &problem), PTAH_E_INVAL);
	assert_int_equal(problem.cpu, 1);
	assert_string_equal(problem.request.field, "memory");
	memory[1] = (struct ptah_captures_memory){s.lent + 12, 4};
	assert_int_equal(ptah_captures_new(s.rig.engine, &config, &set, &problem), PTAH_OK);
	assert_int_equal(rig_status(ptah_captures_get(set, 0)).buffer, 12 * 4096);
	assert_int_equal(rig_status(ptah_captures_get(set, 1)).buffer, 4 * 4096);
	assert_int_equal(ptah_captures_start(set, &problem), PTAH_OK);
	stream_put(&s.stream, &s.rig, 0, 60000);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	s.config.memories = 12;
	check_bytes(&s, ptah_captures_get(set, 0));
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	close_scene(&s);
}

static int take_one(struct scene *s, struct ptah_pool *pool, size_t n, struct ptah_capture **c)
{
	uint64_t irqs = s->rig.hal.irq_save(s->rig.machine);
	struct ptah_trace_problem problem;
	int status = ptah_pool_take_memory(pool, 1, NULL, NULL, s->lent, n, c, &problem);

	s->rig.hal.irq_restore(s->rig.machine, irqs);
	return status;
}

/* Memory comes with each taking, in a context in which nothing may be allocated. */
TEST(takers_bring_memory)
{
	struct ptah_capture *c;
	struct ptah_pool *pool;
	struct scene s;

	open_scene(&s, "skylake", 4096);
	s.config.cpu = PTAH_CAPTURE_THREAD;
	assert_int_equal(ptah_pool_new(s.rig.engine, &s.config, 2, &pool, NULL), PTAH_E_INVAL);
	s.config.memory = NULL;
	s.config.memories = 0;
	s.config.no_memory = true;
	s.config.buffer = BLOCKS * 4096;
	assert_int_equal(ptah_pool_new(s.rig.engine, &s.config, 2, &pool, NULL), PTAH_OK);
	s.config.memories = BLOCKS;
	assert_int_equal(ptah_pool_take(pool, 1, NULL, NULL, &c, NULL), PTAH_E_INVAL);
	assert_int_equal(take_one(&s, pool, BLOCKS - 1, &c), PTAH_E_INVAL);
	s.lent[15 * 7 % BLOCKS].size = 8192; /* one page more than the tables name */
	assert_int_equal(take_one(&s, pool, BLOCKS, &c), PTAH_E_INVAL);
	s.lent[15 * 7 % BLOCKS].size = 4096;
	s.lent[1] = s.lent[2];
	assert_int_equal(take_one(&s, pool, BLOCKS, &c), PTAH_E_INVAL);
	assert_int_equal(ptah_pool_left(pool), 2);
	s.lent[1] = s.own[0];
	memcpy(s.lent, s.own, sizeof(s.own));
	assert_int_equal(take_one(&s, pool, BLOCKS, &c), PTAH_OK);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_switch(&s.rig, c, 0, true);
	stream_put(&s.stream, &s.rig, 0, BLOCKS * 4096 + 99);
	rig_switch(&s.rig, c, 0, false);
	check_bytes(&s, c);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	memset(s.own[0].address, 0x55, 4096);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	/* It was the caller's, who may have given it to somebody else by then. */
	assert_int_equal(*(uint8_t *)s.own[0].address, 0x55);
	assert_int_equal(ptah_pool_free(pool), PTAH_OK);
	close_scene(&s);
}

/* What the engine said of each block when it asked for it. */
struct purposes {
	struct rig *rig;
	int cpu[PTAH_MEMORY_PURPOSES];
	unsigned n[PTAH_MEMORY_PURPOSES];
	int (*alloc)(void *port, size_t size, size_t align, struct ptah_hal_memory *memory);
	void (*release)(void *port, const struct ptah_hal_memory *memory);
};

static struct purposes noted;

static int note_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	unsigned purpose = memory->purpose;

	assert_true(purpose < PTAH_MEMORY_PURPOSES);
	noted.cpu[purpose] = memory->cpu;
	noted.n[purpose]++;
	/* A port that writes the whole struct. */
	*memory = (struct ptah_hal_memory){.cpu = 77, .purpose = 77};
	return noted.alloc(port, size, align, memory);
}

static void note_release(void *port, const struct ptah_hal_memory *memory)
{
	assert_true(memory->purpose < PTAH_MEMORY_PURPOSES);
	assert_int_equal(memory->cpu, noted.cpu[memory->purpose]);
	noted.n[memory->purpose]--;
	noted.release(port, memory);
}

/* A port knows the processor for its NUMA node, and what it accounts. */
TEST(allocations_say_for_which_processor_and_what_for)
{
	static const unsigned expected[PTAH_MEMORY_PURPOSES] = {
	    [PTAH_MEMORY_CAPTURE] = 1, [PTAH_MEMORY_LIST] = 1, [PTAH_MEMORY_REGION] = 1,
	    [PTAH_MEMORY_TABLE] = 1,   [PTAH_MEMORY_PAGE] = 1,
	};
	struct ptah_capture *c;
	struct scene s;
	uint64_t address;
	unsigned i;

	open_scene(&s, "skylake", 4096);
	s.config.memory = NULL;
	s.config.memories = 0;
	s.config.cpu = 1;
	noted = (struct purposes){.alloc = s.rig.hal.alloc, .release = s.rig.hal.release};
	s.rig.hal.alloc = note_alloc;
	s.rig.hal.release = note_release;
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_map_page(c, 9, false, &address), PTAH_OK);
	for (i = 0; i < PTAH_MEMORY_PURPOSES; i++) {
		assert_int_equal(noted.n[i], expected[i]);
		assert_true(!expected[i] || noted.cpu[i] == 1);
	}
	assert_int_equal(ptah_capture_unmap(c, 9, address), PTAH_OK);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	for (i = 0; i < PTAH_MEMORY_PURPOSES; i++)
		assert_int_equal(noted.n[i], 0);
	s.rig.hal.alloc = noted.alloc;
	s.rig.hal.release = noted.release;
	close_scene(&s);
}
