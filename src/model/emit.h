/* SPDX-License-Identifier: MIT */
/*
 * Packets with what comes before them: the pending outcomes, deferred TIPs, a
 * CYC; and the frame that every change of the program's state is put in.
 * Freestanding.
 *
 *	model_emit_begin(m);
 *	... at most GENERATOR_BURST bytes of packets ...
 *	model_emit_end(m);
 */
#ifndef PTAH_MODEL_EMIT_H
#define PTAH_MODEL_EMIT_H

#include "model/processor.h"

#include <ptah/errata.h>

static inline bool model_has_erratum(const struct ptah_model *m, unsigned erratum)
{
	return m->faults.errata >> erratum & 1;
}

/* Bytes that were generated since the beginning, sent or not. */
static inline uint64_t model_generated(const struct ptah_model *m)
{
	return m->bytes + m->dropped + (uint64_t)(m->g.out - m->staging);
}

/* Room for a burst. While packets are lost, all that will be are dropped at the end. */
void model_emit_begin(struct ptah_model *m);

/* In between: room for another burst. */
static inline void model_emit_room(struct ptah_model *m)
{
	if (UNLIKELY(m->overflowing)) {
		m->g.out = m->kept;
		return;
	}
	model_room(m);
	m->kept = m->g.out;
}

/* A PSB+ where one is due, overflows where they are asked for, PMIs. */
void model_emit_end(struct ptah_model *m);

/* Outcomes first, then the TIPs that waited for them. SDM "Deferred TIPs". */
void model_emit_flush(struct ptah_model *m);

/* A conditional branch, or a compressed return. */
void model_emit_outcome(struct ptah_model *m, bool taken);

/* TIP of an indirect branch, which may be deferred. */
void model_emit_tip(struct ptah_model *m, uint64_t ip);

/* FUP, or a packet of the others' kind that is not. */
void model_emit_ip(struct ptah_model *m, unsigned opcode, uint64_t ip);

/* TIP.PGD; no address: *ip is NULL. */
void model_emit_disable(struct ptah_model *m, const uint64_t *ip);

/* MODE.Exec where a decoder does not know the mode, TIP.PGE. */
void model_emit_enable(struct ptah_model *m, uint64_t ip);

/* MODE.Exec if it is not what was told last. True: it was sent. */
bool model_emit_mode(struct ptah_model *m);

void model_emit_tsx(struct ptah_model *m, bool aborted);
void model_emit_pip(struct ptah_model *m);
void model_emit_vmcs(struct ptah_model *m);
void model_emit_trace_stop(struct ptah_model *m);

/* TSC and TMA as enabled, CBR: after all that stops a clock. */
void model_emit_time(struct ptah_model *m);

/* Any other packet. `cyc`: it is one that a CYC comes before. */
void model_emit(struct ptah_model *m, const struct ptah_packet *packet, bool cyc);

/* PSB+. `fup`: with MODE.Exec and FUP, as PacketEn says. */
void model_emit_psb(struct ptah_model *m, bool fup);

/* The overflow is over, the program stands at program.ip. */
void model_emit_overflow(struct ptah_model *m);

#endif
