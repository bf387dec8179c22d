/* SPDX-License-Identifier: MIT */
/*
 * Where the processor's output goes in memory. The judge is a writer in this
 * file, which takes one byte at a time and follows the SDM ("Table of Physical
 * Addresses (ToPA)", "ToPA Errors", "ToPA STOP", "Single-Range Output"). The
 * layouts are random, and some are malformed.
 */
#include "bare.h"

#define TABLES	    4 /* pages at the beginning of memory */
#define FIRST_DATA  (RIG_BASE + TABLES * UINT64_C(4096))
#define BYTES	    40000
#define LAYOUTS	    3000
#define PMI	    PTAH_PERF_GLOBAL_TRACE_TOPA_PMI
#define TRACE_TOPA  (PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA)
#define TRACE_RANGE PTAH_RTIT_CTL_TRACE_EN

/* The judge */

struct judge {
	uint8_t *memory; /* a copy of the rig's */
	const uint8_t *far;
	uint64_t base, index, offset;
	bool topa, single_entry, range_wraps;
	unsigned physical_bits;
	bool error, stopped, interrupt;
	uint64_t written;
};

static uint64_t judge_load(const struct judge *j, uint64_t at)
{
	uint64_t value = UINT64_MAX;

	if (at >= RIG_BASE && at < RIG_BASE + RIG_BYTES)
		memcpy(&value, j->memory + (at - RIG_BASE), 8);
	else if (at >= RIG_FAR && at < RIG_FAR + 4096)
		memcpy(&value, j->far + (at - RIG_FAR), 8);
	return value;
}

static uint64_t judge_size(const struct judge *j)
{
	return UINT64_C(4096) << (judge_load(j, j->base + 8 * j->index) >> 6 & 15);
}

/* Output reaches the entry at `index`: follows END entries and finds errors. */
static void judge_reach(struct judge *j)
{
	uint64_t e;

	if (j->base % 4096) {
		j->error = true;
		return;
	}
	e = judge_load(j, j->base + 8 * j->index);
	/* Bits 1, 3, 5, 10, 11 and those from MAXPHYADDR upwards are reserved. */
	j->error =
	    (e >> 1 & 1) | (e >> 3 & 1) | (e >> 5 & 1) | (e >> 10 & 3) || e >> j->physical_bits;
	if (j->error)
		return;
	if (e & 1) {
		if (j->index == 0 || e & 4 || e & 16 ||
		    (j->single_entry && e / 4096 * 4096 != j->base)) {
			j->error = true;
			return;
		}
		j->base = e / 4096 * 4096;
		j->index = 0;
		j->offset = 0;
		judge_reach(j);
		return;
	}
	j->error = (j->single_entry && j->index > 0) || (e / 4096 * 4096) % judge_size(j) != 0 ||
		   j->offset >= judge_size(j);
}

static void judge_start(struct judge *j)
{
	if (j->stopped || j->error)
		return;
	if (j->topa) {
		judge_reach(j);
		return;
	}
	/*
	 * OutputMask is index << 7 | 7FH: its ones have no gap and no bit of the base, and the
	 * offset is not above it.
	 */
	j->error = ((j->index << 7 | 0x7f) & ((j->index << 7 | 0x7f) + 1)) ||
		   (j->base & (j->index << 7 | 0x7f)) || j->offset > (j->index << 7 | 0x7f);
}

static void judge_byte(struct judge *j, uint8_t byte)
{
	uint64_t e, at;

	if (j->error || j->stopped)
		return;
	j->written++;
	e = judge_load(j, j->base + 8 * j->index);
	at = (j->topa ? e / 4096 * 4096 : j->base) + j->offset;
	if (at >= RIG_BASE && at < RIG_BASE + RIG_BYTES)
		j->memory[at - RIG_BASE] = byte;
	j->offset++;
	if (!j->topa) {
		j->offset &= j->index << 7 | 0x7f;
		return;
	}
	if (j->offset < judge_size(j))
		return;
	j->interrupt |= e >> 2 & 1;
	if (e & 16) {
		j->stopped = true;
		return;
	}
	j->offset = 0;
	j->index = j->index == (1 << 25) - 1 ? 0 : j->index + 1;
	judge_reach(j);
}

/* Both */

static void begin(struct rig *rig, struct judge *j)
{
	memset(j, 0, sizeof(*j));
	j->memory = malloc(RIG_BYTES);
	assert_non_null(j->memory);
	memcpy(j->memory, rig->memory, RIG_BYTES);
	j->far = rig->far;
	j->base = rig->m.base;
	j->index = rig->m.index >> 7;
	j->offset = rig->m.offset;
	j->stopped = rig->m.status & PTAH_RTIT_STATUS_STOPPED;
	j->error = rig->m.status & PTAH_RTIT_STATUS_ERROR;
	j->single_entry = !(rig->m.is->leaf_14_0[2] & 2);
	j->physical_bits = rig->m.is->physical_bits;
}

static void compare(struct rig *rig, struct judge *j, bool check_pmi)
{
	const uint64_t status = rig_read(rig, PTAH_IA32_RTIT_STATUS);

	assert_int_equal(!!(status & PTAH_RTIT_STATUS_ERROR), j->error);
	assert_int_equal(!!(status & PTAH_RTIT_STATUS_STOPPED), j->stopped);
	assert_int_equal(rig_read(rig, PTAH_IA32_RTIT_OUTPUT_BASE), j->base);
	assert_int_equal(rig_read(rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS),
			 j->offset << 32 | j->index << 7 | 0x7f);
	assert_memory_equal(rig->memory, j->memory, RIG_BYTES);
	if (check_pmi)
		assert_int_equal(!!(rig->m.global_status & PMI), j->interrupt);
	free(j->memory);
}

static void fill_bytes(uint8_t *bytes, size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)random_next(seed);
}

/* Outputs n random bytes through both; the judge starts at the registers' position. */
static void run(struct rig *rig, uint64_t ctl, size_t n, size_t burst, uint64_t *seed)
{
	static uint8_t bytes[BYTES];
	struct judge j;

	assert_true(n <= sizeof(bytes));
	fill_bytes(bytes, n, seed);
	begin(rig, &j);
	j.topa = ctl & PTAH_RTIT_CTL_TOPA;
	rig_write(rig, PTAH_IA32_RTIT_CTL, ctl);
	judge_start(&j);
	rig_put(rig, bytes, n, burst);
	for (size_t i = 0; i < n; i++)
		judge_byte(&j, bytes[i]);
	rig_write(rig, PTAH_IA32_RTIT_CTL, ctl & ~PTAH_RTIT_CTL_TRACE_EN);
	compare(rig, &j, true);
}

static uint64_t random_entry(uint64_t *seed)
{
	const uint64_t r = random_next(seed);
	const unsigned order = r % 16 < 13 ? 0 : r % 16 - 12;
	uint64_t size = UINT64_C(4096) << order;
	uint64_t e = (FIRST_DATA + (r >> 8) % (RIG_BYTES - (FIRST_DATA - RIG_BASE))) / size * size;

	if (e < FIRST_DATA)
		e += size;
	e |= (uint64_t)order << 6;
	if ((r >> 32) % 8 == 0)
		e |= PTAH_TOPA_INT;
	if ((r >> 36) % 32 == 0)
		e |= PTAH_TOPA_STOP;
	if ((r >> 42) % 100 == 0) /* an error in the entry, or memory that does not exist */
		e ^= UINT64_C(1) << (r >> 49) % 64;
	return e;
}

static void random_tables(struct rig *rig, uint64_t *seed)
{
	for (unsigned t = 0; t < TABLES; t++) {
		const uint64_t table = RIG_BASE + t * 4096;
		const unsigned entries = 1 + random_next(seed) % 5;

		for (unsigned i = 0; i < entries; i++)
			rig_entry(rig, table, i, random_entry(seed));
		rig_entry(rig, table, entries,
			  PTAH_TOPA_END | (RIG_BASE + random_next(seed) % TABLES * 4096) |
			      (random_next(seed) & 0x3c0));
		if (random_next(seed) % 20 == 0)
			rig_entry(rig, table, random_next(seed) % 4,
				  PTAH_TOPA_END | RIG_BASE | (random_next(seed) & 0x14));
	}
}

/* For any layout, position, staging area and burst, the result is that of single bytes. */
TEST(test_random_tables)
{
	uint64_t seed = 0x0123456789abcdef, reached = 0, errors = 0, stops = 0;
	struct rig rig;

	for (unsigned i = 0; i < LAYOUTS; i++) {
		const char *name = i % 8 ? "maximal" : "minimal";

		rig_open(&rig, ptah_model_find(name),
			 (uint32_t)(MODEL_STAGING_MIN + random_next(&seed) % 3000));
		random_tables(&rig, &seed);
		rig.m.base = RIG_BASE + random_next(&seed) % TABLES * 4096;
		rig.m.index = (uint32_t)(random_next(&seed) % 4) << 7 | 0x7f;
		if (i % 8 == 0) {
			/*
			 * The END that a processor with a single entry needs, in half of the
			 * cases to the right table.
			 */
			rig.m.index = 0x7f;
			if (random_next(&seed) % 4)
				rig_entry(&rig, rig.m.base, 1,
					  PTAH_TOPA_END |
					      (random_next(&seed) & 1 ? rig.m.base : RIG_BASE));
		}
		rig.m.offset = random_next(&seed) % 3 ? (uint32_t)(random_next(&seed) % 4400) : 0;
		run(&rig, TRACE_TOPA, random_next(&seed) % BYTES,
		    1 + random_next(&seed) % GENERATOR_BURST, &seed);
		reached += rig.m.bytes;
		errors += !!(rig.m.status & PTAH_RTIT_STATUS_ERROR);
		stops += !!(rig.m.status & PTAH_RTIT_STATUS_STOPPED);
		rig_close(&rig);
	}
	/* The random layouts reached every case. */
	assert_true(reached > LAYOUTS * 5000u);
	assert_true(errors > LAYOUTS / 20 && errors < LAYOUTS * 3 / 4);
	assert_true(stops > LAYOUTS / 20);
}

TEST(test_random_ranges)
{
	uint64_t seed = 0xfedcba9876543210;
	struct rig rig;

	for (unsigned i = 0; i < 500; i++) {
		uint32_t mask = (128u << random_next(&seed) % 10) - 1;

		rig_open(&rig, ptah_model_find("skylake"), 1024);
		rig.m.base = RIG_BASE + (random_next(&seed) % RIG_BYTES & ~(uint64_t)mask);
		rig.m.offset = (uint32_t)(random_next(&seed) & mask);
		if (random_next(&seed) % 8 == 0)
			rig.m.base += 128;
		if (random_next(&seed) % 8 == 0)
			mask ^= 1u << (7 + random_next(&seed) % 8);
		if (random_next(&seed) % 8 == 0)
			rig.m.offset += mask;
		rig.m.index = mask;
		run(&rig, TRACE_RANGE, random_next(&seed) % BYTES, GENERATOR_BURST, &seed);
		rig_close(&rig);
	}
}

/* SDM: after the last possible entry, the table offset returns to 0 in the same table. */
TEST(test_index_wraps)
{
	const uint64_t last = FIRST_DATA + 4096;
	uint64_t seed = 1;
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 1024);
	rig_entry(&rig, RIG_BASE, 0, FIRST_DATA);
	rig_entry(&rig, RIG_BASE, 1, FIRST_DATA + 8192);
	memcpy(rig.far + 4096 - 8, &last, 8);
	rig.m.base = RIG_BASE;
	rig.m.index = 0xffffffff;
	run(&rig, TRACE_TOPA, 5000, 90, &seed);
	assert_int_equal(rig.m.index, 0x7f);
	assert_int_equal(rig.m.offset, 5000 - 4096);
	rig_close(&rig);
}

static void open_ring(struct rig *rig, const char *processor, uint64_t first, uint64_t second)
{
	rig_open(rig, ptah_model_find(processor), 512);
	rig_entry(rig, RIG_BASE, 0, FIRST_DATA | first);
	rig_entry(rig, RIG_BASE, 1, (FIRST_DATA + 4096) | second);
	rig_entry(rig, RIG_BASE, 2, PTAH_TOPA_END | RIG_BASE);
	rig_write(rig, PTAH_IA32_RTIT_OUTPUT_BASE, RIG_BASE);
	rig_write(rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0);
}

static void put_pattern(struct rig *rig, size_t n)
{
	static uint8_t bytes[BYTES];

	memset(bytes, 0x5a, sizeof(bytes));
	rig_put(rig, bytes, n, 64);
	model_output_settle(&rig->m);
}

/* SDM "ToPA STOP": the position stays after the end, and starting there is an error. */
TEST(test_stop)
{
	struct rig rig;

	open_ring(&rig, "skylake", 0, PTAH_TOPA_STOP | PTAH_TOPA_INT);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	put_pattern(&rig, 9000);
	assert_int_equal(rig.m.bytes, 8192);
	assert_int_equal(rig.m.dropped, 9000 - 8192);
	assert_int_equal(rig.m.global_status, PMI);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_TOPA);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS),
			 UINT64_C(4096) << 32 | 1 << 7 | 0x7f);
	/* Still stopped: no output, and no error. */
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	put_pattern(&rig, 100);
	assert_int_equal(rig.m.bytes, 8192);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_TOPA);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_STATUS) & 0x30, PTAH_RTIT_STATUS_STOPPED);
	rig_write(&rig, PTAH_IA32_RTIT_STATUS, 0);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	assert_true(rig_read(&rig, PTAH_IA32_RTIT_STATUS) & PTAH_RTIT_STATUS_ERROR);
	rig_close(&rig);
}

/*
 * An error is reported after the delay that the test asks for, and output until
 * then is lost; a stop reports it at once.
 */
TEST(test_error_delay)
{
	struct rig rig;

	for (unsigned round = 0; round < 2; round++) {
		open_ring(&rig, "skylake", 0, 2 /* reserved */);
		rig.m.faults.error_delay = 1000;
		rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
		put_pattern(&rig, 4096 + 990);
		assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_STATUS) & 0x34,
				 PTAH_RTIT_STATUS_TRIGGER_EN);
		if (round == 0)
			put_pattern(&rig, 10);
		else
			rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
		assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_STATUS) & 0x34,
				 PTAH_RTIT_STATUS_ERROR);
		assert_int_equal(rig.m.bytes, 4096);
		rig_close(&rig);
	}
}

/* SDM: entries may be cached while TraceEn is 1; after it was 0 they are read again. */
TEST(test_cached_entries)
{
	struct rig rig;

	for (unsigned cache = 0; cache < 2; cache++) {
		open_ring(&rig, "skylake", 0, 0);
		rig.m.faults.cache_next = cache;
		rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
		rig_entry(&rig, RIG_BASE, 1, FIRST_DATA + 16384);
		put_pattern(&rig, 4096 + 10);
		assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + 4096], cache ? 0x5a : 0);
		assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + 16384], cache ? 0 : 0x5a);
		rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
		rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
		put_pattern(&rig, 10);
		assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + 16384 + 10], 0x5a);
		rig_close(&rig);
	}
}

/* SDM: reads of the output registers may be stale while TraceEn is 1. */
TEST(test_stale_reads)
{
	struct rig rig;

	open_ring(&rig, "skylake", 0, 0);
	rig.m.faults.stale_bytes = 1000;
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	put_pattern(&rig, 999);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS), 0x7f);
	put_pattern(&rig, 1);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32, 1000);
	put_pattern(&rig, 5);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32, 1000);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32, 1005);
	rig_close(&rig);
}

/* SDM: what a WRMSR flushes is visible to other processors after a fence. */
TEST(test_withheld_bytes)
{
	struct rig rig;

	open_ring(&rig, "skylake", 0, 0);
	rig.m.faults.withhold = 16;
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	put_pattern(&rig, 100);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	for (unsigned i = 0; i < 101; i++)
		assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + i] == 0x5a, i < 84);
	ptah_model_fence(&rig.m);
	for (unsigned i = 0; i < 101; i++)
		assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + i] == 0x5a, i < 100);
	/*
	 * Fewer bytes are hidden at the beginning of a region: those of the previous region are
	 * visible.
	 */
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	put_pattern(&rig, 4096 - 100 + 3);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	for (unsigned i = 0; i < 4096 + 4; i++)
		assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + i] == 0x5a, i < 4096);
	rig_close(&rig);
}

/* SDM "Behavior on Restricted Memory Access": stores are dropped, and output continues. */
TEST(test_hidden_region)
{
	struct rig rig;

	open_ring(&rig, "skylake", 0, 0);
	rig_entry(&rig, RIG_BASE, 0, RIG_BASE + RIG_BYTES); /* no memory there */
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	put_pattern(&rig, 4096 + 50);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32, 50);
	assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + 4096 + 49], 0x5a);
	rig_close(&rig);
}

/* A processor with a single entry raises its PMI before the region is full. */
TEST(test_early_pmi)
{
	struct rig rig;
	unsigned margin;

	rig_open(&rig, ptah_model_find("broadwell"), 512);
	margin = rig.m.is->pmi_margin;
	assert_true(margin > 0);
	rig_entry(&rig, RIG_BASE, 0, FIRST_DATA | PTAH_TOPA_INT);
	rig_entry(&rig, RIG_BASE, 1, PTAH_TOPA_END | RIG_BASE);
	rig_write(&rig, PTAH_IA32_RTIT_OUTPUT_BASE, RIG_BASE);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA | PTAH_RTIT_CTL_BRANCH_EN);
	put_pattern(&rig, 4096 - margin - 1);
	assert_int_equal(rig.m.global_status, 0);
	put_pattern(&rig, 1);
	assert_int_equal(rig.m.global_status, PMI);
	rig_write(&rig, PTAH_IA32_PERF_GLOBAL_STATUS_RESET, PMI);
	put_pattern(&rig, margin); /* the region is full: no second PMI */
	assert_int_equal(rig.m.global_status, 0);
	put_pattern(&rig, 4096 - margin);
	assert_int_equal(rig.m.global_status, PMI);
	rig_close(&rig);
}

/* PacketByteCnt counts output modulo the PSB period, in units that let it fit into 17 bits. */
TEST(test_packet_byte_count)
{
	uint64_t count;
	struct rig rig;

	for (unsigned freq = 0; freq < 16; freq += 5) {
		const uint64_t ctl = TRACE_TOPA | (uint64_t)freq << PTAH_RTIT_CTL_PSB_FREQ;

		open_ring(&rig, "maximal", 0, 0);
		rig_write(&rig, PTAH_IA32_RTIT_CTL, ctl);
		put_pattern(&rig, 2047);
		assert_false(rig.m.psb_due);
		put_pattern(&rig, 1);
		assert_int_equal(rig.m.psb_due, freq == 0);
		rig.m.psb_due = false; /* it was inserted */
		put_pattern(&rig, 100);
		rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
		count = rig_read(&rig, PTAH_IA32_RTIT_STATUS) >> 32;
		if (freq == 0)
			assert_int_equal(count, 100);
		else if (freq == 5)
			assert_int_equal(count, 2148);
		else
			assert_int_equal(count, 2148 >> (freq - 6) ? 2148 >> (freq - 6) : 1);
		rig_close(&rig);
	}
}

/* SDM "Trace Output to the trace transport subsystem": memory and its registers are left alone. */
TEST(test_fabric)
{
	struct rig rig;

	open_ring(&rig, "maximal", 0, 0);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA | PTAH_RTIT_CTL_FABRIC_EN);
	put_pattern(&rig, 3000);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(rig.m.bytes, 3000);
	assert_int_equal(rig.m.dropped, 0);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS), 0x7f);
	assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE], 0);
	rig_close(&rig);
}

/* Errata TGL052, ADL037, RPL017: wrong data in a single range of more than 4 KB. */
TEST(test_spoilt_range)
{
	struct rig rig;

	for (unsigned order = 0; order < 2; order++) {
		rig_open(&rig, ptah_model_find("skylake"), 512);
		rig.m.faults.single_range_4k_only = true;
		rig_write(&rig, PTAH_IA32_RTIT_OUTPUT_BASE, FIRST_DATA);
		rig_write(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, (4096u << order) - 1);
		rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_RANGE);
		put_pattern(&rig, 6000);
		for (unsigned i = 0; i < (order ? 6000u : 4096u); i++)
			assert_int_equal(rig.memory[FIRST_DATA - RIG_BASE + i] == 0x5a, i < 4096);
		rig_close(&rig);
	}
}

/*
 * A model that is copied in the middle of a burst, to another address,
 * continues with the same bytes.
 */
TEST(test_rebind)
{
	uint8_t bytes[3000], other[512];
	uint64_t seed = 77;
	struct rig rig, copy;

	fill_bytes(bytes, sizeof(bytes), &seed);
	open_ring(&rig, "skylake", 0, 0);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, TRACE_TOPA);
	rig_put(&rig, bytes, 1234, 70);
	copy = rig;
	memcpy(other, rig.staging, sizeof(other));
	memset(&rig.m, 0, sizeof(rig.m));
	memset(rig.staging, 0, sizeof(rig.staging));
	model_rebind(&copy.m, ptah_model_find("skylake"), other);
	copy.m.port = &copy;
	rig_put(&copy, bytes + 1234, sizeof(bytes) - 1234, 70);
	rig_write(&copy, PTAH_IA32_RTIT_CTL, 0);
	assert_memory_equal(copy.memory + (FIRST_DATA - RIG_BASE), bytes, sizeof(bytes));
	rig_close(&copy);
}
