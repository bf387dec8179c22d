/* SPDX-License-Identifier: MIT */
/*
 * hwt(4) as a backend sees it: in which order it calls what, in which state, and which results it
 * ignores. From reading FreeBSD's sys/dev/hwt of 2025.
 */
#include "kernel.h"

static struct hwt_backend *backend;

struct hwt_backend *hwt_registered(void)
{
	return backend;
}

int hwt_backend_register(struct hwt_backend *b)
{
	if (backend)
		return EEXIST;
	backend = b;
	return 0;
}

int hwt_backend_unregister(struct hwt_backend *b)
{
	if (backend != b)
		return ENOENT;
	backend = NULL;
	return 0;
}

/* A context keeps calling a backend that is not registered any more. */
static const struct hwt_backend_ops *ops;

static struct hwt_vm *alloc_vm(size_t bufsize)
{
	struct hwt_vm *vm = calloc(1, sizeof(*vm));

	assert_non_null(vm);
	vm->npages = (int)(bufsize / PAGE_SIZE);
	kernel_map_pages(vm);
	return vm;
}

static void free_vm(struct hwt_vm *vm)
{
	kernel_unmap_pages(vm);
	free(vm);
}

static struct hwt_context *alloc_context(int mode, size_t bufsize)
{
	struct hwt_context *ctx = calloc(1, sizeof(*ctx));

	assert_non_null(ctx);
	ctx->mode = mode;
	ctx->bufsize = bufsize;
	TAILQ_INIT(&ctx->records);
	TAILQ_INIT(&ctx->cpus);
	TAILQ_INIT(&ctx->threads);
	mtx_init(&ctx->mtx, "context", NULL, 0);
	return ctx;
}

/* Frees the buffer before the backend's part of the thread. */
static void free_thread(struct hwt_thread *thr)
{
	free_vm(thr->vm);
	if (thr->private)
		ops->hwt_backend_thread_free(thr);
	free(thr);
}

static void free_context(struct hwt_context *ctx)
{
	struct hwt_thread *thr;
	struct hwt_cpu *cpu;

	while ((thr = TAILQ_FIRST(&ctx->threads))) {
		TAILQ_REMOVE(&ctx->threads, thr, next);
		free_thread(thr);
	}
	while ((cpu = TAILQ_FIRST(&ctx->cpus))) {
		TAILQ_REMOVE(&ctx->cpus, cpu, next);
		free_vm(cpu->vm);
		free(cpu);
	}
	free(ctx->config);
	mtx_destroy(&ctx->mtx);
	free(ctx);
}

static void add_record(struct hwt_context *ctx, const struct hwt_record_entry *entry)
{
	struct hwt_record_entry *copy = calloc(1, sizeof(*copy));

	assert_non_null(copy);
	*copy = *entry;
	HWT_CTX_LOCK(ctx);
	TAILQ_INSERT_TAIL(&ctx->records, copy, next);
	HWT_CTX_UNLOCK(ctx);
}

void hwt_record_ctx(struct hwt_context *ctx, struct hwt_record_entry *entry, int flags)
{
	if (flags & M_WAITOK)
		kernel_object("a record that waits for memory in a software interrupt");
	add_record(ctx, entry);
}

bool hwt_record_get(struct hwt_context *ctx, struct hwt_record_entry *entry)
{
	struct hwt_record_entry *first;

	HWT_CTX_LOCK(ctx);
	first = TAILQ_FIRST(&ctx->records);
	if (first)
		TAILQ_REMOVE(&ctx->records, first, next);
	HWT_CTX_UNLOCK(ctx);
	if (!first)
		return false;
	*entry = *first;
	free(first);
	return true;
}

void hwt_record_path(struct hwt_context *ctx, enum hwt_record_type type, const char *path,
		     uint64_t addr, uint64_t baseaddr)
{
	struct hwt_record_entry entry = {.record_type = type};

	entry.fullpath = strdup(path);
	entry.addr = addr;
	entry.baseaddr = baseaddr;
	assert_non_null(entry.fullpath);
	add_record(ctx, &entry);
}

static bool has_path(enum hwt_record_type type)
{
	return type == HWT_RECORD_MMAP || type == HWT_RECORD_EXECUTABLE ||
	       type == HWT_RECORD_KERNEL;
}

/* Members that the type does not have stay zero. */
bool hwt_record_get_user(struct hwt_context *ctx, struct hwt_record_user_entry *user)
{
	struct hwt_record_entry entry;

	if (!hwt_record_get(ctx, &entry))
		return false;
	memset(user, 0, sizeof(*user));
	user->record_type = entry.record_type;
	if (has_path(entry.record_type)) {
		strncpy(user->fullpath, entry.fullpath, sizeof(user->fullpath) - 1);
		user->addr = entry.addr;
		user->baseaddr = entry.baseaddr;
		free(entry.fullpath);
	} else if (entry.record_type == HWT_RECORD_BUFFER) {
		user->buf_id = entry.buf_id;
		user->curpage = entry.curpage;
		user->offset = entry.offset;
	} else {
		user->thread_id = entry.thread_id;
	}
	return true;
}

/* The backend gets a thread with its buffer, and without its context and number. */
static int add_thread(struct hwt_context *ctx, struct thread *td)
{
	struct hwt_record_entry entry = {.record_type = HWT_RECORD_THREAD_CREATE};
	struct hwt_thread *thr = calloc(1, sizeof(*thr));
	int error;

	assert_non_null(thr);
	thr->vm = alloc_vm(ctx->bufsize);
	thr->vm->thr = thr;
	error = ops->hwt_backend_thread_alloc(thr);
	if (error) {
		free_thread(thr);
		return error;
	}
	thr->vm->ctx = thr->ctx = ctx;
	thr->td = td;
	td->thr = thr;
	entry.thread_id = thr->thread_id = ctx->thread_counter++;
	HWT_CTX_LOCK(ctx);
	TAILQ_INSERT_TAIL(&ctx->threads, thr, next);
	HWT_CTX_UNLOCK(ctx);
	add_record(ctx, &entry);
	return 0;
}

int hwt_alloc_thread_mode(struct proc *p, struct thread **threads, int n, size_t bufsize)
{
	struct hwt_context *ctx;
	int i, error = 0;

	if (!backend)
		return ENODEV;
	ops = backend->ops;
	ctx = alloc_context(HWT_MODE_THREAD, bufsize);
	for (i = 0; i < n && !error; i++)
		error = add_thread(ctx, threads[i]);
	if (!error)
		error = ops->hwt_backend_init(ctx);
	if (error)
		free_context(ctx);
	else
		p->ctx = ctx;
	return error;
}

int hwt_alloc_cpu_mode(struct hwt_context **result, uint64_t cpus, size_t bufsize)
{
	struct hwt_context *ctx;
	int i, error;

	if (!backend)
		return ENODEV;
	ops = backend->ops;
	ctx = alloc_context(HWT_MODE_CPU, bufsize);
	ctx->cpu_map.bits = cpus;
	for (i = 0; i < MAXCPU; i++) {
		struct hwt_cpu *cpu;

		if (!CPU_ISSET(i, &ctx->cpu_map))
			continue;
		cpu = calloc(1, sizeof(*cpu));
		assert_non_null(cpu);
		cpu->cpu_id = i;
		cpu->vm = alloc_vm(bufsize);
		cpu->vm->cpu = cpu;
		cpu->vm->ctx = ctx;
		TAILQ_INSERT_TAIL(&ctx->cpus, cpu, next);
	}
	error = ops->hwt_backend_init(ctx);
	if (error)
		free_context(ctx);
	else
		*result = ctx;
	return error;
}

int hwt_set_config(struct hwt_context *ctx, const void *config, size_t size)
{
	if (ctx->state == CTX_STATE_RUNNING)
		return ENXIO;
	free(ctx->config);
	ctx->config = calloc(1, size + 1);
	memcpy(ctx->config, config, size);
	ctx->config_size = size;
	return 0;
}

/* What the backend returns is ignored. */
int hwt_start(struct hwt_context *ctx)
{
	struct hwt_cpu *cpu;

	if (ctx->state == CTX_STATE_RUNNING)
		return ENXIO;
	ctx->state = CTX_STATE_RUNNING;
	if (ctx->mode == HWT_MODE_CPU) {
		TAILQ_FOREACH (cpu, &ctx->cpus, next)
			ops->hwt_backend_configure(ctx, cpu->cpu_id, cpu->cpu_id);
		ops->hwt_backend_enable_smp(ctx);
	}
	return 0;
}

int hwt_stop(struct hwt_context *ctx, void (*meanwhile)(void *argument), void *argument)
{
	if (ctx->state == CTX_STATE_STOPPED)
		return ENXIO;
	ops->hwt_backend_stop(ctx);
	if (meanwhile)
		meanwhile(argument);
	ctx->state = CTX_STATE_STOPPED;
	return 0;
}

int hwt_bufptr_get(struct hwt_vm *vm, int *ident, vm_offset_t *offset, uint64_t *data)
{
	return ops->hwt_backend_read(vm, ident, offset, data);
}

void hwt_close(struct hwt_context *ctx)
{
	struct hwt_record_user_entry user;

	ctx->state = CTX_STATE_STOPPED;
	assert_int_equal(ctx->refcnt, 0);
	ops->hwt_backend_deinit(ctx);
	while (hwt_record_get_user(ctx, &user))
		;
	free_context(ctx);
}

/* Hooks, with the scheduler's locks held. */

static struct hwt_context *hold_context(struct thread *td, struct hwt_thread **thr)
{
	struct hwt_context *ctx = td->proc->ctx;

	*thr = NULL;
	if (!ctx)
		return NULL;
	ctx->refcnt++;
	HWT_CTX_LOCK(ctx);
	TAILQ_FOREACH (*thr, &ctx->threads, next) {
		if ((*thr)->td == td)
			break;
	}
	HWT_CTX_UNLOCK(ctx);
	return ctx;
}

void hwt_switch_in(struct thread *td, int cpu)
{
	struct hwt_thread *thr;
	struct hwt_context *ctx;

	ptah_machine_set_cpu(rig.machine, (unsigned)cpu);
	kernel_pin(true);
	td->cpu = cpu;
	ctx = hold_context(td, &thr);
	if (ctx && ctx->state == CTX_STATE_RUNNING && thr) {
		ops->hwt_backend_configure(ctx, cpu, thr->thread_id);
		ops->hwt_backend_enable(ctx, cpu);
	}
	if (ctx)
		ctx->refcnt--;
	kernel_pin(false);
}

static void leave(struct thread *td)
{
	struct hwt_thread *thr;
	struct hwt_context *ctx = hold_context(td, &thr);

	if (ctx && ctx->state == CTX_STATE_RUNNING && thr)
		ops->hwt_backend_disable(ctx, td->cpu);
	if (ctx)
		ctx->refcnt--;
}

void hwt_switch_out(struct thread *td)
{
	ptah_machine_set_cpu(rig.machine, (unsigned)td->cpu);
	kernel_pin(true);
	leave(td);
	td->cpu = -1;
	kernel_pin(false);
}

/* The thread is on a processor, and is switched out for the last time afterwards. */
void hwt_thread_exit(struct thread *td)
{
	ptah_machine_set_cpu(rig.machine, (unsigned)td->cpu);
	leave(td);
	hwt_switch_out(td);
}

int hwt_thread_create(struct thread *td)
{
	int error;

	td->cpu = -1;
	if (!td->proc->ctx)
		return ENXIO;
	td->proc->ctx->refcnt++;
	error = add_thread(td->proc->ctx, td);
	td->proc->ctx->refcnt--;
	return error;
}
