/* SPDX-License-Identifier: MIT */
/*
 * A kernel for the port: FreeBSD's functions on a simulated machine (kernel.c), and hwt(4) as far
 * as a backend sees it (hwt.c). The calling thread acts for all processors; software interrupts
 * have a thread of their own.
 */
#ifndef PTAH_TESTS_PORTS_FREEBSD_KERNEL_H
#define PTAH_TESTS_PORTS_FREEBSD_KERNEL_H

#include "freebsd.h"

#undef printf
#undef malloc
#undef free

#include "engine/stream.h"

#define CPUS 2

/* kernel.c */

extern struct rig rig; /* machine and hal; no engine: that is the module's */

void kernel_boot(const char *processor);
/* Nothing is left allocated, and no rule was broken. */
void kernel_halt(void);
int kernel_load(void);
int kernel_unload(void);
void kernel_no_sleep(bool on); /* the caller holds something: it may not sleep */
void kernel_swi_wait(void);    /* until all software interrupts are done */
void kernel_run_tasks(void);   /* what waits in taskqueue_thread */
const char *kernel_log(void);  /* what was printed since the last call */
void kernel_pin(bool on);      /* interrupts off on this processor */
void kernel_object(const char *rule);
unsigned kernel_foreign(void); /* NMIs that no handler claimed */

/* Pages anywhere in memory, mapped one after another. */
void kernel_map_pages(struct hwt_vm *vm);
void kernel_unmap_pages(struct hwt_vm *vm);
/* A user's mapping of the same pages, read-only. */
const uint8_t *kernel_user_map(const struct hwt_vm *vm);

/* hwt.c: what ioctls, hooks and the owner's end do. */

struct thread {
	struct proc *proc;
	struct hwt_thread *thr; /* for the test alone */
	int cpu;		/* -1: on none */
};

struct proc {
	struct hwt_context *ctx;
};

struct hwt_backend *hwt_registered(void);
int hwt_alloc_thread_mode(struct proc *p, struct thread **threads, int n, size_t bufsize);
int hwt_alloc_cpu_mode(struct hwt_context **ctx, uint64_t cpus, size_t bufsize);
int hwt_set_config(struct hwt_context *ctx, const void *config, size_t size);
int hwt_start(struct hwt_context *ctx);
/* `meanwhile` (may be NULL) is called after the backend has stopped, and before hwt takes notice. */
int hwt_stop(struct hwt_context *ctx, void (*meanwhile)(void *argument), void *argument);
int hwt_bufptr_get(struct hwt_vm *vm, int *ident, vm_offset_t *offset, uint64_t *data);
/* The oldest record; false: there is none. */
bool hwt_record_get(struct hwt_context *ctx, struct hwt_record_entry *entry);
/* The same as HWT_IOC_RECORD_GET returns it. */
bool hwt_record_get_user(struct hwt_context *ctx, struct hwt_record_user_entry *user);
/* A process has executed a program, or mapped a file's code; the kernel has loaded one. */
void hwt_record_path(struct hwt_context *ctx, enum hwt_record_type type, const char *path,
		     uint64_t addr, uint64_t baseaddr);
void hwt_close(struct hwt_context *ctx);

int hwt_thread_create(struct thread *td);
void hwt_thread_exit(struct thread *td);
void hwt_switch_in(struct thread *td, int cpu);
void hwt_switch_out(struct thread *td);

#endif
