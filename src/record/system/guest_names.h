/* SPDX-License-Identifier: MIT */
/*
 * What a recording from outside learns of the guest's Linux, when its symbols are known: how far
 * the kernel was moved, and whose an address space is.
 */
#ifndef PTAH_RECORD_SYSTEM_GUEST_NAMES_H
#define PTAH_RECORD_SYSTEM_GUEST_NAMES_H

#include "record/system/channel.h"
#include "record/system/linux_tasks.h"

struct guest_names {
	const uint64_t *symbols; /* as struct channel_setup has them */
	struct linux_tasks *tasks;
	struct linux_processor processor;
	uint64_t slide;
	bool placed; /* `slide` is known */
	bool failed; /* nothing more can be learnt */
};

/*
 * A system call led to `entry`. True: `slide` is known now. An interrupt may have come instead, but
 * a kernel is moved by multiples of its alignment alone.
 */
bool guest_names_place(struct guest_names *names, uint64_t entry);

/*
 * The processor has arrived in user mode. True: *task is another one than the last time, or may
 * have another name. What is missing: a line is printed, once.
 */
bool guest_names_task(struct guest_names *names, uint64_t cr3, uint64_t kernel_gs, bool la57,
		      struct linux_task *task);

#endif
