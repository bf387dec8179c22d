/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of the module share. hal.c and log.c are the engine's port (hal.h); threads.c
 * calls the engine from the scheduler, perf.c keeps perf's driver away, and the other files are
 * /dev/ptah: request.c checks what programs pass, capture.c, set.c and pool.c are the three kinds
 * of descriptors, map.c their mappings, main.c the device and the life of the module.
 *
 * Locks, from the outermost to the innermost:
 *
 *	sets_lock	(set.c) the list of sets that take new processors
 *	set->control	calls that control a set
 *	capture->control, ->consumer
 *			calls that control a capture, and those of its consumer
 *	capture->shape	for writing: nobody else may use the capture, its buffer is exchanged
 *	the lock of the engine (hal.c)
 *
 * mmap() and munmap() are called with the process' mmap_lock and take `shape` below it. So no
 * user memory is accessed under any of these locks, and cpus_read_lock(), under which the kernel
 * takes mmap_lock, is taken under those of sets alone, which no mapping takes.
 */
#ifndef PTAH_LINUX_MODULE_H
#define PTAH_LINUX_MODULE_H

#define pr_fmt(text) KBUILD_MODNAME ": " text

#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "ptah_ioctl.h"

#include <ptah/engine/captures.h>

struct port_pool;
struct port_set;

/* A capture with what its descriptor needs. */
struct port_capture {
	struct ptah_capture *capture;
	struct port_set *set;	/* that it is a member of, or NULL */
	struct port_pool *pool; /* that it comes from, or NULL */
	struct mutex control, consumer;
	struct rw_semaphore shape;
	wait_queue_head_t wait;
	struct irq_work wake;
	u32 seen;	      /* PTAH_IOC_SEEN */
	u64 page;	      /* bytes of the page's mapping; 0: not known yet */
	int processor;	      /* or PTAH_IOC_CPU_THREAD */
	struct mm_struct *mm; /* whose CR3 it filters by: kept, so that nobody else gets it */

	/* Of a thread: threads.c */
	struct hlist_node node;
	struct task_struct *task;
	struct pid *tid, *pid;
	bool on_exec; /* the next exec starts it */
	bool execs;   /* an exec may be starting it */
	bool begun;   /* it has been started, and threads that inherit begin */
	bool arms;    /* a start arms only, resume begins */
	bool paused;  /* and so are threads that inherit */
	bool ended;

	/* Of a pool: pool.c */
	struct list_head link;
	struct pid *parent;
	u64 born;
};

/* What a request says that the engine does not keep. */
struct port_request {
	struct ptah_capture_config config; /* `trace` points to the next field */
	struct ptah_trace_config trace;
	struct mm_struct *mm;
	struct ptah_ioc_problem problem;
	u64 problem_at; /* where the program wants it, or 0 */
	u32 flags;
	int tid;
};

extern struct ptah_engine *port_engine;

/* hal.c */
extern const struct ptah_hal port_hal;
u64 port_memory_limit(void);
u64 port_memory_used(void);
/* Makes the LVT entry of this processor deliver NMIs. PINNED. */
void port_lvt_set(void);

/* log.c */
void port_log(void *port, const char *text);
void port_log_end(void);

/* crash.c: the last trace before a panic, and where a dump has it. */
void port_crash_begin(void);
void port_crash_end(void);

/* perf.c: while at least one hold() has no release(), perf cannot use Intel PT. */
void port_perf_find(void);
bool port_perf_found(void);
int port_perf_hold(void);
void port_perf_release(void);
/* A processor goes offline; any context. Some came online; may sleep. */
void port_perf_offline(unsigned int cpu);
void port_perf_online(void);

/* threads.c */
int port_hooks_get(void);
void port_hooks_put(void);
/* Follows c->task from now on. -EBUSY: another capture follows it. Any context but NMI. */
int port_thread_add(struct port_capture *c);
/* The hooks find it no more; after this and a grace period of RCU none of them uses it. */
void port_thread_forget(struct port_capture *c);
/* After that: no processor has it any more. */
void port_thread_leave(struct port_capture *c);
/* After a start: where the thread runs now, it is traced now. */
void port_thread_enter(struct port_capture *c);
bool port_thread_ended(const struct port_capture *c);

/* request.c */
int port_errno(int status);
/* Copies a struct that begins with its size. -E2BIG as copy_struct_from_user(). */
int port_get(void *to, size_t known, u64 from);
/* Copies back as much as the program knows: to->size. */
int port_put(u64 to, const void *from, size_t known);
int port_put_live(u64 to, u32 size, const struct ptah_capture_live *of);
int port_put_problem(u64 to, const struct ptah_ioc_problem *problem);
/* Writes the problem of a status, with the field and reason if there are any; returns errno. */
int port_explain(struct ptah_ioc_problem *problem, int status,
		 const struct ptah_trace_problem *request);
int port_refuse(struct ptah_ioc_problem *problem, int error, const char *field, const char *reason);
int port_get_trace(struct ptah_trace_config *trace, struct mm_struct **mm, u64 from,
		   struct ptah_ioc_problem *problem);
/* Afterwards port_request_end(), also when it fails. */
int port_request_begin(struct port_request *request, u64 capture);
int port_request_end(struct port_request *request, int result);
void port_mm_put(struct mm_struct *mm);
/* Finds the thread; 0: the caller. Sets task, tid, pid. */
int port_find_thread(struct port_capture *c, int tid);

/* capture.c */
extern const struct file_operations port_capture_fops;
void port_capture_init(struct port_capture *c, int processor);
int port_capture_create(u64 argument);
/* Stops and frees what the engine has of it, or of n of a pool's; the struct remains. */
void port_capture_end(struct port_capture **c, unsigned n);
/* Returns a descriptor; `c` is its private data. It is published by fd_install() alone. */
struct file *port_open(const char *name, const struct file_operations *fops, void *c, int *fd);

/* Opens what a request has made, and ends the request; drop() frees the object if that fails. */
int port_publish(const char *name, const struct file_operations *fops, void *object,
		 void (*drop)(void *object), struct port_request *request);

/* map.c */
int port_capture_mmap(struct file *file, struct vm_area_struct *vma);
int port_map_pieces(u64 owner, const struct ptah_hal_memory *pieces, size_t n, u64 *address);
/* How many bytes the mapping of the page has. */
u64 port_page_size(struct port_capture *c);

/* set.c */
int port_set_create(u64 argument);
void port_set_put(struct port_set *set);
/* Calls on a member that change it exclude those of the set. */
struct mutex *port_set_control(struct port_set *set);
/* New processors are online. */
void port_sets_update(void);

/* pool.c */
int port_pool_create(u64 argument);
void port_pool_put_back(struct port_capture *c);
/* PINNED or with preemption off: a thread that is captured has created another. */
void port_pool_inherit(struct port_capture *parent, struct task_struct *child);

#endif
