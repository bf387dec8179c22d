/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The descriptor of a pool: captures of threads that were allocated beforehand, because a new
 * thread gets its capture where nothing may sleep. A capture that is in use keeps the pool.
 */
#include "module.h"

#include <linux/err.h>
#include <linux/file.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include <asm/msr.h>
#include <asm/tsc.h>

#define MAX_POOL 4096u

struct port_pool {
	struct kref ref;
	struct ptah_pool *captures;
	bool inherit, on_exec, arms;
	struct mm_struct *mm;
	spinlock_t lock;
	struct list_head idle; /* captures that can be taken */
	struct list_head born; /* those of new threads, until NEXT returns them */
	u64 missed;
	wait_queue_head_t wait;
	struct port_capture *all;
};

/* The end */

static void pool_last(struct kref *ref)
{
	struct port_pool *pool = container_of(ref, struct port_pool, ref);

	WARN_ON_ONCE(ptah_pool_free(pool->captures) != PTAH_OK);
	port_mm_put(pool->mm);
	kvfree(pool->all);
	kfree(pool);
	port_hooks_put();
	port_perf_release();
}

/* Afterwards the capture can be taken again. */
static void make_idle(struct port_capture *c)
{
	struct port_pool *pool = c->pool;
	unsigned long flags;

	c->on_exec = c->execs = c->begun = c->paused = c->ended = false;
	c->seen = 0;
	c->page = 0;
	spin_lock_irqsave(&pool->lock, flags);
	list_add_tail(&c->link, &pool->idle);
	spin_unlock_irqrestore(&pool->lock, flags);
	kref_put(&pool->ref, pool_last);
}

void port_pool_put_back(struct port_capture *c)
{
	port_capture_end(&c, 1);
	make_idle(c);
}

static struct port_capture *take_first(struct port_pool *pool, struct list_head *list)
{
	struct port_capture *c;
	unsigned long flags;

	spin_lock_irqsave(&pool->lock, flags);
	c = list_first_entry_or_null(list, struct port_capture, link);
	if (c)
		list_del_init(&c->link);
	spin_unlock_irqrestore(&pool->lock, flags);
	return c;
}

static int pool_release(struct inode *inode, struct file *file)
{
	struct port_pool *pool = file->private_data;
	struct port_capture *c;

	WRITE_ONCE(pool->inherit, false);
	synchronize_rcu_expedited(); /* no hook is adding to `born` any more */
	while ((c = take_first(pool, &pool->born)))
		port_pool_put_back(c);
	kref_put(&pool->ref, pool_last);
	return 0;
}

/* The beginning */

static int pool_fill(struct port_pool *pool, struct port_request *request, unsigned int n)
{
	struct ptah_trace_problem problem = {};
	unsigned int i;

	pool->all = kvcalloc(n, sizeof(*pool->all), GFP_KERNEL_ACCOUNT);
	if (!pool->all)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		port_capture_init(&pool->all[i], PTAH_IOC_CPU_THREAD);
		pool->all[i].pool = pool;
		pool->all[i].arms = pool->arms;
		list_add_tail(&pool->all[i].link, &pool->idle);
	}
	request->config.cpu = PTAH_CAPTURE_THREAD;
	return port_explain(
	    &request->problem,
	    ptah_pool_new(port_engine, &request->config, n, &pool->captures, &problem), &problem);
}

static int create(const struct ptah_ioc_pool *want, struct port_request *request,
		  struct port_pool **created)
{
	struct port_pool *pool;
	int result = port_perf_hold();

	if (result)
		return port_refuse(&request->problem, result, "cpu",
				   "perf uses Intel PT, or BTS or the LBRs where they exclude it");
	result = port_hooks_get();
	if (result) {
		port_perf_release();
		return result;
	}
	pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	if (!pool) {
		port_hooks_put();
		port_perf_release();
		return -ENOMEM;
	}
	kref_init(&pool->ref);
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->idle);
	INIT_LIST_HEAD(&pool->born);
	init_waitqueue_head(&pool->wait);
	pool->inherit = want->flags & PTAH_IOC_POOL_INHERIT;
	pool->on_exec = request->flags & PTAH_IOC_ON_EXEC;
	pool->arms = request->flags & PTAH_IOC_PAUSED;
	swap(pool->mm, request->mm);
	result = pool_fill(pool, request, want->captures);
	if (result)
		kref_put(&pool->ref, pool_last);
	else
		*created = pool;
	return result;
}

static const struct file_operations pool_fops;

static void drop(void *object)
{
	struct port_pool *pool = object;

	kref_put(&pool->ref, pool_last);
}

int port_pool_create(u64 argument)
{
	struct port_request request;
	struct ptah_ioc_pool want;
	struct port_pool *pool;
	int result = port_get(&want, sizeof(want), argument);

	if (result || want.flags & ~PTAH_IOC_POOL_INHERIT || want.reserved)
		return result ?: -EINVAL;
	result = port_request_begin(&request, want.capture);
	if (!result && (!want.captures || want.captures > MAX_POOL))
		result = port_refuse(&request.problem, -EINVAL, "captures", "1 to 4096");
	if (!result)
		result = create(&want, &request, &pool);
	if (result)
		return port_request_end(&request, result);
	return port_publish("[ptah-pool]", &pool_fops, pool, drop, &request);
}

/* Taking captures */

/* Any context but NMI. Gives the capture to its thread, which the caller has set. Afterwards
 * port_pool_put_back(), also when it fails. */
static int begin(struct port_capture *c)
{
	static atomic64_t owners;
	int status;

	kref_get(&c->pool->ref);
	status = ptah_pool_take(c->pool->captures, (u64)atomic64_inc_return(&owners), c, NULL,
				&c->capture, NULL);
	return status < 0 ? port_errno(status) : port_thread_add(c);
}

/* The thread of this capture has never run. It begins in the state of its creator. */
static void start_child(struct port_capture *c, bool paused)
{
	unsigned long flags;

	local_irq_save(flags);
	if (ptah_capture_start(c->capture) == PTAH_OK && paused != c->arms) {
		if (paused)
			ptah_capture_pause(c->capture);
		else
			ptah_capture_resume(c->capture);
	}
	c->paused = paused;
	c->begun = true;
	local_irq_restore(flags);
}

/* The parent is traced, so its capture keeps the pool. */
void port_pool_inherit(struct port_capture *parent, struct task_struct *child)
{
	struct port_pool *pool = parent->pool;
	struct port_capture *c;
	unsigned long flags;

	if (!READ_ONCE(pool->inherit) || (!READ_ONCE(parent->begun) && !READ_ONCE(parent->on_exec)))
		return;
	c = take_first(pool, &pool->idle);
	if (!c) {
		spin_lock_irqsave(&pool->lock, flags);
		pool->missed++;
		spin_unlock_irqrestore(&pool->lock, flags);
		return;
	}
	c->task = get_task_struct(child);
	c->tid = get_pid(task_pid(child));
	c->pid = get_pid(task_tgid(child));
	c->parent = get_pid(parent->tid);
	c->born = rdtsc();
	c->on_exec = c->execs = READ_ONCE(parent->on_exec);
	if (begin(c) == 0 && READ_ONCE(parent->begun))
		start_child(c, READ_ONCE(parent->paused));
	spin_lock_irqsave(&pool->lock, flags);
	list_add_tail(&c->link, &pool->born);
	spin_unlock_irqrestore(&pool->lock, flags);
	wake_up_all(&pool->wait);
}

static int open_capture(struct port_capture *c)
{
	struct file *file;
	int fd;

	file = port_open("[ptah-capture]", &port_capture_fops, c, &fd);
	if (IS_ERR(file)) {
		port_pool_put_back(c);
		return (int)PTR_ERR(file);
	}
	fd_install((unsigned int)fd, file);
	return fd;
}

/* The caller has taken `c` off the list of those that are idle. */
static int take(struct port_capture *c, int tid, struct ptah_ioc_problem *problem)
{
	int result = port_find_thread(c, tid);

	if (result) {
		kref_get(&c->pool->ref);
		port_pool_put_back(c);
		return result;
	}
	c->on_exec = c->execs = c->pool->on_exec;
	result = begin(c);
	if (result) {
		port_refuse(problem, result, "tid", "another capture follows this thread");
		port_pool_put_back(c);
		return result;
	}
	return open_capture(c);
}

static int ioctl_take(struct port_pool *pool, u64 argument)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	struct ptah_ioc_take t;
	struct port_capture *c;
	int result = port_get(&t, sizeof(t), argument);

	if (result)
		return result;
	c = take_first(pool, &pool->idle);
	if (c)
		result = take(c, t.tid, &problem);
	else
		result = port_refuse(&problem, -ENOMEM, "captures", "all are in use");
	if (result < 0)
		return port_put_problem(t.problem, &problem) ?: result;
	return result;
}

static int ioctl_next(struct port_pool *pool, u64 argument)
{
	struct ptah_ioc_next n;
	struct port_capture *c;
	int result = port_get(&n, sizeof(n), argument);

	if (result)
		return result;
	c = take_first(pool, &pool->born);
	while (c && !c->capture) { /* port_pool_inherit() could not begin() it */
		port_pool_put_back(c);
		c = take_first(pool, &pool->born);
	}
	n = (struct ptah_ioc_next){.size = n.size, .missed = READ_ONCE(pool->missed)};
	if (c) {
		n.tid = pid_vnr(c->tid);
		n.pid = pid_vnr(c->pid);
		n.parent_tid = pid_vnr(c->parent);
		n.time = c->born;
	}
	if (port_put(argument, &n, sizeof(n))) {
		if (c)
			port_pool_put_back(c);
		return -EFAULT;
	}
	return c ? open_capture(c) : -EAGAIN;
}

static __poll_t pool_poll(struct file *file, poll_table *table)
{
	struct port_pool *pool = file->private_data;

	poll_wait(file, &pool->wait, table);
	return list_empty_careful(&pool->born) ? 0 : EPOLLIN | EPOLLRDNORM;
}

static long pool_ioctl(struct file *file, unsigned int number, unsigned long argument)
{
	struct port_pool *pool = file->private_data;

	switch (number) {
	case PTAH_IOC_TAKE:
		return ioctl_take(pool, argument);
	case PTAH_IOC_NEXT:
		return ioctl_next(pool, argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations pool_fops = {
    .owner = THIS_MODULE,
    .release = pool_release,
    .unlocked_ioctl = pool_ioctl,
    .poll = pool_poll,
    .llseek = noop_llseek,
};
