/* SPDX-License-Identifier: MIT */
/*
 * The tables of paths, for the files that share them: path_tables.c makes and grows them,
 * path_learn.c finds out what a packet does, path_run.c and span_run.c take packets by them.
 */
#ifndef PTAH_FLOW_PATH_TABLES_H
#define PTAH_FLOW_PATH_TABLES_H

#include "base/hash.h"
#include "event/packet_group.h"
#include "flow/paths.h"

/*
 * The tables are emptied when they exceed these limits, about 140 and 64 MB. A compiler's run, one
 * of the largest programs measured, has 79,221 places.
 */
#define MAX_PLACES  ((size_t)1 << 17)
#define MAX_WORDS   ((size_t)8 << 20)
#define TARGETS	    4096
#define TRANSITIONS 2048

/* Blocks in one path. The flow carries out packets with more. */
#define MAX_BLOCKS 64

/*
 * Blocks and steps are copied in groups, whether all of a group are needed or not: most paths are
 * one group, and the number of blocks in it cannot be predicted.
 */
#define BLOCK_GROUP 8
#define STEP_GROUP  8

/* Words that can be read after the last path. */
#define SLACK_WORDS ((size_t)2 * BLOCK_GROUP)

#define TAKEN_BIT 3
_Static_assert(PTAH_ITEM_TAKEN == 1 << TAKEN_BIT, "TAKEN_BIT");

/*
 * What a place's row has for a payload; [0] is for the TIP. [1], which no payload has, holds the
 * place's node. A place's number is the index of its row, so that one load from this entry finds
 * the next entry; nothing else is on that chain of loads.
 */
union entry {
	struct {
		uint32_t path; /* PATH_*, or the path's position and how many blocks it has */
		uint32_t next; /* NEXT_* and the place after the packet, or the remaining payload */
	};
	struct code_node *node;
};

/* A path's number: its position in units of two words, and below that its number of blocks. */
#define COUNT_BITS 7
_Static_assert(MAX_BLOCKS < 1 << COUNT_BITS, "COUNT_BITS");
_Static_assert(MAX_WORDS / 2 << COUNT_BITS <= UINT32_MAX, "COUNT_BITS");

/* What else an entry knows of a packet, besides blocks and the next place (0: not known yet). */
#define NEXT_PUSHES ((uint32_t)1 << 31) /* it pushes return sites, at least in between */
/*
 * Its last branch is a return to a call from before the packet. In a TNT's entry the payload after
 * that return stands in place of the next place.
 */
#define NEXT_POPS  ((uint32_t)1 << 30)
#define NEXT_KINDS (NEXT_PUSHES | NEXT_POPS)

#define ROW 128

/* Rows are one cache line longer than they need to be, so that they do not share cache sets. */
#define STRIDE (ROW + 8)
_Static_assert(MAX_PLACES *STRIDE < NEXT_POPS, "a place beside NEXT_*");

enum {
	PATH_NEVER = 0,	  /* not seen */
	PATH_SEEN = 1,	  /* once: the path is made the second time */
	PATH_REFUSED = 2, /* too complex for a path: the flow carries it out every time */
	PATH_FIRST = 1 << COUNT_BITS,
};

#define FIRST_WORD 2 /* so that no path's number is less than PATH_FIRST */

/*
 * A path: this header, then its blocks, the return sites of the calls that it leaves open, its
 * nodes with bit 0 for "taken", and the node after it, if that is always the same. The last node is
 * that of a TIP's branch or of a return to a call from before the packet.
 */
struct path {
	uint32_t ninsn;	   /* the sum over its nodes */
	uint32_t steps_at; /* where its steps are, in words; 0: not asked for yet */
	uint8_t blocks;
	uint8_t pushes; /* calls it leaves open */
	uint8_t reach;	/* how many more entries the stack had in between than before */
	uint8_t cut;	/* its last block is a part of a node: only that of a transition */
	uint8_t reserved[4];
};

#define PATH_WORDS (sizeof(struct path) / 8)
#define SITE_WORDS (sizeof(struct return_site) / 8)
_Static_assert(sizeof(struct path) % 16 == 0, "blocks lie where they are copied best");
_Static_assert(sizeof(struct return_site) % 8 == 0, "paths lie in an array of words");
_Static_assert(sizeof(struct ptah_block) == 16, "two words");

static ALWAYS_INLINE struct ptah_block *blocks_of(const struct path *p)
{
	return (struct ptah_block *)(p + 1);
}

static ALWAYS_INLINE struct return_site *open_calls_of(const struct path *p)
{
	return (struct return_site *)(blocks_of(p) + p->blocks);
}

static ALWAYS_INLINE uint64_t *nodes_of(const struct path *p)
{
	return (uint64_t *)(open_calls_of(p) + p->pushes);
}

static ALWAYS_INLINE struct code_node **node_after(const struct path *p)
{
	return (struct code_node **)(nodes_of(p) + p->blocks);
}

/*
 * In tables for spans a path is this header, then the spans that end in it, and the return sites of
 * the calls that it leaves open. A path in which no span ends, and after which the place is always
 * the same, is not stored: its entry has the number of its instructions in place of the path's
 * position.
 */
struct span_path {
	uint32_t ninsn; /* after the last span */
	uint8_t pushes, reach;
	bool blocks; /* of a transition: there are some; `to` of one more span is after them */
	uint8_t reserved;
	struct code_node *node; /* after the packet, if that is always the same */
};

/* What is always the same about a span, except where its last branch is indirect or a return. */
struct span_end {
	uint64_t end, to;
	uint32_t ninsn; /* in this path */
	uint32_t word;	/* the lower half of a span's last word: class, size, mode 0, flags */
};

_Static_assert(sizeof(struct ptah_span) == 64 && offsetof(struct ptah_span, insn_class) == 56 &&
		   offsetof(struct ptah_span, mode) == 58 &&
		   offsetof(struct ptah_span, space) == 60,
	       "the last word of a span");

#define SPAN_PATH_WORDS (sizeof(struct span_path) / 8)
#define SPAN_END_WORDS	(sizeof(struct span_end) / 8)

static ALWAYS_INLINE struct span_end *span_ends_of(const struct span_path *p)
{
	return (struct span_end *)(p + 1);
}

/* A cache of places by the address of a TIP, one entry for each hash. */
struct target {
	uint64_t ip;
	uint32_t context; /* space and mode, plus 1; 0: free */
	uint32_t place;
};

/*
 * A place without code: tracing is off. It lies in the row of place 0, which stays empty, so that
 * no TNT or TIP is ever known there.
 */
#define PLACE_OFF 1

/*
 * What packets that belong together do at a place (event/packet_group.h). The flow has carried them
 * out once to find it out. These are kept in a cache with one entry for each hash.
 */
struct transition {
	uint64_t ip, to;   /* the addresses that the packets carry, or 0 */
	uint32_t place;	   /* 0: free */
	uint32_t kind;	   /* enum packet_group_kind, and whether there is `to` */
	union entry entry; /* its path: the blocks that the packets prove */
};

struct flow_paths {
	union entry *rows; /* STRIDE entries for each place; place 0 is none */
	size_t place_count, place_capacity;
	uint64_t *words;
	size_t word_count, word_capacity;
	uint8_t mode;		  /* the mode of the places on the return address stack */
	struct flow_arena *arena; /* the flow's */
	bool full;		  /* as large as they may be, or out of memory: to be emptied */
	bool spans;		  /* they are tables for spans */
	struct target targets[TARGETS];
	struct transition transitions[TRANSITIONS];
};

/* Makes room for n more words; existing ones may move. NULL: the tables are full. */
uint64_t *paths_new_words(struct flow_paths *s, size_t n);

/* Forgets the places of return sites: in another mode they are other places. */
void paths_forget_sites(struct ptah_flow *f);

/* Makes a place of the node. 0: the tables are full. */
uint32_t paths_make_place(struct flow_paths *s, struct code_node *node);

/* Makes a place of the node if it has been reached often enough, else returns 0. */
uint32_t paths_count_visit(struct flow_paths *s, struct code_node *node, uint32_t *known);

static ALWAYS_INLINE uint32_t paths_place_of(struct flow_paths *s, struct code_node *node)
{
	uint32_t *known = code_place(node);

	return LIKELY(*known >= STRIDE) ? *known : paths_count_visit(s, node, known);
}

static ALWAYS_INLINE struct code_node *paths_node_at(const struct flow_paths *s, uint32_t place)
{
	return s->rows[place + 1].node;
}

static ALWAYS_INLINE struct path *path_of(const uint64_t *words, union entry entry)
{
	return (struct path *)(words + 2 * (size_t)(entry.path >> COUNT_BITS));
}

/* The number of the path at these words, of so many blocks or spans. */
static inline uint32_t paths_number(const struct flow_paths *s, const void *path, unsigned count)
{
	return (uint32_t)((const uint64_t *)path - s->words) / 2 << COUNT_BITS | count;
}

static ALWAYS_INLINE unsigned count_of(union entry entry)
{
	return entry.path & ((1u << COUNT_BITS) - 1);
}

static ALWAYS_INLINE size_t paths_slot(uint64_t ip)
{
	return (size_t)(hash_number(ip) >> 40) % TARGETS;
}

static ALWAYS_INLINE struct transition *paths_transition(struct flow_paths *s, uint32_t place,
							 uint64_t ip, uint64_t to)
{
	const uint64_t key = (ip ^ to << 1) + ((uint64_t)place << 20);

	return &s->transitions[(size_t)(hash_number(key) >> 40) % TRANSITIONS];
}

static ALWAYS_INLINE uint32_t paths_group_kind(const struct packet_group *g)
{
	return g->kind << 1 | g->has_to;
}

static ALWAYS_INLINE bool paths_is_transition(const struct transition *x, uint32_t place,
					      const struct packet_group *g)
{
	return x->place == place && x->ip == g->ip && x->to == g->to &&
	       x->kind == paths_group_kind(g);
}

/* A return's place, where its site does not have it or has it for another mode; or 0. */
uint32_t paths_find_return(struct ptah_flow *f, const struct return_site *site);

/* The place of a TIP's target, which the cache does not have; or 0. */
uint32_t paths_find_target(struct ptah_flow *f, uint64_t ip, uint32_t context);

/* The flow continues from a node, with the outcomes of a payload. */
static ALWAYS_INLINE uint32_t paths_leave(struct ptah_flow *f, struct code_node *node,
					  unsigned payload)
{
	const unsigned n = highest_bit(payload);

	f->node = node;
	f->tnt = payload & ((1u << n) - 1);
	f->tnt_count = n;
	return 0;
}

/*
 * The flow's place, if it is one with a row in tables for spans or for the other forms; else 0.
 */
uint32_t paths_enter(struct ptah_flow *f, bool spans);

/*
 * Learns what a payload does at a place, when it is met there for the second time. False: the flow
 * has to carry it out.
 */
bool paths_learn(struct ptah_flow *f, uint32_t place, unsigned payload);

/* The same for packets that belong together: what they do at the flow's place, which is `place`. */
bool paths_learn_group(struct ptah_flow *f, uint32_t place, const uint8_t *pos, uint64_t last_ip,
		       const struct packet_group *g);

/* The place where tracing is off, if the flow is there and a TIP.PGE may follow; else 0. */
uint32_t paths_enter_off(struct ptah_flow *f, bool spans);

/*
 * Without events: takes a PSB+ at a place, if nothing changes but that the return address stack is
 * empty, which is the caller's. Returns the position after it, or NULL: the flow has to do it.
 */
const uint8_t *paths_pass_psb(struct ptah_flow *f, uint32_t place, const uint8_t *pos,
			      const uint8_t *end, uint64_t *last_ip);

/* The same for what comes while tracing is off: flow_pass_off(), for paths. */
bool paths_pass_off(struct ptah_flow *f, const uint8_t **pos, const uint8_t *end,
		    uint64_t *last_ip);

/* Writes what is always the same about these spans. */
void paths_put_ends(struct span_end *ends, struct ptah_span *spans, unsigned n);

/* Lists the path's steps. False: that cannot be done. The path may move. */
bool paths_learn_steps(struct ptah_flow *f, struct path *p);

#endif
