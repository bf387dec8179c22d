/* SPDX-License-Identifier: MIT */
/* Reads the instructions of blocks out of the files that ran (block_code.h). */
#include "output/block_code.h"

#include "output/disasm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void block_code_close(struct block_code *c)
{
	if (c->path && c->fd >= 0)
		close(c->fd);
	c->path = NULL;
}

static int open_code(struct block_code *c, const struct names *names, const char *path)
{
	char *local;

	if (c->path && !strcmp(c->path, path))
		return 0;
	block_code_close(c);
	c->path = path;
	c->fd = -1;
	c->size = 0;
	local = names_local_path(names, path);
	if (!local)
		return PTAH_E_NOMEM;
	c->fd = open(local, O_RDONLY | O_CLOEXEC);
	free(local);
	return 0;
}

/* `n` bytes of the file; NULL: it does not have them. */
static const uint8_t *code_at(struct block_code *c, uint64_t at, size_t n)
{
	ssize_t k;

	if (c->fd < 0 || at > INT64_MAX - sizeof(c->bytes))
		return NULL;
	if (at - c->at >= c->size || c->size - (at - c->at) < n) {
		c->at = at;
		c->size = 0;
		while (c->size < sizeof(c->bytes) &&
		       (k = pread(c->fd, c->bytes + c->size, sizeof(c->bytes) - c->size,
				  (off_t)(at + c->size))) > 0)
			c->size += (size_t)k;
	}
	return c->size - (at - c->at) >= n ? c->bytes + (at - c->at) : NULL;
}

/* The sizes of a block's instructions. False: the bytes are not those that ran. */
static bool list_sizes(const struct hotspot *block, const uint8_t *bytes, uint8_t *sizes)
{
	uint32_t at = 0, n = 0;

	for (; n < block->ninsn && at < block->size; at += sizes[n++]) {
		sizes[n] = (uint8_t)disasm_size(block->mode, bytes + at, block->size - at);
		if (!sizes[n])
			return false;
	}
	return n == block->ninsn && at == block->size;
}

int block_code_sizes(struct block_code *c, struct names *names, const struct hotspot *block,
		     uint8_t *sizes, struct ptah_map *map)
{
	const uint8_t *bytes;
	bool changed;
	int status;

	/* If code was rewritten, a block may have had several numbers of instructions. */
	if (block->ninsn > BLOCK_CODE_INSNS || block->size > BLOCK_CODE_LONGEST ||
	    block->instructions != block->executions * block->ninsn)
		return 0;
	if (!names_find_place(names, block->pid, block->ip, ptah_version_time(block->version), map,
			      &changed) ||
	    changed || !ptah_path_is_file(map->path))
		return 0;
	status = open_code(c, names, map->path);
	bytes = status < 0 ? NULL
			   : code_at(c, map->file_offset + (block->ip - map->address), block->size);
	return status < 0 ? status : bytes && list_sizes(block, bytes, sizes);
}

int block_code_below(struct block_code *c, struct names *names, const struct hotspot *block,
		     uint64_t end)
{
	uint8_t sizes[BLOCK_CODE_INSNS];
	struct ptah_map map;
	int status = block_code_sizes(c, names, block, sizes, &map), n = 0;
	uint64_t at = block->ip;

	if (status <= 0)
		return status;
	while (at < end)
		at += sizes[n++];
	return at == end ? n : 0;
}
