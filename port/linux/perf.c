/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Keeps perf's intel_pt away while the module traces. The function by which perf's own drivers
 * exclude each other, x86_add_exclusive(), is not exported to modules. But a perf event of intel_pt
 * calls it, and perf gives that PMU to one event per processor: an event that is disabled for ever,
 * on each processor, makes all others fail with EBUSY, and cannot be had while there are others.
 */
#include "module.h"

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

static int pmu_type = -1;

static DEFINE_MUTEX(hold_lock);
static unsigned int holds;
static struct perf_event **held; /* nr_cpu_ids of them */
static struct cpumask gone; /* processors that went offline, where perf has removed the event */

/* Perf assigns the number when it registers the PMU, and shows it in a file alone. */
void port_perf_find(void)
{
	struct file *file;
	char text[16];
	ssize_t n;
	loff_t at = 0;

	file = filp_open("/sys/bus/event_source/devices/intel_pt/type", O_RDONLY, 0);
	if (IS_ERR(file))
		return;
	n = kernel_read(file, text, sizeof(text) - 1, &at);
	if (n > 0) {
		text[n] = 0;
		if (kstrtoint(strim(text), 10, &pmu_type))
			pmu_type = -1;
	}
	filp_close(file, NULL);
}

bool port_perf_found(void)
{
	return pmu_type >= 0;
}

/* Under hold_lock. -EBUSY: perf has events of this PMU. */
static int hold_cpu(unsigned int cpu)
{
	struct perf_event_attr attr = {
	    .type = (u32)pmu_type,
	    .size = sizeof(attr),
	    .disabled = 1,
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	};
	struct perf_event *event;

	if (held[cpu] && !cpumask_test_and_clear_cpu((int)cpu, &gone))
		return 0;
	if (held[cpu])
		perf_event_release_kernel(held[cpu]);
	held[cpu] = NULL;
	event = perf_event_create_kernel_counter(&attr, (int)cpu, NULL, NULL, NULL);
	if (!IS_ERR(event))
		held[cpu] = event;
	else if (PTR_ERR(event) == -EBUSY)
		return -EBUSY;
	/* Other failures: the processor has just gone offline, or perf does not know it. */
	return 0;
}

static void release_all(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		if (held[cpu])
			perf_event_release_kernel(held[cpu]);
	}
	kfree(held);
	held = NULL;
}

int port_perf_hold(void)
{
	unsigned int cpu;
	int result = 0;

	if (pmu_type < 0)
		return 0;
	mutex_lock(&hold_lock);
	if (!holds) {
		held = kcalloc(nr_cpu_ids, sizeof(*held), GFP_KERNEL);
		if (!held)
			result = -ENOMEM;
		for (cpu = 0; cpu < nr_cpu_ids && !result; cpu++) {
			if (cpu_online(cpu))
				result = hold_cpu(cpu);
		}
		if (result && held)
			release_all();
	}
	holds += !result;
	mutex_unlock(&hold_lock);
	return result;
}

void port_perf_release(void)
{
	if (pmu_type < 0)
		return;
	mutex_lock(&hold_lock);
	if (!--holds)
		release_all();
	mutex_unlock(&hold_lock);
}

void port_perf_offline(unsigned int cpu)
{
	cpumask_set_cpu((int)cpu, &gone);
}

void port_perf_online(void)
{
	unsigned int cpu;

	mutex_lock(&hold_lock);
	for (cpu = 0; cpu < nr_cpu_ids && holds; cpu++) {
		if (cpu_online(cpu) && hold_cpu(cpu))
			pr_warn("perf uses Intel PT on processor %u, which came online\n", cpu);
	}
	mutex_unlock(&hold_lock);
}
