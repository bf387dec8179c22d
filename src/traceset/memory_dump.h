/* SPDX-License-Identifier: MIT */
/*
 * A dump of a machine's physical memory: an ELF core file as kdump and QEMU's dump-guest-memory
 * write it. Everything in it is a stranger's: sizes and addresses are checked against the file.
 */
#ifndef PTAH_TRACESET_MEMORY_DUMP_H
#define PTAH_TRACESET_MEMORY_DUMP_H

#include <ptah/session.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dump_segment {
	uint64_t physical, size; /* of the memory */
	uint64_t offset;	 /* in the file */
};

#define DUMP_CPUS 64 /* processors whose CR3 is kept */

struct memory_dump {
	const char *path;
	int fd;
	uint64_t bytes;		       /* of the file */
	struct dump_segment *segments; /* by physical address; they do not overlap */
	size_t count;
	uint64_t notes;	     /* bytes of notes that were read */
	uint64_t note;	     /* the address that vmcoreinfo gives for the engine's note; 0: none */
	uint64_t kernel_cr3; /* where the kernel's page tables begin; 0: not known */
	uint64_t cr3[DUMP_CPUS]; /* of QEMU's notes, without repetitions */
	size_t cr3_count;
	bool five_levels; /* paging has five levels */
};

bool dump_is(const char *path);
int dump_open(struct memory_dump *dump, const char *path, struct ptah_message *why);
void dump_close(struct memory_dump *dump);

/* How many of the n bytes at a physical address lie together in the file, and where; 0: none. */
uint64_t dump_find(const struct memory_dump *dump, uint64_t physical, uint64_t n, uint64_t *offset);

/* How many of the n bytes at an address that the dump does not have are missing together. */
uint64_t dump_missing(const struct memory_dump *dump, uint64_t physical, uint64_t n);

/* The address, or that behind a hole of the file there: it takes no room, however large it is. */
uint64_t dump_next(const struct memory_dump *dump, const struct dump_segment *s, uint64_t physical);

/* False: the dump does not have all of these bytes. */
bool dump_read(const struct memory_dump *dump, uint64_t physical, void *bytes, size_t n);

/* Executable memory of an address space: `size` bytes at `address`, in the file at `offset`. */
struct dump_code {
	uint64_t address, size, offset;
};

/*
 * Walks the page tables at `cr3` and calls `use` for what is executable and in the dump, ordered by
 * address and in pieces as large as possible: the upper half of the addresses or the lower one.
 * *steps limits the work of all walks together, because tables that lead to themselves never end:
 * 0 afterwards if code may be missing. Returns what `use` returns if that is negative, or 0.
 */
int dump_walk(const struct memory_dump *dump, uint64_t cr3, bool upper, size_t *steps,
	      int (*use)(void *argument, const struct dump_code *code), void *argument);

#endif
