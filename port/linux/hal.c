/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The engine's port (hal.h) to Linux. PMIs come as NMIs: perf sets the LVT entry to that anyway,
 * and the trace then reports a full buffer also where the kernel has interrupts off.
 */
#include "module.h"

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/smp.h>
#include <linux/version.h>

#include <asm/apic.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/processor.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define rdmsrl_safe rdmsrq_safe
#define wrmsrl_safe wrmsrq_safe
#endif

static unsigned int limit;
module_param(limit, uint, 0644);
MODULE_PARM_DESC(limit, "megabytes of all buffers and tables together; 0: a quarter of the memory");

static atomic64_t used;

static DEFINE_MUTEX(engine_lock);

static int port_rdmsr(void *port, u32 msr, u64 *value)
{
	unsigned long long v = 0;

	if (rdmsrl_safe(msr, &v))
		return PTAH_E_UNSUPPORTED;
	*value = v;
	return PTAH_OK;
}

static int port_wrmsr(void *port, u32 msr, u64 value)
{
	return wrmsrl_safe(msr, value) ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static void port_cpuid(void *port, u32 leaf, u32 subleaf, u32 registers[4])
{
	cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2], &registers[3]);
}

static void port_fence(void *port)
{
	asm volatile("sfence" ::: "memory");
}

static unsigned int port_cpu(void *port)
{
	return raw_smp_processor_id();
}

static unsigned int port_cpus(void *port)
{
	return nr_cpu_ids;
}

static u64 port_irq_save(void *port)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

static void port_irq_restore(void *port, u64 state)
{
	local_irq_restore((unsigned long)state);
}

static void port_lock(void *port)
{
	mutex_lock(&engine_lock);
}

static void port_unlock(void *port)
{
	mutex_unlock(&engine_lock);
}

u64 port_memory_limit(void)
{
	unsigned int megabytes = READ_ONCE(limit);

	return megabytes ? (u64)megabytes << 20 : ((u64)totalram_pages() << PAGE_SHIFT) / 4;
}

u64 port_memory_used(void)
{
	return (u64)atomic64_read(&used);
}

/* Takes this much of the limit. */
static bool charge(size_t size)
{
	if ((u64)atomic64_add_return((s64)size, &used) <= port_memory_limit())
		return true;
	atomic64_sub((s64)size, &used);
	return false;
}

/*
 * The page allocator aligns a block to its size, which is a power of two: what is more than the
 * request is returned to it, so that the block can be mapped into a process as it is. Memory is
 * that of the local node.
 */
static int port_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | __GFP_NORETRY;
	unsigned int order;
	struct page *page;
	size_t n;

	if (!size || size > SIZE_MAX / 2 || align > SIZE_MAX / 2)
		return PTAH_E_NOMEM;
	size = PAGE_ALIGN(size);
	order = get_order(max(size, align));
	if (!charge(size))
		return PTAH_E_NOMEM;
	page = alloc_pages(order ? gfp : gfp & ~__GFP_NORETRY, order);
	if (!page) {
		atomic64_sub((s64)size, &used);
		return PTAH_E_NOMEM;
	}
	split_page(page, order);
	for (n = size >> PAGE_SHIFT; n < 1ul << order; n++)
		__free_page(page + n);
	*memory = (struct ptah_hal_memory){
	    .address = page_address(page),
	    .physical = page_to_phys(page),
	    .size = size,
	};
	return PTAH_OK;
}

static void port_release(void *port, const struct ptah_hal_memory *memory)
{
	struct page *page = virt_to_page(memory->address);
	const size_t size = memory->size;
	size_t n;

	for (n = 0; n < size >> PAGE_SHIFT; n++)
		__free_page(page + n);
	atomic64_sub((s64)size, &used);
}

static int port_run_on(void *port, unsigned int cpu, void (*work)(void *), void *argument)
{
	if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
		return PTAH_E_OFFLINE;
	return smp_call_function_single((int)cpu, work, argument, 1) ? PTAH_E_OFFLINE : PTAH_OK;
}

static int port_run_on_all(void *port, const u64 *mask, void (*work)(void *), void *argument)
{
	cpumask_var_t cpus;

	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return PTAH_E_NOMEM;
	bitmap_copy(cpumask_bits(cpus), (const unsigned long *)mask, nr_cpu_ids);
	cpus_read_lock();
	on_each_cpu_mask(cpus, work, argument, true);
	cpus_read_unlock();
	free_cpumask_var(cpus);
	return PTAH_OK;
}

static int pmi_handler(unsigned int type, struct pt_regs *regs)
{
	struct ptah_engine *engine = READ_ONCE(port_engine);

	/* Also what came late is claimed, or the kernel reports an NMI without a reason. */
	return engine && ptah_engine_pmi(engine) != PTAH_PMI_NONE ? NMI_HANDLED : NMI_DONE;
}
NOKPROBE_SYMBOL(pmi_handler);

/* The entry as it was before, for a kernel whose perf does not use it. */
static DEFINE_PER_CPU(u32, lvt_before);

void port_lvt_set(void)
{
	u32 lvt = apic_read(APIC_LVTPC);

	if (GET_APIC_DELIVERY_MODE(lvt) == APIC_MODE_NMI)
		return;
	this_cpu_write(lvt_before, lvt | 0x80000000u);
	apic_write(APIC_LVTPC, APIC_DM_NMI);
}

static void lvt_set(void *unused)
{
	port_lvt_set();
}

static void lvt_reset(void *unused)
{
	u32 lvt = this_cpu_read(lvt_before);

	if (lvt)
		apic_write(APIC_LVTPC, lvt & 0x7fffffffu);
	this_cpu_write(lvt_before, 0);
}

/* NMI_FLAG_FIRST: perf's handler clears the status bit of PT's PMI, whoever uses PT. */
static int port_pmi_enable(void *port, bool on)
{
	if (!boot_cpu_has(X86_FEATURE_APIC))
		return PTAH_E_UNSUPPORTED;
	if (!on) {
		unregister_nmi_handler(NMI_LOCAL, "ptah");
		on_each_cpu(lvt_reset, NULL, 1);
		return PTAH_OK;
	}
	if (register_nmi_handler(NMI_LOCAL, pmi_handler, NMI_FLAG_FIRST, "ptah"))
		return PTAH_E_SYSTEM;
	on_each_cpu(lvt_set, NULL, 1);
	return PTAH_OK;
}

static void port_pmi_unmask(void *port)
{
	apic_write(APIC_LVTPC, APIC_DM_NMI);
}

/* The engine calls this under the scheduler's locks and in NMIs, where nobody can be woken. */
static void port_wake(void *port, void *cookie)
{
	struct port_capture *c = cookie;

	if (c)
		irq_work_queue(&c->wake);
}

static int port_user_map(void *port, u64 owner, const struct ptah_hal_memory *pieces, size_t n,
			 bool writable, u64 *address)
{
	return port_map_pieces(owner, pieces, n, address);
}

/* munmap() has removed the pages: map.c. */
static void port_user_unmap(void *port, u64 owner, u64 address, size_t size)
{
}

/* XSAVES is left out: the kernel itself would switch PT's component with its threads. */
const struct ptah_hal port_hal = {
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
    .user_map = port_user_map,
    .user_unmap = port_user_unmap,
    .log = port_log,
};
