/* SPDX-License-Identifier: MIT */
/*
 * Packet generation: the enables, and the packets that a program's transfers of
 * control cause. SDM "Packet Generation Enable Controls" and Table "Packet
 * Generation under Different Enable Conditions". Freestanding.
 *
 * A software recorder can avoid these functions for plain branches: while
 * model_trace_is_plain() is true it may call the functions of generator.h on m->g
 * itself, and model_trace_attend() whenever m->g.out >= m->limit. The bytes are
 * the same.
 */
#ifndef PTAH_MODEL_TRACE_H
#define PTAH_MODEL_TRACE_H

#include "model/emit.h"

/*
 * PacketEn is 1 and no branch can change that, no packet has a time, and no
 * packets are enabled that need more than the branch itself.
 */
static inline bool model_trace_is_plain(const struct ptah_model *m)
{
	const uint64_t special = PTAH_RTIT_CTL_CYC_EN | PTAH_RTIT_CTL_DIS_TNT;

	return m->packet_en && !m->ranged && !(m->ctl & special) && !m->choices.deferred_tips &&
	       !m->choices.mark_loops && !m->overflowing && !m->faults.overflow_after;
}

/* Called between two instructions, the next one at `ip`: settles the output, sends a PSB+ where one
 * is due, delivers PMIs. */
static inline void model_trace_attend(struct ptah_model *m, uint64_t ip)
{
	m->program.ip = ip;
	model_emit_begin(m);
	model_emit_end(m);
}

/*
 * Control has reached program.ip by a taken branch, an event, or because TraceEn
 * was set: computes ContextEn, FilterEn, PacketEn and m->trace_stop from the
 * program's present state. SDM: FilterEn changes only at these points.
 */
void model_trace_arrive(struct ptah_model *m);

/* Which packet a branch causes when PacketEn is 1 before and after it. */
enum model_shows {
	MODEL_SHOWS_NOTHING,
	MODEL_SHOWS_TNT,
	MODEL_SHOWS_RETURN,
	MODEL_SHOWS_TIP,
	MODEL_SHOWS_TIP_FAR, /* never deferred, with MODE.Exec */
};

/* The end of a transfer to program.ip; PacketEn was `before`. */
void model_trace_transfer(struct ptah_model *m, bool before, enum model_shows shows);

/* Applies the state that a transfer changes. Returns whether CR3 has changed. */
bool model_trace_enter(struct ptah_model *m, const struct ptah_model_context *after);

#endif
