/* SPDX-License-Identifier: MIT */
/*
 * The profile's inside.
 *
 * A state is a place where the flow may stand between two packets: the address
 * behind the last decided branch. Its row says for every TNT-8 payload which
 * state follows and how often that happened; a TIP leads to the state of its
 * address, and the pair is counted. So the common packets are counted, not
 * carried out; expand.c carries each distinct one out once, times its count.
 *
 * rows.c: what a packet does at a state. row_loop.c: the loop over packets. run.c: rows and flow in
 * turns. count_items.c: what the flow reports.
 * tally.c: counts by block and by edge. expand.c: from rows to these. merge.c:
 * from another profile to these. coverage.c: the same by executions, with a bitmap.
 * beside.c: a plain flow that must count the same.
 */
#ifndef PTAH_PROFILE_PROFILE_INTERNAL_H
#define PTAH_PROFILE_PROFILE_INTERNAL_H

#include "flow/route.h"

#include <ptah/profile.h>

/*
 * A row: an entry for each payload of a TNT-8, stop bit and all. Entry 0 is for
 * the TIP. Entry 1, which no payload has, is of a place that returns lead to: how
 * often the branch in its `next` did. There is mostly but one.
 */
#define ROW	   128
#define ROW_RETURN 1

/*
 * A state's number is where its row begins, so that an entry is found without
 * a multiplication. Rows are a line longer than they need be: with a power of
 * two between them the same entries of all rows would share a few cache sets.
 */
#define STRIDE (ROW + 8)

/* In an entry's `next`: a state, or not so simple. */
enum {
	NEXT_UNKNOWN = 0,
	/* Of a TIP's entry */
	NEXT_PLAIN = 1, /* leads to the state of its address, and no more */
			/*
			 * Of both: negative. ~next is the number of an effect or, of a payload
			 * with this bit, a compressed return.
			 */
	NEXT_RETURN = 1 << 30,
};

/*
 * A compressed return: the payload of the outcomes behind it (1: none), and above
 * that the number of the return's own state, from 1 on and not times STRIDE.
 */
#define RETURN_REST_BITS    6
#define RETURN_REST(code)   ((unsigned)(code) & ((1u << RETURN_REST_BITS) - 1))
#define RETURN_BRANCH(code) ((int32_t)(((code) & ~NEXT_RETURN) >> RETURN_REST_BITS))

struct row_entry {
	int32_t next;
	uint32_t count;
};

struct state {
	uint64_t ip;
	struct code_node *node; /* NULL: not looked up, or not mapped */
	uint16_t space;
	uint8_t mode;
};

/*
 * What a packet does to the call stack. Four in a cache line: large programs
 * have many.
 */
#define EFFECT_PUSHES 2

struct effect {
	int32_t next; /* the state behind it; 0: that of a TIP; negative: as an entry's, a return */
	uint8_t pushes;
	uint8_t reach; /* how far the stack was up in between */
	bool pops;     /* TIP: a return whose entry is taken off in the end */
	/* The return sites. If there are more, the last is where in `more` the others are. */
	int32_t push[EFFECT_PUSHES];
};

_Static_assert(sizeof(struct effect) == 16, "a quarter of a cache line");

/*
 * The call stack's entries lie in a larger ring: what an effect has room for is
 * written, whether it is as much or not.
 */
#define STACK_RING (2 * STACK_SIZE)

/* States by address. */
struct target {
	uint64_t ip;
	uint32_t context; /* space and mode */
	int32_t state;	  /* 0: free */
};

/* How often a state, or a compressed return, led to a state by address. */
struct pair {
	uint64_t
	    key; /* from << 32 | to, `from` a state or RETURN_BRANCH() | FROM_RETURN; 0: free */
	uint64_t count; /* of a coverage: 32 bits; above them the memo's number */
};

#define FROM_RETURN (UINT64_C(1) << 63)

struct tally_block {
	uint64_t ip, end, head; /* the item's: class, mode, ninsn, last_size, TRUNCATED */
	uint64_t target;	/* of a direct branch, else 0 */
	uint64_t count, taken, unknown;
	uint32_t space, section;
};

struct tally_edge {
	uint64_t from, to;
	uint64_t count;
	uint32_t space;
	uint8_t mode, insn_class;
};

/* A growing array with a hash over it. */
struct tally {
	void *items;
	size_t count, capacity;
	uint32_t *slots; /* number of an item, plus 1 */
	size_t slot_count;
};

struct ptah_profile {
	struct ptah_flow *flow;
	struct ptah_profile_config config;
	bool stack_matters; /* returns may be compressed */
	int status;	    /* PTAH_E_NOMEM, PTAH_E_INTERNAL once it was */

	struct row_entry *rows; /* STRIDE for each state; state 0 is none */
	struct state *states;	/* see profile_at() */
	size_t state_count, state_capacity;
	struct target *targets;
	size_t target_slots;
	struct effect *effects;
	size_t effect_count, effect_capacity;
	int32_t *more; /* of effects with many pushes: ROUTE_PUSHES each */
	size_t more_count;
	struct pair *pairs;
	size_t pair_count, pair_slots;
	uint64_t budget; /* packets until a count may not fit its 32 bits */
	bool counted;	 /* rows or pairs may have counts that are not 0 */
	/* Where the loop stops; NULL once the tables are as large as they may be. */
	const uint8_t *end;

	/* Where we are, while it is us and not the flow. */
	int32_t state;
	uint32_t context;
	unsigned top, depth;
	int32_t stack[STACK_RING];

	struct tally blocks, edges;
	struct ptah_profile_totals totals; /* only errors, overflows, gaps, first_error */

	struct ptah_profile *beside; /* see beside.c; NULL: nothing is compared */

	/* Who counts by executions, or NULL: then what follows is not used. */
	struct ptah_coverage *coverage;
	/* What has a count, in the order of its first: an entry's place in `rows`, a pair's key. */
	uint64_t *touched;
	size_t touched_count, touched_capacity;
	uint32_t *marks; /* one for each entry of the rows; 0 at first */
};

/* A coverage's counts are settled at the latest when there are so many. */
#define MOST_TOUCHED ((size_t)1 << 20)

/* rows.c */

/* What is known of a state. */
static inline struct state *profile_at(const struct ptah_profile *p, int32_t state)
{
	return &p->states[state / STRIDE];
}

static inline size_t profile_target_slot(const struct ptah_profile *p, uint64_t ip,
					 uint32_t context)
{
	return (size_t)((ip ^ (uint64_t)context << 40) * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
	       (p->target_slots - 1);
}

static inline size_t profile_pair_slot(const struct ptah_profile *p, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (p->pair_slots - 1);
}

/* The state of an address in the context of now. 0 when out of memory. */
int32_t profile_state(struct ptah_profile *p, uint64_t ip);

/* Finds out what a TNT-8 of this payload does. False: it is the flow's, this time. */
bool profile_make_entry(struct ptah_profile *p, int32_t state, unsigned payload);

/* The same of a TIP. */
bool profile_make_tip(struct ptah_profile *p, int32_t state);

/* The pair of a key, made at need. NULL when out of memory. */
struct pair *profile_pair(struct ptah_profile *p, uint64_t key);

/* One more that is touched. False when out of memory. */
bool profile_touch(struct ptah_profile *p, uint64_t key);

/* A node that a packet passes; `taken` of a conditional branch, `to` of a return (else NULL). */
typedef void profile_visit(struct ptah_profile *p, const struct code_node *node, bool taken,
			   const uint64_t *to, uint64_t times);

/*
 * Calls visit for what the packet of an entry passes; for the TIP (payload 0)
 * for its branch, too. Returns where it ends: of a TIP, the branch.
 */
const struct code_node *profile_walk(struct ptah_profile *p, int32_t state, unsigned payload,
				     profile_visit *visit, uint64_t times);

/* Forgets rows, states, effects and pairs; their counts must have been expanded. */
void profile_forget_rows(struct ptah_profile *p);
int profile_rows_init(struct ptah_profile *p);
void profile_rows_fini(struct ptah_profile *p);

/* An item of the flow, or of those who feed us, goes into the counts. */
void profile_count_item(struct ptah_profile *p, const struct ptah_item *item);

/* A block of the flow's. NULL when out of memory. */
struct tally_block *profile_count_block(struct ptah_profile *p, const struct ptah_item *item);

/* Where a block's direct branch leads: an item does not say, the code that was read does. */
uint64_t profile_target_of(struct ptah_profile *p, const struct ptah_item *item);

/* The code cache follows the image, and the rows follow it. */
void profile_follow_image(struct ptah_profile *p);

/* As large as they may be: their counts are to be expanded, and they forgotten. */
bool profile_is_full(const struct ptah_profile *p);

/* row_loop.c */

/* At most this many bytes in one go, so that no count wraps: a byte counts 8 times at most. */
#define PROFILE_STRETCH	 ((ptrdiff_t)1 << 28)
#define PROFILE_PER_BYTE 8

/*
 * Counts packets from the event decoder's position on, from p->state. In the end the flow has the
 * position again.
 */
void profile_run_rows(struct ptah_profile *p);

/* run.c: counts what has been fed. 0, PTAH_PROFILE_PAUSED or an error. */
int profile_run(struct ptah_profile *p);

/*
 * profile.c: for those who bring a profile to a place in its trace: bytes that
 * are not counted, and one packet of them, as flow_read_packet() reads it.
 */
int profile_feed_only(struct ptah_profile *p, const void *bytes, size_t n, bool last);
int profile_pass_packet(struct ptah_profile *p, struct ptah_item *items, size_t capacity,
			bool *starved);

/* As flow_set_space(). */
int profile_set_space(struct ptah_profile *p, const struct ptah_space *space);

/* An item that is not the flow's. */
void profile_add_item(struct ptah_profile *p, const struct ptah_item *item);

/* profile_expand(), and the result is compared. */
int profile_count_up(struct ptah_profile *p);

/* beside.c; all but the first two only where p->beside is. */

/* As the configuration or the build wants it; without memory nothing is compared. */
void beside_begin(struct ptah_profile *p);
void beside_end(struct ptah_profile *p);

/* Both have come to an end of what was fed, the other one with this status. The profile's status.
 */
int beside_stands(struct ptah_profile *p, int beside);

/* Both have all counts in their tallies. The status of the profile. */
int beside_counted(struct ptah_profile *p);

/* expand.c */

void profile_add_block(struct ptah_profile *p, const struct code_node *node, bool taken,
		       uint64_t times);
void profile_add_edge(struct ptah_profile *p, const struct code_node *branch, uint64_t to,
		      uint64_t times);

void profile_add_return(struct ptah_profile *p, int32_t branch, int32_t site, uint64_t times);

/* The counts of the rows become counts of blocks and edges, and 0. */
int profile_expand(struct ptah_profile *p);

/* coverage.c */

/* The counts of what is touched go into the bitmap and the memos, and become 0. */
int coverage_settle(struct ptah_profile *p);

/* A coverage's profile_expand(). */
int coverage_expand(struct ptah_profile *p);

/* With the rows. What they have counted must have been expanded. */
void coverage_forget_memos(struct ptah_profile *p);
bool coverage_is_full(const struct ptah_profile *p);

/* A coverage's profile_count_item(), of a block. */
void coverage_count_block(struct ptah_profile *p, const struct ptah_item *item);

/* merge.c */

/* What a profile has counted, taken out of it. */
struct profile_part {
	struct tally blocks, edges;
	struct ptah_profile_totals totals;
	struct ptah_space *spaces; /* by the numbers in blocks and edges */
	size_t space_count;
};

/* Everything counted goes into *part, and the profile begins at 0. */
int profile_take_part(struct ptah_profile *p, struct profile_part *part);

/* ... and into another one: all of it or, with an error, nothing. */
int profile_add_part(struct ptah_profile *into, const struct profile_part *part);
void profile_free_part(struct profile_part *part);

/* tally.c: NULL when out of memory. */
struct tally_block *tally_block(struct tally *t, const struct tally_block *key);
struct tally_edge *tally_edge(struct tally *t, const struct tally_edge *key);
/* Room for so many new ones: adding them does not fail then. False when out of memory. */
bool tally_reserve_blocks(struct tally *t, size_t more);
bool tally_reserve_edges(struct tally *t, size_t more);
void tally_clear(struct tally *t);
void tally_free(struct tally *t);

#endif
