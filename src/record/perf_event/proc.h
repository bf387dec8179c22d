/* SPDX-License-Identifier: MIT */
/*
 * What was there before the recording began, told in the kernel's own records:
 * processes, their threads, names and executable mappings, and the kernel's
 * code. From the files of /proc: proc(5).
 */
#ifndef PTAH_RECORD_PERF_EVENT_PROC_H
#define PTAH_RECORD_PERF_EVENT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_teller {
	const char *root; /* what stands before /proc and /lib/modules; "": nothing */
	uint64_t id;	  /* of the event that the records are told for */
	bool build_ids;	  /* mappings tell their file's build id, where it is that file still */
	/* Is given each record, in order. Negative: the end. */
	int (*take)(void *context, const uint8_t *record, size_t size);
	void *context;
};

/*
 * A process's mappings, and each of its threads (tid 0) or that thread alone
 * with its name and parent. The records' time is 0: before everything.
 * PTAH_E_MISSING when there is no such process, or it ended meanwhile;
 * PTAH_E_SYSTEM when its mappings may not be read (errno says why).
 */
int proc_tell(const struct proc_teller *teller, int32_t pid, int32_t tid);

/* Every process that this user may look at. */
int proc_tell_all(const struct proc_teller *teller);

/*
 * The kernel's code and its modules. PTAH_E_MISSING when their addresses are
 * not told to this user (kernel.kptr_restrict).
 */
int proc_tell_kernel(const struct proc_teller *teller);

/* The process a thread belongs to; 0: there is no such thread. */
int32_t proc_process_of(const char *root, int32_t tid);

/* The threads of a process, the caller's to free; their number, 0 when there is none. */
size_t proc_threads(const char *root, int32_t pid, int32_t **tids);

/* The processors that are online, likewise. */
size_t proc_cpus(const char *root, int32_t **cpus);

/* The address of a symbol in /proc/kallsyms; 0: none, or hidden. */
uint64_t proc_symbol(const char *root, const char *name);

/* The modules in /proc/modules, one after another. False: no more. */
struct proc_module {
	char name[64];
	uint64_t address, size;
};

bool proc_next_module(void *stream, struct proc_module *module);

#endif
