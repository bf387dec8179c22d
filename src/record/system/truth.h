/* SPDX-License-Identifier: MIT */
/*
 * Counts what a trace of this processor should contain, without its packets: tests compare a
 * decode with it. A guest reads it, and has it written to the file of the plugin's argument
 * truth=FILE, by the registers below, which no processor has (docs/virtual-pt.md).
 */
#ifndef PTAH_RECORD_SYSTEM_TRUTH_H
#define PTAH_RECORD_SYSTEM_TRUTH_H

#include "record/system/registers.h"

#define SYSTEM_MSR_REPORT                                                                          \
	0x50740000u /* write: a tag. Reports all processors, resets the counts                     \
		     */

struct system_truth {
	uint64_t insns[2]; /* of the kernel and of user code */
	uint64_t events;
	uint64_t pmis;
	uint64_t lost; /* places where the plugin did not understand how control came there */
};

/* Opens the file to append to; NULL: standard error. */
bool system_truth_open(const char *path);

/* The n instructions in [start, end) have run. */
void system_truth_count(struct system_truth *t, const struct ptah_model *m, uint64_t start,
			uint64_t end, unsigned n);
/* The last of them was of this kind. */
void system_truth_branch(struct system_truth *t, const struct ptah_model *m, unsigned kind,
			 bool taken);
/* An interrupt or exception: enum ptah_model_transfer_kind. */
void system_truth_event(struct system_truth *t, const struct ptah_model *m, unsigned kind);

enum system_access system_truth_rdmsr(struct system_truth *t, struct ptah_model *m, uint32_t msr,
				      uint64_t *value);
enum system_access system_truth_wrmsr(void *cpu, uint32_t msr, uint64_t value);

#endif
