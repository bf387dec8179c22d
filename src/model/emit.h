/* SPDX-License-Identifier: MIT */
/*
 * Writes packets, and before each the packets that have to precede it: pending
 * outcomes, deferred TIPs, a CYC. Also has the pair of calls that surrounds
 * every change of the program's state.
 * Freestanding.
 *
 *	model_emit_begin(m);
 *	... at most GENERATOR_BURST bytes of packets ...
 *	model_emit_end(m);
 */
#ifndef PTAH_MODEL_EMIT_H
#define PTAH_MODEL_EMIT_H

#include "model/processor.h"

#include <ptah/base.h>

static inline bool model_has_erratum(const struct ptah_model *m, unsigned erratum)
{
	return m->faults.errata >> erratum & 1;
}

/* Bytes that were generated since the beginning, whether output or lost. */
static inline uint64_t model_generated(const struct ptah_model *m)
{
	return m->bytes + m->dropped + (uint64_t)(m->g.out - m->staging);
}

/* Makes room for a burst. While packets are lost, model_emit_end() drops what was generated in
 * between. */
void model_emit_begin(struct ptah_model *m);

/* Between begin and end: makes room for another burst. */
static inline void model_emit_room(struct ptah_model *m)
{
	if (UNLIKELY(m->overflowing)) {
		m->g.out = m->kept;
		return;
	}
	model_room(m);
	m->kept = m->g.out;
}

/* Sends a PSB+ if one is due, makes overflows happen where a fault demands them, delivers PMIs. */
void model_emit_end(struct ptah_model *m);

/* Sends pending outcomes, then the TIPs that were deferred. SDM "Deferred TIPs". */
void model_emit_flush(struct ptah_model *m);

/* A conditional branch, or a compressed return. */
void model_emit_outcome(struct ptah_model *m, bool taken);

/* TIP of an indirect branch, which may be deferred. */
void model_emit_tip(struct ptah_model *m, uint64_t ip);

/* FUP, TIP, TIP.PGE or TIP.PGD, which is not deferred. */
void model_emit_ip(struct ptah_model *m, unsigned opcode, uint64_t ip);

/* TIP.PGD; without an address if `ip` is NULL. */
void model_emit_disable(struct ptah_model *m, const uint64_t *ip);

/* MODE.Exec if a decoder does not know the mode, then TIP.PGE. */
void model_emit_enable(struct ptah_model *m, uint64_t ip);

/* MODE.Exec, unless the last one was the same. True: it was sent. */
bool model_emit_mode(struct ptah_model *m);

void model_emit_tsx(struct ptah_model *m, bool aborted);
void model_emit_pip(struct ptah_model *m);
void model_emit_vmcs(struct ptah_model *m);
void model_emit_trace_stop(struct ptah_model *m);

/* TSC and TMA as enabled, and CBR: after everything that stops a clock. */
void model_emit_time(struct ptah_model *m);

/* Any other packet. `cyc`: a CYC may precede it. */
void model_emit(struct ptah_model *m, const struct ptah_packet *packet, bool cyc);

/*
 * choices.mark_loops: sends what an interrupt before the unmarked branch and one after it would
 * cause, in bursts of its own.
 */
void model_emit_marks(struct ptah_model *m);

/* PSB+. `fup`: with MODE.Exec and FUP, as PacketEn says. */
void model_emit_psb(struct ptah_model *m, bool fup);

/* The overflow has ended; the program is at program.ip. */
void model_emit_overflow(struct ptah_model *m);

#endif
