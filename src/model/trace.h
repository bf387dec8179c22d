/* SPDX-License-Identifier: MIT */
/*
 * Packet generation: the enables, and what a program's transfers of control
 * leave in the trace. SDM "Packet Generation Enable Controls" and Table "Packet
 * Generation under Different Enable Conditions". Freestanding.
 *
 * A software recorder whose branches are plain may do without these functions:
 * while model_trace_is_plain() it calls those of generator.h on m->g itself,
 * and model_trace_attend() whenever m->g.out >= m->limit; the bytes are the same.
 */
#ifndef PTAH_MODEL_TRACE_H
#define PTAH_MODEL_TRACE_H

#include "model/emit.h"

/*
 * PacketEn is 1 and no branch can change that, no packet has a time, and nothing
 * else is asked for that a branch alone does not say.
 */
static inline bool model_trace_is_plain(const struct ptah_model *m)
{
	const uint64_t special = PTAH_RTIT_CTL_CYC_EN | PTAH_RTIT_CTL_DIS_TNT;

	return m->packet_en && !m->ranged && !(m->ctl & special) && !m->choices.deferred_tips &&
	       !m->overflowing && !m->faults.overflow_after;
}

/* Between two instructions, the next at `ip`: settles, PSB+ where one is due, PMIs. */
static inline void model_trace_attend(struct ptah_model *m, uint64_t ip)
{
	m->program.ip = ip;
	model_emit_begin(m);
	model_emit_end(m);
}

/*
 * The program's state is what it is now and control has come to program.ip by
 * a taken branch, an event, or TraceEn: ContextEn, FilterEn, PacketEn and
 * m->trace_stop follow. SDM: FilterEn toggles at these alone.
 */
void model_trace_arrive(struct ptah_model *m);

/* How a branch shows when PacketEn is 1 before and after it. */
enum model_shows {
	MODEL_SHOWS_NOTHING,
	MODEL_SHOWS_TNT,
	MODEL_SHOWS_RETURN,
	MODEL_SHOWS_TIP,
	MODEL_SHOWS_TIP_FAR, /* never deferred, with MODE.Exec */
};

/* The end of a transfer to program.ip; PacketEn was `before`. */
void model_trace_transfer(struct ptah_model *m, bool before, enum model_shows shows);

/* Takes over what a transfer changes. Returns whether CR3 is another one. */
bool model_trace_enter(struct ptah_model *m, const struct ptah_model_context *after);

#endif
