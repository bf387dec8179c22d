/* SPDX-License-Identifier: MIT */
/*
 * Decoding the trace of a CPU over the memory of who ran there. Each process has
 * an address space of the image's to itself, filled when it first runs; the
 * flow looks code up in the space of the thread at hand, so that nothing it has
 * learnt of a process is forgotten when another one runs. What the trace tells
 * of CR3 is not needed for that.
 */
#include "session/scout.h"
#include "session/stream.h"

#include <stdlib.h>

/* A process that has run, and what is still to happen to its memory. */
struct resident {
	size_t process;
	struct ptah_space *space; /* stays where it is */
	const struct change **later;
	size_t later_count, next_later;
};

struct follow {
	struct scout *scout;
	struct resident *residents;
	size_t count, capacity;
	struct table by_process;
	size_t now; /* resident; SESSION_NONE: none has run yet */
	struct scout_cut cut;
	bool has_cut;
	uint64_t safe;
};

/* The spaces that stand for processes: no CR3 has these values. */
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

int follow_new(struct ptah_stream *s)
{
	struct follow *f = calloc(1, sizeof(*f));
	int status = f ? scout_new(s->session, s->stream, &f->scout) : PTAH_E_NOMEM;

	if (status < 0) {
		free(f);
		return status;
	}
	f->now = SESSION_NONE;
	s->follow = f;
	return 0;
}

void follow_free(struct ptah_stream *s)
{
	struct follow *f = s->follow;

	if (!f)
		return;
	/* The stream frees what is its own now. */
	for (size_t i = 0; i < f->count; i++) {
		if (i != f->now)
			free(f->residents[i].later);
		free(f->residents[i].space);
	}
	free(f->residents);
	table_free(&f->by_process);
	scout_free(f->scout);
	free(f);
	s->follow = NULL;
}

/* The process's number in the list; it is new there, and nothing is mapped yet. */
static int add_resident(struct follow *f, size_t process)
{
	struct resident *residents =
	    session_grow(f->residents, f->count, &f->capacity, sizeof(*residents));
	struct ptah_space *space = malloc(sizeof(*space));

	if (residents)
		f->residents = residents;
	if (!residents || !space || table_set(&f->by_process, (uint32_t)process, f->count) < 0) {
		free(space);
		return PTAH_E_NOMEM;
	}
	*space = space_of(process);
	residents[f->count++] = (struct resident){.process = process, .space = space};
	return 0;
}

static void put_away(struct ptah_stream *s)
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
}

/* The process's memory is what it is at `tsc`. */
static int enter_process(struct ptah_stream *s, size_t process, uint64_t tsc)
{
	struct follow *f = s->follow;
	size_t i = table_get(&f->by_process, (uint32_t)process);
	bool is_new = i == SESSION_NONE;
	int status = 0;

	put_away(s);
	f->now = SESSION_NONE;
	if (is_new) {
		i = f->count;
		status = add_resident(f, process);
		if (status < 0)
			return status;
	}
	f->now = i;
	s->space = f->residents[i].space;
	s->later = f->residents[i].later;
	s->later_count = f->residents[i].later_count;
	s->next_later = f->residents[i].next_later;
	f->residents[i].later = NULL;
	if (is_new && process != SESSION_NONE)
		status = stream_build_image(s, process);
	return status < 0 ? status : stream_catch_up(s, tsc);
}

static int enter_turn(struct ptah_stream *s, const struct turn *turn)
{
	int status = enter_process(s, turn ? turn->process : SESSION_NONE, turn ? turn->tsc : 0);

	s->turn = turn;
	if (status < 0)
		return status;
	return s->profile ? profile_set_space(s->profile, s->space)
			  : flow_set_space(s->flow, s->space);
}

/* Who runs at the very beginning: nobody knows, until the first cut. */
int follow_begin(struct ptah_stream *s)
{
	return enter_turn(s, NULL);
}

int follow_go_on(struct ptah_stream *s, uint64_t at, bool *told)
{
	struct follow *f = s->follow;
	int n;

	*told = false;
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
	f->safe = at; /* look again */
	*told = !f->cut.turn || f->cut.late;
	n = enter_turn(s, f->cut.turn);
	s->feed_limit = at;
	return n;
}
