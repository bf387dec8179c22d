/* SPDX-License-Identifier: MIT */
/* fuchsia.hardware.cpu.insntrace (insntrace.h) on the engine. */
#include "memory.h"
#include "translate.h"

#include <stdatomic.h>

/* Without PMIs a circular trace ends when its tables do: so many make that hundreds of laps. */
#define CIRCULAR_PAGES 16

struct trace {
	struct ptah_capture *capture; /* NULL: free */
	_Atomic(zx_koid_t) thread;    /* 0: none */
	struct insntrace_buffer_config config;
};

static struct {
	struct ptah_hal hal;
	void *port;
	bool bound;
	struct ptah_engine *engine; /* NULL: not initialized */
	struct insntrace_allocation allocation;
	struct trace traces[INSNTRACE_MAX_NUM_TRACES];
	struct insntrace_problem problem;
	bool running, connected;
} driver;

static struct trace *find_trace(uint32_t descriptor)
{
	if (!driver.engine || descriptor >= driver.allocation.num_traces ||
	    !driver.traces[descriptor].capture)
		return NULL;
	return &driver.traces[descriptor];
}

/* Work on every processor: afterwards no hook that began before is still running. */
static void everywhere(void (*work)(void *argument), void *argument)
{
	unsigned i, n = driver.hal.cpus(driver.port);

	for (i = 0; i < n; i++)
		driver.hal.run_on(driver.port, i, work, argument);
}

static void do_nothing(void *argument)
{
	(void)argument;
}

/* XSAVES knows PT's registers while the bit is set. */
static void set_xss(void *argument)
{
	uint64_t xss;

	if (driver.hal.rdmsr(driver.port, PTAH_IA32_XSS, &xss) < 0)
		return;
	xss = *(const bool *)argument ? xss | PTAH_XSTATE_PT : xss & ~(uint64_t)PTAH_XSTATE_PT;
	driver.hal.wrmsr(driver.port, PTAH_IA32_XSS, xss);
}

/* The protocol */

zx_status_t insntrace_bind(const struct ptah_hal *cpu, void *port, zx_handle_t bti,
			   zx_handle_t vmar)
{
	if (driver.bound)
		return ZX_ERR_ALREADY_BOUND;
	driver.hal = *cpu;
	driver.port = port;
	driver.bound = true;
	memory_init(&driver.hal, bti, vmar);
	return ZX_OK;
}

void insntrace_unbind(void)
{
	insntrace_closed();
	driver.bound = false;
}

zx_status_t insntrace_initialize(const struct insntrace_allocation *allocation)
{
	const bool on = true;
	int status;

	driver.problem = (struct insntrace_problem){0};
	if (driver.engine || !driver.bound)
		return ZX_ERR_BAD_STATE;
	if (allocation->mode > INSNTRACE_THREAD)
		return request_refuse(&driver.problem, "mode", "CPU or THREAD");
	if (!allocation->num_traces || allocation->num_traces > INSNTRACE_MAX_NUM_TRACES)
		return request_refuse(&driver.problem, "num_traces", "1 to 64");
	if (allocation->mode == INSNTRACE_CPU &&
	    allocation->num_traces > driver.hal.cpus(driver.port))
		return request_refuse(&driver.problem, "num_traces", "there are fewer processors");
	status = ptah_engine_new(&driver.hal, driver.port, &driver.engine);
	if (status < 0)
		return status == PTAH_E_NOMEM ? ZX_ERR_NO_MEMORY : ZX_ERR_NOT_SUPPORTED;
	driver.allocation = *allocation;
	if (allocation->mode == INSNTRACE_THREAD && driver.hal.xsaves)
		everywhere(set_xss, (void *)(uintptr_t)&on);
	return ZX_OK;
}

zx_status_t insntrace_terminate(void)
{
	const bool on = false;
	uint32_t i;

	if (!driver.engine)
		return ZX_OK;
	insntrace_stop();
	for (i = 0; i < driver.allocation.num_traces; i++)
		atomic_store(&driver.traces[i].thread, 0);
	everywhere(do_nothing, NULL);
	for (i = 0; i < driver.allocation.num_traces; i++)
		insntrace_free_buffer(i);
	if (driver.allocation.mode == INSNTRACE_THREAD && driver.hal.xsaves)
		everywhere(set_xss, (void *)(uintptr_t)&on);
	ptah_engine_free(driver.engine);
	driver.engine = NULL;
	return ZX_OK;
}

zx_status_t insntrace_opened(void)
{
	if (driver.connected)
		return ZX_ERR_ALREADY_BOUND;
	driver.connected = true;
	return ZX_OK;
}

void insntrace_closed(void)
{
	insntrace_terminate();
	driver.connected = false;
}

bool insntrace_get_allocation(struct insntrace_allocation *allocation)
{
	*allocation = driver.allocation;
	return driver.engine != NULL;
}

zx_status_t insntrace_allocate_buffer(const struct insntrace_buffer_config *config,
				      uint32_t *descriptor)
{
	struct ptah_capture_config c = {.size = sizeof(c), .owner = MEMORY_OWNER};
	struct ptah_trace_config trace;
	struct ptah_trace_problem problem;
	zx_status_t status;
	uint32_t i = 0;

	if (!driver.engine || driver.running)
		return ZX_ERR_BAD_STATE;
	while (i < driver.allocation.num_traces && driver.traces[i].capture)
		i++;
	if (i == driver.allocation.num_traces)
		return ZX_ERR_BAD_STATE;
	c.cpu = driver.allocation.mode == INSNTRACE_THREAD ? PTAH_CAPTURE_THREAD : (int)i;
	status = request_translate(
	    &driver.problem, ptah_engine_caps(driver.engine, c.cpu < 0 ? 0 : i), config, &trace);
	if (status != ZX_OK)
		return status;
	c.trace = &trace;
	c.policy = config->is_circular ? PTAH_POLICY_WRAP : PTAH_POLICY_STOP;
	c.shape = PTAH_SHAPE_RING;
	c.region = (size_t)4096 << config->chunk_order;
	c.buffer = c.region * config->num_chunks;
	c.pages = config->is_circular && !driver.hal.pmi_enable ? CIRCULAR_PAGES : 0;
	status = request_judge(
	    &driver.problem,
	    ptah_capture_new(driver.engine, &c, &driver.traces[i].capture, &problem), &problem);
	if (status != ZX_OK)
		return status;
	driver.traces[i].config = *config;
	*descriptor = i;
	return ZX_OK;
}

static zx_koid_t thread_koid(zx_handle_t thread)
{
	zx_info_handle_basic_t info;

	return zx_object_get_info(thread, ZX_INFO_HANDLE_BASIC, &info, sizeof(info), NULL, NULL) ==
		       ZX_OK
		   ? info.koid
		   : 0;
}

static struct trace *trace_of(zx_koid_t koid)
{
	uint32_t i;

	for (i = 0; koid && i < INSNTRACE_MAX_NUM_TRACES; i++)
		if (atomic_load(&driver.traces[i].thread) == koid)
			return &driver.traces[i];
	return NULL;
}

zx_status_t insntrace_assign_thread_buffer(uint32_t descriptor, zx_handle_t thread)
{
	struct trace *t = find_trace(descriptor);
	zx_koid_t koid = thread_koid(thread);

	if (!t || driver.allocation.mode != INSNTRACE_THREAD)
		return ZX_ERR_BAD_STATE;
	if (!koid)
		return ZX_ERR_BAD_HANDLE;
	if (atomic_load(&t->thread) || trace_of(koid))
		return ZX_ERR_ALREADY_EXISTS;
	if (driver.running && ptah_capture_start(t->capture) < 0)
		return ZX_ERR_BAD_STATE;
	atomic_store(&t->thread, koid);
	return ZX_OK;
}

zx_status_t insntrace_release_thread_buffer(uint32_t descriptor, zx_handle_t thread)
{
	struct trace *t = find_trace(descriptor);
	zx_koid_t koid = thread_koid(thread);

	if (!t || !koid || atomic_load(&t->thread) != koid)
		return ZX_ERR_NOT_FOUND;
	atomic_store(&t->thread, 0);
	ptah_capture_stop(t->capture);
	everywhere(do_nothing, NULL);
	return ZX_OK;
}

bool insntrace_get_buffer_config(uint32_t descriptor, struct insntrace_buffer_config *config)
{
	struct trace *t = find_trace(descriptor);

	if (t)
		*config = t->config;
	return t != NULL;
}

bool insntrace_get_buffer_state(uint32_t descriptor, struct insntrace_buffer_state *state)
{
	struct ptah_capture_status s = {.size = sizeof(s)};
	struct trace *t = find_trace(descriptor);

	if (!t || ptah_capture_status(t->capture, &s) < 0)
		return false;
	state->written = s.position;
	state->capture_end = t->config.is_circular ? s.position % s.buffer : s.position;
	return true;
}

bool insntrace_get_chunk_handle(uint32_t descriptor, uint32_t chunk, zx_handle_t *vmo)
{
	struct trace *t = find_trace(descriptor);

	return t && chunk < t->config.num_chunks &&
	       memory_take_chunk(t->capture, chunk, UINT64_C(4096) << t->config.chunk_order, vmo);
}

zx_status_t insntrace_free_buffer(uint32_t descriptor)
{
	struct trace *t = find_trace(descriptor);

	if (!t || driver.running || atomic_load(&t->thread))
		return ZX_ERR_BAD_STATE;
	ptah_capture_free(t->capture);
	t->capture = NULL;
	return ZX_OK;
}

/* In the mode THREAD a capture without a thread is started when it gets one. */
static bool is_wanted(const struct trace *t)
{
	return t->capture && (driver.allocation.mode == INSNTRACE_CPU || atomic_load(&t->thread));
}

zx_status_t insntrace_start(void)
{
	uint32_t i;

	if (!driver.engine || driver.running)
		return ZX_ERR_BAD_STATE;
	for (i = 0; i < driver.allocation.num_traces; i++) {
		if (!is_wanted(&driver.traces[i]) ||
		    ptah_capture_start(driver.traces[i].capture) == PTAH_OK)
			continue;
		insntrace_stop();
		return ZX_ERR_BAD_STATE;
	}
	driver.running = true;
	return ZX_OK;
}

zx_status_t insntrace_stop(void)
{
	uint32_t i;

	for (i = 0; driver.engine && i < driver.allocation.num_traces; i++)
		ptah_capture_stop(driver.traces[i].capture);
	driver.running = false;
	return ZX_OK;
}

struct insntrace_problem insntrace_problem(void)
{
	return driver.problem;
}

void insntrace_context_switch(zx_koid_t from, zx_koid_t to)
{
	struct trace *t = trace_of(from);

	if (t)
		ptah_capture_switch_out(t->capture);
	t = trace_of(to);
	if (t)
		ptah_capture_switch_in(t->capture);
}

bool insntrace_pmi(void)
{
	return driver.engine && ptah_engine_pmi(driver.engine) != PTAH_PMI_NONE;
}
