/* SPDX-License-Identifier: MIT */
/*
 * Decides which code may touch this processor's registers (`busy` and notes, see internal.h), does
 * what notes ask for, and handles the PMI by which the processor reports that a region is full.
 */
#include "engine/internal.h"

struct engine_cpu *engine_here(struct ptah_engine *engine, unsigned *number)
{
	*number = engine->hal->cpu(engine->port);
	return *number < engine->cpus ? &engine->cpu[*number] : NULL;
}

void engine_hold(struct engine_cpu *cpu)
{
	atomic_store(&cpu->busy, 1);
	cpu->pinned = true;
}

void engine_note(struct engine_cpu *cpu)
{
	atomic_store(&cpu->noted, 1);
}

void engine_show(struct ptah_engine *engine, struct ptah_capture *c)
{
	struct engine_cpu *cpu;
	unsigned number;

	if (!c->page.page)
		return;
	cpu = engine_here(engine, &number);
	engine_hold(cpu);
	page_publish(c);
	engine_release(engine, cpu, number);
}

static bool wanted(const struct ptah_capture *c)
{
	return atomic_load(&c->started) && !atomic_load(&c->paused);
}

int engine_outcome(struct ptah_capture *c, struct engine_cpu *cpu)
{
	int status = atomic_load(&c->error);

	if (status < 0 || !wanted(c) || !(atomic_load(&cpu->blocked) & BLOCKED_VMX))
		return status;
	atomic_store(&c->gap, true);
	return PTAH_E_UNSUPPORTED;
}

void engine_forget_guest(struct engine_cpu *cpu)
{
	cpu->guest->external = false;
	cpu->guest = NULL;
	atomic_fetch_and(&cpu->blocked, ~BLOCKED_GUEST);
}

static void end_condition(struct ptah_capture *c)
{
	atomic_store(&c->halt, HALT_NONE);
	atomic_store(&c->error, PTAH_OK);
	c->msr = 0;
	c->fresh = c->program = true;
}

/*
 * Looks at the capture in the registers, stops it if it may not run any more, and starts the one
 * that is to run here.
 */
static void serve_once(struct engine_cpu *cpu, unsigned number)
{
	struct ptah_capture *c = cpu->loaded, *target = atomic_load(&cpu->target);
	unsigned blocked = atomic_load(&cpu->blocked);
	bool leave;

	if (c) {
		leave = c != cpu->guest ? c != target || blocked || !wanted(c)
					: !wanted(c) || blocked & BLOCKED_CRASH;
		if (atomic_load_explicit(&cpu->unmask, memory_order_relaxed))
			count_up(&c->pmis);
		hardware_look(c, cpu, leave);
		/*
		 * The NMI came between VM entry and VM exit. All that the guest runs in between is
		 * one slice: the slice continues, and the look at the VM exit ends it.
		 */
		if (c == cpu->guest && !leave && !c->program)
			atomic_store(&c->running, true);
		if (leave) {
			cpu->loaded = NULL;
			c->fresh = c->program = true;
		}
		if (leave && c == cpu->guest) {
			engine_forget_guest(cpu);
			blocked = atomic_load(&cpu->blocked);
		}
		if (c != target)
			hardware_record(c, number);
	}
	if (!target)
		return;
	if (atomic_exchange(&target->rearm, false) && !atomic_load(&target->running))
		end_condition(target);
	if (!blocked && wanted(target))
		hardware_run(target, cpu);
	hardware_record(target, number);
}

/* The caller has set `busy`: with engine_hold(), or in engine_serve(). */
void engine_release(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number)
{
	do {
		while (atomic_exchange(&cpu->noted, 0))
			serve_once(cpu, number);
		atomic_store(&cpu->busy, 0);
		/* An NMI that found `busy` set may have written a note just before that. */
	} while (atomic_load(&cpu->noted) && !atomic_exchange(&cpu->busy, 1));
	if (atomic_load_explicit(&cpu->unmask, memory_order_relaxed) &&
	    atomic_exchange(&cpu->unmask, 0))
		engine->hal->pmi_unmask(engine->port);
}

void engine_serve(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number)
{
	if (atomic_exchange(&cpu->busy, 1))
		return;
	cpu->pinned = false;
	engine_release(engine, cpu, number);
}

/* Handles a PMI whose status bit had been cleared before it was delivered (acknowledge()). */
static int take_late(struct ptah_engine *engine, struct engine_cpu *cpu)
{
	if (!atomic_exchange(&cpu->late, 0))
		return PTAH_PMI_NONE;
	if (atomic_load(&cpu->busy))
		atomic_store(&cpu->unmask, 1);
	else
		engine->hal->pmi_unmask(engine->port);
	return PTAH_PMI_LATE;
}

int ptah_engine_pmi(struct ptah_engine *engine)
{
	struct engine_cpu *cpu;
	uint64_t status;
	unsigned number;

	if (!engine->pmi)
		return PTAH_PMI_NONE;
	cpu = engine_here(engine, &number);
	if (!cpu || engine->hal->rdmsr(engine->port, PTAH_IA32_PERF_GLOBAL_STATUS, &status) < 0)
		return PTAH_PMI_NONE;
	if (!(status & PTAH_PERF_GLOBAL_TRACE_TOPA_PMI))
		return take_late(engine, cpu);
	/* No capture is in the registers: the PMI belongs to another tracer. */
	if (!atomic_load(&cpu->busy) && !cpu->loaded)
		return PTAH_PMI_NONE;
	atomic_store(&cpu->late, 0);
	atomic_store(&cpu->unmask, 1);
	engine_note(cpu);
	engine_serve(engine, cpu, number);
	return PTAH_PMI_OURS;
}

/* The register can be read: nothing that stays prevents tracing here. */
static bool has_register(const struct engine_cpu *cpu)
{
	return atomic_load(&cpu->shown) && cpu->caps.obstacle == PTAH_CAPS_NONE;
}

int ptah_engine_stop_here(struct ptah_engine *engine)
{
	struct ptah_capture *target;
	struct engine_cpu *cpu;
	unsigned number;
	uint64_t ctl;
	int status;

	cpu = engine ? engine_here(engine, &number) : NULL;
	if (!cpu)
		return PTAH_E_INVAL;
	target = atomic_load(&cpu->target);
	if (target)
		atomic_store(&target->gap, true);
	atomic_fetch_or(&cpu->blocked, BLOCKED_CRASH);
	engine_note(cpu);
	engine_serve(engine, cpu, number);
	if (!has_register(cpu))
		return PTAH_OK;
	/* It has interrupted busy code, which may never continue; or another tracer is at work. */
	status = engine->hal->rdmsr(engine->port, PTAH_IA32_RTIT_CTL, &ctl);
	if (status == PTAH_OK && ctl & PTAH_RTIT_CTL_TRACE_EN)
		status = engine->hal->wrmsr(engine->port, PTAH_IA32_RTIT_CTL,
					    ctl & ~PTAH_RTIT_CTL_TRACE_EN);
	engine->hal->fence(engine->port);
	return status;
}

void ptah_engine_continue_here(struct ptah_engine *engine)
{
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine ? engine_here(engine, &number) : NULL;
	if (!cpu)
		return;
	atomic_fetch_and(&cpu->blocked, ~BLOCKED_CRASH);
	engine_note(cpu);
	engine_serve(engine, cpu, number);
}
