/* SPDX-License-Identifier: MIT */
/*
 * Writes packets, and what has to precede them (emit.h). SDM "Packet Definitions",
 * "Cycle-Accurate Mode", "Decoder Synchronization (PSB+)", "Internal Buffer
 * Overflow".
 */
#include "model/emit.h"

#define TOLD 0x80

/* The byte of MODE.Exec. It contains IF if Event Trace is in use. */
static unsigned exec_mode(const struct ptah_model *m)
{
	bool told_if = m->ctl & PTAH_RTIT_CTL_EVENT_EN && m->program.interrupts;

	return (unsigned)m->program.cs_l | (unsigned)(m->program.cs_d && !m->program.cs_l) << 1 |
	       (unsigned)told_if << 2;
}

/* CYC, before packets that are CYC-eligible. */
static void cycles(struct ptah_model *m)
{
	clock_packet(&m->clock, &m->g);
}

void model_emit_flush(struct ptah_model *m)
{
	generator_flush_tnt(&m->g);
	if (LIKELY(!m->deferred_count))
		return;
	for (unsigned i = 0; i < m->deferred_count; i++)
		generator_ip_packet(&m->g, OPCODE_TIP, m->deferred[i]);
	m->deferred_count = 0;
}

void model_emit_outcome(struct ptah_model *m, bool taken)
{
	if (m->ctl & PTAH_RTIT_CTL_DIS_TNT)
		return;
	if (m->g.tnt == 1)
		cycles(m); /* the time of a TNT is that of its first branch */
	generator_tnt(&m->g, taken);
	if (m->g.tnt == 1)
		model_emit_flush(m);
}

void model_emit_ip(struct ptah_model *m, unsigned opcode, uint64_t ip)
{
	model_emit_flush(m);
	if (opcode != OPCODE_FUP)
		cycles(m);
	generator_ip_packet(&m->g, opcode, ip);
}

/*
 * With CYC each TIP has its own time, so none is deferred. Nor is a TIP without
 * pending outcomes before it.
 */
void model_emit_tip(struct ptah_model *m, uint64_t ip)
{
	const uint8_t *before;

	if (m->deferred_count < m->choices.deferred_tips && m->g.tnt != 1 && !m->clock.cyc_en) {
		m->deferred[m->deferred_count++] = ip;
		return;
	}
	model_emit_flush(m);
	cycles(m);
	before = m->g.out;
	generator_ip_packet(&m->g, OPCODE_TIP, ip);
	m->tip_size = (uint8_t)(m->g.out - before);
	m->tip_end = model_generated(m);
}

void model_emit_disable(struct ptah_model *m, const uint64_t *ip)
{
	model_emit_flush(m);
	cycles(m);
	if (ip)
		generator_ip_packet(&m->g, OPCODE_TIP_PGD, *ip);
	else
		*m->g.out++ = OPCODE_TIP_PGD;
	m->g.depth = 0;
}

bool model_emit_mode(struct ptah_model *m)
{
	unsigned mode = exec_mode(m);

	if (m->told_mode == (mode | TOLD))
		return false;
	m->told_mode = (uint8_t)(mode | TOLD);
	model_emit_flush(m);
	cycles(m);
	generator_mode_exec(&m->g, mode);
	return true;
}

void model_emit_enable(struct ptah_model *m, uint64_t ip)
{
	model_emit_mode(m);
	cycles(m);
	generator_enable(&m->g, ip);
}

void model_emit_tsx(struct ptah_model *m, bool aborted)
{
	m->state_lost = true;
	model_emit_flush(m);
	cycles(m);
	generator_mode_tsx(&m->g, m->program.tsx, aborted);
}

/* VMX controls may conceal from a guest that it is one: "VMX-Specific Packets and VMCS Controls".
 */
static bool shows_guest(const struct ptah_model *m)
{
	return m->program.vmx == MODEL_VMX_GUEST && !m->program.conceal;
}

/* CR3[11:5] are part of the address only with PAE paging. */
static void pip(struct ptah_model *m)
{
	uint64_t low = m->program.paging == MODEL_PAGING_PAE ? 0x1f : 0xfff;

	generator_pip(&m->g, m->program.cr3 & ~low, shows_guest(m));
}

void model_emit_pip(struct ptah_model *m)
{
	m->state_lost = true;
	if (!m->context_en || !(m->ctl & PTAH_RTIT_CTL_OS))
		return;
	model_emit_flush(m);
	cycles(m);
	pip(m);
}

void model_emit_vmcs(struct ptah_model *m)
{
	m->state_lost = true;
	if (!m->context_en)
		return;
	model_emit_flush(m);
	cycles(m);
	generator_vmcs(&m->g, m->program.vmcs);
}

void model_emit_trace_stop(struct ptah_model *m)
{
	model_emit_flush(m);
	generator_trace_stop(&m->g);
}

/* TSC, TMA. Erratum SKZ84: a TMA of eight bytes with reserved bits set. */
static void tell(struct ptah_model *m)
{
	clock_tell(&m->clock, &m->g);
	if (m->clock.tsc_en && m->clock.mtc_en && model_has_erratum(m, PTAH_ERRATUM_SKZ84)) {
		m->g.out[-3] = 0x5a;
		*m->g.out++ = 0;
	}
}

void model_emit_time(struct ptah_model *m)
{
	m->state_lost = true;
	model_emit_flush(m);
	/* "Cycle Packet Semantics": after a stop comes a CYC, whatever the threshold, then TSC. */
	clock_cycles(&m->clock, &m->g, 1);
	tell(m);
	generator_cbr(&m->g, m->clock.ratio);
}

void model_emit(struct ptah_model *m, const struct ptah_packet *packet, bool cyc)
{
	int n;

	model_emit_flush(m);
	if (cyc)
		cycles(m);
	n = ptah_packet_encode(packet, m->g.out, PTAH_PACKET_MAX_SIZE);
	m->g.out += n > 0 ? n : 0;
}

/* An interrupt whose handler is not traced. */
static void mark(struct ptah_model *m, uint64_t ip)
{
	model_emit_room(m);
	model_emit_ip(m, OPCODE_FUP, ip);
	model_emit_disable(m, NULL);
	model_emit_enable(m, ip);
}

void model_emit_marks(struct ptah_model *m)
{
	if (LIKELY(!m->unmarked))
		return;
	m->unmarked = false;
	if (!m->packet_en || m->overflowing)
		return;
	model_emit_flush(m);
	mark(m, m->unmarked_ip);
	mark(m, m->unmarked_to);
	model_emit_room(m);
}

void model_emit_psb(struct ptah_model *m, bool fup)
{
	bool vmcs = m->program.vmx == MODEL_VMX_ROOT || shows_guest(m);

	model_emit_flush(m);
	if (model_has_erratum(m, PTAH_ERRATUM_SKL168))
		m->clock.told = m->clock.cycles;
	cycles(m);
	generator_psb_begin(&m->g);
	tell(m);
	if (m->context_en && m->ctl & PTAH_RTIT_CTL_OS)
		pip(m);
	if (m->context_en && vmcs)
		generator_vmcs(&m->g, m->program.vmcs);
	generator_cbr(&m->g, m->clock.ratio);
	if (m->context_en && m->ctl & PTAH_RTIT_CTL_BRANCH_EN)
		generator_mode_tsx(&m->g, m->program.tsx, false);
	m->told_mode = 0;
	if (fup) {
		m->told_mode = (uint8_t)(exec_mode(m) | TOLD);
		generator_mode_exec(&m->g, exec_mode(m));
		generator_ip_packet(&m->g, OPCODE_FUP, m->program.ip);
	}
	generator_psbend(&m->g);
	m->psb_due = false;
	m->psb_owed = m->psb_owed && !m->context_en;
	m->status &= ~PTAH_RTIT_STATUS_PEND_PSB;
}

/* Erratum SKD007: the second byte of a two-byte CYC is overwritten. */
static void cycles_before_overflow(struct ptah_model *m)
{
	const uint8_t *before = m->g.out;

	cycles(m);
	if (m->g.out - before == 2 && model_has_erratum(m, PTAH_ERRATUM_SKD007))
		m->g.out--;
}

/* The state after OVF, or in its PSB+, when the overflow resolves with PacketEn 0. */
static void resume_disabled(struct ptah_model *m)
{
	if (model_has_erratum(m, PTAH_ERRATUM_APL12))
		generator_ip_packet(&m->g, OPCODE_FUP, m->program.ip);
	else if (model_has_erratum(m, PTAH_ERRATUM_APL11))
		*m->g.out++ = OPCODE_TIP_PGD;
}

void model_emit_overflow(struct ptah_model *m)
{
	m->overflowing = false;
	m->deferred_count = 0;
	m->overflow_count = 0;
	cycles_before_overflow(m);
	generator_overflow(&m->g);
	m->psb_owed = m->psb_owed || m->state_lost;
	if (m->trace_stop)
		return;
	if (!m->packet_en)
		resume_disabled(m);
	else if (!model_has_erratum(m, PTAH_ERRATUM_SKD010))
		generator_ip_packet(&m->g, OPCODE_FUP, m->program.ip);
	/*
	 * An extra PSB+, which may come at any time, reports the state that was lost, as
	 * early as possible. Not before the FUP of the OVF: decoders would take the FUP
	 * in the PSB+ for it, and then meet a second one.
	 */
	if (m->packet_en && m->told_mode != (exec_mode(m) | TOLD))
		m->psb_owed = true;
	m->overflow_from = model_generated(m);
}

/* Drops what was generated since model_emit_begin(); the cycles remain to be reported. */
static void drop(struct ptah_model *m)
{
	m->g.out = m->kept;
	m->g.tnt = 1;
	m->deferred_count = 0;
	m->clock.told = m->kept_told;
	m->told_mode = m->kept_mode;
}

void model_emit_begin(struct ptah_model *m)
{
	model_room(m);
	m->kept = m->g.out;
	m->kept_told = m->clock.told;
	m->kept_mode = m->told_mode;
	if (LIKELY(!m->overflowing))
		m->state_lost = false;
}

/* SDM "Internal Buffer Overflow", as the fault demands, event by event. */
static void overflow_step(struct ptah_model *m)
{
	if (m->overflowing) {
		drop(m);
		/* "TraceStop": it is reported once the overflow has resolved. */
		if (m->trace_stop) {
			model_emit_overflow(m);
			generator_trace_stop(&m->g);
		} else if (m->faults.overflow_after &&
			   ++m->overflow_count >= m->faults.overflow_events) {
			model_emit_overflow(m);
		}
	} else if (m->faults.overflow_after && model_trigger_en(m) &&
		   model_generated(m) - m->overflow_from >= m->faults.overflow_after) {
		ptah_model_overflow(m, true);
	}
}

/* Sets Stopped, after everything that was generated before has been output. */
static void stop(struct ptah_model *m)
{
	m->trace_stop = false;
	model_output_settle(m);
	m->status |= PTAH_RTIT_STATUS_STOPPED;
	model_trace_lost(m);
}

void model_emit_end(struct ptah_model *m)
{
	if (UNLIKELY(m->overflowing || m->faults.overflow_after))
		overflow_step(m);
	if (UNLIKELY(m->trace_stop))
		stop(m);
	model_room(m);
	if (UNLIKELY(m->psb_owed) && m->context_en)
		m->psb_due = true;
	if (UNLIKELY(m->psb_due) && !m->overflowing && !m->waiting && model_trigger_en(m)) {
		model_emit_flush(m);
		model_room(m);
		model_emit_marks(m);
		model_emit_psb(m, m->packet_en);
		model_room(m);
	}
	model_boundary(m);
}
