/* SPDX-License-Identifier: MIT */
/*
 * Describes each block that QEMU translates: its instructions, how it ends, and flags for what is
 * special about it. Also keeps the addresses of the program's signal handlers, because a block at
 * which a handler begins has such a flag.
 *
 * The lock: QEMU calls plugin_block() with its translation lock held. Signal handlers and mappings
 * are reported during system calls, when that lock is not held, so this file has a lock of its own.
 */
#include "base/hash.h"
#include "record/qemu/plugin/plugin.h"
#include "record/simulated/insn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE		UINT64_C(4096)
#define BUCKETS		65536
#define MAX_HANDLERS	256
#define VSYSCALL_PAGE	UINT64_C(0xffffffffff600000)
#define MAX_BLOCK_BYTES 8192

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks[BUCKETS];
static uint64_t handlers[MAX_HANDLERS], restorers[MAX_HANDLERS];
static size_t handler_count, restorer_count;
static bool named_unknown;

static size_t bucket(uint64_t key)
{
	return (size_t)(hash_number(key) >> 48) % BUCKETS;
}

/* The lock */

void plugin_code_lock(void)
{
	pthread_mutex_lock(&lock);
}

void plugin_code_unlock(bool in_child)
{
	if (in_child)
		pthread_mutex_init(&lock, NULL);
	else
		pthread_mutex_unlock(&lock);
}

/* Signal handlers */

static bool contains(const uint64_t *list, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == value)
			return true;
	return false;
}

void plugin_add_handler(uint64_t address, uint64_t restorer)
{
	pthread_mutex_lock(&lock);
	if (!contains(handlers, handler_count, address) && handler_count < MAX_HANDLERS) {
		handlers[handler_count++] = address;
		for (struct block *b = blocks[bucket(address)]; b; b = b->next)
			if (b->start == address)
				b->slow |= BLOCK_HANDLER;
	}
	if (!contains(restorers, restorer_count, restorer) && restorer_count < MAX_HANDLERS)
		restorers[restorer_count++] = restorer;
	pthread_mutex_unlock(&lock);
}

bool plugin_is_handler(uint64_t address)
{
	return contains(handlers, handler_count, address);
}

bool plugin_is_restorer(uint64_t address)
{
	return contains(restorers, restorer_count, address);
}

/* Blocks */

/*
 * QEMU carries out more than there is: forms of instructions that the architecture has not defined,
 * or not yet. The first one is named.
 */
static void note_unknown(uint64_t ip, const uint8_t *bytes, size_t n)
{
	char name[X86_NAME_MAX], text[sizeof(INSN_NOTE_UNKNOWN) + X86_NAME_MAX];

	if (named_unknown)
		return;
	named_unknown = true;
	x86_name(name, bytes, n, ip);
	snprintf(text, sizeof(text), INSN_NOTE_UNKNOWN, name);
	plugin_note(text);
}

/*
 * Reads the block's instructions. The last one may be cut: QEMU undoes an instruction that crosses
 * a page and begins the next block with it, and it stops at bytes that it cannot execute. A prefix
 * of an instruction does not decode, so it is left out.
 */
static void read_block_insns(struct block *b, const struct qemu_plugin_tb *tb, uint8_t *bytes)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint8_t buffer[X86_MAX_SIZE];
	struct x86_insn insn;

	for (size_t i = 0; i < count && b->end - b->start < MAX_BLOCK_BYTES - X86_MAX_SIZE; i++) {
		size_t n = X86_MAX_SIZE;
		const uint8_t *p = qemu_api_insn_bytes(qemu_plugin_tb_get_insn(tb, i), buffer, &n);

		if (x86_decode(p, n, b->end, PTAH_EXEC_64, &insn) < 0) {
			if (i + 1 < count) /* it did not raise #UD */
				note_unknown(b->end, p, n);
			break;
		}
		memcpy(bytes + (b->end - b->start), p, insn.size);
		b->end += insn.size;
		b->sizes[b->ninsn++] = insn.size;
		b->last_size = insn.size;
		b->kind = (uint8_t)insn_kind(&insn, p, b->end);
		b->target = b->kind == KIND_REP ? b->end - insn.size : insn.target;
	}
}

/* The block's flags. last: bytes of its last instruction. */
static uint32_t flags_of(const struct block *b, const uint8_t *last, uint64_t change)
{
	uint32_t flags = 0;

	if (contains(handlers, handler_count, b->start))
		flags |= BLOCK_HANDLER;
	if (b->ninsn == 1 && b->kind == PTAH_INSN_OTHER && b->end % PAGE)
		flags |= BLOCK_STEP;
	if (change)
		flags |= BLOCK_CHANGED;
	if (b->kind == KIND_KERNEL && insn_is_interrupt(last))
		flags |= BLOCK_INT;
	if (b->kind == KIND_KERNEL || b->kind == PTAH_INSN_FAR_CALL ||
	    b->kind == PTAH_INSN_FAR_RETURN || b->kind == PTAH_INSN_FAR_JUMP)
		flags |= BLOCK_FAR;
	return flags;
}

static void find_guest_base(const struct qemu_plugin_tb *tb)
{
	const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);
	uint64_t host = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(insn);

	if (host)
		plugin.guest_base = host - qemu_plugin_insn_vaddr(insn);
}

struct block *plugin_block(const struct qemu_plugin_tb *tb)
{
	uint64_t start = qemu_plugin_tb_vaddr(tb);
	struct block *b = calloc(1, sizeof(*b) + qemu_plugin_tb_n_insns(tb));
	uint8_t bytes[MAX_BLOCK_BYTES];

	if (!b)
		return NULL;
	b->start = b->end = start;
	if ((start & ~(PAGE - 1)) == VSYSCALL_PAGE) {
		b->slow = BLOCK_VSYSCALL;
		return b;
	}
	pthread_mutex_lock(&lock);
	find_guest_base(tb);
	read_block_insns(b, tb, bytes);
	if (b->ninsn)
		b->change = plugin_account_for(start, bytes, (size_t)(b->end - start));
	b->slow = flags_of(b, bytes + (b->end - start) - b->last_size, b->change);
	b->next = blocks[bucket(start)];
	blocks[bucket(start)] = b;
	pthread_mutex_unlock(&lock);
	return b;
}
