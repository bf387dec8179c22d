/* SPDX-License-Identifier: MIT */
/*
 * fuchsia.hardware.cpu.insntrace's Controller by Ptah's capture engine: a function for each method
 * of the protocol, in the order of a trace. docs/port-fuchsia.md has what differs from Fuchsia's own.
 *
 *	insntrace_bind()				the driver
 *	insntrace_opened()				a client connects
 *	insntrace_initialize(INSNTRACE_CPU, cpus)
 *	insntrace_allocate_buffer()			for each processor
 *	insntrace_start() ... insntrace_stop()
 *	insntrace_get_buffer_state(), insntrace_get_chunk_handle()
 *	insntrace_terminate(), insntrace_closed()
 *
 * One connection at a time; all functions but those marked are called PASSIVE (hal.h) by one thread
 * at a time. ZX_ERR_INVALID_ARGS: insntrace_problem() names the field of the request.
 */
#ifndef PTAH_PORT_FUCHSIA_INSNTRACE_H
#define PTAH_PORT_FUCHSIA_INSNTRACE_H

#include <zircon/syscalls.h>

#include <ptah/engine/hal.h>

#include <stdbool.h>
#include <stdint.h>

#define INSNTRACE_MAX_NUM_TRACES   64
#define INSNTRACE_MAX_NUM_CHUNKS   4096
#define INSNTRACE_MAX_CHUNK_ORDER  8
#define INSNTRACE_MAX_BUFFER_BYTES (256u << 20)

enum insntrace_mode {
	INSNTRACE_CPU = 0,
	INSNTRACE_THREAD = 1,
};

struct insntrace_allocation {
	uint8_t mode; /* enum insntrace_mode */
	uint16_t num_traces;
};

struct insntrace_address_range {
	uint64_t start, end; /* both inclusive; both 0: none */
};

struct insntrace_buffer_config {
	uint32_t num_chunks, chunk_order; /* a chunk is 1 << chunk_order pages */
	bool is_circular;		  /* false: tracing stops when the buffer is full */
	uint64_t ctl;			  /* IA32_RTIT_CTL; TraceEn and ToPA are not looked at */
	uint64_t address_space_match;	  /* CR3; 0: all */
	struct insntrace_address_range address_range[2];
};

struct insntrace_buffer_state {
	uint64_t capture_end; /* offset in all chunks, as one, where the trace ended */
	uint64_t written; /* bytes since the buffer was allocated: more than its size: it wrapped */
};

struct insntrace_problem {
	const char *field; /* "address_range_1.end"; NULL: none */
	const char *reason;
};

/*
 * `cpu` has the callbacks that concern processors (docs/port-fuchsia.md: which function of the kernel
 * each is); its alloc, release, user_map and user_unmap are not used, and `port` is theirs.
 */
zx_status_t insntrace_bind(const struct ptah_hal *cpu, void *port, zx_handle_t bti,
			   zx_handle_t vmar);
void insntrace_unbind(void);

/* A client connects; ZX_ERR_ALREADY_BOUND while another one is connected. */
zx_status_t insntrace_opened(void);
/* The connection is closed, or the process at its other end is gone: nothing is traced afterwards,
 * and only then is memory freed. */
void insntrace_closed(void);

zx_status_t insntrace_initialize(const struct insntrace_allocation *allocation);
/* Stops, and frees all buffers. */
zx_status_t insntrace_terminate(void);
bool insntrace_get_allocation(struct insntrace_allocation *allocation);
/* In the mode CPU the descriptor is the processor's number. */
zx_status_t insntrace_allocate_buffer(const struct insntrace_buffer_config *config,
				      uint32_t *descriptor);
/* The handle stays the caller's. */
zx_status_t insntrace_assign_thread_buffer(uint32_t descriptor, zx_handle_t thread);
zx_status_t insntrace_release_thread_buffer(uint32_t descriptor, zx_handle_t thread);
bool insntrace_get_buffer_config(uint32_t descriptor, struct insntrace_buffer_config *config);
bool insntrace_get_buffer_state(uint32_t descriptor, struct insntrace_buffer_state *state);
/* A VMO of one chunk, read-only, for the caller to close. */
bool insntrace_get_chunk_handle(uint32_t descriptor, uint32_t chunk, zx_handle_t *vmo);
zx_status_t insntrace_free_buffer(uint32_t descriptor);
/* All are traced, or none. */
zx_status_t insntrace_start(void);
zx_status_t insntrace_stop(void);

struct insntrace_problem insntrace_problem(void);

/* PINNED. The scheduler changes from one thread to another, by their koids. */
void insntrace_context_switch(zx_koid_t from, zx_koid_t to);
/* NMI. A performance-monitoring interrupt has come; true: it was PT's. */
bool insntrace_pmi(void);

#endif
