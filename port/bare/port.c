/* SPDX-License-Identifier: MIT */
/*
 * The engine's callbacks on bare metal with one processor: docs/porting.md explains each. There
 * are no threads, users or other processors here, so several are short or missing.
 */
#include "port.h"

#include <ptah/engine/rtit.h>

#include <string.h>

#define LOCAL_APIC    0xfee00000u
#define APIC_SPURIOUS 0xf0u  /* the spurious interrupt vector register: bit 8 switches it on */
#define APIC_LVT_PC   0x340u /* the entry for performance monitoring */
#define APIC_NMI      0x400u /* delivery mode 100b */
#define APIC_MASKED   0x10000u

static volatile uint32_t *apic(uint32_t offset)
{
	return (volatile uint32_t *)(uintptr_t)(LOCAL_APIC + offset);
}

/*
 * An instruction that may raise #GP, from label 1 to 2. The entry in .fixups tells
 * bare_interrupt() where to continue if it does; `failed` is then still 1.
 */
#define MAY_FAULT(instruction)                                                                     \
	"1:\t" instruction "\n\txorl %0, %0\n2:\n"                                                 \
	".pushsection .fixups, \"a\"\n\t.quad 1b, 2b\n.popsection"

static int bare_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	uint32_t failed = 1, low = 0, high = 0;

	(void)port;
	__asm__ volatile(MAY_FAULT("rdmsr") : "+r"(failed), "+a"(low), "+d"(high) : "c"(msr));
	*value = (uint64_t)high << 32 | low;
	return failed ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static int bare_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	uint32_t failed = 1;

	(void)port;
	__asm__ volatile(MAY_FAULT("wrmsr")
			 : "+r"(failed)
			 : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
	return failed ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static void bare_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	(void)port;
	__asm__ volatile("cpuid"
			 : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
			 : "a"(leaf), "c"(subleaf));
}

static void bare_fence(void *port)
{
	(void)port;
	__asm__ volatile("sfence" : : : "memory");
}

static unsigned bare_cpu(void *port)
{
	(void)port;
	return 0;
}

static unsigned bare_cpus(void *port)
{
	(void)port;
	return 1;
}

#define RFLAGS_IF 0x200u

static uint64_t bare_irq_save(void *port)
{
	uint64_t flags;

	(void)port;
	__asm__ volatile("pushfq\n\tpopq %0\n\tcli" : "=r"(flags) : : "memory");
	return flags;
}

static void bare_irq_restore(void *port, uint64_t flags)
{
	(void)port;
	if (flags & RFLAGS_IF)
		__asm__ volatile("sti" : : : "memory");
}

static void bare_lock(void *port)
{
	(void)port; /* there is one thread */
}

static void bare_unlock(void *port)
{
	(void)port;
}

static int bare_run_on(void *port, unsigned cpu, void (*work)(void *), void *argument)
{
	uint64_t flags;

	if (cpu != 0)
		return PTAH_E_OFFLINE;
	flags = bare_irq_save(port);
	work(argument);
	bare_irq_restore(port, flags);
	return PTAH_OK;
}

/* Memory: pages from the end of the image on, a byte for each that says whether it is in use. */

#define PAGE	  4096u
#define PAGES_MAX 4096u

extern uint8_t image_end[]; /* link.ld */

static uint8_t used[PAGES_MAX];
static uint64_t first_page;
static size_t pages;

void bare_memory_begin(uint64_t end)
{
	first_page = ((uintptr_t)image_end + PAGE - 1) / PAGE;
	pages = end / PAGE > first_page ? end / PAGE - first_page : 0;
	if (pages > PAGES_MAX)
		pages = PAGES_MAX;
}

size_t bare_memory_used(void)
{
	size_t n = 0;

	for (size_t i = 0; i < pages; i++)
		n += used[i];
	return n;
}

static bool is_free(size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (used[from + i])
			return false;
	return true;
}

static int bare_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	size_t n = size / PAGE + (size % PAGE != 0), step = align / PAGE;
	size_t at = (step - first_page % step) % step; /* the first that is aligned */

	(void)port;
	for (; at < pages && pages - at >= n; at += step) {
		if (!is_free(at, n))
			continue;
		memset(used + at, 1, n);
		memory->physical = (first_page + at) * PAGE;
		memory->address = (void *)(uintptr_t)memory->physical; /* mapped to itself */
		memory->size = n * PAGE;
		memory->port = NULL;
		memset(memory->address, 0, memory->size);
		return PTAH_OK;
	}
	return PTAH_E_NOMEM;
}

static void bare_release(void *port, const struct ptah_hal_memory *memory)
{
	(void)port;
	memset(used + (memory->physical / PAGE - first_page), 0, memory->size / PAGE);
}

/* PMIs come as NMIs, so that they come also where interrupts are off: here that is everywhere. */
static int bare_pmi_enable(void *port, bool on)
{
	(void)port;
	*apic(APIC_SPURIOUS) = *apic(APIC_SPURIOUS) | 1u << 8;
	*apic(APIC_LVT_PC) = on ? APIC_NMI : APIC_NMI | APIC_MASKED;
	return PTAH_OK;
}

static void bare_pmi_unmask(void *port)
{
	(void)port;
	*apic(APIC_LVT_PC) = APIC_NMI;
}

static void bare_log(void *port, const char *text)
{
	(void)port;
	bare_print("log: ");
	bare_print(text);
	bare_print("\n");
}

const struct ptah_hal bare_port = {
    .size = sizeof(struct ptah_hal),
    .rdmsr = bare_rdmsr,
    .wrmsr = bare_wrmsr,
    .cpuid = bare_cpuid,
    .fence = bare_fence,
    .cpu = bare_cpu,
    .cpus = bare_cpus,
    .irq_save = bare_irq_save,
    .irq_restore = bare_irq_restore,
    .lock = bare_lock,
    .unlock = bare_unlock,
    .alloc = bare_alloc,
    .release = bare_release,
    .run_on = bare_run_on,
    .pmi_enable = bare_pmi_enable,
    .pmi_unmask = bare_pmi_unmask,
    .log = bare_log,
};
