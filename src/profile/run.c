/* SPDX-License-Identifier: MIT */
/*
 * profile_run(): counts the bytes that were fed. Rows and flow take turns: the rows count packets
 * as long as they know them (row_loop.c), then the flow carries out packets, one at a time, until
 * it is at rest again.
 */
#include "profile/profile_internal.h"

#include "flow/pass_groups.h"
#include "image/image_access.h"

/* Can the packets up to the next TIP.PGE be passed without the flow? */
static bool can_pass_off(const struct ptah_profile *p)
{
	const struct ptah_flow *f = p->flow;

	return !p->no_groups && flow_is_off(f) && f->events->tsc < f->time_limit &&
	       !p->config.no_rows && time_window_is_open(&p->window);
}

static bool can_enter(const struct ptah_profile *p)
{
	const struct ptah_flow *f = p->flow;

	return f->events->plain && f->positioned && flow_is_at_rest(f) && !f->space_waits &&
	       !f->no_tnt_at && !f->old_calls && !f->has_proven && !f->no_tnt &&
	       f->events->tsc < f->time_limit && !p->config.no_rows &&
	       time_window_is_open(&p->window);
}

/* Takes the place and the return address stack from the flow. False when out of memory. */
static bool enter_flow_state(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;

	p->context = (uint32_t)f->code.space << 2 | f->mode;
	p->state = profile_state(p, f->node ? f->node->ip : f->ip);
	p->depth = p->top = 0;
	if (p->late_stack)
		profile_note_stack(p);
	for (unsigned i = f->stack_depth; p->stack_matters && i; i--) {
		const int32_t site = profile_state(p, f->stack[(f->stack_top - i) % STACK_SIZE].ip);

		if (!site)
			return false;
		p->stack[p->top++] = site;
		p->depth++;
	}
	return p->state;
}

/* Makes room in the tables for another run. False when out of memory. */
static bool make_profile_room(struct ptah_profile *p)
{
	if (p->touched_count >= MOST_TOUCHED && coverage_settle(p) < 0)
		return false;
	if ((p->budget < PROFILE_STRETCH * PROFILE_PER_BYTE || profile_is_full(p)) &&
	    profile_expand(p) < 0)
		return false;
	if (p->late_stack && (p->compressed || profile_follows_much(p))) {
		/* The rows know of no effects on the stack. */
		if (profile_expand(p) < 0)
			return false;
		profile_forget_rows(p);
		p->stack_matters = true;
		p->late_stack = false;
	}
	if (profile_is_large(p)) {
		if (profile_expand(p) < 0)
			return false;
		profile_forget_rows(p);
		profile_use_lines(p);
	}
	if (profile_is_full(p))
		profile_forget_rows(p);
	return p->status >= 0;
}

static void visit_nothing(struct ptah_profile *p, const struct code_node *node, bool taken,
			  const uint64_t *to, uint64_t times)
{
	(void)p;
	(void)node;
	(void)taken;
	(void)to;
	(void)times;
}

/*
 * The edge of an indirect call or jump that has led to where execution is, if it was the last
 * branch. False: another one was.
 */
static bool find_arrival(struct ptah_profile *p, struct tally_edge *edge)
{
	const struct ptah_flow *f = p->flow;
	const uint32_t context = p->context;
	const uint16_t space = f->code.space;
	const struct code_node *branch;

	*edge = p->arrival;
	if (p->came_from) {
		branch = profile_walk(p, p->came_from, 0, visit_nothing, 0);
		p->context = context;
		p->flow->code.space = space;
		*edge = profile_edge_of(p, branch, f->ip);
	}
	return edge->from && edge->to == f->ip && edge->space == space &&
	       (edge->insn_class == PTAH_INSN_CALL_IND || edge->insn_class == PTAH_INSN_JUMP_IND);
}

/*
 * The code that an indirect branch led to has changed before it ran: recorders look at code, and
 * write what it was changed to, when it is about to run. So the branch led to the code as it is
 * now.
 */
static void move_arrival(struct ptah_profile *p, const struct tally_edge *edge)
{
	struct tally_edge moved = *edge, *from, *to;

	moved.target_version = profile_version(p, edge->to, edge->mode, edge->space);
	if (moved.target_version == edge->target_version)
		return;
	to = tally_edge(&p->edges, &moved);
	from = tally_edge(&p->edges, edge);
	if (!to || !from) {
		p->status = PTAH_E_NOMEM;
	} else if (from->count) {
		from->count--;
		tally_edge(&p->edges, &moved)->count++;
		p->arrival = moved;
	}
}

void profile_follow_image(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;
	struct tally_edge edge;
	bool arrived;

	/* What was counted so far ran over the code as it was before. */
	if (f->generation == image_generation(f->code.image) || profile_expand(p) < 0)
		return;
	arrived = image_has_times(f->code.image) && !p->coverage && find_arrival(p, &edge);
	if (!flow_follow_image(f))
		return;
	profile_forget_rows(p);
	code_forget_places(&f->code);
	p->came_from = 0;
	/* Code may change in several steps, the one at `to` the last of them. */
	p->arrival = arrived ? edge : (struct tally_edge){0};
	if (arrived)
		move_arrival(p, &edge);
}

int profile_run(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;
	struct ptah_item items[64];
	bool starved = false;
	int n;

	profile_follow_image(p);
	while (!starved && !f->paused && p->status >= 0) {
		if (f->events->end - f->events->pos > LOOP_LOOK) {
			const bool off = can_pass_off(p);

			if (off || can_enter(p)) {
				if (!make_profile_room(p) || !(off || enter_flow_state(p)))
					break;
				profile_run_rows(p, off);
			}
			if (p->unknown.kind) {
				profile_learn_group(p, &starved);
				continue;
			}
		}
		/* Where instructions are counted, edges have to be known between their blocks. */
		n = flow_read_packet(
		    f, items, time_window_counts(&p->window) ? 1 : ARRAY_SIZE(items), &starved);
		for (int i = 0; i < n; i++)
			if (flow_take_inside(f, &p->window, &items[i]))
				profile_count_item(p, &items[i]);
	}
	return p->status < 0 ? p->status : f->paused ? PROFILE_PAUSED : 0;
}
