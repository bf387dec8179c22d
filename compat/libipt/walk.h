/* SPDX-License-Identifier: MIT */
/*
 * What the instruction and the block decoder share: a walk through the items
 * of a flow, with libipt's state of things beside it.
 *
 * Items are read in batches, ahead of what has been told. An event becomes
 * pending at its place; where Ptah puts one elsewhere than libipt does (the state
 * of a PSB+ at the PSB+ instead of at its address, a change of CR3 before the far
 * branch that brings it instead of behind it), it waits until its place is reached.
 *
 * A block decoder reads blocks without their time and offset between events
 * (ptah_flow_read_blocks()), several times as quick. When something else than the
 * next block is wanted, the flow goes back to its mark and comes again to where we
 * are, with items (walk_leave_blocks()).
 */
#ifndef PTAH_LIBIPT_WALK_H
#define PTAH_LIBIPT_WALK_H

#include "pt_config.h"
#include "pt_event.h"
#include "pt_image.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE    __attribute__((noinline))

/* Items read at once: as many as cost little to read again (see walk_step_back()). */
#define WALK_BATCH 256

/* Room to look further ahead than the batch, for the time of an event that is coming. */
#define WALK_ROOM 32

/* The same where blocks are read as such: there are items around events only. */
#define WALK_FEW_ITEMS 32

/* Blocks read at once, and how many there must be between events for it to pay. */
#define WALK_BLOCKS	 512
#define WALK_MANY_BLOCKS 64

/* Instructions of a block of Ptah's. */
#define WALK_INSNS 255

/* Sections whose place and isid are remembered; a power of two. */
#define WALK_SECTIONS 16

#define WALK_PENDING 16

/* Where an event belongs that is not where its item is. */
enum walk_place {
	WALK_HERE,
	WALK_AT_IP,	    /* before the instruction at its address */
	WALK_BEHIND_IP,	    /* behind it */
	WALK_BEHIND_BRANCH, /* behind the next branch that needs trace */
	WALK_BEHIND_COUNT,  /* behind so many instructions */
};

struct walk_event {
	struct pt_event event;
	struct ptah_item item; /* that it came of */
	bool at_last;	       /* there is more to tell of the item's last packet */
	uint64_t ip;	       /* of AT_IP, BEHIND_IP */
	unsigned count;	       /* of BEHIND_COUNT: instructions still to come */
	uint16_t ratio;	       /* of the core's clock, once it is read */
	uint8_t place;
};

/* The bytes [first, last] are of one section. Never an empty one: last = 0, first = 1. */
struct walk_section {
	uint64_t first, last;
	uint32_t section, space;
	int isid;
};

/*
 * The items of the flow that have not been reported yet, out of a batch that was read at once.
 * While there are blocks (see below), `next` does not count.
 */
struct walk_items {
	const struct ptah_item *next, *end;
	unsigned dropped; /* items of the batch that are no longer in the array */
	unsigned skip;	  /* instructions of what comes next that have been reported already */
};

/* The instructions of *items.next, reported up to `pos`. */
struct walk_insns {
	bool loaded; /* there are any */
	uint16_t pos, count;
};

/* Blocks that have not been reported yet. While there are any, there are no items. */
struct walk_blocks {
	const struct ptah_block *next, *end;
	unsigned told;	/* since the mark, and no longer in the array */
	unsigned read;	/* since blocks are read as such */
	unsigned wait;	/* for so many batches, until they may be again */
	unsigned asked; /* how often times or offsets were asked for meanwhile */
	bool are_last;	/* behind those in the array comes something else */
	bool has_tail;	/* `tail` is the last in the array, and needs trace */
	struct ptah_item tail;
};

/* Sections of the image: where the last block was, and others that are remembered. */
struct walk_sections {
	struct walk_section at;
	struct walk_section known[WALK_SECTIONS];
};

/* What libipt knows of the traced processor, as events have reported it. */
struct walk_state {
	bool enabled, speculative;
	uint8_t mode; /* enum pt_exec_mode */
	uint16_t ratio;
	uint64_t ip; /* while not enabled: where tracing is expected to resume */
	uint64_t cr3, vmcs;
	uint64_t event_tsc; /* of the last event */
};

/* Events that are pending, or will be at their place: a ring. */
struct walk_pending {
	unsigned first, count;
	bool passed;	/* the branch or the instruction that the first waits for */
	bool after_cut; /* the last block ended where an event is */
	bool forced;	/* the first waits no longer: its place was not reached */
	struct event_state conversion;
	struct walk_event events[WALK_PENDING];
};

/* Where in the trace the walk has begun, and where it is. */
struct walk_position {
	const struct ptah_item *now; /* the last that moved the time; NULL: see `was` */
	bool synced;
	bool running;	      /* items are of the PSB at `sync` */
	bool backward;	      /* sync_backward led here, and only a PSB+ was reported since */
	uint64_t sync;	      /* offset of the PSB */
	uint64_t stop_offset; /* while not running: where the walk was */
	struct ptah_item was; /* what `now` was in the batch before, or the last event */
	bool was_at_last;
};

/* Why there are no more items, and what runs beyond them without proof in the trace. */
struct walk_stop {
	int error;	       /* 0: there are more */
	bool is_item;	       /* the error is an item of the batch: */
	struct ptah_item item; /* this one */
	uint64_t offset;       /* of the packet that could not be read; UINT64_MAX: another error */
	bool eos_told;	       /* the end of the trace is in sight for libipt, too */
	unsigned used_up;      /* items of the batch, when it came to this */
	struct ptah_place place; /* where the code goes on */
	bool ahead;		 /* the items are not of the trace: what lies ahead of `place` */
	unsigned ahead_told;	 /* instructions of these */
};

struct walk {
	/*
	 * Nothing is to be heeded: there is an item, a block of one section, no instruction of it
	 * is reported, tracing is on, and no event is pending.
	 */
	bool quick;
	bool by_insn; /* an instruction decoder's */
	bool ticks;   /* tick events are asked for */
	struct walk_insns insns;
	struct walk_items items;
	struct walk_state state;
	struct walk_blocks blocks;
	struct walk_position position;
	struct walk_sections sections;
	struct walk_pending pending;
	struct walk_stop stop;

	struct config config;
	struct ptah_flow *flow;
	struct image_user user;
	struct pt_image *image, *own_image;

	/* The arrays are last, so that what is used at each call lies together. */
	struct ptah_insn insn_room[WALK_INSNS];
	/* [0]: the last item of the batch before. */
	struct ptah_item item_room[1 + WALK_BATCH + WALK_ROOM];
	struct ptah_block block_room[WALK_BLOCKS];
};

int walk_init(struct walk *walk, const struct pt_config *config, bool by_insn);
void walk_fini(struct walk *walk);

int walk_sync_forward(struct walk *walk);
int walk_sync_backward(struct walk *walk);
int walk_sync_set(struct walk *walk, uint64_t offset);
int walk_resync(struct walk *walk);
int walk_set_image(struct walk *walk, struct pt_image *image);

int walk_offset(struct walk *walk, uint64_t *offset);
int walk_sync_offset(const struct walk *walk, uint64_t *offset);
int walk_time(struct walk *walk, uint64_t *tsc, uint32_t *lost_mtc, uint32_t *lost_cyc);
int walk_ratio(struct walk *walk, uint32_t *ratio);
int walk_asid(const struct walk *walk, struct pt_asid *asid, size_t size);

/*
 * The items are told: reads blocks instead, if it pays and nothing else is to be heeded.
 * False: it does not.
 */
bool walk_enter_blocks(struct walk *walk);

/* More blocks behind those not told, which move to the array's front. False: there are none. */
bool walk_more_blocks(struct walk *walk);

/* On with items. */
void walk_leave_blocks(struct walk *walk);

static inline bool walk_has_blocks(const struct walk *walk)
{
	return walk->blocks.next != walk->blocks.end;
}

/* What comes next. */
enum walk_next {
	WALK_BLOCK, /* *next, or the rest of it */
	WALK_EVENT, /* an event is pending */
	WALK_END,   /* nothing more: walk->stop.error says why */
};

enum walk_next walk_look(struct walk *walk);

/* As walk_look(), and what runs without proof comes before the end; a block is loaded. */
enum walk_next walk_load(struct walk *walk);

/* The code of WALK_END, which is told now. */
int walk_fail(struct walk *walk);

/* The same, at a branch of this class that needs trace. */
int walk_refuse(struct walk *walk, unsigned insn_class);

/* The status flags after what was told last. */
int walk_status(struct walk *walk);

int walk_event(struct walk *walk, struct pt_event *event, size_t size);

/* With tick events: one is pending if the time has moved with *now. */
void walk_tick(struct walk *walk, uint64_t ip);

/* Where we stand: the address of what comes next. */
uint64_t walk_ip(struct walk *walk);

/* walk->sections.at becomes the section that the byte at `ip` is in. */
void walk_find_section(struct walk *walk, uint64_t ip, uint32_t space);

/* Does it hold the block? */
static inline bool walk_in_section(const struct walk *walk, const struct ptah_item *block)
{
	return block->code.section == walk->sections.at.section &&
	       block->ip >= walk->sections.at.first && block->end - 1 <= walk->sections.at.last;
}

/* The next instruction of the loaded block has been told. The block may be over with it. */
void walk_pass_insn(struct walk *walk);

/* Needs trace: ends libipt's blocks. */
static inline bool walk_needs_trace(unsigned insn_class)
{
	const unsigned direct = 1u << PTAH_INSN_OTHER | 1u << PTAH_INSN_JUMP |
				1u << PTAH_INSN_CALL | 1u << PTAH_INSN_PTWRITE;

	return !(direct >> insn_class & 1);
}

extern const uint8_t walk_classes[PTAH_INSN_CLASS_MAX];

#endif
