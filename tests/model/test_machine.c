/* SPDX-License-Identifier: MIT */
/*
 * The simulated machine as a port sees it: memory, processors and owners; and
 * it notices each call that breaks a rule of hal.h.
 */
#include "pages.h"
#include "test.h"

#include "base/compiler.h"

#include <ptah/model/machine.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ARENA	 ((size_t)4 << 20)
#define PHYSICAL UINT64_C(0x123457000) /* a multiple of 4 KB, but not of 8 KB */
#define PMI	 PTAH_PERF_GLOBAL_TRACE_TOPA_PMI

struct setting {
	struct ptah_machine *machine;
	struct ptah_hal hal;
	uint8_t *arena;
	unsigned pmis, last_cpu, gaps;
};

static void open_machine_with(struct setting *s, unsigned cpus, const char *name,
			      unsigned (*which_cpu)(void *argument))
{
	struct ptah_machine_config config = {.size = sizeof(config),
					     .cpus = cpus,
					     .processor = ptah_model_find(name),
					     .arena_size = ARENA,
					     .physical = PHYSICAL,
					     .which = which_cpu};
	const struct ptah_model_faults silent = {.silent = true};

	memset(s, 0, sizeof(*s));
	s->arena = pages_new(ARENA);
	s->machine = malloc(ptah_machine_size(cpus));
	assert_non_null(s->machine);
	config.arena = s->arena;
	assert_int_equal(ptah_machine_init(s->machine, &config), PTAH_OK);
	ptah_machine_hal(s->machine, &s->hal);
	for (unsigned i = 0; i < cpus; i++)
		ptah_model_set_faults(ptah_machine_model(s->machine, i), &silent);
}

static void open_machine(struct setting *s, unsigned cpus, const char *name)
{
	open_machine_with(s, cpus, name, NULL);
}

static void close_machine(struct setting *s, const char *violation)
{
	if (violation)
		assert_string_equal(ptah_machine_violation(s->machine), violation);
	else
		assert_null(ptah_machine_violation(s->machine));
	free(s->machine);
	pages_free(s->arena, ARENA);
}

/*
 * Random allocations are aligned, zeroed and do not overlap; after they are
 * released, all memory is free.
 */
TEST(test_memory)
{
	struct ptah_hal_memory held[24] = {{0}};
	uint64_t seed = 88172645463325252;
	unsigned failed = 0;
	struct setting s;

	open_machine(&s, 1, "skylake");
	for (unsigned i = 0; i < 4000; i++) {
		struct ptah_hal_memory *m = &held[(seed ^= seed << 13) % ARRAY_SIZE(held)];
		const size_t size = 1 + (seed ^= seed >> 7) % 600000;
		const size_t align = (size_t)4096 << (seed ^= seed << 17) % 5;

		if (m->address) {
			for (size_t k = 0; k < m->size; k++)
				assert_int_equal(((uint8_t *)m->address)[k], m - held + 1);
			s.hal.release(s.machine, m);
			m->address = NULL;
		} else if (s.hal.alloc(s.machine, size, align, m) == PTAH_OK) {
			assert_int_equal(m->physical % align, 0);
			assert_true(m->size >= size);
			assert_int_equal(m->physical - PHYSICAL, (uint8_t *)m->address - s.arena);
			for (size_t k = 0; k < m->size; k++)
				assert_int_equal(((uint8_t *)m->address)[k], 0);
			memset(m->address, (int)(m - held + 1), m->size);
		} else {
			m->address = NULL;
			failed++;
		}
	}
	assert_true(failed > 10 && failed < 2000);
	for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
		if (held[i].address)
			s.hal.release(s.machine, &held[i]);
	assert_int_equal(ptah_machine_allocated(s.machine), 0);
	assert_int_equal(s.hal.alloc(s.machine, ARENA - 8192, 4096, held), PTAH_OK);
	s.hal.release(s.machine, held);
	ptah_machine_fail_alloc(s.machine, 2);
	assert_int_equal(s.hal.alloc(s.machine, 1, 4096, held), PTAH_OK);
	assert_int_equal(s.hal.alloc(s.machine, 1, 4096, held + 1), PTAH_E_NOMEM);
	assert_int_equal(s.hal.alloc(s.machine, 1, 4096, held + 1), PTAH_OK);
	close_machine(&s, NULL);
}

/* The memory that the processors see: the arena, with a hole. */
TEST(test_hidden_memory)
{
	struct setting s;
	uint64_t bytes;

	open_machine(&s, 1, "skylake");
	assert_ptr_equal(ptah_machine_memory(s.machine, PHYSICAL + 5, &bytes), s.arena + 5);
	assert_int_equal(bytes, ARENA - 5);
	assert_null(ptah_machine_memory(s.machine, PHYSICAL - 1, &bytes));
	assert_null(ptah_machine_memory(s.machine, PHYSICAL + ARENA, &bytes));
	ptah_machine_hide(s.machine, PHYSICAL + 8192, 4096);
	assert_ptr_equal(ptah_machine_memory(s.machine, PHYSICAL + 4096, &bytes), s.arena + 4096);
	assert_int_equal(bytes, 4096);
	assert_null(ptah_machine_memory(s.machine, PHYSICAL + 8192, &bytes));
	assert_ptr_equal(ptah_machine_memory(s.machine, PHYSICAL + 12288, &bytes), s.arena + 12288);
	assert_int_equal(bytes, ARENA - 12288);
	close_machine(&s, NULL);
}

static void count_pmi(void *argument, unsigned cpu)
{
	struct setting *s = argument;
	uint64_t status;

	s->pmis++;
	s->last_cpu = cpu;
	assert_int_equal(s->hal.cpu(s->machine), cpu);
	assert_int_equal(s->hal.rdmsr(s->machine, PTAH_IA32_PERF_GLOBAL_STATUS, &status), PTAH_OK);
	assert_int_equal(status, PMI);
	assert_int_equal(s->hal.wrmsr(s->machine, PTAH_IA32_PERF_GLOBAL_STATUS_RESET, status),
			 PTAH_OK);
	s->hal.pmi_unmask(s->machine);
}

struct ring {
	struct setting *s;
	struct ptah_hal_memory table, data;
};

static void start_ring(void *argument)
{
	struct ring *r = argument;
	const struct ptah_hal *hal = &r->s->hal;
	uint64_t entries[2] = {r->data.physical | PTAH_TOPA_INT | 1 << PTAH_TOPA_SIZE,
			       r->table.physical | PTAH_TOPA_END};

	memcpy(r->table.address, entries, sizeof(entries));
	assert_int_equal(hal->wrmsr(r->s->machine, PTAH_IA32_RTIT_OUTPUT_BASE, r->table.physical),
			 PTAH_OK);
	assert_int_equal(hal->wrmsr(r->s->machine, PTAH_IA32_RTIT_CTL,
				    PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA),
			 PTAH_OK);
}

/* Two processors, each with its own ring and its own interrupts. */
TEST(test_two_processors)
{
	static uint8_t bytes[20000];
	struct ring rings[2];
	struct setting s;

	open_machine(&s, 2, "skylake");
	ptah_machine_on_pmi(s.machine, count_pmi, &s);
	assert_int_equal(s.hal.pmi_enable(s.machine, true), PTAH_OK);
	for (unsigned i = 0; i < 2; i++) {
		rings[i].s = &s;
		assert_int_equal(s.hal.alloc(s.machine, 4096, 4096, &rings[i].table), PTAH_OK);
		assert_int_equal(s.hal.alloc(s.machine, 8192, 8192, &rings[i].data), PTAH_OK);
		assert_int_equal(s.hal.run_on(s.machine, i, start_ring, &rings[i]), PTAH_OK);
	}
	assert_int_equal(s.hal.cpu(s.machine), 0);
	memset(bytes, 1, sizeof(bytes));
	ptah_machine_put(s.machine, 0, bytes, 9000);
	assert_int_equal(s.pmis, 1);
	assert_int_equal(s.last_cpu, 0);
	memset(bytes, 2, sizeof(bytes));
	ptah_machine_put(s.machine, 1, bytes, 17000);
	assert_int_equal(s.pmis, 3);
	assert_int_equal(s.last_cpu, 1);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < 8192; k++)
			assert_int_equal(((uint8_t *)rings[i].data.address)[k], i + 1);
	ptah_machine_set_online(s.machine, 1, false);
	assert_int_equal(s.hal.run_on(s.machine, 1, start_ring, &rings[1]), PTAH_E_OFFLINE);
	assert_int_equal(s.hal.run_on(s.machine, 2, start_ring, &rings[1]), PTAH_E_OFFLINE);
	close_machine(&s, NULL);
}

/* One thread per processor, mainly to be run with ThreadSanitizer. */

static _Thread_local unsigned this_cpu;

static unsigned which(void *argument)
{
	(void)argument;
	return this_cpu;
}

struct player {
	struct setting *s;
	unsigned cpu;
	pthread_t thread;
	unsigned errors;
};

static void *play(void *argument)
{
	struct player *p = argument;
	const struct ptah_hal *hal = &p->s->hal;
	uint8_t bytes[100];

	this_cpu = p->cpu;
	memset(bytes, (int)p->cpu + 1, sizeof(bytes));
	for (unsigned round = 0; round < 50; round++) {
		struct ring r = {.s = p->s};
		uint64_t irqs;

		hal->lock(p->s->machine);
		p->errors += hal->alloc(p->s->machine, 4096, 4096, &r.table) < 0;
		p->errors += hal->alloc(p->s->machine, 8192, 8192, &r.data) < 0;
		hal->unlock(p->s->machine);
		irqs = hal->irq_save(p->s->machine);
		start_ring(&r);
		for (unsigned i = 0; i < 100; i++)
			ptah_machine_put(p->s->machine, p->cpu, bytes, sizeof(bytes));
		hal->wrmsr(p->s->machine, PTAH_IA32_RTIT_CTL, 0);
		hal->wrmsr(p->s->machine, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0);
		hal->irq_restore(p->s->machine, irqs);
		for (unsigned k = 0; k < 8192; k++)
			p->errors += ((uint8_t *)r.data.address)[k] != p->cpu + 1;
		hal->release(p->s->machine, &r.table);
		hal->release(p->s->machine, &r.data);
	}
	return NULL;
}

TEST(test_threads)
{
	struct player players[2] = {{0}};
	struct setting s;

	open_machine_with(&s, 2, "skylake", which);
	for (unsigned i = 0; i < 2; i++) {
		players[i].s = &s;
		players[i].cpu = i;
		assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(players[i].thread, NULL);
		assert_int_equal(players[i].errors, 0);
	}
	assert_int_equal(ptah_machine_allocated(s.machine), 0);
	close_machine(&s, NULL);
}

static void count_gap(void *argument, unsigned cpu, const char *callback)
{
	struct setting *s = argument;
	uint64_t value;

	assert_int_equal(cpu, 0);
	assert_non_null(callback);
	s->gaps++;
	/* The hook that runs between two instructions is not called again from inside. */
	s->hal.rdmsr(s->machine, PTAH_IA32_RTIT_CTL, &value);
}

TEST(test_gaps)
{
	struct setting s;
	uint64_t value;

	open_machine(&s, 1, "skylake");
	ptah_machine_on_gap(s.machine, count_gap, &s);
	s.hal.rdmsr(s.machine, PTAH_IA32_RTIT_CTL, &value);
	s.hal.wrmsr(s.machine, PTAH_IA32_RTIT_CTL, 0);
	s.hal.fence(s.machine);
	s.hal.irq_restore(s.machine, s.hal.irq_save(s.machine));
	assert_int_equal(s.gaps, 5);
	close_machine(&s, NULL);
}

TEST(test_owners)
{
	struct ptah_hal_memory pieces[2];
	uint64_t address, other;
	struct setting s;
	size_t bytes;

	open_machine(&s, 1, "skylake");
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(s.hal.alloc(s.machine, 8192, 4096, &pieces[1 - i]), PTAH_OK);
	assert_int_equal(s.hal.user_map(s.machine, 7, pieces, 2, false, &address), PTAH_OK);
	assert_int_equal(s.hal.user_map(s.machine, 8, pieces, 1, false, &other), PTAH_OK);
	assert_int_equal(ptah_machine_mapped(s.machine), 2);
	assert_ptr_equal(ptah_machine_user(s.machine, 7, address + 8191, &bytes),
			 (uint8_t *)pieces[0].address + 8191);
	assert_int_equal(bytes, 1);
	assert_ptr_equal(ptah_machine_user(s.machine, 7, address + 8192, &bytes),
			 pieces[1].address);
	assert_null(ptah_machine_user(s.machine, 7, address + 16384, &bytes));
	assert_null(ptah_machine_user(s.machine, 8, address, &bytes));
	s.hal.user_unmap(s.machine, 8, other, 8192);
	s.hal.user_unmap(s.machine, 7, address, 16384);
	assert_null(ptah_machine_user(s.machine, 7, address, &bytes));
	assert_null(ptah_machine_violation(s.machine));
	assert_int_equal(s.hal.user_map(s.machine, 7, pieces, 2, false, &address), PTAH_OK);
	s.hal.release(s.machine, &pieces[1]);
	close_machine(&s, "release() of memory that an owner has mapped");
}

static void alloc_inside(void *argument)
{
	struct setting *s = argument;
	struct ptah_hal_memory memory;

	s->hal.alloc(s->machine, 1, 4096, &memory);
}

/* Breaks each rule that the machine checks. */
TEST(test_violations)
{
	struct ptah_hal_memory memory;
	struct setting s;

	open_machine(&s, 1, "skylake");
	s.hal.run_on(s.machine, 0, alloc_inside, &s);
	close_machine(&s, "alloc() where one must not sleep");
	open_machine(&s, 1, "skylake");
	s.hal.irq_save(s.machine);
	s.hal.lock(s.machine);
	close_machine(&s, "lock() where one must not sleep");
	open_machine(&s, 1, "skylake");
	s.hal.lock(s.machine);
	s.hal.unlock(s.machine);
	s.hal.lock(s.machine);
	s.hal.lock(s.machine);
	close_machine(&s, "lock() while it is locked");
	open_machine(&s, 1, "skylake");
	s.hal.unlock(s.machine);
	close_machine(&s, "unlock() without lock()");
	open_machine(&s, 1, "skylake");
	s.hal.irq_restore(s.machine, 1);
	close_machine(&s, "irq_restore() without irq_save()");
	open_machine(&s, 1, "skylake");
	assert_int_equal(s.hal.alloc(s.machine, 1, 4096, &memory), PTAH_OK);
	s.hal.release(s.machine, &memory);
	s.hal.release(s.machine, &memory);
	close_machine(&s, "release() of what was not allocated");
	open_machine(&s, 1, "skylake");
	s.hal.user_unmap(s.machine, 1, 4096, 4096);
	close_machine(&s, "user_unmap() of what was not mapped");
}

/* XSAVES is offered where the processor has it and it was enabled. */
TEST(test_xsaves)
{
	struct setting s;
	uint64_t xss;

	open_machine(&s, 1, "broadwell");
	assert_null(s.hal.xsaves);
	close_machine(&s, NULL);
	open_machine(&s, 1, "skylake");
	assert_non_null(s.hal.xsaves);
	assert_int_equal(s.hal.rdmsr(s.machine, PTAH_IA32_XSS, &xss), PTAH_OK);
	assert_int_equal(xss, PTAH_XSTATE_PT);
	close_machine(&s, NULL);
}

/* A machine with performance cores and efficient cores. */
TEST(test_hybrid)
{
	const struct ptah_model_processor *const kinds[] = {ptah_model_find("alder-lake-p"),
							    ptah_model_find("alder-lake-e"),
							    ptah_model_find("broadwell")};
	struct ptah_machine_config config = {
	    .size = sizeof(config), .processors = kinds, .arena_size = ARENA, .physical = PHYSICAL};
	struct ptah_machine *machine = malloc(ptah_machine_size(3));
	struct ptah_hal hal;
	uint32_t r[4];

	assert_non_null(machine);
	config.arena = pages_new(ARENA);
	for (unsigned cpus = 2; cpus <= 3; cpus++) {
		config.cpus = cpus;
		assert_int_equal(ptah_machine_init(machine, &config), PTAH_OK);
		ptah_machine_hal(machine, &hal);
		assert_int_equal(!hal.xsaves, cpus == 3); /* Broadwell does not have it */
		for (unsigned i = 0; i < 2; i++) {
			ptah_machine_set_cpu(machine, i);
			hal.cpuid(machine, 0x1a, 0, r);
			assert_int_equal(r[0] >> 24, i ? 0x20 : 0x40);
		}
	}
	pages_free(config.arena, ARENA);
	free(machine);
}

TEST(test_bad_configurations)
{
	static uint8_t arena[8192];
	struct ptah_model_processor p = *ptah_model_find("skylake");
	const struct ptah_machine_config good = {.size = sizeof(good),
						 .cpus = 1,
						 .processor = &p,
						 .arena = arena,
						 .arena_size = sizeof(arena),
						 .physical = 4096};
	struct ptah_machine *machine = malloc(ptah_machine_size(1));
	struct ptah_machine_config bad = good;

	assert_non_null(machine);
	assert_int_equal(ptah_machine_init(machine, &bad), PTAH_OK);
	bad.size--;
	assert_int_equal(ptah_machine_init(machine, &bad), PTAH_E_INVAL);
	bad = good;
	bad.physical = 1;
	assert_int_equal(ptah_machine_init(machine, &bad), PTAH_E_INVAL);
	bad = good;
	bad.processor = NULL;
	assert_int_equal(ptah_machine_init(machine, &bad), PTAH_E_INVAL);
	bad = good;
	bad.arena_size = 4096;
	assert_int_equal(ptah_machine_init(machine, &bad), PTAH_E_NOSPACE);
	p.linear_bits = 50;
	assert_int_equal(ptah_machine_init(machine, &good), PTAH_E_INVAL);
	p.linear_bits = 48;
	p.physical_bits = 53;
	assert_int_equal(ptah_machine_init(machine, &good), PTAH_E_INVAL);
	free(machine);
}
