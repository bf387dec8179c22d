/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The descriptor of a capture: of one processor, of a thread, of a member of a set. */
#include "module.h"

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define MAX_RECORDS 4096u /* of one call */
#define BOUNCE	    65536u

static void on_wake(struct irq_work *work)
{
	struct port_capture *c = container_of(work, struct port_capture, wake);

	wake_up_all(&c->wait);
}

void port_capture_init(struct port_capture *c, int processor)
{
	mutex_init(&c->control);
	mutex_init(&c->consumer);
	init_rwsem(&c->shape);
	init_waitqueue_head(&c->wait);
	init_irq_work(&c->wake, on_wake);
	INIT_HLIST_NODE(&c->node);
	INIT_LIST_HEAD(&c->link);
	c->processor = processor;
}

struct file *port_open(const char *name, const struct file_operations *fops, void *c, int *fd)
{
	struct file *file;

	*fd = get_unused_fd_flags(O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return ERR_PTR(*fd);
	file = anon_inode_getfile(name, fops, c, O_RDWR | O_CLOEXEC);
	if (IS_ERR(file))
		put_unused_fd(*fd);
	else
		file->f_mode |= FMODE_PREAD;
	return file;
}

int port_publish(const char *name, const struct file_operations *fops, void *object,
		 void (*drop)(void *object), struct port_request *request)
{
	struct file *file;
	int result, fd;

	file = port_open(name, fops, object, &fd);
	if (IS_ERR(file)) {
		drop(object);
		return port_request_end(request, (int)PTR_ERR(file));
	}
	result = port_request_end(request, 0);
	if (result) {
		put_unused_fd((unsigned int)fd);
		fput(file);
		return result;
	}
	fd_install((unsigned int)fd, file);
	return fd;
}

/* The end */

void port_capture_end(struct port_capture **c, unsigned int n)
{
	unsigned int i;

	/*
	 * Stopped first, while the hooks still see it leave its processor: otherwise the next
	 * thread would find the processor taken.
	 */
	for (i = 0; i < n; i++) {
		ptah_capture_stop(c[i]->capture);
		port_thread_forget(c[i]);
	}
	if (n && c[0]->task)
		synchronize_rcu_expedited();
	for (i = 0; i < n; i++) {
		struct port_capture *one = c[i];

		if (one->task && one->capture)
			port_thread_leave(one);
		/* No mapping is left: each keeps the descriptor. */
		WARN_ON_ONCE(ptah_capture_free(one->capture) != PTAH_OK);
		one->capture = NULL;
		irq_work_sync(&one->wake);
		port_mm_put(one->mm);
		if (one->task)
			put_task_struct(one->task);
		put_pid(one->tid);
		put_pid(one->pid);
		put_pid(one->parent);
		one->mm = NULL;
		one->task = NULL;
		one->tid = one->pid = one->parent = NULL;
	}
}

static void capture_delete(struct port_capture *c)
{
	const bool thread = c->task;

	port_capture_end(&c, 1);
	if (thread)
		port_hooks_put();
	port_perf_release();
	kfree(c);
}

static int capture_release(struct inode *inode, struct file *file)
{
	struct port_capture *c = file->private_data;

	if (c->set)
		port_set_put(c->set);
	else if (c->pool)
		port_pool_put_back(c);
	else
		capture_delete(c);
	return 0;
}

/* The beginning */

/* The thread of a capture that follows one. */
static int begin_thread(struct port_capture *c, const struct port_request *request)
{
	int result = port_find_thread(c, request->tid);

	if (result)
		return result;
	result = port_hooks_get();
	if (result) {
		put_task_struct(c->task);
		c->task = NULL;
	}
	return result;
}

static int create(struct port_request *request, struct port_capture **created)
{
	struct ptah_trace_problem problem = {};
	struct port_capture *c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	int result;

	if (!c)
		return -ENOMEM;
	port_capture_init(c, request->config.cpu);
	result = port_perf_hold();
	if (result) {
		kfree(c);
		return port_refuse(&request->problem, result, "cpu",
				   "perf uses Intel PT, or BTS or the LBRs where they exclude it");
	}
	if (c->processor == PTAH_IOC_CPU_THREAD)
		result = begin_thread(c, request);
	if (!result) {
		request->config.cookie = c;
		result = port_explain(
		    &request->problem,
		    ptah_capture_new(port_engine, &request->config, &c->capture, &problem),
		    &problem);
	}
	if (!result) {
		c->mm = request->mm;
		request->mm = NULL;
		c->on_exec = c->execs = request->flags & PTAH_IOC_ON_EXEC;
		c->arms = request->flags & PTAH_IOC_PAUSED;
		result = c->task ? port_thread_add(c) : 0;
		if (result)
			port_refuse(&request->problem, result, "tid",
				    "another capture follows this thread");
	}
	if (result)
		capture_delete(c);
	else
		*created = c;
	return result;
}

static void drop(void *c)
{
	capture_delete(c);
}

int port_capture_create(u64 argument)
{
	struct port_request request;
	struct port_capture *c;
	int result;

	result = port_request_begin(&request, argument);
	if (!result && request.config.cpu >= 0 && request.flags & PTAH_IOC_ON_EXEC)
		result = port_refuse(&request.problem, -EINVAL, "flags",
				     "ON_EXEC is for captures of threads");
	if (!result)
		result = create(&request, &c);
	if (result)
		return port_request_end(&request, result);
	return port_publish("[ptah-capture]", &port_capture_fops, c, drop, &request);
}

/* Calls of the owner */

enum control {
	CONTROL_START,
	CONTROL_STOP,
	CONTROL_PAUSE,
	CONTROL_RESUME
};

static int control_locked(struct port_capture *c, enum control what)
{
	int status;

	switch (what) {
	case CONTROL_START:
		status = ptah_capture_start(c->capture);
		if (status == PTAH_OK && c->task) {
			WRITE_ONCE(c->paused, c->arms);
			WRITE_ONCE(c->begun, true);
			WRITE_ONCE(c->on_exec, false);
			port_thread_enter(c);
		}
		return status;
	case CONTROL_STOP:
		WRITE_ONCE(c->begun, false);
		WRITE_ONCE(c->on_exec, false);
		/* An exec may just have found on_exec set, and start it. */
		if (c->execs)
			synchronize_rcu_expedited();
		c->execs = false;
		return ptah_capture_stop(c->capture);
	case CONTROL_PAUSE:
		WRITE_ONCE(c->paused, true);
		return ptah_capture_pause(c->capture);
	default:
		status = ptah_capture_resume(c->capture);
		if (status == PTAH_OK)
			WRITE_ONCE(c->paused, false);
		return status;
	}
}

static int control(struct port_capture *c, enum control what, struct ptah_ioc_problem *problem)
{
	struct ptah_capture_status s = {.size = sizeof(s)};
	int status;

	if (c->set)
		return port_refuse(problem, -EBUSY, "set", "its set controls it");
	if (mutex_lock_interruptible(&c->control))
		return -EINTR;
	status = control_locked(c, what);
	if (status == PTAH_E_UNSUPPORTED && ptah_capture_status(c->capture, &s) == PTAH_OK)
		problem->msr = s.msr;
	mutex_unlock(&c->control);
	if (status < 0)
		problem->cpu = c->processor;
	return port_explain(problem, status, NULL);
}

static int ioctl_control(struct port_capture *c, enum control what, u64 argument)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	int result = control(c, what, &problem);

	if (what == CONTROL_STOP || what == CONTROL_PAUSE)
		return result;
	return port_put_problem(argument, &problem) ?: result;
}

static int ioctl_flush(struct port_capture *c, u64 argument)
{
	u64 position = 0;
	int status;

	if (mutex_lock_interruptible(&c->control))
		return -EINTR;
	status = ptah_capture_flush(c->capture, &position);
	mutex_unlock(&c->control);
	if (status < 0)
		return port_errno(status);
	return argument && put_user(position, (u64 __user *)(uintptr_t)argument) ? -EFAULT : 0;
}

static int ioctl_reconfigure(struct port_capture *c, u64 argument)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	struct ptah_trace_problem request = {};
	struct ptah_trace_config trace;
	struct ptah_ioc_reconfigure r;
	struct mm_struct *mm = NULL;
	int result = port_get(&r, sizeof(r), argument);

	if (result || r.reserved)
		return result ?: -EINVAL;
	result = port_get_trace(&trace, &mm, r.trace, &problem);
	if (!result && c->set)
		result = port_refuse(&problem, -EBUSY, "set", "its set controls it");
	if (!result && mutex_lock_interruptible(&c->control))
		result = -EINTR;
	else if (!result) {
		result = port_explain(
		    &problem, ptah_capture_reconfigure(c->capture, &trace, &request), &request);
		if (!result)
			swap(c->mm, mm);
		mutex_unlock(&c->control);
	}
	port_mm_put(mm);
	return port_put_problem(r.problem, &problem) ?: result;
}

/* Nobody else uses the capture meanwhile; it may be of a set. */
static int resize(struct port_capture *c, const struct ptah_ioc_resize *r,
		  struct ptah_ioc_problem *problem)
{
	struct mutex *set = c->set ? port_set_control(c->set) : NULL;
	struct ptah_trace_problem request = {};
	int status;

	if (set && mutex_lock_interruptible(set))
		return -EINTR;
	mutex_lock(&c->control);
	mutex_lock(&c->consumer);
	down_write(&c->shape);
	status = ptah_capture_resize(c->capture, r->buffer, r->region, &request);
	if (status == PTAH_OK)
		c->page = 0;
	up_write(&c->shape);
	mutex_unlock(&c->consumer);
	mutex_unlock(&c->control);
	if (set)
		mutex_unlock(set);
	return port_explain(problem, status, &request);
}

static int ioctl_resize(struct port_capture *c, u64 argument)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	struct ptah_ioc_resize r;
	int result = port_get(&r, sizeof(r), argument);

	if (result || r.reserved)
		return result ?: -EINVAL;
	result = resize(c, &r, &problem);
	return port_put_problem(r.problem, &problem) ?: result;
}

/* What is known of the state */

static void fill_status(struct port_capture *c, struct ptah_ioc_status *s,
			const struct ptah_capture_status *of)
{
	s->state = of->state;
	s->shape = of->shape;
	s->policy = of->policy;
	s->cpu = of->cpu;
	s->error = of->error;
	s->msr = of->msr;
	s->pmi = of->pmi;
	s->processor = c->processor;
	s->tid = pid_vnr(c->tid);
	s->pid = pid_vnr(c->pid);
	s->ended = port_thread_ended(c);
	s->position = of->position;
	s->oldest = of->oldest;
	s->tail = of->tail;
	s->lost = of->lost;
	s->buffer = of->buffer;
	s->region = of->region;
	s->cycle = of->cycle;
	s->regions = of->regions;
	s->tables = of->tables;
	s->laps = of->laps;
	s->rtit_ctl = of->rtit_ctl;
	s->rtit_status = of->rtit_status;
	s->looks = of->looks;
	s->starts = of->starts;
	s->pmis = of->pmis;
	s->full = of->full;
	s->errors = of->errors;
	s->partial = of->partial;
	s->dropped_records = of->dropped_records;
}

static int ioctl_status(struct port_capture *c, u64 argument)
{
	struct ptah_capture_status of = {.size = sizeof(of)};
	struct ptah_ioc_status s;
	int result = port_get(&s, sizeof(s), argument);

	if (result)
		return result;
	s = (struct ptah_ioc_status){.size = s.size};
	if (mutex_lock_interruptible(&c->control))
		return -EINTR;
	down_read(&c->shape);
	s.page = port_page_size(c);
	s.records = ptah_capture_recorded(c->capture);
	result = ptah_capture_status(c->capture, &of);
	up_read(&c->shape);
	mutex_unlock(&c->control);
	if (result < 0)
		return port_errno(result);
	fill_status(c, &s, &of);
	return port_put(argument, &s, sizeof(s));
}

static int ioctl_live(struct port_capture *c, u64 argument)
{
	struct ptah_capture_live of = {.size = sizeof(of)};
	struct ptah_ioc_live live;
	int result = port_get(&live, sizeof(live), argument);

	if (result)
		return result;
	if (mutex_lock_interruptible(&c->control))
		return -EINTR;
	result = ptah_capture_live(c->capture, &of);
	mutex_unlock(&c->control);
	return result < 0 ? port_errno(result) : port_put_live(argument, live.size, &of);
}

/* Calls of the consumer */

static int ioctl_records(struct port_capture *c, u64 argument)
{
	struct ptah_capture_record *records;
	struct ptah_ioc_records r;
	int result = port_get(&r, sizeof(r), argument);

	if (result || r.n > MAX_RECORDS)
		return result ?: -EINVAL;
	records = kvcalloc(r.n ?: 1, sizeof(*records), GFP_KERNEL_ACCOUNT);
	if (!records)
		return -ENOMEM;
	if (mutex_lock_interruptible(&c->consumer)) {
		result = -EINTR;
	} else {
		result = port_errno(ptah_capture_records(c->capture, records, r.n));
		mutex_unlock(&c->consumer);
	}
	if (result >= 0) {
		r.n = (u32)result;
		result = copy_to_user((void __user *)(uintptr_t)r.records, records,
				      r.n * sizeof(*records))
			     ? -EFAULT
			     : port_put(argument, &r, sizeof(r));
	}
	kvfree(records);
	return result;
}

static int ioctl_consume(struct port_capture *c, u64 argument)
{
	struct ptah_ioc_consume of;
	int result = port_get(&of, sizeof(of), argument);

	if (result || of.reserved)
		return result ?: -EINVAL;
	if (mutex_lock_interruptible(&c->consumer))
		return -EINTR;
	result = ptah_capture_consume(c->capture, of.upto, &of.lost);
	mutex_unlock(&c->consumer);
	return port_errno(result) ?: port_put(argument, &of, sizeof(of));
}

static int ioctl_sync(struct port_capture *c)
{
	int status;

	if (mutex_lock_interruptible(&c->consumer))
		return -EINTR;
	status = ptah_capture_page_sync(c->capture);
	mutex_unlock(&c->consumer);
	return port_errno(status);
}

/* As many bytes as are contiguous in memory, at most n. */
static int read_piece(struct port_capture *c, void *to, size_t n, u64 from)
{
	struct ptah_piece piece;
	u64 end;
	int result;

	if (mutex_lock_interruptible(&c->consumer))
		return -EINTR;
	end = ptah_capture_position(c->capture);
	if (from >= end) {
		mutex_unlock(&c->consumer);
		return 0;
	}
	end = min(end, from + n);
	result = ptah_capture_pieces(c->capture, from, end, &piece, 1);
	if (result > 0)
		memcpy(to, piece.address, piece.size);
	mutex_unlock(&c->consumer);
	return result > 0 ? (int)piece.size : port_errno(result);
}

static ssize_t capture_read(struct file *file, char __user *to, size_t n, loff_t *at)
{
	struct port_capture *c = file->private_data;
	size_t done = 0;
	int got = 0;
	void *bytes;

	if (*at < 0)
		return -EINVAL;
	bytes = kvmalloc(BOUNCE, GFP_KERNEL_ACCOUNT);
	if (!bytes)
		return -ENOMEM;
	while (done < n) {
		if (signal_pending(current)) {
			got = -EINTR;
			break;
		}
		got = read_piece(c, bytes, min_t(size_t, n - done, BOUNCE), (u64)*at + done);
		if (got <= 0)
			break;
		if (copy_to_user(to + done, bytes, (size_t)got)) {
			got = -EFAULT;
			break;
		}
		done += (size_t)got;
	}
	kvfree(bytes);
	*at += (loff_t)done;
	return done ? (ssize_t)done : got;
}

/* Waiting */

static bool is_news(const struct port_capture *c, u32 seen)
{
	return ptah_capture_recorded(c->capture) != seen || port_thread_ended(c);
}

static int ioctl_wait(struct port_capture *c, u64 argument)
{
	struct ptah_ioc_wait w;
	long left;
	int result = port_get(&w, sizeof(w), argument);

	if (result || w.milliseconds < -1)
		return result ?: -EINVAL;
	left = wait_event_interruptible_timeout(c->wait, is_news(c, w.seen),
						w.milliseconds < 0
						    ? MAX_SCHEDULE_TIMEOUT
						    : (long)msecs_to_jiffies((u32)w.milliseconds));
	if (left < 0)
		return -EINTR;
	w.seen = ptah_capture_recorded(c->capture);
	w.ended = port_thread_ended(c);
	result = port_put(argument, &w, sizeof(w));
	return result ?: left ? 0 : -EAGAIN;
}

static __poll_t capture_poll(struct file *file, poll_table *table)
{
	struct port_capture *c = file->private_data;
	__poll_t mask = 0;

	poll_wait(file, &c->wait, table);
	if (ptah_capture_recorded(c->capture) != READ_ONCE(c->seen))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (port_thread_ended(c))
		mask |= EPOLLHUP;
	return mask;
}

static long capture_ioctl(struct file *file, unsigned int number, unsigned long argument)
{
	struct port_capture *c = file->private_data;

	switch (number) {
	case PTAH_IOC_START:
		return ioctl_control(c, CONTROL_START, argument);
	case PTAH_IOC_STOP:
		return ioctl_control(c, CONTROL_STOP, 0);
	case PTAH_IOC_PAUSE:
		return ioctl_control(c, CONTROL_PAUSE, 0);
	case PTAH_IOC_RESUME:
		return ioctl_control(c, CONTROL_RESUME, argument);
	case PTAH_IOC_FLUSH:
		return ioctl_flush(c, argument);
	case PTAH_IOC_RECONFIGURE:
		return ioctl_reconfigure(c, argument);
	case PTAH_IOC_RESIZE:
		return ioctl_resize(c, argument);
	case PTAH_IOC_STATUS:
		return ioctl_status(c, argument);
	case PTAH_IOC_LIVE:
		return ioctl_live(c, argument);
	case PTAH_IOC_RECORDS:
		return ioctl_records(c, argument);
	case PTAH_IOC_CONSUME:
		return ioctl_consume(c, argument);
	case PTAH_IOC_SYNC:
		return ioctl_sync(c);
	case PTAH_IOC_WAIT:
		return ioctl_wait(c, argument);
	case PTAH_IOC_SEEN:
		WRITE_ONCE(c->seen, (u32)argument);
		return 0;
	default:
		return -ENOTTY;
	}
}

const struct file_operations port_capture_fops = {
    .owner = THIS_MODULE,
    .release = capture_release,
    .unlocked_ioctl = capture_ioctl,
    .mmap = port_capture_mmap,
    .read = capture_read,
    .poll = capture_poll,
    .llseek = noop_llseek,
};
