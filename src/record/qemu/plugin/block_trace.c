/* SPDX-License-Identifier: MIT */
/*
 * Turns blocks that run into packets.
 *
 * QEMU calls plugin_on_block() when a block begins. Only then is it known that the block before it
 * (`prev`) has ended, and where it went; so only then is `prev` counted and its branch put into the
 * trace. If the last instruction of `prev` cannot explain how the program got here, the reason is a
 * signal, an instruction that QEMU ran again by itself, or lost trace; these take the slow path.
 *
 * Packets are made by the thread's own simulated processor. The hot path takes about ten
 * nanoseconds: it calls the processor's packet generator directly, tests the flags of `prev` and of
 * this block at once, and needs one comparison for room, PSB+ and PMI together. Everything but an
 * ordinary branch is reported to the processor, which decides what packets there are; so is every
 * branch while address ranges, timing packets or marks of loops are on (`general`).
 */
#include "record/qemu/plugin/block_trace.h"

#include "model/emit.h"

/* Room */

/*
 * The processor's output has reached its limit, or a PSB+ is due. The thread is before the block at
 * live.next_ip.
 *
 * At a PSB+ a decoder applies all changes of code up to its time. The block that begins now may
 * have been replaced after QEMU looked it up, and that change may have its time already. So the
 * PSB+ carries the time of the block before, at which the look-up had not happened yet.
 */
NOINLINE static void attend(struct shared_thread *t, bool may_psb)
{
	struct ptah_model *m = &t->live.m;

	if (m->packet_en)
		ptah_model_stand(m, t->live.next_ip);
	model_room(m);
	if (m->psb_due && !t->psb_time)
		t->psb_time = plugin_clock(t);
	else if (m->psb_due && may_psb)
		plugin_place_psb(t, t->psb_time);
	model_boundary(m);
	if (m->psb_due)
		m->limit = m->g.out; /* look again at the next block */
}

/* Branches */

/* Counts n instructions of b, of which the last ends at `end`; execution continues at `next`. */
static ALWAYS_INLINE void account(struct shared_state *s, const struct block *b, unsigned n,
				  uint64_t end, uint64_t next)
{
	s->instructions += n;
	s->counts[b->kind]++;
	plugin_account_run(s, end, next);
}

/*
 * Reports the end of block b to the processor, which makes all packets, and counts only what is
 * traced.
 */
static void pass_general(struct shared_thread *t, const struct block *b, unsigned n, uint64_t end,
			 uint64_t next)
{
	struct shared_state *s = &t->live;
	uint64_t hash = s->hash, run_start = s->run_start;
	bool traced = s->m.packet_en;

	/*
	 * Packets about time come before the branch's, and a PMI that they raise has a checkpoint
	 * without the block. Then it is counted: the report may raise a PMI, whose checkpoint must
	 * be complete.
	 */
	s->lift += n;
	plugin_pass_time(t);
	if (traced) {
		s->lift -= n;
		account(s, b, n, end, next);
	}
	trace_output_insn(&s->m, b->kind, b->end - b->last_size, b->end, next);
	if (!traced && s->m.packet_en) {
		plugin_account_run(s, s->next_ip, next);
	} else if (traced && !s->m.packet_en) {
		/* The run may continue where tracing does. */
		s->hash = hash;
		s->run_start = run_start;
		s->next_ip = end;
	}
}

/*
 * Whether block b can end by going to `next`. If so, its branch goes into the trace and b is
 * counted.
 */
static ALWAYS_INLINE bool pass_by(struct shared_thread *t, const struct block *b, uint64_t next,
				  bool general)
{
	struct shared_state *s = &t->live;
	struct ptah_generator *g = &s->m.g;
	uint64_t end = b->end;
	unsigned n = b->ninsn;

	switch (b->kind) {
	case PTAH_INSN_COND:
		/* A branch to its own fall-through counts as not taken: the path is the same. */
		if (UNLIKELY(next != b->end && next != b->target))
			return false;
		if (!general)
			generator_tnt(g, next != b->end);
		break;
	case PTAH_INSN_JUMP:
		if (UNLIKELY(next != b->target))
			return false;
		break;
	case PTAH_INSN_CALL:
		if (UNLIKELY(next != b->target))
			return false;
		if (!general)
			generator_call(g, b->end);
		break;
	case PTAH_INSN_RETURN:
		if (!general)
			generator_return(g, next);
		break;
	case PTAH_INSN_CALL_IND:
		if (!general) {
			generator_call(g, b->end);
			generator_tip(g, next);
		}
		break;
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_JUMP:
	case PTAH_INSN_FAR_RETURN:
		if (!general)
			generator_tip(g, next);
		break;
	case KIND_REP:
		/* Each iteration is a block. The instruction counts once, when it is left. */
		if (next == b->target) {
			end = b->target;
			n--;
			break;
		}
		/* fall through */
	default: /* OTHER and ZERO_CALL; KERNEL was handled before */
		if (UNLIKELY(next != b->end))
			return false;
		break;
	}
	if (general)
		pass_general(t, b, n, end, next);
	else
		account(s, b, n, end, next);
	return true;
}

static bool pass(struct shared_thread *t, const struct block *b, uint64_t next)
{
	return t->general ? pass_by(t, b, next, true) : pass_by(t, b, next, false);
}

/* The number of b's instructions before `ip`; -1: none begins at `ip`. */
static int insns_before(const struct block *b, uint64_t ip)
{
	uint64_t at = b->start;

	for (int i = 0; i < b->ninsn; at += b->sizes[i++])
		if (at == ip)
			return i;
	return -1;
}

/* Counts n instructions that ran, up to `ip`, without a branch. */
void plugin_account_part(struct shared_thread *t, unsigned n, uint64_t ip)
{
	struct shared_state *s = &t->live;

	if (s->m.packet_en) {
		s->instructions += n;
		plugin_account_run(s, ip, ip);
	} else {
		s->lift += n;
	}
	plugin_pass_time(t);
	ptah_model_stand(&s->m, ip);
}

/* Counts block b up to the instruction at `ip`, which did not run. False: none begins there. */
static bool pass_part(struct shared_thread *t, const struct block *b, uint64_t ip)
{
	int n = insns_before(b, ip);

	if (n < 0)
		return false;
	plugin_account_part(t, (unsigned)n, ip);
	return true;
}

/*
 * Like pass(), but nothing will run at `next`: if execution continues at b's end after the
 * interruption, it is the same run, so the run stays open.
 */
static bool pass_to_nothing(struct shared_thread *t, const struct block *b, uint64_t next)
{
	struct shared_state *s = &t->live;
	uint64_t hash = s->hash, run_start = s->run_start;
	uint64_t end = s->m.packet_en ? b->end : s->next_ip;

	if (!pass(t, b, next))
		return false;
	if (s->hash != hash || s->run_start != run_start) {
		s->hash = hash;
		s->run_start = run_start;
		s->next_ip = end;
	}
	return true;
}

/* Signals */

/*
 * Nothing explains how the program got from prev to cur: reports lost trace. The path up to prev is
 * known, and prev is not counted.
 */
static void on_loss(struct shared_thread *t, const struct block *prev, const struct block *cur)
{
	struct ptah_model *m = &t->live.m;

	t->live.lost += m->packet_en;
	plugin_leave(t, PTAH_MODEL_INTERRUPT, prev->start);
	ptah_model_overflow(m, true);
	ptah_model_overflow(m, false);
	plugin_enter(t, cur);
}

/*
 * Whether prev can have led to where the program was interrupted. If so, prev goes into the trace
 * as far as it ran.
 */
static bool interrupt(struct shared_thread *t, const struct block *prev,
		      const struct signal_frame *frame)
{
	if (prev->kind == KIND_KERNEL && frame->ip == prev->end) { /* INT3, which is a trap */
		plugin_leave_by(t, prev);
		return true;
	}
	if ((frame->synchronous && pass_part(t, prev, frame->ip)) ||
	    pass_to_nothing(t, prev, frame->ip) || pass_part(t, prev, frame->ip)) {
		plugin_leave(t, PTAH_MODEL_INTERRUPT, frame->ip);
		return true;
	}
	return false;
}

static void on_signal(struct shared_thread *t, const struct block *prev,
		      const struct signal_frame *frame, const struct block *cur)
{
	if (interrupt(t, prev, frame))
		plugin_enter(t, cur);
	else
		on_loss(t, prev, cur);
}

/*
 * A signal ends the process, and no block follows. False: it is not known how the thread got there;
 * its trace ends at the block before.
 */
bool plugin_end_by_signal(struct shared_thread *t, const struct signal_frame *frame)
{
	bool known;

	t->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	if (t->general)
		plugin_output_refresh(t);
	known = interrupt(t, t->prev, frame);
	plugin_publish_clock(plugin_clock(t));
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = 0;
	return known;
}

/* The slow path */

static bool is_step(const struct block *prev, const struct block *cur)
{
	return cur->slow & BLOCK_STEP && insns_before(prev, cur->start) >= 0 &&
	       !(prev->kind == PTAH_INSN_OTHER && cur->start == prev->end);
}

/* Finds out how the program got from `prev` to `cur`. */
static void explain(struct shared_thread *t, const struct block *prev, const struct block *cur,
		    const uint64_t *env)
{
	struct signal_frame frame;

	if (cur->slow & BLOCK_HANDLER && plugin_signal_frame(env, &frame)) {
		on_signal(t, prev, &frame, cur);
	} else if (prev->kind == KIND_KERNEL) {
		plugin_leave_by(t, prev);
		plugin_enter(t, cur);
	} else if (is_step(prev, cur) && pass_part(t, prev, cur->start)) {
		/*
		 * QEMU runs one instruction of prev again by itself: a store into this very block,
		 * or an atomic operation that it cannot do in parallel.
		 */
		t->prev = cur;
	} else if (cur->slow & BLOCK_VSYSCALL && pass_to_nothing(t, prev, cur->start)) {
		/*
		 * No code runs in the vsyscall page: fetching from it faults, and the kernel does
		 * the call and the return.
		 */
		plugin_leave(t, PTAH_MODEL_INTERRUPT, cur->start);
	} else if (pass(t, prev, cur->start)) {
		t->prev = cur;
	} else if (pass_part(t, prev, cur->start)) {
		t->prev = cur; /* the block was left and entered again */
	} else {
		on_loss(t, prev, cur);
	}
}

/*
 * The recorder wants a pause. Where prev does not simply lead to cur, the thread pauses later.
 * Whether it pauses now.
 */
static bool pause_between(struct shared_thread *t, const struct block *prev,
			  const struct block *cur)
{
	if (plugin_is_recalled(t) || prev->kind == KIND_KERNEL || cur->slow & BLOCK_HANDLER ||
	    !pass_to_nothing(t, prev, cur->start))
		return false;
	ptah_model_stand(&t->live.m, cur->start);
	plugin_pause(t);
	t->prev = cur;
	return true;
}

/* false: the thread's trace is over. */
NOINLINE static bool on_block_slow(struct shared_thread *t, const struct block *prev,
				   const struct block *cur, const uint64_t *env)
{
	if (prev->slow & BLOCK_SENTINEL) {
		if (cur->slow & BLOCK_VSYSCALL)
			return true;
		if (!plugin_return(t, cur))
			return false;
	} else {
		if (t->general)
			plugin_output_refresh(t);
		if (!t->pausing || !pause_between(t, prev, cur))
			explain(t, prev, cur, env);
	}
	if (cur->slow & BLOCK_CHANGED && !plugin_in_kernel(t) && t->told < cur->change) {
		ptah_model_stand(&t->live.m, cur->start);
		plugin_reach(t, cur->change);
	}
	return true;
}

/*
 * The output limit is reached: because of room, a PSB+, a PMI, or a wish of the recorder. False:
 * the thread's trace is over.
 */
NOINLINE static bool attend_and_heed(struct shared_thread *t, bool may_psb)
{
	attend(t, may_psb);
	return plugin_heed(t);
}

/* Called from the trampoline below. */
__attribute__((used)) static void on_block(unsigned vcpu, const struct block *cur,
					   const uint64_t *env)
{
	struct shared_thread *t = plugin_threads[vcpu % PLUGIN_VCPUS];
	const struct block *prev;

	if (UNLIKELY(!t)) {
		plugin_begin_thread(vcpu, env, cur->start);
		t = plugin_threads[vcpu % PLUGIN_VCPUS];
	}
	if (UNLIKELY(t == &plugin_untraced))
		return;
	prev = t->prev;
	t->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	if (LIKELY(!(prev->slow | cur->slow | t->general)) &&
	    LIKELY(pass_by(t, prev, cur->start, false)))
		t->prev = cur;
	else if (!on_block_slow(t, prev, cur, env))
		goto over;
	if (UNLIKELY(t->live.m.g.out >= t->live.m.limit) &&
	    !attend_and_heed(t, !(prev->kind == KIND_REP && cur->start == prev->target)))
		goto over;
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = 0;
	return;
over:
	plugin_end_trace(t, vcpu);
}

/* QEMU passes (vcpu, user). rbp, which points to QEMU's CPU state, becomes the third argument. */
__asm__(".pushsection .text\n"
	".globl plugin_on_block\n"
	".hidden plugin_on_block\n"
	".type plugin_on_block, @function\n"
	"plugin_on_block:\n"
	"	movq %rbp, %rdx\n"
	"	jmp on_block\n"
	".size plugin_on_block, .-plugin_on_block\n"
	".popsection\n");
