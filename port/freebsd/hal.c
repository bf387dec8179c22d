/* SPDX-License-Identifier: MIT */
/* What the capture engine needs from FreeBSD's kernel: include/ptah/engine/hal.h. */
#include "port.h"

static struct sx engine_lock;
SX_SYSINIT(ptah_engine_lock, &engine_lock, "ptah engine");

static int port_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	(void)port;
	return rdmsr_safe(msr, value) ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static int port_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	(void)port;
	return wrmsr_safe(msr, value) ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static void port_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	(void)port;
	cpuid_count(leaf, subleaf, registers);
}

static void port_fence(void *port)
{
	(void)port;
	sfence();
}

static unsigned port_cpu(void *port)
{
	(void)port;
	return (unsigned)curcpu;
}

static unsigned port_cpus(void *port)
{
	(void)port;
	return mp_maxid + 1;
}

static uint64_t port_irq_save(void *port)
{
	(void)port;
	return intr_disable();
}

static void port_irq_restore(void *port, uint64_t state)
{
	(void)port;
	intr_restore(state);
}

static void port_lock(void *port)
{
	(void)port;
	sx_xlock(&engine_lock);
}

static void port_unlock(void *port)
{
	(void)port;
	sx_xunlock(&engine_lock);
}

static int port_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	(void)port;
	if (memory->cpu >= 0)
		memory->address = contigmalloc_domainset(
		    size, M_PTAH, DOMAINSET_PREF(pcpu_find(memory->cpu)->pc_domain),
		    M_WAITOK | M_ZERO, 0, ~(vm_paddr_t)0, align, 0);
	else
		memory->address =
		    contigmalloc(size, M_PTAH, M_WAITOK | M_ZERO, 0, ~(vm_paddr_t)0, align, 0);
	if (!memory->address)
		return PTAH_E_NOMEM;
	memory->physical = vtophys(memory->address);
	memory->size = size;
	return PTAH_OK;
}

static void port_release(void *port, const struct ptah_hal_memory *memory)
{
	(void)port;
	contigfree(memory->address, memory->size, M_PTAH);
}

static int port_run_on(void *port, unsigned cpu, void (*work)(void *), void *argument)
{
	cpuset_t set;

	(void)port;
	if (cpu > mp_maxid || CPU_ABSENT(cpu))
		return PTAH_E_OFFLINE;
	CPU_SETOF(cpu, &set);
	smp_rendezvous_cpus(set, smp_no_rendezvous_barrier, work, smp_no_rendezvous_barrier,
			    argument);
	return PTAH_OK;
}

static int port_run_on_all(void *port, const uint64_t *mask, void (*work)(void *), void *argument)
{
	cpuset_t set;
	u_int cpu;

	(void)port;
	CPU_ZERO(&set);
	for (cpu = 0; cpu <= mp_maxid; cpu++) {
		if (mask[cpu / 64] >> cpu % 64 & 1 && !CPU_ABSENT(cpu))
			CPU_SET(cpu, &set);
	}
	smp_rendezvous_cpus(set, smp_no_rendezvous_barrier, work, smp_no_rendezvous_barrier,
			    argument);
	return PTAH_OK;
}

/* NMI. Not zero: the interrupt was ours. */
static int handle_nmi(struct trapframe *frame)
{
	(void)frame;
	return pt_engine && ptah_engine_pmi(pt_engine) != PTAH_PMI_NONE;
}

static int port_pmi_enable(void *port, bool on)
{
	(void)port;
	if (!on) {
		lapic_disable_pcint();
		nmi_remove_handler(handle_nmi);
		return PTAH_OK;
	}
	nmi_register_handler(handle_nmi);
	if (lapic_enable_pcint())
		return PTAH_OK;
	nmi_remove_handler(handle_nmi);
	return PTAH_E_SYSTEM;
}

static void port_pmi_unmask(void *port)
{
	(void)port;
	lapic_reenable_pcint();
}

static void port_wake(void *port, void *cookie)
{
	(void)port;
	pt_report(cookie);
}

/* No xsaves: the kernel does not keep IA32_XSS[8] set, and registers can be written one by one. */
const struct ptah_hal pt_hal = {
    .size = sizeof(struct ptah_hal),
    .rdmsr = port_rdmsr,
    .wrmsr = port_wrmsr,
    .cpuid = port_cpuid,
    .fence = port_fence,
    .cpu = port_cpu,
    .cpus = port_cpus,
    .irq_save = port_irq_save,
    .irq_restore = port_irq_restore,
    .lock = port_lock,
    .unlock = port_unlock,
    .alloc = port_alloc,
    .release = port_release,
    .run_on = port_run_on,
    .run_on_all = port_run_on_all,
    .pmi_enable = port_pmi_enable,
    .pmi_unmask = port_pmi_unmask,
    .wake = port_wake,
};
