/* SPDX-License-Identifier: MIT */
/*
 * HyperDbg's interface to Processor Trace (its hypertrace module, Pt.h and PtDefinitions.h), by
 * Ptah's capture engine: the names, types and results that HyperDbg's API and DPC routines use.
 * docs/port-windows.md says at which IRQL each function may be called, and what differs.
 *
 * Results. BOOLEAN: FALSE is failure. INT32: 0, PT_FAILED, or PT_BAD_CONFIG: a field of the request
 * is not possible here; nothing has changed, and the processor's PT_PER_CPU has in Problem the
 * field's name and the reason.
 */
#ifndef PTAH_PORT_WINDOWS_HYPERTRACE_PT_H
#define PTAH_PORT_WINDOWS_HYPERTRACE_PT_H

#include <ntifs.h>
#include <stdbool.h>

#define PT_PAGE_SIZE	       0x1000ULL
#define PT_DEFAULT_BUFFER_SIZE 0x200000ULL
#define PT_OVERFLOW_SIZE       PT_PAGE_SIZE
#define PT_MAX_ADDR_RANGES     4
#define PT_MAX_CPUS_FOR_MMAP   64

#define PT_FAILED     (-1)
#define PT_BAD_CONFIG (-2)

typedef struct _PT_CAPABILITIES {
	UINT32 Cr3Filtering : 1;
	UINT32 PsbCycConfigurable : 1;
	UINT32 IpFiltering : 1;
	UINT32 MtcSupport : 1;
	UINT32 PtwriteSupport : 1;
	UINT32 PowerEventTrace : 1;
	UINT32 VmxSupport : 1;
	UINT32 TopaOutput : 1;
	UINT32 TopaMultiEntry : 1;
	UINT32 SingleRangeOutput : 1;
	UINT32 TransportOutput : 1;
	UINT32 IpPayloadsAreLip : 1;
	UINT32 Reserved : 20;
	UINT32 NumAddrRanges;
	UINT16 MtcPeriodBitmap, CycThresholdBitmap, PsbFreqBitmap;
} PT_CAPABILITIES;

typedef enum _PT_STATE {
	PT_STATE_DISABLED = 0, /* no buffer */
	PT_STATE_READY,
	PT_STATE_TRACING,
	PT_STATE_PAUSED,
	PT_STATE_STOPPED,
	PT_STATE_ERROR /* stopped by an operational error; PtStart continues */
} PT_STATE;

typedef struct _PT_ADDR_RANGE {
	UINT64 Start, End; /* both inclusive */
	BOOLEAN IsStopRange;
} PT_ADDR_RANGE;

typedef struct _PT_TRACE_CONFIG {
	BOOLEAN TraceUser, TraceKernel;
	UINT64 TargetCr3; /* 0: all */
	UINT32 NumAddrRanges;
	PT_ADDR_RANGE AddrRanges[PT_MAX_ADDR_RANGES];
	BOOLEAN EnableBranch, EnableTsc, EnableMtc, EnableCyc, EnableRetCompression;
	UINT8 MtcFreq, CycThresh, PsbFreq;
	UINT64 BufferSize; /* a power of two, 4 KB to 128 MB; 0: PT_DEFAULT_BUFFER_SIZE */
} PT_TRACE_CONFIG;

typedef struct _PT_FILTER_OPTIONS {
	BOOLEAN TraceUser, TraceKernel;
	UINT64 TargetCr3;
	UINT64 BufferSize; /* 0: as it is */
	UINT32 NumAddrRanges;
	PT_ADDR_RANGE AddrRanges[PT_MAX_ADDR_RANGES];
} PT_FILTER_OPTIONS;

/* Bytes are appended at WriteOffset if all of them fit; else none is, and they are kept. */
typedef struct _PT_OUTPUT_BUFFER {
	PVOID Buffer;
	UINT64 Length, WriteOffset;
} PT_OUTPUT_BUFFER;

typedef struct _PT_USER_BUFFER_DESC {
	UINT32 CpuId, Reserved;
	UINT64 UserVa, Size;
} PT_USER_BUFFER_DESC;

struct ptah_capture;

typedef struct _PT_PER_CPU {
	PT_TRACE_CONFIG Config; /* read by PtEngineAllocateBuffers() and PtEngineStart() */
	PT_STATE State;
	UINT64 TotalBytesCaptured; /* since the buffer was allocated, or flushed */

	/* What HyperDbg has not. */
	struct {
		const char *Field, *Reason; /* "AddrRanges[1].End"; NULL: no problem */
	} Problem;
	INT32 Status;	  /* of the last start: enum ptah_error */
	UINT64 LostBytes; /* that were overwritten before they could be copied out */
	struct ptah_capture *Capture;
	UINT64 Position, Copied, Flushed;
} PT_PER_CPU;

/* One for each processor, by its system-wide number; from PtCheck() to PtUninitialize(). */
extern PT_PER_CPU *g_PtStateList;

/*
 * What the hypervisor around this module knows; each may be NULL. PmiEnable and PmiUnmask, both or
 * none: it routes the PMI of every processor to PtEngineHandlePmi(), and clears the mask bit of the
 * LVT entry. Without them no PMI is requested. Log gets one line, at any IRQL and in VMX root.
 */
typedef struct _PT_PLATFORM {
	BOOLEAN (*InVmxOperation)(VOID);
	BOOLEAN (*PmiEnable)(BOOLEAN On);
	VOID (*PmiUnmask)(VOID);
	VOID (*Log)(const char *Line);
} PT_PLATFORM;

/* PASSIVE_LEVEL, before PtCheck(), if at all; and before the driver is unloaded. */
VOID PtInitialize(const PT_PLATFORM *Platform);
VOID PtUninitialize(VOID);
/* PASSIVE_LEVEL. A process that has mapped the buffers closes its handle or ends. */
VOID PtProcessGone(PEPROCESS Process);

/* PASSIVE_LEVEL. */
BOOLEAN PtCheck(VOID);
BOOLEAN PtAllocateAllCpuBuffers(VOID);
VOID PtFreeAllCpuBuffers(VOID);
INT32 PtMmapAllCpuBuffersToUser(PT_USER_BUFFER_DESC *OutDescs, UINT32 MaxDescs, UINT32 *OutNumCpus);
VOID PtUnmapAllCpuBuffersFromUser(VOID);
INT32 PtEngineAllocateBuffers(PT_PER_CPU *Cpu, const PT_TRACE_CONFIG *Config);
VOID PtEngineFreeBuffers(PT_PER_CPU *Cpu);

/* Up to DISPATCH_LEVEL, on the processor in question: in a DPC. */
INT32 PtFilter(const PT_FILTER_OPTIONS *Options);
VOID PtDump(VOID);

/* Also in VMX root. */
BOOLEAN PtStart(VOID);
VOID PtStop(VOID);
VOID PtPause(VOID);
VOID PtResume(VOID);
VOID PtFlush(VOID);
UINT64 PtSize(VOID);
INT32 PtEngineStart(PT_PER_CPU *Cpu);
UINT64 PtEngineStop(PT_PER_CPU *Cpu, PT_OUTPUT_BUFFER *Out);

/* Also in an NMI. */
INT32 PtEnginePause(PT_PER_CPU *Cpu);
INT32 PtEngineResume(PT_PER_CPU *Cpu);
BOOLEAN PtEngineIsPtPmi(VOID);
UINT64 PtEngineHandlePmi(PT_PER_CPU *Cpu, PT_OUTPUT_BUFFER *Out);
INT32 PtEngineQueryCapabilities(PT_CAPABILITIES *OutCaps);
VOID PtEngineInitDefaultConfig(PT_TRACE_CONFIG *Config);
INT32 PtEngineSizeToTopaEncoding(UINT64 SizeInBytes);

#endif
