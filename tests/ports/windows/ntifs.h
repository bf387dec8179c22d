/* SPDX-License-Identifier: MIT */
/*
 * What port/windows needs of the Windows kernel, by its documented names: for a kernel that is
 * modelled (model.c), and for compilers that have no headers of Windows.
 */
#ifndef PTAH_TESTS_PORTS_WINDOWS_NTIFS_H
#define PTAH_TESTS_PORTS_WINDOWS_NTIFS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VOID void
#define NTAPI
#define TRUE  1
#define FALSE 0

typedef uint8_t BOOLEAN, UCHAR, UINT8, KIRQL;
typedef uint16_t UINT16, USHORT;
typedef int32_t INT32, LONG, NTSTATUS;
typedef uint32_t UINT32, ULONG;
typedef int64_t LONGLONG;
typedef uint64_t UINT64;
typedef uintptr_t ULONG_PTR, PFN_NUMBER;
typedef size_t SIZE_T;
typedef void *PVOID;

#define MAXULONG		  0xffffffffu
#define NT_SUCCESS(status)	  ((NTSTATUS)(status) >= 0)
#define PAGE_SIZE		  4096u
#define PAGE_SHIFT		  12
#define PASSIVE_LEVEL		  0
#define APC_LEVEL		  1
#define DISPATCH_LEVEL		  2
#define IO_NO_INCREMENT		  0
#define MDL_PAGES_LOCKED	  2
#define NonPagedPool		  0
#define ALL_PROCESSOR_GROUPS	  0xffff
#define EXCEPTION_EXECUTE_HANDLER 1
#define DPFLTR_IHVDRIVER_ID	  77
#define DPFLTR_INFO_LEVEL	  3

enum {
	UserMode = 1,
	KernelMode = 0
};
enum {
	MmCached = 1
};
enum {
	NormalPagePriority = 16
};
enum {
	NotificationEvent = 0
};
enum {
	HighImportance = 2
};
enum {
	Executive = 0
};

typedef union {
	LONGLONG QuadPart;
} PHYSICAL_ADDRESS;
typedef struct {
	USHORT Group;
	UCHAR Number, Reserved;
} PROCESSOR_NUMBER;
typedef struct {
	LONG Signalled;
} KEVENT;
typedef struct {
	LONG Held;
	KIRQL OldIrql;
} FAST_MUTEX;
typedef struct _EPROCESS *PEPROCESS;
typedef struct {
	PEPROCESS Before;
} KAPC_STATE;
typedef struct _MDL {
	UINT32 MdlFlags, ByteCount;
	PFN_NUMBER *Pages;
} * PMDL;
typedef struct _KDPC KDPC, *PKDPC;
typedef VOID KDEFERRED_ROUTINE(PKDPC Dpc, PVOID Context, PVOID Argument1, PVOID Argument2);
struct _KDPC {
	KDEFERRED_ROUTINE *Routine;
	PVOID Context, Argument1, Argument2;
	ULONG Processor;
	PKDPC Next;
};

/* Instructions */
UINT64 __readmsr(ULONG Register);
VOID __writemsr(ULONG Register, UINT64 Value);
VOID __cpuidex(int Registers[4], int Leaf, int Subleaf);
UINT64 __readeflags(VOID);
VOID _disable(VOID);
VOID _enable(VOID);
VOID model_sfence(VOID);
#define _mm_sfence() model_sfence() /* clang has it built in */

/* Processors */
ULONG KeGetCurrentProcessorNumberEx(PROCESSOR_NUMBER *Number);
ULONG KeQueryMaximumProcessorCountEx(USHORT Group);
ULONG KeQueryActiveProcessorCountEx(USHORT Group);
NTSTATUS KeGetProcessorNumberFromIndex(ULONG Index, PROCESSOR_NUMBER *Number);
KIRQL KeGetCurrentIrql(VOID);
VOID KeInitializeDpc(PKDPC Dpc, KDEFERRED_ROUTINE *Routine, PVOID Context);
VOID KeSetImportanceDpc(PKDPC Dpc, int Importance);
NTSTATUS KeSetTargetProcessorDpcEx(PKDPC Dpc, PROCESSOR_NUMBER *Number);
BOOLEAN KeInsertQueueDpc(PKDPC Dpc, PVOID Argument1, PVOID Argument2);
VOID KeGenericCallDpc(KDEFERRED_ROUTINE *Routine, PVOID Context);
VOID KeSignalCallDpcDone(PVOID Argument1);
BOOLEAN KeSignalCallDpcSynchronize(PVOID Argument2);

/* Waiting */
VOID KeInitializeEvent(KEVENT *Event, int Type, BOOLEAN State);
LONG KeSetEvent(KEVENT *Event, LONG Increment, BOOLEAN Wait);
NTSTATUS KeWaitForSingleObject(PVOID Object, int Reason, int Mode, BOOLEAN Alertable,
			       PVOID Timeout);
VOID ExInitializeFastMutex(FAST_MUTEX *Mutex);
VOID ExAcquireFastMutex(FAST_MUTEX *Mutex);
VOID ExReleaseFastMutex(FAST_MUTEX *Mutex);

/* Memory */
PVOID ExAllocatePoolWithTag(int Pool, SIZE_T Bytes, ULONG Tag);
VOID ExFreePoolWithTag(PVOID Block, ULONG Tag);
PVOID MmAllocateContiguousMemorySpecifyCache(SIZE_T Bytes, PHYSICAL_ADDRESS Lowest,
					     PHYSICAL_ADDRESS Highest, PHYSICAL_ADDRESS Boundary,
					     int Cache);
VOID MmFreeContiguousMemory(PVOID Address);
PHYSICAL_ADDRESS MmGetPhysicalAddress(PVOID Address);
PMDL IoAllocateMdl(PVOID Address, ULONG Length, BOOLEAN Secondary, BOOLEAN Quota, PVOID Irp);
VOID IoFreeMdl(PMDL Mdl);
PFN_NUMBER *MmGetMdlPfnArray(PMDL Mdl);
PVOID MmMapLockedPagesSpecifyCache(PMDL Mdl, int Mode, int Cache, PVOID Address, ULONG BugCheck,
				   ULONG Priority);
VOID MmUnmapLockedPages(PVOID Address, PMDL Mdl);
#define RtlZeroMemory(to, n) memset(to, 0, n)
VOID RtlCopyMemory(PVOID To, const VOID *From, SIZE_T Bytes);

/* Processes */
PEPROCESS PsGetCurrentProcess(VOID);
VOID ObReferenceObject(PVOID Object);
VOID ObDereferenceObject(PVOID Object);
VOID KeStackAttachProcess(PVOID Process, KAPC_STATE *State);
VOID KeUnstackDetachProcess(KAPC_STATE *State);

ULONG DbgPrintEx(ULONG Component, ULONG Level, const char *Format, ...);

#endif
