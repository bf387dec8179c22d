/* SPDX-License-Identifier: MIT */
/*
 * Follows the threads that ran on a CPU, one after the other. If all of them are of one process,
 * its trace is decoded as that of a thread, and only the thread's name changes. Otherwise each
 * piece is decoded over the memory of the process that ran then: each process has an address space
 * of its own in the image, which is filled when the process first runs. The flow looks code up in
 * the space of the current thread, so that what it has learnt about one process is kept while
 * another runs. CR3 values in the trace are not needed for that.
 */
#include "base/order.h"
#include "session/grow.h"
#include "session/scout.h"
#include "support/list.h"

#include <stdlib.h>

/* A process that has run, with the changes of its memory that are still to come. */
struct resident {
	size_t process;
	struct ptah_space *space; /* on the heap, because streams point to it */
	const struct change **later;
	size_t later_count, next_later;
};

struct follow {
	struct scout *scout;
	struct resident *residents;
	size_t count, capacity;
	struct table by_process;
	size_t now; /* index of the current resident; SESSION_NONE: none has run yet */
	struct scout_cut cut;
	bool has_cut;
	uint64_t safe;
	size_t only; /* growth->only when the current turn was entered */
};

/* CR3 values of the spaces that stand for processes: no real CR3 has them. */
#define FOLLOW_CR3 (UINT64_C(0xffffff) << 40)
#define NOBODY	   (UINT64_C(0xffffffff))

static struct ptah_space space_of(size_t process)
{
	return (struct ptah_space){FOLLOW_CR3 | (process == SESSION_NONE ? NOBODY : process),
				   PTAH_SPACE_ANY};
}

int32_t follow_pid(const struct ptah_session *session, const struct ptah_space *space)
{
	const uint64_t process = space->cr3 ^ FOLLOW_CR3;

	if (space->cr3 == PTAH_SPACE_ANY || process >= session->process_count)
		return -1;
	return session->processes[process].pid;
}

void follow_free(struct stream_decoder *s)
{
	struct follow *f = s->follow;

	s->turn = s->unsure_from = s->unsure_to = SESSION_NONE;
	s->feed_limit = UINT64_MAX;
	if (!f)
		return;
	/* The stream frees the changes of the current resident, which it has taken over. */
	for (size_t i = 0; i < f->count; i++) {
		if (i != f->now)
			stream_free_changes(s->session, f->residents[i].later,
					    f->residents[i].next_later,
					    f->residents[i].later_count);
		free(f->residents[i].space);
	}
	free(f->residents);
	table_free(&f->by_process);
	scout_free(f->scout);
	free(f);
	s->follow = NULL;
}

/* Adds a process to the list. Nothing is mapped in its space yet. */
static int add_resident(struct follow *f, size_t process)
{
	struct ptah_space *space = malloc(sizeof(*space));

	if (!space || !LIST_ROOM(f->residents, f->count, f->capacity) ||
	    table_set(&f->by_process, (uint32_t)process, f->count) < 0) {
		free(space);
		return PTAH_E_NOMEM;
	}
	*space = space_of(process);
	f->residents[f->count++] = (struct resident){.process = process, .space = space};
	return 0;
}

static void put_away(struct stream_decoder *s)
{
	struct follow *f = s->follow;
	struct resident *r;

	if (f->now == SESSION_NONE)
		return;
	r = &f->residents[f->now];
	r->later = s->later;
	r->later_count = s->later_count;
	r->next_later = s->next_later;
	s->later = NULL;
	s->later_count = s->next_later = 0;
	f->now = SESSION_NONE;
}

static void fetch(struct stream_decoder *s, size_t i)
{
	struct resident *r = &s->follow->residents[i];

	s->space = r->space;
	s->later = r->later;
	s->later_count = r->later_count;
	s->next_later = r->next_later;
	r->later = NULL;
	s->follow->now = i;
}

/* Makes this process the current one, with its memory as of `tsc`. */
static int enter_process(struct stream_decoder *s, size_t process, uint64_t tsc)
{
	struct follow *f = s->follow;
	size_t i = table_get(&f->by_process, (uint32_t)process);
	bool is_new = i == SESSION_NONE;
	int status = 0;

	put_away(s);
	if (is_new) {
		i = f->count;
		status = add_resident(f, process);
		if (status < 0)
			return status;
	}
	fetch(s, i);
	if (is_new && process != SESSION_NONE)
		status = stream_build_image(s, process);
	return status < 0 ? status : stream_catch_up(s, tsc);
}

/*
 * The only process of the recording that has code, so far: it is taken for whatever ran, as
 * session_name_streams() does it for a recording that is complete. SESSION_NONE: there are several.
 */
static size_t only_process(const struct stream_decoder *s)
{
	return s->session->growth ? s->session->growth->only : SESSION_NONE;
}

static int enter_turn(struct stream_decoder *s, size_t number)
{
	const struct turn *turn = stream_turn(s, number);
	const size_t only = only_process(s);
	int status;

	s->turn = number;
	if (!stream_is_shared(s->stream))
		return 0;
	s->follow->only = only;
	/* What does not depend on the turn takes effect at its time in the trace. */
	status = only != SESSION_NONE
		     ? enter_process(s, only, 0)
		     : enter_process(s, turn ? turn->process : SESSION_NONE, turn ? turn->tsc : 0);
	if (status < 0)
		return status;
	return s->profile ? profile_set_space(s->profile, s->space)
			  : flow_set_space(s->flow, s->space);
}

/* The number of the turn at this time; SESSION_NONE: unknown. */
static size_t turn_at(const struct stream_decoder *s, uint64_t tsc)
{
	const struct cpu *cpu = &s->session->cpus[s->stream->cpu];
	size_t at;

	/* Finds the first turn after that time. */
	BISECT(at, 0, cpu->count, cpu->turns[at].tsc <= tsc);
	return at ? cpu->gone + at - 1 : SESSION_NONE;
}

int follow_begin_at(struct stream_decoder *s, uint64_t offset, uint64_t tsc)
{
	struct follow *f;
	int status;

	follow_free(s);
	if (s->stream->cpu == SESSION_NONE)
		return 0;
	f = calloc(1, sizeof(*f));
	status = f ? scout_new(s->session, s->stream, &f->scout) : PTAH_E_NOMEM;
	if (status < 0) {
		free(f);
		return status;
	}
	f->now = SESSION_NONE;
	s->follow = f;
	if (offset)
		scout_begin_at(f->scout, offset, tsc);
	/* The thread at the beginning of the stream is unknown until the first cut. */
	return enter_turn(s, offset ? turn_at(s, tsc) : SESSION_NONE);
}

int follow_restart(struct stream_decoder *s)
{
	return follow_begin_at(s, 0, 0);
}

int follow_go_on(struct stream_decoder *s, uint64_t at, bool *unknown)
{
	struct follow *f = s->follow;
	int n;

	*unknown = false;
	while (!f->has_cut && f->safe <= at) {
		n = scout_find(f->scout, at, &f->cut, &f->safe);
		if (n < 0)
			return n;
		f->has_cut = n > 0;
	}
	s->feed_limit = f->has_cut ? f->cut.offset : f->safe;
	if (!f->has_cut || f->cut.offset > at)
		return 0;
	f->has_cut = false;
	f->safe = at; /* search again from here */
	if (f->cut.first != SESSION_NONE) {
		s->unsure_from = s->unsure_from == SESSION_NONE ? f->cut.first : s->unsure_from;
		s->unsure_to = f->cut.last;
	}
	*unknown = stream_is_shared(s->stream) && only_process(s) == SESSION_NONE &&
		   (f->cut.turn == SESSION_NONE || f->cut.late);
	n = enter_turn(s, f->cut.turn);
	s->feed_limit = at;
	return n;
}

/* Sessions that grow */

void follow_moved(struct stream_decoder *s, size_t pieces, size_t limits)
{
	scout_moved(s->follow->scout, s->stream, pieces, limits);
}

int follow_settle(struct stream_decoder *s)
{
	return s->follow->only == only_process(s) ? 0 : enter_turn(s, s->turn);
}

int follow_take_change(struct stream_decoder *s, size_t process, const struct change *change)
{
	struct follow *f = s->follow;
	const size_t i = table_get(&f->by_process, (uint32_t)process), now = f->now;
	int status;

	/* The memory of a process that has not run yet is listed when it first does. */
	if (i == SESSION_NONE || now == SESSION_NONE)
		return 0;
	put_away(s);
	fetch(s, i);
	status = stream_take_change(s, change);
	put_away(s);
	fetch(s, now);
	return status;
}

void follow_needs(const struct stream_decoder *s, size_t *limits, size_t *turn)
{
	const struct follow *f = s->follow;
	const size_t used = scout_limits(f->scout);
	size_t first = scout_turn(f->scout);

	if (f->has_cut) {
		first = f->cut.turn < first ? f->cut.turn : first;
		first = f->cut.first < first ? f->cut.first : first;
	}
	first = s->turn < first ? s->turn : first;
	first = s->unsure_from < first ? s->unsure_from : first;
	*limits = used < *limits ? used : *limits;
	*turn = first < *turn ? first : *turn;
}
