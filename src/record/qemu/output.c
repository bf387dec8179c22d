/* SPDX-License-Identifier: MIT */
/*
 * The capture engine's port to the recorded process. Each thread has a
 * processor of its own, and an engine that captures it: the thread's trace
 * buffer, in shared memory, is the memory that the ToPA names.
 *
 * A PMI runs on the thread itself, as an interrupt would: the processor goes to
 * the kernel, where nothing is traced, the engine looks at it, and hands the
 * new bytes to the recorder. There it waits for room: nothing is lost.
 */
#include "record/qemu/plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Where the processor sees the trace buffer; the rest is where it is. */
#define BUFFER_AT  (UINT64_C(1) << 51)
#define REGIONS	   16
#define MIN_REGION 4096u

struct output {
	struct shared_thread *t;
	struct ptah_engine *engine;
	struct ptah_capture *capture;
	struct ptah_trace_config trace;
	bool buffer_taken;
	unsigned ranges_seen; /* of ranges_known */
};

/* What the filters have become; one process, one set. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ptah_trace_range ranges[SHARED_FILTERS];
static _Atomic unsigned ranges_known; /* changes so far */

void plugin_output_lock(void)
{
	pthread_mutex_lock(&lock);
}

void plugin_output_unlock(bool in_child)
{
	if (in_child)
		pthread_mutex_init(&lock, NULL);
	else
		pthread_mutex_unlock(&lock);
}

/* A processor with everything, and more memory than a process has. */
static const struct ptah_model_processor processor = {
    .name = "recorder",
    .product = "Ptah's recorder",
    .family = 6,
    .model = 0x8f,
    .physical_bits = 52,
    .linear_bits = 48,
    .max_leaf = 0x15,
    .perfmon = 4,
    .nominal = SHARED_RATIO,
    .pt = true,
    .leaf_14_0 = {1, 0x1ff, 7, 0}, /* EBX: all but trigger tracing; ECX: ToPA, single range */
    .leaf_14_1 = {0xffff0004, 0xffffffff, 0, 0},
    .tsc_n = SHARED_TSC_N,
    .tsc_d = SHARED_TSC_D,
};

/* The port */

static struct ptah_model *model_of(void *port)
{
	return &((struct output *)port)->t->live.m;
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

/* PMIs come between two instructions of the program alone, never inside the engine. */
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
	(void)port; /* the thread's own engine */
}

static int port_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	struct output *o = port;
	void *bytes;

	if (size == plugin.buffer && !o->buffer_taken) {
		o->buffer_taken = true;
		bytes = shared_buffer(o->t);
		*memory = (struct ptah_hal_memory){bytes, BUFFER_AT, size, NULL};
		return PTAH_OK;
	}
	if (posix_memalign(&bytes, align, size))
		return PTAH_E_NOMEM;
	memset(bytes, 0, size);
	*memory = (struct ptah_hal_memory){bytes, (uint64_t)(uintptr_t)bytes, size, bytes};
	return PTAH_OK;
}

static void port_release(void *port, const struct ptah_hal_memory *memory)
{
	if (!memory->port)
		((struct output *)port)->buffer_taken = false;
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
	const struct output *o = port;
	uint64_t offset = physical - BUFFER_AT;

	if (physical < BUFFER_AT) {
		*bytes = 4096 - physical % 4096;
		return (uint8_t *)(uintptr_t)physical;
	}
	if (offset >= plugin.buffer)
		return NULL;
	*bytes = plugin.buffer - offset;
	return shared_buffer(o->t) + offset;
}

static void on_pmi(void *port, unsigned cpu)
{
	struct output *o = port;
	struct ptah_model *m = model_of(port);
	struct ptah_model_transfer there = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = m->program.ip, .to = PLUGIN_KERNEL_IP};
	struct ptah_model_transfer back = {
	    .kind = PTAH_MODEL_IRET, .ip = PLUGIN_KERNEL_IP, .to = m->program.ip};

	(void)cpu;
	ptah_model_context(m, &back.after);
	there.after = back.after;
	there.after.cpl = 0;
	ptah_model_transfer(m, &there);
	ptah_engine_pmi(o->engine);
	ptah_model_transfer(m, &back);
}

/*
 * Publishes what is complete, and waits for room. The checkpoint is taken
 * first: the recorder must never have taken bytes that a roll-back would have
 * to unwrite.
 */
static uint64_t drain(void *cookie, struct ptah_capture *capture, uint64_t tail, uint64_t position)
{
	struct shared_thread *t = cookie;
	uint64_t enough = plugin.buffer - plugin.buffer / 4;

	(void)capture;
	t->checkpoint = t->live;
	atomic_store_explicit(&t->published, position, memory_order_release);
	for (;;) {
		tail = atomic_load_explicit(&t->tail, memory_order_acquire);
		if (position - tail <= enough || plugin.recorder_gone)
			break;
		plugin_wait(&t->tail, tail);
	}
	if (plugin.recorder_gone) {
		plugin_stop();
		return position;
	}
	return tail;
}

/* Filters */

static uint64_t last_of(uint64_t start, uint64_t size)
{
	return size - 1 > UINT64_MAX - start ? UINT64_MAX : start + (size - 1);
}

/* A range where no code is, so that nothing is traced until there is some. */
static void init_ranges(void)
{
	for (unsigned i = 0; i < plugin.shared->filter_count; i++) {
		const struct shared_filter *f = &plugin.shared->filters[i];

		ranges[i].mode = (uint8_t)f->mode;
		if (!*f->path) {
			ranges[i].first = f->start;
			ranges[i].last = last_of(f->start, f->size);
		}
	}
}

/* What of filter f a map shows. */
static bool shown(const struct shared_filter *f, uint64_t start, uint64_t end, uint64_t offset,
		  struct ptah_trace_range *range)
{
	uint64_t first = offset, last = offset + (end - start) - 1;

	if (first < f->start)
		first = f->start;
	if (last > last_of(f->start, f->size))
		last = last_of(f->start, f->size);
	range->mode = (uint8_t)f->mode;
	range->first = start + (first - offset);
	range->last = start + (last - offset);
	return first <= last;
}

void plugin_output_map(const char *path, uint64_t start, uint64_t end, uint64_t file_offset)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < plugin.shared->filter_count; i++) {
		const struct shared_filter *f = &plugin.shared->filters[i];

		if (*f->path && !strcmp(f->path, path) &&
		    shown(f, start, end, file_offset, &ranges[i]))
			ranges_known++;
	}
	pthread_mutex_unlock(&lock);
}

void plugin_output_refresh(struct shared_thread *t)
{
	struct output *o = t->output;
	unsigned known = atomic_load_explicit(&ranges_known, memory_order_acquire);

	if (o->ranges_seen == known)
		return;
	pthread_mutex_lock(&lock);
	o->ranges_seen = ranges_known;
	memcpy(o->trace.ranges, ranges, sizeof(ranges));
	pthread_mutex_unlock(&lock);
	if (ptah_capture_reconfigure(o->capture, &o->trace, NULL) < 0)
		plugin_note("a filter could not be moved to where its code is");
}

void plugin_output_pause(struct shared_thread *t, bool on)
{
	struct output *o = t->output;

	if ((on ? ptah_capture_pause_here(o->capture) : ptah_capture_resume_here(o->capture)) < 0)
		plugin_note(on ? "a thread could not be paused" : "a thread could not be resumed");
}

/* Beginning and end */

static bool begin_capture(struct output *o)
{
	struct ptah_capture_config config = {
	    .size = sizeof(config),
	    .trace = &o->trace,
	    .shape = PTAH_SHAPE_RING,
	    .policy = (uint8_t)plugin.shared->policy,
	    .buffer = plugin.buffer,
	    .cookie = o->t,
	    .drain = plugin.shared->policy == PTAH_POLICY_DRAIN ? drain : NULL,
	};

	config.region = MIN_REGION;
	while (config.region * REGIONS < plugin.buffer && plugin.buffer % (2 * config.region) == 0)
		config.region *= 2;
	return ptah_engine_new(&hal, o, &o->engine) >= 0 &&
	       ptah_capture_new(o->engine, &config, &o->capture, NULL) >= 0 &&
	       ptah_capture_start(o->capture) >= 0;
}

bool plugin_output_begin(struct shared_thread *t, uint64_t time)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct ptah_model_choices choices = {.long_tnt = plugin.shared->long_tnt};
	const struct ptah_model_context kernel = {
	    .cr3 = (uint64_t)t->pid << 12, .mode = PTAH_EXEC_64, .interrupts = true};
	struct ptah_model *m = &t->live.m;
	struct output *o = calloc(1, sizeof(*o));

	pthread_once(&once, init_ranges);
	if (!o)
		return false;
	o->t = t;
	o->trace = plugin.shared->trace;
	pthread_mutex_lock(&lock);
	o->ranges_seen = ranges_known;
	memcpy(o->trace.ranges, ranges, sizeof(ranges));
	pthread_mutex_unlock(&lock);
	t->output = o;
	model_init(m, &processor, shared_staging(t), SHARED_STAGING);
	m->memory = memory_at;
	m->pmi = on_pmi;
	m->port = o;
	ptah_model_choose(m, &choices);
	ptah_model_begin(m, PLUGIN_KERNEL_IP, &kernel);
	m->clock.tsc = time;
	clock_init(&m->clock);
	if (begin_capture(o))
		return true;
	plugin_note("a thread could not be traced: out of memory, or the processor refused");
	plugin_output_end(t);
	return false;
}

void plugin_output_end(struct shared_thread *t)
{
	struct output *o = t->output;

	if (!o)
		return;
	ptah_capture_free(o->capture);
	ptah_engine_free(o->engine);
	free(o);
	t->output = NULL;
}
