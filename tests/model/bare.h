/* SPDX-License-Identifier: MIT */
/*
 * A processor with a little physical memory, for tests of the model's output:
 * bytes are output directly, without packet generation.
 */
#ifndef PTAH_TESTS_MODEL_BARE_H
#define PTAH_TESTS_MODEL_BARE_H

#include "random.h"
#include "test.h"

#include "model/processor.h"

#include <stdio.h>
#include <stdlib.h>

#define RIG_BASE  UINT64_C(0x40000000)
#define RIG_BYTES (UINT64_C(1) << 18)
/* The address of the longest table's last entry, if the table begins at RIG_BASE. */
#define RIG_FAR (RIG_BASE + UINT64_C(0x10000000) - 4096)

struct rig {
	struct ptah_model m;
	uint8_t staging[4096];
	uint8_t *memory; /* RIG_BYTES, page-aligned */
	uint8_t *far;	 /* a page */
	unsigned pmis;
	void (*on_pmi)(struct rig *rig);
};

static inline uint8_t *rig_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	struct rig *rig = port;

	if (physical >= RIG_BASE && physical < RIG_BASE + RIG_BYTES) {
		*bytes = RIG_BASE + RIG_BYTES - physical;
		return rig->memory + (physical - RIG_BASE);
	}
	if (physical >= RIG_FAR && physical < RIG_FAR + 4096) {
		*bytes = RIG_FAR + 4096 - physical;
		return rig->far + (physical - RIG_FAR);
	}
	return NULL;
}

static inline void rig_pmi(void *port, unsigned cpu)
{
	struct rig *rig = port;

	assert_int_equal(cpu, 0);
	rig->pmis++;
	if (rig->on_pmi)
		rig->on_pmi(rig);
}

static inline void rig_open(struct rig *rig, const struct ptah_model_processor *processor,
			    uint32_t staging)
{
	memset(rig, 0, sizeof(*rig));
	rig->memory = calloc(1, RIG_BYTES);
	rig->far = calloc(1, 4096);
	assert_non_null(rig->memory);
	assert_non_null(rig->far);
	model_init(&rig->m, processor, rig->staging, staging);
	rig->m.faults.silent = true;
	rig->m.memory = rig_memory;
	rig->m.pmi = rig_pmi;
	rig->m.port = rig;
}

static inline void rig_close(struct rig *rig)
{
	free(rig->memory);
	free(rig->far);
}

static inline uint64_t rig_read(struct rig *rig, uint32_t msr)
{
	uint64_t value;

	assert_int_equal(ptah_model_rdmsr(&rig->m, msr, &value), PTAH_OK);
	return value;
}

static inline void rig_write(struct rig *rig, uint32_t msr, uint64_t value)
{
	assert_int_equal(ptah_model_wrmsr(&rig->m, msr, value), PTAH_OK);
}

static inline void rig_entry(struct rig *rig, uint64_t table, unsigned index, uint64_t entry)
{
	memcpy(rig->memory + (table - RIG_BASE) + 8 * index, &entry, 8);
}

/* Writes through the model's window in bursts of at most `burst` bytes, as a generator does. */
static inline void rig_put(struct rig *rig, const uint8_t *bytes, size_t n, size_t burst)
{
	while (n) {
		size_t part = n < burst ? n : burst;

		model_room(&rig->m);
		memcpy(rig->m.g.out, bytes, part);
		rig->m.g.out += part;
		bytes += part;
		n -= part;
	}
}

/* A CPUID register of a random processor: bits that have a meaning, and others. */
static inline struct ptah_model_processor rig_random_processor(uint64_t *seed)
{
	struct ptah_model_processor p = *ptah_model_find("maximal");

	p.name = "random";
	p.physical_bits = (uint8_t)(36 + random_next(seed) % 17);
	p.linear_bits = random_next(seed) & 1 ? 48 : 57;
	p.perfmon = (uint8_t)(random_next(seed) % 6);
	p.pt = random_next(seed) % 8 != 0;
	p.vmx = random_next(seed) & 1;
	p.vmx_pt = p.vmx && random_next(seed) & 1;
	p.xsaves = random_next(seed) & 1;
	p.branch_required = random_next(seed) % 4 == 0;
	p.leaf_14_0[0] = random_next(seed) % 4 != 0;
	p.leaf_14_0[1] = (uint32_t)random_next(seed) & 0x1ff;
	p.leaf_14_0[2] = (uint32_t)random_next(seed) & 0x8000000f;
	p.leaf_14_1[0] = ((uint32_t)random_next(seed) & 0xffff0000) | random_next(seed) % 5;
	p.leaf_14_1[1] = (uint32_t)random_next(seed);
	return p;
}

#endif
