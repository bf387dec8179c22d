/* SPDX-License-Identifier: MIT */
/*
 * HyperDbg's functions (hypertrace_pt.h) on the engine: a capture for each processor, which is
 * controlled on that processor. What a processor is to do is in its PT_PER_CPU.
 */
#include "port.h"

#include <ptah/engine/caps.h>

#define POOL_TAG	0x74507470u /* "ptPt" */
#define TOPA_STATUS	0x38e	    /* IA32_PERF_GLOBAL_STATUS */
#define TOPA_STATUS_PMI (1ULL << 55)

/* Without PMIs a trace ends when its tables do: so many make that thousands of laps. */
#define TABLE_PAGES 16

PT_PER_CPU *g_PtStateList;
static struct ptah_engine *engine;
static UINT32 processors; /* of g_PtStateList */
static PEPROCESS mapper;

static unsigned number_of(const PT_PER_CPU *cpu)
{
	return (unsigned)(cpu - g_PtStateList);
}

static PT_PER_CPU *this_cpu(void)
{
	unsigned number = KeGetCurrentProcessorNumberEx(NULL);

	return g_PtStateList && number < processors ? &g_PtStateList[number] : NULL;
}

static INT32 apply_config(PT_PER_CPU *cpu, const PT_TRACE_CONFIG *config)
{
	struct ptah_trace_problem problem;
	struct ptah_trace_config trace;
	INT32 result = windows_translate(cpu, config, &trace);

	if (result == 0)
		result = windows_judge(
		    cpu, ptah_capture_reconfigure(cpu->Capture, &trace, &problem), &problem);
	if (result == 0)
		cpu->Config = *config;
	return result;
}

VOID PtInitialize(const PT_PLATFORM *Platform)
{
	windows_platform = *Platform;
}

BOOLEAN PtCheck(VOID)
{
	const struct ptah_caps *caps;
	UINT32 i;

	if (!engine) {
		windows_hal_init();
		processors = KeQueryMaximumProcessorCountEx(ALL_PROCESSOR_GROUPS);
		g_PtStateList = ExAllocatePoolWithTag(
		    NonPagedPool, processors * sizeof(*g_PtStateList), POOL_TAG);
		if (!g_PtStateList)
			return FALSE;
		RtlZeroMemory(g_PtStateList, processors * sizeof(*g_PtStateList));
		for (i = 0; i < processors; i++)
			PtEngineInitDefaultConfig(&g_PtStateList[i].Config);
		if (ptah_engine_new(&windows_hal, NULL, &engine) < 0) {
			PtUninitialize();
			return FALSE;
		}
	}
	/* Another tracer, and VMX operation without PT, may pass: PtStart() looks again. */
	caps = ptah_engine_caps(engine, KeGetCurrentProcessorNumberEx(NULL));
	return caps && caps->topa &&
	       (!caps->obstacle || caps->obstacle == PTAH_CAPS_IN_USE ||
		caps->obstacle == PTAH_CAPS_VMX);
}

VOID PtUninitialize(VOID)
{
	UINT32 i;

	for (i = 0; engine && i < processors; i++)
		PtEngineStop(&g_PtStateList[i], NULL);
	PtFreeAllCpuBuffers();
	ptah_engine_free(engine);
	engine = NULL;
	if (g_PtStateList)
		ExFreePoolWithTag(g_PtStateList, POOL_TAG);
	g_PtStateList = NULL;
}

VOID PtProcessGone(PEPROCESS Process)
{
	ptah_engine_release_owner(engine, (uint64_t)(ULONG_PTR)Process);
	if (mapper == Process)
		mapper = NULL;
}

INT32 PtEngineAllocateBuffers(PT_PER_CPU *Cpu, const PT_TRACE_CONFIG *Config)
{
	struct ptah_capture_config capture = {.size = sizeof(capture)};
	const struct ptah_caps *caps;
	struct ptah_trace_problem problem;
	struct ptah_trace_config trace;
	PT_TRACE_CONFIG config;
	INT32 result;

	if (!Cpu || !Config || !engine || Cpu->Capture)
		return PT_FAILED;
	config = *Config;
	if (!config.BufferSize)
		config.BufferSize = PT_DEFAULT_BUFFER_SIZE;
	result = windows_translate(Cpu, &config, &trace);
	if (result < 0)
		return result;
	caps = ptah_engine_caps(engine, number_of(Cpu));
	capture.trace = &trace;
	capture.cpu = (int)number_of(Cpu);
	capture.buffer = config.BufferSize;
	/* When the buffer is full, with its page still to come; and when the page is. */
	capture.pmis = windows_hal.pmi_enable && caps && caps->topa_multi ? 2 : 0;
	capture.pages = windows_hal.pmi_enable ? 0 : TABLE_PAGES;
	/* With single-entry ToPA there is no room for the page behind the buffer. */
	capture.shape = caps && caps->topa_multi ? PTAH_SHAPE_OVERFLOW : PTAH_SHAPE_AUTO;
	result = windows_judge(Cpu, ptah_capture_new(engine, &capture, &Cpu->Capture, &problem),
			       &problem);
	if (result < 0)
		return result;
	Cpu->Config = config;
	Cpu->State = PT_STATE_READY;
	Cpu->TotalBytesCaptured = Cpu->LostBytes = 0;
	Cpu->Position = Cpu->Copied = Cpu->Flushed = 0;
	return 0;
}

VOID PtEngineFreeBuffers(PT_PER_CPU *Cpu)
{
	if (!Cpu || !Cpu->Capture || Cpu->State == PT_STATE_TRACING ||
	    ptah_capture_free(Cpu->Capture) < 0)
		return;
	Cpu->Capture = NULL;
	Cpu->State = PT_STATE_DISABLED;
	Cpu->TotalBytesCaptured = 0;
}

BOOLEAN PtAllocateAllCpuBuffers(VOID)
{
	UINT32 i, active = KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS);

	for (i = 0; i < active && i < processors; i++)
		if (g_PtStateList[i].State == PT_STATE_DISABLED &&
		    PtEngineAllocateBuffers(&g_PtStateList[i], &g_PtStateList[i].Config) < 0)
			return FALSE;
	return g_PtStateList != NULL;
}

VOID PtFreeAllCpuBuffers(VOID)
{
	UINT32 i;

	PtUnmapAllCpuBuffersFromUser();
	for (i = 0; g_PtStateList && i < processors; i++)
		PtEngineFreeBuffers(&g_PtStateList[i]);
}

INT32 PtMmapAllCpuBuffersToUser(PT_USER_BUFFER_DESC *OutDescs, UINT32 MaxDescs, UINT32 *OutNumCpus)
{
	UINT32 i, n = KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS);
	PEPROCESS process = PsGetCurrentProcess();
	struct ptah_capture_status s = {.size = sizeof(s)};

	if (!OutDescs || !OutNumCpus || !g_PtStateList || !n || n > MaxDescs ||
	    n > PT_MAX_CPUS_FOR_MMAP || (mapper && mapper != process))
		return PT_FAILED;
	mapper = process;
	for (i = 0; i < n; i++) { /* a second call returns the first mappings */
		OutDescs[i].CpuId = i;
		if (!g_PtStateList[i].Capture ||
		    ptah_capture_map(g_PtStateList[i].Capture, (uint64_t)(ULONG_PTR)process, false,
				     &OutDescs[i].UserVa) < 0) {
			PtProcessGone(process);
			return PT_FAILED;
		}
		ptah_capture_status(g_PtStateList[i].Capture, &s);
		OutDescs[i].Size = s.buffer;
	}
	*OutNumCpus = n;
	return 0;
}

/* The engine frees the captures of an owner, too: these have none, so that only mappings end. */
VOID PtUnmapAllCpuBuffersFromUser(VOID)
{
	if (mapper)
		PtProcessGone(mapper);
}

INT32 PtEngineStart(PT_PER_CPU *Cpu)
{
	INT32 result;

	if (!Cpu || !Cpu->Capture || Cpu->State == PT_STATE_TRACING ||
	    Cpu->State == PT_STATE_PAUSED)
		return PT_FAILED;
	result = apply_config(Cpu, &Cpu->Config);
	if (result < 0)
		return result;
	Cpu->Status = ptah_capture_start(Cpu->Capture);
	if (Cpu->Status < 0) {
		ptah_capture_stop(Cpu->Capture); /* else the engine would start it when it can */
		return PT_FAILED;
	}
	Cpu->State = PT_STATE_TRACING;
	return 0;
}

/* Takes the bytes since the last call out of a capture that does not run; returns how many. */
static UINT64 take_bytes(PT_PER_CPU *cpu, PT_OUTPUT_BUFFER *out)
{
	struct ptah_capture_status s = {.size = sizeof(s)};
	struct ptah_piece pieces[4];
	UINT64 new;
	int i, n;

	ptah_capture_status(cpu->Capture, &s);
	new = s.position - cpu->Position;
	cpu->Position = s.position;
	cpu->TotalBytesCaptured = s.position - cpu->Flushed;
	if (cpu->Copied < s.oldest) {
		cpu->LostBytes += s.oldest - cpu->Copied;
		cpu->Copied = s.oldest;
	}
	if (!out || !out->Buffer || out->WriteOffset > out->Length ||
	    out->Length - out->WriteOffset < s.position - cpu->Copied)
		return new;
	while (cpu->Copied < s.position) {
		n = ptah_capture_pieces(cpu->Capture, cpu->Copied, s.position, pieces, 4);
		for (i = 0; i < n; i++) {
			RtlCopyMemory((UCHAR *)out->Buffer + out->WriteOffset, pieces[i].address,
				      pieces[i].size);
			out->WriteOffset += pieces[i].size;
			cpu->Copied += pieces[i].size;
		}
		if (n <= 0)
			break;
	}
	return new;
}

UINT64 PtEngineStop(PT_PER_CPU *Cpu, PT_OUTPUT_BUFFER *Out)
{
	struct ptah_capture_status s = {.size = sizeof(s)};

	if (!Cpu || (Cpu->State != PT_STATE_TRACING && Cpu->State != PT_STATE_PAUSED) ||
	    ptah_capture_stop(Cpu->Capture) < 0)
		return 0;
	take_bytes(Cpu, Out);
	ptah_capture_status(Cpu->Capture, &s);
	Cpu->State = s.error == PTAH_E_DEVICE ? PT_STATE_ERROR : PT_STATE_STOPPED;
	return Cpu->TotalBytesCaptured;
}

INT32 PtEnginePause(PT_PER_CPU *Cpu)
{
	if (!Cpu || Cpu->State != PT_STATE_TRACING || ptah_capture_pause_here(Cpu->Capture) < 0)
		return PT_FAILED;
	Cpu->State = PT_STATE_PAUSED;
	return 0;
}

INT32 PtEngineResume(PT_PER_CPU *Cpu)
{
	if (!Cpu || Cpu->State != PT_STATE_PAUSED || ptah_capture_resume_here(Cpu->Capture) < 0)
		return PT_FAILED;
	Cpu->State = PT_STATE_TRACING;
	return 0;
}

BOOLEAN PtEngineIsPtPmi(VOID)
{
	uint64_t status = 0;

	return windows_hal.rdmsr(NULL, TOPA_STATUS, &status) == PTAH_OK &&
	       (status & TOPA_STATUS_PMI) != 0;
}

/* Nothing is overwritten while it is copied: tracing pauses. */
UINT64 PtEngineHandlePmi(PT_PER_CPU *Cpu, PT_OUTPUT_BUFFER *Out)
{
	BOOLEAN tracing = PtEnginePause(Cpu) == 0;
	UINT64 bytes = 0;

	ptah_engine_pmi(engine);
	if (Cpu && Cpu->Capture)
		bytes = take_bytes(Cpu, Out);
	if (tracing)
		PtEngineResume(Cpu);
	return bytes;
}

BOOLEAN PtStart(VOID)
{
	return PtEngineStart(this_cpu()) == 0;
}

VOID PtStop(VOID)
{
	PtEngineStop(this_cpu(), NULL);
}

VOID PtPause(VOID)
{
	PtEnginePause(this_cpu());
}

VOID PtResume(VOID)
{
	PtEngineResume(this_cpu());
}

VOID PtFlush(VOID)
{
	PT_PER_CPU *cpu = this_cpu();

	if (!cpu || !cpu->Capture)
		return;
	PtEngineStop(cpu, NULL);
	cpu->Flushed = cpu->Copied = cpu->Position;
	cpu->TotalBytesCaptured = 0;
}

/* Positions go on for ever; a mapping is as large as the buffer, and full after one lap. */
UINT64 PtSize(VOID)
{
	struct ptah_capture_status s = {.size = sizeof(s)};
	struct ptah_capture_live live = {.size = sizeof(live)};
	PT_PER_CPU *cpu = this_cpu();

	if (!cpu || !cpu->Capture || ptah_capture_live(cpu->Capture, &live) < 0 ||
	    ptah_capture_status(cpu->Capture, &s) < 0)
		return 0;
	return live.position < s.buffer ? live.position : s.buffer;
}

VOID PtDump(VOID)
{
	struct ptah_capture_status s = {.size = sizeof(s)};
	PT_PER_CPU *cpu = this_cpu();

	if (!cpu || !cpu->Capture || ptah_capture_status(cpu->Capture, &s) < 0)
		return;
	DbgPrintEx(DPFLTR_IHVDRIVER_ID, DPFLTR_INFO_LEVEL,
		   "PT on core %u: state %d, %llu bytes, [%llu, %llu) in the buffer of %llu, "
		   "%llu lost; user %u, kernel %u, CR3 0x%llx; status %d, MSR 0x%x, %s: %s\n",
		   number_of(cpu), cpu->State, cpu->TotalBytesCaptured, s.oldest, s.position,
		   (UINT64)s.buffer, cpu->LostBytes, cpu->Config.TraceUser, cpu->Config.TraceKernel,
		   cpu->Config.TargetCr3, cpu->Status, s.msr,
		   cpu->Problem.Field ? cpu->Problem.Field : "no problem",
		   cpu->Problem.Field ? cpu->Problem.Reason : "");
}

/* A trace that runs goes on with the other filter, and one that is paused stays paused. */
INT32 PtFilter(const PT_FILTER_OPTIONS *Options)
{
	PT_PER_CPU *cpu = this_cpu();
	PT_TRACE_CONFIG config;
	INT32 result;
	UINT32 i;

	if (!cpu || !Options)
		return PT_FAILED;
	if (cpu->Capture && Options->BufferSize && Options->BufferSize != cpu->Config.BufferSize)
		return windows_refuse(cpu, "BufferSize", "another size needs another buffer");
	config = cpu->Config;
	config.TraceUser = Options->TraceUser;
	config.TraceKernel = Options->TraceKernel;
	config.TargetCr3 = Options->TargetCr3;
	config.NumAddrRanges = Options->NumAddrRanges;
	if (Options->BufferSize)
		config.BufferSize = Options->BufferSize;
	for (i = 0; i < PT_MAX_ADDR_RANGES; i++)
		config.AddrRanges[i] = Options->AddrRanges[i];
	if (!cpu->Capture) { /* PtAllocateAllCpuBuffers() will judge it */
		cpu->Config = config;
		return 0;
	}
	result = apply_config(cpu, &config);
	if (result == 0 && cpu->State != PT_STATE_TRACING && cpu->State != PT_STATE_PAUSED)
		result = PtEngineStart(cpu);
	return result;
}
