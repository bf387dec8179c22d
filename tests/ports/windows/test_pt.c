/* SPDX-License-Identifier: MIT */
/*
 * HyperDbg's functions of port/windows, called as HyperDbg calls them: memory at PASSIVE_LEVEL, the
 * rest on each processor in a DPC broadcast or in VMX root. What the buffers must contain is known
 * from what the simulated processors wrote (tests/engine/rig.h: numbered marks).
 */
#include "model.h"

#include "engine/rig.h"
#include "port.h"
#include "test.h"

#include <stdlib.h>

#define CPUS   4
#define BUFFER 65536u

static uint64_t next_mark[CPUS];

static void open_kernel(const char *processor)
{
	const PT_PLATFORM platform = {0};

	memset(next_mark, 0, sizeof(next_mark));
	model_start(CPUS, ptah_model_find(processor));
	PtInitialize(&platform);
	assert_true(PtCheck());
}

static void close_kernel(void)
{
	unsigned i;
	uint64_t ctl;

	PtUninitialize();
	for (i = 0; i < CPUS; i++) {
		ptah_model_rdmsr(ptah_machine_model(model_machine(), i), PTAH_IA32_RTIT_CTL, &ctl);
		assert_false(ctl & PTAH_RTIT_CTL_TRACE_EN);
	}
	model_stop();
}

static void allocate(UINT64 buffer)
{
	unsigned i;

	for (i = 0; i < CPUS; i++)
		g_PtStateList[i].Config.BufferSize = buffer;
	assert_true(PtAllocateAllCpuBuffers());
}

/* A broadcast, as HyperDbg's DPC routines are made. */
static VOID routine(PKDPC dpc, PVOID context, PVOID argument1, PVOID argument2)
{
	(void)dpc;
	(*(VOID(**)(VOID))context)();
	KeSignalCallDpcSynchronize(argument2);
	KeSignalCallDpcDone(argument1);
}

static void broadcast(VOID (*work)(VOID))
{
	KeGenericCallDpc(routine, &work);
}

static VOID start(VOID)
{
	assert_true(PtStart());
}

static UINT64 sizes[CPUS];

static VOID size(VOID)
{
	sizes[KeGetCurrentProcessorNumberEx(NULL)] = PtSize();
}

static void write_marks(unsigned cpu, unsigned n)
{
	uint8_t mark[MARK];

	while (n--) {
		rig_write_mark(mark, next_mark[cpu]++);
		ptah_machine_put(model_machine(), cpu, mark, MARK);
	}
}

static uint64_t output(unsigned cpu)
{
	return ptah_model_output_bytes(ptah_machine_model(model_machine(), cpu), NULL);
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

/* These bytes have the marks from `first` on (UINT64_MAX: from any), without a gap; returns the
 * number after the last one's. */
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

/* !pt enable, mmap, pause, size, resume, disable. */
static void enable_to_disable(void **state)
{
	PT_USER_BUFFER_DESC descs[PT_MAX_CPUS_FOR_MMAP], again[PT_MAX_CPUS_FOR_MMAP];
	uint8_t *bytes = malloc(BUFFER);
	UINT32 n = 0, i;
	size_t k;

	(void)state;
	memset(descs, 0, sizeof(descs)); /* padding, too */
	memset(again, 0, sizeof(again));
	open_kernel("skylake");
	allocate(BUFFER);
	assert_int_equal(PtMmapAllCpuBuffersToUser(descs, PT_MAX_CPUS_FOR_MMAP, &n), 0);
	assert_int_equal(n, CPUS);
	assert_int_equal(PtMmapAllCpuBuffersToUser(again, PT_MAX_CPUS_FOR_MMAP, &n), 0);
	assert_memory_equal(descs, again, CPUS * sizeof(descs[0]));
	assert_int_equal(PtMmapAllCpuBuffersToUser(again, CPUS - 1, &n), PT_FAILED);
	broadcast(start);
	for (i = 0; i < CPUS; i++)
		write_marks(i, 100 + i);
	broadcast(PtPause);
	for (i = 0; i < CPUS; i++) {
		assert_int_equal(g_PtStateList[i].State, PT_STATE_PAUSED);
		assert_false(is_enabled(i));
	}
	broadcast(size);
	for (i = 0; i < CPUS; i++)
		assert_int_equal(sizes[i], output(i));
	broadcast(PtResume);
	for (i = 0; i < CPUS; i++)
		write_marks(i, 200);
	broadcast(PtStop);
	broadcast(size);
	broadcast(PtDump);
	for (i = 0; i < CPUS; i++) {
		assert_int_equal(descs[i].CpuId, i);
		assert_int_equal(descs[i].Size, BUFFER + PT_OVERFLOW_SIZE);
		assert_int_equal(g_PtStateList[i].State, PT_STATE_STOPPED);
		assert_int_equal(g_PtStateList[i].TotalBytesCaptured, output(i));
		assert_int_equal(sizes[i], output(i));
		for (k = 0; k < sizes[i]; k++)
			bytes[k] = *model_user(model_process(0), descs[i].UserVa + k);
		assert_int_equal(expect_marks(bytes, sizes[i], 0), 300 + i);
	}
	broadcast(PtFlush);
	assert_int_equal(g_PtStateList[0].TotalBytesCaptured, 0);
	PtFreeAllCpuBuffers();
	assert_int_equal(g_PtStateList[0].State, PT_STATE_DISABLED);
	assert_int_equal(model_mappings(), 0);
	allocate(BUFFER);
	broadcast(start);
	broadcast(size);
	assert_true(sizes[1] < 256);
	close_kernel();
	free(bytes);
}

/* Copies what a process sees, from an offset on, and from the beginning again after the end. */
static void read_mapping(const PT_USER_BUFFER_DESC *desc, uint64_t from, uint8_t *to)
{
	uint64_t k;

	for (k = 0; k < desc->Size; k++)
		to[k] = *model_user(model_process(0), desc->UserVa + (from + k) % desc->Size);
}

/* More than the buffer and its page: the mapping is full, and the count goes on. */
static void laps(void **state)
{
	PT_USER_BUFFER_DESC descs[PT_MAX_CPUS_FOR_MMAP];
	PT_OUTPUT_BUFFER out = {.Length = 2 * BUFFER};
	uint64_t captured;
	uint8_t *seen;
	UINT32 n;

	(void)state;
	open_kernel("skylake");
	allocate(BUFFER);
	assert_int_equal(PtMmapAllCpuBuffersToUser(descs, PT_MAX_CPUS_FOR_MMAP, &n), 0);
	broadcast(start);
	write_marks(2, 5 * BUFFER / MARK);
	ptah_machine_set_cpu(model_machine(), 2);
	assert_int_equal(PtSize(), BUFFER + PT_OVERFLOW_SIZE);
	out.Buffer = malloc(out.Length);
	seen = malloc(out.Length);
	captured = PtEngineStop(&g_PtStateList[2], &out);
	assert_int_equal(captured, output(2));
	ptah_machine_set_cpu(model_machine(), 0);
	assert_int_equal(out.WriteOffset, BUFFER + PT_OVERFLOW_SIZE);
	assert_int_equal(g_PtStateList[2].LostBytes, output(2) - out.WriteOffset);
	assert_int_equal(expect_marks(out.Buffer, out.WriteOffset, UINT64_MAX), next_mark[2]);
	/* The process sees the same bytes, those of the page behind the buffer, too. */
	read_mapping(&descs[2], captured % descs[2].Size, seen);
	assert_memory_equal(seen, out.Buffer, out.WriteOffset);
	close_kernel();
	free(out.Buffer);
	free(seen);
}

/* Nobody looks at the processor for a thousand laps: the newest bytes are there. */
static void thousand_laps(void **state)
{
	PT_OUTPUT_BUFFER out = {.Length = BUFFER};

	(void)state;
	open_kernel("skylake");
	allocate(PT_PAGE_SIZE);
	assert_true(PtStart());
	write_marks(0, 1000 * 2 * PT_PAGE_SIZE / MARK);
	out.Buffer = malloc(out.Length);
	PtEngineStop(&g_PtStateList[0], &out);
	assert_int_equal(g_PtStateList[0].TotalBytesCaptured, output(0));
	assert_int_equal(expect_marks(out.Buffer, out.WriteOffset, UINT64_MAX), next_mark[0]);
	close_kernel();
	free(out.Buffer);
}

/* In VMX operation without IA32_VMX_MISC[14] a start fails, and leaves nothing for later. */
static void vmx_without_pt(void **state)
{
	struct ptah_model *m;

	(void)state;
	open_kernel("broadwell");
	allocate(BUFFER);
	m = ptah_machine_model(model_machine(), 0);
	assert_int_equal(ptah_model_vmxon(m), PTAH_OK);
	assert_false(PtStart());
	assert_int_equal(g_PtStateList[0].Status, PTAH_E_UNSUPPORTED);
	assert_int_equal(g_PtStateList[0].State, PT_STATE_READY);
	assert_int_equal(ptah_model_vmxoff(m), PTAH_OK);
	assert_false(is_enabled(0));
	assert_true(PtStart());
	assert_true(is_enabled(0));
	close_kernel();
}

/* A field that HyperDbg would cut, or write to a register as it is. */
static void fields_that_are_refused(void **state)
{
	static const struct {
		const char *field;
		PT_TRACE_CONFIG config;
	} cases[] = {
	    {"NumAddrRanges", {.TraceUser = 1, .EnableBranch = 1, .NumAddrRanges = 0xffffffff}},
	    {"NumAddrRanges",
	     {.TraceUser = 1,
	      .EnableBranch = 1,
	      .NumAddrRanges = 3, /* Skylake has two */
	      .AddrRanges = {{0, 1, 0}, {0, 1, 0}, {0, 1, 0}}}},
	    {"AddrRanges[1].Start",
	     {.TraceUser = 1,
	      .EnableBranch = 1,
	      .NumAddrRanges = 2,
	      .AddrRanges = {{0, 1, 0}, {0x800000000000, 0x800000000001, 0}}}},
	    {"AddrRanges[0].End",
	     {.TraceUser = 1, .EnableBranch = 1, .NumAddrRanges = 1, .AddrRanges = {{2, 1, 0}}}},
	    {"MtcFreq", {.TraceUser = 1, .EnableBranch = 1, .EnableMtc = 1, .MtcFreq = 1}},
	    {"MtcFreq", {.TraceUser = 1, .EnableBranch = 1, .EnableMtc = 1, .MtcFreq = 200}},
	    {"CycThresh", {.TraceUser = 1, .EnableBranch = 1, .EnableCyc = 1, .CycThresh = 16}},
	    {"PsbFreq", {.TraceUser = 1, .EnableBranch = 1, .PsbFreq = 15}},
	    {"TargetCr3", {.TraceUser = 1, .EnableBranch = 1, .TargetCr3 = 0x1aa002}},
	    {"TraceKernel", {.EnableBranch = 1}},
	    {"EnableBranch", {.TraceUser = 1}},
	    {"BufferSize", {.TraceUser = 1, .EnableBranch = 1, .BufferSize = 3 * 4096}},
	    {"BufferSize", {.TraceUser = 1, .EnableBranch = 1, .BufferSize = 1ull << 33}},
	};
	size_t i;

	(void)state;
	open_kernel("skylake");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		PT_PER_CPU *cpu = &g_PtStateList[1];

		assert_int_equal(PtEngineAllocateBuffers(cpu, &cases[i].config), PT_BAD_CONFIG);
		assert_string_equal(cpu->Problem.Field, cases[i].field);
		assert_non_null(cpu->Problem.Reason);
		assert_int_equal(cpu->State, PT_STATE_DISABLED);
		assert_int_equal(read_msr(1, PTAH_IA32_RTIT_CTL), 0);
	}
	assert_int_equal(PtEngineAllocateBuffers(NULL, &cases[0].config), PT_FAILED);
	close_kernel();
	/* A processor without filters of CR3. */
	open_kernel("broadwell");
	g_PtStateList[0].Config.MtcFreq = 3;
	assert_false(PtAllocateAllCpuBuffers());
	assert_string_equal(g_PtStateList[0].Problem.Field, "MtcFreq");
	close_kernel();
}

static PT_FILTER_OPTIONS options;
static INT32 expected;

static VOID filter(VOID)
{
	assert_int_equal(PtFilter(&options), expected);
}

/* A filter changes on a trace that runs, or is paused, and the trace stays. */
static void filters(void **state)
{
	unsigned i;

	(void)state;
	open_kernel("skylake");
	allocate(BUFFER);
	broadcast(start);
	for (i = 0; i < CPUS; i++)
		write_marks(i, 100);
	options =
	    (PT_FILTER_OPTIONS){.TraceUser = 1,
				.TargetCr3 = 0x1aa000,
				.BufferSize = BUFFER,
				.NumAddrRanges = 2,
				.AddrRanges = {{0x401000, 0x402000, 0}, {0x500000, 0x500010, 1}}};
	expected = 0;
	broadcast(filter);
	for (i = 0; i < CPUS; i++) {
		const uint64_t ctl = read_msr(i, PTAH_IA32_RTIT_CTL);

		assert_true(is_enabled(i));
		assert_int_equal(ctl >> 32 & 0xff, 0x21);
		assert_true((ctl & PTAH_RTIT_CTL_USER) && !(ctl & PTAH_RTIT_CTL_OS));
		assert_true(ctl & PTAH_RTIT_CTL_BRANCH_EN && ctl & PTAH_RTIT_CTL_TSC_EN);
		assert_int_equal(read_msr(i, PTAH_IA32_RTIT_CR3_MATCH), 0x1aa000);
		assert_int_equal(read_msr(i, PTAH_IA32_RTIT_ADDR0_A + 3), 0x500010);
	}
	broadcast(PtPause);
	options.NumAddrRanges = 0;
	broadcast(filter);
	assert_false(is_enabled(3));
	broadcast(PtResume);
	assert_true(is_enabled(3));
	assert_int_equal(read_msr(3, PTAH_IA32_RTIT_CTL) >> 32, 0);
	/* What is not possible leaves all as it is. */
	expected = PT_BAD_CONFIG;
	options.NumAddrRanges = 3;
	broadcast(filter);
	assert_string_equal(g_PtStateList[3].Problem.Field, "NumAddrRanges");
	options.NumAddrRanges = 0;
	options.BufferSize = 2 * BUFFER;
	broadcast(filter);
	assert_string_equal(g_PtStateList[3].Problem.Field, "BufferSize");
	assert_int_equal(g_PtStateList[3].Config.BufferSize, BUFFER);
	assert_int_equal(g_PtStateList[3].Config.NumAddrRanges, 0);
	broadcast(PtStop);
	for (i = 0; i < CPUS; i++)
		assert_int_equal(g_PtStateList[i].TotalBytesCaptured, output(i));
	close_kernel();
}

/* In VMX root no function of the kernel is called. */
static void vmx_root(void **state)
{
	uint64_t before;

	(void)state;
	open_kernel("skylake");
	allocate(BUFFER);
	ptah_machine_set_cpu(model_machine(), 3);
	model_set_root(true);
	_disable();
	assert_true(PtStart());
	write_marks(3, 50);
	PtPause();
	assert_false(is_enabled(3));
	PtResume();
	assert_true(is_enabled(3));
	assert_in_range(PtSize(), 0, output(3));
	PtStop();
	assert_int_equal(g_PtStateList[3].TotalBytesCaptured, output(3));
	assert_true(PtStart());
	PtFlush();
	assert_false(is_enabled(3));
	assert_int_equal(g_PtStateList[3].TotalBytesCaptured, 0);
	before = output(3);
	assert_true(PtStart());
	write_marks(3, 10);
	PtStop();
	assert_int_equal(g_PtStateList[3].TotalBytesCaptured, output(3) - before);
	assert_false(__readeflags() & 0x200);
	_enable();
	model_set_root(false);
	ptah_machine_set_cpu(model_machine(), 0);
	close_kernel();
}

static PT_OUTPUT_BUFFER drained;
static unsigned pmis;

static void on_pmi(void *argument, unsigned cpu)
{
	(void)argument;
	assert_true(PtEngineIsPtPmi());
	pmis++;
	PtEngineHandlePmi(&g_PtStateList[cpu], &drained);
}

static BOOLEAN enable_pmi(BOOLEAN on)
{
	struct ptah_hal hal;

	ptah_machine_hal(model_machine(), &hal);
	ptah_machine_on_pmi(model_machine(), on ? on_pmi : NULL, NULL);
	return hal.pmi_enable(model_machine(), on) == PTAH_OK;
}

static VOID unmask_pmi(VOID)
{
	struct ptah_hal hal;

	ptah_machine_hal(model_machine(), &hal);
	hal.pmi_unmask(model_machine());
}

/* The program of processor 1 runs on while its buffer is copied: more than the page's room. */
static void run_program(void)
{
	uint8_t junk[2 * PT_OVERFLOW_SIZE] = {0};

	ptah_machine_put(model_machine(), 1, junk, sizeof(junk));
}

/* A hypervisor that has the PMI copies all of a trace of many laps out, and none is lost. */
static void pmi_handler(void **state)
{
	const PT_PLATFORM platform = {.PmiEnable = enable_pmi, .PmiUnmask = unmask_pmi};

	(void)state;
	memset(next_mark, 0, sizeof(next_mark));
	pmis = 0;
	drained = (PT_OUTPUT_BUFFER){.Buffer = malloc(32 * BUFFER), .Length = 32 * BUFFER};
	model_start(CPUS, ptah_model_find("skylake"));
	PtInitialize(&platform);
	assert_true(PtCheck());
	allocate(BUFFER);
	ptah_machine_set_cpu(model_machine(), 1);
	assert_true(PtStart());
	model_on_copy(run_program);
	write_marks(1, 10 * BUFFER / MARK);
	PtEngineStop(&g_PtStateList[1], &drained);
	ptah_machine_set_cpu(model_machine(), 0);
	assert_in_range(pmis, 18, 19); /* two in each of the nine laps */
	assert_int_equal(g_PtStateList[1].LostBytes, 0);
	assert_int_equal(drained.WriteOffset, output(1));
	assert_int_equal(expect_marks(drained.Buffer, drained.WriteOffset, 0), next_mark[1]);
	close_kernel();
	free(drained.Buffer);
}

/* The process that has mapped the buffers ends, while another one runs. */
static void process_that_ends(void **state)
{
	PT_USER_BUFFER_DESC descs[PT_MAX_CPUS_FOR_MMAP];
	UINT32 n;

	(void)state;
	open_kernel("skylake");
	allocate(BUFFER);
	model_set_process(model_process(1));
	model_fail_mapping();
	assert_int_equal(PtMmapAllCpuBuffersToUser(descs, PT_MAX_CPUS_FOR_MMAP, &n), PT_FAILED);
	assert_int_equal(model_mappings(), 0);
	assert_int_equal(PtMmapAllCpuBuffersToUser(descs, PT_MAX_CPUS_FOR_MMAP, &n), 0);
	model_set_process(model_process(0));
	assert_int_equal(PtMmapAllCpuBuffersToUser(descs, PT_MAX_CPUS_FOR_MMAP, &n), PT_FAILED);
	broadcast(start);
	PtProcessGone(model_process(1));
	assert_int_equal(model_mappings(), 0);
	assert_true(is_enabled(2));
	assert_int_equal(PtMmapAllCpuBuffersToUser(descs, PT_MAX_CPUS_FOR_MMAP, &n), 0);
	broadcast(PtStop);
	close_kernel();
}

/* Another tracer is left alone; a later start works. */
static void another_tracer(void **state)
{
	struct ptah_model *m;
	uint64_t ctl;

	(void)state;
	open_kernel("skylake");
	allocate(BUFFER);
	m = ptah_machine_model(model_machine(), 0);
	ctl = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_TOPA;
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, 0x140000000), PTAH_OK);
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, ctl), PTAH_OK);
	model_set_irql(DISPATCH_LEVEL);
	assert_false(PtStart());
	assert_int_equal(g_PtStateList[0].Status, PTAH_E_BUSY);
	assert_int_equal(read_msr(0, PTAH_IA32_RTIT_CTL), ctl);
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, 0), PTAH_OK);
	assert_true(PtStart());
	/* At this IRQL no other processor can be waited for. */
	assert_int_equal(PtEngineStart(&g_PtStateList[1]), PT_FAILED);
	assert_false(is_enabled(1));
	model_set_irql(PASSIVE_LEVEL);
	assert_int_equal(PtEngineStart(&g_PtStateList[1]), 0);
	assert_true(is_enabled(1));
	close_kernel();
}

static void capabilities(void **state)
{
	PT_CAPABILITIES caps;

	(void)state;
	open_kernel("skylake");
	assert_int_equal(PtEngineQueryCapabilities(&caps), 0);
	assert_true(caps.TopaOutput && caps.TopaMultiEntry && caps.Cr3Filtering && caps.VmxSupport);
	assert_int_equal(caps.NumAddrRanges, 2);
	assert_int_equal(PtEngineSizeToTopaEncoding(4096), 0);
	assert_int_equal(PtEngineSizeToTopaEncoding(128 << 20), 15);
	assert_int_equal(PtEngineSizeToTopaEncoding(256 << 20), PT_FAILED);
	assert_int_equal(PtEngineSizeToTopaEncoding(12288), PT_FAILED);
	close_kernel();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(capabilities),   cmocka_unit_test(enable_to_disable),
	    cmocka_unit_test(laps),	      cmocka_unit_test(thousand_laps),
	    cmocka_unit_test(vmx_without_pt), cmocka_unit_test(fields_that_are_refused),
	    cmocka_unit_test(filters),	      cmocka_unit_test(vmx_root),
	    cmocka_unit_test(pmi_handler),    cmocka_unit_test(process_that_ends),
	    cmocka_unit_test(another_tracer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
