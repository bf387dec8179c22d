/* SPDX-License-Identifier: MIT */
/*
 * Interrupts and exceptions. QEMU keeps the functions that deliver them in a table that the class
 * of its CPUs points to. The plugin lets the class point to a copy of this table, in which both
 * functions are its own.
 */
#include "record/system/system.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

/* A neighbouring table has one of the two functions as well, but not both in its first slots. */
#define FIRST_SLOTS 11
#define COPY_SLOTS  24

static void on_exception(void *cpu)
{
	struct system_vcpu *v = system_vcpu_of(cpu);
	struct system_place from;

	if (!v) {
		host.do_interrupt(cpu);
		return;
	}
	system_check_reset(v);
	system_end_isolation(v);
	system_clock_settle(v);
	if (!v->traced) {
		v->running = NULL;
		host.do_interrupt(cpu);
		return;
	}
	system_find_place(v, &from);
	system_flow_arrive(v, &from, true);
	host.do_interrupt(cpu);
	system_flow_interrupted(v, PTAH_MODEL_EXCEPTION, from.ip);
}

/* Bits of an interrupt request: QEMU's CPU_INTERRUPT_SIPI and CPU_INTERRUPT_SMI. */
#define REQUEST_SIPI 0x0800
#define REQUEST_SMI  0x0040

/* SDM volume 3, "SMM Handler Execution Environment": CS.base is SMBASE. */
#define SMM_RIP 0x8000

static bool on_interrupt(void *cpu, int request)
{
	struct system_vcpu *v = system_vcpu_of(cpu);
	struct system_place from, to;
	bool taken;

	if (!v)
		return host.exec_interrupt(cpu, request);
	system_check_reset(v);
	system_clock_settle(v);
	if (!v->traced) {
		taken = host.exec_interrupt(cpu, request);
		if (taken) {
			system_end_isolation(v);
			v->running = NULL;
		}
		return taken;
	}
	system_find_place(v, &from);
	taken = host.exec_interrupt(cpu, request);
	if (!taken)
		return taken;
	system_find_place(v, &to);
	if (to.ip == from.ip)
		return taken;
	system_end_isolation(v);
	if (request & REQUEST_SIPI && system_at_reset_vector(from.ip, from.base)) {
		system_flow_init(v, PTAH_MODEL_INIT_WAIT, &from);
		system_flow_sipi(v);
		return taken;
	}
	system_flow_arrive(v, &from, false);
	if (request & REQUEST_SMI && to.mode == PTAH_EXEC_16 && to.ip - to.base == SMM_RIP &&
	    !v->outside) {
		system_flow_smi(v, &to);
		return taken;
	}
	system_flow_interrupted(v, PTAH_MODEL_INTERRUPT, from.ip);
	return taken;
}

/* Finds out whether this is the table. Then the slots of both functions are returned. */
static bool is_table(void *const *table, int *exception, int *interrupt)
{
	Dl_info info;

	*exception = *interrupt = -1;
	if (!table || (uintptr_t)table & 7 || !dladdr(table, &info) ||
	    !strstr(info.dli_fname, "qemu-system"))
		return false;
	for (int i = 0; i < FIRST_SLOTS; i++) {
		if (table[i] == *(void **)&host.do_interrupt)
			*exception = i;
		if (table[i] == *(void **)&host.exec_interrupt)
			*interrupt = i;
	}
	return *exception >= 0 && *interrupt >= 0;
}

void system_hook_interrupts(void *cpu)
{
	static bool done;
	void **class = host.class_of(cpu);
	const size_t words = malloc_usable_size(class) / sizeof(*class);
	void (*const exception_hook)(void *) = on_exception;
	bool (*const interrupt_hook)(void *, int) = on_interrupt;
	int exception, interrupt;

	for (size_t i = 0; i < words && !done; i++) {
		void **copy;

		if (!is_table(class[i], &exception, &interrupt))
			continue;
		copy = malloc(COPY_SLOTS * sizeof(*copy));
		if (!copy)
			break;
		memcpy(copy, class[i], COPY_SLOTS * sizeof(*copy));
		memcpy(&copy[exception], &exception_hook, sizeof(*copy));
		memcpy(&copy[interrupt], &interrupt_hook, sizeof(*copy));
		class[i] = copy;
		done = true;
	}
	if (done)
		return;
	system_say("this QEMU's table of interrupt functions was not found: Debian's 7.2 is known "
		   "to work");
	exit(1);
}
