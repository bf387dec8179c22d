/* SPDX-License-Identifier: MIT */
/*
 * Flow: which instructions ran.
 *
 * Events and an image become blocks: runs of instructions without a branch in
 * between, in the order they ran, with the events at their places among them.
 * A block covers the addresses [ip, end) and ends at its first branch
 * instruction, at an event, or at an arbitrary cut (class OTHER).
 *
 *	ptah_flow_new(image, NULL, &flow);
 *	ptah_flow_feed(flow, bytes, n, true);
 *	while ((k = ptah_flow_read(flow, items, 256)) > 0)
 *		for (i = 0; i < k; i++)
 *			if (items[i].type == PTAH_ITEM_BLOCK)
 *				total += items[i].ninsn;
 *	ptah_flow_free(flow);
 *
 * Feeding and threads as in event.h. The image must live as long as the flow
 * and may change between two calls of read, or by on_missing. Memory is a function of the
 * distinct code that ran, never of the trace's length.
 *
 * Only what the trace proves is reported: instructions behind the last packet
 * are not guessed, unless asked for (ptah_flow_ahead).
 */
#ifndef PTAH_FLOW_H
#define PTAH_FLOW_H

#include <ptah/event.h>
#include <ptah/image.h>

PTAH_BEGIN_DECLS

/*
 * Code that is not in the image: the byte at `address` is needed to go on. May
 * add it, and more, to the flow's image, where nothing is mapped yet; true says
 * that it did. Code is read a block ahead of what has run, so an address may be
 * asked for that the trace does not come to. What is refused stays an error at
 * the place that needs it, and is seldom asked for again before the next seek.
 * `space` is where the code is looked up in. Must not use the flow itself.
 */
typedef bool ptah_missing_code(void *context, uint64_t address, const struct ptah_space *space);

struct ptah_flow_config {
	size_t size; /* sizeof(struct ptah_flow_config) */
	/*
	 * Its size may be 0. Of events.trace a flow uses
	 *
	 *	ranges	    A TIP.PGD may come without its address: at a conditional
	 *		    branch (SDM Table "TIP.PGD Packet Definition"), which has left
	 *		    the ranges then, and by erratum SKL014. Without ranges the
	 *		    branch's outcome is PTAH_ITEM_UNKNOWN.
	 *	no_tnt	    The outcomes of conditional branches, and compressed returns,
	 *		    are not in the trace. What follows such a branch, up to the
	 *		    next packet with an address, is reported as PTAH_ITEM_GAP.
	 *	no_retcomp  An outcome at a return is an error.
	 */
	struct ptah_event_config events;
	/* Follows every branch anew, and remembers no paths: slow, and the same items. */
	bool no_paths;
	bool no_huge_pages; /* does not ask the system for large pages */
	/*
	 * ptah_flow_read() returns behind every item that is no block, so that the image
	 * can be changed there: all that is told later is read from the image of then.
	 */
	bool stop_at_events;
	ptah_missing_code *on_missing; /* or NULL */
	void *missing_context;
};

struct ptah_flow;

PTAH_API int ptah_flow_new(const struct ptah_image *image, const struct ptah_flow_config *config,
			   struct ptah_flow **flow);
PTAH_API void ptah_flow_free(struct ptah_flow *flow);
PTAH_API int ptah_flow_feed(struct ptah_flow *flow, const void *bytes, size_t n, bool last);
PTAH_API int ptah_flow_read(struct ptah_flow *flow, struct ptah_item *items, size_t capacity);

/* As ptah_event_seek(): the next bytes fed are those at `offset`. Code that is known stays known.
 */
PTAH_API void ptah_flow_seek(struct ptah_flow *flow, uint64_t offset);

/* The clocks where the flow stands now. */
PTAH_API void ptah_flow_time(const struct ptah_flow *flow, struct ptah_time *time);

/*
 * Pauses before time `tsc`: read() returns 0 and ptah_flow_paused() is true
 * once the trace reaches a time stamp at or after it, with everything before
 * reported. Set a later limit (UINT64_MAX: none) to go on. This is where the
 * caller changes the image to what it was at that time.
 */
PTAH_API void ptah_flow_set_time_limit(struct ptah_flow *flow, uint64_t tsc);
PTAH_API bool ptah_flow_paused(const struct ptah_flow *flow);

/*
 * The address space that a block's `space` stands for, as PIP and VMCS packets
 * have told it; 0 is any: none was told. PTAH_E_INVAL for another number.
 */
PTAH_API int ptah_flow_space(const struct ptah_flow *flow, unsigned number,
			     struct ptah_space *space);

/* One instruction of a block. */
struct ptah_insn {
	uint64_t ip;
	uint8_t size;
	uint8_t insn_class; /* enum ptah_insn_class */
	uint8_t mode;	    /* enum ptah_exec_mode */
	uint8_t bytes[15];
};

/*
 * The instructions of a block that this flow has just returned. Writes
 * min(capacity, block->ninsn) entries and returns how many; negative when the
 * code is no longer in the image.
 */
PTAH_API int ptah_flow_insns(const struct ptah_flow *flow, const struct ptah_item *block,
			     struct ptah_insn *insns, size_t capacity);

/* A block without its time and place in the trace: what the item of the same names says. */
struct ptah_block {
	uint64_t ip;
	uint16_t size; /* in bytes */
	uint16_t space;
	uint8_t ninsn;
	unsigned insn_class : 4; /* enum ptah_insn_class */
	unsigned last_size : 4;	 /* bytes of its last instruction */
	uint8_t mode, flags;
};

/* An instruction that ran. */
struct ptah_step {
	uint64_t ip;
	uint8_t size, insn_class, mode;
	uint8_t flags; /* TAKEN with a conditional branch that was, SPECULATIVE */
	uint16_t space;
	uint16_t reserved;
};

/*
 * Reads on by blocks, or by instructions, up to the next item that is no block:
 * several times as quick as ptah_flow_read(). Writes up to `capacity` of them
 * (PTAH_FLOW_MIN_BLOCKS, PTAH_FLOW_MIN_STEPS at least) and returns how many. 0:
 * what comes next is no block, or nothing, and ptah_flow_read() returns it. What
 * lies in the array behind them may have been written over.
 *
 *	do {
 *		while ((k = ptah_flow_read_blocks(flow, blocks, 1024)) > 0)
 *			...
 *	} while ((k = ptah_flow_read(flow, items, 1)) > 0);
 */
#define PTAH_FLOW_MIN_BLOCKS 1
#define PTAH_FLOW_MIN_STEPS  255

PTAH_API int ptah_flow_read_blocks(struct ptah_flow *flow, struct ptah_block *blocks,
				   size_t capacity);

PTAH_API int ptah_flow_read_steps(struct ptah_flow *flow, struct ptah_step *steps, size_t capacity);

/*
 * The last of the blocks that ptah_flow_read_blocks() has just written, as the item
 * that ptah_flow_read() would have made of it: with its time and offset. False: that
 * is not known, as it came with others at once, or nothing was written. It is known
 * mostly where an event comes next.
 */
PTAH_API bool ptah_flow_last_block(const struct ptah_flow *flow, struct ptah_item *item);

/*
 * Marks where the flow stands, and goes back there: for those who read ahead and
 * are told that the image changes before what they have read. There is one mark,
 * a copy of a few kilobytes. It holds until the next feed() or seek(), for any
 * number of rewinds, and the bytes fed must stay as long. What is read again over
 * the same image is the same; the callbacks are called again for it, and
 * on_missing for what it has refused, too. A time limit stays as it is.
 *
 * mark: PTAH_E_NOMEM, the first time only. rewind: PTAH_E_INVAL without a mark;
 * the flow stays where it is.
 */
PTAH_API int ptah_flow_mark(struct ptah_flow *flow);
PTAH_API int ptah_flow_rewind(struct ptah_flow *flow);

/* A place in the code, and how the code there is read. */
struct ptah_place {
	uint64_t ip;
	uint8_t mode; /* enum ptah_exec_mode; 0: no place */
	uint8_t reserved;
	uint16_t space; /* see ptah_flow_space() */
};

/*
 * Where the flow stands behind what ptah_flow_read() has returned last: what it has
 * not told yet begins here. PTAH_E_NO_IP: nowhere, because tracing is off or has lost
 * its way. Items that come before the next block (exec-mode, paging) may change how
 * the code there is read. An error item's ip, mode
 * and space are the place where the flow stood when it met the error.
 */
PTAH_API int ptah_flow_place(const struct ptah_flow *flow, struct ptah_place *place);

/*
 * What runs from a place on if nothing interrupts it: blocks up to the first whose
 * branch needs a packet, that one included. The trace proves none of them; it is
 * what lies behind its last packet, or before an error. Over the image of now, and
 * the flow stays where it is. Writes up to `capacity` and returns how many; *place
 * moves behind them, and is no place behind a branch that needs a packet. 0: it is
 * no place. PTAH_E_NO_CODE, PTAH_E_BAD_INSN: nothing can be read there.
 * PTAH_E_NO_PROGRESS: a loop that needs no packet begins there, or leads there.
 */
PTAH_API int ptah_flow_ahead(struct ptah_flow *flow, struct ptah_place *place,
			     struct ptah_item *blocks, size_t capacity);

/*
 * After an error of the code (PTAH_E_NO_CODE, PTAH_E_BAD_INSN, PTAH_E_MISMATCH,
 * PTAH_E_BAD_RETCOMP, PTAH_E_NO_PROGRESS), which ptah_flow_read() returns last of a
 * batch, and before anything else is read: goes on at the next packet that tells an
 * address, with the time, the mode and the address space of now, instead of at the
 * next PSB. That may be the packet that was being carried out; and events without an
 * address, that one among them, are told in between as ever. Outcomes up to there and
 * the return stack are dropped. PTAH_E_INVAL when the last item was no such error:
 * packets that cannot be understood tell no address either.
 *
 * Where TIPs stand behind outcomes that are lost (SDM "Deferred TIPs") it goes on at
 * the first of them, and may have to be asked again.
 */
PTAH_API int ptah_flow_resync(struct ptah_flow *flow);

/*
 * Reads code out of another image from now on, which must live as long as the flow
 * or until the next such call. Where the flow stands stays; the mark goes.
 */
PTAH_API int ptah_flow_set_image(struct ptah_flow *flow, const struct ptah_image *image);

PTAH_END_DECLS

#endif
