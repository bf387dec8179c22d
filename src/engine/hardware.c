/* SPDX-License-Identifier: MIT */
/*
 * Writes and reads the registers of Intel PT: stops tracing and finds out what was written (a
 * look), and starts tracing. Runs busy, on the processor in question (internal.h).
 *
 * SDM "Disabling Packet Generation": all registers but IA32_RTIT_CTL may be written, and reads of
 * them are exact, only while TraceEn = 0; others see the output only after a fence. So TraceEn is
 * cleared first and set last.
 */
#include "engine/internal.h"

/* Offsets in an XSAVES area that is compacted and has component 8 alone. SDM volume 1, "XSAVE
 * Area". */
#define XSAVE_BV	512u
#define XSAVE_COMPACTED 520u
#define XSAVE_PT	576u
#define COMPACTED	(UINT64_C(1) << 63)

/* The registers in the order of the component: SDM "Intel PT State". */
enum {
	XS_CTL,
	XS_BASE,
	XS_PTRS,
	XS_STATUS,
	XS_CR3,
	XS_ADDR
};

static int read_register(const struct ptah_capture *c, uint32_t msr, uint64_t *value)
{
	*value = 0;
	return c->engine->hal->rdmsr(c->engine->port, msr, value);
}

static int write_register(struct ptah_capture *c, uint32_t msr, uint64_t value)
{
	int status = c->engine->hal->wrmsr(c->engine->port, msr, value);

	if (status < 0)
		c->msr = msr;
	return status < 0 ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

/* TraceEn has just been changed: sets report when (captures.h). */
static void note_turn(struct ptah_capture *c)
{
	uint64_t now;

	if (!c->set)
		return;
	if (read_register(c, PTAH_IA32_TIME_STAMP_COUNTER, &now) < 0)
		now = 0;
	atomic_store_explicit(&c->turned, now, memory_order_relaxed);
}

static bool pmi_pending(const struct ptah_capture *c)
{
	uint64_t value;

	if (c->shape == PTAH_SHAPE_SINGLE ||
	    read_register(c, PTAH_IA32_PERF_GLOBAL_STATUS, &value) < 0)
		return false;
	return (value & PTAH_PERF_GLOBAL_TRACE_TOPA_PMI) != 0;
}

/*
 * Clears bit 55 of IA32_PERF_GLOBAL_STATUS. That works only while CTL.ToPA is 1. The bit's PMI may
 * be delivered later than this: `late` records that, so that ptah_engine_pmi(), which will find the
 * bit clear, recognises the PMI as its own.
 */
static void acknowledge(struct ptah_capture *c, struct engine_cpu *cpu)
{
	unsigned again = 0;

	do {
		if (!atomic_load_explicit(&cpu->unmask, memory_order_relaxed))
			atomic_store(&cpu->late, 1);
		c->engine->hal->wrmsr(c->engine->port, PTAH_IA32_PERF_GLOBAL_STATUS_RESET,
				      PTAH_PERF_GLOBAL_TRACE_TOPA_PMI);
	} while (pmi_pending(c) && !again++);
}

/* Clears TraceEn and reads the registers. Returns whether TraceEn was still set. */
static bool halt_by_msr(struct ptah_capture *c, struct registers *r)
{
	bool on;

	read_register(c, PTAH_IA32_RTIT_CTL, &r->ctl);
	on = (r->ctl & PTAH_RTIT_CTL_TRACE_EN) != 0;
	if (on)
		write_register(c, PTAH_IA32_RTIT_CTL, c->ctl);
	c->engine->hal->fence(c->engine->port);
	read_register(c, PTAH_IA32_RTIT_OUTPUT_BASE, &r->base);
	read_register(c, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, &r->ptrs);
	read_register(c, PTAH_IA32_RTIT_STATUS, &r->status);
	return on;
}

/* The same by XSAVES, which saves TraceEn and clears it: SDM "Managing Intel PT State by XSAVES".
 */
static bool halt_by_xsaves(struct ptah_capture *c, struct registers *r)
{
	const uint8_t *pt = c->xsave + XSAVE_PT;

	store_le64(c->xsave + XSAVE_BV, 0);
	if (c->engine->hal->xsaves(c->engine->port, c->xsave, PTAH_XSTATE_PT) < 0)
		return halt_by_msr(c, r);
	c->engine->hal->fence(c->engine->port);
	/* In the initial configuration XSAVES writes nothing: all registers are 0. */
	if (!(load_le64(c->xsave + XSAVE_BV) & PTAH_XSTATE_PT)) {
		r->ctl = r->base = r->ptrs = r->status = 0;
		return false;
	}
	r->ctl = load_le64(pt + 8 * XS_CTL);
	r->base = load_le64(pt + 8 * XS_BASE);
	r->ptrs = load_le64(pt + 8 * XS_PTRS);
	r->status = load_le64(pt + 8 * XS_STATUS);
	return (r->ctl & PTAH_RTIT_CTL_TRACE_EN) != 0;
}

static void set_halt(struct ptah_capture *c, unsigned halt, int error)
{
	atomic_store(&c->halt, halt);
	if (error)
		atomic_store(&c->error, error);
	c->flags |= PTAH_CAPTURED_STOPPED;
	c->program = true;
}

static void fail(struct ptah_capture *c, int error)
{
	c->flags |= PTAH_CAPTURED_ERROR;
	count_up(&c->errors);
	set_halt(c, HALT_ERROR, error);
}

static void judge_status(struct ptah_capture *c, const struct registers *r, uint64_t position)
{
	if (!(r->status & PTAH_RTIT_STATUS_STOPPED))
		return;
	c->program = true;
	/* Stopped at the end of a region with STOP, or else by a stop range (TraceStop). SDM "STOP
	 * bit", "TraceStop". */
	if (room_at_stop(c)) {
		c->flags |= PTAH_CAPTURED_TRUNCATED;
		/* Otherwise a start that finds no room reports FULL; there may be no further start.
		 */
		if (c->policy == PTAH_POLICY_STOP && !c->swap) {
			c->flags |= PTAH_CAPTURED_FULL;
			log_capture(c, LOG_FULL, position);
		}
	} else {
		c->flags |= PTAH_CAPTURED_RANGE;
		set_halt(c, HALT_RANGE, 0);
	}
}

/* Finds out what a slice wrote and how it ended. `on`: TraceEn was still set at the look. */
static void judge(struct ptah_capture *c, const struct registers *r, bool on)
{
	uint64_t before = position_of(c);
	uint64_t position = before;

	atomic_store_explicit(&c->seen.ctl, r->ctl, memory_order_relaxed);
	atomic_store_explicit(&c->seen.status, r->status, memory_order_relaxed);
	atomic_store_explicit(&c->seen.base, r->base, memory_order_relaxed);
	atomic_store_explicit(&c->seen.ptrs, r->ptrs, memory_order_relaxed);
	c->kept = r->status;
	if (!on && !c->external) {
		/* VMXON, a reset or SENTER has cleared it: SDM "VMX Operation", "Resetting". */
		c->flags |= PTAH_CAPTURED_PARTIAL;
		count_up(&c->partial);
		c->program = true;
		log_capture(c, LOG_CLEARED, 0);
	}
	if (r->status & PTAH_RTIT_STATUS_ERROR)
		fail(c, PTAH_E_DEVICE);
	if (room_position(c, r, &position)) {
		judge_status(c, r, position);
	} else {
		position = before;
		c->flags |= PTAH_CAPTURED_UNSURE;
		if (on && !(r->status & PTAH_RTIT_STATUS_ERROR)) {
			fail(c, PTAH_E_DEVICE);
			log_capture(c, LOG_REGISTERS, before);
		}
	}
	if (r->status & PTAH_RTIT_STATUS_ERROR)
		log_capture(c, LOG_ERROR, position);
	if (position != before)
		c->flags |= PTAH_CAPTURED_DATA;
	if (c->flags & (PTAH_CAPTURED_TRUNCATED | PTAH_CAPTURED_ERROR | PTAH_CAPTURED_PARTIAL))
		c->kept &= ~PTAH_RTIT_STATUS_BYTECNT_MASK; /* the next slice begins with a PSB */
	atomic_store_explicit(&c->position, position, memory_order_release);
}

/* Bytes that a buffer that wraps has overwritten before the consumer took them, and that have not
 * been reported. */
static uint64_t judge_loss(struct ptah_capture *c)
{
	uint64_t oldest = room_oldest(c, position_of(c)), tail, lost;

	page_adopt(c);
	tail = atomic_load_explicit(&c->tail, memory_order_acquire);
	if (!oldest || c->policy != PTAH_POLICY_WRAP)
		return 0;
	if (!c->wrapped) {
		c->wrapped = true;
		c->flags |= PTAH_CAPTURED_WRAPPED;
	}
	if (c->told < tail)
		c->told = tail;
	if (!tail || oldest <= c->told)
		return 0;
	lost = oldest - c->told;
	c->told = oldest;
	c->flags |= PTAH_CAPTURED_LOST;
	log_capture(c, LOG_LOST, lost);
	return lost;
}

static void let_drain(struct ptah_capture *c)
{
	uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
	uint64_t position = position_of(c), upto;

	if (!c->drain || position == tail)
		return;
	upto = c->drain(c->cookie, c, tail, position);
	if (upto > tail && upto <= position)
		atomic_store_explicit(&c->tail, upto, memory_order_release);
}

void hardware_look(struct ptah_capture *c, struct engine_cpu *cpu, bool leave)
{
	struct registers r = {0};
	bool on;

	if (!atomic_load_explicit(&c->running, memory_order_relaxed)) {
		if (atomic_load_explicit(&cpu->unmask, memory_order_relaxed) && pmi_pending(c))
			acknowledge(c, cpu);
		return;
	}
	on = leave && c->xsaves && cpu->pinned && !c->external ? halt_by_xsaves(c, &r)
							       : halt_by_msr(c, &r);
	if (leave)
		note_turn(c);
	r.pmi = pmi_pending(c);
	count_up(&c->looks);
	judge(c, &r, on);
	/* Not before: whoever sees that it does not run takes the position for exact. */
	atomic_store(&c->running, false);
	/* VM exit has cleared all of CTL; bit 55 can be cleared only while CTL.ToPA is 1. */
	if (r.pmi && !(r.ctl & PTAH_RTIT_CTL_TOPA))
		write_register(c, PTAH_IA32_RTIT_CTL, c->ctl);
	if (r.pmi)
		acknowledge(c, cpu);
	if (leave)
		c->flags |= PTAH_CAPTURED_STOPPED;
	let_drain(c);
}

uint64_t hardware_live(const struct ptah_capture *c)
{
	uint64_t base, again, ptrs;
	unsigned tries = 4;

	/* Two registers: output may go on to the next table between the reads. */
	read_register(c, PTAH_IA32_RTIT_OUTPUT_BASE, &again);
	do {
		base = again;
		read_register(c, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, &ptrs);
		read_register(c, PTAH_IA32_RTIT_OUTPUT_BASE, &again);
	} while (base != again && --tries);
	return base == again ? room_live(c, base, ptrs) : position_of(c);
}

/* False: there is nothing new to record. */
static bool make_record(struct ptah_capture *c, unsigned number)
{
	const struct ptah_hal *hal = c->engine->hal;
	struct ptah_capture_record record = {.cpu = number};

	record.lost = judge_loss(c) + c->unkept;
	c->unkept = 0;
	c->overwritten += record.lost;
	if (atomic_exchange(&c->gap, false))
		c->flags |= PTAH_CAPTURED_PARTIAL;
	if (!c->flags)
		return atomic_load(&c->page.consumer) && record_push_owed(&c->records);
	record.position = position_of(c);
	record.flags = c->flags;
	if (hal->rdmsr(c->engine->port, PTAH_IA32_TIME_STAMP_COUNTER, &record.time) < 0)
		record.time = 0;
	c->flags = 0;
	record_push(&c->records, &record);
	return true;
}

void hardware_record(struct ptah_capture *c, unsigned number)
{
	const struct ptah_hal *hal = c->engine->hal;
	bool news = make_record(c, number);

	if (page_publish(c))
		engine_note(&c->engine->cpu[number]);
	if (news && hal->wake)
		hal->wake(c->engine->port, c->cookie);
}

/* IA32_RTIT_STATUS for the next start. Its sticky bits (Error, Stopped) are 0, because nothing is
 * traced while one is set. */
static uint64_t next_status(const struct ptah_capture *c, const struct ptah_caps *caps)
{
	uint64_t keep = 0;

	if (caps->psb_cyc && !(c->fresh && c->trace.force_psb))
		keep |= PTAH_RTIT_STATUS_BYTECNT_MASK;
	if (caps->psb_pmi_preserve)
		keep |= PTAH_RTIT_STATUS_PEND_PSB;
	return c->kept & keep;
}

/* OUTPUT_BASE and MASK_PTRS for output that continues at the position. */
static void next_output(struct ptah_capture *c, struct registers *r)
{
	uint64_t position = position_of(c);

	c->place = room_place(c, position);
	if (c->shape == PTAH_SHAPE_SINGLE) {
		r->base = c->topa.blocks[0].physical;
		r->ptrs = (c->topa.lap - 1) | c->place.offset << PTAH_RTIT_MASK_PTRS_OFFSET;
		return;
	}
	r->base = c->topa.tables[c->place.page].physical;
	r->ptrs = UINT64_C(0x7f) | (uint64_t)c->place.index << PTAH_RTIT_MASK_PTRS_INDEX |
		  c->place.offset << PTAH_RTIT_MASK_PTRS_OFFSET;
}

static int program_ranges(struct ptah_capture *c, const struct ptah_caps *caps)
{
	unsigned n;
	int status = PTAH_OK;

	/* All that exist, so that no range of another capture remains. */
	for (n = 0; n < caps->ranges && n < PTAH_RANGES && status == PTAH_OK; n++) {
		const struct ptah_range *range = &c->trace.ranges[n];
		bool used = range->mode != PTAH_RANGE_OFF;

		status = write_register(c, PTAH_IA32_RTIT_ADDR(n), used ? range->first : 0);
		if (status == PTAH_OK)
			status =
			    write_register(c, PTAH_IA32_RTIT_ADDR(n) + 1, used ? range->last : 0);
	}
	return status;
}

static int program_by_msr(struct ptah_capture *c, const struct ptah_caps *caps,
			  const struct registers *r)
{
	int status = write_register(c, PTAH_IA32_RTIT_STATUS, r->status);

	if (status == PTAH_OK)
		status = write_register(c, PTAH_IA32_RTIT_OUTPUT_BASE, r->base);
	if (status == PTAH_OK)
		status = write_register(c, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, r->ptrs);
	if (status == PTAH_OK && caps->cr3_filter)
		status = write_register(c, PTAH_IA32_RTIT_CR3_MATCH,
					c->trace.cr3_filter ? c->trace.cr3 : 0);
	if (status == PTAH_OK)
		status = program_ranges(c, caps);
	return status;
}

/* The area is written completely each time, so that nothing in it is older than the
 * configuration. */
static int program_by_xrstors(struct ptah_capture *c, const struct registers *r)
{
	uint8_t *pt = c->xsave + XSAVE_PT;
	unsigned n;

	memset(c->xsave, 0, sizeof(c->xsave));
	store_le64(c->xsave + XSAVE_BV, PTAH_XSTATE_PT);
	store_le64(c->xsave + XSAVE_COMPACTED, COMPACTED | PTAH_XSTATE_PT);
	store_le64(pt + 8 * XS_CTL, c->ctl | PTAH_RTIT_CTL_TRACE_EN);
	store_le64(pt + 8 * XS_BASE, r->base);
	store_le64(pt + 8 * XS_PTRS, r->ptrs);
	store_le64(pt + 8 * XS_STATUS, r->status);
	store_le64(pt + 8 * XS_CR3, c->trace.cr3_filter ? c->trace.cr3 : 0);
	for (n = 0; n < 2; n++) {
		const struct ptah_range *range = &c->trace.ranges[n];

		if (range->mode == PTAH_RANGE_OFF)
			continue;
		store_le64(pt + 8 * (XS_ADDR + 2 * n), range->first);
		store_le64(pt + 8 * (XS_ADDR + 2 * n + 1), range->last);
	}
	if (c->engine->hal->xrstors(c->engine->port, c->xsave, PTAH_XSTATE_PT) < 0) {
		c->msr = PTAH_IA32_RTIT_CTL;
		return PTAH_E_UNSUPPORTED;
	}
	return PTAH_OK;
}

unsigned hardware_obstacle(const struct ptah_engine *engine, struct engine_cpu *cpu)
{
	const struct ptah_hal *hal = engine->hal;
	const struct ptah_caps *shown = &cpu->caps;
	uint64_t ctl;

	if (hal->in_vmx && !cpu->caps.vmx_pt && hal->in_vmx(engine->port))
		shown = &cpu->caps_in_vmx;
	else if (hal->rdmsr(engine->port, PTAH_IA32_RTIT_CTL, &ctl) < 0)
		return PTAH_CAPS_NO_MSR;
	else if (ctl & PTAH_RTIT_CTL_TRACE_EN)
		shown = &cpu->caps_in_use;
	atomic_store(&cpu->shown, shown);
	return shown->obstacle;
}

int hardware_may_load(struct ptah_capture *c, struct engine_cpu *cpu)
{
	switch (hardware_obstacle(c->engine, cpu)) {
	case PTAH_CAPS_VMX:
		return PTAH_E_UNSUPPORTED;
	case PTAH_CAPS_NO_MSR:
		c->msr = PTAH_IA32_RTIT_CTL;
		return PTAH_E_UNSUPPORTED;
	case PTAH_CAPS_IN_USE:
		return PTAH_E_BUSY;
	default:
		return PTAH_OK;
	}
}

void hardware_log_refusal(struct ptah_capture *c, int status)
{
	unsigned line = status == PTAH_E_BUSY ? LOG_IN_USE : LOG_VMX;

	log_capture(c, c->msr ? LOG_FAULT : line, c->msr);
}

/* Writes all registers, TraceEn last. */
static int program(struct ptah_capture *c, struct engine_cpu *cpu)
{
	struct registers r = {0};
	int status;

	/* Left over from before: the bit does not concern the slice that begins now. */
	if (pmi_pending(c)) {
		write_register(c, PTAH_IA32_RTIT_CTL, c->ctl);
		acknowledge(c, cpu);
	}
	r.status = next_status(c, &cpu->caps);
	next_output(c, &r);
	if (c->xsaves && cpu->pinned && !c->external)
		return program_by_xrstors(c, &r);
	status = program_by_msr(c, &cpu->caps, &r);
	if (status == PTAH_OK && !c->external)
		status = write_register(c, PTAH_IA32_RTIT_CTL, c->ctl | PTAH_RTIT_CTL_TRACE_EN);
	return status;
}

/*
 * True: there is no room, so the capture waits (HALT_FULL). With DRAIN this function searches for
 * room again after it has set `halt`: a consumer that made room just before did not see `halt` and
 * so requested no look.
 */
static bool wait_for_room(struct ptah_capture *c)
{
	bool waits = atomic_load(&c->halt) == HALT_FULL;

	if (waits && c->policy == PTAH_POLICY_STOP)
		return true;
	if (room_find(c)) {
		atomic_store(&c->halt, HALT_NONE);
		return false;
	}
	atomic_store(&c->halt, HALT_FULL);
	if (c->policy == PTAH_POLICY_DRAIN && room_find(c)) {
		atomic_store(&c->halt, HALT_NONE);
		return false;
	}
	if (!waits) {
		count_up(&c->full);
		c->flags |= PTAH_CAPTURED_FULL | PTAH_CAPTURED_STOPPED;
		c->program = true;
		log_capture(c, LOG_FULL, position_of(c));
	}
	return true;
}

static int enable(struct ptah_capture *c, struct engine_cpu *cpu)
{
	int status;

	if (cpu->loaded == c && !c->program)
		return write_register(c, PTAH_IA32_RTIT_CTL, c->ctl | PTAH_RTIT_CTL_TRACE_EN);
	status = hardware_may_load(c, cpu);
	if (status < 0) {
		atomic_store(&c->error, status);
		return status;
	}
	return program(c, cpu);
}

int hardware_run(struct ptah_capture *c, struct engine_cpu *cpu)
{
	unsigned halt = atomic_load(&c->halt);
	int status;

	if (halt == HALT_RANGE || halt == HALT_ERROR || wait_for_room(c))
		return PTAH_OK;
	page_running(c);
	atomic_store(&c->running, true); /* before TraceEn, as the page says it */
	if (c->shape == PTAH_SHAPE_SINGLE)
		room_canary_set(c);
	status = enable(c, cpu);
	if (status < 0) {
		if (c->shape == PTAH_SHAPE_SINGLE)
			room_canary_lift(c, 0);
		atomic_store(&c->running, false);
		/* With `msr` set, the processor has refused a register; otherwise none was written.
		 */
		if (c->msr)
			fail(c, status);
		hardware_log_refusal(c, status);
		cpu->loaded = NULL;
		return status;
	}
	cpu->loaded = c;
	atomic_store(&c->error, PTAH_OK);
	if (c->fresh || c->program) {
		c->flags |= PTAH_CAPTURED_STARTED;
		count_up(&c->starts);
		note_turn(c);
	}
	c->fresh = c->program = false;
	if (c->verify) {
		uint64_t now;

		c->verify = false;
		read_register(c, PTAH_IA32_RTIT_STATUS, &now);
		if (now & PTAH_RTIT_STATUS_ERROR)
			hardware_look(c, cpu, false);
	}
	return atomic_load(&c->error);
}
