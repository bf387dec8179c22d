/* SPDX-License-Identifier: MIT */
/*
 * Packet generation (trace.h): the enables, TraceEn, near branches. SDM "Packet
 * Generation Enable Controls", "Enabling and Disabling Packet Generation with
 * TraceEn", Table "Packet Generation under Different Enable Conditions".
 */
#include "model/trace.h"

#include <ptah/event.h>

/* Enables */

/* SDM "Context Enable (ContextEn)"; "Filtering by CR3": bits 63:12, 63:5 with PAE paging. */
static bool in_context(const struct ptah_model *m)
{
	const struct model_program *p = &m->program;
	const uint64_t low = p->paging == MODEL_PAGING_PAE ? 0x1f : 0xfff;

	if (!(m->ctl & (p->cpl ? PTAH_RTIT_CTL_USER : PTAH_RTIT_CTL_OS)) || p->enclave)
		return false;
	return !(m->ctl & PTAH_RTIT_CTL_CR3_FILTER) || !((p->cr3 ^ m->cr3_match) & ~low);
}

static unsigned range_config(const struct ptah_model *m, unsigned n)
{
	return m->ctl >> PTAH_RTIT_CTL_ADDR_CFG(n) & 0xf;
}

/* Whether ip is in a range with this mode. *any: is there such a range? Both ends are inclusive. */
static bool in_range(const struct ptah_model *m, uint64_t ip, unsigned config, bool *any)
{
	bool in = false;

	*any = false;
	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		if (range_config(m, n) != config)
			continue;
		*any = true;
		in = in || (ip >= m->addr[2 * n] && ip <= m->addr[2 * n + 1]);
	}
	return in;
}

void model_trace_arrive(struct ptah_model *m)
{
	bool filters, stops;

	if (!model_trigger_en(m))
		return;
	m->context_en = in_context(m);
	if (m->context_en && m->ranged) {
		m->trace_stop = in_range(m, m->program.ip, PTAH_RANGE_STOP, &stops);
		m->filter_en = in_range(m, m->program.ip, PTAH_RANGE_FILTER, &filters);
		m->filter_en = (m->filter_en || !filters) && !m->trace_stop;
	}
	m->packet_en = m->context_en && m->filter_en && m->ctl & PTAH_RTIT_CTL_BRANCH_EN;
}

/* Transfers */

/* TIP.PGD has a target while ContextEn is 1: Table "TIP.PGD Packet Definition". */
static bool tells_target(const struct ptah_model *m, enum model_shows shows)
{
	if (!m->context_en)
		return false;
	if (shows == MODEL_SHOWS_TNT)
		return !m->choices.conditional_bare;
	return shows != MODEL_SHOWS_NOTHING || !model_has_erratum(m, PTAH_ERRATUM_SKL014);
}

static void show(struct ptah_model *m, enum model_shows shows)
{
	switch (shows) {
	case MODEL_SHOWS_TNT:
		model_emit_outcome(m, true);
		break;
	case MODEL_SHOWS_RETURN:
		if (generator_pop(&m->g, m->program.ip)) {
			model_emit_outcome(m, true);
			break;
		}
		/* Not deferred: a decoder would take a pending outcome for the compressed return.
		 */
		model_emit_flush(m);
		model_emit_tip(m, m->program.ip);
		break;
	case MODEL_SHOWS_TIP:
		model_emit_tip(m, m->program.ip);
		break;
	case MODEL_SHOWS_TIP_FAR:
		model_emit_mode(m);
		model_emit_flush(m);
		model_emit_tip(m, m->program.ip);
		break;
	default:
		break;
	}
}

void model_trace_transfer(struct ptah_model *m, bool before, enum model_shows shows)
{
	if (before && m->packet_en)
		show(m, shows);
	else if (before)
		model_emit_disable(m, tells_target(m, shows) ? &m->program.ip : NULL);
	else if (m->packet_en)
		model_emit_enable(m, m->program.ip);
	if (m->trace_stop)
		model_emit_trace_stop(m);
}

bool model_trace_enter(struct ptah_model *m, const struct ptah_model_context *after)
{
	struct model_program *p = &m->program;
	bool changed = p->cr3 != after->cr3;

	p->cr3 = after->cr3;
	p->cpl = after->cpl;
	p->cs_l = after->mode == PTAH_EXEC_64;
	p->cs_d = after->mode == PTAH_EXEC_32;
	p->interrupts = after->interrupts;
	p->enclave = after->enclave;
	return changed;
}

static enum model_shows near_shows(const struct ptah_model_branch *b)
{
	switch (b->kind) {
	case PTAH_INSN_COND:
		return MODEL_SHOWS_TNT;
	case PTAH_INSN_RETURN:
		return MODEL_SHOWS_RETURN;
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_CALL_IND:
		return MODEL_SHOWS_TIP;
	default:
		return MODEL_SHOWS_NOTHING;
	}
}

/*
 * choices.mark_loops. A decoder that follows the code from the last packet cannot go wrong before
 * the next branch that has a packet; but an interrupt's address may be reached more than once. A
 * branch backwards is therefore marked before the next one and before an interrupt.
 */
static void keep_unmarked(struct ptah_model *m, const struct ptah_model_branch *b)
{
	const bool silent = b->kind == PTAH_INSN_JUMP || b->kind == PTAH_INSN_CALL;

	if (!silent) {
		m->unmarked = false;
	} else if (b->to <= b->ip) {
		model_emit_marks(m);
		m->unmarked = b->to != b->ip && m->packet_en &&
			      !(m->ctl & (PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_EVENT_EN));
		m->unmarked_ip = b->ip;
		m->unmarked_to = b->to;
	}
}

void ptah_model_branch(struct ptah_model *m, const struct ptah_model_branch *b)
{
	const bool before = m->packet_en;

	model_emit_begin(m);
	if (UNLIKELY(m->choices.mark_loops))
		keep_unmarked(m, b);
	if (b->kind == PTAH_INSN_COND && !b->taken) {
		m->program.ip = b->end;
		if (before)
			model_emit_outcome(m, false);
		model_emit_end(m);
		return;
	}
	m->program.ip = b->to;
	if (m->ranged)
		model_trace_arrive(m);
	m->unmarked = m->unmarked && m->packet_en;
	/* No return belongs to a direct call to the next instruction. */
	if (before && m->packet_en &&
	    (b->kind == PTAH_INSN_CALL_IND || (b->kind == PTAH_INSN_CALL && b->to != b->end)))
		generator_call(&m->g, b->end);
	model_trace_transfer(m, before, near_shows(b));
	model_emit_end(m);
}

/* TraceEn */

static void configure(struct ptah_model *m)
{
	struct ptah_clock *c = &m->clock;
	bool filters;

	c->tsc_en = m->ctl & PTAH_RTIT_CTL_TSC_EN;
	c->mtc_en = m->ctl & PTAH_RTIT_CTL_MTC_EN;
	c->cyc_en = m->ctl & PTAH_RTIT_CTL_CYC_EN;
	c->mtc_freq = m->ctl >> PTAH_RTIT_CTL_MTC_FREQ & 0xf;
	c->cyc_thresh = m->ctl >> PTAH_RTIT_CTL_CYC_THRESH & 0xf;
	c->told = c->cycles; /* the counter is 0 while TriggerEn is 0 */
	c->next_mtc = (clock_crystal(c) >> c->mtc_freq) + 1;
	m->g.retcomp = !(m->ctl & PTAH_RTIT_CTL_DIS_RETC);
	m->g.tnt_full = UINT64_C(1) << (m->choices.long_tnt ? 47 : 6);
	m->g.psb_ip = m->choices.whole_ip ? GENERATOR_NO_IP : 0;
	m->g.tnt = 1;
	m->g.depth = 0;
	/* Meanwhile the registers may have been those of another stream (XRSTORS). */
	m->g.last_ip = GENERATOR_NO_IP;
	m->told_mode = 0;
	m->deferred_count = 0;
	m->overflowing = m->waiting = m->trace_stop = m->unmarked = false;
	m->overflow_from = model_generated(m);
	m->ranged = false;
	for (unsigned n = 0; n < PTAH_RANGES; n++)
		m->ranged = m->ranged || range_config(m, n) != PTAH_RANGE_OFF;
	in_range(m, 0, PTAH_RANGE_FILTER, &filters);
	m->filter_en = !filters;
}

/*
 * Whether the slice begins with a PSB+. Always where PSBs cannot be configured, because
 * PacketByteCnt is not kept there.
 */
static bool begins_with_psb(const struct ptah_model *m)
{
	return !m->psb_count || !(m->is->leaf_14_0[1] & 1u << 1) ||
	       (m->ctl & PTAH_RTIT_CTL_INJECT_PSBPMI && m->status & PTAH_RTIT_STATUS_PEND_PSB);
}

/* SMI and RSM, which clear and restore TraceEn, are events as well. */
static void cause(struct ptah_model *m)
{
	const struct ptah_packet cfe = {.type = PTAH_PACKET_CFE, .u.cfe.type = m->cause};

	if (m->cause && m->context_en && m->ctl & PTAH_RTIT_CTL_EVENT_EN)
		model_emit(m, &cfe, false);
}

/*
 * The table has TIP.PGE before the PSB+ (case 2e). But a decoder begins at the
 * PSB, and by erratum BDM70 the PSB+ has no FUP here and TIP.PGE follows it.
 */
void model_trace_started(struct ptah_model *m)
{
	bool enabled;

	configure(m);
	m->packet_en = false;
	if (!model_trigger_en(m))
		return;
	model_emit_begin(m);
	model_trace_arrive(m);
	enabled = m->packet_en;
	if (begins_with_psb(m)) {
		model_emit_psb(m, enabled && model_has_erratum(m, PTAH_ERRATUM_BDM70));
		m->told_mode = 0;
	} else {
		model_emit_time(m);
	}
	cause(m);
	model_trace_transfer(m, false, MODEL_SHOWS_NOTHING);
	model_emit_end(m);
}

void model_trace_stopping(struct ptah_model *m)
{
	if (model_trigger_en(m)) {
		model_emit_begin(m);
		if (m->overflowing) {
			m->packet_en = false;
			model_emit_overflow(m);
		}
		cause(m);
		model_emit_marks(m);
		if (m->packet_en) {
			model_emit_ip(m, OPCODE_FUP, m->program.ip);
			model_emit_disable(m, NULL);
		}
		model_emit_flush(m);
	}
	m->packet_en = false;
}

void model_trace_lost(struct ptah_model *m)
{
	m->packet_en = false;
	m->overflowing = m->waiting = m->trace_stop = false;
	m->g.tnt = 1;
	m->g.depth = 0;
	m->deferred_count = 0;
}

/* The program's position and time */

void ptah_model_choose(struct ptah_model *m, const struct ptah_model_choices *choices)
{
	m->choices = *choices;
	if (m->choices.deferred_tips > MODEL_DEFERRED)
		m->choices.deferred_tips = MODEL_DEFERRED;
}

void ptah_model_context(const struct ptah_model *m, struct ptah_model_context *context)
{
	const struct model_program *p = &m->program;

	memset(context, 0, sizeof(*context));
	context->cr3 = p->cr3;
	context->cpl = p->cpl;
	context->mode = p->cs_l ? PTAH_EXEC_64 : p->cs_d ? PTAH_EXEC_32 : PTAH_EXEC_16;
	context->interrupts = p->interrupts;
	context->enclave = p->enclave;
}

void ptah_model_stand(struct ptah_model *m, uint64_t ip)
{
	m->program.ip = ip;
}

void ptah_model_begin(struct ptah_model *m, uint64_t ip, const struct ptah_model_context *context)
{
	m->program.ip = ip;
	model_trace_enter(m, context);
}

void ptah_model_set_tsc(struct ptah_model *m, uint64_t tsc)
{
	m->clock.tsc = tsc;
	m->clock.next_mtc = (clock_crystal(&m->clock) >> m->clock.mtc_freq) + 1;
}

uint64_t ptah_model_tsc(const struct ptah_model *m)
{
	return m->clock.tsc;
}

/* SDM "MTC Packet": the packets before an MTC are about what ran before it, so pending outcomes are
 * sent first. */
void ptah_model_pass(struct ptah_model *m, uint64_t cycles)
{
	if (!model_trigger_en(m) || !m->clock.mtc_en) {
		clock_tick(&m->clock, cycles);
		return;
	}
	model_emit_begin(m);
	while (clock_reach(&m->clock, &cycles)) {
		model_emit_flush(m);
		clock_mtc(&m->clock, &m->g);
		model_emit_room(m);
		if (!model_trigger_en(m))
			m->clock.mtc_en = false;
	}
	model_emit_end(m);
}

void ptah_model_overflow(struct ptah_model *m, bool lost)
{
	if (!model_trigger_en(m) || lost == m->overflowing)
		return;
	if (lost) {
		m->overflowing = true;
		m->overflow_count = 0;
		m->state_lost = false;
		m->g.tnt = 1;
		m->deferred_count = 0;
		m->unmarked = false;
		return;
	}
	model_emit_begin(m);
	model_emit_overflow(m);
	model_emit_end(m);
}
