/* SPDX-License-Identifier: MIT */
/*
 * Which task a guest's Linux runs, from the guest's memory: the kernel's per-CPU pointer to the
 * current task, and the task's pid, tgid and comm at the offsets that the kernel's own type
 * information has (BTF). The guest is not asked and not changed.
 *
 * Everything that is read is the guest's and may be nonsense: each address is translated by the
 * guest's page tables, each read can fail, and nothing of it is used but as a number or a name.
 */
#ifndef PTAH_RECORD_SYSTEM_LINUX_TASKS_H
#define PTAH_RECORD_SYSTEM_LINUX_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINUX_COMM 16

struct linux_tasks_config {
	/* Reads n bytes of the guest's physical memory. False where there is none. */
	bool (*read)(void *port, uint64_t physical, void *to, size_t n);
	/*
	 * The link address of a symbol, as /proc/kallsyms shows it with nokaslr and System.map has
	 * it; for per-CPU symbols the offset. 0: there is none.
	 */
	uint64_t (*symbol)(void *port, const char *name);
	void *port;
	uint64_t slide; /* the kernel runs so many bytes behind its link address (KASLR) */
};

struct linux_task {
	int32_t pid, tid; /* of the process, of the thread; both 0: the idle task */
	char comm[LINUX_COMM];
};

/* What a processor looked like when it was last asked about. All 0 before. */
struct linux_processor {
	uint64_t cr3, gs_base;
	uint64_t slot; /* physical address of its pointer to the current task */
	uint64_t task;
	bool known;
};

struct linux_tasks;

/*
 * Finds the offsets, with the page tables of `cr3`; the kernel must have its memory mapped, as in
 * and after the first program in user mode. `la57`: 5-level paging. PTAH_E_MISSING when a symbol or
 * a struct's member is missing, PTAH_E_NO_CODE when the memory is not mapped; *what then says what.
 */
int linux_tasks_new(const struct linux_tasks_config *config, uint64_t cr3, bool la57,
		    struct linux_tasks **tasks, const char **what);
void linux_tasks_free(struct linux_tasks *tasks);

/*
 * The task of the processor whose kernel GS base is `gs_base`. CR3 may be that of user mode under
 * page-table isolation. Returns 1 when *task was read, 0 when it is the one of the last call with
 * the same *processor, CR3 included (so after an execve it is read again, with the new name),
 * PTAH_E_NO_CODE when an address is not mapped.
 */
int linux_tasks_current(struct linux_tasks *tasks, struct linux_processor *processor, uint64_t cr3,
			uint64_t gs_base, struct linux_task *task);

#endif
