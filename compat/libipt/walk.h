/* SPDX-License-Identifier: MIT */
/*
 * What the instruction and the block decoder share: a walk through the items of a flow, which keeps
 * beside them what libipt reports about the processor.
 *
 * Items are read in batches, ahead of what has been reported. An event becomes pending where its
 * item is. libipt reports some events elsewhere: the state in a PSB+ at the PSB+'s address, a
 * change of CR3 after the far branch that brings it. Such an event waits until the walk reaches
 * that place.
 *
 * Between events, a block decoder reads blocks without time and offset (ptah_flow_read_blocks()),
 * which is several times as fast. When something else than the next block is asked for, the flow
 * goes back to its mark and reads items up to the same place again (walk_leave_blocks()).
 */
#ifndef PTAH_LIBIPT_WALK_H
#define PTAH_LIBIPT_WALK_H

#include "pt_config.h"
#include "pt_event.h"
#include "pt_image.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE    __attribute__((noinline))

/* Items in a batch: so few that reading them again costs little (see walk_step_back()). */
#define WALK_BATCH 256

/* Room to read further ahead than the batch, for the time of an event that follows. */
#define WALK_ROOM 32

/* Items in a batch where blocks are read as such: then there are items only around events. */
#define WALK_FEW_ITEMS 32

/* Blocks read at once, and the number of blocks between events from which on that pays. */
#define WALK_BLOCKS	 512
#define WALK_MANY_BLOCKS 64

/* The most instructions in one of Ptah's blocks. */
#define WALK_INSNS 255

/* Sections that are remembered with their isids; a power of two. */
#define WALK_SECTIONS 16

#define WALK_PENDING 16

/* Where libipt reports an event, relative to its item. */
enum walk_place {
	WALK_HERE,
	WALK_AT_IP,	    /* before the instruction at its address */
	WALK_BEHIND_IP,	    /* after it */
	WALK_BEHIND_BRANCH, /* after the next branch that needs trace */
	WALK_BEHIND_COUNT,  /* after a number of instructions */
};

struct walk_event {
	struct pt_event event;
	struct ptah_item item; /* from which the event was made */
	bool at_last;	       /* more is to be reported about the item's last packet */
	uint64_t ip;	       /* for AT_IP and BEHIND_IP */
	unsigned count;	       /* for BEHIND_COUNT: instructions still to come */
	uint16_t ratio;	       /* the core's ratio, once libipt has read this event */
	uint8_t place;
};

/* The bytes [first, last] belong to one section. An unused entry has last = 0, first = 1. */
struct walk_section {
	uint64_t first, last;
	uint32_t section, space;
	int isid;
};

/*
 * The items of a batch that have not been reported yet. While there are blocks (see below), `next`
 * has no meaning.
 */
struct walk_items {
	const struct ptah_item *next, *end;
	unsigned dropped; /* items of the batch that were removed from the array */
	unsigned skip;	  /* instructions at `next` that have been reported already */
};

/* The instructions of *items.next; `pos` is the next to be reported. */
struct walk_insns {
	bool loaded; /* they have been decoded */
	uint16_t pos, count;
};

/* Blocks that have not been reported yet. While there are any, there are no items. */
struct walk_blocks {
	const struct ptah_block *next, *end;
	unsigned told;	/* reported since the mark, and removed from the array */
	unsigned read;	/* since the walk reads blocks */
	unsigned wait;	/* batches until the walk may read blocks again */
	unsigned asked; /* how often the caller asked for a time or an offset while the walk read
			   blocks */
	bool are_last;	/* after those in the array comes something else */
	bool has_tail;	/* `tail` is the last block in the array, and needs trace */
	struct ptah_item tail;
};

/* Sections of the image: that of the last block, and some more. */
struct walk_sections {
	struct walk_section at;
	struct walk_section known[WALK_SECTIONS];
};

/* What libipt reports about the traced processor, as of the last event. */
struct walk_state {
	bool enabled, speculative;
	uint8_t mode; /* enum pt_exec_mode */
	uint16_t ratio;
	uint64_t ip; /* while not enabled: where tracing is expected to resume */
	uint64_t cr3, vmcs;
	uint64_t event_tsc; /* time of the last event */
};

/* Events that wait to be reported, in a ring. */
struct walk_pending {
	unsigned first, count;
	bool passed; /* the walk has passed the branch or the instruction that the first one waits
			for */
	bool after_cut; /* the last block was cut at an event */
	bool forced;	/* the first one does not wait any longer: its place cannot be reached */
	int refused;	/* the error with which walk_event() refuses the first one, or 0 */
	struct event_state conversion;
	struct walk_event events[WALK_PENDING];
};

/* Where in the trace the walk began and where it is. */
struct walk_position {
	const struct ptah_item *now; /* the last item with a time of its own; NULL: see `was` */
	bool synced;
	bool running;	      /* the items are those of the PSB at `sync` */
	bool backward;	      /* sync_backward led here, and only the PSB+ was reported since */
	bool resynced;	      /* nothing was reported since walk_resync() succeeded */
	uint64_t sync;	      /* offset of the PSB */
	uint64_t stop_offset; /* while not running: the last offset */
	struct ptah_item
	    was; /* a copy: of `now` in the batch before, or of the last event's item */
	bool was_at_last;
};

/* Why there are no more items, and what follows them in the code without proof in the trace. */
struct walk_stop {
	int error;	       /* 0: there are more */
	bool is_item;	       /* the error is an item of the batch */
	struct ptah_item item; /* a copy of that item */
	uint64_t
	    offset;    /* of the packet that could not be read; UINT64_MAX: it was another error */
	bool eos_told; /* libipt, too, would report the end of the trace */
	unsigned used_up;	 /* items of the batch that were used when it happened */
	struct ptah_place place; /* where the code continues */
	bool ahead;	     /* the items do not come from the trace but from the code at `place` */
	unsigned ahead_told; /* instructions of such items that were reported */
};

struct walk {
	/*
	 * The fast paths may be taken: the next item is a block with no instruction reported yet,
	 * tracing is on, and nothing else is to be considered.
	 */
	bool quick;
	bool by_insn; /* it belongs to an instruction decoder */
	bool ticks;   /* the caller asked for tick events */
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

	/* The arrays are last, so that what every call uses lies together. */
	struct ptah_insn insn_room[WALK_INSNS];
	/* [0] is the last item of the batch before. */
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

/* All items are reported: reads blocks instead, if that pays. False: it does not. */
bool walk_enter_blocks(struct walk *walk);

/* Reads more blocks; those not reported move to the front of the array. False: there are none. */
bool walk_more_blocks(struct walk *walk);

/* Continues with items. */
void walk_leave_blocks(struct walk *walk);

static inline bool walk_has_blocks(const struct walk *walk)
{
	return walk->blocks.next != walk->blocks.end;
}

/* What comes next. */
enum walk_next {
	WALK_BLOCK, /* *items.next, or the rest of it */
	WALK_EVENT, /* an event is pending */
	WALK_END,   /* nothing more: walk->stop.error is the reason */
};

enum walk_next walk_look(struct walk *walk);

/*
 * Like walk_look(), but before the end come instructions that follow in the code without proof in
 * the trace. A block's instructions are loaded.
 */
enum walk_next walk_load(struct walk *walk);

/* The caller's error code at WALK_END. */
int walk_fail(struct walk *walk);

/* The same, at a branch of this class, which needs trace that does not come. */
int walk_refuse(struct walk *walk, unsigned insn_class);

/* The status flags after the last report. */
int walk_status(struct walk *walk);

int walk_event(struct walk *walk, struct pt_event *event, size_t size);

/* Where tick events are on: makes one pending if the time has changed with position.now. */
void walk_tick(struct walk *walk, uint64_t ip);

/* The address of what comes next. */
uint64_t walk_ip(struct walk *walk);

/* Makes the section with the byte at `ip` the current one, walk->sections.at. */
void walk_find_section(struct walk *walk, uint64_t ip, uint32_t space);

/* Whether the block lies in the current section. */
static inline bool walk_in_section(const struct walk *walk, const struct ptah_item *block)
{
	return block->code.section == walk->sections.at.section &&
	       block->ip >= walk->sections.at.first && block->end - 1 <= walk->sections.at.last;
}

/* The next instruction of the loaded block was reported. It may have been the last. */
void walk_pass_insn(struct walk *walk);

/* Whether a branch of this class needs trace. Such branches end libipt's blocks. */
static inline bool walk_needs_trace(unsigned insn_class)
{
	const unsigned direct = 1u << PTAH_INSN_OTHER | 1u << PTAH_INSN_JUMP |
				1u << PTAH_INSN_CALL | 1u << PTAH_INSN_PTWRITE;

	return !(direct >> insn_class & 1);
}

extern const uint8_t walk_classes[PTAH_INSN_CLASS_MAX];

#endif
