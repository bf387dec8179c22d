/* SPDX-License-Identifier: MIT */
/*
 * Far transfers, interrupts, exceptions and the like, VM transitions. Their
 * packets: a FUP where the source does not follow from the code, packets for
 * changed state, a TIP; with Event Trace also CFE and EVD. SDM "Far Transfer
 * COFI", Tables "FUP Cases and IP Payload" and "CFE Packet Type and Vector Fields
 * Details".
 */
#include "model/trace.h"

/* The packets of each kind. */
struct kind {
	bool fup;     /* the source does not follow from the code */
	bool cr3;     /* PIP even when CR3 stays the same */
	uint8_t cfe;  /* enum ptah_cfe_type; 0: none */
	bool cfe_fup; /* the CFE has a FUP although the transfer has none */
};

static const struct kind kinds[PTAH_MODEL_TRANSFER_MAX] = {
    [PTAH_MODEL_FAR] = {0},
    [PTAH_MODEL_INT] = {.fup = true},
    [PTAH_MODEL_IRET] = {.cfe = PTAH_CFE_IRET, .cfe_fup = true},
    [PTAH_MODEL_INTERRUPT] = {.fup = true, .cfe = PTAH_CFE_INTR},
    [PTAH_MODEL_EXCEPTION] = {.fup = true, .cfe = PTAH_CFE_INTR},
    [PTAH_MODEL_UINTR] = {.fup = true, .cfe = PTAH_CFE_UINTR},
    [PTAH_MODEL_UIRET] = {.cfe = PTAH_CFE_UIRET, .cfe_fup = true},
    [PTAH_MODEL_INIT] = {.fup = true, .cr3 = true, .cfe = PTAH_CFE_INIT},
    [PTAH_MODEL_INIT_WAIT] = {.fup = true, .cr3 = true, .cfe = PTAH_CFE_INIT},
    [PTAH_MODEL_SIPI] = {.cfe = PTAH_CFE_SIPI},
    [PTAH_MODEL_TSX_ABORT] = {.fup = true},
    [PTAH_MODEL_ENCLAVE] = {.fup = true},
    [PTAH_MODEL_VMENTRY] = {.cr3 = true, .cfe = PTAH_CFE_VMENTRY, .cfe_fup = true},
    [PTAH_MODEL_VMEXIT] = {.fup = true, .cr3 = true, .cfe = PTAH_CFE_VMEXIT},
    [PTAH_MODEL_VMEXIT_INTR] = {.fup = true, .cr3 = true, .cfe = PTAH_CFE_VMEXIT_INTR},
};

/* The enables at the beginning of a transfer. */
struct enables {
	bool context, filter, packet;
};

static struct enables enables_of(const struct ptah_model *m)
{
	return (struct enables){m->context_en, m->filter_en, m->packet_en};
}

static void event_data(struct ptah_model *m, uint8_t type, uint64_t payload)
{
	const struct ptah_packet evd = {.type = PTAH_PACKET_EVD,
					.u.evd = {.type = type, .payload = payload}};

	model_emit(m, &evd, false);
}

/*
 * The CFE and its EVDs. The CFE has a FUP of its own where the transfer has none
 * to share and the context and the filter allow one.
 */
static void event_packets(struct ptah_model *m, const struct ptah_model_transfer *t,
			  struct enables before)
{
	const struct kind *k = &kinds[t->kind];
	const bool shares = k->fup && before.packet;
	struct ptah_packet cfe = {.type = PTAH_PACKET_CFE, .u.cfe = {k->cfe, t->vector, false}};

	if (!k->cfe || !(m->ctl & PTAH_RTIT_CTL_EVENT_EN) || !(before.context || m->context_en))
		return;
	if (t->kind == PTAH_MODEL_EXCEPTION && t->page_fault && before.context)
		event_data(m, PTAH_EVD_CR2, t->address);
	if (t->kind == PTAH_MODEL_VMEXIT) {
		event_data(m, PTAH_EVD_VMXQ, t->qualification);
		event_data(m, PTAH_EVD_VMXR, t->reason);
	}
	cfe.u.cfe.ip = (k->fup || k->cfe_fup) && !shares && before.context && before.filter;
	model_emit(m, &cfe, false);
	if (cfe.u.cfe.ip)
		model_emit_ip(m, OPCODE_FUP, t->ip);
}

/*
 * Erratum BDM64: the target of a branch right before an abort is wrong. If that
 * TIP is still in the internal buffer, this changes its lowest byte.
 */
static void spoil_target(struct ptah_model *m)
{
	uint8_t *tip = m->g.out - m->tip_size;

	if (!model_has_erratum(m, PTAH_ERRATUM_BDM64) || m->tip_size < 2 ||
	    m->tip_end != model_generated(m) || tip < m->staging)
		return;
	tip[1] ^= 0x40;
	m->g.last_ip ^= 0x40;
}

/* SDM "MODE.TSX Packet": a COFI packet, which needs BranchEn. */
static void abort_transaction(struct ptah_model *m, bool context)
{
	m->program.tsx = false;
	if (!context || !(m->ctl & PTAH_RTIT_CTL_BRANCH_EN))
		return;
	model_emit_flush(m);
	spoil_target(m);
	model_emit_tsx(m, true);
}

/* Everything before the TIP, TIP.PGE or TIP.PGD. */
static void prelude(struct ptah_model *m, const struct ptah_model_transfer *t,
		    struct enables before, bool cr3)
{
	const struct kind *k = &kinds[t->kind];

	event_packets(m, t, before);
	if (t->kind == PTAH_MODEL_TSX_ABORT)
		abort_transaction(m, m->context_en);
	if (k->fup && before.packet)
		model_emit_ip(m, OPCODE_FUP, t->ip);
	if (cr3)
		model_emit_pip(m);
}

/*
 * INIT makes a processor other than the first wait for a SIPI: case 31b. FUP and
 * PIP are sent now, the TIP with the SIPI, and nothing in between.
 */
static void init_wait(struct ptah_model *m, const struct ptah_model_transfer *t)
{
	const struct enables before = enables_of(m);

	m->program.cr3 = 0;
	if (model_trigger_en(m))
		prelude(m, t, before, true);
	m->waiting = before.packet;
}

static void go(struct ptah_model *m, const struct ptah_model_transfer *t, bool tells_cr3)
{
	const struct enables before = enables_of(m);
	const bool trigger = model_trigger_en(m);
	bool cr3;

	model_emit_begin(m);
	if (trigger) {
		model_emit_flush(m);
		model_emit_room(m);
		if (kinds[t->kind].fup)
			model_emit_marks(m);
	}
	m->unmarked = false;
	if (t->kind == PTAH_MODEL_INIT_WAIT) {
		init_wait(m, t);
	} else {
		m->waiting = false;
		cr3 = model_trace_enter(m, &t->after) || kinds[t->kind].cr3;
		m->program.ip = t->to;
		if (trigger && model_trigger_en(m)) {
			model_trace_arrive(m);
			prelude(m, t, before, cr3 && tells_cr3);
			model_trace_transfer(m, before.packet, MODEL_SHOWS_TIP_FAR);
		}
	}
	model_emit_end(m);
}

void ptah_model_transfer(struct ptah_model *m, const struct ptah_model_transfer *t)
{
	go(m, t, true);
}

/* VM entry and exit */

void ptah_model_vm_target(struct ptah_model *m, const struct ptah_model_transfer *target)
{
	m->program.ip = target->ip;
	m->vm_target = *target;
	m->vm_targeted = true;
}

/*
 * The MSR list is about to clear TraceEn: cases 16f and 17g, without an address
 * and without packets for the new state. Erratum SKD022: a VM entry has a FUP as
 * well.
 */
static void stop_at_transition(struct ptah_model *m, const struct ptah_model_transfer *t,
			       bool entry)
{
	if (m->packet_en) {
		if (!entry || model_has_erratum(m, PTAH_ERRATUM_SKD022))
			model_emit_ip(m, OPCODE_FUP, t->ip);
		model_emit_disable(m, NULL);
	}
	m->packet_en = false;
}

void model_trace_vm(struct ptah_model *m, bool entry, bool stops)
{
	struct ptah_model_transfer t = m->vm_target;

	if (!m->vm_targeted) {
		ptah_model_context(m, &t.after);
		t.ip = t.to = m->program.ip;
	}
	m->vm_targeted = false;
	if (entry || t.kind != PTAH_MODEL_VMEXIT_INTR)
		t.kind = entry ? PTAH_MODEL_VMENTRY : PTAH_MODEL_VMEXIT;
	if (!stops || !model_trigger_en(m)) {
		go(m, &t, !m->program.conceal);
		return;
	}
	model_emit_begin(m);
	stop_at_transition(m, &t, entry);
	model_trace_enter(m, &t.after);
	m->program.ip = t.to;
	model_emit_end(m);
}
