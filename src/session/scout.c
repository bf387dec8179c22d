/* SPDX-License-Identifier: MIT */
#include "session/scout.h"

#include "base/compiler.h"

#include <stdlib.h>

/* Stays that a switch may have been in: those since the last stamp before it. */
struct stays {
	size_t count;
	uint64_t first, last; /* where they end */
	size_t moved;	      /* of them, with another CR3 at the end */
	uint64_t moved_at;
};

struct scout {
	const struct stream *stream;
	const struct turn *turns;
	size_t turn_count, next_turn;
	struct ptah_event_decoder *events;
	size_t next_piece;
	bool done;
	uint64_t safe;
	uint64_t now;  /* it is later than this */
	uint64_t left; /* user code was left after this */
	bool away;     /* not in user code ... */
	bool kernel;   /* ... but in traced kernel code */
	bool moved;    /* CR3 has changed on this stay */
	uint64_t cr3;
	struct stays stays;
	struct scout_cut cuts[8]; /* one item leads to four at most */
	size_t cut_count, next_cut;
};

int scout_new(const struct ptah_session *session, const struct stream *stream, struct scout **scout)
{
	const struct cpu *cpu = &session->cpus[stream->cpu];
	struct scout *s = calloc(1, sizeof(*s));
	int status = s ? 0 : PTAH_E_NOMEM;

	if (status >= 0)
		status = ptah_event_decoder_new(&session->flow.events, &s->events);
	if (status < 0) {
		free(s);
		return status;
	}
	s->stream = stream;
	s->turns = cpu->turns;
	s->turn_count = cpu->count;
	s->away = true;
	s->cr3 = UINT64_MAX;
	*scout = s;
	return 0;
}

void scout_free(struct scout *s)
{
	if (!s)
		return;
	ptah_event_decoder_free(s->events);
	free(s);
}

static void add_cut(struct scout *s, uint64_t offset, const struct turn *turn, bool late)
{
	if (s->cut_count < ARRAY_SIZE(s->cuts))
		s->cuts[s->cut_count++] = (struct scout_cut){offset, turn, late};
}

static bool is_due(const struct scout *s, uint64_t time)
{
	return s->next_turn < s->turn_count && s->turns[s->next_turn].tsc <= time;
}

/* The last of the switches that had happened by `time`, which are then done with. */
static const struct turn *take_turn(struct scout *s, uint64_t time)
{
	while (is_due(s, time))
		s->next_turn++;
	return &s->turns[s->next_turn - 1];
}

/* The switch was in one of the stays. */
static void decide(struct scout *s, const struct turn *turn)
{
	const struct stays *stays = &s->stays;

	if (stays->count == 1 || stays->moved == 1) {
		add_cut(s, stays->count == 1 ? stays->first : stays->moved_at, turn, false);
	} else {
		add_cut(s, stays->first, NULL, false);
		add_cut(s, stays->last, turn, false);
	}
	s->stays = (struct stays){0};
}

/* The next switch may have been in the stay that ends here, which had begun when it began. */
static void add_stay(struct scout *s, uint64_t end)
{
	struct stays *stays = &s->stays;

	if (s->next_turn == s->turn_count || s->left > s->turns[s->next_turn].from)
		return;

	if (!stays->count++)
		stays->first = end;
	stays->last = end;
	if (s->moved) {
		stays->moved++;
		stays->moved_at = end;
	}
}

/* At `offset` it is `time` at least. */
static void on_time(struct scout *s, uint64_t time, uint64_t offset)
{
	const bool later = time > s->now;

	if (later)
		s->now = time;
	/* What came before this stamp came before the switch. */
	if (later && !is_due(s, time))
		s->stays = (struct stays){0};
	if (!is_due(s, time) || (s->away && !s->kernel))
		return;
	if (!s->stays.count) {
		/* In the kernel any place will do: its memory is everyone's. */
		add_cut(s, offset, take_turn(s, time), !s->kernel);
		return;
	}
	if (s->kernel)
		add_stay(s, offset);
	decide(s, take_turn(s, time));
}

/* Back in user code. */
static void come_back(struct scout *s, uint64_t time, uint64_t offset)
{
	if (s->away) {
		add_stay(s, offset);
		if (is_due(s, time)) {
			if (s->stays.count)
				decide(s, take_turn(s, time));
			else
				add_cut(s, offset, take_turn(s, time), true);
			/* The next switch may be on the same stay. */
			add_stay(s, offset);
		}
	}
	s->away = s->kernel = s->moved = false;
}

static void go_away(struct scout *s, bool kernel)
{
	if (!s->away)
		s->left = s->now;
	s->moved = s->moved && s->away;
	s->away = true;
	s->kernel = kernel;
}

/* Code at `ip` runs from here on. */
static void go_to(struct scout *s, const struct ptah_item *item, uint64_t ip, uint64_t time)
{
	if (ip >> 63)
		go_away(s, true);
	else
		come_back(s, time, item->offset);
}

/* Page tables have two halves for one process, in neighbouring pages, where they are isolated. */
#define CR3_PAGES 13

static void on_paging(struct scout *s, uint64_t cr3)
{
	cr3 >>= CR3_PAGES;
	s->moved = s->moved || (s->cr3 != UINT64_MAX && s->cr3 != cr3);
	s->cr3 = cr3;
}

/* The time that has passed for certain. */
static uint64_t time_of(const struct ptah_item *item)
{
	const uint64_t error =
	    item->tsc_error < 64 ? UINT64_C(1) << item->tsc_error : 0; /* else a TSC packet's */

	return item->tsc > error ? item->tsc - error : 0;
}

static void on_item(struct scout *s, const struct ptah_item *item)
{
	const uint64_t time = time_of(item);

	on_time(s, time, item->offset);
	switch (item->type) {
	case PTAH_ITEM_ENABLED:
		go_to(s, item, item->ip, time);
		break;
	case PTAH_ITEM_TIP:
	case PTAH_ITEM_ASYNC_BRANCH:
		go_to(s, item, item->to, time);
		break;
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_ERROR:
		go_away(s, false);
		break;
	case PTAH_ITEM_OVERFLOW:
		/* What is lost may have been a stay. */
		go_away(s, false);
		if (!(item->flags & PTAH_ITEM_IP_SUPPRESSED))
			go_to(s, item, item->ip, time);
		break;
	case PTAH_ITEM_PSB:
		if (!(item->flags & PTAH_ITEM_IP_SUPPRESSED) && s->away)
			go_to(s, item, item->ip, time);
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_ASYNC_PAGING:
		on_paging(s, item->value);
		break;
	default:
		break;
	}
	s->safe = item->offset;
}

/* The next piece for the decoder. */
static int feed(struct scout *s)
{
	const struct stream *stream = s->stream;
	const struct piece *piece = &stream->pieces[s->next_piece];
	uint64_t n;

	if (s->next_piece == stream->count) {
		s->done = true;
		return 0;
	}
	if (piece->gap) {
		ptah_event_seek(s->events, piece->offset);
		go_away(s, false);
	}
	n = piece_size(stream, s->next_piece++);
	return ptah_event_feed(s->events, piece->bytes, (size_t)n,
			       s->next_piece == stream->count || piece[1].gap);
}

/* No stamp comes any more: whether the next switch came before the end is not known. */
static void finish(struct scout *s)
{
	if (s->stays.count)
		add_cut(s, s->stays.first, NULL, false);
	s->stays = (struct stays){0};
	s->safe = UINT64_MAX;
}

int scout_find(struct scout *s, uint64_t from, struct scout_cut *cut, uint64_t *safe)
{
	struct ptah_item item;
	int n = 0;

	while (s->next_cut == s->cut_count) {
		s->next_cut = s->cut_count = 0;
		if (s->safe == UINT64_MAX) {
			*safe = UINT64_MAX;
			return 0;
		}
		n = ptah_event_read(s->events, &item, 1);
		if (n < 0)
			return n;
		if (n) {
			on_item(s, &item);
			continue;
		}
		/* A piece has been read: what is before its last packet can be used. */
		*safe = s->stays.count ? s->stays.first : s->safe;
		if (*safe > from)
			return 0;
		n = feed(s);
		if (n < 0)
			return n;
		if (s->done)
			finish(s);
	}
	*cut = s->cuts[s->next_cut++];
	return 1;
}
