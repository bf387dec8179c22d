/* SPDX-License-Identifier: MIT */
/*
 * The answers "bars" and "marks": tiles of the timeline as columns of numbers, little endian:
 * "PTB1", the number of bars n, the unit and the state (enum bars_state) as f64; then n times begin
 * and end as f64, function and calls as u32, depth and flags as u16; zeros up to a multiple of 8.
 */
#include "view/answers.h"
#include "view/bars.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x31425450u

static void put16(struct out *out, uint32_t n)
{
	out_char(out, (char)n);
	out_char(out, (char)(n >> 8));
}

static void put32(struct out *out, uint32_t n)
{
	put16(out, n);
	put16(out, n >> 16);
}

static void put_real(struct out *out, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	put32(out, (uint32_t)bits);
	put32(out, (uint32_t)(bits >> 32));
}

void view_put_bars(struct out *out, const struct bars *bars)
{
	put32(out, MAGIC);
	put32(out, (uint32_t)bars->count);
	put_real(out, (double)bars->unit);
	put_real(out, bars->state);
	for (size_t i = 0; i < bars->count; i++)
		put_real(out, (double)bars->list[i].bar.begin);
	for (size_t i = 0; i < bars->count; i++)
		put_real(out, (double)bars->list[i].bar.end);
	for (size_t i = 0; i < bars->count; i++)
		put32(out, bars->list[i].bar.function);
	for (size_t i = 0; i < bars->count; i++)
		put32(out, bars->list[i].bar.calls);
	for (size_t i = 0; i < bars->count; i++)
		put16(out, bars->list[i].depth);
	for (size_t i = 0; i < bars->count; i++)
		put16(out, bars->list[i].bar.flags);
	if (bars->count % 2)
		put32(out, 0);
}

/* What both have in common. */
struct tile {
	struct view_thread *thread;
	enum log_axis axis;
	uint64_t from, to, unit;
};

static int get_tile(struct view_model *m, const struct view_query *query, struct view_reply *reply,
		    struct tile *tile)
{
	double unit = 1;
	int status = view_get_thread(m, query, reply, &tile->thread);

	if (!status)
		status = view_get_axis(m, query, reply, &tile->axis);
	if (!status)
		status = view_get_window(query, reply, &tile->from, &tile->to);
	if (status)
		return status;
	if (view_query_text(query, "unit") &&
	    (!view_query_real(query, "unit", &unit) || unit < 0 || unit > 9e15))
		return view_refuse(reply, 400, "unit is a length on the axis.");
	tile->unit = unit < 1 ? 1 : (uint64_t)unit;
	return 0;
}

int view_answer_bars(struct view_model *m, const struct view_query *query, struct view_reply *reply)
{
	struct tile tile;
	struct bars bars;
	int status = get_tile(m, query, reply, &tile);

	if (status)
		return status;
	status = view_bars(m, tile.thread, tile.axis, tile.from, tile.to, tile.unit, &bars);
	if (!status && m->stop)
		status = view_refuse(reply, 503, "Ptah is ending.");
	if (!status)
		view_put_bars(reply->out, &bars);
	free(bars.list);
	return status;
}

int view_answer_marks(struct view_model *m, const struct view_query *query,
		      struct view_reply *reply)
{
	struct tile tile;
	struct bars bars;
	uint64_t function;
	int status = get_tile(m, query, reply, &tile);

	if (status)
		return status;
	if (!view_query_number(query, "function", UINT32_MAX, &function) ||
	    function >= view_function_count(m))
		return view_refuse(reply, 404, "There is no such function.");
	status = view_function_bars(m, tile.thread, tile.axis, tile.from, tile.to, tile.unit,
				    (uint32_t)function, &bars);
	if (!status && m->stop)
		status = view_refuse(reply, 503, "Ptah is ending.");
	if (!status)
		view_put_bars(reply->out, &bars);
	free(bars.list);
	return status;
}
