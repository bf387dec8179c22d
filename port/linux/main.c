/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The module: /dev/ptah (ptah_ioctl.h), processors that come and go, suspend and reboot. While a
 * descriptor is open the module cannot be unloaded.
 */
#include "module.h"

#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/reboot.h>
#include <linux/syscore_ops.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/workqueue.h>

struct ptah_engine *port_engine;

/* The device */

/* What others execute is visible in a trace; so it takes the same right as perf's for that. */
static int device_open(struct inode *inode, struct file *file)
{
	return perfmon_capable() ? 0 : -EPERM;
}

static int ioctl_info(u64 argument)
{
	struct ptah_ioc_info info;
	int result = port_get(&info, sizeof(info), argument);

	if (result)
		return result;
	info.version = PTAH_IOC_VERSION;
	info.cpus = nr_cpu_ids;
	info.has = (boot_cpu_has(X86_FEATURE_APIC) ? PTAH_IOC_HAS_PMI : 0) |
		   (port_perf_found() ? PTAH_IOC_HAS_PERF : 0);
	info.limit = port_memory_limit();
	info.used = port_memory_used();
	return port_put(argument, &info, sizeof(info));
}

static int ioctl_caps(u64 argument)
{
	const struct ptah_caps *caps;
	struct ptah_ioc_caps c;
	int result = port_get(&c, sizeof(c), argument);

	if (result)
		return result;
	if (c.cpu >= nr_cpu_ids)
		return -ENODEV;
	caps = ptah_engine_caps(port_engine, (u32)array_index_nospec(c.cpu, nr_cpu_ids));
	if (!caps)
		return -ENODEV;
	c.bytes = min_t(u64, c.bytes, sizeof(*caps));
	if (copy_to_user((void __user *)(uintptr_t)c.caps, caps, c.bytes))
		return -EFAULT;
	return port_put(argument, &c, sizeof(c));
}

static long device_ioctl(struct file *file, unsigned int number, unsigned long argument)
{
	switch (number) {
	case PTAH_IOC_INFO:
		return ioctl_info(argument);
	case PTAH_IOC_CAPS:
		return ioctl_caps(argument);
	case PTAH_IOC_CAPTURE:
		return port_capture_create(argument);
	case PTAH_IOC_SET:
		return port_set_create(argument);
	case PTAH_IOC_POOL:
		return port_pool_create(argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations device_fops = {
    .owner = THIS_MODULE,
    .open = device_open,
    .unlocked_ioctl = device_ioctl,
    .llseek = noop_llseek,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "ptah",
    .fops = &device_fops,
    .mode = 0600,
};

/* Processors that come and go */

static void update(struct work_struct *work)
{
	port_perf_online();
	port_sets_update();
}

static DECLARE_WORK(update_work, update);

static int processor_online(unsigned int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	port_lvt_set();
	ptah_engine_cpu_online(port_engine);
	local_irq_restore(flags);
	/* Not here: the locks of sets come before the kernel's lock of the processors. */
	schedule_work(&update_work);
	return 0;
}

static int processor_offline(unsigned int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	ptah_engine_cpu_offline(port_engine);
	local_irq_restore(flags);
	port_perf_offline(cpu);
	return 0;
}

/* Suspend: the other processors are offline by then, and interrupts are off. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#define SLEEP_ARGUMENT void *unused
#else
#define SLEEP_ARGUMENT void
#endif

static int port_suspend(SLEEP_ARGUMENT)
{
	ptah_engine_cpu_offline(port_engine);
	return 0;
}

static void port_resume(SLEEP_ARGUMENT)
{
	port_lvt_set();
	ptah_engine_cpu_online(port_engine);
}

static struct syscore_ops sleep_ops = {
    .suspend = port_suspend,
    .resume = port_resume,
};

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
static struct syscore sleep = {.ops = &sleep_ops};
#define register_sleep()   register_syscore(&sleep)
#define unregister_sleep() unregister_syscore(&sleep)
#else
#define register_sleep()   register_syscore_ops(&sleep_ops)
#define unregister_sleep() unregister_syscore_ops(&sleep_ops)
#endif

static void stop_here(void *unused)
{
	ptah_engine_cpu_offline(port_engine);
}

/* kexec: the next kernel's memory is not for this trace. */
static int on_reboot(struct notifier_block *block, unsigned long action, void *data)
{
	on_each_cpu(stop_here, NULL, 1);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_block = {.notifier_call = on_reboot};

/* The module */

static int online_state;

/* All processors of a machine can be traced or none. */
static int check_processors(void)
{
	const struct ptah_caps *caps = ptah_engine_caps(port_engine, 0);
	unsigned int obstacle = caps ? caps->obstacle : PTAH_CAPS_NO_PT;

	if (!obstacle || obstacle == PTAH_CAPS_VMX || obstacle == PTAH_CAPS_IN_USE)
		return 0;
	pr_err("%s\n", ptah_caps_advice(obstacle));
	return -ENODEV;
}

static int begin_engine(void)
{
	struct ptah_engine *engine;
	int result;

	cpus_read_lock();
	result = port_errno(ptah_engine_new(&port_hal, NULL, &engine));
	if (!result) {
		WRITE_ONCE(port_engine, engine);
		result = check_processors();
		if (!result)
			result = cpuhp_setup_state_nocalls_cpuslocked(
			    CPUHP_AP_ONLINE_DYN, "ptah:online", processor_online,
			    processor_offline);
		online_state = result;
	}
	cpus_read_unlock();
	return result < 0 ? result : 0;
}

static void end_engine(void)
{
	if (online_state > 0)
		cpuhp_remove_state_nocalls(online_state);
	cancel_work_sync(&update_work);
	WARN_ON_ONCE(ptah_engine_free(port_engine) != PTAH_OK);
	WRITE_ONCE(port_engine, NULL);
	port_log_end();
}

static int __init port_init(void)
{
	int result;

	port_perf_find();
	result = begin_engine();
	if (!result) {
		register_sleep();
		register_reboot_notifier(&reboot_block);
		port_crash_begin();
		result = misc_register(&device);
		if (result) {
			port_crash_end();
			unregister_reboot_notifier(&reboot_block);
			unregister_sleep();
		}
	}
	if (result)
		end_engine();
	return result;
}

static void __exit port_exit(void)
{
	misc_deregister(&device);
	port_crash_end();
	unregister_reboot_notifier(&reboot_block);
	unregister_sleep();
	end_engine();
}

module_init(port_init);
module_exit(port_exit);

MODULE_DESCRIPTION("Ptah's capture engine for Intel Processor Trace");
MODULE_LICENSE("Dual MIT/GPL");
