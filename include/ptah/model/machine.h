/* SPDX-License-Identifier: MIT */
/*
 * A machine of simulated processors (model.h) with memory, as a capture engine
 * sees it. It provides a struct ptah_hal, so that the engine that runs in a
 * kernel also runs in a test, an example, or a software recorder. Freestanding,
 * in memory that the caller provides.
 *
 *	struct ptah_machine *machine = malloc(ptah_machine_size(2));
 *	struct ptah_machine_config config = {
 *		.size = sizeof(config), .cpus = 2, .processor = ptah_model_find("skylake"),
 *		.arena = memory, .arena_size = 64 << 20, .physical = 0x100000000};
 *	struct ptah_hal hal;
 *
 *	ptah_machine_init(machine, &config);
 *	ptah_machine_hal(machine, &hal);
 *	ptah_engine_new(&hal, machine, &engine);
 *	ptah_machine_on_pmi(machine, handler, argument);
 *
 * One thread acts for all processors: ptah_machine_set_cpu() says on which one it
 * is, and run_on() switches to another and back. With a thread per processor,
 * `which` says which processor the calling thread is; there is no on_gap() then,
 * and the caller puts its own run_on() into the hal.
 *
 * Each callback checks that its caller obeys the contexts and pairs of hal.h;
 * ptah_machine_violation() reports the first violation.
 */
#ifndef PTAH_MACHINE_H
#define PTAH_MACHINE_H

#include <ptah/engine/hal.h>
#include <ptah/model/model.h>

PTAH_BEGIN_DECLS

struct ptah_machine;

struct ptah_machine_config {
	size_t size; /* sizeof(struct ptah_machine_config) */
	unsigned cpus;
	/* One kind for all; or, if `processors` is not NULL, one for each (a hybrid machine). */
	const struct ptah_model_processor *processor;
	const struct ptah_model_processor *const *processors;
	/* Physical memory from the address `physical`, a multiple of 4096. The machine uses 1/4096
	 * of it.
	 */
	void *arena;
	size_t arena_size;
	uint64_t physical;
	bool maskable; /* PMIs are interrupts, not NMIs: they wait while interrupts are off */
	/* With a thread per processor: which processor is the caller? NULL: see
	 * ptah_machine_set_cpu(). */
	unsigned (*which)(void *argument);
	void *which_argument;
};

size_t ptah_machine_size(unsigned cpus);
/* PTAH_E_INVAL; PTAH_E_NOSPACE when the arena is too small. */
int ptah_machine_init(struct ptah_machine *machine, const struct ptah_machine_config *config);
/* Fills in all callbacks but wake(), and xsaves() and xrstors() only where all processors have
 * them. The port that goes with it is the machine. */
void ptah_machine_hal(struct ptah_machine *machine, struct ptah_hal *hal);
struct ptah_model *ptah_machine_model(struct ptah_machine *machine, unsigned cpu);

void ptah_machine_set_cpu(struct ptah_machine *machine, unsigned cpu);
unsigned ptah_machine_cpu(const struct ptah_machine *machine);
/* For a processor that is offline run_on() returns PTAH_E_OFFLINE. */
void ptah_machine_set_online(struct ptah_machine *machine, unsigned cpu, bool online);

/*
 * The handler of PMIs, once pmi_enable() has been called, and of other NMIs
 * (ptah_model_nmi()).
 */
void ptah_machine_on_pmi(struct ptah_machine *machine,
			 void (*handler)(void *argument, unsigned cpu), void *argument);
/*
 * `gap` is called before every callback of the hal that may be called in an NMI;
 * `callback` is its name. These are the gaps between an engine's instructions, in
 * which a test lets things happen.
 */
void ptah_machine_on_gap(struct ptah_machine *machine,
			 void (*gap)(void *argument, unsigned cpu, const char *callback),
			 void *argument);

/* ptah_model_put() on a processor, and delivery of the PMIs that it causes. */
void ptah_machine_put(struct ptah_machine *machine, unsigned cpu, const uint8_t *bytes, size_t n);

/* The memory at a physical address, and how many bytes follow there; NULL: none. */
uint8_t *ptah_machine_memory(struct ptah_machine *machine, uint64_t physical, uint64_t *bytes);
/* Makes memory unreachable for the processors (SMRAM); size 0: everything is reachable again. */
void ptah_machine_hide(struct ptah_machine *machine, uint64_t physical, uint64_t size);
/* The n-th allocation from now fails (1: the next); 0: none does. */
void ptah_machine_fail_alloc(struct ptah_machine *machine, unsigned n);
/* Bytes that are allocated and have not been released. */
size_t ptah_machine_allocated(const struct ptah_machine *machine);

/*
 * The memory that an owner sees at an address that user_map() returned, and how
 * many bytes follow there. NULL: nothing is mapped there, and an access would
 * fault.
 */
uint8_t *ptah_machine_user(struct ptah_machine *machine, uint64_t owner, uint64_t address,
			   size_t *bytes);
/* How many mappings exist. */
unsigned ptah_machine_mapped(const struct ptah_machine *machine);

/* The first violation of the rules in hal.h, as a sentence; NULL: none. */
const char *ptah_machine_violation(const struct ptah_machine *machine);
/* The last line that was logged, "" if none. */
const char *ptah_machine_log(const struct ptah_machine *machine);

PTAH_END_DECLS

#endif
