/* SPDX-License-Identifier: MIT */
/*
 * Profile: how often everything ran.
 *
 * A profile is fed trace bytes as a flow is, and counts instead of returning the
 * path: every block, every branch's outcomes, every indirect edge. The counts are
 * exact, the same as those that a flow over the same bytes adds up to, and many
 * times faster: what a packet does at one place in the code is found out once, by
 * a flow inside, and only counted from then on. The flow also decodes every packet
 * for which nothing is remembered, such as errors and overflows.
 *
 *	ptah_profile_new(image, NULL, &profile);
 *	ptah_profile_feed(profile, bytes, n, true);
 *	ptah_profile_totals(profile, &totals);
 *	ptah_profile_blocks(profile, &blocks, &n);
 *	...
 *	free(blocks);
 *	ptah_profile_free(profile);
 *
 * Memory grows with the distinct code that ran; beyond a few hundred KB it is
 * taken in large pages of 2 MB where the system has them. The image must live as
 * long as the profile. A profile belongs to one thread at a time.
 */
#ifndef PTAH_PROFILE_H
#define PTAH_PROFILE_H

#include <ptah/flow.h>

PTAH_BEGIN_DECLS

struct ptah_profile_config {
	size_t size;		      /* sizeof(struct ptah_profile_config) */
	struct ptah_flow_config flow; /* its size 0: the defaults */
	/*
	 * So many places in the code are remembered at a time, up to 1 KB each; when there are
	 * more, their counts are added up and they are forgotten. 0: 524288; at least
	 * 256.
	 */
	uint32_t max_places;
	bool no_huge_pages; /* do not ask the system for large pages */
	/* Gives every packet to the flow: slow, and the same counts. For comparison. */
	bool no_rows;
	/*
	 * Also runs a plain flow over the same bytes, and returns PTAH_E_INTERNAL once
	 * the two differ: slow, for tests. Libraries built with PTAH_COMPARE always do.
	 * Not done where flow.on_missing is set.
	 */
	bool compare;
	/* Called with every item that is no block (errors, overflows, ...), or NULL. */
	void (*on_event)(void *context, const struct ptah_item *item);
	void *context;
};

struct ptah_profile;

PTAH_API int ptah_profile_new(const struct ptah_image *image,
			      const struct ptah_profile_config *config,
			      struct ptah_profile **profile);
PTAH_API void ptah_profile_free(struct ptah_profile *profile);

/*
 * Counts what n bytes of trace contain. They need not outlive the call, unless it
 * returns PTAH_PROFILE_PAUSED. 0, PTAH_PROFILE_PAUSED, PTAH_E_NOMEM,
 * PTAH_E_INTERNAL.
 */
PTAH_API int ptah_profile_feed(struct ptah_profile *profile, const void *bytes, size_t n,
			       bool last);

/* The trace has reached the time limit (see flow.h): set a later one and call
 * ptah_profile_resume(). */
#define PTAH_PROFILE_PAUSED 1

PTAH_API void ptah_profile_set_time_limit(struct ptah_profile *profile, uint64_t tsc);

/* Continues with the rest of the bytes. Returns what feed returns. */
PTAH_API int ptah_profile_resume(struct ptah_profile *profile);

/* The next bytes fed are those at `offset` of this trace or of another one. The counts stay. */
PTAH_API void ptah_profile_seek(struct ptah_profile *profile, uint64_t offset);

/* Sets all counts to 0; what the profile knows of the code stays. */
PTAH_API int ptah_profile_reset(struct ptah_profile *profile);

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
PTAH_API int ptah_profile_merge(struct ptah_profile *into, struct ptah_profile *from);

struct ptah_profile_totals {
	uint64_t instructions, blocks;	       /* executed */
	uint64_t classes[PTAH_INSN_CLASS_MAX]; /* blocks by the class of their last instruction */
	uint64_t taken;			       /* conditional branches that were */
	uint64_t errors, overflows, gaps;
	struct ptah_item first_error; /* if errors > 0 */
};

PTAH_API int ptah_profile_totals(struct ptah_profile *profile, struct ptah_profile_totals *totals);

/*
 * Code may change while it runs. Its *version* is the time (TSC) since when the instructions at an
 * address were what they were when they were counted; 0: since the beginning, as nearly always.
 * Counts of different versions are separate, and so are those of different versions of a target:
 * what an address was, is to be asked as of its version (ptah_session_find_map()).
 *
 * A block and how often it ran. The same instructions belong to several blocks
 * when execution entered them at several addresses, or when events cut them: an
 * instruction ran as often as all blocks together that contain it.
 */
struct ptah_profile_block {
	uint64_t ip, end;
	uint64_t target; /* of its direct branch; 0: it has none */
	uint64_t count;
	uint64_t taken;		 /* times the conditional branch was taken */
	uint64_t unknown;	 /* times no packet had its outcome: see PTAH_ITEM_UNKNOWN */
	uint64_t version;	 /* of its code */
	uint64_t target_version; /* of the code at the target */
	uint32_t space;		 /* see ptah_profile_space() */
	uint32_t section;	 /* of the image */
	uint16_t ninsn;
	uint8_t mode;	    /* enum ptah_exec_mode */
	uint8_t insn_class; /* enum ptah_insn_class of the last instruction */
	uint8_t last_size;  /* its bytes */
	bool truncated;	    /* an event cut it */
};

/*
 * An indirect branch and where it went: jumps, calls, returns, far branches. (In counts that were
 * added up from several runs, also direct jumps and calls: see ptah_counts_fold().)
 */
struct ptah_profile_edge {
	uint64_t from, to; /* the branch instruction, its target */
	uint64_t count;
	uint64_t version, target_version; /* of the code at `from` and `to` */
	uint32_t space;
	uint8_t mode;	    /* of the branch */
	uint8_t insn_class; /* enum ptah_insn_class */
};

/* In the order of space, address, mode, end, ..., version. The caller frees the array. */
PTAH_API int ptah_profile_blocks(struct ptah_profile *profile, struct ptah_profile_block **blocks,
				 size_t *n);
PTAH_API int ptah_profile_edges(struct ptah_profile *profile, struct ptah_profile_edge **edges,
				size_t *n);

/* The address space that a `space` stands for. As ptah_flow_space(). */
PTAH_API int ptah_profile_space(const struct ptah_profile *profile, unsigned number,
				struct ptah_space *space);

PTAH_END_DECLS

#endif
