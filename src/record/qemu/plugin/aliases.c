/* SPDX-License-Identifier: MIT */
/*
 * Memory that is mapped twice, to be written at one address and to be executed at another, as JIT
 * compilers do whose pages are never both (.NET). QEMU translates again what changes by a store to
 * the page that has been translated, and does not know of the other address: the program may run
 * code that is not there any more. That is QEMU's fault and cannot be repaired here, but said.
 *
 * Only mmap's files are compared, among them those of memfd_create(): mappings that mremap() or
 * shmat() has doubled are not noticed.
 */
#include "record/qemu/plugin/plugin.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A mapping of a file that is shared, or can be executed. */
struct alias {
	uint64_t start, end, offset;
	dev_t device;
	ino_t inode;
	uint32_t prot; /* PROT_WRITE: it writes to the file */
	uint32_t flags;
};

/* All of these are protected by plugin_code_lock(). */
static struct alias *aliases;
static size_t alias_count, alias_capacity;
static bool noted;

static uint32_t effective_prot(uint32_t prot, uint32_t flags)
{
	return flags & MAP_SHARED ? prot : prot & ~(uint32_t)PROT_WRITE;
}

static bool is_same_file_range(const struct alias *a, const struct alias *b)
{
	return a->device == b->device && a->inode == b->inode &&
	       a->offset < b->offset + (b->end - b->start) &&
	       b->offset < a->offset + (a->end - a->start);
}

static void compare_alias(const struct alias *a)
{
	for (size_t i = 0; i < alias_count && !noted; i++) {
		const struct alias *b = &aliases[i];

		if (a == b || !is_same_file_range(a, b) ||
		    !((a->prot & PROT_WRITE && b->prot & PROT_EXEC) ||
		      (a->prot & PROT_EXEC && b->prot & PROT_WRITE)))
			continue;
		noted = true;
		plugin_note("the program writes its code through a second mapping of the same "
			    "memory, which QEMU does not notice: it may have run old code; the "
			    "recorder native runs it rightly");
	}
}

void plugin_add_alias(const struct shared_mapping *m)
{
	struct alias fresh = {.start = m->address,
			      .end = m->address + m->size,
			      .offset = m->file_offset,
			      .prot = effective_prot(m->prot, m->flags),
			      .flags = m->flags};
	struct stat st;

	if (noted || fstat(m->fd, &st))
		return;
	fresh.device = st.st_dev;
	fresh.inode = st.st_ino;
	if (alias_count == alias_capacity) {
		const size_t capacity = alias_capacity ? 2 * alias_capacity : 64;
		struct alias *more = realloc(aliases, capacity * sizeof(*more));

		if (!more)
			return;
		aliases = more;
		alias_capacity = capacity;
	}
	aliases[alias_count++] = fresh;
	compare_alias(&aliases[alias_count - 1]);
}

void plugin_protect_alias(const struct shared_mapping *m)
{
	for (size_t i = 0; i < alias_count && !noted; i++) {
		struct alias *a = &aliases[i];

		if (a->start >= m->address + m->size || m->address >= a->end)
			continue;
		a->prot |= effective_prot(m->prot, a->flags);
		compare_alias(a);
	}
}

void plugin_drop_alias(uint64_t address, uint64_t end)
{
	for (size_t i = 0; i < alias_count;) {
		struct alias *a = &aliases[i];

		if (a->start >= end || address >= a->end) {
			i++;
		} else if (a->start < address) { /* what may be left behind it is forgotten */
			a->end = address;
			i++;
		} else if (end < a->end) {
			a->offset += end - a->start;
			a->start = end;
			i++;
		} else {
			*a = aliases[--alias_count];
		}
	}
}
