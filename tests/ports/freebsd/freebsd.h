/* SPDX-License-Identifier: MIT */
/*
 * What the port sees of FreeBSD's kernel and of hwt(4): names and shapes from FreeBSD's public
 * headers (sys/hwt.h, dev/hwt, amd64/pt, of 2025), with a simulated machine behind them (kernel.c)
 * and a model of hwt (hwt.c).
 */
#ifndef PTAH_TESTS_PORTS_FREEBSD_FREEBSD_H
#define PTAH_TESTS_PORTS_FREEBSD_FREEBSD_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/types.h>

typedef uint64_t vm_paddr_t;
typedef uint64_t vm_offset_t;

#define PAGE_SIZE 4096
#define MAXCPU	  64
#define nitems(a) (sizeof(a) / sizeof((a)[0]))

/* Processors */

typedef struct {
	uint64_t bits;
} cpuset_t;

#undef CPU_ZERO
#undef CPU_SET
#undef CPU_ISSET
#define CPU_ZERO(set)	  ((set)->bits = 0)
#define CPU_SET(n, set)	  ((set)->bits |= UINT64_C(1) << (n))
#define CPU_ISSET(n, set) ((set)->bits >> (n)&1)
#define CPU_SETOF(n, set) ((set)->bits = UINT64_C(1) << (n))
#define CPU_ABSENT(n)	  (!CPU_ISSET(n, &all_cpus))

struct pcpu {
	int pc_domain;
};

extern cpuset_t all_cpus;
extern u_int mp_maxid;
struct pcpu *pcpu_find(u_int cpu);
int kernel_curcpu(void);
#define curcpu kernel_curcpu()

int rdmsr_safe(u_int msr, uint64_t *value);
int wrmsr_safe(u_int msr, uint64_t value);
void cpuid_count(u_int leaf, u_int subleaf, u_int *registers);
void sfence(void);
uint64_t intr_disable(void);
void intr_restore(uint64_t state);
static inline void cpu_spinwait(void)
{
}

void smp_rendezvous_cpus(cpuset_t set, void (*setup)(void *), void (*action)(void *),
			 void (*teardown)(void *), void *argument);
void smp_no_rendezvous_barrier(void *argument);

/* Interrupts */

struct trapframe;
struct intr_event;

#define SWI_CLOCK   2
#define SWI_FROMNMI 1
#define INTR_MPSAFE 0

extern struct intr_event *clk_intr_event;
void nmi_register_handler(int (*handler)(struct trapframe *frame));
void nmi_remove_handler(int (*handler)(struct trapframe *frame));
int lapic_enable_pcint(void);
void lapic_disable_pcint(void);
void lapic_reenable_pcint(void);
int swi_add(struct intr_event **event, const char *name, void (*handler)(void *), void *argument,
	    int priority, int flags, void **cookie);
int swi_remove(void *cookie);
void swi_sched(void *cookie, int flags);

/* Memory */

struct malloc_type {
	const char *name;
};

#define MALLOC_DECLARE(type)		extern struct malloc_type type[1]
#define MALLOC_DEFINE(type, name, text) struct malloc_type type[1] = {{name}}

#define M_NOWAIT 1
#define M_WAITOK 2
#define M_ZERO	 0x100

void *kernel_malloc(size_t size, struct malloc_type *type, int flags);
void kernel_free(void *memory, struct malloc_type *type);
#define malloc(size, type, flags)	  kernel_malloc(size, type, flags)
#define mallocarray(n, size, type, flags) kernel_malloc((n) * (size), type, flags)
#define free(memory, type)		  kernel_free(memory, type)

void *contigmalloc(size_t size, struct malloc_type *type, int flags, vm_paddr_t low,
		   vm_paddr_t high, size_t align, vm_paddr_t boundary);
void *contigmalloc_domainset(size_t size, struct malloc_type *type, int domain, int flags,
			     vm_paddr_t low, vm_paddr_t high, size_t align, vm_paddr_t boundary);
#define DOMAINSET_PREF(domain) (domain)
void contigfree(void *memory, size_t size, struct malloc_type *type);
vm_paddr_t vtophys(const void *memory);

typedef struct vm_page {
	vm_paddr_t physical;
} * vm_page_t;

#define VM_PAGE_TO_PHYS(page) ((page)->physical)

/* Locks */

struct sx {
	pthread_rwlock_t lock;
};

struct mtx {
	pthread_mutex_t lock;
};

#define MTX_DEF 0
#define SX_SYSINIT(name, sx, text)                                                                 \
	__attribute__((constructor)) static void name##_init(void)                                 \
	{                                                                                          \
		pthread_rwlock_init(&(sx)->lock, NULL);                                            \
	}                                                                                          \
	_Static_assert(1, text)

void sx_xlock(struct sx *sx);
void sx_xunlock(struct sx *sx);
void sx_slock(struct sx *sx);
void sx_sunlock(struct sx *sx);
void mtx_init(struct mtx *mtx, const char *name, const char *type, int options);
void mtx_destroy(struct mtx *mtx);
void mtx_lock(struct mtx *mtx);
void mtx_unlock(struct mtx *mtx);

#define atomic_cmpset_int(p, old, new)	   kernel_cmpset_int(p, old, new)
#define atomic_load_ptr(p)		   __atomic_load_n(p, __ATOMIC_RELAXED)
#define atomic_store_rel_int(p, v)	   __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define atomic_cmpset_ptr(p, old, new)	   kernel_cmpset_ptr(p, old, new)
#define atomic_cmpset_rel_ptr(p, old, new) kernel_cmpset_ptr(p, old, new)
#define atomic_swap_ptr(p, v)		   __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define refcount_load(p)		   __atomic_load_n(p, __ATOMIC_ACQUIRE)

static inline int kernel_cmpset_int(volatile u_int *p, u_int old, u_int value)
{
	return __atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static inline int kernel_cmpset_ptr(volatile uintptr_t *p, uintptr_t old, uintptr_t value)
{
	return __atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Tasks, modules, text */

struct task {
	void (*run)(void *context, int pending);
	void *context;
	bool pending;
};

struct taskqueue;
extern struct taskqueue *taskqueue_thread;
#define TASK_INIT(what, priority, function, argument)                                              \
	(*(what) = (struct task){.run = (function), .context = (argument)})
int taskqueue_enqueue(struct taskqueue *queue, struct task *task);
void taskqueue_drain(struct taskqueue *queue, struct task *task);
bool kernel_can_sleep(void);
#define THREAD_CAN_SLEEP() kernel_can_sleep()

#define MOD_LOAD   0
#define MOD_UNLOAD 1
typedef struct module *module_t;
typedef struct {
	const char *name;
	int (*event)(module_t module, int event, void *argument);
	void *argument;
} moduledata_t;
extern moduledata_t *kernel_module;
#define DECLARE_MODULE(name, data, subsystem, order)                                               \
	__attribute__((constructor)) static void name##_declare(void)                              \
	{                                                                                          \
		kernel_module = &(data);                                                           \
	}                                                                                          \
	_Static_assert(1, "")
#define MODULE_DEPEND(name, other, least, best, most) _Static_assert(1, "")
#define MODULE_VERSION(name, version)		      _Static_assert(1, "")

int kernel_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define printf kernel_printf

/* hwt(4) */

#define HWT_MODE_THREAD 1
#define HWT_MODE_CPU	2

enum hwt_record_type {
	HWT_RECORD_MMAP,
	HWT_RECORD_MUNMAP,
	HWT_RECORD_EXECUTABLE,
	HWT_RECORD_KERNEL,
	HWT_RECORD_THREAD_CREATE,
	HWT_RECORD_THREAD_SET_NAME,
	HWT_RECORD_BUFFER
};

struct hwt_record_entry {
	TAILQ_ENTRY(hwt_record_entry) next;
	enum hwt_record_type record_type;
	union {
		struct {
			char *fullpath;
			uintptr_t addr;
			uintptr_t baseaddr;
		};
		struct {
			int buf_id;
			int curpage;
			vm_offset_t offset;
		};
		int thread_id;
	};
};

/* What HWT_IOC_RECORD_GET returns. */
struct hwt_record_user_entry {
	enum hwt_record_type record_type;
	union {
		struct {
			char fullpath[1024]; /* MAXPATHLEN */
			uintptr_t addr;
			uintptr_t baseaddr;
		};
		struct {
			int buf_id;
			int curpage;
			vm_offset_t offset;
		};
		int thread_id;
	};
} __attribute__((aligned(16)));

enum hwt_ctx_state {
	CTX_STATE_STOPPED,
	CTX_STATE_RUNNING
};

struct hwt_context {
	TAILQ_HEAD(, hwt_record_entry) records;
	int mode;
	cpuset_t cpu_map;
	TAILQ_HEAD(, hwt_cpu) cpus;
	TAILQ_HEAD(, hwt_thread) threads;
	int thread_counter;
	size_t bufsize;
	void *config;
	size_t config_size;
	struct mtx mtx;
	enum hwt_ctx_state state;
	int refcnt;
};

struct hwt_vm {
	vm_page_t *pages;
	int npages;
	void *kvaddr;
	struct hwt_context *ctx;
	struct hwt_cpu *cpu;
	struct hwt_thread *thr;
};

struct hwt_cpu {
	int cpu_id;
	struct hwt_vm *vm;
	TAILQ_ENTRY(hwt_cpu) next;
};

struct hwt_thread {
	struct hwt_vm *vm;
	struct hwt_context *ctx;
	struct thread *td;
	TAILQ_ENTRY(hwt_thread) next;
	int thread_id;
	void *private;
};

struct hwt_backend_ops {
	int (*hwt_backend_init)(struct hwt_context *);
	int (*hwt_backend_deinit)(struct hwt_context *);
	int (*hwt_backend_configure)(struct hwt_context *, int cpu_id, int thread_id);
	int (*hwt_backend_svc_buf)(struct hwt_context *, void *data, size_t size, int version);
	void (*hwt_backend_enable)(struct hwt_context *, int cpu_id);
	void (*hwt_backend_disable)(struct hwt_context *, int cpu_id);
	int (*hwt_backend_read)(struct hwt_vm *, int *ident, vm_offset_t *offset, uint64_t *data);
	void (*hwt_backend_stop)(struct hwt_context *);
	int (*hwt_backend_enable_smp)(struct hwt_context *);
	int (*hwt_backend_disable_smp)(struct hwt_context *);
	int (*hwt_backend_thread_alloc)(struct hwt_thread *);
	void (*hwt_backend_thread_free)(struct hwt_thread *);
	void (*hwt_backend_dump)(int cpu_id);
};

struct hwt_backend {
	const char *name;
	struct hwt_backend_ops *ops;
	bool kva_req;
};

#define HWT_CTX_LOCK(ctx)   mtx_lock_spin(&(ctx)->mtx)
#define HWT_CTX_UNLOCK(ctx) mtx_unlock_spin(&(ctx)->mtx)
void mtx_lock_spin(struct mtx *mtx);
void mtx_unlock_spin(struct mtx *mtx);

int hwt_backend_register(struct hwt_backend *backend);
int hwt_backend_unregister(struct hwt_backend *backend);
void hwt_record_ctx(struct hwt_context *ctx, struct hwt_record_entry *entry, int flags);

/* amd64/pt */

#define PT_IP_FILTER_MAX_RANGES 2

struct pt_cpu_config {
	uint64_t rtit_ctl;
	int64_t cr3_filter;
	int nranges;
	struct {
		vm_offset_t start;
		vm_offset_t end;
	} ip_ranges[PT_IP_FILTER_MAX_RANGES];
	uint32_t mtc_freq;
	uint32_t cyc_thresh;
	uint32_t psb_freq;
};

#endif
