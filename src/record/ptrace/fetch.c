/* SPDX-License-Identifier: MIT */
/*
 * Reads the instructions that a process is about to run, caches them, and has process_maps.c put
 * those into the recording that it lacks.
 */
#include "base/hash.h"
#include "record/ptrace/tracer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSNS	16384
#define RUN_MAX 4096

/* A cached instruction, with the bytes that it had when it was read. */
struct cached {
	/* Bytes from its beginning to the end of the next branch; 0: the entry is unused. */
	uint16_t run;
	struct insn insn;
};

/* Memory */

static int memory_of(struct process *p)
{
	char path[64];

	if (p->memory < 0) {
		snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
		p->memory = open(path, O_RDONLY | O_CLOEXEC);
	}
	return p->memory;
}

/* Reads as many of the n bytes as can be read. Returns their number. */
static size_t read_some(struct process *p, uint64_t address, void *bytes, size_t n)
{
	ssize_t got = pread(memory_of(p), bytes, n, (off_t)address);

	return got > 0 ? (size_t)got : 0;
}

bool fetch_bytes(struct process *p, uint64_t address, void *bytes, size_t n)
{
	return read_some(p, address, bytes, n) == n;
}

/* Instructions */

static const uint8_t *behind_prefixes(const struct insn *insn)
{
	const uint8_t *byte = insn->bytes;

	while (byte < insn->bytes + insn->size - 1 &&
	       (*byte == 0x66 || *byte == 0x67 || *byte == 0xf2 || *byte == 0xf3 || *byte == 0x2e ||
		*byte == 0x36 || *byte == 0x3e || *byte == 0x26 || *byte == 0x64 || *byte == 0x65 ||
		(*byte & 0xf0) == 0x40))
		byte++;
	return byte;
}

static bool decode(struct insn *insn, uint64_t ip, const uint8_t *bytes, size_t n)
{
	struct x86_insn x;
	const uint8_t *op;

	if (x86_decode(bytes, n, ip, PTAH_EXEC_64, &x) < 0)
		return false;
	*insn = (struct insn){.ip = ip, .end = ip + x.size, .size = x.size};
	memcpy(insn->bytes, bytes, x.size);
	insn->kind = (uint8_t)insn_kind(&x, bytes, insn->end);
	insn->target = x.target;
	op = behind_prefixes(insn);
	insn->interrupt = insn->kind == KIND_KERNEL && insn_is_interrupt(bytes);
	insn->syscall =
	    insn->kind == KIND_KERNEL && (!insn->interrupt || (op[0] == 0xcd && op[1] == 0x80));
	insn->icebp = insn->interrupt && op[0] == 0xf1;
	insn->pushf = insn->kind == PTAH_INSN_OTHER && op[0] == 0x9c;
	insn->sets_flags = (insn->kind == PTAH_INSN_OTHER && op[0] == 0x9d) ||
			   (insn->kind == PTAH_INSN_FAR_RETURN && op[0] == 0xcf);
	insn->covers = insn->kind == PTAH_INSN_OTHER && op[0] == 0x8e && (op[1] >> 3 & 7) == 2;
	return true;
}

static struct cached *place_of(const struct process *p, uint64_t ip)
{
	return &p->cache[(hash_number(ip) >> 32) % INSNS];
}

/*
 * Reads the instructions from ip to the first branch and accounts for all of them at once: a
 * decoder decodes such a run as a whole, so that no part of it may be out of date.
 */
static bool read_run(struct process *p, uint64_t ip, struct insn *insn)
{
	uint8_t bytes[RUN_MAX];
	size_t n = read_some(p, ip, bytes, sizeof(bytes)), size = 0, done = 0;
	struct insn one = {.kind = PTAH_INSN_OTHER};

	while (one.kind == PTAH_INSN_OTHER && decode(&one, ip + size, bytes + size, n - size)) {
		if (!size)
			*insn = one;
		size += one.size;
	}
	for (; done < size; done += one.size) {
		struct cached *c = place_of(p, ip + done);

		decode(&one, ip + done, bytes + done, n - done);
		*c = (struct cached){.run = (uint16_t)(size - done), .insn = one};
	}
	if (size)
		maps_account_for(p, ip, bytes, size);
	return size > 0;
}

/*
 * Whether the bytes at ip are still those of the cache entry: with `begins` of the whole run, else
 * of one instruction.
 */
static bool is_current(struct process *p, const struct cached *c, uint64_t ip, bool begins)
{
	uint8_t bytes[RUN_MAX];
	struct code_difference now;

	if (!c->run || c->insn.ip != ip ||
	    !fetch_bytes(p, ip, bytes, begins ? c->run : c->insn.size))
		return false;
	if (memcmp(bytes, c->insn.bytes, c->insn.size) != 0)
		return false;
	if (!begins)
		return true;
	now = code_shadow_compare(&p->shadow, ip, bytes, c->run, maps_find(p, ip));
	return !now.changed && !now.fresh;
}

bool fetch_insn(struct process *p, uint64_t ip, bool begins, struct insn *insn)
{
	const struct cached *c;

	if (p->stale && maps_refresh(p) && p->cache)
		memset(p->cache, 0, INSNS * sizeof(*p->cache));
	if (!p->cache)
		p->cache = calloc(INSNS, sizeof(*p->cache));
	if (!p->cache)
		return false;
	c = place_of(p, ip);
	if (!is_current(p, c, ip, begins))
		return read_run(p, ip, insn);
	*insn = c->insn;
	return true;
}

void fetch_forget(struct process *p)
{
	free(p->cache);
	p->cache = NULL;
	if (p->memory >= 0)
		close(p->memory);
	p->memory = -1;
}
