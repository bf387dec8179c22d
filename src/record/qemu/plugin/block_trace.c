/* SPDX-License-Identifier: MIT */
/*
 * Blocks in, packets out.
 *
 * QEMU calls plugin_on_block() when a block begins. Then the block before it
 * (`prev`) is known to have ended, and where it went: only now is it counted
 * and its branch put into the trace. What its last instruction cannot explain
 * is a signal, an instruction that QEMU ran again by itself, or lost; those
 * take the slow path.
 *
 * Packets are made by the thread's own simulated processor. The hot path has
 * about ten nanoseconds: it calls the processor's packet generator directly,
 * `prev`'s and this block's flags are tested at once, and room, PSB+ and PMI
 * share one comparison. What is more than an ordinary branch, and everything
 * when address ranges or packets about time are asked for (`general`), is told
 * to the processor, which decides what packets there are.
 */
#include "record/qemu/plugin/plugin.h"

#include "base/path_hash.h"
#include "model/emit.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define VCPUS 65536

/* TSC ticks after which the processor is taken to have slept, without MTC packets. */
#define SLEEP (UINT64_C(1) << 16)

/* CPUX86State begins with the sixteen general registers, in the order of their numbers. */
enum {
	ENV_RDX = 2,
	ENV_RSP = 4,
	ENV_RSI = 6,
	ENV_RDI = 7
};

static const struct block sentinel = {.slow = BLOCK_SENTINEL};
static struct shared_thread untraced; /* `prev` is the sentinel for ever */
static struct shared_thread *threads[VCPUS];
static bool env_checked, env_trusted, stopped;

static struct shared_thread *thread_of(unsigned vcpu)
{
	return threads[vcpu % VCPUS];
}

/* Time */

/* TSC: nanoseconds, or instructions, those that were not traced too. */
static uint64_t thread_clock(const struct shared_thread *t)
{
	struct timespec now;

	if (!(plugin.shared->flags & SHARED_CLOCK_HOST))
		return t->live.instructions + t->live.lift;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void tell_clock(uint64_t time)
{
	uint64_t old = atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed);

	while (old < time && !atomic_compare_exchange_weak(&plugin.shared->clock, &old, time))
		;
}

/* A thread that learns of others goes on at the latest time it may have heard of. */
static void lift_clock(struct shared_thread *t, uint64_t time)
{
	uint64_t own = t->live.instructions + t->live.lift;

	if (own < time)
		t->live.lift += time - own;
}

/*
 * Time goes by for the processor, which may have packets to tell of it: up to
 * when the last block began, for the reason that attend() has.
 */
static void tell_time(struct shared_thread *t)
{
	struct ptah_model *m = &t->live.m;

	if (!t->timed)
		return;
	if (t->before > m->clock.tsc + SLEEP) {
		const struct ptah_model_wake wake = {.ticks = t->before - m->clock.tsc};

		ptah_model_wake(m, &wake);
	} else if (t->before > m->clock.tsc) {
		ptah_model_pass(m, t->before - m->clock.tsc);
	}
	t->before = thread_clock(t);
}

uint64_t plugin_change_time(void)
{
	uint64_t time = atomic_load(&plugin.shared->clock);

	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		struct shared_thread *t = plugin_slot(i);

		if (atomic_load_explicit(&t->state, memory_order_relaxed) == THREAD_ACTIVE &&
		    thread_clock(t) > time)
			time = thread_clock(t);
	}
	tell_clock(time + 1);
	return time + 1;
}

/*
 * Between two TSC packets perf guesses two ticks for each instruction, and so
 * gets further than the thread was.
 */
static uint64_t perfs_guess(const struct shared_thread *t, uint64_t now)
{
	uint64_t guess = now > t->told ? now + (now - t->told) : now;

	/* Nanoseconds cannot be skipped, and an instruction takes more than two. */
	if (plugin.shared->flags & SHARED_CLOCK_HOST)
		return now;
	return guess > t->guessed ? guess : t->guessed;
}

/*
 * As plugin_change_time(), for the program that execve has begun. By then perf
 * must have decoded all of the one before.
 */
uint64_t plugin_exec_time(void)
{
	uint64_t time = plugin_change_time();

	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		const struct shared_thread *t = plugin_slot(i);

		if (t->pid == getpid() && perfs_guess(t, thread_clock(t)) >= time)
			time = perfs_guess(t, thread_clock(t)) + 1;
	}
	tell_clock(time);
	return time;
}

/* Room */

void plugin_stop(void)
{
	stopped = true;
	for (unsigned i = 0; i < VCPUS; i++)
		threads[i] = &untraced;
}

/* The processor's turn: PSB+ where one is due, and PMIs. */
static void let_boundary_pass(struct ptah_model *m)
{
	model_emit_begin(m);
	model_emit_end(m);
}

/* PSB+ now, of that time. */
static void place_psb(struct shared_thread *t, uint64_t time)
{
	struct ptah_model *m = &t->live.m;

	if (m->clock.tsc < time)
		ptah_model_set_tsc(m, time);
	t->psb_time = 0;
	t->guessed = perfs_guess(t, m->clock.tsc);
	t->told = m->clock.tsc;
	m->psb_due = true;
	let_boundary_pass(m);
}

/*
 * The processor's output wants looking at, or a PSB+ is due; we stand before
 * the block at live.next_ip.
 *
 * At a PSB+ a decoder applies all changes of code up to its time. The block
 * that begins here may have been replaced since QEMU looked it up, and the
 * change have got its time already. So the PSB+ bears the time of the block
 * before, when the look-up was still to come.
 */
NOINLINE static void attend(struct shared_thread *t, bool may_psb)
{
	struct ptah_model *m = &t->live.m;

	if (m->packet_en)
		ptah_model_stand(m, t->live.next_ip);
	model_room(m);
	if (m->psb_due && !t->psb_time)
		t->psb_time = thread_clock(t);
	else if (m->psb_due && may_psb)
		place_psb(t, t->psb_time);
	model_boundary(m);
	if (m->psb_due)
		m->limit = m->g.out; /* come back at the next block */
}

/* Branches */

/* Closes the open run when execution does not go on at its end. */
static ALWAYS_INLINE void account_run(struct shared_state *s, uint64_t end, uint64_t next)
{
	if (next != end) {
		if (s->run_start != end)
			s->hash = path_hash_mix(s->hash, s->run_start, end);
		s->run_start = next;
	}
	s->next_ip = next;
}

/* n instructions ran, the last of them at the end of a run that goes on at `next`. */
static ALWAYS_INLINE void account(struct shared_state *s, const struct block *b, unsigned n,
				  uint64_t end, uint64_t next)
{
	s->instructions += n;
	s->counts[b->kind]++;
	account_run(s, end, next);
}

/* The same with every packet made by the processor, and only what is traced counted. */
static void pass_told(struct shared_thread *t, const struct block *b, unsigned n, uint64_t end,
		      uint64_t next)
{
	struct shared_state *s = &t->live;
	uint64_t hash = s->hash, run_start = s->run_start;
	bool traced = s->m.packet_en;

	/* First: a PMI may come of it, and what is kept then must be whole. */
	if (traced)
		account(s, b, n, end, next);
	else
		s->lift += n;
	tell_time(t);
	trace_output_insn(&s->m, b->kind, b->end - b->last_size, b->end, next);
	if (!traced && s->m.packet_en) {
		account_run(s, s->next_ip, next);
	} else if (traced && !s->m.packet_en) {
		/* Where tracing goes on, the run may. */
		s->hash = hash;
		s->run_start = run_start;
		s->next_ip = end;
	}
}

/*
 * Can block b end by going to `next`? If so its branch goes into the trace
 * and b is counted.
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
		/* A branch to its own fall-through reads as not taken: the path is the same. */
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
		/* One iteration a block: the instruction counts when it is left. */
		if (next == b->target) {
			end = b->target;
			n--;
			break;
		}
		/* fall through */
	default: /* OTHER, ZERO_CALL; KERNEL is handled before */
		if (UNLIKELY(next != b->end))
			return false;
		break;
	}
	if (general)
		pass_told(t, b, n, end, next);
	else
		account(s, b, n, end, next);
	return true;
}

static bool pass(struct shared_thread *t, const struct block *b, uint64_t next)
{
	return t->general ? pass_by(t, b, next, true) : pass_by(t, b, next, false);
}

/* How many of b's instructions lie before `ip`; -1 when none begins there. */
static int insns_before(const struct block *b, uint64_t ip)
{
	uint64_t at = b->start;

	for (int i = 0; i < b->ninsn; at += b->sizes[i++])
		if (at == ip)
			return i;
	return -1;
}

/* n instructions of b ran, up to `ip`, and no branch. */
static void account_part(struct shared_thread *t, unsigned n, uint64_t ip)
{
	struct shared_state *s = &t->live;

	if (s->m.packet_en) {
		s->instructions += n;
		account_run(s, ip, ip);
	} else {
		s->lift += n;
	}
	tell_time(t);
	ptah_model_stand(&s->m, ip);
}

/* Block b ran only up to the instruction at `ip`. */
static bool pass_part(struct shared_thread *t, const struct block *b, uint64_t ip)
{
	int n = insns_before(b, ip);

	if (n < 0)
		return false;
	account_part(t, (unsigned)n, ip);
	return true;
}

/*
 * Like pass(), but nothing will run at `next`: a run that goes on at b's end
 * after the interruption is one run, so it stays open.
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

/* The instruction, or the interruption, at `ip` leads to the kernel, which is not traced. */
static void leave(struct shared_thread *t, unsigned kind, uint64_t ip)
{
	struct ptah_model_transfer transfer = {
	    .kind = (uint8_t)kind, .ip = ip, .to = SIMULATED_KERNEL_IP};

	ptah_model_context(&t->live.m, &transfer.after);
	transfer.after.cpl = 0;
	ptah_model_transfer(&t->live.m, &transfer);
	t->prev = &sentinel;
}

/*
 * Block b's last instruction leads to the kernel. SDM "FUP Cases and IP
 * Payload": a software interrupt tells its own address, so that decoders do not
 * know whether it ran; SYSCALL and SYSENTER have.
 */
static void leave_by(struct shared_thread *t, const struct block *b)
{
	uint64_t ip = b->end - b->last_size;

	if (b->slow & BLOCK_INT) {
		account_part(t, b->ninsn - 1u, ip);
		leave(t, PTAH_MODEL_INT, ip);
	} else {
		account_part(t, b->ninsn, b->end);
		leave(t, PTAH_MODEL_FAR, ip);
	}
}

static bool in_kernel(const struct shared_thread *t)
{
	return t->prev == &sentinel;
}

/*
 * The decoder must have got as far as a change of code at this time, and not
 * further, for it may have changed again meanwhile.
 */
static void reach(struct shared_thread *t, uint64_t time)
{
	lift_clock(t, time);
	place_psb(t, time);
}

/* The program goes on at `b`, coming from the kernel. Decoders have the maps of then. */
static void enter(struct shared_thread *t, const struct block *b)
{
	struct shared_state *s = &t->live;
	uint64_t maps = t->maps;
	struct ptah_model_transfer transfer = {
	    .kind = PTAH_MODEL_FAR, .ip = SIMULATED_KERNEL_IP, .to = b->start};

	lift_clock(t, atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed));
	if (maps < b->change)
		maps = b->change;
	if (t->told < maps)
		reach(t, maps);
	tell_time(t);
	ptah_model_context(&s->m, &transfer.after);
	transfer.after.cpl = 3;
	ptah_model_transfer(&s->m, &transfer);
	if (s->m.packet_en)
		account_run(s, s->next_ip, b->start);
	t->prev = b;
}

/* Signals */

struct signal_frame {
	uint64_t ip;
	bool synchronous;
};

/* The registers with which a handler begins. */
struct handler_entry {
	uint64_t ip, rsp, rdi, rsi, rdx;
};

/*
 * Does a handler that begins with these registers stand on a signal frame
 * (pretcode, ucontext, siginfo)? If so *inner is where it was interrupted.
 */
static bool read_frame(const struct handler_entry *entry, struct signal_frame *frame,
		       struct handler_entry *inner)
{
	uint64_t pretcode;
	gregset_t regs;
	int32_t info[3]; /* si_signo, si_errno, si_code */
	int signal = (int)entry->rdi;

	if (entry->rdx != entry->rsp + 8 || !plugin_read(entry->rsp, &pretcode, 8) ||
	    !plugin_is_restorer(pretcode))
		return false;
	if (!plugin_read(entry->rdx + offsetof(ucontext_t, uc_mcontext.gregs), regs,
			 sizeof(regs)) ||
	    !plugin_read(entry->rsi, info, sizeof(info)))
		return false;
	*inner = (struct handler_entry){
	    .ip = (uint64_t)regs[REG_RIP],
	    .rsp = (uint64_t)regs[REG_RSP],
	    .rdi = (uint64_t)regs[REG_RDI],
	    .rsi = (uint64_t)regs[REG_RSI],
	    .rdx = (uint64_t)regs[REG_RDX],
	};
	frame->ip = inner->ip;
	frame->synchronous =
	    info[2] > 0 && (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
			    signal == SIGFPE || signal == SIGTRAP);
	return true;
}

/*
 * Was the handler that begins now called by the kernel? QEMU's plugin
 * interface cannot read registers, but its code generator keeps the CPU state,
 * which begins with them, in rbp. Where several signals came at once, the
 * frames lie on each other, each but the first interrupting a handler before
 * its first instruction: the first one's tells where the program was.
 */
static bool read_signal_frame(const uint64_t *env, struct signal_frame *frame)
{
	struct handler_entry entry, inner;
	struct signal_frame outer;

	if (!env_trusted)
		return false;
	entry = (struct handler_entry){0, env[ENV_RSP], env[ENV_RDI], env[ENV_RSI], env[ENV_RDX]};
	if (!read_frame(&entry, frame, &inner))
		return false;
	for (int depth = 0; depth < NSIG && plugin_is_handler(inner.ip); depth++) {
		entry = inner;
		if (!read_frame(&entry, &outer, &inner))
			break;
		*frame = outer;
	}
	return true;
}

/* rbp is only believed if the first block's stack pointer finds the arguments. */
static void check_env(const uint64_t *env)
{
	uint64_t argc, first = 0, last = 0;

	if (!plugin_read((uint64_t)(uintptr_t)env - plugin.guest_base, &argc, 8))
		return;
#ifndef PTAH_NO_REGISTERS /* a test builds the plugin without */
	env_trusted = plugin_read(env[ENV_RSP], &argc, 8) && argc > 0 && argc < 1u << 24 &&
		      plugin_read(env[ENV_RSP] + 8, &first, 8) && first != 0 &&
		      plugin_read(env[ENV_RSP] + 8 + 8 * argc, &last, 8) && last == 0;
#endif
	if (!env_trusted)
		plugin_note("this QEMU does not show its registers: signals appear as lost trace");
}

/*
 * Nothing explains how we came from prev to cur: say that trace is missing. The
 * way up to prev is known, and prev is not counted.
 */
static void on_loss(struct shared_thread *t, const struct block *prev, const struct block *cur)
{
	struct ptah_model *m = &t->live.m;

	t->live.lost += m->packet_en;
	leave(t, PTAH_MODEL_INTERRUPT, prev->start);
	ptah_model_overflow(m, true);
	ptah_model_overflow(m, false);
	enter(t, cur);
}

static void on_signal(struct shared_thread *t, const struct block *prev,
		      const struct signal_frame *frame, const struct block *cur)
{
	if (prev->kind == KIND_KERNEL && frame->ip == prev->end) { /* INT3: a trap */
		leave_by(t, prev);
	} else if ((frame->synchronous && pass_part(t, prev, frame->ip)) ||
		   pass_to_nothing(t, prev, frame->ip) || pass_part(t, prev, frame->ip)) {
		leave(t, PTAH_MODEL_INTERRUPT, frame->ip);
	} else { /* where it was interrupted is nowhere prev leads to */
		on_loss(t, prev, cur);
		return;
	}
	enter(t, cur);
}

/* Threads */

/* Other processes look for one at the same time. */
static struct shared_thread *take_slot(unsigned *number)
{
	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		struct shared_thread *t = plugin_slot(i);
		uint32_t free_slot = THREAD_FREE;

		if (atomic_load(&t->state) == THREAD_FREE &&
		    atomic_compare_exchange_strong(&t->state, &free_slot, THREAD_TAKEN)) {
			memset((uint8_t *)t + sizeof(t->state), 0, sizeof(*t) - sizeof(t->state));
			t->pid = getpid();
			*number = i;
			return t;
		}
	}
	return NULL;
}

/* The first block of all. */
static void begin_process(const uint64_t *env)
{
	const char *(*path)(void);

	env_checked = true;
	check_env(env);
	*(void **)&path = dlsym(RTLD_DEFAULT, "qemu_plugin_path_to_binary");
	plugin.program = path ? realpath(path(), NULL) : NULL;
}

/* Once for all of them. */
static void tell_left_out(void)
{
	if (!atomic_exchange(&plugin.shared->left_out, true))
		plugin_note("children and threads of the command were left out, as was asked");
}

static void begin_thread(unsigned vcpu)
{
	struct shared_message message = {.type = MESSAGE_THREAD};
	const struct shared_header *h = plugin.shared;
	struct shared_thread *t;
	unsigned slot = 0;

	threads[vcpu % VCPUS] = &untraced;
	if (atomic_load(&h->stop))
		return;
	if (h->flags & SHARED_NO_INHERIT && syscall(SYS_gettid) != getpid()) {
		tell_left_out();
		return;
	}
	t = take_slot(&slot);
	if (!t) {
		if (!atomic_exchange(&plugin.shared->crowded, true))
			plugin_note("more than 512 threads at a time: some were not recorded");
		return;
	}
	t->tid = (int32_t)syscall(SYS_gettid);
	t->prev = &sentinel;
	t->timed = h->trace.mtc || h->trace.cyc;
	t->general = t->timed || h->filter_count;
	lift_clock(t, atomic_load(&plugin.shared->clock));
	t->told = thread_clock(t);
	if (t->told < plugin.birth) /* by a tick or two of the host's clock */
		t->told = plugin.birth;
	t->before = t->told;
	if (!plugin_output_begin(t, t->told)) {
		t->pid = 0;
		atomic_store(&t->state, THREAD_FREE);
		return;
	}
	t->checkpoint = t->live;
	atomic_store(&t->state, THREAD_ACTIVE);
	message.pid = t->pid;
	message.tid = t->tid;
	message.tsc = t->told; /* of the first PSB+: nothing of it is earlier */
	message.value = slot;
	plugin_send(&message, "");
	threads[vcpu % VCPUS] = t;
}

int32_t plugin_thread_id(unsigned vcpu)
{
	const struct shared_thread *t = thread_of(vcpu);

	return t ? t->tid : 0;
}

/*
 * The thread's state is ours again, or still. false: the recorder has ended the
 * trace, or is no longer there.
 */
static bool unpark(struct shared_thread *t)
{
	for (unsigned n = 0;; n++) {
		uint32_t parked = PARK_PARKED;

		if (atomic_compare_exchange_strong(&t->park, &parked, PARK_RUNS) ||
		    parked == PARK_RUNS)
			return true;
		if (atomic_load(&plugin.shared->stop) || plugin.recorder_gone)
			return false;
		plugin_doze(n);
	}
}

void plugin_on_exit(qemu_plugin_id_t id, unsigned vcpu)
{
	struct shared_thread *t = thread_of(vcpu);

	(void)id;
	if (t && t != &untraced && unpark(t)) {
		t->checkpoint = t->live;
		t->busy = 1;
		atomic_signal_fence(memory_order_seq_cst);
		plugin_output_end(t);
		atomic_signal_fence(memory_order_seq_cst);
		t->busy = 0;
		atomic_store(&t->state, THREAD_ENDED);
	}
	if (!stopped)
		threads[vcpu % VCPUS] = NULL;
}

/*
 * fork. What the plugin knows of the process's memory must be what the child
 * gets, and `forking.time` must divide the changes that the child has from those
 * that its parent makes later: so nothing changes in between.
 */
static struct {
	int32_t pid, tid;
	uint64_t time;
} forking;

static void before_fork(void)
{
	plugin_code_lock();
	plugin_output_lock();
	if (plugin.recorder_gone)
		return;
	forking.pid = getpid();
	forking.tid = (int32_t)syscall(SYS_gettid);
	forking.time = plugin_change_time();
}

static void in_parent(void)
{
	plugin_output_unlock(false);
	plugin_code_unlock(false);
}

/* Is our number the one that the recorder knows us by? Not in a PID namespace of our own. */
static bool has_own_number(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? getpid() > 1 : atoi(text) == getpid();
}

/* The programs that follow run outside the emulator. */
static void run_unrecorded(void)
{
	plugin.recorder_gone = true;
	plugin_stop();
}

/* The threads are the parent's, and so are their slots. Ours begins with the next block. */
static void in_child(void)
{
	struct shared_message message = {.type = MESSAGE_FORK};

	plugin_output_unlock(true);
	plugin_code_unlock(true);
	if (plugin.recorder_gone)
		return;
	for (unsigned i = 0; i < VCPUS; i++)
		if (threads[i])
			threads[i] = NULL;
	if (plugin.shared->flags & SHARED_NO_INHERIT) {
		tell_left_out();
		run_unrecorded();
		return;
	}
	if (!has_own_number()) {
		plugin_note("a child in a PID namespace of its own was not recorded");
		run_unrecorded();
		return;
	}
	plugin.birth = forking.time;
	message.pid = message.tid = getpid();
	message.tsc = forking.time;
	message.value = (uint64_t)forking.pid;
	message.address = (uint64_t)forking.tid;
	plugin_send(&message, "");
}

void plugin_trace_init(void)
{
	untraced.prev = &sentinel;
	pthread_atfork(before_fork, in_parent, in_child);
}

/* What the recorder wants */

static void leave_for_good(struct shared_thread *t, unsigned vcpu)
{
	threads[vcpu % VCPUS] = &untraced;
	t->busy = 0;
	if (plugin.recorder_gone)
		plugin_stop();
}

/* In the kernel. While nothing is traced the processor is told everything, and counts nothing. */
static void follow_pause(struct shared_thread *t, bool paused)
{
	struct ptah_model *m = &t->live.m;

	if (!paused) {
		lift_clock(t, atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed));
		t->told = thread_clock(t);
		t->before = t->told;
		if (m->clock.tsc < t->told)
			ptah_model_set_tsc(m, t->told);
	}
	t->paused = paused;
	plugin_output_pause(t, paused);
	t->general = paused || t->timed || plugin.shared->filter_count;
}

/* In between two blocks: there and back, as an interrupt. */
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
		account_run(s, s->next_ip, back.to);
}

/* Between two blocks. false: the thread's trace is over. */
static bool heed(struct shared_thread *t)
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
		for (unsigned n = 0; atomic_load(&h->hold) && !plugin.recorder_gone; n++)
			plugin_doze(n);
		if (!unpark(t))
			return false;
		t->busy = 1;
	}
	if (atomic_load(&h->paused) != t->paused)
		change_pause(t, !t->paused);
	return true;
}

/* System calls: prev has ended with one. */
void plugin_before_syscall(unsigned vcpu)
{
	struct shared_thread *t = thread_of(vcpu);
	const struct block *prev;

	if (!t || t == &untraced || in_kernel(t))
		return;
	t->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	prev = t->prev;
	leave_by(t, prev);
	tell_clock(thread_clock(t));
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = 0;
	atomic_store(&t->park, PARK_PARKED);
}

/* Before QEMU looks up what runs next: it may be in what has been mapped by now. */
void plugin_after_syscall(unsigned vcpu)
{
	struct shared_thread *t = thread_of(vcpu);

	if (t && t != &untraced)
		t->maps = atomic_load_explicit(&plugin.map_time, memory_order_acquire);
}

struct shared_mapping *plugin_mapping(unsigned vcpu)
{
	struct shared_thread *t = thread_of(vcpu);

	return t && t != &untraced ? &t->mapping : NULL;
}

/* The slow path */

static bool is_step(const struct block *prev, const struct block *cur)
{
	return cur->slow & BLOCK_STEP && insns_before(prev, cur->start) >= 0 &&
	       !(prev->kind == PTAH_INSN_OTHER && cur->start == prev->end);
}

/* From the kernel. false: the thread's trace is over. */
static bool begin_or_return(struct shared_thread *t, const struct block *cur)
{
	const struct shared_header *h = plugin.shared;

	if (!unpark(t))
		return false;
	if (t->general)
		plugin_output_refresh(t);
	if (atomic_load_explicit(&h->paused, memory_order_relaxed) != t->paused)
		follow_pause(t, !t->paused);
	enter(t, cur);
	return true;
}

/* How the program came from `prev` to `cur`. */
static void explain(struct shared_thread *t, const struct block *prev, const struct block *cur,
		    const uint64_t *env)
{
	struct signal_frame frame;

	if (cur->slow & BLOCK_HANDLER && read_signal_frame(env, &frame)) {
		on_signal(t, prev, &frame, cur);
	} else if (prev->kind == KIND_KERNEL) {
		leave_by(t, prev);
		enter(t, cur);
	} else if (is_step(prev, cur) && pass_part(t, prev, cur->start)) {
		/* QEMU runs one instruction of prev again by itself: a store into this very
		 * block, or an atomic it cannot do in parallel. */
		t->prev = cur;
	} else if (cur->slow & BLOCK_VSYSCALL && pass_to_nothing(t, prev, cur->start)) {
		/* The page holds no code that runs: fetching from it faults, and the kernel
		 * does the call and the return. */
		leave(t, PTAH_MODEL_INTERRUPT, cur->start);
	} else if (pass(t, prev, cur->start)) {
		t->prev = cur;
	} else if (pass_part(t, prev, cur->start)) {
		t->prev = cur; /* left and entered again inside a block */
	} else {
		on_loss(t, prev, cur);
	}
}

/* false: the thread's trace is over. */
NOINLINE static bool on_block_slow(struct shared_thread *t, const struct block *prev,
				   const struct block *cur, const uint64_t *env)
{
	if (prev->slow & BLOCK_SENTINEL) {
		if (cur->slow & BLOCK_VSYSCALL)
			return true;
		if (!begin_or_return(t, cur))
			return false;
	} else {
		if (t->general)
			plugin_output_refresh(t);
		explain(t, prev, cur, env);
	}
	if (cur->slow & BLOCK_CHANGED && !in_kernel(t) && t->told < cur->change) {
		ptah_model_stand(&t->live.m, cur->start);
		reach(t, cur->change);
	}
	return true;
}

/* Where it may be more than the room that is out. false: the thread's trace is over. */
NOINLINE static bool attend_and_heed(struct shared_thread *t, bool may_psb)
{
	attend(t, may_psb);
	return heed(t);
}

/* Called from the trampoline below. */
__attribute__((used)) static void on_block(unsigned vcpu, const struct block *cur,
					   const uint64_t *env)
{
	struct shared_thread *t = threads[vcpu % VCPUS];
	const struct block *prev;

	if (UNLIKELY(!t)) {
		if (!env_checked)
			begin_process(env);
		begin_thread(vcpu);
		t = threads[vcpu % VCPUS];
	}
	if (UNLIKELY(t == &untraced))
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
	leave_for_good(t, vcpu);
}

/* QEMU passes (vcpu, user); rbp, which it keeps the CPU state in, becomes the third argument. */
__asm__(".pushsection .text\n"
	".globl plugin_on_block\n"
	".hidden plugin_on_block\n"
	".type plugin_on_block, @function\n"
	"plugin_on_block:\n"
	"	movq %rbp, %rdx\n"
	"	jmp on_block\n"
	".size plugin_on_block, .-plugin_on_block\n"
	".popsection\n");
