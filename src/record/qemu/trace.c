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
 * The hot path has about ten nanoseconds: `prev`'s and this block's flags are
 * tested at once, and room and PSB+ share one comparison.
 */
#include "record/qemu/plugin.h"

#include "base/path_hash.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define VCPUS	  65536
#define CBR_RATIO 20

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
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool env_checked, env_trusted, stopped;

static struct shared_thread *thread_of(unsigned vcpu)
{
	return threads[vcpu % VCPUS];
}

/* Time */

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

uint64_t plugin_change_time(void)
{
	uint64_t time = atomic_load(&plugin.shared->clock);

	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		struct shared_thread *t = shared_slot(plugin.shared, i);

		if (atomic_load_explicit(&t->state, memory_order_relaxed) == THREAD_ACTIVE &&
		    thread_clock(t) > time)
			time = thread_clock(t);
	}
	tell_clock(time + 1);
	return time + 1;
}

/* Room */

static void set_limit(struct shared_thread *t)
{
	uint8_t *ring_end = (uint8_t *)(uintptr_t)t->ring + SHARED_RING;

	t->limit = t->live.g.out + SHARED_STEP;
	if (t->limit > ring_end)
		t->limit = ring_end;
	if (t->limit > t->psb_at)
		t->limit = t->psb_at;
}

/* Stops recording for good; the program runs on. */
static void stop_all(void)
{
	stopped = true;
	for (unsigned i = 0; i < VCPUS; i++)
		threads[i] = &untraced;
}

/*
 * Wraps, publishes what is complete, waits for room. Between two blocks, with
 * `live` whole. The checkpoint is taken first: the recorder must never have
 * taken bytes that a roll-back would have to unwrite.
 */
static void make_room(struct shared_thread *t)
{
	uint8_t *ring = (uint8_t *)(uintptr_t)t->ring;
	uint64_t position, tail;

	if (t->live.g.out >= ring + SHARED_RING) {
		memcpy(ring, ring + SHARED_RING, (size_t)(t->live.g.out - (ring + SHARED_RING)));
		t->live.g.out -= SHARED_RING;
		t->live.origin -= SHARED_RING;
		t->psb_at -= SHARED_RING;
	}
	t->checkpoint = t->live;
	position = shared_position(&t->live);
	atomic_store_explicit(&t->published, position, memory_order_release);
	for (;;) {
		tail = atomic_load_explicit(&t->tail, memory_order_acquire);
		if (position + SHARED_STEP + SHARED_SLACK - tail <= SHARED_RING)
			break;
		plugin_wait(&t->tail, tail);
		if (plugin.recorder_gone) {
			stop_all();
			break;
		}
	}
	set_limit(t);
}

static void place_psb(struct shared_thread *t, uint64_t time, uint64_t ip)
{
	t->told = time > t->told ? time : t->told;
	t->psb_time = 0;
	generator_psb(&t->live.g, t->told, CBR_RATIO, t->live.enabled, ip);
	t->psb_at = t->live.g.out + plugin.shared->psb_period;
	set_limit(t);
}

/*
 * The ring wants looking at, or a PSB+ is due; we stand before the block at live.next_ip.
 *
 * At a PSB+ a decoder applies all changes of code up to its time. The block
 * that begins here may have been replaced since QEMU looked it up, and the
 * change have got its time already. So the PSB+ bears the time of the block
 * before, when the look-up was still to come.
 */
NOINLINE static void attend(struct shared_thread *t, bool may_psb)
{
	if (t->live.g.out >= t->psb_at) {
		if (!t->psb_time)
			t->psb_time = thread_clock(t);
		else if (may_psb)
			place_psb(t, t->psb_time, t->live.next_ip);
	}
	make_room(t);
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

/*
 * Can block b end by going to `next`? If so its branch goes into the trace
 * and b is counted.
 */
static ALWAYS_INLINE bool pass(struct shared_state *s, const struct block *b, uint64_t next)
{
	switch (b->kind) {
	case PTAH_INSN_COND:
		/* A branch to its own fall-through reads as not taken: the path is the same. */
		if (UNLIKELY(next != b->end && next != b->target))
			return false;
		generator_tnt(&s->g, next != b->end);
		break;
	case PTAH_INSN_JUMP:
		if (UNLIKELY(next != b->target))
			return false;
		break;
	case PTAH_INSN_CALL:
		if (UNLIKELY(next != b->target))
			return false;
		generator_call(&s->g, b->end);
		break;
	case PTAH_INSN_RETURN:
		generator_return(&s->g, next);
		break;
	case PTAH_INSN_CALL_IND:
		generator_call(&s->g, b->end);
		generator_tip(&s->g, next);
		break;
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_JUMP:
	case PTAH_INSN_FAR_RETURN:
		generator_tip(&s->g, next);
		break;
	case KIND_REP:
		/* One iteration a block: the instruction counts when it is left. */
		if (next == b->target) {
			s->instructions += b->ninsn - 1u;
			account_run(s, b->target, next);
			return true;
		}
		/* fall through */
	default: /* OTHER, ZERO_CALL; KERNEL is handled before */
		if (UNLIKELY(next != b->end))
			return false;
		break;
	}
	s->instructions += b->ninsn;
	s->counts[b->kind]++;
	account_run(s, b->end, next);
	return true;
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

/* Block b ran only up to the instruction at `ip`. */
static bool pass_part(struct shared_state *s, const struct block *b, uint64_t ip)
{
	int n = insns_before(b, ip);

	if (n < 0)
		return false;
	s->instructions += (unsigned)n;
	account_run(s, ip, ip);
	return true;
}

/*
 * Like pass(), but nothing will run at `next`: a run that goes on at b's end
 * after the interruption is one run, so it stays open.
 */
static bool pass_to_nothing(struct shared_state *s, const struct block *b, uint64_t next)
{
	uint64_t hash = s->hash, run_start = s->run_start;

	if (!pass(s, b, next))
		return false;
	if (s->hash != hash || s->run_start != run_start) {
		s->hash = hash;
		s->run_start = run_start;
		s->next_ip = b->end;
	}
	return true;
}

static void leave(struct shared_thread *t)
{
	t->live.enabled = false;
	t->prev = &sentinel;
}

/*
 * Block b is not what it once was: the decoder must have got as far as the
 * change, and not further, for b may have changed again meanwhile.
 */
static void enter_changed(struct shared_thread *t, const struct block *b)
{
	if (t->told >= b->change)
		return;
	lift_clock(t, b->change);
	place_psb(t, b->change, b->start);
}

/* Tracing begins at `b`, coming from the kernel. */
static void enter(struct shared_thread *t, const struct block *b)
{
	struct shared_state *s = &t->live;

	lift_clock(t, atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed));
	if (b->slow & BLOCK_CHANGED)
		enter_changed(t, b);
	generator_enable(&s->g, b->start);
	account_run(s, s->next_ip, b->start);
	s->enabled = true;
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

	env_checked = true;
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
	struct shared_state *s = &t->live;

	generator_async_disable(&s->g, prev->start);
	generator_overflow(&s->g);
	s->lost++;
	leave(t);
	enter(t, cur);
}

static void on_signal(struct shared_thread *t, const struct block *prev,
		      const struct signal_frame *frame, const struct block *cur)
{
	struct shared_state *s = &t->live;

	if (prev->kind == KIND_KERNEL && frame->ip == prev->end) { /* INT3: a trap */
		s->instructions += prev->ninsn;
		account_run(s, prev->end, prev->end);
		generator_disable(&s->g);
	} else if ((frame->synchronous && pass_part(s, prev, frame->ip)) ||
		   pass_to_nothing(s, prev, frame->ip) || pass_part(s, prev, frame->ip)) {
		generator_async_disable(&s->g, frame->ip);
	} else { /* where it was interrupted is nowhere prev leads to */
		on_loss(t, prev, cur);
		return;
	}
	leave(t);
	enter(t, cur);
}

/* Threads */

static struct shared_thread *take_slot(void)
{
	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		struct shared_thread *t = shared_slot(plugin.shared, i);
		uint32_t free_slot = THREAD_FREE;

		if (atomic_load(&t->state) == THREAD_FREE) {
			memset((uint8_t *)t + sizeof(t->state), 0, sizeof(*t) - sizeof(t->state));
			if (atomic_compare_exchange_strong(&t->state, &free_slot, THREAD_ACTIVE))
				return t;
		}
	}
	return NULL;
}

static void begin_thread(unsigned vcpu)
{
	struct shared_message message = {.type = MESSAGE_THREAD};
	struct shared_thread *t;
	uint8_t *ring;

	pthread_mutex_lock(&lock);
	t = take_slot();
	pthread_mutex_unlock(&lock);
	if (!t) {
		plugin_note("more than 512 threads at a time: some were not recorded");
		threads[vcpu % VCPUS] = &untraced;
		return;
	}
	ring = shared_ring(t);
	t->pid = getpid();
	t->tid = (int32_t)syscall(SYS_gettid);
	t->ring = (uint64_t)(uintptr_t)ring;
	generator_init(&t->live.g, ring, plugin.shared->retcomp, plugin.shared->long_tnt);
	t->live.origin = t->ring;
	t->prev = &sentinel;
	lift_clock(t, atomic_load(&plugin.shared->clock));
	t->psb_at = ring; /* the stream begins with a PSB+ */
	place_psb(t, thread_clock(t), 0);
	t->checkpoint = t->live;
	message.pid = t->pid;
	message.tid = t->tid;
	message.tsc = thread_clock(t);
	message.value = (uint64_t)(((uint8_t *)t - (uint8_t *)shared_slot(plugin.shared, 0)) /
				   SHARED_SLOT_BYTES);
	plugin_send(&message, "");
	threads[vcpu % VCPUS] = t;
}

int32_t plugin_thread_id(unsigned vcpu)
{
	const struct shared_thread *t = thread_of(vcpu);

	return t ? t->tid : 0;
}

void plugin_on_exit(qemu_plugin_id_t id, unsigned vcpu)
{
	struct shared_thread *t = thread_of(vcpu);

	(void)id;
	if (t && t != &untraced)
		atomic_store(&t->state, THREAD_ENDED);
	if (!stopped)
		threads[vcpu % VCPUS] = NULL;
}

/* A forked child is not recorded: the shared memory is its parent's. */
static void in_child(void)
{
	stop_all();
	pthread_mutex_init(&lock, NULL);
	plugin.recorder_gone = true;
}

void plugin_trace_init(void)
{
	untraced.prev = &sentinel;
	pthread_atfork(NULL, NULL, in_child);
}

/* System calls: prev has ended with one. */
void plugin_before_syscall(unsigned vcpu)
{
	struct shared_thread *t = thread_of(vcpu);
	const struct block *prev;

	if (!t || t == &untraced)
		return;
	t->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	prev = t->prev;
	if (t->live.enabled) {
		t->live.instructions += prev->ninsn;
		account_run(&t->live, prev->end, prev->end);
		generator_disable(&t->live.g);
		leave(t);
	}
	tell_clock(thread_clock(t));
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = 0;
}

/* The slow path */

static bool is_step(const struct block *prev, const struct block *cur)
{
	return cur->slow & BLOCK_STEP && insns_before(prev, cur->start) >= 0 &&
	       !(prev->kind == PTAH_INSN_OTHER && cur->start == prev->end);
}

NOINLINE static void on_block_slow(struct shared_thread *t, const struct block *prev,
				   const struct block *cur, const uint64_t *env)
{
	struct shared_state *s = &t->live;
	struct signal_frame frame;

	if (prev->slow & BLOCK_SENTINEL) {
		if (cur->slow & BLOCK_VSYSCALL)
			return;
		enter(t, cur);
	} else if (cur->slow & BLOCK_HANDLER && read_signal_frame(env, &frame)) {
		on_signal(t, prev, &frame, cur);
	} else if (prev->kind == KIND_KERNEL) {
		s->instructions += prev->ninsn;
		account_run(s, prev->end, prev->end);
		generator_disable(&s->g);
		leave(t);
		enter(t, cur);
	} else if (is_step(prev, cur) && pass_part(s, prev, cur->start)) {
		/* QEMU runs one instruction of prev again by itself: a store into this very
		 * block, or an atomic it cannot do in parallel. */
		t->prev = cur;
	} else if (cur->slow & BLOCK_VSYSCALL && pass_to_nothing(s, prev, cur->start)) {
		/* The page holds no code that runs: fetching from it faults, and the kernel
		 * does the call and the return. */
		generator_async_disable(&s->g, cur->start);
		leave(t);
	} else if (pass(s, prev, cur->start)) {
		t->prev = cur;
	} else if (pass_part(s, prev, cur->start)) {
		t->prev = cur; /* left and entered again inside a block */
	} else {
		on_loss(t, prev, cur);
	}
	if (cur->slow & BLOCK_CHANGED)
		enter_changed(t, cur);
}

/* Called from the trampoline below. */
__attribute__((used)) static void on_block(unsigned vcpu, const struct block *cur,
					   const uint64_t *env)
{
	struct shared_thread *t = threads[vcpu % VCPUS];
	const struct block *prev;

	if (UNLIKELY(!t)) {
		if (!env_checked)
			check_env(env);
		begin_thread(vcpu);
		t = threads[vcpu % VCPUS];
	}
	if (UNLIKELY(t == &untraced))
		return;
	prev = t->prev;
	t->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	if (LIKELY(!(prev->slow | cur->slow)) && LIKELY(pass(&t->live, prev, cur->start)))
		t->prev = cur;
	else
		on_block_slow(t, prev, cur, env);
	if (UNLIKELY(t->live.g.out >= t->limit))
		attend(t,
		       t->live.enabled && !(prev->kind == KIND_REP && cur->start == prev->target));
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = 0;
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
