/* SPDX-License-Identifier: MIT */
/*
 * Runs the capture engine on a thread's simulated processor: the port that the engine calls, and
 * the memory that the processor writes to.
 */
#include "record/simulated/trace_output.h"

#include "model/emit.h"
#include "record/simulated/insn.h"

#include <stdlib.h>
#include <string.h>

/*
 * Physical address of the trace buffer. All other memory has its virtual address as physical
 * address.
 */
#define BUFFER_AT  (UINT64_C(1) << 51)
#define REGIONS	   16
#define MIN_REGION 4096u

/* A processor with every PT feature, and more physical memory than a process has addresses. */
static const struct ptah_model_processor processor = {
    .name = "recorder",
    .product = "Ptah's recorder",
    .cpu = {6, 0x8f, 0},
    .physical_bits = 52,
    .linear_bits = 48,
    .max_leaf = 0x15,
    .perfmon = 4,
    .nominal_ratio = SIMULATED_RATIO,
    .pt = true,
    .leaf_14_0 = {1, 0x1ff, 7, 0}, /* EBX: all but trigger tracing; ECX: ToPA, single range */
    .leaf_14_1 = {0xffff0004, 0xffffffff, 0, 0},
    .tsc_n = SIMULATED_TSC_N,
    .tsc_d = SIMULATED_TSC_D,
};

const struct ptah_model_processor *trace_output_processor(void)
{
	return &processor;
}

/* The port */

static struct ptah_model *model_of(void *port)
{
	return ((struct trace_output *)port)->m;
}

static int port_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	return ptah_model_rdmsr(model_of(port), msr, value);
}

static int port_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	return ptah_model_wrmsr(model_of(port), msr, value);
}

static void port_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	ptah_model_cpuid(model_of(port), leaf, subleaf, registers);
}

static void port_fence(void *port)
{
	ptah_model_fence(model_of(port));
}

static unsigned port_cpu(void *port)
{
	(void)port;
	return 0;
}

static unsigned port_cpus(void *port)
{
	(void)port;
	return 1;
}

/*
 * Nothing to do: PMIs come only between two instructions of the program, never inside the engine.
 */
static uint64_t port_irq_save(void *port)
{
	(void)port;
	return 0;
}

static void port_irq_restore(void *port, uint64_t state)
{
	(void)port, (void)state;
}

static void port_lock(void *port)
{
	(void)port; /* no lock is needed: each thread has an engine of its own */
}

static int port_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	struct trace_output *o = port;
	void *bytes;

	memory->size = size;
	if (size == o->buffer_size && !o->buffer_taken) {
		o->buffer_taken = true;
		memory->address = o->buffer;
		memory->physical = BUFFER_AT;
		memory->port = NULL;
		return PTAH_OK;
	}
	if (posix_memalign(&bytes, align, size))
		return PTAH_E_NOMEM;
	memset(bytes, 0, size);
	memory->address = memory->port = bytes;
	memory->physical = (uintptr_t)bytes;
	return PTAH_OK;
}

static void port_release(void *port, const struct ptah_hal_memory *memory)
{
	if (!memory->port)
		((struct trace_output *)port)->buffer_taken = false;
	free(memory->port);
}

static int port_run_on(void *port, unsigned cpu, void (*work)(void *), void *argument)
{
	(void)port, (void)cpu;
	work(argument);
	return PTAH_OK;
}

static int port_pmi_enable(void *port, bool on)
{
	model_pmi_mask(model_of(port), !on);
	return PTAH_OK;
}

static void port_pmi_unmask(void *port)
{
	model_pmi_mask(model_of(port), false);
}

static const struct ptah_hal hal = {
    .size = sizeof(struct ptah_hal),
    .rdmsr = port_rdmsr,
    .wrmsr = port_wrmsr,
    .cpuid = port_cpuid,
    .fence = port_fence,
    .cpu = port_cpu,
    .cpus = port_cpus,
    .irq_save = port_irq_save,
    .irq_restore = port_irq_restore,
    .lock = port_lock,
    .unlock = port_lock,
    .alloc = port_alloc,
    .release = port_release,
    .run_on = port_run_on,
    .pmi_enable = port_pmi_enable,
    .pmi_unmask = port_pmi_unmask,
};

/* The processor's side */

static uint8_t *memory_at(void *port, uint64_t physical, uint64_t *bytes)
{
	const struct trace_output *o = port;
	uint64_t offset = physical - BUFFER_AT;

	if (physical < BUFFER_AT) {
		*bytes = 4096 - physical % 4096;
		return (uint8_t *)(uintptr_t)physical;
	}
	if (offset >= o->buffer_size)
		return NULL;
	*bytes = o->buffer_size - offset;
	return o->buffer + offset;
}

static void on_pmi(void *port, unsigned cpu)
{
	struct trace_output *o = port;
	struct ptah_model *m = model_of(port);
	struct ptah_model_transfer there = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = m->program.ip, .to = SIMULATED_KERNEL_IP};
	struct ptah_model_transfer back = {
	    .kind = PTAH_MODEL_IRET, .ip = SIMULATED_KERNEL_IP, .to = m->program.ip};

	(void)cpu;
	ptah_model_context(m, &back.after);
	there.after = back.after;
	there.after.cpl = 0;
	ptah_model_transfer(m, &there);
	ptah_engine_pmi(o->engine);
	ptah_model_transfer(m, &back);
}

/* Filters */

uint64_t trace_output_filter_last(uint64_t start, uint64_t size)
{
	return size - 1 > UINT64_MAX - start ? UINT64_MAX : start + (size - 1);
}

bool trace_output_filter_shown(uint64_t from, uint64_t size, uint64_t start, uint64_t end,
			       uint64_t offset, uint64_t *first, uint64_t *last)
{
	uint64_t low = offset, high = offset + (end - start) - 1;

	if (low < from)
		low = from;
	if (high > trace_output_filter_last(from, size))
		high = trace_output_filter_last(from, size);
	*first = start + (low - offset);
	*last = start + (high - offset);
	return low <= high;
}

/* Beginning and end */

static bool begin_capture(struct trace_output *o, bool paused)
{
	struct ptah_capture_config config = {
	    .size = sizeof(config),
	    .trace = &o->trace,
	    .shape = PTAH_SHAPE_RING,
	    .policy = o->policy,
	    .buffer = o->buffer_size,
	    .paused = paused,
	    .cookie = o->cookie,
	    .drain = o->drain,
	};

	config.region = MIN_REGION;
	while (config.region * REGIONS < o->buffer_size &&
	       o->buffer_size % (2 * config.region) == 0)
		config.region *= 2;
	return ptah_engine_new(&hal, o, &o->engine) >= 0 &&
	       ptah_capture_new(o->engine, &config, &o->capture, NULL) >= 0 &&
	       ptah_capture_start(o->capture) >= 0;
}

static bool begin_trace_output(struct trace_output *o, bool paused)
{
	const struct ptah_model_choices choices = {
	    .long_tnt = o->long_tnt, .whole_ip = true, .mark_loops = o->mark_loops};
	const struct ptah_model_context kernel = {
	    .cr3 = (uint64_t)o->pid << 12, .mode = PTAH_EXEC_64, .interrupts = true};
	struct ptah_model *m = o->m;

	model_init(m, &processor, o->staging, SIMULATED_STAGING);
	m->memory = memory_at;
	m->pmi = on_pmi;
	m->port = o;
	ptah_model_choose(m, &choices);
	ptah_model_begin(m, SIMULATED_KERNEL_IP, &kernel);
	m->clock.tsc = o->time;
	clock_init(&m->clock);
	if (begin_capture(o, paused))
		return true;
	trace_output_end(o);
	return false;
}

bool trace_output_begin(struct trace_output *o)
{
	return begin_trace_output(o, false);
}

bool trace_output_begin_paused(struct trace_output *o)
{
	return begin_trace_output(o, true);
}

void trace_output_end(struct trace_output *o)
{
	ptah_capture_free(o->capture);
	ptah_engine_free(o->engine);
	o->capture = NULL;
	o->engine = NULL;
}

/* Instructions */

void trace_output_insn(struct ptah_model *m, unsigned kind, uint64_t ip, uint64_t end,
		       uint64_t next)
{
	const struct ptah_model_branch branch = {
	    .ip = ip,
	    .end = end,
	    .to = next,
	    .kind = (uint8_t)(kind == KIND_ZERO_CALL ? PTAH_INSN_CALL : kind),
	    .taken = next != end,
	};
	struct ptah_model_transfer far = {.kind = PTAH_MODEL_FAR, .ip = ip, .to = next};

	switch (kind) {
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_JUMP:
	case PTAH_INSN_FAR_RETURN:
		ptah_model_context(m, &far.after);
		ptah_model_transfer(m, &far);
		break;
	case PTAH_INSN_OTHER:
	case KIND_REP:
		ptah_model_stand(m, next);
		break;
	default:
		ptah_model_branch(m, &branch);
		break;
	}
}

void trace_output_stamp(struct ptah_model *m, uint64_t tsc)
{
	if (m->clock.tsc < tsc)
		ptah_model_set_tsc(m, tsc);
	model_emit_begin(m);
	if (model_trigger_en(m))
		model_emit_time(m);
	model_emit_end(m);
}
