/* SPDX-License-Identifier: MIT */
/*
 * Resets and INIT. QEMU calls a function when the system is reset, while no virtual CPU runs; each
 * CPU resets its model before it does anything else. An INIT makes no call: the CPU is found at the
 * reset vector, or gets a SIPI.
 */
#include "record/system/system.h"

static atomic_uint resets;

static void on_reset(void *unused)
{
	(void)unused;
	atomic_fetch_add(&resets, 1);
}

void system_reset_begin(struct system_vcpu *v)
{
	static atomic_bool begun;

	if (!atomic_exchange(&begun, true)) {
		host.lock(__FILE__, __LINE__);
		host.on_reset(on_reset, NULL);
		host.unlock();
	}
	v->resets = atomic_load(&resets);
}

/* QEMU's reset is a warm one: memory keeps its content. */
void system_check_reset(struct system_vcpu *v)
{
	const unsigned now = atomic_load_explicit(&resets, memory_order_relaxed);

	if (LIKELY(v->resets == now))
		return;
	v->resets = now;
	if (v->outside) {
		outside_reset(v);
		return;
	}
	system_end_isolation(v);
	system_flow_end(v);
	v->running = NULL;
	ptah_model_reset(v->model, false);
	system_registers_init(&v->registers, v->model);
	v->xcr0 = 1;
	v->pmi_waits = false;
	system_debug("processor %u: reset", v->index);
}

/* SDM volume 3, "Processor State After Reset": CS:RIP is F000:FFF0, and CS.base is FFFF0000H. */
bool system_at_reset_vector(uint64_t ip, uint64_t base)
{
	return ip == 0xfffffff0 && base == 0xffff0000;
}
