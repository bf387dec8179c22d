/* SPDX-License-Identifier: MIT */
/*
 * Makes a random program of 16-, 32- and 64-bit code and runs it: decides what
 * happens before each instruction and where each branch goes, writes the packets
 * of it and keeps the list of what ran while it was traced.
 */
#include "world.h"

#include "pages.h"

/* The program */

unsigned world_put_filler(struct world *w, uint8_t *code, uint8_t fill)
{
	static const struct {
		uint8_t n, bytes[4];
	} fillers[FILL_MAX] = {
	    [FILL_NOP] = {1, {0x90}},
	    [FILL_MOV] = {2, {0x89, 0xc0}},
	    [FILL_LONG] = {3, {0x0f, 0x1f, 0x00}},
	    [FILL_PTWRITE] = {4, {0xf3, 0x0f, 0xae, 0xe0}},
	    [FILL_CR3] = {3, {0x0f, 0x22, 0xd8}},
	};

	(void)w;
	memcpy(code, fillers[fill].bytes, fillers[fill].n);
	return fillers[fill].n;
}

static unsigned branch_size(enum leave leave, unsigned mode)
{
	switch (leave) {
	case LEAVE_COND:
	case LEAVE_COND_OUT:
		return mode == PTAH_EXEC_16 ? 4 : 6;
	case LEAVE_JUMP:
	case LEAVE_JUMP_OUT:
	case LEAVE_CALL:
	case LEAVE_CALL_NEXT:
		return mode == PTAH_EXEC_16 ? 3 : 5;
	case LEAVE_RET:
	case LEAVE_FAR_RET:
	case LEAVE_IRET:
		return 1;
	default:
		return 2;
	}
}

void world_put_branch(struct world *w, struct place *p, unsigned mode)
{
	static const uint8_t bytes[LEAVE_MAX][2] = {
	    [LEAVE_COND] = {0x0f, 0x84},
	    [LEAVE_COND_OUT] = {0x0f, 0x85},
	    [LEAVE_JUMP] = {0xe9},
	    [LEAVE_JUMP_OUT] = {0xe9},
	    [LEAVE_CALL] = {0xe8},
	    [LEAVE_CALL_NEXT] = {0xe8},
	    [LEAVE_JUMP_IND] = {0xff, 0xe0},
	    [LEAVE_CALL_IND] = {0xff, 0xd0},
	    [LEAVE_RET] = {0xc3},
	    [LEAVE_FAR_JUMP] = {0xff, 0x28},
	    [LEAVE_FAR_CALL] = {0xff, 0x18},
	    [LEAVE_FAR_RET] = {0xcb},
	    [LEAVE_IRET] = {0xcf},
	    [LEAVE_INT] = {0xcd, 0x80},
	};
	unsigned size = p->sizes[p->n - 1], opcode = p->leave <= LEAVE_COND_OUT ? 2 : 1;
	uint8_t *at = w->code + (p->end - WORLD_BASE) - size;

	memcpy(at, bytes[p->leave], size < 2 ? 1 : 2);
	if (p->leave > LEAVE_CALL_NEXT)
		return;
	if (mode == PTAH_EXEC_16)
		store_le16(at + opcode, (uint16_t)(p->target - p->end));
	else
		store_le32(at + opcode, (uint32_t)(p->target - p->end));
}

static void set_target(struct world *w, int i)
{
	struct place *p = &w->places[i];
	int last = (i / PER_REGION + 1) * PER_REGION - 1;

	/* Direct branches go forward: a loop of them would leave no packet. */
	p->next = i + 1 + (int)world_pick(w, 20);
	p->next = p->next > last ? last : p->next;
	if (p->leave == LEAVE_COND)
		p->next = place_of_mode(w, mode_at(i));
	p->target = w->places[p->next].ip;
	if (p->leave == LEAVE_CALL_NEXT) {
		p->next = i + 1;
		p->target = p->end;
	} else if (p->leave == LEAVE_COND_OUT || p->leave == LEAVE_JUMP_OUT) {
		p->target =
		    OUTSIDE + (p->ip - WORLD_BASE) / REGION * REGION + world_pick(w, 0x1000);
	} else if (p->leave == LEAVE_CALL && p->target == p->end) {
		p->leave = LEAVE_CALL_NEXT;
	}
}

void world_make(struct world *w)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *p = &w->places[i];
		bool first = i % PER_REGION == 0, last = (i + 1) % PER_REGION == 0;

		p->ip = first ? WORLD_BASE + (uint64_t)(i / PER_REGION) * REGION : p[-1].end;
		p->end = p->ip;
		for (unsigned n = world_pick(w, 6); n > 0; n--) {
			/* Plain fillers are twice as likely. */
			p->fill[p->n] = (uint8_t)(world_pick(w, 2) ? world_pick(w, FILL_MAX)
								   : world_pick(w, 3));
			p->sizes[p->n] = (uint8_t)world_put_filler(
			    w, w->code + (p->end - WORLD_BASE), p->fill[p->n]);
			p->end += p->sizes[p->n++];
		}
		p->leave = last ? LEAVE_JUMP_IND : (enum leave)world_pick(w, LEAVE_MAX);
		p->sizes[p->n] = (uint8_t)branch_size(p->leave, mode_at(i));
		p->end += p->sizes[p->n++];
	}
	for (int i = 0; i < PLACES; i++) {
		set_target(w, i);
		world_put_branch(w, &w->places[i], mode_at(i));
	}
}

/* Packets */

void world_flush(struct world *w)
{
	generator_flush_tnt(&w->g);
	for (unsigned i = 0; i < w->deferred_count; i++)
		generator_ip_packet(&w->g, OPCODE_TIP, w->deferred[i]);
	w->deferred_count = 0;
}

static void send_tnt(struct world *w, bool taken)
{
	generator_tnt(&w->g, taken);
	if (w->g.tnt == 1)
		world_flush(w);
}

static void send_tip(struct world *w, uint64_t ip)
{
	if (w->defer && w->g.tnt != 1 && w->deferred_count < DEFERRED) {
		w->deferred[w->deferred_count++] = ip;
		return;
	}
	world_flush(w);
	generator_ip_packet(&w->g, OPCODE_TIP, ip);
}

void world_send(struct world *w, struct ptah_packet packet)
{
	int n;

	world_flush(w);
	n = ptah_packet_encode(&packet, w->g.out, GENERATOR_BURST);
	if (n < 0)
		abort();
	w->g.out += n;
}

static void send_fup(struct world *w, uint64_t ip)
{
	world_flush(w);
	generator_ip_packet(&w->g, OPCODE_FUP, ip);
}

void world_send_mode(struct world *w, unsigned mode)
{
	if (mode != w->mode)
		SEND(w, MODE_EXEC, .u.exec.mode = (uint8_t)mode);
	w->mode = mode;
}

void world_send_psb(struct world *w, uint64_t ip)
{
	SEND(w, PSB);
	w->g.last_ip = 0;
	w->g.depth = 0;
	SEND(w, MODE_EXEC, .u.exec.mode = (uint8_t)w->mode);
	SEND(w, MODE_TSX, .u.tsx.in_tx = w->in_tx);
	SEND(w, PIP, .u.pip.cr3 = w->cr3);
	if (ip)
		send_fup(w, ip);
	SEND(w, PSBEND);
}

static void send_pge(struct world *w, int to)
{
	world_send_mode(w, mode_at(to));
	world_flush(w);
	generator_enable(&w->g, w->places[to].ip);
}

/* Tracing stops at a branch to `to`; what follows is not traced until a TIP.PGE. */
static void send_pgd(struct world *w, uint64_t to)
{
	world_flush(w);
	generator_ip_packet(&w->g, OPCODE_TIP_PGD, to);
	w->g.depth = 0;
	if (!world_pick(w, 4))
		SEND(w, STOP);
	if (!world_pick(w, 4))
		world_send_psb(w, 0);
}

/* Execution */

static void world_ran(struct world *w, uint64_t ip, uint8_t size)
{
	w->ran[w->ran_count].ip = ip;
	w->ran[w->ran_count++].size = size;
}

static int far_branch(struct world *w, int to)
{
	if (!world_pick(w, 3)) {
		w->cr3 = (uint64_t)world_pick(w, 8) << 12;
		SEND(w, PIP, .u.pip.cr3 = w->cr3);
	}
	world_send_mode(w, mode_at(to));
	world_flush(w);
	generator_ip_packet(&w->g, OPCODE_TIP, w->places[to].ip);
	return to;
}

/* Pushes a place to return to by IRET. */
static void push_frame(struct world *w, int place)
{
	if (w->frame_count < FRAMES)
		w->frames[w->frame_count++] = place;
}

/* An interrupt before the instruction at `ip` of a place that starts again later. */
static int world_interrupt(struct world *w, int i, uint64_t ip)
{
	if (world_pick(w, 2)) {
		if (world_pick(w, 2))
			SEND(w, EVD, .u.evd = {.type = PTAH_EVD_CR2, .payload = 0x1234});
		SEND(w, CFE, .u.cfe = {.type = PTAH_CFE_INTR, .vector = 14});
	}
	send_fup(w, ip);
	push_frame(w, i);
	return far_branch(w, any_place(w));
}

static void power(struct world *w, uint64_t ip)
{
	bool has_ip = world_pick(w, 2);

	SEND(w, MWAIT, .u.mwait = {.hints = 0x20, .ext = 1});
	SEND(w, EXSTOP, .u.exstop.ip = has_ip);
	if (has_ip)
		send_fup(w, ip);
	SEND(w, PWRE, .u.pwre = {.state = 2, .sub_state = 1});
	SEND(w, PWRX, .u.pwrx = {.last = 2, .deepest = 3, .interrupt = true});
}

/* A transaction begins or commits; an abort is a branch: -1 when there is none. */
static int transaction(struct world *w, int i, uint64_t ip)
{
	bool aborts = w->in_tx && world_pick(w, 2);
	int to = place_of_mode(w, mode_at(i));

	w->in_tx = !w->in_tx;
	SEND(w, MODE_TSX, .u.tsx = {.in_tx = w->in_tx, .aborted = aborts});
	send_fup(w, ip);
	if (!aborts)
		return -1;
	generator_ip_packet(&w->g, OPCODE_TIP, w->places[to].ip);
	return to;
}

/* An overflow after a packet that shows the address, so that nothing is missing. */
static int world_overflow(struct world *w, uint64_t ip)
{
	int to = any_place(w);

	SEND(w, EXSTOP, .u.exstop.ip = true);
	send_fup(w, ip);
	generator_overflow(&w->g);
	if (world_pick(w, 2)) {
		send_pge(w, to);
		return to;
	}
	SEND(w, MODE_EXEC, .u.exec.mode = (uint8_t)mode_at(to));
	w->mode = mode_at(to);
	send_fup(w, w->places[to].ip);
	return to;
}

/*
 * Something happens before the instruction at `ip`. Returns the place where execution continues, or
 * -1.
 */
static int happen(struct world *w, int i, uint64_t ip)
{
	switch (world_pick(w, 120)) {
	case 0:
		return world_interrupt(w, i, ip);
	case 1:
		power(w, ip);
		return -1;
	case 2:
	case 3:
		return transaction(w, i, ip);
	case 4:
		return world_pick(w, 4) ? -1 : world_overflow(w, ip);
	case 5:
		world_send_psb(w, ip);
		return -1;
	default:
		return -1;
	}
}

static void run_filler(struct world *w, uint8_t fill, uint64_t ip)
{
	bool has_ip;

	if (fill == FILL_CR3) {
		w->cr3 = (uint64_t)world_pick(w, 8) << 12;
		SEND(w, PIP, .u.pip.cr3 = w->cr3);
	} else if (fill == FILL_PTWRITE) {
		has_ip = world_pick(w, 2);
		SEND(w, PTW, .u.ptw = {.size = 4, .ip = has_ip, .payload = ip});
		if (has_ip)
			send_fup(w, ip);
	}
}

static void do_call_in(struct world *w, int i)
{
	if (w->call_count < FRAMES)
		w->calls[w->call_count++] = i + 1;
	w->deepest = w->call_count > w->deepest ? w->call_count : w->deepest;
	generator_call(&w->g, w->places[i].end);
}

/* Returns to the caller, rarely elsewhere; code of another size cannot be reached this way. */
static int do_near_return(struct world *w, int i)
{
	int to = place_of_mode(w, mode_at(i));
	struct ptah_generator *g = &w->g;

	if (w->call_count && world_pick(w, 8)) {
		int caller = w->calls[--w->call_count];

		to = mode_at(caller) == mode_at(i) ? caller : to;
	}
	if (g->depth && g->stack[(g->top - 1) % GENERATOR_STACK] == w->places[to].ip) {
		g->top--;
		g->depth--;
		send_tnt(w, true);
	} else {
		/* Not deferred: pending outcomes would mean that the return is compressed. */
		g->depth = 0;
		world_flush(w);
		send_tip(w, w->places[to].ip);
	}
	return to;
}

static int leave_out(struct world *w, uint64_t target)
{
	int to = any_place(w);

	send_pgd(w, target);
	send_pge(w, to);
	return to;
}

static int do_iret(struct world *w, uint64_t ip)
{
	int to = w->frame_count ? w->frames[--w->frame_count] : any_place(w);

	if (world_pick(w, 2)) {
		SEND(w, CFE, .u.cfe = {.type = PTAH_CFE_IRET, .ip = true});
		send_fup(w, ip);
	}
	return far_branch(w, to);
}

static int do_branch(struct world *w, int i)
{
	const struct place *p = &w->places[i];
	int to = place_of_mode(w, mode_at(i));

	switch (p->leave) {
	case LEAVE_COND:
	case LEAVE_COND_OUT:
		if (p->target == p->end || world_pick(w, 2)) {
			send_tnt(w, false);
			return i + 1;
		}
		if (p->leave == LEAVE_COND_OUT)
			return leave_out(w, p->target);
		send_tnt(w, true);
		return p->next;
	case LEAVE_JUMP_OUT:
		return leave_out(w, p->target);
	case LEAVE_CALL:
		do_call_in(w, i);
		return p->next;
	case LEAVE_JUMP:
	case LEAVE_CALL_NEXT:
		return p->next;
	case LEAVE_CALL_IND:
		do_call_in(w, i);
		send_tip(w, w->places[to].ip);
		return to;
	case LEAVE_JUMP_IND:
		send_tip(w, w->places[to].ip);
		return to;
	case LEAVE_RET:
		return do_near_return(w, i);
	case LEAVE_IRET:
		return do_iret(w, p->end - p->sizes[p->n - 1]);
	case LEAVE_INT:
		if (world_pick(w, 2)) { /* not traced in the kernel */
			world_flush(w);
			generator_disable(&w->g);
			send_pge(w, i + 1);
			return i + 1;
		}
		push_frame(w, i + 1);
		return far_branch(w, any_place(w));
	default:
		return far_branch(w, any_place(w));
	}
}

/* Runs one place. Returns the next one. */
static int visit(struct world *w, int i)
{
	const struct place *p = &w->places[i];
	uint64_t ip = p->ip;

	for (unsigned k = 0; k < p->n; k++) {
		int elsewhere = happen(w, i, ip);

		if (elsewhere >= 0)
			return elsewhere;
		if (k + 1 < p->n)
			run_filler(w, p->fill[k], ip);
		world_ran(w, ip, p->sizes[k]);
		ip += p->sizes[k];
	}
	return do_branch(w, i);
}

struct world *world_empty(bool retcomp, bool long_tnt)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->trace = pages_new(WORLD_TRACE);
	w->ran = pages_new(RAN_MAX * sizeof(*w->ran));
	memset(w->code, 0xcc, sizeof(w->code));
	generator_init(&w->g, w->trace, retcomp, long_tnt);
	w->mode = PTAH_EXEC_64;
	return w;
}

struct world *world_new(unsigned seed, bool retcomp, bool long_tnt, bool defer, size_t *size)
{
	struct world *w = world_empty(retcomp, long_tnt);
	int at = 0;

	w->seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	w->defer = defer;
	world_make(w);
	world_send_psb(w, 0);
	send_pge(w, 0);
	for (int i = 0; i < WORLD_STEPS; i++)
		at = visit(w, at);
	world_flush(w);
	generator_async_disable(&w->g, w->places[at].ip);
	*size = (size_t)(w->g.out - w->trace);
	return w;
}

void world_free(struct world *w)
{
	pages_free(w->trace, WORLD_TRACE);
	pages_free(w->ran, RAN_MAX * sizeof(*w->ran));
	free(w);
}
