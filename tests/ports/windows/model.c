/* SPDX-License-Identifier: MIT */
/*
 * The model of the kernel. One thread acts for all processors; each has an IRQL. A function that
 * is called at a higher IRQL than its documentation allows, or in VMX root, fails the test. An
 * exception unwinds to the innermost windows_guarded(), and fails the test if there is none.
 */
#include "model.h"

#include "pages.h"
#include "test.h"

#include <setjmp.h>
#include <stdlib.h>

#define CPUS	 8
#define ARENA	 ((size_t)64 << 20)
#define MAPPINGS 64
#define GARBAGE	 0xa5

struct _EPROCESS {
	unsigned references;
};

struct user_range {
	PEPROCESS process;
	uint64_t address;
	PMDL mdl; /* NULL: free */
};

static struct {
	struct ptah_machine *machine;
	struct ptah_hal hal;
	void *arena;
	unsigned cpus, blocks, mdls, arrived;
	KIRQL irql[CPUS];
	bool root, fail_mapping;
	PKDPC queue;
	struct _EPROCESS processes[2];
	PEPROCESS process;
	struct user_range ranges[MAPPINGS];
	struct ptah_hal_memory memory[256];
	uint64_t next_user;
	jmp_buf *guard;
	void (*on_copy)(void);
} kernel;

int windows_guarded(VOID (*work)(PVOID argument), PVOID argument);

/* Rules */

static unsigned cpu(void)
{
	return ptah_machine_cpu(kernel.machine);
}

/* A kernel function begins, which may be called up to this IRQL. */
static void enter(const char *function, KIRQL most)
{
	if (kernel.root)
		fail_msg("%s in VMX root", function);
	if (kernel.irql[cpu()] > most)
		fail_msg("%s at IRQL %u", function, kernel.irql[cpu()]);
}

static void raise_exception(void)
{
	if (!kernel.guard)
		fail_msg("an exception that nobody catches");
	longjmp(*kernel.guard, 1);
}

int windows_guarded(VOID (*work)(PVOID argument), PVOID argument)
{
	jmp_buf *const before = kernel.guard;
	jmp_buf here;
	volatile int result = 0;

	kernel.guard = &here;
	if (setjmp(here))
		result = -1;
	else
		work(argument);
	kernel.guard = before;
	return result;
}

/* For the test */

void model_start(unsigned cpus, const struct ptah_model_processor *processor)
{
	struct ptah_machine_config config = {.size = sizeof(config),
					     .cpus = cpus,
					     .processor = processor,
					     .arena_size = ARENA,
					     .physical = 0x140000000};

	memset(&kernel, 0, sizeof(kernel));
	kernel.cpus = cpus;
	kernel.process = &kernel.processes[0];
	kernel.next_user = 0x7ff000000000;
	kernel.machine = calloc(1, ptah_machine_size(cpus));
	kernel.arena = pages_new(ARENA);
	assert_non_null(kernel.machine);
	config.arena = kernel.arena;
	assert_int_equal(ptah_machine_init(kernel.machine, &config), PTAH_OK);
	ptah_machine_hal(kernel.machine, &kernel.hal);
}

void model_stop(void)
{
	const char *violation = ptah_machine_violation(kernel.machine);

	if (violation)
		fail_msg("%s", violation);
	assert_int_equal(ptah_machine_allocated(kernel.machine), 0);
	assert_int_equal(kernel.blocks, 0);
	assert_int_equal(kernel.mdls, 0);
	assert_int_equal(model_mappings(), 0);
	assert_int_equal(kernel.processes[0].references + kernel.processes[1].references, 0);
	free(kernel.machine);
	pages_free(kernel.arena, ARENA);
}

struct ptah_machine *model_machine(void)
{
	return kernel.machine;
}

void model_set_root(bool root)
{
	kernel.root = root;
}

void model_set_irql(KIRQL irql)
{
	kernel.irql[cpu()] = irql;
}

PEPROCESS model_process(unsigned n)
{
	return &kernel.processes[n];
}

void model_set_process(PEPROCESS process)
{
	kernel.process = process;
}

void model_fail_mapping(void)
{
	kernel.fail_mapping = true;
}

void model_on_copy(void (*work)(void))
{
	kernel.on_copy = work;
}

const uint8_t *model_user(PEPROCESS process, uint64_t address)
{
	uint64_t bytes;
	unsigned i;

	for (i = 0; i < MAPPINGS; i++) {
		const struct user_range *r = &kernel.ranges[i];

		if (r->mdl && r->process == process && address >= r->address &&
		    address - r->address < r->mdl->ByteCount)
			return ptah_machine_memory(
				   kernel.machine,
				   (uint64_t)r->mdl->Pages[(address - r->address) / PAGE_SIZE]
				       << PAGE_SHIFT,
				   &bytes) +
			       address % PAGE_SIZE;
	}
	return NULL;
}

unsigned model_mappings(void)
{
	unsigned i, n = 0;

	for (i = 0; i < MAPPINGS; i++)
		n += kernel.ranges[i].mdl != NULL;
	return n;
}

/* Instructions */

UINT64 __readmsr(ULONG Register)
{
	UINT64 value = 0;

	if (kernel.hal.rdmsr(kernel.machine, Register, &value) < 0)
		raise_exception();
	return value;
}

VOID __writemsr(ULONG Register, UINT64 Value)
{
	if (kernel.hal.wrmsr(kernel.machine, Register, Value) < 0)
		raise_exception();
}

VOID __cpuidex(int Registers[4], int Leaf, int Subleaf)
{
	kernel.hal.cpuid(kernel.machine, (uint32_t)Leaf, (uint32_t)Subleaf, (uint32_t *)Registers);
}

UINT64 __readeflags(VOID)
{
	return ptah_model_irqs(ptah_machine_model(kernel.machine, cpu())) ? 0x202 : 0x2;
}

static void set_interrupts(bool on)
{
	struct ptah_model *m = ptah_machine_model(kernel.machine, cpu());

	ptah_model_set_irqs(m, on);
	ptah_model_boundary(m);
}

VOID _disable(VOID)
{
	set_interrupts(false);
}

VOID _enable(VOID)
{
	set_interrupts(true);
}

VOID model_sfence(VOID)
{
	kernel.hal.fence(kernel.machine);
}

/* Processors */

ULONG KeGetCurrentProcessorNumberEx(PROCESSOR_NUMBER *Number)
{
	assert_null(Number);
	return cpu();
}

ULONG KeQueryMaximumProcessorCountEx(USHORT Group)
{
	assert_int_equal(Group, ALL_PROCESSOR_GROUPS);
	return kernel.cpus;
}

ULONG KeQueryActiveProcessorCountEx(USHORT Group)
{
	assert_int_equal(Group, ALL_PROCESSOR_GROUPS);
	return kernel.cpus;
}

/* Groups of two processors, so that a number within a group is not taken for a system-wide one. */
NTSTATUS KeGetProcessorNumberFromIndex(ULONG Index, PROCESSOR_NUMBER *Number)
{
	*Number = (PROCESSOR_NUMBER){.Group = (USHORT)(Index / 2), .Number = (UCHAR)(Index % 2)};
	return Index < kernel.cpus ? 0 : -1;
}

KIRQL KeGetCurrentIrql(VOID)
{
	return kernel.irql[cpu()];
}

VOID KeInitializeDpc(PKDPC Dpc, KDEFERRED_ROUTINE *Routine, PVOID Context)
{
	*Dpc = (KDPC){.Routine = Routine, .Context = Context};
}

VOID KeSetImportanceDpc(PKDPC Dpc, int Importance)
{
	(void)Dpc;
	assert_int_equal(Importance, HighImportance);
}

NTSTATUS KeSetTargetProcessorDpcEx(PKDPC Dpc, PROCESSOR_NUMBER *Number)
{
	Dpc->Processor = Number->Group * 2u + Number->Number;
	return Dpc->Processor < kernel.cpus ? 0 : -1;
}

BOOLEAN KeInsertQueueDpc(PKDPC Dpc, PVOID Argument1, PVOID Argument2)
{
	enter("KeInsertQueueDpc", 15);
	Dpc->Argument1 = Argument1;
	Dpc->Argument2 = Argument2;
	Dpc->Next = kernel.queue;
	kernel.queue = Dpc;
	return TRUE;
}

static void run_dpc(unsigned target, PKDPC dpc)
{
	const unsigned before = cpu();
	KIRQL irql;

	ptah_machine_set_cpu(kernel.machine, target);
	irql = kernel.irql[target];
	kernel.irql[target] = DISPATCH_LEVEL;
	dpc->Routine(dpc, dpc->Context, dpc->Argument1, dpc->Argument2);
	assert_true(ptah_model_irqs(ptah_machine_model(kernel.machine, target)));
	kernel.irql[target] = irql;
	ptah_machine_set_cpu(kernel.machine, before);
}

VOID KeGenericCallDpc(KDEFERRED_ROUTINE *Routine, PVOID Context)
{
	KDPC dpc = {.Routine = Routine, .Context = Context};
	unsigned n, done = 0;

	enter("KeGenericCallDpc", APC_LEVEL);
	dpc.Argument1 = dpc.Argument2 = &done;
	for (n = 0; n < kernel.cpus; n++)
		run_dpc(n, &dpc);
	assert_int_equal(done, kernel.cpus);
}

VOID KeSignalCallDpcDone(PVOID Argument1)
{
	++*(unsigned *)Argument1;
}

BOOLEAN KeSignalCallDpcSynchronize(PVOID Argument2)
{
	(void)Argument2;
	return TRUE;
}

/* Waiting */

VOID KeInitializeEvent(KEVENT *Event, int Type, BOOLEAN State)
{
	assert_int_equal(Type, NotificationEvent);
	Event->Signalled = State;
}

LONG KeSetEvent(KEVENT *Event, LONG Increment, BOOLEAN Wait)
{
	(void)Increment, (void)Wait;
	enter("KeSetEvent", DISPATCH_LEVEL);
	Event->Signalled = 1;
	return 0;
}

NTSTATUS KeWaitForSingleObject(PVOID Object, int Reason, int Mode, BOOLEAN Alertable, PVOID Timeout)
{
	PKDPC dpc;

	(void)Reason, (void)Mode, (void)Alertable, (void)Timeout;
	enter("KeWaitForSingleObject", APC_LEVEL);
	while (!((KEVENT *)Object)->Signalled) {
		dpc = kernel.queue;
		assert_non_null(dpc);
		kernel.queue = dpc->Next;
		run_dpc(dpc->Processor, dpc);
	}
	return 0;
}

VOID ExInitializeFastMutex(FAST_MUTEX *Mutex)
{
	*Mutex = (FAST_MUTEX){0};
}

VOID ExAcquireFastMutex(FAST_MUTEX *Mutex)
{
	enter("ExAcquireFastMutex", APC_LEVEL);
	assert_int_equal(Mutex->Held++, 0);
	Mutex->OldIrql = kernel.irql[cpu()];
	kernel.irql[cpu()] = APC_LEVEL;
}

VOID ExReleaseFastMutex(FAST_MUTEX *Mutex)
{
	assert_int_equal(Mutex->Held--, 1);
	kernel.irql[cpu()] = Mutex->OldIrql;
}

/* Memory */

PVOID ExAllocatePoolWithTag(int Pool, SIZE_T Bytes, ULONG Tag)
{
	PVOID block = malloc(Bytes);

	(void)Pool, (void)Tag;
	enter("ExAllocatePoolWithTag", DISPATCH_LEVEL);
	assert_non_null(block);
	memset(block, GARBAGE, Bytes);
	kernel.blocks++;
	return block;
}

VOID ExFreePoolWithTag(PVOID Block, ULONG Tag)
{
	(void)Tag;
	enter("ExFreePoolWithTag", DISPATCH_LEVEL);
	kernel.blocks--;
	free(Block);
}

/* As little aligned as the boundary allows: a block that is smaller may lie anywhere below it. */
PVOID MmAllocateContiguousMemorySpecifyCache(SIZE_T Bytes, PHYSICAL_ADDRESS Lowest,
					     PHYSICAL_ADDRESS Highest, PHYSICAL_ADDRESS Boundary,
					     int Cache)
{
	SIZE_T align = (SIZE_T)Boundary.QuadPart == Bytes ? Bytes : PAGE_SIZE;
	struct ptah_hal_memory *m = kernel.memory;

	enter("MmAllocateContiguousMemorySpecifyCache", PASSIVE_LEVEL);
	assert_int_equal(Lowest.QuadPart, 0);
	assert_int_equal(Highest.QuadPart, -1);
	assert_int_equal(Cache, MmCached);
	assert_true(!Boundary.QuadPart || (SIZE_T)Boundary.QuadPart >= Bytes);
	while (m->address)
		m++;
	if (kernel.hal.alloc(kernel.machine, Bytes, align, m) < 0)
		return NULL;
	memset(m->address, GARBAGE, Bytes);
	return m->address;
}

VOID RtlCopyMemory(PVOID To, const VOID *From, SIZE_T Bytes)
{
	if (kernel.on_copy)
		kernel.on_copy();
	memcpy(To, From, Bytes);
}

static struct ptah_hal_memory *find_memory(PVOID address)
{
	struct ptah_hal_memory *m = kernel.memory;

	while (m->address != address)
		m++;
	return m;
}

VOID MmFreeContiguousMemory(PVOID Address)
{
	struct ptah_hal_memory *m = find_memory(Address);

	enter("MmFreeContiguousMemory", PASSIVE_LEVEL);
	kernel.hal.release(kernel.machine, m);
	m->address = NULL;
}

PHYSICAL_ADDRESS MmGetPhysicalAddress(PVOID Address)
{
	return (PHYSICAL_ADDRESS){.QuadPart = (LONGLONG)find_memory(Address)->physical};
}

PMDL IoAllocateMdl(PVOID Address, ULONG Length, BOOLEAN Secondary, BOOLEAN Quota, PVOID Irp)
{
	PMDL mdl = calloc(1, sizeof(*mdl));

	(void)Address, (void)Secondary, (void)Quota, (void)Irp;
	enter("IoAllocateMdl", DISPATCH_LEVEL);
	mdl->ByteCount = Length;
	mdl->Pages = calloc(Length / PAGE_SIZE, sizeof(*mdl->Pages));
	kernel.mdls++;
	return mdl;
}

VOID IoFreeMdl(PMDL Mdl)
{
	unsigned i;

	enter("IoFreeMdl", DISPATCH_LEVEL);
	for (i = 0; i < MAPPINGS; i++)
		assert_ptr_not_equal(kernel.ranges[i].mdl, Mdl);
	free(Mdl->Pages);
	free(Mdl);
	kernel.mdls--;
}

PFN_NUMBER *MmGetMdlPfnArray(PMDL Mdl)
{
	return Mdl->Pages;
}

PVOID MmMapLockedPagesSpecifyCache(PMDL Mdl, int Mode, int Cache, PVOID Address, ULONG BugCheck,
				   ULONG Priority)
{
	struct user_range *r = kernel.ranges;

	(void)BugCheck;
	enter("MmMapLockedPagesSpecifyCache", APC_LEVEL);
	assert_int_equal(Mode, UserMode);
	assert_int_equal(Cache, MmCached);
	assert_null(Address);
	assert_true(Mdl->MdlFlags & MDL_PAGES_LOCKED);
	assert_int_equal(Priority & 0xc0000000, 0xc0000000); /* neither written nor executed */
	if (kernel.fail_mapping) {
		kernel.fail_mapping = false;
		raise_exception();
	}
	while (r->mdl)
		r++;
	*r = (struct user_range){kernel.process, kernel.next_user, Mdl};
	kernel.next_user += Mdl->ByteCount + PAGE_SIZE;
	return (PVOID)(uintptr_t)r->address;
}

VOID MmUnmapLockedPages(PVOID Address, PMDL Mdl)
{
	struct user_range *r = kernel.ranges;

	enter("MmUnmapLockedPages", APC_LEVEL);
	while (r->mdl != Mdl)
		r++;
	assert_int_equal(r->address, (uintptr_t)Address);
	assert_ptr_equal(r->process, kernel.process);
	r->mdl = NULL;
}

/* Processes */

PEPROCESS PsGetCurrentProcess(VOID)
{
	return kernel.process;
}

VOID ObReferenceObject(PVOID Object)
{
	((PEPROCESS)Object)->references++;
}

VOID ObDereferenceObject(PVOID Object)
{
	((PEPROCESS)Object)->references--;
}

VOID KeStackAttachProcess(PVOID Process, KAPC_STATE *State)
{
	enter("KeStackAttachProcess", APC_LEVEL);
	State->Before = kernel.process;
	kernel.process = Process;
}

VOID KeUnstackDetachProcess(KAPC_STATE *State)
{
	kernel.process = State->Before;
}

ULONG DbgPrintEx(ULONG Component, ULONG Level, const char *Format, ...)
{
	(void)Component, (void)Level;
	enter("DbgPrintEx", DISPATCH_LEVEL);
	assert_non_null(Format);
	return 0;
}
