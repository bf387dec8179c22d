/* SPDX-License-Identifier: MIT */
/* Finds where in a CPU's trace one thread follows another: see scout.h. */
#include "session/scout.h"

#include "base/compiler.h"
#include "event/event.h"
#include "session/grow.h"

#include <stdlib.h>

/*
 * The stays away from user code since the last time stamp before the next switch. Offsets are those
 * of their ends.
 */
struct stays {
	size_t count;  /* stays in which the switch may have happened */
	size_t others; /* stays that began after the switch: of the switches after it, then */
	uint64_t first, last, last_other;
	size_t moved; /* of `count`, those with another CR3 at the end than at the beginning */
	uint64_t moved_at;
	bool kernel; /* kernel code is traced in one of them */
};

struct scout {
	const struct stream *stream;
	const struct ptah_session *session;
	const struct turn *turns; /* those with numbers from `gone` on, */
	size_t gone, turn_count;  /* which end before `turn_count` */
	size_t next_turn;
	size_t next_limit;
	struct ptah_event_decoder *events;
	size_t next_piece;
	uint64_t from; /* offset of the first byte to be read */
	bool open_end; /* what was read last was not the last of its piece of trace */
	bool done;
	/*
	 * In a session that grows there may be more switches, which are not known yet. `next_from`:
	 * when the thread before the next of them left, UINT64_MAX: later than what is read.
	 */
	bool open;
	uint64_t next_from;
	/* An item that waits until more is known, and the rounds that had ended when it came. */
	bool has_item;
	struct ptah_item item;
	uint64_t waits_since;
	uint64_t safe;
	uint64_t now;	 /* the current time is later than this ... */
	uint64_t most;	 /* ... and not later than this */
	uint64_t left;	 /* the current stay began after this time */
	bool away;	 /* outside user code ... */
	bool kernel;	 /* ... and in kernel code that is traced */
	bool kernel_ran; /* in this stay, such code did */
	bool moved;	 /* CR3 has changed during this stay */
	uint64_t cr3;
	struct stays stays;
	struct scout_cut cuts[8]; /* one item can cause four at most */
	size_t cut_count, next_cut;
};

/* Whether what was read is decoded with what is known now, in a session that grows. */
static bool is_forced(const struct scout *s)
{
	const struct growth *g = s->session->growth;

	return g && g->forced != SESSION_NONE && s->stream == &s->session->streams[g->forced];
}

/*
 * So many ticks after a thread has left, the record of the one that comes is not waited for any
 * longer: some milliseconds.
 */
#define COMES_WITHIN (UINT64_C(1) << 24)

/* What is known now. */
static void look_at_turns(struct scout *s)
{
	const struct cpu *cpu = &s->session->cpus[s->stream->cpu];
	const struct growth *g = s->session->growth;

	s->turns = cpu->turns;
	s->gone = cpu->gone;
	s->turn_count = cpu->gone + cpu->count;
	s->open = g && !g->complete && !is_forced(s);
	s->next_from = cpu->has_left ? cpu->left : UINT64_MAX;
	if (!s->open || !cpu->comes || !cpu->count)
		return;
	/* The time of the last turn is that of a record which is still to come. */
	if (cpu->turns[cpu->count - 1].tsc + COMES_WITHIN > g->known) {
		s->next_from = cpu->turns[cpu->count - 1].from;
		s->turn_count--;
	}
}

static const struct turn *turn_of(const struct scout *s, size_t number)
{
	return &s->turns[number - s->gone];
}

int scout_new(const struct ptah_session *session, const struct stream *stream, struct scout **scout)
{
	struct scout *s = calloc(1, sizeof(*s));
	int status = s ? 0 : PTAH_E_NOMEM;

	if (status >= 0)
		status = ptah_event_decoder_new(&session->flow.events, &s->events);
	if (status < 0) {
		free(s);
		return status;
	}
	s->stream = stream;
	s->session = session;
	look_at_turns(s);
	s->away = true;
	s->cr3 = UINT64_MAX;
	s->waits_since = UINT64_MAX;
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

void scout_begin_at(struct scout *s, uint64_t offset, uint64_t tsc)
{
	s->from = offset;
	s->next_piece = session_piece_at(s->stream, offset);
	ptah_event_seek(s->events, offset);
	while (s->next_turn < s->turn_count && turn_of(s, s->next_turn)->tsc <= tsc)
		s->next_turn++;
}

/* Adds a cut. The switches [first, last) are those that it is about. */
static void add_cut(struct scout *s, uint64_t offset, size_t turn, bool late, size_t first,
		    size_t last)
{
	const bool unsure = (late || turn == SESSION_NONE) && first < last;

	if (s->cut_count < ARRAY_SIZE(s->cuts))
		s->cuts[s->cut_count++] =
		    (struct scout_cut){.offset = offset,
				       .turn = turn,
				       .late = late,
				       .first = unsure ? first : SESSION_NONE,
				       .last = unsure ? last - 1 : SESSION_NONE};
}

/*
 * All that is known of a switch that is not known yet is that it may have happened at an unknown
 * time.
 */
static bool is_due(const struct scout *s, uint64_t time)
{
	if (s->next_turn >= s->turn_count)
		return s->open && time == UINT64_MAX;
	return turn_of(s, s->next_turn)->tsc <= time;
}

/* Whether there is another switch, or may be. */
static bool has_next(const struct scout *s)
{
	return s->next_turn < s->turn_count || s->open;
}

/* When the thread before the next switch left. */
static uint64_t from_of_next(const struct scout *s)
{
	return s->next_turn < s->turn_count ? turn_of(s, s->next_turn)->from : s->next_from;
}

/*
 * Whether a switch between two processes changes CR3. A kernel thread keeps the page tables of the
 * thread before it.
 */
static bool is_seen(const struct scout *s, size_t turn)
{
	const size_t a = turn > s->gone ? turn_of(s, turn - 1)->process : SESSION_NONE;
	const size_t b = turn_of(s, turn)->process;

	const struct process *p = s->session->processes;

	return a != b && a != SESSION_NONE && b != SESSION_NONE && p[a].has_maps && p[b].has_maps;
}

static bool has_user_code(const struct scout *s, const struct turn *turn)
{
	const struct ptah_session *session = s->session;

	if (turn->pid <= 0)
		return turn->pid < 0;
	if (turn->process != SESSION_NONE && session->processes[turn->process].has_maps)
		return true;
	return table_get(&session->kernel_threads, (uint32_t)turn->pid) != true;
}

/*
 * The turn of the thread whose user code it is that ran around the switches from `first` up to the
 * next one, whenever they were; SESSION_NONE: it may be that of several. Kernel code may be
 * anybody's.
 */
static size_t only_user(const struct scout *s, size_t first, bool kernel)
{
	size_t only = SESSION_NONE;

	if (first <= s->gone || kernel)
		return SESSION_NONE;
	for (size_t i = first - 1; i < s->next_turn; i++) {
		const struct turn *turn = turn_of(s, i);

		if (!has_user_code(s, turn))
			continue;
		if (only != SESSION_NONE && (turn_of(s, only)->tid != turn->tid ||
					     turn_of(s, only)->process != turn->process))
			return SESSION_NONE;
		only = i;
	}
	return only;
}

/* Assigns the switches from `first` up to the next one to stays. All were before `offset`. */
static void assign(struct scout *s, size_t first, uint64_t offset)
{
	const struct stays stays = s->stays;
	const size_t turn = s->next_turn - 1;
	const bool one = s->next_turn == first + 1;

	s->stays = (struct stays){0};
	if (!stays.count && (one || !stays.others)) {
		add_cut(s, offset, turn, true, first, s->next_turn);
	} else if (stays.count == 1 && (one || !stays.others)) {
		add_cut(s, stays.first, turn, false, first, s->next_turn);
	} else if (one && stays.moved == 1 && is_seen(s, first)) {
		add_cut(s, stays.moved_at, turn, false, first, s->next_turn);
	} else {
		add_cut(s, stays.first, only_user(s, first, stays.kernel), false, first,
			s->next_turn);
		add_cut(s, one || !stays.others ? stays.last : stays.last_other, turn, false, first,
			s->next_turn);
	}
}

/*
 * Assigns the switches that have happened by `time` to the stays. All of them happened before
 * `offset`.
 */
static void decide(struct scout *s, uint64_t time, uint64_t offset)
{
	const size_t first = s->next_turn;

	while (is_due(s, time))
		s->next_turn++;
	assign(s, first, offset);
}

static void add_stay(struct scout *s, uint64_t end)
{
	struct stays *stays = &s->stays;

	if (!has_next(s))
		return;
	if (!is_due(s, s->most)) { /* the thread before the switch still runs */
		*stays = (struct stays){0};
		return;
	}
	/* User code ran between the switch and this stay: the switch is in a stay before it. */
	if (stays->count && s->next_turn < s->turn_count && s->left > from_of_next(s)) {
		s->next_turn++;
		assign(s, s->next_turn - 1, end);
	}
	if (!has_next(s))
		return;
	stays->kernel = stays->kernel || s->kernel_ran;
	if (!stays->count && !stays->others)
		stays->first = end;
	if (s->left > from_of_next(s)) {
		stays->others++;
		stays->last_other = end;
		return;
	}
	stays->count++;
	stays->last = end;
	if (s->moved) {
		stays->moved++;
		stays->moved_at = end;
	}
}

/*
 * Whether a switch that is due, and no other is, was before the current stay, so that it can be
 * assigned before this stay ends.
 */
static bool is_decided(const struct scout *s, uint64_t time)
{
	const struct turn *turn = turn_of(s, s->next_turn);

	return s->stays.count && s->left > turn->from &&
	       (s->next_turn + 1 >= s->turn_count || turn[1].tsc > time);
}

/* At `offset` the time is at least `time`; what precedes the last time stamp was before `most`. */
static void on_time(struct scout *s, uint64_t time, uint64_t most, uint64_t offset)
{
	const bool later = time > s->now;

	if (later)
		s->now = time;
	/*
	 * This item, or the last time stamp, is before the switch, so the stays up to it are, too.
	 */
	if (!is_due(s, s->most) || (later && !is_due(s, most)))
		s->stays = (struct stays){0};
	if (!is_due(s, time) || (s->away && !s->kernel && !is_decided(s, time)))
		return;
	if (s->kernel)
		add_stay(s, offset);
	decide(s, time, offset);
}

/*
 * What precedes `offset` was before the times of these limits. If that is before the next switch,
 * so are the stays that have ended.
 */
static void obey_limits(struct scout *s, uint64_t offset)
{
	const struct stream *stream = s->stream;

	for (; s->next_limit < stream->limit_count; s->next_limit++) {
		const struct limit *limit = &stream->limits[s->next_limit];

		if (limit->at > offset || (s->open && limit->tsc > s->session->growth->known))
			return;
		if (!is_due(s, limit->tsc))
			s->stays = (struct stays){0};
	}
}

/* The program is back in user code. */
static void come_back(struct scout *s, uint64_t time, uint64_t offset)
{
	if (s->away) {
		add_stay(s, offset);
		if (is_due(s, time)) {
			decide(s, time, offset);
			/* The next switch may have happened during the same stay. */
			add_stay(s, offset);
		}
	}
	s->away = s->kernel = s->kernel_ran = s->moved = false;
}

static void go_away(struct scout *s, bool kernel)
{
	if (!s->away)
		s->left = s->now;
	s->moved = s->moved && s->away;
	s->away = true;
	s->kernel = kernel;
	s->kernel_ran = s->kernel_ran || kernel;
}

/* Execution continues at `ip`. */
static void go_to(struct scout *s, const struct ptah_item *item, uint64_t ip, uint64_t time)
{
	if (ip >> 63)
		go_away(s, true);
	else
		come_back(s, time, item->offset);
}

/*
 * With page-table isolation a process has two page tables, in neighbouring pages: bits below this
 * one are ignored.
 */
#define CR3_PAGES 13

static void on_paging(struct scout *s, uint64_t cr3)
{
	cr3 >>= CR3_PAGES;
	s->moved = s->moved || (s->cr3 != UINT64_MAX && s->cr3 != cr3);
	s->cr3 = cr3;
}

/* How far an item's time may be wrong; 0: it is that of the last TSC packet. */
static uint64_t error_of(const struct ptah_item *item)
{
	return item->tsc_error < 64 ? UINT64_C(1) << item->tsc_error : 0;
}

static uint64_t less(uint64_t time, uint64_t error)
{
	return time > error ? time - error : 0;
}

/*
 * The time that has certainly been reached at an item, which the decoder has just returned. An
 * item's error covers what may have passed since the last timing packet, up to the next MTC. Back
 * from there the time is as good as that packet.
 */
static uint64_t time_of(const struct scout *s, const struct ptah_item *item)
{
	const struct event_time *clock = &s->events->time;
	const uint64_t time = less(item->tsc, error_of(item));
	uint64_t reached;

	if (s->events->queue_count || item->tsc != clock->now || clock->error == EVENT_TIME_UNKNOWN)
		return time;
	reached = less(clock->now, clock->error);
	return reached > time ? reached : time;
}

static void on_item(struct scout *s, const struct ptah_item *item)
{
	const uint64_t time = time_of(s, item);

	obey_limits(s, item->offset);
	s->most = item->tsc_error < 64 ? item->tsc + error_of(item) : UINT64_MAX;
	on_time(s, time, item->tsc + error_of(item), item->offset);
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
		/* The lost trace may have contained a stay. */
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
		on_paging(s, item->cr3);
		break;
	default:
		break;
	}
	s->safe = item->offset;
}

/* The bytes read so far were the last ones of their piece of trace, which was not known then. */
static int close_end(struct scout *s)
{
	s->open_end = false;
	return ptah_event_feed(s->events, "", 0, true);
}

/* Feeds the next piece to the decoder. */
static int feed(struct scout *s)
{
	const struct stream *stream = s->stream;
	const struct piece *piece = &stream->pieces[s->next_piece];
	uint64_t n, skip;
	bool last;

	if (s->open_end && (s->next_piece == stream->count || piece->gap))
		return close_end(s);
	if (s->next_piece == stream->count) {
		s->done = true;
		return 0;
	}
	skip = s->from > piece->offset ? s->from - piece->offset : 0;
	if (piece->gap && !skip) {
		if (piece->restart)
			event_restart(s->events, piece->offset);
		else
			ptah_event_seek(s->events, piece->offset);
		go_away(s, false);
	}
	n = piece_size(stream, s->next_piece++) - skip;
	last = s->next_piece == stream->count ? !stream->grows : piece[1].gap;
	s->open_end = !last && s->session->growth;
	return ptah_event_feed(s->events, piece->bytes + skip, (size_t)n, last);
}

/*
 * There are no more time stamps. If the last one, during a stay that lasts up to the end, was after
 * the next switch, the switch has happened, perhaps in that stay. Otherwise it is unknown whether
 * it happened before the end.
 */
static void finish(struct scout *s)
{
	obey_limits(s, UINT64_MAX);
	if (s->away && is_due(s, s->now)) {
		add_stay(s, UINT64_MAX);
		decide(s, s->now, UINT64_MAX);
	}
	if (s->stays.count || s->stays.others)
		add_cut(s, s->stays.first, SESSION_NONE, false, s->next_turn, s->turn_count);
	s->stays = (struct stays){0};
	s->safe = UINT64_MAX;
}

/* Sessions that grow */

/* So many more rounds an item waits at most. */
#define ROUNDS 3

/*
 * Whether what the item means depends on records that have not come yet. By what the session
 * promises (grow.h), all records up to the item have come; but its time is known only within
 * bounds.
 */
static bool is_early(const struct scout *s, const struct ptah_item *item)
{
	const struct growth *g = s->session->growth;
	const struct stream *stream = s->stream;

	/* The thread that ran from the beginning is known from the first record. */
	if (!s->turn_count)
		return true;
	if (s->waits_since != UINT64_MAX && g->rounds - s->waits_since >= ROUNDS)
		return false;
	if (s->next_limit < stream->limit_count &&
	    stream->limits[s->next_limit].at <= item->offset &&
	    stream->limits[s->next_limit].tsc > g->known)
		return true;
	if (item->tsc_error < 64)
		return item->tsc + error_of(item) > g->known;
	return s->next_turn >= s->turn_count && s->away && s->left > s->next_from;
}

/* Takes the next item, if it can be understood now. */
static bool take_item(struct scout *s)
{
	if (!s->has_item && !event_next(s->events, &s->item))
		return false;
	s->has_item = s->open && is_early(s, &s->item);
	if (s->has_item) {
		if (s->waits_since == UINT64_MAX)
			s->waits_since = s->session->growth->rounds;
		return false;
	}
	s->waits_since = UINT64_MAX;
	on_item(s, &s->item);
	return true;
}

/*
 * What was read cannot wait any longer. If a switch is known that may have happened in it, it is
 * not known where. True: there is a cut.
 */
static bool close_stays(struct scout *s)
{
	const bool any = s->stays.count || s->stays.others;

	if (!any || !is_forced(s))
		return false;
	if (s->next_turn < s->turn_count)
		add_cut(s, s->stays.first, SESSION_NONE, false, s->next_turn, s->next_turn + 1);
	s->stays = (struct stays){0};
	return s->cut_count;
}

/* What follows was read, or follows, from this offset on. */
static uint64_t read_up_to(const struct scout *s)
{
	uint64_t offset;

	if (!s->session->growth)
		return s->safe;
	if (s->has_item)
		return s->item.offset;
	offset = event_settled(s->events);
	return offset > s->safe ? offset : s->safe;
}

/* Whether there is nothing to read, and more may come. */
static bool is_dry(const struct scout *s)
{
	return s->has_item || (s->next_piece == s->stream->count && s->stream->grows);
}

void scout_moved(struct scout *s, const struct stream *stream, size_t pieces, size_t limits)
{
	s->stream = stream;
	s->next_piece -= pieces;
	s->next_limit -= limits;
}

size_t scout_limits(const struct scout *s)
{
	return s->next_limit;
}

size_t scout_turn(const struct scout *s)
{
	size_t turn = s->next_turn;

	for (size_t i = s->next_cut; i < s->cut_count; i++) {
		turn = s->cuts[i].turn < turn ? s->cuts[i].turn : turn;
		turn = s->cuts[i].first < turn ? s->cuts[i].first : turn;
	}
	return turn;
}

int scout_find(struct scout *s, uint64_t from, struct scout_cut *cut, uint64_t *safe)
{
	int n;

	if (s->session->growth)
		look_at_turns(s);
	while (s->next_cut == s->cut_count) {
		s->next_cut = s->cut_count = 0;
		/* After the last switch there is nothing to look for. */
		if (s->safe == UINT64_MAX || (!has_next(s) && !s->stream->grows)) {
			*safe = UINT64_MAX;
			return 0;
		}
		if (take_item(s))
			continue;
		if (close_stays(s))
			continue;
		/* A piece has been read: the trace before its last packet can be decoded. */
		*safe = read_up_to(s);
		if (s->session->growth)
			obey_limits(s, *safe);
		if (s->stays.count || s->stays.others)
			*safe = s->stays.first;
		if (*safe > from)
			return 0;
		if (is_dry(s))
			return PTAH_E_EMPTY;
		n = feed(s);
		if (n < 0)
			return n;
		if (s->done)
			finish(s);
	}
	*cut = s->cuts[s->next_cut++];
	return 1;
}
