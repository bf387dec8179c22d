/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests of programs: copies their structs and checks every field. No field is used before it is
 * copied, and none is copied twice.
 */
#include "module.h"

#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/security.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/io.h>

int port_errno(int status)
{
	switch (status) {
	case PTAH_E_NOMEM:
		return -ENOMEM;
	case PTAH_E_INVAL:
		return -EINVAL;
	case PTAH_E_BUSY:
		return -EBUSY;
	case PTAH_E_NOSPACE:
		return -ENOSPC;
	case PTAH_E_UNSUPPORTED:
		return -EOPNOTSUPP;
	case PTAH_E_LIMIT:
		return -EUSERS;
	case PTAH_E_LOST:
		return -ENODATA;
	case PTAH_E_OFFLINE:
		return -ENODEV;
	default:
		return status < 0 ? -EIO : status;
	}
}

static void __user *pointer(u64 address)
{
	return (void __user *)(uintptr_t)address;
}

int port_get(void *to, size_t known, u64 from)
{
	u32 size;
	int result;

	if (get_user(size, (u32 __user *)pointer(from)))
		return -EFAULT;
	if (size < 2 * sizeof(u32))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	result = copy_struct_from_user(to, known, pointer(from), size);
	if (!result)
		*(u32 *)to = size;
	return result;
}

int port_put(u64 to, const void *from, size_t known)
{
	const size_t size = *(const u32 *)from;

	return copy_to_user(pointer(to), from, min(size, known)) ? -EFAULT : 0;
}

int port_put_live(u64 to, u32 size, const struct ptah_capture_live *of)
{
	const struct ptah_ioc_live live = {
	    .size = size,
	    .exact = of->exact,
	    .position = of->position,
	    .limit = of->limit,
	};

	return port_put(to, &live, sizeof(live));
}

int port_put_problem(u64 to, const struct ptah_ioc_problem *problem)
{
	return to && copy_to_user(pointer(to), problem, sizeof(*problem)) ? -EFAULT : 0;
}

static const char *reason_of(int status)
{
	switch (status) {
	case PTAH_E_NOMEM:
		return "out of memory, or beyond the module's limit";
	case PTAH_E_INVAL:
		return "it is not started, or its tables in memory were overwritten";
	case PTAH_E_BUSY:
		return "another tracer or another capture has this processor";
	case PTAH_E_NOSPACE:
		return "the buffer is full: consume something";
	case PTAH_E_UNSUPPORTED:
		return "the processor cannot be traced";
	case PTAH_E_OFFLINE:
		return "the processor is offline, or does not exist";
	case PTAH_E_PORT:
		return "memory of the module breaks a rule of the engine: a bug of the module";
	case PTAH_E_LIMIT:
		return "too many";
	default:
		return "the processor or the system failed";
	}
}

int port_explain(struct ptah_ioc_problem *problem, int status,
		 const struct ptah_trace_problem *request)
{
	if (status >= 0)
		return status;
	problem->error = status;
	strscpy(problem->reason, reason_of(status), sizeof(problem->reason));
	if (request && request->field) {
		problem->kind = request->kind;
		problem->value = request->value;
		problem->valid = request->valid;
		strscpy(problem->field, request->field, sizeof(problem->field));
		if (request->reason)
			strscpy(problem->reason, request->reason, sizeof(problem->reason));
	}
	return port_errno(status);
}

int port_refuse(struct ptah_ioc_problem *problem, int error, const char *field, const char *reason)
{
	problem->error = error == -ENOMEM  ? PTAH_E_NOMEM
			 : error == -EBUSY ? PTAH_E_BUSY
					   : PTAH_E_INVAL;
	strscpy(problem->field, field, sizeof(problem->field));
	strscpy(problem->reason, reason, sizeof(problem->reason));
	return error;
}

void port_mm_put(struct mm_struct *mm)
{
	if (mm)
		mmdrop(mm);
}

static struct task_struct *task_of(int number, enum pid_type type)
{
	struct pid *pid = find_get_pid(number);
	struct task_struct *task = get_pid_task(pid, type);

	put_pid(pid);
	return task;
}

/* The CR3 of a process. Its top table lives as long as *mm is kept. */
static int find_cr3(struct ptah_trace_config *trace, struct mm_struct **mm, int pid,
		    struct ptah_ioc_problem *problem)
{
	const bool isolated = boot_cpu_has(X86_FEATURE_PTI);
	struct task_struct *task;

	if (isolated && trace->os && trace->user)
		return port_refuse(problem, -EINVAL, "cr3_pid",
				   "with page-table isolation user and kernel code have "
				   "different values: trace one of them");
	task = pid > 0 ? task_of(pid, PIDTYPE_PID) : NULL;
	if (!task)
		return -ESRCH;
	*mm = get_task_mm(task);
	put_task_struct(task);
	if (!*mm)
		return -ESRCH;
	mmgrab(*mm);
	mmput(*mm);
	trace->cr3_filter = true;
	trace->cr3 = virt_to_phys((*mm)->pgd);
	if (isolated && trace->user)
		trace->cr3 |= PAGE_SIZE; /* the table for user code is beside that of the kernel */
	return 0;
}

static void convert_trace(struct ptah_trace_config *to, const struct ptah_ioc_trace *from)
{
	const u64 f = from->flags;
	unsigned int n;

	*to = (struct ptah_trace_config){
	    .size = sizeof(*to),
	    .os = f & PTAH_IOC_TRACE_OS,
	    .user = f & PTAH_IOC_TRACE_USER,
	    .branch = f & PTAH_IOC_TRACE_BRANCH,
	    .tsc = f & PTAH_IOC_TRACE_TSC,
	    .mtc = f & PTAH_IOC_TRACE_MTC,
	    .cyc = f & PTAH_IOC_TRACE_CYC,
	    .mtc_period = from->mtc_period,
	    .cyc_threshold = from->cyc_threshold,
	    .psb_period = from->psb_period,
	    .no_retcomp = f & PTAH_IOC_TRACE_NO_RETCOMP,
	    .ptwrite = f & PTAH_IOC_TRACE_PTWRITE,
	    .fup_on_ptwrite = f & PTAH_IOC_TRACE_FUP_ON_PTWRITE,
	    .power_events = f & PTAH_IOC_TRACE_POWER_EVENTS,
	    .event_trace = f & PTAH_IOC_TRACE_EVENT_TRACE,
	    .no_tnt = f & PTAH_IOC_TRACE_NO_TNT,
	    .psb_pmi_on_enable = f & PTAH_IOC_TRACE_PSB_PMI_ON_ENABLE,
	    .cr3_filter = f & PTAH_IOC_TRACE_CR3_FILTER,
	    .cr3 = from->cr3,
	    .force_psb = f & PTAH_IOC_TRACE_FORCE_PSB,
	};
	for (n = 0; n < PTAH_RANGES; n++) {
		to->ranges[n] = (struct ptah_range){
		    .first = from->ranges[n].first,
		    .last = from->ranges[n].last,
		    .mode = from->modes[n],
		};
	}
}

int port_get_trace(struct ptah_trace_config *trace, struct mm_struct **mm, u64 from,
		   struct ptah_ioc_problem *problem)
{
	const u64 known = PTAH_IOC_TRACE_CR3_OF_PID * 2 - 1;
	const u64 both = PTAH_IOC_TRACE_CR3_OF_PID | PTAH_IOC_TRACE_CR3_FILTER;
	struct ptah_ioc_trace t;
	int result;

	*mm = NULL;
	result = port_get(&t, sizeof(t), from);
	if (result)
		return result;
	if (t.flags & ~known || t.reserved || (t.flags & both) == both)
		return port_refuse(problem, -EINVAL, "trace",
				   "a flag that this module does not know, or two that exclude "
				   "each other");
	convert_trace(trace, &t);
	if (trace->os && security_locked_down(LOCKDOWN_PERF))
		return port_refuse(problem, -EPERM, "os", "the kernel is locked down");
	if (t.flags & PTAH_IOC_TRACE_CR3_OF_PID)
		return find_cr3(trace, mm, t.cr3_pid, problem);
	return 0;
}

int port_request_begin(struct port_request *request, u64 capture)
{
	const u32 known = PTAH_IOC_PAUSED | PTAH_IOC_NO_PMI | PTAH_IOC_ON_EXEC;
	struct ptah_ioc_capture c;
	int result;

	*request = (struct port_request){.problem.cpu = -1};
	result = port_get(&c, sizeof(c), capture);
	if (result)
		return result;
	request->problem_at = c.problem;
	if (c.flags & ~known || c.reserved)
		return port_refuse(&request->problem, -EINVAL, "flags",
				   "a flag that this module does not know");
	if (c.shape >= PTAH_SHAPE_MAX || c.policy >= PTAH_POLICY_MAX)
		return port_refuse(&request->problem, -EINVAL, "shape", "no such shape or policy");
	if (c.cpu < PTAH_IOC_CPU_THREAD)
		return port_refuse(&request->problem, -EINVAL, "cpu", "no processor and no thread");
	request->flags = c.flags;
	request->tid = c.tid;
	request->config = (struct ptah_capture_config){
	    .size = sizeof(request->config),
	    .trace = &request->trace,
	    .cpu = c.cpu,
	    .shape = (u8)c.shape,
	    .policy = (u8)c.policy,
	    .paused = c.flags & PTAH_IOC_PAUSED,
	    .no_pmi = c.flags & PTAH_IOC_NO_PMI,
	    .buffer = c.buffer,
	    .region = c.region,
	    .pages = c.pages,
	    .pmis = c.pmis,
	    .records = c.records,
	};
	return port_get_trace(&request->trace, &request->mm, c.trace, &request->problem);
}

int port_request_end(struct port_request *request, int result)
{
	port_mm_put(request->mm);
	if (request->problem_at && port_put_problem(request->problem_at, &request->problem))
		return -EFAULT;
	return result;
}

int port_find_thread(struct port_capture *c, int tid)
{
	if (tid < 0)
		return -EINVAL;
	if (!tid)
		c->task = get_task_struct(current);
	else
		c->task = task_of(tid, PIDTYPE_PID);
	if (!c->task)
		return -ESRCH;
	c->tid = get_task_pid(c->task, PIDTYPE_PID);
	c->pid = get_task_pid(c->task, PIDTYPE_TGID);
	return 0;
}
