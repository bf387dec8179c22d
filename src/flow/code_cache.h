/* SPDX-License-Identifier: MIT */
/*
 * The code cache: all that decoding needs to know about the code. A node is a run of instructions
 * from an address to the first branch. It is decoded once and has links to the nodes that follow
 * it, which are filled when they are first taken.
 *
 * A node begins wherever execution was seen to begin, so nodes may overlap. When the image changes,
 * the nodes over changed bytes are forgotten (code_forget), or all of them (code_flush).
 */
#ifndef PTAH_FLOW_CODE_CACHE_H
#define PTAH_FLOW_CODE_CACHE_H

#include "flow/large_table.h"
#include "image/image_access.h"

#include <ptah/flow.h>

/* Most instructions of a node; a longer run is cut. */
#define CODE_MAX_INSNS 255

/*
 * A node begins with the same words as the item that reports it, so that emitting it is a copy: see
 * flow_put_block().
 */
struct code_node {
	union {
		uint64_t head;
		struct {
			uint8_t type, flags, mode, insn_class;
			uint16_t ninsn;
			uint8_t last_size, tsc_error;
		};
	};
	uint64_t ip;
	uint64_t end;
	uint32_t section; /* of the image, in which the code was read */
	uint16_t space;	  /* number of the cache's address space in which the code was looked up */
	uint8_t chain_checked; /* the cache's `chain`: direct branches from here are known to end */
	uint8_t from_reader;   /* some of its bytes came from a reader callback of the image */
	uint64_t target;       /* of a direct branch */
	struct code_node
	    *next[2]; /* [0]: at `end`; [1]: at `target`, or the last indirect target */
	struct code_node *hash_next;
};

/* The other fields of a node's first word, read from `head`. */
static inline unsigned code_ninsn(const struct code_node *node)
{
	return node->head >> 32 & 0xffff;
}

/* The node that a link leads to; NULL: it is not filled, or that node is forgotten. */
static inline struct code_node *code_next(const struct code_node *node, unsigned which)
{
	struct code_node *next = node->next[which];

	return next && next->head ? next : NULL;
}

static inline unsigned code_last_size(const struct code_node *node)
{
	return node->head >> 48 & 0xff;
}

static inline unsigned code_mode(const struct code_node *node)
{
	return node->head >> 16 & 0xff;
}

/*
 * A chunk of nodes is aligned to its size, so that the chunk can be computed from a node's address.
 */
#define CODE_CHUNK_BYTES 65536
#define CODE_CHUNK_NODES 860

struct code_chunk {
	struct code_node nodes[CODE_CHUNK_NODES];
	struct ptah_insn *insns[CODE_CHUNK_NODES]; /* a node's instructions, NULL until they are
						      first asked for */
	uint32_t places[CODE_CHUNK_NODES];	   /* see code_place() */
	uint64_t *versions;	      /* of each node; NULL: all are 0, as nearly always */
	struct code_node **page_next; /* see code_pages.h; NULL: no node is in a list */
	struct code_chunk *next;
};

/* Addresses for which on_missing had no code, so that it is not called for them each time. */
#define CODE_REFUSALS 64

struct code_refusal {
	uint64_t address;
	uint32_t round; /* the entry is valid while this is the cache's round */
	uint16_t space;
};

/* code_pages.h. Without entries nodes are not listed. */
struct code_pages {
	struct code_page *entries;
	size_t capacity, count; /* capacity: 0 or a power of two */
};

struct code_cache {
	const struct ptah_image *image;
	struct flow_arena *arena; /* chunks lie in it, while it has room */
	/* Called for code that is missing, or NULL: see struct ptah_flow_config. */
	ptah_missing_code *on_missing;
	void *missing_context;
	struct code_refusal refusals[CODE_REFUSALS];
	uint32_t round;
	/* Address spaces that code was looked up in; items carry the index. [0] is any space. */
	struct ptah_space *spaces;
	size_t space_count;
	size_t space_room; /* 0 or a power of two */
	uint16_t
	    *space_index; /* indices into `spaces` by hash, twice as many slots as room; 0: free */
	uint16_t space;	  /* the current one */
	struct code_node *unused;    /* forgotten nodes, linked by hash_next */
	struct code_node *forgotten; /* the same, to which there may still be links */
	size_t forgotten_count;
	uint8_t chain; /* of code_node.chain_checked, which another value makes invalid */
	struct code_node **buckets;
	size_t bucket_count; /* a power of two */
	size_t node_count;
	size_t reader_count; /* upper bound of the number of nodes with from_reader */
	struct code_chunk *chunks;
	struct code_chunk *spare; /* chunks that a flush has emptied */
	size_t chunk_used;
	struct code_pages pages; /* from the first change of code on, once there are many nodes */
};

int code_init(struct code_cache *cache, const struct ptah_image *image, struct flow_arena *arena);
void code_fini(struct code_cache *cache);

/* Forgets the refused addresses: on_missing is called for them again. */
void code_forget_refusals(struct code_cache *cache);

/* Forgets all nodes. */
void code_flush(struct code_cache *cache);

/* Whether none of these n changes concerns a node. */
bool code_is_untouched(const struct code_cache *cache, const struct image_change *changes,
		       size_t n);

/* Forgets the nodes of which some byte lies in one of the n changes, and the links to them. */
void code_forget(struct code_cache *cache, const struct image_change *changes, size_t n);

/*
 * From now on code is looked up in this address space. Can fail with PTAH_E_NOMEM and PTAH_E_LIMIT.
 */
int code_set_space(struct code_cache *cache, const struct ptah_space *space);

/*
 * Returns the node that begins at `ip`, decoding it if needed. NULL with the reason in *status:
 * PTAH_E_NO_CODE, PTAH_E_BAD_INSN, PTAH_E_NOMEM.
 */
struct code_node *code_find(struct code_cache *cache, uint64_t ip, unsigned mode, int *status);

/*
 * The version of the node at `ip`: since when its bytes are what they are, in the image's times. 0:
 * since the beginning, or there is no such node. It is known as long as the node, whatever has
 * become of the image.
 */
uint64_t code_version(const struct code_cache *cache, uint64_t ip, unsigned mode, unsigned space);

/*
 * Finds the instruction at `ip` in the node: how many instructions precede it and how long the last
 * of these is. False when no instruction of the node begins there.
 */
bool code_locate(const struct code_cache *cache, const struct code_node *node, uint64_t ip,
		 unsigned *before, unsigned *last_size);

/*
 * The first n or more instructions of the node at `ip`, which the cache keeps. NULL when there is
 * no such node. Valid until the next flush.
 */
const struct ptah_insn *code_insns(const struct code_cache *cache, uint64_t ip, unsigned mode,
				   unsigned space, unsigned n);

static inline struct code_chunk *code_chunk_of(const struct code_node *node)
{
	return (struct code_chunk *)((uintptr_t)node & ~(uintptr_t)(CODE_CHUNK_BYTES - 1));
}

/*
 * The number that paths keep for a node (path_tables.h): visits at first, then its place. 0 in a
 * new node.
 */
static inline uint32_t *code_place(const struct code_node *node)
{
	struct code_chunk *chunk = code_chunk_of(node);

	return &chunk->places[node - chunk->nodes];
}

/* Sets all these numbers to 0. */
void code_forget_places(struct code_cache *cache);

/* A node's instructions, decoded once and kept. NULL when they cannot be read, or out of memory. */
const struct ptah_insn *code_node_insns(const struct code_cache *cache, struct code_node *node);

/* Decodes n instructions from `ip`, whatever is cached. Returns n or a negative status. */
int code_decode(const struct code_cache *cache, uint64_t ip, unsigned mode, unsigned space,
		struct ptah_insn *insns, size_t n);

#endif
