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
 * Feeding and threads are as in event.h. The image must live as long as the flow.
 * The caller may change it between two calls of read, or in on_missing. The
 * memory that a flow takes grows with the distinct code that ran, not with the
 * length of the trace.
 *
 * Only what the trace proves is reported. The instructions after the last packet
 * are not guessed; ptah_flow_ahead() does that on request.
 */
#ifndef PTAH_FLOW_H
#define PTAH_FLOW_H

#include <ptah/event.h>
#include <ptah/image.h>

PTAH_BEGIN_DECLS

/*
 * Called for code that is not in the image: the byte at `address` is needed to
 * continue. The callback may add this and more code to the flow's image, where
 * nothing is mapped yet; true says that it did. Code is read a block ahead of
 * what has run, so it may be asked for an address that the trace does not reach.
 * What it refuses stays an error where it is needed, and is seldom asked for
 * again before the next seek. `space` is the address space in which the code is
 * looked up. The callback must not use the flow itself.
 */
typedef bool ptah_missing_code(void *context, uint64_t address, const struct ptah_space *space);

/*
 * Finds the bounds of the function, or of the piece of it, that holds `ip`: [*low, *high), which
 * contains `ip`. False: they are not known; then spans end after every block. The flow keeps
 * answers until the code there changes.
 */
typedef bool ptah_flow_bounds(void *context, unsigned space, uint64_t ip, uint64_t *low,
			      uint64_t *high);

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
	/* Follows every branch every time, remembers no paths: slow, and the same items. */
	bool no_paths;
	bool no_huge_pages; /* do not ask the system for large pages */
	/*
	 * ptah_flow_read() returns after every item that is no block, so that the caller
	 * can change the image there: everything reported later is decoded from the
	 * changed image.
	 */
	bool stop_at_events;
	/*
	 * After an error of the code (those of ptah_flow_resync()), continues at the next
	 * address in the trace that has code, instead of at the next PSB. The error's ip
	 * and offset are where the path was lost, and what is reported next is where it
	 * goes on: a kernel that is not in the image is one error from its entry to its
	 * exit. Where a system call or an interrupt led into missing code and the program
	 * continues where it was, its calls are still known. Anywhere else they are not: a
	 * compressed return to an unknown call is reported, and then PTAH_E_NO_CODE
	 * without an ip, or PTAH_E_BAD_RETCOMP where the path was lost in other ways.
	 *
	 * A path that does not fit is noticed as early as the trace allows: a TIP that is
	 * taken before outcomes of the TNT before it has to be a deferred one (SDM
	 * "Deferred TIPs"), which cannot be where that TNT is not full and another TNT
	 * follows the TIP.
	 */
	bool resync;
	/*
	 * Events are carried out, but not returned: only blocks, and what says that some are
	 * missing (gap, overflow, error). A block says its mode and address space itself. Where
	 * tracing is switched off and on all the time, that is several times as fast.
	 */
	bool no_events;
	ptah_missing_code *on_missing; /* or NULL */
	void *missing_context;
	ptah_flow_bounds
	    *bounds; /* for ptah_flow_read_spans(); NULL: direct branches end no span */
	void *bounds_context;
};

struct ptah_flow;

PTAH_API int ptah_flow_new(const struct ptah_image *image, const struct ptah_flow_config *config,
			   struct ptah_flow **flow);
PTAH_API void ptah_flow_free(struct ptah_flow *flow);
PTAH_API int ptah_flow_feed(struct ptah_flow *flow, const void *bytes, size_t n, bool last);
PTAH_API int ptah_flow_read(struct ptah_flow *flow, struct ptah_item *items, size_t capacity);

/* As ptah_event_seek(). The flow keeps what it knows of the code. */
PTAH_API void ptah_flow_seek(struct ptah_flow *flow, uint64_t offset);

#define PTAH_FLOW_MAX_SPACES 0x8000

/*
 * The address space that a block's `space` stands for, from PIP and VMCS packets.
 * 0 is any space: no packet has named one. PTAH_E_INVAL for a number that is not
 * in use; all are below PTAH_FLOW_MAX_SPACES.
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

/* A block without its time and offset. The fields mean what they mean in struct ptah_item. */
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
 * Reads on by blocks, or by instructions, up to the next item that is no block;
 * several times as fast as ptah_flow_read(). Writes up to `capacity` of them (the
 * capacity must be at least PTAH_FLOW_MIN_BLOCKS, PTAH_FLOW_MIN_STEPS) and
 * returns how many. 0: the next item is no block, or there is none; call
 * ptah_flow_read(). The array after the returned entries may have been
 * overwritten.
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
 * A span: one or more blocks that ran one after the other in one function. It ends after
 *
 *	a call, a return, an indirect jump or a far branch;
 *	a direct branch to outside of the function's bounds, or to where they begin;
 *	the last instruction before the function's bounds end;
 *	and elsewhere, with the class OTHER: before an event, and where a batch ends.
 *
 * Only the places of calls and the like are listed, and what ran between them is a number. That is
 * several times as fast as reading blocks.
 */
struct ptah_span {
	uint64_t ip;  /* of the first instruction */
	uint64_t end; /* address of the byte after the last instruction; OTHER: the same as `to` */
	uint64_t to;  /* where execution went; 0: the next item says that, or nothing does */
	uint64_t tsc, offset; /* as in the item of its last block */
	uint64_t cycles;      /* core cycles up to there, as in struct ptah_time */
	uint64_t ninsn;
	uint8_t insn_class; /* of the last instruction */
	uint8_t last_size;  /* its bytes; 0: not known */
	uint8_t mode, flags;
	uint16_t space;
	uint8_t tsc_error; /* as in an item */
	uint8_t reserved;
};

/* As ptah_flow_read_blocks(): after 0, call ptah_flow_read(). */
#define PTAH_FLOW_MIN_SPANS 64

PTAH_API int ptah_flow_read_spans(struct ptah_flow *flow, struct ptah_span *spans, size_t capacity);

/*
 * The last of the blocks that ptah_flow_read_blocks() has just written, as the
 * item that ptah_flow_read() would have returned for it, with its time and
 * offset. False when these are not known, because the block came together with
 * others, or when nothing was written. Mostly they are known where an event
 * follows.
 */
PTAH_API bool ptah_flow_last_block(const struct ptah_flow *flow, struct ptah_item *item);

/*
 * Marks the flow's position, and goes back to it. For callers that have read
 * ahead and learn that the image changes before what they have read. There is one
 * mark, a copy of a few kilobytes. It is valid until the next feed() or seek(),
 * for any number of rewinds, and the bytes fed must stay as long. Reading again
 * over the same image gives the same items; the callbacks are called again for
 * them, on_missing also for what it has refused. A time limit stays as it is.
 *
 * mark: PTAH_E_NOMEM, the first time only. rewind: PTAH_E_INVAL when there is no
 * mark; the flow stays where it is.
 */
PTAH_API int ptah_flow_mark(struct ptah_flow *flow);
PTAH_API int ptah_flow_rewind(struct ptah_flow *flow);

/* A place in the code: an address, and how the code there is decoded. */
struct ptah_place {
	uint64_t ip;
	uint8_t mode; /* enum ptah_exec_mode; 0: no place */
	uint8_t reserved;
	uint16_t space; /* see ptah_flow_space() */
};

/*
 * The flow's position in the code after the last item that ptah_flow_read()
 * returned: what it has not reported yet begins here. PTAH_E_NO_IP when it has no
 * position, because tracing is off or the way is lost. Items before the next
 * block (exec-mode, paging) may change how the code here is decoded. An error
 * item's ip, mode and code.space are the flow's position when it met the error.
 */
PTAH_API int ptah_flow_place(const struct ptah_flow *flow, struct ptah_place *place);

/*
 * What runs from a place on if nothing interrupts it: blocks up to the first
 * whose branch needs a packet, that one included. The trace does not prove them:
 * they come after its last packet, or before an error. They are decoded from the
 * image as it is now, and the flow stays where it is. Writes up to `capacity`
 * blocks and returns how many; *place moves to the end of the last one, and
 * becomes no place after a branch that needs a packet. 0: *place is no place.
 * PTAH_E_NO_CODE, PTAH_E_BAD_INSN: nothing can be decoded there.
 * PTAH_E_NO_PROGRESS: the code there is, or leads to, a loop that needs no
 * packet.
 */
PTAH_API int ptah_flow_ahead(struct ptah_flow *flow, struct ptah_place *place,
			     struct ptah_item *blocks, size_t capacity);

/*
 * After an error of the code (PTAH_E_NO_CODE, PTAH_E_BAD_INSN, PTAH_E_MISMATCH,
 * PTAH_E_BAD_RETCOMP, PTAH_E_NO_PROGRESS), which ptah_flow_read() returns last of
 * a batch, and before anything else is read: continues at the next packet that
 * has an address, with the present time, mode and address space, instead of at
 * the next PSB. That may be the packet at which the error occurred. Events
 * without an address are reported in between as usual. Outcomes up to there and
 * the return address stack are dropped. PTAH_E_INVAL when the last item was no
 * such error: after packets that cannot be understood, addresses cannot be
 * trusted either.
 *
 * Where TIPs follow outcomes that are dropped (SDM "Deferred TIPs") the flow
 * continues at the first TIP, and may have to be resynchronised again.
 */
PTAH_API int ptah_flow_resync(struct ptah_flow *flow);

/*
 * Decodes code from another image from now on, which must live as long as the
 * flow or until the next such call. The flow keeps its position; a mark becomes
 * invalid.
 */
PTAH_API int ptah_flow_set_image(struct ptah_flow *flow, const struct ptah_image *image);

PTAH_END_DECLS

#endif
