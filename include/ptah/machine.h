/* SPDX-License-Identifier: MIT */
/*
 * A machine of simulated processors (model.h) with memory, as a capture engine
 * sees one: it fills a struct ptah_hal, so that the engine that runs in a kernel
 * runs in a test, an example, or a software recorder. Freestanding, in memory
 * that the caller gives.
 *
 *	struct ptah_machine *machine = malloc(ptah_machine_size(2));
 *	struct ptah_machine_config config = {
 *		.size = sizeof(config), .cpus = 2, .processor = ptah_model_find("skylake"),
 *		.arena = memory, .arena_size = 64 << 20, .physical = 0x100000000};
 *	struct ptah_hal hal;
 *
 *	ptah_machine_init(machine, &config);
 *	ptah_machine_hal(machine, &hal);
 *	ptah_engine_new(&hal, machine, ...);
 *	ptah_machine_on_pmi(machine, handler, argument);
 *
 * One thread plays all processors: ptah_machine_set_cpu() says which one it is
 * on, and run_on() goes there and comes back. With a thread per processor
 * `which` says it, there is no on_gap(), and the caller puts a run_on() of its
 * own into the hal.
 *
 * Each callback checks that its caller keeps to hal.h's contexts and pairs;
 * ptah_machine_violation() tells of the first one that did not.
 */
#ifndef PTAH_MACHINE_H
#define PTAH_MACHINE_H

#include <ptah/hal.h>
#include <ptah/model.h>

PTAH_BEGIN_DECLS

struct ptah_machine;

struct ptah_machine_config {
	size_t size; /* sizeof(struct ptah_machine_config) */
	unsigned cpus;
	/* All of them; or, where `processors` is not NULL, each as it says (a hybrid machine). */
	const struct ptah_model_processor *processor;
	const struct ptah_model_processor *const *processors;
	/* Physical memory: from `physical`, a multiple of 4096, on. A 4096th part is the machine's.
	 */
	void *arena;
	size_t arena_size;
	uint64_t physical;
	bool maskable; /* PMIs are no NMIs: they wait while interrupts are off */
	/* A thread per processor: which one is the caller? NULL: see ptah_machine_set_cpu(). */
	unsigned (*which)(void *argument);
	void *which_argument;
};

PTAH_API size_t ptah_machine_size(unsigned cpus);
/* PTAH_E_INVAL; PTAH_E_NOSPACE when the arena is too small for anything. */
PTAH_API int ptah_machine_init(struct ptah_machine *machine,
			       const struct ptah_machine_config *config);
/* All callbacks but wake(); xsaves() and xrstors() where all processors have them. Its port is the
 * machine. */
PTAH_API void ptah_machine_hal(struct ptah_machine *machine, struct ptah_hal *hal);
PTAH_API struct ptah_model *ptah_machine_model(struct ptah_machine *machine, unsigned cpu);

PTAH_API void ptah_machine_set_cpu(struct ptah_machine *machine, unsigned cpu);
PTAH_API unsigned ptah_machine_cpu(const struct ptah_machine *machine);
/* Offline: run_on() answers PTAH_E_MISSING. */
PTAH_API void ptah_machine_set_online(struct ptah_machine *machine, unsigned cpu, bool online);

/*
 * What PMIs end in, once pmi_enable() has been called; and NMIs from elsewhere,
 * see ptah_model_nmi().
 */
PTAH_API void ptah_machine_on_pmi(struct ptah_machine *machine,
				  void (*handler)(void *argument, unsigned cpu), void *argument);
/*
 * Runs before every callback of the hal that may be called in an NMI, named by
 * `callback`: the gaps between an engine's instructions, where a test lets
 * things happen.
 */
PTAH_API void ptah_machine_on_gap(struct ptah_machine *machine,
				  void (*gap)(void *argument, unsigned cpu, const char *callback),
				  void *argument);

/* ptah_model_put() on a processor, with the PMIs that it brings. */
PTAH_API void ptah_machine_put(struct ptah_machine *machine, unsigned cpu, const uint8_t *bytes,
			       size_t n);

/* The memory at a physical address, and how much follows it; NULL: none. */
PTAH_API uint8_t *ptah_machine_memory(struct ptah_machine *machine, uint64_t physical,
				      uint64_t *bytes);
/* Memory that processors cannot reach (SMRAM); size 0: all can be reached again. */
PTAH_API void ptah_machine_hide(struct ptah_machine *machine, uint64_t physical, uint64_t size);
/* The n-th allocation from now fails (1: the next); 0: none does. */
PTAH_API void ptah_machine_fail_alloc(struct ptah_machine *machine, unsigned n);
/* Bytes that are allocated and have not been released. */
PTAH_API size_t ptah_machine_allocated(const struct ptah_machine *machine);

/*
 * What an owner sees at an address that user_map() gave: the memory, and how
 * much follows it. NULL when nothing is mapped there: a fault.
 */
PTAH_API uint8_t *ptah_machine_user(struct ptah_machine *machine, uint64_t owner, uint64_t address,
				    size_t *bytes);
/* Mappings that are there. */
PTAH_API unsigned ptah_machine_mapped(const struct ptah_machine *machine);

/* The first breach of hal.h's rules, as a sentence; NULL: none. */
PTAH_API const char *ptah_machine_violation(const struct ptah_machine *machine);
/* The last line that was logged, "" if none. */
PTAH_API const char *ptah_machine_log(const struct ptah_machine *machine);

PTAH_END_DECLS

#endif
