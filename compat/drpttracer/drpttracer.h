/* SPDX-License-Identifier: MIT */
/*
 * The interface of drpttracer, DynamoRIO's extension that records a thread with Intel PT, on Ptah's
 * recorder (<ptah/record.h>). Programs that were compiled with DynamoRIO's header link with this
 * library and run unchanged, and so do programs that are compiled with this header.
 *
 *	drpttracer_init();
 *	drpttracer_create_handle(ctx, DRPTTRACER_TRACING_ONLY_USER, 8, 8, &handle);
 *	drpttracer_create_output(ctx, 8, 8, &output);
 *	drpttracer_start_tracing(ctx, handle);
 *	...                                        (this is traced)
 *	drpttracer_stop_tracing(ctx, handle, output);
 *	write(fd, output->pt_buffer, output->pt_size);
 *	drpttracer_destroy_output(ctx, output);
 *	drpttracer_destroy_handle(ctx, handle);
 *	drpttracer_exit();
 *
 * A handle belongs to the thread that creates it: that thread is recorded, and makes all calls with
 * the handle. The first argument of the functions, DynamoRIO's context, is not used. Where the
 * behaviour differs from DynamoRIO's the comment of the function says so.
 */
#ifndef _DRPTTRACER_H_
#define _DRPTTRACER_H_

#include "drpttracer_shared.h"

#include <stddef.h>
/* dr_api.h has a type bool of its own. */
#if !defined(__cplusplus) && !defined(_DR_API_H_)
#include <stdbool.h>
#endif

#ifndef DRPTTRACER_API
#define DRPTTRACER_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are part of the interface. */
typedef enum {
	DRPTTRACER_SUCCESS = 0,
	DRPTTRACER_ERROR = 1, /* never returned */
	DRPTTRACER_ERROR_INVALID_PARAMETER = 2,
	/* No Intel PT, no driver, no permission, in use by another tracer, no memory for it. */
	DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT = 3,
	/* The ring of records, or the trace buffer, is larger than the kernel or the limits of this
	 * user allow (ulimit -l, kernel.perf_event_mlock_kb). */
	DRPTTRACER_ERROR_FAILED_TO_MMAP_PERF_DATA = 4,
	DRPTTRACER_ERROR_FAILED_TO_MMAP_PT_DATA = 5,
	DRPTTRACER_ERROR_FAILED_TO_ALLOCATE_OUTPUT_BUFFER = 6,
	DRPTTRACER_ERROR_FAILED_TO_START_TRACING = 7,
	DRPTTRACER_ERROR_FAILED_TO_STOP_TRACING = 8,
	DRPTTRACER_ERROR_OVERWRITTEN_PT_TRACE = 9, /* the trace buffer was full */
	/* The trace does not fit into the output, or the kernel's buffers are damaged. */
	DRPTTRACER_ERROR_FAILED_TO_READ_PT_DATA = 10,
	DRPTTRACER_ERROR_OVERWRITTEN_SIDEBAND_DATA = 11,     /* the ring of records was full */
	DRPTTRACER_ERROR_FAILED_TO_READ_SIDEBANBD_DATA = 12, /* do not fit into the output */
} drpttracer_status_t;

/* What of the thread is traced. */
typedef enum {
	DRPTTRACER_TRACING_ONLY_USER = 0,
	DRPTTRACER_TRACING_ONLY_KERNEL = 1,
	DRPTTRACER_TRACING_USER_AND_KERNEL = 2,
} drpttracer_tracing_mode_t;

/* Where a trace goes. Made by drpttracer_create_output(); may be used again and again. */
typedef struct _drpttracer_output_t {
	void *pt_buffer; /* packets */
	size_t pt_buffer_size;
	size_t pt_size;	       /* how many bytes the last drpttracer_stop_tracing() wrote */
	void *sideband_buffer; /* perf's records; NULL: none wanted */
	size_t sideband_buffer_size;
	size_t sideband_size;
} drpttracer_output_t;

/*
 * Whether the processor has Intel PT and the kernel its driver; whether this user may record is
 * found out by drpttracer_create_handle(). To be called before the other functions, and once more
 * for each further part of the program that uses them. Each call that returned true is followed by
 * one of drpttracer_exit().
 */
DRPTTRACER_API bool drpttracer_init(void);
DRPTTRACER_API void drpttracer_exit(void);

/*
 * Prepares the recording of the calling thread, with a trace buffer of 2^pt_size_shift pages and a
 * ring of records of 2^sideband_size_shift pages. Both are 1 to 19.
 *
 * The packets are those of perf's intel_pt/tsc,noretcomp/, and with user code also CYC. DynamoRIO's
 * extension traces without TSC, so that records cannot be ordered by time.
 */
DRPTTRACER_API drpttracer_status_t drpttracer_create_handle(void *drcontext,
							    drpttracer_tracing_mode_t tracing_mode,
							    unsigned int pt_size_shift,
							    unsigned int sideband_size_shift,
							    void **tracer_handle);
DRPTTRACER_API drpttracer_status_t drpttracer_destroy_handle(void *drcontext, void *tracer_handle);

/* May be called again after drpttracer_stop_tracing(): the trace then continues. */
DRPTTRACER_API drpttracer_status_t drpttracer_start_tracing(void *drcontext, void *tracer_handle);

/*
 * Stops, and puts what was traced since drpttracer_start_tracing() into the output.
 *
 * Except with DRPTTRACER_TRACING_ONLY_KERNEL, sideband_buffer gets the records of the kernel:
 * sample_type is 0x10086, with a sample id in each record. The first output of a handle begins with
 * records of what was mapped before, if there is room for them; with DynamoRIO's extension these,
 * and all records of new mappings, are missing.
 *
 * With a trace buffer that was full this returns DRPTTRACER_ERROR_OVERWRITTEN_PT_TRACE, and the
 * output has the trace up to there. DynamoRIO's extension returns DRPTTRACER_SUCCESS.
 */
DRPTTRACER_API drpttracer_status_t drpttracer_stop_tracing(void *drcontext, void *tracer_handle,
							   drpttracer_output_t *output);

DRPTTRACER_API drpttracer_status_t drpttracer_get_pt_metadata(void *tracer_handle,
							      pt_metadata_t *pt_metadata);

/*
 * Makes an output for 2^pt_buf_size_shift pages of trace, and 2^sd_buf_size_shift + 1 pages of
 * records; sd_buf_size_shift 0: no room for records.
 */
DRPTTRACER_API drpttracer_status_t drpttracer_create_output(void *drcontext,
							    unsigned int pt_buf_size_shift,
							    size_t sd_buf_size_shift,
							    drpttracer_output_t **output);
DRPTTRACER_API drpttracer_status_t drpttracer_destroy_output(void *drcontext,
							     drpttracer_output_t *output);

#ifdef __cplusplus
}
#endif

#endif
