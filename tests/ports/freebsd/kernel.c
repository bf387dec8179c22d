/* SPDX-License-Identifier: MIT */
/* FreeBSD's kernel functions on a simulated machine. Each checks that it may be called there. */
#include "kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA	 ((size_t)32 << 20)
#define PHYSICAL UINT64_C(0x100000000)
#define BLOCKS	 4096

struct rig rig;
cpuset_t all_cpus;
u_int mp_maxid;
struct intr_event *clk_intr_event;
struct taskqueue *taskqueue_thread;
moduledata_t *kernel_module;

static struct {
	int memory; /* a file that is the machine's memory, so that it can be mapped twice */
	struct ptah_hal_memory blocks[BLOCKS];
	unsigned nblocks;
	int (*nmi)(struct trapframe *frame);
	bool pcint;
	unsigned foreign;
	struct task *task;
	atomic_size_t allocated;
	bool no_sleep;
	_Atomic(const char *) objection;

	/* The thread of software interrupts. */
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	void (*handler)(void *argument);
	void *argument;
	bool due, busy, over;
	char log[4096];
} k;

static _Thread_local int pinned;

void kernel_object(const char *rule)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&k.objection, &none, rule);
}

static void must_be(bool right, const char *rule)
{
	if (!right)
		kernel_object(rule);
}

bool kernel_can_sleep(void)
{
	return !pinned && !k.no_sleep;
}

void kernel_no_sleep(bool on)
{
	k.no_sleep = on;
}

/* Processors */

struct pcpu *pcpu_find(u_int cpu)
{
	static struct pcpu pcpus[CPUS];

	must_be(cpu < CPUS, "pcpu_find() of no processor");
	return &pcpus[cpu];
}

int kernel_curcpu(void)
{
	return (int)rig.hal.cpu(rig.machine);
}

int rdmsr_safe(u_int msr, uint64_t *value)
{
	return rig.hal.rdmsr(rig.machine, msr, value) < 0 ? EFAULT : 0;
}

int wrmsr_safe(u_int msr, uint64_t value)
{
	return rig.hal.wrmsr(rig.machine, msr, value) < 0 ? EFAULT : 0;
}

void cpuid_count(u_int leaf, u_int subleaf, u_int *registers)
{
	rig.hal.cpuid(rig.machine, leaf, subleaf, registers);
}

void sfence(void)
{
	rig.hal.fence(rig.machine);
}

uint64_t intr_disable(void)
{
	pinned++;
	return rig.hal.irq_save(rig.machine);
}

void intr_restore(uint64_t state)
{
	rig.hal.irq_restore(rig.machine, state);
	pinned--;
}

void kernel_pin(bool on)
{
	static uint64_t state;

	if (on)
		state = intr_disable();
	else
		intr_restore(state);
}

void smp_no_rendezvous_barrier(void *argument)
{
	(void)argument;
}

void smp_rendezvous_cpus(cpuset_t set, void (*setup)(void *), void (*action)(void *),
			 void (*teardown)(void *), void *argument)
{
	unsigned cpu;

	must_be(!pinned, "smp_rendezvous_cpus() with interrupts off");
	must_be(setup == smp_no_rendezvous_barrier && teardown == smp_no_rendezvous_barrier,
		"a rendezvous whose processors wait for each other");
	must_be(!(set.bits & ~all_cpus.bits), "a rendezvous of processors that are absent");
	for (cpu = 0; cpu < CPUS; cpu++) {
		pinned++;
		if (CPU_ISSET(cpu, &set))
			rig.hal.run_on(rig.machine, cpu, action, argument);
		pinned--;
	}
}

/* Interrupts */

static void on_pmi(void *argument, unsigned cpu)
{
	(void)argument, (void)cpu;
	pinned++;
	if (!k.nmi || !k.nmi(NULL))
		k.foreign++;
	pinned--;
}

unsigned kernel_foreign(void)
{
	return k.foreign;
}

void nmi_register_handler(int (*handler)(struct trapframe *frame))
{
	must_be(!k.nmi, "the handler of NMIs is registered twice");
	k.nmi = handler;
}

void nmi_remove_handler(int (*handler)(struct trapframe *frame))
{
	must_be(k.nmi == handler && !k.pcint, "the handler is removed while there are interrupts");
	k.nmi = NULL;
}

int lapic_enable_pcint(void)
{
	k.pcint = true;
	rig.hal.pmi_enable(rig.machine, true);
	return 1;
}

void lapic_disable_pcint(void)
{
	k.pcint = false;
	rig.hal.pmi_enable(rig.machine, false);
}

void lapic_reenable_pcint(void)
{
	rig.hal.pmi_unmask(rig.machine);
}

static void *run_interrupts(void *unused)
{
	pthread_mutex_lock(&k.mutex);
	while (!k.over) {
		if (!k.due) {
			pthread_cond_wait(&k.changed, &k.mutex);
			continue;
		}
		k.due = false;
		k.busy = true;
		pthread_mutex_unlock(&k.mutex);
		k.handler(k.argument);
		pthread_mutex_lock(&k.mutex);
		k.busy = false;
		pthread_cond_broadcast(&k.changed);
	}
	pthread_mutex_unlock(&k.mutex);
	return unused;
}

int swi_add(struct intr_event **event, const char *name, void (*handler)(void *), void *argument,
	    int priority, int flags, void **cookie)
{
	(void)name, (void)flags;
	must_be(event == &clk_intr_event && priority == SWI_CLOCK,
		"SWI_FROMNMI is for the clock's software interrupts");
	must_be(kernel_can_sleep(), "swi_add() where one must not sleep");
	k.handler = handler;
	k.argument = argument;
	k.due = k.busy = k.over = false;
	pthread_create(&k.thread, NULL, run_interrupts, NULL);
	*cookie = &k;
	return 0;
}

int swi_remove(void *cookie)
{
	must_be(cookie == &k, "swi_remove() of none");
	pthread_mutex_lock(&k.mutex);
	k.over = true;
	pthread_cond_broadcast(&k.changed);
	pthread_mutex_unlock(&k.mutex);
	pthread_join(k.thread, NULL);
	return 0;
}

void swi_sched(void *cookie, int flags)
{
	must_be(cookie == &k && flags == SWI_FROMNMI, "swi_sched() in an NMI without SWI_FROMNMI");
	pthread_mutex_lock(&k.mutex);
	k.due = true;
	pthread_cond_broadcast(&k.changed);
	pthread_mutex_unlock(&k.mutex);
}

void kernel_swi_wait(void)
{
	pthread_mutex_lock(&k.mutex);
	while (k.due || k.busy)
		pthread_cond_wait(&k.changed, &k.mutex);
	pthread_mutex_unlock(&k.mutex);
}

int taskqueue_enqueue(struct taskqueue *queue, struct task *task)
{
	(void)queue;
	task->pending = true;
	k.task = task;
	return 0;
}

void kernel_run_tasks(void)
{
	while (k.task && k.task->pending) {
		k.task->pending = false;
		k.task->run(k.task->context, 1);
	}
}

void taskqueue_drain(struct taskqueue *queue, struct task *task)
{
	(void)queue, (void)task;
	must_be(kernel_can_sleep(), "taskqueue_drain() where one must not sleep");
	kernel_run_tasks();
}

/* Memory */

struct header {
	_Alignas(16) size_t size;
};

void *kernel_malloc(size_t size, struct malloc_type *type, int flags)
{
	struct header *h = calloc(1, sizeof(*h) + size);

	must_be(type && flags & (M_WAITOK | M_NOWAIT), "malloc() without a type, or flags");
	must_be(!(flags & M_WAITOK) || kernel_can_sleep(), "M_WAITOK where one must not sleep");
	assert_non_null(h);
	if (!(flags & M_ZERO))
		memset(h + 1, 0xa5, size);
	h->size = size;
	atomic_fetch_add(&k.allocated, size);
	return h + 1;
}

void kernel_free(void *memory, struct malloc_type *type)
{
	struct header *h = memory;

	(void)type;
	if (!h)
		return;
	atomic_fetch_sub(&k.allocated, h[-1].size);
	memset(h, 0x5a, h[-1].size);
	free(h - 1);
}

void *contigmalloc(size_t size, struct malloc_type *type, int flags, vm_paddr_t low,
		   vm_paddr_t high, size_t align, vm_paddr_t boundary)
{
	struct ptah_hal_memory *m = &k.blocks[k.nblocks];

	must_be(type && flags == (M_WAITOK | M_ZERO) && !low && high == UINT64_MAX && !boundary,
		"contigmalloc() with other arguments than a port's");
	must_be(kernel_can_sleep(), "contigmalloc() where one must not sleep");
	if (rig.hal.alloc(rig.machine, size, align, m) < 0)
		return NULL;
	assert_true(++k.nblocks < BLOCKS);
	return m->address;
}

void *contigmalloc_domainset(size_t size, struct malloc_type *type, int domain, int flags,
			     vm_paddr_t low, vm_paddr_t high, size_t align, vm_paddr_t boundary)
{
	(void)domain;
	return contigmalloc(size, type, flags, low, high, align, boundary);
}

static struct ptah_hal_memory *find_block(const void *address)
{
	unsigned i;

	for (i = 0; i < k.nblocks; i++) {
		if (k.blocks[i].address == address)
			return &k.blocks[i];
	}
	fail_msg("no such block");
	return NULL;
}

vm_paddr_t vtophys(const void *memory)
{
	return find_block(memory)->physical;
}

void contigfree(void *memory, size_t size, struct malloc_type *type)
{
	struct ptah_hal_memory *m = find_block(memory);

	(void)type;
	must_be(m->size == (size + 4095) / 4096 * 4096, "contigfree() with another size");
	rig.hal.release(rig.machine, m);
	*m = k.blocks[--k.nblocks];
}

static void *map_pages(const struct hwt_vm *vm, int protection)
{
	size_t size = (size_t)vm->npages * PAGE_SIZE;
	uint8_t *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	assert_true(at != MAP_FAILED);
	for (i = 0; i < vm->npages; i++)
		assert_true(mmap(at + (size_t)i * PAGE_SIZE, PAGE_SIZE, protection,
				 MAP_SHARED | MAP_FIXED, k.memory,
				 (off_t)(vm->pages[i]->physical - PHYSICAL)) != MAP_FAILED);
	return at;
}

void kernel_map_pages(struct hwt_vm *vm)
{
	struct ptah_hal_memory memory;
	int i;

	vm->pages = calloc((size_t)vm->npages, sizeof(vm_page_t));
	for (i = 0; i < vm->npages; i++) {
		/* Not one after another, and downwards. */
		vm_page_t page = calloc(1, sizeof(*page));

		assert_int_equal(rig.hal.alloc(rig.machine, PAGE_SIZE, PAGE_SIZE, &memory),
				 PTAH_OK);
		page->physical = memory.physical;
		vm->pages[vm->npages - 1 - i] = page;
	}
	vm->kvaddr = map_pages(vm, PROT_READ | PROT_WRITE);
}

void kernel_unmap_pages(struct hwt_vm *vm)
{
	int i;

	munmap(vm->kvaddr, (size_t)vm->npages * PAGE_SIZE);
	for (i = 0; i < vm->npages; i++) {
		struct ptah_hal_memory memory = {.physical = vm->pages[i]->physical,
						 .size = PAGE_SIZE};

		memory.address = (uint8_t *)rig.arena + (memory.physical - PHYSICAL);
		rig.hal.release(rig.machine, &memory);
		free(vm->pages[i]);
	}
	free(vm->pages);
}

const uint8_t *kernel_user_map(const struct hwt_vm *vm)
{
	return map_pages(vm, PROT_READ);
}

/* Locks */

void sx_xlock(struct sx *sx)
{
	must_be(kernel_can_sleep(), "sx_xlock() where one must not sleep");
	pthread_rwlock_wrlock(&sx->lock);
}

void sx_xunlock(struct sx *sx)
{
	pthread_rwlock_unlock(&sx->lock);
}

void sx_slock(struct sx *sx)
{
	must_be(kernel_can_sleep(), "sx_slock() where one must not sleep");
	pthread_rwlock_rdlock(&sx->lock);
}

void sx_sunlock(struct sx *sx)
{
	pthread_rwlock_unlock(&sx->lock);
}

void mtx_init(struct mtx *mtx, const char *name, const char *type, int options)
{
	(void)name, (void)type, (void)options;
	pthread_mutex_init(&mtx->lock, NULL);
}

void mtx_destroy(struct mtx *mtx)
{
	pthread_mutex_destroy(&mtx->lock);
}

void mtx_lock(struct mtx *mtx)
{
	must_be(!pinned, "mtx_lock() with interrupts off");
	pthread_mutex_lock(&mtx->lock);
}

void mtx_unlock(struct mtx *mtx)
{
	pthread_mutex_unlock(&mtx->lock);
}

void mtx_lock_spin(struct mtx *mtx)
{
	pinned++;
	pthread_mutex_lock(&mtx->lock);
}

void mtx_unlock_spin(struct mtx *mtx)
{
	pthread_mutex_unlock(&mtx->lock);
	pinned--;
}

/* The module */

int kernel_printf(const char *format, ...)
{
	size_t n;
	va_list list;
	int more;

	must_be(!pinned, "printf() in the scheduler or in an NMI");
	pthread_mutex_lock(&k.mutex);
	n = strlen(k.log);
	va_start(list, format);
	more = vsnprintf(k.log + n, sizeof(k.log) - n, format, list);
	va_end(list);
	pthread_mutex_unlock(&k.mutex);
	return more;
}

const char *kernel_log(void)
{
	static char copy[sizeof(k.log)];

	pthread_mutex_lock(&k.mutex);
	memcpy(copy, k.log, sizeof(copy));
	k.log[0] = 0;
	pthread_mutex_unlock(&k.mutex);
	return copy;
}

int kernel_load(void)
{
	return kernel_module->event(NULL, MOD_LOAD, NULL);
}

int kernel_unload(void)
{
	return kernel_module->event(NULL, MOD_UNLOAD, NULL);
}

void kernel_boot(const char *processor)
{
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = CPUS,
	    .processor = ptah_model_find(processor),
	    .arena_size = ARENA,
	    .physical = PHYSICAL,
	};

	memset(&k, 0, sizeof(k));
	memset(&rig, 0, sizeof(rig));
	pthread_mutex_init(&k.mutex, NULL);
	pthread_cond_init(&k.changed, NULL);
	k.memory = memfd_create("memory", MFD_CLOEXEC);
	assert_true(k.memory >= 0 && ftruncate(k.memory, (off_t)ARENA) == 0);
	rig.arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, k.memory, 0);
	assert_true(rig.arena != MAP_FAILED);
	rig.machine = calloc(1, ptah_machine_size(CPUS));
	assert_non_null(rig.machine);
	config.arena = rig.arena;
	assert_int_equal(ptah_machine_init(rig.machine, &config), PTAH_OK);
	ptah_machine_hal(rig.machine, &rig.hal);
	ptah_machine_on_pmi(rig.machine, on_pmi, NULL);
	mp_maxid = CPUS - 1;
	all_cpus.bits = (UINT64_C(1) << CPUS) - 1;
}

void kernel_halt(void)
{
	if (k.objection)
		fail_msg("%s", k.objection);
	if (ptah_machine_violation(rig.machine))
		fail_msg("%s", ptah_machine_violation(rig.machine));
	assert_int_equal(k.allocated, 0);
	assert_int_equal(ptah_machine_allocated(rig.machine), 0);
	assert_int_equal(k.foreign, 0);
	assert_null(k.nmi);
	munmap(rig.arena, ARENA);
	close(k.memory);
	free(rig.machine);
}
