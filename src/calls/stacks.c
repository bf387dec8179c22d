/* SPDX-License-Identifier: MIT */
/*
 * Other stacks: the calls of coroutines that do not run. A suspended stack is found again by the
 * return sites of its innermost calls, because a switch to it is a return (or a jump) to one of
 * these.
 */
#include "calls/internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STACKS 4096
#define MAX_FRAMES (1 << 17) /* of all suspended stacks */
#define MAX_SITES  12	     /* by which one stack can be found: those of its innermost calls */
#define BUCKETS	   1024
#define NONE	   UINT32_MAX

/* One of the return sites of a suspended stack, in a list of its bucket, the oldest first. */
struct site {
	uint64_t ip;
	uint32_t next, previous;
	uint32_t frame; /* of the stack: the call that returns there */
	bool used;
};

struct stack {
	struct calls_frame *frames; /* NULL: the entry is free */
	uint32_t count;
	uint32_t older, newer; /* in the list of all, NONE at its ends */
};

struct calls_stacks {
	struct stack stacks[MAX_STACKS];
	struct site sites[MAX_STACKS * MAX_SITES]; /* those of stack i begin at i * MAX_SITES */
	uint32_t first[BUCKETS], last[BUCKETS];
	uint32_t oldest, newest;
	uint32_t count;	      /* entries below this have been in use */
	uint32_t free;	      /* an entry that is free again, and so on by `newer` */
	uint64_t frame_count; /* in all */
};

static uint32_t bucket_of(uint64_t ip)
{
	return (uint32_t)calls_hash(ip, 0, 10);
}

static void add_site(struct calls_stacks *s, uint32_t i, uint64_t ip, uint32_t frame)
{
	struct site *site = &s->sites[i];
	const uint32_t bucket = bucket_of(ip);

	*site = (struct site){ip, NONE, s->last[bucket], frame, true};
	if (site->previous != NONE)
		s->sites[site->previous].next = i;
	else
		s->first[bucket] = i;
	s->last[bucket] = i;
}

static void remove_site(struct calls_stacks *s, uint32_t i)
{
	struct site *site = &s->sites[i];
	const uint32_t bucket = bucket_of(site->ip);

	if (site->previous != NONE)
		s->sites[site->previous].next = site->next;
	else
		s->first[bucket] = site->next;
	if (site->next != NONE)
		s->sites[site->next].previous = site->previous;
	else
		s->last[bucket] = site->previous;
	site->used = false;
}

static struct calls_stacks *stacks_new(void)
{
	struct calls_stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	for (unsigned i = 0; i < BUCKETS; i++)
		s->first[i] = s->last[i] = NONE;
	s->oldest = s->newest = s->free = NONE;
	return s;
}

void calls_stacks_free(struct calls_machine *m)
{
	if (!m->stacks)
		return;
	for (uint32_t i = 0; i < m->stacks->count; i++)
		free(m->stacks->stacks[i].frames);
	free(m->stacks);
	m->stacks = NULL;
}

/* Takes a stack out of the lists and returns its frames, which are the caller's from now on. */
static struct calls_frame *take_stack(struct calls_stacks *s, uint32_t i)
{
	struct stack *stack = &s->stacks[i];
	struct calls_frame *frames = stack->frames;

	for (uint32_t k = 0; k < MAX_SITES; k++)
		if (s->sites[i * MAX_SITES + k].used)
			remove_site(s, i * MAX_SITES + k);
	if (stack->older != NONE)
		s->stacks[stack->older].newer = stack->newer;
	else
		s->oldest = stack->newer;
	if (stack->newer != NONE)
		s->stacks[stack->newer].older = stack->older;
	else
		s->newest = stack->older;
	s->frame_count -= stack->count;
	stack->frames = NULL;
	stack->newer = s->free;
	s->free = i;
	return frames;
}

static void keep_stack(struct calls_stacks *s, struct calls_frame *frames, uint32_t count)
{
	uint32_t i, sites = 0;

	while (s->oldest != NONE &&
	       ((s->free == NONE && s->count == MAX_STACKS) || s->frame_count + count > MAX_FRAMES))
		free(take_stack(s, s->oldest));
	i = s->free;
	if (i != NONE)
		s->free = s->stacks[i].newer;
	else
		i = s->count++;
	s->stacks[i] = (struct stack){frames, count, s->newest, NONE};
	if (s->newest != NONE)
		s->stacks[s->newest].newer = i;
	else
		s->oldest = i;
	s->newest = i;
	s->frame_count += count;
	/* The first frame was not called from a frame of this stack. */
	for (uint32_t frame = count - 1; frame > 0 && sites < MAX_SITES; frame--)
		if (frames[frame].return_site &&
		    !(frames[frame].state & (CALLS_TAILED | CALLS_SIGNAL | CALLS_KERNEL)))
			add_site(s, i * MAX_SITES + sites++, frames[frame].return_site, frame);
}

void calls_suspend(struct calls_machine *m, uint32_t from, uint64_t site)
{
	const uint32_t count = calls_depth(m) - from + 1;
	struct calls_frame *copy = NULL;

	calls_forget_folded(m);
	if (!m->stacks)
		m->stacks = stacks_new();
	if (m->stacks && count > 1 && count <= MAX_FRAMES && calls_can_move(m, count))
		copy = malloc(count * sizeof(*copy));
	if (copy) {
		memcpy(copy, &m->frames[from], count * sizeof(*copy));
		copy[0].state &= (uint16_t)~CALLS_TAILED;
		copy[0].return_site = 0;
		keep_stack(m->stacks, copy, count);
	}
	while (calls_depth(m) >= from)
		calls_drop(m, PTAH_CALL_END_SUSPENDED, site);
}

/* Ends the stack that runs, if it is another one than that which the trace began with. */
static void leave_stack(struct calls_machine *m, uint64_t site)
{
	uint32_t i = calls_depth(m);

	calls_forget_folded(m);
	if (!m->bases)
		return;
	while (!(m->frames[i].state & CALLS_STACK))
		i--;
	calls_suspend(m, i, site);
}

void calls_begin_stack(struct calls_machine *m, const struct calls_entry *e, uint64_t site)
{
	const bool entry = calls_is_entry(e);
	const struct calls_begin begin = {
	    .how = entry ? PTAH_CALL_TAIL : PTAH_CALL_RUNNING,
	    .flags = entry ? 0 : PTAH_CALL_NO_BEGIN,
	    .state = CALLS_BASE | CALLS_STACK,
	    .site = entry ? site : 0,
	};

	leave_stack(m, site);
	calls_begin(m, e, &begin);
}

/* Puts a frame back onto the stack. False: it is too deep. */
static bool restore(struct calls_machine *m, const struct calls_frame *saved, unsigned flags,
		    unsigned state)
{
	struct calls_frame *f;

	if (!calls_has_room(m)) {
		calls_fold(m, saved->return_site);
		return false;
	}
	f = ++m->top;
	*f = *saved;
	f->how = PTAH_CALL_RESUMED;
	f->flags |= (uint16_t)flags;
	f->state = (uint16_t)((f->state & ~(CALLS_FULL | CALLS_STACK)) | state);
	if (f->state & (CALLS_SIGNAL | CALLS_KERNEL)) {
		f->special = m->special;
		m->special = calls_depth(m);
	}
	m->gaps += f->state & CALLS_AFTER_GAP ? 1 : 0;
	m->bases += f->state & CALLS_STACK ? 1 : 0;
	if (!(f->state & CALLS_HIDDEN))
		m->sink->begin(m, f, 0);
	return true;
}

/*
 * The site of the stack that has been suspended for the longest time; NONE: there is none. Of
 * several that continue there nothing says which it is.
 */
static uint32_t find(const struct calls_stacks *s, uint64_t ip, bool *several)
{
	uint32_t found = NONE;
	unsigned looked = 0;

	for (uint32_t i = s->first[bucket_of(ip)]; i != NONE && looked++ < CALLS_NEAR;
	     i = s->sites[i].next) {
		if (s->sites[i].ip != ip || i / MAX_SITES == found / MAX_SITES)
			continue;
		if (found != NONE) {
			*several = true;
			break;
		}
		found = i;
	}
	return found;
}

bool calls_switch(struct calls_machine *m, uint64_t site, uint64_t to)
{
	struct calls_frame *frames;
	bool several = false;
	uint32_t i, last;

	i = m->stacks ? find(m->stacks, to, &several) : NONE;
	if (i == NONE)
		return false;
	last = m->stacks->sites[i].frame;
	frames = take_stack(m->stacks, i / MAX_SITES);
	leave_stack(m, site);
	for (uint32_t k = 0; k <= last; k++)
		restore(m, &frames[k], several ? PTAH_CALL_UNSURE : 0,
			k ? 0 : CALLS_BASE | CALLS_STACK);
	free(frames);
	if (!m->folded || !calls_return_folded(m, to))
		calls_returned(m, site);
	return true;
}
