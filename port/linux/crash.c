/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A kernel that crashes: the trace ends there, and a dump of its memory leads to it. An oops that
 * ends the kernel stops the processor's trace before kdump's kernel begins; of other processors a
 * dump has what was traced up to the engine's last look.
 */
#include "module.h"

#include <linux/crash_core.h>
#include <linux/irq_work.h>
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/percpu.h>

static bool panicked;

static void stop_here(void)
{
	struct ptah_engine *engine = READ_ONCE(port_engine);

	if (engine)
		ptah_engine_stop_here(engine);
}

static int on_panic(struct notifier_block *block, unsigned long action, void *data)
{
	WRITE_ONCE(panicked, true);
	stop_here();
	return NOTIFY_DONE;
}

/* Interrupts are on again: the kernel has survived the oops. */
static void survived(struct irq_work *work)
{
	struct ptah_engine *engine = READ_ONCE(port_engine);

	if (engine && !READ_ONCE(panicked))
		ptah_engine_continue_here(engine);
}

static DEFINE_PER_CPU(struct irq_work, survivor) = IRQ_WORK_INIT_HARD(survived);

/* Whether an oops is the end is not said here; kdump's kernel begins without further notice. */
static int on_die(struct notifier_block *block, unsigned long action, void *data)
{
	if (action != DIE_OOPS)
		return NOTIFY_DONE;
	stop_here();
	irq_work_queue(this_cpu_ptr(&survivor));
	return NOTIFY_DONE;
}

/* First of all: what others do is traced otherwise, in the place of what led here. */
static struct notifier_block panic_block = {.notifier_call = on_panic, .priority = INT_MAX};
static struct notifier_block die_block = {.notifier_call = on_die, .priority = INT_MAX};

/*
 * vmcoreinfo_append_str() is not exported; where an indirect call of it is allowed, its address is
 * that of a probe. Nothing can be taken out again: readers take the last line, and check what it
 * leads to. Without the line they search the dump.
 */
static void announce(u64 note)
{
#if defined(CONFIG_KPROBES) && !defined(CONFIG_X86_KERNEL_IBT) && !defined(CONFIG_CFI_CLANG)
	void (*append)(const char *format, ...);
	struct kprobe probe = {.symbol_name = "vmcoreinfo_append_str"};

	if (register_kprobe(&probe))
		return;
	append = (void (*)(const char *, ...))probe.addr;
	unregister_kprobe(&probe);
	append("PTAH_CRASH=%llx\n", (unsigned long long)note);
#endif
}

void port_crash_begin(void)
{
	announce(ptah_engine_crash_note(port_engine));
	register_die_notifier(&die_block);
	atomic_notifier_chain_register(&panic_notifier_list, &panic_block);
}

void port_crash_end(void)
{
	unsigned cpu;

	atomic_notifier_chain_unregister(&panic_notifier_list, &panic_block);
	unregister_die_notifier(&die_block);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (cpu_possible(cpu))
			irq_work_sync(per_cpu_ptr(&survivor, cpu));
}
