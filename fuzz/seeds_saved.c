/* SPDX-License-Identifier: MIT */
/* Seeds of what Ptah saves: counts, calls, coverage, shards. */
#include "seeds.h"

#include <string.h>

#define WORDS(b, ...)                                                                              \
	put_words((b), (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static void put_size_and_checksum(struct buffer *b)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 32; i < b->size; i++)
		hash = (hash ^ b->bytes[i]) * UINT64_C(0x100000001b3);
	memcpy(b->bytes + 16, &b->size, 8);
	memcpy(b->bytes + 24, &hash, 8);
}

/* Saved counts as in docs/profile-file.md: two processes, the second without counts. */
static void make_counts(struct buffer *b)
{
	put_bytes(b, "PTAHCNTS", 8);
	WORDS(b, PAIR(2, 0), 0, 0, 2);
	/* pid; spaces, files, blocks, edges; errors, overflows, gaps; the first error; the name */
	WORDS(b, PAIR(-1, 0), 2, 2, 3, 1, 1, 2, 3, 1, 0x401000, 0, 0, 0x1234, 99);
	put_bytes(b, "program\0\0\0\0\0\0\0\0", 16);
	WORDS(b, 0x1000, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	WORDS(b, 0x401000, 0x1000, 0, PAIR(2, 4), 0x12345678, 0, 0, 0x612f); /* /a */
	WORDS(b, 0x402000, 0x2000, 0x1000, PAIR(9, 0), 0, 0, 0);
	put_bytes(b, "/lib/c.so\0\0\0\0\0\0", 16);
	/* ip, end, target, count, taken, unknown; space, instructions, mode, class; last size */
	WORDS(b, 0x401000, 0x401009, 0x401005, 5, 3, 1, PAIR(0, 0x01030003), 2);
	WORDS(b, 0x401000, 0x401009, 0x401005, 2, 0, 0, PAIR(1, 0x01030003), 2);
	WORDS(b, 0x401009, 0x40100b, 0, 7, 0, 0, PAIR(1, 0x04030001), 0x102);
	WORDS(b, 0x401009, 0x402000, 7, PAIR(1, 0x0403));
	WORDS(b, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	put_size_and_checksum(b);
}

/* What a process reached, as a table of coverage has it (src/export/cover_blob.h): blocks 1, 4, 132
 * and 133. The frame of Zstandard has one block, which is not compressed. */
static void make_reached(struct buffer *b)
{
	static const char pairs[] = "\x01\x05\x03\x01\x80\x01\xff\x7f\x01\x02";

	put_bytes(b, "\x28\xb5\x2f\xfd\x20", 5);
	put_bytes(b, "\x0a\x51\x00\x00", 4); /* sizes: 10; 10, and it is the last block */
	put_bytes(b, pairs, sizeof(pairs) - 1);
}

/* Which of 64 blocks each of five processes reached. */
static void make_reached_sets(struct buffer *b)
{
	WORDS(b, 0xff, 0x0f, UINT64_MAX, 0x8000000000000001, 0);
}

static void put_buffer(struct buffer *b, void (*make)(struct buffer *b))
{
	static struct buffer part;

	memset(&part, 0, sizeof(part));
	make(&part);
	WORDS(b, part.size);
	put_bytes(b, part.bytes, part.size);
}

/* A shard as in docs/profile-file.md: part 2 of 3, with a recording and one that was not read. */
static void make_shard(struct buffer *b)
{
	put_bytes(b, "PTAHSHRD", 8);
	WORDS(b, PAIR(1, 0), 0, 0, 0x1234, PAIR(3, 3), 2, 2);
	WORDS(b, PAIR(0, 0), 0x5678, 2, 6); /* number, flags; digest, ranges, length of the name */
	put_bytes(b, "a.data\0\0", 8);
	/* stream, from, to, digests, process and flags, the first error */
	WORDS(b, 0, 0, 4096, 0, 77, PAIR(-1, 1), 1, 0x401000, 0, 0, 0, 99);
	WORDS(b, 0, 4096, UINT64_MAX, 77, 0, PAIR(-1, 2), 0, 0, 0, 0, 0, 0);
	put_buffer(b, make_counts);
	WORDS(b, PAIR(-1, 3), 0, 0, 0, 0x401000, 0x1000, 0x400000, 0x10000);
	WORDS(b, PAIR(8, 0), 1, 0x1000, UINT64_MAX);
	put_buffer(b, make_counts);
	WORDS(b, PAIR(-1, 2), 0, 0, 0, 0x401000, 0x1000, 0x402000, 0x2000);
	WORDS(b, PAIR(8, 0), 1, 0x1000, UINT64_MAX);
	WORDS(b, PAIR(1, 1), 0, 0, 1); /* was not read */
	put_bytes(b, "b\0\0\0\0\0\0", 8);
	put_size_and_checksum(b);
}

/*
 * Calls without other counts: main calls f twice, and f calls itself once; then calls of g in f
 * were folded. Instructions: main 10, f 4 and 2, what was folded 3.
 */
static void make_saved_calls(struct buffer *b)
{
	put_bytes(b, "PTAHCNTS", 8);
	WORDS(b, PAIR(3, 0), 0, 0, 1);
	WORDS(b, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);
	/* functions, paths, pairs, folded paths; what ran outside of calls */
	WORDS(b, 4, 4, 1, 2, 1, 0, 0);
	/* address; space and flags, histograms; partial; least, greatest, buckets */
	WORDS(b, 0, 0, 0);
	WORDS(b, 0x1000, 0, 1);
	WORDS(b, 0x2000, 0, 0);
	WORDS(b, 0x3000, PAIR(0, 1), 0, 1, 3, 0x010001);
	/* caller and function; flags; count; inclusive figures */
	WORDS(b, PAIR(0, 1), 1 << 6, 0, 19, 0, 0);
	WORDS(b, PAIR(1, 2), 1, 2, 9, 0, 0);
	WORDS(b, PAIR(2, 2), 1, 1, 2, 0, 0);
	WORDS(b, PAIR(2, 0), 1 << 15 | 1, 2, 3, 0, 0);
	/* caller and callee; count; inclusive, self */
	WORDS(b, PAIR(2, 3), 2, 3, 0, 0, 3, 0, 0);
	put_size_and_checksum(b);
}

static void make_no_counts(struct buffer *b)
{
	put_bytes(b, "PTAHCNTS", 8);
	WORDS(b, PAIR(2, 0), 0, 0, 0);
	put_size_and_checksum(b);
}

static const struct seed seeds[] = {
    {"counts/two-processes", make_counts}, {"counts/none", make_no_counts},
    {"counts/calls", make_saved_calls},	   {"cover/reached", make_reached},
    {"cover/sets", make_reached_sets},	   {"shard/part", make_shard},
};

const struct seeds seeds_of_saved = {seeds, sizeof(seeds) / sizeof(*seeds)};
