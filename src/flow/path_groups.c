/* SPDX-License-Identifier: MIT */
/*
 * Finds out what packets that belong together (event/packet_group.h) do at a place: the flow
 * carries them out, what it reports is recorded as a path, and the flow goes back to where it was.
 */
#include "flow/path_tables.h"

#include "flow/emit_items.h"
#include "flow/move.h"
#include "flow/pass_groups.h"
#include "flow/search.h"
#include "flow/spans.h"

/* What a flow was before it carried packets out for this file. */
struct before {
	uint8_t kept[FLOW_KEPT_SIZE];
	uint16_t space;
	bool no_events, stop_at_events;
	struct ptah_event_decoder events;
};

static void go_to(struct ptah_flow *f, struct before *before)
{
	memcpy(before->kept, (const uint8_t *)f + FLOW_KEPT_FROM, FLOW_KEPT_SIZE);
	event_save(f->events, &before->events);
	before->space = f->code.space;
	before->no_events = f->no_events;
	before->stop_at_events = f->stop_at_events;
	f->no_events = f->stop_at_events = false;
}

static void go_back(struct ptah_flow *f, const struct before *before)
{
	memcpy((uint8_t *)f + FLOW_KEPT_FROM, before->kept, FLOW_KEPT_SIZE);
	event_restore(f->events, &before->events);
	f->code.space = before->space;
	f->no_events = before->no_events;
	f->stop_at_events = before->stop_at_events;
}

/* Adds a block that the flow has reported to a path. False: it is one that no path has. */
static bool add_block(struct ptah_flow *f, struct path *path, unsigned i,
		      const struct ptah_item *item)
{
	int status;
	struct code_node *node = code_find(&f->code, item->ip, item->mode, &status);
	const uint8_t taken = item->flags & PTAH_ITEM_TAKEN;

	if (!node || node->space != item->code.space || item->flags & PTAH_ITEM_UNKNOWN)
		return false;
	path->ninsn += item->ninsn;
	path->cut = !!(item->flags & PTAH_ITEM_TRUNCATED);
	blocks_of(path)[i] =
	    (struct ptah_block){.ip = item->ip,
				.size = (uint16_t)(item->end - item->ip),
				.space = node->space,
				.ninsn = (uint8_t)item->ninsn,
				.insn_class = item->insn_class,
				.last_size = item->last_size,
				.mode = item->mode,
				.flags = taken | (path->cut ? PTAH_ITEM_TRUNCATED : 0)};
	nodes_of(path)[i] = (uintptr_t)node | (taken >> TAKEN_BIT);
	return !path->cut || i + 1 == path->blocks;
}

/* The number of a path of these blocks; 0: it cannot be made. */
static uint32_t make_path(struct ptah_flow *f, const struct ptah_item *items, unsigned blocks)
{
	struct flow_paths *s = f->paths;
	struct path *path =
	    (struct path *)paths_new_words(s, PATH_WORDS + 2 * (size_t)blocks + blocks + 1);

	if (!path)
		return 0;
	path->blocks = (uint8_t)blocks;
	for (unsigned i = 0; i < blocks; i++) {
		if (items[i].type != PTAH_ITEM_BLOCK || !add_block(f, path, i, &items[i]))
			return 0;
	}
	return paths_number(s, path, blocks);
}

/* Carries the packets out up to the event. Returns the number of their path, or 0 as above. */
static uint32_t run_blocks(struct ptah_flow *f, struct ptah_item *event)
{
	struct ptah_item items[MAX_BLOCKS + 2];
	bool starved;
	const int n = flow_read_packet(f, items, MAX_BLOCKS + 2, &starved);

	if (n <= 0)
		return 0;
	*event = items[n - 1];
	return make_path(f, items, (unsigned)n - 1);
}

/*
 * In tables for spans: carries the packets out block by block, as a caller who reads spans does,
 * up to the event. Returns the number of a path of the spans that end; 0: it cannot be made.
 */
static uint32_t run_spans(struct ptah_flow *f, uint32_t place, struct ptah_item *event)
{
	struct ptah_span spans[MAX_BLOCKS];
	struct flow_spans list = {.spans = spans, .capacity = MAX_BLOCKS};
	unsigned blocks = 0;
	struct span_path *path;
	struct span_end *ends;
	bool starved;

	for (;; blocks++) {
		if (flow_read_packet(f, event, 1, &starved) != 1)
			return 0;
		if (event->type != PTAH_ITEM_BLOCK)
			break;
		if (blocks == MAX_BLOCKS || event->flags & PTAH_ITEM_UNKNOWN ||
		    event->code.space != f->code.space)
			return 0;
		flow_add_block(f, &list, event);
	}
	path = (struct span_path *)paths_new_words(f->paths, SPAN_PATH_WORDS +
								 (list.count + 1) * SPAN_END_WORDS);
	if (!path)
		return 0;
	path->ninsn = (uint32_t)list.open.ninsn;
	path->blocks = blocks;
	ends = span_ends_of(path);
	paths_put_ends(ends, spans, (unsigned)list.count);
	ends[list.count].to = blocks ? list.open.to : paths_node_at(f->paths, place)->ip;
	return paths_number(f->paths, path, (unsigned)list.count);
}

/* Whether the flow has carried out the packets, all of them and no others, and tracing is off. */
static bool is_off(const struct ptah_flow *f, const struct packet_group *g,
		   const struct ptah_item *event)
{
	const struct ptah_event_decoder *d = f->events;

	return flow_is_at_rest(f) && !f->positioned && !f->space_waits && !d->queue_count &&
	       !d->enabled && d->phase == EVENT_RUN && d->pos == g->end &&
	       event->type ==
		   (g->kind == PACKET_GROUP_PGD ? PTAH_ITEM_DISABLED : PTAH_ITEM_ASYNC_DISABLED) &&
	       !event->packet_tsc;
}

NOINLINE bool paths_learn_group(struct ptah_flow *f, uint32_t place, const uint8_t *pos,
				uint64_t last_ip, const struct packet_group *g)
{
	struct transition *x = paths_transition(f->paths, place, g->ip, g->to);
	const size_t word_count = f->paths->word_count;
	struct ptah_item event;
	struct before before;
	uint32_t path;

	if (!paths_is_transition(x, place, g)) {
		*x = (struct transition){.ip = g->ip,
					 .to = g->to,
					 .place = place,
					 .kind = paths_group_kind(g),
					 .entry.path = PATH_SEEN};
		return false;
	}
	if (x->entry.path == PATH_REFUSED ||
	    (g->kind != PACKET_GROUP_PGD && f->events->config.unchanged))
		return false;
	go_to(f, &before);
	f->events->pos = pos;
	f->events->last_ip = last_ip;
	f->positioned = true;
	paths_leave(f, paths_node_at(f->paths, place), 1);
	path = f->paths->spans ? run_spans(f, place, &event) : run_blocks(f, &event);
	if (!path || !is_off(f, g, &event)) {
		f->paths->word_count = word_count;
		path = PATH_REFUSED;
	}
	x->entry.path = path;
	go_back(f, &before);
	return x->entry.path != PATH_REFUSED;
}

uint32_t paths_enter_off(struct ptah_flow *f, bool spans)
{
	const struct flow_paths *s = f->paths;
	const uint8_t *pos = packet_skip_pads(f->events->pos, f->events->end - LOOP_LOOK);

	if (!s || s->place_count == 1 || s->full || s->spans != spans || s->mode != f->mode ||
	    pos > f->events->end - LOOP_LOOK || !flow_is_off(f))
		return 0;
	return f->no_events || (*pos & OPCODE_IP_MASK) == OPCODE_TIP_PGE ? PLACE_OFF : 0;
}

/* Whether direct branches lead from the node to `ip`, with no call on the way. */
static bool leads_to(struct ptah_flow *f, struct code_node *node, uint64_t ip)
{
	if (node->ip == ip)
		return true;
	f->node = node;
	return flow_chain_ok(f, node) && flow_can_reach(f, ip) && !flow_calls_before(f, ip);
}

const uint8_t *paths_pass_psb(struct ptah_flow *f, uint32_t place, const uint8_t *pos,
			      const uint8_t *end, uint64_t *last_ip)
{
	struct code_node *node = paths_node_at(f->paths, place);
	struct packet_psb psb;

	if (!packet_psb_read(pos, end, &psb) || !psb.has_ip || !flow_psb_fits(f, &psb) ||
	    !leads_to(f, node, psb.ip) || (psb.ip != node->ip && !packet_is_branch(psb.end, end)) ||
	    !flow_pass_psb(f, &psb))
		return NULL;
	*last_ip = psb.ip;
	return psb.end;
}

bool paths_pass_off(struct ptah_flow *f, const uint8_t **pos, const uint8_t *end, uint64_t *last_ip)
{
	if (!flow_pass_off(f, pos, end, last_ip))
		return false;
	if (f->paths->mode != f->mode)
		paths_forget_sites(f);
	return true;
}
