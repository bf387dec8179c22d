/* SPDX-License-Identifier: MIT */
/*
 * Which translated code calls the plugin, and how long descriptions of blocks live.
 *
 * While no virtual CPU traces, the plugin needs to see nothing but the instructions that it carries
 * out itself, and a call for each block would make the guest half as slow again. So only few blocks
 * call the plugin then. When a virtual CPU begins to trace, QEMU throws its translations away, and
 * from then on all blocks call it, until nobody has traced for a while.
 */
#include "record/system/system.h"

#include <pthread.h>
#include <stdlib.h>

#define CACHE_LINE 64

/*
 * A virtual CPU looks each so many blocks whether tracing has rested: about half a second, so that
 * translating again, which costs a tenth of it, is rare also for a driver that switches tracing on
 * and off with each thread.
 */
#define BLOCKS_PER_REST (UINT64_C(1) << 26)

/*
 * Guards these, and their relation to want_all and have_all. A flush that was requested after the
 * lock was released comes later, but before the virtual CPU that requested it runs another block.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned tracing; /* virtual CPUs whose TraceEn is 1 */
static uint64_t starts;	 /* how often the TraceEn of one has become 1 */

struct system_block *system_new_block(size_t n)
{
	/* Most blocks are one line of the processor's cache. */
	const size_t size = (sizeof(struct system_block) + n + CACHE_LINE - 1) / CACHE_LINE;
	struct system_block *b = aligned_alloc(CACHE_LINE, size * CACHE_LINE);

	if (!b)
		system_no_memory();
	memset(b, 0, size * CACHE_LINE);
	b->ninsn = (uint16_t)n;
	b->next = atomic_load(&system_plugin.blocks);
	while (!atomic_compare_exchange_weak(&system_plugin.blocks, &b->next, b))
		;
	return b;
}

static bool is_running(const struct system_block *b)
{
	for (unsigned i = 0; i < system_plugin.max_vcpus; i++)
		if (system_plugin.vcpus[i] && system_plugin.vcpus[i]->running == b)
			return true;
	return false;
}

/*
 * QEMU has thrown all translations away; no virtual CPU is in translated code. Only the blocks that
 * have ended, and whose successors are not known yet, are still needed.
 */
static void on_flush(qemu_plugin_id_t id)
{
	struct system_block *b = atomic_exchange(&system_plugin.blocks, NULL), *next, *kept = NULL;

	(void)id;
	for (; b; b = next) {
		next = b->next;
		if (is_running(b)) {
			b->next = kept;
			kept = b;
		} else {
			free(b->code);
			free(b->code);
			free(b);
		}
	}
	atomic_store(&system_plugin.blocks, kept);
	atomic_store(&system_plugin.have_all, atomic_load(&system_plugin.want_all));
}

/*
 * A virtual CPU begins in 16-bit code, and there the plugin makes its struct system_vcpu. Some of
 * this code may have been translated by another CPU.
 */
bool system_wants_block(const struct system_block *b, const void *cpu)
{
	return atomic_load(&system_plugin.want_all) || b->trap || b->mode == PTAH_EXEC_16 ||
	       !system_vcpu_of(cpu);
}

static void flush(void *cpu, union host_data data)
{
	(void)data;
	host.flush(cpu);
}

/*
 * QEMU 10.0 flushes at once where there is one virtual CPU, also while this CPU is in translated
 * code, in a block whose description would be freed. Work that needs all CPUs to stand still is
 * always done outside.
 */
static void request_flush(struct system_vcpu *v)
{
	const union host_data none = {.word = 0};

	host.run_alone(v->cpu, flush, none);
}

void system_tracing(struct system_vcpu *v, bool on)
{
	bool needs_flush = false;

	if (v->traced == on)
		return;
	v->traced = on;
	pthread_mutex_lock(&lock);
	if (on) {
		tracing++;
		starts++;
		atomic_store(&system_plugin.want_all, true);
		needs_flush = !system_plugin.have_all;
	} else {
		tracing--;
	}
	pthread_mutex_unlock(&lock);
	if (needs_flush)
		request_flush(v);
}

/* Whether no virtual CPU traces, and none has since v looked the last time. */
static bool has_rested(struct system_vcpu *v)
{
	bool rested = false;

	pthread_mutex_lock(&lock);
	if (!tracing && starts == v->starts_seen && !system_plugin.all_blocks &&
	    system_plugin.want_all) {
		atomic_store(&system_plugin.want_all, false);
		atomic_store(&system_plugin.have_all, false);
		rested = true;
	}
	v->starts_seen = starts;
	pthread_mutex_unlock(&lock);
	return rested;
}

void system_rest(struct system_vcpu *v)
{
	v->next_rest = v->blocks + BLOCKS_PER_REST;
	if (!has_rested(v))
		return;
	request_flush(v);
	system_debug("nobody traces: few blocks call the plugin from now on");
}

void system_translation_init(qemu_plugin_id_t id)
{
	/* QEMU's clock of instructions is read where blocks begin. */
	if (*host.icount || outside_is_open())
		system_plugin.all_blocks = true;
	system_plugin.want_all = system_plugin.have_all = system_plugin.all_blocks;
	qemu_plugin_register_flush_cb(id, on_flush);
}
