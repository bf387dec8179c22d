/* SPDX-License-Identifier: MIT */
/*
 * Writes what existed before the recording began as the kernel's own records: processes, their
 * threads, names and executable mappings, and the kernel's code. Read from /proc: proc(5).
 */
#ifndef PTAH_RECORD_PERF_EVENT_PROC_H
#define PTAH_RECORD_PERF_EVENT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_reporter {
	const char *root; /* prefix of /proc and /lib/modules; "" outside tests */
	uint64_t id;	  /* of the event that the records belong to */
	/* Mappings have their file's build id, if the path still leads to that file. */
	bool build_ids;
	/* Takes each record, in order. A negative result ends the call. */
	int (*take)(void *context, const uint8_t *record, size_t size);
	void *context;
};

/*
 * Writes a process's mappings and each of its threads (tid 0) or that thread alone, with name and
 * parent. The records' time is 0, before everything. PTAH_E_MISSING when there is no such process,
 * or it ended meanwhile; PTAH_E_SYSTEM when its mappings may not be read (errno says why).
 */
int proc_report(const struct proc_reporter *reporter, int32_t pid, int32_t tid);

/* The same for every process that this user may look at. */
int proc_report_all(const struct proc_reporter *reporter);

/* Where [vdso] is in this process. False: it has none. */
bool proc_own_vdso(const char *root, uint64_t *start, uint64_t *end);

/*
 * Writes the mappings of the kernel and its modules. PTAH_E_MISSING when this user may not see
 * their addresses (kernel.kptr_restrict).
 */
int proc_report_kernel(const struct proc_reporter *reporter);

/* The process a thread belongs to; 0: there is no such thread. */
int32_t proc_process_of(const char *root, int32_t tid);

/* The processors that are online; the caller frees *cpus. Returns their number. */
size_t proc_cpus(const char *root, int32_t **cpus);

/* Those that can ever be online on this machine until it is booted again. */
size_t proc_possible_cpus(const char *root, int32_t **cpus);

/* The address of a symbol in /proc/kallsyms; 0: it is not there, or hidden. */
uint64_t proc_symbol(const char *root, const char *name);

/* A line of /proc/PID/maps. */
struct proc_mapping {
	uint64_t start, end, offset, inode;
	uint32_t major, minor, prot, flags;
	const char *path; /* in the line */
};

/* Changes the line. False: it is none. */
bool proc_parse_mapping(char *line, struct proc_mapping *mapping);

/* The modules in /proc/modules, one after another. False: no more. */
struct proc_module {
	char name[64];
	uint64_t address, size;
};

bool proc_next_module(void *stream, struct proc_module *module);

#endif
