/* SPDX-License-Identifier: MIT */
/*
 * Where the program is likely to go. The exits of each unit count how often they are taken; a path
 * goes the way that was taken more often, through calls, and back from them: which return address
 * belongs to a return is known where the call is on the same path.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/units.h"

#define R11_BIT (1u << 11)

/* A loop is unrolled until its outcomes fill a TNT packet, or it has so many instructions. */
#define LAP_OUTCOMES NATIVE_LIMIT(6, 2)
#define LAP_INSNS    NATIVE_LIMIT(96, 10)

#define DEPTH_MAX NATIVE_LIMIT(12, 1) /* calls on a path */

/*
 * The next page is only looked at if the instruction goes on there: it may be data, and a page
 * with code cannot be written to.
 */
static bool read_insn(struct context *c, uint64_t at, struct insn *insn)
{
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)at;
	const size_t left = NATIVE_PAGE - at % NATIVE_PAGE;
	const size_t n = left < X86_MAX_SIZE ? left : X86_MAX_SIZE;

	if (insn_decode(bytes, cache_readable(c, at, n), insn))
		return true;
	return n < X86_MAX_SIZE && insn_decode(bytes, cache_readable(c, at, X86_MAX_SIZE), insn);
}

/* The instruction may go on in the next page, which is not to be read before it is. */
static bool is_last_of_page(uint64_t at)
{
	return NATIVE_PAGE - at % NATIVE_PAGE < X86_MAX_SIZE;
}

void path_await(const struct context *c, uint64_t at)
{
	const uint64_t left = NATIVE_PAGE - at % NATIVE_PAGE;
	uint8_t bytes[X86_MAX_SIZE];
	struct insn insn;

	if (!c->runtime->serves_faults)
		return;
	if (!is_last_of_page(at))
		signals_copy(bytes, (const void *)at, 1);
	else if (signals_copy(bytes, (const void *)at, left) && !insn_decode(bytes, left, &insn))
		signals_copy(bytes, (const void *)(at + left), 1);
}

/* Loads and comparisons are known; what else has an operand in memory may store to it. */
static bool may_store(const struct insn *insn)
{
	const struct x86_encoding *e = &insn->code;
	const unsigned op = e->opcode;

	const bool one = x86_is_legacy(e) && e->map == X86_MAP_ONE;

	if (x86_is_string(e) || (one && (op == 0xa2 || op == 0xa3)) ||
	    (e->map == X86_MAP_0F && op == 0xf7))
		return true; /* MOV to an address without ModRM; MASKMOVQ, MASKMOVDQU */
	if (!x86_has_memory(e))
		return false;
	if (one)
		return !((op < 0x40 && op & 2) || (op >= 0x38 && op <= 0x3b) || op == 0x63 ||
			 op == 0x69 || op == 0x6b || op == 0x84 || op == 0x85 || op == 0x8a ||
			 op == 0x8b || op == 0x8d);
	return true;
}

void path_read(struct context *c, uint64_t start, struct code *code)
{
	uint64_t at = start;

	code->count = 0;
	code->flow = INSN_NEXT;
	code->stopped = false;
	code->uses_r11 = false;
	code->checked = changes_is_mixed(c, start);
	while (code->count < UNIT_INSNS && code->flow == INSN_NEXT) {
		struct insn *i = &code->insns[code->count];

		if (!read_insn(c, at, i) || i->flow >= INSN_REFUSED) {
			code->stopped = true;
			break;
		}
		code->addresses[code->count++] = at;
		code->uses_r11 |= (i->registers & R11_BIT) != 0;
		code->flow = i->flow;
		at += i->code.size;
		/* What it stores may be the code that follows, which is compared again then. */
		code->checked |= changes_is_mixed(c, at - 1);
		if ((code->checked && may_store(i)) ||
		    (c->runtime->serves_faults &&
		     (is_last_of_page(at) || at / NATIVE_PAGE != start / NATIVE_PAGE)))
			break;
	}
	code->end = at;
}

/* What a piece changes in what is known of the path. */
static void account(struct path *path, const struct piece *piece, uint64_t next)
{
	if (piece->flow == INSN_CALL && next != piece->end)
		path->returns[path->depth++] = piece->end;
	if (piece->flow == INSN_RET)
		path->depth--;
	path->outcomes += piece->outcome != OUTCOME_NONE;
}

/* Of its lists nothing is read that was not written before. */
void path_begin(struct path *path)
{
	path->count = path->insns = path->outcomes = path->lap = path->depth = 0;
	path->version = 0;
	path->uses_r11 = path->off = path->checked = false;
}

void path_add(struct path *path, uint64_t start, const struct code *code)
{
	path->pieces[path->count++] = (struct piece){.start = start,
						     .end = code->end,
						     .size = (uint16_t)code->count,
						     .flow = (uint8_t)code->flow};
	path->insns += code->count;
	path->uses_r11 |= code->uses_r11;
	path->checked |= code->checked;
}

void path_take(struct path *path, const struct exit *exit)
{
	const struct unit *u = exit->unit;

	for (unsigned i = 0; i < exit->pieces; i++) {
		struct piece *piece = &path->pieces[path->count++];
		const bool last = i + 1 == exit->pieces;

		*piece = u->pieces[i];
		piece->code = NULL;
		piece->first = piece->count = 0;
		if (last)
			piece->outcome = exit->outcome;
		if (piece->start == u->head)
			path->lap = i;
		path->insns += piece->size;
		account(path, piece, last ? exit->target : u->pieces[i + 1].start);
	}
	path->uses_r11 = u->uses_r11;
	path->off = u->off;
}

static unsigned times_taken(const struct cache *cache, const struct exit *exit)
{
	const uint32_t heat = exit->counts ? *cache_heat(cache, exit->slot) : cache->heat;

	return heat < cache->heat ? cache->heat - heat : 0;
}

/* Which way a conditional branch goes: its outcome, or OUTCOME_NONE, if nobody knows. */
static unsigned likely_outcome(const struct cache *cache, const struct piece *piece, bool off,
			       uint64_t *next)
{
	const struct unit *u = cache_look_up(cache, piece->start, off);
	const struct exit *not_taken, *taken;

	if (!u || u->piece_count != 1 || u->exit_count != 2 || u->pieces[0].end != piece->end)
		return OUTCOME_NONE;
	not_taken = &u->exits[0];
	taken = &u->exits[1];
	if (!times_taken(cache, not_taken) && !times_taken(cache, taken))
		return OUTCOME_NONE;
	*next = times_taken(cache, taken) > times_taken(cache, not_taken) ? taken->target
									  : not_taken->target;
	return times_taken(cache, taken) > times_taken(cache, not_taken) ? OUTCOME_TAKEN
									 : OUTCOME_NOT_TAKEN;
}

bool path_can_compare(const struct context *c, uint64_t address)
{
	return (c->runtime->cache->rotates || address <= INT32_MAX) &&
	       (int32_t)address != INT32_MIN;
}

/* Where the last piece leads. False: to nowhere in particular. */
static bool find_next(const struct context *c, struct path *path, const struct code *code,
		      uint64_t *next)
{
	struct piece *last = &path->pieces[path->count - 1];
	const struct insn *branch;

	if (code->stopped || !code->count)
		return false;
	branch = &code->insns[code->count - 1];
	*next = last->end + (uint64_t)branch->offset;
	switch (code->flow) {
	case INSN_NEXT:
		*next = last->end;
		return true;
	case INSN_JMP:
		return true;
	case INSN_CALL:
		return path->depth < DEPTH_MAX;
	case INSN_JCC:
		last->outcome = (uint8_t)likely_outcome(c->runtime->cache, last, path->off, next);
		return last->outcome != OUTCOME_NONE;
	case INSN_RET:
		*next = path->depth ? path->returns[path->depth - 1] : 0;
		if (!path->depth || (c->runtime->no_retcomp && !path->off) ||
		    !path_can_compare(c, *next))
			return false;
		last->outcome = OUTCOME_TAKEN;
		return true;
	default:
		return false;
	}
}

/* Whether tracing goes on or off, or ends, where the last piece leads. */
static bool crosses(const struct context *c, const struct path *path, uint64_t next)
{
	const struct piece *last = &path->pieces[path->count - 1];
	const bool taken =
	    last->outcome == OUTCOME_TAKEN || last->flow == INSN_JMP || last->flow == INSN_CALL;

	return taken &&
	       (filter_traces(c->runtime, next) == path->off || filter_stops(c->runtime, next));
}

/* Whether the path may go on at this address: not in loops within it, and not for ever. */
static bool may_go_on(const struct context *c, const struct path *path, uint64_t next)
{
	const struct unit *u;

	if (path->count == UNIT_PIECES || path->insns + UNIT_INSNS > UNIT_PATH)
		return false;
	if (next == path->pieces[0].start)
		return path->outcomes < LAP_OUTCOMES && path->insns < LAP_INSNS;
	for (unsigned i = path->lap; i < path->count; i++)
		if (path->pieces[i].start == next)
			return false;
	if (c->runtime->filters && crosses(c, path, next))
		return false;
	u = cache_look_up(c->runtime->cache, next, path->off);
	return u && !u->checked && (int32_t)(u->version - path->version) <= 0;
}

void path_follow(struct context *c, struct path *path, uint64_t next)
{
	struct code code;

	while (may_go_on(c, path, next)) {
		const unsigned before = path->count;

		path_read(c, next, &code);
		if (!code.count)
			break;
		path_add(path, next, &code);
		if (next == path->pieces[0].start)
			path->lap = before;
		if (!find_next(c, path, &code, &next))
			return;
		account(path, &path->pieces[before], next);
	}
	/* It ends behind a branch whose way is known, but it does not go it. */
	if (path->count)
		path->pieces[path->count - 1].outcome = OUTCOME_NONE;
}
