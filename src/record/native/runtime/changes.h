/* SPDX-License-Identifier: MIT */
/*
 * Code that changes without a system call: memory that the program can write to and execute, and
 * memory that is mapped twice, once to write to and once to execute.
 *
 * Before code of such a page is translated, the runtime takes the right to write away from the
 * page in the kernel, everywhere where the program has mapped it, and sends its bytes to the
 * recorder if it has not got them. The program's store to the page faults then; the right is given
 * back, and the units of the page are forgotten. When the program executes the page again, all this
 * happens again.
 *
 * Where code and data are on one page, that would be a fault for each store: changes_is_mixed().
 *
 * What the program believes its rights to be is in a table of these pages. Everything else about
 * mappings is the recorder's list at the program's beginning with what the program has mapped since,
 * or, where that leaves something open, asked of the kernel, which lists them in /proc/self/maps.
 *
 * All threads of a process share this; it is protected by the cache's lock.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_CHANGES_H
#define PTAH_RECORD_NATIVE_RUNTIME_CHANGES_H

#include "record/native/runtime/runtime.h"

/* A program begins: what it has mapped is what the recorder says, if it does. */
void changes_begin(struct runtime *rt, const struct native_handover *h);

/*
 * Whether the program can execute this page. Its bytes are those that the recording has from then
 * on, or a fault comes first. For the translator, before it reads them, with the lock.
 */
bool changes_watch(struct context *c, uint64_t page);

/*
 * When a thread is about to enter the unit of this head: if code was sent to the recorder since the
 * last mark, puts a time into the thread's trace, so that a decoder has the old bytes up to here
 * and the new ones from here on.
 */
void changes_mark(struct context *c, uint64_t head);

/*
 * Whether the page has code and what the program writes to, beside each other: after some faults the
 * right to write stays. The recording has the bytes that it had when changes_watch() was called
 * last; units of such a page are compared with it whenever they are entered, by themselves or by C
 * code.
 */
bool changes_is_mixed(const struct context *c, uint64_t address);
/* Of such pages: whether [start, end) is what the recording has. */
bool changes_is_same(const struct context *c, uint64_t start, uint64_t end);

/* What the recording has of [start, end), if that is in one such page; NULL: it is not. */
const uint8_t *changes_bytes(const struct context *c, uint64_t start, uint64_t end);

/* Counts up with each piece of code that is sent. */
uint32_t changes_version(const struct context *c);

/*
 * Whether all threads have that version's time in their logs, or will mark their next head before
 * they enter the cache. Only then may a unit be entered in another way than by C code.
 */
bool changes_seen_by_all(const struct context *c, uint32_t version);

/*
 * The program's store to this address has faulted. True: the runtime had taken the right away, and
 * the store can be repeated. Also called in the kernel's signal handler.
 */
bool changes_give_back(struct context *c, uint64_t address);

/* Gives back everything. True: there was something. Who runs natively needs it. */
bool changes_give_back_all(struct context *c);

/*
 * Before a system call with these words (number, six arguments): gives back the pages into which
 * the kernel may write for it.
 */
void changes_before_call(struct context *c, const uint64_t *words);

/*
 * Around a call that maps, unmaps or protects [start, end), with the lock: the pages have the
 * rights that the program has given them, and nothing is remembered of them.
 */
void changes_before_mapping(struct context *c, uint64_t start, uint64_t end);
/* It is mapped with this protection (PROT_EXEC and others). shared: by MAP_SHARED. */
void changes_after_mapping(struct context *c, uint64_t start, uint64_t end, uint64_t protection,
			   bool shared);

/*
 * Code of files that the program itself writes to (written.c), by their inodes. What else has an
 * inode of that number is watched in vain. 0: all memory, whatever it is.
 */
/* The process may execute the file and write to it. */
void changes_file(struct context *c, uint64_t inode);
/* Something was written to it. */
void changes_written(struct context *c, uint64_t inode);
/*
 * Before a fork(): of two processes that have the files, each may write to them, and the other one is
 * not told. From then on units of their pages are compared, as those of changes_is_mixed().
 */
void changes_forked(struct context *c);
/* Whether there is such a file. Needs no lock: what is written next comes too early to matter. */
bool changes_has_files(const struct context *c);
/* Whether it is mapped as code, as far as the list says; with the lock. */
bool changes_executes(const struct context *c, uint64_t inode);

/* Why the program cannot be followed any more; NULL: it can. */
const char *changes_refusal(const struct context *c);

#endif
