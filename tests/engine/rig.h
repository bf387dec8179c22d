/* SPDX-License-Identifier: MIT */
/*
 * An engine on a simulated machine, and output whose order can be checked.
 * Instead of packets a processor here writes numbered marks of 16 bytes;
 * between them there may be the packets that it writes by itself when tracing
 * starts and stops. So a test knows without the engine what a capture's buffer
 * should contain: the marks in order, none missing, and as many bytes as the
 * processor has counted.
 */
#ifndef PTAH_TESTS_ENGINE_RIG_H
#define PTAH_TESTS_ENGINE_RIG_H

#include <ptah/engine/engine.h>
#include <ptah/model/machine.h>

#include "base/bits.h"
#include "pages.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>

#define RIG_ARENA ((size_t)64 << 20)
#define MARK	  16u

struct rig {
	struct ptah_machine *machine;
	struct ptah_hal hal;
	struct ptah_engine *engine;
	void *arena;
	size_t arena_size;
	uint64_t next;	     /* number of the next mark */
	atomic_uint foreign; /* PMIs that the engine did not claim */
};

static inline void rig_pmi(void *argument, unsigned cpu)
{
	struct rig *rig = argument;

	(void)cpu;
	if (ptah_engine_pmi(rig->engine) == PTAH_PMI_NONE)
		atomic_fetch_add(&rig->foreign, 1);
}

/* Opens a machine with this much memory at that address. */
static inline void rig_open_at(struct rig *rig, const struct ptah_model_processor *processor,
			       unsigned cpus, size_t arena, uint64_t physical)
{
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = cpus,
	    .processor = processor,
	    .arena_size = arena,
	    .physical = physical,
	};

	memset(rig, 0, sizeof(*rig));
	rig->machine = calloc(1, ptah_machine_size(cpus));
	rig->arena_size = arena;
	rig->arena = pages_new(arena);
	assert_non_null(rig->machine);
	config.arena = rig->arena;
	assert_int_equal(ptah_machine_init(rig->machine, &config), PTAH_OK);
	ptah_machine_hal(rig->machine, &rig->hal);
	assert_int_equal(ptah_engine_new(&rig->hal, rig->machine, &rig->engine), PTAH_OK);
	ptah_machine_on_pmi(rig->machine, rig_pmi, rig);
}

static inline void rig_open(struct rig *rig, const struct ptah_model_processor *processor,
			    unsigned cpus)
{
	rig_open_at(rig, processor, cpus, RIG_ARENA, 0x10000000);
}

/* Closes it; no memory is left allocated, and no rule of hal.h was broken. */
static inline void rig_close(struct rig *rig)
{
	const char *violation;

	assert_int_equal(ptah_engine_free(rig->engine), PTAH_OK);
	violation = ptah_machine_violation(rig->machine);
	if (violation)
		fail_msg("%s", violation);
	assert_int_equal(ptah_machine_allocated(rig->machine), 0);
	assert_int_equal(ptah_machine_mapped(rig->machine), 0);
	free(rig->machine);
	pages_free(rig->arena, rig->arena_size);
}

static inline struct ptah_capture_config rig_config(struct rig *rig,
						    struct ptah_trace_config *trace)
{
	ptah_trace_config_default(ptah_engine_caps(rig->engine, 0), trace);
	return (struct ptah_capture_config){
	    .size = sizeof(struct ptah_capture_config),
	    .trace = trace,
	    .buffer = 65536,
	};
}

/* A magic number, the mark's number, and that inverted: half a mark is not taken for one. */
static inline void rig_write_mark(uint8_t mark[MARK], uint64_t number)
{
	store_le32(mark, 0x9cb3e1d7);
	store_le(mark + 4, number, 6);
	store_le(mark + 10, ~number, 6);
}

static inline uint64_t rig_number(const uint8_t *p)
{
	return load_le(p + 4, 6);
}

static inline bool rig_is_mark(const uint8_t *p)
{
	return load_le32(p) == 0x9cb3e1d7 &&
	       rig_number(p) == (~load_le(p + 10, 6) & UINT64_C(0xffffffffffff));
}

static inline void rig_mark(struct rig *rig, unsigned cpu, unsigned n)
{
	uint8_t mark[MARK];

	for (; n; n--) {
		rig_write_mark(mark, rig->next++);
		ptah_machine_put(rig->machine, cpu, mark, MARK);
	}
}

/* The bytes [from, to) of a capture; the caller frees. */
static inline uint8_t *rig_bytes(struct ptah_capture *c, uint64_t from, uint64_t to)
{
	struct ptah_piece pieces[3];
	uint8_t *bytes = malloc(to - from + 1);
	uint64_t at = from;

	assert_non_null(bytes);
	while (at < to) {
		int n = ptah_capture_pieces(c, at, to, pieces, 3), i;

		assert_true(n > 0);
		for (i = 0; i < n; i++) {
			memcpy(bytes + (at - from), pieces[i].address, pieces[i].size);
			at += pieces[i].size;
		}
	}
	assert_int_equal(at, to);
	return bytes;
}

/*
 * The bytes [from, to) contain the marks from `first` upwards, one after
 * another, and at most `others` other bytes. Returns the number after the last
 * mark's.
 */
static inline uint64_t rig_check(struct ptah_capture *c, uint64_t from, uint64_t to, uint64_t first,
				 size_t others)
{
	uint8_t *bytes = rig_bytes(c, from, to);
	size_t n = (size_t)(to - from), i, none = 0;
	bool any = first != UINT64_MAX;

	for (i = 0; i < n;) {
		if (n - i >= MARK && rig_is_mark(bytes + i)) {
			uint64_t number = rig_number(bytes + i);

			if (any)
				assert_int_equal(number, first);
			first = number + 1;
			any = true;
			i += MARK;
		} else {
			none++;
			i++;
		}
	}
	free(bytes);
	if (none > others)
		fail_msg("%zu bytes that are no mark, at most %zu expected", none, others);
	return first;
}

static inline struct ptah_capture_status rig_status(const struct ptah_capture *c)
{
	struct ptah_capture_status status = {.size = sizeof(status)};

	assert_int_equal(ptah_capture_status(c, &status), PTAH_OK);
	return status;
}

static inline uint64_t rig_output(struct rig *rig, unsigned cpu)
{
	uint64_t dropped;

	return ptah_model_output_bytes(ptah_machine_model(rig->machine, cpu), &dropped);
}

static inline bool rig_enabled(struct rig *rig, unsigned cpu)
{
	uint64_t ctl = 0;

	ptah_model_rdmsr(ptah_machine_model(rig->machine, cpu), PTAH_IA32_RTIT_CTL, &ctl);
	return ctl & PTAH_RTIT_CTL_TRACE_EN;
}

static inline struct ptah_capture *rig_capture(struct rig *rig,
					       const struct ptah_capture_config *config)
{
	struct ptah_trace_problem problem = {0};
	struct ptah_capture *c = NULL;
	int status = ptah_capture_new(rig->engine, config, &c, &problem);

	if (status != PTAH_OK)
		fail_msg("%d: %s: %s", status, problem.field, problem.reason);
	return c;
}

static inline uint32_t rig_flags(struct ptah_capture *c)
{
	struct ptah_capture_record records[16];
	uint32_t flags = 0;
	int n, i;

	while ((n = ptah_capture_records(c, records, 16)) > 0) {
		for (i = 0; i < n; i++)
			flags |= records[i].flags;
	}
	return flags;
}

#endif
