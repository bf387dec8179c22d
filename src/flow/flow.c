/* SPDX-License-Identifier: MIT */
/*
 * The flow machine: one place in the code, moved by events.
 *
 * It stands at a node whose instructions have not been reported yet. A
 * conditional branch takes a TNT bit, an indirect one a TIP, direct ones
 * nothing. A node is reported when the trace proves that it ran to its end:
 * by the outcome of its branch, or by something that came later. An event
 * with an address is reached by walking there along direct branches.
 */
#include <ptah/flow.h>

#include "flow/paths.h"

#include <stdlib.h>

static bool full(const struct flow_output *out)
{
	return out->count == out->capacity;
}

/* Items */

static ALWAYS_INLINE struct ptah_item *emit_block(struct ptah_flow *f, struct flow_output *out,
						  const struct code_node *node)
{
	struct ptah_item *item = &out->items[out->count++];

	flow_put_block(item, node, f->head, (word_pair){f->tsc, f->offset});
	return item;
}

/* The flags and the time's error that blocks have from here on. */
NOINLINE static void set_head(struct ptah_flow *f, uint8_t tsc_error)
{
	const struct ptah_item item = {.flags = f->speculative, .tsc_error = tsc_error};

	f->tsc_error = tsc_error;
	memcpy(&f->head, &item, sizeof(f->head));
}

/* The packet that moves us: its time and place. */
static ALWAYS_INLINE void set_time(struct ptah_flow *f, uint64_t tsc, uint8_t tsc_error,
				   uint64_t offset)
{
	f->tsc = tsc;
	f->offset = offset;
	if (UNLIKELY(tsc_error != f->tsc_error))
		set_head(f, tsc_error);
}

void flow_set_time(struct ptah_flow *f, uint64_t offset)
{
	set_time(f, f->events->tsc, f->events->tsc_error, offset);
}

/* A node's first `ninsn` instructions, up to `end`. */
static void emit_part(struct ptah_flow *f, struct flow_output *out, const struct code_node *node,
		      uint64_t end, unsigned ninsn, unsigned last_size)
{
	struct ptah_item *item = emit_block(f, out, node);

	item->flags |= PTAH_ITEM_TRUNCATED;
	item->insn_class = PTAH_INSN_OTHER;
	item->ninsn = (uint16_t)ninsn;
	item->last_size = (uint8_t)last_size;
	item->end = end;
}

/* No more in this batch: the caller may want to do something right here. */
static void end_batch(struct flow_output *out)
{
	out->capacity = out->count;
}

static void emit_event(const struct ptah_flow *f, struct flow_output *out,
		       const struct ptah_item *event)
{
	out->items[out->count++] = *event;
	if (UNLIKELY(f->stop_at_events))
		end_batch(out);
}

static void lose_position(struct ptah_flow *f)
{
	f->positioned = false;
	f->node = NULL;
	f->tnt_count = 0;
	f->stack_depth = f->old_calls = 0;
	f->gap_begun = false;
}

/* Where we stand, as an error item tells it. */
static void put_place(const struct ptah_flow *f, struct ptah_item *error)
{
	error->mode = f->mode;
	error->space = f->code.space;
	if (f->positioned)
		error->ip = f->node ? f->node->ip : f->ip;
	else
		error->flags |= PTAH_ITEM_IP_SUPPRESSED;
}

/* An error at the current place; decoding goes on at the next safe point. */
static void emit_error(struct ptah_flow *f, struct flow_output *out, int status)
{
	struct ptah_item *item = &out->items[out->count++];

	memset(item, 0, sizeof(*item));
	item->type = PTAH_ITEM_ERROR;
	item->status = (int16_t)status;
	item->tsc = f->tsc;
	item->tsc_error = f->tsc_error;
	item->offset = f->offset;
	put_place(f, item);
	lose_position(f);
	f->tip_lost = f->seeks_place = false;
	end_batch(out); /* ptah_flow_resync() */
}

/* Moving */

static void stand_at(struct ptah_flow *f, uint64_t ip)
{
	f->positioned = true;
	f->ip = ip;
	f->node = NULL;
}

void flow_forget_nodes(struct ptah_flow *f)
{
	if (f->node)
		f->ip = f->node->ip;
	f->node = NULL;
	for (unsigned i = 0; i < STACK_SIZE; i++) {
		f->stack[i].call = NULL;
		f->stack[i].place = 0;
	}
}

/* The node we stand at, or NULL with the reason. */
static ALWAYS_INLINE struct code_node *here(struct ptah_flow *f, int *status)
{
	if (UNLIKELY(!f->node))
		f->node = code_find(&f->code, f->ip, f->mode, status);
	return f->node;
}

/* Follows a link, making it on first use. What is not mapped matters when it is needed. */
static ALWAYS_INLINE void follow(struct ptah_flow *f, struct code_node *node, unsigned which)
{
	struct code_node *next = node->next[which];

	if (UNLIKELY(!next)) {
		int status;

		f->ip = which ? node->target : node->end;
		next = node->next[which] = code_find(&f->code, f->ip, code_mode(node), &status);
	}
	f->node = next;
}

static ALWAYS_INLINE void push_return(struct ptah_flow *f, struct code_node *call)
{
	struct return_site *site = &f->stack[f->stack_top++ % STACK_SIZE];

	site->ip = call->end;
	site->call = call;
	site->place = 0;
	if (f->stack_depth < STACK_SIZE)
		f->stack_depth++;
}

/* A near return takes its entry off, compressed or not (SDM: "For near RETs, pop"). */
static ALWAYS_INLINE bool pop_return(struct ptah_flow *f, struct return_site *site)
{
	if (UNLIKELY(!f->stack_depth))
		return false;
	f->stack_depth--;
	*site = f->stack[--f->stack_top % STACK_SIZE];
	return true;
}

static ALWAYS_INLINE void pass_direct(struct ptah_flow *f, struct code_node *node)
{
	if (flow_pushes(node)) {
		if (UNLIKELY(f->old_calls))
			f->old_calls--;
		else
			push_return(f, node);
	}
	follow(f, node, node->insn_class == PTAH_INSN_OTHER ? 0 : 1);
}

static bool is_far(const struct code_node *node)
{
	return node->insn_class == PTAH_INSN_FAR_CALL || node->insn_class == PTAH_INSN_FAR_RETURN ||
	       node->insn_class == PTAH_INSN_FAR_JUMP;
}

struct code_node *flow_chain_next(struct ptah_flow *f, struct code_node *node)
{
	unsigned which = node->insn_class == PTAH_INSN_OTHER ? 0 : 1;
	int status;

	if (!node->next[which])
		node->next[which] =
		    code_find(&f->code, which ? node->target : node->end, code_mode(node), &status);
	return node->next[which];
}

bool flow_chain_ends(struct ptah_flow *f, struct code_node *node)
{
	struct code_node *n = node;

	for (unsigned i = 0; i < MAX_CHAIN; i++) {
		if (!flow_is_direct(n) || n->chain_checked)
			break;
		n = flow_chain_next(f, n);
		if (!n) /* not marked: code may appear there */
			return true;
		if (i == MAX_CHAIN - 1)
			return false;
	}
	node->chain_checked = 1;
	return true;
}

static ALWAYS_INLINE bool chain_ok(struct ptah_flow *f, struct code_node *node)
{
	return LIKELY(node->chain_checked) || flow_chain_ends(f, node);
}

/* An uncompressed indirect branch of `node` to `ip`; its last target is remembered. */
static ALWAYS_INLINE void go_indirect(struct ptah_flow *f, struct code_node *node, uint64_t ip)
{
	struct return_site site;
	struct code_node *next = node->next[1];

	if (node->insn_class == PTAH_INSN_CALL_IND)
		push_return(f, node);
	else if (node->insn_class == PTAH_INSN_RETURN)
		pop_return(f, &site);
	if (UNLIKELY(f->on_indirect))
		f->on_indirect(f->indirect_context, node, ip);
	if (LIKELY(next && next->ip == ip)) {
		f->node = next;
		return;
	}
	stand_at(f, ip);
	if (!is_far(node)) { /* a far branch may change the mode: look up later */
		int status;

		f->node = node->next[1] = code_find(&f->code, ip, f->mode, &status);
	}
}

static ALWAYS_INLINE bool go_compressed_return(struct ptah_flow *f)
{
	struct return_site site;

	if (UNLIKELY(!pop_return(f, &site)))
		return false;
	if (UNLIKELY(f->on_indirect))
		f->on_indirect(f->indirect_context, f->node, site.ip);
	if (LIKELY(site.call && code_mode(site.call) == f->mode)) {
		follow(f, site.call, 0);
	} else {
		f->ip = site.ip;
		f->node = NULL;
	}
	return true;
}

/*
 * Conditional branches, direct jumps and calls in a row, which is what most
 * traces consist of. All in registers: the items are written through a pointer that
 * could, for all the compiler knows, point into *f.
 */
static void run_simple(struct ptah_flow *f, struct flow_output *out)
{
	struct ptah_item *item = out->items + out->count, *const end = out->items + out->capacity;
	const uint64_t head = f->head, tnt = f->tnt;
	const word_pair now = {f->tsc, f->offset};
	struct code_node *node = f->node, *next;
	unsigned count = f->tnt_count;

	while (count && item != end) {
		uint64_t word = head;

		if (node->insn_class == PTAH_INSN_COND) {
			const uint64_t taken = tnt >> (count - 1) & 1;

			next = node->next[taken];
			if (UNLIKELY(!next))
				break;
			word |= taken << FLOW_TAKEN_SHIFT;
			count--;
		} else if (node->insn_class == PTAH_INSN_JUMP && node->chain_checked) {
			next = node->next[1];
			if (UNLIKELY(!next))
				break;
		} else if (node->insn_class == PTAH_INSN_CALL && node->chain_checked &&
			   !f->old_calls) {
			next = node->next[1];
			if (UNLIKELY(!next))
				break;
			if (flow_pushes(node))
				push_return(f, node);
		} else {
			break;
		}
		flow_put_block(item++, node, word, now);
		node = next;
	}
	f->node = node;
	f->tnt_count = count;
	out->count = (size_t)(item - out->items);
}

/*
 * Spends the TNT bits at hand. Returns with bits left when the output is full
 * or an indirect branch needs its (deferred) TIP, which is said in *wants_tip.
 */
static void run_tnt(struct ptah_flow *f, struct flow_output *out, bool *wants_tip)
{
	*wants_tip = false;
	while (f->tnt_count && !full(out)) {
		int status = 0;
		struct code_node *node = here(f, &status);
		struct ptah_item *item;
		unsigned taken;

		if (UNLIKELY(!node)) {
			emit_error(f, out, status);
			return;
		}
		switch (node->insn_class) {
		case PTAH_INSN_COND:
			taken = f->tnt >> (f->tnt_count - 1) & 1;
			if (LIKELY(node->next[taken] != NULL)) {
				run_simple(f, out);
				break;
			}
			f->tnt_count--;
			item = emit_block(f, out, node);
			item->flags |= taken ? PTAH_ITEM_TAKEN : 0;
			follow(f, node, taken);
			break;
		case PTAH_INSN_JUMP:
		case PTAH_INSN_CALL:
		case PTAH_INSN_OTHER:
			if (UNLIKELY(!chain_ok(f, node))) {
				emit_error(f, out, PTAH_E_NO_PROGRESS);
				return;
			}
			emit_block(f, out, node);
			pass_direct(f, node);
			break;
		case PTAH_INSN_RETURN:
			if (UNLIKELY(!(f->tnt >> (f->tnt_count - 1) & 1))) {
				emit_error(f, out, PTAH_E_BAD_RETCOMP);
				return;
			}
			if (UNLIKELY(!f->stack_depth || f->no_retcomp)) {
				emit_error(f, out, PTAH_E_BAD_RETCOMP);
				out->items[out->count - 1].flags |= PTAH_ITEM_TAKEN;
				return;
			}
			f->tnt_count--;
			emit_block(f, out, node);
			go_compressed_return(f);
			break;
		default:
			*wants_tip = true;
			return;
		}
	}
}

static bool has_erratum(const struct ptah_flow *f, enum ptah_erratum erratum)
{
	return event_has_erratum(f->events, erratum);
}

/* Is `ip` outside of what the address filter lets through? (SDM "Filtering by IP") */
static bool leaves_filter(const struct ptah_flow *f, uint64_t ip)
{
	bool limited = false, inside = false;

	for (unsigned i = 0; i < PTAH_FILTER_RANGES; i++) {
		const struct ptah_filter_range *r = &f->ranges[i];
		bool here = ip >= r->first && ip <= r->last;

		if (r->kind == PTAH_RANGE_STOP && here)
			return true;
		limited |= r->kind == PTAH_RANGE_FILTER;
		inside |= r->kind == PTAH_RANGE_FILTER && here;
	}
	return limited && !inside;
}

/* SKL014: the TIP.PGD of a direct branch that leaves the filter has no IP. */
static bool is_skl014(const struct ptah_flow *f, const struct code_node *node)
{
	return f->event.type == PTAH_ITEM_DISABLED && has_erratum(f, PTAH_ERRATUM_SKL014) &&
	       (node->insn_class == PTAH_INSN_JUMP || node->insn_class == PTAH_INSN_CALL) &&
	       leaves_filter(f, node->target);
}

/* What a walk ended with. */
enum walk {
	WALK_FULL,    /* the output is full: call again */
	WALK_ARRIVED, /* at what was asked for */
	WALK_ERROR,   /* reported, position lost */
};

/* To the next branch that decides: `*deciding` is its node, not yet reported. */
static enum walk walk_to_branch(struct ptah_flow *f, struct flow_output *out,
				struct code_node **deciding)
{
	for (;;) {
		int status = 0;
		struct code_node *node;

		if (full(out))
			return WALK_FULL;
		node = here(f, &status);
		if (!node) {
			emit_error(f, out, status);
			return WALK_ERROR;
		}
		if (!flow_is_direct(node) || is_skl014(f, node)) {
			*deciding = node;
			return WALK_ARRIVED;
		}
		if (!chain_ok(f, node)) {
			emit_error(f, out, PTAH_E_NO_PROGRESS);
			return WALK_ERROR;
		}
		emit_block(f, out, node);
		pass_direct(f, node);
	}
}

/* A branch that leaves no packet in a trace without TNT packets. */
static bool is_unseen(const struct ptah_flow *f, const struct code_node *node)
{
	return f->no_tnt && (node->insn_class == PTAH_INSN_COND ||
			     (node->insn_class == PTAH_INSN_RETURN && !f->no_retcomp));
}

/* What ran between `ip` and `to` is in no packet. */
static void emit_gap(struct ptah_flow *f, struct flow_output *out, uint64_t ip, uint64_t to)
{
	struct ptah_item *item = &out->items[out->count++];

	memset(item, 0, sizeof(*item));
	item->type = PTAH_ITEM_GAP;
	item->flags = f->speculative;
	item->mode = f->mode;
	item->ip = ip;
	item->to = to;
	item->tsc = f->tsc;
	item->tsc_error = f->tsc_error;
	item->offset = f->offset;
	f->gap_told = true;
	f->stack_depth = 0;
	if (f->stop_at_events)
		end_batch(out);
}

/* Past an unseen branch, which ran, to where the trace says that we got. */
static enum walk cross_gap(struct ptah_flow *f, struct flow_output *out,
			   const struct code_node *node, uint64_t to)
{
	if (full(out))
		return WALK_FULL;
	if (!f->gap_begun)
		emit_block(f, out, node)->flags |= PTAH_ITEM_UNKNOWN;
	f->gap_begun = true;
	if (full(out))
		return WALK_FULL;
	emit_gap(f, out, node->end - code_last_size(node), to);
	f->gap_begun = false;
	stand_at(f, to);
	return WALK_ARRIVED;
}

/* Is `ip` on the way, before any branch that needs trace? */
static bool reachable(struct ptah_flow *f, uint64_t ip)
{
	struct code_node *node;
	unsigned before, last_size;
	int status = 0;

	node = here(f, &status);
	if (!node)
		return f->ip == ip;
	for (unsigned i = 0; i < MAX_CHAIN; i++) {
		struct code_node *next;

		if (ip >= node->ip && ip < node->end &&
		    code_locate(&f->code, node, ip, &before, &last_size))
			return true;
		if (!flow_is_direct(node))
			return false;
		next = flow_chain_next(f, node);
		if (!next) /* nothing is mapped there, but we get there */
			return ip ==
			       (node->insn_class == PTAH_INSN_OTHER ? node->end : node->target);
		node = next;
	}
	return false;
}

/* Does the way from here lead to an unseen branch? Then it may have led here before. */
static bool leads_to_unseen(struct ptah_flow *f)
{
	int status = 0;
	struct code_node *node = here(f, &status);

	for (unsigned i = 0; node && i < MAX_CHAIN && flow_is_direct(node); i++)
		node = flow_chain_next(f, node);
	return !node || is_unseen(f, node);
}

/* We are at `ip`, where the trace says we got. */
static enum walk arrive(struct ptah_flow *f, struct flow_output *out, uint64_t ip)
{
	stand_at(f, ip);
	if (LIKELY(!f->no_tnt) || f->gap_told || !leads_to_unseen(f))
		return WALK_ARRIVED;
	if (full(out))
		return WALK_FULL;
	emit_gap(f, out, ip, ip);
	return WALK_ARRIVED;
}

/* To the instruction at `ip`, which is not on the way: behind an unseen branch? */
static enum walk walk_beyond(struct ptah_flow *f, struct flow_output *out, uint64_t ip)
{
	struct code_node *node = NULL;
	enum walk walk = WALK_ARRIVED;

	if (f->no_tnt)
		walk = walk_to_branch(f, out, &node);
	if (walk != WALK_ARRIVED)
		return walk;
	if (node && is_unseen(f, node))
		return cross_gap(f, out, node, ip);
	emit_error(f, out, PTAH_E_MISMATCH);
	return WALK_ERROR;
}

/* To the instruction at `ip`, along direct branches; everything before it is reported. */
static enum walk walk_to_ip(struct ptah_flow *f, struct flow_output *out, uint64_t ip)
{
	if (!reachable(f, ip))
		return walk_beyond(f, out, ip);
	for (;;) {
		unsigned before, last_size;
		int status = 0;
		struct code_node *node = here(f, &status);

		if (!node || node->ip == ip)
			return arrive(f, out, ip);
		if (full(out))
			return WALK_FULL;
		if (ip > node->ip && ip < node->end &&
		    code_locate(&f->code, node, ip, &before, &last_size)) {
			emit_part(f, out, node, ip, before, last_size);
			return arrive(f, out, ip);
		}
		emit_block(f, out, node);
		pass_direct(f, node);
	}
}

/* Tracing stopped at a branch to `to`: a direct one that goes there, or the first that needs trace.
 */
static enum walk walk_to_exit(struct ptah_flow *f, struct flow_output *out, uint64_t to)
{
	for (;;) {
		unsigned before, last_size;
		int status = 0;
		struct code_node *node;

		if (full(out))
			return WALK_FULL;
		node = here(f, &status);
		if (!node) {
			if (f->ip == to) /* straight out of what is mapped */
				return WALK_ARRIVED;
			emit_error(f, out, status);
			return WALK_ERROR;
		}
		if (node->ip == to)
			return WALK_ARRIVED;
		if (to > node->ip && to < node->end &&
		    code_locate(&f->code, node, to, &before, &last_size)) {
			emit_part(f, out, node, to, before, last_size);
			return WALK_ARRIVED;
		}
		if (is_unseen(f, node))
			return cross_gap(f, out, node, to);
		if (!flow_is_direct(node)) {
			if (node->insn_class == PTAH_INSN_COND && to != node->target &&
			    to != node->end) {
				emit_error(f, out, PTAH_E_MISMATCH);
				return WALK_ERROR;
			}
			emit_block(f, out, node)->flags |=
			    node->insn_class == PTAH_INSN_COND && to == node->target
				? PTAH_ITEM_TAKEN
				: 0;
			return WALK_ARRIVED;
		}
		if (!chain_ok(f, node) && !reachable(f, to)) {
			emit_error(f, out, PTAH_E_NO_PROGRESS);
			return WALK_ERROR;
		}
		emit_block(f, out, node);
		pass_direct(f, node);
	}
}

/* The event says whether we are in a transaction. */
static void set_speculative(struct ptah_flow *f)
{
	f->speculative = f->event.flags & PTAH_ITEM_SPECULATIVE;
	set_head(f, f->tsc_error);
}

/* Events. Each returns true when it is done, false when the output is full. */

static bool apply_tip(struct ptah_flow *f, struct flow_output *out)
{
	struct code_node *node;

	switch (walk_to_branch(f, out, &node)) {
	case WALK_FULL:
		return false;
	case WALK_ERROR:
		f->tip_lost = true;
		return true;
	default:
		break;
	}
	if (UNLIKELY(f->no_tnt) && is_unseen(f, node))
		return cross_gap(f, out, node, f->event.to) != WALK_FULL;
	if (node->insn_class == PTAH_INSN_COND) { /* it would need a TNT bit */
		emit_error(f, out, PTAH_E_MISMATCH);
		f->tip_lost = true;
		return true;
	}
	emit_block(f, out, node);
	go_indirect(f, node, f->event.to);
	return true;
}

/* The next instruction of a kind on the way: where it is and where it ends. */
static bool find_insn(struct ptah_flow *f, bool (*is_it)(const struct ptah_insn *), uint64_t *ip,
		      uint64_t *end)
{
	int status = 0;
	struct code_node *node = here(f, &status);

	for (unsigned i = 0; node && i < MAX_CHAIN; i++) {
		const struct ptah_insn *insns =
		    code_insns(&f->code, node->ip, code_mode(node), node->space, code_ninsn(node));

		for (unsigned k = 0; insns && k < code_ninsn(node); k++) {
			if (!is_it(&insns[k]))
				continue;
			*ip = insns[k].ip;
			*end = insns[k].ip + insns[k].size;
			return true;
		}
		if (!flow_is_direct(node) || is_skl014(f, node))
			break;
		node = flow_chain_next(f, node);
	}
	return false;
}

/* Do we get to the instruction at `first` before that at `second`, which is on the way? */
static bool comes_first(struct ptah_flow *f, uint64_t first, uint64_t second)
{
	unsigned before, last_size;
	int status = 0;
	struct code_node *node = here(f, &status);

	for (;;) {
		bool has_second = second >= node->ip && second < node->end &&
				  code_locate(&f->code, node, second, &before, &last_size);

		if (first >= node->ip && first < (has_second ? second : node->end) &&
		    code_locate(&f->code, node, first, &before, &last_size))
			return true;
		if (has_second)
			return false;
		node = node->next[node->insn_class == PTAH_INSN_OTHER ? 0 : 1];
	}
}

static bool is_prefix(unsigned byte, unsigned mode)
{
	static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
					   0x66, 0x67, 0xf0, 0xf2, 0xf3};

	return memchr(prefixes, (int)byte, sizeof(prefixes)) ||
	       (mode == PTAH_EXEC_64 && byte >> 4 == 4); /* REX */
}

/* The opcode behind any prefixes: 0F, this byte, and its ModRM; else NULL. */
static const uint8_t *find_opcode_0f(const struct ptah_insn *insn, uint8_t opcode)
{
	unsigned i = 0;

	while (i < insn->size && is_prefix(insn->bytes[i], insn->mode))
		i++;
	if (i + 2 >= insn->size || insn->bytes[i] != 0x0f || insn->bytes[i + 1] != opcode)
		return NULL;
	return insn->bytes + i;
}

static bool is_mov_cr3(const struct ptah_insn *insn)
{
	const uint8_t *op = find_opcode_0f(insn, 0x22);

	return op && (op[2] >> 3 & 7) == 3;
}

static bool is_vmptrld(const struct ptah_insn *insn)
{
	const uint8_t *op = find_opcode_0f(insn, 0xc7);

	return op && (op[2] >> 3 & 7) == 6 && op[2] >> 6 != 3 && insn->bytes[0] != 0x66 &&
	       insn->bytes[0] != 0xf3;
}

static bool is_ptwrite(const struct ptah_insn *insn)
{
	return insn->insn_class == PTAH_INSN_PTWRITE;
}

/*
 * Behind the instruction [ip, end), which is on the way and has run. In a loop
 * the address behind it may come before it. That is no longer seen when the
 * output was full on the way: the blocks are the same.
 */
static enum walk walk_behind(struct ptah_flow *f, struct flow_output *out, uint64_t ip,
			     uint64_t end)
{
	f->gap_told = true; /* had we come by it before, there were a packet */
	f->around = f->around || comes_first(f, end, ip);
	if (f->around && walk_to_ip(f, out, ip) == WALK_FULL)
		return WALK_FULL;
	return walk_to_ip(f, out, end);
}

/* Have we been told of ranges? Then a branch leaves them or tracing goes on. */
static bool knows_filter(const struct ptah_flow *f)
{
	bool known = false;

	for (unsigned i = 0; i < PTAH_FILTER_RANGES; i++)
		known |= f->ranges[i].kind != PTAH_RANGE_OFF;
	return known;
}

/*
 * A conditional branch that left the filter's range has no address in its
 * TIP.PGD: SDM Table "TIP.PGD Packet Definition". Only a taken branch leaves a
 * range, so it went to its target; which we say where we know that this lies outside.
 */
static enum walk leave_by_conditional(struct ptah_flow *f, struct flow_output *out,
				      const struct code_node *node)
{
	if (knows_filter(f) && !leaves_filter(f, node->target)) {
		emit_error(f, out, PTAH_E_MISMATCH);
		return WALK_ERROR;
	}
	emit_block(f, out, node)->flags |= knows_filter(f) ? PTAH_ITEM_TAKEN : PTAH_ITEM_UNKNOWN;
	return WALK_ARRIVED;
}

/*
 * TIP.PGD with neither FUP nor address: the next branch that needs trace (a
 * system call, an interrupt return, one whose target the filter hides), or the
 * MOV CR3 on the way there. One that has not left has had a PIP (SDM Table
 * "Packet Generation under Different Enable Conditions", 5c and 5d), which took us
 * behind it.
 */
static enum walk walk_to_hidden_exit(struct ptah_flow *f, struct flow_output *out)
{
	struct code_node *node;
	uint64_t ip, end;
	enum walk walk;

	if (find_insn(f, is_mov_cr3, &ip, &end))
		return walk_behind(f, out, ip, end);
	walk = walk_to_branch(f, out, &node);
	if (walk != WALK_ARRIVED)
		return walk;
	if (is_unseen(f, node))
		return cross_gap(f, out, node, 0);
	if (node->insn_class == PTAH_INSN_COND)
		return leave_by_conditional(f, out, node);
	emit_block(f, out, node);
	return WALK_ARRIVED;
}

/* TIP.PGD without a FUP. */
static bool apply_disabled(struct ptah_flow *f, struct flow_output *out)
{
	enum walk walk;

	if (f->positioned) {
		walk = f->event.flags & PTAH_ITEM_IP_SUPPRESSED ? walk_to_hidden_exit(f, out)
								: walk_to_exit(f, out, f->event.to);
		if (walk == WALK_FULL)
			return false;
		lose_position(f);
	}
	if (full(out))
		return false;
	f->event.ip = 0;
	emit_event(f, out, &f->event);
	return true;
}

/* BDM64: the branch right before an abort has a wrong target; the abort's own address is right. */
static bool is_bdm64(struct ptah_flow *f)
{
	return has_erratum(f, PTAH_ERRATUM_BDM64) && f->event.type == PTAH_ITEM_TSX &&
	       f->event.flags & PTAH_ITEM_ABORTED && !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED) &&
	       !reachable(f, f->event.ip);
}

/* SKD022: the VM entry we stand at has run, although a FUP says that tracing stopped before it. */
static bool is_skd022(struct ptah_flow *f)
{
	uint8_t bytes[3];

	return has_erratum(f, PTAH_ERRATUM_SKD022) && f->event.type == PTAH_ITEM_ASYNC_DISABLED &&
	       ptah_image_read(f->code.image, f->event.ip, bytes, 3, NULL) == 3 &&
	       bytes[0] == 0x0f && bytes[1] == 0x01 &&
	       (bytes[2] == 0xc2 || bytes[2] == 0xc3); /* VMLAUNCH, VMRESUME */
}

/* Standing at the VM entry: it is the last thing that ran. */
static bool apply_skd022(struct ptah_flow *f, struct flow_output *out)
{
	int status = 0;
	struct code_node *node;

	if (full(out))
		return false;
	node = here(f, &status);
	if (node)
		emit_block(f, out, node);
	lose_position(f);
	f->event.type = PTAH_ITEM_DISABLED;
	return apply_disabled(f, out);
}

/*
 * A PTW without a FUP belongs to the next PTWRITE, which has retired. Without
 * outcomes we go behind it in any case: the next PTW may be of the next round.
 */
static bool apply_ptwrite(struct ptah_flow *f, struct flow_output *out)
{
	const bool told = !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);
	uint64_t ip, end;

	f->gap_told = true; /* had we come by the instruction before, there were a PTW */
	if (f->positioned && !f->placed && told && walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (f->positioned && !f->placed && find_insn(f, is_ptwrite, &ip, &end) &&
	    (!told || ip == f->event.ip)) {
		if (walk_behind(f, out, ip, end) == WALK_FULL)
			return false;
		f->event.ip = ip;
		f->event.flags &= (uint8_t)~PTAH_ITEM_IP_SUPPRESSED;
		f->placed = true;
	}
	if (full(out))
		return false;
	emit_event(f, out, &f->event);
	return true;
}

int flow_set_space(struct ptah_flow *f, const struct ptah_space *space)
{
	f->space_fixed = true;
	f->space = *space;
	flow_forget_nodes(f);
	return code_set_space(&f->code, space);
}

/* The space that PIP and VMCS packets have told is the one we look code up in. */
static void enter_space(struct ptah_flow *f, struct flow_output *out)
{
	int status;

	f->space_waits = false;
	if (f->space.cr3 == f->code.spaces[f->code.space].cr3 &&
	    f->space.vmcs == f->code.spaces[f->code.space].vmcs)
		return;
	flow_forget_nodes(f);
	status = code_set_space(&f->code, &f->space);
	if (status < 0 && full(out))
		lose_position(f);
	else if (status < 0)
		emit_error(f, out, status);
}

/*
 * PIP, VMCS. What comes without an address belongs to a MOV CR3 or VMPTRLD on
 * the way, or else to the branch that comes next (a task switch, a VM entry).
 */
static bool apply_space(struct ptah_flow *f, struct flow_output *out)
{
	const bool vmcs = f->event.type == PTAH_ITEM_VMCS || f->event.type == PTAH_ITEM_ASYNC_VMCS;
	const bool ahead = f->positioned && f->event.flags & PTAH_ITEM_IP_SUPPRESSED &&
			   !(f->event.flags & PTAH_ITEM_STATUS);
	uint64_t *value = vmcs ? &f->space.vmcs : &f->space.cr3;
	uint64_t ip, end;

	if (ahead && !f->placed && find_insn(f, vmcs ? is_vmptrld : is_mov_cr3, &ip, &end)) {
		if (walk_behind(f, out, ip, end) == WALK_FULL)
			return false;
		f->placed = true;
	}
	if (full(out))
		return false;
	emit_event(f, out, &f->event);
	if (f->space_fixed)
		return true;
	*value = f->event.value;
	f->space_waits = ahead && !f->placed;
	if (!f->space_waits)
		enter_space(f, out);
	return true;
}

/*
 * Everything else: FUP + TIP.PGD, FUP + TIP and FUP + an event of its own, which
 * are at an address; and what has none or repeats what is known.
 */
static bool apply_at_ip(struct ptah_flow *f, struct flow_output *out)
{
	bool has_ip = f->event.type == PTAH_ITEM_ASYNC_DISABLED ||
		      !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);

	if (f->positioned && has_ip && !f->placed && !(f->event.flags & PTAH_ITEM_STATUS)) {
		if (is_bdm64(f))
			stand_at(f, f->event.ip);
		if (walk_to_ip(f, out, f->event.ip) == WALK_FULL)
			return false;
		if (f->positioned && is_skd022(f))
			return apply_skd022(f, out);
	}
	if (full(out))
		return false;
	if (f->event.type == PTAH_ITEM_ASYNC_DISABLED)
		lose_position(f);
	else if (f->event.type == PTAH_ITEM_ASYNC_BRANCH && f->positioned)
		stand_at(f, f->event.to);
	else if (f->event.type == PTAH_ITEM_TSX)
		set_speculative(f);
	emit_event(f, out, &f->event);
	return true;
}

/* How many direct calls stand between here and `ip`, which is on the way. */
static unsigned calls_before(struct ptah_flow *f, uint64_t ip)
{
	unsigned calls = 0, before, last_size;
	int status = 0;
	struct code_node *node = here(f, &status);

	for (; node; node = node->next[node->insn_class == PTAH_INSN_OTHER ? 0 : 1]) {
		if (ip >= node->ip && ip < node->end &&
		    code_locate(&f->code, node, ip, &before, &last_size))
			break;
		calls += flow_pushes(node);
	}
	return calls;
}

/*
 * A PSB+ gives the address we should be at. If we cannot get there, what came
 * before was misread: say so, and go on from here, where the address is sure.
 */
static bool apply_psb(struct ptah_flow *f, struct flow_output *out)
{
	bool on = !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);

	if (UNLIKELY(f->no_tnt) && f->positioned && on &&
	    walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (f->positioned && (!on || !reachable(f, f->event.ip))) {
		emit_error(f, out, PTAH_E_MISMATCH);
		return false;
	}
	if (f->node && f->mode != f->event.mode) { /* the PSB+ is sure: read the code anew */
		f->ip = f->node->ip;
		f->node = NULL;
	}
	f->mode = f->event.mode;
	/* What comes before the pause ran over the image of before; what comes before a transaction
	 * that the PSB+ is the first to tell of, outside of it. */
	if ((f->event.tsc >= f->time_limit ||
	     (f->event.flags ^ f->speculative) & PTAH_ITEM_SPECULATIVE) &&
	    f->positioned && walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (full(out))
		return false;
	f->paused = f->event.tsc >= f->time_limit;
	if (!f->positioned && on)
		stand_at(f, f->event.ip);
	set_speculative(f);
	/* Calls that were on the way to here have been forgotten, too. */
	f->stack_depth = 0;
	f->old_calls = f->positioned && on ? calls_before(f, f->event.ip) : 0;
	emit_event(f, out, &f->event);
	return true;
}

static bool carry_out(struct ptah_flow *f, struct flow_output *out)
{
	switch (f->event.type) {
	case PTAH_ITEM_TIP:
		return f->positioned ? apply_tip(f, out) : true;
	case PTAH_ITEM_DISABLED:
		return apply_disabled(f, out);
	case PTAH_ITEM_PSB:
		return apply_psb(f, out);
	case PTAH_ITEM_ENABLED:
		/* Nothing is compressed across the gap: a safe point for all state. */
		lose_position(f);
		stand_at(f, f->event.ip);
		break;
	case PTAH_ITEM_OVERFLOW:
		lose_position(f);
		if (!(f->event.flags & PTAH_ITEM_IP_SUPPRESSED))
			stand_at(f, f->event.ip);
		break;
	case PTAH_ITEM_EXEC_MODE:
		/* With a branch it is where we are; with a FUP alone we have to get there. */
		if (f->positioned &&
		    !(f->event.flags & (PTAH_ITEM_IP_SUPPRESSED | PTAH_ITEM_STATUS)) &&
		    (f->node ? f->node->ip : f->ip) != f->event.ip &&
		    walk_to_ip(f, out, f->event.ip) == WALK_FULL)
			return false;
		if (full(out))
			return false;
		f->mode = f->event.mode;
		f->ip = f->node ? f->node->ip : f->ip;
		f->node = NULL;
		break;
	case PTAH_ITEM_ERROR:
		put_place(f, &f->event);
		lose_position(f);
		f->seeks_place = false; /* now only a PSB is sure */
		break;
	case PTAH_ITEM_TICK:
		/* As far as the trace has proven; what comes next may have begun. */
		if (f->positioned) {
			f->event.ip = f->node ? f->node->ip : f->ip;
			f->event.flags &= (uint8_t)~PTAH_ITEM_IP_SUPPRESSED;
		}
		break;
	case PTAH_ITEM_CBR: /* no place in the code */
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
		return apply_space(f, out);
	case PTAH_ITEM_PTWRITE:
		return f->no_tnt || f->event.flags & PTAH_ITEM_IP_SUPPRESSED ? apply_ptwrite(f, out)
									     : apply_at_ip(f, out);
	default:
		return apply_at_ip(f, out);
	}
	emit_event(f, out, &f->event);
	return true;
}

/* Is this the branch that a change of the address space has been waiting for? */
static bool ends_wait(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_TIP:
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_ASYNC_BRANCH:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_PSB:
	case PTAH_ITEM_ERROR:
		return true;
	default:
		return false;
	}
}

static bool apply_event(struct ptah_flow *f, struct flow_output *out)
{
	const bool found = UNLIKELY(f->seeks_place) && !f->positioned && flow_find_place(f);
	/* A TIP is told by where it leads. */
	const bool done = (found && f->event.type == PTAH_ITEM_TIP) || carry_out(f, out);

	f->seeks_place = f->seeks_place && !f->positioned;
	if (UNLIKELY(f->space_waits) && done && ends_wait(&f->event))
		enter_space(f, out);
	return done;
}

/* The code cache follows the image: it forgets what has changed, and nothing else. */
bool flow_follow_image(struct ptah_flow *f)
{
	uint64_t generation = ptah_image_generation(f->code.image);
	struct image_change changes[IMAGE_CHANGES];
	size_t before = f->code.node_count;
	int n;

	if (generation == f->generation)
		return false;
	n = image_changes(f->code.image, f->generation, changes);
	f->generation = generation;
	if (n >= 0 && code_is_untouched(&f->code, changes, (size_t)n))
		return false;
	flow_forget_nodes(f);
	if (n < 0)
		code_flush(&f->code);
	else
		code_forget(&f->code, changes, (size_t)n);
	if (f->code.node_count == before)
		return false;
	flow_paths_forget(f);
	return true;
}

/* Do we stand at the near indirect branch that a TIP is for, with nothing else to heed? */
static ALWAYS_INLINE bool is_quick_tip(const struct ptah_flow *f, uint64_t tsc)
{
	const struct code_node *node = f->node;

	return node && flow_is_near_indirect(node) && tsc < f->time_limit && !f->space_waits &&
	       !f->no_tnt;
}

/*
 * The packets that nearly all of a trace consists of, straight from the
 * window. False when the next packet is another or not whole.
 */
static ALWAYS_INLINE bool take_quick(struct ptah_flow *f, struct flow_output *out)
{
	struct ptah_event_decoder *d = f->events;
	const uint8_t *p = d->pos;

	if (!d->plain || !f->positioned)
		return false;
	while (p < d->end && *p == OPCODE_PAD)
		p++;
	if (p == d->end)
		return false;
	if (!(*p & 1) && *p != OPCODE_EXT) {
		f->tnt_count = highest_bit(*p) - 1;
		f->tnt = *p >> 1;
		set_time(f, d->tsc, d->tsc_error, event_offset(d, p));
		d->pos = p + 1;
		return true;
	}
	if ((*p & OPCODE_IP_MASK) == OPCODE_TIP && *p >> 5 != PTAH_IPC_SUPPRESSED &&
	    (size_t)(d->end - p) > 8) {
		unsigned ipc = *p >> 5, bytes = packet_ip_bytes[ipc];
		uint64_t payload = load_le64(p + 1);

		if (UNLIKELY(bytes > 8)) /* a reserved value */
			return false;
		if (bytes < 8)
			payload &= (UINT64_C(1) << 8 * bytes) - 1;
		d->last_ip = packet_expand_ip(d->last_ip, ipc, payload);
		if (LIKELY(is_quick_tip(f, d->tsc))) {
			struct code_node *node = f->node;

			set_time(f, d->tsc, d->tsc_error, event_offset(d, p));
			d->pos = p + 1 + bytes;
			emit_block(f, out, node);
			go_indirect(f, node, d->last_ip);
			return true;
		}
		f->event.type = PTAH_ITEM_TIP;
		f->event.to = d->last_ip;
		f->event.tsc = d->tsc;
		set_time(f, d->tsc, d->tsc_error, event_offset(d, p));
		f->has_event = true;
		d->pos = p + 1 + bytes;
		return true;
	}
	return false;
}

/* Takes the next event, or TNT bits. False when more bytes are needed, at the end, at a pause. */
static bool take_next(struct ptah_flow *f, struct flow_output *out)
{
	if (take_quick(f, out))
		return true;
	if (!event_next(f->events, &f->event))
		return false;
	set_time(f, f->event.tsc, f->event.tsc_error, f->event.offset);
	if (f->event.type == PTAH_ITEM_TNT) {
		if (f->positioned) {
			f->tnt = f->event.value;
			f->tnt_count = f->event.count;
		}
		return true;
	}
	f->has_event = true;
	f->placed = f->around = f->gap_told = false;
	return true;
}

/* A deferred TIP (SDM "Deferred TIPs"): the branch comes before the TNT bits that are left. */
static bool take_deferred_tip(struct ptah_flow *f, struct flow_output *out)
{
	struct code_node *node = f->node;

	if (!event_next(f->events, &f->event))
		return false;
	set_time(f, f->event.tsc, f->event.tsc_error, f->event.offset);
	if (f->event.type != PTAH_ITEM_TIP) {
		emit_error(f, out, PTAH_E_MISMATCH);
		f->has_event = f->event.type != PTAH_ITEM_TNT; /* whose bits mean nothing now */
		return true;
	}
	emit_block(f, out, node);
	go_indirect(f, node, f->event.to);
	if (UNLIKELY(f->space_waits))
		enter_space(f, out);
	return true;
}

/* Does the next packet mean just itself, and more like it? (See paths.h.) */
static ALWAYS_INLINE bool can_run_paths(const struct ptah_flow *f)
{
	const struct ptah_event_decoder *d = f->events;

	return d->plain && f->positioned && d->end - d->pos > PATHS_MIN_BYTES && !f->no_paths &&
	       !f->on_indirect && !f->space_waits && !f->old_calls && !f->no_tnt &&
	       d->tsc < f->time_limit;
}

/* One step on, or many by paths. False when more bytes are needed. */
static ALWAYS_INLINE bool advance(struct ptah_flow *f, struct flow_output *out, bool by_paths)
{
	bool wants_tip;

	if (f->tnt_count) {
		run_tnt(f, out, &wants_tip);
		return !wants_tip || take_deferred_tip(f, out);
	}
	if (f->has_event) {
		f->paused = f->event.tsc >= f->time_limit && f->event.type != PTAH_ITEM_PSB;
		if (!f->paused)
			f->has_event = !apply_event(f, out);
		return true;
	}
	if (by_paths && can_run_paths(f)) {
		flow_run_paths(f, out);
		if (f->tnt_count || full(out))
			return true;
	}
	return take_next(f, out);
}

int ptah_flow_read(struct ptah_flow *f, struct ptah_item *items, size_t capacity)
{
	struct flow_output out = {items, 0, capacity > INT32_MAX ? INT32_MAX : capacity};

	if (!f || (!items && capacity))
		return PTAH_E_INVAL;
	flow_follow_image(f);
	if (f->has_held && capacity) {
		emit_event(f, &out, &f->held);
		f->has_held = false;
		if (flow_can_resync(&f->held))
			end_batch(&out);
	}
	while (!full(&out) && !f->paused && advance(f, &out, true))
		;
	if (capacity)
		f->at_error = out.count && flow_can_resync(&items[out.count - 1]);
	return (int)out.count;
}

/* One block, the flow's way. False: what comes next is none, and held, or nothing. */
static bool read_block(struct ptah_flow *f)
{
	struct flow_output out = {&f->held, 0, 1};

	while (!full(&out) && !f->paused && advance(f, &out, false))
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
		/* Without room for most paths it is better to come again. */
		if ((out.count && out.capacity - out.count < FEW_BLOCKS) || !read_block(f))
			break;
		f->last = f->held;
		f->knows_last = true;
		out.blocks[out.count++] =
		    (struct ptah_block){.ip = f->held.ip,
					.size = (uint16_t)(f->held.end - f->held.ip),
					.space = (uint16_t)f->held.space,
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

struct ptah_step *flow_put_steps(struct ptah_step *step, const struct ptah_insn *insns, unsigned n,
				 uint32_t space, uint8_t flags)
{
	for (unsigned i = 0; i < n; i++)
		*step++ = (struct ptah_step){.ip = insns[i].ip,
					     .size = insns[i].size,
					     .insn_class = insns[i].insn_class,
					     .mode = insns[i].mode,
					     .flags = flags & PTAH_ITEM_SPECULATIVE,
					     .space = (uint16_t)space};
	step[-1].flags = flags & (PTAH_ITEM_SPECULATIVE | PTAH_ITEM_TAKEN);
	return step;
}

/* The steps of the block at hand. False: it cannot be read any more, and is held. */
static bool put_steps(struct ptah_flow *f, struct flow_steps *out)
{
	const struct ptah_item *block = &f->held;
	struct ptah_insn insns[CODE_MAX_INSNS];
	const int n = ptah_flow_insns(f, block, insns, CODE_MAX_INSNS);

	f->has_held = n <= 0;
	if (f->has_held)
		return false;
	flow_put_steps(out->steps + out->count, insns, (unsigned)n, block->space, block->flags);
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
		if ((out.count && out.capacity - out.count < 2 * PTAH_FLOW_MIN_STEPS) ||
		    !read_block(f) || !put_steps(f, &out))
			break;
	}
	return (int)out.count;
}

int flow_read_packet(struct ptah_flow *f, struct ptah_item *items, size_t capacity, bool *starved)
{
	struct flow_output out = {items, 0, capacity};

	*starved = false;
	while (!full(&out) && !f->paused && !*starved) {
		*starved = !advance(f, &out, false);
		if (flow_is_at_rest(f))
			break;
	}
	return (int)out.count;
}

int ptah_flow_new(const struct ptah_image *image, const struct ptah_flow_config *config,
		  struct ptah_flow **flow)
{
	struct ptah_flow *f;
	int status;

	if (!image || !flow || (config && config->size < sizeof(*config)))
		return PTAH_E_INVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return PTAH_E_NOMEM;
	f->time_limit = UINT64_MAX;
	set_head(f, PTAH_TSC_UNBOUNDED);
	if (config)
		memcpy(f->ranges, config->ranges, sizeof(f->ranges));
	f->no_tnt = config && config->no_tnt;
	f->no_retcomp = config && config->no_retcomp;
	f->no_paths = config && config->no_paths;
	f->stop_at_events = config && config->stop_at_events;
	f->no_huge_pages = config && config->no_huge_pages;
	f->space = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	f->generation = ptah_image_generation(image);
	status = ptah_event_decoder_new(config && config->events.size ? &config->events : NULL,
					&f->events);
	if (status >= 0)
		status = code_init(&f->code, image);
	if (config) {
		f->code.on_missing = config->on_missing;
		f->code.missing_context = config->missing_context;
	}
	if (status < 0) {
		ptah_flow_free(f);
		return status;
	}
	*flow = f;
	return 0;
}

void ptah_flow_free(struct ptah_flow *f)
{
	if (!f)
		return;
	ptah_event_decoder_free(f->events);
	code_fini(&f->code);
	flow_paths_free(f->paths);
	free(f->mark);
	free(f);
}

int ptah_flow_feed(struct ptah_flow *f, const void *bytes, size_t n, bool last)
{
	if (!f)
		return PTAH_E_INVAL;
	if (f->has_event || f->paused || f->has_held)
		return PTAH_E_BUSY;
	flow_drop_mark(f);
	return ptah_event_feed(f->events, bytes, n, last);
}

void ptah_flow_seek(struct ptah_flow *f, uint64_t offset)
{
	if (!f)
		return;
	flow_drop_mark(f);
	ptah_event_seek(f->events, offset);
	lose_position(f);
	f->mode = f->speculative = 0;
	set_head(f, PTAH_TSC_UNBOUNDED);
	f->has_event = f->paused = f->space_waits = f->has_held = false;
	f->at_error = f->seeks_place = false;
	if (!f->space_fixed) {
		f->space = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
		f->code.space = 0;
	}
	code_forget_refusals(&f->code);
}

int ptah_flow_space(const struct ptah_flow *f, unsigned number, struct ptah_space *space)
{
	if (!f || !space || number >= f->code.space_count)
		return PTAH_E_INVAL;
	*space = f->code.spaces[number];
	return 0;
}

void ptah_flow_time(const struct ptah_flow *f, struct ptah_time *time)
{
	ptah_event_time(f->events, time);
}

void ptah_flow_set_time_limit(struct ptah_flow *f, uint64_t tsc)
{
	f->time_limit = tsc;
	/* One PSB+ may have passed several limits: what follows it waits for all of them. */
	f->paused = f->paused && f->event.tsc >= tsc;
}

bool ptah_flow_paused(const struct ptah_flow *f)
{
	return f->paused;
}

int ptah_flow_insns(const struct ptah_flow *f, const struct ptah_item *block,
		    struct ptah_insn *insns, size_t capacity)
{
	const struct ptah_insn *known;
	size_t n;

	if (!f || !block || block->type != PTAH_ITEM_BLOCK || (!insns && capacity))
		return PTAH_E_INVAL;
	n = block->ninsn < capacity ? block->ninsn : capacity;
	known = code_insns(&f->code, block->ip, block->mode, block->space, block->ninsn);
	if (!known) /* not a node of now: the image may have changed since */
		return code_decode(&f->code, block->ip, block->mode, block->space, insns, n);
	memcpy(insns, known, n * sizeof(*insns));
	return (int)n;
}

int flow_learn_insns(struct ptah_flow *f, const struct ptah_item *block, struct ptah_insn *insns,
		     size_t capacity)
{
	const uint16_t space = f->code.space;
	int status;

	if (!block || block->type != PTAH_ITEM_BLOCK)
		return PTAH_E_INVAL;
	f->code.space = block->space < f->code.space_count ? (uint16_t)block->space : 0;
	code_find(&f->code, block->ip, block->mode, &status);
	f->code.space = space;
	return ptah_flow_insns(f, block, insns, capacity);
}
