/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The descriptor of a set of captures, one for each of several processors. A member's descriptor
 * keeps the set.
 */
#include "module.h"

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

struct port_set {
	struct kref ref;
	struct ptah_captures *captures;
	struct mutex control;
	struct list_head link; /* in `sets`, if it takes new processors */
	struct mm_struct *mm;
	void **cookies;		      /* of each processor: its member */
	struct port_capture *members; /* nr_cpu_ids of them */
};

static LIST_HEAD(sets);
static DEFINE_MUTEX(sets_lock);

struct mutex *port_set_control(struct port_set *set)
{
	return &set->control;
}

/* The end */

static void set_free(struct port_set *set)
{
	unsigned int n;

	WARN_ON_ONCE(ptah_captures_free(set->captures) != PTAH_OK);
	for (n = 0; set->members && n < nr_cpu_ids; n++)
		irq_work_sync(&set->members[n].wake);
	port_mm_put(set->mm);
	kvfree(set->members);
	kvfree(set->cookies);
	kfree(set);
	port_perf_release();
}

static void set_last(struct kref *ref)
{
	struct port_set *set = container_of(ref, struct port_set, ref);

	list_del(&set->link);
	mutex_unlock(&sets_lock);
	set_free(set);
}

void port_set_put(struct port_set *set)
{
	kref_put_mutex(&set->ref, set_last, &sets_lock);
}

static int set_release(struct inode *inode, struct file *file)
{
	struct port_set *set = file->private_data;

	mutex_lock(&set->control);
	ptah_captures_stop(set->captures);
	mutex_unlock(&set->control);
	port_set_put(set);
	return 0;
}

/* The beginning */

static int explain(struct ptah_ioc_problem *to, int status,
		   const struct ptah_captures_problem *problem)
{
	if (status >= 0)
		return 0;
	port_explain(to, status, &problem->request);
	to->cpu = problem->cpu;
	to->msr = problem->msr;
	if (!problem->request.field && problem->reason)
		strscpy(to->reason, problem->reason, sizeof(to->reason));
	return port_errno(status);
}

static struct port_set *set_alloc(void)
{
	struct port_set *set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	unsigned int n;

	if (!set)
		return NULL;
	kref_init(&set->ref);
	mutex_init(&set->control);
	INIT_LIST_HEAD(&set->link);
	set->members = kvcalloc(nr_cpu_ids, sizeof(*set->members), GFP_KERNEL_ACCOUNT);
	set->cookies = kvcalloc(nr_cpu_ids, sizeof(*set->cookies), GFP_KERNEL_ACCOUNT);
	for (n = 0; set->members && set->cookies && n < nr_cpu_ids; n++) {
		port_capture_init(&set->members[n], (int)n);
		set->members[n].set = set;
		set->cookies[n] = &set->members[n];
	}
	return set;
}

/* Copies the mask. Bits of processors that cannot be are refused by the engine. */
static int get_mask(const struct ptah_ioc_set *want, u64 **mask)
{
	const u64 most = DIV_ROUND_UP(nr_cpu_ids, 64) + 64;

	*mask = NULL;
	if (!want->mask)
		return want->words ? -EINVAL : 0;
	if (!want->words || want->words > most)
		return -EINVAL;
	/* The engine reads no further than its own number of processors. */
	*mask = kvcalloc(max_t(u64, want->words, DIV_ROUND_UP(nr_cpu_ids, 64)), sizeof(u64),
			 GFP_KERNEL_ACCOUNT);
	if (!*mask)
		return -ENOMEM;
	if (!copy_from_user(*mask, (void __user *)(uintptr_t)want->mask, want->words * sizeof(u64)))
		return 0;
	kvfree(*mask);
	*mask = NULL;
	return -EFAULT;
}

static int create(const struct ptah_ioc_set *want, const u64 *mask, struct port_request *request,
		  struct port_set **created)
{
	struct ptah_captures_problem problem = {};
	struct ptah_captures_config config = {
	    .size = sizeof(config),
	    .capture = &request->config,
	    .mask = mask,
	    .words = want->words,
	    .offline = want->flags & PTAH_IOC_SET_OFFLINE,
	};
	struct port_set *set;
	int result = port_perf_hold();

	if (result)
		return port_refuse(&request->problem, result, "cpu",
				   "perf uses Intel PT, or BTS or the LBRs where they exclude it");
	set = set_alloc();
	if (!set) {
		port_perf_release();
		return -ENOMEM;
	}
	config.cookies = set->cookies;
	result = set->members && set->cookies
		     ? explain(&request->problem,
			       ptah_captures_new(port_engine, &config, &set->captures, &problem),
			       &problem)
		     : -ENOMEM;
	if (result) {
		set_free(set);
		return result;
	}
	set->mm = request->mm;
	request->mm = NULL;
	mutex_lock(&sets_lock);
	if (!mask || want->flags & PTAH_IOC_SET_OFFLINE)
		list_add(&set->link, &sets);
	mutex_unlock(&sets_lock);
	*created = set;
	return 0;
}

static const struct file_operations set_fops;

static void drop(void *set)
{
	port_set_put(set);
}

int port_set_create(u64 argument)
{
	struct port_request request;
	struct ptah_ioc_set want;
	struct port_set *set;
	u64 *mask;
	int result = port_get(&want, sizeof(want), argument);

	if (result || want.flags & ~PTAH_IOC_SET_OFFLINE)
		return result ?: -EINVAL;
	result = get_mask(&want, &mask);
	if (result)
		return result;
	result = port_request_begin(&request, want.capture);
	if (!result && request.flags & PTAH_IOC_ON_EXEC)
		result = port_refuse(&request.problem, -EINVAL, "flags",
				     "ON_EXEC is for captures of threads");
	if (!result)
		result = create(&want, mask, &request, &set);
	kvfree(mask);
	if (result)
		return port_request_end(&request, result);
	return port_publish("[ptah-set]", &set_fops, set, drop, &request);
}

/* Processors that come online */

void port_sets_update(void)
{
	struct ptah_captures_problem problem;
	struct port_set *set;
	int status;

	mutex_lock(&sets_lock);
	list_for_each_entry(set, &sets, link)
	{
		mutex_lock(&set->control);
		status = ptah_captures_update(set->captures, &problem);
		mutex_unlock(&set->control);
		if (status < 0)
			pr_warn("a new processor is not traced: error %d\n", status);
	}
	mutex_unlock(&sets_lock);
}

/* Calls */

static int call(struct port_set *set, unsigned int number, struct ptah_ioc_problem *to)
{
	struct ptah_captures_problem problem = {};
	int status;

	if (mutex_lock_interruptible(&set->control))
		return -EINTR;
	switch (number) {
	case PTAH_IOC_START:
		status = ptah_captures_start(set->captures, &problem);
		break;
	case PTAH_IOC_STOP:
		status = ptah_captures_stop(set->captures);
		break;
	case PTAH_IOC_PAUSE:
		status = ptah_captures_pause(set->captures);
		break;
	case PTAH_IOC_RESUME:
		status = ptah_captures_resume(set->captures, &problem);
		break;
	default:
		status = ptah_captures_flush(set->captures);
		break;
	}
	mutex_unlock(&set->control);
	return explain(to, status, &problem);
}

static int ioctl_call(struct port_set *set, unsigned int number, u64 argument)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	int result = call(set, number, &problem);

	if (number != PTAH_IOC_START && number != PTAH_IOC_RESUME)
		return result;
	return port_put_problem(argument, &problem) ?: result;
}

static int ioctl_reconfigure(struct port_set *set, u64 argument)
{
	struct ptah_captures_problem request = {};
	struct ptah_ioc_problem problem = {.cpu = -1};
	struct ptah_trace_config trace;
	struct ptah_ioc_reconfigure r;
	struct mm_struct *mm = NULL;
	int result = port_get(&r, sizeof(r), argument);

	if (result || r.reserved)
		return result ?: -EINVAL;
	result = port_get_trace(&trace, &mm, r.trace, &problem);
	if (!result && mutex_lock_interruptible(&set->control)) {
		result = -EINTR;
	} else if (!result) {
		result = explain(
		    &problem, ptah_captures_reconfigure(set->captures, &trace, &request), &request);
		if (!result)
			swap(set->mm, mm);
		mutex_unlock(&set->control);
	}
	port_mm_put(mm);
	return port_put_problem(r.problem, &problem) ?: result;
}

static int ioctl_live(struct port_set *set, u64 argument)
{
	struct ptah_capture_live of = {.size = sizeof(of)};
	struct ptah_ioc_live live;
	int result = port_get(&live, sizeof(live), argument);

	if (result)
		return result;
	if (mutex_lock_interruptible(&set->control))
		return -EINTR;
	result = ptah_captures_live(set->captures, &of);
	mutex_unlock(&set->control);
	return result < 0 ? port_errno(result) : port_put_live(argument, live.size, &of);
}

static struct ptah_ioc_moment moment(const struct ptah_captures_moment *of)
{
	return (struct ptah_ioc_moment){
	    .first = of->first,
	    .last = of->last,
	    .cpus = of->cpus,
	    .together = of->together,
	};
}

static void fill_status(struct ptah_ioc_set_status *s, const struct ptah_captures_status *of)
{
	unsigned int n;

	s->started = of->started;
	s->paused = of->paused;
	s->cpus = of->cpus;
	s->waiting = of->waiting;
	s->error = of->error;
	s->error_cpu = of->error_cpu;
	s->msr = of->msr;
	for (n = 0; n < ARRAY_SIZE(s->in_state); n++)
		s->in_state[n] = of->in_state[n];
	s->began = moment(&of->began);
	s->ended = moment(&of->ended);
	s->position = of->position;
	s->readable = of->readable;
	s->lost = of->lost;
	s->buffer = of->buffer;
	s->looks = of->looks;
	s->starts = of->starts;
	s->pmis = of->pmis;
	s->full = of->full;
	s->errors = of->errors;
	s->partial = of->partial;
	s->dropped_records = of->dropped_records;
}

static int ioctl_status(struct port_set *set, u64 argument)
{
	struct ptah_captures_status of = {.size = sizeof(of)};
	struct ptah_ioc_set_status s;
	int result = port_get(&s, sizeof(s), argument);

	if (result)
		return result;
	s = (struct ptah_ioc_set_status){.size = s.size};
	if (mutex_lock_interruptible(&set->control))
		return -EINTR;
	result = ptah_captures_status(set->captures, &of);
	mutex_unlock(&set->control);
	if (result < 0)
		return port_errno(result);
	fill_status(&s, &of);
	return port_put(argument, &s, sizeof(s));
}

static int ioctl_member(struct port_set *set, unsigned long cpu)
{
	struct ptah_capture *capture;
	struct port_capture *c;
	struct file *file;
	int fd;

	if (cpu >= nr_cpu_ids)
		return -ENODEV;
	cpu = array_index_nospec(cpu, nr_cpu_ids);
	if (mutex_lock_interruptible(&set->control))
		return -EINTR;
	capture = ptah_captures_get(set->captures, (unsigned int)cpu);
	c = &set->members[cpu];
	if (capture)
		WRITE_ONCE(c->capture, capture);
	mutex_unlock(&set->control);
	if (!capture)
		return -ENODEV;
	kref_get(&set->ref);
	file = port_open("[ptah-capture]", &port_capture_fops, c, &fd);
	if (IS_ERR(file)) {
		port_set_put(set);
		return (int)PTR_ERR(file);
	}
	fd_install((unsigned int)fd, file);
	return fd;
}

static long set_ioctl(struct file *file, unsigned int number, unsigned long argument)
{
	struct port_set *set = file->private_data;

	switch (number) {
	case PTAH_IOC_START:
	case PTAH_IOC_STOP:
	case PTAH_IOC_PAUSE:
	case PTAH_IOC_RESUME:
	case PTAH_IOC_FLUSH:
		return ioctl_call(set, number, argument);
	case PTAH_IOC_RECONFIGURE:
		return ioctl_reconfigure(set, argument);
	case PTAH_IOC_LIVE:
		return ioctl_live(set, argument);
	case PTAH_IOC_SET_STATUS:
		return ioctl_status(set, argument);
	case PTAH_IOC_MEMBER:
		return ioctl_member(set, argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations set_fops = {
    .owner = THIS_MODULE,
    .release = set_release,
    .unlocked_ioctl = set_ioctl,
    .llseek = noop_llseek,
};
