/* SPDX-License-Identifier: MIT */
/*
 * Reports to the model what the guest executes. QEMU calls the plugin when a block begins; how the
 * block before it ended follows from where control is now.
 */
#include "model/trace.h"
#include "record/system/system.h"

#define VECTOR_PF 14

void system_flow_stand(struct system_vcpu *v, uint64_t ip)
{
	v->running = NULL;
	v->at = ip;
	v->known = true;
}

/*
 * The address as packets and address ranges have it: linear, or, where CPUID.14H.0:ECX[31] (LIP) is
 * 0, the offset in the code segment.
 */
static uint64_t packet_ip(const struct system_vcpu *v, uint64_t linear, uint64_t base)
{
	if (!base || ptah_model_processor(v->model)->leaf_14_0[2] >> 31)
		return linear;
	return (uint32_t)(linear - base);
}

static void set_paging(struct system_vcpu *v, const struct system_place *place)
{
	v->model->program.paging = place->pae ? MODEL_PAGING_PAE : MODEL_PAGING_4_LEVEL;
}

static struct ptah_model_context context_of(const struct system_place *place)
{
	return (struct ptah_model_context){.cr3 = place->cr3,
					   .cpl = place->cpl,
					   .mode = place->mode,
					   .interrupts = place->interrupts};
}

/* SDM Table "FUP Cases and IP Payload": the FUP of a WRMSR that clears TraceEn has its own address,
 * and the TIP.PGE of one that sets it the address after it. */
void system_flow_begin(struct system_vcpu *v, const struct system_block *b)
{
	struct ptah_model_context context;
	struct system_place place;

	if (model_trace_en(v->model)) {
		ptah_model_stand(v->model, packet_ip(v, b->start, b->base));
		return;
	}
	system_find_place(v, &place);
	v->cr3 = place.cr3;
	v->base = b->base;
	context = context_of(&place);
	set_paging(v, &place);
	ptah_model_begin(v->model, packet_ip(v, b->start + b->sizes[0], b->base), &context);
	ptah_model_set_tsc(v->model, system_now(v));
}

void system_flow_end(struct system_vcpu *v)
{
	system_tracing(v, false);
	v->known = false;
}

/* The n instructions of b in [b->start, end) have run; the last one is of this kind. */
static void count_block_insns(struct system_vcpu *v, const struct system_block *b, uint64_t end,
			      unsigned n, unsigned kind, bool taken)
{
	system_truth_run(&v->truth, v->model, packet_ip(v, b->start, b->base),
			 packet_ip(v, end, b->base), n, kind, taken);
}

void system_flow_count_trap(struct system_vcpu *v, const struct system_block *b, unsigned length)
{
	if (v->traced)
		count_block_insns(v, b, b->start + length, 1, PTAH_INSN_OTHER, false);
}

void system_flow_step(struct system_vcpu *v, uint64_t ip)
{
	if (v->traced)
		ptah_model_stand(v->model, packet_ip(v, ip, v->base));
	system_flow_stand(v, ip);
}

/* The number of instructions before `ip`, if one begins there; else -1. */
static int insns_before(const struct system_block *b, uint64_t ip)
{
	uint64_t at = b->start;

	for (int i = 0; i < b->ninsn; at += b->sizes[i++])
		if (at == ip)
			return i;
	return -1;
}

/* Whether b, run to its end, can lead to `next`. */
static bool leads_to(const struct system_block *b, uint64_t next)
{
	switch (b->kind) {
	case PTAH_INSN_COND:
	case KIND_REP:
		return next == b->end || next == b->target;
	case PTAH_INSN_JUMP:
	case PTAH_INSN_CALL:
		return next == b->target;
	case PTAH_INSN_OTHER:
	case PTAH_INSN_PTWRITE:
		return next == b->end;
	default:
		return true;
	}
}

static bool traces_events(const struct system_vcpu *v)
{
	return v->model->ctl & PTAH_RTIT_CTL_EVENT_EN;
}

/* With Event Trace, changes of RFLAGS.IF have packets. The next instruction is at `ip`. */
static void report_interrupt_flag(struct system_vcpu *v, uint64_t ip, bool on)
{
	if (v->model->program.interrupts != on)
		ptah_model_interrupt_flag(v->model, packet_ip(v, ip, v->base), on);
}

/* b has run up to `end`, which is at this place: if it has a CLI, that has had an effect where IF
 * is 0 now. */
static void report_cli(struct system_vcpu *v, const struct system_block *b, uint64_t end,
		       const struct system_place *place)
{
	uint64_t at = b->start;

	if (LIKELY(!b->after_cli || !traces_events(v)) || place->interrupts)
		return;
	for (unsigned i = 0; i < b->after_cli; i++)
		at += b->sizes[i];
	if (at <= end)
		report_interrupt_flag(v, at, false);
}

/* What Event Trace has about an interrupt or exception. */
static void describe_event(const struct system_vcpu *v, struct ptah_model_transfer *transfer,
			   const struct system_place *to)
{
	const bool exception = transfer->kind == PTAH_MODEL_EXCEPTION;

	if (!exception && transfer->kind != PTAH_MODEL_INTERRUPT)
		return;
	transfer->vector = system_find_vector(v, exception, to);
	transfer->page_fault = exception && transfer->vector == VECTOR_PF;
	if (transfer->page_fault)
		transfer->address = system_read(v->cpu, HOST_CR2);
}

/* A transfer from `from`, a linear address in the segment that was in use, to a place. */
static void report_transfer(struct system_vcpu *v, unsigned kind, uint64_t from,
			    const struct system_place *to)
{
	struct ptah_model_transfer transfer = {.kind = (uint8_t)kind,
					       .ip = packet_ip(v, from, v->base),
					       .to = packet_ip(v, to->ip, to->base),
					       .after = context_of(to)};

	if (UNLIKELY(traces_events(v)))
		describe_event(v, &transfer, to);
	system_pass_time(v);
	set_paging(v, to);
	ptah_model_transfer(v->model, &transfer);
	v->cr3 = to->cr3;
	v->base = to->base;
}

static void report_near(struct system_vcpu *v, const struct system_block *b, uint64_t next)
{
	const struct ptah_model_branch branch = {.ip = packet_ip(v, b->end - b->last_size, b->base),
						 .end = packet_ip(v, b->end, b->base),
						 .to = packet_ip(v, next, b->base),
						 .kind = b->kind,
						 .taken = next != b->end};

	ptah_model_branch(v->model, &branch);
}

/* Counts b, which has run to its end and led to `next`. A rep instruction counts once, with its
 * last iteration. */
static void count_run(struct system_vcpu *v, const struct system_block *b, uint64_t next)
{
	const unsigned again = b->kind == KIND_REP && next == b->target;

	count_block_insns(v, b, again ? b->target : b->end, b->ninsn - again, b->kind,
			  next != b->end);
}

/* The model takes over where the CPU is, without packets; its TraceEn is 0. */
static void begin_at(struct system_vcpu *v, const struct system_place *place)
{
	const struct ptah_model_context context = context_of(place);

	set_paging(v, place);
	ptah_model_begin(v->model, packet_ip(v, place->ip, place->base), &context);
	v->cr3 = place->cr3;
	v->base = place->base;
}

void system_flow_smi(struct system_vcpu *v, const struct system_place *to)
{
	system_pass_time(v);
	ptah_model_smi(v->model);
	begin_at(v, to);
	system_flow_stand(v, to->ip);
}

static void report_rsm(struct system_vcpu *v, const struct system_place *place)
{
	begin_at(v, place);
	system_pass_time(v);
	ptah_model_rsm(v->model);
}

/* b has run to its end, and led to this place. */
static void report_block_end(struct system_vcpu *v, const struct system_block *b,
			     const struct system_place *place)
{
	const uint64_t next = place->ip;

	count_run(v, b, next);
	report_cli(v, b, b->end, place);
	switch (b->kind) {
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_JUMP:
	case PTAH_INSN_FAR_RETURN:
		if (UNLIKELY(b->is_rsm && v->model->program.smm)) {
			report_rsm(v, place);
			break;
		}
		report_transfer(v, b->is_iret ? PTAH_MODEL_IRET : PTAH_MODEL_FAR,
				b->end - b->last_size, place);
		break;
	case PTAH_INSN_OTHER:
	case PTAH_INSN_PTWRITE:
	case KIND_REP:
		ptah_model_stand(v->model, packet_ip(v, next, b->base));
		if (b->writes_cr3) {
			v->cr3 = place->cr3;
			set_paging(v, place);
			ptah_model_mov_cr3(v->model, packet_ip(v, next, b->base), v->cr3);
		}
		if (UNLIKELY(traces_events(v)))
			report_interrupt_flag(v, next, place->interrupts);
		break;
	default:
		report_near(v, b, next);
	}
}

static void lost(struct system_vcpu *v, const struct system_block *b, uint64_t ip)
{
	if (v->truth.lost++ >= 20)
		return;
	if (b)
		system_say("processor %u: after block %" PRIx64 "-%" PRIx64 " kind %u at %" PRIx64,
			   v->index, b->start, b->end, b->kind, ip);
	else
		system_say("processor %u: expected at %" PRIx64 ", is at %" PRIx64, v->index, v->at,
			   ip);
}

/*
 * A near branch of 16-bit code whose target lies beyond the end of its segment of 64 KiB, and wraps
 * around. Its packets do not say so, and a decoder does not know where the segment begins.
 */
static bool wraps_to(const struct system_block *b, uint64_t next)
{
	return b->mode == PTAH_EXEC_16 && next != b->target &&
	       next == b->base + ((b->target - b->base) & 0xffff) &&
	       (b->kind == PTAH_INSN_COND || b->kind == PTAH_INSN_JUMP ||
		b->kind == PTAH_INSN_CALL);
}

/*
 * In a recording from outside such a branch is an interrupt before it, which leads to its target:
 * the packets have both addresses, and the instruction does not count.
 */
static void report_wrap(struct system_vcpu *v, const struct system_block *b, uint64_t next)
{
	struct ptah_model_transfer transfer = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = b->end - b->last_size, .to = next};

	if (b->ninsn > 1)
		count_block_insns(v, b, transfer.ip, b->ninsn - 1u, PTAH_INSN_OTHER, false);
	ptah_model_context(v->model, &transfer.after);
	ptah_model_transfer(v->model, &transfer);
}

void system_flow_arrive(struct system_vcpu *v, const struct system_place *place, bool faulted)
{
	const struct system_block *b = v->running;
	const uint64_t ip = place->ip;
	int before;

	if (!b) {
		if (v->known && v->at != ip) {
			lost(v, NULL, ip);
			v->base = place->base;
			ptah_model_stand(v->model, packet_ip(v, ip, v->base));
		}
		return;
	}
	if (UNLIKELY(v->outside) && wraps_to(b, ip)) {
		v->base = b->base;
		report_wrap(v, b, ip);
		system_flow_stand(v, ip);
		return;
	}
	if (LIKELY(!faulted && (leads_to(b, ip) || wraps_to(b, ip)))) {
		v->base = b->base;
		report_block_end(v, b, place);
		system_flow_stand(v, ip);
		return;
	}
	before = insns_before(b, ip);
	if ((faulted && before >= 0) || (!leads_to(b, ip) && !wraps_to(b, ip))) {
		if (before < 0)
			lost(v, b, ip);
		else if (before)
			count_block_insns(v, b, ip, (unsigned)before, PTAH_INSN_OTHER, false);
		report_cli(v, b, ip, place);
		v->base = place->base;
		ptah_model_stand(v->model, packet_ip(v, ip, v->base));
	} else {
		v->base = b->base;
		report_block_end(v, b, place);
	}
	system_flow_stand(v, ip);
}

void system_flow_interrupted(struct system_vcpu *v, unsigned kind, uint64_t from)
{
	struct system_place to;

	system_find_place(v, &to);
	system_truth_event(&v->truth, v->model, kind);
	report_transfer(v, kind, from, &to);
	system_flow_stand(v, to.ip);
	if (v->model->pmi_pending)
		system_poll_pmi(v);
}

/*
 * QEMU does not keep where the CPU was. If the running block ends with a branch that may lead to
 * several places, the INIT is reported before this branch; the decoder then stops there.
 */
static uint64_t address_before_init(struct system_vcpu *v)
{
	const struct system_block *b = v->running;

	if (!b)
		return v->at;
	v->base = b->base;
	switch (b->kind) {
	case PTAH_INSN_OTHER:
	case PTAH_INSN_PTWRITE:
		count_block_insns(v, b, b->end, b->ninsn, PTAH_INSN_OTHER, false);
		return b->end;
	default:
		if (b->ninsn > 1)
			count_block_insns(v, b, b->end - b->last_size, b->ninsn - 1u,
					  PTAH_INSN_OTHER, false);
		return b->end - b->last_size;
	}
}

void system_flow_init(struct system_vcpu *v, unsigned kind, const struct system_place *to)
{
	const uint64_t from = address_before_init(v);

	system_truth_event(&v->truth, v->model, kind);
	report_transfer(v, kind, from, to);
	system_flow_stand(v, to->ip);
}

void system_flow_sipi(struct system_vcpu *v)
{
	struct system_place to;

	system_find_place(v, &to);
	report_transfer(v, PTAH_MODEL_SIPI, v->at, &to);
	system_flow_stand(v, to.ip);
}

static bool is_far(const struct system_block *b)
{
	return b->kind == PTAH_INSN_FAR_CALL || b->kind == PTAH_INSN_FAR_JUMP ||
	       b->kind == PTAH_INSN_FAR_RETURN;
}

/* Whether what ends with b needs more than the address of the next block. */
static bool needs_place(const struct system_block *b)
{
	return b->writes_cr3 || is_far(b);
}

static void arrive_at_block(struct system_vcpu *v, const struct system_block *b)
{
	struct system_place place = {.base = b->base};

	if (v->running && (needs_place(v->running) || traces_events(v)))
		system_find_place(v, &place);
	place.ip = b->start;
	if (UNLIKELY(b->base != v->base) && system_at_reset_vector(b->start, b->base) &&
	    !(v->running && is_far(v->running))) {
		system_find_place(v, &place);
		system_flow_init(v, PTAH_MODEL_INIT, &place);
		return;
	}
	system_flow_arrive(v, &place, false);
}

/*
 * The same for most blocks, with most configurations: the branch goes directly to the model's
 * packet generator, which takes half the time. The bytes are the same (tests/model/test_trace.c).
 * False: nothing was done.
 */
static ALWAYS_INLINE bool arrive_plainly(struct system_vcpu *v, const struct system_block *b,
					 uint64_t next)
{
	struct ptah_model *m = v->model;
	const bool taken = next != b->end;

	if (b->base || !model_trace_is_plain(m) || traces_events(v))
		return false;
	if (b->kind == PTAH_INSN_COND ? taken && next != b->target
				      : !leads_to(b, next) || b->writes_cr3)
		return false;
	if (b->kind > PTAH_INSN_RETURN && b->kind != KIND_REP)
		return false;
	count_run(v, b, next);
	switch (b->kind) {
	case PTAH_INSN_COND:
		generator_tnt(&m->g, taken);
		break;
	case PTAH_INSN_RETURN:
		if (generator_pop(&m->g, next))
			generator_tnt(&m->g, true);
		else
			model_emit_tip(m, next);
		break;
	case PTAH_INSN_CALL_IND:
		generator_call(&m->g, b->end);
		model_emit_tip(m, next);
		break;
	case PTAH_INSN_JUMP_IND:
		model_emit_tip(m, next);
		break;
	case PTAH_INSN_CALL:
		if (taken) /* not to the next instruction */
			generator_call(&m->g, b->end);
		break;
	default:
		break;
	}
	system_flow_stand(v, next);
	if (UNLIKELY(m->g.out >= m->limit))
		model_trace_attend(m, next);
	return true;
}

/* How many blocks may run until the model's clock is set, and until a pending PMI is looked at. */
#define BLOCKS_PER_TIME 64

void system_flow_block(struct system_vcpu *v, const struct system_block *b)
{
	if (!v->running || b->base || !arrive_plainly(v, v->running, b->start))
		arrive_at_block(v, b);
	v->base = b->base;
	v->model->program.ip = packet_ip(v, b->start, b->base);
	if (UNLIKELY(v->model->pmi_pending) && (!v->pmi_waits || !++v->pmi_blocks))
		system_poll_pmi(v);
	if (!(v->blocks % BLOCKS_PER_TIME))
		system_pass_time(v);
}
