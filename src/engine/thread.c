/* SPDX-License-Identifier: MIT */
/* Captures that follow a thread from processor to processor, or a virtual machine's guest. */
#include "engine/internal.h"

/* The capture cannot run here now; its next record reports the gap. */
static int turn_away(struct ptah_capture *c)
{
	atomic_store(&c->gap, true);
	log_capture(c, LOG_TAKEN, 0);
	return PTAH_E_BUSY;
}

int ptah_capture_switch_in(struct ptah_capture *c)
{
	struct ptah_capture *target = NULL;
	struct engine_cpu *cpu;
	unsigned number;
	int status;

	if (!c || c->cpu >= 0)
		return PTAH_E_INVAL;
	if (!atomic_load(&c->started))
		return PTAH_OK;
	cpu = engine_here(c->engine, &number);
	if (!cpu || !capture_take(c, (int)number))
		return turn_away(c);
	/* Look again: ptah_capture_stop() clears `started`, and then reads `holder`. */
	if (!atomic_load(&c->started)) {
		atomic_store(&c->holder, NOBODY);
		return PTAH_OK;
	}
	if (!atomic_compare_exchange_strong(&cpu->target, &target, c) && target != c) {
		atomic_store(&c->holder, NOBODY);
		return turn_away(c);
	}
	engine_hold(cpu);
	engine_note(cpu);
	engine_release(c->engine, cpu, number);
	status = engine_outcome(c, cpu);
	if (status == PTAH_E_BUSY)
		atomic_store(&c->gap, true);
	return status;
}

void ptah_capture_switch_out(struct ptah_capture *c)
{
	struct engine_cpu *cpu;
	unsigned number;

	if (!c || c->cpu >= 0)
		return;
	cpu = engine_here(c->engine, &number);
	if (!cpu || atomic_load(&cpu->target) != c)
		return;
	engine_hold(cpu);
	atomic_store(&cpu->target, NULL);
	engine_note(cpu);
	engine_release(c->engine, cpu, number);
	engine_show(c->engine, c);
	atomic_store(&c->holder, NOBODY);
}

/* PINNED, busy; releases. The capture that traces the host on this processor rests, or continues.
 */
static void rest(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number, bool on)
{
	if (on)
		atomic_fetch_or(&cpu->blocked, BLOCKED_GUEST);
	else
		atomic_fetch_and(&cpu->blocked, ~BLOCKED_GUEST);
	engine_note(cpu);
	engine_release(engine, cpu, number);
}

int ptah_capture_vmentry(struct ptah_capture *c, uint64_t *ctl)
{
	struct engine_cpu *cpu;
	unsigned number;
	int status = PTAH_OK;

	if (!c || !ctl || c->cpu >= 0)
		return PTAH_E_INVAL;
	*ctl = 0;
	cpu = engine_here(c->engine, &number);
	if (cpu && atomic_load(&cpu->target) == c)
		return PTAH_E_INVAL;
	if (!cpu || cpu->guest || !capture_take(c, (int)number))
		return turn_away(c);
	engine_hold(cpu);
	rest(c->engine, cpu, number, true);
	engine_hold(cpu);
	/*
	 * Whether the guest is traced or not: SDM, a VM entry that loads IA32_RTIT_CTL fails while
	 * TraceEn is 1.
	 */
	cpu->guest = c;
	c->external = true;
	if (atomic_load(&c->started) && !atomic_load(&c->paused)) {
		c->fresh = c->program = true;
		status = hardware_run(c, cpu);
		hardware_record(c, number);
	}
	if (status == PTAH_OK && atomic_load(&c->running))
		*ctl = c->ctl | PTAH_RTIT_CTL_TRACE_EN;
	engine_release(c->engine, cpu, number);
	if (status < 0)
		ptah_capture_vmexit(c);
	return status;
}

void ptah_capture_vmexit(struct ptah_capture *c)
{
	struct engine_cpu *cpu;
	unsigned number;
	int holder;

	if (!c)
		return;
	cpu = engine_here(c->engine, &number);
	if (!cpu)
		return;
	if (cpu->guest != c) {
		/* It was stopped or paused while the guest ran: release it only now. */
		holder = (int)number;
		if (atomic_load(&cpu->target) != c)
			atomic_compare_exchange_strong(&c->holder, &holder, NOBODY);
		return;
	}
	engine_hold(cpu);
	hardware_look(c, cpu, true);
	hardware_record(c, number);
	cpu->loaded = NULL;
	engine_forget_guest(cpu);
	atomic_store(&c->holder, NOBODY);
	rest(c->engine, cpu, number, false);
}
