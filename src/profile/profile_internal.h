/* SPDX-License-Identifier: MIT */
/*
 * struct ptah_profile and what the files of this layer share.
 *
 * A state is a place in the code where execution may be between two packets: the address after the
 * last deciding branch. Its row says for every TNT-8 payload which state follows and how often that
 * happened. A TIP leads to the state of its address, and the pair of the two states is counted. So
 * the common packets are counted, not carried out; expand.c carries out each distinct one once,
 * times its count.
 *
 * Packets that belong together (TIP.PGD, FUP and TIP, PSB+) are transitions: what the flow reported
 * for them at a state the first time is kept, and counted when they come again.
 *
 * rows.c: what a packet does at a state. row_loop.c: the loop over packets. groups.c: transitions.
 * late_stack.c: the return address stack, only when it is needed. run.c: rows and flow in turns.
 * count_items.c: what the flow reports. tally.c: counts by block and by edge. expand.c: from rows
 * to tallies. merge.c: from another profile to tallies. coverage.c: the same by executions, with a
 * bitmap. beside.c: a second profile that must count the same.
 */
#ifndef PTAH_PROFILE_PROFILE_INTERNAL_H
#define PTAH_PROFILE_PROFILE_INTERNAL_H

#include "base/hash.h"
#include "event/packet_group.h"
#include "event/time_window.h"
#include "flow/route.h"

#include <ptah/profile.h>

/*
 * A row has an entry for each payload of a TNT-8 (with its stop bit). Entry 0 is for a TIP. Entry
 * 1, which no payload has, belongs to a state that compressed returns lead to: `next` is the
 * returning branch and `count` how often it returned here. If several branches do, the others are
 * counted as pairs.
 */
#define ROW	   128
#define ROW_RETURN 1

/*
 * A state's number is the index of its row, so that an entry is found without a multiplication.
 * Rows are one cache line longer than they need to be: with a power of two between them, the same
 * entries of all rows would share a few cache sets.
 */
#define STRIDE (ROW + 8)

/*
 * A large program has tens of thousands of places, most of them with a few outcomes. Its rows would
 * be spread over so much memory that most look-ups wait for a cache or the TLB. So its states have
 * a line of the cache each: seven entries, and in place of the first one the seven tags. The tag of
 * an entry is its payload plus 1; 0: free. With more entries than that, the state has a row as well
 * (struct ptah_profile's `wide`) for all that are not in the line. Its number is then the `next` of
 * the last entry of the line, the tag of which is TAG_WIDE.
 */
#define LINE	  8
#define LINE_LAST (LINE - 1)
#define TAG_WIDE  0xff

/* The `next` of an entry: the next state, if it is more than these; or one of these. */
enum {
	NEXT_UNKNOWN = 0,
	/* In a TIP's entry: the TIP leads to the state of its address, without effect on the stack.
	 */
	NEXT_PLAIN = 1,
	/*
	 * Every other entry that is not simple has a negative number. ~next is the number of an
	 * effect or, with this bit and in a payload's entry, a compressed return.
	 */
	NEXT_RETURN = 1 << 30,
};

/*
 * A compressed return: the payload of the outcomes after it (1: none), and above that the number of
 * the return branch's own state, divided by STRIDE.
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
	/*
	 * A bit for each cache line of the row in which a payload's entry is known. Not used where
	 * the state has a line in place of a row.
	 */
	uint16_t lines;
};

/* Entries in a cache line. */
#define LINE_ENTRIES 8
_Static_assert(sizeof(struct row_entry) * LINE_ENTRIES == 64, "a cache line");
_Static_assert(ROW / LINE_ENTRIES <= 16, "struct state: lines");

/*
 * What a packet does to the return address stack. Four effects in a cache line: large programs have
 * many.
 */
#define EFFECT_PUSHES 2

struct effect {
	int32_t next; /* the next state; 0: that of a TIP; negative: a return, as in an entry */
	uint8_t pushes;
	uint8_t reach; /* how many more entries the stack had in between than before */
	bool pops;     /* of a TIP: a return, whose entry is popped at the end */
	/*
	 * The return sites to push. If there are more of them, the last element is their index in
	 * `more`.
	 */
	int32_t push[EFFECT_PUSHES];
};

_Static_assert(sizeof(struct effect) == 16, "a quarter of a cache line");

/*
 * The return address stack lies in a larger ring, because both elements of `push` are always
 * written.
 */
#define STACK_RING (2 * STACK_SIZE)

/* A hash table of states by address. */
struct target {
	uint64_t ip;
	uint32_t context; /* space and mode */
	int32_t state;	  /* 0: free */
};

/*
 * How often a state or a compressed return led to a state, where the entry itself has no room for
 * it.
 */
struct pair {
	uint64_t
	    key; /* from << 32 | to; `from` is a state or RETURN_BRANCH() | FROM_RETURN; 0: free */
	uint64_t count;
};

#define FROM_RETURN (UINT64_C(1) << 63)

/*
 * What a group of packets does at a state: the blocks that it proves to have run, and the place
 * after it. In `touched` a transition is its number with both bits of FROM_GROUP. No pair has both:
 * a state's number may have bit 30, which is bit 62 of the key, but has no bit 31, and
 * RETURN_BRANCH() has fewer than 30 bits.
 */
struct transition {
	uint64_t ip, to; /* as in struct packet_group */
	int32_t from;
	uint8_t kind; /* enum packet_group_kind, and TRANSITION_TO if it has_to */
	uint8_t block_count;
	int32_t next;	/* a state, or TRANSITION_OFF */
	uint32_t first; /* of its blocks, in `blocks_run` */
	/* The last TIP.PGE after it led to this state. */
	uint64_t enter_ip;
	uint32_t enter_context;
	int32_t enter_state; /* 0: none yet */
	uint64_t count;	     /* as that of a pair */
};

#define FROM_GROUP (UINT64_C(3) << 62)
_Static_assert(((uint64_t)INT32_MAX << 32 & FROM_GROUP) != FROM_GROUP, "FROM_GROUP");
#define TRANSITION_TO	  0x80
#define TRANSITION_OFF	  (-1)
#define TRANSITION_BLOCKS 32 /* more are left to the flow */

struct tally_block {
	uint64_t ip, end, head; /* `head`: the item's class, mode, ninsn, last_size and TRUNCATED */
	uint64_t target;	/* of a direct branch, else 0 */
	uint64_t count, taken, unknown;
	uint64_t version, target_version; /* code_version() */
	uint32_t space, section;
};

struct tally_edge {
	uint64_t from, to;
	uint64_t count;
	uint64_t version, target_version;
	uint32_t space;
	uint8_t mode, insn_class;
};

/* The hash is beside the number, so that an item is read only where it is the one. */
struct tally_slot {
	uint32_t item; /* index in `items`, plus 1; 0: free */
	uint32_t hash;
};

/* A growing array with a hash table over it. */
struct tally {
	void *items;
	size_t count, capacity, item_size;
	struct tally_slot *slots;
	size_t slot_count;
	struct flow_arena *arena; /* both tables lie in it; NULL: the heap */
};

struct ptah_profile {
	struct ptah_flow *flow;
	struct ptah_profile_config config;
	bool stack_matters; /* returns may be compressed */
	/*
	 * Returns may be compressed, and none was yet. The rows do without the stack, as if it did
	 * not matter; where the flow takes over, it is found out from the packets since `begin`
	 * (late_stack.c). After the first compressed return, `stack_matters` is set instead.
	 */
	bool late_stack, compressed;
	/* While late_stack: bytes that the loop took, and bytes followed again for the stack. */
	uint64_t looped, followed;
	int status; /* PTAH_E_NOMEM or PTAH_E_INTERNAL, once that has happened */

	struct row_entry *rows; /* STRIDE or LINE for each state; state 0 is none */
	bool lines;		/* states have lines */
	struct row_entry *wide; /* rows of states with more entries than a line has; STRIDE each */
	size_t wide_count, wide_capacity;
	size_t used_wide;     /* as used_states */
	struct state *states; /* see profile_at() */
	size_t state_count, state_capacity;
	size_t used_states; /* the rows from here on have never been used, so they are zero */
	struct target *targets;
	size_t target_slots;
	struct effect *effects;
	size_t effect_count, effect_capacity;
	int32_t *more; /* return sites of effects with many pushes, ROUTE_PUSHES for each */
	size_t more_count;
	struct pair *pairs;
	size_t pair_count, pair_slots;
	struct transition *transitions; /* index 0 is none */
	size_t transition_count, transition_capacity;
	uint32_t *transition_slots; /* a hash table of their numbers; 0: free */
	size_t transition_slot_count;
	struct ptah_item *blocks_run;
	size_t blocks_run_count, blocks_run_capacity;
	/*
	 * The group that ended the loop because its transition is not known: the flow carries it
	 * out from state `from`. Kind PACKET_GROUP_NONE: none.
	 */
	struct packet_group unknown;
	int32_t unknown_from;
	bool no_groups; /* all groups are left to the flow, because the caller wants their events */
	uint64_t budget; /* packets that can be counted before a count may exceed 32 bits */
	bool counted;	 /* rows or pairs may have counts that are not 0 */
	/* Where the loop stops; NULL stops it at once, because a table is full. */
	const uint8_t *end;

	/* The place and the stack while the rows have them, and not the flow. */
	int32_t state;
	uint32_t context;
	unsigned top, depth;
	int32_t stack[STACK_RING];

	/* For late_stack: where the stack was last known, and it. */
	struct {
		const uint8_t *pos;
		uint64_t ip, last_ip;
		unsigned depth;
		uint64_t sites[STACK_SIZE];
	} begin;

	/*
	 * The last indirect branch: the state that its TIP was taken at, or 0 and the edge that the
	 * flow counted. See move_arrival().
	 */
	int32_t came_from;
	struct tally_edge arrival;

	struct tally blocks, edges;
	struct ptah_profile_totals totals; /* only errors, overflows, gaps, first_error */

	/* What lies outside is decoded and not counted. */
	struct time_window window;

	struct ptah_profile *beside; /* the second profile of beside.c, or NULL */

	/*
	 * The coverage that this profile counts for, or NULL: then the members below are not used.
	 */
	struct ptah_coverage *coverage;
	/*
	 * What has been counted since the last settling, in order of the first count: an entry's
	 * index in `rows`, or a pair's key.
	 */
	uint64_t *touched;
	size_t touched_count, touched_capacity;
};

static inline bool profile_is_group(uint64_t touched)
{
	return (touched & FROM_GROUP) == FROM_GROUP;
}

/* A coverage settles its counts when it has touched this many, at the latest. */
#define MOST_TOUCHED ((size_t)1 << 20)

/* rows.c */

/* A state's index in `states`. */
static inline int32_t profile_index(const struct ptah_profile *p, int32_t state)
{
	return p->lines ? state / LINE : state / STRIDE;
}

/* What is known of a state besides its row. */
static inline struct state *profile_at(const struct ptah_profile *p, int32_t state)
{
	return &p->states[profile_index(p, state)];
}

static ALWAYS_INLINE unsigned profile_position(unsigned payload)
{
	return 1 + (payload - (payload * 147 >> 10) * 7);
}

/* Looks for an entry that is not in its usual position. */
struct row_entry *profile_in_rest_of_line(struct row_entry *line, struct row_entry *wide,
					  unsigned payload);

/*
 * The entry of a payload in a line. NULL: it has none. Each payload has a position of its own in
 * every line, where it usually is; payloads that differ in one outcome differ in that position. So
 * the processor has the entry as early as that of a row, and compares the tag later.
 */
static ALWAYS_INLINE struct row_entry *profile_in_line(struct row_entry *rows,
						       struct row_entry *wide, int32_t state,
						       unsigned payload)
{
	const unsigned usual = profile_position(payload);
	struct row_entry *line = &rows[state];

	if (LIKELY(((const uint8_t *)line)[usual] == payload + 1))
		return &line[usual];
	return profile_in_rest_of_line(line, wide, payload);
}

/* The entry of a payload (0: of a TIP, ROW_RETURN) at a state, NULL if it has none. */
static ALWAYS_INLINE struct row_entry *profile_find_entry(const struct ptah_profile *p,
							  int32_t state, unsigned payload)
{
	return p->lines ? profile_in_line(p->rows, p->wide, state, payload)
			: &p->rows[(uint32_t)state + payload];
}

static inline size_t profile_target_slot(const struct ptah_profile *p, uint64_t ip,
					 uint32_t context)
{
	return (size_t)(hash_number(ip ^ (uint64_t)context << 40) >> 32) & (p->target_slots - 1);
}

static inline size_t profile_pair_slot(const struct ptah_profile *p, uint64_t key)
{
	return (size_t)(hash_number(key) >> 32) & (p->pair_slots - 1);
}

/*
 * The state of an address in the current context (p->context), made if needed. 0 when out of
 * memory.
 */
int32_t profile_state(struct ptah_profile *p, uint64_t ip);

/* As profile_find_entry(), but made if needed. NULL when out of memory. */
struct row_entry *profile_entry(struct ptah_profile *p, int32_t state, unsigned payload);

/* Whether the program has so many places that lines are better. */
bool profile_is_large(const struct ptah_profile *p);

/* From now on states have lines. The rows must have been forgotten. */
void profile_use_lines(struct ptah_profile *p);

/* Finds out what a TNT-8 with this payload does. False: the flow has to carry it out this time. */
bool profile_make_entry(struct ptah_profile *p, int32_t state, unsigned payload);

/* The same for a TIP. */
bool profile_make_tip(struct ptah_profile *p, int32_t state);

/* The pair of a key, made if needed. NULL when out of memory. */
struct pair *profile_pair(struct ptah_profile *p, uint64_t key);

/* Notes that something was counted for the first time. False when out of memory. */
bool profile_touch(struct ptah_profile *p, uint64_t key);

/*
 * Called for each node that a packet passes. `taken` is for a conditional branch, `to` for a return
 * (else NULL).
 */
typedef void profile_visit(struct ptah_profile *p, const struct code_node *node, bool taken,
			   const uint64_t *to, uint64_t times);

/*
 * Calls visit for each node that the packet of an entry passes; for a TIP (payload 0) its branch is
 * the last. Returns the node where the packet ends: of a TIP, the branch.
 */
const struct code_node *profile_walk(struct ptah_profile *p, int32_t state, unsigned payload,
				     profile_visit *visit, uint64_t times);

/* Forgets rows, states, effects and pairs; their counts must have been expanded before. */
void profile_forget_rows(struct ptah_profile *p);
int profile_rows_init(struct ptah_profile *p);
void profile_rows_fini(struct ptah_profile *p);

/* Counts an item that the flow or a caller reports. */
void profile_count_item(struct ptah_profile *p, const struct ptah_item *item);

/* Counts a block `times` times. NULL when out of memory. */
struct tally_block *profile_count_block(struct ptah_profile *p, const struct ptah_item *item,
					uint64_t times);

/* The target of a block's direct branch. The item does not have it, so it comes from the code. */
uint64_t profile_target_of(struct ptah_profile *p, const struct ptah_item *item);

/*
 * Follows changes of the image: the code cache forgets changed code, and all rows are forgotten
 * with it.
 */
void profile_follow_image(struct ptah_profile *p);

/*
 * Whether the tables are as large as they may be. Then their counts are to be expanded and the rows
 * forgotten.
 */
bool profile_is_full(const struct ptah_profile *p);

/* late_stack.c */

/* The return address stack is empty at `pos`, where execution is at `ip`. */
static inline void profile_empty_stack(struct ptah_profile *p, uint64_t ip, const uint8_t *pos,
				       uint64_t last_ip)
{
	p->begin.ip = ip;
	p->begin.pos = pos;
	p->begin.last_ip = last_ip;
	p->begin.depth = 0;
}

/*
 * Finding the stack takes more time than rows save that leave it alone: in executions of some
 * hundred bytes, which the flow ends each time. A byte that is followed again takes about 22 ns,
 * one that is counted with the stack 0.8 ns more than one without (avscript32 of
 * docs/benchmarks.md, gcc 12, Zen 4). The first megabyte is for code that is new: there the flow
 * takes over all the time.
 */
static inline bool profile_follows_much(const struct ptah_profile *p)
{
	return p->followed > p->looped / 24 + (1u << 20);
}

/* The loop begins at the flow's place, with the flow's stack. */
void profile_note_stack(struct ptah_profile *p);

/* The loop has ended at the event decoder's position: gives the flow its stack. */
void profile_find_stack(struct ptah_profile *p);

/* groups.c */

/*
 * Takes the group of packets at *pos, where execution is at *state, as take_group() in
 * flow/packet_loop.h does. The loop has stored the stack's top and depth.
 */
bool profile_take_group(struct ptah_profile *p, int32_t *state, const uint8_t **pos,
			const uint8_t *end, uint64_t *last_ip);

/*
 * The flow is off: passes packets up to a TIP.PGE from the event decoder's position on. Sets
 * p->state, or leaves it 0.
 */
void profile_pass_off(struct ptah_profile *p);

/* Lets the flow carry out the group p->unknown, and makes its transition if it can be remembered.
 */
void profile_learn_group(struct ptah_profile *p, bool *starved);

void profile_forget_groups(struct ptah_profile *p);
void profile_groups_fini(struct ptah_profile *p);

static ALWAYS_INLINE bool profile_is_transition(const struct transition *t, int32_t from,
						const struct packet_group *g)
{
	return t->from == from && t->to == g->to && t->ip == g->ip &&
	       t->kind == (g->kind | (g->has_to ? TRANSITION_TO : 0));
}

static ALWAYS_INLINE size_t profile_transition_slot(const struct ptah_profile *p, int32_t from,
						    uint64_t ip, uint64_t to, unsigned kind)
{
	uint64_t h = hash_number(ip ^ rotate_left(to, 21));

	h = (h ^ (uint64_t)from << 8 ^ kind) * UINT64_C(0xd6e8feb86659fd93);
	return (size_t)(h >> 32) & (p->transition_slot_count - 1);
}

static inline const struct ptah_item *profile_blocks_of(const struct ptah_profile *p,
							const struct transition *t)
{
	return t->block_count ? p->blocks_run + t->first : NULL;
}

/* row_loop.c */

/* Bytes taken in one run at most, so that no count wraps: a byte is counted 8 times at most. */
#define PROFILE_STRETCH	 ((ptrdiff_t)1 << 28)
#define PROFILE_PER_BYTE 8

/*
 * Counts packets from the event decoder's position and from p->state on, or, while tracing is
 * `off`, from the next TIP.PGE on. Afterwards the flow has the place again.
 */
void profile_run_rows(struct ptah_profile *p, bool off);

/* run.c: counts what was fed. Returns 0, PROFILE_PAUSED or an error. */
int profile_run(struct ptah_profile *p);

/*
 * profile.c: for the session layer, which brings a profile to a place in its trace: feeds bytes
 * without counting them, and carries out one packet of them like flow_read_packet().
 */
/* ptah_profile_seek(), to a place as for event_restart(). */
void profile_restart(struct ptah_profile *p, uint64_t offset);

int profile_feed_only(struct ptah_profile *p, const void *bytes, size_t n, bool last);
int profile_pass_packet(struct ptah_profile *p, struct ptah_item *items, size_t capacity,
			bool *starved);

/* Like flow_set_space(). */
int profile_set_space(struct ptah_profile *p, const struct ptah_space *space);

/* Only what is inside is counted from now on. */
void profile_set_window(struct ptah_profile *p, const struct time_window *window);

/* Counts an item that comes from the caller and not from the flow. */
void profile_add_item(struct ptah_profile *p, const struct ptah_item *item);

/* Calls profile_expand() and compares the result with the second profile's. */
int profile_count_up(struct ptah_profile *p);

/* beside.c. All but the first two are for profiles with p->beside only. */

/*
 * Creates the second profile, if the configuration or the build asks for it. Without memory nothing
 * is compared.
 */
void beside_begin(struct ptah_profile *p);
void beside_end(struct ptah_profile *p);

/*
 * Both profiles have reached the end of what was fed, the second with status `beside`. Returns the
 * profile's status.
 */
int beside_stands(struct ptah_profile *p, int beside);

/* Both have all their counts in tallies. Returns the profile's status. */
int beside_counted(struct ptah_profile *p);

/* expand.c */

void profile_add_block(struct ptah_profile *p, const struct code_node *node, bool taken,
		       uint64_t times);
void profile_add_edge(struct ptah_profile *p, const struct code_node *branch, uint64_t to,
		      uint64_t times);
/* The version of the code at an address, in this mode and space. */
uint64_t profile_version(struct ptah_profile *p, uint64_t ip, unsigned mode, unsigned space);
struct tally_edge profile_edge_of(struct ptah_profile *p, const struct code_node *branch,
				  uint64_t to);

void profile_add_return(struct ptah_profile *p, int32_t branch, int32_t site, uint64_t times);

/* Adds the counts of the rows to the tallies and sets them to 0. */
int profile_expand(struct ptah_profile *p);

/* coverage.c */

/* Adds the counts of what was touched to the bitmap and the memos, and sets them to 0. */
int coverage_settle(struct ptah_profile *p);

/* What profile_expand() is for a profile, for a coverage. */
int coverage_expand(struct ptah_profile *p);

/* Called when rows are forgotten. Their counts must have been expanded before. */
void coverage_forget_memos(struct ptah_profile *p);
bool coverage_is_full(const struct ptah_profile *p);

/* What profile_count_block() is for a profile, for a coverage: also for its bitmap. */
void coverage_count_block(struct ptah_profile *p, const struct ptah_item *item);

/* merge.c */

/* What a profile has counted, taken out of it. */
struct profile_part {
	struct tally blocks, edges;
	struct ptah_profile_totals totals;
	struct ptah_space *spaces; /* indexed by the numbers in blocks and edges */
	size_t space_count;
};

/* Moves everything counted to *part; the profile starts again at 0. */
int profile_take_part(struct ptah_profile *p, struct profile_part *part);

/* Adds a part to another profile: all of it, or nothing and an error. */
int profile_add_part(struct ptah_profile *into, const struct profile_part *part);
void profile_free_part(struct profile_part *part);

/* The same for a profile that has counted nothing: takes over the part, which is freed. */
int profile_give_part(struct ptah_profile *into, struct profile_part *part);

/*
 * Adds a part to another and frees it. Both must have no address space but the first. When it fails
 * both can only be freed.
 */
int profile_join_parts(struct profile_part *into, struct profile_part *from);

/* Moves the errors, overflows and gaps out of a profile, whose other counts stay. */
void profile_take_totals(struct ptah_profile *p, struct ptah_profile_totals *totals);

/* tally.c: the entry of a key, made if needed. NULL when out of memory. */
struct tally_block *tally_block(struct tally *t, const struct tally_block *key);
struct tally_edge *tally_edge(struct tally *t, const struct tally_edge *key);
/* Makes room for so many new entries, so that adding them cannot fail. False when out of memory. */
bool tally_reserve_blocks(struct tally *t, size_t more);
bool tally_reserve_edges(struct tally *t, size_t more);
void tally_clear(struct tally *t);
void tally_free(struct tally *t);

/*
 * As flow_set_time_limit(): at the limit feed() returns PROFILE_PAUSED, and the bytes are still
 * needed. Set a later limit and call profile_resume().
 */
#define PROFILE_PAUSED 1

void profile_set_time_limit(struct ptah_profile *profile, uint64_t tsc);

/*
 * Adds what `from` has counted, as if its bytes had been fed to `into`, too.
 * `from` keeps its counts, and `into` its position in its trace. Address spaces
 * are distinguished by their CR3 and VMCS values. Both profiles should have the
 * same image, or clones of it: blocks count as the same when their space,
 * addresses and shape are the same, whatever bytes they had, and keep the section
 * that `into` knew first. first_error stays that of `into`, if it had errors.
 * PTAH_E_NOMEM, PTAH_E_LIMIT (too many address spaces): nothing was added.
 * PTAH_E_INVAL for a profile with itself. Sums do not overflow: 2^64 blocks take
 * a century.
 */
int profile_merge(struct ptah_profile *into, struct ptah_profile *from);

/* Continues with the rest of the bytes. Returns what feed returns. */
int profile_resume(struct ptah_profile *profile);

/*
 * ptah_coverage_run() in pieces: begin, feed until `last`, end. The bitmap is complete after the
 * end, and is cleared by the next begin.
 */
int coverage_begin(struct ptah_coverage *coverage);
int coverage_feed(struct ptah_coverage *coverage, const void *bytes, size_t n, bool last);
int coverage_end(struct ptah_coverage *coverage, struct ptah_coverage_result *result);

/* Empties the sets; what is known of the code stays. Not between begin and end. */
int coverage_reset(struct ptah_coverage *coverage);

#endif
