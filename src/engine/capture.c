/* SPDX-License-Identifier: MIT */
/*
 * Captures, for their owner: start, stop, pause, flush, reconfigure, status. Each call changes what
 * is wanted on the processor that holds the capture, and then has that processor look
 * (internal.h).
 */
#include "engine/internal.h"

struct call {
	struct ptah_capture *capture;
	capture_work *work;
	void *argument;
	bool done;
	int status;
};

/* PINNED. */
static void call_here(void *argument)
{
	struct call *call = argument;
	struct ptah_engine *engine = call->capture->engine;
	struct ptah_capture *c = call->capture, *target = c;
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine_here(engine, &number);
	if (!cpu || atomic_load(&c->holder) != (int)number)
		return; /* the capture has moved to another processor */
	engine_hold(cpu);
	call->status = call->work(c, cpu, call->argument);
	/* The guest is not traced any more: the host's capture need not wait for the VM exit. */
	if (cpu->guest == c && cpu->loaded != c && !atomic_load(&c->started)) {
		engine_forget_guest(cpu);
		engine_note(cpu);
	}
	engine_release(engine, cpu, number);
	/* This call or another one has stopped the capture: this processor holds it no longer. */
	if (!atomic_load(&c->started)) {
		engine_show(engine, c);
		atomic_compare_exchange_strong(&cpu->target, &target, NULL);
		atomic_store(&c->holder, NOBODY);
	}
	call->done = true;
}

static bool claim(struct ptah_capture *c)
{
	int nobody = NOBODY;

	return atomic_compare_exchange_strong(&c->holder, &nobody, CLAIMED);
}

int capture_at_holder(struct ptah_capture *c, capture_work *work, void *argument)
{
	const struct ptah_hal *hal = c->engine->hal;
	struct call call = {.capture = c, .work = work, .argument = argument};
	uint64_t state;
	int holder, status;

	for (;;) {
		holder = atomic_load(&c->holder);
		if (holder >= 0) {
			status = hal->run_on(c->engine->port, (unsigned)holder, call_here, &call);
			if (call.done)
				return call.status;
			if (status < 0 && atomic_load(&c->holder) == holder)
				return status;
			continue;
		}
		state = hal->irq_save(c->engine->port);
		if (claim(c)) {
			status = work(c, NULL, argument);
			page_publish(c);
			atomic_store(&c->holder, NOBODY);
			hal->irq_restore(c->engine->port, state);
			return status;
		}
		hal->irq_restore(c->engine->port, state);
	}
}

bool capture_take(struct ptah_capture *c, int number)
{
	int holder;

	do {
		holder = NOBODY;
		if (atomic_compare_exchange_strong(&c->holder, &holder, number) || holder == number)
			return true;
	} while (holder == CLAIMED);
	return false;
}

int capture_look(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	(void)c;
	(void)argument;
	if (cpu)
		engine_note(cpu);
	return PTAH_OK;
}

int capture_arm(struct ptah_capture *c)
{
	struct topa_fault fault;

	if (atomic_load(&c->running))
		return PTAH_OK;
	atomic_store(&c->halt, HALT_NONE);
	atomic_store(&c->error, PTAH_OK);
	c->msr = 0;
	c->fresh = c->program = c->verify = true;
	if (!room_find(c)) {
		atomic_store(&c->halt, HALT_FULL);
		/* With DRAIN the capture is started, and waits for room. */
		return c->policy == PTAH_POLICY_STOP ? PTAH_E_NOSPACE : PTAH_OK;
	}
	/* The tables may have been overwritten. The processor would report no more than Error, and
	 * only later. */
	if (c->shape != PTAH_SHAPE_SINGLE &&
	    !topa_check(c->topa.tables, c->topa.pages, c->physical_bits, c->topa.multi,
			room_place(c, atomic_load(&c->position)), &fault)) {
		atomic_store(&c->halt, HALT_ERROR);
		log_capture(c, LOG_TABLES, fault.page);
		return PTAH_E_INVAL;
	}
	return PTAH_OK;
}

static int arm(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	int status = capture_arm(c);

	if (status < 0)
		return status;
	atomic_store(&c->paused, argument != NULL);
	atomic_store(&c->started, true);
	if (cpu)
		engine_note(cpu);
	return PTAH_OK;
}

/* PINNED, on the one processor that the capture traces. */
static void start_here(void *argument)
{
	struct call *call = argument;
	struct ptah_capture *c = call->capture, *target = NULL;
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine_here(c->engine, &number);
	call->status = PTAH_E_BUSY;
	if (!cpu)
		return;
	if (!atomic_compare_exchange_strong(&cpu->target, &target, c) && target != c) {
		log_capture(c, LOG_TAKEN, 0);
		return;
	}
	if (capture_take(c, (int)number)) {
		engine_hold(cpu);
		call->status = arm(c, cpu, call->argument);
		engine_release(c->engine, cpu, number);
		if (call->status == PTAH_OK)
			call->status = atomic_load(&c->error);
	}
	/* It never ran: this processor releases it. */
	if (call->status < 0 && !atomic_load(&c->running) && cpu->loaded != c) {
		atomic_store(&c->started, false);
		engine_show(c->engine, c);
		atomic_store(&cpu->target, NULL);
		atomic_store(&c->holder, NOBODY);
	}
	if (call->status == PTAH_OK)
		call->status = engine_outcome(c, cpu);
}

/* The capture's processor is offline, and will start the capture when it is online again. */
static int start_offline(struct ptah_capture *c)
{
	struct ptah_capture *target = NULL;
	int status;

	if (!atomic_compare_exchange_strong(&c->engine->cpu[c->cpu].target, &target, c) &&
	    target != c)
		return PTAH_E_BUSY;
	status = capture_at_holder(c, arm, c->start_paused ? c : NULL);
	if (status == PTAH_OK)
		return PTAH_E_OFFLINE;
	atomic_store(&c->engine->cpu[c->cpu].target, NULL);
	return status;
}

bool capture_is_running(struct ptah_capture *c)
{
	return atomic_load(&c->started) && !atomic_load(&c->paused) &&
	       atomic_load(&c->halt) == HALT_NONE;
}

int ptah_capture_start(struct ptah_capture *c)
{
	struct call call = {.capture = c};

	if (!c)
		return PTAH_E_INVAL;
	if (atomic_load(&c->started) && (atomic_load(&c->paused) || capture_is_running(c)))
		return PTAH_OK;
	atomic_store(&c->logged, 0);
	if (c->cpu < 0)
		return capture_at_holder(c, arm, c->start_paused ? c : NULL);
	call.argument = c->start_paused ? c : NULL;
	if (c->engine->hal->run_on(c->engine->port, (unsigned)c->cpu, start_here, &call) < 0)
		return start_offline(c);
	return call.status;
}

static int forget(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	struct ptah_capture *target = c;

	(void)argument;
	if (cpu)
		engine_note(cpu);
	else if (c->cpu >= 0)
		cpu = &c->engine->cpu[c->cpu]; /* offline */
	if (cpu)
		atomic_compare_exchange_strong(&cpu->target, &target, NULL);
	return PTAH_OK;
}

int ptah_capture_stop(struct ptah_capture *c)
{
	if (!c)
		return PTAH_E_INVAL;
	if (!atomic_exchange(&c->started, false) && atomic_load(&c->holder) < 0)
		return PTAH_OK;
	return capture_at_holder(c, forget, NULL);
}

int ptah_capture_pause(struct ptah_capture *c)
{
	if (!c || !atomic_load(&c->started))
		return PTAH_E_INVAL;
	atomic_store(&c->paused, true);
	return capture_at_holder(c, capture_look, NULL);
}

int ptah_capture_resume(struct ptah_capture *c)
{
	int status;

	if (!c || !atomic_load(&c->started))
		return PTAH_E_INVAL;
	if (capture_is_running(c))
		return PTAH_OK;
	status = capture_at_holder(c, arm, NULL);
	return status < 0 ? status : atomic_load(&c->error);
}

static int switch_here(struct ptah_capture *c, bool paused)
{
	struct engine_cpu *cpu;
	unsigned number;

	if (!c)
		return PTAH_E_INVAL;
	cpu = engine_here(c->engine, &number);
	if (!cpu || atomic_load(&cpu->target) != c || !atomic_load(&c->started))
		return PTAH_E_INVAL;
	if (!paused)
		atomic_store(&c->rearm, true);
	atomic_store(&c->paused, paused);
	engine_note(cpu);
	engine_serve(c->engine, cpu, number);
	return PTAH_OK;
}

int ptah_capture_pause_here(struct ptah_capture *c)
{
	return switch_here(c, true);
}

int ptah_capture_resume_here(struct ptah_capture *c)
{
	return switch_here(c, false);
}

int ptah_capture_flush(struct ptah_capture *c, uint64_t *position)
{
	int status;

	if (!c)
		return PTAH_E_INVAL;
	status = capture_at_holder(c, capture_look, NULL);
	if (position)
		*position = ptah_capture_position(c);
	return status;
}

static int read_live(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	struct ptah_capture_live *live = argument;

	live->position = live->limit = position_of(c);
	live->exact = !cpu || !atomic_load(&c->running);
	if (!live->exact) {
		live->limit = room_limit(c);
		/* A guest's registers are not those of the host that runs here. */
		if (!c->external)
			live->position = hardware_live(c);
	}
	return PTAH_OK;
}

int ptah_capture_live(struct ptah_capture *c, struct ptah_capture_live *live)
{
	struct ptah_capture_live now = {.size = sizeof(now)};
	int status;

	if (!c || !live || live->size < sizeof(now))
		return PTAH_E_INVAL;
	status = capture_at_holder(c, read_live, &now);
	if (status == PTAH_OK)
		*live = now;
	return status;
}

static int change(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	if (cpu && atomic_load(&c->running)) {
		hardware_look(c, cpu, false);
		engine_note(cpu);
	}
	c->trace = *(const struct ptah_trace_config *)argument;
	c->ctl = ptah_trace_config_ctl(&c->trace) |
		 (c->shape == PTAH_SHAPE_SINGLE ? 0 : PTAH_RTIT_CTL_TOPA);
	c->program = c->fresh = true;
	c->flags |= PTAH_CAPTURED_RECONFIGURED;
	return PTAH_OK;
}

int ptah_capture_reconfigure(struct ptah_capture *c, const struct ptah_trace_config *trace,
			     struct ptah_trace_problem *problem)
{
	int status;

	if (problem)
		*problem = (struct ptah_trace_problem){0};
	if (!c || !trace || trace->size < sizeof(*trace))
		return buffer_refuse_call(problem);
	status = buffer_check_trace(c->engine, c->cpu, c->xsaves, trace, problem);
	if (status >= 0)
		status = capture_at_holder(c, change, (void *)(uintptr_t)trace);
	return buffer_explain(status, problem);
}

uint64_t ptah_capture_position(const struct ptah_capture *c)
{
	return atomic_load_explicit(&c->position, memory_order_acquire);
}

int ptah_capture_new(struct ptah_engine *engine, const struct ptah_capture_config *config,
		     struct ptah_capture **capture, struct ptah_trace_problem *problem)
{
	int status;

	if (problem)
		*problem = (struct ptah_trace_problem){0};
	if (!engine || !config || config->size < sizeof(*config) || !capture)
		return buffer_refuse_call(problem);
	if (config->no_memory)
		return buffer_refuse(problem, "no_memory", "for pools, whose takers bring memory",
				     PTAH_PROBLEM_FLAG, 1, 0);
	status = buffer_explain(buffer_new(engine, config, capture, problem), problem);
	if (status == PTAH_OK)
		engine_link(*capture);
	return status;
}

int ptah_capture_free(struct ptah_capture *c)
{
	if (!c)
		return PTAH_OK;
	if (c->set || map_any(c))
		return PTAH_E_BUSY;
	ptah_capture_stop(c);
	if (c->pool) {
		pool_return(c);
		return PTAH_OK;
	}
	engine_unlink(c);
	buffer_free(c);
	return PTAH_OK;
}

/* Whether the capture's thread, or its guest, is on no processor. */
static bool is_out(const struct ptah_capture *c)
{
	int holder = atomic_load(&c->holder);

	return c->cpu < 0 && (holder < 0 || atomic_load(&c->engine->cpu[holder].target) != c);
}

static unsigned state_of(const struct ptah_capture *c)
{
	unsigned halt = atomic_load(&c->halt);

	if (!atomic_load(&c->started))
		return PTAH_CAPTURE_IDLE;
	if (atomic_load(&c->paused))
		return PTAH_CAPTURE_PAUSED;
	if (halt)
		return halt == HALT_FULL    ? PTAH_CAPTURE_FULL
		       : halt == HALT_RANGE ? PTAH_CAPTURE_RANGE
					    : PTAH_CAPTURE_ERROR;
	if (atomic_load(&c->running))
		return PTAH_CAPTURE_RUNNING;
	return is_out(c) ? PTAH_CAPTURE_OUT : PTAH_CAPTURE_BLOCKED;
}

unsigned capture_state(const struct ptah_capture *c)
{
	return atomic_load(&c->running) ? PTAH_CAPTURE_RUNNING : state_of(c);
}

static void describe_buffer(const struct ptah_capture *c, struct ptah_capture_status *s)
{
	s->buffer = c->topa.lap;
	s->region = c->topa.region;
	s->regions = c->topa.regions;
	s->tables = c->topa.pages;
	s->laps = c->topa.laps;
	s->cycle = c->topa.cycle;
}

static void describe_registers(const struct ptah_capture *c, struct ptah_capture_status *s)
{
	int page = -1;

	s->rtit_ctl = atomic_load(&c->seen.ctl);
	s->rtit_status = atomic_load(&c->seen.status);
	s->output_base = atomic_load(&c->seen.base);
	s->mask_ptrs = atomic_load(&c->seen.ptrs);
	s->offset = (uint32_t)(s->mask_ptrs >> PTAH_RTIT_MASK_PTRS_OFFSET);
	if (c->shape != PTAH_SHAPE_SINGLE) {
		page = topa_find(&c->topa, s->output_base, 0);
		s->index = (uint32_t)s->mask_ptrs >> PTAH_RTIT_MASK_PTRS_INDEX;
	}
	s->table = page < 0 ? 0 : (uint32_t)page;
}

int ptah_capture_status(const struct ptah_capture *c, struct ptah_capture_status *status)
{
	struct ptah_capture_status s = {
	    .size = sizeof(s),
	};

	if (!c || !status || status->size < sizeof(s))
		return PTAH_E_INVAL;
	s.state = (uint8_t)state_of(c);
	s.shape = c->shape;
	s.policy = c->policy;
	s.xsaves = c->xsaves;
	s.pmi = c->pmi;
	s.cpu = atomic_load(&c->running) ? atomic_load(&c->holder) : NOBODY;
	s.error = atomic_load(&c->error);
	s.msr = c->msr;
	s.position = ptah_capture_position(c);
	s.oldest = room_oldest(c, s.position);
	s.tail = atomic_load(&c->tail);
	s.lost = atomic_load(&c->lost);
	describe_buffer(c, &s);
	describe_registers(c, &s);
	s.looks = c->looks;
	s.starts = c->starts;
	s.pmis = c->pmis;
	s.full = c->full;
	s.errors = c->errors;
	s.partial = c->partial;
	s.dropped_records = atomic_load(&c->records.dropped);
	*status = s;
	return PTAH_OK;
}
