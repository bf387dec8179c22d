/* SPDX-License-Identifier: MIT */
/*
 * The code cache: the static side of a decode. A node is a run of instructions
 * from an address to the first branch, decoded once, with links to the nodes
 * behind it that are filled as they are first taken.
 *
 * Nodes begin wherever execution was seen to begin, so they may overlap. All
 * of them die together when the image changes (code_flush).
 */
#ifndef PTAH_FLOW_CODE_CACHE_H
#define PTAH_FLOW_CODE_CACHE_H

#include "image/image_access.h"

#include <ptah/flow.h>

/* A node is cut here at the latest. */
#define CODE_MAX_INSNS 255

/*
 * It begins as the item does that this block becomes, so that emitting it is a
 * copy: see flow_put_block().
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
	uint32_t section;      /* of the image, where the code was read */
	uint16_t space;	       /* of the cache: what the code was looked up in */
	uint8_t chain_checked; /* its chain of direct branches is known to end */
	uint8_t from_reader;   /* some of it, of the image */
	uint64_t target;       /* of a direct branch */
	struct code_node
	    *next[2]; /* [0]: at `end`; [1]: at `target`, or the last indirect target */
	struct code_node *hash_next;
};

/* The rest of what a node is, out of its head. */
static inline unsigned code_ninsn(const struct code_node *node)
{
	return node->head >> 32 & 0xffff;
}

static inline unsigned code_last_size(const struct code_node *node)
{
	return node->head >> 48 & 0xff;
}

static inline unsigned code_mode(const struct code_node *node)
{
	return node->head >> 16 & 0xff;
}

/* A chunk of nodes is aligned to its size, so that a node finds its chunk. */
#define CODE_CHUNK_BYTES 65536
#define CODE_CHUNK_NODES 860

struct code_chunk {
	struct code_node nodes[CODE_CHUNK_NODES];
	struct ptah_insn *insns[CODE_CHUNK_NODES]; /* a node's instructions, once asked for */
	uint32_t places[CODE_CHUNK_NODES];	   /* the note of paths.c on a node */
	struct code_chunk *next;
};

/* Addresses that nobody knew code for, so that they are not asked for at every turn. */
#define CODE_REFUSALS 64

struct code_refusal {
	uint64_t address;
	uint32_t round; /* it counts while this is the cache's */
	uint16_t space;
};

struct code_cache {
	const struct ptah_image *image;
	/* Asked for code that is not there, or NULL: see struct ptah_flow_config. */
	ptah_missing_code *on_missing;
	void *missing_context;
	struct code_refusal refusals[CODE_REFUSALS];
	uint32_t round;
	/* Address spaces that code was looked up in, by the numbers in items; [0] is any. */
	struct ptah_space *spaces;
	size_t space_count;
	size_t space_room;	  /* 0 or a power of two */
	uint16_t *space_index;	  /* their numbers by hash, twice as many as room; 0: nothing */
	uint16_t space;		  /* of now */
	struct code_node *unused; /* forgotten nodes, linked by hash_next */
	struct code_node **buckets;
	size_t bucket_count; /* a power of two */
	size_t node_count;
	size_t reader_count; /* nodes from_reader, at most */
	struct code_chunk *chunks;
	size_t chunk_used;
};

int code_init(struct code_cache *cache, const struct ptah_image *image);
void code_fini(struct code_cache *cache);

/* What was refused is asked for again. */
void code_forget_refusals(struct code_cache *cache);

/* Forgets all nodes. */
void code_flush(struct code_cache *cache);

/* Is there nothing that these n changes are about? */
bool code_is_untouched(const struct code_cache *cache, const struct image_change *changes,
		       size_t n);

/*
 * Forgets the nodes that lie, even in part, in one of n changed places, and the
 * links to them.
 */
void code_forget(struct code_cache *cache, const struct image_change *changes, size_t n);

/* Is this node forgotten? Its ip and end can still be read until the next code_find(). */
bool code_is_forgotten(const struct code_node *node);

/* Looks code up in another address space from now on. PTAH_E_NOMEM, PTAH_E_LIMIT. */
int code_set_space(struct code_cache *cache, const struct ptah_space *space);

/*
 * The node that begins at `ip`. NULL with *status set: PTAH_E_NO_CODE,
 * PTAH_E_BAD_INSN, PTAH_E_NOMEM.
 */
struct code_node *code_find(struct code_cache *cache, uint64_t ip, unsigned mode, int *status);

/*
 * Where in the node the instruction at `ip` is: how many instructions precede
 * it and how long the last of these is. False when no instruction begins there.
 */
bool code_locate(const struct code_cache *cache, const struct code_node *node, uint64_t ip,
		 unsigned *before, unsigned *last_size);

/*
 * The first n or more instructions of the node at `ip`, remembered. NULL when
 * there is no such node. Lives until the next flush.
 */
const struct ptah_insn *code_insns(const struct code_cache *cache, uint64_t ip, unsigned mode,
				   unsigned space, unsigned n);

static inline struct code_chunk *code_chunk_of(const struct code_node *node)
{
	return (struct code_chunk *)((uintptr_t)node & ~(uintptr_t)(CODE_CHUNK_BYTES - 1));
}

/* The number that paths.c keeps of a node; 0 at first. */
static inline uint32_t *code_place(const struct code_node *node)
{
	struct code_chunk *chunk = code_chunk_of(node);

	return &chunk->places[node - chunk->nodes];
}

/* All these numbers become 0. */
void code_forget_places(struct code_cache *cache);

/* A node's instructions, remembered. NULL when they cannot be read, or out of memory. */
const struct ptah_insn *code_node_insns(const struct code_cache *cache, struct code_node *node);

/* Decodes n instructions from `ip`, whatever is cached. Returns n, or the reason why not. */
int code_decode(const struct code_cache *cache, uint64_t ip, unsigned mode, unsigned space,
		struct ptah_insn *insns, size_t n);

#endif
