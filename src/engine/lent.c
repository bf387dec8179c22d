/* SPDX-License-Identifier: MIT */
/*
 * Buffers in memory that the caller has allocated, for systems in which the buffers belong to
 * another part of the kernel. The blocks are checked, and divided into the buffer's regions. They
 * are never freed or cleared. Nothing here allocates: a capture of a pool gets its memory in an
 * NMI.
 */
#include "engine/internal.h"

static int refuse_block(struct ptah_trace_problem *problem, const char *reason, uint64_t value,
			uint64_t valid)
{
	return buffer_refuse(problem, "memory", reason, PTAH_PROBLEM_MASK, value, valid);
}

static int check_block(const struct ptah_hal_memory *block, unsigned physical_bits,
		       struct ptah_trace_problem *problem)
{
	uint64_t limit = UINT64_C(1) << (physical_bits < 63 ? physical_bits : 63);
	uint64_t pages = ~(uint64_t)(TOPA_PAGE - 1);

	if (!block->address)
		return refuse_block(problem, "a block without an address", 0, pages);
	if (!block->size || block->size & ~pages)
		return refuse_block(problem, "the size of a block is a multiple of 4096",
				    block->size, pages);
	if (block->physical & ~pages)
		return refuse_block(problem, "a block begins at a multiple of 4096",
				    block->physical, pages);
	if (block->physical >= limit || block->size > limit - block->physical)
		return refuse_block(problem, "the processor cannot address the whole block",
				    block->physical, (limit - 1) & pages);
	return PTAH_OK;
}

int lent_check(const struct ptah_hal_memory *memory, size_t n, unsigned physical_bits,
	       uint64_t *size, struct ptah_trace_problem *problem)
{
	int status = PTAH_OK;
	size_t i;

	*size = 0;
	if (!memory || !n || n > TOPA_MAX_REGIONS)
		return buffer_refuse(problem, "memories", "1 to 1048576 blocks, and where they are",
				     PTAH_PROBLEM_MAX, n, TOPA_MAX_REGIONS);
	for (i = 0; i < n && status == PTAH_OK; i++) {
		status = check_block(&memory[i], physical_bits, problem);
		if (status == PTAH_OK && memory[i].size > UINT64_MAX - *size)
			status = refuse_block(problem, "more than the processor can address",
					      memory[i].size, UINT64_MAX - *size);
		else
			*size += memory[i].size;
	}
	return status;
}

uint64_t lent_region(const struct ptah_hal_memory *memory, size_t n, uint64_t region)
{
	uint64_t all = 0;
	size_t i;

	for (i = 0; i < n; i++)
		all |= memory[i].physical | memory[i].size;
	while (region > TOPA_PAGE && all & (region - 1))
		region /= 2;
	return region;
}

/* Lets the block at `at` sink in a heap with the largest physical address on top. */
static void sink(struct ptah_hal_memory *heap, size_t n, size_t at)
{
	struct ptah_hal_memory block = heap[at];
	size_t child;

	while ((child = 2 * at + 1) < n) {
		if (child + 1 < n && heap[child].physical < heap[child + 1].physical)
			child++;
		if (heap[child].physical <= block.physical)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = block;
}

static void sort_blocks(struct ptah_hal_memory *blocks, size_t n)
{
	struct ptah_hal_memory last;
	size_t i;

	for (i = n / 2; i; i--)
		sink(blocks, n, i - 1);
	for (i = n; i > 1; i--) {
		last = blocks[i - 1];
		blocks[i - 1] = blocks[0];
		blocks[0] = last;
		sink(blocks, i - 1, 0);
	}
}

/* `room` is for n blocks, and overwritten. */
static int check_overlaps(struct ptah_hal_memory *room, const struct ptah_hal_memory *memory,
			  size_t n, struct ptah_trace_problem *problem)
{
	size_t i;

	memcpy(room, memory, n * sizeof(*room));
	sort_blocks(room, n);
	for (i = 1; i < n; i++) {
		if (room[i].physical - room[i - 1].physical < room[i - 1].size)
			return refuse_block(problem, "two blocks overlap", room[i].physical, 0);
	}
	return PTAH_OK;
}

int lent_place(struct topa *t, int cpu, const struct ptah_hal_memory *memory, size_t n,
	       struct ptah_trace_problem *problem)
{
	struct ptah_hal_memory *blocks = (struct ptah_hal_memory *)(uintptr_t)t->blocks;
	uint64_t at = 0, bytes;
	size_t i = 0;
	uint32_t q;
	int status;

	if (n > t->regions)
		return buffer_refuse(problem, "memories", "more blocks than regions",
				     PTAH_PROBLEM_MAX, n, t->regions);
	status = check_overlaps(blocks, memory, n, problem);
	for (q = 0; q < t->regions && status == PTAH_OK; q++, at += bytes) {
		bytes = topa_bytes(t, q);
		if (i < n && at == memory[i].size) {
			i++;
			at = 0;
		}
		if (i == n || memory[i].size - at < bytes)
			status = refuse_block(problem, "a block ends inside a region",
					      i < n ? memory[i].size : 0, ~(bytes - 1));
		else if ((memory[i].physical + at) & (bytes - 1))
			status = refuse_block(problem, "a region is not aligned to its size",
					      memory[i].physical + at, ~(bytes - 1));
		else
			blocks[q] = (struct ptah_hal_memory){
			    .address = (uint8_t *)memory[i].address + at,
			    .physical = memory[i].physical + at,
			    .size = (size_t)bytes,
			    .cpu = cpu,
			    .purpose = PTAH_MEMORY_REGION,
			};
	}
	t->nblocks = status == PTAH_OK ? t->regions : 0;
	return status;
}
