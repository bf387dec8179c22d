/* SPDX-License-Identifier: MIT */
/*
 * The backend's operations, as hwt(4) calls them.
 *
 * Threads: hwt allocates a buffer and calls thread_alloc(), before the context has a configuration.
 * The scheduler's hooks call configure() and enable() for the thread that comes, disable() for the
 * one that goes. Processors: init() makes a set of captures, enable_smp() starts it.
 *
 * hwt ignores what configure() and enable_smp() return. So a configuration that cannot be had is
 * also logged, by the name of its field, and read() returns the error to the user.
 */
#include "port.h"

/* A context of processors. */
struct cpu_context {
	TAILQ_ENTRY(cpu_context) next;
	struct hwt_context *ctx;
	struct ptah_captures *captures;
	struct pt_buffer *buffers;	     /* one for each processor */
	void **cookies;			     /* the same */
	struct ptah_captures_memory *memory; /* the same */
	int error;			     /* of the configuration */
	struct ptah_trace_config trace;
};

static struct pt_buffer *volatile *running; /* of each processor: the thread's that is on it */
static volatile uintptr_t reports;	    /* a list of buffers that have something to report */
static struct mtx reports_mtx;		    /* held by the one who reports */
static void *reports_swi;
static TAILQ_HEAD(, cpu_context) cpu_contexts;
static struct sx contexts_lock;
SX_SYSINIT(ptah_contexts_lock, &contexts_lock, "ptah contexts");

/* Reports */

void pt_report(struct pt_buffer *buffer)
{
	uintptr_t first;

	if (!atomic_cmpset_int(&buffer->reported, 0, 1))
		return;
	do {
		first = atomic_load_ptr(&reports);
		buffer->next = (struct pt_buffer *)first;
	} while (!atomic_cmpset_rel_ptr(&reports, first, (uintptr_t)buffer));
	swi_sched(reports_swi, SWI_FROMNMI);
}

static void send_records(struct pt_buffer *buffer)
{
	struct hwt_record_entry entry = {.record_type = HWT_RECORD_BUFFER, .buf_id = buffer->id};
	struct ptah_capture_record record;

	while (ptah_capture_records(buffer->capture, &record, 1) > 0) {
		entry.curpage = (int)(record.position % buffer->ctx->bufsize / PAGE_SIZE);
		entry.offset = record.position % PAGE_SIZE;
		hwt_record_ctx(buffer->ctx, &entry, M_NOWAIT | M_ZERO);
	}
}

/* The software interrupt; also called when a buffer ends, so that none is left in the list. */
static void send_reports(void *argument)
{
	struct pt_buffer *buffer, *next;

	(void)argument;
	mtx_lock(&reports_mtx);
	buffer = (struct pt_buffer *)atomic_swap_ptr(&reports, 0);
	for (; buffer; buffer = next) {
		next = buffer->next;
		atomic_store_rel_int(&buffer->reported, 0);
		if (buffer->problem.field)
			printf("ptah: thread %d is not traced: %s: %s\n", buffer->id,
			       buffer->problem.field, buffer->problem.reason);
		buffer->problem.field = NULL;
		send_records(buffer);
	}
	mtx_unlock(&reports_mtx);
}

/* Configuration */

static struct cpu_context *find_cpu_context(const struct hwt_context *ctx)
{
	struct cpu_context *cc;

	sx_slock(&contexts_lock);
	TAILQ_FOREACH (cc, &cpu_contexts, next) {
		if (cc->ctx == ctx)
			break;
	}
	sx_sunlock(&contexts_lock);
	return cc;
}

static int configure_cpu(struct hwt_context *ctx, int cpu_id)
{
	struct cpu_context *cc = find_cpu_context(ctx);
	struct ptah_trace_problem problem = {0};
	int status;

	if (!cc || !ptah_captures_get(cc->captures, (unsigned)cpu_id))
		return ENOENT;
	status = pt_translate(ctx, cpu_id, &cc->trace, &problem);
	if (status < 0)
		printf("ptah: cpu %d is not traced: %s: %s\n", cpu_id, problem.field,
		       problem.reason);
	cc->error = pt_errno(status, &problem);
	return cc->error;
}

static struct pt_buffer *find_thread(struct hwt_context *ctx, int thread_id)
{
	struct hwt_thread *thr;

	HWT_CTX_LOCK(ctx);
	TAILQ_FOREACH (thr, &ctx->threads, next) {
		if (thr->thread_id == thread_id)
			break;
	}
	HWT_CTX_UNLOCK(ctx);
	return thr ? thr->private : NULL;
}

/* In the scheduler's hook, with the thread on no processor yet. */
static int configure_thread(struct hwt_context *ctx, int cpu_id, int thread_id)
{
	struct pt_buffer *buffer = find_thread(ctx, thread_id);
	struct ptah_trace_problem problem = {0};
	struct ptah_trace_config trace;
	int status;

	running[cpu_id] = NULL;
	if (!buffer)
		return ENOENT;
	if (!buffer->armed) {
		buffer->armed = true;
		buffer->ctx = ctx;
		buffer->id = thread_id; /* which thread_alloc() is not told */
		status = pt_translate(ctx, cpu_id, &trace, &problem);
		if (status == PTAH_OK)
			status = ptah_capture_reconfigure(buffer->capture, &trace, &problem);
		if (status == PTAH_OK)
			status = ptah_capture_start(buffer->capture);
		buffer->error = pt_errno(status, &problem);
		buffer->problem = problem;
		if (problem.field)
			pt_report(buffer);
	}
	if (!buffer->error)
		running[cpu_id] = buffer;
	return buffer->error;
}

static int pt_configure(struct hwt_context *ctx, int cpu_id, int thread_id)
{
	return ctx->mode == HWT_MODE_CPU ? configure_cpu(ctx, cpu_id)
					 : configure_thread(ctx, cpu_id, thread_id);
}

/* Threads */

static void pt_enable(struct hwt_context *ctx, int cpu_id)
{
	struct pt_buffer *buffer = running[cpu_id];

	if (ctx->mode == HWT_MODE_THREAD && buffer)
		ptah_capture_switch_in(buffer->capture);
}

/* Also for a thread that was on the processor already when its context was started. */
static void pt_disable(struct hwt_context *ctx, int cpu_id)
{
	struct pt_buffer *buffer = running[cpu_id];

	if (ctx->mode != HWT_MODE_THREAD || !buffer)
		return;
	running[cpu_id] = NULL;
	ptah_capture_switch_out(buffer->capture);
}

static int pt_thread_alloc(struct hwt_thread *thr)
{
	struct pt_buffer *buffer = malloc(sizeof(*buffer), M_PTAH, M_NOWAIT | M_ZERO);
	int error;

	if (!buffer)
		return ENOMEM;
	error = pt_pools_take(thr->vm, buffer, &buffer->capture);
	if (error) {
		free(buffer, M_PTAH);
		return error;
	}
	thr->private = buffer;
	return 0;
}

/* hwt has freed the buffer's pages already. Its capture was stopped by deinit(), or never started. */
static void pt_thread_free(struct hwt_thread *thr)
{
	struct pt_buffer *buffer = thr->private;

	thr->private = NULL;
	ptah_capture_free(buffer->capture);
	free(buffer, M_PTAH);
	pt_pools_check();
}

/* The thread may be on a processor, which no hook of this context tells any more. */
static void stop_thread(struct pt_buffer *buffer)
{
	u_int cpu;

	ptah_capture_stop(buffer->capture);
	buffer->armed = false;
	for (cpu = 0; cpu <= mp_maxid; cpu++)
		atomic_cmpset_ptr((volatile uintptr_t *)&running[cpu], (uintptr_t)buffer, 0);
}

/* Processors */

static void free_cpu_context(struct cpu_context *cc)
{
	u_int cpu;

	ptah_captures_free(cc->captures);
	for (cpu = 0; cc->memory && cpu <= mp_maxid; cpu++)
		free((void *)(uintptr_t)cc->memory[cpu].blocks, M_PTAH);
	free(cc->memory, M_PTAH);
	free(cc->cookies, M_PTAH);
	free(cc->buffers, M_PTAH);
	free(cc, M_PTAH);
}

static struct cpu_context *new_cpu_context(struct hwt_context *ctx, uint64_t *mask)
{
	struct cpu_context *cc = malloc(sizeof(*cc), M_PTAH, M_WAITOK | M_ZERO);
	u_int n = mp_maxid + 1;
	struct hwt_cpu *cpu;

	cc->ctx = ctx;
	cc->error = EINVAL; /* not configured yet */
	cc->buffers = mallocarray(n, sizeof(*cc->buffers), M_PTAH, M_WAITOK | M_ZERO);
	cc->cookies = mallocarray(n, sizeof(*cc->cookies), M_PTAH, M_WAITOK | M_ZERO);
	cc->memory = mallocarray(n, sizeof(*cc->memory), M_PTAH, M_WAITOK | M_ZERO);
	TAILQ_FOREACH (cpu, &ctx->cpus, next) {
		if (cpu->cpu_id < 0 || (u_int)cpu->cpu_id >= n)
			continue;
		mask[cpu->cpu_id / 64] |= UINT64_C(1) << cpu->cpu_id % 64;
		cc->buffers[cpu->cpu_id] = (struct pt_buffer){.ctx = ctx, .id = cpu->cpu_id};
		cc->cookies[cpu->cpu_id] = &cc->buffers[cpu->cpu_id];
		cc->memory[cpu->cpu_id] = (struct ptah_captures_memory){
		    .blocks = pt_blocks(cpu->vm, M_WAITOK), .n = (size_t)cpu->vm->npages};
	}
	return cc;
}

static int pt_init(struct hwt_context *ctx)
{
	uint64_t mask[(MAXCPU + 63) / 64] = {0};
	struct ptah_trace_config trace;
	struct ptah_capture_config capture = {
	    .size = sizeof(capture), .trace = &trace, .region = PAGE_SIZE};
	struct ptah_captures_config config = {
	    .size = sizeof(config), .capture = &capture, .mask = mask, .words = nitems(mask)};
	struct ptah_captures_problem problem = {0};
	struct cpu_context *cc;
	u_int cpu;
	int status;

	if (ctx->mode != HWT_MODE_CPU)
		return 0;
	ptah_trace_config_default(ptah_engine_caps(pt_engine, 0), &trace);
	cc = new_cpu_context(ctx, mask);
	capture.pmis = ctx->bufsize / PAGE_SIZE < 16 ? (unsigned)(ctx->bufsize / PAGE_SIZE) : 16;
	config.cookies = cc->cookies;
	config.memory = cc->memory;
	status = ptah_captures_new(pt_engine, &config, &cc->captures, &problem);
	if (status < 0) {
		printf("ptah: cpu %d: %s\n", problem.cpu, problem.reason);
		cc->captures = NULL;
		free_cpu_context(cc);
		return pt_errno(status, &problem.request);
	}
	for (cpu = 0; cpu <= mp_maxid; cpu++)
		cc->buffers[cpu].capture = ptah_captures_get(cc->captures, cpu);
	sx_xlock(&contexts_lock);
	TAILQ_INSERT_TAIL(&cpu_contexts, cc, next);
	sx_xunlock(&contexts_lock);
	return 0;
}

static int pt_enable_smp(struct hwt_context *ctx)
{
	struct cpu_context *cc = find_cpu_context(ctx);
	struct ptah_captures_problem problem = {0};
	int status;

	if (!cc || cc->error)
		return cc ? cc->error : ENOENT;
	status = ptah_captures_reconfigure(cc->captures, &cc->trace, &problem);
	if (status == PTAH_OK)
		status = ptah_captures_start(cc->captures, &problem);
	if (status < 0)
		printf("ptah: cpu %d is not traced: %s\n", problem.cpu, problem.reason);
	cc->error = pt_errno(status, &problem.request);
	return cc->error;
}

static int pt_disable_smp(struct hwt_context *ctx)
{
	struct cpu_context *cc = find_cpu_context(ctx);

	return cc ? pt_errno(ptah_captures_stop(cc->captures), NULL) : ENOENT;
}

/* Both */

/*
 * hwt calls it before it changes the state, and a hook that comes later would start the thread
 * again: so the state is changed here, and hooks that are at work are waited for.
 */
static void pt_stop(struct hwt_context *ctx)
{
	struct hwt_thread *thr;

	if (ctx->mode == HWT_MODE_CPU)
		pt_disable_smp(ctx);
	HWT_CTX_LOCK(ctx);
	ctx->state = CTX_STATE_STOPPED;
	HWT_CTX_UNLOCK(ctx);
	while (refcount_load((volatile u_int *)&ctx->refcnt) > 0)
		cpu_spinwait();
	TAILQ_FOREACH (thr, &ctx->threads, next) {
		if (thr->private)
			stop_thread(thr->private);
	}
	/* No more will come: afterwards no buffer of the context is in the list. */
	send_reports(NULL);
}

static int pt_deinit(struct hwt_context *ctx)
{
	struct cpu_context *cc;

	pt_stop(ctx);
	cc = find_cpu_context(ctx);
	if (!cc)
		return 0;
	sx_xlock(&contexts_lock);
	TAILQ_REMOVE(&cpu_contexts, cc, next);
	sx_xunlock(&contexts_lock);
	free_cpu_context(cc);
	return 0;
}

/* The exact position: what was traced until now is in the buffer. *data counts all laps. */
static int pt_read(struct hwt_vm *vm, int *page, vm_offset_t *offset, uint64_t *data)
{
	struct cpu_context *cc = vm->cpu ? find_cpu_context(vm->ctx) : NULL;
	struct pt_buffer *buffer = cc	     ? &cc->buffers[vm->cpu->cpu_id]
				   : vm->thr ? vm->thr->private
					     : NULL;
	uint64_t position;
	int status;

	if (!buffer)
		return ENOENT;
	if (cc ? cc->error : buffer->error)
		return cc ? cc->error : buffer->error;
	status = ptah_capture_flush(buffer->capture, &position);
	*page = (int)(position % vm->ctx->bufsize / PAGE_SIZE);
	*offset = position % PAGE_SIZE;
	*data = position;
	return pt_errno(status, NULL);
}

/* No buffer waits for its reader: they wrap. */
static int pt_svc_buf(struct hwt_context *ctx, void *data, size_t size, int version)
{
	(void)ctx, (void)data, (void)size, (void)version;
	return EOPNOTSUPP;
}

static void pt_dump(int cpu_id)
{
	struct ptah_capture_status status = {.size = sizeof(status)};
	struct pt_buffer *buffer = running[cpu_id];

	if (buffer && ptah_capture_status(buffer->capture, &status) == PTAH_OK)
		printf("ptah: cpu %d: state %d, position %ju, IA32_RTIT_CTL %#jx, STATUS %#jx\n",
		       cpu_id, status.state, (uintmax_t)status.position, (uintmax_t)status.rtit_ctl,
		       (uintmax_t)status.rtit_status);
}

struct hwt_backend_ops pt_ops = {
    .hwt_backend_init = pt_init,
    .hwt_backend_deinit = pt_deinit,
    .hwt_backend_configure = pt_configure,
    .hwt_backend_svc_buf = pt_svc_buf,
    .hwt_backend_enable = pt_enable,
    .hwt_backend_disable = pt_disable,
    .hwt_backend_read = pt_read,
    .hwt_backend_stop = pt_stop,
    .hwt_backend_enable_smp = pt_enable_smp,
    .hwt_backend_disable_smp = pt_disable_smp,
    .hwt_backend_thread_alloc = pt_thread_alloc,
    .hwt_backend_thread_free = pt_thread_free,
    .hwt_backend_dump = pt_dump,
};

/* The module's begin and end: what all contexts share. */

int pt_backend_init(void)
{
	TAILQ_INIT(&cpu_contexts);
	mtx_init(&reports_mtx, "ptah reports", NULL, MTX_DEF);
	running = mallocarray(mp_maxid + 1, sizeof(*running), M_PTAH, M_WAITOK | M_ZERO);
	return swi_add(&clk_intr_event, "pt", send_reports, NULL, SWI_CLOCK, INTR_MPSAFE,
		       &reports_swi);
}

void pt_backend_fini(void)
{
	if (reports_swi)
		swi_remove(reports_swi);
	reports_swi = NULL;
	mtx_destroy(&reports_mtx);
	free((void *)(uintptr_t)running, M_PTAH);
}
