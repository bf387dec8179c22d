/* SPDX-License-Identifier: MIT */
/*
 * A backend of FreeBSD's hwt(4) on the capture engine. hwt owns the buffers, shows them to users
 * and calls the backend; hal.c is what the engine needs of the kernel, pools.c has captures for new
 * threads, translate.c reads configurations, backend.c has hwt's operations, module.c loads it all.
 */
#ifndef PTAH_PORT_FREEBSD_PORT_H
#define PTAH_PORT_FREEBSD_PORT_H

#include <freebsd.h>

#include <ptah/engine/captures.h>

/* A buffer of hwt's with its capture: of a thread, or of a processor in a context of CPUs. */
struct pt_buffer {
	struct ptah_capture *capture;
	struct hwt_context *ctx;
	struct pt_buffer *next;	 /* of those that have something to report */
	volatile u_int reported; /* it is in that list */
	int id;			 /* of the thread or the processor, in hwt's records */
	bool armed;		 /* of a thread: started with the context's configuration */
	int error;		 /* of a thread: why it is not traced, an errno value */
	struct ptah_trace_problem problem;
};

extern const struct ptah_hal pt_hal;
extern struct ptah_engine *pt_engine;
extern struct hwt_backend_ops pt_ops;

/* What the operations share; an errno value. */
int pt_backend_init(void);
void pt_backend_fini(void);

/* NMI: pt_report() has the buffer's records sent by a software interrupt. */
void pt_report(struct pt_buffer *buffer);

/*
 * The context's configuration for a processor. Nothing is left out silently: what the user asks for
 * is traced, or *problem has the field. Returns a status of the engine.
 */
int pt_translate(const struct hwt_context *ctx, int cpu_id, struct ptah_trace_config *trace,
		 struct ptah_trace_problem *problem);

/* The errno value of hwt's users for a failure of the engine. */
int pt_errno(int status, const struct ptah_trace_problem *problem);

/*
 * Captures of threads, made ahead: hwt asks for one where the kernel may not sleep. Each size of a
 * buffer has its own.
 */
void pt_pools_init(void);
void pt_pools_fini(void); /* waits for what is being allocated, and frees captures not in use */
int pt_pools_take(const struct hwt_vm *vm, void *cookie, struct ptah_capture **capture);
void pt_pools_check(void); /* later: frees what is not needed, allocates what will be */

/* The pages of hwt's buffer as blocks for the engine; NULL: no memory. free(..., M_PTAH). */
struct ptah_hal_memory *pt_blocks(const struct hwt_vm *vm, int flags);

MALLOC_DECLARE(M_PTAH);

#endif
