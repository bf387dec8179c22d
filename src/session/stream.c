/* SPDX-License-Identifier: MIT */
/* Decodes one stream; pauses where the memory of its process changes (stream_image.c). */
#include "session/stream.h"

#include "session/guest.h"
#include "session/span_reader.h"
#include "session/window.h"

#include "base/compiler.h"
#include "flow/state.h"
#include "image/image_access.h"
#include "profile/profile_internal.h"

#include <stdlib.h>
#include <string.h>

/* The next change of the kernel's code; NULL: there are no more. */
static const struct change *next_of_kernel(const struct stream_decoder *s)
{
	const struct kernel *k = &s->session->kernel;

	return s->kernel_changes < kernel_later(k) ? &k->code.changes[k->later + s->kernel_changes]
						   : NULL;
}

/* The time of the next change. UINT64_MAX: there is none. */
static uint64_t next_change(const struct stream_decoder *s)
{
	const struct change *kernel = next_of_kernel(s);
	uint64_t tsc = s->next_later < s->later_count ? s->later[s->next_later]->tsc : UINT64_MAX;

	return kernel && kernel->tsc < tsc ? kernel->tsc : tsc;
}

/* The flow pauses before the next change, and after the window. */
void stream_set_limit(struct stream_decoder *s)
{
	const struct time_window *w = &s->window;
	uint64_t limit = next_change(s);

	if (!w->scattered && w->until < limit)
		limit = w->until + 1;
	if (s->profile)
		profile_set_time_limit(s->profile, limit);
	else
		flow_set_time_limit(s->flow, limit);
}

void stream_set_window(struct stream_decoder *s, const struct time_window *window)
{
	s->window = *window;
	if (s->profile)
		profile_set_window(s->profile, window);
	stream_set_limit(s);
}

void stream_go_to(struct stream_decoder *s, uint64_t offset)
{
	s->next_piece = session_piece_at(s->stream, offset);
	s->fed =
	    s->next_piece < s->stream->count ? offset - s->stream->pieces[s->next_piece].offset : 0;
	s->offset = offset;
	s->paused = false;
	stream_seek(s, offset);
}

int stream_new(const struct ptah_session *session, size_t index, struct stream_decoder **stream)
{
	struct stream_decoder *s;
	int status;

	if (!session || !stream || index >= session->stream_count)
		return PTAH_E_INVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return PTAH_E_NOMEM;
	s->session = session;
	s->stream = &session->streams[index];
	s->config = session->flow;
	s->flow_set = session->flow_set;
	status = session->kernel.image ? ptah_image_clone(session->kernel.image, &s->image)
				       : ptah_image_new(&s->image);
	if (status >= 0)
		image_use_files(s->image, session->mapped);
	if (status >= 0 && session->is_guest)
		status = guest_view_new(s->image, &s->view);
	if (status >= 0)
		status = stream_build_image(s, s->stream->process);
	if (status >= 0)
		status =
		    session_filters(session, s->stream->process, s->config.events.trace.ranges);
	if (status >= 0)
		status = ptah_flow_new(s->image, &s->config, &s->flow);
	s->stop = UINT64_MAX;
	s->window = time_window_whole();
	if (status >= 0)
		status = follow_restart(s);
	if (status >= 0) {
		stream_set_limit(s);
		status = window_enter(s);
	}
	if (status < 0) {
		stream_free(s);
		return status;
	}
	s->fresh = true;
	*stream = s;
	return 0;
}

void stream_free(struct stream_decoder *s)
{
	while (s) {
		struct stream_decoder *next = s->shelf;

		ptah_flow_free(s->flow);
		ptah_profile_free(s->profile);
		ptah_image_free(s->image);
		guest_view_free(s->view);
		follow_free(s);
		free(s->place);
		free(s->bounds);
		stream_forget_changes(s);
		free(s);
		s = next;
	}
}

/* Turns the result of a profile's call into 0 or an error, and notes that it has paused. */
static int pause_or(struct stream_decoder *s, int status)
{
	s->paused = status == PROFILE_PAUSED;
	return s->paused ? 0 : status;
}

int stream_catch_up(struct stream_decoder *s, uint64_t tsc)
{
	const struct change *kernel;
	int status = 0;

	while (s->next_later < s->later_count && s->later[s->next_later]->tsc <= tsc && status >= 0)
		status = stream_apply_later(s, s->later[s->next_later++]);
	while (status >= 0 && (kernel = next_of_kernel(s)) && kernel->tsc <= tsc) {
		image_set_time(s->image, kernel->tsc);
		status = kernel_apply(s->image, kernel);
		image_set_time(s->image, 0);
		s->kernel_changes++;
	}
	if (status >= 0)
		stream_set_limit(s);
	return status;
}

int stream_apply_changes(struct stream_decoder *s)
{
	return stream_catch_up(s, next_change(s));
}

/* The flow has reached the time of the next change: applies it. */
static int apply_later(struct stream_decoder *s)
{
	int status = stream_apply_changes(s);

	if (status < 0 || !s->profile)
		return status;
	return pause_or(s, profile_resume(s->profile));
}

bool stream_next_bytes(struct stream_decoder *s, struct stream_bytes *bytes)
{
	const struct piece *piece = &s->stream->pieces[s->next_piece];
	uint64_t left, stop = s->stop < s->feed_limit ? s->stop : s->feed_limit;

	if (s->next_piece == s->stream->count)
		return false;
	left = piece_size(s->stream, s->next_piece) - s->fed;
	bytes->bytes = piece->bytes + s->fed;
	s->offset = piece->offset + s->fed;
	if (s->offset >= stop)
		return false;
	bytes->n = left < stop - s->offset ? (size_t)left : (size_t)(stop - s->offset);
	s->offset += bytes->n;
	s->taken += bytes->n;
	s->fed += bytes->n;
	bytes->last = false;
	if (bytes->n < left)
		return true;
	if (!s->session->growth)
		session_release_before(s->stream, s->next_piece);
	s->next_piece++;
	s->fed = 0;
	bytes->last = s->next_piece == s->stream->count ? !s->stream->grows : piece[1].gap;
	s->open_end = !bytes->last;
	return true;
}

void stream_seek(struct stream_decoder *s, uint64_t offset)
{
	if (s->profile)
		ptah_profile_seek(s->profile, offset);
	else
		ptah_flow_seek(s->flow, offset);
}

/* The same, if the processor began to trace again there. */
static void restart(struct stream_decoder *s, uint64_t offset)
{
	if (s->profile)
		profile_restart(s->profile, offset);
	else
		flow_restart(s->flow, offset);
}

static int feed(struct stream_decoder *s, const struct stream_bytes *b)
{
	if (s->profile)
		return pause_or(s, ptah_profile_feed(s->profile, b->bytes, b->n, b->last));
	return ptah_flow_feed(s->flow, b->bytes, b->n, b->last);
}

static int feed_next(struct stream_decoder *s)
{
	struct stream_bytes b;

	return stream_next_bytes(s, &b) ? feed(s, &b) : 0;
}

/* The bytes fed so far were the last ones of their piece of trace, which was not known then. */
static int close_end(struct stream_decoder *s)
{
	const struct stream_bytes none = {(const uint8_t *)"", 0, true};

	s->open_end = false;
	return feed(s, &none);
}

static void set_error(struct stream_decoder *s, struct ptah_item *item, int status)
{
	*item = (struct ptah_item){
	    .type = PTAH_ITEM_ERROR, .status = (int16_t)status, .offset = s->offset};
}

/*
 * What the flow knew of the state before a gap is not valid after it. Trace that is missing is an
 * error, unless the gap is between two snapshots or two traces.
 */
static int cross_gap(struct stream_decoder *s, struct ptah_item *item)
{
	const struct piece *piece = &s->stream->pieces[s->next_piece];
	const bool silent = perfdata_snapshot(s->session->file) || piece->separate;
	const uint64_t start = s->offset;
	int status;

	if (piece->restart)
		restart(s, start);
	else
		stream_seek(s, start);
	if (!silent) {
		set_error(s, item, PTAH_E_LOST);
		if (s->profile)
			profile_add_item(s->profile, item);
	}
	status = feed_next(s);
	return status < 0 || silent ? status : 1;
}

/* At the end of a stream. In a file that was cut short, any stream may be incomplete. */
static int end(struct stream_decoder *s, struct ptah_item *item)
{
	if (s->ended || s->session->is_set || !perfdata_truncated(s->session->file))
		return 0;
	s->ended = true;
	set_error(s, item, PTAH_E_TRUNCATED);
	return 1;
}

/*
 * Changes to the thread that runs next, in a stream that several threads share. Returns as go_on()
 * does.
 */
static int follow(struct stream_decoder *s, struct ptah_item *item)
{
	bool unknown;
	int status = follow_go_on(s, s->offset, &unknown);

	if (status < 0 || !unknown)
		return status;
	set_error(s, item, PTAH_E_NO_THREAD);
	if (s->profile)
		profile_add_item(s->profile, item);
	return 1;
}

/*
 * Gives the flow more to do. Returns the number of items written, which may be 0; PTAH_E_EMPTY at
 * the end.
 */
static int go_on(struct stream_decoder *s, struct ptah_item *item)
{
	const struct stream *stream = s->stream;
	int status;

	if (s->profile ? s->paused : flow_is_paused(s->flow))
		return next_change(s) > s->window.until && !s->window.scattered ? PTAH_E_EMPTY
										: apply_later(s);
	if (s->next_piece == stream->count) {
		if (stream->grows)
			return PTAH_E_EMPTY;
		if (s->open_end && s->session->growth)
			return close_end(s);
		status = end(s, item);
		return status ? status : PTAH_E_EMPTY;
	}
	if (s->offset >= s->stop)
		return PTAH_E_EMPTY;
	if (s->follow) {
		status = follow(s, item);
		if (status || s->feed_limit <= s->offset)
			return status;
	}
	if (!stream->pieces[s->next_piece].gap || s->fed)
		return feed_next(s);
	return s->open_end && s->session->growth ? close_end(s) : cross_gap(s, item);
}

static int read_items(struct stream_decoder *s, struct ptah_item *items, size_t capacity)
{
	int n;

	while (!(n = ptah_flow_read(s->flow, items, capacity))) {
		n = go_on(s, items);
		if (n)
			return n == PTAH_E_EMPTY ? 0 : n;
	}
	return n;
}

int stream_read_spans(struct stream_decoder *s, struct ptah_span *spans, size_t capacity,
		      struct ptah_item *item, bool *is_item)
{
	int n;

	*is_item = false;
	while (!(n = s->event_spans ? flow_read_event_spans(s->flow, spans, capacity)
				    : ptah_flow_read_spans(s->flow, spans, capacity))) {
		/* The item at which the spans end; or there is none, and the flow needs more. */
		n = flow_has_item(s->flow) ? ptah_flow_read(s->flow, item, 1) : go_on(s, item);
		*is_item = n > 0;
		if (n)
			return n == PTAH_E_EMPTY ? 0 : n;
	}
	return n;
}

/* Keeps the items that are inside the window. Returns how many. */
static int keep_inside(struct stream_decoder *s, struct ptah_item *items, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (flow_take_inside(s->flow, &s->window, &items[i]))
			items[kept++] = items[i];
		else if (!kept)
			span_reader_skipped(s, &items[i]);
	return kept;
}

int stream_read(struct stream_decoder *s, struct ptah_item *items, size_t capacity)
{
	int n, kept = 0;

	if (!s || !items || !capacity || s->profile)
		return PTAH_E_INVAL;
	s->was_read = true;
	while (!kept) {
		if (s->window.state == TIME_WINDOW_AFTER)
			return 0;
		n = read_items(s, items, capacity);
		if (n <= 0)
			return n;
		kept = keep_inside(s, items, n);
	}
	return kept;
}

int stream_read_blocks(struct stream_decoder *s, struct ptah_block *blocks, size_t capacity)
{
	if (!s || s->profile)
		return PTAH_E_INVAL;
	s->was_read = true;
	/* Blocks have no times: they are read where all of them are inside. */
	if (!time_window_is_open(&s->window))
		return 0;
	return ptah_flow_read_blocks(s->flow, blocks, capacity);
}

int stream_begin_to_count(struct stream_decoder *s)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .flow = s->config};
	int status = ptah_profile_new(s->image, &config, &s->profile);

	if (status < 0)
		return status;
	profile_set_window(s->profile, &s->window);
	if (s->offset)
		stream_seek(s, s->offset);
	stream_set_limit(s);
	if (stream_is_shared(s->stream))
		return profile_set_space(s->profile, s->space);
	follow_free(s); /* counts are not kept by thread */
	return window_enter(s);
}

int stream_count(struct stream_decoder *s)
{
	struct ptah_item item;
	int n;

	if (!s || s->was_read)
		return PTAH_E_INVAL;
	n = s->profile ? 0 : stream_begin_to_count(s);
	if (n < 0)
		return n;
	if (s->half_read) {
		s->half_read = false;
		n = pause_or(s, profile_resume(s->profile));
		return n < 0 ? n : 1;
	}
	n = go_on(s, &item);
	if (n > 0 && item.status == PTAH_E_TRUNCATED)
		profile_add_item(s->profile, &item);
	return n == PTAH_E_EMPTY ? 0 : n < 0 ? n : 1;
}

/*
 * Whether a decoder can start again as that of another stream. Its image must be the same: it is if
 * the memory does not change during the stream, and otherwise it is the memory of the end. A flow
 * numbers address spaces as it meets them, so only one with a single space can start again.
 */
static bool is_reusable(const struct stream_decoder *s, const struct ptah_session *session,
			const struct stream *stream)
{
	struct ptah_range ranges[PTAH_RANGES];

	return s->session == session && s->stream->like == stream->like && !stream_later(s) &&
	       session_filters(session, stream->process, ranges) >= 0 &&
	       !memcmp(ranges, s->config.events.trace.ranges, sizeof(ranges)) &&
	       !stream_is_shared(s->stream) && !stream_is_shared(stream) &&
	       s->flow_set == session->flow_set && !s->config.on_missing &&
	       stream_flow(s)->code.space_count == 1 && (!s->profile || s->profile->status >= 0);
}

/* This many decoders are kept: programs that start each other in turn find theirs again. */
#define SHELF 8

/* Takes a decoder that can start again for this stream off the shelf. NULL: there is none. */
static struct stream_decoder *take_from_shelf(struct stream_decoder *s,
					      const struct ptah_session *session, size_t index)
{
	struct stream_decoder **at = &s->shelf, *found;

	while (*at && !is_reusable(*at, session, &session->streams[index]))
		at = &(*at)->shelf;
	found = *at;
	if (found)
		*at = found->shelf;
	return found;
}

/*
 * Puts `s` and those after it on the shelf of `first`. The oldest is freed if there are too many.
 */
static void put_on_shelf(struct stream_decoder *first, struct stream_decoder *s)
{
	struct stream_decoder *last = first;

	first->shelf = s;
	for (size_t i = 0; last && i < SHELF; i++)
		last = last->shelf;
	if (last) {
		stream_free(last->shelf);
		last->shelf = NULL;
	}
}

/* Makes *stream a decoder for the stream `index`, from the shelf or a new one. */
static int choose_stream(const struct ptah_session *session, size_t index,
			 struct stream_decoder **stream)
{
	struct stream_decoder *s = *stream, *chosen;
	int status = 0;

	if (s && is_reusable(s, session, &session->streams[index]))
		return 0;
	chosen = s ? take_from_shelf(s, session, index) : NULL;
	if (!chosen)
		status = stream_new(session, index, &chosen);
	if (status < 0) {
		stream_free(s);
		*stream = NULL;
		return status;
	}
	put_on_shelf(chosen, s);
	*stream = chosen;
	return 0;
}

int stream_renew(const struct ptah_session *session, size_t index, struct stream_decoder **stream)
{
	int status = choose_stream(session, index, stream);
	struct stream_decoder *s = *stream;
	struct time_window whole;

	if (status >= 0 && s->fresh) {
		s->fresh = false;
		return 0;
	}
	if (status >= 0 && s->profile)
		status = ptah_profile_reset(s->profile);
	if (status < 0) {
		stream_free(s);
		*stream = NULL;
		return status;
	}
	s->stream = &session->streams[index];
	s->paused = s->ended = s->half_read = s->was_read = false;
	s->next_piece = 0;
	s->fed = s->offset = 0;
	s->stop = UINT64_MAX;
	stream_seek(s, 0);
	whole = time_window_whole();
	stream_set_window(s, &whole);
	free(s->place);
	s->place = NULL;
	status = s->profile ? 0 : follow_restart(s);
	if (status >= 0)
		status = window_enter(s);
	if (status < 0) {
		stream_free(s);
		*stream = NULL;
	}
	return status;
}

int stream_renew_counted(const struct ptah_session *session, size_t index,
			 struct stream_decoder **s)
{
	int status = stream_renew(session, index, s);

	if (status >= 0 && !(*s)->profile)
		status = stream_begin_to_count(*s);
	if (status < 0) {
		stream_free(*s);
		*s = NULL;
	}
	return status;
}

struct ptah_profile *stream_profile(struct stream_decoder *s)
{
	return s ? s->profile : NULL;
}

int stream_insns(const struct stream_decoder *s, const struct ptah_item *block,
		 struct ptah_insn *insns, size_t capacity)
{
	return s ? ptah_flow_insns(s->flow, block, insns, capacity) : PTAH_E_INVAL;
}

int stream_thread(const struct stream_decoder *s, struct ptah_thread *thread)
{
	const struct ptah_session *session;
	const struct turn *turn;
	size_t i;

	if (!s || !thread)
		return PTAH_E_INVAL;
	session = s->session;
	*thread = (struct ptah_thread){.pid = s->stream->info.pid, .tid = s->stream->info.tid};
	memcpy(thread->comm, s->stream->info.comm, sizeof(thread->comm));
	if (!s->follow)
		return 0;
	turn = stream_turn(s, s->turn);
	if (turn || stream_is_shared(s->stream)) {
		thread->pid = turn ? turn->pid : -1;
		thread->tid = turn ? turn->tid : -1;
		thread->comm[0] = '\0';
	}
	i = thread->tid > 0 ? table_get(&session->threads_by_tid, (uint32_t)thread->tid)
			    : SESSION_NONE;
	if (i != SESSION_NONE)
		memcpy(thread->comm, session->threads[i].comm, sizeof(thread->comm));
	return 0;
}

int32_t stream_space(const struct stream_decoder *s, unsigned space)
{
	struct ptah_space value;

	if (!s)
		return -1;
	if (!session_has_spaces(s->session, s->stream))
		return s->stream->info.space;
	return ptah_flow_space(stream_flow(s), space, &value) < 0
		   ? -1
		   : session_space_of(s->session, s->stream, &value);
}

uint64_t stream_version(const struct stream_decoder *s, unsigned space, uint64_t ip, unsigned mode)
{
	const struct code_cache *code = s ? &stream_flow(s)->code : NULL;

	return code && space < code->space_count ? code_version(code, ip, mode, space) : 0;
}
