/* SPDX-License-Identifier: MIT */
/*
 * The loop over packets, for each of the forms that a caller can read: items, blocks, steps, and
 * packet by packet for the layers above. The commonest packets are taken straight from the caller's
 * bytes, all others through the event layer.
 */
#include "flow/address_space.h"
#include "flow/apply.h"
#include "flow/emit_items.h"
#include "flow/move.h"
#include "flow/outcomes.h"
#include "flow/paths.h"
#include "flow/spans.h"

/*
 * Whether the flow is at the near indirect branch that a TIP belongs to, with nothing else to
 * consider.
 */
static ALWAYS_INLINE bool is_quick_tip(const struct ptah_flow *f, uint64_t tsc)
{
	const struct code_node *node = f->node;

	return node && flow_is_near_indirect(node) && tsc < f->time_limit && !f->space_waits &&
	       !f->no_tnt;
}

/*
 * Takes the packets of which nearly all of a trace consists straight from the window. False when
 * the next packet is another kind or incomplete.
 */
static ALWAYS_INLINE bool take_quick(struct ptah_flow *f, struct flow_output *out)
{
	struct ptah_event_decoder *d = f->events;
	const uint8_t *p = d->pos;

	if (!d->plain || !f->positioned || f->no_tnt_at)
		return false;
	while (p < d->end && *p == OPCODE_PAD)
		p++;
	if (p == d->end)
		return false;
	if (!(*p & 1) && *p != OPCODE_EXT) {
		f->tnt_count = highest_bit(*p) - 1;
		f->tnt_full = flow_fills_tnt(f->tnt_count);
		f->tnt = *p >> 1;
		flow_set_now(f, d->tsc, d->tsc_error, event_offset(d, p));
		d->pos = p + 1;
		return true;
	}
	if ((*p & OPCODE_IP_MASK) == OPCODE_TIP && *p >> 5 != PTAH_IPC_SUPPRESSED &&
	    (size_t)(d->end - p) > 8) {
		unsigned ipc = *p >> 5, bytes = packet_ip_bytes[ipc];
		uint64_t payload = load_le64(p + 1);

		if (UNLIKELY(bytes > 8)) /* reserved by the SDM */
			return false;
		if (bytes < 8)
			payload &= (UINT64_C(1) << 8 * bytes) - 1;
		d->last_ip = packet_expand_ip(d->last_ip, ipc, payload);
		if (LIKELY(is_quick_tip(f, d->tsc))) {
			struct code_node *node = f->node;

			flow_set_now(f, d->tsc, d->tsc_error, event_offset(d, p));
			d->pos = p + 1 + bytes;
			f->has_proven = false;
			flow_emit_block(f, out, node);
			flow_go_indirect(f, node, d->last_ip);
			return true;
		}
		f->event.type = PTAH_ITEM_TIP;
		f->event.to = d->last_ip;
		f->event.tsc = d->tsc;
		flow_set_now(f, d->tsc, d->tsc_error, event_offset(d, p));
		f->has_event = true;
		d->pos = p + 1 + bytes;
		return true;
	}
	return false;
}

/* The event is the next to be applied. */
static void begin_event(struct ptah_flow *f)
{
	f->has_event = true;
	f->placed = f->around = f->walks = f->gap_reported = false;
}

/*
 * Takes the next event, or TNT bits. False when more bytes are needed, at the end, or at a pause.
 */
static bool take_next(struct ptah_flow *f, struct flow_output *out)
{
	if (take_quick(f, out))
		return true;
	if (!event_next(f->events, &f->event))
		return false;
	flow_set_now(f, f->event.tsc, f->event.tsc_error, f->event.offset);
	if (f->event.type == PTAH_ITEM_TNT) {
		if (f->no_tnt_at == f->event.offset && f->no_tnt_at) {
			flow_emit_error(f, out, PTAH_E_MISMATCH);
		} else if (f->positioned) {
			f->tnt = f->event.bits;
			f->tnt_count = f->event.count;
			f->tnt_full = flow_fills_tnt(f->tnt_count);
		}
		f->no_tnt_at = 0;
		return true;
	}
	f->no_tnt_at = 0;
	begin_event(f);
	return true;
}

/* A deferred TIP (SDM "Deferred TIPs"): its branch precedes the TNT bits that are left. */
static bool take_deferred_tip(struct ptah_flow *f, struct flow_output *out)
{
	struct code_node *node = f->node;

	if (!event_next(f->events, &f->event))
		return false;
	flow_set_now(f, f->event.tsc, f->event.tsc_error, f->event.offset);
	if (f->event.type != PTAH_ITEM_TIP) {
		flow_emit_error(f, out, PTAH_E_MISMATCH);
		if (f->event.type != PTAH_ITEM_TNT) /* its bits have no meaning after the error */
			begin_event(f);
		return true;
	}
	flow_emit_block(f, out, node);
	flow_go_indirect(f, node, f->event.to);
	if (f->resync && !f->tnt_full)
		f->no_tnt_at = event_offset(f->events, f->events->pos);
	if (UNLIKELY(f->space_waits))
		flow_enter_space(f, out);
	return true;
}

/* Whether paths can take the next packets. (See paths.h.) */
static ALWAYS_INLINE bool can_run_paths(const struct ptah_flow *f)
{
	const struct ptah_event_decoder *d = f->events;

	return d->plain == f->positioned && d->end - d->pos > PATHS_MIN_BYTES && !f->no_paths &&
	       !f->on_indirect && !f->space_waits && !f->old_calls && !f->has_proven &&
	       !f->no_tnt && !f->no_tnt_at && d->tsc < f->time_limit;
}

/* At the end of the trace. False: all is reported, or more bytes are needed. */
static bool finish_flow(struct ptah_flow *f, struct flow_output *out)
{
	if (LIKELY(!f->has_proven) || f->events->phase != EVENT_DONE)
		return false;
	flow_settle_proven(f, out);
	return true;
}

/* One step, or many by paths. False when more bytes are needed. */
static ALWAYS_INLINE bool advance(struct ptah_flow *f, struct flow_output *out, bool by_paths)
{
	bool wants_tip;

	if (UNLIKELY(f->has_proven) && (f->tnt_count || f->has_event) &&
	    (!flow_settle_proven(f, out) || flow_is_full(out)))
		return true;
	if (f->tnt_count) {
		flow_run_tnt(f, out, &wants_tip);
		return !wants_tip || take_deferred_tip(f, out);
	}
	if (f->has_event) {
		f->paused = f->event.tsc >= f->time_limit && f->event.type != PTAH_ITEM_PSB;
		if (!f->paused)
			f->has_event = !flow_apply_event(f, out);
		return true;
	}
	if (by_paths && can_run_paths(f)) {
		flow_run_paths(f, out);
		if (f->tnt_count || flow_is_full(out))
			return true;
	}
	return take_next(f, out) || finish_flow(f, out);
}

int ptah_flow_read(struct ptah_flow *f, struct ptah_item *items, size_t capacity)
{
	struct flow_output out = {items, 0, capacity > INT32_MAX ? INT32_MAX : capacity};

	if (!f || (!items && capacity))
		return PTAH_E_INVAL;
	flow_follow_image(f);
	if (f->has_held && capacity) {
		flow_emit_event(f, &out, &f->held);
		f->has_held = false;
		if (flow_can_resync(&f->held))
			flow_end_batch(&out);
	}
	while (!flow_is_full(&out) && !f->paused && advance(f, &out, true))
		;
	if (capacity)
		f->at_error = out.count && flow_can_resync(&items[out.count - 1]);
	return (int)out.count;
}

/*
 * Reads one block without paths. False: there is none, the next item is not a block and is held, or
 * an event was left out (f->hid_event), after which paths may know how to continue.
 */
static bool read_block(struct ptah_flow *f)
{
	struct flow_output out = {&f->held, 0, 1};

	f->hid_event = false;
	while (!flow_is_full(&out) && !f->paused && !f->hid_event && advance(f, &out, false))
		;
	f->has_held = out.count && f->held.type != PTAH_ITEM_BLOCK;
	return out.count && !f->has_held;
}

#define FEW_BLOCKS 32

int ptah_flow_read_blocks(struct ptah_flow *f, struct ptah_block *blocks, size_t capacity)
{
	struct flow_blocks out = {blocks, 0, capacity > INT32_MAX ? INT32_MAX : capacity};

	if (!f || !blocks || capacity < PTAH_FLOW_MIN_BLOCKS)
		return PTAH_E_INVAL;
	flow_follow_image(f);
	f->knows_last = false;
	while (!f->has_held && !f->paused) {
		const size_t before = out.count;

		if (!f->has_event && can_run_paths(f))
			flow_run_block_paths(f, &out);
		f->knows_last = f->knows_last && out.count == before;
		/* With room for less than most paths it is better to return and be called again. */
		if (f->has_held || (out.count && out.capacity - out.count < FEW_BLOCKS))
			break;
		if (!read_block(f)) {
			if (!f->hid_event)
				break;
			continue;
		}
		f->last = f->held;
		f->knows_last = true;
		out.blocks[out.count++] =
		    (struct ptah_block){.ip = f->held.ip,
					.size = (uint16_t)(f->held.end - f->held.ip),
					.space = (uint16_t)f->held.code.space,
					.ninsn = (uint8_t)f->held.ninsn,
					.insn_class = f->held.insn_class,
					.last_size = f->held.last_size,
					.mode = f->held.mode,
					.flags = f->held.flags};
	}
	return (int)out.count;
}

bool ptah_flow_last_block(const struct ptah_flow *f, struct ptah_item *item)
{
	if (!f || !item || !f->knows_last)
		return false;
	*item = f->last;
	return true;
}

static int read_spans(struct ptah_flow *f, struct ptah_span *spans, size_t capacity, bool in_line)
{
	struct flow_spans out = {.spans = spans, .in_line = in_line};

	out.capacity = (capacity > INT32_MAX ? INT32_MAX : capacity) - 1;
	flow_follow_image(f);
	f->low = f->high = 0;
	while (!f->has_held && !f->paused) {
		if (!f->has_event && can_run_paths(f))
			flow_run_span_paths(f, &out);
		if (f->has_held || out.capacity - out.count < FEW_BLOCKS)
			break;
		if (read_block(f))
			flow_add_block(f, &out, &f->held);
		else if (f->hid_event)
			flow_close_span(&out);
		else
			break;
	}
	flow_close_span(&out);
	return (int)out.count;
}

int ptah_flow_read_spans(struct ptah_flow *f, struct ptah_span *spans, size_t capacity)
{
	if (!f || !spans || capacity < PTAH_FLOW_MIN_SPANS)
		return PTAH_E_INVAL;
	return read_spans(f, spans, capacity, false);
}

int flow_read_event_spans(struct ptah_flow *f, struct ptah_span *spans, size_t capacity)
{
	return read_spans(f, spans, capacity, true);
}

/*
 * Writes the steps of the held block. False: its code cannot be read any more, and the block stays
 * held.
 */
static bool put_steps(struct ptah_flow *f, struct flow_steps *out)
{
	const struct ptah_item *block = &f->held;
	struct ptah_insn insns[CODE_MAX_INSNS];
	const int n = ptah_flow_insns(f, block, insns, CODE_MAX_INSNS);

	f->has_held = n <= 0;
	if (f->has_held)
		return false;
	flow_put_steps(out->steps + out->count, insns, (unsigned)n, block->code.space,
		       block->flags);
	out->count += (size_t)n;
	return true;
}

int ptah_flow_read_steps(struct ptah_flow *f, struct ptah_step *steps, size_t capacity)
{
	struct flow_steps out = {steps, 0, capacity > INT32_MAX ? INT32_MAX : capacity};

	if (!f || !steps || capacity < PTAH_FLOW_MIN_STEPS)
		return PTAH_E_INVAL;
	flow_follow_image(f);
	while (!f->has_held && !f->paused) {
		if (!f->has_event && can_run_paths(f))
			flow_run_step_paths(f, &out);
		if (f->has_held ||
		    (out.count && out.capacity - out.count < 2 * PTAH_FLOW_MIN_STEPS))
			break;
		if (read_block(f) ? !put_steps(f, &out) : !f->hid_event)
			break;
	}
	return (int)out.count;
}

int flow_read_packet(struct ptah_flow *f, struct ptah_item *items, size_t capacity, bool *starved)
{
	struct flow_output out = {items, 0, capacity};

	*starved = false;
	while (!flow_is_full(&out) && !f->paused && !*starved) {
		*starved = !advance(f, &out, false);
		if (flow_is_at_rest(f))
			break;
	}
	return (int)out.count;
}
