/* SPDX-License-Identifier: MIT */
/*
 * The machine of machine.h: processors and memory that are used through hal.h.
 * Freestanding.
 *
 * The arena begins with a map that has a byte for each page. Released memory is
 * filled with bytes that are neither packets nor tables.
 */
#include <ptah/model/machine.h>

#include "base/compiler.h"

#include <stdatomic.h>
#include <string.h>

#define PAGE	  ((size_t)4096)
#define MAPPINGS  64
#define LOG_BYTES 121 /* hal.h: a line has at most 120 characters */
#define RELEASED  0xdb
#define USER_BASE UINT64_C(0x7f0000000000)
#define LVT_MSR	  0x834u
#define LVT_NMI	  UINT64_C(0x400)
#define LVT_OFF	  (UINT64_C(1) << 16)

enum page_use {
	PAGE_FREE = 0,
	PAGE_FIRST,
	PAGE_MORE,
};

/* The contexts of hal.h, from the least restricted. */
enum context {
	PASSIVE,
	PINNED,
	NMI,
};

struct mapping {
	uint64_t owner, address;
	uint64_t size; /* 0: free */
	const struct ptah_hal_memory *pieces;
	struct ptah_hal_memory copy; /* of pieces, in the arena */
	size_t n;
};

struct machine_cpu {
	bool offline;
	bool in_ipi; /* inside run_on() */
};

struct ptah_machine {
	struct ptah_machine_config config;
	unsigned current;
	uint8_t *uses; /* enum page_use */
	size_t pages;
	size_t allocated;
	unsigned fail_alloc;
	uint64_t hidden, hidden_size;
	void (*pmi)(void *argument, unsigned cpu);
	void *pmi_argument;
	void (*gap)(void *argument, unsigned cpu, const char *callback);
	void *gap_argument;
	bool in_gap;
	bool pmi_enabled;
	atomic_flag busy; /* arena, mappings and log */
	atomic_flag mutex;
	_Atomic(const char *) violation;
	char log[LOG_BYTES];
	uint64_t next_user;
	struct mapping mappings[MAPPINGS];
	/* The memory after the struct: `cpus` times struct machine_cpu, then as many models. */
	struct machine_cpu cpus[];
};

/* Processors */

static size_t models_at(unsigned cpus)
{
	return (sizeof(struct ptah_machine) + cpus * sizeof(struct machine_cpu) + 15) & ~(size_t)15;
}

static size_t model_bytes(void)
{
	return (ptah_model_size() + 15) & ~(size_t)15;
}

static const struct ptah_model_processor *processor(const struct ptah_machine_config *config,
						    unsigned cpu)
{
	return config->processors ? config->processors[cpu] : config->processor;
}

size_t ptah_machine_size(unsigned cpus)
{
	return models_at(cpus) + cpus * model_bytes();
}

struct ptah_model *ptah_machine_model(struct ptah_machine *machine, unsigned cpu)
{
	return (struct ptah_model *)(void *)((uint8_t *)machine + models_at(machine->config.cpus) +
					     cpu * model_bytes());
}

unsigned ptah_machine_cpu(const struct ptah_machine *machine)
{
	return machine->config.which ? machine->config.which(machine->config.which_argument)
				     : machine->current;
}

static struct ptah_model *here(struct ptah_machine *machine)
{
	return ptah_machine_model(machine, ptah_machine_cpu(machine));
}

void ptah_machine_set_cpu(struct ptah_machine *machine, unsigned cpu)
{
	machine->current = cpu;
}

void ptah_machine_set_online(struct ptah_machine *machine, unsigned cpu, bool online)
{
	machine->cpus[cpu].offline = !online;
}

/* Rules */

static void object(struct ptah_machine *machine, const char *what)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&machine->violation, &none, what);
}

const char *ptah_machine_violation(const struct ptah_machine *machine)
{
	return atomic_load(&((struct ptah_machine *)(uintptr_t)machine)->violation);
}

static enum context context(struct ptah_machine *machine)
{
	const unsigned cpu = ptah_machine_cpu(machine);
	const struct ptah_model *m = ptah_machine_model(machine, cpu);

	if (ptah_model_in_nmi(m))
		return NMI;
	return machine->cpus[cpu].in_ipi || !ptah_model_irqs(m) ? PINNED : PASSIVE;
}

static void need(struct ptah_machine *machine, enum context most, const char *objection)
{
	if (context(machine) > most)
		object(machine, objection);
}

/* An instruction begins: before it is the gap in which a test lets things happen. */
static struct ptah_model *enter(struct ptah_machine *machine, const char *callback)
{
	if (machine->gap && !machine->in_gap) {
		machine->in_gap = true;
		machine->gap(machine->gap_argument, ptah_machine_cpu(machine), callback);
		machine->in_gap = false;
	}
	return here(machine);
}

static void take(atomic_flag *flag)
{
	while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire))
		;
}

static void give(atomic_flag *flag)
{
	atomic_flag_clear_explicit(flag, memory_order_release);
}

/* Instructions */

static int hal_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	struct ptah_model *m = enter(port, "rdmsr");
	int status = ptah_model_rdmsr(m, msr, value);

	ptah_model_boundary(m);
	return status;
}

static int hal_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	struct ptah_model *m = enter(port, "wrmsr");
	int status = ptah_model_wrmsr(m, msr, value);

	ptah_model_boundary(m);
	return status;
}

static void hal_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	struct ptah_model *m = enter(port, "cpuid");

	ptah_model_cpuid(m, leaf, subleaf, registers);
	ptah_model_boundary(m);
}

static void hal_fence(void *port)
{
	struct ptah_model *m = enter(port, "fence");

	ptah_model_fence(m);
	ptah_model_boundary(m);
}

static int hal_xsaves(void *port, void *area, uint64_t components)
{
	struct ptah_model *m = enter(port, "xsaves");
	int status;

	need(port, PINNED, "xsaves() in an NMI");
	status = ptah_model_xsaves(m, area, components);
	ptah_model_boundary(m);
	return status;
}

static int hal_xrstors(void *port, void *area, uint64_t components)
{
	struct ptah_model *m = enter(port, "xrstors");
	int status;

	need(port, PINNED, "xrstors() in an NMI");
	status = ptah_model_xrstors(m, area, components);
	ptah_model_boundary(m);
	return status;
}

static bool hal_in_vmx(void *port)
{
	return ptah_model_in_vmx(enter(port, "in_vmx"));
}

/* Where the caller is */

static unsigned hal_cpu(void *port)
{
	return ptah_machine_cpu(port);
}

static unsigned hal_cpus(void *port)
{
	return ((struct ptah_machine *)port)->config.cpus;
}

static uint64_t hal_irq_save(void *port)
{
	struct ptah_model *m = enter(port, "irq_save");
	const bool on = ptah_model_irqs(m);

	ptah_model_set_irqs(m, false);
	ptah_model_boundary(m);
	return on;
}

static void hal_irq_restore(void *port, uint64_t state)
{
	struct ptah_model *m = enter(port, "irq_restore");

	if (ptah_model_irqs(m))
		object(port, "irq_restore() without irq_save()");
	ptah_model_set_irqs(m, state);
	ptah_model_boundary(m);
}

static void hal_lock(void *port)
{
	struct ptah_machine *machine = port;

	need(machine, PASSIVE, "lock() where one must not sleep");
	if (machine->config.which)
		take(&machine->mutex);
	else if (atomic_flag_test_and_set(&machine->mutex))
		object(machine, "lock() while it is locked");
}

static void hal_unlock(void *port)
{
	struct ptah_machine *machine = port;

	need(machine, PASSIVE, "unlock() where one must not sleep");
	if (!machine->config.which && !atomic_flag_test_and_set(&machine->mutex))
		object(machine, "unlock() without lock()");
	give(&machine->mutex);
}

static int hal_run_on(void *port, unsigned cpu, void (*work)(void *argument), void *argument)
{
	struct ptah_machine *machine = port;
	const bool one_thread = !machine->config.which;
	const unsigned before = one_thread ? machine->current : 0;
	struct ptah_model *m;
	bool irqs, in_ipi;

	/* On this processor the work is called directly: there is nothing to wait for. */
	need(machine, cpu == ptah_machine_cpu(machine) ? PINNED : PASSIVE,
	     "run_on() where one must not sleep");
	if (cpu >= machine->config.cpus || machine->cpus[cpu].offline)
		return PTAH_E_OFFLINE;
	m = ptah_machine_model(machine, cpu);
	irqs = ptah_model_irqs(m);
	if (one_thread)
		machine->current = cpu;
	in_ipi = machine->cpus[cpu].in_ipi;
	machine->cpus[cpu].in_ipi = true;
	ptah_model_set_irqs(m, false);
	work(argument);
	ptah_model_set_irqs(m, irqs);
	machine->cpus[cpu].in_ipi = in_ipi;
	ptah_model_boundary(m);
	if (one_thread)
		machine->current = before;
	return PTAH_OK;
}

/* Interrupts */

void ptah_machine_on_pmi(struct ptah_machine *machine,
			 void (*handler)(void *argument, unsigned cpu), void *argument)
{
	machine->pmi = handler;
	machine->pmi_argument = argument;
}

void ptah_machine_on_gap(struct ptah_machine *machine,
			 void (*gap)(void *argument, unsigned cpu, const char *callback),
			 void *argument)
{
	machine->gap = gap;
	machine->gap_argument = argument;
}

/* A model delivers a PMI. With one thread for all processors, the thread switches to that processor
 * for the handler, and back. */
static void deliver(void *port, unsigned cpu)
{
	struct ptah_machine *machine = port;
	unsigned before;

	if (!machine->pmi_enabled || !machine->pmi)
		return;
	if (machine->config.which) {
		machine->pmi(machine->pmi_argument, cpu);
		return;
	}
	before = machine->current;
	machine->current = cpu;
	machine->pmi(machine->pmi_argument, cpu);
	machine->current = before;
}

static int hal_pmi_enable(void *port, bool on)
{
	struct ptah_machine *machine = port;
	const uint64_t mode = machine->config.maskable ? 0 : LVT_NMI;

	need(machine, PASSIVE, "pmi_enable() where one must not sleep");
	machine->pmi_enabled = on;
	for (unsigned i = 0; i < machine->config.cpus; i++)
		ptah_model_wrmsr(ptah_machine_model(machine, i), LVT_MSR,
				 on ? mode : mode | LVT_OFF);
	return PTAH_OK;
}

static void hal_pmi_unmask(void *port)
{
	struct ptah_machine *machine = port;
	struct ptah_model *m = enter(machine, "pmi_unmask");

	ptah_model_wrmsr(m, LVT_MSR, machine->config.maskable ? 0 : LVT_NMI);
	ptah_model_boundary(m);
}

void ptah_machine_put(struct ptah_machine *machine, unsigned cpu, const uint8_t *bytes, size_t n)
{
	struct ptah_model *m = ptah_machine_model(machine, cpu);

	while (n) {
		const size_t part = n < 64 ? n : 64;

		ptah_model_put(m, bytes, part);
		ptah_model_output_bytes(m, NULL);
		ptah_model_boundary(m);
		bytes += part;
		n -= part;
	}
}

/* Memory */

uint8_t *ptah_machine_memory(struct ptah_machine *machine, uint64_t physical, uint64_t *bytes)
{
	const uint64_t base = machine->config.physical, size = machine->config.arena_size;
	uint64_t left;

	if (physical < base || physical - base >= size)
		return NULL;
	left = size - (physical - base);
	if (machine->hidden_size && physical >= machine->hidden &&
	    physical - machine->hidden < machine->hidden_size)
		return NULL;
	if (machine->hidden_size && physical < machine->hidden && machine->hidden - physical < left)
		left = machine->hidden - physical;
	*bytes = left;
	return (uint8_t *)machine->config.arena + (size_t)(physical - base);
}

static uint8_t *memory(void *port, uint64_t physical, uint64_t *bytes)
{
	return ptah_machine_memory(port, physical, bytes);
}

void ptah_machine_hide(struct ptah_machine *machine, uint64_t physical, uint64_t size)
{
	machine->hidden = physical;
	machine->hidden_size = size;
}

void ptah_machine_fail_alloc(struct ptah_machine *machine, unsigned n)
{
	machine->fail_alloc = n;
}

size_t ptah_machine_allocated(const struct ptah_machine *machine)
{
	return machine->allocated;
}

/* The first of n consecutive free pages, aligned as requested; machine->pages if there are none. */
static size_t find_pages(const struct ptah_machine *machine, size_t n, size_t align)
{
	const uint64_t first_frame = machine->config.physical / PAGE;
	const size_t step = align / PAGE;
	size_t page = (size_t)((step - first_frame % step) % step);

	while (page < machine->pages && machine->pages - page >= n) {
		size_t free = 0;

		while (free < n && machine->uses[page + free] == PAGE_FREE)
			free++;
		if (free == n)
			return page;
		page += (free + step) / step * step;
	}
	return machine->pages;
}

static int allocate(struct ptah_machine *machine, size_t size, size_t align,
		    struct ptah_hal_memory *result)
{
	const size_t n = size / PAGE + (size % PAGE != 0);
	size_t page;

	take(&machine->busy);
	page = n ? find_pages(machine, n, align) : machine->pages;
	if (page < machine->pages) {
		memset(machine->uses + page, PAGE_MORE, n);
		machine->uses[page] = PAGE_FIRST;
		machine->allocated += n * PAGE;
	}
	give(&machine->busy);
	if (page >= machine->pages)
		return PTAH_E_NOMEM;
	result->address = (uint8_t *)machine->config.arena + page * PAGE;
	result->physical = machine->config.physical + page * PAGE;
	result->size = n * PAGE;
	result->port = NULL;
	memset(result->address, 0, result->size);
	return PTAH_OK;
}

static int hal_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *result)
{
	struct ptah_machine *machine = port;

	need(machine, PASSIVE, "alloc() where one must not sleep");
	if (align < PAGE || align & (align - 1)) {
		object(machine, "alloc() with an alignment that is no power of two from 4096 on");
		return PTAH_E_INVAL;
	}
	if (machine->fail_alloc && !--machine->fail_alloc)
		return PTAH_E_NOMEM;
	return allocate(machine, size, align, result);
}

static void free_pages(struct ptah_machine *machine, const struct ptah_hal_memory *old)
{
	const size_t page = (size_t)(old->physical - machine->config.physical) / PAGE;
	size_t n = 0;

	if (old->physical < machine->config.physical || page >= machine->pages ||
	    machine->uses[page] != PAGE_FIRST) {
		object(machine, "release() of what was not allocated");
		return;
	}
	memset((uint8_t *)machine->config.arena + page * PAGE, RELEASED, old->size);
	take(&machine->busy);
	do {
		machine->uses[page + n++] = PAGE_FREE;
	} while (page + n < machine->pages && machine->uses[page + n] == PAGE_MORE);
	machine->allocated -= n * PAGE;
	give(&machine->busy);
	if (n * PAGE != old->size)
		object(machine, "release() with another size than was allocated");
}

static bool is_mapped(const struct ptah_machine *machine, uint64_t physical)
{
	for (unsigned i = 0; i < MAPPINGS; i++)
		for (size_t k = 0; machine->mappings[i].size && k < machine->mappings[i].n; k++)
			if (machine->mappings[i].pieces[k].physical == physical)
				return true;
	return false;
}

static void hal_release(void *port, const struct ptah_hal_memory *old)
{
	struct ptah_machine *machine = port;

	need(machine, PASSIVE, "release() where one must not sleep");
	if (is_mapped(machine, old->physical))
		object(machine, "release() of memory that an owner has mapped");
	free_pages(machine, old);
}

/* Owners */

static struct mapping *find_mapping(struct ptah_machine *machine, uint64_t owner, uint64_t address)
{
	for (unsigned i = 0; i < MAPPINGS; i++) {
		struct mapping *map = &machine->mappings[i];

		if (map->owner == owner && address >= map->address &&
		    address - map->address < map->size)
			return map;
	}
	return NULL;
}

static int hal_user_map(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
			bool writable, uint64_t *address)
{
	struct ptah_machine *machine = port;
	struct mapping *map = machine->mappings;

	(void)writable;
	need(machine, PASSIVE, "user_map() where one must not sleep");
	while (map < machine->mappings + MAPPINGS && map->size)
		map++;
	if (map == machine->mappings + MAPPINGS)
		return PTAH_E_LIMIT;
	if (!n || allocate(machine, n * sizeof(*pieces), PAGE, &map->copy) < 0)
		return PTAH_E_NOMEM;
	memcpy(map->copy.address, pieces, n * sizeof(*pieces));
	map->pieces = map->copy.address;
	map->n = n;
	map->owner = owner;
	map->address = *address = machine->next_user;
	for (size_t i = 0; i < n; i++)
		map->size += pieces[i].size;
	/* A page between two mappings that must not be accessed. */
	machine->next_user += (map->size + 2 * PAGE - 1) & ~(uint64_t)(PAGE - 1);
	return PTAH_OK;
}

static void hal_user_unmap(void *port, uint64_t owner, uint64_t address, size_t size)
{
	struct ptah_machine *machine = port;
	struct mapping *map = find_mapping(machine, owner, address);

	need(machine, PASSIVE, "user_unmap() where one must not sleep");
	if (!map || map->address != address || map->size != size) {
		object(machine, "user_unmap() of what was not mapped");
		return;
	}
	map->size = 0;
	free_pages(machine, &map->copy);
}

uint8_t *ptah_machine_user(struct ptah_machine *machine, uint64_t owner, uint64_t address,
			   size_t *bytes)
{
	const struct mapping *map = find_mapping(machine, owner, address);
	uint64_t at;

	if (!map)
		return NULL;
	at = address - map->address;
	for (size_t i = 0; i < map->n; i++) {
		const struct ptah_hal_memory *piece = &map->pieces[i];

		if (at < piece->size) {
			*bytes = (size_t)(piece->size - at);
			return (uint8_t *)piece->address + at;
		}
		at -= piece->size;
	}
	return NULL;
}

unsigned ptah_machine_mapped(const struct ptah_machine *machine)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MAPPINGS; i++)
		n += machine->mappings[i].size != 0;
	return n;
}

static void hal_log(void *port, const char *text)
{
	struct ptah_machine *machine = port;
	size_t n = 0;

	take(&machine->busy); /* two processors write at once */
	while (n < LOG_BYTES - 1 && text[n] && text[n] != '\n') {
		machine->log[n] = text[n];
		n++;
	}
	machine->log[n] = 0;
	give(&machine->busy);
	if (text[n] || !n)
		object(machine, "log() of what is not one line of at most 120 characters");
}

const char *ptah_machine_log(const struct ptah_machine *machine)
{
	return machine->log;
}

/* The whole */

int ptah_machine_init(struct ptah_machine *machine, const struct ptah_machine_config *config)
{
	const size_t pages = config->arena_size / PAGE;
	const size_t own = (pages + PAGE - 1) / PAGE;

	if (config->size != sizeof(*config) || !config->cpus ||
	    (!config->processor && !config->processors) || !config->arena ||
	    config->physical % PAGE)
		return PTAH_E_INVAL;
	if (pages <= own)
		return PTAH_E_NOSPACE;
	memset(machine, 0, ptah_machine_size(config->cpus));
	machine->config = *config;
	machine->next_user = USER_BASE;
	machine->pages = pages;
	machine->uses = config->arena;
	memset(config->arena, 0, own * PAGE);
	memset(machine->uses, PAGE_FIRST, own);
	atomic_flag_clear(&machine->busy);
	atomic_flag_clear(&machine->mutex);
	for (unsigned i = 0; i < config->cpus; i++) {
		const struct ptah_model_config model = {.size = sizeof(model),
							.processor = processor(config, i),
							.cpu = i,
							.memory = memory,
							.pmi = deliver,
							.port = machine};
		struct ptah_model *m = ptah_machine_model(machine, i);
		int status = ptah_model_init(m, &model);

		if (status < 0)
			return status;
		ptah_model_wrmsr(m, PTAH_IA32_XSS, PTAH_XSTATE_PT); /* where there is one */
	}
	return PTAH_OK;
}

void ptah_machine_hal(struct ptah_machine *machine, struct ptah_hal *hal)
{
	static const struct ptah_hal all = {
	    .size = sizeof(all),
	    .rdmsr = hal_rdmsr,
	    .wrmsr = hal_wrmsr,
	    .cpuid = hal_cpuid,
	    .fence = hal_fence,
	    .cpu = hal_cpu,
	    .cpus = hal_cpus,
	    .irq_save = hal_irq_save,
	    .irq_restore = hal_irq_restore,
	    .lock = hal_lock,
	    .unlock = hal_unlock,
	    .alloc = hal_alloc,
	    .release = hal_release,
	    .run_on = hal_run_on,
	    .pmi_enable = hal_pmi_enable,
	    .pmi_unmask = hal_pmi_unmask,
	    .in_vmx = hal_in_vmx,
	    .user_map = hal_user_map,
	    .user_unmap = hal_user_unmap,
	    .log = hal_log,
	};

	*hal = all;
	for (unsigned i = 0; i < machine->config.cpus; i++) {
		const struct ptah_model_processor *p = processor(&machine->config, i);

		if (!p->xsaves || !p->pt)
			return;
	}
	hal->xsaves = hal_xsaves;
	hal->xrstors = hal_xrstors;
}
