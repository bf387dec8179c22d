/* SPDX-License-Identifier: MIT */
/*
 * The call machine: keeps the stack of one thread's open calls while the thread's instructions
 * pass by. What begins and ends is passed to a sink, which makes a list of it or adds it up. The
 * common cases (a call of a known function, the return that matches it, a branch inside the
 * function) are inline, so that they are compiled together with the sink; all others are in the
 * .c files of this folder and call the sink through its pointers.
 */
#ifndef PTAH_CALLS_MACHINE_H
#define PTAH_CALLS_MACHINE_H

#include "calls/calls.h"

#include "base/compiler.h"
#include "base/hash.h"
#include "calls/adder.h"
#include "flow/flow_machine.h"

struct calls_stacks;
struct calls_summary;

/* What is special about a frame; 0 for the call that returns where it came from. */
enum calls_state {
	CALLS_TAILED =
	    1 << 0, /* it shares its return site with the frame below, and ends with it */
	CALLS_HIDDEN =
	    1 << 1, /* a call inside one function: kept to match its return, not reported */
	CALLS_SIGNAL = 1 << 2,	  /* a signal handler, or what runs after it up to rt_sigreturn */
	CALLS_KERNEL = 1 << 3,	  /* a system call, interrupt or exception in a traced kernel */
	CALLS_BASE = 1 << 4,	  /* perhaps the first frame of another stack */
	CALLS_STACK = 1 << 5,	  /* with BASE: it is known to be one */
	CALLS_AFTER_GAP = 1 << 6, /* execution was not seen between the frame below and this one */
	CALLS_ODD = 1 << 9,	  /* of PTAH_FUNCTION_TWICE or UNWINDS: its return needs a look */
	CALLS_FULL = 1 << 7,	  /* the deepest frame there may be, with calls folded into it */
	CALLS_BOTTOM = 1 << 8,	  /* below the outermost frame: no call */
	CALLS_UNKNOWN = 1 << 10,  /* the same in a summary: what is open there is assumed */
};

struct calls_frame {
	uint64_t
	    return_site; /* where it will return to; 0: not known. SIGNAL: what was interrupted */
	uint64_t low, size; /* the piece of code that it runs in; size 0: not known */
	uint64_t function;  /* where it begins */
	uint64_t id;
	/* Where the setjmp() that it called last returned to, and that before; 0: there was none.
	 */
	uint64_t twice_site, twice_before;
	uint32_t losses;	 /* of the machine when it began */
	uint32_t special;	 /* SIGNAL, KERNEL: index of the next such frame below; 0: none */
	uint16_t state;		 /* enum calls_state */
	uint16_t flags;		 /* enum ptah_call_flags, as known at its beginning */
	uint16_t function_flags; /* enum ptah_function_flags */
	uint16_t space;
	uint8_t how;	    /* enum ptah_call_begin */
	bool after_loss;    /* SIGNAL: a loss lies between the interruption and here */
	bool after_syscall; /* SIGNAL, KERNEL: by a system call, which may be executed again */
};

/* What is known of the function at an address: an entry of the machine's cache. */
struct calls_entry {
	uint64_t ip; /* the address */
	uint64_t low, size, function;
	uint16_t flags; /* enum ptah_call_flags: NO_BOUNDS, STUB, KERNEL */
	uint16_t function_flags;
	uint16_t space;	     /* of the code */
	uint16_t key;	     /* the space that marks have: `space`, or a version */
	uint16_t generation; /* of the machine when it was filled; another one: it is free */
	uint16_t state;	     /* enum calls_state of a call of it */
	bool called;	     /* a call went to it */
};

/* Where the thread is, in every unit. */
struct calls_now {
	struct ptah_call_counts counts;
	uint64_t tsc, offset;
	uint8_t tsc_error;
};

/* What the machine waits for at the next address that runs. Smaller: an enum ptah_insn_class. */
enum calls_pending {
	CALLS_PENDING_ASYNC = PTAH_INSN_CLASS_MAX, /* back from an untraced interrupt or signal */
	CALLS_PENDING_INTERRUPT, /* in the traced kernel: `site` was interrupted */
	CALLS_PENDING_VM_EXIT,	 /* in the host, out of a guest that it had entered */
	CALLS_PENDING_OFF,	 /* tracing was off: the code between was filtered out */
	CALLS_PENDING_LOST,
	CALLS_PENDING_START, /* of the trace, of a program */
};

struct calls_machine;

/* How many instructions of a block, up to `end`, are in the function at `from`. */
struct calls_crossing {
	uint64_t from, end;
	unsigned count;
	uint16_t space, generation; /* of the code; 0: the entry is free */
};

#define CALLS_CROSSINGS 64

/* Called with the machine's `now` and `space`. The frame of an end is still on the stack. */
struct calls_sink {
	void (*begin)(struct calls_machine *m, const struct calls_frame *frame, uint64_t site);
	/* `flags`: the final enum ptah_call_flags. */
	void (*end)(struct calls_machine *m, const struct calls_frame *frame,
		    enum ptah_call_end how, unsigned flags, uint64_t site);
};

/* Calls that are too deep for a frame: the return sites of the newest. */
#define CALLS_FOLDED_SITES 4096

struct calls_machine {
	struct calls_frame *top;   /* frames[0] is no call, so that there is always one */
	struct calls_frame *limit; /* the top must not get here without a look at the depth */
	struct calls_now now;
	struct calls_entry *cache; /* by hash of the address */
	uint64_t last_id;
	uint32_t losses;
	uint16_t space;	     /* of the code that runs */
	uint16_t generation; /* of the code: counts the changes */
	uint8_t pending;
	bool off;	/* tracing is off */
	bool crossed;	/* it was off since the pending branch */
	bool entered;	/* nothing of a function that runs now at its beginning ran before */
	bool twice;	/* some call has called setjmp() */
	bool non_root;	/* a guest of a virtual machine runs */
	bool aborted;	/* a transaction was, and its next branch goes to its fallback address */
	bool skip_time; /* what passes before the next time is lost */
	unsigned cache_bits; /* the cache has 2^bits entries, and an empty one after them */
	size_t cache_count;
	uint64_t site, end; /* of the pending branch: its address, and that after it */
	uint64_t cycles;    /* so far, as the last TICK says */

	struct calls_frame *frames;
	uint32_t capacity, max_depth;
	uint32_t special;  /* index of the innermost frame with SIGNAL or KERNEL */
	uint32_t guest;	   /* index of the frame that a guest begins with; 0: none was entered */
	uint32_t gaps;	   /* open frames with AFTER_GAP */
	uint32_t bases;	   /* open frames with STACK */
	int32_t level;	   /* of depth 0 */
	uint64_t searched; /* frames that searches have looked at, or that were moved */
	uint64_t folded;   /* calls that are too deep for a frame */
	uint32_t folded_known; /* of the newest of them the return sites are known */
	uint64_t *folded_sites;
	struct calls_stacks *stacks; /* suspended; NULL: there were none */

	calls_function_finder *find;
	calls_insn_counter *count;
	void *find_context;
	struct calls_crossing *crossings; /* by hash of the address; NULL: there were none */
	const struct calls_sink *sink;
	int status; /* PTAH_E_NOMEM: memory was short, and the machine has stopped */

	/* What it has learned of code, until that changes. The cache may forget it. */
	struct calls_knowledge learned;
	uint32_t called;	       /* entries of functions without bounds that were called */
	struct calls_summary *summary; /* it takes a part of a trace (summary.h); or NULL */
};

/* The machine calls the sink for everything that its inline functions leave to it. */
int calls_machine_init(struct calls_machine *m, const struct calls_config *config,
		       const struct calls_sink *sink);
void calls_machine_fini(struct calls_machine *m);
/* Begins at another place, for a summary, with what is known of the code. */
void calls_machine_restart(struct calls_machine *m, const struct calls_knowledge *knowledge);

/* What is known of the function at `ip`. The entry lives until the next call. */
struct calls_entry *calls_lookup(struct calls_machine *m, uint64_t ip);
void calls_forget_code(struct calls_machine *m);
/* The piece of code that holds `ip`. False: it is not known. */
bool calls_bounds(struct calls_machine *m, unsigned space, uint64_t ip, uint64_t *low,
		  uint64_t *high);

/* Items other than blocks, the same as a span (FLOW_SPAN_EVENT), and what no item says. */
void calls_event(struct calls_machine *m, const struct ptah_item *item);
void calls_event_span(struct calls_machine *m, const struct ptah_span *span);
void calls_lost(struct calls_machine *m);
void calls_exec(struct calls_machine *m, uint64_t tsc);
/* Ends everything, at the end of the trace. Only sums and ids are kept. */
void calls_end(struct calls_machine *m, enum ptah_call_end how);

void calls_set_time(struct calls_machine *m, uint64_t tsc, uint64_t cycles);
void calls_call_slowly(struct calls_machine *m, uint64_t site, uint64_t end, uint64_t to);
void calls_return_slowly(struct calls_machine *m, uint64_t site, uint64_t to);
/* A jump, a branch or a fall-through that leaves the top's piece. */
void calls_jump_slowly(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t to);
void calls_far(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t end,
	       uint64_t to);
/*
 * Execution is at `to` without a jump, perhaps not in the piece of code that it was in: the last
 * instruction of a function may be a call, whose return site is in the next one. If a function
 * begins at `to`, the innermost call has left for it as by a tail call.
 */
void calls_settle(struct calls_machine *m, uint64_t to);
/*
 * The same of a block that began in the innermost call's piece and ends, at m->site, in another.
 * ninsn: at most so many instructions are of the block, which have been counted.
 */
void calls_cross(struct calls_machine *m, uint64_t ninsn);
/* Execution is at `ip`, and `m->pending` is no near branch. */
void calls_continue(struct calls_machine *m, uint64_t ip);

/* Whether execution at `ip` stays in the piece of code that the innermost call runs in. */
static ALWAYS_INLINE bool calls_is_inside(const struct calls_machine *m, uint64_t ip)
{
	return ip - m->top->low < m->top->size;
}

static ALWAYS_INLINE size_t calls_hash(uint64_t ip, unsigned space, unsigned bits)
{
	return (size_t)(hash_number(ip + ((uint64_t)space << 48)) >> (64 - bits));
}

/* The entry for `ip`, if it is there and in one of the two places where it is looked for first. */
static ALWAYS_INLINE const struct calls_entry *calls_cached(const struct calls_machine *m,
							    uint64_t ip)
{
	const struct calls_entry *e = &m->cache[calls_hash(ip, m->space, m->cache_bits)];

	return e + UNLIKELY(e->ip != ip);
}

/* Loads what is known of the function at `ip`. */
static ALWAYS_INLINE void calls_prefetch(const struct calls_machine *m, uint64_t ip)
{
	__builtin_prefetch(&m->cache[calls_hash(ip, m->space, m->cache_bits)]);
}

/* Pushes a frame for the function of `e`, which the caller completes. There must be room. */
static ALWAYS_INLINE struct calls_frame *calls_push(struct calls_machine *m,
						    const struct calls_entry *e)
{
	struct calls_frame *f = ++m->top;

	f->low = e->low;
	f->size = e->size;
	f->function = e->function;
	f->id = ++m->last_id;
	f->losses = m->losses;
	f->twice_site = 0;
	f->special = 0;
	f->flags = e->flags;
	f->function_flags = e->function_flags;
	f->space = e->key;
	f->after_loss = f->after_syscall = false;
	return f;
}

static ALWAYS_INLINE void calls_call(struct calls_machine *m, const struct calls_sink *sink,
				     uint64_t site, uint64_t end, uint64_t to)
{
	const struct calls_entry *e = calls_cached(m, to);
	struct calls_frame *f;

	/* Known, its first instruction, and not the one after the call. */
	if (LIKELY(e->called && e->ip == to && e->function == to && e->space == m->space &&
		   e->generation == m->generation && to != end && m->top + 1 < m->limit)) {
		f = calls_push(m, e);
		f->return_site = end;
		f->state = e->state;
		f->how = PTAH_CALL_CALLED;
		sink->begin(m, f, site);
	} else {
		calls_call_slowly(m, site, end, to);
	}
}

/* The frame that the top's chain of tail calls began with. */
static ALWAYS_INLINE const struct calls_frame *calls_chain_root(const struct calls_machine *m)
{
	const struct calls_frame *f = m->top;

	while (UNLIKELY(f->state == CALLS_TAILED))
		f--;
	return f;
}

/*
 * Whether the top's chain, from `root` on, may go on by a tail call of a function that it has not.
 */
static ALWAYS_INLINE bool calls_can_tail(const struct calls_machine *m,
					 const struct calls_frame *root, uint64_t function)
{
	for (const struct calls_frame *f = m->top; f >= root; f--)
		if (f->function == function || f->function_flags & PTAH_FUNCTION_SWITCH)
			return false;
	return !root->state && m->top - root < PTAH_CALLS_MAX_CHAIN - 1;
}

/*
 * A jump out of the innermost call's piece of code. Tail calls, as through a linkage table's stub,
 * are as frequent as calls are.
 */
static ALWAYS_INLINE void calls_jump(struct calls_machine *m, const struct calls_sink *sink,
				     unsigned insn_class, uint64_t site, uint64_t to)
{
	const struct calls_entry *e = calls_cached(m, to);
	struct calls_frame *f;

	if (LIKELY(e->ip == to && e->function == to && e->space == m->space &&
		   e->generation == m->generation && !e->state &&
		   !(e->flags & PTAH_CALL_NO_BOUNDS) &&
		   !(e->function_flags & PTAH_FUNCTION_FRAGMENT) && m->top + 1 < m->limit &&
		   calls_can_tail(m, calls_chain_root(m), to))) {
		f = calls_push(m, e);
		f->return_site = f[-1].return_site;
		f->state = CALLS_TAILED;
		f->how = PTAH_CALL_TAIL;
		sink->begin(m, f, site);
	} else {
		calls_jump_slowly(m, insn_class, site, to);
	}
}

static ALWAYS_INLINE void calls_return(struct calls_machine *m, const struct calls_sink *sink,
				       uint64_t site, uint64_t to)
{
	const struct calls_frame *f = m->top;

	/* Also of a call that was entered by tail calls. */
	if (LIKELY(f->return_site == to && (!f->state || to) && !calls_chain_root(m)->state)) {
		enum ptah_call_end how = PTAH_CALL_END_RETURN;
		unsigned state;

		do {
			state = f->state;
			sink->end(m, f, how,
				  f->flags | (f->losses != m->losses ? PTAH_CALL_HAS_LOSS : 0),
				  site);
			how = PTAH_CALL_END_TAIL;
			f = --m->top;
		} while (UNLIKELY(state));
	} else {
		calls_return_slowly(m, site, to);
	}
	if (UNLIKELY(!calls_is_inside(m, to)))
		calls_settle(m, to);
}

/* The branch at `site`, of class `insn_class`, before `end`, went to `to`. */
static ALWAYS_INLINE void calls_branch(struct calls_machine *m, const struct calls_sink *sink,
				       unsigned insn_class, uint64_t site, uint64_t end,
				       uint64_t to)
{
	switch (insn_class) {
	case PTAH_INSN_CALL:
	case PTAH_INSN_CALL_IND:
		calls_call(m, sink, site, end, to);
		break;
	case PTAH_INSN_RETURN:
		calls_return(m, sink, site, to);
		break;
	case PTAH_INSN_JUMP_IND:
		if (UNLIKELY(!calls_is_inside(m, to) || to == m->top->function))
			calls_jump(m, sink, insn_class, site, to);
		break;
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_RETURN:
	case PTAH_INSN_FAR_JUMP:
		calls_far(m, insn_class, site, end, to);
		break;
	case PTAH_INSN_COND:
	case PTAH_INSN_JUMP:
		/* A conditional branch that continues after itself was not taken. */
		if (UNLIKELY(!calls_is_inside(m, to)) &&
		    (to != end || insn_class == PTAH_INSN_JUMP)) {
			calls_jump(m, sink, insn_class, site, to);
			break;
		}
		/* fall through */
	default:
		if (UNLIKELY(!calls_is_inside(m, to)))
			calls_jump_slowly(m, to == end ? PTAH_INSN_OTHER : insn_class, site, to);
	}
}

/* calls_arrive(), out of line. */
void calls_arrive_slowly(struct calls_machine *m, uint64_t ip);

/* The place is `ip` now: carries out what was pending. */
static ALWAYS_INLINE void calls_arrive(struct calls_machine *m, const struct calls_sink *sink,
				       uint64_t ip)
{
	const unsigned pending = m->pending;

	if (LIKELY(!pending)) {
		if (UNLIKELY(!calls_is_inside(m, ip)))
			calls_jump_slowly(m, PTAH_INSN_OTHER, m->site, ip);
	} else if (UNLIKELY(m->crossed || pending >= (unsigned)CALLS_PENDING_ASYNC))
		calls_continue(m, ip);
	else
		calls_branch(m, sink, pending, m->site, m->end, ip);
}

static ALWAYS_INLINE void calls_at_time(struct calls_machine *m, uint64_t tsc, uint8_t tsc_error,
					uint64_t offset)
{
	if (UNLIKELY(tsc != m->now.tsc || m->cycles != m->now.counts.cycles))
		calls_set_time(m, tsc, m->cycles);
	m->now.tsc_error = tsc_error;
	m->now.offset = offset;
}

/* Takes a block. */
static ALWAYS_INLINE void calls_block(struct calls_machine *m, const struct calls_sink *sink,
				      const struct ptah_item *block)
{
	m->space = (uint16_t)block->code.space;
	calls_arrive(m, sink, block->ip);
	calls_at_time(m, block->tsc, block->tsc_error, block->offset);
	m->now.counts.instructions += block->ninsn;
	m->pending =
	    block->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN) ? 0 : block->insn_class;
	m->end = block->end;
	m->site = block->end - block->last_size;
	if (UNLIKELY(!calls_is_inside(m, m->site)))
		calls_cross(m, block->ninsn);
}

static ALWAYS_INLINE void calls_item(struct calls_machine *m, const struct calls_sink *sink,
				     const struct ptah_item *item)
{
	if (LIKELY(item->type == PTAH_ITEM_BLOCK))
		calls_block(m, sink, item);
	else
		calls_event(m, item);
}

/* The same, out of line and by the machine's own sink. */
void calls_arrive_slowly(struct calls_machine *m, uint64_t ip);

/*
 * The first part of taking a span: all but its last branch. False: where that went is not known
 * yet.
 */
static ALWAYS_INLINE bool calls_run(struct calls_machine *m, const struct ptah_span *s)
{
	const bool cut = s->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN);

	m->space = s->space;
	if (UNLIKELY(m->pending || !calls_is_inside(m, s->ip)))
		calls_arrive_slowly(m, s->ip);
	m->cycles = s->cycles;
	calls_at_time(m, s->tsc, s->tsc_error, s->offset);
	m->now.counts.instructions += s->ninsn;
	m->pending = cut ? 0 : s->insn_class;
	m->end = s->end;
	m->site = s->end - s->last_size;
	if (UNLIKELY(!calls_is_inside(m, m->site)))
		calls_cross(m, s->ninsn);
	if (UNLIKELY(!s->to))
		return false;
	m->pending = 0;
	m->end = s->to;
	return true;
}

/*
 * Takes a span: the same as taking its blocks one by one, if it has no branch but its last that
 * left the piece of code of calls_lookup(ip).
 */
static ALWAYS_INLINE void calls_span(struct calls_machine *m, const struct calls_sink *sink,
				     const struct ptah_span *s)
{
	if (UNLIKELY(s->insn_class == FLOW_SPAN_EVENT))
		calls_event_span(m, s);
	else if (LIKELY(calls_run(m, s)))
		calls_branch(m, sink, s->insn_class, m->site, s->end, s->to);
}

/* Whether `next` runs without an interruption from the end of `s` on, while no time passes. */
static ALWAYS_INLINE bool calls_goes_on(const struct ptah_span *s, const struct ptah_span *next)
{
	return next->ip == s->to && next->tsc == s->tsc && next->cycles == s->cycles &&
	       next->space == s->space &&
	       !(next->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN));
}

static ALWAYS_INLINE bool calls_entry_holds(const struct calls_entry *e, uint64_t ip)
{
	return ip - e->low < e->size;
}

/* The function at `to`, if nothing is special about it and all of `s` runs in it; or NULL. */
static ALWAYS_INLINE const struct calls_entry *calls_plain(const struct calls_machine *m,
							   uint64_t to, const struct ptah_span *s)
{
	const struct calls_entry *e = calls_cached(m, to);

	return LIKELY(e->ip == to && e->function == to && e->space == m->space &&
		      e->generation == m->generation && !e->state && e->key == e->space &&
		      calls_entry_holds(e, to) && calls_entry_holds(e, s->end - s->last_size))
		   ? e
		   : NULL;
}

/*
 * Whether `s[1]` is the whole of the call that `s` ends with. Then its begin and end leave the
 * machine as it is, except for what calls_pass() does.
 */
static ALWAYS_INLINE bool calls_is_leaf(const struct calls_machine *m, const struct ptah_span *s)
{
	const struct calls_entry *e;

	if (s[1].to != s->end || s->to == s->end || !calls_goes_on(s, &s[1]) ||
	    m->top + 1 >= m->limit || s->tsc != m->now.tsc || s->cycles != m->now.counts.cycles)
		return false;
	e = calls_plain(m, s->to, &s[1]);
	return e && e->called;
}

/* The same of a call whose function, in `s[1]`, leaves by a tail call, which is all of `s[2]`. */
static ALWAYS_INLINE bool calls_is_tail_leaf(const struct calls_machine *m,
					     const struct ptah_span *s)
{
	const struct calls_entry *e, *tail;

	if (s[2].to != s->end || s->to == s->end || !calls_goes_on(s, &s[1]) ||
	    !calls_goes_on(&s[1], &s[2]) || m->top + 2 >= m->limit || s->tsc != m->now.tsc ||
	    s->cycles != m->now.counts.cycles)
		return false;
	e = calls_plain(m, s->to, &s[1]);
	tail = calls_plain(m, s[1].to, &s[2]);
	return e && e->called && tail && !calls_entry_holds(e, s[1].to) &&
	       !(e->function_flags & PTAH_FUNCTION_SWITCH) &&
	       !(tail->flags & PTAH_CALL_NO_BOUNDS) &&
	       !(tail->function_flags & PTAH_FUNCTION_FRAGMENT);
}

/* Such calls, `n` of them, have been taken, with `instructions`. `last`: the last span of them. */
static ALWAYS_INLINE void calls_pass(struct calls_machine *m, const struct ptah_span *last,
				     unsigned n, uint64_t instructions)
{
	m->last_id += n;
	m->now.tsc_error = last->tsc_error;
	m->now.offset = last->offset;
	m->now.counts.instructions += instructions;
	m->end = last->to;
	m->site = last->end - last->last_size;
	if (UNLIKELY(!calls_is_inside(m, last->to)))
		calls_settle(m, last->to);
}

#endif
