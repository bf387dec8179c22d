/* SPDX-License-Identifier: MIT */
/*
 * Runs a random program on a simulated processor: decides at random what
 * happens and where each branch goes, makes the processor execute it, and lists
 * what its trace has to report.
 */
#include "program.h"

#include "pages.h"

/* Expectations */

static bool in_context(const struct program *p)
{
	if (!(p->context.cpl ? p->o.user : p->o.os))
		return false;
	return !p->o.cr3_filter || p->context.cr3 == UINT64_C(1) << 12;
}

static bool traced(const struct program *p)
{
	return in_context(p) && p->in_filter && !p->stopped;
}

static void program_note(struct program *p, enum program_class insn_class, unsigned type,
			 uint64_t ip, uint64_t to, uint64_t value)
{
	struct program_event *e = &p->events[insn_class][p->event_count[insn_class]];

	if (p->lost)
		return;
	assert_true(p->event_count[insn_class]++ < PROGRAM_EVENTS);
	*e = (struct program_event){(uint8_t)type, ip, to, value, p->m->clock.tsc};
}

static void program_ran(struct program *p, uint64_t ip, uint8_t size)
{
	if (!traced(p) || p->lost)
		return;
	assert_true(p->ran_count < RAN_MAX);
	p->ran[p->ran_count++] =
	    (struct program_ran){.ip = ip, .size = size, .mode = p->context.mode, .in_tx = p->tsx};
}

/*
 * Execution reaches `to`: sets the enables and lists the events of a transfer
 * that began at `ip`.
 */
static void program_arrive(struct program *p, bool before, bool async, bool conditional,
			   uint64_t ip, uint64_t to)
{
	bool stop;

	if (p->stopped)
		return;
	stop = p->o.filter && in_context(p) && to >= STOP_FIRST && to <= STOP_LAST;
	if (p->o.filter && in_context(p))
		p->in_filter = (to - WORLD_BASE) % REGION <= IN_RANGE;
	p->stopped = stop;
	if (before && traced(p) && async)
		program_note(p, CLASS_ENABLE, PTAH_ITEM_ASYNC_BRANCH, ip, to, 0);
	if (!before && traced(p))
		program_note(p, CLASS_ENABLE, PTAH_ITEM_ENABLED, to, 0, 0);
	if (before && !traced(p)) {
		uint64_t told = in_context(p) && !(conditional && p->o.choices.conditional_bare)
				    ? to
				    : NO_ADDRESS;

		program_note(p, CLASS_ENABLE, async ? PTAH_ITEM_ASYNC_DISABLED : PTAH_ITEM_DISABLED,
			     async ? ip : 0, told, 0);
	}
	if (stop && p->lost) {
		p->lost = false;
		p->cuts[p->cut_count - 1].resume = p->ran_count;
		program_note(p, CLASS_ENABLE, PTAH_ITEM_OVERFLOW, NO_ADDRESS, 0, 0);
	}
	if (stop)
		program_note(p, CLASS_ENABLE, PTAH_ITEM_STOP, 0, 0, 0);
}

static void program_paging(struct program *p)
{
	if (!p->stopped && in_context(p) && p->o.os)
		program_note(p, CLASS_PAGING, PTAH_ITEM_PAGING, 0, 0, p->context.cr3);
}

/* Execution */

static unsigned program_pick(struct program *p, unsigned n)
{
	return world_pick(p->w, n);
}

static int program_any(struct program *p)
{
	return p->o.one_mode ? place_of_mode(p->w, PTAH_EXEC_64) : any_place(p->w);
}

static void program_near(struct program *p, unsigned kind, uint64_t ip, uint64_t end, uint64_t to,
			 bool taken)
{
	const bool before = traced(p);
	struct ptah_model_branch b = {ip, end, to, (uint8_t)kind, taken};

	if (kind != PTAH_INSN_COND || taken)
		program_arrive(p, before, false, kind == PTAH_INSN_COND, ip, to);
	if (kind == PTAH_INSN_COND && before && !p->lost) {
		p->ran[p->ran_count - 1].taken = taken;
		p->ran[p->ran_count - 1].bare = p->o.choices.conditional_bare && !traced(p);
	}
	ptah_model_branch(p->m, &b);
}

/* A far transfer to `to` with that code size, and with a random CPL and CR3. */
static void program_far(struct program *p, unsigned kind, uint64_t ip, uint64_t to, unsigned mode)
{
	const bool before = traced(p), context = in_context(p) && !p->stopped;
	const bool async = kind != PTAH_MODEL_FAR && kind != PTAH_MODEL_IRET;
	const uint64_t cr3 = p->context.cr3;
	struct ptah_model_transfer t = {
	    .ip = ip, .to = to, .kind = (uint8_t)kind, .vector = (uint8_t)program_pick(p, 256)};
	bool stopped = p->stopped;

	p->context.mode = (uint8_t)mode;
	if (!program_pick(p, 3))
		p->context.cpl ^= 3;
	if (!program_pick(p, 4))
		p->context.cr3 = (uint64_t)program_pick(p, 3) << 12;
	t.after = p->context;
	if (p->o.ctl & PTAH_RTIT_CTL_EVENT_EN && !stopped && (context || in_context(p))) {
		if (kind == PTAH_MODEL_IRET)
			program_note(p, CLASS_EVENT, PTAH_ITEM_IRET, before ? ip : NO_ADDRESS, 0,
				     0);
		else if (kind == PTAH_MODEL_INTERRUPT || kind == PTAH_MODEL_EXCEPTION)
			program_note(p, CLASS_EVENT, PTAH_ITEM_INTERRUPT, before ? ip : NO_ADDRESS,
				     0, t.vector);
	}
	if (cr3 != p->context.cr3)
		program_paging(p);
	program_arrive(p, before, async, false, ip, to);
	ptah_model_transfer(p->m, &t);
}

static int program_far_place(struct program *p, unsigned kind, uint64_t ip, int to)
{
	program_far(p, kind, ip, p->w->places[to].ip, mode_at(to));
	return to;
}

/* Starts a slice of trace again where the last one was stopped, or in the middle. */
static void program_slice(struct program *p, uint64_t ip)
{
	ptah_model_stand(p->m, ip);
	if (traced(p))
		program_note(p, CLASS_ENABLE, PTAH_ITEM_ASYNC_DISABLED, ip, NO_ADDRESS, 0);
	if (p->lost) {
		p->lost = false;
		p->cuts[p->cut_count - 1].resume = p->ran_count;
		program_note(p, CLASS_ENABLE, PTAH_ITEM_OVERFLOW, NO_ADDRESS, 0, 0);
	}
	rig_stop(p->rig);
	rig_set(p->rig, PTAH_IA32_RTIT_STATUS,
		program_pick(p, 2) ? 0 : rig_status(p->rig) & PTAH_RTIT_STATUS_BYTECNT_MASK);
	ptah_model_pass(p->m, program_pick(p, 1000));
	p->stopped = false;
	p->in_filter = true;
	if (traced(p))
		program_note(p, CLASS_ENABLE, PTAH_ITEM_ENABLED, ip, 0, 0);
	rig_start(p->rig);
}

/* Anything but near branches, and MOV CR3, aborts a transaction. */
static int program_abort(struct program *p, uint64_t ip)
{
	const bool before = traced(p);
	int to = place_of_mode(p->w, p->context.mode);
	struct ptah_model_transfer t = {
	    .ip = ip, .to = p->w->places[to].ip, .kind = PTAH_MODEL_TSX_ABORT, .after = p->context};

	p->tsx = false;
	if (in_context(p) && !p->stopped)
		program_note(p, CLASS_TSX, PTAH_ITEM_TSX, before ? ip : NO_ADDRESS, 0,
			     PTAH_ITEM_ABORTED);
	program_arrive(p, before, true, false, ip, t.to);
	ptah_model_transfer(p->m, &t);
	return to;
}

/* Runs outside of the filter for a while, perhaps in the TraceStop range. */
static int program_outside(struct program *p, uint64_t from)
{
	unsigned mode = p->context.mode;
	int to;

	for (unsigned n = program_pick(p, 3); n > 0; n--) {
		uint64_t next = OUTSIDE + program_pick(p, 0x1000);

		if (!program_pick(p, 8))
			next = STOP_FIRST + program_pick(p, 0x1000);
		program_near(p, program_pick(p, 2) ? PTAH_INSN_JUMP_IND : PTAH_INSN_JUMP, from,
			     from + 5, next, true);
		from = next;
	}
	to = place_of_mode(p->w, mode);
	if (p->stopped) {
		program_slice(p, p->w->places[to].ip);
		return to;
	}
	if (p->tsx && !program_pick(p, 2))
		return program_abort(p, from);
	if (!p->tsx && !program_pick(p, 3))
		return program_far_place(p, PTAH_MODEL_FAR, from, program_any(p));
	program_near(p, PTAH_INSN_COND + program_pick(p, 6), from, from + 5, p->w->places[to].ip,
		     true);
	return to;
}

static void program_power(struct program *p, uint64_t ip)
{
	bool context = in_context(p);
	struct ptah_model_sleep sleep = {
	    .ip = ip, .mwait = true, .hints = 0x20, .ext = 1, .state = 2, .sub_state = 1};
	struct ptah_model_wake wake = {
	    .ticks = program_pick(p, 5000), .last = 2, .deepest = 3, .interrupt = true};

	if (p->o.ctl & PTAH_RTIT_CTL_PWR_EVT_EN && !p->stopped) {
		program_note(p, CLASS_POWER, PTAH_ITEM_PWRE, 0, 0, 2);
		if (context) /* reported with the EXSTOP's FUP */
			program_note(p, CLASS_POWER, PTAH_ITEM_MWAIT, 0, 0, 0x100000020);
		program_note(p, CLASS_POWER, PTAH_ITEM_EXSTOP, context ? ip : NO_ADDRESS, 0, 0);
	}
	ptah_model_sleep(p->m, &sleep);
	ptah_model_wake(p->m, &wake);
	if (p->o.ctl & PTAH_RTIT_CTL_PWR_EVT_EN && !p->stopped)
		program_note(p, CLASS_POWER, PTAH_ITEM_PWRX, 0, 0, 2);
}

static int program_transaction(struct program *p, uint64_t ip)
{
	if (!traced(p))
		return -1;
	if (p->tsx && program_pick(p, 2))
		return program_abort(p, ip);
	p->tsx = !p->tsx;
	program_note(p, CLASS_TSX, PTAH_ITEM_TSX, ip, 0, p->tsx ? PTAH_ITEM_SPECULATIVE : 0);
	ptah_model_tsx(p->m, ip, ip, p->tsx);
	return -1;
}

static void program_overflow(struct program *p, uint64_t ip)
{
	if (p->stopped || p->cut_count == PROGRAM_CUTS)
		return;
	ptah_model_stand(p->m, ip);
	if (!p->lost && !traced(p)) /* a decoder reports two in a row as one */
		return;
	if (!p->lost) {
		p->cuts[p->cut_count++].begin = p->ran_count;
		p->lost = true;
		ptah_model_overflow(p->m, true);
		return;
	}
	p->lost = false;
	p->cuts[p->cut_count - 1].resume = p->ran_count;
	program_note(p, CLASS_ENABLE, PTAH_ITEM_OVERFLOW, traced(p) ? ip : NO_ADDRESS, 0, 0);
	ptah_model_overflow(p->m, false);
}

/* Something happens before the instruction at `ip`: returns the place that it leads to, or -1. */
static int program_happen(struct program *p, uint64_t ip)
{
	switch (program_pick(p, p->lost ? 60 : 160)) {
	case 0:
	case 1:
		if (p->tsx)
			return program_abort(p, ip);
		return program_far_place(p, PTAH_MODEL_INTERRUPT, ip, program_any(p));
	case 2:
		if (p->tsx)
			return program_abort(p, ip);
		return program_far_place(p, PTAH_MODEL_EXCEPTION, ip, program_any(p));
	case 3:
		program_power(p, ip);
		return -1;
	case 4:
	case 5:
		return program_transaction(p, ip);
	case 6:
	case 7:
		if (p->o.lossy)
			program_overflow(p, ip);
		return -1;
	case 8:
		if (p->o.slices && !p->tsx && !program_pick(p, 4))
			program_slice(p, ip);
		return -1;
	case 9:
		if (!p->stopped) {
			ptah_model_stand(p->m, ip);
			p->m->psb_due = true;
			model_trace_attend(p->m, ip);
		}
		return -1;
	case 10:
		ptah_model_frequency(p->m, ip, (uint8_t)(8 + program_pick(p, 40)));
		if (p->o.ctl & PTAH_RTIT_CTL_PWR_EVT_EN && !p->stopped)
			program_note(p, CLASS_POWER, PTAH_ITEM_EXSTOP,
				     in_context(p) ? ip : NO_ADDRESS, 0, 0);
		return -1;
	default:
		return -1;
	}
}

static void program_mov_cr3(struct program *p, uint64_t next)
{
	const bool before = traced(p), context = in_context(p);

	p->context.cr3 = (uint64_t)program_pick(p, 3) << 12;
	if (before && p->o.cr3_filter && p->o.mov_cr3_leaves)
		p->context.cr3 = UINT64_C(2) << 12;
	program_paging(p);
	if (p->stopped) {
	} else if (before && !traced(p)) {
		program_note(p, CLASS_ENABLE, PTAH_ITEM_DISABLED, 0, NO_ADDRESS, 0);
	} else if (!context && in_context(p)) {
		/* FilterEn is computed as for a branch to that address. */
		p->in_filter = !p->o.filter || (next - WORLD_BASE) % REGION <= IN_RANGE;
		if (traced(p))
			program_note(p, CLASS_ENABLE, PTAH_ITEM_ENABLED, next, 0, 0);
	}
	ptah_model_mov_cr3(p->m, next, p->context.cr3);
}

static void program_filler(struct program *p, uint8_t fill, uint64_t ip, uint8_t size)
{
	if (fill == FILL_CR3) {
		program_mov_cr3(p, ip + size);
	} else if (fill == FILL_PTWRITE) {
		if (traced(p) && p->o.ctl & PTAH_RTIT_CTL_PTW_EN)
			program_note(p, CLASS_PTWRITE, PTAH_ITEM_PTWRITE, ip, 0,
				     ip * 3 & 0xffffffff);
		ptah_model_ptwrite(p->m, ip, ip + size, ip * 3, 4);
	}
}

/* The place that a near return goes to: mostly its caller, unless that has another code size. */
static int program_caller(struct program *p)
{
	struct world *w = p->w;
	int to = place_of_mode(w, p->context.mode);

	if (w->call_count && program_pick(p, 8)) {
		int caller = w->calls[--w->call_count];

		to = mode_at(caller) == p->context.mode ? caller : to;
	}
	return to;
}

static int program_branch(struct program *p, int i)
{
	static const uint8_t kinds[LEAVE_MAX] = {
	    [LEAVE_COND] = PTAH_INSN_COND,	   [LEAVE_COND_OUT] = PTAH_INSN_COND,
	    [LEAVE_JUMP] = PTAH_INSN_JUMP,	   [LEAVE_JUMP_OUT] = PTAH_INSN_JUMP,
	    [LEAVE_CALL] = PTAH_INSN_CALL,	   [LEAVE_CALL_NEXT] = PTAH_INSN_CALL,
	    [LEAVE_JUMP_IND] = PTAH_INSN_JUMP_IND, [LEAVE_CALL_IND] = PTAH_INSN_CALL_IND,
	    [LEAVE_RET] = PTAH_INSN_RETURN,
	};
	const struct place *place = &p->w->places[i];
	uint64_t ip = place->end - place->sizes[place->n - 1];
	int to = place->next;
	bool taken = true;

	switch (place->leave) {
	case LEAVE_COND:
	case LEAVE_COND_OUT:
		taken = place->target != place->end && program_pick(p, 2) &&
			(place->leave == LEAVE_COND || p->o.filter);
		to = taken ? place->next : i + 1;
		break;
	case LEAVE_CALL:
	case LEAVE_CALL_IND:
		if (p->w->call_count < FRAMES)
			p->w->calls[p->w->call_count++] = i + 1;
		to = place->leave == LEAVE_CALL ? to : place_of_mode(p->w, mode_at(i));
		break;
	case LEAVE_JUMP_IND:
		to = place_of_mode(p->w, mode_at(i));
		if (p->o.filter && !program_pick(p, 8)) {
			uint64_t target = OUTSIDE + program_pick(p, 0x3000);

			program_near(p, PTAH_INSN_JUMP_IND, ip, place->end, target, true);
			return program_outside(p, target);
		}
		break;
	case LEAVE_RET:
		to = program_caller(p);
		break;
	case LEAVE_IRET:
		return program_far_place(p, PTAH_MODEL_IRET, ip, program_any(p));
	case LEAVE_INT:
		return program_far_place(p, PTAH_MODEL_INT, ip, program_any(p));
	case LEAVE_FAR_JUMP:
	case LEAVE_FAR_CALL:
	case LEAVE_FAR_RET:
		return program_far_place(p, PTAH_MODEL_FAR, ip, program_any(p));
	default:
		break;
	}
	if (taken && (place->leave == LEAVE_COND_OUT || place->leave == LEAVE_JUMP_OUT)) {
		program_near(p, kinds[place->leave], ip, place->end, place->target, true);
		return program_outside(p, place->target);
	}
	program_near(p, kinds[place->leave], ip, place->end, p->w->places[to].ip, taken);
	return to;
}

static int program_visit(struct program *p, int i)
{
	const struct place *place = &p->w->places[i];
	uint64_t ip = place->ip;

	for (unsigned k = 0; k < place->n; k++) {
		int elsewhere;

		ptah_model_stand(p->m, ip);
		ptah_model_pass(p->m, program_pick(p, 20));
		elsewhere = program_happen(p, ip);
		if (elsewhere >= 0)
			return elsewhere;
		if (p->tsx &&
		    (k + 1 < place->n ? place->fill[k] == FILL_CR3 : place->leave > LEAVE_RET))
			return program_abort(p, ip);
		/* INT n is an event at its address. */
		if (k + 1 < place->n || place->leave != LEAVE_INT)
			program_ran(p, ip, place->sizes[k]);
		if (k + 1 < place->n)
			program_filler(p, place->fill[k], ip, place->sizes[k]);
		ip += place->sizes[k];
	}
	return program_branch(p, i);
}

/* Without a filter no branch can leave it: they stay inside. */
static void program_stay_inside(struct world *w)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *place = &w->places[i];

		if (place->leave != LEAVE_JUMP_OUT)
			continue;
		place->leave = LEAVE_JUMP;
		place->next = i + 1;
		place->target = place->end;
		world_put_branch(w, place, mode_at(i));
	}
}

/* MOV CR3 does not run at CPL 3; where only user code is traced, a decoder relies on that. */
static void program_of_users(struct world *w)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *place = &w->places[i];
		uint64_t ip = place->ip;

		for (unsigned k = 0; k + 1 < place->n; ip += place->sizes[k++]) {
			if (place->fill[k] != FILL_CR3)
				continue;
			place->fill[k] = FILL_LONG;
			world_put_filler(w, w->code + (ip - WORLD_BASE), FILL_LONG);
		}
	}
}

static void program_set_up(struct program *p)
{
	struct rig *rig = p->rig;

	rig->ctl = RIG_CTL & ~(PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_USER);
	rig->ctl |=
	    p->o.ctl | (p->o.os ? PTAH_RTIT_CTL_OS : 0) | (p->o.user ? PTAH_RTIT_CTL_USER : 0);
	if (p->o.cr3_filter) {
		rig_set(rig, PTAH_IA32_RTIT_CR3_MATCH, UINT64_C(1) << 12);
		rig->ctl |= PTAH_RTIT_CTL_CR3_FILTER;
	}
	for (unsigned n = 0; p->o.filter && n < (p->o.one_mode ? 2 : 4); n++) {
		bool stop = n == (p->o.one_mode ? 1 : 3);
		uint64_t base = WORLD_BASE + n * REGION;

		rig_set(rig, PTAH_IA32_RTIT_ADDR(n), stop ? STOP_FIRST : base);
		rig_set(rig, PTAH_IA32_RTIT_ADDR(n) + 1, stop ? STOP_LAST : base + IN_RANGE);
		rig->ctl |= (uint64_t)(stop ? PTAH_RANGE_STOP : PTAH_RANGE_FILTER)
			    << PTAH_RTIT_CTL_ADDR_CFG(n);
	}
}

static void program_run(struct program *p)
{
	uint64_t ip = p->w->places[0].ip;
	size_t n;

	ptah_model_begin(p->m, ip, &p->context);
	ptah_model_set_tsc(p->m, 1000000);
	if (traced(p))
		program_note(p, CLASS_ENABLE, PTAH_ITEM_ENABLED, ip, 0, 0);
	rig_start(p->rig);
	for (unsigned i = 0; i < PROGRAM_STEPS; i++)
		p->at = program_visit(p, p->at);
	if (p->lost)
		program_overflow(p, p->w->places[p->at].ip);
	ptah_model_stand(p->m, p->w->places[p->at].ip);
	if (traced(p))
		program_note(p, CLASS_ENABLE, PTAH_ITEM_ASYNC_DISABLED, p->w->places[p->at].ip,
			     NO_ADDRESS, 0);
	rig_stop(p->rig);
	n = rig_bytes(p->rig);
	assert_true(n < PROGRAM_TRACE);
}

/* A random encoding whose bit is set in the bitmap of CPUID.14H.1. */
static uint64_t pick_encoding(unsigned seed, uint32_t bitmap)
{
	unsigned value = seed % 16;

	while (!(bitmap >> value & 1))
		value = (value + 1) % 16;
	return value;
}

struct program_options program_options(const struct ptah_model_processor *is, unsigned seed)
{
	static const uint64_t flags[10] = {
	    [4] = PTAH_RTIT_CTL_PTW_EN,
	    [5] = PTAH_RTIT_CTL_PWR_EVT_EN,
	    [7] = PTAH_RTIT_CTL_EVENT_EN,
	};
	const uint32_t ebx = is->leaf_14_0[1];
	const unsigned ranges = is->leaf_14_1[0] & 7;
	struct program_options o = {.processor = is->name,
				    .os = seed % 3 != 1,
				    .user = seed % 3 != 2,
				    .cr3_filter = ebx & 1 && seed & 8,
				    .filter = ranges >= 2 && seed & 4,
				    .slices = true};

	o.one_mode = ranges < 4 && o.filter;
	o.choices.long_tnt = seed & 16;
	o.choices.deferred_tips = seed & 32 ? 3 : 0;
	o.choices.conditional_bare = seed % 5 < 2;
	for (unsigned i = 0; i < 10; i++)
		if (ebx >> i & 1 && seed >> (i % 5) & 1)
			o.ctl |= flags[i];
	if (o.ctl & PTAH_RTIT_CTL_PTW_EN && seed & 2)
		o.ctl |= PTAH_RTIT_CTL_FUP_ON_PTW;
	if (seed & 1)
		o.ctl |= PTAH_RTIT_CTL_TSC_EN;
	if (seed & 2)
		o.ctl |= PTAH_RTIT_CTL_DIS_RETC;
	if (ebx >> 3 & 1 && seed % 5 == 0)
		o.ctl |= PTAH_RTIT_CTL_MTC_EN | PTAH_RTIT_CTL_TSC_EN |
			 pick_encoding(seed / 5, is->leaf_14_1[0] >> 16) << PTAH_RTIT_CTL_MTC_FREQ;
	if (ebx >> 1 & 1 && seed % 7 == 0)
		o.ctl |= PTAH_RTIT_CTL_CYC_EN | PTAH_RTIT_CTL_TSC_EN |
			 pick_encoding(seed / 7, is->leaf_14_1[1] & 0xffff)
			     << PTAH_RTIT_CTL_CYC_THRESH;
	if (ebx >> 1 & 1)
		o.ctl |= pick_encoding(seed, is->leaf_14_1[1] >> 16 & 0x3f)
			 << PTAH_RTIT_CTL_PSB_FREQ;
	return o;
}

struct program *program_new(unsigned seed, const struct program_options *options)
{
	struct program *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->o = *options;
	p->w = world_empty(false, false);
	p->w->seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	world_make(p->w);
	if (!p->o.filter)
		program_stay_inside(p->w);
	if (!p->o.os || p->o.no_mov_cr3)
		program_of_users(p->w);
	p->ran = pages_new(RAN_MAX * sizeof(*p->ran));
	for (unsigned i = 0; i < CLASS_MAX; i++)
		p->events[i] = pages_new(PROGRAM_EVENTS * sizeof(*p->events[i]));
	p->rig = rig_new(p->o.processor, PROGRAM_TRACE);
	p->m = p->rig->m;
	p->m->program.paging = MODEL_PAGING_4_LEVEL;
	ptah_model_choose(p->m, &p->o.choices);
	p->in_filter = true;
	p->context = (struct ptah_model_context){
	    .cr3 = UINT64_C(1) << 12, .cpl = p->o.user ? 3 : 0, .mode = PTAH_EXEC_64};
	program_set_up(p);
	program_run(p);
	return p;
}

void program_free(struct program *p)
{
	for (unsigned i = 0; i < CLASS_MAX; i++)
		pages_free(p->events[i], PROGRAM_EVENTS * sizeof(*p->events[i]));
	pages_free(p->ran, RAN_MAX * sizeof(*p->ran));
	rig_free(p->rig);
	world_free(p->w);
	free(p);
}
