/* SPDX-License-Identifier: MIT */
/*
 * The answer "call": the call at a place of the timeline, with all its figures and its callers. Its
 * beginning is found in the log at the place; its end there too or, of a long call, by the levels
 * of detail, which have the place of its end.
 */
#include "view/answers.h"
#include "view/bars.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

/* So many blocks after the place are searched for the end before the levels are asked. */
#define NEAR_BLOCKS 16

/* A call, and the calls around it when it began. */
struct found {
	struct log_frame frame;
	struct log_frame *callers; /* the outermost first */
	size_t depth;
	bool ended;
	struct log_counts end;
	uint8_t how;
	uint16_t flags;
};

static int keep_found_call(struct found *found, const struct log_frame *frame,
			   const struct log_cursor *c, size_t depth)
{
	struct log_frame *callers = reallocarray(found->callers, depth + 1, sizeof(*callers));

	if (!callers)
		return PTAH_E_NOMEM;
	memcpy(callers, c->frames, depth * sizeof(*callers));
	*found = (struct found){.frame = *frame, .callers = callers, .depth = depth};
	return 0;
}

static void end_found(struct found *found, const struct log_mark *mark, const struct log_cursor *c)
{
	found->ended = true;
	found->end = c->at;
	found->how = mark->how;
	found->flags = mark->flags;
	found->frame = *mark->frame;
}

/* A search for the call of a depth at a place: the last that begins at or before it and ends at or
 * after it. */
struct search {
	enum log_axis axis;
	uint64_t at;
	size_t depth;
	bool has; /* *found is the best so far */
};

/* Takes a mark. 1: the search is over. */
static int take_call_mark(struct search *s, const struct log_cursor *c, const struct log_mark *mark,
			  struct found *found)
{
	const uint64_t now = log_on(&c->at, s->axis);

	if (mark->depth == s->depth && !mark->end && now <= s->at) {
		s->has = true;
		return keep_found_call(found, mark->frame, c, s->depth);
	}
	if (mark->depth == s->depth && mark->end && s->has && !found->ended) {
		end_found(found, mark, c);
		s->has = now >= s->at;
	}
	return now > s->at && !(s->has && !found->ended);
}

/* 1: found, perhaps without its end; 0: there is none in these blocks. */
static int search_place(struct search *s, struct log_cursor *c, const struct log_block *blocks,
			size_t count, struct found *found)
{
	struct log_mark mark;
	int status = 0;

	for (size_t i = 0, after = 0; i < count && !status && after < NEAR_BLOCKS; i++) {
		status = log_cursor_enter(c, &blocks[i]);
		if (!status && !i && c->depth > s->depth) {
			s->has = true;
			status = keep_found_call(found, &c->frames[s->depth], c, s->depth);
		}
		while (!status && log_cursor_next(c, &mark))
			status = take_call_mark(s, c, &mark, found);
		if (!status)
			status = c->status;
		after += log_on(&c->at, s->axis) > s->at;
	}
	return status < 0 ? status : s->has;
}

/* Looks for the end of a call whose number is known. */
static int search_end(struct log_cursor *c, const struct log_block *blocks, size_t count,
		      struct found *found)
{
	struct log_mark mark;

	for (size_t i = 0; i < count; i++) {
		if (log_cursor_enter(c, &blocks[i]) < 0)
			return c->status;
		while (log_cursor_next(c, &mark)) {
			if (!mark.end || mark.frame->number != found->frame.number)
				continue;
			end_found(found, &mark, c);
			return 0;
		}
		if (c->status < 0)
			return c->status;
	}
	return 0;
}

/* The call may be long: its end is where the levels say. */
static int find_far_end(struct view_thread *t, enum log_axis axis, struct log_cursor *c,
			struct found *found)
{
	struct log_block *blocks = NULL;
	struct bar bar;
	size_t count = 0;
	bool far;
	int status = 0;

	view_lock_read(&t->lock);
	far = levels_find(&t->levels[axis], found->depth, log_on(&found->frame.begin, axis), &bar);
	if (far)
		status = view_copy_blocks(t, axis, bar.end, bar.end, &blocks, &count);
	view_unlock_read(&t->lock);
	if (far && status >= 0)
		status = search_end(c, blocks, count, found);
	free(blocks);
	return status;
}

static int find_call(struct view_thread *t, enum log_axis axis, uint64_t at, size_t depth,
		     struct found *found)
{
	struct search search = {.axis = axis, .at = at, .depth = depth};
	struct log_cursor cursor = {0};
	struct log_block *blocks;
	size_t count;
	int status, has;

	view_lock_read(&t->lock);
	status = view_copy_blocks(t, axis, at, UINT64_MAX, &blocks, &count);
	view_unlock_read(&t->lock);
	if (status < 0)
		return status;
	has = search_place(&search, &cursor, blocks, count, found);
	free(blocks);
	if (has > 0 && !found->ended)
		status = find_far_end(t, axis, &cursor, found);
	log_cursor_fini(&cursor);
	return status < 0 ? status : has;
}

/* The answer */

static void put_call_counts(struct json *j, const struct view_model *m, const char *key,
			    const struct log_counts *n)
{
	json_object(j, key, true);
	json_number(j, "instructions", n->instructions);
	if (m->has_cycles)
		json_number(j, "cycles", n->cycles);
	if (m->has_time) {
		json_number(j, "time", n->active);
		json_number(j, "off_time", n->off);
	}
	json_end_object(j);
}

static void put_call_place(struct json *j, const struct view_model *m, const char *key,
			   const struct log_counts *at)
{
	json_object(j, key, true);
	if (m->has_time)
		json_number(j, "time", at->time);
	json_number(j, "instructions", at->instructions);
	json_end_object(j);
}

/* Where an entry was called from. */
static void put_site(struct json *j, struct view_model *m, const struct view_entry *e)
{
	struct ptah_line line = {0};
	const struct name *name;

	if (!e->site) {
		json_object(j, "site", true);
		json_end_object(j);
		return;
	}
	json_object(j, "site", true);
	json_address(j, "address", e->site);
	view_names_lock(m, VIEW_SHOWN);
	name = names_find(m->config.recordings[VIEW_SHOWN].names, e->space, e->site);
	if (names_line(m->config.recordings[VIEW_SHOWN].names, name, &line) && line.file) {
		json_string(j, "file", line.file);
		json_number(j, "line", line.line);
	}
	view_names_unlock(m, VIEW_SHOWN);
	json_end_object(j);
}

static void put_call_flags(struct json *j, unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *word;
	} words[] = {
	    {PTAH_CALL_NO_BEGIN, "no begin"}, {PTAH_CALL_NO_END, "no end"},
	    {PTAH_CALL_HAS_LOSS, "loss"},     {PTAH_CALL_NO_BOUNDS, "no bounds"},
	    {PTAH_CALL_FOLDED, "folded"},     {PTAH_CALL_UNSURE, "unsure"},
	    {PTAH_CALL_KERNEL, "kernel"},     {PTAH_CALL_RESTORER, "restorer"},
	};

	json_array(j, "flags");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (flags & words[i].flag)
			json_string(j, NULL, words[i].word);
	json_end_array(j);
}

/* So many callers are listed, the innermost ones. */
#define MOST_CALLERS 200

/* The place of a caller is where it makes the next call: the site of the entry below it. */
static void put_callers(struct json *j, struct view_model *m, struct view_thread *t,
			enum log_axis axis, const struct found *found)
{
	const struct view_entry *called =
	    view_functions_get_entry(m->functions, found->frame.entry);

	json_array(j, "callers");
	for (size_t i = found->depth; i-- > 0 && found->depth - i <= MOST_CALLERS;) {
		const struct log_frame *f = &found->callers[i];
		const struct view_entry *e = view_functions_get_entry(m->functions, f->entry);
		struct bar bar;
		bool has;

		view_lock_read(&t->lock);
		has = levels_find(&t->levels[axis], i, log_on(&f->begin, axis), &bar);
		view_unlock_read(&t->lock);
		json_object(j, NULL, true);
		json_number(j, "function", e->id);
		json_number(j, "depth", i);
		json_number(j, "begin", log_on(&f->begin, axis));
		if (has)
			json_number(j, "end", bar.end);
		json_string(j, "begun", ptah_call_how_name(false, e->how));
		put_site(j, m, called);
		json_end_object(j);
		called = e;
	}
	json_end_array(j);
	json_number(j, "callers_left_out",
		    found->depth > MOST_CALLERS ? found->depth - MOST_CALLERS : 0);
}

static void put_call(struct json *j, struct view_model *m, struct view_thread *t, size_t number,
		     enum log_axis axis, const struct found *found)
{
	const struct view_entry *e = view_functions_get_entry(m->functions, found->frame.entry);
	struct view_function function = {0};
	struct log_counts total;

	view_function(m, e->id, &function);
	json_object(j, NULL, false);
	json_number(j, "function", e->id);
	json_number(j, "id", found->frame.number);
	json_number(j, "thread", number);
	json_number(j, "depth", found->depth);
	put_call_place(j, m, "begin", &found->frame.begin);
	if (found->ended) {
		total = log_minus(&found->end, &found->frame.begin);
		put_call_place(j, m, "end", &found->end);
		put_call_counts(j, m, "total", &total);
		put_call_counts(j, m, "self", &found->frame.self);
		json_string(j, "ended", ptah_call_how_name(true, found->how));
	} else {
		json_string(j, "ended", NULL);
	}
	json_bool(j, "complete", found->ended);
	json_string(j, "begun", ptah_call_how_name(false, e->how));
	put_call_flags(j, e->flags | found->flags);
	put_site(j, m, e);
	json_string(j, "file", function.file);
	json_number(j, "line", function.line);
	put_callers(j, m, t, axis, found);
	json_end_object(j);
	json_finish(j);
}

int view_answer_call(struct view_model *m, const struct view_query *query, struct view_reply *reply)
{
	struct found found = {0};
	struct view_thread *t;
	enum log_axis axis;
	uint64_t depth, thread = 0;
	double at;
	int status = view_get_thread(m, query, reply, &t);

	if (!status)
		status = view_get_axis(m, query, reply, &axis);
	if (status)
		return status;
	view_query_number(query, "thread", UINT32_MAX, &thread);
	if (!view_query_real(query, "at", &at) || at < 0 || at > 9e15 ||
	    !view_query_number(query, "depth", UINT32_MAX, &depth))
		return view_refuse(reply, 400, "at is a place on the axis, depth a number.");
	status = find_call(t, axis, (uint64_t)at, depth, &found);
	if (status > 0)
		put_call(&reply->json, m, t, thread, axis, &found);
	free(found.callers);
	if (status < 0)
		return status;
	return status ? 0 : view_refuse(reply, 404, "There is no call at this place.");
}
