/* SPDX-License-Identifier: MIT */
/*
 * The return address stack of a trace in which no return was compressed so far. Many traces have
 * none at all, and rows that leave the stack alone are faster. But the flow needs the stack where
 * it takes over. It is empty after a PSB+ and a TIP.PGE, which come often; from there, or from
 * where the loop began, the packets are followed a second time, for their calls and returns only.
 */
#include "profile/profile_internal.h"

#include "flow/move.h"

void profile_note_stack(struct ptah_profile *p)
{
	const struct ptah_flow *f = p->flow;

	profile_empty_stack(p, f->node ? f->node->ip : f->ip, f->events->pos, f->events->last_ip);
	for (unsigned i = f->stack_depth; i; i--)
		p->begin.sites[p->begin.depth++] = f->stack[(f->stack_top - i) % STACK_SIZE].ip;
}

/* The place that the packets have led to. */
struct follower {
	struct ptah_flow *flow;
	struct code_node *node; /* NULL: at `ip`, not looked up */
	uint64_t ip;
};

/* Passes direct branches up to a deciding one. False: the code there is missing. */
static bool pass_chain(struct follower *w)
{
	int status;

	if (!w->node)
		w->node = code_find(&w->flow->code, w->ip, w->flow->mode, &status);
	while (w->node && flow_is_direct(w->node)) {
		if (flow_pushes(w->node))
			flow_push_return(w->flow, w->node);
		w->node = flow_chain_next(w->flow, w->node);
	}
	return w->node;
}

static void go_to(struct follower *w, uint64_t ip)
{
	w->ip = ip;
	w->node = NULL;
}

/* Uses up outcomes of conditional branches, oldest first; no return is compressed here. */
static bool follow_outcomes(struct follower *w, uint64_t bits, unsigned n)
{
	while (n) {
		const bool taken = bits >> --n & 1;

		if (!pass_chain(w))
			return false;
		go_to(w, taken ? w->node->target : w->node->end);
	}
	return true;
}

static bool follow_tip(struct follower *w, uint64_t to)
{
	struct return_site site;

	if (!pass_chain(w))
		return false;
	if (w->node->insn_class == PTAH_INSN_CALL_IND)
		flow_push_return(w->flow, w->node);
	else if (w->node->insn_class == PTAH_INSN_RETURN)
		pop_return(w->flow, &site);
	go_to(w, to);
	return true;
}

/*
 * Follows the packet at `pos`. Of the last packet, which ends at `stop`, the flow still has `left`
 * outcomes. Returns the position after it, or NULL.
 */
static const uint8_t *follow_packet(struct follower *w, const uint8_t *pos, const uint8_t *stop,
				    unsigned left, uint64_t *last_ip)
{
	struct ptah_packet packet;
	struct packet_group g;
	uint64_t ip;
	int size;

	if ((*pos & OPCODE_IP_MASK) ==
	    OPCODE_FUP) { /* an interrupt, before which nothing is pushed */
		if (!packet_group_read(pos, stop, *last_ip, &g))
			return NULL;
		go_to(w, g.to);
		*last_ip = g.last_ip;
		return g.end;
	}
	size = ptah_packet_decode(&packet, pos, LOOP_LOOK, PTAH_BLOCK_NONE);
	if (size <= 0)
		return NULL;
	if (packet.type == PTAH_PACKET_TNT_8 || packet.type == PTAH_PACKET_TNT_64) {
		const unsigned unused = pos + size >= stop ? left : 0;

		return follow_outcomes(w, packet.u.tnt.bits >> unused, packet.u.tnt.count - unused)
			   ? pos + size
			   : NULL;
	}
	if (packet.type == PTAH_PACKET_TIP &&
	    (!ptah_packet_ip(last_ip, packet.u.ip.ipc, packet.u.ip.ip, &ip) || !follow_tip(w, ip)))
		return NULL;
	return pos + size;
}

void profile_find_stack(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;
	const uint8_t *pos = p->begin.pos, *const stop = f->events->pos;
	struct follower w = {.flow = f, .ip = p->begin.ip};
	uint64_t last_ip = p->begin.last_ip;

	p->followed += (uint64_t)(stop - pos);
	f->stack_top = f->stack_depth = 0;
	for (unsigned i = 0; i < p->begin.depth; i++) {
		f->stack[f->stack_top++] = (struct return_site){.ip = p->begin.sites[i]};
		f->stack_depth++;
	}
	while (pos && pos < stop)
		pos = *pos == OPCODE_PAD ? pos + 1
					 : follow_packet(&w, pos, stop, f->tnt_count, &last_ip);
}
