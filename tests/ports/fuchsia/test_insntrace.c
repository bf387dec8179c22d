/* SPDX-License-Identifier: MIT */
/*
 * fuchsia.hardware.cpu.insntrace by port/fuchsia, called as its client calls it, in both modes. What
 * the chunks must contain is known from what the simulated processors wrote (tests/engine/rig.h:
 * numbered marks).
 */
#include "insntrace.h"
#include "model.h"

#include "engine/rig.h"
#include "test.h"

#include <stdlib.h>

#define CPUS 4
#define DEFAULT_CTL                                                                                \
	(PTAH_RTIT_CTL_BRANCH_EN | PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_USER | PTAH_RTIT_CTL_TSC_EN)

static uint64_t next_mark[CPUS];
static struct ptah_hal hal;

static void open_driver(const char *processor, bool pmi)
{
	memset(next_mark, 0, sizeof(next_mark));
	model_start(CPUS, ptah_model_find(processor));
	hal = *model_hal();
	if (!pmi)
		hal.pmi_enable = NULL, hal.pmi_unmask = NULL;
	assert_int_equal(insntrace_bind(&hal, model_machine(), MODEL_BTI, MODEL_VMAR), ZX_OK);
	assert_int_equal(model_connect(), ZX_OK);
	assert_int_equal(model_connect(), ZX_ERR_ALREADY_BOUND);
}

static void close_driver(void)
{
	model_disconnect();
	insntrace_unbind();
	model_stop();
}

static void initialize(enum insntrace_mode mode, unsigned traces)
{
	const struct insntrace_allocation allocation = {(uint8_t)mode, (uint16_t)traces};
	struct insntrace_allocation back;

	assert_false(CALL(insntrace_get_allocation, &back));
	assert_int_equal(CALL(insntrace_initialize, &allocation), ZX_OK);
	assert_true(CALL(insntrace_get_allocation, &back));
	assert_int_equal(back.num_traces, traces);
	assert_int_equal(CALL(insntrace_initialize, &allocation), ZX_ERR_BAD_STATE);
}

static struct insntrace_buffer_config chunks(unsigned n, unsigned order, bool circular)
{
	return (struct insntrace_buffer_config){
	    .num_chunks = n, .chunk_order = order, .is_circular = circular, .ctl = DEFAULT_CTL};
}

static void allocate(unsigned traces, const struct insntrace_buffer_config *config)
{
	uint32_t d;
	unsigned i;

	for (i = 0; i < traces; i++) {
		assert_int_equal(CALL(insntrace_allocate_buffer, config, &d), ZX_OK);
		assert_int_equal(d, i);
	}
	assert_int_equal(CALL(insntrace_allocate_buffer, config, &d), ZX_ERR_BAD_STATE);
}

static void write_marks(unsigned cpu, unsigned stream, unsigned n)
{
	uint8_t mark[MARK];

	while (n--) {
		rig_write_mark(mark, next_mark[stream]++);
		ptah_machine_put(model_machine(), cpu, mark, MARK);
	}
}

static uint64_t read_msr(unsigned cpu, uint32_t msr)
{
	uint64_t value = 0;

	ptah_model_rdmsr(ptah_machine_model(model_machine(), cpu), msr, &value);
	return value;
}

static bool is_enabled(unsigned cpu)
{
	return read_msr(cpu, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_TRACE_EN;
}

static uint64_t output(unsigned cpu)
{
	return ptah_model_output_bytes(ptah_machine_model(model_machine(), cpu), NULL);
}

static struct insntrace_buffer_state state_of(uint32_t descriptor)
{
	struct insntrace_buffer_state state = {0};

	assert_true(CALL(insntrace_get_buffer_state, descriptor, &state));
	return state;
}

/* All chunks of a buffer, one after another, as a client fetches them; the caller frees. */
static uint8_t *fetch(uint32_t descriptor, uint64_t *total)
{
	struct insntrace_buffer_config config;
	uint64_t size, chunk;
	zx_handle_t vmo;
	uint8_t *bytes;
	uint32_t i;

	assert_true(CALL(insntrace_get_buffer_config, descriptor, &config));
	chunk = UINT64_C(4096) << config.chunk_order;
	*total = chunk * config.num_chunks;
	bytes = malloc(*total);
	for (i = 0; i < config.num_chunks; i++) {
		assert_true(CALL(insntrace_get_chunk_handle, descriptor, i, &vmo));
		memcpy(bytes + i * chunk, model_vmo(vmo, &size), chunk);
		assert_int_equal(size, chunk);
		zx_handle_close(vmo);
	}
	assert_false(CALL(insntrace_get_chunk_handle, descriptor, i, &vmo));
	return bytes;
}

/* The marks in n bytes, the first of them `first` (UINT64_MAX: any); returns the next number. */
static uint64_t expect_marks(const uint8_t *bytes, size_t n, uint64_t first)
{
	size_t i = 0;

	while (i + MARK <= n) {
		if (!rig_is_mark(bytes + i)) {
			i++;
			continue;
		}
		if (first == UINT64_MAX)
			first = rig_number(bytes + i);
		assert_int_equal(rig_number(bytes + i), first);
		first++;
		i += MARK;
	}
	return first;
}

/* The order of insntrace's "Usage"; and a second start, which continues. */
TEST(cpu_mode)
{
	const struct insntrace_buffer_config config = chunks(16, 2, false);
	uint64_t total;
	uint8_t *bytes;
	unsigned i, round;

	open_driver("skylake", false);
	assert_int_equal(CALL(insntrace_stop), ZX_OK);
	assert_int_equal(CALL(insntrace_start), ZX_ERR_BAD_STATE);
	initialize(INSNTRACE_CPU, CPUS);
	allocate(CPUS, &config);
	for (round = 1; round <= 2; round++) {
		assert_int_equal(CALL(insntrace_start), ZX_OK);
		assert_int_equal(CALL(insntrace_start), ZX_ERR_BAD_STATE);
		assert_int_equal(CALL(insntrace_free_buffer, 0), ZX_ERR_BAD_STATE);
		for (i = 0; i < CPUS; i++)
			write_marks(i, i, 300 + i);
		assert_int_equal(CALL(insntrace_stop), ZX_OK);
		assert_int_equal(CALL(insntrace_stop), ZX_OK);
		for (i = 0; i < CPUS; i++) {
			assert_false(is_enabled(i));
			assert_int_equal(state_of(i).capture_end, output(i));
			bytes = fetch(i, &total);
			assert_int_equal(expect_marks(bytes, output(i), 0), round * (300 + i));
			free(bytes);
		}
	}
	assert_int_equal(CALL(insntrace_terminate), ZX_OK);
	assert_int_equal(CALL(insntrace_terminate), ZX_OK);
	assert_int_equal(model_handles(), 0);
	close_driver();
}

/* The first bytes stay, and the end is the buffer's. */
TEST(stop_on_full)
{
	const struct insntrace_buffer_config config = chunks(3, 0, false);
	uint64_t total;
	uint8_t *bytes;

	open_driver("skylake", false);
	initialize(INSNTRACE_CPU, 1);
	allocate(1, &config);
	assert_int_equal(CALL(insntrace_start), ZX_OK);
	write_marks(0, 0, 5000);
	assert_int_equal(CALL(insntrace_stop), ZX_OK);
	assert_int_equal(state_of(0).capture_end, 3 * 4096);
	assert_int_equal(state_of(0).written, 3 * 4096);
	bytes = fetch(0, &total);
	assert_in_range(expect_marks(bytes, total, 0), 3 * 4096 / MARK - 10, 3 * 4096 / MARK);
	free(bytes);
	assert_int_equal(CALL(insntrace_start), ZX_ERR_BAD_STATE);
	close_driver();
}

static void on_pmi(void *argument, unsigned cpu)
{
	(void)argument, (void)cpu;
	assert_true(insntrace_pmi());
}

/* The newest bytes stay, also after many laps, and the client can tell that it wrapped. */
TEST(circular)
{
	const struct insntrace_buffer_config config = chunks(8, 0, true);
	uint64_t total, end, next;
	uint8_t *bytes, *ordered;
	int pmi;

	for (pmi = 0; pmi < 2; pmi++) {
		open_driver("skylake", pmi);
		model_fragment(4096 * (1 + pmi)); /* as small as a chunk, or as large as two */
		ptah_machine_on_pmi(model_machine(), on_pmi, NULL);
		initialize(INSNTRACE_CPU, 2);
		allocate(2, &config);
		assert_int_equal(CALL(insntrace_start), ZX_OK);
		write_marks(1, 1, 200 * 8 * 4096 / MARK + 77);
		assert_int_equal(CALL(insntrace_stop), ZX_OK);
		assert_int_equal(state_of(1).written, output(1));
		end = state_of(1).capture_end;
		assert_int_equal(end, output(1) % (8 * 4096));
		bytes = fetch(1, &total);
		ordered = malloc(total);
		memcpy(ordered, bytes + end, total - end);
		memcpy(ordered + total - end, bytes, end);
		next = expect_marks(ordered, total, UINT64_MAX);
		assert_int_equal(next, next_mark[1]);
		free(ordered);
		free(bytes);
		close_driver();
	}
}

/* Two threads that move over the processors: each buffer has the marks of its own thread. */
TEST(thread_mode)
{
	const struct insntrace_buffer_config config = chunks(32, 0, false);
	zx_handle_t threads[2] = {0, 0};
	uint64_t total, irqs;
	uint8_t *bytes;
	unsigned i, step;

	open_driver("skylake", false);
	for (i = 0; i < CPUS; i++)
		ptah_model_wrmsr(ptah_machine_model(model_machine(), i), PTAH_IA32_XSS, 0);
	initialize(INSNTRACE_THREAD, 2);
	for (i = 0; i < CPUS; i++)
		assert_true(read_msr(i, PTAH_IA32_XSS) & PTAH_XSTATE_PT);
	allocate(2, &config);
	for (i = 0; i < 2; i++)
		threads[i] = model_thread(100 + i);
	assert_int_equal(CALL(insntrace_assign_thread_buffer, 0, threads[0]), ZX_OK);
	assert_int_equal(CALL(insntrace_assign_thread_buffer, 0, threads[1]),
			 ZX_ERR_ALREADY_EXISTS);
	assert_int_equal(CALL(insntrace_assign_thread_buffer, 1, threads[0]),
			 ZX_ERR_ALREADY_EXISTS);
	assert_int_equal(CALL(insntrace_assign_thread_buffer, 1, 4000), ZX_ERR_BAD_HANDLE);
	assert_int_equal(CALL(insntrace_start), ZX_OK);
	assert_int_equal(CALL(insntrace_assign_thread_buffer, 1, threads[1]), ZX_OK);
	for (step = 0; step < 100; step++) {
		const unsigned cpu = step * 7 % CPUS, stream = step % 2;

		ptah_machine_set_cpu(model_machine(), cpu);
		irqs = hal.irq_save(model_machine());
		insntrace_context_switch(7, 100 + stream);
		hal.irq_restore(model_machine(), irqs);
		assert_true(is_enabled(cpu));
		write_marks(cpu, stream, 20 + stream);
		irqs = hal.irq_save(model_machine());
		insntrace_context_switch(100 + stream, 7);
		hal.irq_restore(model_machine(), irqs);
		assert_false(is_enabled(cpu));
	}
	ptah_machine_set_cpu(model_machine(), 0);
	assert_int_equal(CALL(insntrace_release_thread_buffer, 1, threads[0]), ZX_ERR_NOT_FOUND);
	assert_int_equal(CALL(insntrace_release_thread_buffer, 1, threads[1]), ZX_OK);
	assert_int_equal(CALL(insntrace_stop), ZX_OK);
	for (i = 0; i < 2; i++) {
		bytes = fetch(i, &total);
		assert_int_equal(expect_marks(bytes, state_of(i).capture_end, 0), 50 * (20 + i));
		free(bytes);
		zx_handle_close(threads[i]);
	}
	assert_int_equal(CALL(insntrace_terminate), ZX_OK);
	for (i = 0; i < CPUS; i++)
		assert_false(read_msr(i, PTAH_IA32_XSS) & PTAH_XSTATE_PT);
	/* The other mode needs no reboot. */
	initialize(INSNTRACE_CPU, 1);
	close_driver();
}

/* The client ends while processors trace: they stop before any memory goes. */
TEST(crash_while_tracing)
{
	const struct insntrace_buffer_config config = chunks(4, 1, true);
	zx_handle_t chunk;
	const uint8_t *bytes;
	uint64_t size;
	unsigned i, order;

	open_driver("skylake", false);
	for (order = 0; order < 2; order++) {
		initialize(INSNTRACE_CPU, CPUS);
		allocate(CPUS, &config);
		assert_int_equal(CALL(insntrace_start), ZX_OK);
		for (i = 0; i < CPUS; i++)
			write_marks(i, i, 100);
		assert_true(CALL(insntrace_get_chunk_handle, 2, 0, &chunk));
		model_client_dies(order);
		for (i = 0; i < CPUS; i++)
			assert_false(is_enabled(i));
		assert_int_equal(model_handles(), 0);
		assert_int_equal(model_connect(), ZX_OK);
	}
	/* A chunk that somebody holds stays. */
	memset(next_mark, 0, sizeof(next_mark));
	initialize(INSNTRACE_CPU, CPUS);
	allocate(CPUS, &config);
	assert_int_equal(CALL(insntrace_start), ZX_OK);
	write_marks(2, 2, 100);
	assert_true(CALL(insntrace_get_chunk_handle, 2, 0, &chunk));
	model_disconnect();
	assert_int_equal(model_handles(), 1);
	bytes = model_vmo(chunk, &size);
	assert_int_equal(expect_marks(bytes, size, 0), 100);
	zx_handle_close(chunk);
	close_driver();
}

/* The same with a thread, whose scheduler goes on. */
TEST(crash_while_a_thread_runs)
{
	const struct insntrace_buffer_config config = chunks(4, 1, true);
	uint64_t irqs;
	uint32_t d;

	open_driver("skylake", false);
	initialize(INSNTRACE_THREAD, 1);
	assert_int_equal(CALL(insntrace_allocate_buffer, &config, &d), ZX_OK);
	assert_int_equal(CALL(insntrace_assign_thread_buffer, d, model_thread(9)), ZX_OK);
	assert_int_equal(CALL(insntrace_start), ZX_OK);
	ptah_machine_set_cpu(model_machine(), 3);
	irqs = hal.irq_save(model_machine());
	insntrace_context_switch(1, 9);
	hal.irq_restore(model_machine(), irqs);
	assert_true(is_enabled(3));
	ptah_machine_set_cpu(model_machine(), 0);
	model_client_dies(true);
	assert_false(is_enabled(3));
	irqs = hal.irq_save(model_machine());
	insntrace_context_switch(9, 1);
	insntrace_context_switch(1, 9);
	hal.irq_restore(model_machine(), irqs);
	assert_false(is_enabled(0));
	close_driver();
}

TEST(fields_that_are_refused)
{
	static const struct {
		const char *field;
		struct insntrace_buffer_config config;
	} cases[] = {
	    {"num_chunks", {.ctl = DEFAULT_CTL}},
	    {"num_chunks", {.num_chunks = 4097, .ctl = DEFAULT_CTL}},
	    {"num_chunks", {.num_chunks = 4096, .chunk_order = 5, .ctl = DEFAULT_CTL}},
	    {"chunk_order", {.num_chunks = 1, .chunk_order = 9, .ctl = DEFAULT_CTL}},
	    {"ctl", {.num_chunks = 4, .ctl = DEFAULT_CTL | PTAH_RTIT_CTL_FABRIC_EN}},
	    {"ctl", {.num_chunks = 4, .ctl = DEFAULT_CTL | UINT64_C(1) << 23}},
	    {"ctl", {.num_chunks = 4, .ctl = DEFAULT_CTL | UINT64_C(1) << 40}},
	    {"ctl", {.num_chunks = 4, .ctl = DEFAULT_CTL | PTAH_RTIT_CTL_PTW_EN}},
	    {"ctl", {.num_chunks = 4, .ctl = DEFAULT_CTL | UINT64_C(1) << PTAH_RTIT_CTL_MTC_FREQ}},
	    {"ctl", {.num_chunks = 4, .ctl = PTAH_RTIT_CTL_BRANCH_EN}},
	    {"address_space_match",
	     {.num_chunks = 4, .ctl = DEFAULT_CTL | PTAH_RTIT_CTL_CR3_FILTER}},
	    {"address_space_match",
	     {.num_chunks = 4, .ctl = DEFAULT_CTL, .address_space_match = 0x1003}},
	    {"address_range_0", {.num_chunks = 4, .ctl = DEFAULT_CTL | UINT64_C(1) << 32}},
	    {"address_range_1.start",
	     {.num_chunks = 4,
	      .ctl = DEFAULT_CTL,
	      .address_range = {{0}, {UINT64_C(1) << 62, (UINT64_C(1) << 62) + 1}}}},
	    {"address_range_0.end",
	     {.num_chunks = 4, .ctl = DEFAULT_CTL, .address_range = {{5, 4}}}},
	};
	struct insntrace_allocation allocation = {2, 1};
	struct insntrace_buffer_config config;
	uint32_t d;
	size_t i;

	open_driver("skylake", false);
	assert_int_equal(CALL(insntrace_initialize, &allocation), ZX_ERR_INVALID_ARGS);
	assert_string_equal(insntrace_problem().field, "mode");
	allocation = (struct insntrace_allocation){INSNTRACE_CPU, CPUS + 1};
	assert_int_equal(CALL(insntrace_initialize, &allocation), ZX_ERR_INVALID_ARGS);
	assert_string_equal(insntrace_problem().field, "num_traces");
	allocation.num_traces = CPUS;
	assert_int_equal(CALL(insntrace_initialize, &allocation), ZX_OK);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(CALL(insntrace_allocate_buffer, &cases[i].config, &d),
				 ZX_ERR_INVALID_ARGS);
		assert_string_equal(insntrace_problem().field, cases[i].field);
		assert_non_null(insntrace_problem().reason);
	}
	close_driver();
	/* Single-entry ToPA, no MTC packets. */
	open_driver("broadwell", false);
	initialize(INSNTRACE_CPU, 1);
	config = chunks(1, 0, false);
	assert_int_equal(CALL(insntrace_allocate_buffer, &config, &d), ZX_ERR_INVALID_ARGS);
	assert_string_equal(insntrace_problem().field, "chunk_order");
	config = chunks(4, 0, false);
	config.ctl |= PTAH_RTIT_CTL_MTC_EN;
	assert_int_equal(CALL(insntrace_allocate_buffer, &config, &d), ZX_ERR_INVALID_ARGS);
	assert_string_equal(insntrace_problem().field, "ctl");
	close_driver();
}

/* Ranges and CR3 are in the registers: ADDRn, which Fuchsia's kernel never writes. */
TEST(filters_are_programmed)
{
	struct insntrace_buffer_config config = chunks(4, 0, false);

	open_driver("skylake", false);
	initialize(INSNTRACE_CPU, 1);
	config.ctl |= UINT64_C(2) << 36; /* the second range stops */
	config.address_space_match = 0x5000;
	config.address_range[0] = (struct insntrace_address_range){0x1000, 0x1fff};
	config.address_range[1] = (struct insntrace_address_range){0x2000, 0x2fff};
	allocate(1, &config);
	assert_int_equal(CALL(insntrace_start), ZX_OK);
	assert_int_equal(read_msr(0, PTAH_IA32_RTIT_CTL) >> 32, 0x21);
	assert_true(read_msr(0, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_CR3_FILTER);
	assert_int_equal(read_msr(0, PTAH_IA32_RTIT_CR3_MATCH), 0x5000);
	assert_int_equal(read_msr(0, PTAH_IA32_RTIT_ADDR0_A), 0x1000);
	assert_int_equal(read_msr(0, PTAH_IA32_RTIT_ADDR0_A + 3), 0x2fff);
	close_driver();
}
