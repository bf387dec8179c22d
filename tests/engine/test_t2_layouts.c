/* SPDX-License-Identifier: MIT */
/*
 * Test group T2: tables of every size, walked by the simulated processor. First
 * captures whose number of regions is near that of a full table page: each byte
 * has to arrive. Then tables that were damaged on purpose: the engine's
 * validator has to report the error that the processor then runs into (SDM
 * "ToPA Errors").
 */
#include "engine/stream.h"
#include "engine/topa.h"

#define HUGE_ARENA ((size_t)192 << 20)

/* The number of table pages follows from 511 entries and an END in 4096 bytes. */
static uint32_t pages_of(uint32_t regions)
{
	return (regions + 510) / 511;
}

static uint64_t *table_at(struct rig *rig, uint64_t physical)
{
	uint64_t bytes = 0;
	uint8_t *host = ptah_machine_memory(rig->machine, physical, &bytes);

	assert_non_null(host);
	assert_true(bytes >= 4096);
	return (uint64_t *)(void *)host;
}

/* Follows the chain in memory once, back to the first page, and counts entries and pages. */
static void walk_chain(struct rig *rig, uint64_t first, uint32_t *entries, uint32_t *pages)
{
	uint64_t at = first;

	*entries = *pages = 0;
	do {
		const uint64_t *table = table_at(rig, at);
		unsigned index = 0;

		while (!(table[index] & PTAH_TOPA_END)) {
			++*entries;
			assert_true(++index < 512);
		}
		assert_true(index > 0);
		at = table[index] & ~UINT64_C(0xfff);
		++*pages;
	} while (at != first && *pages < 100000);
	assert_int_equal(at, first);
}

/* Stops at each position of interest: every byte is where it should be, and none is lost. */
static void fill(struct rig *rig, struct ptah_capture *c, uint64_t upto)
{
	struct ptah_capture_status s = rig_status(c);
	const uint64_t page = 511 * s.region; /* the first table's */
	uint64_t stops[] = {1,	      s.region - 1, s.region,		s.region + 1, page - 1,
			    page,     page + 1,	    page + s.region,	2 * page,     s.buffer - 1,
			    s.buffer, s.buffer + 1, s.buffer + page + 5};
	struct stream stream = {0};
	uint64_t step = 0;
	unsigned i;

	for (i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		if (stops[i] <= stream.n || stops[i] > upto)
			continue;
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		step = stops[i] - stream.n;
		stream_put(&stream, rig, 0, step);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.position, stops[i]);
		assert_int_equal(stream.n, stops[i]);
		stream_check(&stream, c, s.oldest, s.position);
	}
	stream_free(&stream);
}

static void one_layout(uint32_t regions, size_t region, unsigned pages, bool no_pmi)
{
	bool large = regions * region > RIG_ARENA / 2;
	struct ptah_model_faults faults = {.silent = true, .cache_next = true};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	uint32_t entries, chain;
	struct rig rig;

	rig_open_at(&rig, ptah_model_find("skylake"), 1, large ? HUGE_ARENA : RIG_ARENA,
		    0x10000000);
	ptah_model_set_faults(ptah_machine_model(rig.machine, 0), &faults);
	config = rig_config(&rig, &trace);
	config.buffer = regions * region;
	config.region = region;
	config.pages = pages;
	config.no_pmi = no_pmi;
	c = rig_capture(&rig, &config);
	s = rig_status(c);
	assert_int_equal(s.regions, regions);
	assert_int_equal(s.buffer, regions * region);
	if (!pages)
		assert_int_equal(s.tables, pages_of(regions));
	/* Whole laps only, so that the position in the tables gives the number of bytes. */
	assert_int_equal(s.laps, s.tables * 511 / regions);
	assert_int_equal(s.cycle, (uint64_t)s.laps * regions * region);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	walk_chain(&rig, rig_status(c).output_base, &entries, &chain);
	assert_int_equal(entries, s.laps * regions);
	assert_int_equal(chain, s.tables);
	/*
	 * Shorter where it would take long: the first tables of many, the first lap of large
	 * regions.
	 */
	fill(&rig, c, large ? 3 * 511 * region : region > 8192 ? s.buffer + 1 : UINT64_MAX);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

TEST(region_counts)
{
	static const uint32_t counts[] = {1, 2, 3, 510, 511, 512, 1022, 1023};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		one_layout(counts[i], 4096, 0, false);
		one_layout(counts[i], 4096, 0, true);
		one_layout(counts[i], 8192, 7, false);
	}
	one_layout(32768, 4096, 0, false);
	assert_int_equal(pages_of(32768), 65);
}

TEST(region_sizes)
{
	size_t region;

	for (region = 4096; region <= (size_t)16 << 20; region *= 2)
		one_layout(2, region, 0, false);
}

/*
 * SDM "ToPA Table Entry Fields": the base has bits 12 to MAXPHYADDR - 1, 51 at
 * most; a buffer at such a high address must be written there.
 */
TEST(the_highest_addresses)
{
	static const unsigned widths[] = {36, 39, 46, 48, 52};
	size_t i;

	for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		struct ptah_model_processor p = *ptah_model_find("maximal");
		struct ptah_model_faults faults = {.silent = true};
		struct ptah_capture_config config;
		struct ptah_trace_config trace;
		struct ptah_capture *c;
		struct rig rig;

		p.physical_bits = (uint8_t)widths[i];
		rig_open_at(&rig, &p, 1, RIG_ARENA, (UINT64_C(1) << widths[i]) - RIG_ARENA);
		ptah_model_set_faults(ptah_machine_model(rig.machine, 0), &faults);
		config = rig_config(&rig, &trace);
		c = rig_capture(&rig, &config);
		fill(&rig, c, UINT64_MAX);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		rig_close(&rig);
	}
}

/*
 * The validator. These tables are pages without a machine, at addresses of
 * their own. Their regions have no memory: stores to them are dropped, but
 * counted.
 */
#define TABLES_AT  UINT64_C(0x100000000)
#define TABLE_STEP UINT64_C(0x3000)
#define BUFFER_AT  UINT64_C(0x800000000)

struct bench {
	struct ptah_model *model;
	struct topa t;
	struct ptah_hal_memory *tables, block;
	uint8_t *memory; /* of the tables */
};

static uint8_t *bench_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	const struct bench *b = port;
	uint64_t at = physical - TABLES_AT;

	if (physical < TABLES_AT || at >= b->t.pages * TABLE_STEP || at % TABLE_STEP >= 4096)
		return NULL;
	*bytes = 4096 - at % TABLE_STEP;
	return b->memory + at / TABLE_STEP * 4096 + at % TABLE_STEP;
}

static void bench_open(struct bench *b, uint32_t regions, uint64_t region, uint64_t last,
		       uint32_t pages, bool multi)
{
	uint32_t n;

	b->t = (struct topa){
	    .region = region, .last = last, .regions = regions, .multi = multi, .pmi = true};
	assert_true(topa_size(&b->t, pages));
	b->tables = calloc(b->t.pages, sizeof(*b->tables));
	b->memory = calloc(b->t.pages, 4096);
	assert_non_null(b->tables);
	assert_non_null(b->memory);
	for (n = 0; n < b->t.pages; n++) {
		b->tables[n] = (struct ptah_hal_memory){.address = b->memory + n * 4096,
							.physical = TABLES_AT + n * TABLE_STEP,
							.size = 4096};
	}
	b->block.physical = BUFFER_AT;
	b->t.tables = b->tables;
	b->t.blocks = &b->block;
	b->t.nblocks = 1;
	topa_build(&b->t);
}

static void bench_close(struct bench *b)
{
	free(b->tables);
	free(b->memory);
}

static void bench_processor(struct bench *b, struct ptah_model_processor *p, unsigned bits,
			    bool multi)
{
	struct ptah_model_config config = {
	    .size = sizeof(config), .processor = p, .memory = bench_memory, .port = b};
	struct ptah_model_faults faults = {.silent = true};

	*p = *ptah_model_find("skylake");
	p->physical_bits = (uint8_t)bits;
	p->leaf_14_0[2] = multi ? 7 : 5; /* CPUID.14H.0:ECX.MENTRY */
	assert_int_equal(ptah_model_init(b->model, &config), PTAH_OK);
	ptah_model_set_faults(b->model, &faults);
}

enum verdict {
	FINE,
	STOPPED, /* at a STOP: the entries after it were not reached */
	ERROR,
};

/* A walk over more bytes than this has passed an entry twice. */
static uint64_t all_bytes(const struct bench *b)
{
	uint64_t sum = 4096;
	uint32_t n, k;

	for (n = 0; n < b->t.pages; n++) {
		const uint64_t *entries = (const uint64_t *)b->tables[n].address;

		for (k = 0; k < 512; k++) {
			if (!(entries[k] & PTAH_TOPA_END))
				sum += UINT64_C(4096) << (entries[k] >> PTAH_TOPA_SIZE & 15);
		}
	}
	return sum;
}

/*
 * What the processor runs into from this position on. Its output is all ones,
 * which make no valid table.
 */
static enum verdict run(struct bench *b, uint64_t base, struct topa_place place)
{
	static uint8_t ones[1 << 16];
	uint64_t left = all_bytes(b), status = 0;

	memset(ones, 0xff, sizeof(ones));
	if (ptah_model_wrmsr(b->model, PTAH_IA32_RTIT_STATUS, 0) < 0 ||
	    ptah_model_wrmsr(b->model, PTAH_IA32_RTIT_OUTPUT_BASE, base) < 0)
		return ERROR;
	ptah_model_wrmsr(b->model, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS,
			 place.offset << 32 | (uint64_t)place.index << 7);
	assert_int_equal(ptah_model_wrmsr(b->model, PTAH_IA32_RTIT_CTL,
					  PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_TRACE_EN),
			 PTAH_OK);
	for (;;) {
		ptah_model_rdmsr(b->model, PTAH_IA32_RTIT_STATUS, &status);
		if (status & (PTAH_RTIT_STATUS_ERROR | PTAH_RTIT_STATUS_STOPPED) || !left)
			break;
		ptah_model_put(b->model, ones, left < sizeof(ones) ? left : sizeof(ones));
		ptah_model_output_bytes(b->model, NULL);
		left -= left < sizeof(ones) ? left : sizeof(ones);
	}
	ptah_model_wrmsr(b->model, PTAH_IA32_RTIT_CTL, 0);
	return status & PTAH_RTIT_STATUS_ERROR	   ? ERROR
	       : status & PTAH_RTIT_STATUS_STOPPED ? STOPPED
						   : FINE;
}

/* Both judge; the processor last, because its output may overwrite a damaged table. */
static enum verdict compare(struct bench *b, unsigned bits, bool multi, struct topa_place place)
{
	struct ptah_model_processor p;
	struct topa_fault fault;
	bool sound = topa_check(b->tables, b->t.pages, bits, multi, place, &fault);
	enum verdict met;

	bench_processor(b, &p, bits, multi);
	met = run(b, b->tables[place.page].physical, place);
	if (met == STOPPED ? !sound && !fault.behind_stop : sound != (met == FINE))
		fail_msg("page %u index %u offset %llx: the processor says %d, the validator %u "
			 "(page %u index %u)",
			 place.page, place.index, (unsigned long long)place.offset, met, fault.kind,
			 fault.page, fault.index);
	return met;
}

static uint64_t below(uint64_t n)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 7) % n;
}

static void damage(struct bench *b)
{
	uint32_t page = (uint32_t)below(b->t.pages);
	uint64_t *entries = (uint64_t *)b->tables[page].address;
	unsigned end = 0, k;

	while (end < 511 && !(entries[end] & PTAH_TOPA_END))
		end++;
	k = below(3) ? (unsigned)below(end + 1) : below(2) ? end : 0;
	switch (below(8)) {
	case 0:
		entries[k] ^= PTAH_TOPA_END;
		break;
	case 1:
		entries[k] |= PTAH_TOPA_STOP;
		break;
	case 2:
		entries[k] |= PTAH_TOPA_INT;
		break;
	case 3: /* END to another table, to its own, or to no table */
		entries[end] = (TABLES_AT + below(b->t.pages + 1) * TABLE_STEP) | PTAH_TOPA_END;
		break;
	case 4: /* another size, aligned or not */
		entries[k] = (entries[k] & ~UINT64_C(0x3c0)) | below(6) << PTAH_TOPA_SIZE;
		break;
	case 5:
		entries[k] = 0;
		break;
	default:
		entries[k] ^= UINT64_C(1) << below(64);
		break;
	}
}

/*
 * Whether a region overlaps a table. What the processor then runs into depends on its own output,
 * and the SDM has no rule for it.
 */
static bool overwrites_itself(const struct bench *b)
{
	uint32_t n, k;

	for (n = 0; n < b->t.pages; n++) {
		const uint64_t *entries = (const uint64_t *)b->tables[n].address;

		for (k = 0; k < 512; k++) {
			uint64_t bytes = UINT64_C(4096) << (entries[k] >> PTAH_TOPA_SIZE & 15);
			uint64_t at = entries[k] & ~UINT64_C(0xfff);

			if (!(entries[k] & PTAH_TOPA_END) && at + bytes > TABLES_AT &&
			    at < TABLES_AT + b->t.pages * TABLE_STEP)
				return true;
		}
	}
	return false;
}

static void trial(struct bench *b, unsigned counts[3])
{
	static const uint32_t regions[] = {1, 2, 3, 7, 510, 511, 512, 1023};
	bool multi = below(4) != 0;
	uint32_t n = multi ? regions[below(8)] : (uint32_t)(1 + below(5));
	uint64_t region = UINT64_C(4096) << below(n > 7 ? 2 : 5);
	unsigned bits = 36 + (unsigned)below(17), damages = (unsigned)below(3);
	struct topa_place place;

	bench_open(b, n, region, below(4) ? region : 4096, multi && below(4) == 0 ? 4 : 0, multi);
	place.page = (uint32_t)below(b->t.pages);
	place.index = below(3) ? 0 : (uint32_t)below(520);
	place.offset = below(2) ? 0 : below(2) ? below(region) : region - 1 + below(3);
	if (below(20) == 0) {
		uint64_t off = UINT64_C(1) << (7 + below(5));

		/*
		 * The table's physical address changes, and the engine's pointer does not:
		 * neither judge finds memory there.
		 */
		b->tables[place.page].physical += off;
	}
	while (damages--)
		damage(b);
	if (!overwrites_itself(b))
		counts[compare(b, bits, multi && below(8), place)]++;
	bench_close(b);
}

TEST(damaged_tables)
{
	unsigned counts[3] = {0}, i;
	struct bench b = {.model = malloc(ptah_model_size())};

	assert_non_null(b.model);
	for (i = 0; i < 3000; i++)
		trial(&b, counts);
	free(b.model);
	assert_true(counts[FINE] > 100 && counts[STOPPED] > 30 && counts[ERROR] > 100);
}

/* Each bit of an entry in the middle, of the first entry and of the END, one by one. */
TEST(every_bit)
{
	struct bench b = {.model = malloc(ptah_model_size())};
	static const unsigned widths[] = {36, 39, 46, 52};
	struct topa_place start = {0};
	unsigned bit, where, w;

	assert_non_null(b.model);
	for (w = 0; w < 4; w++) {
		for (where = 0; where < 4; where++) {
			for (bit = 0; bit < 64; bit++) {
				bench_open(&b, 7, 4096, 4096, 0, true);
				((uint64_t *)b.tables[0]
				     .address)[where == 3 ? b.t.entries : where] ^= UINT64_C(1)
										    << bit;
				compare(&b, widths[w], true, start);
				bench_close(&b);
			}
		}
	}
	free(b.model);
}

/* Every size from 4 KB to 128 MB, aligned to its size and to half of it. */
TEST(every_size)
{
	struct bench b = {.model = malloc(ptah_model_size())};
	struct topa_place start = {0};
	unsigned size;

	assert_non_null(b.model);
	for (size = 0; size < 16; size++) {
		uint64_t bytes = UINT64_C(4096) << size;

		bench_open(&b, 2, bytes, bytes, 1, true);
		assert_int_equal(((uint64_t *)b.tables[0].address)[1] >> PTAH_TOPA_SIZE & 15, size);
		memset((uint64_t *)b.tables[0].address + 3, 0, 4096 - 24);
		((uint64_t *)b.tables[0].address)[2] = TABLES_AT | PTAH_TOPA_END;
		assert_int_equal(compare(&b, 46, true, start), FINE);
		assert_int_equal(compare(&b, 46, true, (struct topa_place){0, 1, bytes - 1}), FINE);
		assert_int_equal(compare(&b, 46, true, (struct topa_place){0, 1, bytes}), ERROR);
		if (size) {
			((uint64_t *)b.tables[0].address)[1] += bytes / 2;
			assert_int_equal(compare(&b, 46, true, start), ERROR);
		}
		bench_close(&b);
	}
	free(b.model);
}
