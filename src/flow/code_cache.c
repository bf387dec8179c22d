/* SPDX-License-Identifier: MIT */
/*
 * The code cache: reads and decodes instructions of the image into nodes, finds nodes by place, and
 * forgets those whose bytes have changed.
 */
#include "flow/code_pages.h"

#include "base/compiler.h"
#include "base/hash.h"
#include "x86/x86.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 1024
#define FIRST_SPACES  8

/* With fewer nodes it is as quick to look at all of them as to keep lists. */
#define LIST_NODES 2048

_Static_assert(sizeof(struct code_node) == 64, "a node is a cache line");
_Static_assert(sizeof(struct code_chunk) <= CODE_CHUNK_BYTES, "fewer CODE_CHUNK_NODES");

/*
 * Reads the image in larger pieces than an instruction, so that short instructions share one read.
 */
struct code_reader {
	const struct ptah_image *image;
	const struct ptah_space *space;
	struct code_cache *asks; /* its on_missing is called for missing code; NULL: none is */
	uint64_t ip;
	size_t pos, size;
	uint8_t bytes[256];
};

void code_forget_refusals(struct code_cache *cache)
{
	cache->round++;
}

static struct code_refusal *refusal_at(struct code_cache *cache, uint64_t address)
{
	return &cache->refusals[hash_number(address) >> 32 & (CODE_REFUSALS - 1)];
}

/* Asks the caller for missing code. True when the byte after those read so far is available now. */
NOINLINE static bool ask(struct code_reader *r)
{
	const uint64_t address = r->ip + (r->size - r->pos);
	struct code_cache *cache = r->asks;
	const uint16_t space = cache->space;
	struct code_refusal *refusal = refusal_at(cache, address);
	uint8_t byte;

	if (address < r->ip || (refusal->address == address && refusal->space == space &&
				refusal->round == cache->round))
		return false;
	if (cache->on_missing(cache->missing_context, address, r->space) &&
	    ptah_image_read(r->image, address, &byte, 1, r->space))
		return true;
	*refusal = (struct code_refusal){address, cache->round, space};
	return false;
}

static int reader_next(struct code_reader *r, unsigned mode, struct x86_insn *insn)
{
	int status = PTAH_E_MORE, asked = 0;

	while (status == PTAH_E_MORE) {
		if (r->size - r->pos < X86_MAX_SIZE) {
			r->size =
			    ptah_image_read(r->image, r->ip, r->bytes, sizeof(r->bytes), r->space);
			r->pos = 0;
		}
		if (r->size)
			status = x86_decode(r->bytes + r->pos, r->size - r->pos, r->ip, mode, insn);
		/*
		 * Each successful request brings at least one byte, so an instruction needs no more
		 * requests than it can have bytes.
		 */
		if (status == PTAH_E_MORE && !(r->asks && asked++ < X86_MAX_SIZE && ask(r)))
			return PTAH_E_NO_CODE;
	}
	if (status < 0)
		return status;
	r->pos += insn->size;
	r->ip += insn->size;
	return 0;
}

static bool ends_node(unsigned insn_class)
{
	return insn_class != PTAH_INSN_OTHER && insn_class != PTAH_INSN_PTWRITE;
}

/* A reader that begins at `ip` in an address space of the cache. */
static struct code_reader read_at(const struct code_cache *cache, uint64_t ip, unsigned space)
{
	return (struct code_reader){
	    .image = cache->image, .space = &cache->spaces[space], .ip = ip};
}

/* The slot of the index that holds the number of this space, or the free one where it belongs. */
static uint16_t *find_space(const struct code_cache *cache, const struct ptah_space *space)
{
	const size_t mask = 2 * cache->space_room - 1;
	size_t at = hash_number(hash_number(space->cr3 >> 12) ^ (space->vmcs >> 12)) >> 40;

	for (;; at++) {
		const uint16_t number = cache->space_index[at & mask];
		const struct ptah_space *known = &cache->spaces[number];

		if (!number || (known->cr3 == space->cr3 && known->vmcs == space->vmcs))
			return &cache->space_index[at & mask];
	}
}

/* Makes room for twice as many spaces. */
static int grow_spaces(struct code_cache *cache)
{
	const size_t room = cache->space_room ? 2 * cache->space_room : FIRST_SPACES;
	struct ptah_space *spaces = realloc(cache->spaces, room * sizeof(*spaces));
	uint16_t *numbers = calloc(2 * room, sizeof(*numbers));

	if (spaces)
		cache->spaces = spaces;
	if (!spaces || !numbers) {
		free(numbers);
		return PTAH_E_NOMEM;
	}
	free(cache->space_index);
	cache->space_index = numbers;
	cache->space_room = room;
	for (size_t i = 1; i < cache->space_count; i++)
		*find_space(cache, &spaces[i]) = (uint16_t)i;
	return 0;
}

int code_init(struct code_cache *cache, const struct ptah_image *image, struct flow_arena *arena)
{
	memset(cache, 0, sizeof(*cache));
	cache->image = image;
	cache->arena = arena;
	cache->round = 1;
	cache->chain = 1;
	cache->bucket_count = FIRST_BUCKETS;
	cache->chunk_used = CODE_CHUNK_NODES;
	cache->buckets = flow_table_new(arena, cache->bucket_count * sizeof(struct code_node *));
	if (!cache->buckets || grow_spaces(cache) < 0)
		return PTAH_E_NOMEM;
	cache->spaces[0] = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	cache->space_count = 1;
	return 0;
}

/* Forgets all nodes. Their memory is used again. */
static void empty_chunks(struct code_cache *cache)
{
	while (cache->chunks) {
		struct code_chunk *chunk = cache->chunks;

		for (size_t i = 0; i < CODE_CHUNK_NODES; i++)
			free(chunk->insns[i]);
		free(chunk->versions);
		free(chunk->page_next);
		cache->chunks = chunk->next;
		chunk->next = cache->spare;
		cache->spare = chunk;
	}
	cache->chunk_used = CODE_CHUNK_NODES;
	cache->node_count = cache->reader_count = cache->forgotten_count = 0;
	cache->unused = cache->forgotten = NULL;
	code_pages_drop(&cache->pages);
}

void code_fini(struct code_cache *cache)
{
	empty_chunks(cache);
	while (cache->spare) {
		struct code_chunk *chunk = cache->spare;

		cache->spare = chunk->next;
		flow_aligned_free(cache->arena, chunk);
	}
	if (cache->buckets)
		flow_table_free(cache->arena, cache->buckets,
				cache->bucket_count * sizeof(struct code_node *));
	free(cache->spaces);
	free(cache->space_index);
}

void code_flush(struct code_cache *cache)
{
	empty_chunks(cache);
	memset(cache->buckets, 0, cache->bucket_count * sizeof(struct code_node *));
}

static size_t bucket_of(const struct code_cache *cache, uint64_t ip, unsigned space)
{
	uint64_t key = ip ^ (uint64_t)space << 48;

	return (size_t)(hash_number(key) >> 32) & (cache->bucket_count - 1);
}

/* Keeps hash chains short. If growing fails, they only become longer. */
static void grow(struct code_cache *cache)
{
	size_t old_count = cache->bucket_count;
	struct code_node **old = cache->buckets;
	struct code_node **buckets =
	    flow_table_new(cache->arena, old_count * 2 * sizeof(struct code_node *));

	if (!buckets)
		return;
	cache->buckets = buckets;
	cache->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		for (struct code_node *n = old[i], *next; n; n = next) {
			size_t b = bucket_of(cache, n->ip, n->space);

			next = n->hash_next;
			n->hash_next = buckets[b];
			buckets[b] = n;
		}
	}
	flow_table_free(cache->arena, old, old_count * sizeof(struct code_node *));
}

void code_forget_places(struct code_cache *cache)
{
	for (struct code_chunk *chunk = cache->chunks; chunk; chunk = chunk->next)
		memset(chunk->places, 0, sizeof(chunk->places));
}

static struct ptah_insn **insns_of(struct code_node *node)
{
	struct code_chunk *chunk = code_chunk_of(node);

	return &chunk->insns[node - chunk->nodes];
}

/* Puts a node that is in no bucket into a list. */
static void give_back(struct code_cache *cache, struct code_node *node, struct code_node **list)
{
	free(*insns_of(node));
	*insns_of(node) = NULL;
	cache->reader_count -= node->from_reader;
	node->from_reader = 0;
	node->head = 0; /* type BLOCK without instructions marks a forgotten node */
	node->hash_next = *list;
	*list = node;
	cache->node_count--;
}

static bool lies_in(const struct code_node *node, const struct image_change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (node->ip <= changes[i].last && node->end - 1 >= changes[i].first &&
		    (node->from_reader || !changes[i].reader))
			return true;
	return false;
}

bool code_is_untouched(const struct code_cache *cache, const struct image_change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (cache->reader_count || !changes[i].reader)
			return false;
	return true;
}

/* Removes all links to forgotten nodes, so that their memory can be used again. */
static void reuse_forgotten(struct code_cache *cache)
{
	for (size_t i = 0; i < cache->bucket_count; i++) {
		for (struct code_node *n = cache->buckets[i]; n; n = n->hash_next) {
			n->chain_checked = 0;
			for (unsigned which = 0; which < 2; which++)
				n->next[which] = code_next(n, which);
		}
	}
	while (cache->forgotten) {
		struct code_node *node = cache->forgotten;

		cache->forgotten = node->hash_next;
		node->hash_next = cache->unused;
		cache->unused = node;
	}
	cache->forgotten_count = 0;
	cache->chain = 1;
}

/* Looks at all nodes. */
static void forget_anywhere(struct code_cache *cache, const struct image_change *changes, size_t n)
{
	code_pages_drop(&cache->pages);
	for (size_t i = 0; i < cache->bucket_count; i++) {
		struct code_node **link = &cache->buckets[i];

		while (*link) {
			struct code_node *node = *link;

			if (!lies_in(node, changes, n)) {
				link = &node->hash_next;
				continue;
			}
			*link = node->hash_next;
			give_back(cache, node, &cache->forgotten);
		}
	}
}

static void unlink_node(struct code_cache *cache, struct code_node *node)
{
	struct code_node **link = &cache->buckets[bucket_of(cache, node->ip, node->space)];

	while (*link != node)
		link = &(*link)->hash_next;
	*link = node->hash_next;
}

/* Looks at the nodes that begin in one page. */
static void forget_in_page(struct code_cache *cache, uint64_t page,
			   const struct image_change *change)
{
	struct code_node **link = code_pages_find(&cache->pages, page);

	while (link && *link) {
		struct code_node *node = *link;

		if (!lies_in(node, change, 1)) {
			link = code_page_next(node);
			continue;
		}
		*link = *code_page_next(node);
		unlink_node(cache, node);
		give_back(cache, node, &cache->forgotten);
	}
}

/* How many pages the nodes in a change may begin in. */
static uint64_t count_pages(const struct image_change *change)
{
	return (change->last >> CODE_PAGE_BITS) - (change->first >> CODE_PAGE_BITS) + 2;
}

/* Lists all nodes by their pages. False: out of memory. */
static bool list_pages(struct code_cache *cache)
{
	for (size_t i = 0; i < cache->bucket_count; i++)
		for (struct code_node *node = cache->buckets[i]; node; node = node->hash_next)
			if (!code_pages_add(&cache->pages, node))
				return false;
	return cache->pages.entries != NULL;
}

/* Looks where the changes are, if that is less than everywhere. False: it is not. */
static bool forget_in_pages(struct code_cache *cache, const struct image_change *changes, size_t n)
{
	uint64_t pages = 0;

	for (size_t i = 0; i < n; i++)
		pages += count_pages(&changes[i]);
	if (cache->node_count < LIST_NODES || pages > cache->node_count / 8)
		return false;
	if (!cache->pages.entries && !list_pages(cache))
		return false;
	for (size_t i = 0; i < n; i++) {
		const uint64_t first = (changes[i].first >> CODE_PAGE_BITS) - 1;

		/* -1, below the first page, is in no list. */
		for (uint64_t k = 0; k < count_pages(&changes[i]); k++)
			forget_in_page(cache, first + k, &changes[i]);
	}
	return true;
}

/*
 * Links to forgotten nodes stay until there are many of these: code_next() does not follow them. A
 * chain of direct branches that was known to end may have led over them.
 */
void code_forget(struct code_cache *cache, const struct image_change *changes, size_t n)
{
	size_t before = cache->node_count;

	if (!forget_in_pages(cache, changes, n))
		forget_anywhere(cache, changes, n);
	if (cache->node_count == before)
		return;
	cache->forgotten_count += before - cache->node_count;
	if (++cache->chain == 0 || cache->forgotten_count > LIST_NODES + cache->node_count / 2)
		reuse_forgotten(cache);
}

int code_set_space(struct code_cache *cache, const struct ptah_space *space)
{
	uint16_t *number;

	if (space->cr3 == PTAH_SPACE_ANY && space->vmcs == PTAH_SPACE_ANY) {
		cache->space = 0;
		return 0;
	}
	number = find_space(cache, space);
	if (!*number) {
		if (cache->space_count >= PTAH_FLOW_MAX_SPACES)
			return PTAH_E_LIMIT;
		if (cache->space_count == cache->space_room) {
			if (grow_spaces(cache) < 0)
				return PTAH_E_NOMEM;
			number = find_space(cache, space);
		}
		cache->spaces[cache->space_count] = *space;
		*number = (uint16_t)cache->space_count++;
	}
	cache->space = *number;
	return 0;
}

static struct code_node *allocate(struct code_cache *cache)
{
	if (cache->unused) {
		struct code_node *node = cache->unused;

		cache->unused = node->hash_next;
		cache->node_count++;
		return node;
	}
	if (cache->chunk_used == CODE_CHUNK_NODES) {
		struct code_chunk *chunk = cache->spare;

		if (chunk)
			cache->spare = chunk->next;
		else
			chunk = flow_aligned_new(cache->arena, CODE_CHUNK_BYTES, CODE_CHUNK_BYTES);
		if (!chunk)
			return NULL;
		memset(chunk->insns, 0, sizeof(chunk->insns));
		memset(chunk->places, 0, sizeof(chunk->places));
		chunk->versions = NULL;
		chunk->page_next = NULL;
		chunk->next = cache->chunks;
		cache->chunks = chunk;
		cache->chunk_used = 0;
	}
	cache->node_count++;
	return &cache->chunks->nodes[cache->chunk_used++];
}

/* Keeps since when the bytes of a node are there. False when out of memory. */
static bool keep_version(const struct code_cache *cache, const struct code_node *node)
{
	struct code_chunk *chunk = code_chunk_of(node);
	const uint64_t version =
	    image_since(cache->image, node->ip, node->end - 1, &cache->spaces[node->space]);

	if (version && !chunk->versions)
		chunk->versions = calloc(CODE_CHUNK_NODES, sizeof(*chunk->versions));
	if (chunk->versions)
		chunk->versions[node - chunk->nodes] = version;
	return chunk->versions || !version;
}

/*
 * Fills a node from the image. An error at its first instruction fails; at a later one it only ends
 * the node.
 */
static int decode_node(struct code_cache *cache, struct code_node *node, uint64_t ip, unsigned mode)
{
	struct code_reader r = read_at(cache, ip, cache->space);
	struct ptah_item head = {.type = PTAH_ITEM_BLOCK, .mode = (uint8_t)mode};
	struct ptah_section section;
	struct x86_insn insn = {0};
	int status = 0;

	memset(node, 0, sizeof(*node));
	node->ip = ip;
	r.asks = cache->on_missing ? cache : NULL;
	while (head.ninsn < CODE_MAX_INSNS) {
		status = reader_next(&r, mode, &insn);
		if (status < 0)
			break;
		head.ninsn++;
		head.last_size = insn.size;
		if (ends_node(insn.insn_class)) {
			head.insn_class = insn.insn_class;
			node->target = insn.target;
			break;
		}
	}
	if (!head.ninsn)
		return status;
	node->end = r.ip;
	node->space = cache->space;
	if (!ptah_image_find(cache->image, ip, r.space, &section))
		node->section = section.id;
	node->from_reader = image_is_read(cache->image, ip, node->end - 1, r.space);
	cache->reader_count += node->from_reader;
	memcpy(&node->head, &head, sizeof(node->head));
	if (image_has_times(cache->image) && !keep_version(cache, node))
		return PTAH_E_NOMEM;
	return 0;
}

NOINLINE static struct code_node *create(struct code_cache *cache, uint64_t ip, unsigned mode,
					 int *status)
{
	struct code_node *node = allocate(cache);
	size_t b;

	*status = node ? decode_node(cache, node, ip, mode) : PTAH_E_NOMEM;
	if (*status < 0) {
		if (node)
			give_back(cache, node, &cache->unused);
		return NULL;
	}
	if (cache->node_count > cache->bucket_count)
		grow(cache);
	b = bucket_of(cache, ip, cache->space);
	node->hash_next = cache->buckets[b];
	cache->buckets[b] = node;
	if (UNLIKELY(cache->pages.entries) && !code_pages_add(&cache->pages, node))
		code_pages_drop(&cache->pages);
	return node;
}

struct code_node *code_find(struct code_cache *cache, uint64_t ip, unsigned mode, int *status)
{
	struct code_node *node = cache->buckets[bucket_of(cache, ip, cache->space)];

	for (; node; node = node->hash_next)
		if (node->ip == ip && node->space == cache->space && code_mode(node) == mode)
			return node;
	return create(cache, ip, mode, status);
}

static struct code_node *find_node(const struct code_cache *cache, uint64_t ip, unsigned mode,
				   unsigned space)
{
	struct code_node *node = cache->buckets[bucket_of(cache, ip, space)];

	while (node && (node->ip != ip || node->space != space || code_mode(node) != mode))
		node = node->hash_next;
	return node;
}

uint64_t code_version(const struct code_cache *cache, uint64_t ip, unsigned mode, unsigned space)
{
	const struct code_node *node =
	    image_has_times(cache->image) ? find_node(cache, ip, mode, space) : NULL;
	const struct code_chunk *chunk = node ? code_chunk_of(node) : NULL;

	return chunk && chunk->versions ? chunk->versions[node - chunk->nodes] : 0;
}

bool code_locate(const struct code_cache *cache, const struct code_node *node, uint64_t ip,
		 unsigned *before, unsigned *last_size)
{
	struct code_reader r = read_at(cache, node->ip, node->space);
	struct x86_insn insn = {0};

	if (ip < node->ip || ip > node->end)
		return false;
	*before = 0;
	*last_size = 0;
	while (r.ip < ip) {
		if (reader_next(&r, code_mode(node), &insn) < 0)
			return false;
		++*before;
		*last_size = insn.size;
	}
	return r.ip == ip;
}

int code_decode(const struct code_cache *cache, uint64_t ip, unsigned mode, unsigned space,
		struct ptah_insn *insns, size_t n)
{
	struct code_reader r = read_at(cache, ip, space < cache->space_count ? space : 0);

	for (size_t i = 0; i < n; i++) {
		const uint64_t at = r.ip;
		struct x86_insn x = {0};
		int status = reader_next(&r, mode, &x);

		if (status < 0)
			return status;
		insns[i] = (struct ptah_insn){
		    .ip = at, .size = x.size, .insn_class = x.insn_class, .mode = (uint8_t)mode};
		memcpy(insns[i].bytes, r.bytes + r.pos - x.size, x.size);
	}
	return (int)n;
}

const struct ptah_insn *code_node_insns(const struct code_cache *cache, struct code_node *node)
{
	struct ptah_insn **known = insns_of(node), *insns = *known;
	const unsigned n = code_ninsn(node);

	if (insns)
		return insns;
	insns = malloc(n * sizeof(*insns));
	if (insns && code_decode(cache, node->ip, code_mode(node), node->space, insns, n) < 0) {
		free(insns);
		insns = NULL;
	}
	*known = insns;
	return insns;
}

const struct ptah_insn *code_insns(const struct code_cache *cache, uint64_t ip, unsigned mode,
				   unsigned space, unsigned n)
{
	struct code_node *node = find_node(cache, ip, mode, space);

	if (!node || code_ninsn(node) < n)
		return NULL;
	return code_node_insns(cache, node);
}
