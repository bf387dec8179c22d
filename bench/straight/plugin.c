/* SPDX-License-Identifier: MIT */
/*
 * The recorder's plugin without the capture engine, to measure what the engine
 * costs: a thread's packets go directly into its trace buffer. Replaces
 * record/qemu/plugin/thread_output.c and model/output.c; there is no ToPA and
 * no PMI. Built as ptah-qemu-straight.so for bench/run alone.
 */
#include "record/qemu/plugin/plugin.h"

#include <stdlib.h>

static const struct ptah_model_processor processor = {
    .name = "straight",
    .physical_bits = 52,
    .linear_bits = 48,
    .max_leaf = 0x15,
    .nominal_ratio = SIMULATED_RATIO,
    .pt = true,
    .leaf_14_0 = {1, 0x1ff, 7, 0},
    .leaf_14_1 = {0xffff0004, 0xffffffff, 0, 0},
    .tsc_n = SIMULATED_TSC_N,
    .tsc_d = SIMULATED_TSC_D,
};

uint64_t model_psb_period(const struct ptah_model *m)
{
	return UINT64_C(2048) << (m->ctl >> PTAH_RTIT_CTL_PSB_FREQ & 15);
}

static void wait_for_room(struct shared_thread *t)
{
	uint64_t position = t->live.m.bytes, tail;

	t->checkpoint = t->live;
	atomic_store_explicit(&t->published, position, memory_order_release);
	for (;;) {
		tail = atomic_load_explicit(&t->tail, memory_order_acquire);
		if (position - tail <= plugin.buffer - plugin.buffer / 4 || plugin.recorder_gone)
			break;
		plugin_wait(&t->tail, tail);
	}
	if (plugin.recorder_gone)
		plugin_stop();
}

void model_output_settle(struct ptah_model *m)
{
	struct shared_thread *t = m->port;
	uint64_t n = shared_staged(m), period = model_psb_period(m);
	uint64_t at = m->bytes % plugin.buffer;
	uint64_t first = n < plugin.buffer - at ? n : plugin.buffer - at;
	uint8_t *buffer = shared_buffer(t);

	memcpy(buffer + at, m->staging, first);
	memcpy(buffer, m->staging + first, n - first);
	m->bytes += n;
	m->psb_count += n;
	if (m->psb_count >= period) {
		m->psb_count %= period;
		m->psb_due = true;
	}
	m->g.out = m->staging;
	m->limit = m->staging + (period - m->psb_count < SIMULATED_STAGING - GENERATOR_BURST
				     ? period - m->psb_count
				     : SIMULATED_STAGING - GENERATOR_BURST);
	if (m->bytes - atomic_load_explicit(&t->published, memory_order_relaxed) >=
	    plugin.buffer / 16)
		wait_for_room(t);
}

void model_output_start(struct ptah_model *m)
{
	model_output_settle(m);
}

void model_output_stop(struct ptah_model *m)
{
	model_output_settle(m);
}

void model_output_discard(struct ptah_model *m)
{
	m->g.out = m->staging;
}

void model_output_fence(struct ptah_model *m)
{
	(void)m;
}

bool plugin_output_begin(struct shared_thread *t, uint64_t time)
{
	const struct ptah_model_context kernel = {.mode = PTAH_EXEC_64, .interrupts = true};
	struct ptah_model *m = &t->live.m;

	model_init(m, &processor, shared_staging(t), SIMULATED_STAGING);
	m->port = t;
	ptah_model_begin(m, 0, &kernel);
	m->clock.tsc = time;
	clock_init(&m->clock);
	return ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL,
				ptah_trace_config_ctl(&plugin.shared->trace) |
				    PTAH_RTIT_CTL_TRACE_EN) >= 0;
}

void plugin_output_end(struct shared_thread *t)
{
	ptah_model_wrmsr(&t->live.m, PTAH_IA32_RTIT_CTL, 0);
}

void plugin_output_refresh(struct shared_thread *t)
{
	(void)t;
}

void plugin_output_map(const char *path, uint64_t start, uint64_t end, uint64_t file_offset)
{
	(void)path, (void)start, (void)end, (void)file_offset;
}
