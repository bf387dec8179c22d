/* SPDX-License-Identifier: MIT */
/*
 * What a program does besides branching: CR3, VMCS, transactions, PTWRITE, the
 * interrupt flag, power states, PEBS. SDM "Packet Definitions", Table "PwrEvtEn
 * and PTWEn Packet Generation under Different Enable Conditions".
 */
#include "model/trace.h"

/* Case 5: a PIP. ContextEn may change, and execution may have reached a TraceStop range. */
void ptah_model_mov_cr3(struct ptah_model *m, uint64_t next, uint64_t cr3)
{
	const bool before = m->packet_en, context = m->context_en, filter = m->filter_en;

	model_emit_begin(m);
	m->program.cr3 = cr3;
	m->program.ip = next;
	if (model_trigger_en(m)) {
		model_trace_arrive(m);
		/* Not a branch: while ContextEn stays the same, so does FilterEn. */
		if (context && m->context_en && !m->trace_stop) {
			m->filter_en = filter;
			m->packet_en = filter && m->ctl & PTAH_RTIT_CTL_BRANCH_EN;
		}
		model_emit_pip(m);
		model_trace_transfer(m, before, MODEL_SHOWS_NOTHING);
	}
	model_emit_end(m);
}

void ptah_model_vmptrld(struct ptah_model *m, uint64_t next, uint64_t vmcs)
{
	model_emit_begin(m);
	m->program.ip = next;
	m->program.vmcs = vmcs;
	if (model_trigger_en(m))
		model_emit_vmcs(m);
	model_emit_end(m);
}

/* SDM "MODE.Exec Packet": with Event Trace a change of IF is a packet, with a FUP for the
 * instruction from which on it applies.
 */
void ptah_model_interrupt_flag(struct ptah_model *m, uint64_t next, bool on)
{
	model_emit_begin(m);
	m->program.interrupts = on;
	m->program.ip = next;
	if (m->packet_en && m->ctl & PTAH_RTIT_CTL_EVENT_EN && model_emit_mode(m))
		model_emit_ip(m, OPCODE_FUP, next);
	model_emit_end(m);
}

void ptah_model_tsx(struct ptah_model *m, uint64_t ip, uint64_t next, bool in_tx)
{
	m->program.ip = next;
	if (m->program.tsx == in_tx)
		return;
	model_emit_begin(m);
	m->program.tsx = in_tx;
	if (model_trigger_en(m) && m->context_en && m->ctl & PTAH_RTIT_CTL_BRANCH_EN) {
		model_emit_tsx(m, false);
		if (m->packet_en)
			model_emit_ip(m, OPCODE_FUP, ip);
	}
	model_emit_end(m);
}

void ptah_model_ptwrite(struct ptah_model *m, uint64_t ip, uint64_t next, uint64_t value,
			unsigned size)
{
	const bool fup = m->ctl & PTAH_RTIT_CTL_FUP_ON_PTW;
	const struct ptah_packet ptw = {
	    .type = PTAH_PACKET_PTW,
	    .u.ptw = {size == 8 ? 8 : 4, fup, size == 8 ? value : (uint32_t)value}};

	model_emit_begin(m);
	m->program.ip = next;
	if (model_trigger_en(m) && m->context_en && m->filter_en && m->ctl & PTAH_RTIT_CTL_PTW_EN) {
		model_emit(m, &ptw, true);
		if (fup)
			model_emit_ip(m, OPCODE_FUP, ip);
	}
	model_emit_end(m);
}

/* Power */

/* EXSTOP, with a FUP if the context may be traced. */
static void execution_stops(struct ptah_model *m, uint64_t ip)
{
	const struct ptah_packet exstop = {.type = PTAH_PACKET_EXSTOP,
					   .u.exstop.ip = m->context_en};

	model_emit(m, &exstop, true);
	if (m->context_en)
		model_emit_ip(m, OPCODE_FUP, ip);
}

/* Table: MWAIT, PWRE, EXSTOP, FUP. */
static void power_down(struct ptah_model *m, const struct ptah_model_sleep *s)
{
	const struct ptah_packet mwait = {.type = PTAH_PACKET_MWAIT, .u.mwait = {s->hints, s->ext}};
	const struct ptah_packet pwre = {.type = PTAH_PACKET_PWRE,
					 .u.pwre = {s->state, s->sub_state, s->hardware}};

	if (s->mwait && m->context_en)
		model_emit(m, &mwait, true);
	model_emit(m, &pwre, false);
	execution_stops(m, s->ip);
}

static void shut_down(struct ptah_model *m, uint64_t ip)
{
	const struct ptah_packet cfe = {
	    .type = PTAH_PACKET_CFE,
	    .u.cfe = {PTAH_CFE_SHUTDOWN, 0, m->context_en && m->filter_en}};

	if (!m->context_en || !(m->ctl & PTAH_RTIT_CTL_EVENT_EN))
		return;
	model_emit(m, &cfe, false);
	if (cfe.u.cfe.ip)
		model_emit_ip(m, OPCODE_FUP, ip);
}

void ptah_model_sleep(struct ptah_model *m, const struct ptah_model_sleep *sleep)
{
	model_emit_begin(m);
	if (model_trigger_en(m) && sleep->shutdown)
		shut_down(m, sleep->ip);
	if (model_trigger_en(m) && m->ctl & PTAH_RTIT_CTL_PWR_EVT_EN)
		power_down(m, sleep);
	model_emit_end(m);
}

/* Cycles and MTCs have stopped: TSC, TMA, CBR; then PWRX. */
void ptah_model_wake(struct ptah_model *m, const struct ptah_model_wake *w)
{
	const struct ptah_packet pwrx = {
	    .type = PTAH_PACKET_PWRX,
	    .u.pwrx = {w->last, w->deepest, w->interrupt, w->store, w->autonomous}};

	model_emit_begin(m);
	ptah_model_set_tsc(m, m->clock.tsc + w->ticks);
	if (model_trigger_en(m)) {
		model_emit_time(m);
		if (m->ctl & PTAH_RTIT_CTL_PWR_EVT_EN)
			model_emit(m, &pwrx, false);
	}
	model_emit_end(m);
}

void ptah_model_frequency(struct ptah_model *m, uint64_t ip, uint8_t ratio)
{
	struct ptah_clock *c = &m->clock;

	if (!ratio)
		return;
	model_emit_begin(m);
	if (model_trigger_en(m) && m->ctl & PTAH_RTIT_CTL_PWR_EVT_EN)
		execution_stops(m, ip);
	c->part = c->part * ratio / c->ratio;
	c->ratio = ratio;
	if (model_trigger_en(m))
		model_emit_time(m);
	model_emit_end(m);
}

/* Model-specific packets, PEBS, triggers */

void ptah_model_mnt(struct ptah_model *m, uint64_t value)
{
	const struct ptah_packet mnt = {.type = PTAH_PACKET_MNT, .u.mnt.payload = value};

	model_emit_begin(m);
	if (model_trigger_en(m))
		model_emit(m, &mnt, false);
	model_emit_end(m);
}

static void block(struct ptah_model *m, const struct ptah_model_pebs *p)
{
	const struct ptah_packet bbp = {.type = PTAH_PACKET_BBP, .u.bbp = {p->type, p->item_size}};
	const struct ptah_packet bep = {.type = PTAH_PACKET_BEP, .u.bep.ip = p->has_ip};
	struct ptah_packet bip = {.type = PTAH_PACKET_BIP};

	model_emit(m, &bbp, false);
	for (size_t i = 0; i < p->n && i < PTAH_MODEL_PEBS_ITEMS; i++) {
		model_emit_room(m);
		bip.u.bip.id = p->ids[i];
		bip.u.bip.item_size = p->item_size;
		bip.u.bip.payload = p->values[i];
		model_emit(m, &bip, false);
	}
	model_emit_room(m);
	model_emit(m, &bep, false);
	if (p->has_ip)
		model_emit_ip(m, OPCODE_FUP, p->ip);
}

void ptah_model_pebs(struct ptah_model *m, const struct ptah_model_pebs *pebs)
{
	model_emit_begin(m);
	if (model_trigger_en(m) && m->context_en && m->filter_en)
		block(m, pebs);
	model_emit_end(m);
}

void ptah_model_trigger(struct ptah_model *m, uint64_t ip, uint8_t bits, bool multiple, int icnt)
{
	const struct ptah_packet trig = {.type = PTAH_PACKET_TRIG,
					 .u.trig = {.trbv = bits,
						    .ip = m->context_en,
						    .mult = multiple,
						    .has_icnt = icnt >= 0,
						    .icnt = icnt >= 0 ? (uint16_t)icnt : 0}};

	model_emit_begin(m);
	if (model_trigger_en(m)) {
		model_emit(m, &trig, false);
		if (m->context_en)
			model_emit_ip(m, OPCODE_FUP, ip);
	}
	model_emit_end(m);
}
