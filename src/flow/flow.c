/* SPDX-License-Identifier: MIT */
/*
 * The flow machine: a place in the code that events move. This file has its life cycle and its
 * settings; read.c has the loop over packets.
 *
 * The flow is at a node whose instructions have not been reported yet. A conditional branch takes a
 * TNT bit, an indirect branch a TIP, a direct branch nothing. A node is reported when the trace
 * proves that it ran to its end: by the outcome of its branch, or by a later packet. The flow
 * reaches the address of an event by walking there along direct branches.
 */
#include "flow/emit_items.h"
#include "flow/paths.h"
#include "flow/state.h"
#include "event/event.h"
#include "image/image_access.h"

#include <stdlib.h>

int ptah_flow_new(const struct ptah_image *image, const struct ptah_flow_config *config,
		  struct ptah_flow **flow)
{
	struct ptah_event_config events = {0};
	struct ptah_flow *f;
	int status;

	if (!image || !flow || (config && config->size < sizeof(*config)))
		return PTAH_E_INVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return PTAH_E_NOMEM;
	f->time_limit = UINT64_MAX;
	flow_set_head(f, PTAH_TSC_UNBOUNDED);
	if (config)
		events = config->events;
	if (!events.size)
		events.size = sizeof(events);
	memcpy(f->ranges, events.trace.ranges, sizeof(f->ranges));
	f->no_tnt = events.trace.no_tnt;
	f->no_retcomp = events.trace.no_retcomp;
	f->no_paths = config && config->no_paths;
	f->stop_at_events = config && config->stop_at_events;
	f->no_events = config && config->no_events;
	f->resync = config && config->resync;
	f->arena.huge = !(config && config->no_huge_pages);
	f->space = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	f->generation = image_generation(image);
	status = ptah_event_decoder_new(&events, &f->events);
	if (status >= 0)
		status = code_init(&f->code, image, &f->arena);
	if (config) {
		f->code.on_missing = config->on_missing;
		f->code.missing_context = config->missing_context;
		f->bounds = config->bounds;
		f->bounds_context = config->bounds_context;
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
	flow_arena_fini(&f->arena);
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

/* Forgets all that depends on the trace so far. The events are at another offset already. */
static void begin_again(struct ptah_flow *f)
{
	flow_drop_mark(f);
	flow_lose_position(f);
	f->mode = f->speculative = 0;
	flow_set_head(f, PTAH_TSC_UNBOUNDED);
	f->has_event = f->paused = f->space_waits = f->has_held = false;
	f->at_error = f->seeks_place = false;
	f->lost_return = 0;
	if (!f->space_fixed) {
		f->space = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
		f->code.space = 0;
	}
	code_forget_refusals(&f->code);
}

void ptah_flow_seek(struct ptah_flow *f, uint64_t offset)
{
	if (!f)
		return;
	ptah_event_seek(f->events, offset);
	begin_again(f);
}

void flow_restart(struct ptah_flow *f, uint64_t offset)
{
	event_restart(f->events, offset);
	begin_again(f);
}

void flow_get_time(const struct ptah_flow *f, struct ptah_time *time)
{
	event_get_time(f->events, time);
}

void flow_set_time_limit(struct ptah_flow *f, uint64_t tsc)
{
	f->time_limit = tsc;
	/* One PSB+ may have passed several time limits: what follows it waits for each of them. */
	f->paused = f->paused && f->event.tsc >= tsc;
}

bool flow_is_paused(const struct ptah_flow *f)
{
	return f->paused;
}
