/* SPDX-License-Identifier: MIT */
/*
 * drpttracer's interface on the recorder: a handle is a recorder of the calling thread, which is
 * paused except between drpttracer_start_tracing() and drpttracer_stop_tracing().
 */
#include "drpttracer.h"

#include <ptah/engine/caps.h>
#include <ptah/engine/hal.h>
#include <ptah/record.h>

#include <cpuid.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	  ((size_t)4096)
#define MAX_SHIFT 19 /* 2 GiB: the recorder takes no larger buffer */

/* Records whose type is not lower come from perf's tools or from Ptah, not from the kernel. */
#define FIRST_USER_TYPE 64

/* Records that wait for the next output. */
struct records {
	uint8_t *bytes;
	size_t size, room;
	size_t before; /* so many of the bytes are about what existed before the recording */
	bool no_memory;
};

struct handle {
	struct ptah_recorder *recorder;
	struct ptah_record_sink sink;
	drpttracer_tracing_mode_t mode;
	drpttracer_output_t *output; /* takes trace; NULL: trace is dropped */
	bool too_large;		     /* trace did not fit into the output */
	struct records records;
	uint64_t truncated, lost_records; /* losses that were reported before */
};

/* Init */

static atomic_int users;

static void cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	(void)port;
	__cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
}

/* Looks only at the processor that the caller runs on, so that the caller is not moved. */
static bool is_available(void)
{
	const struct ptah_hal hal = {.size = sizeof(hal), .cpuid = cpuid};
	struct ptah_host host = {.size = sizeof(host)};
	struct ptah_caps caps;

	ptah_caps_discover(&hal, NULL, &caps);
	ptah_host_look(&caps, NULL, &host);
	return host.obstacle != PTAH_HOST_PROCESSOR && host.obstacle != PTAH_HOST_DRIVER;
}

bool drpttracer_init(void)
{
	if (atomic_fetch_add(&users, 1) > 0 || is_available())
		return true;
	drpttracer_exit();
	return false;
}

void drpttracer_exit(void)
{
	atomic_fetch_sub(&users, 1);
}

/* What the recorder delivers */

static bool is_of_kernel(const struct ptah_record_piece *piece)
{
	uint32_t type;

	if (piece->size < sizeof(type))
		return false;
	memcpy(&type, piece->bytes, sizeof(type));
	return type < FIRST_USER_TYPE;
}

static void add_record(struct records *r, const void *bytes, size_t size)
{
	if (size > r->room - r->size) {
		size_t room = 2 * (r->room + size);
		uint8_t *more = realloc(r->bytes, room);

		if (!more) {
			r->no_memory = true;
			return;
		}
		r->bytes = more;
		r->room = room;
	}
	memcpy(r->bytes + r->size, bytes, size);
	r->size += size;
}

static void add_trace(struct handle *h, const void *bytes, size_t size)
{
	drpttracer_output_t *output = h->output;

	if (!output)
		return;
	if (h->too_large || size > output->pt_buffer_size - output->pt_size) {
		h->too_large = true;
		return;
	}
	memcpy((uint8_t *)output->pt_buffer + output->pt_size, bytes, size);
	output->pt_size += size;
}

static int take(void *context, const struct ptah_record_piece *piece)
{
	struct handle *h = context;

	if (piece->kind == PTAH_RECORD_PIECE_TRACE)
		add_trace(h, piece->bytes, piece->size);
	else if (piece->kind == PTAH_RECORD_PIECE_RECORD &&
		 h->mode != DRPTTRACER_TRACING_ONLY_KERNEL && is_of_kernel(piece))
		add_record(&h->records, piece->bytes, piece->size);
	return 0;
}

/* Handles */

static struct ptah_trace_config trace_of(drpttracer_tracing_mode_t mode)
{
	const bool user = mode != DRPTTRACER_TRACING_ONLY_KERNEL;

	return (struct ptah_trace_config){
	    .size = sizeof(struct ptah_trace_config),
	    .user = user,
	    .os = mode != DRPTTRACER_TRACING_ONLY_USER,
	    .branch = true,
	    .tsc = true,
	    .cyc = user,
	    .no_retcomp = true,
	};
}

static drpttracer_status_t status_of_problem(enum ptah_record_problem problem,
					     unsigned pt_size_shift, unsigned sideband_size_shift)
{
	if (problem == PTAH_RECORD_BAD_OPTION && sideband_size_shift > MAX_SHIFT)
		return DRPTTRACER_ERROR_FAILED_TO_MMAP_PERF_DATA;
	if (problem == PTAH_RECORD_MLOCK ||
	    (problem == PTAH_RECORD_BAD_OPTION && pt_size_shift > MAX_SHIFT))
		return DRPTTRACER_ERROR_FAILED_TO_MMAP_PT_DATA;
	return DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT;
}

/* 2^shift pages; more than the recorder takes if the shift is too large. */
static uint64_t pages(unsigned shift)
{
	return (uint64_t)PAGE << (shift > MAX_SHIFT ? MAX_SHIFT + 1 : shift);
}

static void free_handle(struct handle *h)
{
	h->output = NULL;
	ptah_recorder_free(h->recorder);
	free(h->records.bytes);
	free(h);
}

drpttracer_status_t drpttracer_create_handle(void *drcontext,
					     drpttracer_tracing_mode_t tracing_mode,
					     unsigned int pt_size_shift,
					     unsigned int sideband_size_shift, void **tracer_handle)
{
	enum ptah_record_problem problem = PTAH_RECORD_NO_MEMORY;
	struct ptah_record_config config = {
	    .size = sizeof(config),
	    .target.kind = PTAH_RECORD_SELF,
	    .target.start_paused = true,
	    .target.no_existing = tracing_mode == DRPTTRACER_TRACING_ONLY_KERNEL,
	    .trace = trace_of(tracing_mode),
	    .buffer.size = pages(pt_size_shift),
	    .buffer.sideband = pages(sideband_size_shift),
	    .backend.kind = PTAH_RECORDER_HARDWARE,
	};
	struct handle *h;

	(void)drcontext;
	if (!tracer_handle || !pt_size_shift || !sideband_size_shift ||
	    (unsigned)tracing_mode > DRPTTRACER_TRACING_USER_AND_KERNEL)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	h = calloc(1, sizeof(*h));
	if (!h)
		return DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT;
	h->mode = tracing_mode;
	h->sink = (struct ptah_record_sink){.take = take, .context = h};
	config.output.sink = &h->sink;
	if (ptah_recorder_new(&config, &h->recorder, &problem, NULL) < 0) {
		free_handle(h);
		return status_of_problem(problem, pt_size_shift, sideband_size_shift);
	}
	if (ptah_recorder_start(h->recorder) < 0) {
		free_handle(h);
		return DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT;
	}
	h->records.before = h->records.size;
	*tracer_handle = h;
	return DRPTTRACER_SUCCESS;
}

drpttracer_status_t drpttracer_destroy_handle(void *drcontext, void *tracer_handle)
{
	(void)drcontext;
	if (!tracer_handle)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	free_handle(tracer_handle);
	return DRPTTRACER_SUCCESS;
}

drpttracer_status_t drpttracer_get_pt_metadata(void *tracer_handle, pt_metadata_t *pt_metadata)
{
	struct ptah_record_metadata m = {.size = sizeof(m)};
	const struct handle *h = tracer_handle;

	if (!h || !pt_metadata)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	ptah_recorder_metadata(h->recorder, &m);
	*pt_metadata = (pt_metadata_t){
	    .cpu_family = (uint16_t)m.cpu.family,
	    .cpu_model = (uint8_t)m.cpu.model,
	    .cpu_stepping = (uint8_t)m.cpu.stepping,
	    .time_shift = m.time_shift,
	    .time_mult = m.time_mult,
	    .time_zero = m.time_zero,
	};
	return DRPTTRACER_SUCCESS;
}

/* Tracing */

drpttracer_status_t drpttracer_start_tracing(void *drcontext, void *tracer_handle)
{
	struct handle *h = tracer_handle;

	(void)drcontext;
	if (!h)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	return ptah_recorder_pause(h->recorder, false) < 0
		   ? DRPTTRACER_ERROR_FAILED_TO_START_TRACING
		   : DRPTTRACER_SUCCESS;
}

/*
 * The records of what existed before are dropped if the output has room for the others alone: a
 * program that was written for DynamoRIO's extension does not expect them.
 */
static bool put_records(struct records *r, drpttracer_output_t *output)
{
	const size_t skip = r->size > output->sideband_buffer_size ? r->before : 0;
	const size_t size = r->size - skip;
	const bool fits = !r->no_memory && size <= output->sideband_buffer_size;

	if (fits && size) {
		memcpy(output->sideband_buffer, r->bytes + skip, size);
		output->sideband_size = size;
	}
	r->size = r->before = 0;
	r->no_memory = false;
	return fits;
}

drpttracer_status_t drpttracer_stop_tracing(void *drcontext, void *tracer_handle,
					    drpttracer_output_t *output)
{
	struct ptah_record_status status = {.size = sizeof(status)};
	struct handle *h = tracer_handle;
	bool truncated, lost, fits = true;
	int read;

	(void)drcontext;
	if (!h || !output)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	if (ptah_recorder_pause(h->recorder, true) < 0)
		return DRPTTRACER_ERROR_FAILED_TO_STOP_TRACING;
	output->pt_size = output->sideband_size = 0;
	h->too_large = false;
	h->output = output;
	read = ptah_recorder_poll(h->recorder, 0);
	h->output = NULL;
	if (h->mode != DRPTTRACER_TRACING_ONLY_KERNEL)
		fits = put_records(&h->records, output);
	ptah_recorder_status(h->recorder, &status);
	truncated = status.losses.truncated > h->truncated;
	lost = status.losses.lost_records > h->lost_records;
	h->truncated = status.losses.truncated;
	h->lost_records = status.losses.lost_records;
	if (truncated)
		return DRPTTRACER_ERROR_OVERWRITTEN_PT_TRACE;
	if (read < 0 || h->too_large)
		return DRPTTRACER_ERROR_FAILED_TO_READ_PT_DATA;
	if (lost && h->mode != DRPTTRACER_TRACING_ONLY_KERNEL)
		return DRPTTRACER_ERROR_OVERWRITTEN_SIDEBAND_DATA;
	return fits ? DRPTTRACER_SUCCESS : DRPTTRACER_ERROR_FAILED_TO_READ_SIDEBANBD_DATA;
}

/* Outputs */

static void free_output(drpttracer_output_t *o)
{
	free(o->pt_buffer);
	free(o->sideband_buffer);
	free(o);
}

drpttracer_status_t drpttracer_create_output(void *drcontext, unsigned int pt_buf_size_shift,
					     size_t sd_buf_size_shift, drpttracer_output_t **output)
{
	drpttracer_output_t *o;

	(void)drcontext;
	if (!output || !pt_buf_size_shift)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	*output = NULL;
	if (pt_buf_size_shift > 50 || sd_buf_size_shift > 50)
		return DRPTTRACER_ERROR_FAILED_TO_ALLOCATE_OUTPUT_BUFFER;
	o = calloc(1, sizeof(*o));
	if (!o)
		return DRPTTRACER_ERROR_FAILED_TO_ALLOCATE_OUTPUT_BUFFER;
	o->pt_buffer_size = PAGE << pt_buf_size_shift;
	o->pt_buffer = malloc(o->pt_buffer_size);
	if (sd_buf_size_shift) {
		o->sideband_buffer_size = (((size_t)1 << sd_buf_size_shift) + 1) * PAGE;
		o->sideband_buffer = malloc(o->sideband_buffer_size);
	}
	if (!o->pt_buffer || (o->sideband_buffer_size && !o->sideband_buffer)) {
		free_output(o);
		return DRPTTRACER_ERROR_FAILED_TO_ALLOCATE_OUTPUT_BUFFER;
	}
	*output = o;
	return DRPTTRACER_SUCCESS;
}

drpttracer_status_t drpttracer_destroy_output(void *drcontext, drpttracer_output_t *output)
{
	(void)drcontext;
	if (!output)
		return DRPTTRACER_ERROR_INVALID_PARAMETER;
	free_output(output);
	return DRPTTRACER_SUCCESS;
}
