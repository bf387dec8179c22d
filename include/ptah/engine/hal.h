/* SPDX-License-Identifier: MIT */
/*
 * What the capture engine needs from the system it runs in: the one thing that
 * a port writes (docs/porting.md). The simulated processor offers it too
 * (model.h), so that the same engine runs in a kernel and in a test.
 *
 * Contexts, from the most to the least restricted; what may be called in one
 * may be called in those below it:
 *
 *	NMI	at any instruction, a PMI delivered as NMI included: no lock, no
 *		allocation, no sleep
 *	PINNED	interrupts are off on this processor, or it runs in an
 *		inter-processor interrupt or DPC: no sleep
 *	PASSIVE	an ordinary thread: may sleep
 *
 * Every callback gets the `port` that was given to the engine. Those that are
 * marked optional may be NULL. The engine checks what they return: a physical
 * address that is out of range or not aligned is refused and never written to a
 * register.
 *
 * Source: SDM volume 3, "Intel Processor Trace"; volume 1, "XSAVE-Supported
 * Features and State-Component Bitmaps".
 */
#ifndef PTAH_HAL_H
#define PTAH_HAL_H

#include <ptah/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

/* What the engine allocates memory for. */
enum ptah_hal_purpose {
	PTAH_MEMORY_ENGINE = 0, /* the engine itself, a set of captures, a pool */
	PTAH_MEMORY_CAPTURE,	/* a capture's state, with its records */
	PTAH_MEMORY_LIST,	/* a capture's list of its regions and tables */
	PTAH_MEMORY_REGION,	/* the buffer, or a part of it: the processor writes trace to it */
	PTAH_MEMORY_TABLE,	/* a table of the buffer: the processor reads it */
	PTAH_MEMORY_PAGE,	/* the page that a capture shares with a process (capture_page.h) */
	PTAH_MEMORY_PURPOSES
};

/* Memory that the processor can write to without translation. */
struct ptah_hal_memory {
	void *address;	   /* the same memory for the engine */
	uint64_t physical; /* contiguous from here on */
	size_t size;
	void *port; /* for the port's use in release() */
	/*
	 * Set by the engine, before alloc() and for release(), whatever alloc() writes there: the
	 * processor that the memory is for (-1: no particular one), and what it is for.
	 */
	int cpu;
	uint8_t purpose; /* enum ptah_hal_purpose */
};

struct ptah_hal {
	size_t size; /* sizeof(struct ptah_hal) */

	/*
	 * NMI. On this processor. PTAH_OK, or PTAH_E_UNSUPPORTED when the instruction
	 * raised #GP: a port catches that (rdmsr_safe, SEH, a fixup table).
	 */
	int (*rdmsr)(void *port, uint32_t msr, uint64_t *value);
	int (*wrmsr)(void *port, uint32_t msr, uint64_t value);

	/* NMI. registers: EAX, EBX, ECX, EDX. */
	void (*cpuid)(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4]);

	/* NMI. A store fence: trace that was output before it is visible to all processors
	 * afterwards. */
	void (*fence)(void *port);

	/* NMI. cpu(): the number of this processor, 0 to cpus() - 1. cpus(): how many processors
	 * there may be. */
	unsigned (*cpu)(void *port);
	unsigned (*cpus)(void *port);

	/*
	 * NMI. Keeps the thread on this processor and interrupts (not NMIs) away,
	 * until irq_restore() with what irq_save() returned. They nest.
	 */
	uint64_t (*irq_save)(void *port);
	void (*irq_restore)(void *port, uint64_t state);

	/* PASSIVE. A mutex for the engine: calls come in pairs and do not nest. */
	void (*lock)(void *port);
	void (*unlock)(void *port);

	/*
	 * PASSIVE. Zeroed memory of at least `size` bytes, write-back cached,
	 * physically contiguous, its physical address a multiple of `align` (a power
	 * of two, at least 4096), outside of SMRR and the APIC page. memory->cpu and
	 * memory->purpose say for which processor and what for, so that the port can choose
	 * its NUMA node and account it. PTAH_E_NOMEM.
	 */
	int (*alloc)(void *port, size_t size, size_t align, struct ptah_hal_memory *memory);
	void (*release)(void *port, const struct ptah_hal_memory *memory);

	/*
	 * PASSIVE. Runs work(argument) PINNED on that processor and returns when it is
	 * done; on this processor it calls it directly, and may then be called PINNED: it
	 * switches interrupts off before it looks where it is, and waits for nothing.
	 * PTAH_E_OFFLINE when the processor is offline.
	 */
	int (*run_on)(void *port, unsigned cpu, void (*work)(void *argument), void *argument);

	/*
	 * Optional, both or none. Without them the engine asks for no PMI: no entry
	 * of a table gets its INT bit.
	 *
	 * pmi_enable(), PASSIVE: from now on PMIs on all processors call
	 * ptah_engine_pmi(), or no longer do. pmi_unmask(), NMI: clears the mask bit of
	 * this processor's LVT entry for performance monitoring, which the delivery of a
	 * PMI has set.
	 */
	int (*pmi_enable)(void *port, bool on);
	void (*pmi_unmask)(void *port);

	/*
	 * Optional, NMI. A capture has a new record for its consumer. `cookie` is the
	 * capture's. Must not wait: it should raise a software interrupt or the like.
	 */
	void (*wake)(void *port, void *cookie);

	/*
	 * Optional, both or none, PINNED. XSAVES and XRSTORS of the components given,
	 * into an area of 64-byte alignment, compacted format. Component 8 has been
	 * enabled in IA32_XSS, on every processor, by the port. PTAH_E_UNSUPPORTED when
	 * the instruction faulted. Without these two the engine saves and restores the
	 * MSRs one by one.
	 */
	int (*xsaves)(void *port, void *area, uint64_t components);
	int (*xrstors)(void *port, void *area, uint64_t components);

	/*
	 * Optional, NMI. Reports whether this processor is in VMX operation (between VMXON and
	 * VMXOFF).
	 */
	bool (*in_vmx)(void *port);

	/*
	 * Optional, both or none, PASSIVE. Maps pieces one after another into the address
	 * space of `owner`, read-only unless `writable`. user_unmap() must also work
	 * while the owner is dying, and returns once no access is possible any more.
	 */
	int (*user_map)(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
			bool writable, uint64_t *address);
	void (*user_unmap)(void *port, uint64_t owner, uint64_t address, size_t size);

	/*
	 * Optional, NMI. One line for the system's log, of at most 120 characters, without
	 * a newline, valid during the call: why a processor is not traced, or what a
	 * capture lost (docs/porting.md has the list). Nothing is logged in normal
	 * operation. A capture logs each kind of line at most once after each
	 * ptah_capture_start(), and ptah_engine_new() one line for each kind of obstacle.
	 * The call may come in the middle of a PMI, and at any instruction of the system,
	 * its logging included: a port whose log cannot be written there keeps a copy and
	 * writes it later.
	 */
	void (*log)(void *port, const char *text);

	/*
	 * Optional, PASSIVE. Runs work(argument) PINNED on every processor whose bit is set in
	 * `mask` (bit n % 64 of word n / 64 is processor n; (cpus() + 63) / 64 words), this one
	 * included, on all at the same time as far as the system can, and returns when it is done
	 * on all. Leaves out processors that are offline. The work may wait for itself on the other
	 * processors, for less than a millisecond. It does nothing on processors without a bit, and
	 * when it is called twice. Negative: it did not run anywhere. Without this callback the
	 * engine calls run_on() for one processor after the other.
	 */
	int (*run_on_all)(void *port, const uint64_t *mask, void (*work)(void *argument),
			  void *argument);
};

/*
 * Any. The name of the first callback that is missing ("rdmsr"), be it one that every port
 * has or half of a pair ("pmi_unmask"); "size" or "hal" for a struct that is older than the engine
 * or NULL; NULL: complete. What ptah_engine_new() refuses with PTAH_E_INVAL.
 */
const char *ptah_hal_missing(const struct ptah_hal *hal);

PTAH_END_DECLS

#endif
