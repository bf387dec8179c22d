/* SPDX-License-Identifier: MIT */
/*
 * A processor that writes its trace into one large region, and a comparison of
 * this trace with packets written as text (ptah-asm(1)).
 */
#ifndef PTAH_TESTS_MODEL_RIG_H
#define PTAH_TESTS_MODEL_RIG_H

#include "pages.h"
#include "test.h"

#include "model/trace.h"

#include <ptah/event.h>

#include <stdio.h>
#include <stdlib.h>

#define RIG_TABLE  UINT64_C(0x1000)
#define RIG_REGION UINT64_C(0x8000000) /* the largest region size */
#define RIG_SIZE   UINT64_C(0x8000000)
#define RIG_SMALL  (1u << 16)

#define RIG_CTL                                                                                    \
	(PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_USER |     \
	 PTAH_RTIT_CTL_BRANCH_EN)

struct rig {
	struct ptah_model *m;
	uint8_t *memory; /* the first `size` bytes of the region */
	size_t size;
	uint64_t table[2];
	uint64_t ctl;
};

static inline uint8_t *rig_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	struct rig *rig = port;

	if (physical >= RIG_TABLE && physical < RIG_TABLE + sizeof(rig->table)) {
		*bytes = RIG_TABLE + sizeof(rig->table) - physical;
		return (uint8_t *)rig->table + (physical - RIG_TABLE);
	}
	if (physical < RIG_REGION || physical >= RIG_REGION + rig->size)
		return NULL;
	*bytes = RIG_REGION + rig->size - physical;
	return rig->memory + (physical - RIG_REGION);
}

static inline void rig_set(struct rig *rig, uint32_t msr, uint64_t value)
{
	assert_int_equal(ptah_model_wrmsr(rig->m, msr, value), PTAH_OK);
}

/* Opens a processor whose trace has at most `size` bytes. */
static inline struct rig *rig_new(const char *processor, size_t size)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct ptah_model_config config = {.size = sizeof(config),
					   .processor = ptah_model_find(processor),
					   .memory = rig_memory,
					   .port = rig};

	assert_non_null(rig);
	rig->size = size;
	rig->memory = pages_new(size);
	rig->m = malloc(ptah_model_size());
	assert_non_null(rig->m);
	assert_int_equal(ptah_model_init(rig->m, &config), PTAH_OK);
	rig->table[0] = RIG_REGION | UINT64_C(15) << PTAH_TOPA_SIZE;
	rig->table[1] = RIG_TABLE | PTAH_TOPA_END;
	rig->ctl = RIG_CTL;
	rig_set(rig, PTAH_IA32_RTIT_OUTPUT_BASE, RIG_TABLE);
	return rig;
}

static inline void rig_free(struct rig *rig)
{
	pages_free(rig->memory, rig->size);
	free(rig->m);
	free(rig);
}

static inline void rig_start(struct rig *rig)
{
	rig_set(rig, PTAH_IA32_RTIT_CTL, rig->ctl);
}

static inline void rig_stop(struct rig *rig)
{
	rig_set(rig, PTAH_IA32_RTIT_CTL, rig->ctl & ~PTAH_RTIT_CTL_TRACE_EN);
}

static inline uint64_t rig_status(struct rig *rig)
{
	uint64_t status;

	assert_int_equal(ptah_model_rdmsr(rig->m, PTAH_IA32_RTIT_STATUS, &status), PTAH_OK);
	return status;
}

/* Bytes in memory. */
static inline size_t rig_bytes(struct rig *rig)
{
	model_output_settle(rig->m);
	return rig->m->offset;
}

static inline void rig_dump(const uint8_t *bytes, size_t n)
{
	struct ptah_packet p;
	unsigned block = 0;
	char text[128];
	int size;

	for (size_t at = 0; at < n; at += (size_t)size) {
		size = ptah_packet_decode(&p, bytes + at, n - at, block);
		if (size < 0) {
			fprintf(stderr, "\t%zx: error %d\n", at, size);
			return;
		}
		block = ptah_packet_block_state(&p, block);
		ptah_packet_format_line(&p, bytes + at, (size_t)size, text, sizeof(text));
		fprintf(stderr, "\t%s\n", text);
	}
}

/* From byte `from` to its end the trace consists of these packets, with ";" between them. */
static inline void rig_expect_from(struct rig *rig, size_t from, const char *text)
{
	struct ptah_packet_parser parser = {0};
	uint8_t expected[4096];
	size_t n = 0, have = rig_bytes(rig) - from;
	char line[256];

	while (*text) {
		size_t length = strcspn(text, ";");
		int size;

		assert_true(length < sizeof(line));
		memcpy(line, text, length);
		line[length] = 0;
		size = ptah_packet_parse(&parser, line, expected + n, sizeof(expected) - n);
		if (size < 0)
			fail_msg("\"%s\": %s", line, parser.expected);
		n += (size_t)size;
		text += length + (text[length] == ';');
	}
	if (n == have && !memcmp(expected, rig->memory + from, n))
		return;
	fprintf(stderr, "expected\n");
	rig_dump(expected, n);
	fprintf(stderr, "but\n");
	rig_dump(rig->memory + from, have);
	fail();
}

/* The same for the whole trace. */
static inline void rig_expect(struct rig *rig, const char *text)
{
	rig_expect_from(rig, 0, text);
}

#endif
