/* SPDX-License-Identifier: MIT */
/* The sizes of the instructions of blocks, out of the files that ran. */
#ifndef PTAH_OUTPUT_BLOCK_CODE_H
#define PTAH_OUTPUT_BLOCK_CODE_H

#include "output/hotspots.h"

/* A block has at most so many instructions, of 15 bytes; only damaged files of counts have others,
 * whose sizes are not known. */
#define BLOCK_CODE_INSNS   255
#define BLOCK_CODE_LONGEST (BLOCK_CODE_INSNS * 15)

/* The file of the last block. Blocks that are sorted by place are read in large pieces. */
struct block_code {
	const char *path; /* as recorded; NULL: none yet */
	int fd;		  /* -1: it cannot be read */
	uint64_t at;	  /* of bytes[0] in the file */
	size_t size;
	uint8_t bytes[16 * BLOCK_CODE_LONGEST];
};

/*
 * 1: sizes[] of a row of hotspots_blocks() and the mapping that has it are known. 0: they are not;
 * it is in no file, or the bytes are not those that ran. `code` begins as {0}.
 */
int block_code_sizes(struct block_code *code, struct names *names, const struct hotspot *block,
		     uint8_t *sizes, struct ptah_map *map);

/*
 * How many of the block's instructions lie below `end`, an address in it. 0: that is not known, or
 * one of them lies across it.
 */
int block_code_below(struct block_code *code, struct names *names, const struct hotspot *block,
		     uint64_t end);
void block_code_close(struct block_code *code);

#endif
