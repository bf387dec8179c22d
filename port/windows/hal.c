/* SPDX-License-Identifier: MIT */
/*
 * The engine's callbacks (hal.h) by the Windows kernel. Up to run_on() on its own processor they call
 * nothing of the kernel but KeGetCurrentProcessorNumberEx(), which reads the processor's own memory:
 * they may be called in VMX root and in an NMI.
 */
#include "port.h"

#define POOL_TAG 0x74507470u /* "ptPt" */

#ifndef MdlMappingNoWrite
#define MdlMappingNoWrite 0x80000000 /* Windows 8 */
#endif
#ifndef MdlMappingNoExecute
#define MdlMappingNoExecute 0x40000000
#endif

/* A buffer in the address space of a process, in a list under map_lock. */
struct user_mapping {
	struct user_mapping *next;
	PEPROCESS process; /* referenced */
	PMDL mdl;
	PVOID address;
	ULONG priority;
};

struct msr_access {
	uint32_t msr;
	uint64_t value;
};

struct remote_work {
	void (*work)(void *argument);
	void *argument;
	KEVENT done;
};

PT_PLATFORM windows_platform;
static FAST_MUTEX engine_lock, map_lock;
static struct user_mapping *user_mappings;

static VOID read_msr(PVOID argument)
{
	struct msr_access *a = argument;

	a->value = __readmsr(a->msr);
}

static VOID write_msr(PVOID argument)
{
	const struct msr_access *a = argument;

	__writemsr(a->msr, a->value);
}

static int windows_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	struct msr_access a = {msr, 0};

	(void)port;
	if (windows_guarded(read_msr, &a))
		return PTAH_E_UNSUPPORTED;
	*value = a.value;
	return PTAH_OK;
}

static int windows_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	struct msr_access a = {msr, value};

	(void)port;
	return windows_guarded(write_msr, &a) ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static void windows_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	(void)port;
	__cpuidex((int *)registers, (int)leaf, (int)subleaf);
}

static void windows_fence(void *port)
{
	(void)port;
	_mm_sfence();
}

static unsigned windows_cpu(void *port)
{
	(void)port;
	return KeGetCurrentProcessorNumberEx(NULL);
}

static unsigned windows_cpus(void *port)
{
	(void)port;
	return KeQueryMaximumProcessorCountEx(ALL_PROCESSOR_GROUPS);
}

static uint64_t windows_irq_save(void *port)
{
	uint64_t flags = __readeflags();

	(void)port;
	_disable();
	return flags;
}

static void windows_irq_restore(void *port, uint64_t flags)
{
	(void)port;
	if (flags & 0x200)
		_enable();
}

static void windows_lock(void *port)
{
	(void)port;
	ExAcquireFastMutex(&engine_lock);
}

static void windows_unlock(void *port)
{
	(void)port;
	ExReleaseFastMutex(&engine_lock);
}

/*
 * The memory manager has no alignment but that of pages. A block of a power of two that crosses no
 * multiple of its own size is aligned to it. Larger blocks are refused, and the engine asks for
 * regions.
 */
static int windows_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	PHYSICAL_ADDRESS lowest = {0}, highest, boundary = {0};

	(void)port;
	if (align > PAGE_SIZE && size != align)
		return PTAH_E_NOMEM;
	highest.QuadPart = -1;
	if (align > PAGE_SIZE)
		boundary.QuadPart = (LONGLONG)align;
	memory->address =
	    MmAllocateContiguousMemorySpecifyCache(size, lowest, highest, boundary, MmCached);
	if (!memory->address)
		return PTAH_E_NOMEM;
	RtlZeroMemory(memory->address, size);
	memory->physical = (uint64_t)MmGetPhysicalAddress(memory->address).QuadPart;
	memory->size = size;
	return PTAH_OK;
}

static void windows_release(void *port, const struct ptah_hal_memory *memory)
{
	(void)port;
	MmFreeContiguousMemory(memory->address);
}

static VOID NTAPI remote_dpc(PKDPC dpc, PVOID context, PVOID argument1, PVOID argument2)
{
	struct remote_work *remote = context;
	uint64_t flags = windows_irq_save(NULL);

	(void)dpc, (void)argument1, (void)argument2;
	remote->work(remote->argument);
	windows_irq_restore(NULL, flags);
	KeSetEvent(&remote->done, IO_NO_INCREMENT, FALSE);
}

static int windows_run_on(void *port, unsigned cpu, void (*work)(void *argument), void *argument)
{
	struct remote_work remote = {.work = work, .argument = argument};
	uint64_t flags = windows_irq_save(port);
	PROCESSOR_NUMBER number;
	KDPC dpc;

	if (windows_cpu(port) == cpu) {
		work(argument);
		windows_irq_restore(port, flags);
		return PTAH_OK;
	}
	windows_irq_restore(port, flags);
	if (KeGetCurrentIrql() != PASSIVE_LEVEL)
		return PTAH_E_BUSY; /* another processor cannot be waited for here */
	if (!NT_SUCCESS(KeGetProcessorNumberFromIndex(cpu, &number)))
		return PTAH_E_OFFLINE;
	KeInitializeEvent(&remote.done, NotificationEvent, FALSE);
	KeInitializeDpc(&dpc, remote_dpc, &remote);
	KeSetImportanceDpc(&dpc, HighImportance);
	if (!NT_SUCCESS(KeSetTargetProcessorDpcEx(&dpc, &number)))
		return PTAH_E_OFFLINE;
	KeInsertQueueDpc(&dpc, NULL, NULL);
	KeWaitForSingleObject(&remote.done, Executive, KernelMode, FALSE, NULL);
	return PTAH_OK;
}

static int windows_pmi_enable(void *port, bool on)
{
	(void)port;
	return windows_platform.PmiEnable(on) ? PTAH_OK : PTAH_E_SYSTEM;
}

static void windows_pmi_unmask(void *port)
{
	(void)port;
	windows_platform.PmiUnmask();
}

static bool windows_in_vmx(void *port)
{
	(void)port;
	return windows_platform.InVmxOperation();
}

static void windows_log(void *port, const char *text)
{
	(void)port;
	windows_platform.Log(text);
}

static VOID map_pages(PVOID argument)
{
	struct user_mapping *m = argument;

	m->address =
	    MmMapLockedPagesSpecifyCache(m->mdl, UserMode, MmCached, NULL, FALSE, m->priority);
}

static VOID unmap_pages(PVOID argument)
{
	const struct user_mapping *m = argument;

	MmUnmapLockedPages(m->address, m->mdl);
}

/* Describes contiguous memory, which is never paged out, page by page. */
static PMDL describe_pages(const struct ptah_hal_memory *pieces, size_t n)
{
	PFN_NUMBER *pages;
	size_t total = 0, i, at;
	PMDL mdl;

	for (i = 0; i < n; i++)
		total += pieces[i].size;
	mdl = total > MAXULONG ? NULL
			       : IoAllocateMdl(pieces[0].address, (ULONG)total, FALSE, FALSE, NULL);
	if (!mdl)
		return NULL;
	pages = MmGetMdlPfnArray(mdl);
	for (i = 0; i < n; i++)
		for (at = 0; at < pieces[i].size; at += PAGE_SIZE)
			*pages++ = (PFN_NUMBER)((pieces[i].physical + at) >> PAGE_SHIFT);
	mdl->MdlFlags |= MDL_PAGES_LOCKED;
	return mdl;
}

/* The owner is the process that asks. */
static int windows_user_map(void *port, uint64_t owner, const struct ptah_hal_memory *pieces,
			    size_t n, bool writable, uint64_t *address)
{
	PEPROCESS process = PsGetCurrentProcess();
	struct user_mapping *m;

	(void)port;
	if (owner != (uint64_t)(ULONG_PTR)process)
		return PTAH_E_UNSUPPORTED;
	m = ExAllocatePoolWithTag(NonPagedPool, sizeof(*m), POOL_TAG);
	if (!m)
		return PTAH_E_NOMEM;
	m->process = process;
	m->address = NULL;
	m->priority =
	    (ULONG)NormalPagePriority | MdlMappingNoExecute | (writable ? 0 : MdlMappingNoWrite);
	m->mdl = describe_pages(pieces, n);
	if (!m->mdl || windows_guarded(map_pages, m) || !m->address) {
		if (m->mdl)
			IoFreeMdl(m->mdl);
		ExFreePoolWithTag(m, POOL_TAG);
		return PTAH_E_NOMEM;
	}
	ObReferenceObject(process);
	ExAcquireFastMutex(&map_lock);
	m->next = user_mappings;
	user_mappings = m;
	ExReleaseFastMutex(&map_lock);
	*address = (uint64_t)(ULONG_PTR)m->address;
	return PTAH_OK;
}

/* The pages can be unmapped in the process alone that has them. */
static void windows_user_unmap(void *port, uint64_t owner, uint64_t address, size_t size)
{
	struct user_mapping **at = &user_mappings, *m;
	KAPC_STATE state;

	(void)port, (void)size;
	ExAcquireFastMutex(&map_lock);
	while (*at && ((uint64_t)(ULONG_PTR)(*at)->process != owner ||
		       (uint64_t)(ULONG_PTR)(*at)->address != address))
		at = &(*at)->next;
	m = *at;
	if (m)
		*at = m->next;
	ExReleaseFastMutex(&map_lock);
	if (!m)
		return;
	KeStackAttachProcess((PVOID)m->process, &state);
	windows_guarded(unmap_pages, m);
	KeUnstackDetachProcess(&state);
	IoFreeMdl(m->mdl);
	ObDereferenceObject(m->process);
	ExFreePoolWithTag(m, POOL_TAG);
}

struct ptah_hal windows_hal = {
    .size = sizeof(windows_hal),
    .rdmsr = windows_rdmsr,
    .wrmsr = windows_wrmsr,
    .cpuid = windows_cpuid,
    .fence = windows_fence,
    .cpu = windows_cpu,
    .cpus = windows_cpus,
    .irq_save = windows_irq_save,
    .irq_restore = windows_irq_restore,
    .lock = windows_lock,
    .unlock = windows_unlock,
    .alloc = windows_alloc,
    .release = windows_release,
    .run_on = windows_run_on,
    .user_map = windows_user_map,
    .user_unmap = windows_user_unmap,
};

VOID windows_hal_init(VOID)
{
	const bool pmi = windows_platform.PmiEnable && windows_platform.PmiUnmask;

	ExInitializeFastMutex(&engine_lock);
	ExInitializeFastMutex(&map_lock);
	windows_hal.pmi_enable = pmi ? windows_pmi_enable : NULL;
	windows_hal.pmi_unmask = pmi ? windows_pmi_unmask : NULL;
	windows_hal.in_vmx = windows_platform.InVmxOperation ? windows_in_vmx : NULL;
	windows_hal.log = windows_platform.Log ? windows_log : NULL;
}
