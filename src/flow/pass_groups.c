/* SPDX-License-Identifier: MIT */
/*
 * Carries out PSB+, and the packets between TIP.PGD and TIP.PGE, without items (pass_groups.h).
 */
#include "flow/pass_groups.h"

#include "flow/emit_items.h"

bool flow_can_pass_groups(const struct ptah_flow *f)
{
	const struct ptah_event_config *config = &f->events->config;

	return !config->unchanged && !config->ticks && !f->no_tnt;
}

bool flow_is_off(const struct ptah_flow *f)
{
	const struct ptah_event_decoder *d = f->events;

	return d->phase == EVENT_RUN && !d->enabled && d->enabled_known && !d->queue_count &&
	       !d->block && !d->skip && !event_is_pending(d) && !d->has_mode && !d->has_paging &&
	       !d->has_vmcs && !f->positioned && !f->seeks_place && !f->space_waits &&
	       flow_is_at_rest(f);
}

void flow_turn_off(struct ptah_flow *f)
{
	flow_lose_position(f);
	f->events->enabled = f->events->plain = false;
}

static bool same_space(const struct ptah_space *a, const struct ptah_space *b)
{
	return a->cr3 == b->cr3 && a->vmcs == b->vmcs;
}

/* Code is looked up in this space from now on. False: it cannot be, and nothing has changed. */
static bool enter_code_space(struct ptah_flow *f, const struct ptah_space *space)
{
	if (!same_space(space, &f->code.spaces[f->code.space]) &&
	    code_set_space(&f->code, space) < 0)
		return false;
	f->space = *space;
	return true;
}

/* The spaces that a VMCS and a PIP name, one after the other as the flow enters them. */
static bool enter_spaces(struct ptah_flow *f, const uint64_t *vmcs, const uint64_t *cr3)
{
	const struct ptah_space before = f->space;
	const uint16_t number = f->code.space;
	struct ptah_space space = before;

	if (f->space_fixed)
		return true;
	space.vmcs = vmcs ? *vmcs : space.vmcs;
	if (vmcs && !enter_code_space(f, &space))
		return false;
	space.cr3 = cr3 ? *cr3 : space.cr3;
	if (!cr3 || enter_code_space(f, &space))
		return true;
	f->space = before;
	f->code.space = number;
	return false;
}

bool flow_psb_fits(const struct ptah_flow *f, const struct packet_psb *psb)
{
	const struct ptah_event_decoder *d = f->events;

	if ((psb->has_mode ? psb->mode : d->mode) != f->mode ||
	    d->in_tx != !!(f->speculative & PTAH_ITEM_SPECULATIVE))
		return false;
	return f->space_fixed || (same_space(&f->space, &f->code.spaces[f->code.space]) &&
				  (!psb->has_cr3 || psb->cr3 == f->space.cr3) &&
				  (!psb->has_vmcs || psb->vmcs == f->space.vmcs));
}

bool flow_pass_psb(struct ptah_flow *f, const struct packet_psb *psb)
{
	if (!event_take_psb(f->events, psb, f->time_limit))
		return false;
	flow_forget_far(f);
	return true;
}

/*
 * The position of the TIP.PGE at `pos`, or after the MODE.Exec there, whose payload is *mode then.
 * NULL: there is none.
 */
static ALWAYS_INLINE const uint8_t *find_pge(const uint8_t *pos, const uint8_t *end,
					     struct ptah_packet *mode)
{
	mode->type = PTAH_PACKET_TYPE_MAX;
	if (pos <= end && *pos == OPCODE_MODE) {
		const int size = ptah_packet_decode(mode, pos, LOOP_LOOK, PTAH_BLOCK_NONE);

		if (size <= 0 || mode->type != PTAH_PACKET_MODE_EXEC)
			return NULL;
		pos = packet_skip_pads(pos + size, end);
	}
	if (pos > end || (*pos & OPCODE_IP_MASK) != OPCODE_TIP_PGE || !packet_has_ip(pos))
		return NULL;
	return pos;
}

/* Passes a TIP.PGE, and a MODE.Exec before it. NULL: there is none. */
static ALWAYS_INLINE const uint8_t *pass_pge(struct ptah_flow *f, const uint8_t *pos,
					     const uint8_t *end, uint64_t *last_ip)
{
	struct ptah_event_decoder *d = f->events;
	struct ptah_packet mode;

	pos = find_pge(pos, end, &mode);
	if (!pos)
		return NULL;
	pos += packet_take_ip(pos, last_ip);
	if (mode.type == PTAH_PACKET_MODE_EXEC) {
		f->mode = mode.u.exec.mode != d->mode ? mode.u.exec.mode : f->mode;
		d->mode = mode.u.exec.mode;
		d->mode_known = true;
		d->iflag = mode.u.exec.interrupts ? EVENT_IF_SET : EVENT_IF_CLEAR;
	}
	d->enabled = d->enabled_known = d->plain = true;
	flow_forget_far(f);
	f->positioned = true;
	f->ip = *last_ip;
	f->node = NULL;
	return pos;
}

/* Passes a PSB+. NULL: it is left to the flow. */
static const uint8_t *pass_psb(struct ptah_flow *f, const uint8_t *pos, const uint8_t *end,
			       uint64_t *last_ip)
{
	struct ptah_event_decoder *d = f->events;
	const struct ptah_space before = f->space;
	const uint16_t number = f->code.space;
	struct ptah_packet mode;
	struct packet_psb psb;

	if (!packet_psb_read(pos, end, &psb))
		return NULL;
	/* Erratum BDM70: a PSB+ right before a TIP.PGE may have a FUP although tracing is off. */
	if (psb.has_ip &&
	    (d->config.no_bdm70 || !find_pge(packet_skip_pads(psb.end, end), end, &mode)))
		return NULL;
	if (d->in_tx != !!(f->speculative & PTAH_ITEM_SPECULATIVE))
		return NULL;
	if (!enter_spaces(f, psb.has_vmcs ? &psb.vmcs : NULL, psb.has_cr3 ? &psb.cr3 : NULL))
		return NULL;
	if (!event_take_psb(d, &psb, f->time_limit)) {
		f->space = before;
		f->code.space = number;
		return NULL;
	}
	f->mode = d->mode;
	flow_forget_far(f);
	*last_ip = psb.ip;
	return psb.end;
}

/* Passes one other packet that may come while tracing is off. NULL: it is left to the flow. */
static const uint8_t *pass_other(struct ptah_flow *f, const uint8_t *pos)
{
	struct ptah_packet packet;
	const int size = ptah_packet_decode(&packet, pos, LOOP_LOOK, PTAH_BLOCK_NONE);

	if (size <= 0)
		return NULL;
	switch (packet.type) {
	case PTAH_PACKET_PIP:
		return enter_spaces(f, NULL, &packet.u.pip.cr3) ? pos + size : NULL;
	case PTAH_PACKET_VMCS:
		return enter_spaces(f, &packet.u.vmcs.base, NULL) ? pos + size : NULL;
	case PTAH_PACKET_CBR:
		event_take_ratio(f->events, packet.u.cbr.ratio);
		return pos + size;
	default:
		return NULL;
	}
}

/* Passes a packet of time. False: it is none, or the time has reached the limit. */
static bool pass_time(struct ptah_flow *f, const uint8_t **pos)
{
	const struct event_cycles none = {.sum = 0};
	const bool more = event_take_clock_at(f->events, *pos, none, f->time_limit);

	*pos = f->events->pos;
	return more;
}

/* A PSB+ like the one just passed changes nothing, unless cycles are counted. */
static const uint8_t *pass_same_psb(const uint8_t *pos, const uint8_t *end, const uint8_t *same,
				    size_t size)
{
	if (!size || end + LOOP_LOOK - pos < (ptrdiff_t)size || memcmp(pos, same, size) != 0)
		return NULL;
	return pos + size;
}

bool flow_pass_off(struct ptah_flow *f, const uint8_t **at, const uint8_t *end, uint64_t *last_ip)
{
	const uint8_t *pos = *at, *next, *same = NULL;
	size_t same_size = 0;

	for (;;) {
		pos = packet_skip_pads(pos, end);
		*at = pos;
		if (pos > end)
			return false;
		next = pass_pge(f, pos, end, last_ip);
		if (next) {
			*at = next;
			return true;
		}
		if (load_le64(pos) == PSB_WORD) {
			next = pass_same_psb(pos, end, same, same_size);
			if (!next) {
				next = pass_psb(f, pos, end, last_ip);
				same = pos;
				same_size = 0;
				if (next && !*last_ip && !f->events->time.known &&
				    !f->events->time.cyc_seen)
					same_size = (size_t)(next - pos);
			}
		} else {
			same_size = 0;
			next = pass_other(f, pos);
			if (!next && pass_time(f, &pos))
				next = pos;
			*at = pos;
		}
		if (!next)
			return false;
		pos = next;
	}
}
