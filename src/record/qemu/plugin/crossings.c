/* SPDX-License-Identifier: MIT */
/*
 * Writes the packets of system calls and signals, where a thread leaves traced code for the kernel
 * and returns to it. Also does what the recorder requests of a thread: end, wait, pause.
 */
#include "record/qemu/plugin/block_trace.h"

#include "model/emit.h"

/* PSB+ */

/* Lets the processor emit a PSB+ that is due, and raise PMIs. */
static void let_boundary_pass(struct ptah_model *m)
{
	model_emit_begin(m);
	model_emit_end(m);
}

/* Emits a PSB+ with this time. */
void plugin_place_psb(struct shared_thread *t, uint64_t time)
{
	struct ptah_model *m = &t->live.m;

	if (m->clock.tsc < time)
		ptah_model_set_tsc(m, time);
	t->psb_time = 0;
	t->guessed = plugin_perf_guess(t, m->clock.tsc);
	t->told = m->clock.tsc;
	m->psb_due = true;
	let_boundary_pass(m);
}

/* Entering and leaving the kernel */

/* Where system calls are recorded, decoders have to know their places. */
static void stamp(struct shared_thread *t)
{
	if (!t->timed && !(plugin.shared->flags & SHARED_NO_CALLS))
		trace_output_stamp(&t->live.m, plugin_clock(t));
}

/* The program enters the kernel, by the instruction or the interruption at `ip`. */
void plugin_leave(struct shared_thread *t, unsigned kind, uint64_t ip)
{
	struct ptah_model_transfer transfer = {
	    .kind = (uint8_t)kind, .ip = ip, .to = SIMULATED_KERNEL_IP};

	ptah_model_context(&t->live.m, &transfer.after);
	transfer.after.cpl = 0;
	ptah_model_transfer(&t->live.m, &transfer);
	t->prev = &plugin_sentinel;
}

/*
 * The program enters the kernel by block b's last instruction. SDM "FUP Cases and IP Payload": the
 * packets of a software interrupt carry its own address, so that decoders do not know whether it
 * was executed; SYSCALL and SYSENTER count as executed.
 */
void plugin_leave_by(struct shared_thread *t, const struct block *b)
{
	uint64_t ip = b->end - b->last_size;

	if (b->slow & BLOCK_INT) {
		plugin_account_part(t, b->ninsn - 1u, ip);
		plugin_leave(t, PTAH_MODEL_INT, ip);
	} else {
		plugin_account_part(t, b->ninsn, b->end);
		ptah_model_stand(&t->live.m, ip); /* a PSB+ may be due */
		stamp(t);
		plugin_leave(t, PTAH_MODEL_FAR, ip);
	}
}

/*
 * Emits a PSB+ with exactly this time, that of a change of code: a decoder must apply this change
 * before the trace that follows, and must not apply a later one yet.
 */
void plugin_reach(struct shared_thread *t, uint64_t time)
{
	plugin_lift_clock(t, time);
	plugin_place_psb(t, time);
}

/* The program returns from the kernel to `b`. Decoders then have the mappings of that moment. */
void plugin_enter(struct shared_thread *t, const struct block *b)
{
	struct shared_state *s = &t->live;
	uint64_t maps = t->maps;
	struct ptah_model_transfer transfer = {
	    .kind = PTAH_MODEL_FAR, .ip = SIMULATED_KERNEL_IP, .to = b->start};

	plugin_lift_clock(t, atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed));
	if (maps < b->change)
		maps = b->change;
	/* A decoder names what runs from here on by the new name. */
	if (maps < t->named)
		maps = t->named;
	if (t->told < maps)
		plugin_reach(t, maps);
	plugin_pass_time(t);
	stamp(t);
	ptah_model_context(&s->m, &transfer.after);
	transfer.after.cpl = 3;
	ptah_model_transfer(&s->m, &transfer);
	if (s->m.packet_en)
		plugin_account_run(s, s->next_ip, b->start);
	t->prev = b;
}

/* What the recorder wants */

/*
 * Pauses or resumes, while the processor is in the kernel. During a pause everything is reported to
 * the processor, and nothing is counted.
 */
static void follow_pause(struct shared_thread *t, bool paused)
{
	struct ptah_model *m = &t->live.m;

	if (!paused) {
		plugin_lift_clock(
		    t, atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed));
		t->told = plugin_clock(t);
		t->before = t->told;
		if (m->clock.tsc < t->told)
			ptah_model_set_tsc(m, t->told);
	}
	t->paused = paused;
	plugin_output_pause(t, paused);
	t->general = paused || plugin_is_general(t);
}

/*
 * Does so between two blocks of user code: enters the kernel and leaves it, as an interrupt would.
 */
static void change_pause(struct shared_thread *t, bool paused)
{
	struct shared_state *s = &t->live;
	struct ptah_model_transfer there = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = s->m.program.ip, .to = SIMULATED_KERNEL_IP};
	struct ptah_model_transfer back = {
	    .kind = PTAH_MODEL_IRET, .ip = SIMULATED_KERNEL_IP, .to = s->m.program.ip};
	bool traced = s->m.packet_en;

	ptah_model_context(&s->m, &back.after);
	there.after = back.after;
	there.after.cpl = 0;
	ptah_model_transfer(&s->m, &there);
	follow_pause(t, paused);
	ptah_model_transfer(&s->m, &back);
	if (!traced && s->m.packet_en)
		plugin_account_run(s, s->next_ip, back.to);
}

/*
 * It pauses where the block that runs now will have ended: how that goes on has to be passed like
 * an interruption, because what runs after the pause may continue the same run of instructions.
 */
static void begin_pause(struct shared_thread *t)
{
	t->pausing = true;
	t->general = true;
}

/* Whether the thread, which is before a block of user code, does not pause after all. */
bool plugin_is_recalled(struct shared_thread *t)
{
	if (atomic_load(&plugin.shared->paused))
		return false;
	t->pausing = false;
	t->general = t->paused || plugin_is_general(t);
	return true;
}

void plugin_pause(struct shared_thread *t)
{
	t->pausing = false;
	change_pause(t, true);
}

/* Does what the recorder wants; called between two blocks. False: the thread's trace is over. */
bool plugin_heed(struct shared_thread *t)
{
	const struct shared_header *h = plugin.shared;

	if (atomic_load(&h->stop)) {
		t->busy = 0;
		atomic_store(&t->state, THREAD_ENDED);
		return false;
	}
	if (atomic_load(&h->hold)) {
		t->busy = 0;
		atomic_store(&t->park, PARK_PARKED);
		while (atomic_load(&h->hold) && !plugin.recorder_gone)
			plugin_doze();
		if (!plugin_unpark(t))
			return false;
		t->busy = 1;
	}
	if (atomic_load(&h->paused) == t->paused)
		return true;
	if (t->paused)
		change_pause(t, false);
	else
		begin_pause(t);
	return true;
}

/* The thread returns from the kernel to `cur`. False: its trace is over. */
bool plugin_return(struct shared_thread *t, const struct block *cur)
{
	const struct shared_header *h = plugin.shared;

	if (!plugin_unpark(t))
		return false;
	if (t->general)
		plugin_output_refresh(t);
	t->pausing = false;
	t->general = t->paused || plugin_is_general(t);
	if (atomic_load_explicit(&h->paused, memory_order_relaxed) != t->paused)
		follow_pause(t, !t->paused);
	plugin_enter(t, cur);
	return true;
}

/* Called before a system call, with which prev has ended. */
void plugin_before_syscall(unsigned vcpu)
{
	struct shared_thread *t = plugin_thread(vcpu);
	const struct block *prev;

	if (!t || t == &plugin_untraced || plugin_in_kernel(t))
		return;
	t->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	prev = t->prev;
	plugin_leave_by(t, prev);
	plugin_publish_clock(plugin_clock(t));
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = 0;
	atomic_store(&t->park, PARK_PARKED);
}

/* The thread has changed its name: the trace gets a time stamp, which shows decoders the place. */
void plugin_stamp_name(unsigned vcpu, uint64_t time)
{
	struct shared_thread *t = plugin_thread(vcpu);

	if (t && t != &plugin_untraced)
		t->named = time;
}

/*
 * Called after a system call, before QEMU looks up what runs next: that may be in what has been
 * mapped meanwhile.
 */
void plugin_after_syscall(unsigned vcpu)
{
	struct shared_thread *t = plugin_thread(vcpu);

	if (t && t != &plugin_untraced)
		t->maps = atomic_load_explicit(&plugin.map_time, memory_order_acquire);
}
