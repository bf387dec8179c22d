/* SPDX-License-Identifier: MIT */
/*
 * The notes for a reader of the machine's memory after a crash (crash_note.h). The list of captures
 * is whole at every instruction: an entry has its successor before it can be reached, and one that
 * leaves is skipped by a single store.
 */
#include "engine/internal.h"

_Static_assert(sizeof(bool) == 1 && sizeof(atomic_bool) == 1 && sizeof(atomic_int) == 4 &&
		   sizeof(atomic_llong) == 8,
	       "sizes that the notes promise");

#define FROM_NOTE(field)                                                                           \
	((uint32_t)(offsetof(struct ptah_capture, field) - offsetof(struct ptah_capture, crash)))

void crash_begin(struct ptah_engine *engine)
{
	engine->crash = (struct ptah_crash_note){
	    .magic = PTAH_CRASH_MAGIC,
	    .version = PTAH_CRASH_VERSION,
	    .size = sizeof(engine->crash),
	    .physical = engine->memory.physical + offsetof(struct ptah_engine, crash),
	};
}

uint64_t ptah_engine_crash_note(const struct ptah_engine *engine)
{
	return engine ? engine->crash.physical : 0;
}

void crash_link(struct ptah_engine *engine, struct ptah_capture *before,
		const struct ptah_capture *after)
{
	uint64_t *next = before ? &before->crash.next : &engine->crash.first;

	__atomic_store_n(next, after ? after->crash.physical : 0, __ATOMIC_RELEASE);
}

/* The physical address of something in the capture's lists. */
static uint64_t in_lists(const struct ptah_capture *c, const void *address)
{
	return c->lists.physical +
	       (uint64_t)((const uint8_t *)address - (const uint8_t *)c->lists.address);
}

static void describe_buffer(struct ptah_capture *c, struct ptah_crash_capture *n)
{
	n->layout = c->swap ? PTAH_CRASH_REGIONS : PTAH_CRASH_RING;
	n->shape = c->shape;
	n->buffer = c->topa.lap;
	n->region = c->topa.region;
	n->regions = c->topa.regions;
	n->blocks = in_lists(c, c->topa.blocks);
	n->starts = c->swap ? in_lists(c, (void *)c->starts_of) : 0;
	n->block_step = sizeof(struct ptah_hal_memory);
	n->block_address = offsetof(struct ptah_hal_memory, physical);
	n->block_size = offsetof(struct ptah_hal_memory, size);
}

static void describe_variables(struct ptah_crash_capture *n)
{
	n->position_at = FROM_NOTE(position);
	n->floor_at = FROM_NOTE(floor);
	n->fills_at = FROM_NOTE(fills);
	n->ctl_at = FROM_NOTE(ctl);
	n->cr3_at = FROM_NOTE(trace.cr3);
	n->owner_at = FROM_NOTE(owner);
	n->cpu_at = FROM_NOTE(cpu);
	n->holder_at = FROM_NOTE(holder);
	n->running_at = FROM_NOTE(running);
	n->policy_at = FROM_NOTE(policy);
	n->blocks_at = FROM_NOTE(topa.nblocks);
	n->ranges_at = FROM_NOTE(trace.ranges[0].first);
	n->range_step = sizeof(struct ptah_range);
}

static void describe_processor(struct ptah_crash_capture *n, const struct ptah_caps *caps)
{
	if (!caps)
		return;
	n->family = caps->cpu.family;
	n->model = caps->cpu.model;
	n->stepping = caps->cpu.stepping;
	n->nominal_ratio = caps->nominal_ratio;
	n->tsc_n = caps->tsc_n;
	n->tsc_d = caps->tsc_d;
	n->crystal_hz = caps->crystal_hz;
}

/* Both: busy, or while the capture is not in use. */
void crash_change(struct ptah_capture *c)
{
	__atomic_store_n(&c->crash.sequence, c->crash.sequence | 1, __ATOMIC_SEQ_CST);
}

void crash_describe(struct ptah_capture *c, int cpu)
{
	struct ptah_crash_capture *n = &c->crash;

	crash_change(c);
	n->size = sizeof(*n);
	n->physical = c->memory.physical + offsetof(struct ptah_capture, crash);
	describe_buffer(c, n);
	describe_variables(n);
	describe_processor(n, engine_caps_of(c->engine, cpu < 0 ? 0 : (unsigned)cpu));
	__atomic_store_n(&n->sequence, n->sequence + 1, __ATOMIC_SEQ_CST);
}
