/* SPDX-License-Identifier: MIT */
/* The profile's life cycle and the functions that callers read its counts with. */
#include "profile/profile_internal.h"

#include "base/order.h"
#include "flow/pass_groups.h"
#include "flow/state.h"

#include <stdlib.h>

/* The flow has carried out an indirect branch: counts its edge. */
static void on_indirect(void *context, const struct code_node *branch, uint64_t to)
{
	struct ptah_profile *p = context;

	if (!time_window_has(&p->window, p->flow->tsc, code_ninsn(branch)))
		return;
	profile_add_edge(p, branch, to, 1);
	p->came_from = 0;
	p->arrival = profile_edge_of(p, branch, to);
}

int ptah_profile_new(const struct ptah_image *image, const struct ptah_profile_config *config,
		     struct ptah_profile **profile)
{
	struct ptah_profile *p;
	int status;

	if (!image || !profile || (config && config->size < sizeof(*config)))
		return PTAH_E_INVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return PTAH_E_NOMEM;
	if (config)
		p->config = *config;
	p->config.flow.no_events = false; /* on_event is called for them */
	status = ptah_flow_new(image, p->config.flow.size ? &p->config.flow : NULL, &p->flow);
	if (status >= 0)
		status = profile_rows_init(p);
	if (status < 0) {
		ptah_profile_free(p);
		return status;
	}
	p->window = time_window_whole();
	p->late_stack = !p->config.flow.events.trace.no_retcomp;
	p->no_groups = p->config.on_event || !flow_can_pass_groups(p->flow);
	p->flow->on_indirect = on_indirect;
	p->flow->indirect_context = p;
	beside_begin(p);
	*profile = p;
	return 0;
}

void ptah_profile_free(struct ptah_profile *p)
{
	if (!p)
		return;
	beside_end(p);
	if (p->flow)
		profile_rows_fini(p);
	tally_free(&p->blocks);
	tally_free(&p->edges);
	ptah_flow_free(p->flow);
	free(p);
}

int ptah_profile_feed(struct ptah_profile *p, const void *bytes, size_t n, bool last)
{
	int status;

	if (!p)
		return PTAH_E_INVAL;
	if (p->status < 0)
		return p->status;
	status = ptah_flow_feed(p->flow, bytes, n, last);
	if (status < 0)
		return status;
	status = profile_run(p);
	if (p->beside && beside_stands(p, ptah_profile_feed(p->beside, bytes, n, last)) < 0)
		return p->status;
	return status;
}

int profile_feed_only(struct ptah_profile *p, const void *bytes, size_t n, bool last)
{
	const int status = ptah_flow_feed(p->flow, bytes, n, last);

	return status < 0 || !p->beside ? status : profile_feed_only(p->beside, bytes, n, last);
}

static void count_nothing(void *context, const struct code_node *branch, uint64_t to)
{
	(void)context;
	(void)branch;
	(void)to;
}

int profile_pass_packet(struct ptah_profile *p, struct ptah_item *items, size_t capacity,
			bool *starved)
{
	void (*const hook)(void *context, const struct code_node *branch, uint64_t to) =
	    p->flow->on_indirect;
	int n;

	if (p->beside) /* overwrites what the second profile reported */
		profile_pass_packet(p->beside, items, capacity, starved);
	profile_follow_image(p);
	p->flow->on_indirect = count_nothing; /* not NULL, with which it would make paths */
	n = flow_read_packet(p->flow, items, capacity, starved);
	p->flow->on_indirect = hook;
	return n;
}

void profile_add_item(struct ptah_profile *p, const struct ptah_item *item)
{
	if (!time_window_takes(&p->window, item))
		return;
	profile_count_item(p, item);
	if (p->beside)
		profile_count_item(p->beside, item);
}

int profile_set_space(struct ptah_profile *p, const struct ptah_space *space)
{
	const int status = flow_set_space(p->flow, space);

	return status < 0 || !p->beside ? status : profile_set_space(p->beside, space);
}

void profile_set_window(struct ptah_profile *p, const struct time_window *window)
{
	p->window = *window;
	if (p->beside)
		profile_set_window(p->beside, window);
}

void profile_set_time_limit(struct ptah_profile *p, uint64_t tsc)
{
	flow_set_time_limit(p->flow, tsc);
	if (p->beside)
		profile_set_time_limit(p->beside, tsc);
}

int profile_resume(struct ptah_profile *p)
{
	int status;

	if (!p)
		return PTAH_E_INVAL;
	status = p->status < 0 ? p->status : profile_run(p);
	if (p->beside && beside_stands(p, profile_resume(p->beside)) < 0)
		return p->status;
	return status;
}

void ptah_profile_seek(struct ptah_profile *p, uint64_t offset)
{
	if (!p)
		return;
	ptah_flow_seek(p->flow, offset);
	ptah_profile_seek(p->beside, offset);
}

void profile_restart(struct ptah_profile *p, uint64_t offset)
{
	flow_restart(p->flow, offset);
	if (p->beside)
		profile_restart(p->beside, offset);
}

int profile_count_up(struct ptah_profile *p)
{
	const int status = profile_expand(p);

	return p->beside && status >= 0 ? beside_counted(p) : status;
}

int ptah_profile_reset(struct ptah_profile *p)
{
	int status;

	if (!p)
		return PTAH_E_INVAL;
	status = profile_count_up(p); /* sets the counts of the rows to 0 */
	code_forget_places(&p->flow->code);
	tally_clear(&p->blocks);
	tally_clear(&p->edges);
	memset(&p->totals, 0, sizeof(p->totals));
	if (p->beside)
		ptah_profile_reset(p->beside);
	return status;
}

int ptah_profile_totals(struct ptah_profile *p, struct ptah_profile_totals *totals)
{
	int status;

	if (!p || !totals)
		return PTAH_E_INVAL;
	status = profile_count_up(p);
	if (status < 0)
		return status;
	*totals = p->totals;
	for (size_t i = 0; i < p->blocks.count; i++) {
		const struct tally_block *b = (const struct tally_block *)p->blocks.items + i;
		struct ptah_item head;

		memcpy(&head, &b->head, sizeof(b->head));
		totals->blocks += b->count;
		totals->instructions += b->count * head.ninsn;
		totals->classes[head.insn_class] += b->count;
		totals->taken += b->taken;
	}
	return 0;
}

int ptah_profile_space(const struct ptah_profile *p, unsigned number, struct ptah_space *space)
{
	return p ? ptah_flow_space(p->flow, number, space) : PTAH_E_INVAL;
}

static int by_place(const void *a, const void *b)
{
	const struct ptah_profile_block *x = a, *y = b;
	int order = COMPARE(x->space, y->space);

	order = order ? order : COMPARE(x->ip, y->ip);
	order = order ? order : COMPARE(x->mode, y->mode);
	order = order ? order : COMPARE(x->end, y->end);
	order = order ? order : COMPARE(x->truncated, y->truncated);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	order = order ? order : COMPARE(x->version, y->version);
	return order ? order : COMPARE(x->target_version, y->target_version);
}

int ptah_profile_blocks(struct ptah_profile *p, struct ptah_profile_block **blocks, size_t *n)
{
	struct ptah_profile_block *list;
	int status;

	if (!p || !blocks || !n)
		return PTAH_E_INVAL;
	status = profile_count_up(p);
	if (status < 0)
		return status;
	list = calloc(p->blocks.count + 1, sizeof(*list));
	if (!list)
		return PTAH_E_NOMEM;
	*n = 0;
	for (size_t i = 0; i < p->blocks.count; i++) {
		const struct tally_block *b = (const struct tally_block *)p->blocks.items + i;
		struct ptah_item head;

		memcpy(&head, &b->head, sizeof(b->head));
		list[(*n)++] = (struct ptah_profile_block){
		    .ip = b->ip,
		    .end = b->end,
		    .target = b->target,
		    .count = b->count,
		    .taken = b->taken,
		    .unknown = b->unknown,
		    .version = b->version,
		    .target_version = b->target_version,
		    .space = b->space,
		    .section = b->section,
		    .ninsn = head.ninsn,
		    .mode = head.mode,
		    .insn_class = head.insn_class,
		    .last_size = head.last_size,
		    .truncated = head.flags & PTAH_ITEM_TRUNCATED,
		};
	}
	qsort(list, *n, sizeof(*list), by_place);
	*blocks = list;
	return 0;
}

static int by_branch(const void *a, const void *b)
{
	const struct ptah_profile_edge *x = a, *y = b;
	int order = COMPARE(x->space, y->space);

	order = order ? order : COMPARE(x->from, y->from);
	order = order ? order : COMPARE(x->mode, y->mode);
	order = order ? order : COMPARE(x->to, y->to);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	order = order ? order : COMPARE(x->version, y->version);
	return order ? order : COMPARE(x->target_version, y->target_version);
}

int ptah_profile_edges(struct ptah_profile *p, struct ptah_profile_edge **edges, size_t *n)
{
	struct ptah_profile_edge *list;
	int status;

	if (!p || !edges || !n)
		return PTAH_E_INVAL;
	status = profile_count_up(p);
	if (status < 0)
		return status;
	list = calloc(p->edges.count + 1, sizeof(*list));
	if (!list)
		return PTAH_E_NOMEM;
	*n = 0;
	for (size_t i = 0; i < p->edges.count; i++) {
		const struct tally_edge *e = (const struct tally_edge *)p->edges.items + i;

		if (!e->count)
			continue;
		list[(*n)++] = (struct ptah_profile_edge){.from = e->from,
							  .to = e->to,
							  .count = e->count,
							  .version = e->version,
							  .target_version = e->target_version,
							  .space = e->space,
							  .mode = e->mode,
							  .insn_class = e->insn_class};
	}
	qsort(list, *n, sizeof(*list), by_branch);
	*edges = list;
	return 0;
}
