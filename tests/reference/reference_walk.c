/* SPDX-License-Identifier: MIT */
/*
 * Events to instructions. What needs no packet (SDM "Change of Flow Instruction (COFI) Tracing":
 * direct jumps and calls, and everything that is not a branch) is walked through; the trace decides
 * the other branches.
 */
#include "decoder_parts.h"

#include "x86/x86.h"

/* The most instructions in a run, as in the flow's blocks. */
#define RUN_MAX 256

/* Instructions in a row, up to the first branch or to code that cannot be read. */
struct run {
	struct x86_insn insns[RUN_MAX];
	uint64_t ips[RUN_MAX];
	unsigned count;
	int status; /* of an empty run */
	uint64_t end;
};

void walk_put(struct walk *w, const struct ptah_item *item)
{
	struct reference *out = w->out;

	if (out->limit && out->count == out->limit) {
		out->cut = true;
		return;
	}
	if (out->count == out->capacity) {
		out->capacity = out->capacity ? 2 * out->capacity : 1024;
		out->items = realloc(out->items, out->capacity * sizeof(*out->items));
		if (!out->items)
			abort();
	}
	out->items[out->count++] = *item;
}

/* The code */

static int fetch(const struct walk *w, uint64_t ip, struct x86_insn *insn)
{
	uint8_t bytes[X86_MAX_SIZE];
	size_t n = w->config->read(w->config->context, &w->space, ip, bytes, sizeof(bytes));
	int status;

	if (!n)
		return PTAH_E_NO_CODE;
	status = x86_decode(bytes, n, ip, w->mode, insn);
	return status == PTAH_E_MORE ? PTAH_E_NO_CODE : status;
}

static bool is_branch(const struct x86_insn *insn)
{
	return insn->insn_class != PTAH_INSN_OTHER && insn->insn_class != PTAH_INSN_PTWRITE;
}

/* SDM "COFI Type": needs no packet, because its successor is known. */
static bool is_direct(const struct x86_insn *insn)
{
	return !is_branch(insn) || insn->insn_class == PTAH_INSN_JUMP ||
	       insn->insn_class == PTAH_INSN_CALL;
}

static bool is_far(const struct x86_insn *insn)
{
	return insn->insn_class == PTAH_INSN_FAR_CALL || insn->insn_class == PTAH_INSN_FAR_RETURN ||
	       insn->insn_class == PTAH_INSN_FAR_JUMP;
}

/* The address after a direct instruction. */
static uint64_t successor(uint64_t ip, const struct x86_insn *insn)
{
	return is_branch(insn) ? insn->target : ip + insn->size;
}

static void read_run(const struct walk *w, uint64_t ip, struct run *run)
{
	run->end = ip;
	for (run->count = 0; run->count < RUN_MAX;) {
		struct x86_insn *insn = &run->insns[run->count];

		run->status = fetch(w, run->end, insn);
		if (run->status < 0)
			break;
		run->ips[run->count++] = run->end;
		run->end += insn->size;
		if (is_branch(insn))
			break;
	}
}

static const struct x86_insn *last_of(const struct run *run)
{
	return &run->insns[run->count - 1];
}

static uint64_t target_of(const struct run *run)
{
	return successor(run->ips[run->count - 1], last_of(run));
}

/*
 * The way ahead: the instructions from the current place along direct branches, each once. It ends
 * at a branch that the trace decides, at code that cannot be read, or where it returns to itself.
 * That is found by Brent's algorithm: a mark that moves to the current instruction after 1, 2, 4,
 * 8... steps is met again in any loop.
 */
struct way {
	uint64_t at, mark;
	uint64_t steps, next_mark;
	bool loops;
	struct x86_insn insn; /* the one at `at` */
};

/* True while `at` is an instruction that may be passed. A loop is passed more than once. */
static bool way_step(const struct walk *w, struct way *way)
{
	if (way->steps++) {
		way->at = successor(way->at, &way->insn);
		if (way->at == way->mark) {
			way->loops = true;
			return false;
		}
		if (way->steps == way->next_mark) {
			way->mark = way->at;
			way->next_mark *= 2;
		}
	}
	return fetch(w, way->at, &way->insn) == 0 && is_direct(&way->insn);
}

static struct way way_from(const struct walk *w)
{
	return (struct way){.at = w->ip, .mark = w->ip, .next_mark = 2};
}

/* Whether the way leads to `ip`, which may be its end. */
static bool is_on_way(const struct walk *w, uint64_t ip)
{
	struct way way = way_from(w);

	while (way_step(w, &way))
		if (way.at == ip)
			return true;
	return way.at == ip;
}

/* Whether the way leads to bytes that are not there, or are no instruction. */
static bool ends_in_nothing(const struct walk *w)
{
	struct way way = way_from(w);
	struct x86_insn insn;

	while (way_step(w, &way))
		;
	return !way.loops && fetch(w, way.at, &insn) < 0;
}

/* Whether the way leads to no branch that the trace could decide. */
static bool is_endless(const struct walk *w)
{
	struct way way = way_from(w);

	while (way_step(w, &way))
		;
	return way.loops;
}

/* SDM "Indirect Transfer Compression for Returns (RET)" */

static void push_call(struct walk *w, uint64_t next)
{
	if (w->depth == CALL_STACK) { /* the oldest entry is dropped */
		memmove(w->calls, w->calls + 1, (CALL_STACK - 1) * sizeof(*w->calls));
		w->depth--;
	}
	w->calls[w->depth++] = next;
}

static void pop_call(struct walk *w)
{
	if (w->depth)
		w->depth--;
}

/* A call to the next instruction only reads the IP and is not pushed. */
static bool is_pushed(uint64_t ip, const struct x86_insn *insn)
{
	return insn->insn_class == PTAH_INSN_CALL && insn->target != ip + insn->size;
}

static void pass_call(struct walk *w, uint64_t ip, const struct x86_insn *insn)
{
	if (!is_pushed(ip, insn))
		return;
	if (w->forgotten)
		w->forgotten--;
	else
		push_call(w, ip + insn->size);
}

/* Reporting */

/* `outcome`: PTAH_ITEM_TAKEN, PTAH_ITEM_UNKNOWN or 0. */
static void report(struct walk *w, uint64_t ip, const struct x86_insn *insn, unsigned outcome)
{
	const struct ptah_item item = {
	    .type = PTAH_ITEM_BLOCK,
	    .flags = (uint8_t)((w->speculative ? PTAH_ITEM_SPECULATIVE : 0) | outcome),
	    .mode = (uint8_t)w->mode,
	    .insn_class = insn->insn_class,
	    .ninsn = 1,
	    .last_size = insn->size,
	    .ip = ip,
	    .end = ip + insn->size,
	    .offset = w->offset,
	};

	walk_put(w, &item);
}

static void report_run(struct walk *w, const struct run *run, unsigned outcome)
{
	for (unsigned i = 0; i < run->count; i++)
		report(w, run->ips[i], &run->insns[i], i == run->count - 1 ? outcome : 0);
}

static void lose(struct walk *w)
{
	w->positioned = false;
	w->tnt_count = 0;
	w->depth = 0;
	w->forgotten = 0;
	w->far = false;
	w->waits = false;
	w->is_behind = false;
}

/* Off: what runs then has no trace, and a TIP.PGE has to come before anything else is known. */
static void stop_tracing(struct walk *w)
{
	lose(w);
	w->seeks = false;
}

static void fail_as(struct walk *w, int status, uint64_t ip, unsigned flags)
{
	const struct ptah_item item = {.type = PTAH_ITEM_ERROR,
				       .flags = (uint8_t)flags,
				       .mode = (uint8_t)w->mode,
				       .status = (int16_t)status,
				       .ip = ip,
				       .offset = w->offset};

	const bool waits = w->far && w->ip == w->far_target;
	const unsigned kept = w->depth;

	walk_put(w, &item);
	lose(w);
	w->seeks = w->config->resync;
	w->waits = waits && w->seeks && status == PTAH_E_NO_CODE;
	w->kept = kept;
	w->lost_calls =
	    w->seeks ? status == PTAH_E_NO_CODE ? LOST_IN_HOLE : LOST_ON_PATH : LOST_NONE;
}

static void fail(struct walk *w, int status, uint64_t ip)
{
	fail_as(w, status, ip, 0);
}

static void stand_at(struct walk *w, uint64_t ip)
{
	w->positioned = true;
	w->ip = ip;
}

/* After an error: the next address in the trace, if there is code, is where the path goes on. */

static bool has_code(const struct walk *w, uint64_t ip)
{
	struct x86_insn insn;

	return fetch(w, ip, &insn) != PTAH_E_NO_CODE;
}

/* The trace says that `ip` was reached; which calls were made before is not known. */
static void resume_at(struct walk *w, uint64_t ip)
{
	if (!w->seeks || !has_code(w, ip))
		return;
	stand_at(w, ip);
	if (w->waits && ip == w->far_return && w->space.cr3 == w->far_space.cr3 &&
	    w->space.vmcs == w->far_space.vmcs)
		w->depth = w->kept;
	w->waits = false;
	w->seeks = false;
}

static void go_far(struct walk *w, uint64_t from, uint64_t to)
{
	stand_at(w, to);
	w->far = true;
	w->far_target = to;
	w->far_return = from;
	w->far_space = w->space;
}

/* Whether there is a FUP with the address of the instruction before which the event happened. */
static bool names_place(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_ASYNC_DISABLED:
		return true; /* its flag is about the target */
	case PTAH_ITEM_PSB:
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_EXEC_MODE:
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_TRIGGER:
		return false;
	default:
		return !(event->flags & PTAH_ITEM_IP_SUPPRESSED) &&
		       !(event->flags & PTAH_ITEM_STATUS);
	}
}

/* The event has happened: is the place after it known now? */
static void resume_behind(struct walk *w, const struct ptah_item *event)
{
	const bool has_ip = !(event->flags & PTAH_ITEM_IP_SUPPRESSED);

	switch (event->type) {
	case PTAH_ITEM_ASYNC_BRANCH:
		resume_at(w, event->to);
		break;
	case PTAH_ITEM_EXEC_MODE:
		if (has_ip)
			resume_at(w, event->ip);
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS: /* in a PSB+, at its address */
		if (has_ip && event->flags & PTAH_ITEM_STATUS) {
			resume_at(w, event->ip);
			w->lost_calls = LOST_NONE;
		}
		break;
	default:
		break;
	}
}

/* Walking */

/*
 * Walks along direct branches and reports, up to the run whose last instruction needs the trace,
 * which is not reported yet. False when there is an error.
 */
static bool walk_to_branch(struct walk *w, struct run *run)
{
	if (is_endless(w)) {
		fail(w, PTAH_E_NO_PROGRESS, w->ip);
		return false;
	}
	for (;;) {
		read_run(w, w->ip, run);
		if (!run->count) {
			fail(w, run->status, w->ip);
			return false;
		}
		if (!is_direct(last_of(run)))
			return true;
		report_run(w, run, 0);
		pass_call(w, run->ips[run->count - 1], last_of(run));
		w->ip = target_of(run);
	}
}

/* `ip` is not on the way: what is known of the way ran, and then the code or the trace fails. */
static void fail_to_reach(struct walk *w)
{
	struct run run;

	if (ends_in_nothing(w))
		walk_to_branch(w, &run);
	else
		fail(w, PTAH_E_MISMATCH, w->ip);
}

/* Walks to the instruction at `ip`; everything before it ran. False when it is not on the way. */
static bool walk_to(struct walk *w, uint64_t ip)
{
	if (!is_on_way(w, ip)) {
		fail_to_reach(w);
		return false;
	}
	while (w->ip != ip) {
		struct x86_insn insn;

		if (fetch(w, w->ip, &insn) < 0)
			abort(); /* cannot happen: it is on the way */
		report(w, w->ip, &insn, 0);
		pass_call(w, w->ip, &insn);
		w->ip = successor(w->ip, &insn);
	}
	return true;
}

/* SDM "Taken/Not-taken (TNT) Packet": outcomes of conditional branches and compressed returns. */

static bool next_outcome(struct walk *w)
{
	return w->tnt >> --w->tnt_count & 1;
}

static void take_outcome(struct walk *w, const struct run *run)
{
	bool taken = next_outcome(w);

	if (last_of(run)->insn_class == PTAH_INSN_COND) {
		report_run(w, run, taken ? PTAH_ITEM_TAKEN : 0);
		w->ip = taken ? last_of(run)->target : run->end;
	} else if (taken && !w->depth && w->lost_calls != LOST_NONE) {
		/* The call was not seen. In missing code, what it returns to is missing, too. */
		report_run(w, run, 0);
		fail_as(w, w->lost_calls == LOST_IN_HOLE ? PTAH_E_NO_CODE : PTAH_E_BAD_RETCOMP, 0,
			PTAH_ITEM_IP_SUPPRESSED);
	} else if (!taken || !w->depth) {
		/* A compressed return is a taken outcome, with an entry on the stack. */
		fail_as(w, PTAH_E_BAD_RETCOMP, w->ip, taken ? PTAH_ITEM_TAKEN : 0);
	} else {
		report_run(w, run, 0);
		w->ip = w->calls[--w->depth];
	}
}

/*
 * Walks as far as the available outcomes lead. Some may be left at an indirect branch, whose TIP
 * follows them (SDM "Deferred TIPs").
 */
static void use_outcomes(struct walk *w)
{
	struct run run;

	while (w->tnt_count) {
		uint8_t insn_class;

		if (!walk_to_branch(w, &run))
			return;
		insn_class = last_of(&run)->insn_class;
		if (insn_class != PTAH_INSN_COND && insn_class != PTAH_INSN_RETURN)
			return;
		take_outcome(w, &run);
	}
}

/* At a branch, or what replaces one: the address space that waited for it becomes valid. */
static void enter_space(struct walk *w, unsigned type)
{
	switch (type) {
	case PTAH_ITEM_TIP:
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_ASYNC_BRANCH:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_PSB:
	case PTAH_ITEM_ERROR:
		if (w->space_waits)
			w->space = w->next_space;
		w->space_waits = false;
		break;
	default:
		break;
	}
}

/*
 * SDM "Target IP (TIP) Packet": the target of an indirect or far branch or of an uncompressed
 * return.
 */
static void take_target(struct walk *w, uint64_t to)
{
	const bool is_deferred = w->tnt_count;
	struct run run;

	if (!w->positioned || !walk_to_branch(w, &run)) {
		enter_space(w, PTAH_ITEM_TIP);
		resume_at(w, to);
		return;
	}
	if (last_of(&run)->insn_class == PTAH_INSN_COND) {
		fail(w, PTAH_E_MISMATCH, w->ip);
		enter_space(w, PTAH_ITEM_TIP);
		resume_at(w, to);
		return;
	}
	report_run(w, &run, 0);
	if (last_of(&run)->insn_class == PTAH_INSN_CALL_IND)
		push_call(w, run.end);
	else if (last_of(&run)->insn_class == PTAH_INSN_RETURN)
		pop_call(w);
	if (is_far(last_of(&run)))
		go_far(w, run.end, to);
	else
		stand_at(w, to);
	enter_space(w, PTAH_ITEM_TIP);
	/*
	 * SDM "Deferred TIPs": they wait until the TNT is full or another packet comes. If no other
	 * packet has come, this TIP itself ended a TNT that was not full: it follows its outcomes.
	 */
	if (w->config->resync && is_deferred && !w->is_tnt_full)
		w->contradicted = w->end;
	use_outcomes(w);
}

/* Instructions whose packets have no address */

static bool is_mov_cr3(const struct walk *w, uint64_t ip, const struct x86_insn *insn)
{
	(void)w;
	(void)ip;
	return insn->writes_cr3;
}

/* 0F C7 /6 with a memory operand, without 66 and F3, which make it VMCLEAR and VMXON. */
static bool is_vmptrld(const struct walk *w, uint64_t ip, const struct x86_insn *insn)
{
	uint8_t bytes[X86_MAX_SIZE];
	size_t n = w->config->read(w->config->context, &w->space, ip, bytes, insn->size), i = 0;
	bool other = false;

	for (; i < n && memchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", bytes[i], 11); i++)
		other |= bytes[i] == 0x66 || bytes[i] == 0xf3;
	i += w->mode == PTAH_EXEC_64 && i < n && bytes[i] / 16 == 4; /* REX */
	return !other && n >= i + 3 && bytes[i] == 0x0f && bytes[i + 1] == 0xc7 &&
	       bytes[i + 2] / 64 != 3 && bytes[i + 2] / 8 % 8 == 6;
}

static bool is_ptwrite(const struct walk *w, uint64_t ip, const struct x86_insn *insn)
{
	(void)w;
	(void)ip;
	return insn->insn_class == PTAH_INSN_PTWRITE;
}

/* Walks past the next instruction of a kind, which has run. False when there is none on the way. */
static bool walk_behind(struct walk *w,
			bool (*is_it)(const struct walk *, uint64_t, const struct x86_insn *),
			uint64_t *ip)
{
	struct way way = way_from(w);

	do {
		if (!way_step(w, &way))
			return false;
	} while (!is_it(w, way.at, &way.insn));
	walk_to(w, way.at);
	report(w, way.at, &way.insn, 0);
	stand_at(w, way.at + way.insn.size);
	w->is_behind = false;
	*ip = way.at;
	return true;
}

/* SDM "Packet Generation Disable (TIP.PGD) Packet" */

/*
 * Whether packets are enabled at the target of a taken branch. SDM "Filtering by IP", "TraceStop":
 * yes in a filter range or when there is none, and not in a stop range.
 */
static bool is_let_through(const struct walk *w, uint64_t ip)
{
	bool filtered = false, inside = false, stops = false;

	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		const struct ptah_range *r = &w->config->ranges[i];
		bool here = r->first <= ip && ip <= r->last;

		filtered = filtered || r->mode == PTAH_RANGE_FILTER;
		inside = inside || (r->mode == PTAH_RANGE_FILTER && here);
		stops = stops || (r->mode == PTAH_RANGE_STOP && here);
	}
	return (inside || !filtered) && !stops;
}

static bool has_ranges(const struct walk *w)
{
	for (unsigned i = 0; i < PTAH_RANGES; i++)
		if (w->config->ranges[i].mode != PTAH_RANGE_OFF)
			return true;
	return false;
}

/*
 * Table "TIP.PGD Packet Definition": no IP when a conditional branch leaves a range, as "the
 * destination can be inferred": a branch that is not taken leaves none. Without knowing the ranges
 * the outcome is unknown.
 */
static void leave_by_conditional(struct walk *w, const struct run *run)
{
	if (!has_ranges(w))
		report_run(w, run, PTAH_ITEM_UNKNOWN);
	else if (is_let_through(w, last_of(run)->target))
		fail(w, PTAH_E_MISMATCH, w->ip);
	else
		report_run(w, run, PTAH_ITEM_TAKEN);
}

/*
 * Without an IP: tracing stopped at a MOV CR3, or at the next branch that would have had a packet.
 */
static void leave_unknown(struct walk *w)
{
	struct run run;
	uint64_t ip;

	if (walk_behind(w, is_mov_cr3, &ip) || !walk_to_branch(w, &run))
		return;
	if (last_of(&run)->insn_class == PTAH_INSN_COND)
		leave_by_conditional(w, &run);
	else
		report_run(w, &run, 0);
}

/*
 * With an IP: tracing stopped at a direct branch to it, by falling through to it, or at the next
 * branch that the trace decides. A loop without such a branch proves nothing.
 */
static void leave_to(struct walk *w, uint64_t to)
{
	struct run run;
	bool taken;

	if (is_on_way(w, to)) {
		walk_to(w, to);
		return;
	}
	if (!walk_to_branch(w, &run))
		return;
	taken = to == last_of(&run)->target;
	if (last_of(&run)->insn_class != PTAH_INSN_COND)
		report_run(w, &run, 0);
	else if (taken || to == run.end)
		report_run(w, &run, taken ? PTAH_ITEM_TAKEN : 0);
	else
		fail(w, PTAH_E_MISMATCH, w->ip);
}

static void take_disabled(struct walk *w, struct ptah_item *event)
{
	if (w->positioned) {
		if (event->flags & PTAH_ITEM_IP_SUPPRESSED)
			leave_unknown(w);
		else
			leave_to(w, event->to);
	}
	stop_tracing(w);
	event->ip = 0;
}

/* SDM "PTW Packet": without a FUP it belongs to the next PTWRITE, which has run. */
static void take_ptwrite(struct walk *w, struct ptah_item *event)
{
	if (walk_behind(w, is_ptwrite, &event->ip))
		event->flags &= (uint8_t)~PTAH_ITEM_IP_SUPPRESSED;
}

/*
 * SDM "Paging Information (PIP) Packet", "VMCS Packet": one without an address belongs to a MOV CR3
 * or VMPTRLD on the way, which has run, or else to the next branch.
 */
static void take_space(struct walk *w, const struct ptah_item *event)
{
	bool vmcs = event->type == PTAH_ITEM_VMCS || event->type == PTAH_ITEM_ASYNC_VMCS;
	uint64_t *value = vmcs ? &w->next_space.vmcs : &w->next_space.cr3;
	bool ahead = w->positioned && event->flags & PTAH_ITEM_IP_SUPPRESSED &&
		     !(event->flags & PTAH_ITEM_STATUS);
	uint64_t ip;

	if (ahead && walk_behind(w, vmcs ? is_vmptrld : is_mov_cr3, &ip))
		ahead = false;
	*value = event->value;
	w->space_waits = ahead;
	if (!ahead)
		w->space = w->next_space;
}

/*
 * SDM "Packet Stream Boundary (PSB) Packet" and "PSB+": the state at this point. If it contradicts
 * the current state, what came before was misread; the address in the PSB+ is sure. The return
 * address stack is empty again.
 */
static void take_psb(struct walk *w, const struct ptah_item *event)
{
	bool on = !(event->flags & PTAH_ITEM_IP_SUPPRESSED);

	if (w->positioned && !on)
		fail(w, PTAH_E_MISMATCH, w->ip);
	else if (w->positioned && !is_on_way(w, event->ip))
		fail_to_reach(w);
	w->mode = event->mode;
	w->speculative = event->flags & PTAH_ITEM_SPECULATIVE;
	if (!w->positioned && on && (!w->seeks || has_code(w, event->ip)))
		stand_at(w, event->ip);
	w->seeks = w->seeks && !w->positioned;
	w->lost_calls = LOST_NONE;
	w->far = false;
	w->waits = false;
	/* Calls on the way to this address are not on the processor's stack either. */
	w->depth = 0;
	w->forgotten = 0;
	for (struct way way = way_from(w);
	     w->positioned && on && way_step(w, &way) && way.at != event->ip;)
		w->forgotten += is_pushed(way.at, &way.insn);
	w->is_behind = on && w->positioned;
	w->psb_ip = event->ip;
	w->psb_offset = event->offset;
}

/*
 * The processor was at the address of the last PSB+: before anything else happens, it got there. It
 * has still to be found which instruction a PIP or VMCS belongs to, and the ratio, ticks and the
 * rest of a PSB+ have no place.
 */
static void catch_up(struct walk *w, unsigned type, bool status)
{
	uint64_t offset = w->offset;

	if (!w->is_behind || (status && type != PTAH_ITEM_PSB))
		return;
	switch (type) {
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
		return;
	default:
		break;
	}
	w->is_behind = false;
	if ((type == PTAH_ITEM_TNT || type == PTAH_ITEM_TIP) && !is_endless(w))
		return; /* the way to the packet's branch leads past it */
	w->offset = w->psb_offset;
	walk_to(w, w->psb_ip);
	w->offset = offset;
}

void walk_end(struct walk *w)
{
	catch_up(w, PTAH_ITEM_TYPE_MAX, false);
}

/*
 * Events with an address happen before the instruction there (SDM "Flow Update Packet (FUP)");
 * those without have no place.
 */
static void take_placed(struct walk *w, const struct ptah_item *event)
{
	bool has_ip =
	    event->type == PTAH_ITEM_ASYNC_DISABLED || !(event->flags & PTAH_ITEM_IP_SUPPRESSED);

	if (w->positioned && has_ip && !(event->flags & PTAH_ITEM_STATUS) &&
	    !walk_to(w, event->ip) && names_place(event))
		resume_at(w, event->ip);
	if (event->type == PTAH_ITEM_ASYNC_DISABLED)
		stop_tracing(w);
	else if (event->type == PTAH_ITEM_ASYNC_BRANCH && w->positioned)
		go_far(w, event->ip, event->to);
	else if (event->type == PTAH_ITEM_TSX)
		w->speculative = event->flags & PTAH_ITEM_SPECULATIVE;
}

static void take_event(struct walk *w, struct ptah_item *event)
{
	if (!w->positioned && names_place(event))
		resume_at(w, event->ip);
	switch (event->type) {
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_OVERFLOW: /* with an IP, tracing begins there */
		lose(w);
		w->lost_calls = LOST_NONE;
		if (event->flags & PTAH_ITEM_IP_SUPPRESSED)
			break;
		stand_at(w, event->ip);
		w->seeks = false;
		break;
	case PTAH_ITEM_DISABLED:
		take_disabled(w, event);
		break;
	case PTAH_ITEM_PSB:
		take_psb(w, event);
		break;
	case PTAH_ITEM_EXEC_MODE: /* at a branch's target, the place is reached already */
		if (w->positioned && !(event->flags & PTAH_ITEM_IP_SUPPRESSED))
			walk_to(w, event->ip);
		w->mode = event->mode;
		break;
	case PTAH_ITEM_ERROR: /* an error in the packets: reported at the current place */
		event->mode = (uint8_t)w->mode;
		if (w->positioned)
			event->ip = w->ip;
		else
			event->flags |= PTAH_ITEM_IP_SUPPRESSED;
		lose(w);
		w->seeks = false;
		w->lost_calls = LOST_NONE;
		break;
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
		take_space(w, event);
		break;
	case PTAH_ITEM_PTWRITE:
		if (w->positioned && event->flags & PTAH_ITEM_IP_SUPPRESSED)
			take_ptwrite(w, event);
		else
			take_placed(w, event);
		break;
	default:
		take_placed(w, event);
		break;
	}
	walk_put(w, event);
}

void walk_event(struct walk *w, const struct ptah_item *event)
{
	struct ptah_item copy = *event;

	w->offset = event->offset;
	catch_up(w, event->type, event->flags & PTAH_ITEM_STATUS);
	if (w->tnt_count && event->type != PTAH_ITEM_TIP) /* outcomes that no branch used */
		fail(w, PTAH_E_MISMATCH, w->ip);
	if (event->type == PTAH_ITEM_TNT && w->positioned && w->contradicted == event->offset)
		fail(w, PTAH_E_MISMATCH, w->ip);
	w->contradicted = UINT64_MAX;
	if (event->type == PTAH_ITEM_TNT) {
		if (!w->positioned)
			return;
		w->is_tnt_full = event->count == 6 || event->count == 47;
		w->tnt = event->value;
		w->tnt_count = event->count;
		use_outcomes(w);
	} else if (event->type == PTAH_ITEM_TIP) {
		take_target(w, event->to);
	} else {
		take_event(w, &copy);
	}
	enter_space(w, event->type);
	if (!w->positioned)
		resume_behind(w, event);
}
