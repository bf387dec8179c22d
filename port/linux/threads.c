/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Captures that follow threads: the module hooks the tracepoints at which the scheduler switches
 * threads, and threads are created and execute programs. Preempt notifiers would do for the
 * switches, but a thread can register them for itself alone, and a new thread has none.
 *
 * The scheduler's tracepoint comes before the switch: the rest of the switch, some hundred
 * instructions of the kernel, is in the trace of the thread that comes. User code is exact.
 */
#include "module.h"

#include <linux/hashtable.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/tracepoint.h>

static DEFINE_HASHTABLE(threads, 8);
static DEFINE_SPINLOCK(threads_lock);

static struct port_capture *find(const struct task_struct *task)
{
	struct port_capture *c;

	hash_for_each_possible_rcu_notrace(threads, c, node, (unsigned long)task)
	{
		if (c->task == task)
			return c;
	}
	return NULL;
}

/* Interrupts are off, and the lock of the run queue is held. */
static void notrace on_switch(void *data, bool preempt, struct task_struct *prev,
			      struct task_struct *next, unsigned int prev_state)
{
	struct port_capture *c = find(prev);

	if (c) {
		ptah_capture_switch_out(c->capture);
		if (!preempt && prev_state & TASK_DEAD) {
			WRITE_ONCE(c->ended, true);
			irq_work_queue(&c->wake);
		}
	}
	c = find(next);
	if (c)
		ptah_capture_switch_in(c->capture);
}

static void notrace on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct port_capture *c = find(parent);

	if (c && c->pool)
		port_pool_inherit(c, child);
}

static void enter_here(void *argument)
{
	struct port_capture *c = argument;

	if (current == c->task)
		ptah_capture_switch_in(c->capture);
}

/* In the thread that executes a program, after it has its new memory and rights. */
static void notrace on_exec(void *data, struct task_struct *task, pid_t old_pid,
			    struct linux_binprm *program)
{
	struct port_capture *c = find(task);
	unsigned long flags;

	if (!c || !xchg(&c->on_exec, false))
		return;
	local_irq_save(flags);
	if (ptah_capture_start(c->capture) == PTAH_OK) {
		WRITE_ONCE(c->paused, c->arms);
		WRITE_ONCE(c->begun, true);
		enter_here(c);
	}
	local_irq_restore(flags);
}

/* The hooks, while somebody follows a thread. */

static struct {
	const char *name;
	void *probe;
	struct tracepoint *point;
} hooks[] = {
    {"sched_switch", on_switch, NULL},
    {"sched_process_fork", on_fork, NULL},
    {"sched_process_exec", on_exec, NULL},
};

static DEFINE_MUTEX(hooks_lock);
static unsigned int hooked;

/* No macro of the tracepoints' headers can be used: the kernel does not export these. */
static void find_hook(struct tracepoint *point, void *unused)
{
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(hooks); n++) {
		if (!strcmp(point->name, hooks[n].name))
			hooks[n].point = point;
	}
}

static void unhook(unsigned int n)
{
	while (n)
		n--, tracepoint_probe_unregister(hooks[n].point, hooks[n].probe, NULL);
	tracepoint_synchronize_unregister();
}

int port_hooks_get(void)
{
	unsigned int n;
	int result = 0;

	mutex_lock(&hooks_lock);
	if (!hooked)
		for_each_kernel_tracepoint(find_hook, NULL);
	for (n = 0; n < ARRAY_SIZE(hooks) && !hooked; n++) {
		result = hooks[n].point
			     ? tracepoint_probe_register(hooks[n].point, hooks[n].probe, NULL)
			     : -EOPNOTSUPP;
		if (result) {
			unhook(n);
			break;
		}
	}
	hooked += !result;
	mutex_unlock(&hooks_lock);
	return result;
}

void port_hooks_put(void)
{
	mutex_lock(&hooks_lock);
	if (!--hooked)
		unhook(ARRAY_SIZE(hooks));
	mutex_unlock(&hooks_lock);
}

/* The threads */

int port_thread_add(struct port_capture *c)
{
	unsigned long flags;
	int result = 0;

	spin_lock_irqsave(&threads_lock, flags);
	if (find(c->task))
		result = -EBUSY;
	else
		hash_add_rcu(threads, &c->node, (unsigned long)c->task);
	spin_unlock_irqrestore(&threads_lock, flags);
	return result;
}

void port_thread_forget(struct port_capture *c)
{
	unsigned long flags;

	spin_lock_irqsave(&threads_lock, flags);
	if (hash_hashed(&c->node))
		hash_del_rcu(&c->node);
	spin_unlock_irqrestore(&threads_lock, flags);
}

static void leave_here(void *argument)
{
	struct port_capture *c = argument;

	ptah_capture_switch_out(c->capture);
}

void port_thread_leave(struct port_capture *c)
{
	on_each_cpu(leave_here, c, 1);
}

/* A thread that is being switched meanwhile is traced by on_switch(), which sees the start. */
void port_thread_enter(struct port_capture *c)
{
	on_each_cpu(enter_here, c, 1);
}

static bool is_on_cpu(const struct task_struct *task)
{
#ifdef CONFIG_SMP
	return READ_ONCE(task->on_cpu);
#else
	return task == current;
#endif
}

/* A thread may end before it is followed; then on_switch() does not see its end. */
bool port_thread_ended(const struct port_capture *c)
{
	const struct task_struct *task = c->task;

	if (!task || READ_ONCE(c->ended))
		return task;
	/*
	 * It may have ended before the hooks were there. `exit_state` is set while the thread still
	 * runs, and is traced; it is off its processor for the last time when it is dead.
	 */
	return READ_ONCE(task->__state) & TASK_DEAD && !is_on_cpu(task);
}
