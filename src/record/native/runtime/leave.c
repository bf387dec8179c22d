/* SPDX-License-Identifier: MIT */
/*
 * The runtime gives up. Before anything outside has seen the program run, the recorder is asked to
 * start it again with another recorder. Later, the program continues untraced from exactly here,
 * which its user reads in a note: it never dies because it cannot be recorded. In tests
 * (NATIVE_STRICT) it does, so that none of them passes because nothing was recorded.
 */
#include "record/native/runtime/signals.h"
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"

#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/time_types.h>

#define STRICT_STATUS 125
#define QEMU_BYTES    (UINT64_C(64) << 30) /* of address space that QEMU serves well */
#define STOP_WAIT_NS  2000000 /* after which threads that are not out yet are stopped again */
/* How long a process that was refused waits before it looks whether its recorder still exists. */
#define REFUSED_WAIT_NS 100000000

static _Noreturn void end_process(void)
{
	for (;;)
		sys_call(__NR_exit_group, STRICT_STATUS, 0, 0, 0, 0, 0);
}

/* Waits for the recorder to kill this process; returns if there is no recorder any more. */
static void wait_for_end(struct context *c)
{
	uint32_t *alive = &c->runtime->shared->recorder_alive;
	const struct __kernel_timespec wait = {.tv_nsec = REFUSED_WAIT_NS};
	const uint64_t all = ~UINT64_C(0);
	uint64_t before = 0;

	/* A signal of the program must not find it here. */
	sys_call(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (uint64_t)&all, (uint64_t)&before,
		 sizeof(all), 0, 0);
	while (recorder_is_alive(c))
		sys_call(__NR_futex, (uint64_t)alive, FUTEX_WAIT,
			 __atomic_load_n(alive, __ATOMIC_RELAXED), (uint64_t)&wait, 0, 0);
	sys_call(__NR_rt_sigprocmask, 2, (uint64_t)&before, 0, sizeof(before), 0, 0);
}

/*
 * Whether the recorder qemu would need more memory than a machine may have: QEMU keeps some bytes
 * for each page that is mapped, also where a program, as those with AddressSanitizer, has reserved
 * terabytes that it never touches.
 */
static bool maps_much(void)
{
	const int64_t file =
	    sys_call(__NR_open, (uint64_t) "/proc/self/statm", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
	uint64_t pages = 0;
	char text[32];
	int64_t n;

	if (sys_is_error(file))
		return true;
	n = sys_call(__NR_read, (uint64_t)file, (uint64_t)text, sizeof(text), 0, 0, 0);
	sys_call(__NR_close, (uint64_t)file, 0, 0, 0, 0, 0);
	for (int64_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = 10 * pages + (uint64_t)(text[i] - '0');
	return pages > QEMU_BYTES / NATIVE_PAGE;
}

static void refuse(struct context *c, uint64_t rip, const char *why)
{
	if (effect_is_committed(c) || c->runtime->flags & NATIVE_STRICT || maps_much())
		return;
	message_text(c, NATIVE_MESSAGE_REFUSED, rip, why);
	wait_for_end(c);
}

/* ---- Several threads --------------------------------------------------------- */

/*
 * The handlers are the process's: no thread can stay in the cache, where stores fault and signals
 * have to be kept, when the kernel has the program's handlers again. So the thread that leaves
 * stops all others, and each leaves at its next head. A thread that waits in a system call is left
 * there, so that it need not be interrupted: it leaves when the call is done.
 */
static bool is_in(const struct context *c)
{
	return __atomic_load_n(&c->state, __ATOMIC_SEQ_CST) == CONTEXT_RUNNING &&
	       !__atomic_load_n(&c->in_call, __ATOMIC_SEQ_CST);
}

/* Whether there are any. */
static bool stop_each(const struct context *c)
{
	const struct context *other = __atomic_load_n(&c->runtime->contexts, __ATOMIC_ACQUIRE);
	bool found = false;

	for (; other; other = other->next)
		if (other != c && is_in(other)) {
			found = true;
			signals_stop(c, other);
		}
	return found;
}

static void stop_others(struct context *c)
{
	const struct __kernel_timespec wait = {.tv_nsec = STOP_WAIT_NS};
	uint32_t *event = &c->runtime->out_event, before;

	for (;;) {
		before = __atomic_load_n(event, __ATOMIC_ACQUIRE);
		if (!stop_each(c))
			return;
		signals_hold(c);
		sys_call(__NR_futex, (uint64_t)event, FUTEX_WAIT_PRIVATE, before, (uint64_t)&wait,
			 0, 0);
	}
}

static void wait_until_left(struct context *c)
{
	struct runtime *rt = c->runtime;

	signals_hold(c);
	__atomic_store_n(&c->state, CONTEXT_OUT, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&rt->out_event, 1, __ATOMIC_RELEASE);
	sys_call(__NR_futex, (uint64_t)&rt->out_event, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
	while (!__atomic_load_n(&rt->left, __ATOMIC_ACQUIRE))
		sys_call(__NR_futex, (uint64_t)&rt->left, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}

/* Maps memory of the process's own in the place of [from, to) of the shared one. */
static void replace(const struct runtime *rt, uint64_t from, uint64_t to)
{
	sys_call(__NR_mmap, (uint64_t)rt->shared + from, to - from, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, (uint64_t)-1, 0);
}

/* Nobody uses what is there, and addresses count towards a limit that the program may set. */
static void take_away(const struct runtime *rt, uint64_t from, uint64_t to)
{
	if (to > from)
		sys_call(__NR_munmap, (uint64_t)rt->shared + from, to - from, 0, 0, 0, 0);
}

/*
 * Who runs on untraced may become another user, or run code of one: it has no part in the memory
 * any more. Threads that come out of a system call find a memory that nobody reads, in the slots
 * that threads of the process have had. The others would be gigabytes, which the process may be
 * not allowed to have. Where it may not even have those, they stay: a thread would fault.
 */
void leave_memory(struct context *c)
{
	const struct runtime *rt = c->runtime;
	uint64_t at = native_slot_at(0);

	replace(rt, 0, at);
	for (unsigned i = 0; i < NATIVE_THREADS; i++) {
		if (!rt->guarded[i][0])
			continue;
		take_away(rt, at, native_slot_at(i));
		at = native_slot_at(i + 1);
		replace(rt, native_slot_at(i), at);
	}
	take_away(rt, at, native_bytes());
}

/* The first thread that leaves, after which none is in the cache. */
static void leave_first(struct context *c, uint64_t rip, const char *why)
{
	struct runtime *rt = c->runtime;

	stop_others(c);
	refuse(c, rip, why);
	message_text(c, NATIVE_MESSAGE_LEFT, rip, why);
	if (rt->flags & NATIVE_STRICT)
		end_process();
	leave_memory(c);
	signals_restore(c);
	__atomic_store_n(&rt->left, 1, __ATOMIC_RELEASE);
	sys_call(__NR_futex, (uint64_t)&rt->left, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

/* ---- The recorder detaches ------------------------------------------------------ */

/*
 * The recorder, which traces this thread now, gives it these registers and this mask when all
 * threads are here. Returns if there is no recorder any more.
 */
static void park(struct context *c, const struct registers *r)
{
	struct native_out out = {.rip = r->rip, .rflags = r->rflags};
	int64_t answer;

	for (unsigned i = 0; i < 16; i++)
		out.registers[i] = r->general[i];
	signals_give_back(c, &out.mask);
	if (c->rseq.address)
		sys_call(__NR_rseq, c->rseq.address, c->rseq.size, 0, c->rseq.signature, 0, 0);
	c->rseq.address = 0;
	while ((answer = sys_call(NATIVE_CALL, NATIVE_CALL_OUT, (uint64_t)&out, 0, 0, 0, 0)) > 0)
		if (answer == NATIVE_RESTORE)
			signals_restore(c);
}

_Noreturn void leave_held(struct context *c)
{
	/* gate_syscall has put them there. TIP.PGD stands in the log already. */
	const struct registers r = *(const struct registers *)(c->stack - sizeof(r));

	c->in_call = false;
	leave_disabled(c, &r, "");
}

_Noreturn void leave_disabled(struct context *c, const struct registers *r, const char *why)
{
	ring_end(c);
	if (__atomic_load_n(&c->runtime->leaving, __ATOMIC_SEQ_CST) == NATIVE_LET_GO)
		park(c, r);
	if (__atomic_exchange_n(&c->runtime->leaving, NATIVE_LEAVES, __ATOMIC_SEQ_CST) !=
	    NATIVE_LEAVES)
		leave_first(c, r->rip, why);
	else
		wait_until_left(c);
	signals_leave(c, r);
}

_Noreturn void leave_too(struct context *c, struct registers *r)
{
	leave(c, r, "");
}

_Noreturn void leave(struct context *c, struct registers *r, const char *why)
{
	/* With the address: the decoder would go on to the next branch. */
	c->log = (uint64_t)packets_async_disable(c, packets_room(c, r->rip), r->rip);
	leave_disabled(c, r, why);
}

/* The program's state may be wrong: it must not continue. */
_Noreturn void leave_broken(struct context *c, const char *what)
{
	refuse(c, 0, what);
	message_text(c, NATIVE_MESSAGE_LEFT, 0, what);
	end_process();
}
