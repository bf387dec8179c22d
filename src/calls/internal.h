/* SPDX-License-Identifier: MIT */
/* What the machine's own files share: its stack, and the searches in it. */
#ifndef PTAH_CALLS_INTERNAL_H
#define PTAH_CALLS_INTERNAL_H

#include "calls/machine.h"

/* How many searches may look at, whatever ran: few enough to be quick, enough for most stacks. */
#define CALLS_NEAR 256

/* How many frames may be moved to another stack and back, whatever ran. */
#define CALLS_FEW 32

/* Frames with AFTER_GAP that may be open: more than a few tell nothing about callers. */
#define CALLS_MAX_GAPS 16

static inline uint32_t calls_index(const struct calls_machine *m, const struct calls_frame *f)
{
	return (uint32_t)(f - m->frames);
}

static inline uint32_t calls_depth(const struct calls_machine *m)
{
	return calls_index(m, m->top);
}

static inline bool calls_has_bounds(const struct calls_entry *e)
{
	return !(e->flags & PTAH_CALL_NO_BOUNDS);
}

/* Whether a function begins at `to`, the address of `e`. */
static inline bool calls_is_entry(const struct calls_entry *e)
{
	return calls_has_bounds(e)
		   ? e->ip == e->function && !(e->function_flags & PTAH_FUNCTION_FRAGMENT)
		   : e->called;
}

/* Whether the address of `e` belongs to the function of `f`. */
static inline bool calls_is_same(const struct calls_frame *f, const struct calls_entry *e)
{
	return calls_has_bounds(e) && e->function == f->function &&
	       !(f->flags & PTAH_CALL_NO_BOUNDS);
}

/* Execution is in the piece of code of `e` now; the call is the same. */
static inline void calls_set_piece(struct calls_frame *f, const struct calls_entry *e)
{
	f->low = e->low;
	f->size = e->size;
}

static inline void calls_set_limit(struct calls_machine *m)
{
	m->limit = m->frames + (m->capacity <= m->max_depth ? m->capacity : m->max_depth + 1);
}

/*
 * A call goes to the instruction after it, `to`. Finds out whether execution goes on in the same
 * function ("call next; pop", by which code reads its own address), or another one begins there.
 */
bool calls_goes_on_after(struct calls_machine *m, uint64_t to);

/* Whether there is room for another frame. If not, the call has to be folded. */
bool calls_has_room(struct calls_machine *m);

/* Ends the innermost call. */
void calls_drop(struct calls_machine *m, enum ptah_call_end how, uint64_t site);

/* Ends calls without a return of their own until `depth` are open. */
void calls_unwind(struct calls_machine *m, uint32_t depth, uint64_t site);

/* The innermost call returned, and the calls that had left by tail calls end with it. */
void calls_returned(struct calls_machine *m, uint64_t site);

/*
 * The index of the innermost frame not above `from` that returns to `site` (`kernel`: also by the
 * kernel), or that is a call of the function of `e`; 0: none was found. All searches together take
 * time in proportion to what ran: deep stacks are not searched again and again.
 */
uint32_t calls_find_site(struct calls_machine *m, uint32_t from, uint64_t site, bool kernel);
uint32_t calls_find_function(struct calls_machine *m, uint32_t from, const struct calls_entry *e);

/* Whether the call at `index`, or one of its chain of tail calls, never returns to its caller. */
bool calls_gives_up(const struct calls_machine *m, uint32_t index);

/*
 * Whether so many frames may be moved. A trace of nothing but switches of deep stacks must take no
 * hours.
 */
bool calls_can_move(struct calls_machine *m, uint32_t n);

/* The innermost frame, not above `from`, that has called setjmp() there; 0: none is known. */
uint32_t calls_find_twice(struct calls_machine *m, uint32_t from, uint64_t site);

/* Begins a call of the function of `e`. False, after folding it, when there is no room. */
struct calls_begin {
	enum ptah_call_begin how;
	unsigned flags; /* of enum ptah_call_flags, besides those of `e` */
	unsigned state;
	uint64_t return_site, site;
};

bool calls_begin(struct calls_machine *m, const struct calls_entry *e,
		 const struct calls_begin *begin);

/* It runs, and what it was entered by is not known. */
void calls_begin_running(struct calls_machine *m, const struct calls_entry *e, unsigned state);

/* machine.c: what the cache may forget, and what is known all the same. */
void calls_learn_switch(struct calls_machine *m, struct calls_entry *e);
void calls_learn_called(struct calls_machine *m, struct calls_entry *e);

/* leave.c: does the innermost call exchange stacks? */
bool calls_switches(const struct calls_machine *m);

/* SYSCALL, SYSENTER and INT n, which the kernel executes again after some signals, have 2 bytes. */
#define CALLS_SYSCALL_SIZE 2

/* fold.c: calls that are too deep for a frame. */
void calls_fold(struct calls_machine *m, uint64_t return_site);
/* A return, or a jump that may be one, went to `to`: true if a folded call ended so. */
bool calls_return_folded(struct calls_machine *m, uint64_t to);
void calls_forget_folded(struct calls_machine *m);

/* kernel.c */
/* Execution is back at `to` from the kernel, which was entered before `expected`. */
void calls_back_from_kernel(struct calls_machine *m, uint64_t to, uint64_t expected, bool syscall);
/*
 * A call of which nothing is known but that it was running returned to the first instruction of a
 * function, as a signal handler does to its restorer.
 */
void calls_begin_restorer(struct calls_machine *m, const struct calls_entry *e, uint64_t site);
bool calls_return_from_handler(struct calls_machine *m, uint64_t site, uint64_t to);
void calls_enter_kernel(struct calls_machine *m, enum ptah_call_begin how, uint64_t site,
			uint64_t return_site, uint64_t to);
/* The pending far return left the kernel, and what follows is not traced. */
void calls_leave_kernel(struct calls_machine *m);
/* The guest that the host had entered was left, and the host continues at `to`. */
void calls_leave_guest(struct calls_machine *m, uint64_t to);

/* resume.c */
/* Execution is at `ip`, and how it got there was not seen. */
void calls_resume(struct calls_machine *m, uint64_t ip);

/* stacks.c */
/* Another stack runs from here on, from the function of `e`. */
void calls_begin_stack(struct calls_machine *m, const struct calls_entry *e, uint64_t site);
/* Ends the frames from index `from` on as suspended, and keeps them. */
void calls_suspend(struct calls_machine *m, uint32_t from, uint64_t site);
/* A suspended stack returns to `to`: its calls begin again. False: there is none. */
bool calls_switch(struct calls_machine *m, uint64_t site, uint64_t to);
void calls_stacks_free(struct calls_machine *m);

#endif
