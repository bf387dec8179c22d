/* SPDX-License-Identifier: MIT */
/*
 * The null port: it compiles, links with the engine, and traces nothing. A new port
 * begins as a copy of this file; docs/porting.md explains each callback. The comments
 * say what a real port does in its place.
 */
#include "port.h"

static int null_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	(void)port, (void)msr;
	*value = 0;
	return PTAH_E_UNSUPPORTED; /* RDMSR, with a fixup for #GP */
}

static int null_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	(void)port, (void)msr, (void)value;
	return PTAH_E_UNSUPPORTED; /* WRMSR, with a fixup for #GP */
}

static void null_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	(void)port, (void)leaf, (void)subleaf;
	registers[0] = registers[1] = registers[2] = registers[3] = 0; /* CPUID */
}

static void null_fence(void *port)
{
	(void)port; /* SFENCE */
}

static unsigned null_cpu(void *port)
{
	(void)port;
	return 0; /* the number in the per-CPU area; constant while interrupts are off */
}

static unsigned null_cpus(void *port)
{
	(void)port;
	return 1; /* the number of processors that may ever come online */
}

static uint64_t null_irq_save(void *port)
{
	(void)port;
	return 0; /* PUSHFQ, CLI */
}

static void null_irq_restore(void *port, uint64_t state)
{
	(void)port, (void)state;
}

static void null_lock(void *port)
{
	(void)port; /* lock a mutex of the port */
}

static void null_unlock(void *port)
{
	(void)port;
}

static int null_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	(void)port, (void)size, (void)align, (void)memory;
	return PTAH_E_NOMEM; /* contiguous, zeroed memory with its physical address */
}

static void null_release(void *port, const struct ptah_hal_memory *memory)
{
	(void)port, (void)memory;
}

static int null_run_on(void *port, unsigned cpu, void (*work)(void *), void *argument)
{
	(void)port, (void)cpu;
	work(argument); /* send an inter-processor interrupt and wait for it */
	return PTAH_OK;
}

/* The optional callbacks stay NULL: no PMI, no XSAVES, no mappings. */
const struct ptah_hal null_port = {
    .size = sizeof(struct ptah_hal),
    .rdmsr = null_rdmsr,
    .wrmsr = null_wrmsr,
    .cpuid = null_cpuid,
    .fence = null_fence,
    .cpu = null_cpu,
    .cpus = null_cpus,
    .irq_save = null_irq_save,
    .irq_restore = null_irq_restore,
    .lock = null_lock,
    .unlock = null_unlock,
    .alloc = null_alloc,
    .release = null_release,
    .run_on = null_run_on,
};
